"""Piecewise-linear curves of single columns, their knots and values, and surfaces over pairs of columns.

score(x) = Σ_f h_f(x_f). Each h_f is linear between knots at quantiles of the training rows, and has a slope of its own
beyond the outermost knots (kernels/curves.py). A surface is bilinear between the points of a grid at quantiles, and
constant beyond it.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from hingerank.arrays import ArrayLike, Floats, Integers, Matrix
from hingerank.data.blocks import evenly
from hingerank.data.describe import column_quantiles
from hingerank.data.files import DataError
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.kernels.curves import line_entries, line_parts, line_scores, line_tables
from hingerank.kernels.threads import run_shards

RUG = 25  # number of quantiles of each column that are stored for plots
ROWS_AT_ONCE = 1024  # dense rows whose values stay in the second-level cache
MOST_COLUMNS = 200  # columns among which the best pairs are searched
Tables = tuple[Floats, Floats]


class Knots(NamedTuple):
    """The knots of all columns. Those of column c are values[starts[c]:starts[c + 1]], ascending, at least one.

    `width` is the standard deviation of each column (1 if it is 0), and `rug` has a few of its quantiles.
    """

    values: Floats
    starts: Integers
    width: Floats
    rug: Floats

    @property
    def counts(self) -> Integers:
        return np.diff(self.starts)


class Curves(NamedTuple):
    """h_c(x): it has these heights at the knots, is linear between them, and has the slope of column c outside."""

    knots: Floats
    heights: Floats
    starts: Integers
    slopes: Floats

    def scores(self, X: Matrix, tables: Tables | None = None) -> Floats:
        """Σ_c h_c(x_c) of every row; tables: the result of `tables`, if it is at hand."""
        return self._evaluated(X, tables, apart=False)[:, 0]

    def parts(self, X: Matrix) -> Floats:
        """h_c(x_c) of every row and column."""
        return self._evaluated(X, None, apart=True)

    def tables(self) -> Tables:
        """The curves in the form in which values are looked up."""
        return line_tables(self.knots, self.heights, self.starts, self.slopes)

    def of(self, column: int) -> tuple[Floats, Floats]:
        """The knots of a column, and the heights at them."""
        own = slice(self.starts[column], self.starts[column + 1])
        return self.knots[own], self.heights[own]

    def at(self, column: int, x: ArrayLike) -> Floats:
        """h_c at any values x."""
        x = np.asarray(x, np.float64)
        knots, heights = self.of(column)
        outside = x - np.clip(x, knots[0], knots[-1])
        return np.interp(x, knots, heights) + self.slopes[column] * outside

    def _evaluated(self, X: Matrix, tables: Tables | None, apart: bool) -> Floats:
        (n, d), (knots, lines) = X.shape, self.tables() if tables is None else tables
        out, zero, height = np.zeros((n, d if apart else 1)), np.zeros(d), ROWS_AT_ONCE
        if sparse.issparse(X):
            height *= 8  # some Python calls for each block
            line_entries(zero, np.arange(d, dtype=X.indices.dtype), knots, lines)

        def some(first: int) -> None:
            rows = slice(first, first + height)
            block, own = X[rows].astype(np.float64), out[rows]  # so that kernels are compiled once
            if sparse.issparse(X):  # by the differences from the curves at 0, which absent entries do not have
                line_entries(block.data, block.indices, knots, lines)
                block.data -= zero[block.indices]
                own[:] = block.toarray() + zero if apart else block.sum(axis=1) + zero.sum()
            elif apart:
                line_parts(np.ascontiguousarray(block), knots, lines, own)
            else:
                line_scores(np.ascontiguousarray(block), knots, lines, own[:, 0])

        run_shards(some, range(0, n, height))
        return out


def place_knots(X: Matrix, count: int, weight: Floats | None = None, width: Floats | None = None) -> Knots:
    """At most `count` knots for each column, at evenly spaced quantiles of its values from the least to the largest.

    A quantile is the least value x such that at least that fraction of the rows, by weight, is at most x. A row of
    weight 2 is therefore the same as two equal rows. If there are more than SAMPLED_ROWS rows, evenly spaced ones are
    used. Equal quantiles make one knot. `width` has the columns' standard deviations, if X is only a part of the rows.

    Examples
    --------
    >>> place_knots(np.array([[0.0], [0.0], [1.0], [5.0]]), 3).values.tolist()
    [0.0, 5.0]
    """
    if width is None:
        with np.errstate(over="ignore", invalid="ignore"):
            width = make_scaler("standard").fit(X, sample_weight=weight).width_
    if not np.isfinite(width).all():
        raise DataError("squares of the features overflow: scale the features first (scale=...)")
    rows, asked = evenly(X.shape[0], SAMPLED_ROWS), np.concatenate((np.linspace(0, 1, count), np.linspace(0, 1, RUG)))
    found = column_quantiles(X[rows], None if weight is None else weight[rows], asked)
    columns = [np.unique(own[:count]) for own in found]
    starts = np.concatenate(([0], np.cumsum([len(column) for column in columns])))
    return Knots(np.concatenate(columns), starts, width, found[:, count:])


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
    """Column c as a contiguous vector of float64."""
    return np.ascontiguousarray(X[:, [c]].toarray().ravel() if sparse.issparse(X) else X[:, c], np.float64)


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


def _coarse(knots: Knots, c: int, count: int) -> Floats:
    """At most `count` of a column's knots, evenly spaced, with the outermost ones."""
    own = knots.values[knots.starts[c] : knots.starts[c + 1]]
    return own[np.unique(np.linspace(0, len(own) - 1, min(count, len(own))).round().astype(int))]


def make_grid(knots: Knots, first: int, second: int, count: int) -> SurfaceGrid:
    """The grid of two columns, with at most count × count points at their knots."""
    return SurfaceGrid(first, second, _coarse(knots, first, count), _coarse(knots, second, count))


def best_pairs(X: Matrix, z: Floats, knots: Knots, weight: Floats, most: int, count: int) -> list[tuple[int, int]]:
    """The `most` pairs of columns whose surfaces have the steepest gradient of the loss.

    The steepness of a pair is ‖Σ over rows of z (τ_s - its mean)(τ_t - its mean)‖ over the ramps τ between knots of
    both columns, where z is the gradient of the loss in the scores of some rows X at the curves' optimum. It costs one
    matrix product. The columns of largest weight are searched, without those of weight below 0; `count` is the number
    of knots of a surface in each direction.
    """
    able = np.flatnonzero((knots.counts > 1) & (weight >= 0))
    able = np.sort(able[np.argsort(-weight[able], kind="stable")[:MOST_COLUMNS]])
    rises, owner = [], []
    for number, c in enumerate(able.tolist()):
        t = _coarse(knots, c, count)
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
