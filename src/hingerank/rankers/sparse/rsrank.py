"""RSRank: pairs weighted by NDCG changes, by truncated gradient (Sun, Qin, Tao & Wang 2009)."""

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.losses.ndcg_swaps import NdcgSwaps
from hingerank.problem.score_objective import ScoreObjective
from hingerank.rankers.sparse.base import positive
from hingerank.rankers.sparse.truncated import TruncatedGradientRanker
from hingerank.solvers.solution import Solution
from hingerank.solvers.truncated_gradient import largest_eigenvalue, truncated_gradient
from hingerank.structures import L1Norm


class RSRank(TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + C · sum over pairs of  W(i, j; w) ψ(w·x_i - w·x_j),  by truncated gradient.

    ψ is the modified Huber loss; W the change of NDCG if i and j swapped places in the ranking by w, taken anew in
    every step (Sun, Qin, Tao & Wang 2009). W follows the ranking, so the problem is not convex: the certificate is the
    largest subgradient of the problem at the last weights W, and the fit usually ends at max_iter.

    Parameters as TGRank's; C is of the sum over queries, each of which weighs about 1.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> RSRank(C=1).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    _may_stop_early = True

    def __init__(
        self, C=1.0, learning_rate=None, every=1, threshold=None, tol=1e-3, *, max_iter=1000, scale=None,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        super().__init__(
            C, learning_rate, every, threshold, tol, max_iter=max_iter, scale=scale, max_seconds=max_seconds,
            callback=callback,
        )  # fmt: skip

    def _problem(self, X, y, blocks, sample_weight):
        preferences = self._preferences(y, blocks, sample_weight)
        objective = ScoreObjective(X, squared_hinge(), preferences)
        return _SwapProblem(objective, NdcgSwaps(preferences, sample_weight), self._rate, self._options())


class _SwapProblem:
    def __init__(self, objective, loss, rate, options):
        self.objective, self.loss, self.rate, self.options = objective, loss, rate, options
        design = objective.design
        start = objective.back(objective.at(np.zeros(design.shape[0])).gradient)
        self.first_scores = design.scores(-start)  # ranks the rows before there is a model: one plain gradient step
        loss.rank(self.first_scores)
        self.bend = largest_eigenvalue(lambda v: design.back(loss.curvature(design.scores(v))), start)

    def solve(self, C: float, before: Solution | None) -> Solution:
        C, design, loss, norm = positive("C", C), self.objective.design, self.loss, L1Norm()

        def at(w):
            s = design.scores(w)
            loss.rank(s if w.any() else self.first_scores)
            value, z = loss.at(s)
            return C * value, C * design.back(z)

        def subgradient(value, g, w):
            return max(0.0, float(norm.pull(g, w).max()))

        w = np.zeros(design.shape[1]) if before is None else before.w
        rate = self.rate(C * self.bend)
        return truncated_gradient(at, w, rate, subgradient, "largest subgradient", **self.options)
