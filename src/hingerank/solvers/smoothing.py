"""The hinge by Newton: round its kink over a width, solve, narrow the width, until the duality gap is small enough.

For the smoothed hinge of width u the multipliers  a_ij = C clip((m - t_ij) / u, 0, 1)  are feasible for the dual of the
*unsmoothed* problem,

    max  m sum a_ij - ½‖sum a_ij (x_i - x_j)‖²,   0 ≤ a_ij ≤ C weight_ij,

and both of its sums come out of the sweep that gives value and gradient. So every iterate carries a true lower bound.
At a smoothed optimum the gap is about C·(pairs within the kink)·u/6, which shrinks with u²: moderate widths suffice.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hingerank.losses import smoothed_hinge
from hingerank.solvers.newton import newton_from
from hingerank.solvers.solution import Certificate, Solution

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
    began = time.perf_counter()
    watch = _Gap(objective.C, float(objective.loss.terms[0, 0]), tol, callback, began)
    width, smooth = FIRST_WIDTH, _Watched(objective, FIRST_WIDTH, watch)
    origin = smooth.at(np.zeros(objective.dimension))
    scale = float(np.linalg.norm(origin.gradient))
    point = origin if w is None else smooth.at(w)
    if not np.any(point.w):
        start = point.w
        for sample in smooth.samples:
            start = newton_from(sample, sample.at(start), 1e-2, scale, 20, began + max_seconds)[0].w
        point = smooth.at(start)
    while True:
        point, _, status = newton_from(
            smooth, point, 1e-13, scale, max_iter - len(watch.trace), began + max_seconds, smooth.model, watch.stop
        )
        if watch.closed or watch.stopped or status in ("max_seconds", "max_iter"):
            break
        width *= float(np.clip(np.sqrt(0.3 * tol * watch.primal / max(watch.kink, 1e-300)), 0.1, 0.5))
        if width < NARROWEST:
            status = "stalled"
            break
        smooth = _Watched(objective, width, watch)
        point = smooth.at(point.w)
    status = "converged" if watch.closed else "callback" if watch.stopped else status
    n_iter = len(watch.trace)
    certificate = Certificate("relative duality gap", watch.gap, tol, status, n_iter, time.perf_counter() - began)
    extra = {"lower_bound": watch.dual, "latest": point.w, "width": width}
    return Solution(watch.best_w, watch.primal, certificate, watch.trace, extra)


class _Gap:
    """The best value and the best lower bound seen so far, and what the current width can still achieve."""

    def __init__(self, C, margin, tol, callback, began):
        self.C, self.margin, self.tol, self.callback, self.began = C, margin, tol, callback, began
        self.primal, self.dual, self.best_w, self.stopped = np.inf, -np.inf, np.empty(0), False
        self.kink = self.here = np.inf  # gap of the width itself; gap at the latest point
        self.trace: list[dict] = []

    @property
    def gap(self) -> float:
        return float((self.primal - self.dual) / max(abs(self.primal), 1e-300))

    @property
    def closed(self) -> bool:
        return self.gap <= self.tol

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

    def stop(self, entry) -> bool:
        """Enough of this width: done, told to stop, or most of the gap left is the width's own."""
        self.trace.append(
            {"iteration": len(self.trace), "value": self.primal, "lower_bound": self.dual, "gap": self.gap,
             "seconds": time.perf_counter() - self.began}
        )  # fmt: skip
        if self.callback is not None and self.callback(self.trace[-1]):
            self.stopped = True
        narrow_enough = self.kink <= 0.5 * self.tol * self.primal
        return self.closed or self.stopped or (not narrow_enough and self.here <= 2 * self.kink)


class _Watched:
    """The objective smoothed over a width, every evaluation shown to the gap."""

    def __init__(self, objective, width, watch):
        self.objective, self.width, self.watch = objective.with_loss(smoothed_hinge(width, watch.margin)), width, watch
        self.samples, self.recycled = self.objective.samples(), getattr(self.objective, "recycled", 0)
        self.model = self.samples[-1] if self.samples else None

    def at(self, w):
        return self.watch.see(self.objective.at(w), self.width)
