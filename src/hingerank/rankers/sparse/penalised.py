"""SparseRankSVM: the squared hinge with an l1 penalty, or an elastic net."""

from typing import Any

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.problem.score_objective import ScoreObjective
from hingerank.rankers.sparse.base import SparseRanker, positive
from hingerank.solvers.proximal_newton import proximal_newton
from hingerank.solvers.solution import Solution
from hingerank.structures import L1Norm

LONGEST = 1000.0  # a path of n points ends at this many times the C at which the first feature enters


class SparseRankSVM(SparseRanker):
    """min over w of  ‖w‖₁ + ½ ridge ‖w‖² + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)².

    With ridge = 0 its solutions are FenchelRank's at radius ‖w‖₁. Below some C (`fit_path` finds it) all weights are 0.

    Parameters
    ----------
    C : weight of the mean pair loss against the norm; a small one keeps few features.
    ridge : weight of the squared norm: with some, correlated features share a weight instead of one taking all.
    tol : stop when the duality gap is at most tol times the objective.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model.
    callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights. selected_features_ : columns in use. sparsity_ : their share. certificate_ : the relative duality
    gap. trace_ : value, gap and features in use at every iteration. objective_ : the value reached.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> SparseRankSVM(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    def __init__(self, C=100.0, ridge=0.0, tol=1e-3, *, max_iter=1000, scale=None, max_seconds=None, callback=None):
        self.C = C
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Any = 20, sample_weight: Any = None, *, group: Any = None
    ) -> "list[SparseRankSVM]":
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller one.

        Cs: values, or how many: then evenly spaced in log C from where the first feature enters to 1000 times that.
        """
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _problem(self, X, y, blocks, sample_weight):
        if not (np.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(f"ridge must be a number of at least 0, not {self.ridge!r}")
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _NormProblem(objective, L1Norm(self.ridge), self._limits())


class _NormProblem:
    def __init__(self, objective, norm, limits):
        self.objective, self.norm, self.limits = objective, norm, limits
        self.reached = 3 * first_C(objective)

    def solve(self, C: float, before: Solution | None) -> Solution:
        """On the way straight to a much larger C too many features would be in use: come through those in between."""
        C, steps = positive("C", C), 0
        while C / 10 ** (steps + 1) > self.reached:
            steps += 1
        approach = [self.objective.with_C(C / 10**k) for k in range(steps, 0, -1)]
        self.reached = max(C, self.reached)
        warm = {} if before is None else {"w": before.w, "working": before.extra["working"], "min_iter": 1}
        return proximal_newton(self.objective.with_C(C), self.norm, approach=approach, **warm, **self.limits)

    def grid(self, count: int) -> list[float]:
        return grid_of_C(self.objective, count)


def grid_of_C(objective: ScoreObjective, count: int) -> list[float]:
    """`count` values of C from just above the one at which the first weight leaves 0."""
    first = first_C(objective)
    first = first if np.isfinite(first) else 1.0
    return np.geomspace(1.1 * first, LONGEST * first, count).tolist()


def first_C(objective: ScoreObjective) -> float:
    """Up to this C all weights are 0."""
    at_zero = objective.with_C(1.0).at(np.zeros(objective.design.shape[0]))
    steepest = float(np.abs(objective.back(at_zero.gradient)).max())
    return 1.0 / steepest if steepest > 0 else np.inf
