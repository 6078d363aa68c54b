"""Factorised models of personal rankers: alternating minimisation of

    f(U, V) = C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²).

X holds the d features of the items, U (d x k) the basis, V (users x k) the users' coordinates. Items enter only through
P = X U (items x k), so a pass costs O(rows k) plus one product with X, however many pairs the rows imply. The last
columns of V may be fixed at 1, for a function that all users share; they then have no penalty.

An epoch improves every row of V with U fixed, then U with V fixed (truncated Newton), as in Cheng, Davidson and Hsieh
(2018). Two additions cost almost nothing. With them the method converges in tens of epochs; without them it is slow:

- balancing: U and V may be replaced by U M and V M⁻ᵀ, which does not change U Vᵀ and the loss. The best M follows from
  the singular values S of U Vᵀ: then UᵀU = VᵀV = S, and f decreases by ½(‖U‖² + ‖V‖²) - trace(S) in one step.
- extrapolation: before the users' step, U moves further by a multiple of its last change. The result is kept only if f
  decreased. Otherwise the step is undone, so f never increases.

The hinge has no curvature, so its kink is rounded over a width. The width shrinks once rounding causes most of the
remaining error (see hingerank.solvers.hinge).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, Protocol, Unpack

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Facts, Matrix
from hingerank.data.files import DataError
from hingerank.kernels.threads import add_up, cut_shards, run_shards
from hingerank.personal.passes import CURVATURE, LOSS, RIGHT, users_pass, users_step
from hingerank.personal.preferences import UserPreferences
from hingerank.solvers.run import LITTLE, STATIONARY, Limits, Run, Solution

ROWS_PER_SHARD, MOST_SHARDS = 16384, 16
ROOM_FOR_SUMS = 64 << 20  # bytes that the sums of shards may always take
ROWS_PER_BLOCK, ROWS_OF_USERS = 4096, 8192
FEW = 0.5  # if less than this fraction of items or features is used, the fit leaves out the others
STEPS, LEFT_OF_USER = 1, 0.3  # of the users' step: most Newton steps, fraction of a user's gradient left;
ENOUGH, PRODUCTS = 0.3, 5  # of the basis step: fraction of the gradient left, most products
HINGE_STEPS, HINGE_ENOUGH, HINGE_PRODUCTS = 5, 0.1, 20  # the duality gap of the hinge needs more
ARMIJO, HALVINGS = 1e-4, 20
FLOOR = 1e-10  # directions below this fraction of the largest one are treated as lost
FIRST, GROW, SHRINK, LEAST = 0.5, 1.3, 0.5, 0.1  # multiples of the last change of U for extrapolation
WIDEST, NARROWEST = 0.5, 1e-7  # widths of the rounded kink of the hinge


def item_vectors(X: Matrix, U: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return X U in float64, a row per item; a dense X by fixed blocks of rows."""
    if not isinstance(X, np.ndarray):
        return np.ascontiguousarray(X @ U)
    out = np.empty((X.shape[0], U.shape[1]))
    run_shards(lambda rows: np.matmul(X[rows].astype(np.float64, copy=False), U, out[rows]), blocks_of(X), threads)
    return out


def back_to_features(X: Matrix, G: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return Xᵀ G."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X.T @ G)
    parts = run_shards(lambda rows: X[rows].astype(np.float64, copy=False).T @ G[rows], blocks_of(X), threads)
    return add_up(parts)


def squares_to_features(X: Matrix, weight: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Return (X∘X)ᵀ weight."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X.multiply(X).T @ weight)
    return add_up(run_shards(lambda rows: np.square(X[rows], dtype=np.float64).T @ weight[rows], blocks_of(X), threads))


def blocks_of(A: np.ndarray, size: int = ROWS_PER_BLOCK) -> list[slice]:
    """Split the rows of A into blocks, so that products with it need little memory."""
    return [slice(a, a + size) for a in range(0, A.shape[0], size)]


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


class Users(Protocol):
    """The users' part of f, with their weights V, in this process or elsewhere: `begin` comes before the steps."""

    C: float
    free: int
    width: float

    def power(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Return ‖G v‖² and GᵀG v, with G the gradient of the loss in W = U Vᵀ at 0."""
        ...

    def begin(self, C: float, rank: int, fixed: int = 0, width: float = 0.0) -> None:
        """Set C, the first V, how many of its last columns are fixed, and the width of the rounded kink of the hinge.

        V is 0, and 1 in its fixed columns.
        """
        ...

    def narrow(self, width: float) -> None:
        """Set the width over which the kink of the hinge is rounded."""
        ...

    def step(self, U: np.ndarray, turn: np.ndarray | None = None, again: bool = False) -> StepSums:
        """Replace the free columns of V by V turn, then take a step for every user with U fixed.

        again: undo the last step instead, and take one from another U.
        """
        ...

    def value(self, U: np.ndarray) -> float:
        """Return C times the (rounded) loss; `curved` is then at this U."""
        ...

    def curved(self, D: np.ndarray) -> np.ndarray:
        """Return (Hessian of the loss in U at the last point) D."""
        ...

    def right(self, U: np.ndarray) -> tuple[float, int]:
        """Return the number of pairs that <Uᵀx_i, v_u> orders correctly (equal scores count half), and of all pairs."""
        ...

    @property
    def V(self) -> np.ndarray: ...


class LocalUsers:
    """f(U, V) = C sum over users of loss_u(X_u U v_u) + ½(‖U‖² + ‖V‖²), with V, of users in this process.

    Passes run on `threads` threads; the result does not depend on their number. The last `fixed` columns of V stay as
    they are, the others are changed in place. V: where a fit begins, if not at 0.
    """

    def __init__(
        self, X: Matrix, preferences: UserPreferences, V: np.ndarray | None = None, threads: int | None = None
    ):
        self.X, self.preferences, self.threads = X, preferences, threads
        self.V: Any = V  # made by `begin` if it is None

    @cached_property
    def first(self) -> sp.csr_matrix:
        """The gradient of the loss in the scores (users x items), at scores of 0."""
        return slopes(self.preferences, np.zeros(len(self.preferences.item)), self.X.shape[0])[0]

    def power(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        moved = self.first @ item_vectors(self.X, v, self.threads)
        return float(np.vdot(moved, moved)), back_to_features(self.X, np.asarray(self.first.T @ moved), self.threads)

    def begin(self, C: float, rank: int, fixed: int = 0, width: float = 0.0) -> None:
        self.__dict__.pop("first", None)  # it holds a number for each row, and a fit needs it no more
        if self.V is None:
            self.V = np.zeros((len(self.preferences.users), rank))
            self.V[:, rank - fixed :] = 1.0
        self.C, self.before, self.free = float(C), np.empty_like(self.V), rank - fixed
        n_rows, n_items = len(self.preferences.item), self.X.shape[0]
        self.scores = np.zeros(n_rows, np.float32)  # float32 is precise enough for a Hessian
        room = max(ROOM_FOR_SUMS, 4 * n_rows) // (8 * rank * n_items)
        most = int(np.clip(min(room, n_rows // (2 * n_items)), 1, MOST_SHARDS))
        self.shards = cut_shards(self.preferences.start, ROWS_PER_SHARD, most)
        self.narrow(width)

    def narrow(self, width: float) -> None:
        self.width = float(width)
        self.preferences = replace(self.preferences, known=self.preferences.known._replace(width=self.width))

    def step(self, U: np.ndarray, turn: np.ndarray | None = None, again: bool = False) -> StepSums:
        own, k = self.V[:, : self.free], self.V.shape[1]
        if turn is not None:
            for rows in blocks_of(own, ROWS_OF_USERS):
                own[rows] = own[rows] @ turn
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
        del sums, shards  # large, and not needed beside what follows
        return StepSums(
            float(loss), half_square(own), float(squares), back_to_features(self.X, G, self.threads),
            squares_to_features(self.X, weight, self.threads), float(weight.sum()), mixed, gram(own),
            float(hinge if self.width > 0 else loss), float(kink),
        )  # fmt: skip

    def right(self, U: np.ndarray) -> tuple[float, int]:
        judged = self.preferences.judged or self.preferences
        return count_right(item_vectors(self.X, U, self.threads), self.V, judged, self.threads)

    def value(self, U: np.ndarray) -> float:
        P, p = item_vectors(self.X, U, self.threads), self.preferences
        parts = run_shards(lambda ab: users_pass(LOSS, P, self.V, *ab, p, self.scores), self.shards, self.threads)
        return self.C * float(sum(loss for loss, _, _ in parts))

    def curved(self, D: np.ndarray) -> np.ndarray:
        Q, p = item_vectors(self.X, D, self.threads), self.preferences
        sums = [np.zeros((self.X.shape[0], self.V.shape[1])) for _ in self.shards]
        shards = list(zip(self.shards, sums))
        run_shards(
            lambda task: users_pass(CURVATURE, Q, self.V, *task[0], p, self.scores, task[1]), shards, self.threads
        )
        G = add_up(sums)
        del sums, shards
        return back_to_features(self.X, G, self.threads)


def slopes(p: UserPreferences, s: np.ndarray, n_items: int) -> tuple[sp.csr_matrix, tuple[float, float, float]]:
    """Return the gradient of the loss in the scores (users x items) at scores s of the rows, and what LOSS returns."""
    z, kept = np.zeros((len(s), 1)), np.zeros(len(s), np.float32)
    S, ones, rows = p.at_scores(s)
    found = users_pass(LOSS, S, ones, 0, len(p.users), rows, kept, z)
    return sp.csr_matrix((z[:, 0], p.item, p.start), shape=(len(p.users), n_items)), found


def first_gradient_norm(n_features: int, power: Callable[[np.ndarray], Any], steps: int = 20) -> float:
    """Return the spectral norm ‖∇loss‖₂ at 0: below C = 1/‖∇loss‖₂ the optimum is 0 (the norms are dual).

    It is estimated by power iterations (see `Users.power`), so never above the norm. It is 1 if the norm is 0.
    """
    v, square = np.random.default_rng(0).standard_normal((n_features, 1)), 0.0
    for _ in range(steps):
        with np.errstate(over="ignore"):
            size = np.linalg.norm(v)
        if not np.isfinite(size):
            why = "sums of squares overflow at these features and weights: divide them, or set scale='standard'"
            raise DataError(why)
        v = v / max(size, np.finfo(float).tiny)
        square, v = power(v)
    return float(np.sqrt(square)) if square > 0 else 1.0


def half_square(A: np.ndarray) -> float:
    """Return ½‖A‖²."""
    return 0.5 * float(np.vdot(A, A))


def gram(V: np.ndarray) -> np.ndarray:
    """Return VᵀV, computed by blocks of rows."""
    return sum((V[rows].T @ V[rows] for rows in blocks_of(V, ROWS_OF_USERS)), np.zeros((V.shape[1],) * 2))


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
    X, columns = columns_in_use(X)
    return X, preferences if number is None else preferences.with_items(number), columns


def items_in_use(X: Matrix, item: np.ndarray) -> tuple[Matrix, np.ndarray | None]:
    """Return (the rows of X that occur in `item`, the new number of each), or X and None if most rows occur."""
    used = np.zeros(X.shape[0], bool)
    used[item] = True
    if np.count_nonzero(used) >= FEW * len(used):
        return X, None
    return X[used], np.cumsum(used, dtype=np.int32) - np.int32(1)


def columns_in_use(X: Matrix) -> tuple[Matrix, np.ndarray | None]:
    """Return (the columns of a CSR X that any item has, their numbers), or X and None if these are none or many."""
    if isinstance(X, np.ndarray):
        return X, None
    columns = np.unique(X.indices)
    return (X, None) if len(columns) == 0 or len(columns) >= FEW * X.shape[1] else (X[:, columns], columns)


def alternating(
    users: Users, U: np.ndarray, watch: Callable[[np.ndarray], Facts] | None = None, **limits: Unpack[Limits]
) -> Solution:
    """Minimise f(U, V) until an epoch can lower it by no more than tol times its value.

    If the decrease since U = 0, V = 0 is smaller than the value, it is used instead, but at least tol · f(0, 0), since
    up to some C the optimum is 0. What an epoch can lower is estimated by the larger of its actual decrease and
    ½ gᵀ D⁻¹ g, with g the gradient in U and D an approximate diagonal of the Hessian. Both are in units of f, however
    the features are scaled. f is not convex, so they measure how stationary (U, V) is, not how good it is. For the
    hinge the estimate is a duality gap, the larger one of two convex problems: the best U for this V, and the best V
    for this U. Each gap is ½‖g‖², with g the gradient of the rounded hinge, plus the error of rounding.

    Parameters
    ----------
    users : the users' part of f, with the weights V, which it changes
    U : the start
    watch : function of U that returns more figures for a trace entry
    limits : when to stop; an iteration is an epoch

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", **limits)
    tol, run.origin = run.tol, users.value(np.zeros_like(U)) / (1.0 - 0.5 * users.width)  # the hinge, if rounded
    value, scale, stretch, products = np.inf, None, FIRST, 0
    last: np.ndarray | None = None  # U of the epoch before, in the present basis
    turn: np.ndarray | None = None  # from the basis of V to the present one
    for epoch in count():
        came, before = U, value
        U, sums, value, stretch, stretched = _users(users, U, turn, value, last, stretch)
        reached, kink, g = sums.value(U, users.C, sums.hinge), users.C * sums.kink, U + users.C * sums.gradient
        # The diagonal of the Hessian: h_r x_rj² v_uc², with the users' part averaged over all rows
        D = 1.0 + np.outer(sums.curved, users.C * sums.mixed / max(sums.weight, np.finfo(float).tiny))
        size, own = float(np.linalg.norm(g)), float(np.sqrt(sums.squares))
        if users.width > 0:  # a bound for the hinge, in U given V and in V given U
            promise = 0.5 * max(size, own) ** 2
        else:
            promise = 0.5 * float((g**2 / D).sum())
        promise = max(promise, before - value)
        norm = float(np.hypot(size, own))
        left, gain = left_to_gain(promise + kink, reached, norm, run)
        scale = norm if scale is None else scale
        gradient, figures = norm / scale if scale > 0 else 0.0, watch(U) if watch is not None else {}
        figures |= {"gradient": gradient, "products": products, "stretch": stretched}
        if run.stops(epoch=epoch, value=reached, stationarity=left, **figures):
            break
        following, used = _basis(users, U, g, D, value, sums.norms)
        products += used
        stands = following is U and stretched == 0.0 and before - value <= 1e-12 * abs(value)
        narrower = kink > 0.5 * tol * gain and (stands or promise <= kink) and users.width > NARROWEST
        if stands and not narrower:
            run.status = "stalled"
            break
        U, last, turn = balance(following, sums.spread, came)
        del sums, g, D, following  # before the next ones are made
        if narrower:
            users.narrow(users.width * float(np.clip(np.sqrt(0.3 * tol * gain / kink), 0.1, 0.5)))
            value, last = np.inf, None  # the objective has changed
    V = users.V
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.sqrt(np.einsum("uc,uc->c", V, V)), kind="stable")
    order = np.concatenate([order[order < users.free], np.arange(users.free, U.shape[1])])
    for rows in blocks_of(V, ROWS_OF_USERS):  # in place, because V is the largest array
        V[rows] = V[rows][:, order]
    return run.solution(STATIONARY, U[:, order], reached, len(run.trace) - 1, V=V, width=users.width)


def left_to_gain(promise: float, value: float, norm: float, run: Run) -> tuple[float, float]:
    """Return (promise / gain, gain), with gain the decrease since weights of 0, or the value if that is smaller.

    The gain is at least tol · f(0, 0). The quotient is negative if rounding makes the value negative, and NaN if the
    value or the norm of the gradient overflows. The run is weak if it ends now with next to nothing gained.
    """
    gain = min(value, max(run.origin - value, run.tol * run.origin))
    if not np.isfinite(gain + norm):
        return np.nan, gain
    left = promise / gain if gain != 0 else 0.0
    run.weak = left <= run.tol and run.origin > 0 and run.origin - value < LITTLE * run.origin
    return left, gain


def _users(
    users: Users, U: np.ndarray, turn: np.ndarray | None, value: float, last: np.ndarray | None, stretch: float
) -> tuple[np.ndarray, StepSums, float, float, float]:
    """Take the users' step, from an extrapolated U if that helps: (U, sums, value, next multiple, multiple or 0)."""
    moved = U if last is None else U + stretch * (U - last)
    sums = users.step(moved, turn)
    found = sums.value(moved, users.C, sums.loss)
    if last is None:
        return moved, sums, found, stretch, 0.0
    if found <= value:
        return moved, sums, found, stretch * GROW, stretch
    sums = users.step(U, again=True)
    return U, sums, sums.value(U, users.C, sums.loss), max(SHRINK * stretch, LEAST), 0.0


def _basis(
    users: Users, U: np.ndarray, g: np.ndarray, D: np.ndarray, value: float, norms: float
) -> tuple[np.ndarray, int]:
    """Take a truncated Newton step in U: (next U, or the same object if none is lower; number of Hessian products)."""
    limits = (HINGE_ENOUGH, HINGE_PRODUCTS) if users.width > 0 else (ENOUGH, PRODUCTS)
    step, used = solve_equations(lambda d: d + users.C * users.curved(d), np.ascontiguousarray(g), D, *limits)
    slope, length = float(np.vdot(g, step)), 1.0
    for _ in range(HALVINGS):
        following = U + length * step
        if users.value(following) + (half_square(following) + norms) <= value + ARMIJO * length * slope:
            return following, used
        length *= 0.5
    return U, used


def solve_equations(
    curvature: Callable[[np.ndarray], np.ndarray], g: np.ndarray, diagonal: np.ndarray, enough: float, most: int
) -> tuple[np.ndarray, int]:
    """Solve H step = -g for a matrix g approximately, by conjugate gradients with a diagonal preconditioner."""
    step, r = np.zeros_like(g), -g
    d = r / diagonal
    rr = float(np.vdot(r, d))
    target = enough * enough * rr
    for used in range(most):
        if rr <= target:
            return step, used
        product = curvature(d)
        length = rr / float(np.vdot(d, product))
        step += length * d
        r -= length * product
        rr, before = float(np.vdot(r, r / diagonal)), rr
        d *= rr / before
        d += r / diagonal
    return step, most


def balance(U: np.ndarray, spread: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return (U M, other M, M⁻ᵀ) such that (U M)ᵀ(U M) = (V M⁻ᵀ)ᵀ(V M⁻ᵀ) is diagonal and decreasing.

    Only the small matrices UᵀU = L Lᵀ and VᵀV (`spread`) are needed: if Lᵀ VᵀV L = Q S² Qᵀ then M = L⁻ᵀ Q √S. A lower
    bound on S keeps directions that U or V have almost lost, so M⁻¹ undoes M. None replaces M⁻ᵀ if nothing changes.
    other: another matrix in the same basis. If VᵀV has fewer columns than U, the last ones of U and `other` stay.
    """
    free = len(spread)
    A = U[:, :free].T @ U[:, :free]
    size = float(np.trace(A))
    if size == 0.0 or not spread.any():
        return U, other, None
    L = np.linalg.cholesky(A + FLOOR * size * np.eye(len(A)))
    squares, Q = np.linalg.eigh(L.T @ spread @ L)
    S = np.sqrt(np.maximum(squares[::-1], (FLOOR * float(np.sqrt(max(squares[-1], 0.0)))) ** 2))
    Q = Q[:, ::-1]
    if size + float(np.trace(spread)) - 2 * S.sum() <= 1e-9 * size:
        return U, other, None
    M = np.linalg.solve(L.T, Q * np.sqrt(S))
    moved, same = (np.hstack([B[:, :free] @ M, B[:, free:]]) for B in (U, other))
    return moved, same, (L @ Q) / np.sqrt(S)
