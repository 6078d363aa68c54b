"""The l1 norm as a penalty and as a ball: values, certificates, linear minimisation, and small quadratic models."""

import numpy as np

from hingerank.arrays import Floats
from hingerank.kernels.descent import minimise_in_ball, minimise_under_norm
from hingerank.kernels.rows import dot

WORK = 200_000_000  # operations for a model: a round costs up to the cube of its columns, and there are 3 to 50 rounds
ROUNDING = 1e-14  # relative error of a value
ENOUGH = 0.02  # a model is solved until its violation is this fraction of the first one


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
