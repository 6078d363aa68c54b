"""Query blocks: the one place that turns query ids or group counts into contiguous blocks of rows.

Users give ids in any order and of any type. Everything inside works on blocks: query q owns positions
``offsets[q]:offsets[q+1]`` of the *block order*, queries in order of first appearance, rows of a query in
their original order. When the rows already lie so, ``order`` is None and nothing is copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.kernels.order import number_by_appearance, order_by_code


@dataclass(frozen=True)
class QueryBlocks:
    """ids: distinct query ids; offsets: Q+1 block borders; order: rows in block order, or None if already so."""

    ids: np.ndarray
    offsets: np.ndarray
    order: np.ndarray | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def numbers(self) -> np.ndarray:
        """The number 0..Q-1 of each row's query, in block order."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def gather(self, rows: Any) -> Any:
        """`rows` (an array or CSR matrix, one row per original row) in block order."""
        return rows if self.order is None else rows[self.order]

    def scatter(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `gather`: block order back to the original order."""
        if self.order is None:
            return rows
        back = np.empty_like(rows)
        back[self.order] = rows
        return back


def blocks_from_qid(qid: Any, n_rows: int) -> QueryBlocks:
    """Group rows by query id; `qid=None` makes one query of all rows."""
    if qid is None:
        return QueryBlocks(np.zeros(1, np.int64), np.array([0, n_rows], np.int64), None)
    ids = check_ids(qid, n_rows, "qid")
    starts = np.flatnonzero(np.concatenate(([n_rows > 0], ids[1:] != ids[:-1])))
    heads = ids[starts]  # one id per run of equal neighbours
    edges = np.append(starts, n_rows).astype(np.int64)
    if ids.dtype.kind in "iuf" and (heads[1:] > heads[:-1]).all():  # sorted: the common case, and the cheapest
        return QueryBlocks(heads, edges, None)
    codes, first = _number(heads)
    if len(first) == len(heads):  # every query's rows lie together already
        return QueryBlocks(heads, edges, None)
    lengths = np.diff(edges)
    counts = np.bincount(codes, weights=lengths, minlength=len(first)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return QueryBlocks(heads[first], offsets, order_by_code(np.repeat(codes, lengths), offsets))


def check_ids(ids: Any, n_rows: int, name: str) -> np.ndarray:
    """`ids` as a one-dimensional array without missing values; one id for each row."""
    try:
        array = np.asarray(ids)
    except ValueError:
        raise DataError(f"{name} has entries of different lengths: give text or a number for each row") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != n_rows:
        raise DataError(f"{name} has shape {array.shape}, expected one id for each of the {n_rows} rows")
    if array.dtype.kind not in "biufSUMm":
        return _check_objects(array, name)
    if array.dtype.kind in "fMm" and (array != array).any():  # NaN and NaT differ from themselves
        row = int(np.argmax(array != array))
        raise DataError(f"{name} is missing ({array[row]}) at row {row}: give every row an id")
    return array


def _check_objects(array: np.ndarray, name: str) -> np.ndarray:
    """An object array of hashable ids, so that equality means what a dictionary means by it."""
    if array.dtype.kind == "V":
        raise DataError(f"{name} has type {array.dtype}: give text or numbers")
    ids = array.astype(object)
    try:
        distinct = set(ids.tolist())
    except TypeError:
        row, value = next((row, v) for row, v in enumerate(ids) if not _hashes(v))
        raise DataError(f"{name} is a {type(value).__name__} at row {row}: give text or numbers") from None
    if any(map(_missing, distinct)):
        row, value = next((row, v) for row, v in enumerate(ids) if _missing(v))
        raise DataError(f"{name} is missing ({value}) at row {row}: give every row an id")
    return ids


def _missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas' NA neither does nor does not
        return True


def _hashes(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _number(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes 0, 1, ... in order of first appearance, and where each code appears first."""
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < 4 * len(ids) and high <= np.iinfo(np.int64).max:
            return number_by_appearance(ids.astype(np.int64), low, np.full(high - low + 1, -1, np.int64))
    if ids.dtype.kind in "biufMm":
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        appearance = np.argsort(first)
        rank = np.empty(len(first), np.int64)
        rank[appearance] = np.arange(len(first))
        return rank[inverse.ravel()], first[appearance]
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(i, len(numbers)) for i in ids.tolist()), np.int64, len(ids))
    seen = np.maximum.accumulate(codes) if len(codes) else codes
    return codes, np.flatnonzero(np.diff(seen, prepend=-1))


def blocks_from_group(group: Any, n_rows: int) -> QueryBlocks:
    """Blocks from counts of rows per query, in row order (LightGBM's and XGBoost's `group`)."""
    counts = np.asarray(group)
    numbers = counts.ndim == 1 and counts.dtype.kind in "iuf" and np.isfinite(counts).all()
    if not numbers or (counts != np.floor(counts)).any() or (counts < 0).any():
        raise DataError("group must be a list of non-negative whole numbers: the rows of each query, in row order")
    counts = counts[counts > 0].astype(np.int64)
    if counts.sum() != n_rows:
        raise DataError(f"group counts add up to {counts.sum()} rows but there are {n_rows}; to pass ids use qid=")
    return QueryBlocks(np.arange(len(counts)), np.concatenate(([0], np.cumsum(counts))).astype(np.int64), None)
