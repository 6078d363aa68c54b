"""Preferences inside query blocks: rows by position, and nodes that compare runs of positions; no pair is listed."""

from copy import copy
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hingerank.arrays import Floats, Integers
from hingerank.data.blocks import real_numbers
from hingerank.kernels.sweeps import GradeTree
from hingerank.kernels.threads import cut_shards

ROWS_PER_SHARD = 8192
Number = TypeVar("Number", np.int64, np.float64)
Self = TypeVar("Self", bound="QueryPreferences")


class PairList(NamedTuple):
    """Explicit pairs: row ``winner[k]`` should be above row ``loser[k]``, with ``weight[k]``."""

    winner: Integers
    loser: Integers
    weight: Floats


class QueryPreferences:
    """Pairs of rows of the same query, the sum over the nodes of a tree of  losers × winners  (kernels/sweeps.py).

    Attributes
    ----------
    y : what the pairs come from, one number per row
    offsets : Q + 1 borders of the query blocks
    shards : ranges of queries that are swept at once
    item_weight, query_weight : given weights of rows and of queries, or None
    pairs_differ : whether pairs have weights that are no product of these
    tree : where the pairs are
    """

    y: Floats
    offsets: Integers
    shards: list[tuple[int, int]]
    item_weight: Floats | None
    query_weight: Floats | None
    pairs_differ: bool
    tree: GradeTree
    _weighted: bool  # whether the tree has weights of rows

    @property
    def n_items(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def pairs_per_query(self) -> Integers:
        """Number of pairs of each query, weights aside."""
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
        up, down = (np.concatenate(([0.0], np.cumsum(w))) for w in (t.winner, t.loser))
        l0, l1, w0, w1 = t.node.T
        weights, own = t.scale * (up[w1] - up[w0]) * (down[l1] - down[l0]), self.own_pairs
        if own is not None:
            along = np.concatenate(([0.0], np.cumsum(own)))
            weights = weights - np.where(l0 == w0, along[w1] - along[w0], 0.0)
        return self._per_query(weights)

    def weight_of(self, stride: int) -> float:
        """Sum of the weights of the pairs of every stride-th query."""
        return float(self.weight_per_query[::stride].sum())

    def every(self: Self, stride: int) -> tuple[Self, Integers]:
        """The preferences of every stride-th query over its rows alone, and which rows these are."""
        t, chosen = self.tree, np.arange(0, self.n_queries, stride)
        rows, offsets = _runs(self.offsets, chosen)
        nodes, node_start = _runs(t.node_start, chosen)
        leaves, leaf_start = _runs(t.leaf_start, chosen)
        shift = offsets[:-1] - self.offsets[chosen]
        node = t.node[nodes] + np.repeat(shift, np.diff(node_start))[:, None]
        size = node[:, 1] - node[:, 0] + node[:, 3] - node[:, 2]
        part = copy(self)
        part.y, part.offsets, part.shards = self.y[rows], offsets, cut_shards(offsets, ROWS_PER_SHARD)
        part.item_weight = None if self.item_weight is None else self.item_weight[rows]
        part.query_weight = None if self.query_weight is None else self.query_weight[chosen]
        part.tree = t._replace(
            offsets=offsets,
            perm=t.perm[rows],
            leaf_start=leaf_start,
            leaf=t.leaf[leaves] + np.repeat(shift, np.diff(leaf_start)),
            node_start=node_start,
            node=node,
            slot=np.concatenate(([0], np.cumsum(size)[:-1])) if len(size) else np.empty(0, np.int64),
            scale=t.scale[nodes],
            winner=t.winner[rows],
            loser=t.loser[rows],
            widest=int(np.diff(offsets).max(initial=0)),
        )
        return part, rows

    def between(self: Self, first: int, last: int) -> Self:
        """The preferences of queries first:last over their rows alone; what has a number a row is a view."""
        t, a, b = self.tree, int(self.offsets[first]), int(self.offsets[last])
        nodes, leaves = (slice(int(s[first]), int(s[last])) for s in (t.node_start, t.leaf_start))
        offsets, slot = self.offsets[first : last + 1] - a, t.slot[nodes]
        part = copy(self)
        part.y, part.offsets, part.shards = self.y[a:b], offsets, cut_shards(offsets, ROWS_PER_SHARD)
        part.item_weight = None if self.item_weight is None else self.item_weight[a:b]
        part.query_weight = None if self.query_weight is None else self.query_weight[first:last]
        part.tree = t._replace(
            offsets=offsets,
            perm=t.perm[a:b],
            leaf_start=t.leaf_start[first : last + 1] - leaves.start,
            leaf=t.leaf[leaves] - a,
            node_start=t.node_start[first : last + 1] - nodes.start,
            node=t.node[nodes] - a,
            slot=slot - slot[0] if len(slot) else slot,
            scale=t.scale[nodes],
            winner=t.winner[a:b],
            loser=t.loser[a:b],
        )
        return part

    @property
    def own_pairs(self) -> Floats | None:
        """Weight of the pair that the nodes make of each position with itself, which is none; None: there are none."""
        t = self.tree
        twice = np.flatnonzero(t.node[:, 0] == t.node[:, 2])
        if len(twice) == 0:
            return None
        begin, sizes = t.node[twice, 0], t.node[twice, 1] - t.node[twice, 0]
        at = np.arange(sizes.sum()) + np.repeat(begin - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        own: Floats = np.zeros(self.n_items)
        own[at] = np.repeat(t.scale[twice], sizes) * t.winner[at] * t.loser[at]
        return own

    @property
    def row_at(self) -> Integers:
        """The row at each position of the tree."""
        rows: Integers = np.repeat(self.offsets[:-1], np.diff(self.offsets)) + self.tree.perm
        return rows

    def pairs(self) -> PairList:
        """Every pair, listed: only for algorithms with a number for each pair, and for tests."""
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
        pairs: Integers = (l1 - l0) * (w1 - w0) - np.where(l0 == w0, w1 - w0, 0)  # nobody beats himself
        return pairs

    def _per_query(self, per_node: NDArray[Number]) -> NDArray[Number]:
        query = np.repeat(np.arange(self.n_queries), np.diff(self.tree.node_start))
        return np.bincount(query, per_node, self.n_queries).astype(per_node.dtype)


def _runs(starts: Integers, chosen: Integers) -> tuple[Integers, Integers]:
    """The numbers starts[q]:starts[q + 1] for the chosen q, one after the other, and where each run of them starts."""
    sizes = (starts[1:] - starts[:-1])[chosen]
    borders = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return np.arange(borders[-1]) + np.repeat(starts[chosen] - borders[:-1], sizes), borders


def check_weights(weight: ArrayLike | None, n: int, name: str) -> Floats | None:
    if weight is None:
        return None
    weights: Floats = np.ascontiguousarray(real_numbers(weight, name))
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}, expected ({n},)")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{name} must be finite and not negative")
    return weights
