"""Structures: penalties or constraints on the weights. They depend on w and gradients, not on features or grades."""

from typing import Protocol

import numpy as np

from hingerank.arrays import Floats, Vector
from hingerank.structures.l1 import L1Ball, L1Norm

__all__ = ["HalfSquare", "L1Ball", "L1Norm", "SmoothStructure", "SparseStructure", "Structure"]


class Structure(Protocol):
    """A term of the objective that depends only on the weights."""

    def value(self, w: Vector) -> float:
        """The term at w."""


class SmoothStructure(Structure, Protocol):
    """A structure with a gradient and a constant curvature."""

    def gradient(self, w: Vector) -> Vector:
        """The gradient at w."""

    def curvature(self, v: Vector) -> Vector:
        """Hessian times v."""

    def add_hessian(self, H: Floats) -> Floats:
        """Add the Hessian to H in place and return it."""

    def add_diagonal(self, d: Floats) -> Floats:
        """Return d plus the Hessian's diagonal."""


class SparseStructure(Structure, Protocol):
    """A structure under which most weights are 0; g is always the gradient of the loss at w.

    nothing: the fraction of the objective at 0 below which the objective counts as zero.
    """

    nothing: float

    def gap(self, loss: float, g: Floats, w: Floats) -> tuple[float, float]:
        """(Upper bound on the distance of loss + structure at w from the optimum, lower bound on that plus the decrease
        from 0)."""

    def violation(self, g: Floats, w: Floats) -> Floats:
        """How much each weight violates the optimality conditions; negative where a weight of 0 is optimal."""

    def minimise_model(self, H: Floats, g: Floats, w: Floats) -> Floats:
        """argmin over v of <g, v - w> + ½ (v - w)ᵀ H (v - w) + structure(v)."""


class HalfSquare:
    """½‖w‖², of vectors or anything else with an inner product (problem/kernel_space.py).

    >>> HalfSquare().value(np.array([3.0, 4.0]))
    12.5
    """

    def value(self, w: Vector) -> float:
        return 0.5 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        return w

    def curvature(self, v: Vector) -> Vector:
        return v

    def add_hessian(self, H: Floats) -> Floats:
        H[np.diag_indices_from(H)] += 1.0
        return H

    def add_diagonal(self, d: Floats) -> Floats:
        return d + 1.0
