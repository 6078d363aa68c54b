"""Scores of tree ensembles, and threshold weak rankers.

Rows are copied to the features the trees use, then descend one tree after another. Trees are stored in level order, so
that the two children of a node are adjacent: ``child`` is the first of them, and 0 for a leaf. All indices are
unsigned, which spares compiled code a test for negative ones.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, kernel

ROWS = 64  # rows that descend a tree together


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
    """values[r, j] = feature used[j] of row r, or at_zero[j] (0 or NaN) if that is within ±small. O(rows · used).

    Stored entries of a sparse matrix are not rounded to 0, as in LightGBM, which does so in dense rows only.
    """
    _fill(rows, used, small, at_zero, values)


@kernel
def add_trees(values, roots, column, number, child, missing_left, single, node, live, scores):
    """scores[r] += the value of the leaf that row r reaches, tree after tree. O(rows · trees · depth).

    A row goes to the first child if values[r, column] <= number, or if the value is NaN and missing_left. single: sums
    are rounded to single precision. Rows descend a tree together, one level at a time: their steps do not wait for each
    other, which is twice as fast as one row after another. node, live: work arrays of ROWS numbers, for each row's node
    and for the rows not yet at a leaf.
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


def leaf_paths(child: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(starts, place, leaf, parent): place[starts[k] : starts[k + 1]] are the nodes of the path to leaf[k], from itself
    up to below its root; parent is that of every node, -1 for a root. O(nodes · depth)."""
    split, leaf, parent = np.flatnonzero(child), np.flatnonzero(child == 0), np.full(len(child), -1)
    parent[child[split]] = parent[child[split] + 1] = split
    of, at, found = np.arange(len(leaf)), leaf, []
    while len(of):  # a step up from every leaf whose root is not reached yet
        below = parent[at] >= 0
        of, at = of[below], at[below]
        found.append((of, at))
        at = parent[at]
    of, place = map(np.concatenate, zip(*found))
    starts = np.append(0, np.cumsum(np.bincount(of, minlength=len(leaf))))
    return starts, place[np.argsort(of, kind="stable")], leaf, parent


@kernel
def path_contributions(values, starts, place, leaf, parent, column, number, child, missing_left, ratio, room, out):
    """out[r, j] += the contribution (Shapley value) of feature j to row r, out[r, -1] += the trees' mean.

    O(rows · leaves · depth²).

    The game is that of the trees' own paths (Lundberg, Erion & Lee 2018): an absent feature sends a row both ways, in
    the proportion of the training rows; `ratio` is that of each node to its parent. Each feature of a leaf's path
    counts once: z is the fraction of rows, and o whether this row, takes the path at all of its nodes; w are
    the weights of subsets by size. room: four rows of at least depth + 2 numbers.
    """
    z, o, w, which = room[0], room[1], room[2], room[3]
    for r in range(len(values)):
        for k in range(len(leaf)):
            value, m = number[leaf[k]], 0
            for p in range(starts[k], starts[k + 1]):
                at = place[p]
                up = parent[at]
                c = column[up]
                x = values[r, c]
                left = (x <= number[up]) | ((x != x) & missing_left[up])
                goes = 1.0 if left == (at == child[up]) else 0.0
                j = 0
                while j < m and which[j] != c:
                    j += 1
                if j == m:
                    which[j], z[j], o[j] = c, 1.0, 1.0
                    m += 1
                z[j] *= ratio[at]
                o[j] *= goes
            w[0], mean = 1.0, value
            for u in range(1, m + 1):
                w[u] = 0.0
                mean *= z[u - 1]
                for i in range(u - 1, -1, -1):
                    w[i + 1] += o[u - 1] * w[i] * (i + 1) / (u + 1)
                    w[i] *= z[u - 1] * (u - i) / (u + 1)
            out[r, -1] += mean
            for j in range(m):
                total, following = 0.0, w[m]
                for i in range(m - 1, -1, -1):
                    if o[j] > 0:
                        part = following * (m + 1) / (i + 1)
                        total += part
                        following = w[i] - part * z[j] * (m - i) / (m + 1)
                    elif z[j] > 0:
                        total += w[i] * (m + 1) / (z[j] * (m - i))
                out[r, np.int64(which[j])] += total * (o[j] - z[j]) * value


# Threshold weak rankers: features stored as small bin numbers, potentials summed bin by bin.


@kernel
def add_potentials(codes, potential, first, last, sums):
    """sums[k, codes[r, k]] += potential[r] for rows first:last and all features k. O(rows · features)."""
    for r in range(first, last):
        p = potential[r]
        if p != 0.0:
            for k in range(codes.shape[1]):
                sums[k, codes[r, k]] += p
