"""Rankings to learn from, and the relation rows that they need."""

from dataclasses import dataclass

import numpy as np

from hingerank.data.diverse import DiverseQuery
from hingerank.data.errors import DataError
from hingerank.metrics.diversity import ideal_order, relevant_subtopics


@dataclass(frozen=True, eq=False)
class OrderedQuery:
    """Features, rankings (row numbers, best first) and the distances of every item that the rankings use.

    rows[slot[i]] is the (r, n) row of item i; items that no ranking uses have no row.
    """

    X: np.ndarray
    orders: list[np.ndarray]
    rows: np.ndarray
    slot: np.ndarray


def ordered_query(query: DiverseQuery, orders: list[np.ndarray], relations: bool) -> OrderedQuery:
    """Collect the relation rows of all items in `orders`, once each."""
    slot = np.full(query.n, -1, np.int64)
    if not relations:
        return OrderedQuery(query.X, orders, np.empty((0, 0, query.n)), slot)
    used = np.unique(np.concatenate(orders))
    slot[used] = np.arange(len(used))
    return OrderedQuery(query.X, orders, np.ascontiguousarray(query.relations.rows(used)), slot)


def ideal_orders(judgments: np.ndarray, top: int, count: int, rng: np.random.Generator | None) -> list[np.ndarray]:
    """`count` greedy ideal rankings, ties broken at random, as far as documents bring something new (at most `top`).

    Without a generator one ranking, ties to the first. No rankings if nothing is relevant.
    """
    J = relevant_subtopics(judgments)
    if not J.size:
        return []
    if rng is None:
        return [ideal_order(J, top)]
    shuffles = [rng.permutation(len(J)) for _ in range(count)]
    return [shuffled[ideal_order(J[shuffled], top)] for shuffled in shuffles]


def useful(queries: list[DiverseQuery]) -> list[DiverseQuery]:
    """Queries with two candidates or more and something relevant; an error if none is left."""
    kept = [query for query in queries if query.n > 1 and (query.judgments > 0).any()]
    if not kept:
        raise DataError(f"none of the {len(queries)} queries has a relevant candidate and another one to compare with")
    return kept


def by_relevance(query: DiverseQuery, count: int | None, to: str) -> tuple[DiverseQuery, np.ndarray]:
    """The query with its `count` most relevant candidates only, best first, and the rows of all in that order.

    With count None the query as it is.
    """
    if count is None:
        return query, np.arange(query.n)
    query.need("relevance", to=to)
    order = np.argsort(-query.relevance, kind="stable")
    return query.subset(order[:count]), order
