"""Conversion of sparse matrices of any SciPy format to CSR, with checks.

SciPy's conversions and our kernels do not check that indices are within bounds. One pass checks them, before anything
else is done with the matrix.
"""

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from hingerank.arrays import Matrix
from hingerank.data.files import DataError

CONVERSION = (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError)  # errors of invalid matrices


def plain_csr(X: Matrix) -> sp.csr_matrix:
    """X as CSR with sorted indices and no duplicates. Indices are int32 if they fit. The user's X is not changed.

    >>> plain_csr(sp.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))).toarray().tolist()
    [[0.0, 3.0, 0.0]]
    """
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}, expected two dimensions: rows × features")
    if X.dtype.kind not in "biufc":
        raise DataError(f"X is a sparse matrix of type {X.dtype}, expected real numbers")
    _LOOK.get(X.format, _look_at_lists)(X)
    try:
        matrix = sp.csr_matrix(X)  # shares the arrays of anything that is CSR already
    except CONVERSION as error:
        raise _invalid(X, str(error)) from None
    if X.format not in _LOOK:
        _look_at_compressed(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.indices.dtype == np.int32 or max(matrix.nnz, *matrix.shape) > np.iinfo(np.int32).max:
        return matrix
    parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return sp.csr_matrix(parts, shape=matrix.shape)


def _invalid(X: Matrix, why: str) -> DataError:
    kind = f"{X.format.upper()} of shape {X.shape}"
    return DataError(f"X is not a valid sparse matrix: {why} ({kind}); build it again from its entries")


def _look_at_compressed(X: Matrix) -> None:
    """Check CSR, CSC and BSR: indptr must rise from 0, and indices must be within the shape."""
    height, width = X.data.shape[1:] if X.format == "bsr" and np.ndim(X.data) == 3 else (1, 1)
    if np.ndim(X.data) != (3 if X.format == "bsr" else 1) or 0 in (height, width):
        raise _invalid(X, f"data has shape {np.shape(X.data)}")
    if X.shape[0] % height or X.shape[1] % width:
        raise _invalid(X, f"blocks of {height} × {width} do not fill it")
    blocks = X.shape[0] // height, X.shape[1] // width
    major, minor = blocks[::-1] if X.format == "csc" else blocks
    start = _whole(X, "indptr", X.indptr)
    if len(start) != major + 1 or start[0] != 0 or (start[1:] < start[:-1]).any():
        raise _invalid(X, f"indptr must be {major + 1} numbers that rise from 0")
    indices, used = _whole(X, "indices", X.indices), int(start[-1])
    if used > min(len(indices), len(X.data)):
        raise _invalid(X, f"indptr ends at {used}, but there are {len(indices)} indices and {len(X.data)} values")
    _look_at_indices(X, "indices", indices[:used], minor)


def _look_at_coordinates(X: Matrix) -> None:
    """Check COO: each value needs a row and a column within the shape."""
    for name, coordinates, size in zip(("row", "col"), X.coords, X.shape):
        numbers = _whole(X, name, coordinates)
        if numbers.shape != np.shape(X.data):
            raise _invalid(X, f"there are {len(numbers)} numbers in {name} and {np.size(X.data)} values")
        _look_at_indices(X, name, numbers, size)


def _look_at_lists(X: Matrix) -> None:
    """Check LIL, DOK and DIA: the lists must have the right lengths. Their indices are checked again as CSR."""
    if X.format == "dok":
        keys = np.array([*X.keys()]).reshape(-1, 2)
        for name, numbers, size in zip(("row", "column"), keys.T, X.shape):
            _look_at_indices(X, name, _whole(X, name, numbers if len(keys) else numbers.astype(np.int64)), size)
    if X.format == "dia" and (np.ndim(X.data) != 2 or np.shape(X.offsets) != X.data.shape[:1]):
        raise _invalid(X, f"there are {np.size(X.offsets)} offsets for data of shape {np.shape(X.data)}")
    if X.format == "lil":
        if X.rows.shape != X.shape[:1] or X.data.shape != X.shape[:1]:
            raise _invalid(X, f"there are {len(X.rows)} lists of columns and {len(X.data)} of values")
        row = next((i for i, (a, b) in enumerate(zip(X.rows, X.data)) if len(a) != len(b)), None)
        if row is not None:
            raise _invalid(X, f"row {row} has {len(X.rows[row])} columns and {len(X.data[row])} values")


_LOOK = dict.fromkeys(("csr", "csc", "bsr"), _look_at_compressed) | {"coo": _look_at_coordinates}


def _whole(X: Matrix, name: str, numbers: ArrayLike) -> np.ndarray:
    array = np.asarray(numbers)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _invalid(X, f"{name} has shape {array.shape} and type {array.dtype}, expected a list of whole numbers")
    return array


def _look_at_indices(X: Matrix, name: str, numbers: np.ndarray, size: int) -> None:
    if not len(numbers):
        return
    low, high = numbers.min(), numbers.max()
    if low < 0 or high >= size:
        raise _invalid(X, f"{name} has {low if low < 0 else high}, expected 0 to {size - 1}")
