"""Rankings to learn from, the relation rows that they need, and their likelihoods."""

from dataclasses import dataclass

import numpy as np

from hingerank.data.errors import DataError
from hingerank.diversity.kernels import orders_likelihood
from hingerank.diversity.measures import ideal_order, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery


@dataclass(frozen=True, eq=False)
class OrderedQuery:
    """Features, rankings of one length (row numbers, best first) and the distances of every item that they use.

    rows[slot[i]] is the (r, n) row of item i; items that no ranking uses have no row.
    """

    X: np.ndarray
    orders: np.ndarray
    rows: np.ndarray
    slot: np.ndarray


def ordered_query(query: DiverseQuery, orders: list[np.ndarray], relations: bool) -> OrderedQuery:
    """Collect the relation rows of all items in `orders`, once each."""
    stacked, slot = np.stack(orders), np.full(query.n, -1, np.int64)
    if not relations:
        return OrderedQuery(query.X, stacked, np.empty((0, 0, query.n)), slot)
    used = np.unique(stacked)
    slot[used] = np.arange(len(used))
    return OrderedQuery(query.X, stacked, np.ascontiguousarray(query.relations.rows(used)), slot)


def likelihoods(query: OrderedQuery, w: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log P of each ranking under Plackett and Luce's model, its gradients in scores (n) and in relation weights."""
    X, orders, d = query.X, query.orders, query.X.shape[1]
    values, g_s, g_w = np.empty(len(orders)), np.zeros((len(orders), len(X))), np.zeros((len(orders), len(w) - d))
    orders_likelihood(X @ w[:d], w[d:], query.rows, query.slot, orders, kinds, values, g_s, g_w)
    return values, g_s, g_w


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
