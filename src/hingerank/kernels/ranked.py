"""Ordering rows inside query blocks: by score with ties in row order, and grades from best to worst.

Every function works on the queries first..last-1 of arrays in block order (query q owns offsets[q]:offsets[q+1]) and
writes only inside those blocks, so shards may run side by side.
"""

import numpy as np
from numba import njit

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
