"""Piecewise-linear curves of single columns: their knots and their values.

score(x) = Σ_f h_f(x_f). Each h_f is linear between knots at quantiles of the training rows, and has a slope of its own
beyond the outermost knots. The compiled part is in kernels/curves.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from hingerank.arrays import Floats, Integers, Matrix
from hingerank.data.blocks import evenly
from hingerank.data.files import DataError
from hingerank.data.scaling import make_scaler
from hingerank.kernels.curves import add_curves
from hingerank.kernels.threads import cut_shards, run_shards

SAMPLED_ROWS = 1 << 14  # number of evenly spaced rows from which knots are computed
RUG = 25  # number of quantiles of each column that are stored for plots
NUMBERS_PER_SHARD = 1 << 18


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

    def scores(self, X: Matrix) -> Floats:
        """Σ_c h_c(x_c) of every row."""
        return self._added(X, apart=False)[:, 0]

    def parts(self, X: Matrix) -> Floats:
        """h_c(x_c) of every row and column."""
        return self._added(X, apart=True)

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

    def at_zero(self) -> Floats:
        """h_c(0) of every column."""
        return np.array([self.at(c, 0.0) for c in range(len(self.slopes))])

    def _added(self, X: Matrix, apart: bool) -> Floats:
        n, d = X.shape
        out = np.zeros((n, d if apart else 1))
        zero = self.at_zero() if sparse.issparse(X) else np.zeros(d)
        shards = cut_shards(np.arange(n + 1), max(1, NUMBERS_PER_SHARD // max(1, d)))

        def add(shard: tuple[int, int]) -> None:
            block = X[slice(*shard)].astype(np.float64)  # always float64 and CSR, so that the kernel is compiled once
            if not sparse.issparse(X):
                columns, begins = np.tile(np.arange(d, dtype=np.int32), len(block)), d * np.arange(len(block) + 1)
                rows = np.ascontiguousarray(block).ravel(), columns, begins.astype(np.int32)
            else:
                rows = block.data, block.indices, block.indptr
            add_curves(*rows, *self._in_order(), zero, int(apart), out[slice(*shard)])

        run_shards(add, shards)
        return out

    def _in_order(self) -> tuple[object, ...]:
        return self.knots, self.heights, self.slopes, self.starts


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
    n, d = X.shape
    rows = evenly(n, SAMPLED_ROWS)
    sample, mass = X[rows], np.ones(min(n, SAMPLED_ROWS)) if weight is None else weight[rows]
    if width is None:
        with np.errstate(over="ignore", invalid="ignore"):
            width = make_scaler("standard").fit(X, sample_weight=weight).width_
    if not np.isfinite(width).all():
        raise DataError("squares of the features overflow: scale the features first (scale=...)")
    asked = np.linspace(0, 1, count)
    found = _quantiles(sample, mass, np.concatenate((asked, np.linspace(0, 1, RUG))))
    columns = [np.unique(found[c, :count]) for c in range(d)]
    starts = np.concatenate(([0], np.cumsum([len(column) for column in columns])))
    return Knots(np.concatenate(columns), starts, width, found[:, count:])


def _quantiles(X: Matrix, mass: Floats, asked: Floats) -> Floats:
    """The values of every column at the given fractions of the rows' total weight."""
    total = float(mass.sum())
    wanted = asked * total * (1 - 1e-12)  # so that rounding cannot skip past a fraction that is a whole number of rows
    even = bool((mass == mass[0]).all())
    found = np.empty((X.shape[1], len(asked)))
    if not sparse.issparse(X) and even:
        ordered = np.sort(np.ascontiguousarray(X.T), axis=1)
        at = np.searchsorted(np.cumsum(mass), wanted)
        return ordered[:, np.minimum(at, X.shape[0] - 1)].astype(np.float64)
    by_column = X.tocsc() if sparse.issparse(X) else None
    for c in range(X.shape[1]):
        values, own = _column(X, by_column, c, mass)
        order = np.argsort(values, kind="stable")
        at = np.searchsorted(np.cumsum(own[order]), wanted)
        found[c] = values[order][np.minimum(at, len(values) - 1)]
    return found


def _column(X: Matrix, by_column: Matrix, c: int, mass: Floats) -> tuple[Floats, Floats]:
    """The values of a column and their weights. For CSC, a single 0 has the weight of all absent entries."""
    if by_column is None:
        return np.asarray(X[:, c], np.float64), mass
    entries = slice(by_column.indptr[c], by_column.indptr[c + 1])
    rows = by_column.indices[entries]
    absent = np.ones(len(mass), bool)
    absent[rows] = False
    values = by_column.data[entries].astype(np.float64)
    if not absent.any():
        return values, mass[rows]
    return np.append(values, 0.0), np.append(mass[rows], mass[absent].sum())
