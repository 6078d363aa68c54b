"""Conversion of sparse matrices of any SciPy format to CSR, with checks.

SciPy's conversions and our kernels do not check that indices are within bounds, but SciPy does when it builds a matrix.
"""

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.files import DataError

INVALID = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)  # errors of invalid matrices


def plain_csr(X: Matrix) -> sp.csr_matrix:
    """X as CSR with sorted indices and no duplicates. Indices are int32 if they fit. The user's X is not changed.

    >>> plain_csr(sp.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))).toarray().tolist()
    [[0.0, 3.0, 0.0]]
    """
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}, expected two dimensions: rows × features")
    if X.dtype.kind not in "biufc":
        raise DataError(f"X is a sparse matrix of type {X.dtype}, expected real numbers")
    try:
        matrix = sp.csr_matrix(_built_again(X))  # shares the arrays of anything that is CSR already
    except INVALID as error:
        kind = f"{X.format.upper()} of shape {X.shape}"
        raise DataError(f"X is not a valid sparse matrix: {error} ({kind}); build it again from its entries") from None
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _built_again(X: Matrix) -> Matrix:
    """X from its arrays, which SciPy checks then: they must be of whole numbers, fit each other, and fit the shape."""
    numbers = {}
    if X.format in ("csr", "csc", "bsr"):
        numbers = {"indptr": X.indptr, "indices": X.indices}
    elif X.format == "coo" or (X.format == "dok" and X.nnz):
        coordinates = X.coords if X.format == "coo" else np.array([*X.keys()]).T
        numbers = dict(zip(("row", "col"), coordinates))
    for name, array in numbers.items():
        if np.ndim(array) != 1 or np.asarray(array).dtype.kind not in "iu":
            raise ValueError(f"{name} is {str(array)[:40]}, expected a list of whole numbers")
    if X.format in ("csr", "csc", "bsr"):
        built = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
        if X.format == "bsr" and (X.shape[0] % X.data.shape[1] or X.shape[1] % X.data.shape[2]):
            raise ValueError(f"blocks of {X.data.shape[1]} × {X.data.shape[2]} do not fill it")
        built.check_format()
        return built
    if X.format == "coo":
        return sp.coo_array((X.data, X.coords), shape=X.shape)
    if X.format == "dia":
        return sp.dia_array((X.data, X.offsets), shape=X.shape)
    if X.format == "lil":  # which SciPy does not check
        lengths = [len(row) for row in X.rows], [len(row) for row in X.data]
        if lengths[0] != lengths[1] or len(lengths[0]) != X.shape[0]:
            raise ValueError("the lists of columns and of values have different lengths")
        X = X.tocsr()
        X.check_format()
    return X
