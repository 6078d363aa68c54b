"""Losses other than hinges over queries first:last, with their gradients and curvature, in score space.

Pair losses over the grade tree: logistic, fidelity, squared hinge and modified Huber (pairs are visited, not stored,
and may have further weights), squared and exponential (a node's pairs factor into sums). Listwise losses: top-one cross
entropy and the Plackett-Luce likelihood with grades as ordered groups. The discounts of ranks that NDCG gives.
"""

import numpy as np

from hingerank.kernels.compiled import chosen, inner, kernel, with_room
from hingerank.kernels.order import order_blocks
from hingerank.kernels.sweeps import leaf_borders, own_weight

LOGISTIC, FIDELITY, SQUARED_HINGE, MODIFIED_HUBER = 0, 1, 2, 3


@inner
def smooth_terms(kind, t):
    """(l, -l', l'') at t of log(1 + exp(-t)), of 1 - sqrt(sigma), sigma = 1 / (1 + exp(-t)), of max(1 - t, 0)^2, or of
    the same with -4t below -1."""
    if kind == MODIFIED_HUBER and t < -1.0:
        return -4.0 * t, 4.0, 0.0
    if kind >= SQUARED_HINGE:
        gap = max(1.0 - t, 0.0)
        return gap * gap, 2.0 * gap, 2.0 if t < 1.0 else 0.0
    e = np.exp(-abs(t))
    larger = 1.0 / (1.0 + e)
    miss = larger if t < 0.0 else e * larger  # 1 - sigma
    if kind == LOGISTIC:
        return np.log1p(e) + max(-t, 0.0), miss, e * larger * larger
    hit = 1.0 - miss if t > 0.0 else e * larger
    root = np.sqrt(hit)
    return miss / (1.0 + root), 0.5 * root * miss, 0.25 * root * miss * (3.0 * hit - 1.0)


@chosen
def further_weight(about, i, j):
    """The weight of a pair besides that of the tree, if these are given: (gain_i - gain_j) · |discount_i - discount_j|,
    the change of NDCG if the two swapped ranks, or (gain_i - gain_j) · table[|rank_i - rank_j|].

    The ranks come from another fit, while windows of active pairs follow the scores here. No single sort orders both,
    so every pair is visited, and none is stored.
    """

    def none(about, i, j):
        return 1.0

    def by_discounts(about, i, j):
        gain, discount = about
        return (gain[i] - gain[j]) * abs(discount[i] - discount[j])

    def by_ranks(about, i, j):
        gain, place, table = about
        return (gain[i] - gain[j]) * table[abs(place[i] - place[j])]

    return {0: none, 2: by_discounts, 3: by_ranks}[len(about)]


@kernel
def smooth_pass(kind, s, about, first, last, tree, z, diagonal):
    """Sum of weight · l(s_i - s_j) over pairs; z = gradient, diagonal = that of the Hessian. O(n_q^2) time."""
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                slope, curve = 0.0, 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    if pj == pi:
                        continue
                    j = lo + tree.perm[pj]
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj] * further_weight(about, i, j)
                    cost, force, second = smooth_terms(kind, s[i] - s[j])
                    value += weight * cost
                    slope += weight * force
                    curve += weight * second
                    z[j] += weight * force
                    diagonal[j] += weight * second
                z[i] -= slope
                diagonal[i] += curve
    return value


@kernel
def smooth_curvature_pass(kind, s, v, about, first, last, tree, z):
    """z = (Hessian of the sum of weight · l(s_i - s_j) at s) v. O(n_q^2) time."""
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                total = 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj] * further_weight(about, i, j)
                    force = weight * smooth_terms(kind, s[i] - s[j])[2] * (v[i] - v[j])
                    total += force
                    z[j] -= force
                z[i] += total


@kernel
def squared_pass(margin, s, v, first, last, tree, z, diagonal, product):
    """Sum of (margin - s_i + s_j)^2 over pairs; z = gradient; diagonal of the Hessian; product = Hessian v. O(n log G).

    With c the losers' mean, margin - s_i + s_j = (margin - s_i + c) + (s_j - c): a node's squares factor into moments
    whose mixed term vanishes, so that there is no cancellation.
    """
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        product[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            l0, l1, w0, w1 = tree.node[k, 0], tree.node[k, 1], tree.node[k, 2], tree.node[k, 3]
            low, c, low_v = 0.0, 0.0, 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                low += tree.loser[p]
                c += tree.loser[p] * s[r]
                low_v += tree.loser[p] * v[r]
            if low == 0.0:
                continue
            c /= low
            high, high_1, high_2, high_v = 0.0, 0.0, 0.0, 0.0
            for p in range(w0, w1):
                r = lo + tree.perm[p]
                weight, gap = tree.scale[k] * tree.winner[p], margin - (s[r] - c)
                high += weight
                high_1 += weight * gap
                high_2 += weight * gap * gap
                high_v += weight * v[r]
                z[r] -= 2.0 * weight * gap * low
                diagonal[r] += 2.0 * weight * low
                product[r] += 2.0 * weight * (low * v[r] - low_v)
            spread = 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                weight, gap = tree.loser[p], s[r] - c
                spread += weight * gap * gap
                z[r] += 2.0 * weight * (high_1 + high * gap)
                diagonal[r] += 2.0 * weight * high
                product[r] += 2.0 * weight * (high * v[r] - high_v)
            value += high_2 * low + high * spread
            if l0 == w0:
                value -= margin * margin * tree.scale[k] * own_weight(tree, w0, w1)
                for p in range(w0, w1):
                    diagonal[lo + tree.perm[p]] -= 4.0 * tree.scale[k] * tree.winner[p] * tree.loser[p]
    return value


@kernel
def exponential_pass(s, v, first, last, tree, z, diagonal, product):
    """Sum of exp(-(s_i - s_j)) over pairs; z = gradient; diagonal of the Hessian; product = Hessian v. O(n log G).

    exp(s_j - s_i) = exp(c - s_i) exp(s_j - c): a node's pairs factor into two sums. c is the losers' best score, so
    that no factor overflows before the loss itself does.
    """
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        product[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            l0, l1, w0, w1 = tree.node[k, 0], tree.node[k, 1], tree.node[k, 2], tree.node[k, 3]
            c = -np.inf
            for p in range(l0, l1):
                c = max(c, s[lo + tree.perm[p]])
            low, low_v, high, high_v = 0.0, 0.0, 0.0, 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                e = tree.loser[p] * np.exp(s[r] - c)
                low += e
                low_v += e * v[r]
            for p in range(w0, w1):
                r = lo + tree.perm[p]
                e = tree.scale[k] * tree.winner[p] * np.exp(c - s[r])
                high += e
                high_v += e * v[r]
                z[r] -= e * low
                diagonal[r] += e * low
                product[r] += e * (low * v[r] - low_v)
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                e = tree.loser[p] * np.exp(s[r] - c)
                z[r] += e * high
                diagonal[r] += e * high
                product[r] += e * (high * v[r] - high_v)
            value += high * low
            if l0 == w0:
                value -= tree.scale[k] * own_weight(tree, w0, w1)
                for p in range(w0, w1):
                    diagonal[lo + tree.perm[p]] -= 2.0 * tree.scale[k] * tree.winner[p] * tree.loser[p]
    return value


# Listwise losses


@inner
def softmax(s, m, lo, hi, p):
    """p_i = m_i exp(s_i) / Z on rows lo:hi; returns log Z. O(n)."""
    top = -np.inf
    for r in range(lo, hi):
        if m[r] > 0.0:
            top = max(top, s[r])
    total = 0.0
    for r in range(lo, hi):
        p[r] = m[r] * np.exp(s[r] - top) if m[r] > 0.0 else 0.0
        total += p[r]
    for r in range(lo, hi):
        p[r] = p[r] / total if total > 0.0 else 0.0
    return top + np.log(total) if total > 0.0 else 0.0


@kernel
def listnet_pass(s, y, m, c, offsets, first, last, z, p):
    """Sum over queries of c (log Z - sum_i P_y(i) s_i); z = gradient, p = P_s. O(n)."""
    value = 0.0
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        softmax(y, m, lo, hi, z)
        log_z = softmax(s, m, lo, hi, p)
        for r in range(lo, hi):
            value += c[q] * z[r] * (log_z - s[r]) if z[r] > 0.0 else 0.0
            z[r] = c[q] * (p[r] - z[r])
    return value


@kernel
def listnet_curvature_pass(p, v, c, offsets, first, last, z):
    """z = c (diag p - p p^T) v. O(n)."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        mean = 0.0
        for r in range(lo, hi):
            mean += p[r] * v[r]
        for r in range(lo, hi):
            z[r] = c[q] * p[r] * (v[r] - mean)


@inner
def lower_sums(s, v, m, q, tree, log_sum, mean):
    """log_sum[k] = log E_k, E_k the sum of m_j exp(s_j) over the grade runs below run k; mean[k] = mean of v there.

    O(n).
    """
    lo, runs = tree.offsets[q], tree.leaf_start[q + 1] - tree.leaf_start[q]
    if runs > 0:
        log_sum[0], mean[0] = -np.inf, 0.0
    for k in range(runs - 1):
        begin, end = leaf_borders(tree, q, tree.leaf_start[q] + k)
        top = log_sum[k]
        for at in range(begin, end):
            r = lo + tree.perm[at]
            if m[r] > 0.0:
                top = max(top, s[r])
        log_sum[k + 1], mean[k + 1] = top, 0.0
        if top == -np.inf:
            continue
        total = np.exp(log_sum[k] - top)
        moment = total * mean[k]
        for at in range(begin, end):
            r = lo + tree.perm[at]
            if m[r] > 0.0:
                e = m[r] * np.exp(s[r] - top)
                total += e
                moment += e * v[r]
        log_sum[k + 1], mean[k + 1] = top + np.log(total), moment / total
    return runs


@inner
def miss(u):
    """exp(u) / (1 + exp(u))."""
    e = np.exp(-abs(u))
    return 1.0 / (1.0 + e) if u > 0.0 else e / (1.0 + e)


@kernel(allocates=True)
def listmle_pass(s, m, c, first, last, tree, z, diagonal):
    """Sum of m_i log(1 + E / exp(s_i)), E over the lower grades; z = gradient; diagonal of the Hessian. O(n).

    A run pushes all rows below it, in proportion to their exp(s_j). Going down from run to run, `force` is the sum of
    the pushes from above in units of the current E, so every factor is at most 1 and nothing overflows.
    """
    value = 0.0
    log_sum, mean = np.empty(tree.widest), np.empty(tree.widest)  # a query has at most as many grades as rows
    for q in range(first, last):
        lo, runs = tree.offsets[q], lower_sums(s, s, m, q, tree, log_sum, mean)
        force, square = 0.0, 0.0
        for k in range(runs - 1, -1, -1):
            push, curve = 0.0, 0.0
            begin, end = leaf_borders(tree, q, tree.leaf_start[q] + k)
            for at in range(begin, end):
                r = lo + tree.perm[at]
                z[r], diagonal[r] = 0.0, 0.0
                if m[r] == 0.0:
                    continue
                if k < runs - 1:
                    fraction = m[r] * np.exp(s[r] - log_sum[k + 1])
                    z[r] = c[q] * fraction * force
                    diagonal[r] = c[q] * fraction * (force + fraction * square)
                if k > 0:
                    u = log_sum[k] - s[r]
                    lost = miss(u)
                    value += c[q] * m[r] * (np.log1p(np.exp(-abs(u))) + max(u, 0.0))
                    z[r] -= c[q] * m[r] * lost
                    diagonal[r] += c[q] * m[r] * lost * (1.0 - lost)
                    push += m[r] * lost
                    curve += m[r] * lost * (1.0 - lost)
            shrink = np.exp(log_sum[k] - log_sum[k + 1]) if k < runs - 1 and log_sum[k] > -np.inf else 0.0
            force, square = push + shrink * force, curve - push + shrink * shrink * square
    return value


@kernel(allocates=True)
def listmle_curvature_pass(s, v, m, c, first, last, tree, z):
    """z = (Hessian of the loss of `listmle_pass` at s) v. O(n)."""
    log_sum, mean = np.empty(tree.widest), np.empty(tree.widest)  # a query has at most as many grades as rows
    for q in range(first, last):
        lo, runs = tree.offsets[q], lower_sums(s, v, m, q, tree, log_sum, mean)
        force, moved = 0.0, 0.0
        for k in range(runs - 1, -1, -1):
            push, drag = 0.0, 0.0
            begin, end = leaf_borders(tree, q, tree.leaf_start[q] + k)
            for at in range(begin, end):
                r = lo + tree.perm[at]
                z[r] = 0.0
                if m[r] == 0.0:
                    continue
                if k < runs - 1:
                    z[r] = c[q] * m[r] * np.exp(s[r] - log_sum[k + 1]) * (force * v[r] + moved)
                if k > 0:
                    lost = miss(log_sum[k] - s[r])
                    change = m[r] * lost * (1.0 - lost) * (mean[k] - v[r])
                    z[r] -= c[q] * change
                    push += m[r] * lost
                    drag += change
            shrink = np.exp(log_sum[k] - log_sum[k + 1]) if k < runs - 1 and log_sum[k] > -np.inf else 0.0
            force, moved = push + shrink * force, drag - push * mean[k] + shrink * moved


# Discounts of ranks, in a ranking whose rows may have weights.
#
# A row of weight m fills m ranks and has their mean discount; rows of equal score share the mean discount of the ranks
# they fill together. So weight 2 is the same as the row given twice, and nothing depends on the order of rows.


@with_room
def average_discounts(s, weight, offsets, first, last, filled, order, out):
    """out = each row's mean discount when queries are ranked by s; order = that ranking. O(n log n).

    filled[k] = sum of the first k discounts.
    """
    order_blocks(s, offsets, first, last, order)
    _average_discounts(s, weight, offsets, first, last, filled, order, out)


@kernel
def _average_discounts(s, weight, offsets, first, last, filled, order, out):
    for q in range(first, last):
        a, end, place = offsets[q], offsets[q + 1], 0.0
        while a < end:
            b, m = a, 0.0
            while b < end and s[order[b]] == s[order[a]]:
                m += weight[order[b]]
                b += 1
            mean = (discount_sum(filled, place + m) - discount_sum(filled, place)) / m
            for k in range(a, b):
                out[order[k]] = mean
            place += m
            a = b


@inner
def discount_sum(filled, place):
    """Sum of the discounts of the first `place` ranks, linear in between and beyond the table."""
    k = min(int(place), len(filled) - 2)
    return filled[k] + (place - k) * (filled[k + 1] - filled[k])
