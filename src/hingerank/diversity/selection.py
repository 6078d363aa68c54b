"""Rankings to learn from, the relation rows that they need, and their likelihoods."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hingerank.data.blocks import positive, whole
from hingerank.data.files import DataError
from hingerank.diversity.kernels import (
    LEAST,
    MEAN,
    MOST,
    best_linear,
    next_pick,
    orders_likelihood,
    pm2_order,
    xquad_order,
)
from hingerank.diversity.measures import ideal_order, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery, check_queries
from hingerank.diversity.trec import RankedList, Run
from hingerank.rankers.base import SavedModel


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


# What every diversifying reranker shares: checks, runs, scores and the model file.


class DiverseRanker(SavedModel, BaseEstimator):
    """`fit(queries)`, `rerank(query, top)`; a reranker defines `_order(query, top)` and lists the parts it `_needs`."""

    _needs: tuple[str, ...] = ()

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> Any:
        """Nothing to learn here: checks the queries and returns the reranker; learned methods override this."""
        self._checked(queries)
        return self

    def rerank(self, query: DiverseQuery, top: int = 20) -> np.ndarray:
        """Row numbers of the `top` chosen candidates (all, if there are fewer), best first.

        `query.docids[order]` are their names.
        """
        check_is_fitted(self)
        top = whole("top", top)
        if not isinstance(query, DiverseQuery):
            raise DataError(f"expected a DiverseQuery, got {type(query).__name__}")
        query.need(*self._needs, to=type(self).__name__)
        return self._order(query, int(min(top, query.n)))

    def rerank_run(self, queries: Iterable[DiverseQuery], top: int = 20) -> Run:
        """{query id: the `top` chosen documents}, as `write_run` takes it."""
        run: Run = {}
        for query in queries:
            if query.qid in run:
                raise DataError(f"two queries have the id {query.qid!r}: give each its own to write a run")
            docids = [str(docid) for docid in query.docids[self.rerank(query, top)]]
            run[query.qid] = RankedList(docids, np.arange(len(docids), 0, -1, dtype=np.float64))
        return run

    def score(self, queries: Iterable[DiverseQuery], measure: str = "alpha-ndcg@20") -> float:
        """Mean of a diversity measure, the ideal taken among each query's candidates."""
        wanted = parse_diversity_measure(measure)
        values = []
        for query in queries:
            query.need("judgments", to="score")
            values.append(wanted(query.judgments, self.rerank(query, wanted.cutoff or query.n)))
        if not values:
            raise DataError("no queries to score")
        return float(np.mean(values))

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        raise NotImplementedError

    def _checked(self, queries: Any, *also: str) -> list[DiverseQuery]:
        """The queries as a list, all of one shape, with the parts that are needed."""
        listed = list(queries)
        if not listed:
            raise DataError("no queries to learn from")
        check_queries(listed)
        for query in listed:
            query.need(*self._needs, *also, to=type(self).__name__)
        return listed

    def _check_positive(self, *names: str) -> None:
        """A ValueError unless these parameters are numbers above 0; None is allowed where it is the default."""
        for name in names:
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))

    def __sklearn_is_fitted__(self) -> bool:
        return all(hasattr(self, name) for name in self._fitted)


def check_share(name: str, value: float) -> float:
    """A ValueError unless 0 ≤ value ≤ 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}, expected a number in [0, 1]")
    return float(value)


# Sequential selection with a linear score: f_S(i) = s_i + w · h_S(i), h_S aggregating the distances from i to S.


AGGREGATES = {"min": (LEAST,), "mean": (MEAN,), "max": (MOST,), "all": (LEAST, MEAN, MOST), "none": ()}


def aggregate_kinds(name: str) -> np.ndarray:
    """Codes of the aggregates that `name` asks for."""
    if name not in AGGREGATES:
        raise ValueError(f"aggregate is {name!r}, expected one of {', '.join(AGGREGATES)}")
    return np.array(AGGREGATES[name], np.int64)


def select(s: np.ndarray, w: np.ndarray, relations: Any, kinds: np.ndarray, top: int) -> np.ndarray:
    """The greedy order of the first `top` items; O(top · n · relations), asking for `top` − 1 rows of distances.

    relations: anything with row(i) -> (r, n); h of the empty set is 0, so the first item is the one with the best s.
    """
    n = len(s)
    H, taken, workspace = np.zeros((len(w), n)), np.zeros(n, np.bool_), np.empty(n)
    order = np.empty(min(top, n), np.int64)
    pick = best_linear(s, H, w, taken, workspace) if len(order) else 0
    for t in range(len(order)):
        order[t] = pick
        taken[pick] = True
        if t + 1 == len(order):
            break
        if len(w):
            pick = next_pick(s, H, w, taken, workspace, relations.row(pick), t + 1, kinds)
        else:
            pick = best_linear(s, H, w, taken, workspace)
    return order


# Maximal marginal relevance (Carbonell & Goldstein 1998).


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


# Explicit query aspect diversification (Santos, Macdonald & Ounis 2010).


class XQuAD(DiverseRanker):
    """next = argmax_d  (1−λ)·P(d|q) + λ Σ_a P(a|q)·P(d|a)·Π_{d'∈S} (1 − P(d'|a)).

    lam: λ in [0, 1]; 0 keeps the order by relevance.

    Needs `relevance` and `aspects`.

    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), relevance=[0.9, 0.8, 0.1], aspects=[[1, 0], [1, 0], [0, 1]])
    >>> XQuAD(lam=0.8).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("relevance", "aspects")

    def __init__(self, lam: float = 0.5) -> None:
        self.lam = lam

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        lam = check_share("lam", self.lam)
        return xquad_order(query.relevance, query.aspects, query.aspect_weights, lam, top)


# Diversity by proportionality (Dang & Croft 2012).


class PM2(DiverseRanker):
    """next = argmax_d  λ·q_b·P(d|b) + (1−λ) Σ_{a≠b} q_a·P(d|a),   q_a = w_a / (2s_a + 1),  b = argmax_a q_a.

    Seats are given to aspects as in elections by the Sainte-Laguë method: after a pick s_a += P(d|a) / Σ_a P(d|a).

    lam: λ in [0, 1], how much the aspect whose turn it is counts against the others.

    Needs `aspects` (w_a is `aspect_weights`); `relevance`, if there, decides between candidates that score the same.

    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), aspects=[[0.9, 0], [0.8, 0], [0, 0.7]], aspect_weights=[0.6, 0.4])
    >>> PM2(lam=0.5).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("aspects",)

    def __init__(self, lam: float = 0.5) -> None:
        self.lam = lam

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        relevance = np.zeros(query.n) if query.relevance is None else query.relevance
        return pm2_order(relevance, query.aspects, query.aspect_weights, check_share("lam", self.lam), top)
