"""Pairs weighted by what swapping them would change NDCG, in the ranking at hand (Sun, Qin, Tao & Wang 2009)."""

import numpy as np

from hingerank.kernels.discounts import average_discounts, swap_curvature_pass, swap_pass
from hingerank.kernels.threads import run_shards
from hingerank.preferences import GradedPreferences

LONGEST = 1 << 16  # places with a discount of their own; later ones have that of the last


class NdcgSwaps:
    """L(s) = sum over pairs of  W_ij psi(s_i - s_j),  W_ij = (2^y_i - 2^y_j) |D_i - D_j| / DCG*,  D = 1/log2(1 + rank).

    psi is the modified Huber loss, ranks are those of the scores given to `rank`, DCG* the best DCG of the query; a
    query without relevant rows weighs nothing. Rows of weight m fill m places, equal scores share their places.
    """

    def __init__(self, preferences: GradedPreferences, item_weight: np.ndarray | None = None, depth: int | None = None):
        self.preferences = preferences
        self.weight = np.ones(preferences.n_items) if item_weight is None else item_weight
        totals = np.add.reduceat(self.weight, preferences.offsets[:-1])
        self.filled = discount_sums(float(totals.max()), depth)
        self.gain = normalised_gains(preferences.y, preferences.offsets, self.weight, self.discounts(preferences.y))
        self.discount = np.zeros(preferences.n_items)

    def discounts(self, s: np.ndarray) -> np.ndarray:
        """Each row's discount when queries are ranked by s."""
        s, order, out = np.ascontiguousarray(s, np.float64), np.empty(len(s), np.int64), np.empty(len(s))
        offsets, shards = self.preferences.offsets, self.preferences.shards
        run_shards(lambda ab: average_discounts(s, self.weight, offsets, *ab, self.filled, order, out), shards)
        return out

    def ndcg(self, s: np.ndarray) -> float:
        """Mean NDCG over queries of ranking by s."""
        return float((self.weight * self.gain * self.discounts(s)).sum() / self.preferences.n_queries)

    def rank(self, s: np.ndarray) -> None:
        """Take the pairs' weights from the ranking by s."""
        self.discount = self.discounts(s)

    def at(self, s: np.ndarray) -> tuple[float, np.ndarray]:
        """(value, gradient in s) with the weights last taken."""
        z, tree = np.empty(len(s)), self.preferences.tree
        parts = run_shards(lambda ab: swap_pass(s, self.gain, self.discount, *ab, tree, z), self.preferences.shards)
        return float(sum(parts)), z

    def curvature(self, v: np.ndarray) -> np.ndarray:
        """A bound on the Hessian, times v, with the weights last taken."""
        z, tree = np.empty(len(v)), self.preferences.tree
        run_shards(lambda ab: swap_curvature_pass(v, self.gain, self.discount, *ab, tree, z), self.preferences.shards)
        return z


def discount_sums(places: float, depth: int | None) -> np.ndarray:
    """Sums of the first 0, 1, 2, ... discounts 1/log2(1 + rank), 0 from rank depth + 1 on."""
    length = min(int(np.ceil(places)), LONGEST) + 2
    discounts = 1.0 / np.log2(np.arange(2, length + 1))
    if depth is not None:
        discounts[depth:] = 0.0
    return np.concatenate(([0.0], np.cumsum(discounts)))


def normalised_gains(y: np.ndarray, offsets: np.ndarray, weight: np.ndarray, ideal: np.ndarray) -> np.ndarray:
    """(2^y - 1) / DCG*, grades below 0 counting as 0; 0 throughout a query without a relevant row."""
    top = np.maximum.reduceat(np.maximum(y, 0.0), offsets[:-1])
    top = np.repeat(top, np.diff(offsets))
    gain = np.exp2(np.maximum(y, 0.0) - top) - np.exp2(-top)  # divided by 2^top: large grades stay finite
    best = np.repeat(np.add.reduceat(weight * gain * ideal, offsets[:-1]), np.diff(offsets))
    return np.divide(gain, best, out=np.zeros_like(gain), where=best > 0)
