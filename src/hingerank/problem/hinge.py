"""The hinge, which has no curvature: its kink rounded over a width, and its dual pair by pair.

For the hinge rounded over a width u the multipliers  a_ij = C clip((m - t_ij) / u, 0, 1)  are feasible for the dual of
the *unrounded* problem,

    max  m sum a_ij - ½‖sum a_ij (x_i - x_j)‖²,   0 ≤ a_ij ≤ C weight_ij,

and both of its sums come from the sweep that gives value and gradient. So every iterate has a true lower bound.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hingerank.arrays import Vector
from hingerank.kernels.descent import combine_pairs, dual_epoch, pair_norms
from hingerank.losses import Loss, WindowLoss, smoothed_hinge
from hingerank.problem.kernel_space import KernelProblem
from hingerank.problem.problem import Objective, Point, Problem, RowsDesign

ROUNDING = 1e-14  # relative error of a sum over pairs
HingeProblem = Problem | KernelProblem  # whose loss, a hinge, can be replaced


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


class RoundedHinge(Objective):
    """A problem with its hinge rounded over `width`, and the bounds that its points give for the hinge itself."""

    def __init__(self, problem: HingeProblem, width: float):
        self.width, self.C, self.margin = width, problem.C, hinge_of(problem.loss).margin
        self.problem, self.dimension = problem.with_loss(smoothed_hinge(width, self.margin)), problem.dimension
        self.recycled = problem.recycled

    def narrow(self, width: float) -> None:
        """Round the kink over another width, reusing the memory."""
        self.width, self.problem = width, self.problem.with_loss(smoothed_hinge(width, self.margin))

    def at(self, w: Vector) -> Point:
        return self.problem.at(w)

    def samples(self, larger: bool = False) -> Sequence[Objective]:
        return [] if larger else self.problem.samples()

    def diagonal(self, point: Point) -> Vector:
        return self.problem.diagonal(point)

    def bounds_by_tangents(self, point: Point, here: Point, there: Point, r: Vector) -> Bounds:
        """The bounds at a point if a sample's queries, of which `here` is at the same w, have the multipliers of
        `there`; r: w minus the sum of a_ij (x_i - x_j)."""
        bounds, combined = self.bounds(point), point.w - r
        least = 0.5 * float(combined @ combined)
        multipliers = self._multipliers(point) - self._multipliers(here) + self._multipliers(there)
        lower = self.margin * multipliers - least
        return bounds._replace(lower=lower, gap=bounds.value - lower + ROUNDING * bounds.value, least=least)

    def _multipliers(self, point: Point) -> float:
        """The sum of the multipliers of a point's pairs."""
        assert point.moments is not None  # smoothed_hinge is a WindowLoss
        outer, inner = point.moments
        return self.C * float(outer[1] - inner[1]) / self.width

    def bounds(self, point: Point) -> Bounds:
        """The bounds that a point of the rounded problem gives for the hinge."""
        assert point.moments is not None  # smoothed_hinge is a WindowLoss
        w, (outer, inner) = point.w, point.moments
        (gap, least), multipliers = self.gap(point), self._multipliers(point)  # least: of the sum of a_ij (x_i - x_j)
        rounding = self.problem.rounding(point)
        kink = self.C * float(outer[1] - (outer[2] - inner[2]) / self.width + inner[1])
        noise = ROUNDING * self.C * float(outer[2]) / self.width
        if outer[0] == inner[0]:  # no pair is within the kink, so rounding changes nothing
            kink = noise = 0.0
        return Bounds(
            0.5 * float(w @ w) + self.C * float(outer[1]),
            self.margin * multipliers - least - rounding,
            gap + max(kink, 0.0) + noise + rounding,
            kink,
            least - rounding,
        )


class PairDual:
    """The dual of the hinge with a multiplier for every pair, listed; w = sum a_ij (x_i - x_j)."""

    def __init__(self, problem: Problem):
        if not isinstance(problem.design, RowsDesign):
            raise ValueError("solver='dual' visits single rows and needs them in memory: use solver='auto'")
        self.rows, self.dimension, self.design = problem.design.rows, problem.dimension, problem.design
        self.pairs, self.margin = problem.preferences.pairs(), hinge_of(problem.loss).margin
        self.limit = problem.C * self.pairs.weight
        self.norm = pair_norms(self.rows, self.pairs.winner, self.pairs.loser)

    def multipliers(self, w: np.ndarray, width: float) -> np.ndarray:
        """The multipliers of the hinge rounded over `width` at w."""
        s = self.design.scores(w)
        margins = self.margin - s[self.pairs.winner] + s[self.pairs.loser]
        return np.asarray(self.limit * np.clip(margins / width, 0.0, 1.0))

    def weights(self, a: np.ndarray) -> np.ndarray:
        """Sum of a_ij (x_i - x_j)."""
        return np.asarray(combine_pairs(self.rows, self.pairs.winner, self.pairs.loser, a, self.dimension))

    def origin(self) -> float:
        """The hinge problem's value at w = 0."""
        return self.margin * float(self.limit.sum())

    def value(self, a: np.ndarray, w: np.ndarray) -> float:
        """The dual's value: a lower bound on the hinge problem's optimum."""
        return self.margin * float(a.sum()) - 0.5 * float(w @ w)

    def at(self, a: np.ndarray, w: np.ndarray) -> tuple[float, float]:
        """(The hinge problem's value at w = sum a_ij (x_i - x_j), its distance from the dual's), the latter as a sum
        over pairs of non-negative terms."""
        s = self.design.scores(w)
        margins = self.margin - s[self.pairs.winner] + s[self.pairs.loser]
        losses = self.limit * np.maximum(margins, 0.0)
        return 0.5 * float(w @ w) + float(losses.sum()), float((losses - a * margins).sum())

    def epoch(self, order: np.ndarray, a: np.ndarray, w: np.ndarray) -> None:
        """Improve every multiplier once, in this order; a and w are changed in place."""
        dual_epoch(self.rows, self.pairs.winner, self.pairs.loser, self.limit, self.norm, self.margin, order, a, w)


def hinge_of(loss: Loss) -> WindowLoss:
    """The loss, if it is a hinge."""
    if not isinstance(loss, WindowLoss) or loss.name != "hinge":
        raise ValueError(f"this solver minimises the hinge, not the loss {loss.name!r}: use solver='auto'")
    return loss
