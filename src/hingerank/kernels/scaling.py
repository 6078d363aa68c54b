"""Feature scaling that NumPy has not: by quantiles, and within queries. NaN is skipped and kept.

Kernels within queries take the blocks first:last, where block q is rows[offsets[q]:offsets[q+1]].
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel


@kernel
def quantile_dense(X, quantiles, out):
    """out = the quantile of x among the sorted quantiles_j, 0 to 1, the middle of equal ones.

    Linear between two quantiles. NaN stays NaN. O(values · log quantiles).
    """
    top = quantiles.shape[1] - 1
    for i in range(len(X)):
        for j in range(X.shape[1]):
            x, low, high = X[i, j], 0, top + 1
            if x != x:
                out[i, j] = x
                continue
            while low < high:  # the first quantile that is not below x
                middle = (low + high) // 2
                if quantiles[j, middle] < x:
                    low = middle + 1
                else:
                    high = middle
            if low > top:
                out[i, j] = 1.0
            elif quantiles[j, low] == x:
                high = low
                while high < top and quantiles[j, high + 1] == x:
                    high += 1
                out[i, j] = 0.5 * (low + high) / top
            elif low == 0:
                out[i, j] = 0.0
            else:
                below = quantiles[j, low - 1]
                out[i, j] = (low - 1 + (x - below) / (quantiles[j, low] - below)) / top


@kernel(allocates=True)
def minmax_dense(X, rows, offsets, first, last, out):
    """out[i,j] = (x − lo)/(hi − lo) over the block of row i, 0 where hi = lo; O(rows·d), two passes in cache."""
    d = X.shape[1]
    lo, zero, width, factor = np.empty(d), np.zeros(d), np.empty(d), np.empty(d)
    for q in range(first, last):
        block = rows[offsets[q] : offsets[q + 1]]
        _range_dense(X, block, lo, width)
        _apply_dense(X, block, lo, zero, width, factor, out)


@kernel(allocates=True)
def standard_dense(X, rows, offsets, first, last, out):
    """out[i,j] = (x − mean)/sd over the block of row i, 0 where sd = 0; O(rows·d), four passes in cache."""
    d = X.shape[1]
    lo, width, mean, count = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for q in range(first, last):
        block = rows[offsets[q] : offsets[q + 1]]
        _range_dense(X, block, lo, width)
        mean[:] = 0.0
        count[:] = 0.0
        for i in block:
            for j in range(d):
                v = X[i, j] - lo[j]  # sums of differences: a constant column gives exactly 0
                mean[j] += v if v == v else 0.0
                count[j] += 1.0 if v == v else 0.0
        for j in range(d):
            mean[j] /= max(count[j], 1.0)
        width[:] = 0.0
        for i in block:
            for j in range(d):
                v = (X[i, j] - lo[j]) - mean[j]
                width[j] += v * v if v == v else 0.0
        for j in range(d):
            width[j] = np.sqrt(width[j] / max(count[j], 1.0))
        _apply_dense(X, block, lo, mean, width, count, out)


@kernel(fastmath=SUMS_MAY_REORDER)
def query_scores(X, offsets, first, last, standard, w, ends, low, factor, own, out):
    """out[r] = <row r scaled within its query, w> for queries first:last, by minima and ranges, or means and sds.

    x' = (x − low) · factor is never formed: low[q − first] and factor[q − first] are left for `query_back`. Work
    arrays: ends (2 × d, of X's type) and own (d). Values must be finite. O(rows·d), a query's rows read 2 to 4 times.
    """
    d, least, most = X.shape[1], ends[0], ends[1]
    for q in range(first, last):
        lo, hi, shift, scale = offsets[q], offsets[q + 1], low[q - first], factor[q - first]
        if lo == hi:
            continue
        _ends_dense(X, lo, hi, least, most)
        for j in range(d):
            shift[j] = least[j]
            scale[j] = np.float64(most[j]) - shift[j]
            own[j] = 0.0
        if standard:
            for r in range(lo, hi):
                for j in range(d):
                    own[j] += X[r, j] - shift[j]  # sums of differences: a constant column gives exactly 0
            for j in range(d):
                shift[j] += own[j] / (hi - lo) if scale[j] > 0.0 else 0.0
                own[j] = 0.0
            for r in range(lo, hi):
                for j in range(d):
                    v = X[r, j] - shift[j]
                    own[j] += v * v
            for j in range(d):
                scale[j] = np.sqrt(own[j] / (hi - lo)) if scale[j] > 0.0 else 0.0
        for j in range(d):
            scale[j] = 1.0 / scale[j] if scale[j] > 0.0 else 0.0
            own[j] = scale[j] * w[j]
        for r in range(lo, hi):
            total = 0.0
            for j in range(d):
                total += (X[r, j] - shift[j]) * own[j]
            out[r] = total


@inner
def _ends_dense(X, lo, hi, least, most):
    """Minima and maxima of the columns over rows lo:hi, at least one. Two rows at a time: with more than these four
    arrays the compiler cannot prove that they do not overlap, and does not vectorise."""
    for j in range(X.shape[1]):
        least[j] = most[j] = X[lo, j]
    for r in range(lo + 1, hi, 2):
        one, other = X[r], X[min(r + 1, hi - 1)]
        for j in range(X.shape[1]):
            a, b = one[j], other[j]
            low, high = a if a < b else b, a if a > b else b
            least[j] = low if low < least[j] else least[j]
            most[j] = high if high > most[j] else most[j]


@kernel(fastmath=SUMS_MAY_REORDER)
def query_back(X, offsets, first, last, low, factor, own, z, g):
    """g += the sum of z[r] · (row r scaled within its query), low and factor from `query_scores`; own: room."""
    d = X.shape[1]
    for q in range(first, last):
        shift, scale = low[q - first], factor[q - first]
        for j in range(d):
            own[j] = 0.0
        for r in range(offsets[q], offsets[q + 1]):
            zr = z[r]
            if zr != 0.0:
                for j in range(d):
                    own[j] += zr * (X[r, j] - shift[j])
        for j in range(d):
            g[j] += scale[j] * own[j]


@inner
def _range_dense(X, block, lo, width):
    d = X.shape[1]
    lo[:] = np.inf
    width[:] = -np.inf
    for i in block:
        for j in range(d):
            v = np.float64(X[i, j])
            lo[j] = v if v < lo[j] else lo[j]
            width[j] = v if v > width[j] else width[j]
    for j in range(d):
        some = width[j] >= lo[j]
        width[j] = width[j] - lo[j] if some else 0.0
        lo[j] = lo[j] if some else 0.0


@inner
def _apply_dense(X, block, lo, mean, width, factor, out):
    d = X.shape[1]  # a factor of 0 keeps constant columns at 0 without a branch
    for j in range(d):
        factor[j] = 0.0 if width[j] == 0.0 else 1.0
        width[j] = 1.0 if width[j] == 0.0 else width[j]
    for i in block:
        for j in range(d):
            out[i, j] = factor[j] * (((X[i, j] - lo[j]) - mean[j]) / width[j])


@kernel(allocates=True)
def minmax_csr(data, indices, indptr, n_features, rows, offsets, first, last, out):
    """`minmax_dense` for CSR, absent entries being 0; returns −1, or the first block where these would not stay 0."""
    lo, hi = np.empty(n_features), np.empty(n_features)
    count = np.zeros(n_features, np.int64)
    for q in range(first, last):
        block = rows[offsets[q] : offsets[q + 1]]
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j, v = indices[k], np.float64(data[k])
                if count[j] == 0:
                    lo[j], hi[j] = np.inf, -np.inf
                count[j] += 1
                lo[j] = v if v < lo[j] else lo[j]
                hi[j] = v if v > hi[j] else hi[j]
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                low, high = lo[j], hi[j]
                if count[j] < len(block):
                    if low < 0:
                        return q
                    low, high = 0.0, max(high, 0.0)
                if high > low:
                    out[k] = (data[k] - low) / (high - low)
                else:
                    out[k] = data[k] * 0.0  # NaN stays NaN
        _forget(indices, indptr, block, count)
    return -1


@kernel(allocates=True)
def standard_csr(data, indices, indptr, n_features, rows, offsets, first, last, out):
    """out = x/sd over CSR, sd counting absent entries as 0, and 0 where sd = 0; not centred, to stay sparse."""
    shift, mean, square = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    count, valid = np.zeros(n_features, np.int64), np.empty(n_features, np.int64)
    for q in range(first, last):
        block = rows[offsets[q] : offsets[q + 1]]
        n = len(block)
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if count[j] == 0:
                    mean[j] = square[j] = shift[j] = 0.0
                    valid[j] = n
                count[j] += 1
                if data[k] != data[k]:
                    valid[j] -= 1
                elif shift[j] == 0.0:
                    shift[j] = data[k]
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if count[j] < n:
                    shift[j] = 0.0  # a full column is summed from its first value, so that a constant one gives 0
                v = data[k] - shift[j]
                mean[j] += v / valid[j] if v == v else 0.0
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                v = data[k] - shift[j] - mean[j]
                square[j] += v * v if v == v else 0.0
        for i in block:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                total = square[j] + (n - count[j]) * mean[j] * mean[j]
                out[k] = data[k] / np.sqrt(total / valid[j]) if total > 0.0 else data[k] * 0.0
        _forget(indices, indptr, block, count)
    return -1


@inner
def _forget(indices, indptr, block, count):
    for i in block:
        for k in range(indptr[i], indptr[i + 1]):
            count[indices[k]] = 0
