"""Rerankers learned from rankings, R-LTR and PAMM, by Plackett-Luce likelihoods; the score depends on the chosen set.

A relation may be learned from vectors of the candidates: v_i·W v_j, averaged over the chosen j.

    g_S(i) = v_i · W v̄_S,      v̄_S the mean vector of the chosen set S, 0 while it is empty

W of low rank R is PᵀQ, where P and Q have R rows; at full rank every entry of W is free, and the score is linear in the
parameters. This is the neural tensor network for diversification of Xia et al. (2016) without its tanh.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.checks import generator, positive, whole
from hingerank.data.files import DataError
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
START = 0.1  # standard deviation of the initial factors of W: at 0 their gradient would vanish
TIE = 1e-12  # values of a measure closer than this are equal


class LinearDiverseRanker(DiverseRanker):
    """``f_S(i) = coef_·x_i + relation_coef_·h_S(i) + v_i·W v̄_S``: the score of a candidate given the chosen set S.

    h_S contains, for each relation, the smallest, mean or largest distance from i to the items of S (`aggregate`). W is
    `relation_matrix_`, the learned relation, which only rankers with a `learned_rank` have.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "coef_": Array("features"),
        "relation_coef_": Array("distances"),
        "certificate_": Of(Certificate),
        "trace_": Of(dict, listed=True),
        "relation_matrix_": Array("vectors, vectors", needed=False),
    }
    aggregate: str
    learned_rank: int = 0
    coef_: np.ndarray
    relation_coef_: np.ndarray
    relation_matrix_: np.ndarray
    certificate_: Certificate
    trace_: list[Facts]

    def _start(self, queries: Iterable[DiverseQuery]) -> tuple[list[DiverseQuery], "DiverseScore"]:
        """Return the queries to learn from, and the score function to learn."""
        kinds = aggregate_kinds(self.aggregate)
        kept = self._to_learn_from(queries, *(("relations",) if len(kinds) else ()))
        rank, first = whole("learned_rank", self.learned_rank, least=0), kept[0]
        given = len(kinds) * len(first.relations) if len(kinds) else 0
        return kept, DiverseScore(first.n_features, given, kinds, first.representation.shape[1], rank)

    def _keep(self, solution: Solution, score: "DiverseScore") -> Self:
        """Store the solution and return the reranker."""
        linear, theta = score.split(solution.w)
        self.coef_, self.relation_coef_ = linear[: score.n_features], linear[score.n_features :]
        if score.size:
            self.relation_matrix_ = score.matrix(theta)
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        return self

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        check_n_features(query, self.coef_)
        kinds, w, row = aggregate_kinds(self.aggregate), self.relation_coef_, None
        if len(kinds):
            query.need("relations", to=type(self).__name__)
            if len(kinds) * len(query.relations) != len(w):
                raise ValueError(
                    f"the query has {len(query.relations)} relations, but the model was fitted on "
                    f"{len(w) // len(kinds)}: use as many"
                )
            row = query.relations.row
        return select(query.X @ self.coef_, w, row, kinds, top, self._learned_relation(query))

    def _learned_relation(self, query: DiverseQuery) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return chosen items -> v_i · W v̄ of every candidate; None if no relation is learned."""
        if not self.learned_rank:
            return None
        vectors, W = query.representation, self.relation_matrix_
        if vectors.shape[1] != len(W):
            raise ValueError(
                f"the query has vectors of length {vectors.shape[1]}, the model was fitted on {len(W)}: use the same"
            )
        left = vectors @ W
        return lambda chosen: left @ vectors[chosen].mean(axis=0)

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        super()._check_together(sizes)
        kinds, count = len(aggregate_kinds(self.aggregate)), sizes["distances"]
        if count % kinds if kinds else count:
            raise ValueError(f"relation_coef_ has {count} numbers, expected {kinds} for each relation")
        if self.learned_rank and "vectors" not in sizes:
            raise ValueError("relation_matrix_ is missing: a model with learned_rank above 0 has one")


class OrderedQuery:
    """Rankings of a query's candidates, of equal length (row numbers, best first), and the distances of those they use.

    rows[slots[k, t]] is the (r, n) row of item orders[k, t].
    """

    def __init__(self, query: DiverseQuery, orders: list[np.ndarray], relations: bool) -> None:
        self.X, self.vectors, self.orders = query.X, query.representation, np.stack(orders)
        used, slots = np.unique(self.orders, return_inverse=True)
        self.slots = slots.reshape(self.orders.shape)
        self.rows = np.ascontiguousarray(query.relations.rows(used)) if relations else np.empty((0, 0, query.n))

    @cached_property
    def means(self) -> np.ndarray:
        """(rankings, ranks, width): the mean vector of the items above each rank, 0 at the first."""
        sums = np.cumsum(self.vectors[self.orders], axis=1)
        means = np.zeros_like(sums)
        means[:, 1:] = sums[:, :-1] / np.arange(1, self.orders.shape[1])[:, None]
        return means


@dataclass(frozen=True, eq=False)
class DiverseScore:
    """``ω_r·x_i + ω_d·h_S(i) + v_i·W v̄_S`` as a function of one vector w: ω_r, then ω_d, then the parameters of W.

    W is `width` × `width`, of rank at most `rank`; its parameters are two factors, or all its entries if these are
    fewer.

    Examples
    --------
    >>> [DiverseScore(0, 0, np.empty(0), 4, rank).size for rank in (0, 1, 3, 9)]
    [0, 8, 16, 16]
    """

    n_features: int
    given: int
    kinds: np.ndarray
    width: int
    rank: int

    @property
    def factored(self) -> bool:
        return 0 < 2 * self.rank < self.width

    @property
    def size(self) -> int:
        """The number of parameters of W."""
        return 0 if not self.rank else self.width * (2 * self.rank if self.factored else self.width)

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return the initial w: 0, except for the factors of W."""
        theta = START * rng.standard_normal(self.size) if self.factored else np.zeros(self.size)
        return np.concatenate((np.zeros(self.n_features + self.given), theta))

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the linear weights, and the parameters of W."""
        linear = self.n_features + self.given
        return w[:linear], w[linear:]

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """Return W; it is empty if the rank is 0."""
        if not self.factored:
            side = self.width if self.rank else 0
            return theta.reshape(side, side)
        P, Q = theta.reshape(2, self.rank, self.width)
        return P.T @ Q

    def likelihoods(self, query: OrderedQuery, w: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return log P of each of the query's rankings, and a function: weights → ∇ Σ_k weights_k · log P of k."""
        (linear, theta), d, count = self.split(w), self.n_features, len(query.orders)
        values, g_s, g_w = np.empty(count), np.zeros((count, len(query.X))), np.zeros((count, self.given))
        shifts = np.empty((count, 0, len(query.X)))
        if self.size:
            shifts = query.means @ (query.vectors @ self.matrix(theta)).T
        g_t = np.empty_like(shifts)
        how = (query.rows, query.slots, query.orders, self.kinds, shifts)
        orders_likelihood(query.X @ linear[:d], linear[d:], *how, values, g_s, g_w, g_t)

        def gradient(weights: np.ndarray) -> np.ndarray:
            parts = [query.X.T @ (weights @ g_s), weights @ g_w]
            if self.size:
                ahead = weights[:, None, None] * (g_t @ query.vectors)
                slope = np.tensordot(ahead, query.means, axes=([0, 1], [0, 1]))
                if self.factored:
                    P, Q = theta.reshape(2, self.rank, self.width)
                    slope = np.concatenate((Q @ slope.T, P @ slope))
                parts.append(slope.ravel())
            return np.concatenate(parts)

        return values, gradient


def check_n_features(query: DiverseQuery, coef: np.ndarray) -> None:
    """Raise a ValueError unless the query has a feature for each weight."""
    if query.n_features != len(coef):
        problem = f"the query has {query.n_features} features, but the model was fitted on {len(coef)}"
        raise DataError(problem, "use the same", None if query.n_features else "features of documents")


def ideal_orders(judgments: np.ndarray, top: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """`count` greedy ideal rankings, ties broken at random, up to the last document with a gain (at most `top`)."""
    J = relevant_subtopics(judgments)
    shuffles = [rng.permutation(len(J)) for _ in range(count)]
    return [shuffled[ideal_order(J[shuffled], top)] for shuffled in shuffles]


@dataclass(eq=False, repr=False)
class RLTR(LinearDiverseRanker):
    """min_w ½‖w‖² - C Σ_q log P(y_q),  P(y) = Π_t e^{f_t(y_t)} / Σ_{open i} e^{f_t(i)},  f_t(i) = ω_r·x_i + ω_d·h_t(i).

    Relational learning to rank (Zhu, Lan, Guo, Cheng & Niu 2014). y_q is the greedy ideal ranking of the query by
    its subtopic judgments, up to the last document with a gain and at most ``top`` long. h_t aggregates the distances
    from i to the t-1 documents before. The likelihood is concave in w = (ω_r, ω_d), so L-BFGS finds the maximum. The
    certificate is the relative gradient norm. Queries need ``relations`` and ``judgments``; those without a relevant
    candidate are left out.

    Parameters
    ----------
    C : float, default 1
        Weight of the loss; multiplies its sum over queries.
    aggregate : "min", "mean", "max", "all" or "none"
        Which distances h_t contains; "all" three, or "none" (only relevance: a ListMLE).
    top : int, default 5
        Largest length of the ideal rankings.
    orders : int, default 5
        Ideal rankings per query, with ties in random order; the loss is their mean.
    tol, max_iter : float, int
        The relative gradient norm at which the solver stops, and its largest number of iterations.
    random_state : int, default 0
        Seed of the random orders.
    learned_rank : int, default 0
        Rank of a learned relation: ``+ v_i·W v̄_S``, with the query's ``vectors`` (or X) and their mean over the chosen
        set. From half of the vectors' length on, all entries of W are free, and the likelihood is concave; below that
        W = PᵀQ, ‖P‖² + ‖Q‖² is penalised and the result is a stationary point. With aggregate="none" the learned
        relation is the only one.

    Attributes
    ----------
    coef_, relation_coef_ : ω_r and ω_d
    relation_matrix_ : W, if one is learned
    certificate_, trace_ : as in RankSVM

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(20, 30, noise=0.5, seed=1)
    >>> ranker = RLTR(C=10.0).fit(data[:15])
    >>> ranker.rerank(data[15], top=3).shape, ranker.score(data[15:]) > 0.5
    ((3,), True)
    """

    C: float = 1.0
    aggregate: str = "mean"
    top: int = 5
    orders: int = 5
    tol: float = 1e-4
    max_iter: int = 500
    random_state: int = 0
    learned_rank: int = 0

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("C", "top", "orders", "tol", "max_iter")
        kept, score = self._start(queries)
        rng = generator(self.random_state)
        data = [
            OrderedQuery(query, ideal_orders(query.judgments, self.top, self.orders, rng), len(score.kinds) > 0)
            for query in kept
        ]
        solution = fit_likelihood(data, score, score.start(rng), self.C, self.tol, self.max_iter)
        warn_not_converged(solution.certificate)
        return self._keep(solution, score)


def fit_likelihood(
    data: list[OrderedQuery], score: DiverseScore, w: np.ndarray, C: float, tol: float, max_iter: int
) -> Solution:
    """Minimise ½‖w‖² - C Σ_q mean log-likelihood of q's rankings from w, until ‖g‖ is at most tol times that at w."""
    shards = [data[first : first + SHARD] for first in range(0, len(data), SHARD)]

    def of_shard(queries: list[OrderedQuery], w: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = 0.0, np.zeros_like(w)
        for query in queries:
            values, gradient = score.likelihoods(query, w)
            total += float(values.mean())
            slope += gradient(np.full(len(values), 1 / len(values)))
        return total, slope

    def at(w: np.ndarray) -> tuple[float, np.ndarray]:
        parts = run_shards(lambda shard: of_shard(shard, w), shards)
        value = 0.5 * float(w @ w) - C * sum(value for value, _ in parts)
        return value, w - C * np.sum([slope for _, slope in parts], axis=0)

    return lbfgs(at, w, tol=tol, max_iter=max_iter)


@renamed
@dataclass(eq=False, repr=False)
class PAMM(LinearDiverseRanker):
    """Whenever  log P(y⁺) - log P(y⁻) ≤ margin·(E(y⁺) - E(y⁻)),  step  w += η ∇(log P(y⁺) - log P(y⁻)).

    Perceptron algorithm using measures as margins (Xia, Xu, Lan, Guo & Cheng 2015). P is the Plackett-Luce likelihood
    of R-LTR, and E is the diversity measure to be improved. For every query ``positives`` ideal rankings (with ties in
    random order) and ``negatives`` worse ones are sampled once. The worse ones are, in turn, a random ranking, relevant
    documents in random order, and an ideal ranking with some documents swapped. One step uses the mean over all pairs
    (y⁺, y⁻) of one query; pairs that keep their margin count as 0. The certificate is the fraction of pairs that
    violated their margin in the last pass; training stops when none does. Queries need ``relations`` and ``judgments``;
    those without a relevant candidate are left out.

    Parameters
    ----------
    measure : str
        E, such as "alpha-ndcg@20", "err-ia@20", "nrbp".
    aggregate : as in RLTR
    margin : float, default 3
        Margin of log-likelihood per unit of the measure.
    learning_rate : float, default 0.3
        η.
    max_iter : int, default 30
        Largest number of passes over the queries.
    positives, negatives : int
        Rankings of each query.
    top : int, default 10
        Largest length of the rankings.
    average : bool, default True
        Keep the mean of the weights after each step (an averaged perceptron) rather than the last ones.
    random_state : int, default 0
        Seed of the rankings and of the order of queries.
    learned_rank : int, default 0
        As in RLTR.

    Attributes
    ----------
    coef_, relation_coef_, relation_matrix_, certificate_, trace_ : as in RLTR

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(20, 30, noise=0.5, seed=1)
    >>> PAMM("err-ia@20", max_iter=5).fit(data[:15]).rerank(data[15], top=3).shape
    (3,)
    """

    measure: str = "alpha-ndcg@20"
    aggregate: str = "mean"
    margin: float = 3.0
    learning_rate: float = 0.3
    max_iter: int = 30
    positives: int = 5
    negatives: int = 20
    top: int = 10
    average: bool = True
    random_state: int = 0
    learned_rank: int = 0

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("learning_rate", "max_iter", "positives", "negatives", "top")
        positive("margin", self.margin, least=0)
        kept, score = self._start(queries)
        measure, rng = parse_diversity_measure(self.measure), generator(self.random_state)
        how = (measure, self.top, self.positives, self.negatives, len(score.kinds) > 0, rng)
        data = [Margins(query, *how) for query in kept]
        run, steps = Run("broken", 0.0, self.max_iter - 1), 0
        w = score.start(rng)
        mean, pairs = w.copy(), sum(query.n_pairs for query in data)
        while not run.status:
            broken = 0
            for number in rng.permutation(len(data)):
                count, gradient = data[number].broken(score, w, self.margin)
                w = w + self.learning_rate * gradient
                steps += 1
                mean += (w - mean) / steps
                broken += count
            run.stops(epoch=len(run.trace) + 1, broken=broken / max(1, pairs))
        weights, value = mean if self.average else w, run.trace[-1]["broken"]
        return self._keep(run.solution("fraction of broken margins", weights, value, len(run.trace)), score)


class Margins:
    """Rankings of one query, the first `positives` of them ideal, and their values of a measure.

    All are as long as the ideal one, so that their likelihoods can be compared.
    """

    def __init__(
        self, query: DiverseQuery, measure: DiversityMeasure, top: int, positives: int, negatives: int,
        relations: bool, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        J = relevant_subtopics(query.judgments)
        ideal = ideal_orders(J, top, positives, rng)
        relevant = np.flatnonzero(J.any(axis=1))
        orders = ideal + [_worse(ideal, relevant, query.n, k % 3, rng) for k in range(negatives)]
        best = ideal_order(J, measure.cutoff, measure.alpha) if measure.normalized else None
        self.query, self.positives = OrderedQuery(query, orders, relations), positives
        self.values = np.array([measure(J, order, best) for order in orders])
        # E(y⁺) − E(y⁻) of all pairs; a pair without a gap (a sampled ranking that is ideal) never counts
        self.gaps = np.subtract.outer(self.values[:positives], self.values[positives:])
        self.n_pairs = int((self.gaps > TIE).sum())

    def broken(self, score: DiverseScore, w: np.ndarray, margin: float) -> tuple[int, np.ndarray]:
        """Return the number of pairs with log P(y⁺) − log P(y⁻) ≤ margin·(E⁺ − E⁻), and the step.

        The step is the sum over them of the gradient of log P(y⁺) − log P(y⁻), divided by the number of all pairs.
        """
        values, gradient = score.likelihoods(self.query, w)
        ahead = np.subtract.outer(values[: self.positives], values[self.positives :])
        wrong = (ahead <= margin * self.gaps) & (self.gaps > TIE)
        weight = np.concatenate((wrong.sum(axis=1), -wrong.sum(axis=0))) / wrong.size
        return int(wrong.sum()), gradient(weight)


def _worse(ideal: list[np.ndarray], relevant: np.ndarray, n: int, kind: int, rng: np.random.Generator) -> np.ndarray:
    """Make a worse ranking: kind 0 is random, 1 has relevant documents in random order, 2 is ideal but for swaps."""
    length = len(ideal[0])
    if kind < 2:
        return rng.permutation(relevant if kind else n)[:length]
    start = ideal[rng.integers(len(ideal))]
    order = np.concatenate((start, np.setdiff1d(np.arange(n), start)))
    for _ in range(rng.integers(1, length + 1)):
        a, b = rng.integers(length), rng.integers(n)
        order[a], order[b] = order[b], order[a]
    return order[:length]
