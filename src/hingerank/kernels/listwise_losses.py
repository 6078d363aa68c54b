"""Losses of whole lists: top-one cross entropy and the Plackett-Luce likelihood with grades as ordered groups."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def softmax(s, m, lo, hi, p):
    """p_i = m_i exp(s_i) / Z on rows lo:hi; answers log Z. O(n)."""
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def listnet_curvature_pass(p, v, c, offsets, first, last, z):
    """z = c (diag p - p p^T) v. O(n)."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        mean = 0.0
        for r in range(lo, hi):
            mean += p[r] * v[r]
        for r in range(lo, hi):
            z[r] = c[q] * p[r] * (v[r] - mean)


@njit(cache=True, nogil=True)
def run_room(tree, first, last):
    """Room for two numbers for each grade run of the longest of these queries."""
    most = 0
    for q in range(first, last):
        most = max(most, tree.leaf_start[q + 1] - tree.leaf_start[q])
    return np.empty((2, most))


@njit(cache=True, nogil=True)
def run_borders(tree, q, k):
    """First position and the one after the last of grade run k of query q."""
    at = tree.leaf_start[q] + k
    return tree.leaf[at], tree.leaf[at + 1] if at + 1 < tree.leaf_start[q + 1] else tree.offsets[q + 1]


@njit(cache=True, nogil=True)
def lower_sums(s, v, m, q, tree, log_sum, mean):
    """log_sum[k] = log E_k, E_k the sum of m_j exp(s_j) over the grade runs below run k; mean[k] = of v there. O(n)."""
    lo, runs = tree.offsets[q], tree.leaf_start[q + 1] - tree.leaf_start[q]
    if runs > 0:
        log_sum[0], mean[0] = -np.inf, 0.0
    for k in range(runs - 1):
        begin, end = run_borders(tree, q, k)
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


@njit(cache=True, nogil=True)
def miss(u):
    """exp(u) / (1 + exp(u))."""
    e = np.exp(-abs(u))
    return 1.0 / (1.0 + e) if u > 0.0 else e / (1.0 + e)


@njit(cache=True, nogil=True)
def listmle_pass(s, m, c, first, last, tree, z, diagonal):
    """Sum of m_i log(1 + E / exp(s_i)), E that of the lower grades; z = gradient; diagonal of the Hessian. O(n).

    A run pushes all rows below it, in proportion to their exp(s_j). Going down from run to run, `force` is the sum of
    the pushes from above in units of the E at hand, so every factor is at most 1 and nothing overflows.
    """
    value = 0.0
    log_sum, mean = run_room(tree, first, last)
    for q in range(first, last):
        lo, runs = tree.offsets[q], lower_sums(s, s, m, q, tree, log_sum, mean)
        force, square = 0.0, 0.0
        for k in range(runs - 1, -1, -1):
            push, bend = 0.0, 0.0
            begin, end = run_borders(tree, q, k)
            for at in range(begin, end):
                r = lo + tree.perm[at]
                z[r], diagonal[r] = 0.0, 0.0
                if m[r] == 0.0:
                    continue
                if k < runs - 1:
                    share = m[r] * np.exp(s[r] - log_sum[k + 1])
                    z[r] = c[q] * share * force
                    diagonal[r] = c[q] * share * (force + share * square)
                if k > 0:
                    u = log_sum[k] - s[r]
                    lost = miss(u)
                    value += c[q] * m[r] * (np.log1p(np.exp(-abs(u))) + max(u, 0.0))
                    z[r] -= c[q] * m[r] * lost
                    diagonal[r] += c[q] * m[r] * lost * (1.0 - lost)
                    push += m[r] * lost
                    bend += m[r] * lost * (1.0 - lost)
            shrink = np.exp(log_sum[k] - log_sum[k + 1]) if k < runs - 1 and log_sum[k] > -np.inf else 0.0
            force, square = push + shrink * force, bend - push + shrink * shrink * square
    return value


@njit(cache=True, nogil=True)
def listmle_curvature_pass(s, v, m, c, first, last, tree, z):
    """z = (Hessian of the loss of `listmle_pass` at s) v. O(n)."""
    log_sum, mean = run_room(tree, first, last)
    for q in range(first, last):
        lo, runs = tree.offsets[q], lower_sums(s, v, m, q, tree, log_sum, mean)
        force, pull = 0.0, 0.0
        for k in range(runs - 1, -1, -1):
            push, drag = 0.0, 0.0
            begin, end = run_borders(tree, q, k)
            for at in range(begin, end):
                r = lo + tree.perm[at]
                z[r] = 0.0
                if m[r] == 0.0:
                    continue
                if k < runs - 1:
                    z[r] = c[q] * m[r] * np.exp(s[r] - log_sum[k + 1]) * (force * v[r] + pull)
                if k > 0:
                    lost = miss(log_sum[k] - s[r])
                    bend = m[r] * lost * (1.0 - lost) * (mean[k] - v[r])
                    z[r] -= c[q] * bend
                    push += m[r] * lost
                    drag += bend
            shrink = np.exp(log_sum[k] - log_sum[k + 1]) if k < runs - 1 and log_sum[k] > -np.inf else 0.0
            force, pull = push + shrink * force, drag - push * mean[k] + shrink * pull
