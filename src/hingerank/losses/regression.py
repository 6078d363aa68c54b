"""Regression on grades beside a loss of pairs, as in combined regression and ranking (Sculley 2010)."""

from typing import Any

import numpy as np

from hingerank.losses.base import LossAt
from hingerank.preferences import GradedPreferences


class WithRegression:
    """alpha · mean over rows of (y_i - b - s_i)^2  +  (1 - alpha) · mean over pairs of another loss.

    b is the best intercept, the mean of y - s, so the first part is the variance of y - s over all rows: regression
    asks of rows of different queries what a squared loss of pairs asks of those of one query.
    """

    def __init__(self, loss: Any, alpha: float):
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be a number from 0 (ranking only) to 1 (regression only), not {alpha!r}")
        self.loss, self.alpha, self.name, self.convex = loss, float(alpha), f"{loss.name} + regression", loss.convex

    def shares(self, preferences: GradedPreferences) -> tuple[float, float]:
        """Factors that make a sum over rows, and one over pairs, their part of the loss."""
        weight, pairs = preferences.item_weight, preferences.total_weight
        rows = preferences.n_items if weight is None else weight.sum()
        return self.alpha / rows if rows > 0 else 0.0, (1.0 - self.alpha) / pairs if pairs > 0 else 0.0

    def at(self, s: np.ndarray, preferences: GradedPreferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        rows, pairs = self.shares(preferences)
        weight = preferences.item_weight
        m = np.ones(len(s)) if weight is None else weight
        mass = max(float(m.sum()), np.finfo(float).tiny)
        here = self.loss.at(s, preferences)

        def centred(v: np.ndarray) -> np.ndarray:
            return v - (m * v).sum() / mass

        z = centred(preferences.y - s)
        return LossAt(
            rows * float((m * z * z).sum()) + pairs * here.value,
            pairs * here.gradient - 2.0 * rows * m * z,
            lambda v: pairs * here.curvature(v) + 2.0 * rows * m * centred(v),
            pairs * here.diagonal + 2.0 * rows * m * (1.0 - m / mass),
        )
