"""Graded preferences: within a query the row with the higher grade is preferred; pairs are counted, never listed."""

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Floats, Integers
from hingerank.data.blocks import check_grades, check_offsets, real_numbers
from hingerank.kernels.sweeps import GradeTree, grow_tree, list_grade_pairs, sort_by_grade
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.preferences.in_queries import ROWS_PER_SHARD, QueryPreferences, check_weights


class GradedPreferences(QueryPreferences):
    """P = {(i, j): same query, y[i] > y[j]}, pair (i, j) weighing ``q(query) · w[i] w[j] · u[i] · M[y[i], y[j]]``.

    Parameters
    ----------
    y : grades, any finite numbers, rows of a query contiguous
    offsets : Q + 1 borders of the query blocks, which rise from 0 to the number of rows
    item_weight : w, one per row
        2 acts exactly as the row standing there twice, 0 as its absence.
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
        self.y = check_grades(y, np.size(y))
        self.offsets = check_offsets(offsets, n_rows=len(self.y))
        self.shards = cut_shards(self.offsets, ROWS_PER_SHARD)
        if pair_weight not in ("uniform", "query"):
            raise ValueError(f"pair_weight must be 'uniform' or 'query', not {pair_weight!r}")
        item = check_weights(item_weight, self.n_items, "item_weight")
        winner = check_weights(winner_weight, self.n_items, "winner_weight")
        query = check_weights(query_weight, self.n_queries, "query_weight")
        self.item_weight, self.query_weight = item, query
        self.pairs_differ = winner is not None or grade_weight is not None or pair_weight != "uniform"
        self._weighted = item is not None or winner is not None
        self.tree = self._grow(item, winner, query, grade_weight, pair_weight)

    def _grow(
        self,
        item: Floats | None,
        winner: Floats | None,
        query: Floats | None,
        grade_weight: ArrayLike | None,
        pair_weight: str,
    ) -> GradeTree:
        y, offsets, n_queries = self.y, self.offsets, self.n_queries
        perm, n_grades = np.empty(len(y), np.int32), np.zeros(n_queries, np.int64)
        run_shards(lambda ab: sort_by_grade(y, offsets, *ab, perm, n_grades), self.shards)
        by_pairs = grade_weight is not None
        nodes = n_grades * (n_grades - 1) // 2 if by_pairs else np.maximum(n_grades - 1, 0)
        node_start, leaf_start = (np.concatenate(([0], np.cumsum(k))) for k in (nodes, n_grades))
        leaf, node = np.empty(leaf_start[-1], np.int64), np.empty((node_start[-1], 4), np.int64)
        fill = list_grade_pairs if by_pairs else grow_tree
        run_shards(lambda ab: fill(y, offsets, perm, *ab, node_start, leaf_start, leaf, node), self.shards)
        size = node[:, 1] - node[:, 0] + node[:, 3] - node[:, 2]
        slot = np.concatenate(([0], np.cumsum(size)[:-1])) if len(size) else np.empty(0, np.int64)
        scale = np.ones(len(node))
        row = np.repeat(offsets[:-1], np.diff(offsets)) + perm if by_pairs or self._weighted else None
        if grade_weight is not None:
            scale *= _grade_scale(grade_weight, y[row], node)
        loser = np.ones(len(y)) if item is None else item[row]
        winners = loser if winner is None else loser * winner[row]
        tree = GradeTree(
            offsets, perm, leaf_start, leaf, node_start, node, slot, scale, winners, loser, not by_pairs,
            int(np.diff(offsets).max(initial=0)),
        )  # fmt: skip
        if query is not None or pair_weight == "query":
            self.tree = tree._replace(scale=np.ones(len(node)), winner=loser)
            factor = np.ones(n_queries) if query is None else query.copy()
            if pair_weight == "query":
                pairs = self.weight_per_query  # by the rows' own weights: a row given twice counts twice here too
                factor /= np.where(pairs > 0, pairs, 1.0)
            scale *= np.repeat(factor, np.diff(node_start))
        return tree


def _grade_scale(grade_weight: ArrayLike, y_by_position: Floats, node: Integers) -> Floats:
    """M[grade of the winners, grade of the losers] for nodes of one grade each."""
    grades = np.unique(y_by_position)
    matrix: Floats = real_numbers(grade_weight, "grade_weight")
    if matrix.shape != (len(grades), len(grades)):
        raise ValueError(
            f"grade_weight has shape {matrix.shape}, expected ({len(grades)}, {len(grades)}): "
            f"one row and column for each distinct grade, ascending ({grades[0]:g} to {grades[-1]:g})"
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("grade_weight must be finite and not negative")
    return matrix[
        np.searchsorted(grades, y_by_position[node[:, 2]]), np.searchsorted(grades, y_by_position[node[:, 0]])
    ]
