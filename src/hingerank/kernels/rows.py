"""Rows of features, dense or CSR: the one seam between the two, and products with them.

A block of rows is a tuple: ``(X,)`` for a dense C-ordered matrix, ``(values, columns, starts)`` for CSR. Sums run in
float64 whatever the storage: the passes are limited by memory bandwidth, so float32 rows take half the time of float64
ones, and certificates stay exact.

Rows of curves (problem/curves.py) store for every value twice its bin number, and its position in the bin:
``(bins, places, n, d)`` for n rows of d columns, in tiles (kernels/curves.py), and ``(bins, places, columns, starts,
stride)`` for CSR. Their weights are a height and a slope for every bin, `stride` numbers for each column: products look
these up, at a cost of O(values) whatever the number of bins.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, chosen, inner, kernel
from hingerank.kernels.curves import curve_back, curve_scores


@chosen(fastmath=SUMS_MAY_REORDER)
def block_scores(rows, lo, hi, w, out):
    """out[r - lo] = <row r, w> for r in lo:hi."""

    def dense(rows, lo, hi, w, out):
        X = rows[0]
        for r in range(lo, hi):
            total = 0.0
            for c in range(X.shape[1]):
                total += X[r, c] * w[c]
            out[r - lo] = total

    def sparse(rows, lo, hi, w, out):
        values, columns, starts = rows
        for r in range(lo, hi):
            total = 0.0
            for k in range(starts[r], starts[r + 1]):
                total += values[k] * w[columns[k]]
            out[r - lo] = total

    def curves(rows, lo, hi, w, out):
        bins, places, n, d = rows
        curve_scores(bins, places, n, d, lo, hi, w, out)

    def sparse_curves(rows, lo, hi, w, out):
        bins, places, columns, starts, stride = rows
        for r in range(lo, hi):
            total = 0.0
            for e in range(starts[r], starts[r + 1]):
                k = stride * np.int64(columns[e]) + np.int64(bins[e])
                total += w[k] + w[k + 1] * places[e]
            out[r - lo] = total

    return {1: dense, 3: sparse, 4: curves, 5: sparse_curves}[len(rows)]


@chosen(fastmath=SUMS_MAY_REORDER)
def block_back(rows, lo, hi, z, g):
    """g += sum over r in lo:hi of z[r - lo] * row r."""

    def dense(rows, lo, hi, z, g):
        X = rows[0]
        for r in range(lo, hi):
            zr = z[r - lo]
            if zr != 0.0:
                for c in range(X.shape[1]):
                    g[c] += zr * X[r, c]

    def sparse(rows, lo, hi, z, g):
        values, columns, starts = rows
        for r in range(lo, hi):
            zr = z[r - lo]
            if zr != 0.0:
                for k in range(starts[r], starts[r + 1]):
                    g[columns[k]] += zr * values[k]

    def curves(rows, lo, hi, z, g):
        bins, places, n, d = rows
        curve_back(bins, places, n, d, lo, hi, z, g)

    def sparse_curves(rows, lo, hi, z, g):
        bins, places, columns, starts, stride = rows
        for r in range(lo, hi):
            zr = z[r - lo]
            if zr != 0.0:
                for e in range(starts[r], starts[r + 1]):
                    k = stride * np.int64(columns[e]) + np.int64(bins[e])
                    g[k] += zr
                    g[k + 1] += zr * places[e]

    return {1: dense, 3: sparse, 4: curves, 5: sparse_curves}[len(rows)]


@chosen
def block_columns(rows, lo, perm, c0, c1, out):
    """out[p] = columns c0:c1 of row lo + perm[p]."""

    def dense(rows, lo, perm, c0, c1, out):
        X = rows[0]
        for p in range(len(perm)):
            r = lo + perm[p]
            for c in range(c0, c1):
                out[p, c - c0] = X[r, c]

    def sparse(rows, lo, perm, c0, c1, out):
        values, columns, starts = rows
        for p in range(len(perm)):
            out[p, : c1 - c0] = 0.0
            for k in range(starts[lo + perm[p]], starts[lo + perm[p] + 1]):
                if c0 <= columns[k] < c1:
                    out[p, columns[k] - c0] = values[k]

    return dense if len(rows) == 1 else sparse


@kernel
def scores_range(rows, lo, hi, w, out):
    """out[lo:hi] = the scores of rows lo:hi."""
    block_scores(rows, lo, hi, w, out[lo:hi])


@kernel(allocates=True)
def back_range(rows, lo, hi, z, n_features):
    """The sum of z[r] * row r over lo:hi."""
    g = np.zeros(n_features)
    block_back(rows, lo, hi, z[lo:hi], g)
    return g


@kernel
def group_sums(rows, group, m, first, last, sums):
    """sums[group of row r] += m_r · row r for r in first:last. One pass over these rows."""
    for r in range(first, last):
        block_back(rows, r, r + 1, m[r : r + 1], sums[group[r]])


@kernel(fastmath=SUMS_MAY_REORDER)
def dot(a, b):
    """Sum of a_i b_i in float64, always in the same order: a BLAS may split it over threads. O(n)."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


# A hash of each row that depends only on its values: not on its position, storage or precision. Values are first
# rounded to single precision, since scaled rows are rounded to the precision of the input.


_SMALLEST, _LARGEST = 1e-37, 1e38  # range of normal numbers in single precision, with a margin


@inner
def _mix(x):
    """The finaliser of splitmix64 (Steele, Lea & Flood): every bit of x flips about half of the bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inner
def _entry_key(column, value):
    if value == 0.0:
        return np.uint64(0)
    place = _mix(np.uint64(column) + np.uint64(0x9E3779B97F4A7C15))
    if value == np.float64(np.float32(value)) or not _SMALLEST < abs(value) < _LARGEST:  # exact, or out of range
        return _mix(np.float64(value).view(np.uint64) ^ place)
    return _mix(np.float64(np.float32(value)).view(np.uint64) ^ place)


@chosen
def _row_key(rows, r):
    def dense(rows, r):
        key = np.uint64(0)
        for c in range(rows[0].shape[1]):
            key += _entry_key(c, rows[0][r, c])
        return key

    def sparse(rows, r):
        values, columns, starts = rows
        key = np.uint64(0)
        for k in range(starts[r], starts[r + 1]):
            key += _entry_key(columns[k], values[k])
        return key

    return dense if len(rows) == 1 else sparse


@kernel
def row_keys(rows, keys):
    """keys[r] = a hash of row r, the same for a dense and for a sparse row; zeros do not count. O(entries)."""
    for r in range(len(keys)):
        keys[r] = _row_key(rows, r)


# Products with a symmetric matrix of which only the blocks on and right of the diagonal are stored.

COLUMNS = 1024  # of a chunk: its part of x and y stays in the first-level cache


@kernel(fastmath=SUMS_MAY_REORDER)
def triangle_product(block, first, start, mirror, x, y):
    """y += K x for K's rows first: and columns start: held in `block`; columns from `mirror` on count as rows too.

    That is, y[c] gains K[c, r] x[r] for c ≥ mirror. Each entry is read once for both uses. O(size of the block).
    """
    height, width = block.shape
    own = mirror - start
    c0 = 0
    while c0 < width:
        c1 = min(c0 + COLUMNS, width)
        if c0 < own:
            c1 = min(c1, own)
        xs, ys = x[start + c0 : start + c1], y[start + c0 : start + c1]
        r = 0
        while r < height:
            if c0 < own or r + 4 > height:
                total = 0.0
                row = block[r, c0:c1]
                for c in range(c1 - c0):
                    total += row[c] * xs[c]
                y[first + r] += total
                if c0 >= own:
                    xr = x[first + r]
                    for c in range(c1 - c0):
                        ys[c] += row[c] * xr
                r += 1
            else:
                r0, r1, r2, r3 = block[r, c0:c1], block[r + 1, c0:c1], block[r + 2, c0:c1], block[r + 3, c0:c1]
                x0, x1, x2, x3 = x[first + r], x[first + r + 1], x[first + r + 2], x[first + r + 3]
                t0 = t1 = t2 = t3 = 0.0
                for c in range(c1 - c0):
                    k0, k1, k2, k3 = np.float64(r0[c]), np.float64(r1[c]), np.float64(r2[c]), np.float64(r3[c])
                    t0 += k0 * xs[c]
                    t1 += k1 * xs[c]
                    t2 += k2 * xs[c]
                    t3 += k3 * xs[c]
                    ys[c] += k0 * x0 + k1 * x1 + k2 * x2 + k3 * x3
                y[first + r] += t0
                y[first + r + 1] += t1
                y[first + r + 2] += t2
                y[first + r + 3] += t3
                r += 4
        c0 = c1
