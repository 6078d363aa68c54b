"""The true utilities of generated rows: the order of each sum is fixed, so a seed makes the same data everywhere."""

import numpy as np

from hingerank.kernels.compiled import chosen, kernel


@chosen
def weighted_sum(rows, i, w):
    """Σ_j w_j·x_ij."""

    def dense(rows, i, w):
        X, d = rows[0], len(w)
        whole = d - d % 4
        s0 = s1 = s2 = s3 = 0.0
        for j in range(0, whole, 4):  # four independent sums: no addition waits for the one before
            s0 += w[j] * X[i, j]
            s1 += w[j + 1] * X[i, j + 1]
            s2 += w[j + 2] * X[i, j + 2]
            s3 += w[j + 3] * X[i, j + 3]
        for j in range(whole, d):
            s0 += w[j] * X[i, j]
        return (s0 + s1) + (s2 + s3)

    def sparse(rows, i, w):
        values, columns, starts = rows
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += w[columns[k]] * values[k]
        return total

    return dense if len(rows) == 1 else sparse


@chosen
def entry(rows, i, j):
    """x_ij."""

    def dense(rows, i, j):
        return rows[0][i, j]

    def sparse(rows, i, j):
        values, columns, starts = rows
        for k in range(starts[i], starts[i + 1]):
            if columns[k] == j:
                return np.float64(values[k])
        return 0.0

    return dense if len(rows) == 1 else sparse


@kernel
def utilities(rows, w, pairs, pair_weights, centre, u):
    """u_i = Σ_j w_j·x_ij + Σ_r c_r·(x_ia − m_a)(x_ib − m_b), (a,b) = pairs[r]; O(entries), CSR products times more."""
    for i in range(len(u)):
        total = weighted_sum(rows, i, w)
        for r in range(len(pair_weights)):
            a, b = pairs[r, 0], pairs[r, 1]
            total += pair_weights[r] * (entry(rows, i, a) - centre[a]) * (entry(rows, i, b) - centre[b])
        u[i] = total
