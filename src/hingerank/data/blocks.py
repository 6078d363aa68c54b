"""Query blocks: the one place that turns query ids or group counts into contiguous blocks of rows.

Users give ids in any order and of any type. Everything inside works on blocks: query q owns positions
``offsets[q]:offsets[q+1]`` of the *block order*, queries in order of first appearance, rows of a query in
their original order. When the rows already lie so, ``order`` is None and nothing is copied."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.files import DataError
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


# Arrays as users bring them -> arrays as the library keeps them, or a DataError that says what to do.


MISSING = ("error", "zero", "nan")


def check_matrix(X: Any, missing: str = "error") -> Any:
    """X as C-ordered float32/float64 (any other number type becomes float64) or as CSR without duplicates, sorted.

    missing: what NaN means. "error" refuses it, "zero" replaces it by 0, "nan" keeps it. Infinities are refused.
    Nothing is copied that already has this form, and nothing the user gave is changed.
    """
    if missing not in MISSING:
        raise DataError(f"missing is {missing!r}, expected one of {', '.join(map(repr, MISSING))}")
    matrix = _csr(X) if sp.issparse(X) else _dense(X)
    values: Any = matrix.data if sp.issparse(matrix) else matrix
    if _all_finite(values):
        return matrix
    _refuse(matrix, np.isinf(values), "infinite")
    if missing == "error":
        _refuse(matrix, np.isnan(values), "NaN (missing='zero' or 'nan' would accept it)")
    if missing == "zero":
        matrix = matrix.copy()
        np.nan_to_num(matrix.data if sp.issparse(matrix) else matrix, copy=False)
    return matrix


def _dense(X: Any) -> np.ndarray:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "OUS":
            array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(f"X is no table of numbers: {error}") from None
    if array.ndim != 2:
        hint = "; a single feature is X[:, None]" if array.ndim == 1 else ""
        raise DataError(f"X has shape {array.shape}, expected two dimensions: rows × features{hint}")
    return np.ascontiguousarray(array, _float_type(array.dtype, "X"))


def _csr(X: Any) -> sp.csr_matrix:
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}, expected two dimensions: rows × features")
    matrix = sp.csr_matrix(X)  # shares the arrays of anything that is CSR already
    try:
        matrix.check_format(full_check=True)  # kernels do not check bounds again
    except ValueError as error:
        raise DataError(f"X is no valid sparse matrix: {error}") from None
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix.astype(_float_type(matrix.dtype, "X"), copy=False)


def _float_type(dtype: np.dtype, name: str) -> np.dtype:
    if dtype.kind not in "biuf":
        raise DataError(f"{name} has type {dtype}, expected real numbers")
    small = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if small else np.float64)


def _all_finite(values: np.ndarray) -> bool:
    """One cheap pass: a sum is finite unless some value is not (or the sum overflows, and then look closely)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def _refuse(matrix: Any, bad: np.ndarray, what: str) -> None:
    if not bad.any():
        return
    if sp.issparse(matrix):
        place = int(np.argmax(bad))
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        column = int(matrix.indices[place])
    else:
        row, column = (int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
    raise DataError(f"X is {what} at row {row}, column {column} ({int(bad.sum())} such values)")


def check_grades(y: Any, n_rows: int) -> np.ndarray:
    """y as float64: one finite number for each row."""
    try:
        array = np.asarray(y)
        grades = array.astype(np.float64, copy=False) if array.dtype.kind in "biufOUS" else None
    except (ValueError, TypeError) as error:
        raise DataError(f"y must hold numbers: {error}") from None
    if grades is None:
        raise DataError(f"y has type {array.dtype}, expected real numbers")
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (n_rows,):
        raise DataError(f"y has shape {grades.shape}, expected one grade for each of the {n_rows} rows of X")
    if not np.isfinite(grades).all():
        row = int(np.argmin(np.isfinite(grades)))
        raise DataError(f"y is {grades[row]} at row {row}: give every row a finite grade")
    return np.ascontiguousarray(grades)


def check_names(names: Sequence[str] | Iterable[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Feature names as a tuple: one for each column, all different."""
    if names is None:
        return None
    if isinstance(names, str):
        raise DataError(f"feature_names is the text {names!r}, expected a list of {n_features} names")
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise DataError(f"feature_names has {len(names)} names, expected one for each of the {n_features} columns of X")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"feature_names has {twice!r} twice: names must differ")
    return names


# Numbers for ids of any type, four bytes each.


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
