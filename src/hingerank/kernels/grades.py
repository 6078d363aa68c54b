"""The grade tree: every pair of different grades in a query, exactly once, as few two-group comparisons.

Rows of a query are laid out by ascending grade (``position``). A node compares a contiguous run of lower-graded
positions (losers) with the run just above it (winners); splitting the grades in two, and each half again, covers every
preference pair once. Splits fall at the grade border nearest the middle *by rows*, so a row takes part in about
entropy(grades) nodes: one for two grades, log2(G) at worst. Nodes are listed children first, so that the sorted runs of
a node's two halves are ready, and can be merged, when it is reached: the sweep and the merge sort are one recursion.
"""

from typing import NamedTuple

import numpy as np

from hingerank.kernels.compiled import inner, kernel, with_room
from hingerank.kernels.order import order_blocks

FEW_GRADES = 32  # up to here distinct grades are collected by insertion and rows placed by counting


class GradeTree(NamedTuple):
    """Where a data set's preference pairs are; fixed for a data set."""

    offsets: np.ndarray  # (Q+1) rows of each query
    perm: np.ndarray  # (n) row within its query at each position (ascending grade)
    leaf_start: np.ndarray  # (Q+1)
    leaf: np.ndarray  # first position of each run of equal grades
    node_start: np.ndarray  # (Q+1)
    node: np.ndarray  # (nodes, 4) losers first:end, winners first:end, positions in the whole
    slot: np.ndarray  # (nodes) where a node's members begin in WindowState
    scale: np.ndarray  # (nodes) weight of all the node's pairs
    winner: np.ndarray  # (n) a row's weight when preferred, by position
    loser: np.ndarray  # (n) a row's weight when not preferred, by position
    merges: bool  # a tree (True) or one node for every two grades (False)
    widest: int  # rows of the longest query


@with_room
def sort_by_grade(y, offsets, first, last, perm, n_grades):
    """perm[p] = row within its query at position p (ascending grade, stable); n_grades[q] = distinct grades. O(n G)."""
    _sort_few_grades(y, offsets, first, last, perm, n_grades, np.empty(FEW_GRADES), np.empty(FEW_GRADES + 1, np.int64))
    if (n_grades[first:last] < 0).any():
        lo, hi = offsets[first], offsets[last]
        borders, order, new = (
            offsets[first : last + 1] - lo,
            np.empty(hi - lo, np.int64),
            np.ones(hi - lo + 1, np.int64),
        )
        order_blocks(-y[lo:hi], borders, 0, last - first, order)
        perm[lo:hi] = order - np.repeat(borders[:-1], np.diff(borders))
        new = np.ones(hi - lo + 1, np.int64)
        new[1:-1] = np.diff(y[lo:hi][order]) != 0
        new[borders] = 1
        n_grades[first:last] = np.diff(np.cumsum(new)[borders])


@kernel
def _sort_few_grades(y, offsets, first, last, perm, n_grades, distinct, start):
    """`sort_by_grade`, but n_grades[q] = -1 and nothing done where a query has more than FEW_GRADES."""
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
        n_grades[q] = found
        start[: found + 1] = 0
        for step in range(2 if found > 0 else 0):  # count the rows of each grade, then place them
            for r in range(lo, hi):
                k = 0
                while distinct[k] != y[r]:
                    k += 1
                if step == 0:
                    start[k + 1] += 1
                else:
                    perm[lo + start[k]] = r - lo
                    start[k] += 1
            if step == 0:
                for k in range(found):
                    start[k + 1] += start[k]


@inner
def list_leaves(y, perm, lo, hi, leaf, base):
    """leaf[base:] = first position of each grade among positions lo:hi; returns the number of grades."""
    count = 0
    for p in range(lo, hi):
        if p == lo or y[lo + perm[p]] != y[lo + perm[p - 1]]:
            leaf[base + count] = p
            count += 1
    return count


@kernel
def grow_tree(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """Fill node rows (losers' first, losers' end = winners' first, winners' end) children first, and leaf borders."""
    for q in range(first, last):
        hi, base = offsets[q + 1], leaf_start[q]
        count = list_leaves(y, perm, offsets[q], hi, leaf, base)
        free = node_start[q + 1] - 1
        if count > 1:  # a row of `node` that waits for its turn holds its range of leaves
            node[free, 0], node[free, 1] = 0, count
        for at in range(node_start[q + 1] - 1, node_start[q] - 1, -1):
            i, j = node[at, 0], node[at, 1]
            begin, end = leaf[base + i], hi
            if j < count:
                end = leaf[base + j]
            m = i + 1
            while m + 1 < j and abs(2 * leaf[base + m + 1] - begin - end) <= abs(2 * leaf[base + m] - begin - end):
                m += 1
            node[at, 0], node[at, 1], node[at, 2], node[at, 3] = begin, leaf[base + m], leaf[base + m], end
            if m - i > 1:
                free -= 1
                node[free, 0], node[free, 1] = i, m
            if j - m > 1:
                free -= 1
                node[free, 0], node[free, 1] = m, j


@kernel
def list_grade_pairs(y, offsets, perm, first, last, node_start, leaf_start, leaf, node):
    """As `grow_tree`, but one node for every two grades of a query: what a weight for each pair of grades needs."""
    for q in range(first, last):
        lo, hi, base, at = offsets[q], offsets[q + 1], leaf_start[q], node_start[q]
        count = list_leaves(y, perm, lo, hi, leaf, base)
        for upper in range(1, count):
            end = leaf[base + upper + 1] if upper + 1 < count else hi
            for lower in range(upper):
                node[at, 0], node[at, 1] = leaf[base + lower], leaf[base + lower + 1]
                node[at, 2], node[at, 3] = leaf[base + upper], end
                at += 1


@inner
def leaf_borders(tree, q, k):
    """First position of leaf k, one of query q's, and the one after its last."""
    if k + 1 < tree.leaf_start[q + 1]:
        return tree.leaf[k], tree.leaf[k + 1]
    return tree.leaf[k], tree.offsets[q + 1]
