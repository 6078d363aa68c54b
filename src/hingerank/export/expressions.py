"""Vespa's ranking expressions, as far as exports write them, evaluated over whole columns without running any code.

comparison = sum [("<" | "<=" | ">" | ">=" | "==") sum]
sum        = product {("+" | "-") product}
product    = factor {("*" | "/") factor}
factor     = "-" factor | "(" comparison ")" | number | "if" "(" comparison "," sum "," sum ")"
           | ("log" | "fabs" | "isNan") "(" sum ")" | name ["(" word ")"]
"""

import operator
import re
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np

from hingerank.arrays import Given
from hingerank.export.forms import ExportError

T = TypeVar("T")
Column: TypeAlias = np.ndarray | np.float64  # a value for each row, or the same for all
TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(<=|>=|==|[-+*/()<>,]))", re.ASCII)
TESTS: dict[str, Callable[..., Column]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
}  # fmt: skip
JOINS: dict[str, Callable[..., Column]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Column]] = {
    "log": np.log, "fabs": np.abs, "isNan": lambda x: np.isnan(x).astype(np.float64),
}  # fmt: skip


def evaluate(text: str, values: Given) -> Column:
    """The value of an expression.

    Parameters
    ----------
    text : the expression
    values : of features, by how they are written there, such as ``attribute(title)`` or ``scaled_1``

    Examples
    --------
    >>> float(evaluate("if (attribute(a) < 2, 3 * attribute(a), -1)", {"attribute(a)": 1.5}))
    4.5
    """
    reader = _Reader(text, values)
    with np.errstate(all="ignore"):  # both branches of an `if` are evaluated
        found = reader.comparison()
    reader.take("")
    return found


class _Reader:
    """The tokens of an expression, read from left to right."""

    def __init__(self, text: str, values: Given):
        self.values, self.tokens, end = values, [], 0
        text = text.rstrip()
        while end < len(text):
            match = TOKEN.match(text, end)
            if match is None:
                raise ExportError(f"the expression cannot be read at {text[end : end + 40]!r}")
            self.tokens.append(match[match.lastindex or 0])
            end = match.end()
        self.tokens = [*self.tokens, "", ""][::-1]  # two ends: one is taken where an operand is missing

    def take(self, expected: str | None = None) -> str:
        """The next token, which must be the expected one, if given."""
        token = self.tokens.pop() if self.tokens else ""
        if expected is not None and token != expected:
            raise ExportError(f"the expression has {token or 'its end'!r}, expected {expected or 'its end'!r}")
        return token

    def comparison(self) -> Column:
        left = self.sum()
        return TESTS[self.take()](left, self.sum()) if self.tokens[-1] in TESTS else left

    def sum(self) -> Column:
        found = self.product()
        while self.tokens[-1] in ("+", "-"):
            found = JOINS[self.take()](found, self.product())
        return found

    def product(self) -> Column:
        found = self.factor()
        while self.tokens[-1] in ("*", "/"):
            found = JOINS[self.take()](found, self.factor())
        return found

    def factor(self) -> Column:
        token = self.take()
        if token == "-":
            return -self.factor()
        if token == "(":
            return self.closed(self.comparison())
        if token == "if":
            self.take("(")
            test = self.comparison()
            self.take(",")
            yes = self.sum()
            self.take(",")
            return np.where(test, yes, self.closed(self.sum()))
        if not token:
            raise ExportError("the expression ends too early")
        if token[:1].isdigit():
            return np.float64(token)
        if token in FUNCTIONS:
            self.take("(")
            return FUNCTIONS[token](self.closed(self.sum()))
        name = token
        if self.tokens[-1] == "(":
            self.take()
            name = self.closed(f"{name}({self.take()})")
        if name not in self.values:
            raise ExportError(f"the expression contains the unknown name {name!r}")
        return self.values[name]

    def closed(self, found: T) -> T:
        self.take(")")
        return found
