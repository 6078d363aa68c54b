"""Factorised multipliers near V, with w(V) linearised, for Gauss-Newton steps over all queries.

Each number v_ik moves w along  M_ik = sum over pairs of i of ±v_jk (x_i - x_j) = D_gk x_i - B_gk,  where D and B depend
only on i's query and grade g: sums over the rows of lower grades minus those over higher ones. So all products with the
d × nK matrix of these directions cost O(nd + nK), and it is never formed.
"""

from collections.abc import Callable

import numpy as np

from hingerank.kernels.sweeps import GradeTree
from hingerank.problem.multipliers import FactorizedDual

MOST_ROUNDS, EXACT = 60, 0.1  # of Newton's method: most rounds, and its final error relative to the gain
FLAT, SHORTEST, FARTHEST = 0.1, 1e-6, 64.0  # of the line search: relative slope at its end, and the range of steps


class FactorModel:
    """½‖w + M (v - V)‖² - T·(v - V) + ½ρ‖v - V‖² over 0 ≤ v ≤ limit, the objective near V with w linear in v.

    rows: the rows by position, in double precision.
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
        pull = self.T - self.along(r)
        for _ in range(MOST_ROUNDS):
            free = V + pull / rho
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
            r, pull = r + t * step, pull - t * pushed
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
