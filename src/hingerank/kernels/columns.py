"""The loss's Hessian in a few weights at once: X^T H X over the columns of a working set, one reading of its rows.

In score space H = diag(degree) - N, N holding the weights of the active pairs. N is symmetric and each pair stands in
it twice, so over the rows x_p of a query

    X^T H X  =  symmetric part of  sum over p of  x_p (degree_p x_p - 2 sum over its active losers j of weight x_j)^T

and only winners need their partners' sum, which a running sum over the sorted losers gives.
"""

import numpy as np
from numba import njit
from numba.extending import overload

from hingerank.kernels.passes import widest

BLOCK = 1 << 20  # numbers in the block of one query's columns; wider ones are handled some columns at a time


def fill_block(rows, lo, perm, c0, c1, block):
    """block[p] = columns c0:c1 of row lo + perm[p]."""
    raise NotImplementedError("compiled code only")


def add_outer(rows, lo, perm, idle, block, c0, c1, H):
    """H[:, c0:c1] += sum over the p not idle of (row lo + perm[p]) block[p]^T."""
    raise NotImplementedError("compiled code only")


@overload(fill_block)
def _fill_block(rows, lo, perm, c0, c1, block):
    if len(rows) == 1:

        def dense(rows, lo, perm, c0, c1, block):
            X = rows[0]
            for p in range(len(perm)):
                r = lo + perm[p]
                for c in range(c0, c1):
                    block[p, c - c0] = X[r, c]

        return dense

    def sparse(rows, lo, perm, c0, c1, block):
        values, columns, starts = rows
        for p in range(len(perm)):
            block[p, : c1 - c0] = 0.0
            for k in range(starts[lo + perm[p]], starts[lo + perm[p] + 1]):
                if c0 <= columns[k] < c1:
                    block[p, columns[k] - c0] = values[k]

    return sparse


@overload(add_outer)
def _add_outer(rows, lo, perm, idle, block, c0, c1, H):
    if len(rows) == 1:

        def dense(rows, lo, perm, idle, block, c0, c1, H):
            X = rows[0]
            for p in range(len(perm)):
                if idle[p]:
                    continue
                r = lo + perm[p]
                pulled = block[p]
                for a in range(X.shape[1]):
                    x, to = np.float64(X[r, a]), H[a, c0:c1]
                    if x != 0.0:
                        for b in range(c1 - c0):
                            to[b] += x * pulled[b]

        return dense

    def sparse(rows, lo, perm, idle, block, c0, c1, H):
        values, columns, starts = rows
        for p in range(len(perm)):
            if idle[p]:
                continue
            pulled = block[p]
            for k in range(starts[lo + perm[p]], starts[lo + perm[p] + 1]):
                x, to = np.float64(values[k]), H[columns[k], c0:c1]
                for b in range(c1 - c0):
                    to[b] += x * pulled[b]

    return sparse


@njit(cache=True, nogil=True)
def hessian_pass(rows, width, first, last, stride, tree, state, terms):
    """Hessian in the weights of the rows' `width` columns, of every stride-th query. O(rows · width²)."""
    n = max(1, widest(tree, first, last))
    step = max(1, min(width, BLOCK // n))
    block, running = np.empty((n, step)), np.empty((n + 1, step))
    H = np.zeros((width, width))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        perm, idle = tree.perm[lo:hi], state.degree[lo:hi] == 0.0  # in no active pair
        for c0 in range(0, width, step):
            c1 = min(c0 + step, width)
            fill_block(rows, lo, perm, c0, c1, block)
            pull_rows(q, c1 - c0, tree, state, terms, block, running)
            add_outer(rows, lo, perm, idle, block, c0, c1, H)
    for a in range(width):
        for b in range(a):
            H[a, b] = H[b, a] = 0.5 * (H[a, b] + H[b, a])
    return H


@njit(cache=True, nogil=True)
def pull_rows(q, width, tree, state, terms, block, running):
    """block[p] <- degree_p block[p] - 2 sum over p's active losers of weight block[j], rows of query q by position."""
    lo = tree.offsets[q]
    size = tree.offsets[q + 1] - lo
    pulled = np.zeros((size, width))
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers = tree.node[k, 1] - tree.node[k, 0]
        winners = tree.node[k, 3] - tree.node[k, 2]
        slot = tree.slot[k]
        start = losers  # the windows of all winners end at the losers' best; none begins below this one
        for t in range(len(terms)):
            for m in range(winners):
                start = min(start, losers - state.window[t, slot + losers + m])
        running[start, :width] = 0.0
        for m in range(start, losers):
            p = state.member[slot + m]
            b = tree.loser[lo + p]
            for c in range(width):
                running[m + 1, c] = running[m, c] + b * block[p, c]
        for t in range(len(terms)):
            factor = 4.0 * terms[t, 2] * tree.scale[k]
            for m in range(winners):
                p = state.member[slot + losers + m]
                outside = losers - state.window[t, slot + losers + m]
                if outside == losers:
                    continue
                a = factor * tree.winner[lo + p]
                for c in range(width):
                    pulled[p, c] += a * (running[losers, c] - running[outside, c])
    for p in range(size):
        degree = state.degree[lo + p]
        for c in range(width):
            block[p, c] = degree * block[p, c] - pulled[p, c]
