"""RankedLists: the queries of one call, sorted by score once and shared by all its measures."""

from collections.abc import Callable, Hashable, Iterable

import numpy as np

from hingerank.kernels import measures as kernels
from hingerank.kernels import order as orders
from hingerank.kernels.threads import cut_shards, run_shards

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
