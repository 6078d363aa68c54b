"""Measures of graded relevance: DCG, NDCG, MeanNDCG and ERR."""

import numpy as np

from hingerank.kernels import measures as gains
from hingerank.metrics.measure import Measure, MeasureKind, register
from hingerank.metrics.presets import Preset
from hingerank.metrics.ranked_lists import RankedLists

GAIN_OPTIONS = ("gain", "discount", "ties", "grades", "empty")


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
