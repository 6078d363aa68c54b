"""Dual multipliers of a fitted ranker as matrices, one for each query."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hingerank.export.attributes import Array, Attribute, Ids


class MultiplierBlock(NamedTuple):
    """One query's multipliers: A[r, c] belongs to the pair (rows[winners[r]] preferred to rows[losers[c]]).

    Rows that can never win or never lose have zero rows or columns in A_l and are left out; `size` counts all rows.
    """

    query: object
    size: int
    n_pairs: int
    winners: np.ndarray  # row numbers in the training data
    losers: np.ndarray
    A: np.ndarray

    @property
    def singular_values(self) -> np.ndarray:
        return np.linalg.svd(self.A, compute_uv=False) if self.A.size else np.empty(0)

    def rank(self, tolerance: float = 1e-10) -> int:
        """Number of singular values above tolerance times the largest."""
        values = self.singular_values
        return int((values > tolerance * values[:1].max(initial=0.0)).sum()) if values.max(initial=0.0) > 0 else 0


def of_pairs(needed: bool = False) -> dict[str, Attribute]:
    """The attributes that list multipliers, as a model file holds them."""
    return {
        "multipliers_": Array("pairs", needed=needed),
        "pairs_": Array("pairs, 2", "i", low=0, needed=needed),
        "queries_": Ids("queries", needed=needed),
        "pairs_per_query_": Array("queries", "i", low=0, needed=needed),
        "sizes_": Array("queries", "i", low=0, needed=needed),
    }


class HasMultipliers:
    """What fitted rankers with multipliers offer.

    Those that list them keep `multipliers_` and `pairs_` (winner row, loser row) query after query, `pairs_per_query_`,
    and of the queries their ids `queries_` and numbers of rows `sizes_`.
    """

    multipliers_: np.ndarray
    pairs_: np.ndarray
    pairs_per_query_: np.ndarray
    queries_: np.ndarray
    sizes_: np.ndarray

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        """The matrix of every query, in order of first appearance."""
        ends = np.cumsum(self.pairs_per_query_)
        for query, size, pairs, end in zip(self.queries_, self.sizes_, self.pairs_per_query_, ends):
            own = slice(end - pairs, end)
            winners, r = np.unique(self.pairs_[own, 0], return_inverse=True)
            losers, c = np.unique(self.pairs_[own, 1], return_inverse=True)
            A = np.zeros((len(winners), len(losers)))
            A[r, c] = self.multipliers_[own]
            yield MultiplierBlock(query, int(size), int(pairs), winners, losers, A)
