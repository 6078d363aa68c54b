"""The kinds of measures: of graded relevance, of binary relevance, and of pairs, which are counted and never listed.

All read `RankedLists`: the queries of one call, sorted by score once and shared by all its measures.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from hingerank.kernels import measures as kernels
from hingerank.kernels import order as orders
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.metrics.measure import MEASURES, Measure, MeasureKind, Preset, register

ROWS_PER_SHARD = 16384
MOST_TOP = 64  # up to this depth the top ranks are found by insertion instead of sorting the list
GAIN_OPTIONS = ("gain", "discount", "ties", "grades", "empty")
Values = Callable[["RankedLists", Measure], np.ndarray]
RELEVANCE_OPTIONS = ("relevant", "ties", "empty")


class RankedLists:
    """Grades, scores and query blocks, and intermediate results of measures, each computed on first use.

    A rule orders equal scores: that of the same name as the tie rule of a measure, and "stable" for "average", which
    then averages over equal scores.

    Parameters
    ----------
    y, scores : float64, in block order
    offsets : block borders
    measures : that will be read, and decide how many ranks are needed; none: all ranks
    by_docid : rows of every block by decreasing docid, or None
    known : the same queries with all their graded items, if some are missing from the rankings
        Their ideal rankings and their relevant items are what a ranking is compared with.
    paired : the same queries with only the items that have both a rank and a grade
    top_grade : the highest grade of the scale; None: the largest grade here
    """

    def __init__(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        offsets: np.ndarray,
        measures: Iterable[Measure] = (),
        by_docid: np.ndarray | None = None,
        *,
        known: "RankedLists | None" = None,
        paired: "RankedLists | None" = None,
        top_grade: float | None = None,
    ) -> None:
        self.y, self.offsets, self.sizes = y, offsets, np.diff(offsets)
        self.known, self.paired, self.top_grade = known, paired, top_grade
        self.longest = int(self.sizes.max(initial=0))
        self._scores, self._by_docid = scores, by_docid
        self._depth: dict[str, int] = {}  # tie rule -> ranks that are read
        self._averaging = False
        for measure in measures:
            kind, ties = MEASURES[measure.kind], measure.conventions.ties
            whole = not kind.top or (measure.kind == "map" and measure.conventions.map_divisor == "whole")
            if whole and "ties" not in kind.options:
                ties = "stable"
            self._averaging |= ties == "average"
            rule = "stable" if ties == "average" else ties
            self._depth[rule] = max(self._depth.get(rule, 0), self.cut(None if whole else measure.k))
        self._shards = cut_shards(offsets, ROWS_PER_SHARD)
        self._made: dict[Hashable, Any] = {}

    def run(self, kernel: Callable[..., None], *before: object, after: tuple = ()) -> None:
        """``kernel(*before, offsets, first, last, *after)`` on every shard."""
        run_shards(lambda shard: kernel(*before, self.offsets, *shard, *after), self._shards)

    def per_query(self, kernel: Callable[..., None], *before: object, after: tuple = ()) -> np.ndarray:
        """The array of one value per query that the kernel fills as its last argument."""
        out = np.zeros(len(self.sizes))
        self.run(kernel, *before, after=(*after, out))
        return out

    def cut(self, k: int | None) -> int:
        """The last rank that a measure cut at k can read."""
        return self.longest if k is None else min(k, self.longest)

    def order(self, rule: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows by rank, and the index in block order where each query's ranking, as far as it is read, stops."""
        if ("order", rule) not in self._made:
            order, depth = np.zeros(len(self.y), np.int64), self._depth.get(rule, self.longest)
            ends = np.minimum(self.offsets[1:], self.offsets[:-1] + depth)
            whole_ties = self._averaging and rule == "stable"
            scores = self._column("scores", rule)
            if 4 * depth < self.longest and depth <= MOST_TOP:
                self.run(orders.order_tops, scores, after=(depth, whole_ties, order, ends))
            else:
                self.run(orders.order_blocks, scores, after=(order,))
                if whole_ties:
                    self.run(orders.end_after_ties, scores, order, after=(ends,))
            self._made["order", rule] = order, ends
        return self._made["order", rule]

    def ranked(self, what: str, rule: str) -> np.ndarray:
        """ "scores" or "grades" by rank."""
        if (what, rule) not in self._made:
            (order, ends), out = self.order(rule), np.zeros(len(self.y))
            self.run(orders.take_ranked, self._column(what, rule), order, after=(ends, out))
            self._made[what, rule] = out
        return self._made[what, rule]

    def _column(self, what: str, rule: str) -> np.ndarray:
        """ "scores" or "grades", rows in the order that breaks ties, and scores as the rule compares them."""
        values = self.y if what == "grades" else self._scores
        if rule == "worst":
            if "worst" not in self._made:
                self._made["worst"] = np.lexsort((self.y, np.repeat(np.arange(len(self.sizes)), self.sizes)))
            return values[self._made["worst"]]
        if rule == "docid":
            values = values if self._by_docid is None else values[self._by_docid]
            if what == "scores":  # trec_eval stores them in single precision; those beyond it become equal
                with np.errstate(over="ignore"):
                    return values.astype(np.float32).astype(np.float64)
        return values

    def averages(self, ties: str) -> bool:
        """Whether ties are averaged and any two of the ranks that are read are tied."""
        if ties != "average":
            return False
        if "tied" not in self._made:
            (order, ends), tied = self.order("stable"), np.zeros(len(self.sizes), np.bool_)
            self.run(orders.mark_ties, self._scores, order, after=(ends, tied))
            self._made["tied"] = bool(tied.any())
        return self._made["tied"]

    def gains(self, gain: str | float, ties: str) -> np.ndarray:
        """Ranked gains: "exponential", "linear", or 1 from a grade on; averaged over equal scores if ties are."""
        rule = "stable" if ties == "average" else ties
        key = "gains", gain, rule
        if key not in self._made:
            self._made[key] = self._gain(self.ranked("grades", rule), gain, self.order(rule)[1])
        if not self.averages(ties):
            return self._made[key]
        if ("averaged", gain) not in self._made:
            out, (_, ends) = np.zeros(len(self.y)), self.order(rule)
            self.run(orders.average_ties, self.ranked("scores", rule), self._made[key], after=(ends, out))
            self._made["averaged", gain] = out
        return self._made["averaged", gain]

    def gains_and_ties(self, gain: str | float, ties: str) -> tuple[np.ndarray, np.ndarray, bool, np.ndarray]:
        """Arguments of kernels that average by themselves: ranked gains, scores (not read without ties), whether there
        are ties, and where rankings stop."""
        rule, tied = "stable" if ties == "average" else ties, self.averages(ties)
        gains = self.gains(gain, rule)
        return gains, self.ranked("scores", rule) if tied else gains, tied, self.order(rule)[1]

    def ideal_gains(self, gain: str) -> np.ndarray:
        """Gains of the best possible order, as deep as the rankings are read."""
        if ("ideal", gain) not in self._made:
            best, deepest = np.zeros(len(self.y)), max(self._depth.values(), default=self.longest)
            self.run(orders.sort_grades, self.y, after=(best,))
            ends = np.minimum(self.offsets[1:], self.offsets[:-1] + deepest)
            self._made["ideal", gain] = self._gain(best, gain, ends)
        return self._made["ideal", gain]

    def _gain(self, grades: np.ndarray, gain: str | float, ends: np.ndarray) -> np.ndarray:
        if not isinstance(gain, str):
            return (grades >= gain).astype(np.float64)
        out = np.zeros(len(grades))
        self.run(kernels.exponential_gain if gain == "exponential" else kernels.linear_gain, grades, after=(ends, out))
        return out

    def relevant_count(self, threshold: float) -> np.ndarray:
        """The number of graded items of each query with grade >= threshold."""
        if ("count", threshold) not in self._made:
            whole = self.known or self
            self._made["count", threshold] = whole.per_query(kernels.count_from, whole.y, threshold)
        return self._made["count", threshold]


def discounts(name: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The discounts of ranks r = 1..depth as a fraction: "log2" 1/log2(r+1); "letor" 1, 1, then ln 2/ln r.

    As a fraction, because LETOR's scripts multiply first and then divide: so all 15 digits they print are reproduced.
    """
    place = np.arange(1.0, depth + 1.0)
    if name == "log2":
        return np.ones(depth), np.log2(place + 1.0)
    late = place > 2.0
    return np.where(late, np.log(2.0), 1.0), np.where(late, np.log(np.maximum(place, 2.0)), 1.0)


def kind(
    name: str,
    formula: str,
    aliases: str = "",
    cutoff: str = "optional",
    options: tuple[str, ...] = (),
    top: bool = True,
) -> Callable[[Values], Values]:
    """Register the function below, one value per query of (RankedLists, Measure), as a kind of measure."""

    def registered(values: Values) -> Values:
        register(MeasureKind(name, formula, values, tuple(aliases.split()), cutoff, options, top))
        return values

    return registered


@kind("ndcg", "DCG@k / DCG@k of the best order", "ndcg_cut normalized_dcg", options=(*GAIN_OPTIONS, "short"))
def ndcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = _dcg(lists, lists.gains(chosen.gain, chosen.ties), chosen, k)
    best = _best(lists, chosen, measure.k)
    values = np.divide(values, best, out=np.zeros_like(values), where=best > 0.0)
    values = fill_empty(values, best <= 0.0, chosen.ndcg_empty, chosen)
    if chosen.short == "zero" and measure.k is not None:
        values[(lists.sizes < measure.k) & ~np.isnan(values)] = 0.0
    return values


@kind("dcg", "Σ gain(g_r) · discount(r) over the first k ranks r", "dcg_cut", options=GAIN_OPTIONS)
def dcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = _dcg(lists, lists.gains(chosen.gain, chosen.ties), chosen, k)
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, 0.0, chosen)


@kind("mean_ndcg", "mean of NDCG@r over the query's n ranks r", cutoff="none", options=GAIN_OPTIONS, top=False)
def mean_ndcg(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, whole = measure.conventions, lists.known or lists
    gain = lists.gains(chosen.gain, chosen.ties)
    if whole is not lists:  # ranks without an item gain 0
        laid_out = np.zeros(len(whole.y))
        laid_out[np.arange(len(gain)) + np.repeat(whole.offsets[:-1] - lists.offsets[:-1], lists.sizes)] = gain
        gain = laid_out
    ideal = whole.ideal_gains(chosen.gain)
    values = whole.per_query(kernels.mean_ratio, gain, ideal, *discounts(chosen.discount, whole.longest))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, chosen.ndcg_empty, chosen)


@kind(
    "err", "Σ R_r · Π_{i<r}(1 − R_i) / r over the first k ranks, R = (2^g − 1) / 2^max_grade",
    "expected_reciprocal_rank", options=("ties", "max_grade", "empty"),
)  # fmt: skip
def err(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, k = measure.conventions, lists.cut(measure.k)
    top = chosen.max_grade
    if top is None:
        top = max(float(lists.y.max()) if lists.top_grade is None else lists.top_grade, 0.0)
    gain, *ties = lists.gains_and_ties("exponential", chosen.ties)
    values = lists.per_query(kernels.cascade, gain / np.exp2(top), *ties, after=(k,))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, 0.0, chosen)


def fill_empty(values: np.ndarray, empty: np.ndarray, usual: float, chosen: Preset) -> np.ndarray:
    """Set queries without a relevant item to the option ``empty``, or to the measure's usual value."""
    values[empty] = usual if chosen.empty is None else chosen.empty
    return values


def _dcg(lists: RankedLists, gain: np.ndarray, chosen: Preset, k: int) -> np.ndarray:
    return lists.per_query(kernels.discounted_sum, gain, *discounts(chosen.discount, k), after=(k,))


def _best(lists: RankedLists, chosen: Preset, k: int | None) -> np.ndarray:
    """DCG@k of the best order of all graded items: 0 only if none has a gain."""
    whole = lists.known or lists
    return _dcg(whole, whole.ideal_gains(chosen.gain), chosen, whole.cut(k))


@kind(
    "p", "relevant items among the first k / k",
    "precision prec", cutoff="required", options=(*RELEVANCE_OPTIONS, "precision"),
)  # fmt: skip
def precision(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, k = measure.conventions, measure.k or lists.longest
    values = _hits(lists, measure) / (np.minimum(lists.cut(k), lists.sizes) if chosen.precision == "list" else k)
    if chosen.precision == "zero":
        values[lists.sizes < k] = 0.0
    return fill_empty(values, lists.relevant_count(chosen.relevant) == 0, 0.0, chosen)


@kind(
    "recall", "relevant items among the first k / relevant items",
    "r rec", cutoff="required", options=RELEVANCE_OPTIONS,
)  # fmt: skip
def recall(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen = measure.conventions
    relevant = lists.relevant_count(chosen.relevant)
    return fill_empty(_hits(lists, measure) / np.maximum(relevant, 1), relevant == 0, chosen.recall_empty, chosen)


def _hits(lists: RankedLists, measure: Measure) -> np.ndarray:
    relevant = lists.gains(measure.conventions.relevant, measure.conventions.ties)
    return lists.per_query(kernels.sum_tops, relevant, after=(lists.cut(measure.k),))


@kind(
    "map", "Σ P@r over relevant ranks r ≤ k / relevant items",
    "ap average_precision mean_average_precision map_cut", options=(*RELEVANCE_OPTIONS, "map_divisor"),
)  # fmt: skip
def average_precision(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen = measure.conventions
    k = lists.cut(None if chosen.map_divisor == "whole" else measure.k)
    total = lists.per_query(kernels.precision_sum, *lists.gains_and_ties(chosen.relevant, chosen.ties), after=(k,))
    relevant = lists.relevant_count(chosen.relevant)
    divisor = np.minimum(relevant, k) if chosen.map_divisor == "cutoff" else relevant
    return fill_empty(total / np.maximum(divisor, 1), relevant == 0, chosen.map_empty, chosen)


@kind(
    "mrr", "1 / rank of the first relevant item, 0 past k",
    "rr recip_rank reciprocal_rank mean_reciprocal_rank", options=RELEVANCE_OPTIONS,
)  # fmt: skip
def reciprocal_rank(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = lists.per_query(kernels.cascade, *lists.gains_and_ties(chosen.relevant, chosen.ties), after=(k,))
    return fill_empty(values, lists.relevant_count(chosen.relevant) == 0, 0.0, chosen)


@kind(
    "pair_accuracy", "(pairs in the right order + ½ pairs of equal score) / pairs of different grade",
    "pairwise_accuracy pair_acc", cutoff="none", options=("empty",), top=False,
)  # fmt: skip
def pair_accuracy(lists: RankedLists, measure: Measure) -> np.ndarray:
    right, wrong, level, _ = _pairs(lists)
    return _ratio(right + 0.5 * level, right + wrong + level, measure)


@kind(
    "kendall_tau", "τ_b = (right − wrong) / √(pairs of different grade · pairs of different score)",
    "tau tau_b kendall kendall_tau_b", cutoff="none", options=("empty",), top=False,
)  # fmt: skip
def kendall_tau(lists: RankedLists, measure: Measure) -> np.ndarray:
    right, wrong, level, different = _pairs(lists)
    return _ratio(right - wrong, np.sqrt(right + wrong + level) * np.sqrt(different), measure)


def _pairs(lists: RankedLists) -> tuple[np.ndarray, ...]:
    """Per query: pairs ordered right, wrong, of different grade but equal score, of different score."""
    counts, paired = tuple(np.zeros(len(lists.sizes)) for _ in range(4)), lists.paired or lists
    paired.run(kernels.count_pairs, paired.ranked("grades", "stable"), paired.ranked("scores", "stable"), after=counts)
    return counts


def _ratio(part: np.ndarray, whole: np.ndarray, measure: Measure) -> np.ndarray:
    empty = measure.conventions.empty
    out = np.full(len(part), np.nan if empty is None else empty)
    return np.divide(part, whole, out=out, where=whole > 0.0)
