"""The two inner loops of curves, and the memory layout of bins and positions for them.

A cell is a height and a slope side by side; a value has a cell and a position in it (`places`). A score gains the
product of (height, slope) and (1, position); in the other direction, a cell's two sums gain z · (1, position). Whole
groups of eight columns use `vector_lookups` where numba's internals are known. Values are stored in tiles of rows, and
within a tile by groups of eight columns: while a group is read, its cells stay in the first-level cache at any number
of knots, the eight start addresses stay in registers, and the next group is prefetched. Measured on a busy machine, a
pass takes 1.3 ns a value at 16 knots and 1.5 at 100 (the linear ranker 0.7). Stored by rows it took 1.5 and 1.8, with
gathers into vector registers 4, and with groups of columns of a row-major matrix 2, since each cache line then serves
few values. Above some 126 knots the cells outgrow the cache, and a pass takes a third more at 300; groups of four
columns take longer still.
"""

import numpy as np

from hingerank.kernels.compiled import QUICK, inner

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
