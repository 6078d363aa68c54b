"""Piecewise-linear curves of single columns: the bin and place of values, and the curves' values.

Knots of column c are ``knots[starts[c]:starts[c + 1]]``, ascending. Bin 0 is below the first knot, bin k between knots
k - 1 and k, the last one above the last knot; a value that is a knot begins its bin. A place is the fraction of the bin
below the value; in the first and last bin, which have no end, the distance from the knot in units of `width`.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, inner, kernel, with_room


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
def place_of(x, k, knots, first, last, width):
    """The place of x in bin k of the column with the knots first:last."""
    if k == 0:
        return (x - knots[first]) / width
    if first + k == last:
        return (x - knots[last - 1]) / width
    return (x - knots[first + k - 1]) / (knots[first + k] - knots[first + k - 1])


ROWS, FEW_KNOTS = 64, 128  # of a block whose bins are counted knot by knot, up to so many knots


@chosen
def bin_block(values, columns, knots, starts, width, bins, places, room):
    def dense(values, columns, knots, starts, width, bins, places, room):
        x, count = room[0], room[1]
        for lo in range(0, values.shape[0], ROWS):
            size = min(ROWS, values.shape[0] - lo)
            for c in range(values.shape[1]):
                first, last = starts[c], starts[c + 1]
                for i in range(size):
                    x[i], count[i] = values[lo + i, c], 0.0
                if last - first <= FEW_KNOTS:
                    for k in range(first, last):
                        knot = knots[k]
                        for i in range(ROWS):
                            count[i] += 1.0 if knot <= x[i] else 0.0
                else:
                    for i in range(size):
                        count[i] = knots_up_to(x[i], knots, first, last)
                for i in range(size):
                    own = np.int64(count[i])
                    bins[lo + i, c] = 2 * own
                    places[lo + i, c] = place_of(x[i], own, knots, first, last, width[c])

    def sparse(values, columns, knots, starts, width, bins, places, room):
        for e in range(len(values)):
            c = columns[e]
            k = knots_up_to(values[e], knots, starts[c], starts[c + 1])
            bins[e] = 2 * k
            places[e] = place_of(values[e], k, knots, starts[c], starts[c + 1], width[c])

    return dense if values.ndim == 2 else sparse


@with_room
def bin_rows(values, columns, knots, starts, width, bins, places):
    """Twice the bin and the place of every value: of rows, or of CSR's entries in these columns.

    O(values · log knots); counting a dense block's knots column by column, which vector registers like, is faster where
    they are few. Values are float64: blocks of others are converted, which spares compiling this for each kind.
    """
    _bin_rows(values, columns, knots, starts, width, bins, places, np.zeros((2, ROWS)))


@kernel
def _bin_rows(values, columns, knots, starts, width, bins, places, room):
    bin_block(values, columns, knots, starts, width, bins, places, room)


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
