"""Checks of single numbers that users pass, or write into files."""

import re
from numbers import Real
from typing import Any

import numpy as np


def positive(name: str, value: Any, least: float | None = None) -> float:
    """`value` as a finite number above 0, or of at least `least`; a ValueError names it.

    >>> positive("C", 2)
    2.0
    """
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not np.isfinite(number) or (number <= 0 if least is None else number < least):
        kind = "positive number" if least is None else f"number of at least {least:g}"
        raise ValueError(f"{name} must be a {kind}, not {value!r}")
    return number


def whole(name: str, value: Any, least: int = 1) -> int:
    """`value` as a whole number of at least `least`; a ValueError names it."""
    real = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    number = int(value) if np.isfinite(real) and real % 1 == 0 else least - 1
    if number < least:
        kind = "positive whole number" if least == 1 else f"whole number of at least {least}"
        raise ValueError(f"{name} must be a {kind}, not {value!r}")
    return number


_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def decimal(text: str) -> float | None:
    """The finite number that `text` spells with plain digits, or None: not Python's 1_0, nor 0x10, 1e999 or nan.

    >>> decimal("-2.5e-3"), decimal("1_0"), decimal("1e999")
    (-0.0025, None, None)
    """
    value = float(text) if _DECIMAL.fullmatch(text) else np.inf
    return value if np.isfinite(value) else None


def whole_decimal(text: str) -> int | None:
    """The whole number below 10¹⁸ that `text` spells with plain digits, or None.

    >>> whole_decimal("-7"), whole_decimal("7.0"), whole_decimal("12345678901234567890")
    (-7, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None
