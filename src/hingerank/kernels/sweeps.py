"""The grade tree: every pair of different grades in a query, exactly once, as few two-group comparisons.

Rows of a query are laid out by ascending grade (``position``). A node compares a contiguous run of lower-graded
positions (losers) with the run just above it (winners); splitting the grades in two, and each half again, covers
every preference pair once. Splits fall at the grade border nearest the middle *by rows*, so a row takes part in about
entropy(grades) nodes: one for two grades, log2(G) at worst. Nodes are listed children first, so that the sorted runs of
a node's two halves are ready, and can be merged, when it is reached: the sweep and the merge sort are one recursion."""

from typing import NamedTuple

import numpy as np
from numba import njit

from hingerank.kernels.rows import add_products, block_back, block_columns, block_scores

FEW_GRADES = 32  # up to here distinct grades are collected by insertion and rows placed by counting


@njit(cache=True, nogil=True)
def sort_by_grade(y, offsets, first, last, perm, n_grades):
    """perm[p] = row within its query at position p (ascending grade, stable); n_grades[q] = distinct grades. O(n G)."""
    distinct = np.empty(FEW_GRADES)
    start = np.empty(FEW_GRADES + 1, np.int64)
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        found = 0
        for r in range(lo, hi):
            k = found
            while k > 0 and distinct[k - 1] > y[r]:
                k -= 1
            if k > 0 and distinct[k - 1] == y[r]:
                continue
            if found == FEW_GRADES:
                found = -1
                break
            for m in range(found, k, -1):
                distinct[m] = distinct[m - 1]
            distinct[k] = y[r]
            found += 1
        if found < 0:
            order = np.argsort(y[lo:hi], kind="mergesort")
            changes = 1
            for p in range(hi - lo):
                perm[lo + p] = order[p]
                if p > 0 and y[lo + order[p]] != y[lo + order[p - 1]]:
                    changes += 1
            n_grades[q] = changes
            continue
        start[: found + 1] = 0
        for r in range(lo, hi):
            start[_grade_index(distinct, found, y[r]) + 1] += 1
        for k in range(found):
            start[k + 1] += start[k]
        for r in range(lo, hi):
            k = _grade_index(distinct, found, y[r])
            perm[lo + start[k]] = r - lo
            start[k] += 1
        n_grades[q] = found


@njit(cache=True, nogil=True)
def _grade_index(distinct, found, value):
    k = 0
    while distinct[k] != value:
        k += 1
    return k


@njit(cache=True, nogil=True)
def list_leaves(y, perm, lo, hi, leaf):
    """leaf = first position of each grade among positions lo:hi; returns the number of grades."""
    count = 0
    for p in range(lo, hi):
        if p == lo or y[lo + perm[p]] != y[lo + perm[p - 1]]:
            leaf[count] = p
            count += 1
    return count


@njit(cache=True, nogil=True)
def grow_tree(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """Fill node rows (losers' first, losers' end = winners' first, winners' end) children first, and leaf borders."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        base = leaf_start[q]
        count = list_leaves(y, perm, lo, hi, leaf[base:])
        if count < 2:
            continue
        stack = np.empty((count + 1, 2), np.int64)
        stack[0, 0], stack[0, 1] = 0, count
        depth, at = 1, node_start[q + 1]
        while depth > 0:
            depth -= 1
            i, j = stack[depth, 0], stack[depth, 1]
            begin = leaf[base + i]
            end = leaf[base + j] if j < count else hi
            m = i + 1
            while m + 1 < j and abs(2 * leaf[base + m + 1] - begin - end) <= abs(2 * leaf[base + m] - begin - end):
                m += 1
            at -= 1
            node[at, 0], node[at, 1], node[at, 2], node[at, 3] = begin, leaf[base + m], leaf[base + m], end
            if m - i > 1:
                stack[depth, 0], stack[depth, 1] = i, m
                depth += 1
            if j - m > 1:
                stack[depth, 0], stack[depth, 1] = m, j
                depth += 1


@njit(cache=True, nogil=True)
def list_grade_pairs(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """As `grow_tree`, but one node for every two grades of a query: what a weight for each pair of grades needs."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        base = leaf_start[q]
        count = list_leaves(y, perm, lo, hi, leaf[base:])
        at = node_start[q]
        for upper in range(1, count):
            end = leaf[base + upper + 1] if upper + 1 < count else hi
            for lower in range(upper):
                node[at, 0], node[at, 1] = leaf[base + lower], leaf[base + lower + 1]
                node[at, 2], node[at, 3] = leaf[base + upper], end
                at += 1


# Window sweeps: everything a hinge-type loss needs of a query's pairs, without listing them.
#
# A pair (i preferred to j) is *active* at margin m when s_i - s_j < m. For every row the sweeps give, over its active
# pairs, the weight sum(a_i b_j) (``degree``, and ``net0`` = as loser minus as winner) and the signed weighted sum of
# (m - s_i + s_j) (``net1``), and over all pairs the totals of (m - s_i + s_j) and its square. Hinge, squared hinge,
# modified Huber and smoothed hinge are sums of such terms.
#
# Both sweeps only ever *add* non-negative numbers: when the reference score moves by d >= 0 every pair already inside
# grows by d, so first moments gain d*weight and second moments d*(2*first + d*weight). No large sums are subtracted,
# which keeps the results exact to rounding even for scores of 1e8 with a margin of 1.


RUN = 12  # rows sorted by insertion before merging


@njit(cache=True, nogil=True)
def sort_run(at, key, spare_at, spare_key, lo, hi):
    """Sort at[lo:hi] and key[lo:hi] by key, stably and cheaply when nearly sorted. O(n log n), O(n) when sorted."""
    for a in range(lo, hi, RUN):
        b = min(a + RUN, hi)
        for i in range(a + 1, b):
            k, x = key[i], at[i]
            j = i
            while j > a and key[j - 1] > k:
                key[j] = key[j - 1]
                at[j] = at[j - 1]
                j -= 1
            key[j] = k
            at[j] = x
    width = RUN
    while width < hi - lo:
        for a in range(lo, hi - width, 2 * width):
            merge_runs(at, key, spare_at, spare_key, a, a + width, min(a + 2 * width, hi))
        width *= 2


@njit(cache=True, nogil=True)
def merge_runs(at, key, spare_at, spare_key, lo, mid, hi):
    """Merge the sorted runs lo:mid and mid:hi in place. O(hi - lo), O(1) when already in order."""
    if key[mid - 1] <= key[mid]:
        return
    left = mid - lo
    spare_key[:left] = key[lo:mid]
    spare_at[:left] = at[lo:mid]
    i, j, k = 0, mid, lo
    while i < left:
        if j < hi and key[j] < spare_key[i]:
            key[k], at[k] = key[j], at[j]
            j += 1
        else:
            key[k], at[k] = spare_key[i], spare_at[i]
            i += 1
        k += 1


@njit(cache=True, nogil=True)
def sweep_node(key, at, node, slot, winner, loser, scale, margin, member, window, net0, net1, degree):
    """One node's active pairs at a margin: fill its windows, add to its rows' sums; returns the pairs' moments 0, 1, 2.

    key, at: sorted scores and positions; winner, loser: row weights by position. O(rows of the node).
    """
    l0, l1, w0, w1 = node[0], node[1], node[2], node[3]
    losers, total0, total1, total2 = l1 - l0, 0.0, 0.0, 0.0
    weight, one, two, previous = 0.0, 0.0, 0.0, key[w1 - 1]
    at_loser = l1
    for i in range(w1 - 1, w0 - 1, -1):  # winners from the best score down: losers above s_i - margin come in
        score, p = key[i], at[i]
        step = previous - score
        two += step * (2.0 * one + step * weight)
        one += step * weight
        previous = score
        while at_loser > l0 and score - key[at_loser - 1] < margin:
            at_loser -= 1
            b, m = loser[at[at_loser]], margin - score + key[at_loser]
            weight += b
            one += b * m
            two += b * m * m
        a = winner[p] * scale
        member[slot + losers + i - w0] = p
        window[slot + losers + i - w0] = l1 - at_loser
        net0[p] -= a * weight
        net1[p] -= a * one
        degree[p] += a * weight
        total0 += a * weight
        total1 += a * one
        total2 += a * two
    weight, one, previous = 0.0, 0.0, key[l0]
    at_winner = w0
    for j in range(l0, l1):  # losers from the worst score up: winners below s_j + margin come in
        score, p = key[j], at[j]
        one += (score - previous) * weight
        previous = score
        while at_winner < w1 and key[at_winner] - score < margin:
            a = winner[at[at_winner]]
            weight += a
            one += a * (margin - key[at_winner] + score)
            at_winner += 1
        b = loser[p] * scale
        member[slot + j - l0] = p
        window[slot + j - l0] = at_winner - w0
        net0[p] += b * weight
        net1[p] += b * one
        degree[p] += b * weight
    return total0, total1, total2


@njit(cache=True, nogil=True)
def add_neighbours(v, losers, size, slot, winner, loser, scale, member, window, running, out):
    """out[p] += sum over p's active partners in one node of (pair weight * v[partner]). O(rows of the node)."""
    winners = size - losers
    running[0] = 0.0
    for k in range(losers):
        p = member[slot + k]
        running[k + 1] = running[k] + loser[p] * v[p]
    whole = running[losers]
    for k in range(winners):
        p = member[slot + losers + k]
        out[p] += scale * winner[p] * (whole - running[losers - window[slot + losers + k]])
    running[0] = 0.0
    for k in range(winners):
        p = member[slot + losers + k]
        running[k + 1] = running[k] + winner[p] * v[p]
    for k in range(losers):
        p = member[slot + k]
        out[p] += scale * loser[p] * running[window[slot + k]]


# Passes over the queries: score-space sweeps, and the same fused with one reading of the feature rows.
#
# ``tree`` is a GradeTree (fixed for a data set), ``state`` a WindowState (refreshed at every iterate). Each function
# handles queries first:last and is serial; callers shard. In the fused passes a query's rows are read once, scored,
# swept and accumulated while they are still in cache.


class GradeTree(NamedTuple):
    """Where a data set's preference pairs are: see kernels/grade_tree.py."""

    offsets: np.ndarray  # (Q+1) rows of each query
    perm: np.ndarray  # (n) row within its query at each position (ascending grade)
    leaf_start: np.ndarray  # (Q+1)
    leaf: np.ndarray  # first position of each run of equal grades
    node_start: np.ndarray  # (Q+1)
    node: np.ndarray  # (nodes, 4) losers first:end, winners first:end, positions in the whole
    slot: np.ndarray  # (nodes) where a node's members begin in WindowState
    scale: np.ndarray  # (nodes) weight of all the node's pairs
    winner: np.ndarray  # (n) a row's weight when preferred, by position
    loser: np.ndarray  # (n) a row's weight when not preferred, by position
    merges: bool  # a tree (True) or one node for every two grades (False)


class WindowState(NamedTuple):
    """What one iterate leaves for its Hessian products."""

    order: np.ndarray  # (n) positions within each leaf by score, kept as the next sort's start
    member: np.ndarray  # (slots) positions by score: losers, then winners
    window: np.ndarray  # (terms, slots) number of active partners
    degree: np.ndarray  # (n) diagonal of the score-space Hessian, by position


@njit(cache=True, nogil=True)
def query_windows(q, key, tree, state, terms, grad, moments, scratch, spare):
    """Sweep query q at scores key (by position, destroyed): fills grad (by position) and the state. O(n_q log n_q).

    terms: rows (margin, hinge factor, squared hinge factor); moments: for each term the active pairs' weight, and the
    sums of (margin - t) and of its square, are added; scratch: (4, n_q) floats; spare: (2, n_q) ints.
    """
    lo, hi = tree.offsets[q], tree.offsets[q + 1]
    n = hi - lo
    winner, loser = tree.winner[lo:hi], tree.loser[lo:hi]
    order, degree_out = state.order[lo:hi], state.degree[lo:hi]
    at, spare_at = spare[0], spare[1]
    sorted_key, net0, net1, degree = scratch[0], scratch[1], scratch[2], scratch[3]
    for p in range(n):
        at[p] = order[p]
        sorted_key[p] = key[order[p]]
        grad[p] = 0.0
        degree_out[p] = 0.0
    for k in range(tree.leaf_start[q], tree.leaf_start[q + 1]):
        begin = tree.leaf[k] - lo
        end = (tree.leaf[k + 1] if k + 1 < tree.leaf_start[q + 1] else hi) - lo
        sort_run(at, sorted_key, spare_at, key, begin, end)
    order[:] = at[:n]
    node = np.empty(4, np.int64)
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        for e in range(4):
            node[e] = tree.node[k, e] - lo
        l0, l1, w0, w1 = node[0], node[1], node[2], node[3]
        for t in range(len(terms)):
            margin, c1, c2 = terms[t, 0], terms[t, 1], 2.0 * terms[t, 2]
            for p in range(l0, l1):
                net0[at[p]] = net1[at[p]] = degree[at[p]] = 0.0
            for p in range(w0, w1):
                net0[at[p]] = net1[at[p]] = degree[at[p]] = 0.0
            zero, one, two = sweep_node(
                sorted_key, at, node, tree.slot[k], winner, loser, tree.scale[k], margin,
                state.member, state.window[t], net0, net1, degree,
            )  # fmt: skip
            moments[t, 0] += zero
            moments[t, 1] += one
            moments[t, 2] += two
            for p in range(l0, l1):
                i = at[p]
                grad[i] += c1 * net0[i] + c2 * net1[i]
                degree_out[i] += c2 * degree[i]
            for p in range(w0, w1):
                i = at[p]
                grad[i] += c1 * net0[i] + c2 * net1[i]
                degree_out[i] += c2 * degree[i]
        if tree.merges:
            merge_runs(at, sorted_key, spare_at, key, l0, l1, w1)


@njit(cache=True, nogil=True)
def query_curvature(q, v, tree, state, terms, out, running, neighbours):
    """out = (score-space Hessian of query q) v, both by position. O(n_q log G)."""
    lo, hi = tree.offsets[q], tree.offsets[q + 1]
    n = hi - lo
    winner, loser, degree = tree.winner[lo:hi], tree.loser[lo:hi], state.degree[lo:hi]
    neighbours[:n] = 0.0
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers = tree.node[k, 1] - tree.node[k, 0]
        size = losers + tree.node[k, 3] - tree.node[k, 2]
        for t in range(len(terms)):
            if terms[t, 2] != 0.0:
                add_neighbours(
                    v, losers, size, tree.slot[k], winner, loser, 2.0 * terms[t, 2] * tree.scale[k],
                    state.member, state.window[t], running, neighbours,
                )  # fmt: skip
    for p in range(n):
        out[p] = degree[p] * v[p] - neighbours[p]


@njit(cache=True, nogil=True)
def widest(tree, first, last):
    """Rows of the longest query in first:last."""
    n = 0
    for q in range(first, last):
        n = max(n, tree.offsets[q + 1] - tree.offsets[q])
    return n


@njit(cache=True, nogil=True)
def score_pass(s, first, last, tree, state, terms, z):
    """Moments of the active pairs at scores s (see query_windows); z = the loss's gradient in scores."""
    n = widest(tree, first, last)
    key, grad, scratch, spare = np.empty(n), np.empty(n), np.empty((4, n)), np.empty((2, n), np.int32)
    moments = np.zeros((len(terms), 3))
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        if tree.node_start[q] == tree.node_start[q + 1]:
            z[lo:hi] = 0.0
            continue
        for p in range(hi - lo):
            key[p] = s[lo + tree.perm[lo + p]]
        query_windows(q, key, tree, state, terms, grad, moments, scratch, spare)
        for p in range(hi - lo):
            z[lo + tree.perm[lo + p]] = grad[p]
    return moments


@njit(cache=True, nogil=True)
def curvature_pass(v, first, last, tree, state, terms, z):
    """z = (Hessian of the loss in scores) v."""
    n = widest(tree, first, last)
    key, out, running, neighbours = np.empty(n), np.empty(n), np.empty(n + 1), np.empty(n)
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        if tree.node_start[q] == tree.node_start[q + 1]:
            z[lo:hi] = 0.0
            continue
        for p in range(hi - lo):
            key[p] = v[lo + tree.perm[lo + p]]
        query_curvature(q, key, tree, state, terms, out, running, neighbours)
        for p in range(hi - lo):
            z[lo + tree.perm[lo + p]] = out[p]


@njit(cache=True, nogil=True)
def fused_loss_pass(rows, w, first, last, stride, tree, state, terms):
    """(moments, gradient in w) of every stride-th query at w, reading each row once."""
    n = widest(tree, first, last)
    s, key, grad, scratch = np.empty(n), np.empty(n), np.empty(n), np.empty((4, n))
    spare, g, moments = np.empty((2, n), np.int32), np.zeros(len(w)), np.zeros((len(terms), 3))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_scores(rows, lo, hi, w, s)
        for p in range(hi - lo):
            key[p] = s[tree.perm[lo + p]]
        query_windows(q, key, tree, state, terms, grad, moments, scratch, spare)
        for p in range(hi - lo):
            s[tree.perm[lo + p]] = grad[p]
        block_back(rows, lo, hi, s, g)
    return moments, g


@njit(cache=True, nogil=True)
def fused_curvature_pass(rows, v, first, last, stride, tree, state, terms):
    """(Hessian in w of the loss of every stride-th query) v, reading each row once."""
    n = widest(tree, first, last)
    s, key, out = np.empty(n), np.empty(n), np.empty(n)
    running, neighbours, g = np.empty(n + 1), np.empty(n), np.zeros(len(v))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_scores(rows, lo, hi, v, s)
        for p in range(hi - lo):
            key[p] = s[tree.perm[lo + p]]
        query_curvature(q, key, tree, state, terms, out, running, neighbours)
        for p in range(hi - lo):
            s[tree.perm[lo + p]] = out[p]
        block_back(rows, lo, hi, s, g)
    return g


@njit(cache=True, nogil=True)
def hessian_pass(rows, n_features, first, last, tree, state, terms):
    """The Hessian in w of the loss: the sum over queries of Xᵀ (score-space Hessian) X. O(n d (d + log G))."""
    n = widest(tree, first, last)
    X, Z = np.empty((n_features, n)), np.empty((n_features, n))
    running, neighbours, H = np.empty(n + 1), np.empty(n), np.zeros((n_features, n_features))
    for q in range(first, last):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_columns(rows, lo, hi, tree.perm[lo:hi], X)
        for c in range(n_features):
            query_curvature(q, X[c], tree, state, terms, Z[c], running, neighbours)
        add_products(X, Z, hi - lo, H)
    return H
