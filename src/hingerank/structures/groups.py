"""The half squared norm with groups that can vanish together, weights bounded below by 0, or a centre; and the nuclear
norm ‖A‖_*, the sum of singular values, whose proximal operator shrinks them."""

import numpy as np

from hingerank.arrays import Floats, Integers
from hingerank.structures import HalfSquare

NEAR = 1e-5  # below this fraction of the largest singular value the Gram matrix cannot resolve values


class GroupedSquare(HalfSquare):
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

    def __init__(self, starts: Integers, amount: float, bounded: np.ndarray):
        self.starts, self.amount, self.bounded = starts, float(amount), bounded
        self.group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    def norms(self, w: Floats) -> Floats:
        """‖w_g‖ of every group."""
        return np.sqrt(np.bincount(self.group, w * w, len(self.starts) - 1))

    def extra(self, w: Floats) -> float:
        """R minus ½‖w‖²."""
        return self.amount * float(self.norms(w).sum()) if self.amount > 0 else 0.0

    def allowed(self, v: Floats) -> Floats:
        """v with the negative entries of bounded weights set to 0."""
        return np.where(self.bounded & (v < 0), 0.0, v)

    def shrunk(self, v: Floats, step: float) -> Floats:
        """argmin over allowed w of  ½‖w - v‖² + step · amount · Σ ‖w_g‖."""
        v = self.allowed(v)
        return v * self._kept(self.norms(v), step * self.amount)[self.group]

    @staticmethod
    def _kept(norms: Floats, amount: float) -> Floats:
        return np.maximum(0.0, 1.0 - amount / np.maximum(norms, 1e-300))

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
    >>> NonNegativeNear(np.array([1.0, 1.0])).value(np.array([1.0, 3.0]))
    2.0
    """

    def __init__(self, centre: Floats):
        super().__init__(np.arange(len(centre) + 1), 0.0, np.ones(len(centre), bool))
        self.centre = centre

    def value(self, w: Floats) -> float:
        return super().value(w - self.centre)

    def gradient(self, w: Floats) -> Floats:
        return w - self.centre


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
    squares, U = np.linalg.eigh(M @ M.T if wide else M.T @ M)
    values = np.sqrt(np.maximum(squares, 0.0))
    if amount <= NEAR * values[-1]:
        left, values, right = np.linalg.svd(M, full_matrices=False)
        kept = values > amount
        return (left[:, kept] * (values[kept] - amount)) @ right[kept], values[kept] - amount
    kept = values > amount
    U, shrunk = U[:, kept], values[kept] - amount
    factor = shrunk / values[kept]
    A = (U * factor) @ (U.T @ M) if wide else ((M @ U) * factor) @ U.T
    return A, shrunk[::-1]
