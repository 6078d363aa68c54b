"""Products with a symmetric matrix of which only blocks on and right of the diagonal are kept."""

import numpy as np
from numba import njit

from hingerank.kernels.rows import SUMS_MAY_REORDER

COLUMNS = 1024  # of a chunk: its part of x and y stays in the fastest cache


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
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
