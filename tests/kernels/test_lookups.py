"""Look-ups four columns at a time, and bins counted knot by knot, against their definitions."""

import numpy as np
import pytest

from hingerank.kernels.curves import GROUP, TILE, bin_rows, positions
from hingerank.kernels.rows import back_range, scores_range


def in_tiles(matrix):
    """The matrix in the order that look-ups want."""
    flat = np.empty(matrix.size, matrix.dtype)
    flat[positions(np.arange(len(matrix)), *matrix.shape)] = matrix
    return flat


def test_tiles_hold_every_value_once():
    for n, d in ((1, 1), (5, 3), (TILE, GROUP), (2 * TILE + 3, 2 * GROUP + 5)):
        at = positions(np.arange(n), n, d)
        assert np.array_equal(np.sort(at.ravel()), np.arange(n * d))
        assert at[-1, -1] == n * d - 1 and at[0, 0] == 0


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("rows", [7, TILE + 1, 2 * TILE, 2 * TILE + 9])
@pytest.mark.parametrize("columns", [1, 3, 8, 11, 24])
def test_scores_and_sums_are_those_of_cells_written_out(columns, rows, kind):
    rng, count = np.random.default_rng(columns), 6
    cell = rng.integers(0, count, (rows, columns))
    bins, places = (2 * cell).astype(kind), rng.normal(size=(rows, columns)).astype(np.float32)
    table, z = rng.normal(size=(columns, count, 2)), rng.normal(size=rows)
    z[2] = 0.0
    out, each = np.zeros(rows), np.arange(columns)
    tiled = *(in_tiles(part) for part in (bins, places)), rows, columns
    scores_range(tiled, 1, rows - 1, table.ravel(), out)
    wanted = (table[each, cell, 0] + table[each, cell, 1] * places.astype(np.float64)).sum(axis=1)
    assert np.allclose(out[1:-1], wanted[1:-1], rtol=1e-13, atol=1e-13) and out[0] == out[-1] == 0
    sums = np.zeros_like(table)
    for r in range(1, rows - 1):
        sums[each, cell[r]] += z[r] * np.column_stack((np.ones(columns), places[r].astype(np.float64)))
    assert np.allclose(back_range(tiled, 1, rows - 1, z, table.size), sums.ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("counts", [(1, 2, 5), (128, 129, 300)])
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_bins_and_places_are_those_of_a_sorted_search(rows, counts):
    rng, d = np.random.default_rng(rows), len(counts)
    each = [np.sort(rng.normal(size=count)) for count in counts]
    knots, starts, width = np.concatenate(each), np.concatenate(([0], np.cumsum(counts))), rng.uniform(1, 2, d)
    X = np.where(rng.random((rows, d)) < 0.3, knots[starts[:-1]], 2 * rng.normal(size=(rows, d)))  # some are knots
    before, n = TILE - 40, TILE - 40 + rows  # which may begin in one tile and end in the next
    tiled, at = (np.zeros(n * d, np.uint16), np.zeros(n * d, np.float32)), positions(np.arange(before, n), n, d)
    bin_rows(X, (before, n), knots, starts, width, *tiled)
    bins, places = (part[at] for part in tiled)
    entries, at = np.empty(X.size, np.uint16), np.empty(X.size, np.float32)
    bin_rows(X.ravel(), np.tile(np.arange(d, dtype=np.int32), rows), knots, starts, width, entries, at)
    assert np.array_equal(bins.ravel(), entries) and np.array_equal(places.ravel(), at)
    for c, t in enumerate(each):
        k = np.searchsorted(t, X[:, c], side="right")
        assert np.array_equal(bins[:, c], 2 * k)
        below, above = t[np.maximum(k - 1, 0)], t[np.minimum(k, len(t) - 1)]
        inside = (k > 0) & (k < len(t))
        wanted = (X[:, c] - below) / np.where(inside, above - below, width[c])
        assert np.allclose(places[:, c], wanted, rtol=1e-6)
