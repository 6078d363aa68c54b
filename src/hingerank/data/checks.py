"""Checks of single numbers that users pass."""

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
