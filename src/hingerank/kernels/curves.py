"""Piecewise-linear curves of single columns: look-ups in bins, the bin and position of values, and the curves' values.

Knots of column c are ``knots[starts[c]:starts[c + 1]]``, ascending. Bin 0 is below the first knot, bin k between knots
k - 1 and k, the last one above the last knot; a value equal to a knot belongs to the bin above it. A value's position
(`places`) is the fraction of the bin below it; in the unbounded first and last bin it is the distance from the knot in
units of `width`.

A cell is a height and a slope side by side; a value has a cell and a position in it. A score gains the product of
(height, slope) and (1, position); in the other direction, a cell's two sums gain z · (1, position). Whole groups of
eight columns use `vector_lookups` where numba's internals are known. Values are stored in tiles of rows, and within a
tile by groups of eight columns: while a group is read, its cells stay in the first-level cache at any number of knots,
the eight start addresses stay in registers, and the next group is prefetched. Measured on a busy machine, a pass takes
1.3 ns a value at 16 knots and 1.5 at 100 (the linear ranker 0.7). Stored by rows it took 1.5 and 1.8, with gathers into
vector registers 4, and with groups of columns of a row-major matrix 2, since each cache line then serves few values.
Above some 126 knots the cells outgrow the cache, and a pass takes a third more at 300; groups of four columns take
longer still.
"""

import numpy as np

from hingerank.kernels.compiled import QUICK, chosen, inner, kernel, with_room

TILE, GROUP = 1024, 8  # rows of a tile, columns of a group


def together_rows(bins: np.ndarray) -> int:
    """The number of rows, of several queries, to score at once.

    Few, so that they and all cells stay in the second-level cache until they are read again; many when there are so
    many knots that bins take two bytes, so that cells are loaded less often.
    """
    return 384 if bins.itemsize == 1 else 8192


def positions(rows: np.ndarray, n: int, d: int) -> np.ndarray:
    """Positions in memory of the values of some rows of an n by d matrix: d numbers for each row."""
    column = np.arange(d)
    begin = column - column % GROUP
    first = rows - rows % TILE
    height, width = np.minimum(TILE, n - first), np.minimum(GROUP, d - begin)
    return (first * d)[:, None] + height[:, None] * begin + (rows - first)[:, None] * width + column % GROUP


@inner
def tile_position(r, c, n, d):
    """Position in memory of the value of row r, column c (the first of its group), and the group's width."""
    first, width = r - r % TILE, min(GROUP, d - c)
    return first * d + min(TILE, n - first) * c + (r - first) * width, width


@inner
def some_scores(w, at, stride, bins, places, e, own, count, width):
    """own[i] += height + slope · position over some columns, for count rows from value e on; cells start at w[at]."""
    one = np.uint64(1)
    for i in range(count):
        cell = at
        for _ in range(width):
            k = cell + np.uint64(bins[e])
            own[i] += w[k] + w[k + one] * places[e]
            cell += stride
            e += one


@inner
def some_back(g, at, stride, bins, places, e, own, count, width):
    """The cells of some columns gain own[i] · (1, position), for count rows from value e on."""
    one = np.uint64(1)
    for i in range(count):
        cell, z = at, own[i]
        for _ in range(width):
            k = cell + np.uint64(bins[e])
            g[k] += z
            g[k + one] += z * places[e]
            cell += stride
            e += one


if QUICK:
    from hingerank.kernels.vector_lookups import group_back, group_scores
else:

    @inner
    def group_scores(w, at, stride, bins, places, e, own, count, following):
        """`some_scores` for a whole group."""
        some_scores(w, at, stride, bins, places, e, own, count, GROUP)

    @inner
    def group_back(g, at, stride, bins, places, e, own, count):
        """`some_back` for a whole group."""
        some_back(g, at, stride, bins, places, e, own, count, GROUP)


@inner
def curve_scores(bins, places, n, d, lo, hi, w, out):
    """out[r - lo] = sum over columns of height + slope · position, for r in lo:hi. O(values)."""
    stride = np.uint64(len(w) // d)
    for i in range(hi - lo):
        out[i] = 0.0
    begin = lo
    while begin < hi:
        end = min(hi, begin - begin % TILE + TILE)
        own = out[begin - lo : end - lo]
        for c in range(0, d, GROUP):
            position, width = tile_position(begin, c, n, d)
            e, at = np.uint64(position), np.uint64(c) * stride
            if width == GROUP:
                following = np.uint64(GROUP * min(TILE, n - begin + begin % TILE))  # distance to the next group
                group_scores(w, at, stride, bins, places, e, own, end - begin, following)
            else:
                some_scores(w, at, stride, bins, places, e, own, end - begin, width)
        begin = end


@inner
def curve_back(bins, places, n, d, lo, hi, z, g):
    """For r in lo:hi and every column: its cell's sums gain z[r - lo] and z[r - lo] · position. O(values)."""
    stride = np.uint64(len(g) // d)
    begin = lo
    while begin < hi:
        end = min(hi, begin - begin % TILE + TILE)
        own = z[begin - lo : end - lo]
        for c in range((d - 1) // GROUP * GROUP, -1, -GROUP):  # backwards: the scores read the last group last
            position, width = tile_position(begin, c, n, d)
            e, at = np.uint64(position), np.uint64(c) * stride
            if width == GROUP:
                group_back(g, at, stride, bins, places, e, own, end - begin)
            else:
                some_back(g, at, stride, bins, places, e, own, end - begin, width)
        begin = end


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


# Values of curves: all columns have the same number of knots, so that a search needs no branches.
#
# knots[c] are those of column c, ascending, padded with infinities to a power of two, at least LAST. lines[c, k] has
# the height and slope of the line in bin k, and the value at which it has that height.

LAST = 16  # knots among which the last four steps of a search choose


def line_tables(
    knots: np.ndarray, heights: np.ndarray, starts: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The knots and lines of curves with these heights at their knots, and the given slopes outside of them."""
    counts, first = np.diff(starts), starts[:-1]
    d, room, column = len(counts), LAST, np.repeat(np.arange(len(counts)), counts)
    while room <= counts.max(initial=0):
        room *= 2
    place = np.arange(len(knots)) - starts[column]
    padded, lines = np.full((d, room), np.inf), np.zeros((d, room, 3))
    padded[column, place] = knots
    lines[column, place + 1, 0], lines[column, place + 1, 2] = heights, knots
    inside = np.flatnonzero(place > 0)
    lines[column[inside], place[inside], 1] = np.diff(heights)[inside - 1] / np.diff(knots)[inside - 1]
    lines[:, 0] = np.column_stack((heights[first], slopes, knots[first]))
    lines[np.arange(d), counts, 1] = slopes
    return padded, lines


@inner
def line_at(x, c, knots, lines):
    """The value at x of column c's curve. O(log knots).

    Steps of the search are sums rather than branches, which a processor would have to predict.
    """
    one, eight = np.uint64(1), np.uint64(8)
    k, step = np.uint64(0), np.uint64(knots.shape[1] // 2)
    while step > eight:
        k += step * np.uint64(knots[c, k + step - one] <= x)
        step >>= one
    k += eight * np.uint64(knots[c, k + np.uint64(7)] <= x)
    k += np.uint64(4) * np.uint64(knots[c, k + np.uint64(3)] <= x)
    k += np.uint64(2) * np.uint64(knots[c, k + one] <= x)
    k += np.uint64(knots[c, k] <= x)
    return lines[c, k, 0] + lines[c, k, 1] * (x - lines[c, k, 2])


@kernel
def line_scores(X, knots, lines, scores):
    """scores[r] = Σ_c h_c(X[r, c]). O(values · log knots)."""
    for r in range(X.shape[0]):
        total = 0.0
        for c in range(X.shape[1]):
            total += line_at(X[r, c], c, knots, lines)
        scores[r] = total


@kernel
def line_parts(X, knots, lines, parts):
    """parts[r, c] = h_c(X[r, c]). O(values · log knots)."""
    for r in range(X.shape[0]):
        for c in range(X.shape[1]):
            parts[r, c] = line_at(X[r, c], c, knots, lines)


@kernel
def line_entries(values, columns, knots, lines):
    """values[e] <- h_c(values[e]) of column c = columns[e], as the entries of CSR rows are stored. O(values · log
    knots)."""
    for e in range(len(values)):
        values[e] = line_at(values[e], columns[e], knots, lines)
