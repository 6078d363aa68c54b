"""TGRank: the l1-penalised squared hinge by truncated gradient (Lai, Pan, Liu, Lin & Wu 2013)."""

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.problem.score_objective import ScoreObjective
from hingerank.rankers.sparse.base import positive
from hingerank.rankers.sparse.penalised import grid_of_C
from hingerank.rankers.sparse.truncated import TruncatedGradientRanker
from hingerank.solvers.solution import Solution
from hingerank.solvers.truncated_gradient import largest_eigenvalue, truncated_gradient
from hingerank.structures import L1Norm


class TGRank(TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)²,  by truncated gradient.

    SparseRankSVM's problem with the solver that FenchelRank is compared with; SparseRankSVM reaches the same optimum
    far sooner.

    Parameters
    ----------
    C : weight of the mean pair loss against the norm.
    learning_rate : of the gradient steps; None for one over the largest curvature, the longest safe one.
    every : truncate in every so many-th step. threshold : draw only weights up to this size to 0; None for all.
    tol : stop when the duality gap is at most tol times the objective.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model. callback : called with each trace entry.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> TGRank(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    def _problem(self, X, y, blocks, sample_weight):
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _MeanLossProblem(objective, self._rate, self._options())


class _MeanLossProblem:
    def __init__(self, objective, rate, options):
        self.objective, self.rate, self.options = objective, rate, options
        start = objective.at(np.zeros(objective.design.shape[0]))  # every pair is active here: the largest curvature
        self.bend = largest_eigenvalue(
            lambda v: objective.back(start.curvature(objective.design.scores(v))), objective.back(start.gradient)
        )

    def solve(self, C: float, before: Solution | None) -> Solution:
        objective, norm = self.objective.with_C(positive("C", C)), L1Norm()

        def at(w):
            point = objective.at(objective.design.scores(w))
            return point.value, objective.back(point.gradient)

        w = np.zeros(objective.dimension) if before is None else before.w
        return truncated_gradient(at, w, self.rate(C * self.bend), norm.gap, norm.kind, **self.options)

    def grid(self, count: int) -> list[float]:
        return grid_of_C(self.objective, count)
