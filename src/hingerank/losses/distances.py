"""A pair loss with the weights of NDCG-Loss2 under a ranking: difference of gains times a function of rank distance."""

import numpy as np

from hingerank.arrays import Floats
from hingerank.kernels.distances import KINDS, distance_curvature_pass, distance_pass, distance_table
from hingerank.kernels.threads import run_shards
from hingerank.losses.lists import NdcgSwaps
from hingerank.losses.pairs import Loss, LossAt, PairLoss
from hingerank.preferences import GradedPreferences, QueryPreferences


class RankDistanceLoss(PairLoss):
    """sum over pairs of  c_ij l(s_i - s_j),  c_ij ∝ |2^y_i - 2^y_j| / DCG* · |1/log2(1 + d) - 1/log2(2 + d)|,

    d = |r_i - r_j| the difference of the two ranks in a given ranking: the weights of NDCG-Loss2 (Wang et al. 2018),
    times those of the preferences, scaled so that the total weight of all pairs is unchanged. With fixed ranks the loss
    is convex. Pairs are visited but not stored: O(n_q²) time and O(n_q) memory.

    Parameters
    ----------
    inner : l, "squared_hinge" or "logistic"
    preferences : the graded rows
    scores : by which their queries are ranked; of equal scores the first row ranks higher
    """

    name = "rank_distance"

    def __init__(self, inner: Loss, preferences: GradedPreferences, scores: Floats):
        if not isinstance(inner, PairLoss) or inner.name not in KINDS:
            raise ValueError(f"pair_weight='ndcg' does not support the loss {inner.name!r}: use {' or '.join(KINDS)}")
        self.inner, self.kind, self.ranked = inner, KINDS[inner.name], preferences
        self.gain = NdcgSwaps(preferences).gain if preferences.n_items else np.empty(0)
        offsets = preferences.offsets
        query = np.repeat(np.arange(preferences.n_queries), np.diff(offsets))
        self.place = np.empty(preferences.n_items, np.int64)
        self.place[np.lexsort((-np.asarray(scores, np.float64), query))] = np.arange(len(query)) - offsets[:-1][query]
        self.table = distance_table(int(np.diff(offsets).max(initial=1)))
        start = float(inner.pointwise(np.zeros(1))[0][0])
        total = self.graded(np.zeros(preferences.n_items), preferences).value / start
        self.empty = not total > 0
        self.gain = self.gain if self.empty else self.gain * (preferences.total_weight / total)

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        return self.inner.pointwise(t)

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        if preferences is not self.ranked:
            raise ValueError(
                "these pair weights belong to other rows: make a RankDistanceLoss from the preferences of these rows"
            )
        kind, tree, shards = self.kind, preferences.tree, preferences.shards
        about, (z, diagonal) = (self.gain, self.place, self.table), np.empty((2, len(s)))
        values = run_shards(lambda ab: distance_pass(kind, s, *about, *ab, tree, z, diagonal), shards)

        def curvature(v: Floats) -> Floats:
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: distance_curvature_pass(kind, s, v, *about, *ab, tree, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, diagonal)
