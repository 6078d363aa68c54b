"""Values of curves for dense rows: all columns have the same number of knots, so that a search needs no branches.

knots[c] are those of column c, ascending, padded with infinities to a power of two, at least LAST. lines[c, k] has the
height and slope of the line in bin k, and the value at which it has that height.
"""

import numpy as np

from hingerank.kernels.compiled import inner, kernel

LAST = 16  # knots among which the last four steps of a search choose


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
def curve_scores(X, knots, lines, scores):
    """scores[r] = Σ_c h_c(X[r, c]). O(values · log knots)."""
    for r in range(X.shape[0]):
        total = 0.0
        for c in range(X.shape[1]):
            total += line_at(X[r, c], c, knots, lines)
        scores[r] = total


@kernel
def curve_parts(X, knots, lines, parts):
    """parts[r, c] = h_c(X[r, c]). O(values · log knots)."""
    for r in range(X.shape[0]):
        for c in range(X.shape[1]):
            parts[r, c] = line_at(X[r, c], c, knots, lines)
