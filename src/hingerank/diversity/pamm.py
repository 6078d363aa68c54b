"""Perceptron algorithm using measures as margins (Xia, Xu, Lan, Guo & Cheng 2015)."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hingerank.diversity.measures import DiversityMeasure, ideal_order, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.orders import OrderedQuery, ideal_orders, likelihoods, ordered_query
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.rltr import LinearDiverseRanker
from hingerank.solvers.solution import Certificate, Solution

TIE = 1e-12  # measures closer than this are equal


class PAMM(LinearDiverseRanker):
    """Whenever  log P(y⁺) − log P(y⁻) ≤ margin·(E(y⁺) − E(y⁻))  step  w += η ∇(log P(y⁺) − log P(y⁻)).

    P is the Plackett–Luce likelihood of R-LTR, E the measure that is to be improved: any diversity measure. For every
    query `positives` ideal rankings (equal documents in random order) and `negatives` worse ones are drawn once: in
    turn a random ranking, relevant documents in random order, and an ideal ranking with some documents swapped. One
    step takes all pairs (y⁺, y⁻) of one query: the mean over them, those that keep their margin counting as 0.

    measure: "alpha-ndcg@20", "err-ia@20", "nrbp", ...; top: greatest length of the rankings.
    margin: how much log-likelihood one unit of the measure asks for. learning_rate: η. epochs: passes over the queries.
    average: keep the mean of the weights after each step (an averaged perceptron) rather than the last ones.
    aggregate: as in RLTR. The certificate is the share of pairs that broke their margin in the last pass; training
    stops when none does.

    Needs `relations` and `judgments`; queries without a relevant candidate are left out.
    """

    def __init__(
        self,
        measure: str = "alpha-ndcg@20",
        aggregate: str = "mean",
        margin: float = 3.0,
        learning_rate: float = 0.3,
        epochs: int = 30,
        positives: int = 5,
        negatives: int = 20,
        top: int = 10,
        average: bool = True,
        random_state: int = 0,
    ) -> None:
        self.measure = measure
        self.aggregate = aggregate
        self.margin = margin
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.positives = positives
        self.negatives = negatives
        self.top = top
        self.average = average
        self.random_state = random_state

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> "PAMM":
        """Learn from queries with judgments."""
        self._check_positive("learning_rate", "epochs", "positives", "negatives", "top")
        kept, kinds = self._training_queries(queries)
        measure = parse_diversity_measure(self.measure)
        rng = np.random.default_rng(self.random_state)
        data = [
            _margins(query, measure, self.top, self.positives, self.negatives, len(kinds) > 0, rng) for query in kept
        ]
        self._keep(self._perceptron(data, kinds, rng), kept[0].n_features)
        return self

    def _perceptron(self, data: list["_Margins"], kinds: np.ndarray, rng: np.random.Generator) -> Solution:
        began = time.perf_counter()
        first = data[0].query
        w = np.zeros(first.X.shape[1] + len(kinds) * first.rows.shape[1])
        mean, steps, trace, share = w.copy(), 0, [], 1.0
        for epoch in range(1, self.epochs + 1):
            broken = pairs = 0
            for number in rng.permutation(len(data)):
                count, gradient = data[number].broken(w, kinds, self.margin)
                w = w + self.learning_rate * gradient
                steps += 1
                mean += (w - mean) / steps
                broken, pairs = broken + count, pairs + data[number].n_pairs
            share = broken / max(1, pairs)
            trace.append({"epoch": epoch, "broken": share, "seconds": time.perf_counter() - began})
            if broken == 0:
                break
        status = "converged" if share == 0 else "max_iter"
        seconds = time.perf_counter() - began
        certificate = Certificate("share of broken margins", share, 0.0, status, len(trace), seconds)
        return Solution(mean if self.average else w, share, certificate, trace)


@dataclass(frozen=True, eq=False)
class _Margins:
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
        share = np.concatenate((wrong.sum(axis=1), -wrong.sum(axis=0))) / wrong.size
        return int(wrong.sum()), np.concatenate((self.query.X.T @ (share @ g_s), share @ g_w))


def _margins(
    query: DiverseQuery,
    measure: DiversityMeasure,
    top: int,
    positives: int,
    negatives: int,
    relations: bool,
    rng: np.random.Generator,
) -> _Margins:
    """Draw the rankings of a query, all as long as its ideal one, so that their likelihoods can be compared."""
    J = relevant_subtopics(query.judgments)
    ideal = ideal_orders(J, top, max(1, positives), rng)
    relevant = np.flatnonzero(J.any(axis=1))
    worse = [_worse(ideal, relevant, query.n, k % 3, rng) for k in range(max(1, negatives))]
    orders = ideal + worse
    best = ideal_order(J, measure.cutoff, measure.alpha) if measure.normalized else None
    values = np.array([measure(J, order, best) for order in orders])
    return _Margins(ordered_query(query, orders, relations), values, len(ideal))


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
