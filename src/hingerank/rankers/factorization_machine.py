"""Ranking FM: a factorization machine under a loss of pairs."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import PerRow, RowsLike
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.losses import make_loss
from hingerank.problem.factorization_machine import FactorizationMachine, machine_scores, parts_of
from hingerank.rankers.base import BaseRanker, UnweightedRanker, keep_account
from hingerank.rankers.measured import descend
from hingerank.rankers.problem_ranker import ProblemRanker
from hingerank.rankers.rank_parameter import RankParameter

SMOOTH_PAIRS = ("squared_hinge", "logistic", "modified_huber", "exponential", "squared")
MOST_ITERATIONS = 1000


class RankingFM(UnweightedRanker, ProblemRanker):
    """min over w, V of  ½‖w‖² + ½‖V‖² + C · sum over pairs (i preferred to j) of  loss(s_i - s_j),

    s(x) = <w, x> + sum over features f < g of <v_f, v_g> x_f x_g: a product term for every two features, with weights
    of rank K (Qiang, Liang & Yang 2013; the machine is Rendle's). That is RankSVM on all products of two features with
    d K numbers in place of d², and it never makes the products: O(n d K) for an evaluation. Not convex: L-BFGS from
    small random factors, and the certificate is that of a stationary point. Stores the rows twice. Scale the features,
    whose products would otherwise differ by the squares of their scales.

    Parameters
    ----------
    rank : K, numbers per feature
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    loss : of a pair: "squared_hinge", "logistic" (as in the paper), "modified_huber", "exponential" or "squared"
    tol : stop when ‖θ + C ∇loss‖ is at most tol times ‖θ‖ + ‖C ∇loss‖, θ all of w and V
    random_state : seed of the first factors
    scale, missing, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    coef_ : w
    factors_ : V, one row per feature
    interactions_ : weights of the products of two features, a matrix with zeros on its diagonal
    certificate_ : how stationary w and V are
    trace_, n_iter_, n_pairs_, C_, objective_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], [1, 0, 0, 1]  # by the sign of the product
    >>> RankingFM(rank=1, C=10.0).fit(X, y, qid=0).rank(X)[:2].tolist()
    [0, 3]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "coef_": Array("columns"), "factors_": Array("columns, rank"), "objective_": Number(finite=False),
    }  # fmt: skip
    _training_only = ("callback",)
    _scaled_type = np.float64
    rank = RankParameter()
    _order = BaseRanker.rank

    def __init__(
        self, rank=5, C=1.0, loss="squared_hinge", tol=1e-3, *, scale=None, missing="error", max_iter=None,
        max_seconds=None, random_state=0, callback=None,
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.loss = loss
        self.tol = tol
        self.scale = scale
        self.missing = missing
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.callback = callback

    def _problem(self, source):
        if self.loss not in SMOOTH_PAIRS:
            raise ValueError(f"loss of RankingFM must be one of {', '.join(SMOOTH_PAIRS)}, not {self.loss!r}")
        X = source.matrix("RankingFM").astype(np.float64, copy=False)  # products have twice the digits
        return FactorizationMachine(X, make_loss(self.loss), source.preferences, self.rank)

    def _how(self, problem, before):
        start = problem.start(np.random.default_rng(self.random_state))  # not `before`, whose factors may be 0
        return descend, {"w": start, **self._limits(MOST_ITERATIONS)}

    def _take(self, solution, source):
        self.coef_, self.factors_ = parts_of(solution.w, int(self.rank))
        if not (np.isfinite(solution.value) and np.isfinite(solution.w).all()):
            raise DataError(
                "scores overflow, because they contain products of features: rescale the features (scale=...)"
            )
        keep_account(self, solution)

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, Cs: Iterable[float] = (), *, group: PerRow = None
    ) -> list[Self]:
        """One fitted ranker for every C, in the order given, each from the same start.

        Parameters
        ----------
        X, y, qid, group : as in fit
        Cs : values of C
        """
        return self._fit_path(list(Cs), X, y, qid, None, group)

    @property
    def interactions_(self) -> np.ndarray:
        """<v_f, v_g> for every two features, 0 on the diagonal."""
        found = self.factors_ @ self.factors_.T
        np.fill_diagonal(found, 0.0)
        return np.asarray(found)

    def _scores(self, X):
        squares = X.multiply(X) if sp.issparse(X) else np.square(X, dtype=np.float64)
        return machine_scores(X, squares, self.coef_, self.factors_)

    def _body(self):
        """With κ(x, l) = (<x, l> + 1)²:  4<l, x> = κ(x, l) - κ(x, -l)  and  2<l, x>² + 2 = κ(x, l) + κ(x, -l)."""
        from hingerank.export.forms import KernelSum

        size = np.sqrt((self.factors_**2).sum(axis=1))
        up = np.vstack([self.coef_, self.factors_.T, np.diag(size)])
        even = 0.25 * np.repeat([0.0, 1.0, -1.0], [1, self.factors_.shape[1], len(size)])
        odd = np.where(np.arange(len(up)) == 0, 0.25, 0.0)
        rows = np.vstack([up, -up, np.zeros((1, len(size)))])
        weights = np.concatenate([even + odd, even - odd, [-2.0 * even.sum()]])
        return KernelSum("polynomial", 1.0, 2, 1.0, rows, weights)

    def _form_kind(self):
        return "mapped"
