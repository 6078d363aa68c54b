"""Designs of curves: the bin and position of every value, and a small map between weights and the curves' heights;
and of surfaces over pairs of columns.

The features of column c with knots t_0 < … < t_m are a line and one for each segment,

    x / width_c    and    τ_s(x) / √(smoothness · m),    τ_s rising from 0 to 1 between t_(s-1) and t_s,

so that ½‖w‖² is ½ Σ (b² + smoothness Σ_s ρ_s²) of the line's weight b and the rises ρ_s/√m over segments. They are
never formed: Φ w = Ψ (T w), where T w are the height and slope of every bin and Ψ looks them up (kernels/rows.py). Φ
leaves out a constant of each curve, which cancels in differences of scores; so absent entries of CSR contribute
nothing.

The features of a pair are the products τ_s(x) τ_t(y) / √(smoothness · m_x m_y) of the ramps of both columns over the
segments of a grid; w contains their rises, whose sums along both axes are the heights at the grid's points.
"""

import mmap
import shutil
import tempfile
from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from hingerank.arrays import Device, Floats, Matrix, Vector
from hingerank.data.files import DataError
from hingerank.data.rows_view import RowsView
from hingerank.features.curves import Curves, Knots, SurfaceGrid, corners, looked_up
from hingerank.kernels.curves import bin_rows, positions
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import GradeTree, WindowState, score_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.mapped import MixedDesign, MixedPass
from hingerank.problem.problem import NUMBERS_PER_SHARD, CompiledRows, Design, Pass, RowsDesign
from hingerank.problem.torch_design import TorchBins

MANY_NUMBERS, ROWS_OF_A_LOOK = 1 << 15, 2048  # data size from which blocks of the Hessian pay, and rows they come from


class Bins(Design, Protocol):
    """Ψ: the row of a value has a 1 at its bin's height and its position at the bin's slope."""

    def moments(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ weight, Σ weight · position, Σ weight · position² over some rows, of every bin of every column."""
        ...


def unfused_loss_pass(
    rows: tuple[Any, ...], w: np.ndarray, stride: int, tree: GradeTree, state: WindowState, terms: np.ndarray,
    shard: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """As `fused_loss_pass`, reading each row twice. Value and gradient of curves are one pass in ten, and their fused
    sweep would compile slowly."""
    offsets, (begin, end), moments = tree.offsets, shard, np.zeros((len(terms), 3))
    a, b = offsets[begin], offsets[end]
    s = np.empty(b)  # memory that is never touched, such as that before a, costs nothing
    if stride > 1:
        s[a:] = 0.0
    for first, last in [shard] if stride == 1 else [(q, q + 1) for q in range(begin, end, stride)]:
        scores_range(rows, offsets[first], offsets[last], w, s)
        moments += score_pass(s, first, last, tree, state, terms, s)
    return moments, back_range(rows, a, b, s, len(w))


class BinnedDesign(CompiledRows, Bins):
    """Ψ in memory, or, for mapped rows, in a temporary file; positions (`places`) are float32.

    rows: dense (bins, places, n, d), in the order of `positions`; CSR (bins, places, columns, starts, stride).
    """

    loss_pass = staticmethod(unfused_loss_pass)
    halves = uneven = False

    def __init__(self, X: Matrix, knots: Knots):
        n, d = X.shape
        self.stride = 2 * (int(knots.counts.max()) + 1)
        self.shape, self.dense = (n, d * self.stride), not sp.issparse(X)
        self.numbers = n * d if self.dense else X.nnz
        self._shards = cut_shards(np.arange(n + 1), max(1, NUMBERS_PER_SHARD * n // max(1, self.numbers)))
        room: Callable[[int, DTypeLike], np.ndarray] = room_on_disk if isinstance(X, RowsView) else np.empty
        bins = room(self.numbers, np.uint8 if self.stride <= 256 else np.uint16)
        places = room(self.numbers, np.float32)
        where = knots.values, knots.starts, knots.width

        def place(blocks: list[tuple[int, int]]) -> None:
            for a, b in blocks:
                if self.dense:
                    block = X.block(a, b) if isinstance(X, RowsView) else X[a:b]
                    bin_rows(np.ascontiguousarray(block, np.float64), (a, n), *where, bins, places)
                else:
                    own = slice(X.indptr[a], X.indptr[b])
                    values = np.ascontiguousarray(X.data[own], np.float64)
                    bin_rows(values, X.indices[own], *where, bins[own], places[own])

        pieces = X.shards() if isinstance(X, RowsView) else [[shard] for shard in self._shards]
        with np.errstate(over="ignore"):
            run_shards(place, pieces)
        rest = (n, d) if self.dense else (X.indices, X.indptr, self.stride)
        self.rows = (bins, places, *rest)
        # partial sums of a shard have a number for each bin: limit the shards so that these stay well below the data
        self.most_shards = int(np.clip(self.numbers // (4 * self.shape[1]), 1, 64))

    def moments(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ weight, Σ weight · position, Σ weight · position² over some rows, of every bin of every column."""
        d, count = self.shape[1] // self.stride, self.stride // 2
        if self.dense:
            at = positions(rows, *self.rows[2:])
            cells = (self.rows[0][at] // 2 + count * np.arange(d)).ravel()
            places, each = self.rows[1][at].ravel().astype(np.float64), np.repeat(weight, d)
        else:
            chosen = sp.csr_matrix((np.arange(self.numbers), *self.rows[2:4]), shape=(self.shape[0], d))[rows]
            at = chosen.data.astype(np.int64)
            cells = self.rows[0][at] // 2 + count * chosen.indices.astype(np.int64)
            places, each = self.rows[1][at].astype(np.float64), np.repeat(weight, np.diff(chosen.indptr))
        found = [np.bincount(cells, each * places**power, d * count) for power in (0, 1, 2)]
        return np.stack(found, axis=1).reshape(d, count, 3)


def room_on_disk(count: int, dtype: DTypeLike) -> np.ndarray:
    """An array in a temporary file ($TMPDIR) that is deleted with the array."""
    size, place = count * np.dtype(dtype).itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if size > free:
        raise DataError(
            f"the bins of rows in a file need a temporary file of {size / 1e9:.1f} GB, and {place} has only "
            f"{free / 1e9:.1f} GB left: set the environment variable TMPDIR to a folder on a larger disk"
        )
    with tempfile.TemporaryFile(prefix="hingerank-bins-") as file:
        file.truncate(max(1, size))
        return np.frombuffer(mmap.mmap(file.fileno(), max(1, size)), dtype, count)


class CurveBasis(Design):
    """T: weights, one for each knot (the line's, then the segments'), to the height and slope of every bin.

    Parameters
    ----------
    knots : of every column
    smoothness : penalty of a rise over a segment relative to that of the line
    sign : of every column: -1 if its weights count downwards
    zero : whether curves are 0 at 0, as CSR requires, rather than at their middle knot
    """

    breadth: int

    def __init__(self, knots: Knots, smoothness: float, sign: Floats, zero: bool):
        counts, d = knots.counts, len(knots.width)
        self.knots, self.smoothness, self.sign, self.counts = knots, smoothness, sign, counts
        most = int(counts.max())
        self.shape, self.numbers = (d * 2 * (most + 1), int(knots.starts[-1])), 0
        self.mine = np.arange(most) < counts[:, None]  # d × most: which knots exist
        placed = np.zeros((d, most))
        placed[self.mine] = knots.values
        lengths = np.zeros((d, most))
        lengths[:, 1:] = np.where(self.mine[:, 1:], placed[:, 1:] - placed[:, :-1], 0.0) / knots.width[:, None]
        self.lengths = sign[:, None] * lengths
        self.unit = sign / np.sqrt(smoothness * np.maximum(counts - 1, 1))
        self.columns, self.last, self.breadth = np.arange(d), counts, d
        # the bin and position of the value at which a curve is 0
        self.bin, self.place = np.maximum(counts // 2, 1), np.zeros(d)
        if zero:
            self.bin = k = (np.where(self.mine, placed, np.inf) <= 0).sum(axis=1)
            below, above = (placed[self.columns, np.clip(at, 0, counts - 1)] for at in (k - 1, k))
            self.place = -below / np.where((k > 0) & (k < counts), above - below, knots.width)

    def with_smoothness(self, smoothness: float) -> "CurveBasis":
        """The same at another smoothness."""
        other = copy(self)
        other.smoothness, other.unit = smoothness, self.unit * np.sqrt(self.smoothness / smoothness)
        return other

    def rescaled(self, w: Floats, smoothness: float) -> Floats:
        """The weights at another smoothness that give the same curves as w does here."""
        factor = np.full(len(w), np.sqrt(smoothness / self.smoothness))
        factor[self.knots.starts[:-1]] = 1.0
        return np.asarray(w * factor)

    def scores(self, w: np.ndarray) -> np.ndarray:
        heights, rises, slope = self._heights(w)
        d, most = heights.shape
        table = np.zeros((d, most + 1, 2))
        table[:, 0, 0], table[:, 1:, 0] = heights[:, 0], heights
        table[:, 1:-1, 1] = rises[:, 1:]
        table[:, 0, 1] = table[self.columns, self.last, 1] = slope
        at_reference = table[self.columns, self.bin, 0] + self.place * table[self.columns, self.bin, 1]
        table[:, :, 0] -= at_reference[:, None]
        return table.ravel()

    def _heights(self, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Heights at knots relative to the first, rises over segments, and slopes outside for a step of width."""
        own = np.zeros(self.mine.shape)
        own[self.mine] = w
        line = own[:, 0].copy()
        rises = self.unit[:, None] * own + line[:, None] * self.lengths
        rises[:, 0] = 0.0
        return np.cumsum(rises, axis=1), rises, self.sign * line

    def back(self, z: np.ndarray) -> np.ndarray:
        sums = z.reshape(len(self.counts), -1, 2).copy()
        total = sums[:, :, 0].sum(axis=1)
        sums[self.columns, self.bin, 0] -= total
        sums[self.columns, self.bin, 1] -= self.place * total
        outside = sums[:, 0, 1] + sums[self.columns, self.last, 1]
        by_height = sums[:, 1:, 0].copy()
        by_height[:, 0] += sums[:, 0, 0]
        by_rise = np.zeros(self.mine.shape)
        by_rise[:, 1:] = np.where(self.mine[:, 1:], sums[:, 1:-1, 1], 0.0)
        by_rise += np.cumsum(by_height[:, ::-1], axis=1)[:, ::-1]
        found = self.unit[:, None] * by_rise
        found[:, 0] = (by_rise * self.lengths).sum(axis=1) + self.sign * outside
        return np.asarray(found[self.mine])

    def curves(self, w: Floats) -> Curves:
        """The curves of weights w, 0 at their first knots."""
        heights, _, slope = self._heights(w)
        return Curves(self.knots.values, heights[self.mine], self.knots.starts, slope / self.knots.width)

    def blocks(self, moments: Floats, weight: float | None = None) -> Floats:
        """Σ over rows of weight · φ φᵀ within each column's features, around their means: d matrices.

        moments: Σ weight, Σ weight · position and Σ weight · position² of every bin of every column (d × bins × 3).
        weight: of all rows, if moments leave out CSR's zeros, at which features are 0.
        """
        d, most = self.mine.shape
        tables = np.empty((most, d, most + 1, 2))
        for k in range(most):  # the k-th feature of every column at once
            own = np.zeros(self.mine.shape)
            own[:, k] = 1.0
            tables[k] = self.scores(own[self.mine]).reshape(d, most + 1, 2)
        h, s = (np.ascontiguousarray(tables[..., part].transpose(1, 0, 2)) for part in (0, 1))
        m0, m1, m2 = (moments[:, None, :, part] for part in (0, 1, 2))
        found = np.matmul(h * m0 + s * m1, h.transpose(0, 2, 1)) + np.matmul(h * m1 + s * m2, s.transpose(0, 2, 1))
        sums = (h * m0 + s * m1).sum(axis=2)
        total = np.maximum(moments[:, :, 0].sum(axis=1) if weight is None else np.full(d, weight), 1e-300)
        found -= sums[:, :, None] * sums[:, None, :] / total[:, None, None]
        return np.asarray(found * (self.mine[:, :, None] & self.mine[:, None, :]))


class Blocks:
    """A block-diagonal matrix with a block for each column, used like a Hessian's diagonal as a preconditioner."""

    __array_ufunc__ = None  # lets this class handle a vector divided by it

    def __init__(self, blocks: Floats, mine: np.ndarray):
        self.blocks, self.mine = blocks, mine
        self.inverse: np.ndarray | None = None

    def __rmul__(self, factor: float) -> "Blocks":
        return Blocks(factor * self.blocks, self.mine)

    def __add__(self, number: float) -> "Blocks":
        return Blocks(self.blocks + number * np.eye(self.blocks.shape[1]), self.mine)

    def __rtruediv__(self, v: Floats) -> Floats:
        """The solution of (this) u = v."""
        if self.inverse is None:
            self.inverse = positive_inverse(self.blocks)
        own = np.zeros(self.mine.shape)
        own[self.mine] = v
        return np.asarray(np.matmul(self.inverse, own[:, :, None])[:, :, 0][self.mine])


def positive_inverse(blocks: Floats) -> Floats:
    """The inverses of positive definite matrices, of which rounding may have left only the large eigenvalues."""
    try:
        np.linalg.cholesky(blocks)  # fails where the least eigenvalue is lost
        return np.asarray(np.linalg.inv(blocks), np.float64)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(np.where(np.isfinite(blocks), blocks, 0.0))
        least = np.maximum(np.finfo(float).eps * values.shape[1] * values[:, -1:], 1.0)
        return np.asarray((axes / np.maximum(values, least)[:, None, :]) @ axes.transpose(0, 2, 1))


class CurvePass(MixedPass):
    """A pass in T w with the Hessian's blocks: features of one curve are correlated, those of two curves rarely."""

    inner: Any  # a pass over bins, those of a sample if it is one of rows in parts
    mixing: CurveBasis

    def __init__(self, inner: Pass, mixing: CurveBasis, design: Bins):
        super().__init__(inner, mixing)
        self.design = design

    def diagonal(self, w: np.ndarray) -> Vector:
        """The blocks from a few rows of every n-th query, by the diagonal of the Hessian in scores.

        None for small data, where products are cheap and the active pairs change much from step to step.
        """
        if self.design.numbers < MANY_NUMBERS:
            return None
        weight = self.inner.degrees(self._within(w))
        if weight is None:
            return None
        rows = np.flatnonzero(weight)
        rows = rows[:: max(1, len(rows) // ROWS_OF_A_LOOK)]
        if not len(rows):
            return None
        own, moments = float(weight[rows].sum()), self.inner.design.moments(rows, weight[rows])
        return Blocks(float(weight.sum()) / own * self.mixing.blocks(moments, own), self.mixing.mine)


class CurveDesign(MixedDesign):
    """Φ = Ψ T of curves; inner: Bins, or a design of bins in parts."""

    inner: Bins
    mixing: CurveBasis

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        return CurvePass(self.inner.sweep(loss, preferences), self.mixing, self.inner)

    @property
    def smoothness(self) -> float:
        return self.mixing.smoothness

    def with_smoothness(self, smoothness: float) -> "CurveDesign":
        """The design at another smoothness, on the same bins."""
        return CurveDesign(self.inner, self.mixing.with_smoothness(smoothness))

    def rescaled(self, w: Floats, smoothness: float) -> Floats:
        """The weights at another smoothness that give the same curves as w does here."""
        return self.mixing.rescaled(w, smoothness)

    def shapes(self, w: Floats) -> tuple[Curves, list[Floats]]:
        """The curves of weights w, and no surfaces."""
        return self.mixing.curves(w), []


def binned_design(X: Matrix, knots: Knots, device: Device = None) -> Bins:
    """Ψ for rows X, on a PyTorch device if one is given."""
    if isinstance(X, RowsView) and X.sparse:
        X = X.copied("AdditiveRankSVM of sparse rows")
    return BinnedDesign(X, knots) if device is None else TorchBins(X, knots, device)


class SurfaceDesign(Design):
    """Φ of some pairs of columns: a pass costs O(rows · pairs), by NumPy."""

    def __init__(self, X: Matrix, grids: list[SurfaceGrid], smoothness: float):
        self.grids, self.smoothness = grids, smoothness
        self.cells: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for grid in grids:
            cell, p, q = grid.cells(X)
            self.cells.append((cell.astype(np.int32), p.astype(np.float32), q.astype(np.float32)))
        sizes = [(a - 1) * (b - 1) for a, b in (grid.shape for grid in grids)]
        self.starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.shape, self.numbers = (X.shape[0], int(self.starts[-1])), X.shape[0] * len(grids)

    def _unit(self, k: int) -> float:
        return float(1.0 / np.sqrt(self.smoothness * (self.starts[k + 1] - self.starts[k])))

    def heights(self, w: Floats) -> list[Floats]:
        """Heights at the points of every grid, 0 along its first row and column."""
        found = []
        for k, grid in enumerate(self.grids):
            points = np.zeros(grid.shape)
            rises = w[self.starts[k] : self.starts[k + 1]].reshape(grid.shape[0] - 1, grid.shape[1] - 1)
            points[1:, 1:] = self._unit(k) * rises.cumsum(axis=0).cumsum(axis=1)
            found.append(points)
        return found

    def scores(self, w: np.ndarray) -> np.ndarray:
        total = np.zeros(self.shape[0])
        for (cell, p, q), heights in zip(self.cells, self.heights(w), strict=True):
            total += looked_up(corners(heights), cell, p, q)
        return total

    def back(self, z: np.ndarray) -> np.ndarray:
        found = np.empty(self.shape[1])
        for k, (grid, (cell, p, q)) in enumerate(zip(self.grids, self.cells, strict=True)):
            rows, columns = grid.shape[0] - 1, grid.shape[1] - 1
            u = p.astype(np.float64), q.astype(np.float64)
            terms = (z, z * u[0], z * u[1], z * u[0] * u[1])
            a, b, c, d = (np.bincount(cell, term, rows * columns).reshape(rows, columns) for term in terms)
            at = np.zeros(grid.shape)  # by heights
            at[:-1, :-1] += a - b - c + d
            at[1:, :-1] += b - d
            at[:-1, 1:] += c - d
            at[1:, 1:] += d
            above = at[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
            found[self.starts[k] : self.starts[k + 1]] = self._unit(k) * above[1:, 1:].ravel()
        return found

    def with_smoothness(self, smoothness: float) -> "SurfaceDesign":
        """The same at another smoothness."""
        other = copy(self)
        other.smoothness = smoothness
        return other


class StackedDesign(Design):
    """Φ = (Φ of curves, Φ of surfaces)."""

    def __init__(self, curves: CurveDesign, surfaces: SurfaceDesign):
        self.curves, self.surfaces, self.border = curves, surfaces, curves.shape[1]
        self.shape = curves.shape[0], curves.shape[1] + surfaces.shape[1]
        self.numbers = curves.numbers + surfaces.numbers
        self.breadth = curves.mixing.breadth + len(surfaces.grids)

    @property
    def smoothness(self) -> float:
        return self.curves.smoothness

    def scores(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.curves.scores(w[: self.border]) + self.surfaces.scores(w[self.border :]))

    def back(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate((self.curves.back(z), self.surfaces.back(z)))

    def with_smoothness(self, smoothness: float) -> "StackedDesign":
        return StackedDesign(self.curves.with_smoothness(smoothness), self.surfaces.with_smoothness(smoothness))

    def rescaled(self, w: Floats, smoothness: float) -> Floats:
        factor = np.sqrt(smoothness / self.smoothness)
        return np.concatenate((self.curves.rescaled(w[: self.border], smoothness), factor * w[self.border :]))

    def shapes(self, w: Floats) -> tuple[Curves, list[Floats]]:
        return self.curves.shapes(w[: self.border])[0], self.surfaces.heights(w[self.border :])


class ListedShapes(RowsDesign):
    """The columns of a design of shapes as a matrix, for solvers that visit single rows."""

    def __init__(self, shaped: CurveDesign | StackedDesign):
        super().__init__(np.stack([shaped.scores(e) for e in np.eye(shaped.shape[1])], axis=1))
        self.shaped = shaped

    @property
    def smoothness(self) -> float:
        return float(self.shaped.smoothness)

    def with_smoothness(self, smoothness: float) -> "ListedShapes":
        return ListedShapes(self.shaped.with_smoothness(smoothness))
