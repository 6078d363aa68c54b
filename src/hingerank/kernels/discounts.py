"""Discounts of a ranking in which rows may weigh more than one place, and pair losses weighted by NDCG changes.

A row of weight m fills m places and has their mean discount; rows of equal score share the mean discount of the places
they fill together. So weight 2 is the row given twice, and nothing depends on the order of rows.
"""

from numba import njit

from hingerank.kernels.ranked import order_blocks


@njit(cache=True, nogil=True)
def average_discounts(s, weight, offsets, first, last, filled, order, out):
    """out = each row's mean discount when queries are ranked by s, order = that ranking. O(n log n).

    filled[k] = sum of the first k discounts.
    """
    order_blocks(s, offsets, first, last, order)
    for q in range(first, last):
        a, end, place = offsets[q], offsets[q + 1], 0.0
        while a < end:
            b, m = a, 0.0
            while b < end and s[order[b]] == s[order[a]]:
                m += weight[order[b]]
                b += 1
            mean = (discount_sum(filled, place + m) - discount_sum(filled, place)) / m
            for k in range(a, b):
                out[order[k]] = mean
            place += m
            a = b


@njit(cache=True, nogil=True)
def discount_sum(filled, place):
    """Sum of the discounts of the first `place` places, linear in between and beyond the table."""
    k = min(int(place), len(filled) - 2)
    return filled[k] + (place - k) * (filled[k + 1] - filled[k])


@njit(cache=True, nogil=True)
def swap_pass(s, gain, discount, first, last, tree, z):
    """Sum over pairs of W psi(s_i - s_j), W = (gain_i - gain_j) |discount_i - discount_j|, psi the modified Huber loss;
    z = its gradient for fixed W. O(n_q^2) time."""
    value = 0.0
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                slope = 0.0
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    t = s[i] - s[j]
                    if t >= 1.0:
                        continue
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj]
                    weight *= (gain[i] - gain[j]) * abs(discount[i] - discount[j])
                    if t >= -1.0:
                        value += weight * (1.0 - t) * (1.0 - t)
                        push = 2.0 * weight * (1.0 - t)
                    else:
                        value -= 4.0 * weight * t
                        push = 4.0 * weight
                    slope += push
                    z[j] += push
                z[i] -= slope
    return value


@njit(cache=True, nogil=True)
def swap_curvature_pass(v, gain, discount, first, last, tree, z):
    """z = (Hessian of the sum of W (1 - t)^2 over all pairs) v: a bound on that of `swap_pass`. O(n_q^2) time."""
    for q in range(first, last):
        lo = tree.offsets[q]
        z[lo : tree.offsets[q + 1]] = 0.0
        for k in range(tree.node_start[q], tree.node_start[q + 1]):
            for pi in range(tree.node[k, 2], tree.node[k, 3]):
                i = lo + tree.perm[pi]
                for pj in range(tree.node[k, 0], tree.node[k, 1]):
                    j = lo + tree.perm[pj]
                    weight = tree.scale[k] * tree.winner[pi] * tree.loser[pj]
                    force = 2.0 * weight * (gain[i] - gain[j]) * abs(discount[i] - discount[j]) * (v[i] - v[j])
                    z[i] += force
                    z[j] -= force
