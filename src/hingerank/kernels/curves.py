"""Piecewise-linear curves of single columns: the bin and place of values, and the curves' values.

Knots of column c are ``knots[starts[c]:starts[c + 1]]``, ascending. Bin 0 is below the first knot, bin k between knots
k - 1 and k, the last one above the last knot; a value that is a knot begins its bin. A place is the fraction of the bin
below the value; in the first and last bin, which have no end, the distance from the knot in units of `width`.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, inner, kernel, with_room
from hingerank.kernels.lookups import GROUP, TILE, tile_position


@inner
def knots_up_to(x, knots, first, last):
    """How many of the knots first:last are not above x. O(log knots)."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - first


@inner
def origin_and_length(k, knots, first, last, width):
    """(o, l) with which the place of a value x in bin k is (x - o) / l, of the column with the knots first:last."""
    if k == 0:
        return knots[first], width
    if first + k == last:
        return knots[last - 1], width
    return knots[first + k - 1], knots[first + k] - knots[first + k - 1]


ROWS, FEW_KNOTS = 64, 128  # rows of a block whose bins are counted knot by knot, and the most knots for that


@chosen
def bin_block(values, where, knots, starts, width, bins, places, room):
    def dense(values, where, knots, starts, width, bins, places, room):
        (first, n), x, count, d = where, room[0], room[1], values.shape[1]
        origin, length = room[2], room[3]  # column c has a bin more than knots: its bins begin at starts[c] + c
        for c in range(d):
            for k in range(starts[c + 1] - starts[c] + 1):
                here = starts[c] + c + k
                origin[here], length[here] = origin_and_length(k, knots, starts[c], starts[c + 1], width[c])
        lo = 0
        while lo < values.shape[0]:
            size = min(ROWS, values.shape[0] - lo, TILE - (first + lo) % TILE)
            for c in range(d):
                low, high = starts[c], starts[c + 1]
                for i in range(size):
                    x[i], count[i] = values[lo + i, c], 0.0
                if high - low <= FEW_KNOTS:
                    for k in range(low, high):
                        knot = knots[k]
                        for i in range(ROWS):
                            count[i] += 1.0 if knot <= x[i] else 0.0
                else:
                    for i in range(size):
                        count[i] = knots_up_to(x[i], knots, low, high)
                e, step = tile_position(first + lo, c - c % GROUP, n, d)
                e += c % GROUP
                for i in range(size):
                    own = np.int64(count[i])
                    bins[e] = 2 * own
                    places[e] = (x[i] - origin[low + c + own]) / length[low + c + own]
                    e += step
            lo += size

    def sparse(values, where, knots, starts, width, bins, places, room):
        for e in range(len(values)):
            c = where[e]
            k = knots_up_to(values[e], knots, starts[c], starts[c + 1])
            origin, length = origin_and_length(k, knots, starts[c], starts[c + 1], width[c])
            bins[e] = 2 * k
            places[e] = (values[e] - origin) / length

    return dense if values.ndim == 2 else sparse


@with_room
def bin_rows(values, where, knots, starts, width, bins, places):
    """Twice the bin and the place of every value.

    Of rows of a matrix, where = (number of the first, rows of the matrix), they go to their tiles; of CSR's entries,
    where = their columns, to the same numbers. O(values · log knots); counting a block's knots column by column, which
    vector registers like, is faster where they are few. Values are float64: blocks of others are converted, which
    spares compiling this for each kind.
    """
    _bin_rows(values, where, knots, starts, width, bins, places, np.zeros((4, max(ROWS, len(knots) + len(starts)))))


@kernel
def _bin_rows(values, where, knots, starts, width, bins, places, room):
    bin_block(values, where, knots, starts, width, bins, places, room)


@inner
def curve_at(x, knots, heights, slope, first, last):
    """A curve's value: linear between knots, and outside with the slope given."""
    k = knots_up_to(x, knots, first, last)
    if k == 0:
        return heights[first] + slope * (x - knots[first])
    if first + k == last:
        return heights[last - 1] + slope * (x - knots[last - 1])
    below = first + k - 1
    place = (x - knots[below]) / (knots[below + 1] - knots[below])
    return heights[below] + (heights[below + 1] - heights[below]) * place


@kernel
def add_curves(values, columns, begins, knots, heights, slopes, starts, at_zero, apart, out):
    """out[r, c] += the curve of column c at row r's value (apart = 1), or out[r, 0] their sum (apart = 0).

    Rows are CSR's, in float64; at_zero: the curves at 0, for entries left out. O(values · log knots).
    """
    for r in range(len(begins) - 1):
        for c in range(len(slopes)):
            out[r, c * apart] += at_zero[c]
        for e in range(begins[r], begins[r + 1]):
            c = columns[e]
            value = curve_at(values[e], knots, heights, slopes[c], starts[c], starts[c + 1])
            out[r, c * apart] += value - at_zero[c]
