"""The hinge, which has no curvature, by Newton's method on a rounded kink, and by its dual pair by pair.

`smoothing` rounds the kink over a width u, solves, and narrows the width until the duality gap is small enough. The
multipliers  a_ij = C clip((m - t_ij) / u, 0, 1)  are feasible for the dual of the *unrounded* problem,

    max  m sum a_ij - ½‖sum a_ij (x_i - x_j)‖²,   0 ≤ a_ij ≤ C weight_ij,

and both of its sums come from the sweep that gives value and gradient. So every iterate has a true lower bound. At a
smoothed optimum the gap is about C·(pairs within the kink)·u/6, which falls as u²: moderate widths suffice.

`dual_coordinate_descent` lists the pairs because its result has a multiplier for each of them; if only w is wanted,
`smoothing` is far faster. It starts from the nearly optimal multipliers of `smoothing` and improves them one by one.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Unpack

import numpy as np

from hingerank.arrays import Vector
from hingerank.kernels.descent import combine_pairs, dual_epoch, pair_norms
from hingerank.kernels.threads import AS_BEFORE, LONG, serial_blas
from hingerank.losses import Loss, WindowLoss, smoothed_hinge
from hingerank.problem.kernel_space import KernelProblem
from hingerank.problem.problem import Objective, Point, Problem, RowsDesign
from hingerank.solvers.newton import TangentGap, newton_from, samples_of, solve_samples
from hingerank.solvers.run import GAP, ROUNDING, Entry, Limits, Run, Solution, apart

FIRST_WIDTH, NARROWEST = 1.0, 1e-10
EPOCHS_OF_A_SUM = 20  # w is recomputed after this many epochs, so that rounding does not accumulate
HingeProblem = Problem | KernelProblem  # whose loss, a hinge, can be replaced


def smoothing(problem: HingeProblem, w: Vector = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise ½‖w‖² + C sum weight · max(0, m - t) until value - lower bound, relative to gain and
    objective (solvers/run.py), is at most tol."""
    run = Run("gap", **limits)
    width, smooth = FIRST_WIDTH, RoundedHinge(problem, FIRST_WIDTH, run)
    with serial_blas() if problem.dimension > LONG else AS_BEFORE:
        samples, scale = samples_of(smooth)
        zero, inverse = np.zeros(problem.dimension), None
        start = None if w is None or not np.any(w) else w
        if start is None and samples:
            run.origin = problem.origin()
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
            samples, point = smooth.samples() if samples else [], smooth.at(point.w)
        extra = {"lower_bound": smooth.dual, "latest": point.w, "width": width, "best_dual": smooth.best_dual}
        w, value = smooth.answer
        return run.solution(GAP, w, value, len(run.trace), **extra)


class Bounds(NamedTuple):
    """At one w: the value of the hinge, a lower bound on its optimum, the gap between them, the part of it that the
    rounded kink causes, and a lower bound on the gap plus the decrease from 0 (½‖sum a (x_i - x_j)‖²).

    gap and least are not differences of values, so they are accurate even if the possible gain is below the rounding of
    the values.
    """

    value: float
    lower: float
    gap: float
    kink: float
    least: float


class RoundedHinge(Objective, TangentGap):
    """A problem with its hinge rounded over `width`, and the bounds that its points give for the hinge itself.

    Of all points evaluated it keeps the best value and the best lower bound, the point with the smallest gap of its
    own, and what the current width can still achieve. run: that of the hinge.
    """

    def __init__(self, problem: HingeProblem, width: float, run: Run):
        self.problem, self.dimension, self.recycled = problem, problem.dimension, problem.recycled
        self.C, self.margin = problem.C, hinge_of(problem.loss).margin
        self.narrow(width)
        self.run, self.answer, self.best_w = run, (np.empty(0), np.inf), np.empty(0)
        self.primal, self.dual, self.least = np.inf, -np.inf, 0.0
        self.best_dual: Point | None = None
        self.own: tuple[Vector, Bounds] | None = None  # weights with the smallest gap of their own
        self.kink = self.here = np.inf  # the part of the gap caused by the width; the gap at the latest point

    def narrow(self, width: float) -> None:
        """Round the kink over another width, reusing the memory."""
        self.width, self.problem = width, self.problem.with_loss(smoothed_hinge(width, self.margin))

    def at(self, w: Vector) -> Point:
        point = self.problem.at(w)
        self.record(point, self.bounds(point))
        return point

    def samples(self, larger: bool = False) -> Sequence[Objective]:
        return [] if larger else self.problem.samples()

    def diagonal(self, point: Point) -> Vector:
        return self.problem.diagonal(point)

    def bounds_by_tangents(self, point: Point, here: Point, there: Point, r: Vector) -> Bounds:
        """The bounds at a point if a sample's queries, of which `here` is at the same w, have the multipliers of
        `there`; r: w minus the sum of a_ij (x_i - x_j)."""
        bounds, combined = self.bounds(point), point.w - r
        least = 0.5 * float(combined @ combined)
        (all_of, noise), (before, more), (after, most) = map(self._multipliers, (point, here, there))
        lower = self.margin * (all_of - before + after) - (noise + more + most) - least
        return bounds._replace(lower=lower, gap=bounds.value - lower + ROUNDING * bounds.value, least=least)

    def _multipliers(self, point: Point) -> tuple[float, float]:
        """The sum of the multipliers of a point's pairs, and a bound on its rounding error times the margin."""
        assert point.moments is not None  # smoothed_hinge is a WindowLoss
        outer, inner = point.moments
        scale = self.C / self.width
        return scale * float(outer[1] - inner[1]), abs(self.margin) * ROUNDING * scale * float(outer[1])

    def bounds(self, point: Point) -> Bounds:
        """The bounds that a point of the rounded problem gives for the hinge."""
        assert point.moments is not None  # smoothed_hinge is a WindowLoss
        w, (outer, inner) = point.w, point.moments
        (gap, least), (multipliers, lost) = self.gap(point), self._multipliers(point)  # least: of Σ a_ij (x_i - x_j)
        rounding = self.problem.rounding(point)
        kink = self.C * float(outer[1] - (outer[2] - inner[2]) / self.width + inner[1])
        noise = ROUNDING * self.C * float(outer[2]) / self.width
        if outer[0] == inner[0]:  # no pair is within the kink, so rounding changes nothing
            kink = noise = 0.0
        value = 0.5 * float(w @ w) + self.C * float(outer[1])
        lower = self.margin * multipliers - lost - least
        gap = max(gap + max(kink, 0.0) + noise, value - ROUNDING * value - lower - 2.0 * lost)  # equal but for rounding
        return Bounds(value, lower - rounding, gap + rounding, kink, least - rounding)

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

    def judge(self, point: Point, here: Point, there: Point, r: Vector, curved: float) -> tuple[float, float]:
        bounds = self.bounds_by_tangents(point, here, there, r)
        self.record(point, bounds)
        needed = max(2 * bounds.kink, self.run.tol * self.size)
        return np.inf, 0.0 if bounds.gap <= needed else needed - bounds.kink - curved


def dual_coordinate_descent(problem: Problem, w: Vector = None, *, seed: int = 0, **limits: Unpack[Limits]) -> Solution:
    """Maximise the dual of ½‖w‖² + C sum weight · max(0, m - t) until value at w - dual value, relative to gain and
    objective (solvers/run.py), is at most tol.

    w = sum a_k (x_i - x_j) exactly; the multipliers a and their pairs are in `extra`.
    """
    if not isinstance(problem.design, RowsDesign):
        raise ValueError("solver='dual' visits single rows and needs them in memory: use solver='auto'")
    run, rng, margin = Run("gap", **limits), np.random.default_rng(seed), hinge_of(problem.loss).margin
    with serial_blas() if problem.dimension > LONG else AS_BEFORE:
        rows, pairs = problem.design.rows, problem.preferences.pairs()
        i, j, limit = pairs.winner, pairs.loser, problem.C * pairs.weight
        norm, run.origin = pair_norms(rows, i, j), margin * float(limit.sum())
        start = smoothing(problem, w, tol=0.5 * run.tol, max_seconds=run.max_seconds)
        s = problem.design.scores(start.extra["latest"])
        a = np.asarray(limit * np.clip((margin - s[i] + s[j]) / start.extra["width"], 0.0, 1.0))
        for epoch in count():
            if epoch % EPOCHS_OF_A_SUM == 0:
                w = np.asarray(combine_pairs(rows, i, j, a, problem.dimension))
            s, square = problem.design.scores(w), 0.5 * float(w @ w)
            margins = margin - s[i] + s[j]
            losses = limit * np.maximum(margins, 0.0)
            value, bound = square + float(losses.sum()), margin * float(a.sum()) - square
            gap = run.relative(float((losses - a * margins).sum()), value, square)  # no term of this sum is negative
            if run.stops(early=epoch == 0, iteration=epoch, value=value, lower_bound=bound, gap=gap):
                break
            dual_epoch(rows, i, j, limit, norm, margin, rng.permutation(len(a)), a, w)  # changes a and w in place
        return run.solution(GAP, w, value, epoch, multipliers=a, pairs=pairs, lower_bound=bound)


def hinge_of(loss: Loss) -> WindowLoss:
    """The loss, if it is a hinge."""
    if not isinstance(loss, WindowLoss) or loss.name != "hinge":
        raise ValueError(f"this solver minimises the hinge, not the loss {loss.name!r}: use solver='auto'")
    return loss
