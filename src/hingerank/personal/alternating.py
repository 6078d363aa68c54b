"""Alternating minimisation of f(U, V) = g(U Vᵀ) + ½(‖U‖² + ‖V‖²), with balancing and safeguarded extrapolation.

An epoch improves every row of V with U fixed, then U with V fixed (truncated Newton), as Cheng, Davidson and Hsieh
(2018) do. Two additions cost next to nothing and make it converge in tens of epochs where plain alternation creeps:

- balancing: U and V may be exchanged for U M and V M⁻ᵀ, which leaves U Vᵀ and hence g alone. The best exchange comes
  from the singular values S of U Vᵀ: then UᵀU = VᵀV = S and f has lost ½(‖U‖² + ‖V‖²) - trace(S) in one stroke.
- extrapolation: before the users' step U is moved on by a multiple of its last change. The point is kept only if f went
  down; else the step is taken back, so f never rises.

The hinge, which has no curvature, is rounded over a width, which is narrowed once most of what is left is its own doing
(as hingerank.solvers.smoothing does).
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import numpy as np

from hingerank.personal.problem import FactorObjective, StepSums, UsersImproved, blocks_of, half_square
from hingerank.solvers.run import STATIONARY, Run, Solution

ENOUGH, PRODUCTS, STEPS = 0.3, 5, 1  # the basis step's equations: fraction of the gradient left, products at most;
HINGE_ENOUGH, HINGE_PRODUCTS, HINGE_STEPS = 0.1, 20, 5  # and Newton steps of a user. A gap asks for more than a promise
ARMIJO, HALVINGS = 1e-4, 20
FLOOR = 1e-10  # fraction of the largest below which a direction counts as lost
FIRST, GROW, SHRINK, LEAST = 0.5, 1.3, 0.5, 0.1  # multiples of the last change of U to move on by
WIDEST, NARROWEST = 0.5, 1e-7  # of the hinge's rounded kink


class Users(Protocol):
    """The users' side of f: their weights V, wherever these are."""

    free: int
    width: float

    def narrow(self, width: float) -> None:
        """Round the hinge's kink over another width from now on."""
        ...

    def improve(self, U: np.ndarray, turn: np.ndarray | None = None) -> UsersImproved:
        """V ← V turn (its free columns), then a step of every user with U fixed."""
        ...

    def improve_again(self, U: np.ndarray) -> UsersImproved:
        """The last step taken back, and one from another U."""
        ...

    def origin(self, nothing: np.ndarray) -> float:
        """f where U, given as zeros, and V are 0; asked before any step."""
        ...

    def value(self, U: np.ndarray) -> float:
        """f; `curvature` is then that at U."""
        ...

    def curvature(self) -> Callable[[np.ndarray], np.ndarray]:
        """D -> (Hessian in U at the last point) D, for the flattened D."""
        ...

    def weights(self) -> np.ndarray:
        """V."""
        ...


class LocalUsers:
    """Users in this process; the first ``objective.free`` columns of V are changed in place."""

    def __init__(self, objective: FactorObjective, V: np.ndarray):
        self.objective, self.V, self.free, self.before = objective, V, objective.free, np.empty_like(V)
        self.width = objective.packed.width

    def narrow(self, width: float) -> None:
        self.width = width
        self.objective.narrow(width)

    def improve(self, U: np.ndarray, turn: np.ndarray | None = None) -> UsersImproved:
        return self.step(U, turn).improved(U, self.objective.C)

    def improve_again(self, U: np.ndarray) -> UsersImproved:
        return self.step_again(U).improved(U, self.objective.C)

    def step(self, U: np.ndarray, turn: np.ndarray | None) -> StepSums:
        """The sums of `improve`."""
        if turn is not None:
            for part in blocks_of(self.V[:, : self.free]):
                part[:] = part @ turn
        self.before[:] = self.V
        return self._step(U)

    def step_again(self, U: np.ndarray) -> StepSums:
        """The sums of `improve_again`."""
        self.V[:] = self.before
        return self._step(U)

    def _step(self, U: np.ndarray) -> StepSums:
        return self.objective.step(U, self.V, HINGE_STEPS if self.width > 0 else STEPS)

    def origin(self, nothing: np.ndarray) -> float:
        rounded = self.objective.value(nothing, self.V) - half_square(self.V[:, : self.free])
        return rounded / (1.0 - 0.5 * self.width)  # of a hinge at 0, the kink at 1

    def value(self, U: np.ndarray) -> float:
        return self.objective.value(U, self.V)

    def curvature(self) -> Callable[[np.ndarray], np.ndarray]:
        return self.objective.curvature(self.V)

    def weights(self) -> np.ndarray:
        return self.V


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
    """Minimise f(U, V) until an epoch neither lowers nor promises to lower it by more than tol times its value, or
    times what was gained from U = 0, V = 0 if that is less.

    The gain counts as at least tol · f(0, 0), since it may be nothing: up to some C the optimum is 0.
    The promise is ½ gᵀ D⁻¹ g with g the gradient in U and D about the Hessian's diagonal. Both are in units of f,
    however the features are scaled; f is not convex, so they say how stationary (U, V) is, not how good. For the hinge
    the promise is a duality gap, the larger one of two convex problems: the best U for this V, and the best V for this
    U. Of each it is ½‖g‖², g the rounded hinge's gradient, and what rounding adds.

    Parameters
    ----------
    users : f and the users' weights V, which it changes
    U : the start
    tol, max_iter, max_seconds : when to stop; an iteration is an epoch
    watch : figures for a trace entry, from U
    callback : called with each trace entry; a true answer stops

    Returns
    -------
    Solution : w is U, extra["V"] is V, strongest column first
    """
    run = Run("stationarity", tol, max_iter, max_seconds, callback)
    run.origin = users.origin(np.zeros_like(U))
    value, scale, stretch, products = np.inf, None, FIRST, 0
    last: np.ndarray | None = None  # U at the end of the last epoch but one, in today's basis
    turn: np.ndarray | None = None  # from the users' basis to today's
    for epoch in count():
        came, before = U, value
        U, improved, stretch, stretched = _users(users, U, turn, value, last, stretch)
        value, reached, kink = improved.value, improved.reached, improved.kink
        size = float(np.linalg.norm(improved.gradient))
        promise = max(_promise(improved, size, users.width), before - value)
        gain = min(reached, max(run.origin - reached, tol * run.origin))
        left = (promise + kink) / gain if gain > 0 else 0.0
        norm = float(np.hypot(size, improved.norm))
        scale = norm if scale is None else scale
        gradient, figures = norm / scale if scale > 0 else 0.0, watch(U) if watch is not None else {}
        figures |= {"gradient": gradient, "products": products, "stretch": stretched}
        if run.stops(epoch=epoch, value=reached, stationarity=left, **figures):
            break
        following, used = _basis(users, U, improved)
        products += used
        stands = following is U and stretched == 0.0 and before - value <= 1e-12 * abs(value)
        narrower = kink > 0.5 * tol * gain and (stands or promise <= kink) and users.width > NARROWEST
        if stands and not narrower:
            run.status = "stalled"
            break
        U, last, turn = balance_free(following, improved.spread, came)
        if narrower:
            users.narrow(users.width * float(np.clip(np.sqrt(0.3 * tol * gain / kink), 0.1, 0.5)))
            value, last = np.inf, None  # of another objective
    V = users.weights()
    order = np.argsort(-np.linalg.norm(U, axis=0) * np.sqrt(np.einsum("uc,uc->c", V, V)), kind="stable")
    order = np.concatenate([order[order < users.free], np.arange(users.free, U.shape[1])])
    for part in blocks_of(V):  # in place: V is the largest array that there is
        part[:] = part[:, order]
    return run.solution(STATIONARY, U[:, order], reached, len(run.trace), V=V, width=users.width)


def _promise(improved: UsersImproved, size: float, width: float) -> float:
    """What is left to gain: about ½ gᵀ D⁻¹ g in U; of a hinge, a bound, in U given V and in V given U."""
    if width > 0:
        return 0.5 * max(size, improved.norm) ** 2
    return 0.5 * float((improved.gradient**2 / improved.diagonal).sum())


def _users(
    users: Users, U: np.ndarray, turn: np.ndarray | None, value: float, last: np.ndarray | None, stretch: float
) -> tuple[np.ndarray, UsersImproved, float, float]:
    """The users' step, from U moved on if that pays: (U, what the step gave, the next stretch, the one used or 0)."""
    if last is None:
        return U, users.improve(U, turn), stretch, 0.0
    moved = U + stretch * (U - last)
    improved = users.improve(moved, turn)
    if improved.value <= value:
        return moved, improved, stretch * GROW, stretch
    return U, users.improve_again(U), max(SHRINK * stretch, LEAST), 0.0


def _basis(users: Users, U: np.ndarray, improved: UsersImproved) -> tuple[np.ndarray, int]:
    """A truncated Newton step in U: (the next U, the same object if no shortening goes down; Hessian products used)."""
    g = improved.gradient.ravel()
    limits = (HINGE_ENOUGH, HINGE_PRODUCTS) if users.width > 0 else (ENOUGH, PRODUCTS)
    step, used = _equations(users.curvature(), g, improved.diagonal.ravel(), *limits)
    slope, length = float(g @ step), 1.0
    for _ in range(HALVINGS):
        following = U + length * step.reshape(U.shape)
        if users.value(following) <= improved.value + ARMIJO * length * slope:
            return following, used
        length *= 0.5
    return U, used


def _equations(
    curvature: Callable[[np.ndarray], np.ndarray], g: np.ndarray, diagonal: np.ndarray, enough: float, most: int
) -> tuple[np.ndarray, int]:
    """Conjugate gradients for H step = -g with a diagonal as preconditioner, cut short."""
    step, r = np.zeros_like(g), -g
    d = r / diagonal
    rr = float(r @ d)
    target = enough * enough * rr
    for used in range(most):
        if rr <= target:
            return step, used
        product = curvature(d)
        length = rr / float(d @ product)
        step += length * d
        r -= length * product
        rr, before = float(r @ (r / diagonal)), rr
        d *= rr / before
        d += r / diagonal
    return step, most


def balance_free(
    U: np.ndarray, spread: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """`balance` for as many of the first columns as VᵀV has; the others stay."""
    free = len(spread)
    found, same, turn = balance(U[:, :free], spread, other[:, :free])
    return np.hstack([found, U[:, free:]]), np.hstack([same, other[:, free:]]), turn


def balance(U: np.ndarray, spread: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(U M, other M, M⁻ᵀ) so that V M⁻ᵀ has the squares that U M has: UᵀU = VᵀV diagonal and falling.

    From the small matrices UᵀU = L Lᵀ and VᵀV (`spread`) alone: if Lᵀ VᵀV L = Q S² Qᵀ then M = L⁻ᵀ Q √S. Directions
    that U or V have almost lost are kept as they are by a floor under S, so that M⁻¹ undoes M. None in place of M⁻ᵀ
    where all stays as it is; other: another matrix in the same basis.
    """
    A = U.T @ U
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
    return U @ M, other @ M, (L @ Q) / np.sqrt(S)
