"""Explicit preferences: a list of (winner, loser) rows, such as clicks or human comparisons."""

import numpy as np

from hingerank.arrays import ArrayLike, Integers
from hingerank.data.blocks import check_ids, number
from hingerank.preferences.graded import PairList, check_weights
from hingerank.renaming import renamed


@renamed
class ExplicitPairs:
    """P = {(winner[k], loser[k])}, pair k with weight sample_weight[k]. O(pairs) time and memory, unlike grades.

    Parameters
    ----------
    winners, losers : row numbers, 0 to n_items - 1
    n_items : number of rows
    sample_weight : a weight per pair, default 1
    query : the query or user each pair comes from, ids of any type
    pair_weight : "uniform" or "query"
        "query" divides the weights of each query's pairs by their sum, so that all queries count the same.

    Examples
    --------
    >>> ExplicitPairs([0, 2], [1, 1], n_items=3).n_pairs
    2
    """

    def __init__(
        self,
        winners: ArrayLike,
        losers: ArrayLike,
        n_items: int,
        sample_weight: ArrayLike | None = None,
        query: ArrayLike | None = None,
        pair_weight: str = "uniform",
    ):
        self.winners, self.losers = (_rows(r, n_items, name) for r, name in ((winners, "winners"), (losers, "losers")))
        if len(self.winners) != len(self.losers):
            raise ValueError(f"{len(self.winners)} winners but {len(self.losers)} losers: give one of each per pair")
        same = np.flatnonzero(self.winners == self.losers)
        if len(same):
            raise ValueError(f"pair {same[0]} compares row {self.winners[same[0]]} with itself: remove it")
        given = check_weights(sample_weight, len(self.winners), "sample_weight")
        self.weight = np.ones(len(self.winners)) if given is None else given
        self.n_items = n_items
        if pair_weight == "query":
            ids = np.zeros(self.n_pairs) if query is None else np.asarray(query)
            if ids.shape != (self.n_pairs,):
                raise ValueError(f"query has {len(ids)} ids for {self.n_pairs} pairs: give one for each pair")
            numbers = number(check_ids(ids, self.n_pairs, "query"))[0]
            totals = np.bincount(numbers, self.weight)[numbers]
            self.weight = self.weight / np.where(totals > 0, totals, 1.0)
        elif pair_weight != "uniform":
            raise ValueError(f"pair_weight must be 'uniform' or 'query', not {pair_weight!r}")

    @property
    def n_pairs(self) -> int:
        return len(self.winners)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    def pairs(self) -> PairList:
        return PairList(self.winners, self.losers, self.weight)


def _rows(given: ArrayLike, n_items: int, name: str) -> Integers:
    rows: Integers = np.asarray(given)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a list of row numbers, not an array of {rows.dtype} and shape {rows.shape}")
    bad = np.flatnonzero((rows < 0) | (rows >= n_items))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}] is {rows[bad[0]]}, but there are {n_items} rows (0 to {n_items - 1})")
    return rows.astype(np.int64)
