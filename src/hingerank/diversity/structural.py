"""Structural SVMs over selections: the risk, its planes, and the memory of selections found so far.

    R(w) = Σ_q max_y  loss_q(y) + w·(Ψ_q(y) − Ψ_q*),        Ψ_q* the mean over q's ideal selections

The maximum over all selections is NP-hard; the greedy one is taken, as in the papers. Every selection ever found stays
with its query and competes in later maxima, so planes never contradict a later risk and the gap cannot turn negative.
Planes are true lower bounds of R, but R(w) may be larger than the greedy value: the gap certifies the problem over the
selections that greedy search reached."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.diversity.kernels import coverage_order, order_features, violating_order
from hingerank.diversity.learning import LinearDiverseRanker, ideal_orders
from hingerank.diversity.measures import DiversityMeasure, ideal_order, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import DiverseRanker, aggregate_kinds, by_relevance, useful
from hingerank.kernels.threads import run_shards
from hingerank.rankers.base import warn_not_converged
from hingerank.solvers.cutting_plane import cutting_plane
from hingerank.solvers.run import Certificate, Solution

LOSS_SHARES = (1.0, 0.5, 0.25, 0.0)  # greedy search is tried with these parts of the loss; the worst selection counts


class SelectionRisk:
    """The oracle for `cutting_plane`: calling it with w gives (R(w), a subgradient).

    separate[q](w) returns (loss, Ψ(y) − Ψ*) of the most violating selection y of query q that greedy search finds.
    """

    def __init__(self, separate: Sequence[Callable[[np.ndarray], tuple[float, np.ndarray]]], dimension: int) -> None:
        self.separate = list(separate)
        self.losses = [np.zeros(1) for _ in self.separate]  # the ideal itself: no loss, no difference
        self.slopes = [np.zeros((1, dimension)) for _ in self.separate]

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        found = run_shards(lambda search: search(w), self.separate)
        risk, gradient = 0.0, np.zeros_like(w)
        for q, (loss, slope) in enumerate(found):
            if loss + slope @ w > (self.losses[q] + self.slopes[q] @ w).max() + 1e-12:
                self.losses[q] = np.append(self.losses[q], loss)
                self.slopes[q] = np.vstack((self.slopes[q], slope))
            values = self.losses[q] + self.slopes[q] @ w
            worst = int(values.argmax())
            risk += float(values[worst])
            gradient += self.slopes[q][worst]
        return risk, gradient


def minimise_risk(risk: SelectionRisk, dimension: int, C: float, tol: float, max_iter: int) -> Solution:
    """Cutting planes until the answer stands against all selections found on the way, later ones included."""
    trace: list[dict] = []
    began, w = time.perf_counter(), None
    while True:
        solution = cutting_plane(risk, dimension, C, w, tol=tol, max_iter=max_iter - len(trace))
        w, trace = solution.w, trace + solution.trace
        value = 0.5 * float(w @ w) + C * risk(w)[0]
        if value <= solution.value * (1 + tol) or len(trace) >= max_iter:
            break
    certificate = replace(solution.certificate, n_iter=len(trace), seconds=time.perf_counter() - began)
    return replace(solution, value=value, certificate=certificate, trace=trace)


# SVM-DIV: predicting diverse subsets with a structural SVM (Yue & Joachims 2008).


class SVMDiv(DiverseRanker):
    """min_w ½‖w‖² + C Σ_q max_S [ loss(S) + w·(Ψ(S) − Ψ(S*)) ],  Ψ(S) = ( mean of x_i over S,  words covered by S ).

    A set that covers the words that matter covers the subtopics. A word is covered at level l when a chosen document
    has it at least levels[l] times; Ψ counts, for every level and every band of `shares` (the share of candidates that
    have the word at that level), which part of the words in that band S covers. loss(S) is the share of subtopics,
    weighted by their numbers of relevant candidates, that S leaves out. Both prediction and the search for the most
    violating set are greedy, which for coverage is within 1 − 1/e of the best; gains are updated through the postings
    of newly covered words, O(nonzeros) for a whole selection.

    The method was made for candidates that are all relevant; only the best `candidates` by `relevance` take part, in
    training and in reranking (see StructSVMDiv for the reason). None lets all take part.

    C, tol, max_iter: of the cutting-plane solver; top: size of the sets to learn from.

    Needs `words`, `judgments` and, with `candidates`, `relevance`; queries without a relevant candidate are left out.
    """

    _needs = ("words",)
    _fitted = ("coef_", "word_coef_", "certificate_", "trace_")
    coef_: np.ndarray
    word_coef_: np.ndarray
    certificate_: Certificate

    def __init__(
        self,
        C: float = 1.0,
        candidates: int | None = 50,
        levels: tuple[float, ...] = (1, 2, 4),
        shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4),
        top: int = 20,
        tol: float = 1e-2,
        max_iter: int = 500,
    ) -> None:
        self.C = C
        self.candidates = candidates
        self.levels = levels
        self.shares = shares
        self.top = top
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> "SVMDiv":
        """Learn from queries with judgments."""
        self._check_positive("C", "candidates", "top", "tol", "max_iter")
        kept = useful([self._competitors(query)[0] for query in self._checked(queries, "judgments")])
        d, bands = kept[0].n_features, len(self.levels) * (len(self.shares) + 1)
        risk = SelectionRisk([_SetSearch(query, self._coverage(query), self.top) for query in kept], d + bands)
        solution = minimise_risk(risk, d + bands, self.C, self.tol, self.max_iter)
        self.coef_, self.word_coef_ = solution.w[:d], solution.w[d:]
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        warn_not_converged(self.certificate_)
        return self

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        if query.n_features != len(self.coef_):
            raise ValueError(f"the query has {query.n_features} features, the model was fitted on {len(self.coef_)}")
        best, rows = self._competitors(query)
        size = min(top, best.n)
        chosen, _ = self._coverage(best).select(best.X @ self.coef_ / size, self.word_coef_, size)
        return np.concatenate((rows[chosen], rows[best.n :]))[:top]

    def _competitors(self, query: DiverseQuery) -> tuple[DiverseQuery, np.ndarray]:
        return by_relevance(query, self.candidates, to=type(self).__name__)

    def _coverage(self, query: DiverseQuery) -> "_Coverage":
        return _Coverage(query.words, tuple(self.levels), tuple(self.shares))


class _Coverage:
    """Candidates × (word at a level), which band each belongs to, and the incremental greedy selection."""

    def __init__(self, words: Any, levels: tuple[float, ...], shares: tuple[float, ...]) -> None:
        blocks, bands = [], []
        for number, level in enumerate(levels):
            has = sparse.csr_matrix((words >= level) if level > 0 else words > 0)
            frequency = np.asarray(has.sum(axis=0)).ravel()
            used = np.flatnonzero(frequency)
            blocks.append(has[:, used])
            share = frequency[used] / words.shape[0]
            bands.append(number * (len(shares) + 1) + np.searchsorted(np.asarray(shares), share, side="right"))
        self.items = sparse.hstack(blocks, format="csr")
        self.postings = self.items.T.tocsr()
        self.bands = np.concatenate(bands).astype(np.int64)
        self.sizes = np.maximum(1, np.bincount(self.bands, minlength=len(levels) * (len(shares) + 1)))

    def select(
        self, s: np.ndarray, w: np.ndarray, top: int, J: np.ndarray | None = None, need: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Greedily the largest s_i + value of newly covered words − loss avoided; the order, and which words it covers.

        J (candidates × subtopics) and need (weights of the subtopics) describe the loss; without them there is none.
        """
        J, need = (np.zeros((len(s), 0)), np.zeros(0)) if J is None or need is None else (J, need)
        covered = np.zeros(len(self.bands), np.bool_)
        lists = (self.items.indptr, self.items.indices, self.postings.indptr, self.postings.indices)
        return coverage_order(s, (w / self.sizes)[self.bands], *lists, J, need, top, covered), covered

    def features(self, X: np.ndarray, chosen: np.ndarray, covered: np.ndarray) -> np.ndarray:
        """Ψ of a set: mean features, share of the words covered in every band."""
        counts = np.bincount(self.bands[covered], minlength=len(self.sizes))
        return np.concatenate((X[chosen].mean(axis=0), counts / self.sizes))


class _SetSearch:
    """Finds the most violating set of one query, greedily."""

    def __init__(self, query: DiverseQuery, coverage: _Coverage, top: int) -> None:
        self.X, self.coverage = query.X, coverage
        self.J = relevant_subtopics(query.judgments).astype(np.float64)
        self.weights = self.J.sum(axis=0) / self.J.sum()
        ideal = ideal_order(self.J, top)
        self.size = len(ideal)
        covered = np.zeros(len(coverage.bands), np.bool_)
        covered[coverage.items[ideal].indices] = True
        self.ideal = coverage.features(query.X, ideal, covered)
        self.ideal_loss = self._loss(ideal)

    def _loss(self, chosen: np.ndarray) -> float:
        return float(self.weights[~self.J[chosen].any(axis=0)].sum())

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        d = self.X.shape[1]
        worst, loss, slope = -np.inf, 0.0, np.zeros_like(w)
        for share in LOSS_SHARES:
            how = (self.size, self.J, share * self.weights)
            chosen, covered = self.coverage.select(self.X @ w[:d] / self.size, w[d:], *how)
            here = self._loss(chosen) - self.ideal_loss
            difference = self.coverage.features(self.X, chosen, covered) - self.ideal
            if here + difference @ w > worst:
                worst, loss, slope = here + float(difference @ w), here, difference
        return loss, slope


# Structural SVM for any diversity measure (Tsochantaridis et al. 2004, as compared with PAMM by Xia et al. 2015).


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
