"""Losses of whole rankings: the structural hinge of average precision, expected NDCG, and pairs weighted by the swap or
the distance of their ranks."""

import numpy as np

from hingerank.arrays import Floats
from hingerank.kernels.losses import LOGISTIC, SQUARED_HINGE
from hingerank.kernels.rankings import average_precision_pass, soft_ndcg_pass
from hingerank.kernels.threads import run_shards
from hingerank.losses.lists import ListLoss, NdcgSwaps, list_weights
from hingerank.losses.pairs import Loss, LossAt, PairLoss, visit_pairs
from hingerank.preferences import GradedPreferences, QueryPreferences


class RankingLoss(ListLoss):
    """A loss of whole rankings, in which each row has one rank: row weights have no meaning."""

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        if preferences.item_weight is not None:
            raise ValueError(
                f"the loss {self.name!r} is defined on whole rankings and takes no sample_weight: leave it out"
            )
        return self.rankings(s, preferences)

    def rankings(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        """The loss over graded rows."""
        raise NotImplementedError


class AveragePrecision(RankingLoss):
    """sum over queries of  max over rankings π of  1 - AP(π) + Ψ(π) - Ψ(π*)  (SVM-MAP's structural hinge),

    Ψ(π) = mean over relevant i and other j of  ±(s_i - s_j),  + where π has i above j; π* has all relevant rows first.
    Rows with a grade of at least `relevant` are relevant; a query without relevant or without other rows costs nothing.
    Convex, and an upper bound on 1 - AP of the ranking by s; the worst ranking is found exactly, in O(n log n). It is
    piecewise linear: its curvature is returned as 0.
    """

    name = "average_precision"

    def __init__(self, relevant: float = 1.0):
        self.relevant = relevant

    def rankings(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        offsets, shards, z = preferences.offsets, preferences.shards, np.zeros_like(s)
        c, relevant = list_weights(preferences)[1], preferences.y >= self.relevant
        longest = int(np.diff(offsets).max(initial=0))
        harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, longest + 1))))
        parts = run_shards(lambda ab: average_precision_pass(s, relevant, c, offsets, *ab, harmonic, z), shards)
        return LossAt(float(sum(parts)), z, np.zeros_like, np.zeros_like(s))


class ExpectedNdcg(RankingLoss):
    """sum over queries of  1 - sum_i g_i E[D(rank of i)],  scores drawn from N(s_i, 1)  (SoftRank's loss).

    g = (2^y - 1) / DCG*, D = 1/log2(1 + rank) for the first `depth` ranks (None: for all). As in the paper, the rank of
    i is one plus a sum of independent events, one for each other row j: that j is drawn above i. Smooth, not convex;
    queries without a relevant row cost nothing. The variance is 1, since another variance only rescales s. The
    curvature is not computed.
    """

    name = "expected_ndcg"
    convex = False

    def __init__(self, depth: int | None = None):
        self.depth = depth

    def rankings(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        offsets, z = preferences.offsets, np.zeros_like(s)
        swaps, c = NdcgSwaps(preferences, depth=self.depth), list_weights(preferences)[1]
        discount, gain = np.diff(swaps.filled)[: self.depth], swaps.gain
        parts = run_shards(lambda ab: soft_ndcg_pass(s, gain, c, offsets, *ab, discount, z), preferences.shards)
        return LossAt(float(sum(parts)), z, np.zeros_like, np.zeros_like(s))


class LambdaLoss(ListLoss):
    """sum over pairs of  W_ij log(1 + exp(-(s_i - s_j))),  W_ij = (2^y_i - 2^y_j) |D_i - D_j| / DCG*  (LambdaRank).

    W is the change of NDCG when i and j swap ranks in the ranking last given to `rank`. For fixed W this is a convex
    function of s; its gradient at the scores of that ranking gives LambdaRank's lambdas. With W updated along the way,
    the lambdas are not the gradient of any function.
    """

    name = "lambda"
    convex = by_query = False  # not by_query, as the weights are stored for all rows
    takes_pair_weights = True

    def __init__(self, preferences: GradedPreferences, depth: int | None = None):
        self.swaps = NdcgSwaps(preferences, preferences.item_weight, depth)

    def rank(self, s: Floats) -> None:
        """Set the pairs' weights from the ranking by s."""
        self.swaps.rank(s)

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        return visit_pairs(LOGISTIC, s, preferences, (self.swaps.gain, self.swaps.discount))


KINDS = {"squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}  # losses of pairs that may be weighted by their ranks


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
    by_query = False  # as the ranks are stored for all rows

    def __init__(self, inner: Loss, preferences: GradedPreferences, scores: Floats):
        if not isinstance(inner, PairLoss) or inner.name not in KINDS:
            raise ValueError(f"pair_weight='ndcg' does not support the loss {inner.name!r}: use {' or '.join(KINDS)}")
        self.inner, self.ranked = inner, preferences
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
        return visit_pairs(KINDS[self.inner.name], s, preferences, (self.gain, self.place, self.table))


def distance_table(longest: int) -> np.ndarray:
    """1/log2(1 + d) - 1/log2(2 + d) for d = 0 ... longest, 0 at 0: the largest change of DCG by a swap at distance d.

    >>> distance_table(2).round(3).tolist()
    [0.0, 0.369, 0.131]
    """
    discount = 1.0 / np.log2(1.0 + np.arange(1, longest + 2))
    return np.concatenate(([0.0], discount[:-1] - discount[1:]))
