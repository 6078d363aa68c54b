"""Problems whose weights form groups that can vanish together, or are bounded below by 0."""

from copy import copy
from functools import cached_property

import numpy as np

from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.problem import Design, Point, Problem
from hingerank.structures.groups import GroupedSquare


class GroupedProblem(Problem):
    """f(w) = ½‖w‖² + amount · Σ over groups ‖w_g‖ + C · loss(Φ w; preferences), some weights bounded below by 0.

    `at` evaluates the smooth part, ½‖w‖² + C · loss; `total` the whole objective.
    """

    structure: GroupedSquare

    def __init__(self, design: Design, loss: Loss, preferences: Preferences, structure: GroupedSquare, C: float = 1.0):
        super().__init__(design, loss, preferences, structure, C)

    def origin(self) -> float:
        return super().origin() + self.structure.value(np.zeros(self.dimension))

    def total(self, point: Point) -> float:
        """The objective at a point."""
        return point.value + self.structure.extra(point.w)

    def gap(self, point: Point) -> float:
        return self.structure.gap(point.w, point.gradient)

    def least_gain(self, point: Point) -> float:
        return self.structure.conjugate(point.w - point.gradient)

    @cached_property
    def largest_amount(self) -> float:
        """The least amount at which all weights are 0 for C = 1; computed once for all values of C."""
        g = Problem.with_C(self, 1.0).at(np.zeros(self.dimension)).gradient
        return float(self.structure.norms(self.structure.allowed(-g)).max())

    def with_amount(self, amount: float) -> "GroupedProblem":
        """The same problem with another weight of the groups' norms."""
        other = copy(self)
        s = self.structure
        other.structure = GroupedSquare(s.starts, amount, s.bounded)
        return other
