"""Piecewise-linear curves of single columns: the bin and position of values, and the curves' values.

Knots of column c are ``knots[starts[c]:starts[c + 1]]``, ascending. Bin 0 is below the first knot, bin k between knots
k - 1 and k, the last one above the last knot; a value equal to a knot belongs to the bin above it. A value's position
(`places`) is the fraction of the bin below it; in the unbounded first and last bin it is the distance from the knot in
units of `width`.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, inner, kernel, with_room
from hingerank.kernels.lookups import GROUP, TILE, tile_position


@inner
def knots_up_to(x, knots, first, last):
    """The number of knots in first:last that are not above x. O(log knots)."""
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
    """(o, l) such that a value x in bin k has position (x - o) / l; the column's knots are first:last."""
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
        origin, length = room[2], room[3]  # column c has one bin more than knots: its bins begin at starts[c] + c
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
    """Fill twice the bin number, and the position in the bin, of every value.

    For rows of a matrix, where = (number of the first row, rows of the matrix), and results go to their tiles; for CSR
    entries, where = their columns, and results keep their order. O(values · log knots); with few knots, counting a
    block's knots column by column is faster, since it vectorises. Values are float64: other types are converted first,
    so that this is compiled once.
    """
    _bin_rows(values, where, knots, starts, width, bins, places, np.zeros((4, max(ROWS, len(knots) + len(starts)))))


@kernel
def _bin_rows(values, where, knots, starts, width, bins, places, room):
    bin_block(values, where, knots, starts, width, bins, places, room)


@inner
def curve_at(x, knots, heights, slope, first, last):
    """The value at x of a curve that is linear between knots and continues outside with the given slope."""
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
    """out[r, c] += the curve of column c at row r's value if apart = 1; out[r, 0] += their sum if apart = 0.

    Rows are CSR in float64; at_zero holds the curves at 0, for absent entries. O(values · log knots).
    """
    for r in range(len(begins) - 1):
        for c in range(len(slopes)):
            out[r, c * apart] += at_zero[c]
        for e in range(begins[r], begins[r + 1]):
            c = columns[e]
            value = curve_at(values[e], knots, heights, slopes[c], starts[c], starts[c + 1])
            out[r, c * apart] += value - at_zero[c]
