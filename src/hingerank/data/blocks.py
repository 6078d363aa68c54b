"""Query blocks, the numbering of ids, and checks of the arrays that users pass.

Users give query ids in any order and of any type. The library works on blocks: the rows of query q have the positions
``offsets[q]:offsets[q+1]`` in the *block order*. There the queries are in order of first appearance, and the rows of a
query are in their original order. If the rows already have this order, ``order`` is None and nothing is copied.
"""

import hashlib
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import ArrayLike, Facts, Matrix
from hingerank.data.checks import decimal
from hingerank.data.files import DataError
from hingerank.data.sparse import plain_csr
from hingerank.kernels.order import number_by_appearance, order_by_code


@dataclass(frozen=True)
class QueryBlocks:
    """The rows of each query, as ranges of the block order.

    Attributes
    ----------
    ids : the Q distinct query ids
    offsets : the Q + 1 borders of the blocks
    order : row numbers in block order; None if the rows already have that order
    given : if the rows were sorted into block order before, their original row numbers; else None
    """

    ids: np.ndarray
    offsets: np.ndarray
    order: np.ndarray | None
    given: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_offsets(self.offsets, len(self.ids))
        n, order = self.n_rows, self.order
        if order is not None:
            fits = order.dtype.kind == "i" and order.shape == (n,) and (n == 0 or 0 <= order.min() <= order.max() < n)
            if not fits or (np.bincount(order, minlength=n) != 1).any():
                raise DataError(f"order must hold each row number from 0 to {n - 1} once")

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

    @property
    def rows(self) -> np.ndarray:
        """Row numbers in block order."""
        return np.arange(self.n_rows) if self.order is None else self.order

    def ranked(self, scores: np.ndarray, top: int | None = None, ties: np.ndarray | None = None) -> list[np.ndarray]:
        """The row numbers of each query, best score first; rows of equal score by `ties`, then as they stand."""
        keys = [key for key in (ties, -scores) if key is not None]
        best = self.rows[np.lexsort((*map(self.gather, keys), self.numbers))]
        return [rows[:top] for rows in np.split(best, self.offsets[1:-1])] if len(self) else []

    def gather(self, rows: Matrix) -> Matrix:
        """`rows` (an array or CSR matrix, one row per original row) in block order."""
        return rows if self.order is None else rows[self.order]

    def scatter(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `gather`: block order back to the original order."""
        if self.order is None:
            return rows
        back = np.empty_like(rows)
        back[self.order] = rows
        return back


def check_offsets(offsets: ArrayLike, n_blocks: int | None = None, n_rows: int | None = None) -> np.ndarray:
    """The borders of blocks as int64. They must rise from 0 to the number of rows, if that is known."""
    borders = np.asarray(offsets)
    wanted = len(borders) if n_blocks is None and borders.ndim else (n_blocks or 0) + 1
    if borders.ndim != 1 or borders.dtype.kind not in "iu" or len(borders) != wanted:
        count = "one border more than blocks" if n_blocks is None else f"{n_blocks + 1} borders"
        raise DataError(f"offsets have shape {borders.shape} and type {borders.dtype}, expected {count}, whole numbers")
    last = borders[-1] if len(borders) and n_rows is None else n_rows
    if not len(borders) or borders[0] != 0 or borders[-1] != last or (borders[1:] < borders[:-1]).any():
        end = "the number of rows" if n_rows is None else f"{n_rows}, the number of rows"
        ends = f"{borders[:3].tolist()} … {borders[-3:].tolist()}" if len(borders) > 6 else borders.tolist()
        raise DataError(f"offsets must rise from 0 to {end}, found {ends}")
    return np.ascontiguousarray(borders, np.int64)


def single_id(qid: Any) -> Any:
    """The id of one query of all rows. An iterator, or a view of a dict, is no id but an error."""
    if isinstance(qid, Iterable) and not isinstance(qid, str | bytes | np.ndarray):
        raise DataError(f"qid is a {type(qid).__name__}, expected one id for each row: put the ids into a list")
    return 0 if qid is None else qid


def blocks_from_qid(qid: ArrayLike | None, n_rows: int) -> QueryBlocks:
    """Group rows by query id. None or a single id makes all rows one query."""
    if qid is None or np.ndim(qid) == 0:
        return QueryBlocks(np.atleast_1d(single_id(qid)), np.array([0, n_rows], np.int64), None)
    ids = check_ids(qid, n_rows, "qid")
    starts = np.flatnonzero(np.concatenate(([n_rows > 0], ids[1:] != ids[:-1])))
    heads = ids[starts]  # one id per run of equal neighbours
    edges = np.append(starts, n_rows).astype(np.int64)
    if ids.dtype.kind in "iuf" and (heads[1:] > heads[:-1]).all():  # sorted: the common case, and the cheapest
        return QueryBlocks(heads, edges, None)
    codes, first = number(heads)
    if len(first) == len(heads):  # the rows of every query are consecutive already
        return QueryBlocks(heads, edges, None)
    lengths = np.diff(edges)
    counts = np.bincount(codes, weights=lengths, minlength=len(first)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return QueryBlocks(heads[first], offsets, order_by_code(np.repeat(codes, lengths), offsets))


def blocks_from_group(group: ArrayLike, n_rows: int) -> QueryBlocks:
    """Blocks from the number of rows of each query, in row order (`group` in LightGBM and XGBoost)."""
    check_unmasked(group, "group")
    counts = np.asarray(group)
    numbers = counts.ndim == 1 and counts.dtype.kind in "iuf" and np.isfinite(counts).all()
    if not numbers or (counts != np.floor(counts)).any() or (counts < 0).any():
        raise DataError(
            "group must be a list of non-negative whole numbers: the number of rows of each query, in row order"
        )
    counts = counts[counts > 0].astype(np.int64)
    if counts.sum() != n_rows:
        raise DataError(f"group counts add up to {counts.sum()} rows but there are {n_rows}; pass query ids as qid=")
    return QueryBlocks(np.arange(len(counts)), np.concatenate(([0], np.cumsum(counts))).astype(np.int64), None)


def kept_rows(blocks: QueryBlocks, weight: np.ndarray | None) -> tuple[np.ndarray | None, QueryBlocks]:
    """The rows of non-zero weight in block order (None: all rows, in the order they have), and their blocks."""
    if weight is None or weight.all():
        order = blocks.order
        return order, blocks if order is None else QueryBlocks(blocks.ids, blocks.offsets, None, order)
    order = blocks.rows
    keep = weight[order] > 0
    offsets = np.concatenate(([0], np.cumsum(keep)))[blocks.offsets]
    filled = np.diff(offsets) > 0
    rows, borders = order[keep], np.append(offsets[:-1][filled], offsets[-1])
    return rows, QueryBlocks(blocks.ids[filled], borders, None, rows)


def evenly(n_rows: int, most: int) -> np.ndarray | slice:
    """At most `most` rows, evenly spaced.

    >>> evenly(10, 3).tolist(), evenly(3, 10)
    ([0, 4, 9], slice(None, None, None))
    """
    return slice(None) if n_rows <= most else np.linspace(0, n_rows - 1, most).astype(np.int64)


# Ids and their numbers.


def number_ids(ids: ArrayLike, n_rows: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids in order of first appearance, and each row's number among them (int32). No rows are an error."""
    array = check_ids(ids, n_rows, name)
    if len(array) == 0:
        raise DataError(f"{name} is empty: there is nothing to learn from")
    codes, first = number(array)
    return array[first], codes


def number(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked ids numbered 0, 1, ... by first appearance (int32), and the row where each one appears first.

    >>> [part.tolist() for part in number(np.array(["b", "a", "b", "c"]))]
    [[0, 1, 0, 2], [0, 1, 3]]
    """
    if ids.dtype.kind == "b":
        ids = ids.astype(np.int8)
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < 4 * len(ids) + 1024 and high <= np.iinfo(np.int64).max:
            plain = ids if ids.dtype in (np.int32, np.int64) and ids.dtype.isnative else ids.astype(np.int64)
            return number_by_appearance(plain, low, np.full(high - low + 1, -1, np.int32))
    if ids.dtype.kind in "iufMm":
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        appearance = np.argsort(first)
        rank = np.empty(len(first), np.int32)
        rank[appearance] = np.arange(len(first), dtype=np.int32)
        return rank[inverse.ravel()], first[appearance]
    codes = number_values(ids.tolist())
    seen = np.maximum.accumulate(codes) if len(codes) else codes
    return codes, np.flatnonzero(np.diff(seen, prepend=-1))


def number_values(values: Sequence[Hashable], numbers: dict[Any, int] | None = None) -> np.ndarray:
    """Values numbered by first appearance (int32). Known values have their number in `numbers`; new ones are added."""
    known: dict[Any, int] = {} if numbers is None else numbers
    return np.fromiter((known.setdefault(value, len(known)) for value in values), np.int32, len(values))


def places_of(values: Collection[Hashable], ids: Iterable[Hashable]) -> np.ndarray:
    """The position of each value among the ids; −1 for a value that is not among them."""
    number = {value: place for place, value in enumerate(ids)}
    return np.fromiter((number.get(value, -1) for value in values), np.int64, len(values))


def spelled(value: object) -> str:
    """An id as text, so that 7, 7.0 and "7" are the same.

    >>> spelled(7.0), spelled("7"), spelled(2.5), spelled("7.0")
    ('7', '7', '2.5', '7.0')
    """
    return str(int(value) if isinstance(value, float | np.floating) and value % 1 == 0 else value)


def as_text(ids: np.ndarray) -> np.ndarray:
    """Ids as an array of their texts."""
    return np.array([spelled(value) for value in ids.tolist()], object)


def check_ids(ids: ArrayLike, n_rows: int, name: str) -> np.ndarray:
    """`ids` as a one-dimensional array with one id for each row. Missing ids are an error."""
    check_unmasked(ids, name)
    try:
        array = np.asarray(ids)
    except ValueError:
        raise DataError(
            f"{name} has entries of different lengths, expected one id for each row: give text or numbers"
        ) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != n_rows:
        raise DataError(f"{name} has shape {array.shape}, expected one id for each of the {n_rows} rows")
    listed = ids if isinstance(ids, list | tuple) else ()
    if array.dtype.kind == "f" and any(isinstance(value, int) and abs(value) > 2**53 for value in listed):
        unsigned = set(map(type, listed)) == {int} and min(listed) >= 0  # NumPy makes one float of several such ids
        array = np.array(ids, np.uint64 if unsigned else object)
    if array.dtype.kind not in "biufSUMm":
        return _check_objects(array, name)
    if array.dtype.kind == "U" and not all(isinstance(value, str) for value in listed):
        _check_objects(np.fromiter(listed, object, n_rows), name)  # NumPy has turned all of them into text, also NaN
    if array.dtype.kind in "fMm" and (array != array).any():  # NaN and NaT differ from themselves
        row = int(np.argmax(array != array))
        raise DataError(f"{name} is missing ({array[row]}) at row {row}: give every row an id")
    return array


def _check_objects(array: np.ndarray, name: str) -> np.ndarray:
    """An object array of hashable ids. Two ids are equal if a dictionary treats them as the same key."""
    if array.dtype.kind == "V":
        raise DataError(f"{name} has type {array.dtype}: give text or numbers")
    ids = array.astype(object)
    try:
        distinct = set(ids.tolist())
    except TypeError:
        row, value = next((row, v) for row, v in enumerate(ids) if not _hashes(v))
        raise DataError(f"{name} is a {type(value).__name__} at row {row}: give text or numbers") from None
    if any(map(is_missing, distinct)):
        row, value = next((row, v) for row, v in enumerate(ids) if is_missing(v))
        raise DataError(f"{name} is missing ({value}) at row {row}: give every row an id")
    if not all(isinstance(value, str) for value in distinct):
        _check_alike(distinct, name)
    return ids


def _check_alike(distinct: Collection[object], name: str) -> None:
    """Raise a DataError about ids that differ but have the same text, such as 1 and "1": files cannot hold both."""
    seen: Facts = {}
    for value in distinct:
        other = seen.setdefault(str(value), value)
        if other is not value and other != value:
            found = " and ".join(sorted(map(repr, (other, value))))
            raise DataError(f"{name} has both {found}, which look alike: give all ids as text, or all as numbers")


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # a comparison with pandas' NA is neither true nor false
        return True


def _hashes(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# Arrays.

MISSING = ("error", "zero", "nan")
_NOT_FINITE = ("nan", "inf", "+inf", "-inf", "infinity", "-infinity")


def check_matrix(X: Matrix, missing: str = "error", names: Sequence[str] | None = None) -> Matrix:
    """X as a C-ordered array of float32 or float64, or as CSR (see `plain_csr`). Other number types become float64.

    Infinite values are an error. An X that already has this form is not copied, and the user's own X is never changed.

    Parameters
    ----------
    X : array, list of rows, or SciPy matrix
    missing : {"error", "zero", "nan"}
        What NaN means: "error" refuses it, "zero" replaces it by 0, "nan" keeps it.
    names : sequence of str, optional
        Names of the columns, for errors.
    """
    if missing not in MISSING:
        raise DataError(f"missing is {missing!r}, expected one of {', '.join(map(repr, MISSING))}")
    matrix = plain_csr(X) if sp.issparse(X) else _plain_numbers(X, "X", "is not a table of numbers")
    if matrix.ndim != 2:
        hint = "; pass a single feature as X[:, None]" if matrix.ndim == 1 else ""
        raise DataError(f"X has shape {matrix.shape}, expected two dimensions: rows × features{hint}")
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"X has type {matrix.dtype}, expected real numbers")
    kind = np.float32 if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4 else np.float64
    matrix = matrix.astype(kind, copy=False) if sp.issparse(matrix) else np.ascontiguousarray(matrix, kind)
    check_finite(matrix, missing != "error", names, 'pass missing="zero" or missing="nan" to accept it')
    values: Any = matrix.data if sp.issparse(matrix) else matrix
    if missing == "zero" and not all_finite(values):
        matrix = matrix.copy()
        np.nan_to_num(matrix.data if sp.issparse(matrix) else matrix, copy=False)
    return matrix


_IMPUTE = (
    "impute it (most rankers do if missing is 'zero', 'median' or 'indicator'; or use sklearn.impute.SimpleImputer), "
    "leave out its row or column, or read with missing='zero'"
)


def check_finite(
    matrix: Matrix, allow_nan: bool, names: Sequence[str] | None = None, remedy_of_nan: str = _IMPUTE
) -> None:
    """Raise a DataError about the first value of an array or CSR matrix that is NaN or infinite, and say what to do."""
    values: np.ndarray = matrix.data if sp.issparse(matrix) else matrix
    if all_finite(values):
        return
    what, bad, option = "infinite", np.isinf(values), None
    remedy = "leave out its row or column, or replace it by a finite number"
    if not bad.any() and not allow_nan:
        what, bad, option, remedy = "NaN (a missing value)", np.isnan(values), "missing", remedy_of_nan
    if not bad.any():
        return
    place = int(np.argmax(bad))
    if sp.issparse(matrix):
        row, column = int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    else:
        row, column = divmod(place, matrix.shape[1])
    called = "" if names is None else f" {names[column]!r}"
    where = f"row {row}, column {column}{called} ({int(bad.sum())} such values)"
    raise DataError(f"X is {what} at {where}; expected finite numbers", remedy, option)


def check_unmasked(values: ArrayLike, name: str) -> None:
    """Raise a DataError if entries of a NumPy masked array are masked: they would be used as ordinary numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise DataError(f"{name} is a masked array with {count} masked values: fill them, or leave out their rows")


def check_spelling(array: np.ndarray) -> None:
    """Raise a ValueError about the first text that is not a number in plain digits. Python's 1_0 is refused too."""
    odd = (text for text in array.ravel().tolist() if isinstance(text, str) and decimal(text.strip()) is None)
    wrong = next((text for text in odd if text.strip().lower() not in _NOT_FINITE), None)
    if wrong is not None:
        raise ValueError(f"found {wrong[:40]!r}")


def _plain_numbers(values: ArrayLike, name: str, wrong: str) -> np.ndarray:
    """Values as an array, text and objects as float64; the error says that `name` is `wrong`."""
    check_unmasked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "OUS":
            return array
        check_spelling(array)
        if array.dtype.kind == "O":  # NumPy takes None for NaN, but not the NA of pandas
            known = [np.nan if is_missing(value) else value for value in array.ravel().tolist()]
            return np.array(known, np.float64).reshape(array.shape)
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{name} {wrong}: {error}") from None


def real_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """`values` as float64, of any shape. A value that is not a real number is a DataError."""
    array = _plain_numbers(values, name, "must hold numbers")
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} has type {array.dtype}, expected real numbers")
    return array.astype(np.float64, copy=False)


def all_finite(values: np.ndarray) -> bool:
    """Whether all values are finite. If their sum is, which is cheap to compute, no value needs a look."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def check_grades(y: ArrayLike, n_rows: int) -> np.ndarray:
    """y as float64: one finite number for each row."""
    grades = real_numbers(y, "y")
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


# Fingerprints. That of a whole data set distinguishes runs; that of a sample is cheap and is stored with every model.

_SAMPLED_ROWS = 256


def fingerprint_whole(X: Matrix, y: np.ndarray, qid: np.ndarray) -> bytes:
    """A hash of all rows. It changes if any feature, grade or query id changes."""
    digest = hashlib.blake2b(digest_size=16)
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    if qid.dtype.kind in "iuf":
        arrays.append(qid)
    else:
        digest.update("\n".join(map(str, qid.tolist())).encode())
    for array in [*arrays, y]:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def fingerprint(X: Matrix, y: np.ndarray | None = None, blocks: QueryBlocks | None = None) -> Facts:
    """The sizes of the training data and a hash of evenly spaced rows. It is cheap, and no protection against forgery.

    y and blocks are the grades and queries, if the rows have them.
    """
    rows = evenly(X.shape[0], _SAMPLED_ROWS)
    sample = sp.csr_matrix(X[rows])
    sample.eliminate_zeros()  # so that dense and sparse rows with the same values have the same hash
    digest = hashlib.sha256()
    for part in (sample.indptr, sample.indices, sample.data):
        digest.update(np.ascontiguousarray(part, np.float64).tobytes())
    queries = {}
    if y is not None and blocks is not None:
        query = np.searchsorted(blocks.offsets, np.arange(X.shape[0])[rows], side="right") - 1
        digest.update(y[rows].tobytes())
        digest.update("\n".join(map(str, blocks.ids[query].tolist())).encode("utf-8", "surrogatepass"))
        queries = {"queries": len(blocks.ids)}
    return {"rows": X.shape[0], "features": X.shape[1], "sha256_of_sample": digest.hexdigest(), **queries}
