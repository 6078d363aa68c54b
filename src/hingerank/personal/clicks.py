"""Clicks, listens, purchases: the items that a user took. All other items may be negatives.

They are sampled: for a user with n clicks and m sampled items all n·m pairs count, without being listed. Items are
sampled again every two epochs, so that a user's clicks are compared with more and more of the catalogue. Or the squared
loss compares every click with every item, without sampling and without listing pairs:

    f(U, V) = C · sum over users u, clicks i of u, all items j of c_ui (1 - (s_ui - s_uj))² + ½(‖U‖² + ‖V‖²),

s_ui = v_uᵀ z_i, z_i = Uᵀ x_i. Only differences of scores count, so the mean of all z may be subtracted from each. Then
the scores of a user sum to 0. With n items, and c_u the sum of a user's weights, the loss of a user is

    n Σ_i c_ui (1 - s_ui)² + c_u Σ_j s_uj².

This is quadratic in v_u, with the matrix n Σ_i c_ui z_i z_iᵀ + c_u G, G = Σ_j z_j z_jᵀ. So the users' step solves a
small linear system for each user. The system has as many equations as the user has clicks, or as z has entries if that
is fewer. Given V, the loss is quadratic in U too. Each step of conjugate gradients in U costs one pass over the clicks.
"""

from dataclasses import dataclass
from functools import partial
from typing import Unpack

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Column, Matrix, PerRow
from hingerank.data.files import DataError
from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.alternating import (
    back_to_features,
    balance,
    first_gradient_norm,
    gram,
    half_square,
    item_vectors,
    left_to_gain,
    solve_equations,
    squares_to_features,
)
from hingerank.personal.catalogue import History, history_of
from hingerank.personal.preferences import UserPreferences, check_items, from_ratings
from hingerank.personal.top_n import part_found
from hingerank.solvers.run import STATIONARY, Limits, Run, Solution

CLICKS_PER_SHARD = 16384
MULTIPLES = (15.0, 50.0, 150.0, 500.0)  # of the smallest useful C; the first is for ids alone
LEAST_CLICKS, PART_HELD, TOP, TRIED = 5, 0.2, 10, 3  # clicks of a user, fraction held out, list length, epochs
ENOUGH_USERS, MOST_JUDGED = 200, 500  # up to so many users all are used, else half; users with judged lists
PRODUCTS, ENOUGH = 5, 0.1  # conjugate gradients in U: largest number of products, fraction of the gradient left


def clicks_of(users: Column, items: Column, n_items: int, weight: PerRow = None) -> History:
    """Group clicks, given in any order, by user.

    Repeats count once, or with the sum of their weights if they have weights. Clicks of weight 0 are left out.

    Examples
    --------
    >>> clicks_of(["bob", "ann", "bob", "bob"], [2, 1, 0, 2], 3).items.tolist()
    [0, 2, 1]
    """
    clicks = history_of(users, check_items(items, n_items, "items"), n_items, weight)
    full = np.flatnonzero(np.diff(clicks.start) == n_items)
    if len(full):
        user = clicks.users[full].tolist()[0]
        raise DataError(f"user {user!r} took every item, so there is no item to compare with: leave such users out")
    return clicks


def draw_losers(
    clicks: History, per_click: float, least: int, how: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sample items that users did not take, some for each click, and return (users, items), each pair once."""
    count = np.maximum(np.ceil(per_click * np.diff(clicks.start)).astype(np.int64), least)
    code = np.repeat(np.arange(len(count)), count)
    if how == "uniform":
        items = rng.integers(0, clicks.n_items, len(code))
    else:  # proportional to the clicks plus one, so that every item has a chance
        popular = np.cumsum(np.bincount(clicks.items, minlength=clicks.n_items) + 1.0)
        items = np.searchsorted(popular, rng.random(len(code)) * popular[-1], side="right")
    key = np.sort(code * clicks.n_items + items)  # np.unique would use hashing, which is many times slower
    key = key[np.diff(key, prepend=-1) > 0]
    taken = clicks.code * clicks.n_items + clicks.items
    at = np.minimum(np.searchsorted(taken, key), len(taken) - 1)
    key = key[taken[at] != key]
    return key // clicks.n_items, key % clicks.n_items


def drawn_preferences(
    clicks: History, per_click: float, least: int, how: str, rng: np.random.Generator, pair_weight: str
) -> UserPreferences:
    """Return preferences for every click of a user over every item sampled for the user; users as in `clicks`."""
    users, items = draw_losers(clicks, per_click, least, how, rng)
    all_users = np.concatenate([clicks.code, users])
    values = np.concatenate([np.ones(len(clicks.items)), np.zeros(len(items))])
    all_items = np.concatenate([clicks.items, items])
    given = clicks.table.data
    weight = None if given.dtype == bool else np.concatenate([given, np.ones(len(items))])
    return from_ratings(all_users, all_items, values, clicks.n_items, weight, pair_weight)


@inner(fastmath=SUMS_MAY_REORDER)
def solve_in_place(A, y, m):
    """Replace y by A⁻¹ y, with Cholesky factors that overwrite the lower triangle of the first m rows of A."""
    for i in range(m):
        for j in range(i + 1):
            total = A[i, j]
            for c in range(j):
                total -= A[i, c] * A[j, c]
            A[i, j] = np.sqrt(total) if i == j else total / A[j, j]
        total = y[i]
        for c in range(i):
            total -= A[i, c] * y[c]
        y[i] = total / A[i, i]
    for i in range(m - 1, -1, -1):
        y[i] /= A[i, i]
        for c in range(i):
            y[c] -= A[i, c] * y[i]


@kernel(fastmath=SUMS_MAY_REORDER)
def solve_users(Z, spread, total, first, last, start, item, weight, factor, room, A, y, V):
    """v_u = (D + Σ_i h_i h_iᵀ)⁻¹ Σ_i √(factor c_ui) h_i,  h_i = √(factor c_ui) z_i,  D = I + factor/n c_u diag(spread).

    With the rows h_i/√D in H, v_u is D^(-1/2) Hᵀ (I + H Hᵀ)⁻¹ √(factor c_u), the smaller system if clicks are few.
    """
    n, k = Z.shape
    root = room[k]
    for u in range(first, last):
        begin, m = start[u], start[u + 1] - start[u]
        for a in range(k):
            root[a] = 1.0 / np.sqrt(1.0 + factor / n * total[u] * spread[a])
        if m < k:
            for r in range(m):
                h, z, size = room[r], Z[item[begin + r]], np.sqrt(factor * weight[begin + r])
                for a in range(k):
                    h[a] = size * root[a] * z[a]
                y[r] = size
                for q in range(r + 1):
                    product, other = 0.0, room[q]
                    for a in range(k):
                        product += h[a] * other[a]
                    A[r, q] = product
                A[r, r] += 1.0
            solve_in_place(A, y, m)
            for a in range(k):
                V[u, a] = 0.0
            for r in range(m):
                h = room[r]
                for a in range(k):
                    V[u, a] += y[r] * h[a]
        else:
            for a in range(k):
                y[a] = 0.0
                for b in range(k):
                    A[a, b] = 0.0
                A[a, a] = 1.0
            h0, h1 = room[0], room[1]
            for r in range(0, m, 2):  # two rows at a time, so that each row of A is read half as often
                one = begin + r
                two, more = (one + 1, np.sqrt(factor * weight[one + 1])) if r + 1 < m else (one, 0.0)
                size, z0, z1 = np.sqrt(factor * weight[one]), Z[item[one]], Z[item[two]]
                for a in range(k):
                    h0[a], h1[a] = size * root[a] * z0[a], more * root[a] * z1[a]
                    y[a] += size * h0[a] + more * h1[a]
                for a in range(k):
                    line, p, q = A[a], h0[a], h1[a]
                    for b in range(k):
                        line[b] += p * h0[b] + q * h1[b]
            solve_in_place(A, y, k)
            for a in range(k):
                V[u, a] = y[a]
        for a in range(k):
            V[u, a] *= root[a]


@kernel(fastmath=SUMS_MAY_REORDER)
def clicks_back(Z, V, first, last, start, user, weight, constant, out):
    """out[i] = Σ_u c_ui (s_ui - constant) v_u for items first:last, over the users who clicked each."""
    k = Z.shape[1]
    for i in range(first, last):
        z, line = Z[i], out[i]
        for c in range(k):
            line[c] = 0.0
        for r in range(start[i], start[i + 1]):
            v, score = V[user[r]], 0.0
            for c in range(k):
                score += z[c] * v[c]
            score = weight[r] * (score - constant)
            for c in range(k):
                line[c] += score * v[c]


def centred(Z: np.ndarray) -> np.ndarray:
    """Return Z minus the mean of its rows."""
    return Z - Z.mean(axis=0)


@dataclass
class AllPairs:
    """The function f for the clicks of all users; results do not depend on the number of threads.

    table: the weight c_ui of each click (users x items, CSR).
    """

    X: Matrix
    table: sp.csr_matrix
    threads: int | None = None

    def __post_init__(self) -> None:
        self.n, self.start = self.X.shape[0], self.table.indptr.astype(np.int64)
        by_item = self.table.tocsc()
        self.by_item = by_item.indptr.astype(np.int64), by_item.indices, by_item.data
        self.total = np.asarray(self.table.sum(axis=1)).ravel()
        self.popularity = np.asarray(self.table.sum(axis=0)).ravel()
        self.shards = cut_shards(self.start, CLICKS_PER_SHARD)
        self.item_shards = cut_shards(self.by_item[0], CLICKS_PER_SHARD)

    def least_C(self) -> float:
        """Return 1/‖∇loss at 0‖₂, below which the optimum is 0. The gradient is -2 (n T - c 1ᵀ) X with T the clicks."""

        def power(v: np.ndarray) -> tuple[float, np.ndarray]:
            moved = 2.0 * self.n * (self.table @ centred(item_vectors(self.X, v, self.threads)))
            back = 2.0 * self.n * centred(self.table.T @ moved)
            return float(np.vdot(moved, moved)), back_to_features(self.X, back, self.threads)

        return 1.0 / first_gradient_norm(self.X.shape[1], power)

    def users(self, U: np.ndarray, C: float) -> tuple[np.ndarray, float]:
        """Return the best V for this U, and the value of f."""
        Z, k = centred(item_vectors(self.X, U, self.threads)), U.shape[1]
        spread, basis = np.linalg.eigh(gram(Z))  # in this basis G is diagonal
        Z, V, factor = np.ascontiguousarray(Z @ basis), np.empty((len(self.total), k)), 2.0 * C * self.n
        given = Z, np.maximum(spread, 0.0), self.total

        def solve(ab: tuple[int, int]) -> None:
            room, A, y = np.empty((k + 1, k)), np.empty((k, k)), np.empty(k)
            solve_users(*given, *ab, self.start, self.table.indices, self.table.data, factor, room, A, y, V)

        run_shards(solve, self.shards, self.threads)
        gain = self.n * float(np.vdot(V, self.table @ Z))
        return V @ basis.T, half_square(U) + C * (self.n * float(self.total.sum()) - gain)

    def moved(self, U: np.ndarray, V: np.ndarray, C: float, constant: float) -> np.ndarray:
        """Return the gradient of f in U if constant is 1, and (its Hessian) U if constant is 0."""
        Z = centred(item_vectors(self.X, U, self.threads))
        back = np.empty_like(Z)
        run_shards(lambda ab: clicks_back(Z, V, *ab, *self.by_item, constant, back), self.item_shards, self.threads)
        in_items = 2.0 * centred(self.n * back + Z @ self._spread(V))
        return U + C * back_to_features(self.X, in_items, self.threads)

    def diagonal(self, V: np.ndarray, C: float) -> np.ndarray:
        """Approximate the diagonal of the Hessian in U, as if all items had the same users."""
        share = np.diag(self._spread(V)) / max(float(self.total.sum()), np.finfo(float).tiny)
        squares = squares_to_features(self.X, self.n * self.popularity + self.total.sum(), self.threads)
        return 1.0 + 2.0 * C * np.outer(squares, share)

    def _spread(self, V: np.ndarray) -> np.ndarray:
        """Return the sum over users of c_u v_u v_uᵀ."""
        return gram(np.sqrt(self.total)[:, None] * V)


def fit_all_pairs(problem: AllPairs, U: np.ndarray, C: float, **limits: Unpack[Limits]) -> Solution:
    """Minimise f by alternating steps, until an epoch can lower it by no more than tol times its value.

    If the decrease since U = 0 and V = 0 is smaller than the value, it is used instead of the value. The rule is that
    of `hingerank.personal.alternating`.

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", **limits)
    run.origin = C * problem.n * float(problem.total.sum())
    V, value = problem.users(U, C)
    before, scale = np.inf, None
    while True:
        g, D = problem.moved(U, V, C, 1.0), problem.diagonal(V, C)
        size = float(np.linalg.norm(g))
        scale = size if scale is None else scale
        promise = max(0.5 * float((g**2 / D).sum()), before - value)
        left, _ = left_to_gain(promise, value, size, run)
        if run.stops(value=value, stationarity=left, gradient=size / scale if scale > 0 else 0.0):
            break
        curvature = partial(problem.moved, V=V, C=C, constant=0.0)
        U = U + solve_equations(curvature, np.ascontiguousarray(g), D, ENOUGH, PRODUCTS)[0]
        U, _, _ = balance(U, gram(V), U)
        before = value
        V, value = problem.users(U, C)
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0), kind="stable")
    return run.solution(STATIONARY, U[:, order], value, len(run.trace) - 1, V=V[:, order], width=0.0)


def choose_multiple(
    X: Matrix, table: sp.csr_matrix, U: np.ndarray, threads: int | None = None
) -> tuple[float, np.ndarray]:
    """Choose the multiple of the smallest useful C by held-out clicks of half of the users: (multiple, initial basis).

    The first multiple suits one column per item. With features it must be larger, as they make the smallest C smaller.
    Multiples are tried in increasing order, for a few epochs each from the previous result, as long as lists of ten
    find more of the clicks.
    """
    rng, users = np.random.default_rng(0), table.shape[0]
    some = table[np.sort(rng.permutation(users)[: max(ENOUGH_USERS, users // 2)])]
    count, item = np.diff(some.indptr), some.indices
    code = np.repeat(np.arange(len(count)), count)
    held = (rng.random(len(item)) < PART_HELD) & (count[code] >= LEAST_CLICKS)
    held &= np.bincount(code[~held], minlength=len(count))[code] > 0
    judged = np.unique(code[held])[:MOST_JUDGED]
    if len(judged) < LEAST_CLICKS:
        return MULTIPLES[0], U
    kept, missing = (sp.csr_matrix((some.data[p], (code[p], item[p])), some.shape) for p in (~held, held))
    problem = AllPairs(X, kept, threads)
    least, chosen, most = problem.least_C(), MULTIPLES[0], -np.inf
    basis, wanted = U, (missing[judged].toarray() > 0).astype(np.float64)
    for multiple in MULTIPLES:
        tried = fit_all_pairs(problem, U, multiple * least, tol=1e-3, max_iter=TRIED)
        U = tried.w
        scores = tried.extra["V"][judged] @ item_vectors(X, U, threads).T
        scores[problem.table[judged].nonzero()] = -np.inf
        found = part_found(scores, wanted, TOP)
        if found <= most:
            break
        chosen, most, basis = multiple, found, U
    return chosen, basis
