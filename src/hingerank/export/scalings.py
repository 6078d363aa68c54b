"""How features are scaled before they are scored, for exports.

`SCALINGS` has one for every scaler. A scaling of columns has its values, its expression in another language (through
that language's `Words`), and an approximate inverse; a scaling within queries has only its name.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from hingerank.data.scaling import (
    ColumnScaler,
    LogScaler,
    QuantileScaler,
    QueryMinMaxScaler,
    QueryStandardScaler,
    Scaler,
    make_scaler,
)
from hingerank.kernels.scaling import columns_dense, log_dense, quantile_dense


class Words:
    """Expressions in a language with infix operators; other languages override these methods."""

    equals = "="
    logarithm, size = "LN", "ABS"

    def number(self, value: SupportsFloat) -> str:
        """A literal."""
        text = repr(float(value))
        return f"({text})" if text.startswith("-") else text

    def join(self, a: str, operator: str, b: str) -> str:
        """a + b, a - b, a * b, a / b, a < b, or a = b."""
        return f"({a} {self.equals if operator == '=' else operator} {b})"

    def call(self, function: str, a: str) -> str:
        """A call of a function, `logarithm` or `size`."""
        return f"{function}({a})"

    def choose(self, test: str, yes: str, no: str) -> str:
        """`yes` if the test is true, else `no`."""
        raise NotImplementedError

    def missing(self, x: str) -> str:
        """The test whether x is missing."""
        raise NotImplementedError

    def pieces(self, x: str, knots: Sequence[SupportsFloat], values: Sequence[str]) -> str:
        """The first value if x is below the first knot, the second if it is below the second, …, else the last."""
        if not len(knots):
            return values[0]
        half = (len(values) - 1) // 2
        low, high = (
            self.pieces(x, knots[:half], values[: half + 1]),
            self.pieces(x, knots[half + 1 :], values[half + 1 :]),
        )
        return self.choose(f"{x} < {self.number(knots[half])}", low, high)


class ScaledColumns(NamedTuple):
    """x' = (x − centre) / width."""

    centre: np.ndarray
    width: np.ndarray

    @property
    def kind(self) -> str:
        return "columns"

    def values(self, x: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """x' of single values, each with its column, to the last bit as rankers compute it."""
        return _by_kernel(columns_dense, x, self.centre[columns], self.width[columns])

    def written(self, words: Words, column: int, x: str) -> str:
        """x' of an expression x."""
        moved = words.join(x, "-", words.number(self.centre[column]))
        return words.join(moved, "/", words.number(self.width[column]))

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows that are scaled to these, up to rounding."""
        return self.centre + self.width * rows


class Logs(NamedTuple):
    """x' = sign(x) · log(1 + |x|) / width."""

    width: np.ndarray

    @property
    def kind(self) -> str:
        return "log"

    def values(self, x: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return _by_kernel(log_dense, x, self.width[columns])

    def written(self, words: Words, column: int, x: str) -> str:
        """Uses u = 1 + |x|, rounded: log(1 + |x|) = log(u) · |x| / (u − 1) is accurate even for small |x|."""
        size, one = words.call(words.size, x), words.number(1.0)
        u = words.join(one, "+", size)
        exact = words.join(words.join(words.call(words.logarithm, u), "*", size), "/", words.join(u, "-", one))
        log, width = words.choose(words.join(u, "=", one), size, exact), self.width[column]
        signed = words.choose(words.join(x, "<", words.number(0.0)), words.number(-width), words.number(width))
        return words.join(log, "/", signed)

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        return np.copysign(np.expm1(np.minimum(np.abs(rows) * self.width, 600.0)), rows)


class Places(NamedTuple):
    """x' = the position of x among the quantiles of its column: linear between two, the middle of equal ones, 0 below
    the smallest and 1 above the largest. It jumps just below and just above a value that several quantiles share."""

    quantiles: np.ndarray

    @property
    def kind(self) -> str:
        return "quantile"

    def values(self, x: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return _by_kernel(quantile_dense, x, self.quantiles[columns])

    def written(self, words: Words, column: int, x: str) -> str:
        """Nested conditions that bisect the quantiles."""
        knots, first = np.unique(self.quantiles[column], return_index=True)
        top = self.quantiles.shape[1] - 1
        last = np.append(first[1:], top + 1) - 1

        def piece(k: int) -> str:
            """x' between knots k - 1 and k."""
            if k == 0 or k == len(knots):
                return words.number(k > 0)
            below, gap = words.number(knots[k - 1]), words.number(knots[k] - knots[k - 1])
            place = words.join(words.number(last[k - 1]), "+", words.join(words.join(x, "-", below), "/", gap))
            return words.join(place, "/", words.number(top))

        def choice(low: int, high: int) -> str:
            if low == high:
                return piece(low)
            middle = (low + high) // 2
            at, above = words.number(knots[middle]), choice(middle + 1, high)
            if first[middle] < last[middle]:
                here = words.number(0.5 * (first[middle] + last[middle]) / top)
                above = words.choose(words.join(x, "=", at), here, above)
            return words.choose(words.join(x, "<", at), choice(low, middle), above)

        return choice(0, len(knots))

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        """Every other row contains quantiles, where x' jumps; some values are beyond the outermost."""
        top, column = self.quantiles.shape[1] - 1, np.arange(rows.shape[1])
        place = np.clip(rows, 0, 1) * top
        place[::2] = np.round(place[::2])
        low = np.floor(place).astype(np.int64)
        part = place - low
        found = (1 - part) * self.quantiles[column, low] + part * self.quantiles[column, np.minimum(low + 1, top)]
        return found + np.where((rows < 0) | (rows > 1), rows - np.clip(rows, 0, 1), 0.0)


class ScaledWithinQueries(NamedTuple):
    """Features are scaled within each query: "minmax" or "standard"."""

    how: str

    @property
    def kind(self) -> str:
        return f"query-{self.how}"

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        return rows


Scaling = ScaledColumns | Logs | Places | ScaledWithinQueries
SCALINGS: dict[type[Scaler], Callable[[Any], Scaling | None]] = {
    ColumnScaler: lambda scaler: ScaledColumns(scaler.centre_, scaler.width_),
    LogScaler: lambda scaler: Logs(scaler.width_),
    QuantileScaler: lambda scaler: Places(scaler.quantiles_),
    QueryMinMaxScaler: lambda scaler: ScaledWithinQueries("minmax"),
    QueryStandardScaler: lambda scaler: ScaledWithinQueries("standard"),
}


def scaling_kind(name: str | None) -> str:
    """The kind of scaling of a scaler by its name.

    >>> [scaling_kind(name) for name in (None, "standard", "log", "query-minmax")]
    ['none', 'columns', 'log', 'query-minmax']
    """
    scaler = make_scaler(name)
    return "columns" if isinstance(scaler, ColumnScaler) else scaler.name


def _by_kernel(kernel: Callable[..., object], x: np.ndarray, *learnt: np.ndarray) -> np.ndarray:
    """Kernel results for values given as one row of as many columns."""
    out = np.empty((1, len(x)))
    kernel(np.ascontiguousarray(x, np.float64)[None], 0, 1, *map(np.ascontiguousarray, learnt), out)
    return out[0]
