"""Listwise losses: ListNet's and ListMLE's likelihoods, sums of squares, and pairs weighted by NDCG changes."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.arrays import Floats, Integers
from hingerank.data.checks import real
from hingerank.kernels.losses import (
    MODIFIED_HUBER,
    average_discounts,
    listmle_curvature_pass,
    listmle_pass,
    listnet_curvature_pass,
    listnet_pass,
    squared_pass,
)
from hingerank.kernels.threads import run_shards
from hingerank.losses.pairs import Loss, LossAt, PairLoss, check_scores, loss_by, product_by, squared_hinge, visit_pairs
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences, QueryPreferences, WeightedWinners

ONE_GRADE = 1e-12  # grades whose relative distance from their mean is less are taken as equal


class ListLoss(ABC):
    """Sum over queries of a function of the query's scores and grades.

    A row of weight 2 counts as two rows; a query's own weight multiplies its term.
    """

    name: str
    convex = by_query = True
    takes_pair_weights = False  # whether weights of single pairs have a meaning

    @abstractmethod
    def lists(self, s: Floats, preferences: Any) -> LossAt:
        """The loss over the lists of graded rows."""

    def winners(self, s: Floats, preferences: WeightedWinners) -> LossAt:
        """The loss over lists with weighted winners, if it has such a form."""
        raise ValueError(
            f"the loss {self.name!r} needs graded lists and cannot learn from winners with weights, such as clicks: "
            "use a pairwise loss, or 'listnet'"
        )

    def at(self, s: Floats, preferences: Preferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        if isinstance(preferences, ExplicitPairs):
            raise ValueError(
                f"the loss {self.name!r} needs graded lists and cannot learn from single comparisons: use a pair loss"
            )
        if preferences.pairs_differ and not self.takes_pair_weights:
            raise ValueError(
                f"the loss {self.name!r} is a function of whole lists and takes no weights of pairs: leave out "
                "pair_weight='query', grade_weight and winner_weight"
            )
        s = check_scores(s, preferences)
        if isinstance(preferences, WeightedWinners):
            return self.winners(s, preferences)
        return self.lists(s, preferences)


def list_weights(preferences: GradedPreferences) -> tuple[Floats, Floats]:
    """Row weights and query weights, 1 where none are given."""
    m, c = preferences.item_weight, preferences.query_weight
    return (
        np.ones(preferences.n_items) if m is None else m,
        np.ones(preferences.n_queries) if c is None else c,
    )


class TopOne(ListLoss):
    """-sum_i P_y(i) log P_s(i),  P_s(i) = exp(s_i) / sum_j exp(s_j),  P_y(i) = exp(y_i) / sum_j exp(y_j)  (ListNet).

    P(i) is the Plackett-Luce probability that row i comes first. For weighted winners: -sum_i u_i log P_s(i), which is
    the same with P_y(i) = u_i / sum_j u_j, times sum_j u_j. O(n).
    """

    name = "listnet"

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        return self._cross_entropy(s, preferences.y, *list_weights(preferences), preferences)

    def winners(self, s: Floats, preferences: WeightedWinners) -> LossAt:
        y, c = preferences.targets()
        return self._cross_entropy(s, y, np.ones(len(s)), c, preferences)

    def _cross_entropy(self, s: Floats, y: Floats, m: Floats, c: Floats, preferences: QueryPreferences) -> LossAt:
        offsets, shards = preferences.offsets, preferences.shards
        z, p = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: listnet_pass(s, y, m, c, offsets, *ab, z, p), shards)
        curvature = product_by(lambda v, ab, out: listnet_curvature_pass(p, v, c, offsets, *ab, out), shards)
        diagonal = p * (1.0 - p) * np.repeat(c, np.diff(offsets))
        return LossAt(float(sum(values)), z, curvature, diagonal)


class PlackettLuce(ListLoss):
    """sum over rows i of  -log( exp(s_i) / (exp(s_i) + sum over j of lower grade of exp(s_j)) )  (ListMLE).

    For grades without ties this is minus the log-likelihood of the graded order under the Plackett-Luce model. Rows of
    equal grade do not compete: their order is unknown and none is assumed (drawing one, as is common, would make the
    result depend on the order of the file). The sum is an upper bound on minus the log-probability that every better
    row precedes every worse one. The rows of a query's lowest grade cost nothing. O(n), with rows sorted by grade.
    """

    name = "listmle"

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        (m, c), tree, shards = list_weights(preferences), preferences.tree, preferences.shards
        z, diagonal = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: listmle_pass(s, m, c, *ab, tree, z, diagonal), shards)
        curvature = product_by(lambda v, ab, out: listmle_curvature_pass(s, v, m, c, *ab, tree, out), shards)
        return LossAt(float(sum(values)), z, curvature, diagonal)


class Squared(PairLoss):
    """(1 - t)^2. The sum over pairs factors, so it costs O(n log G)."""

    name = "squared"

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        return (1.0 - t) ** 2, -2.0 * (1.0 - t), np.full_like(t, 2.0)

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        return _over_nodes(1.0, s, preferences)


class GradeDifferences(ListLoss):
    """Sum over pairs of  ((y_i - y_j) - (s_i - s_j))^2: differences of scores should equal differences of grades."""

    name = "grade_differences"
    takes_pair_weights = True

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        return _over_nodes(0.0, s - preferences.y, preferences)


class GradeMargins(ListLoss):
    """Sum over pairs of  max(0, (y_i - y_j) - (s_i - s_j))^2: a better row should lead by at least its lead in grade.

    The one-sided form of grade differences, in which too large a lead costs nothing (the hinge form of the
    magnitude-preserving losses of Cortes, Mohri & Rastogi 2007). As a function of s - y it is the squared hinge with
    margin 0, and uses the same sweeps: O(n log n).
    """

    name = "grade_margins"
    takes_pair_weights = True

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        return replace(squared_hinge(0.0).at(s - preferences.y, preferences), moments=None)


class AllDifferences(ListLoss):
    """Sum over all two rows of a query of  ((y_i - y_j) - (s_i - s_j))^2, including rows of equal grade.

    With z = y - s and n rows in a query this is  z^T L z = n · sum of (z_i - mean z)^2, L = n I - 1 1^T: O(n).
    """

    name = "all_differences"

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        queries = Queries(preferences)
        m, mass, factor = queries.m, queries.mass, queries.c * queries.mass

        def weighted(z: Floats) -> Floats:
            return np.asarray(2.0 * m * queries.at_rows(factor) * z)

        z = queries.centred(preferences.y - s)
        slope = weighted(z)
        diagonal = weighted(1.0 - m / queries.at_rows(np.where(mass > 0, mass, 1.0)))
        return LossAt(
            0.5 * float(np.einsum("i,i->", slope, z)), -slope, lambda v: weighted(queries.centred(v)), diagonal
        )


class Queries:
    """Weighted sums over each query that has rows, of one number per row.

    m: weights of the rows, or 1; c and mass: for each query, its own weight and the sum of its rows' weights.
    """

    def __init__(self, preferences: GradedPreferences):
        sizes = np.diff(preferences.offsets)
        filled = sizes > 0
        self.starts, self.sizes = preferences.offsets[:-1][filled], sizes[filled]
        self.m: Floats | float = 1.0 if preferences.item_weight is None else preferences.item_weight
        self.c = list_weights(preferences)[1][filled]
        self.mass = self.sums(np.ones(preferences.n_items))

    def sums(self, v: Floats) -> Floats:
        """Σ m v of each query."""
        return np.add.reduceat(self.m * v, self.starts) if len(self.starts) else np.zeros(0)

    def at_rows(self, of_query: Floats) -> Floats:
        """One number per query, repeated for each of its rows."""
        return np.repeat(of_query, self.sizes)

    def centred(self, v: Floats) -> Floats:
        """v minus its mean in its query."""
        return v - self.at_rows(self.sums(v) / np.where(self.mass > 0, self.mass, 1.0))


class Cosine(ListLoss):
    """Sum over queries of  ½ (1 - a / sqrt(1 + z·z)),  a = z·u,  z = s - mean s,  u = (y - mean y) / ‖y - mean y‖.

    RankCosine's loss: (1 - cosine) / 2 between scores and grades. Both are centred within their query here, so that a
    shift of the scores changes nothing, and the 1 under the root makes the loss smooth and defined at s = 0.
    Between 0 and 1, not convex; queries of one grade cost nothing. O(n).
    """

    name = "cosine"
    convex = False

    def lists(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        queries = Queries(preferences)
        m, c, sums, at_rows, centred = queries.m, queries.c, queries.sums, queries.at_rows, queries.centred
        u = centred(preferences.y)
        u = np.where(np.abs(u) > ONE_GRADE * np.abs(preferences.y), u, 0.0)
        length = at_rows(np.sqrt(sums(u * u)))
        u = np.divide(u, length, out=np.zeros_like(u), where=length > 0)
        z, counts = centred(s), sums(u * u) > 0
        a, N = sums(u * z), np.hypot(1.0, np.sqrt(sums(z * z)))
        half = np.where(counts, 0.5 * c, 0.0)

        def curvature(v: Floats) -> Floats:
            uv, zv = sums(u * v), sums(z * v)
            moved = u * at_rows(half * zv / N**3) + z * at_rows(half * (uv / N**3 - 3.0 * a * zv / N**5))
            return np.asarray(m * (moved + at_rows(half * a / N**3) * centred(v)))

        share = 1.0 - m / at_rows(np.where(queries.mass > 0, queries.mass, 1.0))
        diagonal = at_rows(half / N**3) * (2.0 * m * u * z) + at_rows(half * a / N**3) * share
        diagonal -= at_rows(half * 3.0 * a / N**5) * m * z * z
        gradient = m * (z * at_rows(half * a / N**3) - u * at_rows(half / N))
        return LossAt(float((half * (1.0 - a / N)).sum()), gradient, curvature, m * diagonal)


def _over_nodes(margin: float, s: Floats, preferences: QueryPreferences) -> LossAt:
    """The sum over pairs of (margin - s_i + s_j)^2."""
    tree = preferences.tree
    return loss_by(lambda v, ab, *out: squared_pass(margin, s, v, *ab, tree, *out), len(s), preferences.shards)


class WithRegression:
    """alpha · mean over rows of (y_i - b - s_i)^2  +  (1 - alpha) · mean over pairs of another loss.

    b is the best intercept, the mean of y - s, so the first part is the variance of y - s over all rows: regression
    compares rows of different queries, as a squared pairwise loss compares those of one query.
    """

    by_query = False

    def __init__(self, loss: Loss, alpha: float):
        if not 0.0 <= real(alpha) <= 1.0:
            raise ValueError(f"alpha must be a number from 0 (ranking only) to 1 (regression only), not {alpha!r}")
        self.loss, self.alpha, self.name, self.convex = loss, float(alpha), f"{loss.name} + regression", loss.convex

    def weights(self, preferences: GradedPreferences) -> tuple[float, float]:
        """Factors that turn a sum over rows, and one over pairs, into their parts of the loss."""
        weight, pairs = preferences.item_weight, preferences.total_weight
        rows = preferences.n_items if weight is None else weight.sum()
        return self.alpha / rows if rows > 0 else 0.0, (1.0 - self.alpha) / pairs if pairs > 0 else 0.0

    def around(self, rows: float, pairs: float, mean: float) -> "RegressionAround":
        """The same loss as a sum over queries, for scores centred over all rows.

        mean: of all rows' y; rows, pairs: the result of `weights` for all rows."""
        return RegressionAround(self.loss, rows, pairs, mean)

    def at(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        rows, pairs = self.weights(preferences)
        weight = preferences.item_weight
        m = np.ones(len(s)) if weight is None else weight
        mass = max(float(m.sum()), np.finfo(float).tiny)
        here = self.loss.at(s, preferences)

        def centred(v: Floats) -> Floats:
            return v - float((m * v).sum()) / mass

        z = centred(preferences.y - s)
        return LossAt(
            rows * float((m * z * z).sum()) + pairs * here.value,
            pairs * here.gradient - 2.0 * rows * m * z,
            lambda v: pairs * here.curvature(v) + 2.0 * rows * m * centred(v),
            pairs * here.diagonal + 2.0 * rows * m * (1.0 - m / mass),
        )


class RegressionAround:
    """rows · sum over rows of (y_i - mean - s_i)^2  +  pairs · another loss, a sum over queries.

    It equals `WithRegression` only if the mean of s over all rows is 0, as with centred features.
    """

    by_query = True

    def __init__(self, loss: Loss, rows: float, pairs: float, mean: float):
        self.loss, self.rows, self.pairs, self.mean = loss, rows, pairs, mean
        self.name, self.convex = f"{loss.name} + regression", loss.convex

    def weights(self, preferences: GradedPreferences) -> tuple[float, float]:
        """The factors of `WithRegression` for all rows."""
        return self.rows, self.pairs

    def at(self, s: Floats, preferences: GradedPreferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        m: Floats | float = 1.0 if preferences.item_weight is None else preferences.item_weight
        here, rows, pairs = self.loss.at(s, preferences), self.rows, self.pairs
        z, curvature = preferences.y - self.mean - s, here.curvature
        return LossAt(
            rows * float((m * z * z).sum()) + pairs * here.value,
            pairs * here.gradient - 2.0 * rows * m * z,
            lambda v: pairs * curvature(v) + 2.0 * rows * m * v,
            pairs * here.diagonal + 2.0 * rows * m,
        )


LONGEST = 1 << 16  # ranks with a discount of their own; later ones have that of the last


class NdcgSwaps:
    """L(s) = sum over pairs of  W_ij psi(s_i - s_j),  W_ij = (2^y_i - 2^y_j) |D_i - D_j| / DCG*,  D = 1/log2(1 + rank).

    psi is the modified Huber loss, ranks are those of the scores given to `rank`, DCG* the best DCG of the query; a
    query without relevant rows has no weight. Rows of weight m fill m ranks; equal scores share their ranks.
    """

    def __init__(self, preferences: GradedPreferences, item_weight: Floats | None = None, depth: int | None = None):
        self.preferences = preferences
        self.weight = np.ones(preferences.n_items) if item_weight is None else item_weight
        totals = np.add.reduceat(self.weight, preferences.offsets[:-1])
        self.filled = discount_sums(float(totals.max()), depth)
        self.gain = normalised_gains(preferences.y, preferences.offsets, self.weight, self.discounts(preferences.y))
        self.discount = np.zeros(preferences.n_items)

    def discounts(self, s: Floats) -> Floats:
        """Each row's discount when queries are ranked by s."""
        s, order, out = np.ascontiguousarray(s, np.float64), np.empty(len(s), np.int64), np.empty(len(s))
        offsets, shards = self.preferences.offsets, self.preferences.shards
        run_shards(lambda ab: average_discounts(s, self.weight, offsets, *ab, self.filled, order, out), shards)
        return out

    def ndcg(self, s: Floats) -> float:
        """Mean NDCG over queries when ranked by s."""
        return float((self.weight * self.gain * self.discounts(s)).sum() / self.preferences.n_queries)

    def rank(self, s: Floats) -> None:
        """Set the pairs' weights from the ranking by s."""
        self.discount = self.discounts(s)

    def at(self, s: Floats) -> LossAt:
        """The loss at scores s with the weights last set. At s = 0 its curvature is largest, for every pair."""
        return visit_pairs(MODIFIED_HUBER, s, self.preferences, (self.gain, self.discount))


def discount_sums(places: float, depth: int | None) -> Floats:
    """Sums of the first 0, 1, 2, ... discounts 1/log2(1 + rank), 0 from rank depth + 1 on."""
    length = min(int(np.ceil(places)), LONGEST) + 2
    discounts = 1.0 / np.log2(np.arange(2, length + 1))
    if depth is not None:
        discounts[depth:] = 0.0
    return np.concatenate(([0.0], np.cumsum(discounts)))


def normalised_gains(y: Floats, offsets: Integers, weight: Floats, ideal: Floats) -> Floats:
    """(2^y - 1) / DCG*, grades below 0 counting as 0; 0 throughout a query without a relevant row."""
    top = np.maximum.reduceat(np.maximum(y, 0.0), offsets[:-1])
    top = np.repeat(top, np.diff(offsets))
    gain = np.exp2(np.maximum(y, 0.0) - top) - np.exp2(-top)  # divided by 2^top: large grades stay finite
    best = np.repeat(np.add.reduceat(weight * gain * ideal, offsets[:-1]), np.diff(offsets))
    normalised: Floats = np.divide(gain, best, out=np.zeros_like(gain), where=best > 0)
    return normalised
