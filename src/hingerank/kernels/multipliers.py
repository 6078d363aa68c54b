"""Factorised multipliers of the pairs, a_ij = <v_i, v_j>, without listing pairs.

V holds one column of K numbers per position (ascending grade, see kernels/grade_tree.py), so that loops over the rows
of a grade run along memory. A row's part in any sum over pairs depends on the other rows' grades alone: sums by grade
do, O(rows * K) beside the reading of features."""

import numpy as np
from numba import njit

from hingerank.kernels.rows import SUMS_MAY_REORDER, block_back, block_scores


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def grade_sums(V, lo, u, borders, S, U):
    """S[k, g] = sum of v_ik and U[k, g] = sum of u_i v_ik over the rows of grade g. O(n K)."""
    for g in range(len(borders) - 1):
        own = u[borders[g] : borders[g + 1]]
        for k in range(len(V)):
            v, plain, scored = V[k, lo + borders[g] : lo + borders[g + 1]], 0.0, 0.0
            for i in range(len(v)):
                plain += v[i]
                scored += own[i] * v[i]
            S[k, g], U[k, g] = plain, scored


@njit(cache=True, nogil=True)
def factor_sides(S, n_grades, D, T):
    """D = sums over lower grades less those over higher ones, T = both together; returns ½ sum S T. O(grades K)."""
    total = 0.0
    for k in range(len(S)):
        run = 0.0
        for g in range(n_grades):
            D[k, g] = T[k, g] = run
            run += S[k, g]
        run = 0.0
        for g in range(n_grades - 1, -1, -1):
            D[k, g] -= run
            T[k, g] += run
            run += S[k, g]
            total += 0.5 * S[k, g] * T[k, g]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def factor_coefficients(V, lo, D, borders, c):
    """c_i = sum over pairs of ±a_ij = <v_i, D_g>, so that sum a_ij (x_i - x_j) = sum c_i x_i. O(n K)."""
    for g in range(len(borders) - 1):
        own = c[borders[g] : borders[g + 1]]
        own[:] = 0.0
        for k in range(len(V)):
            v, slope = V[k, lo + borders[g] : lo + borders[g + 1]], D[k, g]
            for i in range(len(v)):
                own[i] += v[i] * slope


@njit(cache=True, nogil=True)
def factor_lines(V, lo, u, borders, offset, S, U, D, E):
    """The gradient G_i = sum over j below of v_j (u_i - u_j - offset) + sum over j above of v_j (u_j - u_i - offset)
    is a line in u_i for each grade:  G_i = u_i D_g + E_g.  Fills D and E; returns sum a_ij and the squared norm of its
    own gradient, which is G where u = 0 and offset = -1. O(n K)."""
    n_grades = len(borders) - 1
    grade_sums(V, lo, u, borders, S, U)
    factor_sides(U, n_grades, D, E)
    U[:, :n_grades] = D[:, :n_grades]
    total, steepness = factor_sides(S, n_grades, D, E), 0.0
    for k in range(len(V)):
        for g in range(n_grades):
            steepness += (borders[g + 1] - borders[g]) * E[k, g] ** 2
            E[k, g] = -offset * E[k, g] - U[k, g]
    return total, steepness


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def factor_trial(V, lo, u, borders, D, E, step, limit, trial, S):
    """trial = V - step·gradient within its box, S its sums by grade; returns the squared length of the move. O(n K)."""
    moved = 0.0
    for g in range(len(borders) - 1):
        own = u[borders[g] : borders[g + 1]]
        for k in range(len(V)):
            old, new = V[k, lo + borders[g] : lo + borders[g + 1]], trial[k, borders[g] : borders[g + 1]]
            slope, level, plain = step * D[k, g], step * E[k, g], 0.0
            for i in range(len(old)):
                v = min(max(old[i] - (own[i] * slope + level), 0.0), limit)
                new[i] = v
                moved += (v - old[i]) * (v - old[i])
                plain += v
            S[k, g] = plain
    return moved


@njit(cache=True, nogil=True)
def steepest(u, borders, D, E):
    """The largest entry of the gradient u_i D_g + E_g, in size: at an end of each grade's scores. O(n + grades K)."""
    most = 0.0
    for g in range(len(borders) - 1):
        own = u[borders[g] : borders[g + 1]]
        low, high = own.min(), own.max()
        for k in range(len(D)):
            most = max(most, abs(low * D[k, g] + E[k, g]), abs(high * D[k, g] + E[k, g]))
    return most


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def free_steepness(V, lo, u, borders, D, E, limit):
    """Squared norm of the gradient without what points out of the box: 0 where no small step goes down.

    Not the move of a step over its length, which is small for any long step that ends at the border. O(n K)."""
    total = 0.0
    for g in range(len(borders) - 1):
        own = u[borders[g] : borders[g + 1]]
        for k in range(len(V)):
            v, slope, level = V[k, lo + borders[g] : lo + borders[g + 1]], D[k, g], E[k, g]
            for i in range(len(v)):
                down = own[i] * slope + level
                free = v[i] > 0.0 if down > 0.0 else v[i] < limit
                total += down * down if free else 0.0
    return total


@njit(cache=True, nogil=True)
def factor_room(tree, K):
    """Room for the largest query: (rows, numbers by factor and grade)."""
    n, grades = 0, 0
    for q in range(len(tree.offsets) - 1):
        n = max(n, tree.offsets[q + 1] - tree.offsets[q])
        grades = max(grades, tree.leaf_start[q + 1] - tree.leaf_start[q])
    a, b = np.empty((4, n)), np.empty((5, K, grades))
    return (a[0], a[1], a[2], a[3]), (b[0], b[1], b[2], b[3], b[4])


@njit(cache=True, nogil=True)
def factor_epoch(rows, order, tree, V, w, step, limit):
    """One projected gradient step on every query's factors, in the given order, w kept up to date.

    The objective ½‖w‖² - sum a_ij never rises: a query's step is halved until it falls, and grows again afterwards.
    Returns (change of the objective, squared norms of the projected gradient and of that of sum a_ij). O(n (K + d)).
    """
    (s, u, c, fresh), (S, U, D, E, T) = factor_room(tree, len(V))
    trial, dw, change, steepness = np.empty((len(V), len(s))), np.empty(len(w)), 0.0, 0.0
    linear = 0.0
    for q in order:
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi, borders = tree.offsets[q], tree.offsets[q + 1], query_borders(tree, q)
        block_scores(rows, lo, hi, w, s)
        for p in range(hi - lo):
            u[p] = s[tree.perm[lo + p]]
        before, pull = factor_lines(V, lo, u, borders, 1.0, S, U, D, E)
        linear += pull
        factor_coefficients(V, lo, D, borders, c)
        if step[q] == 0.0:  # first visit: move the steepest number by a tenth of its box
            most = steepest(u, borders, D, E)
            step[q] = 0.1 * limit / most if most > 0.0 else 1.0
        steepness += free_steepness(V, lo, u, borders, D, E, limit)
        for _ in range(40):
            moved = factor_trial(V, lo, u, borders, D, E, step[q], limit, trial, S)
            after = factor_sides(S, len(borders) - 1, U, T)
            factor_coefficients(trial, 0, U, borders, fresh)
            for p in range(hi - lo):
                s[tree.perm[lo + p]] = fresh[p] - c[p]
            dw[:] = 0.0
            block_back(rows, lo, hi, s, dw)
            difference = np.dot(w, dw) + 0.5 * np.dot(dw, dw) - (after - before)
            if difference <= -1e-4 * moved / step[q]:
                if moved > 0.0:
                    V[:, lo:hi] = trial[:, : hi - lo]
                    w += dw
                    change += difference
                    if difference <= -0.6 * moved / step[q]:  # bends little: a longer step would still fall
                        step[q] *= 1.5
                break
            step[q] *= 0.5
        else:  # as low as rounding lets it see: stay, and begin with a fresh step next time
            step[q] = 0.0
    return change, steepness, linear


@njit(cache=True, nogil=True)
def factor_ahead(V, last, stride, limit, out):
    """out = V + stride·(V - last) within its box. O(n K)."""
    for k in range(V.shape[0]):
        for i in range(V.shape[1]):
            out[k, i] = min(max(V[k, i] + stride * (V[k, i] - last[k, i]), 0.0), limit)


@njit(cache=True, nogil=True)
def factor_weights(rows, tree, V, n_features):
    """(w = sum a_ij (x_i - x_j), sum a_ij) of the factors, from scratch."""
    (u, c, z, _), (S, U, D, E, _) = factor_room(tree, len(V))
    w, total = np.zeros(n_features), 0.0
    u[:] = 0.0
    for q in range(len(tree.offsets) - 1):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi, borders = tree.offsets[q], tree.offsets[q + 1], query_borders(tree, q)
        total += factor_lines(V, lo, u, borders, 0.0, S, U, D, E)[0]
        factor_coefficients(V, lo, D, borders, c)
        for p in range(hi - lo):
            z[tree.perm[lo + p]] = c[p]
        block_back(rows, lo, hi, z, w)
    return w, total


@njit(cache=True, nogil=True)
def factor_chain(t, tree, V, G):
    """G = the gradient in the factors of h(w(V)), where t = X (gradient of h in w), rows in block order."""
    (u, _, _, _), (S, U, D, E, _) = factor_room(tree, len(V))
    for q in range(len(tree.offsets) - 1):
        lo, hi, borders = tree.offsets[q], tree.offsets[q + 1], query_borders(tree, q)
        if tree.node_start[q] == tree.node_start[q + 1]:
            G[:, lo:hi] = 0.0
            continue
        for p in range(hi - lo):
            u[p] = t[lo + tree.perm[lo + p]]
        factor_lines(V, lo, u, borders, 0.0, S, U, D, E)
        for k in range(len(V)):
            for g in range(len(borders) - 1):
                for i in range(borders[g], borders[g + 1]):
                    G[k, lo + i] = u[i] * D[k, g] + E[k, g]


# Multipliers of the pairs, listed: a query's fill a winners × losers matrix, all queries' matrices one flat array.


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
