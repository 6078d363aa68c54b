"""RankedLists: the queries of one call, sorted by score once and shared by all its measures."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

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
        self._made: dict[Hashable, object] = {}

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
        return self._once(("scores", _rule(ties)), lambda: self._ranked(self._compared(ties), ties))

    def grades(self, ties: str) -> np.ndarray:
        """Ranked grades."""
        return self._once(("grades", _rule(ties)), lambda: self._ranked(self._arranged(self.y, ties), ties))

    def gains(self, gain: str, ties: str) -> np.ndarray:
        """Ranked gains; averaged over equal scores if ties are averaged."""

        rule = _rule(ties)
        raw = self._once(("gains", gain, rule), lambda: self._gain(self.grades(ties), gain, self.ends(ties)))
        return self._once(("mean gains", gain), lambda: self._averaged(raw)) if self.averages(ties) else raw

    def ideal_gains(self, gain: str) -> np.ndarray:
        """Gains of the best possible order, as deep as the rankings are read."""

        def make() -> np.ndarray:
            best = np.zeros(len(self.y))
            self.run(orders.sort_grades, self.y, after=(best,))
            return self._gain(best, gain, self._ends_at(self._deepest))

        return self._once(("ideal", gain), make)

    def relevant(self, threshold: float, ties: str) -> np.ndarray:
        """1 for ranked rows with grade >= threshold, else 0."""
        return self._once(
            ("relevant", threshold, _rule(ties)), lambda: (self.grades(ties) >= threshold).astype(np.float64)
        )

    def expected_relevant(self, threshold: float, ties: str) -> np.ndarray:
        """``relevant``, averaged over equal scores if ties are averaged."""
        if not self.averages(ties):
            return self.relevant(threshold, ties)
        return self._once(("expected", threshold), lambda: self._averaged(self.relevant(threshold, ties)))

    def relevant_count(self, threshold: float) -> np.ndarray:
        """The number of rows of each query with grade >= threshold."""
        return self._once(("count", threshold), lambda: self.per_query(kernels.count_from, self.y, threshold))

    def averages(self, ties: str) -> bool:
        """Whether ties are averaged and any two of the ranks that are read are tied."""
        return ties == "average" and self._once("tied", self._any_tie)

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

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _gain(self, grades: np.ndarray, gain: str, ends: np.ndarray) -> np.ndarray:
        out = np.zeros(len(grades))
        kernel = kernels.exponential_gain if gain == "exponential" else kernels.linear_gain
        self.run(kernel, grades, after=(ends, out))
        return out

    def _averaged(self, values: np.ndarray) -> np.ndarray:
        out = np.zeros(len(values))
        self.run(orders.average_ties, self.scores("average"), values, after=(self.ends("average"), out))
        return out

    def _any_tie(self) -> bool:
        order, ends = self._order("average")
        tied = np.zeros(len(self.sizes), np.bool_)
        self.run(orders.mark_ties, self._scores, order, after=(ends, tied))
        return bool(tied.any())

    def _compared(self, ties: str) -> np.ndarray:
        """Scores as the tie rule compares them (trec_eval stores them in single precision)."""
        scores = self._arranged(self._scores, ties)
        with np.errstate(over="ignore"):  # scores beyond single precision become equal
            return scores.astype(np.float32).astype(np.float64) if ties == "docid" else scores

    def _arranged(self, values: np.ndarray, ties: str) -> np.ndarray:
        """Values with the rows in the order that breaks ties."""
        if ties == "worst":
            query = np.repeat(np.arange(len(self.sizes)), self.sizes)
            return values[self._once("worst", lambda: np.lexsort((self.y, query)))]
        return values[self._by_docid] if ties == "docid" and self._by_docid is not None else values

    def _order(self, ties: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows by rank, and where each query's ranking stops."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            order, depth = np.zeros(len(self.y), np.int64), self._depth.get(rule, self.longest)
            ends, whole_ties = self._ends_at(depth), self._averaging and rule == "stable"
            scores = self._compared(ties)
            if 4 * depth < self.longest and depth <= MOST_TOP:
                self.run(orders.order_tops, scores, after=(depth, whole_ties, order, ends))
                return order, ends
            self.run(orders.order_blocks, scores, after=(order,))
            if whole_ties:
                self.run(orders.end_after_ties, scores, order, after=(ends,))
            return order, ends

        rule = _rule(ties)
        return self._once(("order", rule), make)

    def _ends_at(self, depth: int) -> np.ndarray:
        return np.minimum(self.offsets[1:], self.offsets[:-1] + depth)

    def _ranked(self, values: np.ndarray, ties: str) -> np.ndarray:
        order, ends = self._order(ties)
        out = np.zeros(len(values))
        self.run(orders.take_ranked, values, order, after=(ends, out))
        return out


def _rule(ties: str) -> str:
    """The rule that orders the rows: averaging starts from row order."""
    return "stable" if ties == "average" else ties
