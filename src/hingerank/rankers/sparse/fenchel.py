"""FenchelRank: the squared hinge inside an l1 ball (Lai, Pan, Liu, Lin & Wu 2013)."""

from dataclasses import replace
from typing import Any

from hingerank.losses import squared_hinge
from hingerank.problem.score_objective import ScoreObjective
from hingerank.rankers.sparse.base import SparseRanker, positive
from hingerank.solvers.frank_wolfe import VARIANTS, frank_wolfe
from hingerank.solvers.proximal_newton import proximal_newton
from hingerank.solvers.solution import Solution
from hingerank.structures import L1Ball

RADII = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # the paper's
STEPS = ("exact", "closed-form")


class FenchelRank(SparseRanker):
    """min over ‖w‖₁ ≤ radius of  (1/p) · sum over the p pairs (i preferred to j) of  max(0, 1 - w·x_i + w·x_j)².

    The value at w = 0 is 1, so `tol` is in units of that. The paper writes u = w / radius; `coef_` is w.

    Parameters
    ----------
    radius : of the l1 ball; a small one keeps few features.
    tol : stop when the duality gap  radius ‖g‖_∞ + <g, w>  is at most this, g the gradient at w.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    step : "exact" line search, or "closed-form" (classic, away and pairwise steps only): the minimiser of the quadratic
        bound in which every pair is active, cheaper and a little shorter.
    variant : all have the same optimum. "corrective" minimises anew over all features in use after each choice of
        features, and needs a handful of steps; "classic" is the paper's algorithm, one feature a step; "away" and
        "pairwise" also take weight back from the worst feature in use.
    scale : feature scaling learnt in fit and carried in the model (the paper scales features to [0, 1]).
    callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights, ‖coef_‖₁ ≤ radius. selected_features_ : columns in use. sparsity_ : their share.
    certificate_ : the duality gap. trace_ : value, gap and features in use at every iteration. objective_ : the value.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> ranker = FenchelRank(radius=0.5).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.coef_.round(3).tolist()
    ([0], [0.5, 0.0])
    """

    path_parameter = "radius"

    def __init__(
        self, radius=1.0, tol=1e-3, max_iter=1000, step="exact", variant="corrective", *, scale=None, max_seconds=None,
        callback=None,
    ):  # fmt: skip
        self.radius = radius
        self.tol = tol
        self.max_iter = max_iter
        self.step = step
        self.variant = variant
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, radii: Any = RADII, sample_weight: Any = None, *,
        group: Any = None,
    ) -> "list[FenchelRank]":  # fmt: skip
        """One fitted ranker for every radius, in the order given; each fit starts from that of the next smaller one."""
        return self._fit_path(radii, X, y, qid, sample_weight, group)

    def _problem(self, X, y, blocks, sample_weight):
        known = ("corrective", *VARIANTS)
        if self.variant not in known:
            raise ValueError(f"there is no variant {self.variant!r}; use one of: {', '.join(known)}")
        if self.step not in STEPS:
            raise ValueError(f"there is no step {self.step!r}; use one of: {', '.join(STEPS)}")
        if self.variant == "corrective" and self.step != "exact":
            raise ValueError(f"step {self.step!r} works with the variants {', '.join(VARIANTS)}, not with 'corrective'")
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _BallProblem(objective, self.variant, self.step, self._limits())


class _BallProblem:
    def __init__(self, objective, variant, step, limits):
        self.objective, self.variant, self.step, self.limits = objective, variant, step, limits

    def solve(self, radius: float, before: Solution | None) -> Solution:
        ball, w = L1Ball(positive("radius", radius)), None if before is None else before.w
        if self.variant == "corrective":
            working = None if before is None else before.extra["working"]
            found = proximal_newton(self.objective, ball, w, working=working, min_iter=1, **self.limits)
        else:
            found = frank_wolfe(self.objective, ball, w, variant=self.variant, step=self.step, **self.limits)
        return replace(found, w=ball.inside(found.w))
