"""Kernels of the generated data: turn blocks of random numbers into feature rows and their true utilities."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def letor_rows(X, z, B, own, centre, spread):
    """X[i,j] <- clip(centre_j + spread_j·(own_j·X[i,j] + Σ_r z[i,r]·B[r,j]), 0, 1) in place; O(rows·d·factors)."""
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            X[i, j] *= own[j]
        for r in range(B.shape[0]):
            for j in range(d):
                X[i, j] += z[i, r] * B[r, j]
        for j in range(d):
            X[i, j] = min(max(centre[j] + spread[j] * X[i, j], X.dtype.type(0)), X.dtype.type(1))


@njit(cache=True, nogil=True)
def dense_utility(X, w, pairs, pair_weights, centre, u):
    """u_i = Σ_j w_j·x_ij + Σ_r c_r·(x_ia − m_a)(x_ib − m_b), (a,b) = pairs[r]; O(rows·d)."""
    n, d = X.shape
    whole = d - d % 4
    for i in range(n):
        s0 = s1 = s2 = s3 = 0.0
        for j in range(0, whole, 4):  # four sums, so that one addition need not wait for the last
            s0 += w[j] * X[i, j]
            s1 += w[j + 1] * X[i, j + 1]
            s2 += w[j + 2] * X[i, j + 2]
            s3 += w[j + 3] * X[i, j + 3]
        for j in range(whole, d):
            s0 += w[j] * X[i, j]
        total = (s0 + s1) + (s2 + s3)
        for r in range(len(pair_weights)):
            a, b = pairs[r, 0], pairs[r, 1]
            total += pair_weights[r] * (X[i, a] - centre[a]) * (X[i, b] - centre[b])
        u[i] = total


@njit(cache=True, nogil=True)
def csr_utility(data, indices, indptr, w, pairs, pair_weights, centre, u):
    """The same for CSR rows with absent entries 0; O(nonzeros + rows·products)."""
    d = len(w)
    row = np.zeros(d)
    for i in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += w[indices[k]] * data[k]
            row[indices[k]] = data[k]
        for r in range(len(pair_weights)):
            a, b = pairs[r, 0], pairs[r, 1]
            total += pair_weights[r] * (row[a] - centre[a]) * (row[b] - centre[b])
        u[i] = total
        for k in range(indptr[i], indptr[i + 1]):
            row[indices[k]] = 0.0
