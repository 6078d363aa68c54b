"""Multipliers of the pairs: factorised, a_ij = <v_i, v_j>, without listing pairs; and listed, query by query.

Factors: V holds one row of K numbers per position (ascending grade, see kernels/grade_tree.py), and sums over the rows
below or above come from running sums by grade, O(rows * K) beside the reading of features.
Listed: a query's multipliers fill a winners × losers matrix, all queries' matrices one flat array; O(pairs).
"""

import numpy as np
from numba import njit

from hingerank.kernels.rows import block_back, block_scores


@njit(cache=True, nogil=True)
def factor_coefficients(V, borders, below, c):
    """c_i = sum over pairs of ±a_ij, so that sum a_ij (x_i - x_j) = sum c_i x_i; returns sum a_ij. O(n K)."""
    K, total = V.shape[1], 0.0
    below[:] = 0.0
    for g in range(len(borders) - 1):
        for i in range(borders[g], borders[g + 1]):
            dot = 0.0
            for k in range(K):
                dot += V[i, k] * below[k]
            c[i] = dot
            total += dot
        for i in range(borders[g], borders[g + 1]):
            for k in range(K):
                below[k] += V[i, k]
    below[:] = 0.0
    for g in range(len(borders) - 2, -1, -1):
        for i in range(borders[g], borders[g + 1]):
            for k in range(K):
                c[i] -= V[i, k] * below[k]
        for i in range(borders[g], borders[g + 1]):
            for k in range(K):
                below[k] += V[i, k]
    return total


@njit(cache=True, nogil=True)
def factor_gradient(V, u, borders, offset, sums, G):
    """G_i = sum over j below of v_j (u_i - u_j - offset) + sum over j above of v_j (u_j - u_i - offset). O(n K)."""
    K = V.shape[1]
    plain, scored = sums[0], sums[1]
    for sweep in range(2):
        plain[:] = 0.0
        scored[:] = 0.0
        for step in range(len(borders) - 1):
            g = step if sweep == 0 else len(borders) - 2 - step
            for i in range(borders[g], borders[g + 1]):
                for k in range(K):
                    if sweep == 0:
                        G[i, k] = (u[i] - offset) * plain[k] - scored[k]
                    else:
                        G[i, k] += scored[k] - (u[i] + offset) * plain[k]
            for i in range(borders[g], borders[g + 1]):
                for k in range(K):
                    plain[k] += V[i, k]
                    scored[k] += u[i] * V[i, k]


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
def factor_epoch(rows, order, tree, V, w, step, limit):
    """One projected gradient step on every query's factors, in the given order, w kept up to date.

    The objective ½‖w‖² - sum a_ij never rises: a query's step is halved until it falls, and grows again afterwards.
    Returns (change of the objective, squared norm of the projected gradient). O(n (K + d)).
    """
    n, K = 0, V.shape[1]
    for q in order:
        n = max(n, tree.offsets[q + 1] - tree.offsets[q])
    s, u, c, fresh, z = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    G, trial, sums, dw = np.empty((n, K)), np.empty((n, K)), np.empty((2, K)), np.empty(len(w))
    change, steepness = 0.0, 0.0
    for q in order:
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        m, borders, own = hi - lo, query_borders(tree, q), V[lo:hi]
        block_scores(rows, lo, hi, w, s)
        for p in range(m):
            u[p] = s[tree.perm[lo + p]]
        before = factor_coefficients(own, borders, sums[0], c)
        factor_gradient(own, u, borders, 1.0, sums, G)
        if step[q] == 0.0:  # first visit: move the steepest number by a tenth of its box
            steepest = 0.0
            for i in range(m):
                for k in range(K):
                    steepest = max(steepest, abs(G[i, k]))
            step[q] = 0.1 * limit / steepest if steepest > 0.0 else 1.0
        for _ in range(60):
            moved = 0.0
            for i in range(m):
                for k in range(K):
                    trial[i, k] = min(max(own[i, k] - step[q] * G[i, k], 0.0), limit)
                    moved += (trial[i, k] - own[i, k]) ** 2
            after = factor_coefficients(trial[:m], borders, sums[0], fresh)
            for p in range(m):
                z[tree.perm[lo + p]] = fresh[p] - c[p]
            dw[:] = 0.0
            block_back(rows, lo, hi, z, dw)
            difference = np.dot(w, dw) + 0.5 * np.dot(dw, dw) - (after - before)
            if difference <= -1e-4 * moved / step[q]:
                steepness += moved / (step[q] * step[q])
                if moved > 0.0:
                    own[:] = trial[:m]
                    w += dw
                    change += difference
                step[q] *= 1.5
                break
            step[q] *= 0.5
    return change, steepness


@njit(cache=True, nogil=True)
def factor_weights(rows, tree, V, n_features):
    """(w = sum a_ij (x_i - x_j), sum a_ij) of the factors, from scratch."""
    w, total, K = np.zeros(n_features), 0.0, V.shape[1]
    sums = np.empty(K)
    for q in range(len(tree.offsets) - 1):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        c, z = np.empty(hi - lo), np.empty(hi - lo)
        total += factor_coefficients(V[lo:hi], query_borders(tree, q), sums, c)
        for p in range(hi - lo):
            z[tree.perm[lo + p]] = c[p]
        block_back(rows, lo, hi, z, w)
    return w, total


@njit(cache=True, nogil=True)
def factor_chain(t, tree, V, G):
    """G = the gradient in the factors of h(w(V)), where t = X (gradient of h in w), rows in block order."""
    sums = np.empty((2, V.shape[1]))
    for q in range(len(tree.offsets) - 1):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        if tree.node_start[q] == tree.node_start[q + 1]:
            G[lo:hi] = 0.0
            continue
        u = np.empty(hi - lo)
        for p in range(hi - lo):
            u[p] = t[lo + tree.perm[lo + p]]
        factor_gradient(V[lo:hi], u, query_borders(tree, q), 0.0, sums, G[lo:hi])


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
