"""Measures of binary relevance: precision, recall, average precision, reciprocal rank."""

import numpy as np

from hingerank.kernels import measures as gains
from hingerank.metrics.graded import fill_empty
from hingerank.metrics.measure import Measure, MeasureKind, register
from hingerank.metrics.ranked_lists import RankedLists

RELEVANCE_OPTIONS = ("relevant", "ties", "empty")


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
