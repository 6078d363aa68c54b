"""Every click against every item with the squared loss, without drawing items and without listing pairs.

    f(U, V) = C · sum over users u, clicks i of u, all items j of c_ui (1 - (s_ui - s_uj))² + ½(‖U‖² + ‖V‖²),

s_ui = v_uᵀ z_i, z_i = Uᵀ x_i. With n items, c_u the sum of a user's weights, z̄ = Σ_j z_j, G = Σ_j z_j z_jᵀ,
S_u = Σ_i c_ui z_i and G_u = Σ_i c_ui z_i z_iᵀ the loss of a user is n c_u - 2 v·b + vᵀ A v,

    b = n S_u - c_u z̄,   A = n G_u - S_u z̄ᵀ - z̄ S_uᵀ + c_u G:

the users' step solves a k × k system for each of them. Given V the loss is a square in U too. Its gradient in the
scores is 2 c_ui (n s_ui - n - Σ_j s_uj) at clicks and 2 (c_u + c_u s_uj - Σ_i c_ui s_ui) at all items, of which the
second needs only sums over users: conjugate gradients in U cost a pass over the clicks each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.kernels.compiled import kernel
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.alternating import balance
from hingerank.personal.clicks import Clicks
from hingerank.personal.problem import ItemFeatures, first_gradient_norm, gram, half_square
from hingerank.personal.products import part_found
from hingerank.solvers.run import STATIONARY, Run, Solution

CLICKS_PER_SHARD, USERS_AT_ONCE = 16384, 2048
MULTIPLES = (15.0, 50.0, 150.0, 500.0)  # of the smallest C at which anything is learnt; the first suits ids alone
LEAST_CLICKS, PART_HELD, TOP, TRIED = 5, 0.2, 10, 3  # of users of whom some are held back; list judged; epochs of a try
ENOUGH_USERS, MOST_JUDGED = 200, 500  # users up to which all are looked at, else half; whose lists are judged
PRODUCTS, ENOUGH = 5, 0.1  # conjugate gradients in U: products at most, fraction of the gradient that may be left


@kernel
def click_scores(Z, V, first, last, start, item, out):
    """out[r] = <z_item(r), v_u> for the clicks of users first:last."""
    k = Z.shape[1]
    for u in range(first, last):
        for r in range(start[u], start[u + 1]):
            total = 0.0
            for c in range(k):
                total += Z[item[r], c] * V[u, c]
            out[r] = total


@kernel
def click_systems(Z, mean, G, S, total, first, last, start, item, weight, factor, A):
    """A[u - first] = factor (n G_u - S_u z̄ᵀ - z̄ S_uᵀ + c_u G) + I, in one pass over each user's matrix."""
    n, k = Z.shape
    for u in range(first, last):
        out = A[u - first]
        for a in range(k):
            line, own, middle = out[a], S[u, a], mean[a]
            for b in range(k):
                line[b] = factor * (total[u] * G[a, b] - own * mean[b] - middle * S[u, b])
            line[a] += 1.0
        for r in range(start[u], start[u + 1]):
            z = Z[item[r]]
            for a in range(k):  # all of each line: quicker than half of it, as whole vectors are added
                line, value = out[a], factor * n * weight[r] * z[a]
                for b in range(k):
                    line[b] += value * z[b]


@dataclass
class AllPairs:
    """f for the clicks of all users; the answers do not depend on the number of threads.

    weight: c_ui of each click.
    """

    X: Any
    clicks: Clicks
    weight: np.ndarray
    threads: int | None = None

    def __post_init__(self) -> None:
        self.features, self.n = ItemFeatures(self.X, self.threads), self.X.shape[0]
        self.start, self.item = self.clicks.start.astype(np.int64), self.clicks.items
        self.table = sp.csr_matrix((self.weight, self.item, self.start), shape=(len(self.start) - 1, self.n))
        self.total = np.asarray(self.table.sum(axis=1)).ravel()
        self.popularity = np.asarray(self.table.sum(axis=0)).ravel()
        self.shards = cut_shards(self.start, CLICKS_PER_SHARD)

    def least_C(self) -> float:
        """1/‖∇loss at 0‖₂, below which the optimum is 0: that gradient is -2 (n T - c 1ᵀ) X with T the clicks."""

        def power(v: np.ndarray) -> tuple[float, np.ndarray]:
            p = self.features.times(v)
            moved = 2.0 * (self.n * (self.table @ p) - np.outer(self.total, p.sum(axis=0)))
            back = self.n * (self.table.T @ moved) - self.total @ moved
            return float(np.vdot(moved, moved)), self.features.back(2.0 * back)

        return 1.0 / first_gradient_norm(self.X.shape[1], power)

    def users(self, U: np.ndarray, C: float) -> tuple[np.ndarray, float]:
        """(V, which is best for U; f)."""
        Z = self.features.times(U)
        mean, G, S, k = Z.sum(axis=0), gram(Z), self.table @ Z, U.shape[1]
        linear = self.n * S - np.outer(self.total, mean)
        V = np.empty((len(self.total), k))

        def solve(ab: tuple[int, int]) -> None:
            for a in range(ab[0], ab[1], USERS_AT_ONCE):
                b = min(ab[1], a + USERS_AT_ONCE)
                A = np.empty((b - a, k, k))
                click_systems(Z, mean, G, S, self.total, a, b, self.start, self.item, self.weight, 2.0 * C, A)
                V[a:b] = np.linalg.solve(A, 2.0 * C * linear[a:b, :, None])[:, :, 0]

        run_shards(solve, self.shards, self.threads)
        return V, half_square(U) + C * (self.n * float(self.total.sum()) - float(np.vdot(V, linear)))

    def moved(self, Z: np.ndarray, V: np.ndarray, constant: float) -> np.ndarray:
        """The gradient of the loss in Z where constant is 1; (its Hessian) Z where it is 0."""
        s = np.empty(len(self.item))
        run_shards(lambda ab: click_scores(Z, V, *ab, self.start, self.item, s), self.shards, self.threads)
        sums, own = V @ Z.sum(axis=0), np.add.reduceat(self.weight * s, self.start[:-1])
        at_clicks = self.n * (s - constant) - np.repeat(sums, np.diff(self.start))
        sparse = sp.csr_matrix((self.weight * at_clicks, self.item, self.start), shape=self.table.shape)
        everywhere = (constant * self.total - own) @ V
        return 2.0 * (sparse.T @ V + everywhere + Z @ self._spread(V))

    def gradient(self, U: np.ndarray, V: np.ndarray, C: float) -> np.ndarray:
        return U + C * self.features.back(self.moved(self.features.times(U), V, 1.0))

    def curvature(self, D: np.ndarray, V: np.ndarray, C: float) -> np.ndarray:
        return D + C * self.features.back(self.moved(self.features.times(D), V, 0.0))

    def diagonal(self, V: np.ndarray, C: float) -> np.ndarray:
        """About the Hessian's diagonal in U, each item's users taken to be like all."""
        share = np.diag(self._spread(V)) / max(float(self.total.sum()), np.finfo(float).tiny)
        return 1.0 + 2.0 * C * np.outer(self.features.back_squares(self.n * self.popularity + self.total.sum()), share)

    def _spread(self, V: np.ndarray) -> np.ndarray:
        """sum over users of c_u v_u v_uᵀ."""
        return gram(np.sqrt(self.total)[:, None] * V)


def fit_all_pairs(
    problem: AllPairs, U: np.ndarray, C: float, *, tol: float, max_iter: int, max_seconds: float, callback: Any = None
) -> Solution:
    """Minimise f by turns, until an epoch neither lowers it nor promises to lower it by more than tol times its value,
    or times what was gained from U = 0 and V = 0 if that is less (as `hingerank.personal.alternating` does).

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", tol, max_iter, max_seconds, callback)
    run.origin = C * problem.n * float(problem.total.sum())
    V, value = problem.users(U, C)
    before, scale = np.inf, None
    while True:
        g, D = problem.gradient(U, V, C), problem.diagonal(V, C)
        size = float(np.linalg.norm(g))
        scale = size if scale is None else scale
        promise = max(0.5 * float((g**2 / D).sum()), before - value)
        gain = min(value, max(run.origin - value, tol * run.origin))
        left = promise / gain if gain > 0 else 0.0
        if run.stops(value=value, stationarity=left, gradient=size / scale if scale > 0 else 0.0):
            break
        U = U + _step(problem, V, C, g, D)
        U, _, _ = balance(U, gram(V), U)
        before = value
        V, value = problem.users(U, C)
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0), kind="stable")
    return run.solution(STATIONARY, U[:, order], value, len(run.trace), V=V[:, order], width=0.0)


def _step(problem: AllPairs, V: np.ndarray, C: float, g: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Conjugate gradients for  Hessian · step = -g  in U, cut short."""
    step, r = np.zeros_like(g), -g
    d = r / D
    rr = float(np.vdot(r, d))
    target = ENOUGH * ENOUGH * rr
    for _ in range(PRODUCTS):
        if rr <= target:
            break
        product = problem.curvature(d, V, C)
        length = rr / float(np.vdot(d, product))
        step += length * d
        r -= length * product
        rr, before = float(np.vdot(r, r / D)), rr
        d = r / D + (rr / before) * d
    return step


def choose_multiple(
    X: Any, clicks: Clicks, weight: np.ndarray, U: np.ndarray, threads: int | None = None, seed: int = 0
) -> tuple[float, np.ndarray]:
    """(how many times the smallest useful C, a basis to start from): by held back clicks of half of the users.

    A column per item wants the first multiple; features beside it more, for they make the smallest C smaller. Multiples
    are tried in rising order, a few epochs each from where the last one ended, as long as lists of ten find more.
    """
    rng, count = np.random.default_rng(seed), np.diff(clicks.start)
    some = rng.permutation(len(count))
    some = np.sort(some[: max(ENOUGH_USERS, len(count) // 2)])
    row = np.concatenate([np.arange(clicks.start[u], clicks.start[u + 1]) for u in some])
    code = np.repeat(np.arange(len(some)), count[some])
    held = (rng.random(len(row)) < PART_HELD) & (count[some][code] >= LEAST_CLICKS)
    held &= np.bincount(code[~held], minlength=len(some))[code] > 0
    judged = np.unique(code[held])[:MOST_JUDGED]
    if len(judged) < LEAST_CLICKS:
        return MULTIPLES[0], U
    start = np.concatenate(([0], np.cumsum(np.bincount(code[~held], minlength=len(some)))))
    rest = Clicks(clicks.users[some], start, clicks.items[row[~held]], clicks.n_items)
    problem = AllPairs(X, rest, weight[row[~held]], threads)
    missing = sp.csr_matrix((np.ones(held.sum()), (code[held], clicks.items[row[held]])), shape=problem.table.shape)
    least, chosen, most = problem.least_C(), MULTIPLES[0], -np.inf
    basis, wanted = U, missing[judged].toarray()
    for multiple in MULTIPLES:
        tried = fit_all_pairs(problem, U, multiple * least, tol=1e-3, max_iter=TRIED, max_seconds=np.inf)
        U = tried.w
        scores = tried.extra["V"][judged] @ problem.features.times(U).T
        scores[problem.table[judged].nonzero()] = -np.inf
        found = part_found(scores, wanted, TOP)
        if found <= most:
            break
        chosen, most, basis = multiple, found, U
    return chosen, basis
