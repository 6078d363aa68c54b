"""Scores of a few rows by curves: all columns have the same number of knots, so that a search takes no branches."""

import numpy as np

from hingerank.kernels.compiled import kernel

LAST = 16  # knots among which the last four steps of a search choose


@kernel
def curve_scores(X, knots, lines, scores):
    """scores[r] = Σ_c h_c(X[r, c]), a curve being a line in each bin between knots. O(values · log knots).

    knots[c]: those of column c, ascending, then infinities: a power of two in all, LAST at least. lines[c, k]: height
    and slope of the line in bin k, and the value where it has that height. Steps of the search are sums, not choices,
    which processors would have to guess.
    """
    one, two, three, four, seven, eight = (
        np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(7), np.uint64(8),
    )  # fmt: skip
    for r in range(X.shape[0]):
        total = 0.0
        for c in range(X.shape[1]):
            x, k = X[r, c], np.uint64(0)
            step = np.uint64(knots.shape[1] // 2)
            while step > eight:
                k += step * np.uint64(knots[c, k + step - one] <= x)
                step >>= one
            k += eight * np.uint64(knots[c, k + seven] <= x)
            k += four * np.uint64(knots[c, k + three] <= x)
            k += two * np.uint64(knots[c, k + one] <= x)
            k += np.uint64(knots[c, k] <= x)
            total += lines[c, k, 0] + lines[c, k, 1] * (x - lines[c, k, 2])
        scores[r] = total
