"""Factors of kernel matrices: what turns kernel values into features with the same inner products."""

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

SMALLEST = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}  # relative, by the precision of kernel values


def factorise(W: np.ndarray, smallest: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """(rows kept, T) with T Tᵀ = W[kept, kept]⁻¹: kernel values to the kept rows, times T, are features of W's space.

    A pivoted Cholesky factorisation W = L Lᵀ leaves out rows whose squared distance from the span of the kept ones is
    below `smallest` times the largest diagonal entry, among them repeated rows, and T = L⁻ᵀ. It spans what the
    eigenvectors would, at a tenth of their cost.

    >>> kept, T = factorise(np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> kept.tolist(), T.tolist()
    ([0, 2], [[0.5, 0.0], [0.0, 1.0]])
    """
    most = float(W.diagonal().max(initial=0.0))
    if most <= 0:
        return np.zeros(1, np.int64), np.zeros((1, 1))
    factor, order, rank, _ = lapack.dpstrf(np.asarray(W, np.float64), tol=smallest * most, lower=1)
    L = np.tril(factor[:rank, :rank])
    T = scipy.linalg.solve_triangular(L, np.eye(rank), lower=True, overwrite_b=True).T
    return order[:rank].astype(np.int64) - 1, np.ascontiguousarray(T)


def leading_factor(W: np.ndarray, rank: int, smallest: float = 1e-12) -> np.ndarray:
    """T = U Σ^{-½} of W's `rank` largest eigenvalues, without those below `smallest` times the largest."""
    n = len(W)
    values, vectors = scipy.linalg.eigh(W, subset_by_index=[max(0, n - rank), n - 1])
    keep = values > max(smallest * values.max(initial=0.0), np.finfo(np.float64).tiny)
    if not keep.any():
        return np.zeros((n, 1))
    return np.ascontiguousarray((vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1])
