"""Rerankers learned from rankings: R-LTR and PAMM."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from hingerank.arrays import Facts
from hingerank.diversity.kernels import orders_likelihood
from hingerank.diversity.measures import DiversityMeasure, ideal_order, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import DiverseRanker, aggregate_kinds, select
from hingerank.export.attributes import Array, Attribute, Of
from hingerank.kernels.threads import run_shards
from hingerank.rankers.base import warn_not_converged
from hingerank.renaming import renamed
from hingerank.solvers.lbfgs import lbfgs
from hingerank.solvers.run import Certificate, Run, Solution

SHARD = 8  # queries evaluated together by one thread
TIE = 1e-12  # measures closer than this are equal


class LinearDiverseRanker(DiverseRanker):
    """``f_S(i) = coef_·x_i + relation_coef_·h_S(i)``: a linear score of a candidate given the chosen set S.

    h_S holds, for each relation, the least, mean or largest distance from i to the items of S (`aggregate`).
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "coef_": Array("features"),
        "relation_coef_": Array("distances"),
        "certificate_": Of(Certificate),
        "trace_": Of(dict, listed=True),
    }
    aggregate: str
    coef_: np.ndarray
    relation_coef_: np.ndarray
    certificate_: Certificate
    trace_: list[Facts]

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        check_n_features(query, self.coef_)
        kinds = aggregate_kinds(self.aggregate)
        if len(kinds):
            query.need("relations", to=type(self).__name__)
            if len(kinds) * len(query.relations) != len(self.relation_coef_):
                fitted = len(self.relation_coef_) // len(kinds)
                raise ValueError(f"the query has {len(query.relations)} relations, the model was fitted on {fitted}")
        return select(query.X @ self.coef_, self.relation_coef_, query.relations, kinds, top)

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        super()._check_together(sizes)
        kinds, count = len(aggregate_kinds(self.aggregate)), sizes["distances"]
        if count % kinds if kinds else count:
            raise ValueError(f"relation_coef_ has {count} numbers, expected {kinds} for each relation")

    def _training_queries(self, queries: Any) -> tuple[list[DiverseQuery], np.ndarray]:
        """Queries to learn from, and the codes of the aggregates."""
        kinds = aggregate_kinds(self.aggregate)
        return self._to_learn_from(queries, *(("relations",) if len(kinds) else ())), kinds

    def _take(self, solution: Solution, n_features: int) -> Self:
        """Keep what was learned; returns the reranker."""
        self.coef_, self.relation_coef_ = solution.w[:n_features], solution.w[n_features:]
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        return self


def check_n_features(query: DiverseQuery, coef: np.ndarray) -> None:
    """A ValueError unless the query has a feature for each weight."""
    if query.n_features != len(coef):
        raise ValueError(f"the query has {query.n_features} features, the model was fitted on {len(coef)}")


@dataclass(frozen=True, eq=False)
class OrderedQuery:
    """Features, rankings of one length (row numbers, best first) and the distances of every item that they use.

    rows[slot[i]] is the (r, n) row of item i; items that no ranking uses have no row.
    """

    X: np.ndarray
    orders: np.ndarray
    rows: np.ndarray
    slot: np.ndarray

    def dimension(self, kinds: np.ndarray) -> int:
        """Weights of a linear score: of the features, and of each relation for every kind of aggregate."""
        return self.X.shape[1] + len(kinds) * self.rows.shape[1]


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


def ideal_orders(judgments: np.ndarray, top: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """`count` greedy ideal rankings, ties broken at random, as far as documents bring something new (at most `top`)."""
    J = relevant_subtopics(judgments)
    shuffles = [rng.permutation(len(J)) for _ in range(count)]
    return [shuffled[ideal_order(J[shuffled], top)] for shuffled in shuffles]


class RLTR(LinearDiverseRanker):
    """min_w ½‖w‖² - C Σ_q log P(y_q),  P(y) = Π_t e^{f_t(y_t)} / Σ_{open i} e^{f_t(i)},  f_t(i) = ω_r·x_i + ω_d·h_t(i).

    Relational learning to rank (Zhu, Lan, Guo, Cheng & Niu 2014). y_q is the greedy ideal ranking of the query by its
    subtopic judgments, as far as its documents bring a gain and at most ``top`` long; h_t aggregates the distances from
    i to the t-1 documents before. The likelihood is concave in w = (ω_r, ω_d), so L-BFGS finds the maximum; the
    certificate is the relative gradient norm. Needs ``relations`` and ``judgments``; queries without a relevant
    candidate are left out.

    Parameters
    ----------
    C : float, default 1
        Weight of the loss; multiplies its sum over queries.
    aggregate : "min", "mean", "max", "all" or "none"
        What h_t holds of the distances; "all" three, or "none" (relevance alone: a ListMLE).
    top : int, default 5
        Greatest length of the ideal rankings.
    orders : int, default 5
        Rankings per query, equal documents of the ideal in random order; their mean counts.
    tol, max_iter : float, int
        Of the solver: relative norm of the gradient to reach, iterations at most.
    random_state : int, default 0
        Seed of the random order.

    Attributes
    ----------
    coef_, relation_coef_ : ω_r and ω_d
    certificate_, trace_ : as in RankSVM

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(20, 30, noise=0.5, seed=1)
    >>> ranker = RLTR(C=10.0).fit(data[:15])
    >>> ranker.rerank(data[15], top=3).shape, ranker.score(data[15:]) > 0.5
    ((3,), True)
    """

    def __init__(
        self, C: float = 1.0, aggregate: str = "mean", top: int = 5, orders: int = 5, tol: float = 1e-4,
        max_iter: int = 500, random_state: int = 0,
    ) -> None:  # fmt: skip
        self.C = C
        self.aggregate = aggregate
        self.top = top
        self.orders = orders
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("C", "top", "orders", "tol", "max_iter")
        kept, kinds = self._training_queries(queries)
        rng = np.random.default_rng(self.random_state)
        data = [
            ordered_query(query, ideal_orders(query.judgments, self.top, self.orders, rng), len(kinds) > 0)
            for query in kept
        ]
        solution = fit_likelihood(data, kinds, self.C, self.tol, self.max_iter)
        warn_not_converged(solution.certificate)
        return self._take(solution, kept[0].n_features)


def fit_likelihood(data: list[OrderedQuery], kinds: np.ndarray, C: float, tol: float, max_iter: int) -> Solution:
    """Minimise ½‖w‖² - C Σ_q mean log-likelihood of q's rankings, until ‖g(w)‖ ≤ tol·‖g(0)‖."""
    shards = [data[first : first + SHARD] for first in range(0, len(data), SHARD)]

    def at(w: np.ndarray) -> tuple[float, np.ndarray]:
        parts = run_shards(lambda shard: _mean_likelihood(shard, w, kinds), shards)
        value = 0.5 * float(w @ w) - C * sum(value for value, _ in parts)
        return value, w - C * np.sum([gradient for _, gradient in parts], axis=0)

    return lbfgs(at, np.zeros(data[0].dimension(kinds)), tol=tol, max_iter=max_iter)


def _mean_likelihood(queries: list[OrderedQuery], w: np.ndarray, kinds: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum over queries of the mean log-likelihood of a query's rankings, and its gradient."""
    total, gradient = 0.0, np.zeros_like(w)
    for query in queries:
        values, g_s, g_w = likelihoods(query, w, kinds)
        total += float(values.mean())
        gradient += np.concatenate((query.X.T @ g_s.mean(axis=0), g_w.mean(axis=0)))
    return total, gradient


@renamed
class PAMM(LinearDiverseRanker):
    """Whenever  log P(y⁺) - log P(y⁻) ≤ margin·(E(y⁺) - E(y⁻))  step  w += η ∇(log P(y⁺) - log P(y⁻)).

    Perceptron algorithm using measures as margins (Xia, Xu, Lan, Guo & Cheng 2015). P is the Plackett-Luce likelihood
    of R-LTR, E the measure that is to be improved: any diversity measure. For every query ``positives`` ideal rankings
    (equal documents in random order) and ``negatives`` worse ones are drawn once: in turn a random ranking, relevant
    documents in random order, and an ideal ranking with some documents swapped. One step takes all pairs (y⁺, y⁻) of
    one query: the mean over them, those that keep their margin counting as 0. The certificate is the fraction of pairs
    that broke their margin in the last pass; training stops when none does. Needs ``relations`` and ``judgments``;
    queries without a relevant candidate are left out.

    Parameters
    ----------
    measure : str
        E, such as "alpha-ndcg@20", "err-ia@20", "nrbp".
    aggregate : as in RLTR
    margin : float, default 3
        How much log-likelihood one unit of the measure asks for.
    learning_rate : float, default 0.3
        η.
    max_iter : int, default 30
        Most passes over the queries.
    positives, negatives : int
        Rankings of each query.
    top : int, default 10
        Greatest length of the rankings.
    average : bool, default True
        Keep the mean of the weights after each step (an averaged perceptron) rather than the last ones.
    random_state : int, default 0
        Seed of the rankings and of the order of queries.

    Attributes
    ----------
    coef_, relation_coef_, certificate_, trace_ : as in RLTR

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(20, 30, noise=0.5, seed=1)
    >>> PAMM("err-ia@20", max_iter=5).fit(data[:15]).rerank(data[15], top=3).shape
    (3,)
    """

    def __init__(
        self, measure: str = "alpha-ndcg@20", aggregate: str = "mean", margin: float = 3.0, learning_rate: float = 0.3,
        max_iter: int = 30, positives: int = 5, negatives: int = 20, top: int = 10, average: bool = True,
        random_state: int = 0,
    ) -> None:  # fmt: skip
        self.measure = measure
        self.aggregate = aggregate
        self.margin = margin
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.positives = positives
        self.negatives = negatives
        self.top = top
        self.average = average
        self.random_state = random_state

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("learning_rate", "max_iter", "positives", "negatives", "top")
        kept, kinds = self._training_queries(queries)
        measure, rng = parse_diversity_measure(self.measure), np.random.default_rng(self.random_state)
        data = [
            margins(query, measure, self.top, self.positives, self.negatives, len(kinds) > 0, rng) for query in kept
        ]
        return self._take(self._perceptron(data, kinds, rng), kept[0].n_features)

    def _perceptron(self, data: list["Margins"], kinds: np.ndarray, rng: np.random.Generator) -> Solution:
        run, steps = Run("broken", 0.0, self.max_iter - 1), 0
        w = np.zeros(data[0].query.dimension(kinds))
        mean, pairs = w.copy(), sum(query.n_pairs for query in data)
        while not run.status:
            broken = 0
            for number in rng.permutation(len(data)):
                count, gradient = data[number].broken(w, kinds, self.margin)
                w = w + self.learning_rate * gradient
                steps += 1
                mean += (w - mean) / steps
                broken += count
            run.stops(epoch=len(run.trace) + 1, broken=broken / max(1, pairs))
        weights, value = mean if self.average else w, run.trace[-1]["broken"]
        return run.solution("fraction of broken margins", weights, value, len(run.trace))


@dataclass(frozen=True, eq=False)
class Margins:
    """Rankings of one query, the first `positives` of them ideal, and their values of the measure."""

    query: OrderedQuery
    values: np.ndarray
    positives: int

    @cached_property
    def gaps(self) -> np.ndarray:
        """E(y⁺) − E(y⁻) of all pairs; a pair without a gap (a drawn ranking that happens to be ideal) never counts."""
        return np.subtract.outer(self.values[: self.positives], self.values[self.positives :])

    @cached_property
    def n_pairs(self) -> int:
        return int((self.gaps > TIE).sum())

    def broken(self, w: np.ndarray, kinds: np.ndarray, margin: float) -> tuple[int, np.ndarray]:
        """Number of pairs with log P(y⁺) − log P(y⁻) ≤ margin·(E⁺ − E⁻), and the step: Σ over them of the gradient of
        log P(y⁺) − log P(y⁻), divided by the number of all pairs."""
        likelihood, g_s, g_w = likelihoods(self.query, w, kinds)
        ahead = np.subtract.outer(likelihood[: self.positives], likelihood[self.positives :])
        wrong = (ahead <= margin * self.gaps) & (self.gaps > TIE)
        weight = np.concatenate((wrong.sum(axis=1), -wrong.sum(axis=0))) / wrong.size
        return int(wrong.sum()), np.concatenate((self.query.X.T @ (weight @ g_s), weight @ g_w))


def margins(
    query: DiverseQuery, measure: DiversityMeasure, top: int, positives: int, negatives: int, relations: bool,
    rng: np.random.Generator,
) -> Margins:  # fmt: skip
    """Draw the rankings of a query, all as long as its ideal one, so that their likelihoods can be compared."""
    J = relevant_subtopics(query.judgments)
    ideal = ideal_orders(J, top, positives, rng)
    relevant = np.flatnonzero(J.any(axis=1))
    worse = [_worse(ideal, relevant, query.n, k % 3, rng) for k in range(negatives)]
    orders = ideal + worse
    best = ideal_order(J, measure.cutoff, measure.alpha) if measure.normalized else None
    values = np.array([measure(J, order, best) for order in orders])
    return Margins(ordered_query(query, orders, relations), values, len(ideal))


def _worse(ideal: list[np.ndarray], relevant: np.ndarray, n: int, kind: int, rng: np.random.Generator) -> np.ndarray:
    """0: a random ranking; 1: relevant documents in random order; 2: an ideal ranking after some random swaps."""
    length = len(ideal[0])
    if kind < 2:
        return rng.permutation(relevant if kind else n)[:length]
    start = ideal[rng.integers(len(ideal))]
    order = np.concatenate((start, np.setdiff1d(np.arange(n), start)))
    for _ in range(rng.integers(1, length + 1)):
        a, b = rng.integers(length), rng.integers(n)
        order[a], order[b] = order[b], order[a]
    return order[:length]
