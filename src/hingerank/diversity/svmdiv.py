"""SVM-DIV: predicting diverse subsets with a structural SVM (Yue & Joachims 2008)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.diversity.base import DiverseRanker
from hingerank.diversity.kernels import coverage_order
from hingerank.diversity.measures import ideal_order, relevant_subtopics
from hingerank.diversity.orders import by_relevance, useful
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.separation import LOSS_SHARES, SelectionRisk, minimise_risk
from hingerank.rankers.base import warn_not_converged
from hingerank.solvers.solution import Certificate


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
