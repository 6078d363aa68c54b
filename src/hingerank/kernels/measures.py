"""Ranked lists: orders, gains and what measures add up over them."""

import numpy as np
from numba import njit

# Grouping of rows: numbering ids and ordering rows by number.


@njit(cache=True, nogil=True)
def order_by_code(codes, offsets):
    """Rows sorted stably by code, where code c fills offsets[c]:offsets[c+1]; counting sort, O(n)."""
    order = np.empty(len(codes), np.int64)
    free = offsets.copy()
    for i in range(len(codes)):
        order[free[codes[i]]] = i
        free[codes[i]] += 1
    return order


@njit(cache=True, nogil=True)
def number_by_appearance(ids, low, code):
    """Codes 0, 1, ... of numbers from low on by first appearance, and the first places; O(n + len(code)).

    code: an array of -1, one for each number from low to the highest; codes have its type.
    """
    codes = np.empty(len(ids), code.dtype)
    first = np.empty(min(len(code), len(ids)), np.int64)
    count = 0
    for i in range(len(ids)):
        v = ids[i] - low
        if code[v] < 0:
            code[v] = count
            first[count] = i
            count += 1
        codes[i] = code[v]
    return codes, first[:count]


# Ordering rows inside query blocks: by score with ties in row order, and grades from best to worst.
#
# Every function works on the queries first..last-1 of arrays in block order (query q owns offsets[q]:offsets[q+1]) and
# writes only inside those blocks, so shards may run side by side.


RUN = 16  # rows ordered by counting before runs are merged: branch-free, so faster than insertion on random scores
LEVELS = 64  # whole grades 0..LEVELS-1 are ordered by counting


@njit(cache=True, nogil=True)
def order_blocks(s, offsets, first, last, order):
    """order[block] = rows by decreasing score, ties in row order. O(n log n) per query, stable merge sort."""
    widest = 0
    for q in range(first, last):
        widest = max(widest, offsets[q + 1] - offsets[q])
    key, spare_key = np.empty(widest), np.empty(widest)
    at, spare_at = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for q in range(first, last):
        a, n = offsets[q], offsets[q + 1] - offsets[q]
        sort_runs(s, a, n, key, at)
        here, here_at, there, there_at = key, at, spare_key, spare_at
        width = RUN
        while width < n:
            merge_runs(here, here_at, there, there_at, n, width)
            here, there = there, here
            here_at, there_at = there_at, here_at
            width *= 2
        order[a : a + n] = here_at[:n]


@njit(cache=True, nogil=True)
def sort_runs(s, a, n, key, at):
    """Sort each run of RUN rows of s[a:a+n] into key and at by counting who comes before. O(n RUN)."""
    for start in range(0, n, RUN):
        x = s[a + start : a + min(start + RUN, n)]
        for i in range(len(x)):
            place = 0
            for j in range(i):
                place += x[j] >= x[i]
            for j in range(i + 1, len(x)):
                place += x[j] > x[i]
            key[start + place] = x[i]
            at[start + place] = a + start + i


@njit(cache=True, nogil=True)
def merge_runs(key, at, to_key, to_at, n, width):
    """Merge neighbouring decreasing runs of `width` rows; the left run wins ties. O(n)."""
    for start in range(0, n, 2 * width):
        middle, end = min(start + width, n), min(start + 2 * width, n)
        i, j, k = start, middle, start
        while i < middle and j < end:
            right = key[j] > key[i]
            to_key[k] = key[j] if right else key[i]
            to_at[k] = at[j] if right else at[i]
            j += right
            i += 1 - right
            k += 1
        while i < middle:
            to_key[k], to_at[k] = key[i], at[i]
            i, k = i + 1, k + 1
        while j < end:
            to_key[k], to_at[k] = key[j], at[j]
            j, k = j + 1, k + 1


@njit(cache=True, nogil=True)
def order_tops(s, offsets, first, last, depth, order):
    """The first `depth` places of `order_blocks`; the rest of a block is left alone. O(n + depth^2 log n) expected."""
    key, at = np.empty(depth), np.empty(depth, np.int64)
    for q in range(first, last):
        held = 0
        for i in range(offsets[q], offsets[q + 1]):
            x = s[i]
            if held == depth:
                if x <= key[depth - 1]:
                    continue
                held -= 1
            j = held
            while j > 0 and key[j - 1] < x:
                key[j], at[j] = key[j - 1], at[j - 1]
                j -= 1
            key[j], at[j] = x, i
            held += 1
        order[offsets[q] : offsets[q] + held] = at[:held]


@njit(cache=True, nogil=True)
def take_ranked(values, order, offsets, first, last, depth, out):
    """out[place] = values[order[place]] for the first `depth` places of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], min(offsets[q + 1], offsets[q] + depth)):
            out[i] = values[order[i]]


@njit(cache=True, nogil=True)
def sort_grades(y, offsets, first, last, out):
    """out[block] = the grades of the block from best to worst. O(n) for small whole grades, else O(n log n)."""
    count = np.zeros(LEVELS, np.int64)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        whole = True
        for i in range(a, b):
            whole &= y[i] >= 0.0 and y[i] < LEVELS and y[i] == np.floor(y[i])
        if not whole:
            out[a:b] = np.sort(y[a:b])[::-1]
            continue
        for i in range(a, b):
            count[int(y[i])] += 1
        place = b
        for g in range(LEVELS):
            if count[g] > 0:
                out[place - count[g] : place] = g
                place -= count[g]
                count[g] = 0


@njit(cache=True, nogil=True)
def average_ties(s, values, offsets, first, last, out):
    """out = values in ranked order, each replaced by its mean over the rows of equal score s. O(n)."""
    for q in range(first, last):
        a, end = offsets[q], offsets[q + 1]
        while a < end:
            b, total = a, 0.0
            while b < end and s[b] == s[a]:
                total += values[b]
                b += 1
            out[a:b] = values[a] if b == a + 1 else total / (b - a)
            a = b


# Measures of a ranked list, one value per query.
#
# Arrays are in block order and *ranked*: place offsets[q] holds query q's best-scored row. Only the first k places of a
# block are read by a measure cut at k. Every kernel fills out[first:last] and touches nothing else.


@njit(cache=True, nogil=True)
def exponential_gain(y, offsets, first, last, depth, out):
    """out = 2^max(y, 0) - 1 for the first `depth` places of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], min(offsets[q + 1], offsets[q] + depth)):
            out[i] = np.exp2(max(y[i], 0.0)) - 1.0


@njit(cache=True, nogil=True)
def linear_gain(y, offsets, first, last, depth, out):
    """out = max(y, 0) for the first `depth` places of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], min(offsets[q + 1], offsets[q] + depth)):
            out[i] = max(y[i], 0.0)


@njit(cache=True, nogil=True)
def discounted_sum(gain, over, under, offsets, first, last, k, out):
    """out[q] = sum of gain * over / under over the first k places: DCG@k. O(k) per query."""
    for q in range(first, last):
        a = offsets[q]
        total = 0.0
        for r in range(min(k, offsets[q + 1] - a)):
            total += gain[a + r] * over[r] / under[r]
        out[q] = total


@njit(cache=True, nogil=True)
def mean_ratio(gain, ideal, over, under, offsets, first, last, out):
    """out[q] = mean over the query's own n places r of DCG@r / ideal DCG@r: MeanNDCG. 0 without gain. O(n)."""
    for q in range(first, last):
        a, n = offsets[q], offsets[q + 1] - offsets[q]
        dcg, best, total = 0.0, 0.0, 0.0
        for r in range(n):
            dcg += gain[a + r] * over[r] / under[r]
            best += ideal[a + r] * over[r] / under[r]
            if best > 0.0:
                total += dcg / best
        out[q] = total / max(n, 1)


@njit(cache=True, nogil=True)
def sum_tops(values, offsets, first, last, k, out):
    """out[q] = sum of the first k values: the hits among the first k when values are 0 and 1. O(k)."""
    for q in range(first, last):
        total = 0.0
        for i in range(offsets[q], min(offsets[q + 1], offsets[q] + k)):
            total += values[i]
        out[q] = total


@njit(cache=True, nogil=True)
def count_from(y, threshold, offsets, first, last, out):
    """out[q] = how many grades of the block are at least the threshold. O(n)."""
    for q in range(first, last):
        total = 0
        for i in range(offsets[q], offsets[q + 1]):
            total += y[i] >= threshold
        out[q] = total


@njit(cache=True, nogil=True)
def precision_sum(relevant, s, tied, offsets, first, last, k, out):
    """out[q] = sum over the relevant places r <= k of precision at r: AP times its divisor. O(n).

    With tied, the expected value when rows of equal score s are shuffled: place r, the j-th (from 0) of m tied rows of
    which h are relevant, with H relevant before them, gives  h/m * (H + 1 + j (h-1)/(m-1)) / r.
    """
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
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


@njit(cache=True, nogil=True)
def cascade(stop, s, tied, offsets, first, last, k, out):
    """out[q] = sum over places r <= k of P(the reader stops at r) / r: ERR, and the reciprocal rank for stop in {0, 1}.

    The reader stops at an item with probability `stop` and goes on otherwise. With tied, the expected value when rows
    of equal score s are shuffled: P(passing j of m tied rows) is p_j, the mean over their j-subsets of the product of
    (1 - stop), by the recursion  p_j <- (1 - j/m) p_j + j/m (1 - stop_m) p_{j-1}.  O(n), O(k m) for m tied rows.
    """
    pass_some = np.empty(k + 1)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
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
                    share = j / m
                    pass_some[j] = (1.0 - share) * pass_some[j] + share * go * pass_some[j - 1]
            for j in range(here):
                total += going * (pass_some[j] - pass_some[j + 1]) / (a + j + 1.0)
            going *= pass_some[here]
            a = b
        out[q] = total


@njit(cache=True, nogil=True)
def count_pairs(y, s, offsets, first, last, right, wrong, level, different):
    """Pairs of a query: ordered right, ordered wrong, different grade but equal score, different score. O(n log n).

    y and s come ranked by score; right + wrong + level is the number of pairs of different grade.
    """
    widest = 0
    for q in range(first, last):
        widest = max(widest, offsets[q + 1] - offsets[q])
    grade, spare = np.empty(widest), np.empty(widest)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        grade[:n] = y[start : start + n]
        all_pairs = n * (n - 1) // 2
        a, same_score, same_both = 0, 0, 0
        while a < n:  # inside a tie put the best grade first: it then holds no inversion
            b = a + 1
            while b < n and s[start + b] == s[start + a]:
                b += 1
            if b > a + 1:
                grade[a:b] = np.sort(grade[a:b])[::-1]
                same_score += (b - a) * (b - a - 1) // 2
                same_both += equal_pairs(grade, a, b)
            a = b
        inversions = sort_counting(grade, spare, n)
        same_grade = equal_pairs(grade, 0, n)
        level[q] = same_score - same_both
        wrong[q] = inversions
        right[q] = all_pairs - same_grade - level[q] - inversions
        different[q] = all_pairs - same_score


@njit(cache=True, nogil=True)
def equal_pairs(x, a, b):
    """Pairs of equal values in the sorted x[a:b]. O(b - a)."""
    total, run = 0, 0
    for i in range(a + 1, b):
        run = run + 1 if x[i] == x[i - 1] else 0
        total += run
    return total


@njit(cache=True, nogil=True)
def sort_counting(x, spare, n):
    """Sort x[:n] downwards in place and return how many pairs stood upwards before. O(n log n)."""
    inversions, width = 0, 1
    while width < n:
        for start in range(0, n - width, 2 * width):
            middle, end = start + width, min(start + 2 * width, n)
            spare[start:end] = x[start:end]
            i, j = start, middle
            for k in range(start, end):
                if j < end and (i == middle or spare[j] > spare[i]):
                    x[k] = spare[j]
                    inversions += middle - i
                    j += 1
                else:
                    x[k] = spare[i]
                    i += 1
        width *= 2
    return inversions
