"""The factorised objective of personal rankers, and products with the features of items.

A factorised model minimises  C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²).  X holds the d features
of the items, U (d x k) the basis, V (users x k) the users' coordinates. Items enter only through P = X U (items x k),
so a pass costs O(rows k) plus one product with X, however many pairs the rows imply. The last columns of V may be fixed
at 1, for a function that all users share; they then have no penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.losses import packed
from hingerank.personal.passes import basis_curvature, basis_loss, users_right, users_step
from hingerank.personal.preferences import UserPreferences, own_rows
from hingerank.problem.problem import add_up

ROWS_PER_SHARD, MOST_SHARDS = 16384, 16
ROOM_FOR_SUMS = 64 << 20  # bytes that the sums of shards may always take
ROWS_PER_BLOCK, ROWS_OF_USERS = 4096, 8192
FEW = 0.5  # if less than this fraction of items or features is used, the fit leaves out the others


class ItemFeatures:
    """X in memory, dense or CSR, float32 or float64. Products are in float64, dense ones by fixed blocks of rows."""

    def __init__(self, X: Matrix, threads: int | None = None):
        self.X, self.shape, self.threads = X, X.shape, threads
        self._blocks = [slice(a, a + ROWS_PER_BLOCK) for a in range(0, X.shape[0], ROWS_PER_BLOCK)]

    def times(self, U: np.ndarray) -> np.ndarray:
        """Return X U."""
        if not isinstance(self.X, np.ndarray):
            return np.ascontiguousarray(self.X @ U)
        out = np.empty((self.shape[0], U.shape[1]))

        def block(rows: slice) -> None:
            out[rows] = self.X[rows].astype(np.float64, copy=False) @ U

        run_shards(block, self._blocks, self.threads)
        return out

    def back(self, G: np.ndarray) -> np.ndarray:
        """Return X^T G."""
        if not isinstance(self.X, np.ndarray):
            return np.asarray(self.X.T @ G)

        def block(rows: slice) -> np.ndarray:
            return self.X[rows].astype(np.float64, copy=False).T @ G[rows]

        return add_up(run_shards(block, self._blocks, self.threads))

    def back_squares(self, weight: np.ndarray) -> np.ndarray:
        """Return (X∘X)^T weight."""
        if not isinstance(self.X, np.ndarray):
            return np.asarray(self.X.multiply(self.X).T @ weight)

        def block(rows: slice) -> np.ndarray:
            return np.square(self.X[rows], dtype=np.float64).T @ weight[rows]

        return add_up(run_shards(block, self._blocks, self.threads))


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


@dataclass(frozen=True)
class UsersImproved:
    """The objective after a step of the users, its gradient in U, and the norm of its gradient in V.

    diagonal: approximate diagonal of the Hessian in U. Entry (j, c) of its loss part is a sum over rows of
    h_r x_rj² v_uc² (h the Hessian in scores), with the users' part averaged over all rows, so it needs one
    number per item. spread: VᵀV of the free columns. reached: the objective itself, if `value` is that of the
    rounded hinge. kink: what rounding adds to the duality gaps of U given V and of V given U, which are otherwise
    ½‖gradient‖² of the rounded objective.
    """

    value: float
    gradient: np.ndarray
    norm: float
    diagonal: np.ndarray
    spread: np.ndarray
    reached: float
    kink: float


class StepSums(NamedTuple):
    """The sums of a step of some users for `UsersImproved`; sums over parts of the users can be added."""

    loss: float
    norms: float  # ½‖V‖²
    squares: float  # of the gradient in V
    gradient: np.ndarray  # of the loss in U
    curved: np.ndarray  # (X∘X)ᵀ h, h the diagonal of the Hessian in scores
    weight: float  # sum of h
    mixed: np.ndarray  # sum over rows of h_r v_u²
    spread: np.ndarray  # VᵀV
    hinge: float  # the loss without rounding
    kink: float

    def improved(self, U: np.ndarray, C: float) -> UsersImproved:
        """Return the result from the sums over all users."""
        scale, norms = C * self.mixed / max(self.weight, np.finfo(float).tiny), half_square(U) + self.norms
        return UsersImproved(
            C * self.loss + norms,
            U + C * self.gradient,
            float(np.sqrt(self.squares)),
            1.0 + np.outer(self.curved, scale),
            self.spread,
            C * self.hinge + norms,
            C * self.kink,
        )


class FactorObjective:
    """f(U, V) = C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²) for one data set.

    Passes run on `threads` threads; the result does not depend on their number. The last `fixed` of the `rank` columns
    of V stay as they are. width: of the rounded kink of the hinge; 0 for the squared hinge.
    """

    def __init__(
        self, X: Matrix, preferences: UserPreferences, C: float, rank: int, threads: int | None = None, fixed: int = 0,
        width: float = 0.0,
    ):  # fmt: skip
        self.features, self.preferences, self.C, self.rank = ItemFeatures(X, threads), preferences, float(C), rank
        self.threads, self.free, self.packed = threads, rank - fixed, packed(preferences.known, width)
        self.scores = np.zeros(preferences.n_rows, np.float32)  # float32 is precise enough for a Hessian
        room = max(ROOM_FOR_SUMS, 4 * preferences.n_rows) // (8 * rank * self.features.shape[0])
        most = int(np.clip(min(room, preferences.n_rows // (2 * self.features.shape[0])), 1, MOST_SHARDS))
        self.shards = cut_shards(preferences.start, ROWS_PER_SHARD, most)

    def narrow(self, width: float) -> None:
        """Set the width over which the kink of the hinge is rounded."""
        self.packed = packed(self.preferences.known, width)

    def step(self, U: np.ndarray, V: np.ndarray, most: int = 1) -> StepSums:
        """Take Newton steps for every v_u in place, with U fixed, until ‖g_u‖ ≤ 0.3 ‖g_u before‖, at most `most`."""
        p, P, centre = self.preferences, self.features.times(U), np.zeros(self.free)
        weights = [np.zeros(self.features.shape[0]) for _ in self.shards]
        mixed = [np.zeros(self.rank) for _ in self.shards]

        def step(task: tuple[Any, ...]) -> tuple[float, ...]:
            (a, b), *sums = task
            return users_step(
                P, V, a, b, p.start, p.item, self.packed, self.C, centre, 0.3, most, p.sizes, self.scores, *sums
            )

        parts, G = self._sums(step, weights, mixed)
        (loss, squares, hinge, kink), weight, own = np.sum(parts, axis=0), add_up(weights), V[:, : self.free]
        return StepSums(
            float(loss), half_square(own), float(squares), self.features.back(G), self.features.back_squares(weight),
            float(weight.sum()), add_up(mixed), gram(own), float(hinge if self.packed.width > 0 else loss), float(kink),
        )  # fmt: skip

    def value(self, U: np.ndarray, V: np.ndarray) -> float:
        """Return f(U, V) - ½‖U‖², a sum over users; `curved` is then at this point."""
        p, P, nothing = self.preferences, self.features.times(U), np.empty((0, self.rank))
        parts = run_shards(
            lambda ab: basis_loss(P, V, *ab, p.start, p.item, self.packed, p.sizes, self.scores, nothing),
            self.shards, self.threads,
        )  # fmt: skip
        return self.C * float(sum(loss for loss, _, _ in parts)) + half_square(V[:, : self.free])

    def curved(self, D: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return (Hessian of the loss in U at the last point) D."""
        p, Q = self.preferences, self.features.times(D)

        def product(task: tuple[Any, ...]) -> None:
            (a, b), G = task
            basis_curvature(Q, V, a, b, p.start, p.item, self.packed, p.sizes, self.scores, G)

        return self.features.back(self._sums(product)[1])

    def _sums(self, kernel: Callable[[tuple[Any, ...]], Any], *more: list[np.ndarray]) -> tuple[list[Any], np.ndarray]:
        """Return the kernel's results for all shards, and the sum of what they added to their own G, in shard order."""
        sums = [np.zeros((self.features.shape[0], self.rank)) for _ in self.shards]
        return run_shards(kernel, list(zip(self.shards, sums, *more)), self.threads), add_up(sums)


def first_gradient(p: UserPreferences) -> np.ndarray:
    """Return the gradient of the loss in the scores of all rows, at scores of 0."""
    own, grown = np.arange(p.n_rows, dtype=np.int32), np.zeros((p.n_rows, 1))  # each row is a separate item
    known = packed(own_rows(p.known))
    flat, ones = np.zeros((p.n_rows, 1)), np.ones((p.n_users, 1))
    basis_loss(flat, ones, 0, p.n_users, p.start, own, known, p.sizes, np.zeros(p.n_rows, np.float32), grown)
    return grown[:, 0]


def start_of_users(n_users: int, rank: int, fixed: int) -> np.ndarray:
    """Return the initial V: 0, and 1 in its last `fixed` columns."""
    V = np.zeros((n_users, rank))
    V[:, rank - fixed :] = 1.0
    return V


class FirstGradient:
    """∇loss in W = U Vᵀ at 0. It is Z X, with Z (users x items) the gradient in the scores."""

    def __init__(self, X: Matrix, p: UserPreferences):
        place = (first_gradient(p), p.item, p.start.astype(np.int64))
        self.Z, self.features = sp.csr_matrix(place, shape=(p.n_users, X.shape[0])), ItemFeatures(X)

    def power(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Return ‖Z X v‖² and (Z X)ᵀ Z X v."""
        moved = self.Z @ self.features.times(v)
        return float(np.vdot(moved, moved)), self.features.back(np.asarray(self.Z.T @ moved))


def first_gradient_norm(n_features: int, power: Callable[[np.ndarray], Any], steps: int = 20) -> float:
    """Return the spectral norm ‖∇loss‖₂ at 0: below C = 1/‖∇loss‖₂ the optimum is 0 (the norms are dual).

    It is estimated by power iterations (see `FirstGradient`), so never above the norm. It is 1 if the norm is 0.
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
    p, shards = preferences, cut_shards(preferences.start, ROWS_PER_SHARD)
    known = packed(p.known)
    parts = run_shards(lambda ab: users_right(P, V, *ab, p.start, p.item, known, p.sizes), shards, threads)
    return float(sum(parts)), p.n_pairs


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
