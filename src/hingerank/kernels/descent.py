"""Dual coordinate descent for the pairwise hinge: a multiplier for each pair, and the weights kept up to date."""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, chosen, kernel


@chosen(fastmath=SUMS_MAY_REORDER)
def pair_score(rows, i, j, w):
    """<w, row i - row j>."""

    def dense(rows, i, j, w):
        X, total = rows[0], 0.0
        for c in range(X.shape[1]):
            total += (np.float64(X[i, c]) - X[j, c]) * w[c]
        return total

    def sparse(rows, i, j, w):
        values, columns, starts = rows
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * w[columns[k]]
        for k in range(starts[j], starts[j + 1]):
            total -= values[k] * w[columns[k]]
        return total

    return dense if len(rows) == 1 else sparse


@chosen(fastmath=SUMS_MAY_REORDER)
def pair_step(rows, i, j, step, w):
    """w += step * (row i - row j)."""

    def dense(rows, i, j, step, w):
        X = rows[0]
        for c in range(X.shape[1]):
            w[c] += step * (np.float64(X[i, c]) - X[j, c])

    def sparse(rows, i, j, step, w):
        values, columns, starts = rows
        for k in range(starts[i], starts[i + 1]):
            w[columns[k]] += step * values[k]
        for k in range(starts[j], starts[j + 1]):
            w[columns[k]] -= step * values[k]

    return dense if len(rows) == 1 else sparse


@chosen(fastmath=SUMS_MAY_REORDER)
def pair_norm(rows, i, j):
    """‖row i - row j‖²."""

    def dense(rows, i, j):
        X, total = rows[0], 0.0
        for c in range(X.shape[1]):
            gap = np.float64(X[i, c]) - X[j, c]
            total += gap * gap
        return total

    def sparse(rows, i, j):  # indices are sorted: walk both rows together
        values, columns, starts = rows
        a, b, total = starts[i], starts[j], 0.0
        while a < starts[i + 1] or b < starts[j + 1]:
            gap = 0.0
            if b == starts[j + 1] or (a < starts[i + 1] and columns[a] <= columns[b]):
                if b < starts[j + 1] and columns[a] == columns[b]:
                    gap = -np.float64(values[b])
                    b += 1
                gap += values[a]
                a += 1
            else:
                gap = -np.float64(values[b])
                b += 1
            total += gap * gap
        return total

    return dense if len(rows) == 1 else sparse


@kernel(allocates=True)
def pair_norms(rows, winner, loser):
    """‖x_i - x_j‖² for every pair."""
    out = np.empty(len(winner))
    for k in range(len(winner)):
        out[k] = pair_norm(rows, winner[k], loser[k])
    return out


@kernel(allocates=True)
def combine_pairs(rows, winner, loser, a, n_features):
    """sum a_k (x_i - x_j)."""
    w = np.zeros(n_features)
    for k in range(len(a)):
        if a[k] != 0.0:
            pair_step(rows, winner[k], loser[k], a[k], w)
    return w


@kernel
def dual_epoch(rows, winner, loser, limit, norm, margin, order, a, w):
    """One exact update of every multiplier in the given order, 0 <= a <= limit. O(pairs * d)."""
    for k in order:
        i, j = winner[k], loser[k]
        slack = margin - pair_score(rows, i, j, w)
        if (a[k] == 0.0 and slack <= 0.0) or (a[k] == limit[k] and slack >= 0.0):
            continue
        if norm[k] > 0.0:
            new = min(max(a[k] + slack / norm[k], 0.0), limit[k])
        else:
            new = limit[k] if slack > 0.0 else 0.0
        if new != a[k]:
            pair_step(rows, i, j, new - a[k], w)
            a[k] = new
