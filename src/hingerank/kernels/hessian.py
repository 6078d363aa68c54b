"""The Hessian in the weights of some columns, from one pass over their rows.

In score space H = diag(degree) - N, where N holds the weights of the active pairs. N is symmetric and contains each
pair twice, so over the rows x_p of a query

    X^T H X  =  symmetric part of  sum over p of  x_p (degree_p x_p - 2 sum over its active losers j of weight x_j)^T

and only winners need the sum over their partners, which a running sum over the sorted losers gives. A row that wins no
active pair adds degree_p x_p x_p^T, of which the lower triangle is enough.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, chosen, inner, kernel, with_room
from hingerank.kernels.rows import block_columns

LANES = 16  # inner loops of the Hessian run over multiples of this many columns, which suits vector registers
BLOCK = 1 << 20  # numbers in the block of one query's columns; wider queries are handled some columns at a time


@with_room
def hessian_pass(rows, width, first, last, stride, tree, state, terms, base=0):
    """Hessian in the weights of the rows' `width` columns, of every stride-th query. O(rows · width²).

    base: index in the whole data of the first of `rows`.
    """
    n = int(np.diff(tree.offsets[first : last + 1]).max(initial=1))
    padded = -(-width // LANES) * LANES
    step = max(LANES, min(padded, BLOCK // n // LANES * LANES))
    block, running, partners = np.zeros((n, step)), np.empty((n + 1, step)), np.empty((n, step))
    room = block, running, partners, np.empty(n, np.bool_), np.empty(n, np.int32)
    full, lower = np.zeros((width, padded)), np.zeros((width, padded))
    _hessian_pass(rows, width, step, first, last, stride, base, tree, state, terms, *room, full, lower)
    lower = np.tril(lower[:, :width] + 0.5 * (full[:, :width] + full[:, :width].T))
    return lower + np.tril(lower, -1).T


@kernel
def _hessian_pass(
    rows, width, step, first, last, stride, base, tree, state, terms, block, running, partners, wins, some, full, lower
):
    for q in range(first, last, stride):
        if tree.node_start[q] < tree.node_start[q + 1]:
            lo, hi = tree.offsets[q], tree.offsets[q + 1]
            for c0 in range(0, width, step):
                c1 = min(c0 + step, width)
                block_columns(rows, lo - base, tree.perm[lo:hi], c0, c1, block)
                curve_block(q, c1 - c0, tree, state, terms, block, running, partners, wins)
                degree = state.degree[lo:hi]
                add_outer(rows, lo - base, tree.perm[lo:hi], degree, wins, block, c0, c1, some, full, lower)


@inner
def curve_block(q, width, tree, state, terms, block, running, partners, wins):
    """block[p] <- degree_p block[p] - 2 sum over p's active losers of weight block[j], rows of query q by position;
    wins[p] = whether p wins an active pair."""
    lo, size = tree.offsets[q], tree.offsets[q + 1] - tree.offsets[q]
    member, window, node = state.member, state.window, tree.node
    wins[:size] = False
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers, winners, slot = node[k, 1] - node[k, 0], node[k, 3] - node[k, 2], tree.slot[k]
        start = losers  # every winner's window ends at the best loser; none begins below `start`
        for t in range(len(terms)):
            for m in range(slot + losers, slot + losers + winners):
                start = min(start, losers - window[t, m])
        running[start, :width] = 0.0
        for m in range(start, losers):
            p = member[slot + m]
            b = tree.loser[lo + p]
            for c in range(width):
                running[m + 1, c] = running[m, c] + b * block[p, c]
        for t in range(len(terms)):
            for m in range(slot + losers, slot + losers + winners):
                p, outside = member[m], losers - window[t, m]
                if outside == losers:
                    continue
                if not wins[p]:
                    wins[p], partners[p, :width] = True, 0.0
                a = 4.0 * terms[t, 2] * tree.scale[k] * tree.winner[lo + p]
                for c in range(width):
                    partners[p, c] += a * (running[losers, c] - running[outside, c])
    for p in range(size):
        for c in range(width):
            block[p, c] *= state.degree[lo + p]
        if wins[p]:
            for c in range(width):
                block[p, c] -= partners[p, c]


@chosen(fastmath=SUMS_MAY_REORDER)
def add_outer(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
    """full[:, c0:c1] += sum over the p that win of (row lo + perm[p]) block[p]^T.

    The others, for which block[p] = degree[p] (row lo + perm[p]), add to the lower triangle of `lower` instead.
    """

    def dense(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
        for half in range(2):
            count = 0
            for p in range(len(perm)):
                if wins[p] == (half == 0) and degree[p] != 0.0:
                    some[count] = p
                    count += 1
            add_rows(rows[0], lo, perm, some, count, block, c0, c1, half == 1, full if half == 0 else lower)

    def sparse(rows, lo, perm, degree, wins, block, c0, c1, some, full, lower):
        values, columns, starts = rows
        for p in range(len(perm)):
            weight = degree[p]
            if weight == 0.0:
                continue
            begin, end = starts[lo + perm[p]], starts[lo + perm[p] + 1]
            for k in range(begin, end):
                x, a = np.float64(values[k]), columns[k]
                if wins[p]:
                    to, row = full[a, c0:c1], block[p]
                    for b in range(c1 - c0):
                        to[b] += x * row[b]
                elif c0 <= a < c1:
                    for m in range(begin, end):
                        lower[a, columns[m]] += weight * x * values[m]

    return dense if len(rows) == 1 else sparse


@inner(fastmath=SUMS_MAY_REORDER)
def add_rows(X, lo, perm, some, count, block, c0, c1, half, H):
    """H[:, c0:c1] += sum over p in some[:count] of X[lo + perm[p]] block[p]^T, of its lower triangle if `half`.

    Four rows at once, so that H is read and written a quarter as often. Columns up to the next multiple of LANES, and
    those above a triangle's diagonal, get meaningless numbers. O(rows · width²).
    """
    stop = c0 + (c1 - c0 + LANES - 1) // LANES * LANES
    for m in range(0, count, 4):
        p0, p1, p2, p3 = some[m], some[min(m + 1, count - 1)], some[min(m + 2, count - 1)], some[min(m + 3, count - 1)]
        x0, x1, x2, x3 = X[lo + perm[p0]], X[lo + perm[p1]], X[lo + perm[p2]], X[lo + perm[p3]]
        b0, b1, b2, b3 = block[p0], block[p1], block[p2], block[p3]
        u1, u2, u3 = 1.0 * (m + 1 < count), 1.0 * (m + 2 < count), 1.0 * (m + 3 < count)
        for a in range(c0 if half else 0, X.shape[1]):
            f0, f1, f2, f3 = x0[a], u1 * x1[a], u2 * x2[a], u3 * x3[a]
            end = min(stop, a // LANES * LANES + LANES) if half else stop
            to = H[a, c0:end]
            for b in range(end - c0):
                to[b] += f0 * b0[b] + f1 * b1[b] + f2 * b2[b] + f3 * b3[b]


# The Hessian's diagonal within a factor of 2: weighted squares of features around the mean of their query.


@with_room
def scatter_pass(rows, width, first, last, stride, offsets, weight):
    """Sum over every stride-th query of the weighted squares of its rows around their mean. O(numbers)."""
    out, sums, squares = np.zeros((3, width))
    _scatter_pass(rows, first, last, stride, offsets, weight, sums, squares, out)
    return out


@kernel
def _scatter_pass(rows, first, last, stride, offsets, weight, sums, squares, out):
    for q in range(first, last, stride):
        lo, hi, total = offsets[q], offsets[q + 1], 0.0
        for r in range(lo, hi):
            total += weight[r]
        if total > 0.0:
            block_scatter(rows, lo, hi, weight, total, sums, squares, out)


@chosen(fastmath=SUMS_MAY_REORDER)
def block_scatter(rows, lo, hi, weight, total, sums, squares, out):
    """out[c] += sum over rows r in lo:hi of weight[r] (x_rc - mean_c)², mean_c the weighted mean of these rows."""

    def dense(rows, lo, hi, weight, total, sums, squares, out):
        X = rows[0]
        for c in range(len(out)):
            sums[c] = 0.0
        for r in range(lo, hi):
            for c in range(len(out)):
                sums[c] += weight[r] * X[r, c]
        for c in range(len(out)):
            sums[c] /= total
        for r in range(lo, hi):
            for c in range(len(out)):
                apart = X[r, c] - sums[c]
                out[c] += weight[r] * apart * apart

    def sparse(rows, lo, hi, weight, total, sums, squares, out):
        values, columns, starts = rows
        for r in range(lo, hi):  # the sums of a query's columns are 0 before and after
            for k in range(starts[r], starts[r + 1]):
                sums[columns[k]] += weight[r] * values[k]
                squares[columns[k]] += weight[r] * values[k] * values[k]
        for r in range(lo, hi):
            for k in range(starts[r], starts[r + 1]):
                c = columns[k]
                out[c] += max(0.0, squares[c] - sums[c] * sums[c] / total)
                sums[c] = squares[c] = 0.0

    return dense if len(rows) == 1 else sparse
