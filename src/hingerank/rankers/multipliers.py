"""Multiplier blocks: for each query the matrix A_l with A_l(i, j) = a_ij for i preferred to j, zero elsewhere."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from threadpoolctl import threadpool_limits

from hingerank.kernels.multipliers import (
    block_shape,
    factor_ahead,
    factor_chain,
    factor_epoch,
    factor_weights,
    multiplier_coefficients,
    multiplier_curvature,
    multiplier_gap,
    multiplier_response,
    prefix_lengths,
)
from hingerank.kernels.threads import run_shards
from hingerank.losses import hinge, smoothed_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import Point, RankObjective, RowsDesign
from hingerank.rankers.base import BaseRanker, LinearRanker, UnweightedRanker, warn_not_converged
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.solvers.newton import newton_from
from hingerank.solvers.run import Certificate, Run, Solution
from hingerank.solvers.smoothing import smoothing
from hingerank.structures.nuclear import shrink_singular_values


class MultiplierBlock(NamedTuple):
    """One query's multipliers: A[r, c] belongs to the pair (rows[winners[r]] preferred to rows[losers[c]]).

    Rows that can never win or never lose have zero rows or columns in A_l and are left out; `size` counts all rows.
    """

    query: Any
    size: int
    n_pairs: int
    winners: np.ndarray  # row numbers in the training data
    losers: np.ndarray
    A: np.ndarray

    @property
    def singular_values(self) -> np.ndarray:
        return np.linalg.svd(self.A, compute_uv=False) if self.A.size else np.empty(0)

    def rank(self, tolerance: float = 1e-10) -> int:
        """Number of singular values above tolerance times the largest."""
        values = self.singular_values
        return int((values > tolerance * values[:1].max(initial=0.0)).sum()) if values.max(initial=0.0) > 0 else 0


class HasMultipliers:
    """What fitted rankers with multipliers offer.

    Those that list them keep `multipliers_` and `pairs_` (winner row, loser row) query after query, `pairs_per_query_`,
    and of the queries their ids `queries_` and numbers of rows `sizes_`.
    """

    multipliers_: np.ndarray
    pairs_: np.ndarray
    pairs_per_query_: np.ndarray
    queries_: np.ndarray
    sizes_: np.ndarray

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        """The matrix of every query, in order of first appearance."""
        ends = np.cumsum(self.pairs_per_query_)
        for query, size, pairs, end in zip(self.queries_, self.sizes_, self.pairs_per_query_, ends):
            own = slice(end - pairs, end)
            winners, r = np.unique(self.pairs_[own, 0], return_inverse=True)
            losers, c = np.unique(self.pairs_[own, 1], return_inverse=True)
            A = np.zeros((len(winners), len(losers)))
            A[r, c] = self.multipliers_[own]
            yield MultiplierBlock(query, int(size), int(pairs), winners, losers, A)


# FactorizedRankSVM: multipliers of rank K, a_ij = <v_i, v_j> (Fac-RSVM of Xu et al. 2019).


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


# RegularizedRankSVM: multipliers drawn towards low rank by the nuclear norm (Reg-RSVM of Xu et al. 2019).


class RegularizedRankSVM(HasMultipliers, UnweightedRanker, LinearRanker):
    """min over a, A of  ½‖sum a_ij (x_i - x_j)‖² - sum a_ij + gamma ‖A‖_* + lam ‖P(a) - A‖_F²,   0 ≤ a_ij ≤ C.

    P(a) lays the multipliers out as one matrix per query, zero where there is no pair; A may be nonzero there, and is
    drawn to zero there like anywhere else (Eq. 19 of the paper as written). Convex. Alternates two exact steps: A is
    P(a) with its singular values shrunk by gamma / (2 lam); and a is the best for that A, found not among the pairs but
    in w, where  a_ij = clip(A_ij + (1 - w·(x_i - x_j)) / (2 lam), 0, C)  and Newton's method needs few steps. That is
    proximal gradient descent in A, so it is accelerated like one (Nesterov's, with restart); the objective never rises.
    gamma = 0 is the dual of the hinge RankSVM. Needs memory for six numbers per pair.

    Parameters
    ----------
    C : as in RankSVM. gamma : weight of the nuclear norm. lam : weight of the distance between a and A.
    tol : stop when the objective is provably within tol, as a share of its size, of the optimum.
    max_iter : rounds.

    Attributes
    ----------
    multipliers_ : a, pairs in the order of `pairs_` (winner row, loser row). ranks_ : rank of every query's A.
    objective_ : the value reached. coef_, certificate_, trace_, n_iter_, n_pairs_.

    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 2]
    >>> RegularizedRankSVM(C=1.0, gamma=0.1, lam=1.0).fit(X, y).rank(X).tolist()
    [2, 1, 0]
    """

    _fitted = ("multipliers_", "pairs_", "block_ranks_", "objective_", "queries_", "sizes_", "pairs_per_query_")

    def __init__(self, C=1.0, gamma=1.0, lam=1.0, *, tol=1e-3, max_iter=200, scale=None):
        self.C = C
        self.gamma = gamma
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale

    def _fit(self, X, y, blocks, sample_weight):
        for name, lowest in (("C", False), ("gamma", True), ("lam", False)):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (value == 0 and not lowest):
                raise ValueError(f"{name} must be {'at least 0' if lowest else 'positive'} and finite, not {value!r}")
        run = Run("gap", self.tol, self.max_iter)
        problem = _Problem(X, GradedPreferences(y, blocks.offsets), self.C, self.gamma, self.lam)
        solution = problem.solve(run)
        self._account(solution)
        self.coef_, self.n_pairs_ = solution.w, problem.preferences.n_pairs
        self.block_ranks_, self.queries_, self.sizes_ = problem.ranks, blocks.ids, blocks.sizes
        winner, loser, self.multipliers_ = problem.listed()
        self.pairs_per_query_ = problem.preferences.pairs_per_query
        rows = self._source_rows
        self.pairs_ = np.stack([winner, loser] if rows is None else [rows[winner], rows[loser]], axis=1)
        warn_not_converged(solution.certificate)

    @property
    def ranks_(self) -> np.ndarray:
        """Rank of every query's A, after the last shrinkage."""
        return self.block_ranks_


class _Problem:
    """The state: multipliers a and matrices A, flat, query after query; w; the rank of every query's A."""

    def __init__(self, X: Any, preferences: GradedPreferences, C: float, gamma: float, lam: float):
        self.design, self.preferences, self.C, self.gamma, self.lam = RowsDesign(X), preferences, C, gamma, lam
        self.tree, self.shards = preferences.tree, preferences.shards
        shapes = np.array([block_shape(self.tree, q) for q in range(preferences.n_queries)]).reshape(-1, 3)
        self.shapes, self.start = shapes, np.concatenate(([0], np.cumsum(shapes[:, 1] * shapes[:, 2])))
        self.coefficients, self.ranks = np.empty(preferences.n_items), np.zeros(len(shapes), np.int64)
        self.a = self._first_multipliers()
        self.A, self.nuclear = self.a, 0.0
        self.shrink()
        self.w, self.total = self.combine(self.a)

    def _first_multipliers(self) -> np.ndarray:
        """Those of the smoothed hinge: nearly optimal for gamma = 0."""
        objective = RankObjective(self.design, hinge(), self.preferences, self.C)
        found = smoothing(objective, tol=1e-4).extra
        s, a = self.design.scores(found["latest"]), np.zeros(self.start[-1])
        for q in range(len(self.shapes)):
            lo, (top, winners, losers) = self.tree.offsets[q], self.shapes[q]
            if winners:
                own = s[lo + self.tree.perm[lo : self.tree.offsets[q + 1]]]
                margin = 1.0 - own[top : top + winners, None] + own[None, :losers]
                pair = np.arange(losers)[None, :] < prefix_lengths(self.tree, q)[:, None]
                self.block(a, q)[:] = np.where(pair, self.C * np.clip(margin / found["width"], 0.0, 1.0), 0.0)
        return a

    def block(self, flat: np.ndarray, q: int) -> np.ndarray:
        return flat[self.start[q] : self.start[q + 1]].reshape(self.shapes[q, 1], self.shapes[q, 2])

    def combine(self, a: np.ndarray) -> tuple[np.ndarray, float]:
        """(sum a_ij (x_i - x_j), sum a_ij)."""
        totals = run_shards(
            lambda ab: multiplier_coefficients(a, self.start, *ab, self.tree, self.coefficients), self.shards
        )
        return self.design.back(self.coefficients), float(sum(totals))

    def shrink(self) -> None:
        """A <- P(a) with its singular values shrunk, query by query."""
        self.A, self.ranks = self.a.copy(), np.zeros_like(self.ranks)
        if self.gamma == 0:
            return

        def some(ab):
            total = 0.0
            for q in range(*ab):
                if self.shapes[q, 1]:
                    A, values = shrink_singular_values(self.block(self.a, q), self.gamma / (2 * self.lam))
                    self.block(self.A, q)[:] = A
                    self.ranks[q] = len(values)
                    total += float(values.sum())
            return total

        with threadpool_limits(1, "blas"):  # many small matrices: one thread each
            self.nuclear = float(sum(run_shards(some, self.shards)))

    def value(self) -> float:
        gap = self.a - self.A
        fit = 0.5 * float(self.w @ self.w) - self.total
        return fit + self.gamma * self.nuclear + self.lam * float(gap @ gap)

    def solve(self, run: Run) -> Solution:
        """Alternate, from A moved on by Nesterov's share of its last change; a round that goes up is taken back, and
        the next starts without a push."""
        value, last, age, shrinking = self.value(), self.A, 1.0, 0.0
        for iteration in count():
            gap, rank = self.gap() / max(abs(value), 1e-300), int(self.ranks.sum())
            if run.stops(iteration=iteration, value=value, gap=gap, rank=rank, svd_seconds=shrinking):
                break
            state, older = vars(self).copy(), (1.0 + np.sqrt(1.0 + 4.0 * age * age)) / 2.0
            if age > 1.0:
                self.A = self.A + ((age - 1.0) / older) * (self.A - last)
            self.respond(1e-4 * gap)
            start = time.perf_counter()
            self.shrink()
            shrinking += time.perf_counter() - start
            reached = self.value()
            if reached <= value or age == 1.0:
                value, last, age = reached, state["A"], older
            else:
                vars(self).update(state)
                age = 1.0
        return run.solution("relative duality gap", self.w, value, iteration)

    def gap(self) -> float:
        u = self.design.scores(self.w)
        parts = run_shards(
            lambda ab: multiplier_gap(u, self.a, self.A, self.start, *ab, self.tree, 2 * self.lam, self.C), self.shards
        )
        return float(sum(parts))

    def respond(self, tol: float) -> None:
        """a <- the best multipliers for the A there is: Newton in w, sharper until the objective falls."""
        old = self.a, self.w, self.total, self.value()
        inner = _Response(self)
        scale = float(np.linalg.norm(inner.at(np.zeros_like(self.w)).gradient))
        point, self.a = inner.at(self.w), np.zeros_like(old[0])
        for goal in (max(tol, 1e-7), 1e-9, 1e-11):
            point = newton_from(inner, point, scale, Run("gradient", goal, 100))
            inner.evaluate(self.design.scores(point.w), self.a)
            self.w, self.total = self.combine(self.a)
            if self.value() <= old[3]:
                return
        self.a, self.w, self.total = old[:3]  # already as good as rounding allows

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(winner rows, loser rows, multipliers) of all pairs, query after query."""
        winners, losers, values = [], [], []
        for q in range(len(self.shapes)):
            lo, (top, n_winners, n_losers) = self.tree.offsets[q], self.shapes[q]
            if n_winners:
                r, c = np.nonzero(np.arange(n_losers)[None, :] < prefix_lengths(self.tree, q)[:, None])
                winners.append(lo + self.tree.perm[lo + top + r])
                losers.append(lo + self.tree.perm[lo + c])
                values.append(self.block(self.a, q)[r, c])
        if not values:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        return np.concatenate(winners), np.concatenate(losers), np.concatenate(values)


class _Response:
    """The dual of the step in a:  min over w of ½‖w‖² + sum over pairs of max over a in [0, C] of
    a (1 - t) - lam (a - A)²:  a hinge with its kink rounded and shifted pair by pair."""

    def __init__(self, problem: _Problem):
        self.problem, self.softness, self.dimension = problem, 1 / (2 * problem.lam), problem.design.shape[1]
        self.a = np.zeros_like(problem.a)
        self.latest: np.ndarray | None = None

    def evaluate(self, u: np.ndarray, a: np.ndarray) -> float:
        p = self.problem
        return float(sum(run_shards(
            lambda ab: multiplier_response(
                u, p.A, p.start, *ab, p.tree, self.softness, p.C, a, p.coefficients
            ), p.shards,
        )))  # fmt: skip

    def at(self, w: np.ndarray) -> Point:
        p, w = self.problem, np.array(w)
        value = 0.5 * float(w @ w) + self.evaluate(p.design.scores(w), self.a)
        gradient = w - p.design.back(p.coefficients)

        def curvature(v):
            if self.latest is not w:
                self.evaluate(p.design.scores(w), self.a)
                self.latest = w
            s, out = p.design.scores(v), np.empty(p.preferences.n_items)
            run_shards(
                lambda ab: multiplier_curvature(s, self.a, p.start, *ab, p.tree, self.softness, p.C, out), p.shards
            )  # fmt: skip
            return v + p.design.back(out)

        self.latest = w
        return Point(w, value, gradient, curvature, None)
