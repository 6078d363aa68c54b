"""Structural SVMs over selections: the risk, its cutting planes, and the store of selections found so far.

    R(w) = Σ_q max_y  loss_q(y) + w·(Ψ_q(y) − Ψ_q*),        Ψ_q* the mean over q's ideal selections

The maximum over all selections is NP-hard; the greedy one is used, as in the papers. Every selection found is stored
with its query and takes part in later maxima, so that planes stay valid for a later risk and the gap cannot become
negative. Planes are true lower bounds of R, but R(w) may be larger than the greedy value: the gap certifies the problem
over the selections that greedy search reached."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from hingerank.arrays import Facts
from hingerank.data.checks import generator, list_of, real
from hingerank.diversity.kernels import coverage_order, order_features, violating_order
from hingerank.diversity.learning import LinearDiverseRanker, check_n_features, ideal_orders
from hingerank.diversity.measures import DiversityMeasure, ideal_order, parse_diversity_measure, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import DiverseRanker
from hingerank.export.attributes import Array, Attribute, Of
from hingerank.kernels.threads import run_shards
from hingerank.rankers.base import warn_not_converged
from hingerank.solvers.cutting_plane import Planes, cutting_plane
from hingerank.solvers.run import Certificate, Solution, apart, relative

LOSS_WEIGHTS = (1.0, 0.5, 0.25, 0.0)  # weights of the loss in greedy searches; the worst selection found is used


class ViolationSearch:
    """Search for the most violated selection y of one query; calling it returns (loss, Ψ(y) - Ψ*)."""

    dimension: int

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        found = (self._greedy(w, weight) for weight in LOSS_WEIGHTS)
        return max(found, key=lambda selection: selection[0] + float(selection[1] @ w))

    def _greedy(self, w: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
        """Return (loss, Ψ(y) - Ψ*) of the greedy selection for the score plus `weight` times the loss."""
        raise NotImplementedError


class SelectionRisk:
    """R(w) = sum over queries of the worst selection's loss and slope at w, among those found so far.

    Searching is expensive, so planes of R come from the stored selections until these are exhausted.
    """

    def __init__(self, searches: Sequence[ViolationSearch]) -> None:
        self.searches, self.dimension = searches, searches[0].dimension
        count = len(searches)  # the ideal selections themselves come first: no loss, no difference
        self.losses, self.slopes, self.query = np.zeros(count), np.zeros((count, self.dimension)), np.arange(count)

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the oracle for `cutting_plane`: (R(w), a subgradient)."""
        worst = self._worst(w)
        return float((self.losses[worst] + self.slopes[worst] @ w).sum()), self.slopes[worst].sum(axis=0)

    def _worst(self, w: np.ndarray) -> np.ndarray:
        """Return each query's worst selection."""
        order = np.lexsort((self.losses + self.slopes @ w, self.query))
        return order[np.append(np.flatnonzero(np.diff(self.query[order])), len(order) - 1)]

    def search(self, w: np.ndarray) -> None:
        """Search for worse selections at w."""
        found = run_shards(lambda search: search(w), self.searches)
        losses, slopes = np.array([loss for loss, _ in found]), np.array([slope for _, slope in found])
        worst = self._worst(w)
        new = losses + slopes @ w > self.losses[worst] + self.slopes[worst] @ w + 1e-12
        self.losses, self.slopes = np.append(self.losses, losses[new]), np.vstack((self.slopes, slopes[new]))
        self.query = np.append(self.query, np.flatnonzero(new))


def minimise_risk(risk: SelectionRisk, C: float, tol: float, max_iter: int) -> Solution:
    """min_w ½‖w‖² + C R(w) by cutting planes, until new searches find no selection that changes the optimum.

    max_iter: rounds, each of which minimises over the selections found so far and searches for more at the solution.
    """
    trace: list[Facts] = []
    began, w, planes = time.perf_counter(), np.zeros(risk.dimension), Planes(risk.dimension, C)
    risk.search(w)
    for _ in range(max_iter):
        solution = cutting_plane(risk, risk.dimension, C, w, tol=0.5 * tol, max_iter=2000, planes=planes)
        w, trace = solution.w, trace + solution.trace
        risk.search(w)
        value = 0.5 * float(w @ w) + C * risk(w)[0]
        origin = C * risk(np.zeros(risk.dimension))[0]
        gap = relative(apart(value, trace[-1]["lower_bound"]), value, origin)
        if gap <= tol:
            break
    words: Facts = {"value": gap, "tolerance": tol, "status": "converged" if gap <= tol else "max_iter"}
    certificate = replace(solution.certificate, **words, n_iter=len(trace), seconds=time.perf_counter() - began)
    warn_not_converged(certificate)
    return replace(solution, value=value, certificate=certificate, trace=trace)


@dataclass(eq=False, repr=False)
class SVMDiv(DiverseRanker):
    """min_w ½‖w‖² + C Σ_q max_S [ loss(S) + w·(Ψ(S) - Ψ(S*)) ],  Ψ(S) = ( mean of x_i over S,  words covered by S ).

    Predicting diverse subsets (Yue & Joachims 2008): a set that covers the important words covers the subtopics. A word
    is covered at level l if a chosen document has it at least levels[l] times. For every level and every band of
    ``shares``, Ψ contains the fraction of the words in that band that S covers. loss(S) is the fraction of subtopics,
    weighted by their numbers of relevant candidates, that S leaves out. Both prediction and the search for the most
    violated set are greedy; for coverage this is within 1 - 1/e of the best. Gains are updated through the postings of
    newly covered words, O(nonzeros) for a whole selection. Queries need ``words``, ``judgments`` and, with
    ``candidates``, ``relevance``; those without a relevant candidate are left out.

    Parameters
    ----------
    C : float, default 1
        Weight of the loss; multiplies its sum over queries.
    candidates : int or None, default 50
        Number of candidates, the best by ``relevance``, used in training and in reranking: the method was designed for
        candidates that are all relevant (see StructSVMDiv for the reason). None uses all.
    levels : tuple of float
        Smallest counts at which a word is covered.
    shares : tuple of float
        Borders of the bands: fractions of the candidates that have a word at the level.
    top : int, default 20
        Size of the sets to learn from.
    tol, max_iter : float, int
        Duality gap relative to the gain at which the solver stops, and the largest number of search rounds.

    Attributes
    ----------
    coef_, word_coef_ : weights of the mean features, and of the words covered by level and band
    certificate_, trace_ : as in RankSVM

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(8, 30, noise=0.5, seed=1)
    >>> SVMDiv(candidates=20).fit(data[:6]).rerank(data[6], top=3).shape
    (3,)
    """

    _needs = ("words",)
    _saved: ClassVar[Mapping[str, Attribute]] = {
        "coef_": Array("features"),
        "word_coef_": Array("bands"),
        "certificate_": Of(Certificate),
        "trace_": Of(dict, listed=True),
    }
    C: float = 1.0
    candidates: int | None = 50
    levels: tuple[float, ...] = (1, 2, 4)
    shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4)
    top: int = 20
    tol: float = 1e-2
    max_iter: int = 500

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("C", "candidates", "top", "tol", "max_iter")
        levels, shares = ([*map(real, list_of(of, getattr(self, of), "numbers"))] for of in ("levels", "shares"))
        if not levels or any(not a < b for a, b in pairwise(shares)) or not np.isfinite([*levels, *shares]).all():
            raise ValueError(f"expected levels, got {self.levels}, and shares that increase, got {self.shares}")
        kept = self._to_learn_from(queries)
        risk = SelectionRisk([SetSearch(query, self._coverage(query), self.top) for query in kept])
        solution, d = minimise_risk(risk, self.C, self.tol, self.max_iter), kept[0].n_features
        self.coef_, self.word_coef_ = solution.w[:d], solution.w[d:]
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        return self

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        check_n_features(query, self.coef_)
        no_loss = np.zeros((query.n, 0)), np.zeros(0)
        return self._coverage(query).select(query.X @ self.coef_ / top, self.word_coef_, top, *no_loss)[0]

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        super()._check_together(sizes)
        bands = len(self.levels) * (len(self.shares) + 1)
        if sizes["bands"] != bands:
            raise ValueError(f"word_coef_ has {sizes['bands']} numbers, expected {bands}, one for each level and band")

    def _coverage(self, query: DiverseQuery) -> "Coverage":
        return Coverage(query.words, tuple(self.levels), tuple(self.shares))


class Coverage:
    """Candidates × (word at a level), which band each belongs to, and the incremental greedy selection."""

    def __init__(self, words: sparse.csr_matrix, levels: tuple[float, ...], shares: tuple[float, ...]) -> None:
        blocks, bands = [], []
        for number, level in enumerate(levels):
            has = sparse.csr_matrix((words >= level) if level > 0 else words > 0)
            frequency = np.asarray(has.sum(axis=0)).ravel()
            used = np.flatnonzero(frequency)
            blocks.append(has[:, used])
            band = np.searchsorted(np.asarray(shares), frequency[used] / words.shape[0], side="right")
            bands.append(number * (len(shares) + 1) + band)
        self.items = sparse.hstack(blocks, format="csr")
        self.postings = self.items.T.tocsr()
        self.bands = np.concatenate(bands).astype(np.int64)
        self.sizes = np.maximum(1, np.bincount(self.bands, minlength=len(levels) * (len(shares) + 1)))

    def select(
        self, s: np.ndarray, w: np.ndarray, top: int, J: np.ndarray, need: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Greedily maximise s_i + value of newly covered words - loss avoided; returns the order and the covered words.

        J (candidates × subtopics) and need (weights of the subtopics) describe the loss.
        """
        covered = np.zeros(len(self.bands), np.bool_)
        lists = (self.items.indptr, self.items.indices, self.postings.indptr, self.postings.indices)
        return coverage_order(s, (w / self.sizes)[self.bands], *lists, J, need, top, covered), covered

    def features(self, X: np.ndarray, chosen: np.ndarray, covered: np.ndarray) -> np.ndarray:
        """Ψ of a set: mean features, and the fraction of the words covered in every band."""
        counts = np.bincount(self.bands[covered], minlength=len(self.sizes))
        return np.concatenate((X[chosen].mean(axis=0), counts / self.sizes))


class SetSearch(ViolationSearch):
    """Search for the most violated set of one query."""

    def __init__(self, query: DiverseQuery, coverage: Coverage, top: int) -> None:
        self.X, self.coverage = query.X, coverage
        self.dimension = query.n_features + len(coverage.sizes)
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

    def _greedy(self, w: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
        s, words = self.X @ w[: self.X.shape[1]] / self.size, w[self.X.shape[1] :]
        chosen, covered = self.coverage.select(s, words, self.size, self.J, weight * self.weights)
        features = self.coverage.features(self.X, chosen, covered)
        return self._loss(chosen) - self.ideal_loss, features - self.ideal


@dataclass(eq=False, repr=False)
class StructSVMDiv(LinearDiverseRanker):
    """min_w ½‖w‖² + C Σ_q max_y [ E(y*) - E(y) + w·(Ψ(y) - Ψ(y*)) ],   Ψ(y) = Σ_t γ_t (x_{y_t}, h_t(y_t)) / Σ_t γ_t.

    A structural SVM for any diversity measure (Tsochantaridis et al. 2004, as compared with PAMM by Xia et al. 2015). E
    is the measure and y* the greedy ideal ranking. h_t aggregates the distances to the documents before (as in R-LTR).
    γ_t = 1/log₂(t+1), so that the top ranks count most. The solver uses cutting planes and finds the most violated
    ranking greedily: at each rank it takes the document with the largest score minus its gain in the measure. Queries
    need ``relations``, ``judgments`` and, with ``candidates``, ``relevance``; those without a relevant candidate are
    left out.

    Parameters
    ----------
    measure : str
        E, such as "alpha-ndcg@20", "err-ia@20".
    C : float, default 1
        Weight of the loss; multiplies its sum over queries.
    candidates : int or None, default 50
        The maximum is over all wrong rankings, so among hundreds of candidates some wrong ones always score as well as
        the right ones and w = 0 is optimal. Therefore only this many, the best by ``relevance``, are used in training
        and in reranking; at w = 0 they keep that order. None uses all, in the given order.
    aggregate, orders, random_state : as in RLTR
    top : int, optional
        Length of the rankings, default the measure's cutoff or 20.
    tol, max_iter : float, int
        Duality gap relative to the gain at which the solver stops, and the largest number of search rounds.

    Attributes
    ----------
    coef_, relation_coef_, certificate_, trace_ : as in RLTR

    Examples
    --------
    >>> from hingerank.diversity.generate import make_diverse
    >>> data = make_diverse(8, 30, noise=0.5, seed=1)
    >>> StructSVMDiv("err-ia@20", candidates=15).fit(data[:6]).rerank(data[6], top=3).shape
    (3,)
    """

    measure: str = "alpha-ndcg@20"
    C: float = 1.0
    candidates: int | None = 50
    aggregate: str = "mean"
    top: int | None = None
    orders: int = 5
    tol: float = 1e-2
    max_iter: int = 500
    random_state: int = 0

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Learn from queries with judgments."""
        self._check_positive("C", "candidates", "top", "orders", "tol", "max_iter")
        kept, score = self._start(queries)
        measure, rng = parse_diversity_measure(self.measure), generator(self.random_state)
        top = self.top or measure.cutoff or 20
        risk = SelectionRisk([RankingSearch(query, measure, top, self.orders, score.kinds, rng) for query in kept])
        return self._keep(minimise_risk(risk, self.C, self.tol, self.max_iter), score)


class RankingSearch(ViolationSearch):
    """Search for the most violated ranking of one query."""

    def __init__(
        self, query: DiverseQuery, measure: DiversityMeasure, top: int, orders: int, kinds: np.ndarray,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.X, self.kinds, self.J = query.X, kinds, relevant_subtopics(query.judgments)
        self.tensor = query.relations.rows(range(query.n)) if len(kinds) else np.empty((query.n, 0, query.n))
        self.dimension = query.n_features + len(kinds) * self.tensor.shape[1]
        ideal = ideal_orders(self.J, top, orders, rng)
        self.discounts = 1 / np.log2(np.arange(2, len(ideal[0]) + 2))
        self.discounts /= self.discounts.sum()
        # [t, c, j]: what covering subtopic j for the (c+1)-th time at rank t+1 adds to the measure
        length, n_relevant = len(ideal[0]), self.J.sum(axis=0)
        counts = np.repeat(np.arange(length)[:, None], self.J.shape[1], axis=1)
        self.weights = np.stack([measure.weights(rank, counts, n_relevant) for rank in range(1, length + 1)])
        if measure.cutoff is not None:
            self.weights[measure.cutoff :] = 0
        if measure.normalized:
            self.weights /= measure.plain_value(self.J, ideal[0])
        self.ideal = np.mean([self._features(order) for order in ideal], axis=0)
        self.ideal_value = float(np.mean([measure(self.J, order) for order in ideal]))

    def _greedy(self, w: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
        d, psi = self.X.shape[1], np.empty(self.dimension)
        how = (self.tensor, self.kinds, self.discounts, self.J, self.weights, weight, psi)
        _, value = violating_order(self.X, self.X @ w[:d], w[d:], *how)
        return self.ideal_value - value, psi - self.ideal

    def _features(self, order: np.ndarray) -> np.ndarray:
        psi = np.empty(self.dimension)
        order_features(self.X, order, self.tensor, self.kinds, self.discounts, psi)
        return psi
