"""Orderings: rows by query, rows of a query by score with ties in row order, and grades from best to worst.

Functions over query blocks work on the queries first..last-1 of arrays in block order (query q owns
offsets[q]:offsets[q+1]) and write only inside those blocks, so shards may run side by side.
"""

import numpy as np

from hingerank.kernels.compiled import inner, kernel, with_room

RUN = 16  # rows ordered by counting before runs are merged: branch-free, so faster than insertion on random scores
LEVELS = 64  # whole grades 0..LEVELS-1 are ordered by counting


@kernel(allocates=True)
def order_by_code(codes, offsets):
    """Rows sorted stably by code, where code c fills offsets[c]:offsets[c+1]; counting sort, O(n)."""
    order = np.empty(len(codes), np.int64)
    free = offsets.copy()
    for i in range(len(codes)):
        order[free[codes[i]]] = i
        free[codes[i]] += 1
    return order


@kernel(allocates=True)
def number_by_appearance(ids, low, code):
    """Codes 0, 1, ... of numbers from low on by first appearance, and the index where each first appears.

    code: an array of -1, one for each number from low to the highest; codes have its type. O(n + len(code)).
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


def longest_block(offsets, first, last):
    """The number of rows of the longest of these blocks."""
    return int(np.diff(offsets[first : last + 1]).max(initial=0))


@with_room
def order_blocks(s, offsets, first, last, order):
    """order[block] = rows by decreasing score, ties in row order. O(n log n) per query, stable merge sort.

    Scores that are NaN have no order: rows are then missing and others repeated, but all of them exist.
    """
    room = 2, longest_block(offsets, first, last)
    _order_blocks(s, offsets, first, last, np.empty(room), np.zeros(room, np.int64), order)


@kernel
def _order_blocks(s, offsets, first, last, key, at, order):
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        for start in range(a, b, RUN):  # order each run by counting the rows that come before
            x = s[start : min(start + RUN, b)]
            for i in range(len(x)):
                place = start - a
                for j in range(i):
                    place += x[j] >= x[i]
                for j in range(i + 1, len(x)):
                    place += x[j] > x[i]
                key[0, place] = x[i]
                at[0, place] = start + i
        now, width = 0, RUN
        while width < b - a:
            merge_runs(key, at, now, b - a, width)
            now = 1 - now
            width *= 2
        for i in range(b - a):
            order[a + i] = at[now, i]


@inner
def merge_runs(key, at, now, n, width):
    """Merge neighbouring decreasing runs of `width` of row `now` into the other row; the left run wins ties. O(n)."""
    there = 1 - now
    for start in range(0, n, 2 * width):
        middle, end = min(start + width, n), min(start + 2 * width, n)
        i, j, k = start, middle, start
        while i < middle and j < end:
            right = key[now, j] > key[now, i]
            key[there, k] = key[now, j] if right else key[now, i]
            at[there, k] = at[now, j] if right else at[now, i]
            j += right
            i += 1 - right
            k += 1
        i = i if i < middle else j
        while k < end:  # copy the rest of either run
            key[there, k], at[there, k] = key[now, i], at[now, i]
            i, k = i + 1, k + 1


@with_room
def order_tops(s, offsets, first, last, depth, whole_ties, order, ends):
    """The first `depth` ranks of `order_blocks`, and ends[q], where they stop; the rest of a block is left unchanged.

    With whole_ties also the further rows whose score equals that of the last rank. O(n + depth^2 log n) expected.
    """
    _order_tops(s, offsets, first, last, depth, whole_ties, np.empty(depth), np.empty(depth, np.int64), order, ends)


@kernel
def _order_tops(s, offsets, first, last, depth, whole_ties, key, at, order, ends):
    for q in range(first, last):
        held, missed = 0, -np.inf  # rows ranked so far; the best score among the rows left out
        for i in range(offsets[q], offsets[q + 1]):
            x = s[i]
            if held == depth:
                if x <= key[depth - 1]:
                    missed = max(missed, x)
                    continue
                missed = max(missed, key[depth - 1])
                held -= 1
            j = held
            while j > 0 and key[j - 1] < x:
                key[j], at[j] = key[j - 1], at[j - 1]
                j -= 1
            key[j], at[j] = x, i
            held += 1
        for j in range(held):
            order[offsets[q] + j] = at[j]
        end = offsets[q] + held
        if whole_ties and held == depth and missed == key[depth - 1]:
            for i in range(at[depth - 1] + 1, offsets[q + 1]):  # rows of equal score are ranked in row order
                if s[i] == missed:
                    order[end] = i
                    end += 1
        ends[q] = end


@kernel
def take_ranked(values, order, offsets, first, last, ends, out):
    """out[r] = values[order[r]] for the ranks r before ends[q] of every block. O(rows)."""
    for q in range(first, last):
        for i in range(offsets[q], ends[q]):
            out[i] = values[order[i]]


@kernel
def end_after_ties(s, order, offsets, first, last, ends):
    """Move ends[q] behind the rows whose score equals that of the rank before it. O(1) per query without ties."""
    for q in range(first, last):
        end = ends[q]
        while offsets[q] < end < offsets[q + 1] and s[order[end]] == s[order[end - 1]]:
            end += 1
        ends[q] = end


@kernel
def mark_ties(s, order, offsets, first, last, ends, tied):
    """tied[q] = whether two ranks before ends[q] have equal scores. O(rows)."""
    for q in range(first, last):
        tied[q] = False
        for i in range(offsets[q] + 1, ends[q]):
            if s[order[i]] == s[order[i - 1]]:
                tied[q] = True
                break


@inner
def sort_down(x, a, n, spare):
    """Sort x[a:a+n] in place in descending order and return how many pairs were ascending before. O(n log n)."""
    inversions, width = 0, 1
    while width < n:
        for start in range(0, n - width, 2 * width):
            middle, end = start + width, min(start + 2 * width, n)
            for k in range(start, end):
                spare[k] = x[a + k]
            i, j = start, middle
            for k in range(a + start, a + end):
                if j < end and (i == middle or spare[j] > spare[i]):
                    x[k] = spare[j]
                    inversions += middle - i
                    j += 1
                else:
                    x[k] = spare[i]
                    i += 1
        width *= 2
    return inversions


@with_room
def sort_grades(y, offsets, first, last, out):
    """out[block] = the grades of the block from best to worst. O(n) for small whole grades, else O(n log n)."""
    if not _count_grades(y, offsets, first, last, np.zeros(LEVELS, np.int64), out):
        rows, order = slice(offsets[first], offsets[last]), np.empty(len(y), np.int64)
        order_blocks(y, offsets, first, last, order)
        out[rows] = y[order[rows]]


@kernel
def _count_grades(y, offsets, first, last, count, out):
    """`sort_grades` by counting; False if a grade is not a whole number from 0 to LEVELS - 1."""
    for q in range(first, last):
        a = offsets[q]
        for i in range(a, offsets[q + 1]):
            level = int(min(max(y[i], 0.0), LEVELS - 1.0))
            if level != y[i]:
                return False
            count[level] += 1
        for level in range(LEVELS - 1, -1, -1):
            out[a : a + count[level]] = level
            a += count[level]
            count[level] = 0
    return True


@kernel
def average_ties(s, values, offsets, first, last, ends, out):
    """out = values in ranked order up to ends[q], each replaced by its mean over the rows of equal score s. O(n)."""
    for q in range(first, last):
        a, end = offsets[q], ends[q]
        while a < end:
            b, total = a, 0.0
            while b < end and s[b] == s[a]:
                total += values[b]
                b += 1
            out[a:b] = values[a] if b == a + 1 else total / (b - a)
            a = b
