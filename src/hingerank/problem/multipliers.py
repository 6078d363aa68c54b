"""Problems in multipliers of pairs: the hinge's dual with multipliers of low rank, one matrix for each query.

A_l(i, j) = a_ij for i preferred to j in query l, zero elsewhere. `Factorized…`: a_ij = <v_i, v_j> (Fac-RSVM of Xu et
al. 2019), not convex; `FactorModel` linearises it for Gauss-Newton steps. `RegularizedDual`: the nuclear norm drives
the matrices to low rank (their Reg-RSVM), convex.
"""

from collections.abc import Callable, Iterator

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.checks import positive, whole
from hingerank.kernels.multipliers import (
    factor_ahead,
    factor_chain,
    factor_epoch,
    factor_weights,
    multiplier_coefficients,
    multiplier_curvature,
    multiplier_gap,
    multiplier_response,
    query_borders,
)
from hingerank.kernels.sweeps import GradeTree
from hingerank.kernels.threads import run_shards, serial_blas
from hingerank.losses import Loss, hinge, smoothed_hinge, squared_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem.problem import Objective, Point, Problem, RowsDesign
from hingerank.structures import shrink_singular_values

ROUNDED = 1e-3  # width over which the primal form rounds the hinge's kink
MOST_ROUNDS, EXACT = 60, 0.1  # of Newton's method: most rounds, and its final error relative to the gain
FLAT, SHORTEST, FARTHEST = 0.1, 1e-6, 64.0  # of the line search: relative slope at its end, and the range of steps


class FactorizedDual:
    """min over V of  ½‖w(V)‖² - sum over pairs of <v_i, v_j>,  0 ≤ v_ik ≤ √(C/K),  w(V) = sum <v_i, v_j>(x_i - x_j).

    V has a column for each row, in the order of the preferences' tree, and K rows.
    """

    def __init__(self, design: RowsDesign, preferences: GradedPreferences, rank: int, C: float):
        self.design, self.preferences, self.tree = design, preferences, preferences.tree
        self.rank, self.C = whole("rank", rank), positive("C", C)
        self.limit = float(np.sqrt(self.C / self.rank))
        self.queries = np.flatnonzero(np.diff(self.tree.node_start))
        self.step = np.zeros(preferences.n_queries)  # adaptive step of each query

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Small positive numbers, computed from the rows by a random projection: equal rows get the same start wherever
        they are, and the queries an order that does not depend on the input's. (V = 0 is stationary, and a start as
        large as the box may have a high objective.)"""
        directions = rng.normal(size=(self.design.shape[1], self.rank)).T
        wave = np.sin(10.0 * np.stack([self.design.scores(direction) for direction in directions]))
        V = np.ascontiguousarray((0.05 * self.limit) * (1.0 + wave[:, self.preferences.row_at]))
        offsets, self.step = self.preferences.offsets, np.zeros(self.preferences.n_queries)
        sums = np.bincount(np.repeat(np.arange(len(self.step)), np.diff(offsets)), V[0])
        queries = np.flatnonzero(np.diff(self.tree.node_start))
        self.queries = queries[np.argsort(sums[queries], kind="stable")]
        return V

    def weights(self, V: np.ndarray) -> tuple[np.ndarray, float]:
        """(w(V), the sum over pairs of <v_i, v_j>)."""
        w, total = factor_weights(self.design.rows, self.tree, V, self.design.shape[1])
        return w, float(total)

    def ahead(self, V: np.ndarray, last: np.ndarray, stride: float, out: np.ndarray) -> None:
        """out = V extrapolated by a multiple of its last change, inside the box."""
        factor_ahead(V, last, stride, self.limit, out)

    def epoch(self, V: np.ndarray, w: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
        """A projected gradient step for every query in random order, in place: (change of the value, the norm of the
        projected gradient relative to that of the linear part)."""
        order = rng.permutation(self.queries)
        change, steep, linear = factor_epoch(self.design.rows, order, self.tree, V, w, self.step, self.limit)
        return float(change), float(np.sqrt(steep / linear)) if linear > 0 else 0.0

    def stationarity(self, V: np.ndarray, w: np.ndarray) -> float:
        """The norm of the projected gradient at V, relative to that of the linear part; `epoch` also computes it.

        A row's linear part is the sum of the factors of all rows of its query with another grade.
        """
        p, G = self.preferences, np.empty_like(V)
        factor_chain(self.design.scores(w), self.tree, V, G)
        query = np.repeat(np.arange(p.n_queries), np.diff(p.offsets))
        grade = np.unique(np.stack([query, p.y[p.row_at]]), axis=1, return_inverse=True)[1].ravel()
        linear = np.stack([np.bincount(query, v)[query] - np.bincount(grade, v)[grade] for v in V])
        G -= linear
        held = ((V <= 0) & (G > 0)) | ((self.limit <= V) & (G < 0))
        size = float(np.linalg.norm(linear))
        return float(np.linalg.norm(np.where(held, 0.0, G))) / size if size > 0 else 0.0


class FactorizedPrimal(FactorizedDual):
    """min over V of  ½‖w(V)‖² + C · loss of the factorised model (Zhang et al. 2015: the hinge with a rounded kink)."""

    def __init__(
        self, design: RowsDesign, preferences: GradedPreferences, rank: int, C: float, loss: Loss | None = None
    ):
        super().__init__(design, preferences, rank, C)
        loss = smoothed_hinge(ROUNDED) if loss is None or loss.name == "hinge" else loss
        self._problem, self._size = Problem(design, loss, preferences, C=C), 0.0

    def at(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient in the factors, by a chain of two pair-free sweeps."""
        V = flat.reshape(self.rank, -1)
        point, G = self._problem.at(self.weights(V)[0]), np.empty_like(V)
        factor_chain(self.design.scores(point.w), self.tree, V, G)
        self._size = float(np.abs(G).max(initial=0.0))  # of the norm's gradient, which the loss's has to cancel
        factor_chain(self.design.scores(point.gradient), self.tree, V, G)
        return point.value, G.ravel()

    def flatness(self, gradient: np.ndarray) -> float:
        """A gradient's largest entry, relative to that of the norm's gradient at the last point evaluated."""
        largest = float(np.abs(gradient).max(initial=0.0))
        return largest / self._size if self._size > 0 else (np.inf if largest > 0 else 0.0)


class RegularizedDual:
    """min over a, A of  ½‖w(a)‖² - sum a_ij + ½ridge ‖a‖² + gamma ‖A‖_* + lam ‖P(a) - A‖²,   0 ≤ a_ij ≤ limit.

    w(a) = sum a_ij (x_i - x_j). The hinge's dual has limit C and no ridge; the squared hinge's no limit and a ridge of
    1 / (2C), from its conjugate a²/(4C). It stores the state of its solver: multipliers a and matrices A, flat, query
    after query; w; the rank of every query's A.
    """

    def __init__(
        self,
        design: RowsDesign,
        preferences: GradedPreferences,
        C: float,
        gamma: float,
        lam: float,
        *,
        squared: bool = False,
    ):
        self.ridge, self.limit = (0.5 / C, np.inf) if squared else (0.0, C)
        self.width = 0.5 if squared else 0.0  # margin over which the multipliers of a smooth loss grow to C
        self.design, self.preferences, self.C, self.gamma, self.lam = design, preferences, C, gamma, lam
        self.tree, self.shards = preferences.tree, preferences.shards
        borders = (query_borders(self.tree, q) for q in range(preferences.n_queries))
        sizes = [(b[1], b[-1] - b[1], b[-2]) if len(b) > 2 else (0, 0, 0) for b in borders]
        shapes = np.array(sizes, np.int64).reshape(-1, 3)  # position of the first winner, numbers of winners and losers
        self.shapes, self.start = shapes, np.concatenate(([0], np.cumsum(shapes[:, 1] * shapes[:, 2])))
        self.coefficients, self.ranks = np.empty(preferences.n_items), np.zeros(len(shapes), np.int64)
        self.a = self.A = np.zeros(self.start[-1])
        self.w, self.total, self.nuclear = np.zeros(design.shape[1]), 0.0, 0.0

    def blocks(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """(q, rows that win, rows that lose, which of these are pairs) of every query q with pairs."""
        for q, (top, winners, losers) in enumerate(self.shapes):
            if winners:
                lo, hi = self.tree.offsets[q : q + 2]
                borders = query_borders(self.tree, q)
                beaten = np.repeat(borders[1:-1], np.diff(borders[1:]))  # the number of losers of each winner
                rows, pair = lo + self.tree.perm[lo:hi], np.arange(losers) < beaten[:, None]
                yield q, rows[top : top + winners], rows[:losers], pair

    def plain(self) -> Problem:
        """The problem at gamma = 0, without multipliers."""
        loss = squared_hinge() if self.width else hinge()
        return Problem(self.design, loss, self.preferences, C=self.C)

    def begin(self, w: np.ndarray, width: float) -> None:
        """Start from the multipliers at w of the hinge rounded over `width`, or of the squared hinge: nearly optimal
        for gamma = 0."""
        s, self.a = self.design.scores(w), np.zeros(self.start[-1])
        for q, i, j, pair in self.blocks():
            a = self.C * np.clip((1.0 - s[i][:, None] + s[j]) / width, 0.0, self.limit / self.C)
            self.block(self.a, q)[:] = np.where(pair, a, 0.0)
        self.A = self.a
        self.shrink()
        self.w, self.total = self.combine(self.a)

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

        def some(ab: tuple[int, int]) -> float:
            total = 0.0
            for q in range(*ab):
                if self.shapes[q, 1]:
                    A, values = shrink_singular_values(self.block(self.a, q), self.gamma / (2 * self.lam))
                    self.block(self.A, q)[:] = A
                    self.ranks[q] = len(values)
                    total += float(values.sum())
            return total

        with serial_blas():  # many small matrices: one thread for each
            self.nuclear = float(sum(run_shards(some, self.shards)))

    def value(self) -> float:
        gap = self.a - self.A
        fit = 0.5 * float(self.w @ self.w) - self.total + 0.5 * self.ridge * float(self.a @ self.a)
        return fit + self.gamma * self.nuclear + self.lam * float(gap @ gap)

    def gap(self) -> float:
        u = self.design.scores(self.w)
        parts = run_shards(
            lambda ab: multiplier_gap(
                u, self.a, self.A, self.start, *ab, self.tree, 2 * self.lam, self.ridge, self.limit
            ), self.shards,
        )  # fmt: skip
        return float(sum(parts))

    def state(self) -> Facts:
        """The solver's state, to return to; arrays are replaced, never changed in place."""
        return {name: getattr(self, name) for name in ("a", "A", "w", "total", "nuclear", "ranks")}

    def restore(self, state: Facts) -> None:
        """Return to an earlier state."""
        for name, value in state.items():
            setattr(self, name, value)

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(winner rows, loser rows, multipliers) of all pairs, query after query."""
        found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for q, i, j, pair in self.blocks():
            r, c = np.nonzero(pair)
            found.append((i[r], j[c], self.block(self.a, q)[r, c]))
        winners, losers, values = map(np.concatenate, zip(*found))
        return winners, losers, values


class Response(Objective):
    """The dual of the step in a:  min over w of ½‖w‖² + sum over pairs of max over a in [0, limit] of
    a (1 - t) - ½ridge a² - lam (a - A)²:  a hinge with its kink rounded and shifted for each pair."""

    def __init__(self, problem: RegularizedDual):
        self.problem, self.softness, self.dimension = problem, 1 / (2 * problem.lam), problem.design.shape[1]
        self.a = np.zeros_like(problem.a)
        self.latest: np.ndarray | None = None

    def multipliers(self, w: np.ndarray) -> np.ndarray:
        """The best multipliers if w is optimal."""
        a = np.zeros_like(self.a)
        self.evaluate(self.problem.design.scores(w), a)
        return a

    def evaluate(self, u: np.ndarray, a: np.ndarray) -> float:
        """The sum over pairs at scores u; the maximisers go to a."""
        p = self.problem
        return float(sum(run_shards(
            lambda ab: multiplier_response(
                u, p.A, p.start, *ab, p.tree, self.softness, p.ridge, p.limit, a, p.coefficients
            ), p.shards,
        )))  # fmt: skip

    def at(self, w: np.ndarray) -> Point:
        p, w = self.problem, np.array(w)
        value = 0.5 * float(w @ w) + self.evaluate(p.design.scores(w), self.a)
        gradient = w - p.design.back(p.coefficients)

        def curvature(v: np.ndarray) -> np.ndarray:
            if self.latest is not w:
                self.evaluate(p.design.scores(w), self.a)
                self.latest = w
            s, out = p.design.scores(v), np.empty(p.preferences.n_items)
            slope = self.softness / (1.0 + self.softness * p.ridge)
            run_shards(
                lambda ab: multiplier_curvature(s, self.a, p.start, *ab, p.tree, slope, p.limit, out), p.shards
            )  # fmt: skip
            return np.asarray(v + p.design.back(out))

        self.latest = w
        return Point(w, value, gradient, curvature)


class FactorModel:
    """½‖w + M (v - V)‖² - T·(v - V) + ½ρ‖v - V‖² over 0 ≤ v ≤ limit, the objective near V with w linear in v.

    Each number v_ik moves w along  M_ik = sum over pairs of i of ±v_jk (x_i - x_j) = D_gk x_i - B_gk,  where D and B
    depend only on i's query and grade g: sums over the rows of lower grades minus those over higher ones. So all
    products with the d × nK matrix of these directions cost O(nd + nK), and it is never formed. rows: those of the
    design by position, in double precision.
    """

    def __init__(self, problem: FactorizedDual, rows: np.ndarray, V: np.ndarray, w: np.ndarray):
        self.rows, self.V, self.w, self.limit, self.leaf = rows, V, w, problem.limit, problem.tree.leaf
        self.ends = np.append(self.leaf[1:], len(rows))
        self.group = np.repeat(np.arange(len(self.leaf)), self.ends - self.leaf)
        low, high = sides(problem.tree, np.add.reduceat(V, self.leaf, axis=1).T)
        self.D_of_groups = (low - high).T
        self.D, self.T = self.D_of_groups[:, self.group], (low + high)[self.group].T
        self.B = self.sums(V)
        for k, own in enumerate(self.B):
            low, high = sides(problem.tree, own)
            self.B[k] = low - high

    def sums(self, v: np.ndarray) -> np.ndarray:
        """Sum over the rows i of group g of v_ik x_i, by k and g."""
        found = np.empty((len(v), len(self.leaf), self.rows.shape[1]))
        for g, (first, end) in enumerate(zip(self.leaf, self.ends)):
            np.matmul(v[:, first:end], self.rows[first:end], out=found[:, g])
        return found

    def along(self, r: np.ndarray) -> np.ndarray:
        """<M_ik, r> of all numbers."""
        return np.asarray(self.D * (self.rows @ r) - (self.B @ r)[:, self.group])

    def combine(self, v: np.ndarray) -> np.ndarray:
        """Sum of v_ik M_ik."""
        sums = np.add.reduceat(v, self.leaf, axis=1)
        return np.asarray(self.rows.T @ (self.D * v).sum(axis=0) - np.einsum("kgd,kg->d", self.B, sums))

    def scatter(self, inside: np.ndarray) -> np.ndarray:
        """Sum of M_ik M_ikᵀ over the numbers strictly inside the box."""
        counts, d = np.add.reduceat(inside, self.leaf, axis=1), self.rows.shape[1]
        halves = 0.5 * counts[:, :, None] * self.B - self.D_of_groups[:, :, None] * self.sums(inside)
        mixed = halves.reshape(-1, d).T @ self.B.reshape(-1, d)
        H = (self.rows * (inside * self.D**2).sum(axis=0)[:, None]).T @ self.rows
        return np.asarray(H + mixed + mixed.T)

    def minimise(self, rho: float) -> tuple[np.ndarray, float]:
        """(approximately the best v, the decrease of the model without its last term).

        For a given r = w + M (v - V) the best v is  clip(V + (T - Mᵀr) / ρ),  and r minimises a convex function of only
        as many variables as there are features, by Newton's method: it contains all the few directions in which the
        objective is steep.
        """
        V, r, moved = self.V, self.w, self.combine(self.V)
        descent = self.T - self.along(r)
        for _ in range(MOST_ROUNDS):
            free = V + descent / rho
            v = np.clip(free, 0.0, self.limit)
            change = self.combine(v) - moved
            gradient, ahead = r - self.w - change, self.w + change
            lower = 0.5 * float(self.w @ self.w - ahead @ ahead) + float((self.T * (v - V)).sum())
            if 0.5 * float(gradient @ gradient) <= EXACT * lower:
                break
            H = np.eye(len(r)) + self.scatter(((free > 0) & (free < self.limit)).astype(np.float64)) / rho
            step = -np.linalg.solve(H, gradient)
            pushed = self.along(step)

            def slope(
                t: float,
                free: np.ndarray = free,
                r: np.ndarray = r,
                step: np.ndarray = step,
                pushed: np.ndarray = pushed,
            ) -> float:
                """The slope of the convex function along the step."""
                there = np.clip(free - (t / rho) * pushed, 0.0, self.limit)
                return float((r + t * step) @ step - (self.w - moved) @ step - (there * pushed).sum())

            t = root(slope)
            r, descent = r + t * step, descent - t * pushed
        return v, lower


def root(slope: Callable[[float], float]) -> float:
    """Approximate zero of an increasing slope, negative at 0, by bisection of a bracket that starts as [0, 1]."""
    first, low, high = slope(0.0), 0.0, 1.0
    while (there := slope(high)) < 0.0 and high < FARTHEST:
        low, high = high, 2.0 * high
    if there <= FLAT * -first:
        return high
    while high - low > SHORTEST:
        middle = 0.5 * (low + high)
        there = slope(middle)
        if abs(there) <= FLAT * -first:
            return middle
        low, high = (middle, high) if there < 0.0 else (low, middle)
    return high


def sides(tree: GradeTree, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each grade of each query the sums over the lower grades, and over the higher ones."""
    query = np.repeat(np.arange(len(tree.leaf_start) - 1), np.diff(tree.leaf_start))
    first, last = tree.leaf_start[query], tree.leaf_start[query + 1] - 1
    before = np.cumsum(sums, axis=0) - sums
    low = before - before[first]
    return low, (before[last] + sums[last]) - (before + sums)
