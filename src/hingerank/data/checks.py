"""Checks of numbers that users pass or write into files, and warnings about missing query ids."""

import inspect
import math
import os
import re
import warnings
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.registry import did_you_mean


def real(value: object) -> float:
    """`value` as a finite float; NaN if it is not a finite number.

    >>> real(2), real("2"), real(True), real(10**400)
    (2.0, nan, nan, nan)
    """
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def positive(name: str, value: object, least: float | None = None) -> float:
    """`value` as a finite number above 0, or of at least `least`. Any other value is a ValueError.

    >>> positive("C", 2)
    2.0
    """
    number = real(value)
    if math.isnan(number) or (number <= 0 if least is None else number < least):
        kind = "positive number" if least is None else f"number of at least {least:g}"
        raise ValueError(f"{name} must be a {kind}, not {value!r}")
    return number


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as a whole number of at least `least`. Any other value is a ValueError."""
    number = int(value) if real(value) % 1 == 0 else least - 1
    if number < least:
        kind = "positive whole number" if least == 1 else f"whole number of at least {least}"
        raise ValueError(f"{name} must be a {kind}, not {value!r}")
    return number


def list_of(name: str, values: Any, what: str) -> list[Any]:
    """`values` as a list. A single value, or a text, is a ValueError.

    >>> list_of("folds", (1, 2), "folds")
    [1, 2]
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a list of {what}, not {type(values).__name__}")
    return list(values)


def refuse_negative(name: str, weights: np.ndarray) -> None:
    """A ValueError that names the first weight that is negative or not finite."""
    if np.isfinite(weights).all() and not (weights < 0).any():
        return
    at = tuple(np.argwhere(~(weights >= 0) | np.isinf(weights))[0].tolist())
    place = ", ".join(map(str, at))
    raise ValueError(f"{name}[{place}] is {weights[at]:g}: weights must be finite and not negative")


def fraction(name: str, value: object, inside: bool = False) -> float:
    """`value` as a number from 0 to 1, or, `inside`, between these. Any other value is a ValueError.

    >>> fraction("noise", 1)
    1.0
    """
    number = real(value)
    if not (0 < number < 1 if inside else 0 <= number <= 1):
        raise ValueError(f"{name} must be a number {'between 0 and 1' if inside else 'from 0 to 1'}, not {value!r}")
    return number


def generator(seed: Any, name: str = "random_state") -> np.random.Generator:
    """NumPy's generator of random numbers for a seed, or with None for any. What is no seed is a ValueError."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a whole number of at least 0, or None, not {seed!r}") from None


def one_of(name: str, value: object, *known: str) -> str:
    """`value`, which must be one of some words. Any other value is a ValueError that names those that are like it.

    >>> one_of("ties", "stable", "average", "stable")
    'stable'
    """
    if not isinstance(value, str) or value not in known:
        words, hint = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}", did_you_mean(str(value), known)
        raise ValueError(f"{name} must be {words}, not {value!r}{hint}")
    return value


DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def vector(name: str, values: Any, size: int) -> np.ndarray:
    """`values` as a contiguous float64 vector of `size` numbers, for compiled code. Another shape is a ValueError.

    >>> vector("w", [1, 2], 2)
    array([1., 2.])
    """
    found = np.ascontiguousarray(values, np.float64) if np.ndim(values) else np.array(values, np.float64)
    if found.shape != (size,):
        raise ValueError(f"{name} must be a vector of {size} numbers, not an array of shape {found.shape}")
    return found


def decimal(text: str) -> float | None:
    """The finite number that `text` spells with plain digits. None for anything else: 1_0, 0x10, 1e999, nan.

    >>> decimal("-2.5e-3"), decimal("1_0"), decimal("1e999")
    (-0.0025, None, None)
    """
    value = float(text) if DECIMAL.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def whole_decimal(text: str) -> int | None:
    """The whole number below 10¹⁸ that `text` spells with plain digits. None for anything else.

    >>> whole_decimal("-7"), whole_decimal("7.0"), whole_decimal("12345678901234567890")
    (-7, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


class OneQueryWarning(UserWarning):
    """The rows have no query ids, so all of them count as one query."""


class ScaleWarning(UserWarning):
    """The columns' standard deviations differ so much that only the largest ones affect the ranker.

    Parameters
    ----------
    problem : what was found
    remedy : what a user of Python can do about it; it follows the problem after a semicolon
    option : the parameter that the remedy is about, by which the command line shows another remedy
    """

    def __init__(self, problem: str, remedy: str = "", option: str = "scale") -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem, self.option = problem, option


class WeakFitWarning(ScaleWarning):
    """C is so small for features of this scale that the penalty on the weights leaves almost no fit to the data."""


_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the user's line, which called this package, and not at a line inside it."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_one_query(y: np.ndarray, how: str) -> None:
    """Warn that all rows count as one query, with the number of rows and pairs. `how` says what to do about it."""
    counts = np.unique(y, return_counts=True)[1].astype(np.int64)
    pairs = int(len(y) ** 2 - (counts**2).sum()) // 2
    if pairs:
        warn(
            f"there are no query ids: all {len(y):,} rows count as one query, with {pairs:,} pairs of different grade "
            f"between them; {how}",
            OneQueryWarning,
        )


GIVE_IDS = (
    "give qid= (an id per row; scikit-learn's searches and pipelines pass it on after set_fit_request(qid=True) and "
    "set_score_request(qid=True)), or pass qid=0 if it is one query"
)
