"""Preferences inside query blocks without listing pairs, and those by grades: the higher grade is preferred."""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hingerank.arrays import ArrayLike, Floats, Integers
from hingerank.data.blocks import check_grades, check_offsets, real_numbers
from hingerank.data.checks import refuse_negative
from hingerank.kernels.sweeps import GradeTree, grow_tree, list_grade_pairs, sort_by_grade
from hingerank.kernels.threads import cut_shards, run_shards

ROWS_PER_SHARD = 8192
Number = TypeVar("Number", np.int64, np.float64)
Self = TypeVar("Self", bound="QueryPreferences")


class PairList(NamedTuple):
    """Explicit pairs: row ``winner[k]`` should be above row ``loser[k]``, with ``weight[k]``."""

    winner: Integers
    loser: Integers
    weight: Floats


class QueryPreferences:
    """Pairs of rows of the same query: the nodes of a tree, each comparing  losers × winners  (kernels/sweeps.py).

    Attributes
    ----------
    y : the numbers that pairs are made from, one per row
    offsets : Q + 1 borders of the query blocks
    n_items, n_queries : number of rows and of queries
    shards : ranges of queries that are swept together
    item_weight, query_weight : given weights of rows and of queries, or None
    pairs_differ : whether pairs have weights that are not a product of these
    tree : the nodes that compare losers with winners
    """

    item_weight: Floats | None
    pairs_differ: bool
    tree: GradeTree
    _weighted: bool  # whether the tree has row weights

    def __init__(self, y: Floats, offsets: ArrayLike, query_weight: ArrayLike | None, pair_weight: str):
        self.y, self.offsets = y, check_offsets(offsets, n_rows=len(y))
        self.n_items, self.n_queries = len(y), len(self.offsets) - 1
        self.shards = cut_shards(self.offsets, ROWS_PER_SHARD)
        if pair_weight not in ("uniform", "query"):
            raise ValueError(f"pair_weight must be 'uniform' or 'query', not {pair_weight!r}")
        self.query_weight = check_weights(query_weight, self.n_queries, "query_weight")

    @property
    def pairs_per_query(self) -> Integers:
        """Number of pairs of each query, not counting weights."""
        return self._per_query(self._node_pairs)

    @property
    def n_pairs(self) -> int:
        return int(self._node_pairs.sum())

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all pairs."""
        return float(self.weight_per_query.sum())

    @property
    def weight_per_query(self) -> Floats:
        """Sum of the weights of each query's pairs."""
        t = self.tree
        if not self._weighted:
            return self._per_query(t.scale * self._node_pairs)
        up, down = (_run_sums(w, t.node[:, k : k + 2]) for w, k in ((t.winner, 2), (t.loser, 0)))
        weights, own = t.scale * up * down, self.own_pairs
        if own is not None:
            weights = weights - np.where(t.node[:, 0] == t.node[:, 2], _run_sums(own, t.node[:, 2:]), 0.0)
        return self._per_query(weights)

    def weight_of(self, stride: int) -> float:
        """Sum of the weights of the pairs of every stride-th query."""
        return float(self.weight_per_query[::stride].sum())

    def every(self: Self, stride: int) -> tuple[Self, Integers]:
        """The preferences of every stride-th query over its rows only, and the indices of these rows."""
        chosen = np.arange(0, self.n_queries, stride)
        picked, starts = zip(*(runs_of(each, chosen) for each in self._starts))
        return self._part(chosen, picked, starts), picked[0]

    def between(self: Self, first: int, last: int) -> Self:
        """The preferences of queries first:last over their rows only; arrays with one number per row are views."""
        picked = [slice(int(each[first]), int(each[last])) for each in self._starts]
        return self._part(slice(first, last), picked, [each[first : last + 1] - each[first] for each in self._starts])

    @property
    def _starts(self) -> tuple[Integers, Integers, Integers]:
        """Where the rows, nodes and leaves of each query start."""
        return self.offsets, self.tree.node_start, self.tree.leaf_start

    def _part(self: Self, queries: Any, picked: Sequence[Any], starts: Sequence[Integers]) -> Self:
        """The preferences of some queries; their rows, nodes and leaves, and where these start for each query."""
        t, part, (rows, nodes, leaves), (offsets, node_start, leaf_start) = self.tree, copy(self), picked, starts
        shift = offsets[:-1] - self.offsets[:-1][queries]
        node = t.node[nodes] + np.repeat(shift, np.diff(node_start))[:, None]
        size = node[:, 1] - node[:, 0] + node[:, 3] - node[:, 2]
        part.y, part.offsets, part.shards = self.y[rows], offsets, cut_shards(offsets, ROWS_PER_SHARD)
        part.n_items, part.n_queries = len(part.y), len(offsets) - 1
        part.item_weight = None if self.item_weight is None else self.item_weight[rows]
        part.query_weight = None if self.query_weight is None else self.query_weight[queries]
        part.tree = t._replace(
            offsets=offsets,
            perm=t.perm[rows],
            leaf_start=leaf_start,
            leaf=t.leaf[leaves] + np.repeat(shift, np.diff(leaf_start)),
            node_start=node_start,
            node=node,
            slot=np.cumsum(size) - size,
            scale=t.scale[nodes],
            winner=t.winner[rows],
            loser=t.loser[rows],
            widest=int(np.diff(offsets).max(initial=0)),
        )
        return part

    @property
    def own_pairs(self) -> Floats | None:
        """Weights of positions paired with themselves, which do not count as pairs; None if no node has such pairs."""
        t = self.tree
        twice = np.flatnonzero(t.node[:, 0] == t.node[:, 2])
        if len(twice) == 0:
            return None
        begin, sizes = t.node[twice, 0], t.node[twice, 1] - t.node[twice, 0]
        at = np.arange(sizes.sum()) + np.repeat(begin - (np.cumsum(sizes) - sizes), sizes)
        own: Floats = np.zeros(self.n_items)
        own[at] = np.repeat(t.scale[twice], sizes) * t.winner[at] * t.loser[at]
        return own

    @property
    def row_at(self) -> Integers:
        """The row at each position of the tree."""
        rows: Integers = np.repeat(self.offsets[:-1], np.diff(self.offsets)) + self.tree.perm
        return rows

    def pairs(self) -> PairList:
        """Every pair, listed: only for algorithms with one variable per pair, and for tests."""
        t, row = self.tree, self.row_at
        winners, losers, scale = [], [], []
        for (l0, l1, w0, w1), c in zip(t.node, t.scale):
            winners.append(np.repeat(np.arange(w0, w1), l1 - l0))
            losers.append(np.tile(np.arange(l0, l1), w1 - w0))
            scale.append(np.full((w1 - w0) * (l1 - l0), c))
        if not winners:
            return PairList(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        i, j = np.concatenate(winners), np.concatenate(losers)
        apart = i != j
        i, j = i[apart], j[apart]
        weight = np.concatenate(scale)[apart] * t.winner[i] * t.loser[j]
        order = np.lexsort((row[j], row[i], np.searchsorted(self.offsets, row[i], side="right")))
        return PairList(row[i][order], row[j][order], weight[order])

    @property
    def _node_pairs(self) -> Integers:
        l0, l1, w0, w1 = self.tree.node.T
        pairs: Integers = (l1 - l0) * (w1 - w0) - np.where(l0 == w0, w1 - w0, 0)  # a row does not beat itself
        return pairs

    def _per_query(self, per_node: NDArray[Number]) -> NDArray[Number]:
        query = np.repeat(np.arange(self.n_queries), np.diff(self.tree.node_start))
        return np.bincount(query, per_node, self.n_queries).astype(per_node.dtype)


def _run_sums(numbers: Floats, runs: Integers) -> Floats:
    """The sum of numbers[first:end] for every row (first, end) of `runs`, without a difference of larger sums."""
    if len(runs) == 0:
        return np.zeros(0)
    return np.add.reduceat(np.append(numbers, 0.0), runs.ravel())[::2]


def runs_of(starts: Integers, chosen: Integers) -> tuple[Integers, Integers]:
    """The numbers starts[q]:starts[q + 1] for the chosen q, concatenated, and where each of these runs starts."""
    sizes = (starts[1:] - starts[:-1])[chosen]
    borders = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return np.arange(borders[-1]) + np.repeat(starts[chosen] - borders[:-1], sizes), borders


def check_weights(weight: ArrayLike | None, n: int, name: str) -> Floats | None:
    if weight is None:
        return None
    weights: Floats = np.ascontiguousarray(real_numbers(weight, name))
    if weights.shape != (n,):
        each = {"query_weight": "query", "sample_weight": "pair"}.get(name, "row")
        raise ValueError(f"{name} has shape {weights.shape}, expected ({n},): one weight per {each}")
    refuse_negative(name, weights)
    return weights


class GradedPreferences(QueryPreferences):
    """P = {(i, j): same query, y[i] > y[j]}, pair (i, j) with weight ``q(query) · w[i] w[j] · u[i] · M[y[i], y[j]]``.

    Parameters
    ----------
    y : grades, any finite numbers, rows of a query contiguous
    offsets : Q + 1 borders of the query blocks, ascending from 0 to the number of rows
    item_weight : w, one per row
        Weight 2 is the same as giving the row twice, 0 the same as leaving it out.
    winner_weight : u, one per row
        Counted only when the row is preferred (inverse propensity of a click).
    query_weight : q, one per query
    grade_weight : M, a matrix over the distinct grades in ascending order
        IR-SVM's cost of a pair of grades.
    pair_weight : "uniform" or "query"
        "query" divides each query's weight by its number of pairs, the sum of w[i] w[j] (IR-SVM's normalisation).

    Examples
    --------
    >>> p = GradedPreferences(np.array([2.0, 0.0, 1.0, 0.0]), np.array([0, 4]))
    >>> p.n_pairs
    5
    """

    def __init__(
        self,
        y: ArrayLike,
        offsets: ArrayLike,
        *,
        item_weight: ArrayLike | None = None,
        winner_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        grade_weight: ArrayLike | None = None,
        pair_weight: str = "uniform",
    ):
        super().__init__(check_grades(y, np.size(y)), offsets, query_weight, pair_weight)
        item = check_weights(item_weight, self.n_items, "item_weight")
        winner = check_weights(winner_weight, self.n_items, "winner_weight")
        self.item_weight, by_grades = item, grade_weight is not None
        self.pairs_differ = winner is not None or by_grades or pair_weight != "uniform"
        self._weighted = item is not None or winner is not None
        grades, borders, n = self.y, self.offsets, self.n_items
        perm, n_grades = np.empty(n, np.int32), np.zeros(self.n_queries, np.int64)
        run_shards(lambda ab: sort_by_grade(grades, borders, *ab, perm, n_grades), self.shards)
        nodes = n_grades * (n_grades - 1) // 2 if by_grades else np.maximum(n_grades - 1, 0)
        node_start, leaf_start = np.append(0, np.cumsum(nodes)), np.append(0, np.cumsum(n_grades))
        leaf, node = np.empty(leaf_start[-1], np.int64), np.empty((node_start[-1], 4), np.int64)
        fill = list_grade_pairs if by_grades else grow_tree
        run_shards(lambda ab: fill(grades, borders, perm, *ab, node_start, leaf_start, leaf, node), self.shards)
        size = node[:, 1] - node[:, 0] + node[:, 3] - node[:, 2]
        row = np.repeat(borders[:-1], np.diff(borders)) + perm if by_grades or self._weighted else None
        loser = np.ones(n) if item is None else item[row]
        self.tree = GradeTree(
            borders, perm, leaf_start, leaf, node_start, node, np.cumsum(size) - size, np.ones(len(node)), loser, loser,
            not by_grades, int(np.diff(borders).max(initial=0)),
        )  # fmt: skip
        scale = np.ones(len(node)) if grade_weight is None else _grade_scale(grade_weight, grades[row], node)
        if self.query_weight is not None or pair_weight == "query":
            factor = np.ones(self.n_queries) if self.query_weight is None else self.query_weight.copy()
            if pair_weight == "query":
                pairs = self.weight_per_query  # including row weights: a row given twice counts twice here too
                factor /= np.where(pairs > 0, pairs, 1.0)
            scale *= np.repeat(factor, np.diff(node_start))
        self.tree = self.tree._replace(scale=scale, winner=loser if winner is None else loser * winner[row])


def _grade_scale(grade_weight: ArrayLike, y_by_position: Floats, node: Integers) -> Floats:
    """M[grade of the winners, grade of the losers] for nodes of one grade each."""
    grades = np.unique(y_by_position)
    matrix: Floats = real_numbers(grade_weight, "grade_weight")
    if matrix.shape != (len(grades), len(grades)):
        raise ValueError(
            f"grade_weight has shape {matrix.shape}, expected ({len(grades)}, {len(grades)}): "
            f"one row and column for each distinct grade, ascending ({grades[0]:g} to {grades[-1]:g})"
        )
    refuse_negative("grade_weight", matrix)
    return matrix[
        np.searchsorted(grades, y_by_position[node[:, 2]]), np.searchsorted(grades, y_by_position[node[:, 0]])
    ]
