"""Products of rows, dense or CSR; rows of users who may be unknown; and the recall of lists of scores."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.personal.passes import top_rows


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


def part_found(scores: np.ndarray, wanted: np.ndarray, top: int) -> float:
    """Return the mean fraction of each user's wanted items (users x items, 1 or 0) among the `top` highest scores.

    If a user wants more items than `top`, the fraction is of `top`.
    """
    shape = len(scores), min(top, scores.shape[1])
    best, values = np.empty(shape, np.int64), np.empty(shape)
    top_rows(scores, 0, len(scores), best, values)
    hits = (np.take_along_axis(wanted, best, axis=1) * (best >= 0)).sum(axis=1)
    return float((hits / np.clip(wanted.sum(axis=1), 1.0, top)).mean())
