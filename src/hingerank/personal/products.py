"""Products of rows, dense or CSR; rows of users who may be unknown; and the recall of lists of scores."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def row_products(A: Any, B: Any) -> np.ndarray:
    """Return <A[r], B[r]> for every r; each matrix is dense or CSR."""
    if sp.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    if sp.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel()
    return np.einsum("rc,rc->r", A, B)


def rows_or_mean(A: Any, numbers: np.ndarray) -> Any:
    """Return A[numbers], dense or CSR, with the mean of all rows for the number -1."""
    if len(numbers) == 0 or numbers.min() >= 0:
        return A[numbers]
    if sp.issparse(A):
        return sp.csr_matrix(sp.vstack([A, sp.csr_matrix(A.mean(axis=0))]))[numbers]
    return np.where((numbers >= 0)[:, None], A[numbers], A.mean(axis=0))


def all_products(A: Any, B: Any) -> np.ndarray:
    """Return A Bᵀ as a dense matrix."""
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else np.ascontiguousarray(product)
