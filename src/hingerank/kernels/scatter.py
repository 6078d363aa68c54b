"""Weighted squares of features around the mean of their query: a Hessian's diagonal, but for a factor of 1 to 2."""

import numpy as np
from numba import njit
from numba.extending import overload

from hingerank.kernels.rows import SUMS_MAY_REORDER


def block_scatter(rows, lo, hi, weight, sums, squares, total, out):
    """out[c] += sum over rows r in lo:hi of weight[r] (x_rc - mean_c)², mean_c the weighted mean of these rows."""
    raise NotImplementedError("compiled code only")


@overload(block_scatter, jit_options={"fastmath": SUMS_MAY_REORDER})
def _block_scatter(rows, lo, hi, weight, sums, squares, total, out):
    if len(rows) == 1:

        def dense(rows, lo, hi, weight, sums, squares, total, out):
            X = rows[0]
            for c in range(len(out)):
                sums[c] = 0.0
            for r in range(lo, hi):
                for c in range(len(out)):
                    sums[c] += weight[r] * X[r, c]
            for c in range(len(out)):
                sums[c] /= total
            for r in range(lo, hi):
                for c in range(len(out)):
                    apart = X[r, c] - sums[c]
                    out[c] += weight[r] * apart * apart

        return dense

    def sparse(rows, lo, hi, weight, sums, squares, total, out):
        values, columns, starts = rows
        for r in range(lo, hi):  # the sums of a query's columns are 0 before and after
            for k in range(starts[r], starts[r + 1]):
                sums[columns[k]] += weight[r] * values[k]
                squares[columns[k]] += weight[r] * values[k] * values[k]
        for r in range(lo, hi):
            for k in range(starts[r], starts[r + 1]):
                c = columns[k]
                out[c] += max(0.0, squares[c] - sums[c] * sums[c] / total)
                sums[c] = squares[c] = 0.0

    return sparse


@njit(cache=True, nogil=True)
def scatter_pass(rows, n_features, first, last, stride, offsets, weight):
    """sum over every stride-th query of the weighted squares of its rows around their mean. O(numbers)."""
    out, sums, squares = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    for q in range(first, last, stride):
        lo, hi, total = offsets[q], offsets[q + 1], 0.0
        for r in range(lo, hi):
            total += weight[r]
        if total > 0.0:
            block_scatter(rows, lo, hi, weight, sums, squares, total, out)
    return out
