"""A loss of rows with ordered grades: each score should be on the right side of every threshold between grades."""

from typing import Any

import numpy as np

from hingerank.arrays import Floats
from hingerank.losses.pairs import LossAt, PairLoss, check_scores
from hingerank.preferences import GradedPreferences

STEPS, EXACT = 100, 1e-14  # most steps of the search for a threshold, and the relative width at which it stops


class Ordinal:
    """min over b of  sum over rows i and thresholds k of  l(±(s_i - b_k)),  + where the grade of i is above k.

    There is a threshold between every two neighbouring grades, and l is a smooth pairwise loss: a threshold takes the
    role of the other row. The best thresholds are computed for each s, so this is a function of s alone, convex like l;
    its gradient is the partial one, and its Hessian that of s and b with b eliminated (the Schur complement). The rows
    above k + 1 are among those above k, so the best thresholds ascend. Queries have no effect. O(n G).
    """

    by_query = False

    def __init__(self, loss: PairLoss):
        self.loss, self.name, self.convex = loss, f"{loss.name} of thresholds", loss.convex

    def at(self, s: Floats, preferences: Any) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        if not isinstance(preferences, GradedPreferences):
            raise ValueError(
                f"the loss {self.name!r} cannot learn from winners or single comparisons: give rows with grades"
            )
        s, y = check_scores(s, preferences), preferences.y
        m = np.ones(len(s)) if preferences.item_weight is None else preferences.item_weight
        value, gradient, curvatures = 0.0, np.zeros(len(s)), []
        for side, b in zip(sides(y, m), self.thresholds(s, y, m), strict=True):
            cost, slope, curvature = self.loss.pointwise(side * (s - b))
            value += float(m @ cost)
            gradient += m * side * slope
            curvatures.append(m * curvature)
        totals = [max(float(c.sum()), np.finfo(float).tiny) for c in curvatures]

        def product(v: Floats) -> Floats:
            each = (c * (v - float(c @ v) / total) for c, total in zip(curvatures, totals, strict=True))
            return sum(each, np.zeros(len(s)))

        diagonal = sum((c * (1.0 - c / t) for c, t in zip(curvatures, totals, strict=True)), np.zeros(len(s)))
        return LossAt(value, gradient, product, diagonal)

    def thresholds(self, s: Floats, y: Floats, m: Floats) -> Floats:
        """The best thresholds for scores s, ascending; y, m: grades and weights of the rows."""
        return np.array([self._threshold(s, side, m) for side in sides(y, m)])

    def _threshold(self, s: Floats, side: Floats, m: Floats) -> float:
        """The zero of the slope in b, which never decreases, by Newton's method within a bracket."""

        def slope(b: float) -> tuple[float, float]:
            _, first, second = self.loss.pointwise(side * (s - b))
            return -float(m @ (side * first)), float(m @ second)

        low, high, width = float(s.min()), float(s.max()), 1.0
        while slope(low - width)[0] > 0 or slope(high + width)[0] < 0:
            width *= 2.0
        low, high = low - width, high + width
        b = 0.5 * (low + high)
        for _ in range(STEPS):
            first, second = slope(b)
            low, high = (low, b) if first > 0 else (b, high) if first < 0 else (b, b)
            if high - low <= EXACT * max(1.0, abs(b)):
                break
            step = b - first / second if second > 0 else np.inf
            b = step if low < step < high else 0.5 * (low + high)
            if step == b and abs(first) <= EXACT * second * max(1.0, abs(b)):
                break
        return b


def sides(y: Floats, m: Floats) -> list[Floats]:
    """For each threshold between the grades of rows with a weight, 1 for rows above it and -1 for those below."""
    grades = np.unique(y[m > 0])
    return [np.where(y > grade, 1.0, -1.0) for grade in grades[:-1]]
