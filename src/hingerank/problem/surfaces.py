"""Designs of surfaces over pairs of columns, and of curves together with surfaces.

The features of a pair are the products τ_s(x) τ_t(y) / √(smoothness · m_x m_y) of the ramps of both columns over the
segments of a grid; w contains their rises, whose sums along both axes are the heights at the grid's points.
"""

from copy import copy
from typing import Protocol

import numpy as np

from hingerank.arrays import Floats, Matrix
from hingerank.features.curves import Curves
from hingerank.features.surfaces import SurfaceGrid, corners, looked_up
from hingerank.problem.binned import CurveDesign
from hingerank.problem.design import RowsDesign
from hingerank.problem.problem import Design


class ShapeDesign(Protocol):
    """A design whose weights are shapes at some smoothness."""

    smoothness: float

    def with_smoothness(self, smoothness: float) -> "ShapeDesign":
        """The design at another smoothness, on the same bins."""
        ...

    def rescaled(self, w: Floats, smoothness: float) -> Floats:
        """The weights at another smoothness that give the same shapes as w does here."""
        ...

    def shapes(self, w: Floats) -> tuple[Curves, list[Floats]]:
        """Curves and heights of surfaces for weights w."""
        ...


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

    @property
    def smoothness(self) -> float:
        return self.curves.smoothness

    @property
    def breadth(self) -> int:
        return self.curves.breadth + len(self.surfaces.grids)

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
