"""Structural SVM for any diversity measure (Tsochantaridis et al. 2004, as compared with PAMM by Xia et al. 2015)."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from hingerank.diversity.kernels import order_features, violating_order
from hingerank.diversity.measures import DiversityMeasure, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.orders import by_relevance, ideal_orders, useful
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.rltr import LinearDiverseRanker
from hingerank.diversity.selection import aggregate_kinds
from hingerank.diversity.separation import LOSS_SHARES, SelectionRisk, minimise_risk
from hingerank.rankers.base import warn_not_converged


class StructSVMDiv(LinearDiverseRanker):
    """min_w ½‖w‖² + C Σ_q max_y [ E(y*) − E(y) + w·(Ψ(y) − Ψ(y*)) ],   Ψ(y) = Σ_t γ_t (x_{y_t}, h_t(y_t)) / Σ_t γ_t.

    E is the measure, y* the greedy ideal ranking, h_t the aggregated distances to the documents before (as in R-LTR),
    γ_t = 1/log₂(t+1), so that what stands first counts most. Solved by cutting planes; the most violated ranking is
    searched greedily: at each rank the document with the largest score minus what it adds to the measure.

    The maximum looks at the best of all wrong rankings, so among hundreds of candidates some wrong ones always score as
    well as the right ones and w = 0 is optimal. Therefore only the best `candidates` by `relevance` take part, in
    training and in reranking; at w = 0 they keep that order. None lets all take part, in the order given.

    measure: "alpha-ndcg@20", "err-ia@20", ...; C, tol, max_iter: of the cutting-plane solver; top: length of the
    rankings, default the measure's cutoff or 20; aggregate and orders (ideal rankings per query): as in RLTR.

    Needs `relations`, `judgments` and, with `candidates`, `relevance`; queries without a relevant candidate are left
    out.
    """

    def __init__(
        self,
        measure: str = "alpha-ndcg@20",
        C: float = 1.0,
        candidates: int | None = 50,
        aggregate: str = "mean",
        top: int | None = None,
        orders: int = 5,
        tol: float = 1e-2,
        max_iter: int = 500,
        random_state: int = 0,
    ) -> None:
        self.measure = measure
        self.C = C
        self.candidates = candidates
        self.aggregate = aggregate
        self.top = top
        self.orders = orders
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> "StructSVMDiv":
        """Learn from queries with judgments."""
        self._check_positive("C", "candidates", "top", "orders", "tol", "max_iter")
        kinds, measure = aggregate_kinds(self.aggregate), parse_diversity_measure(self.measure)
        checked = self._checked(queries, "judgments", *(("relations",) if len(kinds) else ()))
        kept = useful([self._competitors(query)[0] for query in checked])
        rng = np.random.default_rng(self.random_state)
        top = self.top or measure.cutoff or 20
        searches = [_RankingSearch(query, measure, top, self.orders, kinds, rng) for query in kept]
        risk = SelectionRisk(searches, searches[0].dimension)
        solution = minimise_risk(risk, searches[0].dimension, self.C, self.tol, self.max_iter)
        self._keep(solution, kept[0].n_features)
        warn_not_converged(self.certificate_)
        return self

    def _competitors(self, query: DiverseQuery) -> tuple[DiverseQuery, np.ndarray]:
        return by_relevance(query, self.candidates, to=type(self).__name__)

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        best, rows = self._competitors(query)
        chosen = super()._order(best, min(top, best.n))
        return np.concatenate((rows[chosen], rows[best.n :]))[:top]


class _RankingSearch:
    """Finds the most violating ranking of one query, greedily; calling it gives (loss, Ψ(y) − Ψ*)."""

    def __init__(
        self, query: DiverseQuery, measure: DiversityMeasure, top: int, orders: int, kinds: np.ndarray, rng: Any
    ) -> None:
        self.X, self.kinds, self.J = query.X, kinds, relevant_subtopics(query.judgments)
        self.tensor = (
            query.relations.materialize().rows(range(query.n)) if len(kinds) else np.empty((query.n, 0, query.n))
        )
        self.dimension = query.n_features + len(kinds) * self.tensor.shape[1]
        ideal = ideal_orders(self.J, top, max(1, orders), rng)
        self.discounts = 1 / np.log2(np.arange(2, len(ideal[0]) + 2))
        self.discounts /= self.discounts.sum()
        self.weights = _weight_table(measure, self.J, ideal[0])
        self.ideal = np.mean([self._features(order) for order in ideal], axis=0)
        self.ideal_value = float(np.mean([measure(self.J, order) for order in ideal]))

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        d, psi = self.X.shape[1], np.empty(self.dimension)
        s, worst, loss, slope = self.X @ w[:d], -np.inf, 0.0, np.zeros_like(w)
        for share in LOSS_SHARES:
            how = (self.tensor, self.kinds, self.discounts, self.J, self.weights, share, psi)
            _, value = violating_order(self.X, s, w[d:], *how)
            violation = self.ideal_value - value + float((psi - self.ideal) @ w)
            if violation > worst:
                worst, loss, slope = violation, self.ideal_value - value, psi - self.ideal
        return loss, slope

    def _features(self, order: np.ndarray) -> np.ndarray:
        psi = np.empty(self.dimension)
        order_features(self.X, order, self.tensor, self.kinds, self.discounts, psi)
        return psi


def _weight_table(measure: DiversityMeasure, J: np.ndarray, ideal: np.ndarray) -> np.ndarray:
    """[t, c, j]: what covering subtopic j for the (c+1)-th time at rank t+1 adds to the measure."""
    length, n_relevant = len(ideal), J.sum(axis=0)
    counts = np.repeat(np.arange(length)[:, None], J.shape[1], axis=1)
    table = np.stack([measure.weights(rank, counts, n_relevant) for rank in range(1, length + 1)])
    if measure.cutoff is not None:
        table[measure.cutoff :] = 0
    return table / measure.plain_value(J, ideal) if measure.normalized else table
