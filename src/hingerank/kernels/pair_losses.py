"""Smooth pair losses over the grade tree: logistic (every pair visited, none stored) and exponential (separable)."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def logistic_pass(s, first, last, tree, z, diagonal):
    """Sum of log(1 + exp(-(s_i - s_j))) over pairs; z = gradient, diagonal = of the Hessian. O(n_q^2) time."""
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                slope, curve = 0.0, 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj]
                    t = s[i] - s[j]
                    e = np.exp(-abs(t))
                    value += weight * (np.log1p(e) + max(-t, 0.0))
                    miss = weight * (e if t > 0 else 1.0) / (1.0 + e)
                    bend = weight * e / ((1.0 + e) * (1.0 + e))
                    slope += miss
                    curve += bend
                    z[j] += miss
                    diagonal[j] += bend
                z[i] -= slope
                diagonal[i] += curve
    return value


@njit(cache=True, nogil=True)
def logistic_curvature_pass(s, v, first, last, tree, z):
    """z = (Hessian of the logistic loss at s) v. O(n_q^2) time."""
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                total = 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    e = np.exp(-abs(s[i] - s[j]))
                    bend = tree.scale[k] * tree.winner[pi] * tree.loser[pj] * e / ((1.0 + e) * (1.0 + e))
                    force = bend * (v[i] - v[j])
                    total += force
                    z[j] -= force
                z[i] += total


@njit(cache=True, nogil=True)
def exponential_pass(s, v, first, last, tree, z, diagonal, pull):
    """Sum of exp(-(s_i - s_j)) over pairs; z = gradient; diagonal of the Hessian; pull = Hessian v. O(n log G).

    exp(s_j - s_i) = exp(c - s_i) exp(s_j - c): a node's pairs factor into two sums. c is the losers' best score.
    """
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        pull[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            l0, l1, w0, w1 = tree.node[k, 0], tree.node[k, 1], tree.node[k, 2], tree.node[k, 3]
            c = -np.inf
            for p in range(l0, l1):
                c = max(c, s[lo + tree.perm[p]])
            low, low_v, high, high_v = 0.0, 0.0, 0.0, 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                e = tree.loser[p] * np.exp(s[r] - c)
                low += e
                low_v += e * v[r]
            for p in range(w0, w1):
                r = lo + tree.perm[p]
                e = tree.scale[k] * tree.winner[p] * np.exp(c - s[r])
                high += e
                high_v += e * v[r]
                z[r] -= e * low
                diagonal[r] += e * low
                pull[r] += e * (low * v[r] - low_v)
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                e = tree.loser[p] * np.exp(s[r] - c)
                z[r] += e * high
                diagonal[r] += e * high
                pull[r] += e * (high * v[r] - high_v)
            value += high * low
    return value
