"""Squared losses of pairs: RankRLS's and CRR's."""

import numpy as np

from hingerank.kernels.pair_losses import squared_pass
from hingerank.kernels.threads import run_shards
from hingerank.losses.base import LossAt, PairLoss
from hingerank.losses.listwise import ListLoss, list_weights


class Squared(PairLoss):
    """(1 - t)^2. Its pairs factor, so it costs O(n log G)."""

    name = "squared"

    def pointwise(self, t):
        return (1.0 - t) ** 2, -2.0 * (1.0 - t), np.full_like(t, 2.0)

    def graded(self, s, preferences) -> LossAt:
        return _over_nodes(1.0, s, preferences)


class GradeDifferences(ListLoss):
    """sum over pairs of  ((y_i - y_j) - (s_i - s_j))^2: pairs of different grades, whose distance is to be learnt."""

    name = "grade_differences"
    takes_pair_weights = True

    def lists(self, s, preferences) -> LossAt:
        return _over_nodes(0.0, s - preferences.y, preferences)


class AllDifferences(ListLoss):
    """sum over every two rows of a query of  ((y_i - y_j) - (s_i - s_j))^2, rows of equal grade among them.

    With z = y - s and n rows in a query this is  z^T L z = n · sum of (z_i - mean z)^2, L = n I - 1 1^T: O(n).
    """

    name = "all_differences"

    def lists(self, s, preferences) -> LossAt:
        m, c = list_weights(preferences)
        offsets = preferences.offsets
        starts, sizes = offsets[:-1], np.diff(offsets)
        filled = sizes > 0
        starts, sizes, c = starts[filled], sizes[filled], c[filled]
        if not len(starts):
            return LossAt(0.0, np.zeros(0), np.zeros_like, np.zeros(0))
        mass = np.add.reduceat(m, starts)
        weight = m * np.repeat(c * mass, sizes)

        def centred(v: np.ndarray) -> np.ndarray:
            mean = np.add.reduceat(m * v, starts) / np.where(mass > 0, mass, 1.0)
            return v - np.repeat(mean, sizes)

        z = centred(preferences.y - s)
        share = m / np.repeat(np.where(mass > 0, mass, 1.0), sizes)
        diagonal = 2.0 * weight * (1.0 - share)
        return LossAt(float((weight * z * z).sum()), -2.0 * weight * z, lambda v: 2.0 * weight * centred(v), diagonal)


def _over_nodes(margin: float, s: np.ndarray, preferences) -> LossAt:
    """The sum over pairs of (margin - s_i + s_j)^2."""
    tree, shards = preferences.tree, preferences.shards

    def sweep(v):
        v = np.ascontiguousarray(v, np.float64)
        z, diagonal, pull = np.empty((3, len(s)))
        values = run_shards(lambda ab: squared_pass(margin, s, v, *ab, tree, z, diagonal, pull), shards)
        return float(sum(values)), z, diagonal, pull

    value, z, diagonal, _ = sweep(np.zeros_like(s))
    return LossAt(value, z, lambda v: sweep(v)[3], diagonal)
