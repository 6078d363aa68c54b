"""Smooth pair losses over the grade tree: logistic and fidelity (every pair visited, none stored), squared and
exponential (a node's pairs factor into sums)."""

import numpy as np
from numba import njit

LOGISTIC, FIDELITY = 0, 1


@njit(cache=True, nogil=True, inline="always")
def smooth_terms(kind, t):
    """(l, -l', l'') at t of log(1 + exp(-t)) or of 1 - sqrt(sigma), sigma = 1 / (1 + exp(-t))."""
    e = np.exp(-abs(t))
    share = 1.0 / (1.0 + e)
    miss = share if t < 0.0 else e * share  # 1 - sigma
    if kind == LOGISTIC:
        return np.log1p(e) + max(-t, 0.0), miss, e * share * share
    hit = 1.0 - miss if t > 0.0 else e * share
    root = np.sqrt(hit)
    return miss / (1.0 + root), 0.5 * root * miss, 0.25 * root * miss * (3.0 * hit - 1.0)


@njit(cache=True, nogil=True)
def smooth_pass(kind, s, first, last, tree, z, diagonal):
    """Sum of l(s_i - s_j) over pairs; z = gradient, diagonal = of the Hessian. O(n_q^2) time."""
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
                    cost, force, bend = smooth_terms(kind, s[i] - s[j])
                    value += weight * cost
                    slope += weight * force
                    curve += weight * bend
                    z[j] += weight * force
                    diagonal[j] += weight * bend
                z[i] -= slope
                diagonal[i] += curve
    return value


@njit(cache=True, nogil=True)
def smooth_curvature_pass(kind, s, v, first, last, tree, z):
    """z = (Hessian of the sum of l(s_i - s_j) at s) v. O(n_q^2) time."""
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                total = 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    bend = smooth_terms(kind, s[i] - s[j])[2]
                    force = tree.scale[k] * tree.winner[pi] * tree.loser[pj] * bend * (v[i] - v[j])
                    total += force
                    z[j] -= force
                z[i] += total


@njit(cache=True, nogil=True)
def squared_pass(margin, s, v, first, last, tree, z, diagonal, pull):
    """Sum of (margin - s_i + s_j)^2 over pairs; z = gradient; diagonal of the Hessian; pull = Hessian v. O(n log G).

    With c the losers' mean, margin - s_i + s_j = (margin - s_i + c) + (s_j - c): a node's squares factor into moments
    whose mixed term vanishes, so that nothing cancels.
    """
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        diagonal[lo : tree.offsets[q + 1]] = 0.0
        pull[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            l0, l1, w0, w1 = tree.node[k, 0], tree.node[k, 1], tree.node[k, 2], tree.node[k, 3]
            low, c, low_v = 0.0, 0.0, 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                low += tree.loser[p]
                c += tree.loser[p] * s[r]
                low_v += tree.loser[p] * v[r]
            if low == 0.0:
                continue
            c /= low
            high, high_1, high_2, high_v = 0.0, 0.0, 0.0, 0.0
            for p in range(w0, w1):
                r = lo + tree.perm[p]
                weight, gap = tree.scale[k] * tree.winner[p], margin - (s[r] - c)
                high += weight
                high_1 += weight * gap
                high_2 += weight * gap * gap
                high_v += weight * v[r]
                z[r] -= 2.0 * weight * gap * low
                diagonal[r] += 2.0 * weight * low
                pull[r] += 2.0 * weight * (low * v[r] - low_v)
            spread = 0.0
            for p in range(l0, l1):
                r = lo + tree.perm[p]
                weight, gap = tree.loser[p], s[r] - c
                spread += weight * gap * gap
                z[r] += 2.0 * weight * (high_1 + high * gap)
                diagonal[r] += 2.0 * weight * high
                pull[r] += 2.0 * weight * (high * v[r] - high_v)
            value += high_2 * low + high * spread
    return value


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
