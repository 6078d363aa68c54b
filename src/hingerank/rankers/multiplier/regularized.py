"""RegularizedRankSVM: multipliers drawn towards low rank by the nuclear norm (Reg-RSVM of Xu et al. 2019)."""

import time
from itertools import count
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hingerank.kernels.multipliers import (
    block_shape,
    multiplier_bend,
    multiplier_coefficients,
    multiplier_gap,
    multiplier_response,
    prefix_lengths,
)
from hingerank.kernels.threads import run_shards
from hingerank.losses import hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import Point, RankObjective, RowsDesign
from hingerank.rankers.base import LinearRanker, UnweightedRanker, warn_not_converged
from hingerank.rankers.multiplier.blocks import HasMultipliers
from hingerank.solvers.newton import newton_from
from hingerank.solvers.run import Run
from hingerank.solvers.smoothing import smoothing
from hingerank.solvers.solution import Solution
from hingerank.structures.nuclear import shrink_singular_values


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
                lambda ab: multiplier_bend(s, self.a, p.start, *ab, p.tree, self.softness, p.C, out), p.shards
            )  # fmt: skip
            return v + p.design.back(out)

        self.latest = w
        return Point(w, value, gradient, curvature, None)
