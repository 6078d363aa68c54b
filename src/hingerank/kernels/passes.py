"""Passes over the queries: score-space sweeps, and the same fused with one reading of the feature rows.

``tree`` is a GradeTree (fixed for a data set), ``state`` a WindowState (refreshed at every iterate). Each function
handles queries first:last and is serial; callers shard. In the fused passes a query's rows are read once, scored,
swept and accumulated while they are still in cache.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from hingerank.kernels.rows import add_products, block_back, block_columns, block_scores
from hingerank.kernels.windows import add_neighbours, merge_runs, sort_run, sweep_node


class GradeTree(NamedTuple):
    """Where a data set's preference pairs are: see kernels/grade_tree.py."""

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


class WindowState(NamedTuple):
    """What one iterate leaves for its Hessian products."""

    order: np.ndarray  # (n) positions within each leaf by score, kept as the next sort's start
    member: np.ndarray  # (slots) positions by score: losers, then winners
    window: np.ndarray  # (terms, slots) number of active partners
    degree: np.ndarray  # (n) diagonal of the score-space Hessian, by position


@njit(cache=True, nogil=True)
def query_windows(q, key, tree, state, terms, grad, moments, scratch, spare):
    """Sweep query q at scores key (by position, destroyed): fills grad (by position) and the state. O(n_q log n_q).

    terms: rows (margin, hinge factor, squared hinge factor); moments: for each term the active pairs' weight, and the
    sums of (margin - t) and of its square, are added; scratch: (4, n_q) floats; spare: (2, n_q) ints.
    """
    lo, hi = tree.offsets[q], tree.offsets[q + 1]
    n = hi - lo
    winner, loser = tree.winner[lo:hi], tree.loser[lo:hi]
    order, degree_out = state.order[lo:hi], state.degree[lo:hi]
    at, spare_at = spare[0], spare[1]
    sorted_key, net0, net1, degree = scratch[0], scratch[1], scratch[2], scratch[3]
    for p in range(n):
        at[p] = order[p]
        sorted_key[p] = key[order[p]]
        grad[p] = 0.0
        degree_out[p] = 0.0
    for k in range(tree.leaf_start[q], tree.leaf_start[q + 1]):
        begin = tree.leaf[k] - lo
        end = (tree.leaf[k + 1] if k + 1 < tree.leaf_start[q + 1] else hi) - lo
        sort_run(at, sorted_key, spare_at, key, begin, end)
    order[:] = at[:n]
    node = np.empty(4, np.int64)
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        for e in range(4):
            node[e] = tree.node[k, e] - lo
        l0, l1, w0, w1 = node[0], node[1], node[2], node[3]
        for t in range(len(terms)):
            margin, c1, c2 = terms[t, 0], terms[t, 1], 2.0 * terms[t, 2]
            for p in range(l0, l1):
                net0[at[p]] = net1[at[p]] = degree[at[p]] = 0.0
            for p in range(w0, w1):
                net0[at[p]] = net1[at[p]] = degree[at[p]] = 0.0
            zero, one, two = sweep_node(
                sorted_key, at, node, tree.slot[k], winner, loser, tree.scale[k], margin,
                state.member, state.window[t], net0, net1, degree,
            )  # fmt: skip
            moments[t, 0] += zero
            moments[t, 1] += one
            moments[t, 2] += two
            for p in range(l0, l1):
                i = at[p]
                grad[i] += c1 * net0[i] + c2 * net1[i]
                degree_out[i] += c2 * degree[i]
            for p in range(w0, w1):
                i = at[p]
                grad[i] += c1 * net0[i] + c2 * net1[i]
                degree_out[i] += c2 * degree[i]
        if tree.merges:
            merge_runs(at, sorted_key, spare_at, key, l0, l1, w1)


@njit(cache=True, nogil=True)
def query_curvature(q, v, tree, state, terms, out, running, neighbours):
    """out = (score-space Hessian of query q) v, both by position. O(n_q log G)."""
    lo, hi = tree.offsets[q], tree.offsets[q + 1]
    n = hi - lo
    winner, loser, degree = tree.winner[lo:hi], tree.loser[lo:hi], state.degree[lo:hi]
    neighbours[:n] = 0.0
    for k in range(tree.node_start[q], tree.node_start[q + 1]):
        losers = tree.node[k, 1] - tree.node[k, 0]
        size = losers + tree.node[k, 3] - tree.node[k, 2]
        for t in range(len(terms)):
            if terms[t, 2] != 0.0:
                add_neighbours(
                    v, losers, size, tree.slot[k], winner, loser, 2.0 * terms[t, 2] * tree.scale[k],
                    state.member, state.window[t], running, neighbours,
                )  # fmt: skip
    for p in range(n):
        out[p] = degree[p] * v[p] - neighbours[p]


@njit(cache=True, nogil=True)
def widest(tree, first, last):
    """Rows of the longest query in first:last."""
    n = 0
    for q in range(first, last):
        n = max(n, tree.offsets[q + 1] - tree.offsets[q])
    return n


@njit(cache=True, nogil=True)
def score_pass(s, first, last, tree, state, terms, z):
    """Moments of the active pairs at scores s (see query_windows); z = the loss's gradient in scores."""
    n = widest(tree, first, last)
    key, grad, scratch, spare = np.empty(n), np.empty(n), np.empty((4, n)), np.empty((2, n), np.int32)
    moments = np.zeros((len(terms), 3))
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        if tree.node_start[q] == tree.node_start[q + 1]:
            z[lo:hi] = 0.0
            continue
        for p in range(hi - lo):
            key[p] = s[lo + tree.perm[lo + p]]
        query_windows(q, key, tree, state, terms, grad, moments, scratch, spare)
        for p in range(hi - lo):
            z[lo + tree.perm[lo + p]] = grad[p]
    return moments


@njit(cache=True, nogil=True)
def curvature_pass(v, first, last, tree, state, terms, z):
    """z = (Hessian of the loss in scores) v."""
    n = widest(tree, first, last)
    key, out, running, neighbours = np.empty(n), np.empty(n), np.empty(n + 1), np.empty(n)
    for q in range(first, last):
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        if tree.node_start[q] == tree.node_start[q + 1]:
            z[lo:hi] = 0.0
            continue
        for p in range(hi - lo):
            key[p] = v[lo + tree.perm[lo + p]]
        query_curvature(q, key, tree, state, terms, out, running, neighbours)
        for p in range(hi - lo):
            z[lo + tree.perm[lo + p]] = out[p]


@njit(cache=True, nogil=True)
def fused_loss_pass(rows, w, first, last, stride, tree, state, terms):
    """(moments, gradient in w) of every stride-th query at w, reading each row once."""
    n = widest(tree, first, last)
    s, key, grad, scratch = np.empty(n), np.empty(n), np.empty(n), np.empty((4, n))
    spare, g, moments = np.empty((2, n), np.int32), np.zeros(len(w)), np.zeros((len(terms), 3))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_scores(rows, lo, hi, w, s)
        for p in range(hi - lo):
            key[p] = s[tree.perm[lo + p]]
        query_windows(q, key, tree, state, terms, grad, moments, scratch, spare)
        for p in range(hi - lo):
            s[tree.perm[lo + p]] = grad[p]
        block_back(rows, lo, hi, s, g)
    return moments, g


@njit(cache=True, nogil=True)
def fused_curvature_pass(rows, v, first, last, stride, tree, state, terms):
    """(Hessian in w of the loss of every stride-th query) v, reading each row once."""
    n = widest(tree, first, last)
    s, key, out = np.empty(n), np.empty(n), np.empty(n)
    running, neighbours, g = np.empty(n + 1), np.empty(n), np.zeros(len(v))
    for q in range(first, last, stride):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_scores(rows, lo, hi, v, s)
        for p in range(hi - lo):
            key[p] = s[tree.perm[lo + p]]
        query_curvature(q, key, tree, state, terms, out, running, neighbours)
        for p in range(hi - lo):
            s[tree.perm[lo + p]] = out[p]
        block_back(rows, lo, hi, s, g)
    return g


@njit(cache=True, nogil=True)
def hessian_pass(rows, n_features, first, last, tree, state, terms):
    """The Hessian in w of the loss: the sum over queries of Xᵀ (score-space Hessian) X. O(n d (d + log G))."""
    n = widest(tree, first, last)
    X, Z = np.empty((n_features, n)), np.empty((n_features, n))
    running, neighbours, H = np.empty(n + 1), np.empty(n), np.zeros((n_features, n_features))
    for q in range(first, last):
        if tree.node_start[q] == tree.node_start[q + 1]:
            continue
        lo, hi = tree.offsets[q], tree.offsets[q + 1]
        block_columns(rows, lo, hi, tree.perm[lo:hi], X)
        for c in range(n_features):
            query_curvature(q, X[c], tree, state, terms, Z[c], running, neighbours)
        add_products(X, Z, hi - lo, H)
    return H
