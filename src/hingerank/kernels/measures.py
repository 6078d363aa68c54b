"""Measures of a ranked list, one value per query.

Arrays are in block order and *ranked*: index offsets[q] holds query q's best-scored row. A measure cut at k reads only
the first k ranks of a block, or, with tied rows, those before ends[q], where the ranking stops, never within a tie.
Every kernel fills out[first:last] and changes nothing else.
"""

import numpy as np

from hingerank.kernels.compiled import inner, kernel, with_room
from hingerank.kernels.order import longest_block, sort_down


@kernel
def exponential_gain(y, offsets, first, last, ends, out):
    """out = 2^max(y, 0) - 1 for the ranks before ends[q] of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], ends[q]):
            out[i] = np.exp2(max(y[i], 0.0)) - 1.0


@kernel
def linear_gain(y, offsets, first, last, ends, out):
    """out = max(y, 0) for the ranks before ends[q] of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], ends[q]):
            out[i] = max(y[i], 0.0)


@kernel
def discounted_sum(gain, over, under, offsets, first, last, k, out):
    """out[q] = sum of gain * over / under over the first k ranks: DCG@k. O(k) per query."""
    for q in range(first, last):
        a = offsets[q]
        total = 0.0
        for r in range(min(k, offsets[q + 1] - a)):
            total += gain[a + r] * over[r] / under[r]
        out[q] = total


@kernel
def mean_ratio(gain, ideal, over, under, offsets, first, last, out):
    """out[q] = mean over the query's n ranks r of DCG@r / ideal DCG@r: MeanNDCG. 0 without gain. O(n)."""
    for q in range(first, last):
        a, n = offsets[q], offsets[q + 1] - offsets[q]
        dcg, best, total = 0.0, 0.0, 0.0
        for r in range(n):
            dcg += gain[a + r] * over[r] / under[r]
            best += ideal[a + r] * over[r] / under[r]
            if best > 0.0:
                total += dcg / best
        out[q] = total / max(n, 1)


@kernel
def sum_tops(values, offsets, first, last, k, out):
    """out[q] = sum of the first k values: the number of hits in the top k when values are 0 and 1. O(k)."""
    for q in range(first, last):
        total = 0.0
        for i in range(offsets[q], min(offsets[q + 1], offsets[q] + k)):
            total += values[i]
        out[q] = total


@kernel
def count_from(y, threshold, offsets, first, last, out):
    """out[q] = the number of the block's grades that are at least the threshold. O(n)."""
    for q in range(first, last):
        total = 0
        for i in range(offsets[q], offsets[q + 1]):
            total += y[i] >= threshold
        out[q] = total


@kernel
def precision_sum(relevant, s, tied, ends, offsets, first, last, k, out):
    """out[q] = sum over the relevant ranks r <= k of precision at r: AP times its divisor. O(n).

    With tied, the expected value when rows of equal score s are shuffled: rank r, the j-th (from 0) of m tied rows of
    which h are relevant, with H relevant before them, contributes  h/m * (H + 1 + j (h-1)/(m-1)) / r.
    """
    for q in range(first, last):
        start, n = offsets[q], ends[q] - offsets[q]
        a, before, total = 0, 0.0, 0.0
        while a < min(k, n):
            b, h = a + 1, relevant[start + a]
            while tied and b < n and s[start + b] == s[start + a]:
                h += relevant[start + b]
                b += 1
            m = b - a
            step = (h - 1.0) / (m - 1.0) if m > 1 else 0.0
            for j in range(min(k, b) - a):
                total += h / m * (before + 1.0 + j * step) / (a + j + 1.0)
            before += h
            a = b
        out[q] = total


@kernel(allocates=True)
def cascade(stop, s, tied, ends, offsets, first, last, k, out):
    """out[q] = sum over ranks r <= k of P(the reader stops at r) / r: ERR, and the reciprocal rank for stop in {0, 1}.

    The reader stops at an item with probability `stop` and continues otherwise. With tied, the expected value when rows
    of equal score s are shuffled: P(passing j of m tied rows) is p_j, the mean over their j-subsets of the product of
    (1 - stop), by the recursion  p_j <- (1 - j/m) p_j + j/m (1 - stop_m) p_{j-1}.  O(n), O(k m) for m tied rows.
    """
    pass_some = np.empty(k + 1)
    for q in range(first, last):
        start, n = offsets[q], ends[q] - offsets[q]
        a, going, total = 0, 1.0, 0.0
        while a < min(k, n):
            b = a + 1
            while tied and b < n and s[start + b] == s[start + a]:
                b += 1
            here = min(k, b) - a
            pass_some[0] = 1.0
            pass_some[1 : here + 1] = 0.0
            for m in range(1, b - a + 1):
                go = 1.0 - stop[start + a + m - 1]
                for j in range(min(m, here), 0, -1):
                    fraction = j / m
                    pass_some[j] = (1.0 - fraction) * pass_some[j] + fraction * go * pass_some[j - 1]
            for j in range(here):
                total += going * (pass_some[j] - pass_some[j + 1]) / (a + j + 1.0)
            going *= pass_some[here]
            a = b
        out[q] = total


@with_room
def count_pairs(y, s, offsets, first, last, right, wrong, level, different):
    """Pairs of a query: ordered right, ordered wrong, different grade but equal score, different score. O(n log n).

    y and s come ranked by score; right + wrong + level is the number of pairs of different grade.
    """
    room = np.empty((2, longest_block(offsets, first, last)))
    _count_pairs(y, s, offsets, first, last, room[0], room[1], right, wrong, level, different)


@kernel
def _count_pairs(y, s, offsets, first, last, grade, spare, right, wrong, level, different):
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        for i in range(n):
            grade[i] = y[start + i]
        all_pairs = n * (n - 1) // 2
        a, same_score, same_both = 0, 0, 0
        while a < n:  # put the best grade first within a tie, so that the tie contains no inversion
            b = a + 1
            while b < n and s[start + b] == s[start + a]:
                b += 1
            if b > a + 1:
                sort_down(grade, a, b - a, spare)
                same_score += (b - a) * (b - a - 1) // 2
                same_both += equal_pairs(grade, a, b)
            a = b
        inversions = sort_down(grade, 0, n, spare)
        same_grade = equal_pairs(grade, 0, n)
        level[q] = same_score - same_both
        wrong[q] = inversions
        right[q] = all_pairs - same_grade - level[q] - inversions
        different[q] = all_pairs - same_score


@inner
def equal_pairs(x, a, b):
    """Pairs of equal values in the sorted x[a:b]. O(b - a)."""
    total, run = 0, 0
    for i in range(a + 1, b):
        run = run + 1 if x[i] == x[i - 1] else 0
        total += run
    return total
