"""The kinds of measures: of graded relevance, of binary relevance, and of pairs, which are counted and never listed."""

import numpy as np

from hingerank.kernels import measures as gains
from hingerank.metrics.measure import Measure, MeasureKind, register
from hingerank.metrics.presets import Preset
from hingerank.metrics.ranked_lists import RankedLists

GAIN_OPTIONS = ("gain", "discount", "ties", "grades", "empty")
RELEVANCE_OPTIONS = ("relevant", "ties", "empty")


def discounts(name: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The discounts of ranks r = 1..depth as a fraction: "log2" 1/log2(r+1); "letor" 1, 1, then ln 2/ln r.

    As a fraction, because LETOR's scripts multiply first and then divide: so all 15 digits they print are reproduced.
    """
    place = np.arange(1.0, depth + 1.0)
    if name == "log2":
        return np.ones(depth), np.log2(place + 1.0)
    late = place > 2.0
    return np.where(late, np.log(2.0), 1.0), np.where(late, np.log(np.maximum(place, 2.0)), 1.0)


def dcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    """DCG@k = sum over the first k ranks r of ``gain(grade at r) · discount(r)``."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = _dcg(lists, lists.gains(chosen.gain, chosen.ties), chosen, k)
    return fill_empty(values, _best(lists, chosen, measure.k) <= 0.0, 0.0, chosen)


def ndcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    """NDCG@k = DCG@k / DCG@k of the best order."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = _dcg(lists, lists.gains(chosen.gain, chosen.ties), chosen, k)
    best = _best(lists, chosen, measure.k)
    values = np.divide(values, best, out=np.zeros_like(values), where=best > 0.0)
    values = fill_empty(values, best <= 0.0, chosen.ndcg_empty, chosen)
    if chosen.short == "zero" and measure.k is not None:
        values[(lists.sizes < measure.k) & ~np.isnan(values)] = 0.0
    return values


def mean_ndcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    """MeanNDCG = mean over the query's n ranks r of NDCG@r."""
    chosen = measure.conventions
    gain, known = lists.among_known(lists.gains(chosen.gain, chosen.ties)), lists.known
    ideal = known.ideal_gains(chosen.gain)
    values = known.per_query(gains.mean_ratio, gain, ideal, *discounts(chosen.discount, known.longest))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, chosen.ndcg_empty, chosen)


def err(lists: RankedLists, measure: Measure) -> np.ndarray:
    """ERR@k = sum over the first k ranks r of ``1/r · R_r · prod_{i<r} (1 - R_i)``, R = (2^g - 1) / 2^max_grade."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    top = max(lists.top_grade, 0.0) if chosen.max_grade is None else chosen.max_grade
    gain = lists.gains("exponential", "stable" if chosen.ties == "average" else chosen.ties)
    values = lists.per_query(gains.cascade, gain / np.exp2(top), *lists.tie_groups(chosen.ties, gain), after=(k,))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, 0.0, chosen)


def fill_empty(values: np.ndarray, empty: np.ndarray, usual: float, chosen: Preset) -> np.ndarray:
    """Set queries without a relevant item to the option ``empty``, or to the measure's usual value."""
    values[empty] = usual if chosen.empty is None else chosen.empty
    return values


def _dcg(lists: RankedLists, gain: np.ndarray, chosen: Preset, k: int) -> np.ndarray:
    return lists.per_query(gains.discounted_sum, gain, *discounts(chosen.discount, k), after=(k,))


def _best(lists: RankedLists, chosen: Preset, k: int | None) -> np.ndarray:
    """DCG@k of the best order of all graded items: 0 only if none has a gain."""
    known = lists.known
    return _dcg(known, known.ideal_gains(chosen.gain), chosen, known.cut(k))


register(
    MeasureKind(
        "ndcg",
        "DCG@k / DCG@k of the best order",
        ndcg,
        aliases=("ndcg_cut", "normalized_dcg"),
        options=(*GAIN_OPTIONS, "short"),
    )
)
register(
    MeasureKind(
        "dcg",
        "Σ gain(g_r) · discount(r) over the first k ranks r",
        dcg,
        aliases=("dcg_cut",),
        options=GAIN_OPTIONS,
    )
)
register(
    MeasureKind(
        "mean_ndcg",
        "mean of NDCG@r over the query's n ranks r",
        mean_ndcg,
        cutoff="none",
        options=GAIN_OPTIONS,
        top=False,
    )
)
register(
    MeasureKind(
        "err",
        "Σ R_r · Π_{i<r}(1 − R_i) / r over the first k ranks, R = (2^g − 1) / 2^max_grade",
        err,
        aliases=("expected_reciprocal_rank",),
        options=("ties", "max_grade", "empty"),
    )
)


def precision(lists: RankedLists, measure: Measure) -> np.ndarray:
    """P@k = relevant items among the first k / k."""
    chosen, k = measure.conventions, measure.k or lists.longest
    values = _hits(lists, measure) / (np.minimum(lists.cut(k), lists.sizes) if chosen.precision == "list" else k)
    if chosen.precision == "zero":
        values[lists.sizes < k] = 0.0
    return fill_empty(values, lists.known.relevant_count(chosen.relevant) == 0, 0.0, chosen)


def recall(lists: RankedLists, measure: Measure) -> np.ndarray:
    """recall@k = relevant items among the first k / relevant items."""
    chosen = measure.conventions
    relevant = lists.known.relevant_count(chosen.relevant)
    return fill_empty(_hits(lists, measure) / np.maximum(relevant, 1), relevant == 0, chosen.recall_empty, chosen)


def average_precision(lists: RankedLists, measure: Measure) -> np.ndarray:
    """AP@k = sum over relevant ranks r <= k of P@r / divisor (all relevant items, or min(relevant items, k))."""
    chosen = measure.conventions
    k = lists.cut(None if chosen.map_divisor == "whole" else measure.k)
    total = lists.per_query(gains.precision_sum, *_relevant_and_ties(lists, measure), after=(k,))
    relevant = lists.known.relevant_count(chosen.relevant)
    divisor = np.minimum(relevant, k) if chosen.map_divisor == "cutoff" else relevant
    return fill_empty(total / np.maximum(divisor, 1), relevant == 0, chosen.map_empty, chosen)


def reciprocal_rank(lists: RankedLists, measure: Measure) -> np.ndarray:
    """RR@k = 1 / rank of the first relevant item, 0 if it is not among the first k."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = lists.per_query(gains.cascade, *_relevant_and_ties(lists, measure), after=(k,))
    return fill_empty(values, lists.known.relevant_count(chosen.relevant) == 0, 0.0, chosen)


def _hits(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen = measure.conventions
    relevant = lists.expected_relevant(chosen.relevant, chosen.ties)
    return lists.per_query(gains.sum_tops, relevant, after=(lists.cut(measure.k),))


def _relevant_and_ties(lists: RankedLists, measure: Measure) -> tuple[np.ndarray, np.ndarray, bool, np.ndarray]:
    chosen = measure.conventions
    relevant = lists.relevant(chosen.relevant, chosen.ties)
    return relevant, *lists.tie_groups(chosen.ties, relevant)


register(
    MeasureKind(
        "p",
        "relevant items among the first k / k",
        precision,
        aliases=("precision", "prec"),
        cutoff="required",
        options=(*RELEVANCE_OPTIONS, "precision"),
    )
)
register(
    MeasureKind(
        "recall",
        "relevant items among the first k / relevant items",
        recall,
        aliases=("r", "rec"),
        cutoff="required",
        options=RELEVANCE_OPTIONS,
    )
)
register(
    MeasureKind(
        "map",
        "Σ P@r over relevant ranks r ≤ k / relevant items",
        average_precision,
        aliases=("ap", "average_precision", "mean_average_precision", "map_cut"),
        options=(*RELEVANCE_OPTIONS, "map_divisor"),
    )
)
register(
    MeasureKind(
        "mrr",
        "1 / rank of the first relevant item, 0 past k",
        reciprocal_rank,
        aliases=("rr", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank"),
        options=RELEVANCE_OPTIONS,
    )
)


def pair_accuracy(lists: RankedLists, measure: Measure) -> np.ndarray:
    """(pairs in the right order + pairs of equal score / 2) / pairs of different grade; nan without such a pair."""
    right, wrong, level, _ = _pairs(lists)
    return _ratio(right + 0.5 * level, right + wrong + level, measure)


def kendall_tau(lists: RankedLists, measure: Measure) -> np.ndarray:
    """tau-b = (right - wrong) / sqrt(pairs of different grade · pairs of different score); nan when one is 0."""
    right, wrong, level, different = _pairs(lists)
    return _ratio(right - wrong, np.sqrt(right + wrong + level) * np.sqrt(different), measure)


def _pairs(lists: RankedLists) -> tuple[np.ndarray, ...]:
    """Per query: pairs ordered right, wrong, of different grade but equal score, of different score."""
    counts, paired = tuple(np.zeros(len(lists.sizes)) for _ in range(4)), lists.paired
    paired.run(gains.count_pairs, paired.grades("stable"), paired.scores("stable"), after=counts)
    return counts


def _ratio(part: np.ndarray, whole: np.ndarray, measure: Measure) -> np.ndarray:
    empty = measure.conventions.empty
    out = np.full(len(part), np.nan if empty is None else empty)
    return np.divide(part, whole, out=out, where=whole > 0.0)


register(
    MeasureKind(
        "pair_accuracy",
        "(pairs in the right order + ½ pairs of equal score) / pairs of different grade",
        pair_accuracy,
        aliases=("pairwise_accuracy", "pair_acc"),
        cutoff="none",
        options=("empty",),
        top=False,
    )
)
register(
    MeasureKind(
        "kendall_tau",
        "τ_b = (right − wrong) / √(pairs of different grade · pairs of different score)",
        kendall_tau,
        aliases=("tau", "tau_b", "kendall", "kendall_tau_b"),
        cutoff="none",
        options=("empty",),
        top=False,
    )
)
