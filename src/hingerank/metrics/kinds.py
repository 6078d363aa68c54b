"""The kinds of measures: of graded relevance, of binary relevance, and of pairs, which are counted and never listed.

All read `RankedLists`: the queries of one call, sorted by score once and shared by all its measures.
"""

from collections.abc import Callable, Hashable, Iterable

import numpy as np

from hingerank.kernels import measures as kernels
from hingerank.kernels import order as orders
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.metrics.measure import Measure, MeasureKind, Preset, register

ROWS_PER_SHARD = 16384
MOST_TOP = 64  # up to this depth the top ranks are found by insertion instead of sorting the list


class RankedLists:
    """Grades, scores and query blocks, and intermediate results of measures, each computed on first use.

    Parameters
    ----------
    y, scores : float64, in block order
    offsets : block borders
    by_docid : rows of every block by decreasing docid, or None
    depths : for each tie rule in use, how many ranks are read (None: all)
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
        by_docid: np.ndarray | None = None,
        depths: Iterable[tuple[str, int | None]] = (),
        *,
        known: "RankedLists | None" = None,
        paired: "RankedLists | None" = None,
        top_grade: float | None = None,
    ) -> None:
        self.y, self.offsets, self.sizes = y, offsets, np.diff(offsets)
        self._known, self._paired, self._top_grade = known, paired, top_grade
        self._scores, self._by_docid = scores, by_docid
        self.longest = int(self.sizes.max(initial=0))
        self._depth: dict[str, int] = {}
        self._averaging = False
        for ties, depth in depths:
            wanted = self.longest if depth is None else min(depth, self.longest)
            self._depth[_rule(ties)] = max(self._depth.get(_rule(ties), 0), wanted)
            self._averaging |= ties == "average"
        self._deepest = max(self._depth.values(), default=self.longest)
        self._shards = cut_shards(offsets, ROWS_PER_SHARD)
        self._made: dict[Hashable, np.ndarray] = {}
        self._orders: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._tied: bool | None = None

    @property
    def known(self) -> "RankedLists":
        """All graded items of the queries."""
        return self if self._known is None else self._known  # not stored: a reference cycle would keep the arrays alive

    @property
    def paired(self) -> "RankedLists":
        """The items that have both a rank and a grade."""
        return self if self._paired is None else self._paired

    @property
    def top_grade(self) -> float:
        """The highest grade of the scale."""
        return float(self.y.max()) if self._top_grade is None else self._top_grade

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

    def scores(self, ties: str) -> np.ndarray:
        """Ranked scores."""
        key = "scores", _rule(ties)
        if key not in self._made:
            self._made[key] = self._ranked(self._compared(ties), ties)
        return self._made[key]

    def grades(self, ties: str) -> np.ndarray:
        """Ranked grades."""
        key = "grades", _rule(ties)
        if key not in self._made:
            self._made[key] = self._ranked(self._arranged(self.y, ties), ties)
        return self._made[key]

    def gains(self, gain: str, ties: str) -> np.ndarray:
        """Ranked gains; averaged over equal scores if ties are averaged."""
        key = "gains", gain, _rule(ties)
        if key not in self._made:
            self._made[key] = self._gain(self.grades(ties), gain, self.ends(ties))
        return self._averaged(key) if self.averages(ties) else self._made[key]

    def ideal_gains(self, gain: str) -> np.ndarray:
        """Gains of the best possible order, as deep as the rankings are read."""
        key = "ideal", gain
        if key not in self._made:
            best = np.zeros(len(self.y))
            self.run(orders.sort_grades, self.y, after=(best,))
            self._made[key] = self._gain(best, gain, np.minimum(self.offsets[1:], self.offsets[:-1] + self._deepest))
        return self._made[key]

    def relevant(self, threshold: float, ties: str) -> np.ndarray:
        """1 for ranked rows with grade >= threshold, else 0."""
        key = "relevant", threshold, _rule(ties)
        if key not in self._made:
            self._made[key] = (self.grades(ties) >= threshold).astype(np.float64)
        return self._made[key]

    def expected_relevant(self, threshold: float, ties: str) -> np.ndarray:
        """``relevant``, averaged over equal scores if ties are averaged."""
        relevant = self.relevant(threshold, ties)
        return self._averaged(("relevant", threshold, _rule(ties))) if self.averages(ties) else relevant

    def relevant_count(self, threshold: float) -> np.ndarray:
        """The number of rows of each query with grade >= threshold."""
        key = "count", threshold
        if key not in self._made:
            self._made[key] = self.per_query(kernels.count_from, self.y, threshold)
        return self._made[key]

    def averages(self, ties: str) -> bool:
        """Whether ties are averaged and any two of the ranks that are read are tied."""
        if ties != "average":
            return False
        if self._tied is None:
            order, ends = self._order(ties)
            tied = np.zeros(len(self.sizes), np.bool_)
            self.run(orders.mark_ties, self._scores, order, after=(ends, tied))
            self._tied = bool(tied.any())
        return self._tied

    def tie_groups(self, ties: str, unread: np.ndarray) -> tuple[np.ndarray, bool, np.ndarray]:
        """Arguments of kernels of tied rows: ranked scores (or an array that is not read), ``averages``, ``ends``."""
        tied = self.averages(ties)
        return self.scores(ties) if tied else unread, tied, self.ends(ties)

    def ends(self, ties: str) -> np.ndarray:
        """The index in block order where each query's ranking, as far as it is read, stops."""
        return self._order(ties)[1]

    def among_known(self, values: np.ndarray) -> np.ndarray:
        """Values by rank, laid out over the blocks of ``known``; ranks without an item are 0."""
        if self.known is self:
            return values
        out = np.zeros(len(self.known.y))
        out[np.arange(len(values)) + np.repeat(self.known.offsets[:-1] - self.offsets[:-1], self.sizes)] = values
        return out

    def _gain(self, grades: np.ndarray, gain: str, ends: np.ndarray) -> np.ndarray:
        out = np.zeros(len(grades))
        kernel = kernels.exponential_gain if gain == "exponential" else kernels.linear_gain
        self.run(kernel, grades, after=(ends, out))
        return out

    def _averaged(self, made: Hashable) -> np.ndarray:
        """Ranked values, stored under the key `made`, averaged over equal scores."""
        key = "averaged", made
        if key not in self._made:
            out = np.zeros(len(self.y))
            values, scores, ends = self._made[made], self.scores("average"), self.ends("average")
            self.run(orders.average_ties, scores, values, after=(ends, out))
            self._made[key] = out
        return self._made[key]

    def _compared(self, ties: str) -> np.ndarray:
        """Scores as the tie rule compares them (trec_eval stores them in single precision)."""
        scores = self._arranged(self._scores, ties)
        with np.errstate(over="ignore"):  # scores beyond single precision become equal
            return scores.astype(np.float32).astype(np.float64) if ties == "docid" else scores

    def _arranged(self, values: np.ndarray, ties: str) -> np.ndarray:
        """Values with the rows in the order that breaks ties."""
        if ties == "worst":
            if "worst" not in self._made:
                query = np.repeat(np.arange(len(self.sizes)), self.sizes)
                self._made["worst"] = np.lexsort((self.y, query))
            return values[self._made["worst"]]
        return values[self._by_docid] if ties == "docid" and self._by_docid is not None else values

    def _order(self, ties: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows by rank, and where each query's ranking stops."""
        rule = _rule(ties)
        if rule not in self._orders:
            order, depth = np.zeros(len(self.y), np.int64), self._depth.get(rule, self.longest)
            ends = np.minimum(self.offsets[1:], self.offsets[:-1] + depth)
            whole_ties = self._averaging and rule == "stable"
            scores = self._compared(ties)
            if 4 * depth < self.longest and depth <= MOST_TOP:
                self.run(orders.order_tops, scores, after=(depth, whole_ties, order, ends))
            else:
                self.run(orders.order_blocks, scores, after=(order,))
                if whole_ties:
                    self.run(orders.end_after_ties, scores, order, after=(ends,))
            self._orders[rule] = order, ends
        return self._orders[rule]

    def _ranked(self, values: np.ndarray, ties: str) -> np.ndarray:
        order, ends = self._order(ties)
        out = np.zeros(len(values))
        self.run(orders.take_ranked, values, order, after=(ends, out))
        return out


def _rule(ties: str) -> str:
    """The rule that orders the rows: averaging starts from row order."""
    return "stable" if ties == "average" else ties


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
    values = known.per_query(kernels.mean_ratio, gain, ideal, *discounts(chosen.discount, known.longest))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, chosen.ndcg_empty, chosen)


def err(lists: RankedLists, measure: Measure) -> np.ndarray:
    """ERR@k = sum over the first k ranks r of ``1/r · R_r · prod_{i<r} (1 - R_i)``, R = (2^g - 1) / 2^max_grade."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    top = max(lists.top_grade, 0.0) if chosen.max_grade is None else chosen.max_grade
    gain = lists.gains("exponential", "stable" if chosen.ties == "average" else chosen.ties)
    values = lists.per_query(kernels.cascade, gain / np.exp2(top), *lists.tie_groups(chosen.ties, gain), after=(k,))
    return fill_empty(values, _best(lists, chosen, 1) <= 0.0, 0.0, chosen)


def fill_empty(values: np.ndarray, empty: np.ndarray, usual: float, chosen: Preset) -> np.ndarray:
    """Set queries without a relevant item to the option ``empty``, or to the measure's usual value."""
    values[empty] = usual if chosen.empty is None else chosen.empty
    return values


def _dcg(lists: RankedLists, gain: np.ndarray, chosen: Preset, k: int) -> np.ndarray:
    return lists.per_query(kernels.discounted_sum, gain, *discounts(chosen.discount, k), after=(k,))


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
    total = lists.per_query(kernels.precision_sum, *_relevant_and_ties(lists, measure), after=(k,))
    relevant = lists.known.relevant_count(chosen.relevant)
    divisor = np.minimum(relevant, k) if chosen.map_divisor == "cutoff" else relevant
    return fill_empty(total / np.maximum(divisor, 1), relevant == 0, chosen.map_empty, chosen)


def reciprocal_rank(lists: RankedLists, measure: Measure) -> np.ndarray:
    """RR@k = 1 / rank of the first relevant item, 0 if it is not among the first k."""
    chosen, k = measure.conventions, lists.cut(measure.k)
    values = lists.per_query(kernels.cascade, *_relevant_and_ties(lists, measure), after=(k,))
    return fill_empty(values, lists.known.relevant_count(chosen.relevant) == 0, 0.0, chosen)


def _hits(lists: RankedLists, measure: Measure) -> np.ndarray:
    chosen = measure.conventions
    relevant = lists.expected_relevant(chosen.relevant, chosen.ties)
    return lists.per_query(kernels.sum_tops, relevant, after=(lists.cut(measure.k),))


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
    paired.run(kernels.count_pairs, paired.grades("stable"), paired.scores("stable"), after=counts)
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
