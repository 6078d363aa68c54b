"""The loss's Hessian in a few weights at once: X^T H X over the columns of a working set, one reading of its rows.

In score space H = diag(degree) - N, N holding the weights of the active pairs. N is symmetric and each pair stands in
it twice, so over the rows x_p of a query

    X^T H X  =  symmetric part of  sum over p of  x_p (degree_p x_p - 2 sum over its active losers j of weight x_j)^T

and only winners need their partners' sum, which a running sum over the sorted losers gives. A row that wins no active
pair adds degree_p x_p x_p^T, of which the lower triangle is enough.
"""

import numpy as np
from numba import njit
from numba.extending import overload

from hingerank.kernels.rows import SUMS_MAY_REORDER
from hingerank.kernels.sweeps import widest

LANES = 16  # inner loops run over multiples of so many columns, which vector registers like
BLOCK = 1 << 20  # numbers in the block of one query's columns; wider ones are handled some columns at a time


def fill_block(rows, lo, perm, c0, c1, block):
    """block[p] = columns c0:c1 of row lo + perm[p]."""
    raise NotImplementedError("compiled code only")


def add_outer(rows, lo, perm, degree, wins, block, c0, c1, full, lower):
    """full[:, c0:c1] += sum over the p that win of (row lo + perm[p]) block[p]^T.

    The others, for which block[p] = degree[p] (row lo + perm[p]), add to the lower triangle of `lower` instead.
    """
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


@overload(add_outer, jit_options={"fastmath": SUMS_MAY_REORDER})
def _add_outer(rows, lo, perm, degree, wins, block, c0, c1, full, lower):
    if len(rows) == 1:

        def dense(rows, lo, perm, degree, wins, block, c0, c1, full, lower):
            add_rows(rows[0], lo, perm, np.flatnonzero(wins), block, c0, c1, False, full)
            add_rows(rows[0], lo, perm, np.flatnonzero((degree != 0.0) & ~wins), block, c0, c1, True, lower)

        return dense

    def sparse(rows, lo, perm, degree, wins, block, c0, c1, full, lower):
        values, columns, starts = rows
        for p in range(len(perm)):
            if degree[p] == 0.0:
                continue
            begin, end = starts[lo + perm[p]], starts[lo + perm[p] + 1]
            for k in range(begin, end):
                x, a = np.float64(values[k]), columns[k]
                if wins[p]:
                    to, pulled = full[a, c0:c1], block[p]
                    for b in range(c1 - c0):
                        to[b] += x * pulled[b]
                elif c0 <= a < c1:
                    for m in range(begin, end):
                        lower[a, columns[m]] += degree[p] * x * values[m]

    return sparse


@njit(cache=True, nogil=True, fastmath=SUMS_MAY_REORDER)
def add_rows(X, lo, perm, some, block, c0, c1, half, H):
    """H[:, c0:c1] += sum over p in `some` of X[lo + perm[p]] block[p]^T, of its lower triangle if `half`.

    Four rows at once: H is read and written a quarter as often. Columns up to the next multiple of LANES, and above a
    triangle's diagonal, get numbers without meaning. O(rows · width²).
    """
    last = len(some) - 1
    stop = c0 + (c1 - c0 + LANES - 1) // LANES * LANES
    for m in range(0, last + 1, 4):
        p0, p1, p2, p3 = some[m], some[min(m + 1, last)], some[min(m + 2, last)], some[min(m + 3, last)]
        x0, x1, x2, x3 = X[lo + perm[p0]], X[lo + perm[p1]], X[lo + perm[p2]], X[lo + perm[p3]]
        b0, b1, b2, b3 = block[p0], block[p1], block[p2], block[p3]
        u1, u2, u3 = 1.0 * (m + 1 <= last), 1.0 * (m + 2 <= last), 1.0 * (m + 3 <= last)
        for a in range(c0 if half else 0, X.shape[1]):
            f0, f1, f2, f3 = x0[a], u1 * x1[a], u2 * x2[a], u3 * x3[a]
            end = min(stop, a // LANES * LANES + LANES) if half else stop
            to = H[a, c0:end]
            for b in range(end - c0):
                to[b] += f0 * b0[b] + f1 * b1[b] + f2 * b2[b] + f3 * b3[b]


@njit(cache=True, nogil=True)
def hessian_pass(rows, width, first, last, stride, tree, state, terms):
    """Hessian in the weights of the rows' `width` columns, of every stride-th query. O(rows · width²)."""
    n = max(1, widest(tree, first, last))
    padded = (width + LANES - 1) // LANES * LANES
    step = max(LANES, min(padded, BLOCK // n // LANES * LANES))
    block, running, pulled = np.zeros((n, step)), np.empty((n + 1, step)), np.empty((n, step))
    full, lower = np.zeros((width, padded)), np.zeros((width, padded))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        perm, degree = tree.perm[lo:hi], state.degree[lo:hi]  # 0 for a row in no active pair
        for c0 in range(0, width, step):
            c1 = min(c0 + step, width)
            fill_block(rows, lo, perm, c0, c1, block)
            wins = pull_rows(q, c1 - c0, tree, state, terms, block, running, pulled)
            add_outer(rows, lo, perm, degree, wins, block, c0, c1, full, lower)
    for a in range(width):
        for b in range(a + 1):
            lower[a, b] += 0.5 * (full[a, b] + full[b, a])
            lower[b, a] = lower[a, b]
    return lower[:, :width].copy()


@njit(cache=True, nogil=True)
def pull_rows(q, width, tree, state, terms, block, running, pulled):
    """block[p] <- degree_p block[p] - 2 sum over p's active losers of weight block[j], rows of query q by position.

    Answers whether each of them wins an active pair.
    """
    lo = tree.offsets[q]
    size = tree.offsets[q + 1] - lo
    wins = np.zeros(size, np.bool_)
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
                if not wins[p]:
                    wins[p], pulled[p, :width] = True, 0.0
                a = factor * tree.winner[lo + p]
                for c in range(width):
                    pulled[p, c] += a * (running[losers, c] - running[outside, c])
    for p in range(size):
        degree = state.degree[lo + p]
        for c in range(width):
            block[p, c] *= degree
        if wins[p]:
            for c in range(width):
                block[p, c] -= pulled[p, c]
    return wins
