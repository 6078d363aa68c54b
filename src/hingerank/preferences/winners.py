"""Weighted winners: a row of weight u should beat every other row of its query, winners too, without listing pairs."""

import numpy as np

from hingerank.arrays import ArrayLike, Floats
from hingerank.kernels.sweeps import GradeTree, sort_by_grade
from hingerank.kernels.threads import run_shards
from hingerank.preferences.graded import QueryPreferences, check_weights

LOWEST = -1e300  # used as log 0 in exponentials


class WeightedWinners(QueryPreferences):
    """P = {(i, j): same query, i ≠ j, u[i] > 0}, pair (i, j) with weight ``q(query) · u[i]``.

    Clicks become such preferences (Joachims, Swaminathan & Schnabel 2017): u[i] is the sum of 1 / propensity over the
    clicks on row i in all sessions. A sweep costs one sort of a query's scores, whatever the number of sessions and
    pairs.

    Parameters
    ----------
    winner_weight : u, one per row, rows of a query contiguous; a row of weight 0 can only lose
    offsets : Q + 1 borders of the query blocks, ascending from 0 to the number of rows
    query_weight : q, one per query
    pair_weight : "uniform" or "query"
        "query" divides the weights of each query's pairs by their sum, so that all queries count the same.

    Examples
    --------
    >>> p = WeightedWinners([2.0, 0.0, 0.5], [0, 3])
    >>> p.n_pairs, p.total_weight
    (4, 5.0)
    """

    def __init__(
        self,
        winner_weight: ArrayLike,
        offsets: ArrayLike,
        *,
        query_weight: ArrayLike | None = None,
        pair_weight: str = "uniform",
    ):
        u = check_weights(winner_weight, np.size(winner_weight), "winner_weight")
        assert u is not None
        super().__init__(u, offsets, query_weight, pair_weight)
        self.item_weight, self.pairs_differ, self._weighted = None, pair_weight != "uniform", True
        # the winners come last in every query: a node of others against winners, and one of winners only
        wins = (u > 0).astype(np.float64)
        perm, kinds = np.empty(len(u), np.int32), np.zeros(self.n_queries, np.int64)
        run_shards(lambda ab: sort_by_grade(wins, self.offsets, *ab, perm, kinds), self.shards)
        before = np.concatenate(([0.0], np.cumsum(wins)))[self.offsets].astype(np.int64)
        begin, end = self.offsets[:-1], self.offsets[1:]
        first = end - np.diff(before)  # first position of the winners
        mixed, several = (begin < first) & (first < end), end - first > 1
        node_start, leaf_start = (np.concatenate(([0], np.cumsum(k))) for k in (mixed.astype(int) + several, kinds))
        node = np.empty((node_start[-1], 4), np.int64)
        node[node_start[:-1][mixed]] = np.stack([begin, first, first, end], axis=1)[mixed]
        node[node_start[1:][several] - 1] = np.stack([first, end, first, end], axis=1)[several]
        leaf = np.empty(leaf_start[-1], np.int64)
        leaf[leaf_start[:-1][kinds > 0]] = begin[kinds > 0]
        leaf[leaf_start[1:][mixed] - 1] = first[mixed]
        size = node[:, 1] - node[:, 0] + node[:, 3] - node[:, 2]
        self.tree = GradeTree(
            self.offsets, perm, leaf_start, leaf, node_start, node, np.cumsum(size) - size, np.ones(len(node)),
            u[np.repeat(begin, end - begin) + perm], np.ones(len(u)), False, int((end - begin).max(initial=0)),
        )  # fmt: skip
        factor = np.ones(self.n_queries) if self.query_weight is None else self.query_weight
        if pair_weight == "query":
            totals = self.weight_per_query
            factor = factor / np.where(totals > 0, totals, 1.0)
        if self.pairs_differ or self.query_weight is not None:
            self.tree = self.tree._replace(scale=np.repeat(factor, np.diff(node_start)))

    def targets(self) -> tuple[Floats, Floats]:
        """log u of every row, very low where u = 0; and every query's sum of u, times the query's weight."""
        starts, sizes = self.offsets[:-1], np.diff(self.offsets)
        totals: Floats = np.zeros(self.n_queries)
        totals[sizes > 0] = np.add.reduceat(self.y, starts[sizes > 0]) if len(self.y) else 0.0
        logarithms: Floats = np.full(len(self.y), LOWEST)
        np.log(self.y, out=logarithms, where=self.y > 0)
        return logarithms, totals if self.query_weight is None else totals * self.query_weight
