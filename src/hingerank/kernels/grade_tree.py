"""The grade tree: every pair of different grades in a query, exactly once, as few two-group comparisons.

Rows of a query are laid out by ascending grade (``position``). A node compares a contiguous run of lower-graded
positions (losers) with the run just above it (winners); splitting the grades in two, and each half again, covers
every preference pair once. Splits fall at the grade border nearest the middle *by rows*, so a row takes part in about
entropy(grades) nodes: one for two grades, log2(G) at worst. Nodes are listed children first, so that the sorted runs of
a node's two halves are ready, and can be merged, when it is reached: the sweep and the merge sort are one recursion.
"""

import numpy as np
from numba import njit

FEW_GRADES = 32  # up to here distinct grades are collected by insertion and rows placed by counting


@njit(cache=True, nogil=True)
def sort_by_grade(y, offsets, first, last, perm, n_grades):
    """perm[p] = row within its query at position p (ascending grade, stable); n_grades[q] = distinct grades. O(n G)."""
    distinct = np.empty(FEW_GRADES)
    start = np.empty(FEW_GRADES + 1, np.int64)
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
        if found < 0:
            order = np.argsort(y[lo:hi], kind="mergesort")
            changes = 1
            for p in range(hi - lo):
                perm[lo + p] = order[p]
                if p > 0 and y[lo + order[p]] != y[lo + order[p - 1]]:
                    changes += 1
            n_grades[q] = changes
            continue
        start[: found + 1] = 0
        for r in range(lo, hi):
            start[_grade_index(distinct, found, y[r]) + 1] += 1
        for k in range(found):
            start[k + 1] += start[k]
        for r in range(lo, hi):
            k = _grade_index(distinct, found, y[r])
            perm[lo + start[k]] = r - lo
            start[k] += 1
        n_grades[q] = found


@njit(cache=True, nogil=True)
def _grade_index(distinct, found, value):
    k = 0
    while distinct[k] != value:
        k += 1
    return k


@njit(cache=True, nogil=True)
def list_leaves(y, perm, lo, hi, leaf):
    """leaf = first position of each grade among positions lo:hi; returns the number of grades."""
    count = 0
    for p in range(lo, hi):
        if p == lo or y[lo + perm[p]] != y[lo + perm[p - 1]]:
            leaf[count] = p
            count += 1
    return count


@njit(cache=True, nogil=True)
def grow_tree(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """Fill node rows (losers' first, losers' end = winners' first, winners' end) children first, and leaf borders."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        base = leaf_start[q]
        count = list_leaves(y, perm, lo, hi, leaf[base:])
        if count < 2:
            continue
        stack = np.empty((count + 1, 2), np.int64)
        stack[0, 0], stack[0, 1] = 0, count
        depth, at = 1, node_start[q + 1]
        while depth > 0:
            depth -= 1
            i, j = stack[depth, 0], stack[depth, 1]
            begin = leaf[base + i]
            end = leaf[base + j] if j < count else hi
            m = i + 1
            while m + 1 < j and abs(2 * leaf[base + m + 1] - begin - end) <= abs(2 * leaf[base + m] - begin - end):
                m += 1
            at -= 1
            node[at, 0], node[at, 1], node[at, 2], node[at, 3] = begin, leaf[base + m], leaf[base + m], end
            if m - i > 1:
                stack[depth, 0], stack[depth, 1] = i, m
                depth += 1
            if j - m > 1:
                stack[depth, 0], stack[depth, 1] = m, j
                depth += 1


@njit(cache=True, nogil=True)
def list_grade_pairs(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """As `grow_tree`, but one node for every two grades of a query: what a weight for each pair of grades needs."""
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        base = leaf_start[q]
        count = list_leaves(y, perm, lo, hi, leaf[base:])
        at = node_start[q]
        for upper in range(1, count):
            end = leaf[base + upper + 1] if upper + 1 < count else hi
            for lower in range(upper):
                node[at, 0], node[at, 1] = leaf[base + lower], leaf[base + lower + 1]
                node[at, 2], node[at, 3] = leaf[base + upper], end
                at += 1
