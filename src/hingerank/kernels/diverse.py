"""Kernels of sequential selection: items are picked one after the other, and a pick changes the scores of the rest.

Letters: s base scores (n), H aggregated relations (n, p), w their weights (p), row: distances of the last pick (n, r).
Every kernel folds in one pick at a time, so choosing `top` of n items costs O(top · n · r) and nothing is recomputed.
"""

import numpy as np
from numba import njit

LEAST, MEAN, MOST = 0, 1, 2  # how distances to the chosen items are aggregated


@njit(cache=True, nogil=True)
def fold_relations(H, row, count, kinds):
    """Fold the distances `row` (n, r) of a new pick into H (n, kinds·r); `count` items were chosen before. O(n·r)."""
    n, r = row.shape
    for k in range(len(kinds)):
        kind = kinds[k]
        for i in range(n):
            for j in range(r):
                x, c = row[i, j], k * r + j
                if count == 0:
                    H[i, c] = x
                elif kind == LEAST:
                    H[i, c] = min(H[i, c], x)
                elif kind == MEAN:
                    H[i, c] += (x - H[i, c]) / (count + 1)
                else:
                    H[i, c] = max(H[i, c], x)


@njit(cache=True, nogil=True)
def best_linear(s, H, w, taken):
    """The open item with the largest s_i + H_i·w, the first of equals; O(n·p)."""
    best, most = -1, -np.inf
    for i in range(len(s)):
        if not taken[i]:
            f = s[i]
            for c in range(len(w)):
                f += H[i, c] * w[c]
            if best < 0 or f > most:
                best, most = i, f
    return best


@njit(cache=True, nogil=True)
def order_likelihood(s, w, rows, slots, order, kinds, g_s, g_w):
    """log P(order) = Σ_t f_t(y_t) − log Σ_{open i} e^{f_t(i)},  f_t(i) = s_i + H_i(t)·w  (Plackett–Luce, prefix only).

    rows[slots[t]] holds the distances (n, r) of item order[t]. Adds the gradients to g_s (n) and g_w (p).
    O(len(order)·n·p).
    """
    n, p = len(s), len(w)
    H = np.zeros((n, p))
    f = np.empty(n)
    taken = np.zeros(n, np.bool_)
    value = 0.0
    for t in range(len(order)):
        y, top = order[t], -np.inf
        for i in range(n):
            if not taken[i]:
                f[i] = s[i]
                for c in range(p):
                    f[i] += H[i, c] * w[c]
                top = max(top, f[i])
        value += f[y] - top
        total = 0.0
        for i in range(n):
            if not taken[i]:
                f[i] = np.exp(f[i] - top)
                total += f[i]
        value -= np.log(total)
        for i in range(n):
            if not taken[i]:
                q = f[i] / total
                g_s[i] -= q
                for c in range(p):
                    g_w[c] -= q * H[i, c]
        g_s[y] += 1.0
        for c in range(p):
            g_w[c] += H[y, c]
        taken[y] = True
        if p > 0 and t + 1 < len(order):
            fold_relations(H, rows[slots[t]], t, kinds)
    return value


@njit(cache=True, nogil=True)
def order_features(X, rows, slots, order, kinds, discounts, out):
    """out += Σ_t discount_t · (x_{y_t}, H_{y_t}(t)): the joint feature vector of a ranking; O(len(order)·n·p)."""
    n, d = X.shape
    p = len(out) - d
    H = np.zeros((n, p))
    for t in range(len(order)):
        y = order[t]
        for c in range(d):
            out[c] += discounts[t] * X[y, c]
        for c in range(p):
            out[d + c] += discounts[t] * H[y, c]
        if p > 0 and t + 1 < len(order):
            fold_relations(H, rows[slots[t]], t, kinds)


@njit(cache=True, nogil=True)
def xquad_order(relevance, A, weights, lam, top):
    """Greedy argmax (1−λ)·rel_i + λ Σ_a P(a)·A_ia·Π_{chosen}(1 − A_ja), the first of equals; O(top·n·a)."""
    n, aspects = A.shape
    need = weights.copy()
    taken = np.zeros(n, np.bool_)
    order = np.empty(min(top, n), np.int64)
    for t in range(len(order)):
        best, most = -1, -np.inf
        for i in range(n):
            if not taken[i]:
                novelty = 0.0
                for a in range(aspects):
                    novelty += need[a] * A[i, a]
                f = (1 - lam) * relevance[i] + lam * novelty
                if best < 0 or f > most:
                    best, most = i, f
        order[t] = best
        taken[best] = True
        for a in range(aspects):
            need[a] *= 1 - A[best, a]
    return order


@njit(cache=True, nogil=True)
def pm2_order(relevance, A, weights, lam, top):
    """Greedy argmax λ·q_b·A_ib + (1−λ) Σ_{a≠b} q_a·A_ia with q_a = w_a/(2s_a+1), b = argmax q; O(top·n·a).

    The pick adds A_ia/Σ_a A_ia to the seats s_a. Equal items go by relevance, then the first.
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
        share = A[best].sum()
        if share > 0:
            for a in range(aspects):
                seats[a] += A[best, a] / share
    return order


@njit(cache=True, nogil=True)
def cover(item, indptr, indices, elements, of, covered, value, gain):
    """Mark the elements of `item` covered and take their value from every item that has them; returns the value gained.

    Items × elements is CSR (indptr, indices); elements × items is CSR (elements, of). Over a whole selection every
    element is covered at most once, so all calls together cost O(nonzeros).
    """
    total = 0.0
    for k in range(indptr[item], indptr[item + 1]):
        v = indices[k]
        if not covered[v]:
            covered[v] = True
            total += value[v]
            for m in range(elements[v], elements[v + 1]):
                gain[of[m]] -= value[v]
    return total
