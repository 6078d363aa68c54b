"""Arrays as users bring them -> arrays as the library keeps them, or a DataError that says what to do."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.errors import DataError

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
