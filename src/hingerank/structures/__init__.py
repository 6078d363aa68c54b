"""Structures: what is asked of the weights. A structure knows w and gradients, never features or grades."""

from typing import Protocol

from hingerank.arrays import Floats, Vector
from hingerank.structures.l1 import L1Ball, L1Norm
from hingerank.structures.squares import HalfSquare

__all__ = ["HalfSquare", "L1Ball", "L1Norm", "SmoothStructure", "SparseStructure", "Structure"]


class Structure(Protocol):
    """A term of the objective that depends on the weights alone."""

    def value(self, w: Vector) -> float:
        """The term at w."""


class SmoothStructure(Structure, Protocol):
    """A structure with a gradient and a curvature that is the same everywhere."""

    def gradient(self, w: Vector) -> Vector:
        """The gradient at w."""

    def curvature(self, v: Vector) -> Vector:
        """Hessian times v."""

    def add_hessian(self, H: Floats) -> Floats:
        """H plus the Hessian, in place."""

    def add_diagonal(self, d: Floats) -> Floats:
        """d plus the Hessian's diagonal."""


class SparseStructure(Structure, Protocol):
    """A structure under which most weights are 0; g is always the gradient of the loss at w.

    nothing: the fraction of the objective at 0 below which it is as good as none.
    """

    nothing: float

    def gap(self, loss: float, g: Floats, w: Floats) -> tuple[float, float]:
        """How far above the optimum loss + structure may be at w; what that and all gained from 0 are at least."""

    def violation(self, g: Floats, w: Floats) -> Floats:
        """How much each weight violates the optimality conditions; below 0 where 0 is right."""

    def minimise_model(self, H: Floats, g: Floats, w: Floats) -> Floats:
        """argmin over v of <g, v - w> + ½ (v - w)ᵀ H (v - w) + structure(v)."""
