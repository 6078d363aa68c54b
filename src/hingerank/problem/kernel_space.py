"""The kernel's space: functions f = sum_i a_i κ(x_i, ·) that solvers treat as weights, and the objective there."""

from typing import Any

import numpy as np

from hingerank.arrays import Tensor, Vector
from hingerank.data.checks import positive
from hingerank.features.maps import factorise
from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.design import RowsDesign
from hingerank.problem.gram import GramMatrix
from hingerank.problem.problem import PRODUCTS_REMEMBERED, Objective, Point, Problem, first_useful

LARGEST_FACTOR = 6000
ROWS_PER_REMEMBERED = 500  # rows of K per stored product: K then costs about ten times as much as the product
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # relative error of an entry of K
FEW_IDLE = 0.1  # fraction of the coefficients below which removing them does not pay


class Expansion:
    """f = sum_i a_i κ(x_i, ·): an element of the kernel's space by its coefficients and, once needed, its values K a.

    Sums, multiples, <f, g> = a_f · K a_g and norms use the operators of arrays, so solvers written for weights run here
    unchanged: their conjugate gradients become those of the K-inner product. Values of a sum come from those of its
    terms if these are known, and an inner product uses whichever side's values are known. So a step of conjugate
    gradients costs one product with K, and trying a step costs none. Coefficients and values are NumPy arrays, or
    tensors on the device of K.
    """

    __slots__ = ("_a", "_factor", "_square", "_values", "gram")
    __array_ufunc__ = None  # NumPy's numbers leave sums and products with expansions to this class

    def __init__(self, gram: GramMatrix, a: Vector, values: Vector = None, factor: float = 1.0):
        self.gram, self._a, self._values, self._factor = gram, a, values, factor
        self._square: float | None = None

    @property
    def a(self) -> Tensor:
        """The coefficients."""
        if self._factor != 1.0:  # apply the factor of a multiple, which a sum would have used directly
            self._a, factor, self._factor = self._factor * self._a, self._factor, 1.0
            self._values = None if self._values is None else factor * self._values
        return self._a

    @property
    def coefficients(self) -> np.ndarray:
        """a as a NumPy array."""
        return self.gram.home(self.a)

    @property
    def values(self) -> Tensor:
        """K a: f at the training rows."""
        a = self.a
        if self._values is None:
            self._values = self.gram.product(a)
        return self._values

    def __len__(self) -> int:
        return len(self._a)

    def __add__(self, other: "Expansion") -> "Expansion":
        return self._plus(other, other._factor)

    def __sub__(self, other: "Expansion") -> "Expansion":
        return self._plus(other, -other._factor)

    def _plus(self, other: "Expansion", factor: float) -> "Expansion":
        """This plus a multiple of the other."""
        a, values = self.gram.add(self.a, other._a, factor), None
        if self._values is not None and other._values is not None:
            values = self.gram.add(self._values, other._values, factor)
        return Expansion(self.gram, a, values)

    def __mul__(self, factor: float) -> "Expansion":
        return Expansion(self.gram, self._a, self._values, float(factor) * self._factor)

    __rmul__ = __mul__

    def __neg__(self) -> "Expansion":
        return (-1.0) * self

    def __matmul__(self, other: "Expansion") -> float:
        if other is self:
            if self._square is None:  # K may be singular, and rounding may give a negative number
                self._square = max(self.gram.inner(self.a, self.values), 0.0)
            return self._square
        if other._values is None:
            return self.gram.inner(other.a, self.values)
        return self.gram.inner(self.a, other.values)

    def copy(self) -> "Expansion":
        return self * 1.0

    def __array_function__(self, function: object, types: object, args: object, kwargs: object) -> Any:
        if function is np.linalg.norm:
            return np.sqrt(self @ self)
        if function is np.zeros_like:
            zeros = 0.0 * self.a
            return Expansion(self.gram, zeros, zeros)
        if function is np.any:
            return bool(self.a.any())
        return NotImplemented


class KernelProblem(Objective):
    """f -> ½‖f‖² + C · loss(f at the training rows): Problem in the kernel's space.

    In coefficients: ½ aᵀKa + C · loss(Ka), gradient a + C z with z the loss's gradient in scores, Hessian products
    v + C H (K v). Newton's equation (I + C H K) δ = −(a + C z) is symmetric in the K-inner product.
    """

    def __init__(self, gram: GramMatrix, loss: Loss, preferences: Preferences, C: float = 1.0):
        self.gram, self.loss, self.preferences, self.C = gram, loss, preferences, positive("C", C)
        self.dimension, self._loss_at = gram.n, gram.sweep(loss, preferences)
        self._latest: Point | None = None

    def at(self, f: Vector) -> Point:
        if self._latest is None or self._latest.w is not f:  # solvers return to their last point
            self._latest = self._at(f if isinstance(f, Expansion) else self.expansion(f))
        return self._latest

    def _at(self, f: Expansion) -> Point:
        here = self._loss_at(f.values)
        value = 0.5 * (f @ f) + self.C * here.value

        def curvature(v: Expansion) -> Expansion:
            return v + self.C * self._bare(here.curvature(v.values))

        def first() -> tuple[Expansion, Expansion] | None:
            """Newton's equation gives δ_i = −a_i for every row i without an active pair: these become 0 in one step.

            Conjugate gradients that begin with it move only along rows with pairs, so the zeros stay.
            """
            there = f.a != 0
            idle = (here.gradient == 0) & there
            if int(idle.sum()) <= FEW_IDLE * int(there.sum()) or bool(idle.all()):
                return None
            away = self._bare(-f.a * idle)
            return away, curvature(away)

        slope = f + self.C * self._bare(here.gradient)
        return Point(f, value, slope, curvature, here.moments, None, first)

    def gap(self, point: Point) -> float:
        return super().gap(point) + self.rounding(point)

    def least_gain(self, point: Point) -> float:
        return super().least_gain(point) - self.rounding(point)

    def rounding(self, point: Point) -> float:
        """A bound on the rounding error of ½aᵀKa + C z·Ka and of its gap, if each entry of K is off by a few digits.

        Coefficients of both signs cancel: if they are many times larger than the norm, K itself is not accurate enough
        to show how good they are.
        """
        terms = abs(point.w.a) + abs(point.gradient.a - point.w.a)
        return ROUNDING * float(terms @ self.gram.size) ** 2

    def exactly(self, f: Expansion, dual: Expansion, lower: float) -> tuple[float, float]:
        """(the value at f, a lower bound on the optimum) with K in double precision, whatever it is stored in.

        lower: the bound from multipliers with the coefficients `dual` and the stored K; of its terms only ½‖dual‖²
        depends on K.
        """
        values, own = self.gram.exact([f.a, dual.a])
        value = 0.5 * self.gram.inner(f.a, values) + self.C * self._loss_at(values).value
        rounding = ROUNDING * float((abs(f.a) + abs(dual.a)) @ self.gram.size) ** 2
        return value, lower + 0.5 * (dual @ dual - self.gram.inner(dual.a, own)) - rounding

    @property
    def recycled(self) -> int:
        """Number of Hessian products to store (see solvers/newton.py): the vectors must cost much less than K."""
        return min(PRODUCTS_REMEMBERED, int(self.gram.n * self.gram.cost) // ROWS_PER_REMEMBERED)

    def with_C(self, C: float) -> "KernelProblem":
        """The same problem at another C."""
        return KernelProblem(self.gram, self.loss, self.preferences, C)

    def first_C(self) -> float:
        """The smallest useful C (`first_useful`)."""
        return first_useful(self.with_C(1.0).at(np.zeros(self.dimension)))

    def with_loss(self, loss: Loss) -> "KernelProblem":
        """The same problem under another loss."""
        return KernelProblem(self.gram, loss, self.preferences, self.C)

    def factored(self) -> Problem:
        """The same problem over explicit rows L with L Lᵀ = K, at a cost of n³ / 3 multiplications: for small data."""
        if self.dimension > LARGEST_FACTOR:
            raise ValueError(
                f"solver='dual' factorises the kernel matrix of {self.dimension} rows, but supports at most "
                f"{LARGEST_FACTOR} rows: use solver='auto'"
            )
        K = self.gram.matrix()
        kept, T = factorise(K)
        return Problem(RowsDesign(K[:, kept] @ T), self.loss, self.preferences, C=self.C)

    def expansion(self, a: Vector) -> Expansion:
        """The function with these coefficients."""
        a = self.gram.away(a)
        return Expansion(self.gram, a, None if a.any() else 0.0 * a)

    def _bare(self, a: Vector) -> Expansion:
        return Expansion(self.gram, a)
