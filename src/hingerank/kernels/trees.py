"""Scores of tree ensembles: rows are laid out by the features that the trees use, then go down one tree after another.

Trees are held in level order, so that the two children of a node are neighbours: ``child`` is the first of them, and 0
for a leaf. Everything is indexed without a sign, which spares compiled code a test for negative indices.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, kernel

ROWS = 64  # that go down a tree side by side


@chosen
def _fill(rows, used, small, at_zero, values):
    def dense(rows, used, small, at_zero, values):
        X = rows[0]
        for r in range(len(values)):
            for j in range(len(used)):
                x = np.float64(X[r, used[j]])
                values[r, j] = at_zero[j] if abs(x) <= small else x

    def sparse(rows, used, small, at_zero, values):
        entries, columns, starts = rows
        for r in range(len(values)):
            k = starts[r]
            for j in range(len(used)):
                while k < starts[r + 1] and columns[k] < used[j]:
                    k += 1
                found = k < starts[r + 1] and columns[k] == used[j]
                x = np.float64(entries[k]) if found else 0.0
                values[r, j] = x + at_zero[j] if abs(x) <= small else x

    return dense if len(rows) == 1 else sparse


@kernel
def used_values(rows, used, small, at_zero, values):
    """values[r, j] = feature used[j] of row r, or at_zero[j], 0 or NaN, if that is within ±small. O(rows · used).

    What a sparse matrix stores is not rounded to 0: so does LightGBM, which looks at small numbers in dense rows alone.
    """
    _fill(rows, used, small, at_zero, values)


@kernel
def add_trees(values, roots, column, number, child, missing_left, single, node, live, scores):
    """scores[r] += the number of the leaf that row r reaches, tree after tree. O(rows · trees · depth).

    A row goes to the first child if values[r, column] <= number, and where the value is NaN if missing_left. single:
    sums are rounded to single precision. Rows go down a tree side by side, one level at a time: their steps do not wait
    for each other, which is twice as fast as one row after another. node, live: room for ROWS numbers, where each row
    is and which rows are not at a leaf.
    """
    for first in range(0, len(scores), ROWS):
        count = min(ROWS, len(scores) - first)
        for t in range(len(roots)):
            going = count if child[roots[t]] != 0 else 0
            for i in range(count):
                node[i], live[i] = roots[t], i
            while going > 0:
                on = 0
                for k in range(going):
                    i = live[k]
                    at = node[i]
                    x = values[first + i, column[at]]
                    left = (x <= number[at]) | ((x != x) & missing_left[at])
                    at = np.uint32(child[at] + np.uint32(not left))
                    node[i], live[on] = at, i
                    on += 1 if child[at] != 0 else 0
                going = on
            for i in range(count):
                total = scores[first + i] + number[node[i]]
                scores[first + i] = np.float64(np.float32(total)) if single else total
