"""Kernels of sequential selection: items are picked one after the other, and a pick changes the scores of the rest.

Letters: s base scores (n), H aggregated relations (p, n), w their weights (p), row: distances of the last pick (r, n).
Every kernel adds one pick at a time, so choosing `top` of n items costs O(top · n · r) and nothing is recomputed.
Items are the last axis, so that the inner loops run over contiguous memory.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel

LEAST, MEAN, MOST = 0, 1, 2  # how distances to the chosen items are aggregated


@inner
def fold_relations(H, row, count, kinds):
    """Update H (kinds·r, n) by the distances `row` (r, n) of a new pick; `count` items were chosen before. O(n·r)."""
    r, n = row.shape
    for k in range(len(kinds)):
        for j in range(r):
            h, x = H[k * r + j], row[j]
            if count == 0:
                for i in range(n):
                    h[i] = x[i]
            elif kinds[k] == LEAST:
                for i in range(n):
                    h[i] = min(h[i], x[i])
            elif kinds[k] == MEAN:
                for i in range(n):
                    h[i] += (x[i] - h[i]) / (count + 1)
            else:
                for i in range(n):
                    h[i] = max(h[i], x[i])


@inner
def linear_scores(s, H, w, taken, f):
    """f_i = s_i + Σ_c w_c·H_ci, −∞ for taken items; O(n·p)."""
    for i in range(len(s)):
        f[i] = s[i]
    for c in range(len(w)):
        for i in range(len(s)):
            f[i] += w[c] * H[c, i]
    for i in range(len(s)):
        if taken[i]:
            f[i] = -np.inf


@inner
def best_open(f, taken):
    """Return the item with the largest f among those not taken, the first of ties. O(n)."""
    best = -1
    for i in range(len(f)):
        if not taken[i] and (best < 0 or f[i] > f[best]):
            best = i
    return best


@kernel
def next_pick(s, H, w, taken, f, row, count, kinds):
    """Update H by the distances `row` (r, n) of pick number `count`, none before the first (r = 0).

    Return the open item with the largest s_i + H_i·w, the first of ties; f is a work array. O(n·p).
    """
    fold_relations(H, row, count - 1, kinds)
    linear_scores(s, H, w, taken, f)
    return best_open(f, taken)


@inner(allocates=True, fastmath=SUMS_MAY_REORDER)
def order_likelihood(s, w, rows, slots, order, kinds, shifts, g_s, g_w, g_t):
    """log P(order) = Σ_t f_t(y_t) − log Σ_{open i} e^{f_t(i)},  f_t(i) = s_i + H_i(t)·w + shifts_ti  (Plackett–Luce).

    Only the given prefix counts. rows[slots[t]] holds the distances (r, n) of item order[t]. The gradients are added to
    g_s (n) and g_w (p). shifts, with len(order) rows or none, are scores that change with t; their gradient goes to
    g_t, of the same length. O(len(order)·n·p).
    """
    n, p = len(s), len(w)
    H = np.zeros((p, n))
    f = np.empty(n)
    taken = np.zeros(n, np.bool_)
    value = 0.0
    for t in range(len(order)):
        y = order[t]
        linear_scores(s, H, w, taken, f)
        if len(shifts) > 0:
            for i in range(n):
                f[i] += shifts[t, i]
        top = f.max()
        value += f[y] - top
        total = 0.0
        for i in range(n):
            f[i] = np.exp(f[i] - top)
            total += f[i]
        value -= np.log(total)
        for i in range(n):
            f[i] /= total
            g_s[i] -= f[i]
        g_s[y] += 1.0
        if len(g_t) > 0:
            for i in range(n):
                g_t[t, i] = -f[i]
            g_t[t, y] += 1.0
        for c in range(p):
            expected = 0.0
            for i in range(n):
                expected += f[i] * H[c, i]
            g_w[c] += H[c, y] - expected
        taken[y] = True
        if p > 0 and t + 1 < len(order):
            fold_relations(H, rows[slots[t]], t, kinds)
    return value


@kernel(allocates=True)
def orders_likelihood(s, w, rows, slots, orders, kinds, shifts, values, g_s, g_w, g_t):
    """`order_likelihood` of each row of `orders`, rankings of equal length; gradients are added to the rows of g."""
    for k in range(len(orders)):
        values[k] = order_likelihood(s, w, rows, slots[k], orders[k], kinds, shifts[k], g_s[k], g_w[k], g_t[k])


@kernel(allocates=True)
def violating_order(X, s, w, tensor, kinds, discounts, J, weights, weight, psi):
    """Return the greedy ranking for discount_t·(s_i + H_i·w) − weight·gain_t(i), and the sum of its gains.

    gain_t(i) = Σ_j J_ij·weights[t, c_j, j], c_j earlier picks that are relevant to subtopic j. Writes to psi the joint
    features Σ_t discount_t·(x_{y_t}, H_{y_t}(t)). O(length·n·(p + subtopics)).
    """
    n, d, length = X.shape[0], X.shape[1], len(discounts)
    p, m = len(w), J.shape[1]
    H = np.zeros((p, n))
    f, gain = np.empty(n), np.empty(n)
    taken = np.zeros(n, np.bool_)
    counts = np.zeros(m, np.int64)
    order = np.empty(length, np.int64)
    value = 0.0
    psi[:] = 0.0
    for t in range(length):
        linear_scores(s, H, w, taken, f)
        for i in range(n):
            gain[i] = 0.0
            for j in range(m):
                gain[i] += J[i, j] * weights[t, counts[j], j]
            f[i] = discounts[t] * f[i] - weight * gain[i]
        best = best_open(f, taken)
        order[t] = best
        taken[best] = True
        value += gain[best]
        for j in range(m):
            counts[j] += J[best, j]
        for c in range(d):
            psi[c] += discounts[t] * X[best, c]
        for c in range(p):
            psi[d + c] += discounts[t] * H[c, best]
        if p > 0 and t + 1 < length:
            fold_relations(H, tensor[best], t, kinds)
    return order, value


@kernel(allocates=True)
def order_features(X, order, tensor, kinds, discounts, psi):
    """psi = Σ_t discount_t · (x_{y_t}, H_{y_t}(t)): the joint features of a given ranking; O(length·n·p)."""
    n, d = X.shape
    p = len(psi) - d
    H = np.zeros((p, n))
    psi[:] = 0.0
    for t in range(len(order)):
        for c in range(d):
            psi[c] += discounts[t] * X[order[t], c]
        for c in range(p):
            psi[d + c] += discounts[t] * H[c, order[t]]
        if p > 0 and t + 1 < len(order):
            fold_relations(H, tensor[order[t]], t, kinds)


@kernel(allocates=True)
def ideal_prefix(J, keep, depth):
    """Greedy argmax Σ_j J_ij·keep^c_j, c_j earlier picks that are relevant to j, the first of ties, at most `depth`.

    Items without any relevance are left out. The order of sums is fixed, so equal items tie exactly. O(depth·n·m).
    """
    n, m = J.shape
    gain = np.ones(m)
    open_items = np.zeros(n, np.bool_)
    for i in range(n):
        for j in range(m):
            open_items[i] |= J[i, j] > 0
    order = np.empty(min(depth, open_items.sum()), np.int64)
    for t in range(len(order)):
        best, most = -1, -np.inf
        for i in range(n):
            if open_items[i]:
                f = 0.0
                for j in range(m):
                    f += J[i, j] * gain[j]
                if f > most:
                    best, most = i, f
        order[t] = best
        open_items[best] = False
        for j in range(m):
            if J[best, j] > 0:
                gain[j] *= keep
    return order


@kernel(allocates=True)
def xquad_order(relevance, A, weights, lam, top):
    """Greedy argmax (1−λ)·rel_i + λ Σ_a P(a)·A_ia·Π_{chosen}(1 − A_ja), the first of ties; O(top·n·a)."""
    n, aspects = A.shape
    need, f = weights.copy(), np.empty(n)
    taken = np.zeros(n, np.bool_)
    order = np.empty(min(top, n), np.int64)
    for t in range(len(order)):
        for i in range(n):
            novelty = 0.0
            for a in range(aspects):
                novelty += need[a] * A[i, a]
            f[i] = (1 - lam) * relevance[i] + lam * novelty
        best = best_open(f, taken)
        order[t] = best
        taken[best] = True
        for a in range(aspects):
            need[a] *= 1 - A[best, a]
    return order


@kernel(allocates=True)
def pm2_order(relevance, A, weights, lam, top):
    """Greedy argmax λ·q_b·A_ib + (1−λ) Σ_{a≠b} q_a·A_ia with q_a = w_a/(2s_a+1), b = argmax q; O(top·n·a).

    The pick adds A_ia/Σ_a A_ia to the seats s_a. Ties are broken by relevance, then by order.
    """
    n, aspects = A.shape
    seats = np.zeros(aspects)
    quotient = np.empty(aspects)
    taken = np.zeros(n, np.bool_)
    order = np.empty(min(top, n), np.int64)
    for t in range(len(order)):
        b = 0
        for a in range(aspects):
            quotient[a] = weights[a] / (2 * seats[a] + 1)
            if quotient[a] > quotient[b]:
                b = a
        best, most = -1, -np.inf
        for i in range(n):
            if not taken[i]:
                f = 0.0
                for a in range(aspects):
                    f += (lam if a == b else 1 - lam) * quotient[a] * A[i, a]
                if best < 0 or f > most or (f == most and relevance[i] > relevance[best]):
                    best, most = i, f
        order[t] = best
        taken[best] = True
        total = A[best].sum()
        if total > 0:
            for a in range(aspects):
                seats[a] += A[best, a] / total
    return order


@kernel(allocates=True)
def coverage_order(s, value, indptr, indices, elements, of, J, need, top, covered):
    """Greedy argmax s_i + Σ value of elements of i not covered yet − Σ_j J_ij·need_j over subtopics not covered yet.

    Items × elements is CSR (indptr, indices); elements × items is CSR (elements, of). When an element becomes covered,
    its value is subtracted once from every item that has it, so a whole selection costs O(nonzeros + top·n·subtopics).
    Fills `covered`.
    """
    n, m = J.shape
    gain, f = s.copy(), np.empty(n)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            gain[i] += value[indices[k]]
    missing = need.copy()
    taken = np.zeros(n, np.bool_)
    order = np.empty(min(top, n), np.int64)
    for t in range(len(order)):
        for i in range(n):
            f[i] = gain[i]
            for j in range(m):
                f[i] -= J[i, j] * missing[j]
        best = best_open(f, taken)
        order[t] = best
        taken[best] = True
        for j in range(m):
            if J[best, j] > 0:
                missing[j] = 0.0
        for k in range(indptr[best], indptr[best + 1]):
            v = indices[k]
            if not covered[v]:
                covered[v] = True
                for q in range(elements[v], elements[v + 1]):
                    gain[of[q]] -= value[v]
    return order
