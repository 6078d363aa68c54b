"""FactorizedRankSVM: multipliers of rank K, a_ij = <v_i, v_j> (Fac-RSVM of Xu et al. 2019)."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.optimize

from hingerank.kernels.factors import factor_ahead, factor_chain, factor_epoch, factor_weights
from hingerank.losses import smoothed_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import RankObjective, RowsDesign
from hingerank.rankers.base import BaseRanker, LinearRanker, UnweightedRanker, warn_not_converged
from hingerank.rankers.multiplier.blocks import HasMultipliers, MultiplierBlock
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.solvers.solution import Certificate, Solution

LONGER, SHORTER = 1.1, 0.5  # multiples of the last change of V to move on by, after success and failure
ROUNDED = 1e-3  # width over which the primal form rounds the hinge's kink


class FactorizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over V of  ½‖sum over pairs of <v_i, v_j>(x_i - x_j)‖² - sum over pairs of <v_i, v_j>,   0 ≤ v_ik ≤ √(C/K).

    The dual of the hinge RankSVM with its multipliers forced to rank K in every query. The box makes 0 ≤ a_ij ≤ C and
    is stricter, so the objective is never below the dual RankSVM's. Not convex: the answer depends on the start.

    Parameters
    ----------
    rank : K, numbers per row. C : as in RankSVM.
    tol : stop when the projected gradient's norm is at most tol times that of the second sum alone.
    max_iter : epochs, each one projected gradient step for every query, in random order. Steps adapt: one that would
        raise the objective is halved, so it never diverges.
    n_starts : random starts; the one with the lowest objective is kept.
    form : "dual", as above, or "primal": min over V of ½‖w(V)‖² + C sum of hinges of the factorised model
        w(V) = sum <v_i, v_j>(x_i - x_j), the form first presented (Zhang et al. 2015), by L-BFGS with the hinge's kink
        rounded over 1e-3. There is no box on V then, and multipliers may be negative.
    validation : RankingData; with it the epoch with the best mean NDCG@10 there is kept, and `patience` epochs without
        a better one end the fit (dual form).
    random_state : seed of the starts and of the order of queries.

    Attributes
    ----------
    factors_ : V, one row per training row. ranks_ : rank of every query's multipliers. objective_ : the value reached.
    coef_, certificate_, trace_, n_iter_, n_pairs_.

    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> FactorizedRankSVM(rank=2, C=1.0, random_state=0).fit(X, y).rank(X).tolist()
    [2, 1, 0]
    """

    _fitted = ("factors_", "objective_", "grades_", "offsets_", "queries_", "rows_")
    _training_only = ("validation",)
    rank = RankParameter()
    _order = BaseRanker.rank

    def __init__(
        self, rank=5, C=1.0, *, tol=1e-3, max_iter=500, n_starts=1, form="dual", validation=None, patience=20,
        random_state=0, scale=None,
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.n_starts = n_starts
        self.form = form
        self.validation = validation
        self.patience = patience
        self.random_state = random_state
        self.scale = scale

    def _fit(self, X, y, blocks, sample_weight):
        self._check()
        preferences = GradedPreferences(y, blocks.offsets)
        rng = np.random.default_rng(self.random_state)
        descend = self._dual if self.form == "dual" else self._primal
        runs = [descend(X, preferences, rng) for _ in range(self.n_starts)]
        solution = min(runs, key=lambda run: run.value)
        V = solution.extra["V"]
        self.factors_ = np.empty(V.shape[::-1])
        self.factors_[preferences.row_at] = V.T
        self.grades_, self.offsets_, self.queries_ = y, blocks.offsets, blocks.ids
        self.rows_ = np.arange(len(y)) if self._source_rows is None else self._source_rows
        self.coef_, self.n_pairs_ = solution.w, preferences.n_pairs
        self._account(solution)
        if solution.certificate.status != "validation":
            warn_not_converged(solution.certificate)

    def _check(self):
        if not isinstance(self.rank, (int, np.integer)) or self.rank < 1:
            raise ValueError(f"rank must be a positive whole number, not {self.rank!r}")
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be positive and finite, not {self.C!r}")
        if self.form not in ("dual", "primal"):
            raise ValueError(f"form must be 'dual' or 'primal', not {self.form!r}")

    def _start(self, X, preferences, rng) -> tuple[np.ndarray, np.ndarray]:
        """Factors to start from, a column for each position, and queries in an order that does not depend on how they
        came.

        Small positive numbers (V = 0 is stationary, and a start at the size of the box may be far uphill), drawn from
        the rows themselves by a random projection: the same rows get the same start wherever they stand.
        """
        wave = np.sin(10.0 * (X @ rng.normal(size=(X.shape[1], int(self.rank)))))
        V = np.ascontiguousarray((0.05 * np.sqrt(self.C / self.rank)) * (1.0 + wave[preferences.row_at]).T)
        queries = np.flatnonzero(np.diff(preferences.tree.node_start))
        sums = np.bincount(np.repeat(np.arange(preferences.n_queries), np.diff(preferences.offsets)), V[0])
        return V, queries[np.argsort(sums[queries], kind="stable")]

    def _dual(self, X, preferences, rng) -> Solution:
        """Projected gradient, query by query (Algorithm 1), with steps that never go up. Before each epoch V is moved
        on by a multiple of its last change, where that goes down too."""
        began, rows, tree = time.perf_counter(), RowsDesign(X).rows, preferences.tree
        limit = np.sqrt(self.C / self.rank)
        V, queries = self._start(X, preferences, rng)
        w, total = factor_weights(rows, tree, V, X.shape[1])
        down = min(1.0, total / max(float(w @ w), 1e-300))  # at a large C the start may be far uphill
        V, w, total = np.sqrt(down) * V, down * w, down * total
        step, value = np.zeros(preferences.n_queries), 0.5 * float(w @ w) - total
        trace: list[dict[str, Any]] = [{"iteration": 0, "value": value, "gradient": 1.0, "seconds": 0.0}]
        watch = _Validation(self.validation, self.patience)
        last, spare, stride = V.copy(), np.empty_like(V), 0.5
        for epoch in range(1, self.max_iter + 1):
            factor_ahead(V, last, stride, limit, spare)
            w_ahead, total = factor_weights(rows, tree, spare, X.shape[1])
            ahead = 0.5 * float(w_ahead @ w_ahead) - total
            if ahead <= value:
                V, last, spare, w, value, stride = spare, V, last, w_ahead, ahead, LONGER * stride
            else:
                last[:], stride = V, SHORTER * stride
            change, steepness, linear = factor_epoch(rows, rng.permutation(queries), tree, V, w, step, limit)
            value, seconds = value + change, time.perf_counter() - began
            relative = float(np.sqrt(steepness / linear)) if linear > 0 else 0.0
            trace.append({"iteration": epoch, "value": value, "gradient": relative, "seconds": seconds})
            if watch.worse(self, w, V, trace) or relative <= self.tol:
                break
        V, w, trace, chosen = watch.best(V, w, trace)
        relative = trace[-1]["gradient"]
        status = "converged" if relative <= self.tol else "validation" if chosen else "max_iter"
        w, seconds = factor_weights(rows, tree, V, X.shape[1])[0], time.perf_counter() - began
        kind = "relative projected gradient"
        certificate = Certificate(kind, relative, self.tol, status, len(trace) - 1, seconds)
        return Solution(w, trace[-1]["value"], certificate, trace, {"V": V})

    def _primal(self, X, preferences, rng) -> Solution:
        """L-BFGS on the factors through w(V): dF/dV is a chain of two pair-free sweeps."""
        began, design, tree = time.perf_counter(), RowsDesign(X), preferences.tree
        objective = RankObjective(design, smoothed_hinge(ROUNDED), preferences, self.C)
        V, _ = self._start(X, preferences, rng)
        shape, G, sizes = V.shape, np.empty_like(V), []
        trace: list[dict[str, Any]] = []

        def value_and_gradient(flat):
            V = flat.reshape(shape)
            point = objective.at(factor_weights(design.rows, tree, V, X.shape[1])[0])
            factor_chain(design.scores(point.gradient), tree, V, G)
            sizes.append(float(np.abs(G).max()))
            seconds = time.perf_counter() - began
            relative = sizes[-1] / sizes[0] if sizes[0] > 0 else 0.0
            trace.append({"iteration": len(trace), "value": point.value, "gradient": relative, "seconds": seconds})
            return point.value, G.ravel().copy()

        def enough(flat):
            if sizes[-1] <= self.tol * sizes[0]:
                raise StopIteration

        options = {"maxiter": self.max_iter, "maxfun": 2 * self.max_iter, "ftol": 0.0, "gtol": 0.0}
        found = scipy.optimize.minimize(
            value_and_gradient, V.ravel(), jac=True, method="L-BFGS-B", callback=enough, options=options
        )
        value_and_gradient(found.x)
        relative = trace[-1]["gradient"]
        status = "converged" if relative <= self.tol else "max_iter" if found.nit >= self.max_iter else "stalled"
        V, seconds = found.x.reshape(shape), time.perf_counter() - began
        certificate = Certificate("relative gradient", relative, self.tol, status, found.nit, seconds)
        w = factor_weights(design.rows, tree, V, X.shape[1])[0]
        return Solution(w, trace[-1]["value"], certificate, trace, {"V": V})

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's V Vᵀ, at most K. (With more than two grades only part of V Vᵀ is multipliers, and the
        matrix with zeros elsewhere, as in `multiplier_blocks`, can have rank up to K times the grades less one.)"""
        blocks = (self.factors_[lo:hi] for lo, hi in zip(self.offsets_[:-1], self.offsets_[1:]))
        return np.array([np.linalg.matrix_rank(V) if len(V) else 0 for V in blocks])

    def multiplier(self, i: int, j: int) -> float:
        """a_ij for two training rows, numbered as they were given to fit; 0 where i is not preferred to j."""
        place = {int(row): k for k, row in enumerate(self.rows_)}
        a, b = place[int(i)], place[int(j)]
        same = np.searchsorted(self.offsets_, [a, b], side="right")
        preferred = same[0] == same[1] and self.grades_[a] > self.grades_[b]
        return float(self.factors_[a] @ self.factors_[b]) if preferred else 0.0

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        for query, lo, hi in zip(self.queries_, self.offsets_[:-1], self.offsets_[1:]):
            y, V = self.grades_[lo:hi], self.factors_[lo:hi]
            win, lose = np.flatnonzero(y > y.min(initial=np.inf)), np.flatnonzero(y < y.max(initial=-np.inf))
            preferred = y[win][:, None] > y[lose][None, :]
            A = np.where(preferred, V[win] @ V[lose].T, 0.0)
            rows = self.rows_[lo:hi]
            yield MultiplierBlock(query, int(hi - lo), int(preferred.sum()), rows[win], rows[lose], A)


class _Validation:
    """Keeps the factors of the best epoch on validation data, where there are any."""

    def __init__(self, data: Any, patience: int):
        self.data, self.patience, self.since, self.score = data, patience, 0, -np.inf
        self.found: tuple[np.ndarray, np.ndarray, int] | None = None

    def worse(self, ranker, w, V, trace) -> bool:
        """Score the epoch; True when `patience` epochs have brought nothing better."""
        if self.data is None:
            return False
        ranker.coef_ = w
        trace[-1]["validation"] = score = ranker.score(self.data)
        if score > self.score:
            self.score, self.since, self.found = score, 0, (V.copy(), w.copy(), len(trace))
        self.since += 1
        return self.since > self.patience

    def best(self, V, w, trace):
        """The factors, weights and trace to keep, and whether validation chose them."""
        if self.found is None:
            return V, w, trace, False
        V, w, length = self.found
        return V, w, trace[:length], True
