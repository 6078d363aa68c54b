"""The two inner loops of curves, and how bins and places lie in memory for them.

A cell is a height and a slope side by side, and a value has a cell and a place in it. A score gains the product of
(height, slope) and (1, place); the other way, a cell's two sums gain z · (1, place). Whole groups of eight columns go
through `vector_lookups` where numba's inside is known. Values lie in tiles of rows, and in a tile by groups of eight
columns: while a group's rows are read, its cells stay in the fastest cache at any number of knots, the eight addresses
where they begin stay in registers, and the next group's rows are on their way. Measured on a busy machine, a pass takes
1.3 ns a value at 16 knots and 1.5 at 100, the linear ranker's 0.7; by rows it was 1.5 and 1.8. Gathers into vector
registers took 4, and groups of columns of a matrix that lies by rows 2: a cache line for every few values. Above some
126 knots the cells outgrow these caches, and a pass takes a third more at 300; groups of four columns take longer
still.
"""

import numpy as np

from hingerank.kernels.compiled import QUICK, inner

TILE, GROUP = 1024, 8  # rows of a tile, columns of a group


def together_rows(bins: np.ndarray) -> int:
    """Rows to score at once, of several queries.

    Few, so that they and all cells stay in the second cache until they are read again; where there are so many knots
    that bins take two bytes, many, so that cells are fetched rarely.
    """
    return 384 if bins.itemsize == 1 else 8192


def positions(rows: np.ndarray, n: int, d: int) -> np.ndarray:
    """Where the values of some rows of a matrix of n rows and d columns lie: a row of d numbers for each."""
    column = np.arange(d)
    begin = column - column % GROUP
    first = rows - rows % TILE
    height, width = np.minimum(TILE, n - first), np.minimum(GROUP, d - begin)
    return (first * d)[:, None] + height[:, None] * begin + (rows - first)[:, None] * width + column % GROUP


@inner
def tile_position(r, c, n, d):
    """Where the value of row r, column c lies, c the first of its group; and how many columns the group has."""
    first, width = r - r % TILE, min(GROUP, d - c)
    return first * d + min(TILE, n - first) * c + (r - first) * width, width


@inner
def some_scores(w, at, stride, bins, places, e, own, count, width):
    """own[i] gains height + slope · place of some columns, for count rows from value e on; cells: at w[at] and on."""
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
    """The cells of some columns gain own[i] · (1, place), for count rows from value e on."""
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
        """`some_scores` of a whole group."""
        some_scores(w, at, stride, bins, places, e, own, count, GROUP)

    @inner
    def group_back(g, at, stride, bins, places, e, own, count):
        """`some_back` of a whole group."""
        some_back(g, at, stride, bins, places, e, own, count, GROUP)


@inner
def curve_scores(bins, places, n, d, lo, hi, w, out):
    """out[r - lo] = sum over columns of height + slope · place, for r in lo:hi. O(values)."""
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
                following = np.uint64(GROUP * min(TILE, n - begin + begin % TILE))  # from here to the next group
                group_scores(w, at, stride, bins, places, e, own, end - begin, following)
            else:
                some_scores(w, at, stride, bins, places, e, own, end - begin, width)
        begin = end


@inner
def curve_back(bins, places, n, d, lo, hi, z, g):
    """For r in lo:hi and every column: its cell's first sum gains z[r - lo], the second z · place. O(values)."""
    stride = np.uint64(len(g) // d)
    begin = lo
    while begin < hi:
        end = min(hi, begin - begin % TILE + TILE)
        own = z[begin - lo : end - lo]
        for c in range((d - 1) // GROUP * GROUP, -1, -GROUP):  # scores have read the last group last
            position, width = tile_position(begin, c, n, d)
            e, at = np.uint64(position), np.uint64(c) * stride
            if width == GROUP:
                group_back(g, at, stride, bins, places, e, own, end - begin)
            else:
                some_back(g, at, stride, bins, places, e, own, end - begin, width)
        begin = end
