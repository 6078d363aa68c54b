"""Rankers of low rank: of dual multipliers, a matrix for each query (Xu et al. 2019), and of products of features."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Facts, PerRow, RowsLike
from hingerank.data.checks import generator, one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.export.attributes import Array, Attribute, Ids
from hingerank.losses import LOSSES, make_loss, no_loss
from hingerank.metrics import evaluate
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem
from hingerank.problem.factorization_machine import FactorizationMachine, machine_scores, parts_of
from hingerank.problem.multipliers import FactorizedDual, FactorizedPrimal, RegularizedDual
from hingerank.problem.problem import RowsDesign
from hingerank.rankers.base import BaseRanker, LinearRanker, UnweightedRanker, keep_account
from hingerank.rankers.inputs import check_features
from hingerank.rankers.measured import descend
from hingerank.rankers.problem_ranker import HasMultipliers, MultiplierBlock, ProblemRanker, chosen_C, of_pairs
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.solvers.lbfgs import lbfgs
from hingerank.solvers.multipliers import (
    affordable,
    factor_descent,
    factor_newton,
    factor_steps,
    multiplier_steps,
    shrinkage,
)
from hingerank.solvers.run import Solution

SMOOTH_PAIRS = ("squared_hinge", "logistic", "modified_huber", "exponential", "squared")
MOST_ITERATIONS = 1000  # of RankingFM


@dataclass(eq=False, repr=False)
class FactorizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over V of  ½‖sum over pairs of <v_i, v_j>(x_i - x_j)‖² - sum over pairs of <v_i, v_j>,   0 ≤ v_ik ≤ √(C/K).

    The dual of the hinge RankSVM with its multipliers forced to rank K in every query. The box implies 0 ≤ a_ij ≤ C and
    is stricter, so the objective is never below the dual RankSVM's. Not convex: the result depends on the start.

    Parameters
    ----------
    rank : K, numbers per row
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    tol : stop when the projected gradient's norm is at most tol times that of the second sum alone
    max_iter : epochs, each one projected gradient step for every query, in random order
        Steps adapt: one that would raise the objective is halved, so it never diverges. If they are not enough, as for
        a large C, up to max_iter Gauss-Newton steps over all queries follow (with up to 400 features).
    n_starts : number of random starts; the one with the lowest objective is kept
    form : "dual", as above, or "primal"
        The latter is min over V of ½‖w(V)‖² + C sum of hinges of the factorised model
        w(V) = sum <v_i, v_j>(x_i - x_j), the form first presented (Zhang et al. 2015), by L-BFGS with the hinge's kink
        rounded over 1e-3. There is no box on V then, and multipliers may be negative.
    loss : "hinge", or with form="primal" any loss of pairs, as in RankSVM: "squared_hinge", "logistic", ...
        Xu et al. (2019, section 5.3) leave losses other than the hinge to future work.
    validation : RankingData on which to choose the epoch (dual form)
        The epoch with the best mean NDCG@10 there is kept.
    patience : stop after this many epochs without a better one on validation
    solver : "adaptive", as above, or "paper": Algorithm 1 as printed (dual form)
        From factors in the whole box, exactly max_iter epochs of steps of one length, converged or not.
    learning_rate : the length of the paper's steps, its η
    random_state : seed of the starts and of the order of queries
    scale, missing : as in RankSVM

    Attributes
    ----------
    factors_ : V, one row per training row
    ranks_ : rank of every query's multipliers
    certificate_ : how near a stationary point the factors are
    trace_ : one entry per epoch
    n_iter_ : number of epochs
    objective_, coef_, n_pairs_, C_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> FactorizedRankSVM(rank=2, C=1.0, random_state=0).fit(X, y, qid=0).rank(X).tolist()
    [2, 1, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "factors_": Array("rows, rank"),
        "grades_": Array("rows"),
        "rows_": Array("rows", "i", low=0),
        "queries_": Ids("queries"),
        "offsets_": Array("queries+1", "i", low=0),
    }
    _order = BaseRanker.rank

    rank: int = RankParameter(5)  # type: ignore[assignment]
    C: float | None = 1.0
    _: KW_ONLY
    tol: float = 1e-3
    max_iter: int | None = 500
    n_starts: int = 1
    form: str = "dual"
    loss: str = "hinge"
    validation: RankingData | None = None
    patience: int = 20
    solver: str = "adaptive"
    learning_rate: float = 0.01
    random_state: int | None = 0
    scale: str | None = None
    missing: str = "error"

    def _fit(self, X, y, blocks, sample_weight):
        one_of("form", self.form, "dual", "primal")
        one_of("solver", self.solver, "adaptive", "paper")
        if self.solver == "paper" and (self.form != "dual" or self.validation is not None):
            raise ValueError("solver='paper' needs form='dual' and ends after max_iter epochs: leave out validation")
        if self.loss not in LOSSES:
            raise ValueError(no_loss(str(self.loss), LOSSES))
        if self.loss != "hinge" and self.form == "dual":
            raise ValueError(f"form='dual' needs loss='hinge': for loss={self.loss!r} give form='primal'")
        preferences, design, loss = GradedPreferences(y, blocks.offsets), RowsDesign(X), make_loss(self.loss)
        self.C_ = chosen_C(self.C, Problem(design, loss, preferences))
        problem = (
            FactorizedDual(design, preferences, self.rank, self.C_)
            if self.form == "dual"
            else FactorizedPrimal(design, preferences, self.rank, self.C_, loss)
        )
        rng, starts = generator(self.random_state), range(whole("n_starts", self.n_starts))
        solution = min((self._descend(problem, rng) for _ in starts), key=lambda found: found.value)
        self.factors_ = np.empty((len(y), problem.rank))
        self.factors_[preferences.row_at] = solution.extra["V"].T
        self.grades_, self.offsets_, self.queries_ = y, blocks.offsets, blocks.ids
        self.rows_ = np.arange(len(y)) if blocks.given is None else blocks.given
        self.coef_, self.n_pairs_ = solution.w, preferences.n_pairs
        keep_account(self, solution)

    def _descend(self, problem: FactorizedDual | FactorizedPrimal, rng: np.random.Generator) -> Solution:
        """From one random start."""
        limits: Facts = {
            "tol": positive("tol", self.tol, least=0),
            "max_iter": whole("max_iter", self.max_iter, least=0),
        }
        if isinstance(problem, FactorizedPrimal):
            V = problem.start(rng)
            found = lbfgs(problem.at, V.ravel(), measure=problem.flatness, **limits)
            V = found.w.reshape(V.shape)
            return replace(found, w=problem.weights(V)[0], extra={"V": V})
        if self.solver == "paper":
            return factor_steps(problem, rng, step=positive("learning_rate", self.learning_rate), **limits)
        validate = None if self.validation is None else partial(self._validation_score, self.validation)
        start, patience = problem.start(rng), self.patience
        found = factor_descent(problem, start, rng, validate=validate, patience=patience, **limits)
        hard = found.certificate.status == "max_iter" and validate is None and affordable(problem)
        return factor_newton(problem, found.extra["V"], before=found, **limits) if hard else found

    def _validation_score(self, rows: RankingData, w: np.ndarray) -> float:
        self.coef_ = w
        scores = self._scores_of(check_features(self, rows, reset=False), rows.qid)
        return float(evaluate(rows.y, scores, rows.qid, "ndcg@10")["ndcg@10"])

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's V Vᵀ, at most K. (With more than two grades only part of V Vᵀ is multipliers, and the
        matrix with zeros elsewhere, as in `multiplier_blocks`, can have rank up to K times the grades less one.)"""
        blocks = (self.factors_[lo:hi] for lo, hi in zip(self.offsets_[:-1], self.offsets_[1:]))
        return np.array([np.linalg.matrix_rank(V) if len(V) else 0 for V in blocks])

    def multiplier(self, i: int, j: int) -> float:
        """a_ij for two training rows, numbered as they were given to fit; 0 where i is not preferred to j."""
        place = {int(row): k for k, row in enumerate(self.rows_)}
        a, b = place[int(i)], place[int(j)]
        same = np.searchsorted(self.offsets_, [a, b], side="right")
        preferred = same[0] == same[1] and self.grades_[a] > self.grades_[b]
        return float(self.factors_[a] @ self.factors_[b]) if preferred else 0.0

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        for query, lo, hi in zip(self.queries_, self.offsets_[:-1], self.offsets_[1:]):
            y, V = self.grades_[lo:hi], self.factors_[lo:hi]
            win, lose = np.flatnonzero(y > y.min(initial=np.inf)), np.flatnonzero(y < y.max(initial=-np.inf))
            preferred = y[win][:, None] > y[lose][None, :]
            A = np.where(preferred, V[win] @ V[lose].T, 0.0)
            rows = self.rows_[lo:hi]
            yield MultiplierBlock(query, int(hi - lo), int(preferred.sum()), rows[win], rows[lose], A)


@dataclass(eq=False, repr=False)
class RegularizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over a, A of  ½‖sum a_ij (x_i - x_j)‖² - sum a_ij + gamma · ‖A‖ (nuclear) + lam ‖P(a) - A‖²,   0 ≤ a_ij ≤ C.

    P(a) lays the multipliers out as one matrix per query, zero where there is no pair; A may be nonzero there, and is
    penalised there like anywhere else (Eq. 19 of the paper as written). Convex. Alternates two exact steps: A is
    P(a) with its singular values shrunk by gamma / (2 lam); and a is the best for that A, found not among the pairs but
    in w, where  a_ij = clip(A_ij + (1 - w·(x_i - x_j)) / (2 lam), 0, C)  and Newton's method needs few steps. That is
    proximal gradient descent in A, so it is accelerated like one (Nesterov's, with restart); the objective never rises.
    gamma = 0 is the dual of the hinge RankSVM. Needs memory for six numbers per pair.

    The squared hinge's dual has + sum a_ij² / (4C) in it and no upper bound on a_ij; all else is the same.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    gamma : weight of the nuclear norm
    lam : weight of the distance between a and A
    tol : stop when the objective is provably within tol times its size of the optimum
    max_iter : rounds
    loss : "hinge" or "squared_hinge"
    solver : "exact", as above, or "paper": Algorithm 2 as printed (the hinge)
        From multipliers in the whole box, exactly max_iter rounds of inner_iter gradient steps in a and one shrinkage.
    learning_rate : the length of the paper's steps, its η
    inner_iter : the paper's steps in a round, its T'
    random_state : seed of the paper's start
    scale, missing : as in RankSVM

    Attributes
    ----------
    multipliers_ : a, pairs in the order of ``pairs_``
    pairs_ : winner row and loser row of each pair
    ranks_ : rank of every query's A
    certificate_ : the duality gap
    trace_ : one entry per round
    n_iter_ : number of rounds
    objective_, coef_, n_pairs_, C_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> RegularizedRankSVM(C=1.0, gamma=0.1, lam=1.0).fit(X, y, qid=0).rank(X).tolist()
    [2, 1, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        **of_pairs(needed=True),
        "block_ranks_": Array("queries", "i", low=0),
    }

    C: float | None = 1.0
    gamma: float = 1.0
    lam: float = 1.0
    _: KW_ONLY
    tol: float = 1e-3
    max_iter: int | None = 200
    loss: str = "hinge"
    solver: str = "exact"
    learning_rate: float = 0.01
    inner_iter: int = 10
    random_state: int | None = 0
    scale: str | None = None
    missing: str = "error"

    def _fit(self, X, y, blocks, sample_weight):
        gamma, lam = positive("gamma", self.gamma, least=0), positive("lam", self.lam)
        preferences, design = GradedPreferences(y, blocks.offsets), RowsDesign(X)
        squared = one_of("loss of RegularizedRankSVM", self.loss, "hinge", "squared_hinge") == "squared_hinge"
        self.C_ = chosen_C(self.C, Problem(design, make_loss(self.loss), preferences))
        problem = RegularizedDual(design, preferences, self.C_, gamma, lam, squared=squared)
        if self.solver == "paper" and squared:
            raise ValueError("solver='paper' needs loss='hinge': leave it out for loss='squared_hinge'")
        one_of("solver", self.solver, "exact", "paper")
        limits: Facts = {
            "tol": positive("tol", self.tol, least=0),
            "max_iter": whole("max_iter", self.max_iter, least=0),
        }
        if self.solver == "paper":
            rate, inner = positive("learning_rate", self.learning_rate), whole("inner_iter", self.inner_iter)
            rng = generator(self.random_state)
            solution = multiplier_steps(problem, rng, step=rate, inner_iter=inner, **limits)
        else:
            solution = shrinkage(problem, **limits)
        self.coef_, self.n_pairs_ = solution.w, preferences.n_pairs
        self.block_ranks_, self.queries_, self.sizes_ = problem.ranks, blocks.ids, blocks.sizes
        winner, loser, self.multipliers_ = problem.listed()
        self.pairs_per_query_, rows = preferences.pairs_per_query, blocks.given
        self.pairs_ = np.stack([winner, loser] if rows is None else [rows[winner], rows[loser]], axis=1)
        keep_account(self, solution)

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's A, after the last shrinkage."""
        return self.block_ranks_


@dataclass(eq=False, repr=False)
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

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns"), "factors_": Array("columns, rank")}
    _form_kind = "mapped"
    _scaled_type = np.float64
    _order = BaseRanker.rank

    rank: int = RankParameter(5)  # type: ignore[assignment]
    C: float | None = 1.0
    loss: str = "squared_hinge"
    tol: float = 1e-3
    _: KW_ONLY
    random_state: int | None = 0

    def _problem(self, source):
        one_of("loss of RankingFM", self.loss, *SMOOTH_PAIRS)
        X = source.matrix("RankingFM").astype(np.float64, copy=False)  # products have twice the digits
        return FactorizationMachine(X, make_loss(self.loss), source.preferences, self.rank)

    def _minimise(self, problem, before=None):
        start = problem.start(generator(self.random_state))  # not `before`, whose factors may be 0
        return descend(problem, start, **self._limits(MOST_ITERATIONS))

    def _take(self, solution, source):
        self.coef_, self.factors_ = parts_of(solution.w, int(self.rank))
        if not (np.isfinite(solution.value) and np.isfinite(solution.w).all()):
            raise DataError(
                "scores overflow, because they contain products of features: rescale the features (scale=...)"
            )
        keep_account(self, solution, source.alike)

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, Cs: Iterable[float] = (), *, group: PerRow = None
    ) -> list[Self]:
        """One fitted ranker for every C, in the order given, each from the same start.

        Parameters
        ----------
        X, y, qid, group : as in fit
        Cs : values of C
        """
        return self._fit_path(Cs, X, y, qid, None, group)

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
