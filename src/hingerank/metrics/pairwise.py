"""Pairwise measures: pair accuracy and Kendall's tau, without listing the pairs."""

import numpy as np

from hingerank.kernels import measures as gains
from hingerank.metrics.measure import Measure, MeasureKind, register
from hingerank.metrics.ranked_lists import RankedLists


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
