"""Alternating minimisation of f(U, V) = g(U Vᵀ) + ½(‖U‖² + ‖V‖²), with balancing and safeguarded extrapolation.

An epoch improves every row of V with U fixed, then U with V fixed (truncated Newton), as Cheng, Davidson and Hsieh
(2018) do. Two additions cost next to nothing and make it converge in tens of epochs where plain alternation creeps:

- balancing: U and V may be exchanged for U M and V M⁻ᵀ, which leaves U Vᵀ and hence g alone. The best exchange comes
  from the singular values S of U Vᵀ: then UᵀU = VᵀV = S and f has lost ½(‖U‖² + ‖V‖²) - trace(S) in one stroke.
- extrapolation: before the users' step U is moved on by a multiple of its last change. The point is kept only if f went
  down; else the step is taken back, so f never rises.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from hingerank.personal.problem import FactorObjective, UsersImproved
from hingerank.solvers.run import STATIONARY, Run, Solution, relative

ENOUGH, PRODUCTS = 0.3, 5  # the basis step's equations: fraction of the gradient left, Hessian products at most
ARMIJO, HALVINGS = 1e-4, 20
FLOOR = 1e-10  # fraction of the largest below which a direction counts as lost
ROWS_PER_BLOCK = 8192
FIRST, GROW, SHRINK, LEAST = 0.5, 1.3, 0.5, 0.1  # multiples of the last change of U to move on by


def alternating(
    objective: FactorObjective,
    U: np.ndarray,
    V: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = 100,
    max_seconds: float = np.inf,
    watch: Callable[[np.ndarray, np.ndarray], dict[str, Any]] | None = None,
    callback: Callable[[dict], Any] | None = None,
) -> Solution:
    """Minimise f(U, V) until an epoch neither lowers nor promises to lower it by more than tol times its value.

    The promise is ½ gᵀ D⁻¹ g with g the gradient in U and D about the Hessian's diagonal. Both are in units of f,
    however the features are scaled; f is not convex, so they say how stationary (U, V) is, not how good.

    Parameters
    ----------
    objective : f
    U, V : the start; the first ``objective.free`` columns of V are changed in place
    tol, max_iter, max_seconds : when to stop; an iteration is an epoch
    watch : figures for a trace entry, from U and V
    callback : called with each trace entry; a true answer stops

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", tol, max_iter, max_seconds, callback)
    value, scale, stretch, products = np.inf, None, FIRST, 0
    last: np.ndarray | None = None  # U at the end of the last epoch but one, in today's basis
    for epoch in count():
        came, before = U, value
        U, improved, stretch, stretched = _users(objective, U, V, value, last, stretch)
        value = improved.value
        promise = 0.5 * float((improved.gradient**2 / improved.diagonal).sum())
        left = relative(max(promise, before - value), value)
        norm = float(np.hypot(np.linalg.norm(improved.gradient), improved.norm))
        scale = norm if scale is None else scale
        gradient, figures = norm / scale if scale > 0 else 0.0, watch(U, V) if watch is not None else {}
        figures |= {"gradient": gradient, "products": products, "stretch": stretched}
        if run.stops(epoch=epoch, value=value, stationarity=left, **figures):
            break
        following, used = _basis(objective, U, V, improved)
        products += used
        if following is U and stretched == 0.0 and epoch and run.trace[-2]["value"] - value <= 1e-12 * abs(value):
            run.status = "stalled"
            break
        U, last = balance_free(following, V, came, objective.free)
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0), kind="stable")
    order = np.concatenate([order[order < objective.free], np.arange(objective.free, U.shape[1])])
    return run.solution(STATIONARY, U[:, order], value, len(run.trace), V=V[:, order])


def _users(
    objective: FactorObjective, U: np.ndarray, V: np.ndarray, value: float, last: np.ndarray | None, stretch: float
) -> tuple[np.ndarray, UsersImproved, float, float]:
    """The users' step, from U moved on if that pays: (U, what the step gave, the next stretch, the one used or 0)."""
    if last is not None:
        kept = V.copy()
        moved = U + stretch * (U - last)
        improved = objective.improve_users(moved, V)
        if improved.value <= value:
            return moved, improved, stretch * GROW, stretch
        V[:] = kept
        stretch = max(SHRINK * stretch, LEAST)
    return U, objective.improve_users(U, V), stretch, 0.0


def _basis(objective: FactorObjective, U: np.ndarray, V: np.ndarray, improved: UsersImproved) -> tuple[np.ndarray, int]:
    """A truncated Newton step in U: (the next U, the same object if no shortening goes down; Hessian products used)."""
    g = improved.gradient.ravel()
    step, used = _equations(objective.curvature(V), g, improved.diagonal.ravel())
    slope, length = float(g @ step), 1.0
    for _ in range(HALVINGS):
        following = U + length * step.reshape(U.shape)
        if objective.value(following, V) <= improved.value + ARMIJO * length * slope:
            return following, used
        length *= 0.5
    return U, used


def _equations(
    curvature: Callable[[np.ndarray], np.ndarray], g: np.ndarray, diagonal: np.ndarray
) -> tuple[np.ndarray, int]:
    """Conjugate gradients for H step = -g with a diagonal as preconditioner, cut short."""
    step, r = np.zeros_like(g), -g
    d = r / diagonal
    rr = float(r @ d)
    target = ENOUGH * ENOUGH * rr
    for used in range(PRODUCTS):
        if rr <= target:
            return step, used
        product = curvature(d)
        length = rr / float(d @ product)
        step += length * d
        r -= length * product
        rr, before = float(r @ (r / diagonal)), rr
        d *= rr / before
        d += r / diagonal
    return step, PRODUCTS


def balance_free(U: np.ndarray, V: np.ndarray, other: np.ndarray, free: int) -> tuple[np.ndarray, np.ndarray]:
    """`balance` for the first `free` columns; the others stay."""
    found = balance(U[:, :free], V[:, :free], other[:, :free])
    return np.hstack([found[0], U[:, free:]]), np.hstack([found[1], other[:, free:]])


def balance(U: np.ndarray, V: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U M and (in place) V M⁻ᵀ with UᵀU = VᵀV diagonal and falling; other M for another matrix in the same basis.

    From the small matrices UᵀU = L Lᵀ and VᵀV alone: if Lᵀ VᵀV L = Q S² Qᵀ then M = L⁻ᵀ Q √S. Directions that U or V
    have almost lost are kept as they are by a floor under S, so that M⁻¹ undoes M.
    """
    A, B = U.T @ U, sum((part.T @ part for part in _parts(V)), np.zeros((V.shape[1],) * 2))
    size = float(np.trace(A))
    if size == 0.0 or not B.any():
        return U, other
    L = np.linalg.cholesky(A + FLOOR * size * np.eye(len(A)))
    squares, Q = np.linalg.eigh(L.T @ B @ L)
    S = np.sqrt(np.maximum(squares[::-1], (FLOOR * float(np.sqrt(max(squares[-1], 0.0)))) ** 2))
    Q = Q[:, ::-1]
    if size + float(np.trace(B)) - 2 * S.sum() <= 1e-9 * size:
        return U, other
    M, back = np.linalg.solve(L.T, Q * np.sqrt(S)), (L @ Q) / np.sqrt(S)
    for part in _parts(V):
        part[:] = part @ back
    return U @ M, other @ M


def _parts(V: np.ndarray) -> list[np.ndarray]:
    """V by blocks of rows, so that products with it need little room."""
    return [V[a : a + ROWS_PER_BLOCK] for a in range(0, len(V), ROWS_PER_BLOCK)]
