"""The hinge, by Newton's method on a rounded kink, and by its dual pair by pair (problem/hinge.py).

`smoothing` rounds the kink over a width, solves, and narrows the width until the duality gap is small enough. Every
iterate has a true lower bound. At a smoothed optimum the gap is about C·(pairs within the kink)·u/6 for a width u,
which falls as u²: moderate widths suffice.

`dual_coordinate_descent` lists the pairs because its result has a multiplier for each of them; if only w is wanted,
`smoothing` is far faster. It starts from the nearly optimal multipliers of `smoothing` and improves them one by one.
"""

from itertools import count
from typing import Unpack

import numpy as np

from hingerank.arrays import Vector
from hingerank.problem.hinge import Bounds, HingeProblem, PairDual, RoundedHinge
from hingerank.problem.problem import Point, Problem
from hingerank.solvers.newton import TangentGap, newton_from, solve_samples
from hingerank.solvers.run import GAP, Entry, Limits, Run, Solution, apart

FIRST_WIDTH, NARROWEST = 1.0, 1e-10
EPOCHS_OF_A_SUM = 20  # w is recomputed after this many epochs, so that rounding does not accumulate


def smoothing(problem: HingeProblem, w: Vector = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise ½‖w‖² + C sum weight · max(0, m - t) until value - lower bound, relative to gain and
    objective (solvers/run.py), is at most tol."""
    run = Run("gap", **limits)
    width, smooth = FIRST_WIDTH, WatchedHinge(problem, FIRST_WIDTH, run)
    samples = smooth.samples()
    zero, inverse = np.zeros(problem.dimension), None
    start = None if w is None or not np.any(w) else w
    if start is None and samples:
        scale, run.origin = float(np.linalg.norm(samples[-1].at(zero).gradient)), problem.origin()
        start, inverse = solve_samples(smooth, samples, scale, run)
        point = smooth.at(start)
    else:
        origin = smooth.at(zero)
        scale, run.origin = float(np.linalg.norm(origin.gradient)), smooth.primal
        point = origin if start is None else smooth.at(start)
    while True:
        model = samples[-1] if samples else None
        rounded = Run("gradient", 1e-13, np.inf, callback=smooth.enough)
        point, inverse = newton_from(smooth, point, scale, rounded, model, inverse, smooth)
        if run.status:
            break
        width *= float(np.clip(np.sqrt(0.3 * run.tol * smooth.size / max(smooth.kink, 1e-300)), 0.1, 0.5))
        if not width >= NARROWEST:  # also if sums overflow
            run.status = "stalled"
            break
        smooth.narrow(width)
        samples, point = smooth.samples(), smooth.at(point.w)
    extra = {"lower_bound": smooth.dual, "latest": point.w, "width": width, "best_dual": smooth.best_dual}
    w, value = smooth.answer
    return run.solution(GAP, w, value, len(run.trace), **extra)


class WatchedHinge(RoundedHinge, TangentGap):
    """A rounded hinge that keeps of all points evaluated the best value and the best lower bound, the point with the
    smallest gap of its own, and what the current width can still achieve."""

    def __init__(self, problem: HingeProblem, width: float, run: Run):
        super().__init__(problem, width)
        self.run, self.answer, self.best_w = run, (np.empty(0), np.inf), np.empty(0)
        self.primal, self.dual, self.least = np.inf, -np.inf, 0.0
        self.best_dual: Point | None = None
        self.own: tuple[Vector, Bounds] | None = None  # weights with the smallest gap of their own
        self.kink = self.here = np.inf  # the part of the gap caused by the width; the gap at the latest point

    def at(self, w: Vector) -> Point:
        point = super().at(w)
        self.record(point, self.bounds(point))
        return point

    def record(self, point: Point, bounds: Bounds) -> None:
        """Keep the bounds of a point."""
        self.kink, self.here = bounds.kink, bounds.gap
        if bounds.lower > self.dual:
            self.dual, self.best_dual, self.least = bounds.lower, point, bounds.least
        if bounds.value < self.primal:
            self.primal, self.best_w = bounds.value, point.w
        if self.own is None or bounds.gap < self.own[1].gap:
            self.own = point.w, bounds

    @property
    def size(self) -> float:
        """The denominator of the relative gap (see solvers/run.py)."""
        return min(max(self.run.origin - self.dual, self.least), self.primal)

    def enough(self, entry: Entry) -> bool:
        """Whether to leave this width: the run stops, or most of the remaining gap is caused by the width."""
        run = self.run
        between = apart(self.primal, self.dual)
        self.answer, gap = (self.best_w, self.primal), run.relative(between, self.primal, self.least)
        if self.own is not None and self.own[1].gap < between:  # values are too close for an accurate difference
            w, bounds = self.own
            self.answer, gap = (w, bounds.value), run.relative(bounds.gap, bounds.value, bounds.least)
        narrow_enough = self.kink <= 0.5 * run.tol * self.size
        stops = run.stops(iteration=len(run.trace), value=self.answer[1], lower_bound=self.dual, gap=gap)
        return stops or (not narrow_enough and self.here <= 2 * self.kink)

    def may_suffice(self, point: Point, gap: float) -> bool:
        return gap <= max(self.kink, 0.5 * self.run.tol * self.size)

    def see(self, point: Point, here: Point, there: Point, r: Vector, curved: float) -> tuple[float, float]:
        bounds = self.bounds_by_tangents(point, here, there, r)
        self.record(point, bounds)
        needed = max(2 * bounds.kink, self.run.tol * self.size)
        return np.inf, 0.0 if bounds.gap <= needed else needed - bounds.kink - curved


def dual_coordinate_descent(
    problem: Problem, w: np.ndarray | None = None, *, seed: int = 0, **limits: Unpack[Limits]
) -> Solution:
    """Maximise the dual of ½‖w‖² + C sum weight · max(0, m - t) until value at w - dual value, relative to gain and
    objective (solvers/run.py), is at most tol.

    w = sum a_k (x_i - x_j) exactly; the multipliers a and their pairs are in `extra`.
    """
    run, rng = Run("gap", **limits), np.random.default_rng(seed)
    dual = PairDual(problem)
    run.origin = dual.origin()
    start = smoothing(problem, w, tol=0.5 * run.tol, max_seconds=run.max_seconds)
    a = dual.multipliers(start.extra["latest"], start.extra["width"])
    w = dual.weights(a)
    for epoch in count():
        (value, apart), bound = dual.at(a, w), dual.value(a, w)
        gap = run.relative(apart, value, 0.5 * float(w @ w))
        if run.stops(early=epoch == 0, iteration=epoch, value=value, lower_bound=bound, gap=gap):
            break
        dual.epoch(rng.permutation(len(a)), a, w)
        if epoch % EPOCHS_OF_A_SUM == EPOCHS_OF_A_SUM - 1:
            w = dual.weights(a)
    extra = {"multipliers": a, "pairs": dual.pairs, "lower_bound": bound}
    return run.solution(GAP, w, value, epoch, **extra)
