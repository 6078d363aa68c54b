"""RankedLists: the queries of one call, ordered by score once and shared by all its measures."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from hingerank.kernels import measures as kernels
from hingerank.kernels import order as orders
from hingerank.kernels.threads import cut_shards, run_shards

ROWS_PER_SHARD = 16384
MOST_TOP = 64  # up to this depth the first places are picked out by insertion instead of sorting the list


class RankedLists:
    """Grades, scores and query blocks, and what measures share of them; everything is computed when first asked for.

    Parameters
    ----------
    y, scores : float64, in block order
    offsets : block borders
    by_docid : rows of every block by decreasing docid, or None
    depths : for each tie rule in use, how many places of a ranking are read (None: all)
    """

    def __init__(
        self,
        y: np.ndarray,
        scores: np.ndarray,
        offsets: np.ndarray,
        by_docid: np.ndarray | None = None,
        depths: Iterable[tuple[str, int | None]] = (),
    ) -> None:
        self.y, self.offsets, self.sizes = y, offsets, np.diff(offsets)
        self._scores, self._by_docid = scores, by_docid
        self.longest = int(self.sizes.max(initial=0))
        self._depth: dict[str, int] = {}
        for ties, depth in depths:
            wanted = self.longest if depth is None or ties == "average" else min(depth, self.longest)
            self._depth[_rule(ties)] = max(self._depth.get(_rule(ties), 0), wanted)
        self._deepest = max(self._depth.values(), default=self.longest)
        self._shards = cut_shards(offsets, ROWS_PER_SHARD)
        self._made: dict[Hashable, np.ndarray] = {}

    def run(self, kernel: Callable[..., None], *before: Any, after: tuple = ()) -> None:
        """``kernel(*before, offsets, first, last, *after)`` on every shard."""
        run_shards(lambda shard: kernel(*before, self.offsets, *shard, *after), self._shards)

    def per_query(self, kernel: Callable[..., None], *before: Any, after: tuple = ()) -> np.ndarray:
        """The array of one value per query that the kernel fills as its last argument."""
        out = np.zeros(len(self.sizes))
        self.run(kernel, *before, after=(*after, out))
        return out

    def cut(self, k: int | None) -> int:
        """The last place that a measure cut at k can read."""
        return self.longest if k is None else min(k, self.longest)

    def scores(self, ties: str) -> np.ndarray:
        """Ranked scores."""
        return self._once(("scores", _rule(ties)), lambda: self._ranked(self._compared(ties), ties))

    def grades(self, ties: str) -> np.ndarray:
        """Ranked grades."""
        return self._once(("grades", _rule(ties)), lambda: self._ranked(self._arranged(self.y, ties), ties))

    def gains(self, gain: str, ties: str) -> np.ndarray:
        """Ranked gains; their means over equal scores when ties are averaged."""

        def make() -> np.ndarray:
            raw = self._gain(self.grades(ties), gain, self._depth_of(ties))
            return self._averaged(raw) if ties == "average" else raw

        return self._once(("gains", gain, ties), make)

    def ideal_gains(self, gain: str) -> np.ndarray:
        """Gains of the best possible order, as deep as any ranking is read."""

        def make() -> np.ndarray:
            best = np.zeros(len(self.y))
            self.run(orders.sort_grades, self.y, after=(best,))
            return self._gain(best, gain, self._deepest)

        return self._once(("ideal", gain), make)

    def relevant(self, threshold: float, ties: str) -> np.ndarray:
        """1 for ranked rows with grade >= threshold, else 0."""
        return self._once(
            ("relevant", threshold, _rule(ties)), lambda: (self.grades(ties) >= threshold).astype(np.float64)
        )

    def expected_relevant(self, threshold: float, ties: str) -> np.ndarray:
        """``relevant``, averaged over equal scores when ties are averaged."""
        if ties != "average":
            return self.relevant(threshold, ties)
        return self._once(("expected", threshold), lambda: self._averaged(self.relevant(threshold, ties)))

    def relevant_count(self, threshold: float) -> np.ndarray:
        """How many rows of each query have grade >= threshold."""
        return self._once(("count", threshold), lambda: self.per_query(kernels.count_from, self.y, threshold))

    def _once(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _gain(self, grades: np.ndarray, gain: str, depth: int) -> np.ndarray:
        out = np.zeros(len(grades))
        kernel = kernels.exponential_gain if gain == "exponential" else kernels.linear_gain
        self.run(kernel, grades, after=(depth, out))
        return out

    def _averaged(self, values: np.ndarray) -> np.ndarray:
        out = np.zeros(len(values))
        self.run(orders.average_ties, self.scores("average"), values, after=(out,))
        return out

    def _compared(self, ties: str) -> np.ndarray:
        """Scores as the tie rule compares them (trec_eval holds them in single precision)."""
        scores = self._arranged(self._scores, ties)
        return scores.astype(np.float32).astype(np.float64) if ties == "docid" else scores

    def _arranged(self, values: np.ndarray, ties: str) -> np.ndarray:
        """Rows in the order that equal scores keep."""
        if ties == "worst":
            query = np.repeat(np.arange(len(self.sizes)), self.sizes)
            return values[self._once("worst", lambda: np.lexsort((self.y, query)))]
        return values[self._by_docid] if ties == "docid" and self._by_docid is not None else values

    def _order(self, ties: str) -> np.ndarray:
        def make() -> np.ndarray:
            order, depth = np.zeros(len(self.y), np.int64), self._depth_of(ties)
            if 4 * depth < self.longest and depth <= MOST_TOP:
                self.run(orders.order_tops, self._compared(ties), after=(depth, order))
            else:
                self.run(orders.order_blocks, self._compared(ties), after=(order,))
            return order

        return self._once(("order", _rule(ties)), make)

    def _ranked(self, values: np.ndarray, ties: str) -> np.ndarray:
        out = np.zeros(len(values))
        self.run(orders.take_ranked, values, self._order(ties), after=(self._depth_of(ties), out))
        return out

    def _depth_of(self, ties: str) -> int:
        return self._depth.get(_rule(ties), self.longest)


def _rule(ties: str) -> str:
    """The rule that orders the rows: averaging starts from row order."""
    return "stable" if ties == "average" else ties
