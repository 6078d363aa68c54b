"""Pair losses weighted by gains and by the difference of ranks, over queries first:last: pairs are visited, not stored.

A pair's weight is (gain_i - gain_j) · table[|rank_i - rank_j|], times the tree's weight. The ranks (`place`) come from
another fit, while windows of active pairs follow the scores here. No single sort orders both, so every pair is visited.
"""

import numpy as np

from hingerank.kernels.compiled import inner, kernel
from hingerank.kernels.losses import LOGISTIC, smooth_terms

SQUARED_HINGE = 2  # in addition to the kinds of smooth_terms


@inner
def distance_terms(kind, t):
    """(l, -l', l'') at t of the squared hinge or of a smooth loss."""
    if kind == SQUARED_HINGE:
        gap = max(1.0 - t, 0.0)
        return gap * gap, 2.0 * gap, 2.0 if t < 1.0 else 0.0
    return smooth_terms(kind, t)


@kernel
def distance_pass(kind, s, gain, place, table, first, last, tree, z, diagonal):
    """Sum of weight · l(s_i - s_j) over pairs; z = gradient, diagonal = that of the Hessian. O(n_q^2) time."""
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
                    weight *= (gain[i] - gain[j]) * table[abs(place[i] - place[j])]
                    cost, force, second = distance_terms(kind, s[i] - s[j])
                    value += weight * cost
                    slope += weight * force
                    curve += weight * second
                    z[j] += weight * force
                    diagonal[j] += weight * second
                z[i] -= slope
                diagonal[i] += curve
    return value


@kernel
def distance_curvature_pass(kind, s, v, gain, place, table, first, last, tree, z):
    """z = (Hessian of the sum of weight · l(s_i - s_j) at s) v. O(n_q^2) time."""
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                total = 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj]
                    weight *= (gain[i] - gain[j]) * table[abs(place[i] - place[j])]
                    force = weight * distance_terms(kind, s[i] - s[j])[2] * (v[i] - v[j])
                    total += force
                    z[j] -= force
                z[i] += total


KINDS = {"squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}


def distance_table(longest: int) -> np.ndarray:
    """1/log2(1 + d) - 1/log2(2 + d) for d = 0 ... longest, 0 at 0: the largest change of DCG by a swap at distance d.

    >>> distance_table(2).round(3).tolist()
    [0.0, 0.369, 0.131]
    """
    discount = 1.0 / np.log2(1.0 + np.arange(1, longest + 2))
    return np.concatenate(([0.0], discount[:-1] - discount[1:]))
