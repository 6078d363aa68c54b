"""The kernel's space: Gram matrices K = κ(X, X), functions f = sum_i a_i κ(x_i, ·) that solvers treat as weights, and
the objective there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from hingerank.arrays import Matrix, Tensor, Vector
from hingerank.data.checks import positive
from hingerank.features.kernels import Kernel
from hingerank.features.maps import factorise, storage_type
from hingerank.kernels.rows import triangle_product
from hingerank.kernels.threads import add_up, cut_shards, run_shards, serial_blas
from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.problem import PRODUCTS_REMEMBERED, Objective, Point, Problem, RowsDesign

ENTRIES_PER_SHARD = 1 << 18
TILE = (256, 1024)  # 1 MiB in float32
LARGEST_FACTOR = 6000
ROWS_PER_REMEMBERED = 500  # rows of K per stored product: K then costs about ten times as much as the product
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # relative error of an entry of K
FEW_IDLE = 0.1  # fraction of the coefficients below which removing them does not pay


class GramMatrix(Protocol):
    """K = κ(X, X) of n rows; cost: of a product, relative to one with a stored triangle. X: the rows, or None.

    size: √κ(x, x) of every row; no |K_ij| exceeds size_i · size_j.
    """

    n: int
    cost: float
    X: Matrix
    size: Tensor

    @property
    def single(self) -> bool:
        """Whether `product` is in single precision."""
        ...

    def exact(self, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """K v of a few vectors in double precision: if K is stored in single precision it is recomputed."""
        return [self.product(v) for v in vectors]

    def product(self, v: Tensor) -> Tensor:
        """K v."""
        ...

    def matrix(self) -> np.ndarray:
        """The whole K, in double precision: for small n."""
        ...

    def away(self, v: Tensor) -> Tensor:
        """A copy of a vector where products are computed: a NumPy array, or a tensor on the device."""
        return np.array(v, np.float64)

    def home(self, v: Tensor) -> np.ndarray:
        """Such a vector as a NumPy array."""
        return np.asarray(v)

    def inner(self, a: Tensor, b: Tensor) -> float:
        """a · b of such vectors."""
        return float((a * b).sum())  # not BLAS, whose sums depend on the number of threads

    def add(self, a: Tensor, b: Tensor, factor: float) -> Tensor:
        """a + factor · b of such vectors."""
        return a + b if factor == 1.0 else a - b if factor == -1.0 else a + factor * b

    def sweep(self, loss: Loss, preferences: Preferences) -> Callable[[Tensor], Any]:
        """The loss as a function of the values at the training rows, as a LossAt of vectors there."""
        return lambda s: loss.at(s, preferences)


class Gram(GramMatrix):
    """K = κ(X, X), of which one triangle is stored: n² / 2 numbers in float32. Blocks of rows beyond the budget are not
    stored but recomputed for every product.

    Small matrices are stored in float64. Sums are float64. The blocks depend only on n, so results do not depend on the
    number of threads.
    """

    def __init__(self, kernel: Kernel, X: Matrix, budget: int):
        n = X.shape[0]
        self.n, self.kernel, self.X = n, kernel.centred(X), X
        self.dtype = storage_type(n, n, np.float64)
        self.size = sizes_of(self.kernel, X)
        self.left, self.right = self.kernel.left(X, self.dtype), self.kernel.right(X, self.dtype)
        area = np.concatenate(([0], np.cumsum(np.arange(n, 0, -1))))
        self.shards = cut_shards(area, ENTRIES_PER_SHARD)
        sizes = [np.dtype(self.dtype).itemsize * (b - a) * (n - a) for a, b in self.shards]
        kept = int(np.searchsorted(np.cumsum(sizes), budget, side="right"))
        self.cost = 1.0 + 9.0 * (1 - kept / len(self.shards))  # a product with computed blocks takes ten times as long
        with serial_blas():
            self.blocks = run_shards(self._block, self.shards[:kept])

    def product(self, v: np.ndarray) -> np.ndarray:
        """K v; each number of the triangle is read, or computed, once."""
        v = np.ascontiguousarray(v, np.float64)
        with serial_blas() if len(self.blocks) < len(self.shards) else nullcontext():
            return add_up(run_shards(lambda k: self._multiply(k, v), range(len(self.shards))))

    @property
    def single(self) -> bool:
        return self.dtype == np.float32

    def exact(self, vectors: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return computed_product(self.kernel, self.X, np.stack(vectors)) if self.single else super().exact(vectors)

    def matrix(self) -> np.ndarray:
        """The whole K, in double precision: for small n."""
        return self.kernel.matrix(self.X, self.X)

    def _block(self, shard: tuple[int, int]) -> np.ndarray:
        """The shard's rows of K, from the diagonal on."""
        first, last = shard
        out = np.empty((last - first, self.n - first), self.dtype)
        for a, b, c, e in self._tiles(first, last):
            self.kernel.between(self.left[a:b], self.right[c:e], out[a - first : b - first, c - first : e - first])
        return out

    def _tiles(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """Ranges of rows a:b and columns c:e that cover the shard; a tile of K fits a cache."""
        for a in range(first, last, TILE[0]):
            for c in range(first, self.n, TILE[1]):
                yield a, min(a + TILE[0], last), c, min(c + TILE[1], self.n)

    def _multiply(self, k: int, v: np.ndarray) -> np.ndarray:
        """The contribution of shard k to K v."""
        y, (first, last) = np.zeros(self.n), self.shards[k]
        if k < len(self.blocks):
            triangle_product(self.blocks[k], first, first, last, v, y)
            return y
        room: np.ndarray = np.empty(TILE, self.dtype)
        for a, b, c, e in self._tiles(first, last):
            tile = room[: b - a, : e - c]
            self.kernel.between(self.left[a:b], self.right[c:e], tile)
            triangle_product(tile, a, c, max(c, last), v, y)
        return y


class GivenGram(GramMatrix):
    """K given as a matrix by the user, rows and columns in the order of the training rows."""

    cost, single = 1.0, False

    def __init__(self, K: np.ndarray):
        self.n, self.K, self.X, self._rows = K.shape[0], K, None, RowsDesign(K)
        self.size = np.sqrt(np.maximum(K.diagonal(), 0.0).astype(np.float64))

    def product(self, v: np.ndarray) -> np.ndarray:
        """K v."""
        return self._rows.scores(v)

    def matrix(self) -> np.ndarray:
        """K in double precision."""
        return self.K.astype(np.float64)


def computed_product(kernel: Kernel, X: Matrix, V: np.ndarray) -> Tensor:
    """V κ(X, X) in double precision, tile by tile, storing nothing; rows and columns without weight in V are skipped if
    possible."""
    n, used = X.shape[0], np.flatnonzero(V.any(axis=0))
    right, weight = kernel.right(X[used], np.float64), np.ascontiguousarray(V[:, used].T)
    out = np.empty((n, len(V)))

    def some(shard: tuple[int, int]) -> None:
        room: np.ndarray = np.empty(TILE)
        for a in range(*shard, TILE[0]):
            b = min(a + TILE[0], shard[1])
            left, total = kernel.left(X[a:b], np.float64), np.zeros((b - a, len(V)))
            for c in range(0, len(used), TILE[1]):
                tile = room[: b - a, : min(TILE[1], len(used) - c)]
                kernel.between(left, right[c : c + TILE[1]], tile)
                total += tile @ weight[c : c + TILE[1]]
            out[a:b] = total

    with serial_blas():
        run_shards(some, cut_shards(np.arange(n + 1), TILE[0]))
    return out.T


def sizes_of(kernel: Kernel, X: Matrix) -> np.ndarray:
    """√κ(x, x) of every row, in double precision."""
    out = [np.empty(0)]
    for a in range(0, X.shape[0], TILE[1]):
        rows = X[a : a + TILE[1]]
        out.append(kernel.diagonal(kernel.left(rows, np.float64), kernel.right(rows, np.float64)))
    return np.sqrt(np.maximum(np.concatenate(out), 0.0))


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


def square_rounding(size: Tensor) -> float:
    """A bound on the rounding error of a sum of products whose absolute values sum up to size²."""
    length = float(size)
    return ROUNDING * (length * length)  # a power would raise an OverflowError


class KernelProblem(Objective):
    """f -> ½‖f‖² + C · loss(f at the training rows): Problem in the kernel's space.

    In coefficients: ½ aᵀKa + C · loss(Ka), gradient a + C z with z the loss's gradient in scores, Hessian products
    v + C H (K v). Newton's equation (I + C H K) δ = −(a + C z) is symmetric in the K-inner product.
    """

    def __init__(self, gram: GramMatrix, loss: Loss, preferences: Preferences, C: float = 1.0):
        self.gram, self.loss, self.preferences, self.C = gram, loss, preferences, positive("C", C)
        self.dimension, self._loss_at = gram.n, gram.sweep(loss, preferences)
        self.recycled = min(PRODUCTS_REMEMBERED, int(gram.n * gram.cost) // ROWS_PER_REMEMBERED)
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

    def gap(self, point: Point) -> tuple[float, float]:
        (gap, least), rounding = super().gap(point), self.rounding(point)
        return gap + rounding, least - rounding

    def rounding(self, point: Point) -> float:
        """A bound on the rounding error of ½aᵀKa + C z·Ka and of its gap, if each entry of K is off by a few digits.

        Coefficients of both signs cancel: if they are many times larger than the norm, K itself is not accurate enough
        to show how good they are.
        """
        terms = abs(point.w.a) + abs(point.gradient.a - point.w.a)
        return square_rounding(terms @ self.gram.size)

    def exactly(self, f: Expansion, dual: Expansion, lower: float) -> tuple[float, float]:
        """(the value at f, a lower bound on the optimum) with K in double precision, whatever it is stored in.

        lower: the bound from multipliers with the coefficients `dual` and the stored K; of its terms only ½‖dual‖²
        depends on K.
        """
        values, own = self.gram.exact([f.a, dual.a])
        value = 0.5 * self.gram.inner(f.a, values) + self.C * self._loss_at(values).value
        rounding = square_rounding((abs(f.a) + abs(dual.a)) @ self.gram.size)
        return value, lower + 0.5 * (dual @ dual - self.gram.inner(dual.a, own)) - rounding

    def with_C(self, C: float) -> "KernelProblem":
        return KernelProblem(self.gram, self.loss, self.preferences, C)

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
