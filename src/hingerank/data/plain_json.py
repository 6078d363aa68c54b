"""Values as JSON holds them."""

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON holds it: NumPy scalars and arrays as Python's own, keys as text, NaN and infinities as None."""
    if hasattr(value, "tolist"):  # NumPy's, without importing it
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
