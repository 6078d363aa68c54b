"""Alternating minimisation of f(U, V) = g(U Vᵀ) + ½(‖U‖² + ‖V‖²), with balancing and safeguarded extrapolation.

An epoch improves every row of V with U fixed, then U with V fixed (truncated Newton), as in Cheng, Davidson and Hsieh
(2018). Two additions cost almost nothing. With them the method converges in tens of epochs; without them it is slow:

- balancing: U and V may be replaced by U M and V M⁻ᵀ, which does not change U Vᵀ and g. The best M follows from the
  singular values S of U Vᵀ: then UᵀU = VᵀV = S, and f decreases by ½(‖U‖² + ‖V‖²) - trace(S) in one step.
- extrapolation: before the users' step, U moves further by a multiple of its last change. The result is kept only if f
  decreased. Otherwise the step is undone, so f never increases.

The hinge has no curvature, so its kink is rounded over a width. The width shrinks once rounding causes most of the
remaining error (see hingerank.solvers.hinge).
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.personal.passes import LOSS, users_pass
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.problem import StepSums, blocks_of, half_square, item_vectors
from hingerank.solvers.run import STATIONARY, Run, Solution

ENOUGH, PRODUCTS = 0.3, 5  # of the basis step: fraction of the gradient left, most products
HINGE_ENOUGH, HINGE_PRODUCTS = 0.1, 20  # the duality gap of the hinge needs more
ARMIJO, HALVINGS = 1e-4, 20
FLOOR = 1e-10  # directions below this fraction of the largest one are treated as lost
FIRST, GROW, SHRINK, LEAST = 0.5, 1.3, 0.5, 0.1  # multiples of the last change of U for extrapolation
WIDEST, NARROWEST = 0.5, 1e-7  # widths of the rounded kink of the hinge
SAFE = 1.0 + 1e-9  # factor that rounds the largest singular value up


class Users(Protocol):
    """The users' part of f, with their weights V, in this process or elsewhere."""

    C: float
    free: int
    width: float

    def narrow(self, width: float) -> None:
        """Set the width over which the kink of the hinge is rounded."""
        ...

    def step(self, U: np.ndarray, turn: np.ndarray | None = None, again: bool = False) -> StepSums:
        """Replace the free columns of V by V turn, then take a step for every user with U fixed.

        again: undo the last step instead, and take one from another U.
        """
        ...

    def origin(self, nothing: np.ndarray) -> float:
        """Return f at U = 0 (given as zeros) and V = 0; it is called before any step."""
        ...

    def value(self, U: np.ndarray) -> float:
        """Return f - ½‖U‖²; `curved` is then at this U."""
        ...

    def curved(self, D: np.ndarray) -> np.ndarray:
        """Return (Hessian of the loss in U at the last point) D."""
        ...

    @property
    def V(self) -> np.ndarray: ...


def alternating(
    users: Users,
    U: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = 100,
    max_seconds: float = np.inf,
    watch: Callable[[np.ndarray], dict[str, Any]] | None = None,
    callback: Callable[[dict], Any] | None = None,
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
    tol, max_iter, max_seconds : when to stop; an iteration is an epoch
    watch : function of U that returns more figures for a trace entry
    callback : called with each trace entry; return True to stop

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", tol, max_iter, max_seconds, callback)
    run.origin = users.origin(np.zeros_like(U))
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
        gain = min(reached, max(run.origin - reached, tol * run.origin))
        left = (promise + kink) / gain if gain > 0 else 0.0
        norm = float(np.hypot(size, own))
        scale = norm if scale is None else scale
        gradient, figures = norm / scale if scale > 0 else 0.0, watch(U) if watch is not None else {}
        figures |= {"gradient": gradient, "products": products, "stretch": stretched}
        if run.stops(epoch=epoch, value=reached, stationarity=left, **figures):
            break
        following, used = _basis(users, U, g, D, value)
        products += used
        stands = following is U and stretched == 0.0 and before - value <= 1e-12 * abs(value)
        narrower = kink > 0.5 * tol * gain and (stands or promise <= kink) and users.width > NARROWEST
        if stands and not narrower:
            run.status = "stalled"
            break
        U, last, turn = balance(following, sums.spread, came)
        if narrower:
            users.narrow(users.width * float(np.clip(np.sqrt(0.3 * tol * gain / kink), 0.1, 0.5)))
            value, last = np.inf, None  # the objective has changed
    V = users.V
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.sqrt(np.einsum("uc,uc->c", V, V)), kind="stable")
    order = np.concatenate([order[order < users.free], np.arange(users.free, U.shape[1])])
    for part in blocks_of(V):  # in place, because V is the largest array
        part[:] = part[:, order]
    return run.solution(STATIONARY, U[:, order], reached, len(run.trace), V=V, width=users.width)


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


def _basis(users: Users, U: np.ndarray, g: np.ndarray, D: np.ndarray, value: float) -> tuple[np.ndarray, int]:
    """Take a truncated Newton step in U: (next U, or the same object if none is lower; number of Hessian products)."""
    limits = (HINGE_ENOUGH, HINGE_PRODUCTS) if users.width > 0 else (ENOUGH, PRODUCTS)
    step, used = solve_equations(lambda d: d + users.C * users.curved(d), np.ascontiguousarray(g), D, *limits)
    slope, length = float(np.vdot(g, step)), 1.0
    for _ in range(HALVINGS):
        following = U + length * step
        if users.value(following) + half_square(following) <= value + ARMIJO * length * slope:
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


def nuclear_norm(U: np.ndarray, V: np.ndarray) -> float:
    """Return ‖U Vᵀ‖_*.

    >>> round(nuclear_norm(np.eye(3)[:, :2], 2.0 * np.eye(4)[:, :2]), 9)
    4.0
    """
    return float(np.linalg.svd(np.linalg.qr(U)[1] @ np.linalg.qr(V)[1].T, compute_uv=False).sum())


def nuclear_gap(
    X: Matrix, p: UserPreferences, U: np.ndarray, V: np.ndarray, shared: np.ndarray | None, C: float, width: float = 0.0
) -> float:
    """Return (primal - dual) / primal of  min over W of  C · loss(W) + ‖W‖_* (+ ½‖w‖²)  at W = U Vᵀ.

    Every loss here is quadratic where it is not 0. Let l be its value, z its gradient in the scores s of the rows, and
    a = l - ½ s·z. Its conjugate at θ z is  θ² l - 2 θ a.  So the dual at θ z is

        2 θ C a - θ² (C l + ½ C² ‖g_w‖²)    for    θ C ‖G‖₂ ≤ 1,

    with G the gradient of the loss in W (‖G‖₂, its largest singular value, is the dual of the nuclear norm) and g_w
    the gradient in the weights w that all users share. The best θ has a closed form. The multipliers -ℓ'(t) of the
    hinge may not exceed 1. Its dual is  2 θ C a - ½ θ² C² ‖g_w‖²  with 2 a the sum of the multipliers, and θ ≤ 1.

    V has a row for each user of `p`, shared is w. width: 0 for the squared hinge; for the hinge, the width of its
    rounded kink, which gives the dual point.
    """
    everyone = item_vectors(X, U if shared is None else np.column_stack([U, shared]))
    mixed = V if shared is None else np.column_stack([V, np.ones(len(V))])
    users, z, kept = len(p.users), np.zeros((len(p.item), 1)), np.zeros(len(p.item), np.float32)
    s = np.einsum("rc,rc->r", everyone[p.item], mixed[np.repeat(np.arange(users), np.diff(p.start))])
    loss, hinge, kink = users_pass(LOSS, s[:, None], np.ones((users, 1)), 0, users, p.by_row(width), kept, z)
    Z = sp.csr_matrix((z[:, 0], p.item, p.start), shape=(users, X.shape[0]))
    G = Z @ X
    G = G.toarray() if sp.issparse(G) else np.asarray(G)
    norm = SAFE * float(np.linalg.norm(G, 2))
    most = 1.0 / (C * norm) if norm > 0 else np.inf
    own, bend = 0.0, 0.0
    if shared is not None:
        own, bend = 0.5 * float(shared @ shared), 0.5 * C * C * float(np.square(G.sum(axis=0)).sum())
    if width > 0:
        loss, most, a = hinge, min(1.0, most), 0.5 * (hinge - kink - float(s @ z[:, 0]))
    else:
        bend, a = bend + C * loss, loss - 0.5 * float(s @ z[:, 0])
    theta = min(C * a / bend if bend > 0 else np.inf, most) if a > 0 else 0.0
    primal, dual = C * loss + nuclear_norm(U, V) + own, 2.0 * theta * C * a - theta * theta * bend
    return (primal - max(dual, 0.0)) / primal if primal > 0 else 0.0
