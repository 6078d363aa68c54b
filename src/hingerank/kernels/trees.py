"""Scores of tree ensembles: rows are laid out by the features that the trees use, then follow one tree after another.

Trees are held in level order, so that the two children of a node are neighbours: ``child`` is the first of them, and 0
for a leaf. Everything is indexed without a sign, which spares compiled code a test for negative indices.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, kernel

ROWS = 64  # that follow a tree while it is in the fastest cache


@chosen
def _fill(rows, lo, hi, used, small, at_zero, values):
    def dense(rows, lo, hi, used, small, at_zero, values):
        X = rows[0]
        for r in range(lo, hi):
            for j in range(len(used)):
                x = np.float64(X[r, used[j]])
                values[r - lo, j] = at_zero[j] if abs(x) <= small else x

    def sparse(rows, lo, hi, used, small, at_zero, values):
        entries, columns, starts = rows
        for r in range(lo, hi):
            k = starts[r]
            for j in range(len(used)):
                while k < starts[r + 1] and columns[k] < used[j]:
                    k += 1
                found = k < starts[r + 1] and columns[k] == used[j]
                x = np.float64(entries[k]) if found else 0.0
                values[r - lo, j] = x + at_zero[j] if abs(x) <= small else x

    return dense if len(rows) == 1 else sparse


@kernel
def used_values(rows, lo, hi, used, small, at_zero, values):
    """values[r - lo, j] = feature used[j] of row r, or at_zero[j], 0 or NaN, if that is within ±small. O(rows · used).

    What a sparse matrix stores is not rounded to 0: so does LightGBM, which looks at small numbers in dense rows alone.
    """
    _fill(rows, lo, hi, used, small, at_zero, values)


@kernel
def add_trees(values, roots, column, number, child, missing_left, single, scores):
    """scores[r] += the number of the leaf that row r reaches, tree after tree. O(rows · trees · depth).

    A row goes to the first child if values[r, column] <= number, and where the value is NaN if missing_left. single:
    sums are rounded to single precision.
    """
    for first in range(0, len(scores), ROWS):
        last = min(first + ROWS, len(scores))
        for t in range(len(roots)):
            root = roots[t]
            for r in range(first, last):
                node = root
                below = child[node]
                while below != 0:
                    x = values[r, column[node]]
                    second = np.uint32(not x <= number[node])
                    if x != x:
                        second = np.uint32(not missing_left[node])
                    node = np.uint32(below + second)
                    below = child[node]
                total = scores[r] + number[node]
                scores[r] = np.float64(np.float32(total)) if single else total
