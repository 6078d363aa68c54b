"""Multipliers of the pairs, listed: a query's fill a winners × losers matrix, all queries' matrices one flat array."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def query_borders(tree, q):
    """Grade borders of query q within its block: first positions, then its length."""
    lo, first, last = tree.offsets[q], tree.leaf_start[q], tree.leaf_start[q + 1]
    borders = np.empty(last - first + 1, np.int64)
    for k in range(first, last):
        borders[k - first] = tree.leaf[k] - lo
    borders[-1] = tree.offsets[q + 1] - lo
    return borders


@njit(cache=True, nogil=True)
def block_shape(tree, q):
    """(first winner's position within the query, winners, losers) of the query's matrix of multipliers.

    Row r belongs to position first + r; its preferred-over positions are a prefix, as grades ascend with position.
    """
    borders = query_borders(tree, q)
    if len(borders) < 3:
        return np.int64(0), np.int64(0), np.int64(0)
    return borders[1], borders[-1] - borders[1], borders[-2]


@njit(cache=True, nogil=True)
def prefix_lengths(tree, q):
    """The number of losers of each of the query's winners."""
    borders, (_, winners, _) = query_borders(tree, q), block_shape(tree, q)
    lengths = np.empty(winners, np.int64)
    for g in range(1, len(borders) - 1):
        lengths[borders[g] - borders[1] : borders[g + 1] - borders[1]] = borders[g]
    return lengths


@njit(cache=True, nogil=True)
def multiplier_coefficients(a, start, first, last, tree, c):
    """c (rows in block order) with sum a_ij (x_i - x_j) = sum c_i x_i for queries first:last; returns sum a."""
    total = 0.0
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        c[lo:hi] = 0.0
        top, winners, losers = block_shape(tree, q)
        length = prefix_lengths(tree, q)
        for r in range(winners):
            at, own = start[q] + r * losers, 0.0
            for j in range(length[r]):
                own += a[at + j]
                c[lo + tree.perm[lo + j]] -= a[at + j]
            c[lo + tree.perm[lo + top + r]] += own
            total += own
    return total


@njit(cache=True, nogil=True)
def multiplier_response(u, A, start, first, last, tree, softness, limit, a, c):
    """a_ij = clip(A_ij + softness·(1 - u_i + u_j), 0, limit) on the pairs of queries first:last: the best multipliers
    for scores u. Fills c as `multiplier_coefficients`; returns sum of a·(1 - u_i + u_j) - (a - A)²/(2 softness).
    """
    total = 0.0
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        c[lo:hi] = 0.0
        top, winners, losers = block_shape(tree, q)
        length = prefix_lengths(tree, q)
        for r in range(winners):
            i, own = lo + tree.perm[lo + top + r], 0.0
            for j in range(length[r]):
                k, other = start[q] + r * losers + j, lo + tree.perm[lo + j]
                slack = 1.0 - u[i] + u[other]
                value = min(max(A[k] + softness * slack, 0.0), limit)
                total += value * slack - (value - A[k]) ** 2 / (2.0 * softness)
                a[k] = value
                own += value
                c[other] -= value
            c[i] += own
    return total


@njit(cache=True, nogil=True)
def multiplier_bend(v, a, start, first, last, tree, softness, limit, out):
    """out = rows' sums of softness·(v_i - v_j) over the pairs whose multipliers are inside their box. O(pairs)."""
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        out[lo:hi] = 0.0
        top, winners, losers = block_shape(tree, q)
        length = prefix_lengths(tree, q)
        for r in range(winners):
            i, own = lo + tree.perm[lo + top + r], 0.0
            for j in range(length[r]):
                value, other = a[start[q] + r * losers + j], lo + tree.perm[lo + j]
                if 0.0 < value < limit:
                    force = softness * (v[i] - v[other])
                    own += force
                    out[other] -= force
            out[i] += own


@njit(cache=True, nogil=True)
def multiplier_gap(u, a, A, start, first, last, tree, pull, limit):
    """The most that a linear model of the objective could fall within the box: sum of g a - min(0, g limit) with
    g = u_i - u_j - 1 + pull·(a - A). By convexity it bounds the distance to the optimum. O(pairs)."""
    total = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        top, winners, losers = block_shape(tree, q)
        length = prefix_lengths(tree, q)
        for r in range(winners):
            i = lo + tree.perm[lo + top + r]
            for j in range(length[r]):
                k = start[q] + r * losers + j
                g = u[i] - u[lo + tree.perm[lo + j]] - 1.0 + pull * (a[k] - A[k])
                total += g * a[k] - min(0.0, g * limit)
    return total
