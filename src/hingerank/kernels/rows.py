"""Rows of features, dense or CSR: the one seam between the two."""

import numpy as np
from numba import njit
from numba.extending import overload

# Inner products of long vectors, always summed the same way: a BLAS may split them over threads.


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def dot(a, b):
    """sum of a_i b_i in float64. O(n)."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


# The one seam between dense and sparse rows, for compiled code.
#
# A block of rows is a tuple: ``(X,)`` for a dense C-ordered matrix, ``(values, columns, starts)`` for CSR. Sums run in
# float64 whatever the storage: the passes are bound by memory, so float32 rows cost half of float64 ones, and the
# certificates stay exact.


SUMS_MAY_REORDER = {
    "reassoc",
    "contract",
    "nsz",
}  # lets a dot product use vector registers; NaN and inf keep their meaning


def block_scores(rows, lo, hi, w, out):
    """out[r - lo] = <row r, w> for r in lo:hi."""
    raise NotImplementedError("compiled code only")


def block_back(rows, lo, hi, z, g):
    """g += sum over r in lo:hi of z[r - lo] * row r."""
    raise NotImplementedError("compiled code only")


@overload(block_scores, jit_options={"fastmath": SUMS_MAY_REORDER})
def _block_scores(rows, lo, hi, w, out):
    if len(rows) == 1:

        def dense(rows, lo, hi, w, out):
            X = rows[0]
            for r in range(lo, hi):
                total = 0.0
                for c in range(X.shape[1]):
                    total += X[r, c] * w[c]
                out[r - lo] = total

        return dense

    def sparse(rows, lo, hi, w, out):
        values, columns, starts = rows
        for r in range(lo, hi):
            total = 0.0
            for k in range(starts[r], starts[r + 1]):
                total += values[k] * w[columns[k]]
            out[r - lo] = total

    return sparse


@overload(block_back, jit_options={"fastmath": SUMS_MAY_REORDER})
def _block_back(rows, lo, hi, z, g):
    if len(rows) == 1:

        def dense(rows, lo, hi, z, g):
            X = rows[0]
            for r in range(lo, hi):
                zr = z[r - lo]
                if zr != 0.0:
                    for c in range(X.shape[1]):
                        g[c] += zr * X[r, c]

        return dense

    def sparse(rows, lo, hi, z, g):
        values, columns, starts = rows
        for r in range(lo, hi):
            zr = z[r - lo]
            if zr != 0.0:
                for k in range(starts[r], starts[r + 1]):
                    g[columns[k]] += zr * values[k]

    return sparse


def block_columns(rows, lo, hi, perm, out):
    """out[c, p] = column c of row lo + perm[p]: a block of rows, transposed and in another order."""
    raise NotImplementedError("compiled code only")


@overload(block_columns)
def _block_columns(rows, lo, hi, perm, out):
    if len(rows) == 1:

        def dense(rows, lo, hi, perm, out):
            X = rows[0]
            for p in range(hi - lo):
                for c in range(X.shape[1]):
                    out[c, p] = X[lo + perm[p], c]

        return dense

    def sparse(rows, lo, hi, perm, out):
        values, columns, starts = rows
        out[:, : hi - lo] = 0.0
        for p in range(hi - lo):
            for k in range(starts[lo + perm[p]], starts[lo + perm[p] + 1]):
                out[columns[k], p] = values[k]

    return sparse


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def add_products(X, Z, n, H):
    """H += X Zᵀ over the first n columns, where the product is symmetric."""
    for c in range(len(X)):
        for e in range(c + 1):
            total = 0.0
            for p in range(n):
                total += X[c, p] * Z[e, p]
            H[c, e] += total
            if e < c:
                H[e, c] += total


@njit(cache=True, nogil=True)
def scores_range(rows, lo, hi, w, out):
    """out[lo:hi] = the scores of rows lo:hi."""
    block_scores(rows, lo, hi, w, out[lo:hi])


@njit(cache=True, nogil=True)
def back_range(rows, lo, hi, z, n_features):
    """The sum of z[r] * row r over lo:hi."""
    g = np.zeros(n_features)
    block_back(rows, lo, hi, z[lo:hi], g)
    return g


@njit(cache=True, nogil=True)
def group_sums(rows, group, m, first, last, sums):
    """sums[group of row r] += m_r · row r for r in first:last. One pass over these rows."""
    for r in range(first, last):
        block_back(rows, r, r + 1, m[r : r + 1], sums[group[r]])


# A number for each row that depends on its values alone: not on its place, its storage or its precision.


@njit(cache=True, nogil=True)
def _mix(x):
    """Steele, Lea & Flood's finaliser of splitmix64: every bit of x moves about half of the bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _entry(column, bits):
    return _mix(bits ^ _mix(np.uint64(column) + np.uint64(0x9E3779B97F4A7C15)))


@njit(cache=True, nogil=True)
def dense_keys(X, keys):
    """keys[r] = a hash of row r; zeros do not count. O(size of X)."""
    value = np.empty(1)
    bits = value.view(np.uint64)
    for r in range(X.shape[0]):
        key = np.uint64(0)
        for c in range(X.shape[1]):
            if X[r, c] != 0.0:
                value[0] = X[r, c]
                key += _entry(c, bits[0])
        keys[r] = key


@njit(cache=True, nogil=True)
def csr_keys(values, columns, starts, keys):
    """keys[r] = a hash of row r, the same as that of the dense row. O(entries)."""
    value = np.empty(1)
    bits = value.view(np.uint64)
    for r in range(len(keys)):
        key = np.uint64(0)
        for k in range(starts[r], starts[r + 1]):
            if values[k] != 0.0:
                value[0] = values[k]
                key += _entry(columns[k], bits[0])
        keys[r] = key
