"""Maximal marginal relevance (Carbonell & Goldstein 1998)."""

from typing import Any

import numpy as np

from hingerank.diversity.base import DiverseRanker, check_share
from hingerank.diversity.kernels import LEAST
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import select


class MMR(DiverseRanker):
    """next = argmax_d  λ·rel(d) − (1−λ)·max_{d'∈S} sim(d, d'),   sim = 1 − distance.

    lam: λ in [0, 1]; 1 keeps the order by relevance, 0 looks at distances alone.
    relation: which relation gives the distance, by name or number; None takes the mean of all of them.

    Needs `relevance` and `relations`. The first pick is the most relevant candidate; equal ones keep their order.

    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), relations=np.array([[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]]),
    ...                      relevance=[1.0, 0.9, 0.5])
    >>> MMR(lam=0.5).rerank(query).tolist(), MMR(lam=1.0).rerank(query).tolist()
    ([0, 2, 1], [0, 1, 2])
    """

    _needs = ("relevance", "relations")

    def __init__(self, lam: float = 0.5, relation: Any = None) -> None:
        self.lam = lam
        self.relation = relation

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        lam = check_share("lam", self.lam)
        whole = self.relation is None and len(query.relations) == 1
        distance = query.relations if whole else _OneDistance(query.relations, self.relation)
        # max similarity = 1 − least distance, and the constant 1−λ changes no comparison
        return select(lam * query.relevance, np.array([1 - lam]), distance, np.array([LEAST]), top)


class _OneDistance:
    """One relation, or the mean of all, as rows of shape (1, n)."""

    def __init__(self, relations: Any, which: Any) -> None:
        self.relations = relations
        self.column = None if which is None else self._number(which)

    def _number(self, which: Any) -> int:
        names = list(self.relations.names)
        if which in names:
            return names.index(which)
        if isinstance(which, int | np.integer) and 0 <= which < len(names):
            return int(which)
        raise ValueError(f"there is no relation {which!r}; the query has {', '.join(names)}")

    def row(self, i: int) -> np.ndarray:
        rows = self.relations.row(i)
        return rows.mean(axis=0, keepdims=True) if self.column is None else rows[self.column : self.column + 1]
