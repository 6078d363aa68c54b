"""Surfaces over pairs of columns: bilinear between the points of a grid at quantiles, and constant beyond it."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from hingerank.arrays import Floats, Integers, Matrix
from hingerank.features.curves import Knots

MOST_COLUMNS = 200  # columns among which the best pairs are searched


class SurfaceGrid(NamedTuple):
    """A grid over two columns: x are knots of column `first`, y are knots of column `second`."""

    first: int
    second: int
    x: Floats
    y: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x), len(self.y)

    def cells(self, X: Matrix) -> tuple[Integers, Floats, Floats]:
        """The cell of every row, and the row's position in the cell in x and in y, from 0 to 1.

        The cells are numbered along y first.
        """
        i, p = _places(column_of(X, self.first), self.x)
        j, q = _places(column_of(X, self.second), self.y)
        return i * (len(self.y) - 1) + j, p, q

    def values(self, X: Matrix, heights: Floats) -> Floats:
        """The surface with these heights at the rows of X."""
        cell, p, q = self.cells(X)
        return looked_up(corners(heights), cell, p, q)


def column_of(X: Matrix, c: int) -> Floats:
    """Column c as a vector of float64."""
    column = X[:, [c]].toarray().ravel() if sparse.issparse(X) else X[:, c]
    return np.asarray(column, np.float64)


def _places(values: Floats, knots: Floats) -> tuple[Integers, Floats]:
    k = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    return k, np.clip((values - knots[k]) / (knots[k + 1] - knots[k]), 0.0, 1.0)


def corners(heights: Floats) -> Floats:
    """The coefficients a, b, c, d of every cell. Its value at position (p, q) is a + b p + c q + d p q."""
    low, right, up, both = heights[:-1, :-1], heights[1:, :-1], heights[:-1, 1:], heights[1:, 1:]
    return np.stack((low, right - low, up - low, both - right - up + low), axis=-1).reshape(-1, 4)


def looked_up(table: Floats, cell: Integers, p: Floats, q: Floats) -> Floats:
    """a + b p + c q + d p q with the coefficients of each row's cell."""
    a, b, c, d = (table[cell, k] for k in range(4))
    return a + b * p + q * (c + d * p)


def coarse(knots: Floats, count: int) -> Floats:
    """At most `count` of the knots, evenly spaced, with the outermost ones."""
    return knots[np.unique(np.linspace(0, len(knots) - 1, min(count, len(knots))).round().astype(int))]


def make_grid(knots: Knots, first: int, second: int, count: int) -> SurfaceGrid:
    """The grid of two columns, with at most count × count points at their knots."""
    x, y = (coarse(knots.values[knots.starts[c] : knots.starts[c + 1]], count) for c in (first, second))
    return SurfaceGrid(first, second, x, y)


def best_pairs(X: Matrix, z: Floats, knots: Knots, weight: Floats, most: int, count: int) -> list[tuple[int, int]]:
    """The `most` pairs of columns whose surfaces have the steepest gradient of the loss.

    The steepness of a pair is ‖Σ over rows of z (τ_s - its mean)(τ_t - its mean)‖ over the ramps τ between knots of
    both columns, where z is the gradient of the loss in scores at the curves' optimum. It costs one matrix product.

    Parameters
    ----------
    X : some rows
    z : the loss's gradient in their scores
    knots : the knots of all columns
    weight : a weight for each column; the columns of largest weight are searched, without those of weight below 0
    most : number of pairs
    count : number of knots of a surface in each direction
    """
    able = np.flatnonzero((knots.counts > 1) & (weight >= 0))
    able = np.sort(able[np.argsort(-weight[able], kind="stable")[:MOST_COLUMNS]])
    rises, owner = [], []
    for number, c in enumerate(able.tolist()):
        t = coarse(knots.values[knots.starts[c] : knots.starts[c + 1]], count)
        part = np.clip((column_of(X, c)[:, None] - t[:-1]) / np.diff(t), 0.0, 1.0)
        rises.append((part - part.mean(axis=0)) / np.sqrt(len(t) - 1))
        owner += [number] * (len(t) - 1)
    if len(able) < 2:
        return []
    T = np.concatenate(rises, axis=1)
    squares = np.square(T.T @ (z[:, None] * T))
    begin = np.flatnonzero(np.diff(owner, prepend=-1))
    steepness = np.add.reduceat(np.add.reduceat(squares, begin, axis=0), begin, axis=1)
    i, j = np.triu_indices(len(able), 1)
    order = np.argsort(-steepness[i, j], kind="stable")[:most]
    return [(int(able[i[k]]), int(able[j[k]])) for k in order]
