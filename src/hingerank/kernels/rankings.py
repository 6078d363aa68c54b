"""Losses over whole rankings of the queries first:last, in score space.

The most violated ranking for average precision (SVM-MAP), and expected NDCG under uncertain scores (SoftRank).
"""

import math

import numpy as np

from hingerank.kernels.compiled import kernel, with_room
from hingerank.kernels.order import longest_block, order_blocks


@with_room
def average_precision_pass(s, relevant, c, offsets, first, last, harmonic, z):
    """Sum over queries of c · max over rankings of  1 - AP + w·(Ψ - Ψ*); z = a subgradient. O(n log n) for a query.

    harmonic[k] = 1 + 1/2 + … + 1/k, up to the number of rows of the longest query.
    """
    order, long = np.empty(len(s), np.int64), longest_block(offsets, first, last)
    order_blocks(s, offsets, first, last, order)
    sums, rows, above = np.zeros(long + 1), np.empty((2, long), np.int64), np.zeros(long + 1, np.int64)
    stack = np.empty((2 * long + 4, 4), np.int64)
    return _average_precision_pass(s, relevant, c, offsets, first, last, harmonic, order, sums, rows, above, stack, z)


@kernel
def _average_precision_pass(s, relevant, c, offsets, first, last, harmonic, order, sums, rows, above, stack, z):
    """Within the relevant rows, and within the others, the worst ranking keeps the order of the scores. Let k_j be the
    number of relevant rows above the j-th other row. Then the sum to maximise separates into  sum_j f_j(k_j),

        f_j(k) = sum over i > k of  (1/P) (j / (i + j) - (j - 1) / (i + j - 1)) - 2 (p_i - n_j) / (P N),

    p and n the sorted scores of the P relevant and N other rows: the cost of ranking the j-th other row above the
    relevant rows i > k. Harmonic numbers and prefix sums of p give f_j(k) in O(1). Since f_j(k) - f_j(k') for k < k'
    falls with j, the best k_j never decreases: solving the middle j first halves the range on both sides.
    """
    value = 0.0
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        P, N = 0, 0
        for at in range(lo, hi):
            r = order[at]
            z[r] = 0.0
            if relevant[r]:
                rows[0, P] = r
                P += 1
                sums[P] = sums[P - 1] + s[r]
            else:
                rows[1, N] = r
                N += 1
        if P == 0 or N == 0:
            continue
        weight = 2.0 / (float(P) * N)
        for k in range(P + 1):
            above[k] = 0
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 1, N, 0, P
        top = 1
        while top > 0:
            top -= 1
            j0, j1, k0, k1 = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            j = (j0 + j1) // 2
            n_j, best, place = s[rows[1, j - 1]], -np.inf, k1
            for k in range(k1, k0 - 1, -1):
                lost = j * (harmonic[P + j] - harmonic[k + j])
                lost -= (j - 1) * (harmonic[P + j - 1] - harmonic[k + j - 1])
                f = lost / P - weight * ((sums[P] - sums[k]) - (P - k) * n_j)
                if f > best:
                    best, place = f, k
            value += c[q] * best
            z[rows[1, j - 1]] = c[q] * weight * (P - place)
            above[place] += 1
            if j > j0:
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = j0, j - 1, k0, place
                top += 1
            if j < j1:
                stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = j + 1, j1, place, k1
                top += 1
        higher = 0  # other rows above the relevant row i: those with k_j < i
        for i in range(P):
            higher += above[i]
            z[rows[0, i]] = -c[q] * weight * higher
    return value


@with_room
def soft_ndcg_pass(s, gain, c, offsets, first, last, discount, z):
    """Sum over queries of c · (1 - expected NDCG) under scores N(s, 1); z = gradient.

    gain: normalised, so that the best ranking has NDCG 1; discount: by rank, 0 beyond its end. O(rows · relevant rows ·
    len(discount)) for a query.
    """
    long = longest_block(offsets, first, last)
    depth = min(long, len(discount))
    chance, after = np.empty((long + 1, depth + 1)), np.zeros(depth + 1)
    return _soft_ndcg_pass(s, gain, c, offsets, first, last, discount, chance, np.empty(long), after, z)


@kernel
def _soft_ndcg_pass(s, gain, c, offsets, first, last, discount, chance, beaten, after, z):
    """The number of rows above row j is a sum of independent events, i above j with probability π = Φ((s_i - s_j)/√2).
    Its distribution is built by adding one event at a time (chance[k] covers the first k), and the derivative of the
    expected discount in every π comes from running the same recursion backwards."""
    value, depth = 0.0, chance.shape[1] - 1
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        best = 0.0
        for r in range(lo, hi):
            z[r] = 0.0
            best = max(best, gain[r])
        if best == 0.0:
            continue
        value += c[q]
        for j in range(lo, hi):
            if gain[j] == 0.0:
                continue
            chance[0, 0] = 1.0
            k = 0
            for i in range(lo, hi):
                if i == j:
                    continue
                pi = 0.5 * math.erfc(0.5 * (s[j] - s[i]))
                beaten[k] = pi
                chance[k + 1, 0] = chance[k, 0] * (1.0 - pi)
                for r in range(1, min(k + 1, depth)):
                    chance[k + 1, r] = chance[k, r] * (1.0 - pi) + chance[k, r - 1] * pi
                if k + 1 < depth:
                    chance[k + 1, k + 1] = chance[k, k] * pi
                k += 1
            for r in range(min(k + 1, depth)):
                value -= c[q] * gain[j] * discount[r] * chance[k, r]
                after[r] = discount[r]
            after[min(k + 1, depth)] = 0.0
            for i in range(hi - 1, lo - 1, -1):
                if i == j:
                    continue
                k -= 1
                pi, slope = beaten[k], 0.0
                for r in range(min(k + 1, depth)):
                    slope += chance[k, r] * (after[r + 1] - after[r])
                    after[r] = (1.0 - pi) * after[r] + pi * after[r + 1]
                t = s[i] - s[j]
                force = c[q] * gain[j] * slope * math.exp(-0.25 * t * t) / (2.0 * math.sqrt(math.pi))
                z[i] -= force
                z[j] += force
    return value
