"""What a loss answers, and the plain O(pairs) evaluation that explicit preferences use for every loss."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences


@dataclass(frozen=True)
class LossAt:
    """A loss at one score vector: `value`, `gradient` (n,), and the Hessian through `curvature(v)` and `diagonal`.

    moments: of hinge-type losses, for each term the weight of the active pairs and the sums of (m - t) and (m - t)^2.
    """

    value: float
    gradient: np.ndarray
    curvature: Any  # v -> Hessian v
    diagonal: np.ndarray
    moments: np.ndarray | None = None


class PairLoss(ABC):
    """sum over pairs of weight * l(s_i - s_j)."""

    name: str
    convex = True

    @abstractmethod
    def pointwise(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """l(t), l'(t), l''(t)."""

    @abstractmethod
    def graded(self, s: np.ndarray, preferences: GradedPreferences) -> LossAt:
        """The loss over graded preferences, by the fastest exact way."""

    def at(self, s: np.ndarray, preferences: Preferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        s = np.ascontiguousarray(s, np.float64)
        if isinstance(preferences, ExplicitPairs):
            return self._explicit(s, preferences)
        return self.graded(s, preferences)

    def _explicit(self, s: np.ndarray, pairs: ExplicitPairs) -> LossAt:
        i, j, weight, n = pairs.winners, pairs.losers, pairs.weight, pairs.n_items
        t = s[i] - s[j]
        value, slope, curve = self.pointwise(t)
        slope, curve = weight * slope, weight * curve

        def spread(force: np.ndarray) -> np.ndarray:
            return np.bincount(i, force, n) - np.bincount(j, force, n)

        return LossAt(
            float(weight @ value),
            spread(slope),
            lambda v: spread(curve * (v[i] - v[j])),
            np.bincount(i, curve, n) + np.bincount(j, curve, n),
            self._moments(t, weight),
        )

    def _moments(self, t: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
        return None
