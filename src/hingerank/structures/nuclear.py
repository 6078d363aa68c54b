"""The nuclear norm ‖A‖_* = sum of singular values: its proximal operator shrinks them."""

import numpy as np

from hingerank.arrays import Floats

NEAR = 1e-5  # below this fraction of the largest singular value the Gram matrix cannot resolve values


def shrink_singular_values(M: Floats, amount: float) -> tuple[Floats, Floats]:
    """(A, its singular values) with A = argmin over A of  amount · ‖A‖_* + ½‖M - A‖_F².

    Singular values come from the smaller Gram matrix, several times faster than a full decomposition, if the threshold
    is well above the error of squaring them; otherwise from the decomposition.

    >>> A, values = shrink_singular_values(np.diag([3.0, 1.0]), 2.0)
    >>> np.round(A, 12).tolist(), values.tolist()
    ([[1.0, 0.0], [0.0, 0.0]], [1.0])
    """
    if M.size == 0 or not M.any():
        return np.zeros_like(M), np.empty(0)
    wide = M.shape[0] <= M.shape[1]
    squares, U = np.linalg.eigh(M @ M.T if wide else M.T @ M)
    values = np.sqrt(np.maximum(squares, 0.0))
    if amount <= NEAR * values[-1]:
        left, values, right = np.linalg.svd(M, full_matrices=False)
        kept = values > amount
        return (left[:, kept] * (values[kept] - amount)) @ right[kept], values[kept] - amount
    kept = values > amount
    U, shrunk = U[:, kept], values[kept] - amount
    factor = shrunk / values[kept]
    A = (U * factor) @ (U.T @ M) if wide else ((M @ U) * factor) @ U.T
    return A, shrunk[::-1]
