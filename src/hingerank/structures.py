"""Structures: penalties or constraints on the weights. They depend on w and gradients, not on features or grades.

½‖w‖², also with groups that can vanish together, weights bounded below by 0, or a centre; the l1 norm as a penalty and
as a ball; and the nuclear norm ‖A‖_*, the sum of singular values, whose proximal operator shrinks them.
"""

from typing import Protocol

import numpy as np

from hingerank.arrays import Floats, Integers
from hingerank.kernels.l1_models import minimise_in_ball, minimise_under_norm
from hingerank.kernels.rows import dot

WORK = 200_000_000  # operations for a model: a round costs up to the cube of its columns, and there are 3 to 50 rounds
ROUNDING = 1e-14  # relative error of a value
ENOUGH = 0.02  # a model is solved until its violation is this fraction of the first one
NEAR = 1e-5  # below this fraction of the largest singular value the Gram matrix cannot resolve values


class GroupedSquare:
    """R(w) = ½‖w‖² + amount · Σ over groups ‖w_g‖, where some weights must not be negative.

    Let [v] be v with the negative entries of bounded weights set to 0. Then the minimiser of R(w) - <v, w> has the
    groups (1 - amount/‖[v_g]‖)₊ [v_g], and R*(v) = ½ Σ_g (‖[v_g]‖ - amount)₊².

    Parameters
    ----------
    starts : borders of the groups
    amount : weight of the groups' norms
    bounded : which weights must not be negative

    Examples
    --------
    >>> R = GroupedSquare(np.array([0, 2, 3]), 1.0, np.array([False, False, True]))
    >>> R.shrunk(np.array([3.0, 4.0, -2.0]), 1.0).round(2).tolist()
    [2.4, 3.2, 0.0]
    """

    centre: Floats | float = 0.0  # of the smooth part, ½‖w - centre‖²

    def __init__(self, starts: Integers, amount: float, bounded: np.ndarray):
        self.starts, self.amount, self.bounded = starts, float(amount), bounded
        self.group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    def norms(self, w: Floats) -> Floats:
        """‖w_g‖ of every group."""
        return np.sqrt(np.bincount(self.group, w * w, len(self.starts) - 1))

    def smooth(self, w: Floats) -> float:
        """½‖w - centre‖²."""
        apart = w - self.centre
        return 0.5 * float(apart @ apart)

    def extra(self, w: Floats) -> float:
        """R minus its smooth part."""
        return self.amount * float(self.norms(w).sum()) if self.amount > 0 else 0.0

    def allowed(self, v: Floats) -> Floats:
        """v with the negative entries of bounded weights set to 0."""
        return np.where(self.bounded & (v < 0), 0.0, v)

    def shrunk(self, v: Floats, step: float) -> Floats:
        """argmin over allowed w of  ½‖w - v‖² + step · amount · Σ ‖w_g‖."""
        v = self.allowed(v)
        return v * np.maximum(0.0, 1.0 - step * self.amount / np.maximum(self.norms(v), 1e-300))[self.group]

    def conjugate(self, v: Floats) -> float:
        """R*(v)."""
        return 0.5 * float((np.maximum(self.norms(self.allowed(v)) - self.amount, 0.0) ** 2).sum())

    def gap(self, w: Floats, g: Floats) -> float:
        """R(w) + R*(v) - <v, w> with v = w - g, g the gradient of ½‖w‖² + loss at w: a bound on R + loss - optimum.

        v is minus the gradient of the loss: Fenchel's equality, as in `Objective.gap`, makes the loss's part of the
        duality gap <w, -v>. The sum is taken group by group, and no group's term is negative.
        """
        v = w - g
        norms, own, count = self.norms(self.allowed(v)), self.norms(w), len(self.starts) - 1
        products = np.bincount(self.group, w * v, count)
        parts = 0.5 * own**2 + self.amount * own + 0.5 * np.maximum(norms - self.amount, 0.0) ** 2 - products
        if self.amount == 0:  # as sums of squares, which do not cancel
            out = self.bounded & (v < 0)
            parts = np.where(out, w * (g - 0.5 * w), 0.5 * g * g)
        return float(parts.sum())


class NonNegativeNear(GroupedSquare):
    """R(w) = ½‖w - centre‖² over weights that must not be negative.

    With u = v + centre, R*(v) = ½‖[u]‖² - ½‖centre‖², and u is w minus the gradient of R + loss, as for ½‖w‖²: so
    `gap`, and `conjugate`, which is then R(0) + R*(v), are those of `GroupedSquare`.

    Parameters
    ----------
    centre : the minimiser without a loss

    Examples
    --------
    >>> NonNegativeNear(np.array([1.0, 1.0])).smooth(np.array([1.0, 3.0]))
    2.0
    """

    def __init__(self, centre: Floats):
        super().__init__(np.arange(len(centre) + 1), 0.0, np.ones(len(centre), bool))
        self.centre = centre


class SparseStructure(Protocol):
    """A structure under which most weights are 0; g is always the gradient of the loss at w.

    nothing: the fraction of the objective at 0 below which the objective counts as zero.
    """

    nothing: float

    def value(self, w: Floats) -> float:
        """The term at w."""

    def gap(self, loss: float, g: Floats, w: Floats) -> tuple[float, float]:
        """(Upper bound on the distance of loss + structure at w from the optimum, lower bound on that plus the decrease
        from 0)."""

    def violation(self, g: Floats, w: Floats) -> Floats:
        """How much each weight violates the optimality conditions; negative where a weight of 0 is optimal."""

    def minimise_model(self, H: Floats, g: Floats, w: Floats) -> Floats:
        """argmin over v of <g, v - w> + ½ (v - w)ᵀ H (v - w) + structure(v)."""


class L1Ball:
    """The set ‖w‖₁ ≤ radius."""

    nothing = 1e-3  # without a penalty the loss may fall to 0, and a gap relative to it has no meaning

    def __init__(self, radius: float):
        self.radius = float(radius)

    def value(self, w: Floats) -> float:
        """0: the structure is a constraint, which w satisfies."""
        return 0.0

    def inside(self, w: Floats) -> Floats:
        """w, or w scaled back by the rounding error that put it outside."""
        norm = float(np.abs(w).sum())
        return w if norm <= self.radius else w * ((1 - 1e-15) * self.radius / norm)

    def corner(self, g: Floats) -> tuple[int, float]:
        """(j, a): the corner a·e_j that minimises <g, x> over the ball."""
        j = int(np.argmax(np.abs(g)))
        return j, -self.radius if g[j] >= 0 else self.radius

    def gap(self, loss: float, g: Floats, w: Floats) -> tuple[float, float]:
        """(<g, w> + radius ‖g‖_∞, Frank-Wolfe's duality gap, which is at least loss(w) - min; radius ‖g‖_∞, which is at
        most this gap plus loss(0) - loss(w)). g is the loss's gradient at w."""
        least = self.radius * float(np.abs(g).max(initial=0.0))
        gap = float(dot(g, w)) + least
        return (0.0 if gap < 0 else gap), least  # NaN stays NaN

    def violation(self, g: Floats, w: Floats) -> Floats:
        """|g_j|, or its excess over the common level once w is on the ball's border."""
        norm = float(np.abs(w).sum())
        level = max(0.0, -dot(g, w) / norm) if norm >= 0.999 * self.radius else 0.0
        return np.where(w != 0, np.abs(g + np.sign(w) * level), np.abs(g) - level)

    def minimise_model(self, H: Floats, g: Floats, w: Floats) -> Floats:
        """argmin over the ball of <g, v - w> + ½ (v - w)^T H (v - w)."""
        q, v = g.copy(), w.copy()
        worst = -np.inf if np.abs(w).sum() >= self.radius * (1 - 1e-12) else 0.0
        worst = max(worst, float((np.sign(w) * g).max(where=w != 0, initial=-np.inf)))
        minimise_in_ball(H, q, v, self.radius, ENOUGH * (worst + float(np.abs(g).max())), _rounds(len(w)))
        norm = np.abs(v).sum()
        return v * (self.radius / norm) if norm > self.radius * (1 - 1e-11) else v  # exactly on the border


class L1Norm:
    """The penalty ‖w‖₁ + ½ ridge ‖w‖² (elastic net; ridge 0 is the plain norm)."""

    nothing = 0.0

    def __init__(self, ridge: float = 0.0):
        self.ridge = float(ridge)

    def value(self, w: Floats) -> float:
        return float(np.abs(w).sum()) + 0.5 * self.ridge * float(dot(w, w))

    def prox(self, w: Floats, step: float) -> Floats:
        """argmin over v of ½‖v - w‖² + step · (‖v‖₁ + ½ ridge ‖v‖²)."""
        return np.sign(w) * np.maximum(np.abs(w) - step, 0.0) / (1.0 + step * self.ridge)

    def gap(self, loss: float, g: Floats, w: Floats) -> tuple[float, float]:
        """(primal - dual, the conjugate of the penalty in that dual) for a loss of squared hinges at margin 1.

        The multipliers a_l = -loss'(t_l), scaled by any t ≥ 0, have the dual value
        t (2 loss - <g, w>) - t² loss - sum over j of max(0, t|g_j| - 1)² / (2 ridge); without ridge, t ≤ 1/‖g‖_∞.
        The best of a few t is taken: each gives a valid lower bound. Unless w = 0 the rounding error is added.
        """
        primal = loss + self.value(w)
        if primal <= 0:
            return 0.0, 0.0
        if not np.isfinite(primal):
            return np.nan, 0.0
        slope, size = 2.0 * loss - dot(g, w), np.abs(g)
        most = 1.0 / max(float(size.max(initial=0.0)), 1e-300)
        best = min(most, slope / (2.0 * loss)) if loss > 0 else most
        duals = [(0.0, 0.0)]
        for t in (best, most) if self.ridge == 0 else (best, most, 1.0):
            over = np.maximum(t * size - 1.0, 0.0) if self.ridge > 0 else np.zeros(1)
            conjugate = dot(over, over) / (2 * self.ridge) if self.ridge > 0 else 0.0
            duals.append((t * slope - t * t * loss - conjugate, conjugate))
        dual, conjugate = max(duals)
        gap = max(0.0, primal - dual)
        return gap + (ROUNDING * primal if w.any() else 0.0), conjugate

    def violation(self, g: Floats, w: Floats) -> Floats:
        """The absolute value of the smallest subgradient; negative where a weight of 0 is optimal."""
        g = g + self.ridge * w
        return np.where(w != 0, np.abs(g + np.sign(w)), np.abs(g) - 1.0)

    def minimise_model(self, H: Floats, g: Floats, w: Floats) -> Floats:
        """argmin over v of <g, v - w> + ½ (v - w)^T H (v - w) + ‖v‖₁ + ½ ridge ‖v‖²."""
        q, v = g + self.ridge * w, w.copy()
        H = H + self.ridge * np.eye(len(w)) if self.ridge > 0 else H
        minimise_under_norm(H, q, v, ENOUGH * max(0.0, float(self.violation(g, w).max())), _rounds(len(w)))
        return v


def _rounds(columns: int) -> int:
    return int(np.clip(WORK // columns**3, 3, 50))


def shrink_singular_values(M: Floats, amount: float) -> tuple[Floats, Floats]:
    """(A, its singular values) with A = argmin over A of  amount · ‖A‖_* + ½‖M - A‖_F².

    Singular values come from the smaller Gram matrix, several times faster than a full decomposition, if the threshold
    is well above the error of squaring them; otherwise from the decomposition.

    >>> A, values = shrink_singular_values(np.diag([3.0, 1.0]), 2.0)
    >>> np.round(A, 12).tolist(), values.tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [1.0])
    """
    if M.size == 0 or not M.any():
        return np.zeros_like(M), np.empty(0)
    wide = M.shape[0] <= M.shape[1]
    with np.errstate(over="ignore"):
        gram = M @ M.T if wide else M.T @ M
    squarable = bool(np.isfinite(gram).all())
    if squarable:
        squares, U = np.linalg.eigh(gram)
        values = np.sqrt(np.maximum(squares, 0.0))
    if not squarable or amount <= NEAR * values[-1]:
        left, values, right = np.linalg.svd(M, full_matrices=False)
        kept = values > amount
        return (left[:, kept] * (values[kept] - amount)) @ right[kept], values[kept] - amount
    kept = values > amount
    U, shrunk = U[:, kept], values[kept] - amount
    factor = shrunk / values[kept]
    A = (U * factor) @ (U.T @ M) if wide else ((M @ U) * factor) @ U.T
    return A, shrunk[::-1]
