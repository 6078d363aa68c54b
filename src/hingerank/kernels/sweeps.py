"""The sums over a query's preference pairs that hinge-type losses need, without listing the pairs.

**The grade tree.** Rows of a query are laid out by ascending grade (``position``). A node compares a contiguous run of
lower-graded positions (losers) with the run just above it (winners); splitting the grades in two, and each half again,
covers every preference pair once. Splits fall at the grade border nearest the middle *by rows*, so a row takes part in
about entropy(grades) nodes: one for two grades, log2(G) at worst. Nodes are listed children first, so that the sorted
runs of a node's two halves are ready to be merged when it is reached: the sweep and the merge sort are one recursion.

**Winners that also lose.** A node may compare a run of positions with itself (losers = winners): every row of it should
beat every other. A row paired with itself does not count. In gradients and Hessian products that pair cancels; moments
leave it out; ``degree`` includes it, since the sums in Hessian products do too.

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

from hingerank.kernels.compiled import inner, kernel, with_room
from hingerank.kernels.curves import together_rows
from hingerank.kernels.order import order_blocks
from hingerank.kernels.rows import block_back, block_scores

FEW_GRADES = 32  # up to here distinct grades are collected by insertion and rows placed by counting
RUN = 12  # rows sorted by insertion before merging


class GradeTree(NamedTuple):
    """Which rows a data set's preference pairs compare; fixed for a data set."""

    offsets: np.ndarray  # (Q+1) rows of each query
    perm: np.ndarray  # (n) row within its query at each position (ascending grade)
    leaf_start: np.ndarray  # (Q+1)
    leaf: np.ndarray  # first position of each run of equal grades
    node_start: np.ndarray  # (Q+1)
    node: np.ndarray  # (nodes, 4) losers first:end, winners first:end, positions in the whole data set
    slot: np.ndarray  # (nodes) where a node's members begin in WindowState
    scale: np.ndarray  # (nodes) weight of all the node's pairs
    winner: np.ndarray  # (n) a row's weight when preferred, by position
    loser: np.ndarray  # (n) a row's weight when not preferred, by position
    merges: bool  # a tree (True) or nodes whose runs are leaves (False)
    widest: int  # rows of the longest query


class WindowState(NamedTuple):
    """What one iterate stores for its Hessian products; refreshed at every iterate."""

    order: np.ndarray  # (n) positions within each leaf by score, where the next sort starts
    member: np.ndarray  # (slots) positions by score: losers, then winners
    window: np.ndarray  # (terms, slots) number of active partners
    degree: np.ndarray  # (n) diagonal of the score-space Hessian, by position, including pairs of a row with itself


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
        if count > 1:  # a row of `node` not yet processed holds its range of leaves
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
    """As `grow_tree`, but with one node for every two grades of a query, as a weight per pair of grades needs."""
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
    """First position of leaf k, one of query q's, and the position after its last."""
    if k + 1 < tree.leaf_start[q + 1]:
        return tree.leaf[k], tree.leaf[k + 1]
    return tree.leaf[k], tree.offsets[q + 1]


# Window sweeps of one query


@inner
def own_weight(tree, first, last):
    """Sum over positions first:last of a row's weight as a winner against itself."""
    total = 0.0
    for p in range(first, last):
        total += tree.winner[p] * tree.loser[p]
    return total


@inner
def sweep_node(key, at, l0, l1, w0, w1, lo, k, tree, t, terms, state, grad, moments):
    """Sweep one node's active pairs at a term's margin: fill its windows, and add to its rows' gradient and degree and
    to the pairs' moments 0, 1, 2.

    key, at: sorted scores and positions within the query, which begins at position lo. O(rows of the node).
    """
    member, window, winner, loser, degree = state.member, state.window, tree.winner, tree.loser, state.degree
    margin, c1, c2, slot, scale = terms[t, 0], terms[t, 1], 2.0 * terms[t, 2], tree.slot[k], tree.scale[k]
    weight, one, two, previous = 0.0, 0.0, 0.0, key[w1 - 1]
    total0, total1, total2 = 0.0, 0.0, 0.0
    at_loser, place = l1, slot + l1 - l0 - w0
    for i in range(w1 - 1, w0 - 1, -1):  # winners from the best score down: losers above s_i - margin enter
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
    if l0 == w0 and margin > 0.0:  # every row is in its own window
        own = scale * own_weight(tree, lo + w0, lo + w1)
        total0 -= own
        total1 -= own * margin
        total2 -= own * margin * margin
    moments[t, 0] += total0
    moments[t, 1] += total1
    moments[t, 2] += total2
    weight, one, previous = 0.0, 0.0, key[l0]
    at_winner, place = w0, slot - l0
    for j in range(l0, l1):  # losers from the worst score up: winners below s_j + margin enter
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
    sums of (margin - t) and of its square, are added; floats, ints: work arrays (3 and 2 rows of n_q). z may be s.
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
            running[0] = 0.0  # over losers by score: a winner's active ones come last
            for m in range(losers):
                p = member[slot + m]
                running[m + 1] = running[m] + loser[lo + p] * key[p]
            for m in range(slot + losers, slot + losers + winners):
                p = member[m]
                sums[p] += scale * winner[lo + p] * (running[losers] - running[losers - window[t, m]])
            for m in range(winners):  # over winners: a loser's active ones come first
                p = member[slot + losers + m]
                running[m + 1] = running[m] + winner[lo + p] * key[p]
            for m in range(slot, slot + losers):
                p = member[m]
                sums[p] += scale * loser[lo + p] * running[window[t, m]]
    for p in range(size):
        z[base + perm[lo + p]] = state.degree[lo + p] * key[p] - sums[p]


# Passes over queries, from scores or fused with one reading of the feature rows


@with_room
def score_pass(s, first, last, tree, state, terms, z):
    """Moments of the active pairs at scores s (see query_windows); z = the loss's gradient in scores."""
    moments, floats, ints = np.zeros((len(terms), 3)), np.empty((4, tree.widest + 1)), np.empty((2, tree.widest), "i4")
    _score_pass(s, first, last, tree, state, terms, moments, floats, ints, z)
    return moments


@kernel
def _score_pass(s, first, last, tree, state, terms, moments, floats, ints, z):
    for q in range(first, last):
        query_windows(q, s, tree.offsets[q], tree, state, terms, moments, floats, ints, z)


@with_room
def curvature_pass(v, first, last, tree, state, terms, z):
    """z = (Hessian of the loss in scores) v."""
    _curvature_pass(v, first, last, tree, state, terms, np.empty((4, tree.widest + 1)), z)


@kernel
def _curvature_pass(v, first, last, tree, state, terms, floats, z):
    for q in range(first, last):
        query_curvature(q, v, tree.offsets[q], tree, state, terms, floats, z)


@with_room
def fused_loss_pass(rows, w, stride, tree, state, terms, shard):
    """(moments, gradient in w) of every stride-th query of the shard at w; each row is read once."""
    moments, floats, ints = np.zeros((len(terms), 3)), np.empty((4, tree.widest + 1)), np.empty((2, tree.widest), "i4")
    g = np.zeros(len(w))
    _fused_loss_pass(rows, w, *shard, stride, tree, state, terms, moments, floats, ints, g)
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
def fused_curvature_pass(rows, v, stride, tree, state, terms, shard):
    """(Hessian in w of the loss of every stride-th query of the shard) v; each row is read once."""
    g = np.zeros(len(v))
    together = together_rows(rows[0]) if len(rows) == 4 and stride == 1 else 0
    floats, s = np.empty((4, tree.widest + 1)), np.empty(max(tree.widest, together))
    _fused_curvature_pass(rows, v, *shard, stride, together, tree, state, terms, floats, s, g)
    return g


@kernel
def _fused_curvature_pass(rows, v, first, last, stride, together, tree, state, terms, floats, s, g):
    q, offsets, node_start = first, tree.offsets, tree.node_start
    while q < last:
        lo, end = offsets[q], q + 1
        while end < last and offsets[end + 1] - lo <= together:
            end += 1
        if node_start[q] < node_start[end]:
            block_scores(rows, lo, offsets[end], v, s)
            for k in range(q, end):
                if node_start[k] < node_start[k + 1]:
                    query_curvature(k, s, offsets[k] - lo, tree, state, terms, floats, s)
                else:
                    for i in range(offsets[k] - lo, offsets[k + 1] - lo):
                        s[i] = 0.0
            block_back(rows, lo, offsets[end], s, g)
        q = end - 1 + stride
