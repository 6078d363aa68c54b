"""Gram matrices K = κ(X, X): as much of one triangle in memory as allowed, the rest recomputed for every product."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from hingerank.arrays import Matrix, Tensor
from hingerank.features.kernels import Kernel
from hingerank.features.maps import storage_type
from hingerank.kernels.rows import triangle_product
from hingerank.kernels.threads import cut_shards, run_shards, serial_blas
from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.design import RowsDesign
from hingerank.problem.problem import add_up

ENTRIES_PER_SHARD = 1 << 18
TILE = (256, 1024)  # 1 MiB in float32


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
