"""The factorised objective of personal rankers, and products with the features of items.

A factorised model minimises  C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²).  X holds the d features
of the items, U (d x k) the basis, V (users x k) the users' coordinates. Items enter only through P = X U (items x k),
so a pass costs O(rows k) plus one product with X, however many pairs the rows imply. The last columns of V may be fixed
at 1, for a function that all users share; they then have no penalty.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.passes import CURVATURE, LOSS, RIGHT, users_pass, users_step
from hingerank.personal.preferences import UserPreferences
from hingerank.problem.problem import add_up

ROWS_PER_SHARD, MOST_SHARDS = 16384, 16
ROOM_FOR_SUMS = 64 << 20  # bytes that the sums of shards may always take
ROWS_PER_BLOCK, ROWS_OF_USERS = 4096, 8192
STEPS, HINGE_STEPS = 1, 5  # Newton steps per user, of which the duality gap of the hinge needs more
LEFT_OF_USER = 0.3  # they stop when this fraction of the user's gradient is left
FEW = 0.5  # if less than this fraction of items or features is used, the fit leaves out the others


def item_vectors(X: Matrix, U: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return X U in float64, a row per item; a dense X by fixed blocks of rows."""
    if not isinstance(X, np.ndarray):
        return np.ascontiguousarray(X @ U)
    out = np.empty((X.shape[0], U.shape[1]))
    run_shards(lambda rows: np.matmul(X[rows].astype(np.float64, copy=False), U, out[rows]), _blocks(X), threads)
    return out


def back_to_features(X: Matrix, G: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return Xᵀ G."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X.T @ G)
    parts = run_shards(lambda rows: X[rows].astype(np.float64, copy=False).T @ G[rows], _blocks(X), threads)
    return add_up(parts)


def squares_to_features(X: Matrix, weight: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return (X∘X)ᵀ weight."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X.multiply(X).T @ weight)
    return add_up(run_shards(lambda rows: np.square(X[rows], dtype=np.float64).T @ weight[rows], _blocks(X), threads))


def _blocks(X: np.ndarray) -> list[slice]:
    return [slice(a, a + ROWS_PER_BLOCK) for a in range(0, X.shape[0], ROWS_PER_BLOCK)]


def row_products(A: Any, B: Any) -> np.ndarray:
    """Return <A[r], B[r]> for every r; each matrix is dense or CSR."""
    if sp.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    if sp.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel()
    return np.einsum("rc,rc->r", A, B)


def rows_or_mean(A: Any, numbers: np.ndarray) -> Any:
    """Return A[numbers], dense or CSR, with the mean of all rows for the number -1."""
    if len(numbers) == 0 or numbers.min() >= 0:
        return A[numbers]
    if sp.issparse(A):
        return sp.csr_matrix(sp.vstack([A, sp.csr_matrix(A.mean(axis=0))]))[numbers]
    return np.where((numbers >= 0)[:, None], A[numbers], A.mean(axis=0))


def all_products(A: Any, B: Any) -> np.ndarray:
    """Return A Bᵀ as a dense matrix."""
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else np.ascontiguousarray(product)


def column_scales(X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the centre and the scale of each column; None if all columns stay as they are.

    A numeric column, with any value that is neither 0 nor 1, becomes (x - mean) / standard deviation, so that a raw
    year or price does not outweigh indicators of 0 and 1, which stay. A column that is mostly 0 keeps its zeros, which
    mean "not there": it is divided by its standard deviation if that is above 1, and stays otherwise (words, tf-idf).

    Examples
    --------
    >>> centre, scale = column_scales(np.array([[1990.0, 0.0], [2010.0, 1.0]]))
    >>> centre.tolist(), scale.tolist()
    ([2000.0, 0.0], [10.0, 1.0])
    """
    n = max(1, X.shape[0])
    if sp.issparse(X):
        column, values = X.indices, X.data.astype(np.float64)
        numbers = np.bincount(column, (values != 0) & (values != 1), X.shape[1]) > 0
        present = np.bincount(column, values != 0, X.shape[1])
        mean = np.bincount(column, values, X.shape[1]) / n
        stored = np.bincount(column, minlength=X.shape[1])
        squares = np.bincount(column, (values - mean[column]) ** 2, X.shape[1]) + (n - stored) * mean**2
        spread = np.sqrt(squares / n)
    else:
        numbers = ~((X == 0) | (X == 1)).all(axis=0)
        present = np.count_nonzero(X, axis=0)
        mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    mostly = 2 * present > n
    numbers &= mostly | (spread > 1.0)
    mean = np.where(mostly, mean, 0.0)
    if not numbers.any():
        return None
    flat = ~(spread > 1e-12 * np.abs(mean))  # all items have the same value
    return np.where(numbers, mean, 0.0), np.where(numbers & ~flat, spread, 1.0)


def scaled(X: Any, centre: np.ndarray, scale: np.ndarray) -> Any:
    """Return (X - centre) / scale in the type of X; in a CSR matrix only columns with a centre are filled."""
    if not sp.issparse(X):
        return ((X - centre) / scale).astype(X.dtype, copy=False)
    out = sp.csr_matrix((X.data / scale[X.indices], X.indices, X.indptr), shape=X.shape)
    moved = np.flatnonzero(centre)
    if len(moved):
        n, k = X.shape[0], len(moved)
        shift = np.tile(-centre[moved] / scale[moved], n), np.tile(moved, n), np.arange(n + 1) * k
        out = sp.csr_matrix(out + sp.csr_matrix(shift, shape=X.shape))
    return out.astype(X.dtype, copy=False)


class StepSums(NamedTuple):
    """The sums of a step of some users; sums over parts of the users can be added."""

    loss: float
    norms: float  # ½‖V‖²
    squares: float  # of the gradient in V
    gradient: np.ndarray  # of the loss in U
    curved: np.ndarray  # (X∘X)ᵀ h, h the diagonal of the Hessian in scores
    weight: float  # sum of h
    mixed: np.ndarray  # sum over rows of h_r v_u²
    spread: np.ndarray  # VᵀV of the free columns
    hinge: float  # the loss without rounding
    kink: float  # what rounding adds to the duality gaps of U given V and of V given U

    def value(self, U: np.ndarray, C: float, loss: float) -> float:
        """Return f(U, V) from the sums over all users, with their loss or hinge."""
        return C * loss + (half_square(U) + self.norms)


class LocalUsers:
    """f(U, V) = C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²), with V, of users in this process.

    Passes run on `threads` threads; the result does not depend on their number. The last `fixed` columns of V stay as
    they are, the others are changed in place. width: of the rounded kink of the hinge; 0 for the squared hinge.
    """

    def __init__(
        self, X: Matrix, preferences: UserPreferences, C: float, V: np.ndarray, threads: int | None = None,
        fixed: int = 0, width: float = 0.0,
    ):  # fmt: skip
        self.X, self.preferences, self.C, self.V, self.threads = X, preferences, float(C), V, threads
        self.before, self.free, n_rows = np.empty_like(V), V.shape[1] - fixed, len(preferences.item)
        self.scores = np.zeros(n_rows, np.float32)  # float32 is precise enough for a Hessian
        room = max(ROOM_FOR_SUMS, 4 * n_rows) // (8 * V.shape[1] * X.shape[0])
        most = int(np.clip(min(room, n_rows // (2 * X.shape[0])), 1, MOST_SHARDS))
        self.shards = cut_shards(preferences.start, ROWS_PER_SHARD, most)
        self.narrow(width)

    def narrow(self, width: float) -> None:
        self.width = float(width)
        self.preferences = replace(self.preferences, known=self.preferences.known._replace(width=self.width))

    def step(self, U: np.ndarray, turn: np.ndarray | None = None, again: bool = False) -> StepSums:
        own, k = self.V[:, : self.free], self.V.shape[1]
        if turn is not None:
            for part in blocks_of(own):
                part[:] = part @ turn
        if again:
            self.V[:] = self.before
        else:
            self.before[:] = self.V
        P, n, centre = item_vectors(self.X, U, self.threads), self.X.shape[0], np.zeros(self.free)
        how = self.preferences, self.C, centre, LEFT_OF_USER, HINGE_STEPS if self.width > 0 else STEPS, self.scores
        sums = [(np.zeros((n, k)), np.zeros(n), np.zeros(k)) for _ in self.shards]
        shards = list(zip(self.shards, sums))
        parts = run_shards(lambda task: users_step(P, self.V, *task[0], *how, *task[1]), shards, self.threads)
        (loss, squares, hinge, kink), (G, weight, mixed) = np.sum(parts, axis=0), map(add_up, zip(*sums))
        return StepSums(
            float(loss), half_square(own), float(squares), back_to_features(self.X, G, self.threads),
            squares_to_features(self.X, weight, self.threads), float(weight.sum()), mixed, gram(own),
            float(hinge if self.width > 0 else loss), float(kink),
        )  # fmt: skip

    def origin(self, nothing: np.ndarray) -> float:
        rounded = self.value(nothing) - half_square(self.V[:, : self.free])
        return rounded / (1.0 - 0.5 * self.width)  # the hinge at 0, from the rounded one

    def value(self, U: np.ndarray) -> float:
        P, p = item_vectors(self.X, U, self.threads), self.preferences
        parts = run_shards(lambda ab: users_pass(LOSS, P, self.V, *ab, p, self.scores), self.shards, self.threads)
        return self.C * float(sum(loss for loss, _, _ in parts)) + half_square(self.V[:, : self.free])

    def curved(self, D: np.ndarray) -> np.ndarray:
        Q, p = item_vectors(self.X, D, self.threads), self.preferences
        sums = [np.zeros((self.X.shape[0], self.V.shape[1])) for _ in self.shards]
        shards = list(zip(self.shards, sums))
        run_shards(
            lambda task: users_pass(CURVATURE, Q, self.V, *task[0], p, self.scores, task[1]), shards, self.threads
        )
        return back_to_features(self.X, add_up(sums), self.threads)


def first_gradient(p: UserPreferences) -> np.ndarray:
    """Return the gradient of the loss in the scores of all rows, at scores of 0."""
    users, z = len(p.users), np.zeros((len(p.item), 1))
    users_pass(LOSS, np.zeros_like(z), np.ones((users, 1)), 0, users, p.by_row(), np.zeros(len(z), np.float32), z)
    return z[:, 0]


def start_of_users(n_users: int, rank: int, fixed: int) -> np.ndarray:
    """Return the initial V: 0, and 1 in its last `fixed` columns."""
    V = np.zeros((n_users, rank))
    V[:, rank - fixed :] = 1.0
    return V


def first_powers(X: Matrix, p: UserPreferences) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the function v -> ‖G v‖² and GᵀG v, with G the gradient of the loss in W = U Vᵀ at 0.

    It is Z X, with Z (users x items) the gradient in the scores.
    """
    Z = sp.csr_matrix((first_gradient(p), p.item, p.start), shape=(len(p.users), X.shape[0]))

    def power(v: np.ndarray) -> tuple[float, np.ndarray]:
        moved = Z @ item_vectors(X, v)
        return float(np.vdot(moved, moved)), back_to_features(X, np.asarray(Z.T @ moved))

    return power


def first_gradient_norm(n_features: int, power: Callable[[np.ndarray], Any], steps: int = 20) -> float:
    """Return the spectral norm ‖∇loss‖₂ at 0: below C = 1/‖∇loss‖₂ the optimum is 0 (the norms are dual).

    It is estimated by power iterations (see `first_powers`), so never above the norm. It is 1 if the norm is 0.
    """
    v, square = np.random.default_rng(0).standard_normal((n_features, 1)), 0.0
    for _ in range(steps):
        v = v / max(np.linalg.norm(v), np.finfo(float).tiny)
        square, v = power(v)
    return float(np.sqrt(square)) if square > 0 else 1.0


def half_square(A: np.ndarray) -> float:
    """Return ½‖A‖²."""
    return 0.5 * float(np.vdot(A, A))


def gram(V: np.ndarray) -> np.ndarray:
    """Return VᵀV, computed by blocks of rows."""
    return sum((part.T @ part for part in blocks_of(V)), np.zeros((V.shape[1],) * 2))


def blocks_of(V: np.ndarray) -> list[np.ndarray]:
    """Split V into blocks of rows, so that products with it need little memory."""
    return [V[a : a + ROWS_OF_USERS] for a in range(0, len(V), ROWS_OF_USERS)]


def count_right(
    P: np.ndarray, V: np.ndarray, preferences: UserPreferences, threads: int | None = None
) -> tuple[float, int]:
    """Return the number of pairs that <p_item, v_u> orders correctly (equal scores count half), and of all pairs."""
    shards = cut_shards(preferences.start, ROWS_PER_SHARD)
    parts = run_shards(lambda ab: users_pass(RIGHT, P, V, *ab, preferences), shards, threads)
    return float(sum(right for right, _, _ in parts)), preferences.n_pairs


def in_use(X: Matrix, preferences: UserPreferences) -> tuple[Matrix, UserPreferences, np.ndarray | None]:
    """Leave out items that nobody rated and, if X is CSR, features that no other item has, if there are many of them.

    Their rows of the basis would be 0. Returns (X, preferences with items renumbered, columns kept or None for all).
    """
    X, number = items_in_use(X, preferences.item)
    columns = columns_in_use(X)
    preferences = preferences if number is None else preferences.with_items(number)
    return (X if columns is None else X[:, columns]), preferences, columns


def items_in_use(X: Matrix, item: np.ndarray) -> tuple[Matrix, np.ndarray | None]:
    """Return (the rows of X that occur in `item`, the new number of each), or X and None if most rows occur."""
    used = np.zeros(X.shape[0], bool)
    used[item] = True
    if np.count_nonzero(used) >= FEW * len(used):
        return X, None
    return X[used], np.cumsum(used, dtype=np.int32) - np.int32(1)


def columns_in_use(X: Matrix) -> np.ndarray | None:
    """Return the features of a CSR X that any item has; None if these are none or many."""
    if isinstance(X, np.ndarray):
        return None
    columns = np.unique(X.indices)
    return None if len(columns) == 0 or len(columns) >= FEW * X.shape[1] else columns
