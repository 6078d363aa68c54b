"""Factorised multipliers of the pairs, a_ij = <v_i, v_j>, without listing pairs.

V holds one column of K numbers per position (ascending grade, see kernels/sweeps.py), so that loops over the rows of a
grade are contiguous. A row's part in any sum over pairs depends only on the grades of the other rows, so sums by grade
suffice: O(rows * K) besides reading the features. The last section has multipliers that are listed pair by pair.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel, with_room
from hingerank.kernels.rows import block_back, block_scores
from hingerank.kernels.sweeps import GradeTree, leaf_borders


def _room(tree, K):
    """Work arrays for the largest query: (rows of floats, floats by factor and grade, grade borders)."""
    grades = int(np.diff(tree.leaf_start).max(initial=0))
    return np.zeros((4, tree.widest)), np.empty((5, K, grades)), np.empty(grades + 1, np.int64)


@inner
def fill_borders(tree, q, borders):
    """borders = first position of each grade within query q's block, then its length; returns the number of grades."""
    lo, first, last = tree.offsets[q], tree.leaf_start[q], tree.leaf_start[q + 1]
    for k in range(first, last):
        borders[k - first] = tree.leaf[k] - lo
    borders[last - first] = tree.offsets[q + 1] - lo
    return last - first


@inner(fastmath=SUMS_MAY_REORDER)
def grade_sums(V, lo, u, borders, n_grades, S, U):
    """S[k, g] = sum of v_ik and U[k, g] = sum of u_i v_ik over the rows of grade g. O(n K)."""
    for g in range(n_grades):
        own = u[borders[g] : borders[g + 1]]
        for k in range(len(V)):
            v, plain, scored = V[k, lo + borders[g] : lo + borders[g + 1]], 0.0, 0.0
            for i in range(len(v)):
                plain += v[i]
                scored += own[i] * v[i]
            S[k, g], U[k, g] = plain, scored


@inner
def factor_sides(S, n_grades, D, T):
    """D = sums over lower grades minus those over higher ones, T = their sum; returns ½ sum S T. O(grades K)."""
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


@inner(fastmath=SUMS_MAY_REORDER)
def factor_coefficients(V, lo, D, borders, n_grades, c):
    """c_i = sum over pairs of ±a_ij = <v_i, D_g>, so that sum a_ij (x_i - x_j) = sum c_i x_i. O(n K)."""
    for g in range(n_grades):
        own = c[borders[g] : borders[g + 1]]
        own[:] = 0.0
        for k in range(len(V)):
            v, slope = V[k, lo + borders[g] : lo + borders[g + 1]], D[k, g]
            for i in range(len(v)):
                own[i] += v[i] * slope


@inner
def factor_lines(V, lo, u, borders, n_grades, offset, S, U, D, E):
    """The gradient G_i = sum over j below of v_j (u_i - u_j - offset) + sum over j above of v_j (u_j - u_i - offset)
    is linear in u_i for each grade:  G_i = u_i D_g + E_g.  Fills D and E; returns sum a_ij and the squared norm of its
    own gradient, which is G where u = 0 and offset = -1. O(n K)."""
    grade_sums(V, lo, u, borders, n_grades, S, U)
    factor_sides(U, n_grades, D, E)
    for k in range(len(V)):
        for g in range(n_grades):
            U[k, g] = D[k, g]
    total, steepness = factor_sides(S, n_grades, D, E), 0.0
    for k in range(len(V)):
        for g in range(n_grades):
            steepness += (borders[g + 1] - borders[g]) * E[k, g] * E[k, g]
            E[k, g] = -offset * E[k, g] - U[k, g]
    return total, steepness


@inner(fastmath=SUMS_MAY_REORDER)
def factor_trial(V, lo, u, borders, n_grades, D, E, step, limit, trial, S):
    """trial = V - step·gradient clipped to its box, S its sums by grade; returns the squared length of the step.

    O(n K).
    """
    moved = 0.0
    for g in range(n_grades):
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


@inner
def steepest(u, borders, n_grades, D, E):
    """The largest absolute entry of the gradient u_i D_g + E_g, found at the extreme scores of each grade.

    O(n + grades K).
    """
    most = 0.0
    for g in range(n_grades):
        low, high = np.inf, -np.inf
        for i in range(borders[g], borders[g + 1]):
            low, high = min(low, u[i]), max(high, u[i])
        for k in range(len(D)):
            most = max(most, abs(low * D[k, g] + E[k, g]), abs(high * D[k, g] + E[k, g]))
    return most


@inner(fastmath=SUMS_MAY_REORDER)
def free_steepness(V, lo, u, borders, n_grades, D, E, limit):
    """Squared norm of the gradient without the components that point out of the box: 0 where no small step descends.

    The length of a projected step over its size would be small for any long step that ends at the border. O(n K)."""
    total = 0.0
    for g in range(n_grades):
        own = u[borders[g] : borders[g + 1]]
        for k in range(len(V)):
            v, slope, level = V[k, lo + borders[g] : lo + borders[g + 1]], D[k, g], E[k, g]
            for i in range(len(v)):
                down = own[i] * slope + level
                free = v[i] > 0.0 if down > 0.0 else v[i] < limit
                total += down * down if free else 0.0
    return total


@with_room
def factor_epoch(rows, order, tree, V, w, step, limit):
    """One projected gradient step on every query's factors, in the given order, w kept up to date.

    The objective ½‖w‖² - sum a_ij never increases: a query's step is halved until it falls, and grows again afterwards.
    Returns (change of the objective, squared norms of the projected gradient and of that of sum a_ij). O(n (K + d)).
    """
    trial = np.empty((len(V), tree.widest))
    return _factor_epoch(rows, order, tree, V, w, step, limit, *_room(tree, len(V)), trial, np.empty(len(w)))


@kernel
def _factor_epoch(rows, order, tree, V, w, step, limit, floats, by_grade, borders, trial, dw):
    s, u, c, fresh = floats[0], floats[1], floats[2], floats[3]
    S, U, D, E, T = by_grade[0], by_grade[1], by_grade[2], by_grade[3], by_grade[4]
    change, steepness, linear = 0.0, 0.0, 0.0
    for q in order:
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi, grades = tree.offsets[q], tree.offsets[q + 1], fill_borders(tree, q, borders)
        block_scores(rows, lo, hi, w, s)
        for p in range(hi - lo):
            u[p] = s[tree.perm[lo + p]]
        before, own = factor_lines(V, lo, u, borders, grades, 1.0, S, U, D, E)
        linear += own
        factor_coefficients(V, lo, D, borders, grades, c)
        if step[q] == 0.0:  # first visit: move the number with the steepest gradient by a tenth of its box
            most = steepest(u, borders, grades, D, E)
            step[q] = 0.1 * limit / most if most > 0.0 else 1.0
        steepness += free_steepness(V, lo, u, borders, grades, D, E, limit)
        for trials in range(40):
            moved = factor_trial(V, lo, u, borders, grades, D, E, step[q], limit, trial, S)
            after = factor_sides(S, grades, U, T)
            factor_coefficients(trial, 0, U, borders, grades, fresh)
            for p in range(hi - lo):
                s[tree.perm[lo + p]] = fresh[p] - c[p]
            dw[:] = 0.0
            block_back(rows, lo, hi, s, dw)
            difference = before - after
            for j in range(len(w)):
                difference += (w[j] + 0.5 * dw[j]) * dw[j]
            if difference <= -1e-4 * moved / step[q]:
                if moved > 0.0:
                    for k in range(len(V)):
                        for p in range(hi - lo):
                            V[k, lo + p] = trial[k, p]
                    for j in range(len(w)):
                        w[j] += dw[j]
                    change += difference
                    if difference <= -0.6 * moved / step[q]:  # almost no curvature: a longer step would still decrease
                        step[q] *= 1.5
                break
            step[q] *= 0.5 if trials < 39 else 0.0  # no decrease above rounding: choose a new step next time
    return change, steepness, linear


@kernel
def factor_ahead(V, last, stride, limit, out):
    """out = V + stride·(V - last), clipped to its box. O(n K)."""
    for k in range(V.shape[0]):
        for i in range(V.shape[1]):
            out[k, i] = min(max(V[k, i] + stride * (V[k, i] - last[k, i]), 0.0), limit)


@with_room
def factor_weights(rows, tree, V, n_features):
    """(w = sum a_ij (x_i - x_j), sum a_ij) of the factors, from scratch."""
    w = np.zeros(n_features)
    return w, _factor_weights(rows, tree, V, *_room(tree, len(V)), w)


@kernel
def _factor_weights(rows, tree, V, floats, by_grade, borders, w):
    u, c, z, total = floats[0], floats[1], floats[2], 0.0  # u is 0
    S, U, D, E = by_grade[0], by_grade[1], by_grade[2], by_grade[3]
    for q in range(len(tree.offsets) - 1):
        if tree.node_start[q] < tree.node_start[q + 1]:
            lo, hi, grades = tree.offsets[q], tree.offsets[q + 1], fill_borders(tree, q, borders)
            total += factor_lines(V, lo, u, borders, grades, 0.0, S, U, D, E)[0]
            factor_coefficients(V, lo, D, borders, grades, c)
            for p in range(hi - lo):
                z[tree.perm[lo + p]] = c[p]
            block_back(rows, lo, hi, z, w)
    return total


@with_room
def factor_chain(t, tree, V, G):
    """G = the gradient in the factors of h(w(V)), where t = X (gradient of h in w), rows in block order."""
    _factor_chain(t, tree, V, G, *_room(tree, len(V)))


@kernel
def _factor_chain(t, tree, V, G, floats, by_grade, borders):
    u, S, U, D, E = floats[0], by_grade[0], by_grade[1], by_grade[2], by_grade[3]
    for q in range(len(tree.offsets) - 1):
        lo, grades = tree.offsets[q], fill_borders(tree, q, borders)
        for p in range(tree.offsets[q + 1] - lo):
            u[p] = t[lo + tree.perm[lo + p]]
        factor_lines(V, lo, u, borders, grades, 0.0, S, U, D, E)
        for k in range(len(V)):
            for g in range(grades):
                for i in range(borders[g], borders[g + 1]):
                    G[k, lo + i] = u[i] * D[k, g] + E[k, g]


# Multipliers listed pair by pair: a query's fill a winners × losers matrix, and all matrices form one flat array.
# Row r belongs to position top + r; the positions it is preferred to are a prefix, as grades ascend with position.


def query_borders(tree: GradeTree, q: int) -> np.ndarray:
    """First position of each grade within query q's block, then the block's length."""
    lo, leaves = tree.offsets[q], tree.leaf[tree.leaf_start[q] : tree.leaf_start[q + 1]]
    return np.append(leaves, tree.offsets[q + 1]) - lo


@inner
def matrix_shape(tree, q):
    """(top, losers) of query q's matrix: its first winner's position within the query, and its number of columns."""
    first, last = tree.leaf_start[q], tree.leaf_start[q + 1]
    if last - first < 2:
        return 0, 0
    return tree.leaf[first + 1] - tree.offsets[q], tree.leaf[last - 1] - tree.offsets[q]


@kernel
def multiplier_coefficients(a, start, first, last, tree, c):
    """c (rows in block order) with sum a_ij (x_i - x_j) = sum c_i x_i for queries first:last; returns sum a."""
    total = 0.0
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        c[lo:hi] = 0.0
        top, losers = matrix_shape(tree, q)
        for leaf in range(tree.leaf_start[q] + 1, tree.leaf_start[q + 1]):
            begin, end = leaf_borders(tree, q, leaf)
            for i in range(begin, end):
                at, own = start[q] + (i - lo - top) * losers, 0.0
                for j in range(begin - lo):
                    own += a[at + j]
                    c[lo + tree.perm[lo + j]] -= a[at + j]
                c[lo + tree.perm[i]] += own
                total += own
    return total


@kernel
def multiplier_response(u, A, start, first, last, tree, softness, ridge, limit, a, c):
    """a_ij = clip((A_ij + softness·(1 - u_i + u_j)) / (1 + softness·ridge), 0, limit) on the pairs of queries
    first:last: the best multipliers for scores u. Fills c as `multiplier_coefficients`; returns
    sum of a·(1 - u_i + u_j) - ½ridge·a² - (a - A)²/(2 softness).
    """
    total = 0.0
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        c[lo:hi] = 0.0
        top, losers = matrix_shape(tree, q)
        for leaf in range(tree.leaf_start[q] + 1, tree.leaf_start[q + 1]):
            begin, end = leaf_borders(tree, q, leaf)
            for position in range(begin, end):
                i, at, own = lo + tree.perm[position], start[q] + (position - lo - top) * losers, 0.0
                for j in range(begin - lo):
                    k, other = at + j, lo + tree.perm[lo + j]
                    slack = 1.0 - u[i] + u[other]
                    value = min(max((A[k] + softness * slack) / (1.0 + softness * ridge), 0.0), limit)
                    total += value * slack - (value - A[k]) * (value - A[k]) / (2.0 * softness)
                    total -= 0.5 * ridge * value * value
                    a[k] = value
                    own += value
                    c[other] -= value
                c[i] += own
    return total


@kernel
def multiplier_curvature(v, a, start, first, last, tree, softness, limit, out):
    """out = rows' sums of softness·(v_i - v_j) over the pairs whose multipliers are inside their box. O(pairs)."""
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        out[lo:hi] = 0.0
        top, losers = matrix_shape(tree, q)
        for leaf in range(tree.leaf_start[q] + 1, tree.leaf_start[q + 1]):
            begin, end = leaf_borders(tree, q, leaf)
            for position in range(begin, end):
                i, at, own = lo + tree.perm[position], start[q] + (position - lo - top) * losers, 0.0
                for j in range(begin - lo):
                    other = lo + tree.perm[lo + j]
                    if 0.0 < a[at + j] < limit:
                        force = softness * (v[i] - v[other])
                        own += force
                        out[other] -= force
                out[i] += own


@kernel
def multiplier_gap(u, a, A, start, first, last, tree, weight, ridge, limit):
    """The largest decrease within the box of a model of the objective, linear except for ½ridge·a²: the sum over pairs
    of the largest g (a - b) - ½ridge·(a - b)², 0 ≤ b ≤ limit,  g = u_i - u_j - 1 + weight·(a - A) + ridge·a.  By
    convexity it bounds the distance of the objective from its optimum. O(pairs)."""
    total = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        top, losers = matrix_shape(tree, q)
        for leaf in range(tree.leaf_start[q] + 1, tree.leaf_start[q + 1]):
            begin, end = leaf_borders(tree, q, leaf)
            for position in range(begin, end):
                score, at = u[lo + tree.perm[position]] - 1.0, start[q] + (position - lo - top) * losers
                for j in range(begin - lo):
                    k = at + j
                    g = score - u[lo + tree.perm[lo + j]] + weight * (a[k] - A[k]) + ridge * a[k]
                    if ridge == 0.0:
                        total += g * a[k] - min(0.0, g * limit)
                    else:
                        fall = a[k] - min(max(a[k] - g / ridge, 0.0), limit)
                        total += g * fall - 0.5 * ridge * fall * fall
    return total
