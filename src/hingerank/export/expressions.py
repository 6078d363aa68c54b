"""Columns and the score of a model as expressions, for the languages whose `Words` say how they write them."""

from collections.abc import Iterator, Sequence
from typing import SupportsFloat

import numpy as np

from hingerank.data.scaling import ColumnScaler, LogScaler, QuantileScaler, Scaler
from hingerank.export.forest import MISSING_LEFT, ZERO_IS_MISSING
from hingerank.export.forms import Affine, Form, Shapes, Trees
from hingerank.features.curves import Curves


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
        """The first value if x is below the first knot, the second if it is below the second, …, else the last: nested
        choices that bisect the knots."""
        if not len(knots):
            return values[0]
        half = len(knots) // 2
        low = self.pieces(x, knots[:half], values[: half + 1])
        high = self.pieces(x, knots[half + 1 :], values[half + 1 :])
        return self.choose(self.join(x, "<", self.number(knots[half])), low, high)


def score_expression(words: Words, form: Form, columns: dict[int, str]) -> str:
    """The score of a linear model, curves, surfaces or trees; columns: number -> expression of those it uses."""
    body = form.body
    if isinstance(body, Affine):
        terms = [f"{words.number(body.weights[j])} * {x}" for j, x in columns.items()]
        return total([words.number(body.offset), *terms])
    if isinstance(body, Trees):
        return total([words.number(body.start), *(_tree(words, body, root, columns) for root in body.roots.tolist())])
    assert isinstance(body, Shapes)
    curves = [_curve(words, body.curves, j, x) for j, x in columns.items()]
    return total([words.number(0.0), *curves, *_products(words, body, columns)])


def filled_expression(words: Words, form: Form, column: int, x: str) -> str:
    """A column as the model takes it, made of the feature x: filled if missing, or 1 if it is missing and else 0."""
    if form.filled is None:
        return x
    own = (form.filled.values[column], x) if column < form.n_features else (1.0, words.number(0.0))
    return words.choose(words.missing(x), words.number(own[0]), own[1])


def scaled_expression(words: Words, scaler: Scaler, column: int, x: str) -> str:
    """The scaled value of an expression x of a column."""
    if isinstance(scaler, ColumnScaler):
        moved = words.join(x, "-", words.number(scaler.centre_[column]))
        return words.join(moved, "/", words.number(scaler.width_[column]))
    if isinstance(scaler, LogScaler):  # with u = 1 + |x| rounded, log(u) |x| / (u - 1) is accurate for small |x| too
        size, one = words.call(words.size, x), words.number(1.0)
        u = words.join(one, "+", size)
        exact = words.join(words.join(words.call(words.logarithm, u), "*", size), "/", words.join(u, "-", one))
        log, width = words.choose(words.join(u, "=", one), size, exact), scaler.width_[column]
        signed = words.choose(words.join(x, "<", words.number(0.0)), words.number(-width), words.number(width))
        return words.join(log, "/", signed)
    assert isinstance(scaler, QuantileScaler)
    return _place(words, scaler.quantiles_[column], x)


def _place(words: Words, quantiles: np.ndarray, x: str) -> str:
    """The position of x among quantiles: linear between two knots, and the middle of equal ones at a knot."""
    knots, first = np.unique(quantiles, return_index=True)
    top = len(quantiles) - 1
    last = np.append(first[1:], top + 1) - 1
    values = [words.number(0.0)]
    for k, knot in enumerate(knots):
        value, at = words.number(1.0), words.number(knot)
        if k + 1 < len(knots):
            between = words.join(words.join(x, "-", at), "/", words.number(knots[k + 1] - knot))
            value = words.join(words.join(words.number(last[k]), "+", between), "/", words.number(top))
        if first[k] < last[k]:
            here = words.number(0.5 * (first[k] + last[k]) / top)
            value = words.choose(words.join(x, "=", at), here, value)
        values.append(value)
    return words.pieces(x, knots.tolist(), values)


def total(terms: Sequence[str]) -> str:
    """The sum of terms, bisected: engines limit the depth of expressions."""
    if len(terms) <= 8:
        return f"({' + '.join(terms)})"
    half = len(terms) // 2
    return f"({total(terms[:half])} + {total(terms[half:])})"


def _curve(words: Words, body: Curves, column: int, x: str) -> str:
    """The line of the segment that x is in, or those beyond the outermost knots."""
    number, (knots, heights) = words.number, body.of(column)
    slope = number(body.slopes[column])
    lines = [f"{number(heights[0])} + {slope} * ({x} - {number(knots[0])})"]
    for k in range(1, len(knots)):
        rise, length = number(heights[k] - heights[k - 1]), number(knots[k] - knots[k - 1])
        lines.append(f"{number(heights[k - 1])} + {rise} * (({x} - {number(knots[k - 1])}) / {length})")
    lines.append(f"{number(heights[-1])} + {slope} * ({x} - {number(knots[-1])})")
    return words.pieces(x, knots.tolist(), lines)


def _products(words: Words, body: Shapes, columns: dict[int, str]) -> Iterator[str]:
    """Products of two ramps."""
    for k, weight in enumerate(body.weights):
        ramps = []
        for j, begin, end in zip(body.columns[k].tolist(), body.begins[k], body.ends[k], strict=True):
            place = f"({columns[j]} - {words.number(begin)}) / {words.number(end - begin)}"
            ramps.append(words.pieces(columns[j], (begin, end), (words.number(0.0), place, words.number(1.0))))
        yield " * ".join((words.number(weight), *ramps))


def _tree(words: Words, body: Trees, node: int, columns: dict[int, str]) -> str:
    """Nested choices: a comparison with a missing value is not true, so these take the last branch."""
    if body.feature[node] < 0:
        return words.number(body.number[node])
    x, limit, first = columns[int(body.feature[node])], words.number(body.number[node]), int(body.child[node])
    left, right = _tree(words, body, first, columns), _tree(words, body, first + 1, columns)
    zero = f" AND {x} <> 0" if body.missing[node] & ZERO_IS_MISSING else ""  # in SQL; no other format has such trees
    if body.missing[node] & MISSING_LEFT:
        return words.choose(f"{x} > {limit}{zero}", right, left)
    return words.choose(f"{x} <= {limit}{zero}", left, right)
