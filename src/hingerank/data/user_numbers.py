"""Numbers for ids of any type, four bytes each."""

from typing import Any

import numpy as np

from hingerank.data.blocks import check_ids
from hingerank.data.errors import DataError
from hingerank.kernels.order import number_by_appearance


def number_ids(ids: Any, n_rows: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids in order of first appearance, and each row's number among them."""
    array = check_ids(ids, n_rows, name)
    if len(array) == 0:
        raise DataError(f"{name} is empty: there is nothing to learn from")
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    if array.dtype.kind in "iu":
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        low, high = int(array.min()), int(array.max())
        if high - low < 4 * len(array) + 1024 and high <= np.iinfo(np.int64).max:
            codes, first = number_by_appearance(array, low, np.full(high - low + 1, -1, np.int32))
            return array[first], codes
    if array.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        listed = (numbers.setdefault(i, len(numbers)) for i in array.tolist())
        codes = np.fromiter(listed, np.int32, len(array))
        distinct = np.empty(len(numbers), object)
        distinct[:] = list(numbers)
        return distinct, codes
    _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    appearance = np.argsort(first)
    rank = np.empty(len(first), np.int32)
    rank[appearance] = np.arange(len(first), dtype=np.int32)
    return array[first[appearance]], rank[inverse.ravel()]
