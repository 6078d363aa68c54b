"""The hinge by Newton: round its kink over a width, solve, narrow the width, until the duality gap is small enough.

For the smoothed hinge of width u the multipliers  a_ij = C clip((m - t_ij) / u, 0, 1)  are feasible for the dual of the
*unsmoothed* problem,

    max  m sum a_ij - ½‖sum a_ij (x_i - x_j)‖²,   0 ≤ a_ij ≤ C weight_ij,

and both of its sums come out of the sweep that gives value and gradient. So every iterate carries a true lower bound.
At a smoothed optimum the gap is about C·(pairs within the kink)·u/6, which shrinks with u²: moderate widths suffice.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hingerank.losses import smoothed_hinge
from hingerank.solvers.newton import newton_from, solve_samples
from hingerank.solvers.run import Run, Solution

FIRST_WIDTH, NARROWEST = 1.0, 1e-10


def smoothing(
    objective: Any,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 200,
    max_seconds: float = np.inf,
    callback: Callable[[dict], Any] | None = None,
) -> Solution:
    """Minimise ½‖w‖² + C sum weight · max(0, m - t) until (value - lower bound) ≤ tol · value."""
    run = Run("gap", tol, max_iter, max_seconds, callback)
    watch = _Gap(objective.C, float(objective.loss.terms[0, 0]), run)
    width, smooth = FIRST_WIDTH, _Watched(objective, FIRST_WIDTH, watch)
    origin = smooth.at(np.zeros(objective.dimension))
    scale = float(np.linalg.norm(origin.gradient))
    point = origin if w is None else smooth.at(w)
    if not np.any(point.w):
        point = smooth.at(solve_samples(smooth.samples, point.w, scale, run))
    while True:
        point = newton_from(smooth, point, scale, Run("gradient", 1e-13, callback=watch.enough), smooth.model)
        if run.status:
            break
        width *= float(np.clip(np.sqrt(0.3 * tol * watch.primal / max(watch.kink, 1e-300)), 0.1, 0.5))
        if width < NARROWEST:
            run.status = "stalled"
            break
        smooth = _Watched(objective, width, watch)
        point = smooth.at(point.w)
    extra = {"lower_bound": watch.dual, "latest": point.w, "width": width}
    return run.solution("relative duality gap", watch.best_w, watch.primal, len(run.trace), **extra)


class _Gap:
    """The best value and the best lower bound seen so far, and what the current width can still achieve."""

    def __init__(self, C, margin, run):
        self.C, self.margin, self.run = C, margin, run
        self.primal, self.dual, self.best_w = np.inf, -np.inf, np.empty(0)
        self.kink = self.here = np.inf  # gap of the width itself; gap at the latest point

    def see(self, point, width):
        """Take note of a point of the problem smoothed over `width`."""
        w, (outer, inner) = point.w, point.moments
        value = 0.5 * float(w @ w) + self.C * float(outer[1])
        multipliers = self.C * float(outer[1] - inner[1]) / width  # their sum
        combined = w - point.gradient  # sum a_ij (x_i - x_j)
        bound = self.margin * multipliers - 0.5 * float(combined @ combined)
        self.kink = self.C * float(outer[1] - (outer[2] - inner[2]) / width + inner[1])
        self.here, self.dual = value - bound, max(self.dual, bound)
        if value < self.primal:
            self.primal, self.best_w = value, w
        return point

    def enough(self, entry) -> bool:
        """Enough of this width: the run stops, or most of the gap left is the width's own."""
        gap = float((self.primal - self.dual) / max(abs(self.primal), 1e-300))
        bounds = {"value": self.primal, "lower_bound": self.dual, "gap": gap}
        narrow_enough = self.kink <= 0.5 * self.run.tol * self.primal
        stops = self.run.stops(iteration=len(self.run.trace), **bounds)
        return stops or (not narrow_enough and self.here <= 2 * self.kink)


class _Watched:
    """The objective smoothed over a width, every evaluation shown to the gap."""

    def __init__(self, objective, width, watch):
        self.objective, self.width, self.watch = objective.with_loss(smoothed_hinge(width, watch.margin)), width, watch
        self.samples, self.recycled = self.objective.samples(), getattr(self.objective, "recycled", 0)
        self.model = self.samples[-1] if self.samples else None

    def at(self, w):
        return self.watch.see(self.objective.at(w), self.width)
