"""Hinge-type losses: weighted sums of hinges and squared hinges at given margins, evaluated without listing pairs."""

import numpy as np

from hingerank.kernels.passes import WindowState, curvature_pass, score_pass
from hingerank.kernels.threads import run_shards
from hingerank.losses.base import LossAt, PairLoss
from hingerank.preferences import GradedPreferences


class WindowLoss(PairLoss):
    """l(t) = sum over terms (m, a, b) of  a max(0, m - t) + b max(0, m - t)^2."""

    def __init__(self, name: str, terms):
        self.name = name
        self.terms = np.array(terms, np.float64).reshape(-1, 3)

    def pointwise(self, t):
        value, slope, curve = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for margin, a, b in self.terms:
            gap, inside = np.maximum(margin - t, 0.0), (t < margin).astype(t.dtype)
            value += a * gap + b * gap**2
            slope -= a * inside + 2 * b * gap
            curve += 2 * b * inside
        return value, slope, curve

    def value(self, moments: np.ndarray) -> float:
        """The loss from the moments of its terms' active pairs."""
        return float((self.terms[:, 1:] * moments[:, 1:]).sum())

    def _moments(self, t, weight):
        gaps = np.maximum(self.terms[:, :1] - t, 0.0)
        return np.stack([(gaps > 0) @ weight, gaps @ weight, gaps**2 @ weight], axis=1)

    def state(self, preferences: GradedPreferences) -> WindowState:
        """Room for the windows of one iterate; the sorted order inside is the start of the next sort."""
        tree, n = preferences.tree, preferences.n_items
        slots = int((tree.node[:, 1] - tree.node[:, 0] + tree.node[:, 3] - tree.node[:, 2]).sum())
        order = np.arange(n, dtype=np.int32) - np.repeat(tree.offsets[:-1], np.diff(tree.offsets)).astype(np.int32)
        window = np.empty((len(self.terms), slots), np.int32)
        return WindowState(order, np.empty(slots, np.int32), window, np.zeros(n))

    def graded(self, s, preferences) -> LossAt:
        tree, terms, shards = preferences.tree, self.terms, preferences.shards
        state, z = self.state(preferences), np.empty_like(s)
        moments = np.sum(run_shards(lambda ab: score_pass(s, *ab, tree, state, terms, z), shards), axis=0)

        def curvature(v):
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: curvature_pass(v, *ab, tree, state, terms, out), shards)
            return out

        diagonal = np.empty_like(s)
        diagonal[preferences.row_at] = state.degree
        return LossAt(self.value(moments), z, curvature, diagonal, moments)


def hinge(margin: float = 1.0) -> WindowLoss:
    """max(0, margin - t)."""
    return WindowLoss("hinge", [(margin, 1.0, 0.0)])


def squared_hinge(margin: float = 1.0) -> WindowLoss:
    """max(0, margin - t)^2."""
    return WindowLoss("squared_hinge", [(margin, 0.0, 1.0)])


def modified_huber() -> WindowLoss:
    """0 for t >= 1, (1 - t)^2 on [-1, 1], -4t below: the squared hinge at 1 less the one at -1."""
    return WindowLoss("modified_huber", [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)])


def smoothed_hinge(width: float = 1.0, margin: float = 1.0) -> WindowLoss:
    """The hinge with its kink rounded over `width`: (m - t)^2 / 2width near m, m - t - width/2 below m - width.

    Computed as the difference of two squared hinges, it loses about log10(|t| / width) digits.
    """
    if not width > 0:
        raise ValueError(f"width must be positive, not {width!r}")
    return WindowLoss("smoothed_hinge", [(margin, 0.0, 0.5 / width), (margin - width, 0.0, -0.5 / width)])
