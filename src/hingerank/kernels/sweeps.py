"""Everything a hinge-type loss needs of a query's preference pairs, without listing them.

**The grade tree.** Rows of a query are laid out by ascending grade (``position``). A node compares a contiguous run of
lower-graded positions (losers) with the run just above it (winners); splitting the grades in two, and each half again,
covers every preference pair once. Splits fall at the grade border nearest the middle *by rows*, so a row takes part in
about entropy(grades) nodes: one for two grades, log2(G) at worst. Nodes are listed children first, so that the sorted
runs of a node's two halves are ready, and can be merged, when it is reached: the sweep and the merge sort are one
recursion.

**Window sweeps.** A pair (i preferred to j) is *active* at margin m when s_i - s_j < m. Over a row's active pairs the
sweeps give the weight sum(a_i b_j) and the weighted sum of (m - s_i + s_j), and over all pairs the totals of
(m - s_i + s_j) and its square. Hinge, squared hinge, modified Huber and smoothed hinge are sums of such terms. Both
sweeps only ever *add* non-negative numbers: when the reference score moves by d >= 0 every pair already inside grows by
d, so first moments gain d*weight and second moments d*(2*first + d*weight). No large sums are subtracted, which keeps
the results exact to rounding even for scores of 1e8 with a margin of 1.

**Passes** over queries first:last are serial; callers shard. In the fused passes a query's rows are read once, scored,
swept and accumulated while they are still in cache.
"""

from typing import NamedTuple

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, chosen, inner, kernel, with_room
from hingerank.kernels.order import order_blocks
from hingerank.kernels.rows import block_back, block_columns, block_scores

FEW_GRADES = 32  # up to here distinct grades are collected by insertion and rows placed by counting
RUN = 12  # rows sorted by insertion before merging
LANES = 16  # inner loops of the Hessian run over multiples of so many columns, which vector registers like
BLOCK = 1 << 20  # numbers in the block of one query's columns; wider ones are handled some columns at a time


class GradeTree(NamedTuple):
    """Where a data set's preference pairs are; fixed for a data set."""

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
    widest: int  # rows of the longest query


class WindowState(NamedTuple):
    """What one iterate leaves for its Hessian products; refreshed at every iterate."""

    order: np.ndarray  # (n) positions within each leaf by score, kept as the next sort's start
    member: np.ndarray  # (slots) positions by score: losers, then winners
    window: np.ndarray  # (terms, slots) number of active partners
    degree: np.ndarray  # (n) diagonal of the score-space Hessian, by position


# Sorting


@inner
def merge_runs(at, key, spare_at, spare_key, lo, mid, hi):
    """Merge the sorted runs lo:mid and mid:hi in place. O(hi - lo), O(1) when already in order."""
    if key[mid - 1] <= key[mid]:
        return
    left = mid - lo
    for i in range(left):
        spare_key[i], spare_at[i] = key[lo + i], at[lo + i]
    i, j, k = 0, mid, lo
    while i < left:
        if j < hi and key[j] < spare_key[i]:
            key[k], at[k] = key[j], at[j]
            j += 1
        else:
            key[k], at[k] = spare_key[i], spare_at[i]
            i += 1
        k += 1


@inner
def sort_run(at, key, spare_at, spare_key, lo, hi):
    """Sort at[lo:hi] and key[lo:hi] by key, stably and cheaply when nearly sorted. O(n log n), O(n) when sorted."""
    for a in range(lo, hi, RUN):
        for i in range(a + 1, min(a + RUN, hi)):
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


# The grade tree


@with_room
def sort_by_grade(y, offsets, first, last, perm, n_grades):
    """perm[p] = row within its query at position p (ascending grade, stable); n_grades[q] = distinct grades. O(n G)."""
    _sort_few_grades(y, offsets, first, last, perm, n_grades, np.empty(FEW_GRADES), np.empty(FEW_GRADES + 1, np.int64))
    if (n_grades[first:last] < 0).any():
        lo, hi = offsets[first], offsets[last]
        borders, order = offsets[first : last + 1] - lo, np.empty(hi - lo, np.int64)
        order_blocks(-y[lo:hi], borders, 0, last - first, order)
        perm[lo:hi] = order - np.repeat(borders[:-1], np.diff(borders))
        new = np.ones(hi - lo + 1, np.int64)
        new[1:-1] = np.diff(y[lo:hi][order]) != 0
        new[borders] = 1
        n_grades[first:last] = np.diff(np.cumsum(new)[borders])


@kernel
def _sort_few_grades(y, offsets, first, last, perm, n_grades, distinct, start):
    """`sort_by_grade`, but n_grades[q] = -1 and nothing done where a query has more than FEW_GRADES."""
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
        n_grades[q] = found
        start[: found + 1] = 0
        for step in range(2 if found > 0 else 0):  # count the rows of each grade, then place them
            for r in range(lo, hi):
                k = 0
                while distinct[k] != y[r]:
                    k += 1
                if step == 0:
                    start[k + 1] += 1
                else:
                    perm[lo + start[k]] = r - lo
                    start[k] += 1
            if step == 0:
                for k in range(found):
                    start[k + 1] += start[k]


@inner
def list_leaves(y, perm, lo, hi, leaf, base):
    """leaf[base:] = first position of each grade among positions lo:hi; returns the number of grades."""
    count = 0
    for p in range(lo, hi):
        if p == lo or y[lo + perm[p]] != y[lo + perm[p - 1]]:
            leaf[base + count] = p
            count += 1
    return count


@kernel
def grow_tree(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """Fill node rows (losers' first, losers' end = winners' first, winners' end) children first, and leaf borders."""
    for q in range(first, last):
        hi, base = offsets[q + 1], leaf_start[q]
        count = list_leaves(y, perm, offsets[q], hi, leaf, base)
        free = node_start[q + 1] - 1
        if count > 1:  # a row of `node` that waits for its turn holds its range of leaves
            node[free, 0], node[free, 1] = 0, count
        for at in range(node_start[q + 1] - 1, node_start[q] - 1, -1):
            i, j = node[at, 0], node[at, 1]
            begin, end = leaf[base + i], hi
            if j < count:
                end = leaf[base + j]
            m = i + 1
            while m + 1 < j and abs(2 * leaf[base + m + 1] - begin - end) <= abs(2 * leaf[base + m] - begin - end):
                m += 1
            node[at, 0], node[at, 1], node[at, 2], node[at, 3] = begin, leaf[base + m], leaf[base + m], end
            if m - i > 1:
                free -= 1
                node[free, 0], node[free, 1] = i, m
            if j - m > 1:
                free -= 1
                node[free, 0], node[free, 1] = m, j


@kernel
def list_grade_pairs(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """As `grow_tree`, but one node for every two grades of a query: what a weight for each pair of grades needs."""
    for q in range(first, last):
        lo, hi, base, at = offsets[q], offsets[q + 1], leaf_start[q], node_start[q]
        count = list_leaves(y, perm, lo, hi, leaf, base)
        for upper in range(1, count):
            end = leaf[base + upper + 1] if upper + 1 < count else hi
            for lower in range(upper):
                node[at, 0], node[at, 1] = leaf[base + lower], leaf[base + lower + 1]
                node[at, 2], node[at, 3] = leaf[base + upper], end
                at += 1


@inner
def leaf_borders(tree, q, k):
    """First position of leaf k, one of query q's, and the one after its last."""
    if k + 1 < tree.leaf_start[q + 1]:
        return tree.leaf[k], tree.leaf[k + 1]
    return tree.leaf[k], tree.offsets[q + 1]


# Window sweeps of one query


@inner
def sweep_node(key, at, l0, l1, w0, w1, lo, k, tree, t, terms, state, grad, moments):
    """One node's active pairs at a term's margin: fill its windows, add to its rows' gradient and degree and to the
    pairs' moments 0, 1, 2.

    key, at: sorted scores and positions within the query, which begins at position lo. O(rows of the node).
    """
    member, window, winner, loser, degree = state.member, state.window, tree.winner, tree.loser, state.degree
    margin, c1, c2, slot, scale = terms[t, 0], terms[t, 1], 2.0 * terms[t, 2], tree.slot[k], tree.scale[k]
    weight, one, two, previous = 0.0, 0.0, 0.0, key[w1 - 1]
    total0, total1, total2 = 0.0, 0.0, 0.0
    at_loser, place = l1, slot + l1 - l0 - w0
    for i in range(w1 - 1, w0 - 1, -1):  # winners from the best score down: losers above s_i - margin come in
        score, p = key[i], at[i]
        step = previous - score
        two += step * (2.0 * one + step * weight)
        one += step * weight
        previous = score
        while at_loser > l0 and score - key[at_loser - 1] < margin:
            at_loser -= 1
            b, m = loser[lo + at[at_loser]], margin - score + key[at_loser]
            weight += b
            one += b * m
            two += b * m * m
        a = winner[lo + p] * scale
        member[place + i] = p
        window[t, place + i] = l1 - at_loser
        grad[p] -= c1 * (a * weight) + c2 * (a * one)
        degree[lo + p] += c2 * (a * weight)
        total0 += a * weight
        total1 += a * one
        total2 += a * two
    moments[t, 0] += total0
    moments[t, 1] += total1
    moments[t, 2] += total2
    weight, one, previous = 0.0, 0.0, key[l0]
    at_winner, place = w0, slot - l0
    for j in range(l0, l1):  # losers from the worst score up: winners below s_j + margin come in
        score, p = key[j], at[j]
        one += (score - previous) * weight
        previous = score
        while at_winner < w1 and key[at_winner] - score < margin:
            a = winner[lo + at[at_winner]]
            weight += a
            one += a * (margin - key[at_winner] + score)
            at_winner += 1
        b = loser[lo + p] * scale
        member[place + j] = p
        window[t, place + j] = at_winner - w0
        grad[p] += c1 * (b * weight) + c2 * (b * one)
        degree[lo + p] += c2 * (b * weight)


@inner
def query_windows(q, s, base, tree, state, terms, moments, floats, ints, z):
    """Sweep query q at the scores s[base + row]: z[base + row] = the loss's gradient, and the state. O(n_q log n_q).

    terms: rows (margin, hinge factor, squared hinge factor); moments: for each term the active pairs' weight, and the
    sums of (margin - t) and of its square, are added; floats, ints: room (3 and 2 rows of n_q). z may be s.
    """
    key, spare_key, grad, at, spare_at = floats[0], floats[1], floats[2], ints[0], ints[1]
    perm, node, order, lo, hi = tree.perm, tree.node, state.order, tree.offsets[q], tree.offsets[q + 1]
    for p in range(hi - lo):
        at[p] = order[lo + p]
        key[p] = s[base + perm[lo + at[p]]]
        grad[p] = 0.0
        state.degree[lo + p] = 0.0
    for k in range(tree.leaf_start[q], tree.leaf_start[q + 1]):
        begin, end = leaf_borders(tree, q, k)
        sort_run(at, key, spare_at, spare_key, begin - lo, end - lo)
    for p in range(hi - lo):
        order[lo + p] = at[p]
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        l0, l1, w0, w1 = node[k, 0] - lo, node[k, 1] - lo, node[k, 2] - lo, node[k, 3] - lo
        for t in range(len(terms)):
            sweep_node(key, at, l0, l1, w0, w1, lo, k, tree, t, terms, state, grad, moments)
        if tree.merges:
            merge_runs(at, key, spare_at, spare_key, l0, l1, w1)
    for p in range(hi - lo):
        z[base + perm[lo + p]] = grad[p]


@inner
def query_curvature(q, v, base, tree, state, terms, floats, z):
    """z[base + row] = (score-space Hessian of query q) v[base + row]; z may be v. O(n_q log G)."""
    key, sums, running = floats[0], floats[1], floats[2]
    perm, winner, loser, node, lo = tree.perm, tree.winner, tree.loser, tree.node, tree.offsets[q]
    member, window, size = state.member, state.window, tree.offsets[q + 1] - lo
    for p in range(size):
        key[p] = v[base + perm[lo + p]]
        sums[p] = 0.0
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers, winners, slot = node[k, 1] - node[k, 0], node[k, 3] - node[k, 2], tree.slot[k]
        for t in range(len(terms)):
            scale = 2.0 * terms[t, 2] * tree.scale[k]
            if scale == 0.0:
                continue
            running[0] = 0.0  # over losers by score: a winner's active ones are the last
            for m in range(losers):
                p = member[slot + m]
                running[m + 1] = running[m] + loser[lo + p] * key[p]
            for m in range(slot + losers, slot + losers + winners):
                p = member[m]
                sums[p] += scale * winner[lo + p] * (running[losers] - running[losers - window[t, m]])
            for m in range(winners):  # over winners: a loser's active ones are the first
                p = member[slot + losers + m]
                running[m + 1] = running[m] + winner[lo + p] * key[p]
            for m in range(slot, slot + losers):
                p = member[m]
                sums[p] += scale * loser[lo + p] * running[window[t, m]]
    for p in range(size):
        z[base + perm[lo + p]] = state.degree[lo + p] * key[p] - sums[p]


# Passes over queries: of scores, and of scores fused with one reading of the feature rows


def _room(tree):
    """What one query needs: (rows of floats, rows of whole numbers)."""
    return np.empty((4, tree.widest + 1)), np.empty((2, tree.widest), np.int32)


@with_room
def score_pass(s, first, last, tree, state, terms, z):
    """Moments of the active pairs at scores s (see query_windows); z = the loss's gradient in scores."""
    moments = np.zeros((len(terms), 3))
    _score_pass(s, first, last, tree, state, terms, moments, *_room(tree), z)
    return moments


@kernel
def _score_pass(s, first, last, tree, state, terms, moments, floats, ints, z):
    for q in range(first, last):
        query_windows(q, s, tree.offsets[q], tree, state, terms, moments, floats, ints, z)


@with_room
def curvature_pass(v, first, last, tree, state, terms, z):
    """z = (Hessian of the loss in scores) v."""
    _curvature_pass(v, first, last, tree, state, terms, _room(tree)[0], z)


@kernel
def _curvature_pass(v, first, last, tree, state, terms, floats, z):
    for q in range(first, last):
        query_curvature(q, v, tree.offsets[q], tree, state, terms, floats, z)


@with_room
def fused_loss_pass(rows, w, first, last, stride, tree, state, terms):
    """(moments, gradient in w) of every stride-th query at w, reading each row once."""
    moments, g = np.zeros((len(terms), 3)), np.zeros(len(w))
    _fused_loss_pass(rows, w, first, last, stride, tree, state, terms, moments, *_room(tree), g)
    return moments, g


@kernel
def _fused_loss_pass(rows, w, first, last, stride, tree, state, terms, moments, floats, ints, g):
    s = floats[3]
    for q in range(first, last, stride):
        if tree.node_start[q] < tree.node_start[q + 1]:
            lo, hi = tree.offsets[q], tree.offsets[q + 1]
            block_scores(rows, lo, hi, w, s)
            query_windows(q, s, 0, tree, state, terms, moments, floats, ints, s)
            block_back(rows, lo, hi, s, g)


@with_room
def fused_curvature_pass(rows, v, first, last, stride, tree, state, terms):
    """(Hessian in w of the loss of every stride-th query) v, reading each row once."""
    g = np.zeros(len(v))
    _fused_curvature_pass(rows, v, first, last, stride, tree, state, terms, _room(tree)[0], g)
    return g


@kernel
def _fused_curvature_pass(rows, v, first, last, stride, tree, state, terms, floats, g):
    s = floats[3]
    for q in range(first, last, stride):
        if tree.node_start[q] < tree.node_start[q + 1]:
            lo, hi = tree.offsets[q], tree.offsets[q + 1]
            block_scores(rows, lo, hi, v, s)
            query_curvature(q, s, 0, tree, state, terms, floats, s)
            block_back(rows, lo, hi, s, g)


# The whole Hessian in the weights of some columns, by one reading of their rows.
#
# In score space H = diag(degree) - N, N holding the weights of the active pairs. N is symmetric and each pair stands in
# it twice, so over the rows x_p of a query
#
#     X^T H X  =  symmetric part of  sum over p of  x_p (degree_p x_p - 2 sum over its active losers j of weight x_j)^T
#
# and only winners need their partners' sum, which a running sum over the sorted losers gives. A row that wins no active
# pair adds degree_p x_p x_p^T, of which the lower triangle is enough.


@with_room
def hessian_pass(rows, width, first, last, stride, tree, state, terms):
    """Hessian in the weights of the rows' `width` columns, of every stride-th query. O(rows · width²)."""
    n = int(np.diff(tree.offsets[first : last + 1]).max(initial=1))
    padded = -(-width // LANES) * LANES
    step = max(LANES, min(padded, BLOCK // n // LANES * LANES))
    block, running, partners = np.zeros((n, step)), np.empty((n + 1, step)), np.empty((n, step))
    room = block, running, partners, np.empty(n, np.bool_), np.empty(n, np.int32)
    full, lower = np.zeros((width, padded)), np.zeros((width, padded))
    _hessian_pass(rows, width, step, first, last, stride, tree, state, terms, *room, full, lower)
    lower = np.tril(lower[:, :width] + 0.5 * (full[:, :width] + full[:, :width].T))
    return lower + np.tril(lower, -1).T


@kernel
def _hessian_pass(
    rows, width, step, first, last, stride, tree, state, terms, block, running, partners, wins, some, full, lower
):
    for q in range(first, last, stride):
        if tree.node_start[q] < tree.node_start[q + 1]:
            lo, hi = tree.offsets[q], tree.offsets[q + 1]
            for c0 in range(0, width, step):
                c1 = min(c0 + step, width)
                block_columns(rows, lo, tree.perm[lo:hi], c0, c1, block)
                curve_block(q, c1 - c0, tree, state, terms, block, running, partners, wins)
                add_outer(rows, lo, tree.perm[lo:hi], state.degree, wins, block, c0, c1, some, full, lower)


@inner
def curve_block(q, width, tree, state, terms, block, running, partners, wins):
    """block[p] <- degree_p block[p] - 2 sum over p's active losers of weight block[j], rows of query q by position;
    wins[p] = whether it wins an active pair."""
    lo, size = tree.offsets[q], tree.offsets[q + 1] - tree.offsets[q]
    member, window, node = state.member, state.window, tree.node
    wins[:size] = False
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers, winners, slot = node[k, 1] - node[k, 0], node[k, 3] - node[k, 2], tree.slot[k]
        start = losers  # the windows of all winners end at the losers' best; none begins below this one
        for t in range(len(terms)):
            for m in range(slot + losers, slot + losers + winners):
                start = min(start, losers - window[t, m])
        running[start, :width] = 0.0
        for m in range(start, losers):
            p = member[slot + m]
            b = tree.loser[lo + p]
            for c in range(width):
                running[m + 1, c] = running[m, c] + b * block[p, c]
        for t in range(len(terms)):
            for m in range(slot + losers, slot + losers + winners):
                p, outside = member[m], losers - window[t, m]
                if outside == losers:
                    continue
                if not wins[p]:
                    wins[p], partners[p, :width] = True, 0.0
                a = 4.0 * terms[t, 2] * tree.scale[k] * tree.winner[lo + p]
                for c in range(width):
                    partners[p, c] += a * (running[losers, c] - running[outside, c])
    for p in range(size):
        for c in range(width):
            block[p, c] *= state.degree[lo + p]
        if wins[p]:
            for c in range(width):
                block[p, c] -= partners[p, c]


@chosen(fastmath=SUMS_MAY_REORDER)
def add_outer(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
    """full[:, c0:c1] += sum over the p that win of (row lo + perm[p]) block[p]^T.

    The others, for which block[p] = degree[lo + p] (row lo + perm[p]), add to the lower triangle of `lower` instead.
    """

    def dense(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
        for half in range(2):
            count = 0
            for p in range(len(perm)):
                if wins[p] == (half == 0) and degree[lo + p] != 0.0:
                    some[count] = p
                    count += 1
            add_rows(rows[0], lo, perm, some, count, block, c0, c1, half == 1, full if half == 0 else lower)

    def sparse(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
        values, columns, starts = rows
        for p in range(len(perm)):
            weight = degree[lo + p]
            if weight == 0.0:
                continue
            begin, end = starts[lo + perm[p]], starts[lo + perm[p] + 1]
            for k in range(begin, end):
                x, a = np.float64(values[k]), columns[k]
                if wins[p]:
                    to, row = full[a, c0:c1], block[p]
                    for b in range(c1 - c0):
                        to[b] += x * row[b]
                elif c0 <= a < c1:
                    for m in range(begin, end):
                        lower[a, columns[m]] += weight * x * values[m]

    return dense if len(rows) == 1 else sparse


@inner(fastmath=SUMS_MAY_REORDER)
def add_rows(X, lo, perm, some, count, block, c0, c1, half, H):
    """H[:, c0:c1] += sum over p in some[:count] of X[lo + perm[p]] block[p]^T, of its lower triangle if `half`.

    Four rows at once: H is read and written a quarter as often. Columns up to the next multiple of LANES, and above a
    triangle's diagonal, get numbers without meaning. O(rows · width²).
    """
    stop = c0 + (c1 - c0 + LANES - 1) // LANES * LANES
    for m in range(0, count, 4):
        p0, p1, p2, p3 = some[m], some[min(m + 1, count - 1)], some[min(m + 2, count - 1)], some[min(m + 3, count - 1)]
        x0, x1, x2, x3 = X[lo + perm[p0]], X[lo + perm[p1]], X[lo + perm[p2]], X[lo + perm[p3]]
        b0, b1, b2, b3 = block[p0], block[p1], block[p2], block[p3]
        u1, u2, u3 = 1.0 * (m + 1 < count), 1.0 * (m + 2 < count), 1.0 * (m + 3 < count)
        for a in range(c0 if half else 0, X.shape[1]):
            f0, f1, f2, f3 = x0[a], u1 * x1[a], u2 * x2[a], u3 * x3[a]
            end = min(stop, a // LANES * LANES + LANES) if half else stop
            to = H[a, c0:end]
            for b in range(end - c0):
                to[b] += f0 * b0[b] + f1 * b1[b] + f2 * b2[b] + f3 * b3[b]
