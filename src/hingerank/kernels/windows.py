"""Window sweeps: everything a hinge-type loss needs of a query's pairs, without listing them.

A pair (i preferred to j) is *active* at margin m when s_i - s_j < m. For every row the sweeps give, over its active
pairs, the weight sum(a_i b_j) (``degree``, and ``net0`` = as loser minus as winner) and the signed weighted sum of
(m - s_i + s_j) (``net1``), and over all pairs the totals of (m - s_i + s_j) and its square. Hinge, squared hinge,
modified Huber and smoothed hinge are sums of such terms.

Both sweeps only ever *add* non-negative numbers: when the reference score moves by d >= 0 every pair already inside
grows by d, so first moments gain d*weight and second moments d*(2*first + d*weight). No large sums are subtracted,
which keeps the results exact to rounding even for scores of 1e8 with a margin of 1.
"""

from numba import njit

RUN = 12  # rows sorted by insertion before merging


@njit(cache=True, nogil=True)
def sort_run(at, key, spare_at, spare_key, lo, hi):
    """Sort at[lo:hi] and key[lo:hi] by key, stably and cheaply when nearly sorted. O(n log n), O(n) when sorted."""
    for a in range(lo, hi, RUN):
        b = min(a + RUN, hi)
        for i in range(a + 1, b):
            k, x = key[i], at[i]
            j = i
            while j > a and key[j - 1] > k:
                key[j] = key[j - 1]
                at[j] = at[j - 1]
                j -= 1
            key[j] = k
            at[j] = x
    width = RUN
    while width < hi - lo:
        for a in range(lo, hi - width, 2 * width):
            merge_runs(at, key, spare_at, spare_key, a, a + width, min(a + 2 * width, hi))
        width *= 2


@njit(cache=True, nogil=True)
def merge_runs(at, key, spare_at, spare_key, lo, mid, hi):
    """Merge the sorted runs lo:mid and mid:hi in place. O(hi - lo), O(1) when already in order."""
    if key[mid - 1] <= key[mid]:
        return
    left = mid - lo
    spare_key[:left] = key[lo:mid]
    spare_at[:left] = at[lo:mid]
    i, j, k = 0, mid, lo
    while i < left:
        if j < hi and key[j] < spare_key[i]:
            key[k], at[k] = key[j], at[j]
            j += 1
        else:
            key[k], at[k] = spare_key[i], spare_at[i]
            i += 1
        k += 1


@njit(cache=True, nogil=True)
def sweep_node(key, at, node, slot, winner, loser, scale, margin, member, window, net0, net1, degree):
    """One node's active pairs at a margin: fill its windows, add to its rows' sums; returns the pairs' moments 0, 1, 2.

    key, at: sorted scores and positions; winner, loser: row weights by position. O(rows of the node).
    """
    l0, l1, w0, w1 = node[0], node[1], node[2], node[3]
    losers, total0, total1, total2 = l1 - l0, 0.0, 0.0, 0.0
    weight, one, two, previous = 0.0, 0.0, 0.0, key[w1 - 1]
    at_loser = l1
    for i in range(w1 - 1, w0 - 1, -1):  # winners from the best score down: losers above s_i - margin come in
        score, p = key[i], at[i]
        step = previous - score
        two += step * (2.0 * one + step * weight)
        one += step * weight
        previous = score
        while at_loser > l0 and score - key[at_loser - 1] < margin:
            at_loser -= 1
            b, m = loser[at[at_loser]], margin - score + key[at_loser]
            weight += b
            one += b * m
            two += b * m * m
        a = winner[p] * scale
        member[slot + losers + i - w0] = p
        window[slot + losers + i - w0] = l1 - at_loser
        net0[p] -= a * weight
        net1[p] -= a * one
        degree[p] += a * weight
        total0 += a * weight
        total1 += a * one
        total2 += a * two
    weight, one, previous = 0.0, 0.0, key[l0]
    at_winner = w0
    for j in range(l0, l1):  # losers from the worst score up: winners below s_j + margin come in
        score, p = key[j], at[j]
        one += (score - previous) * weight
        previous = score
        while at_winner < w1 and key[at_winner] - score < margin:
            a = winner[at[at_winner]]
            weight += a
            one += a * (margin - key[at_winner] + score)
            at_winner += 1
        b = loser[p] * scale
        member[slot + j - l0] = p
        window[slot + j - l0] = at_winner - w0
        net0[p] += b * weight
        net1[p] += b * one
        degree[p] += b * weight
    return total0, total1, total2


@njit(cache=True, nogil=True)
def add_neighbours(v, losers, size, slot, winner, loser, scale, member, window, running, out):
    """out[p] += sum over p's active partners in one node of (pair weight * v[partner]). O(rows of the node)."""
    winners = size - losers
    running[0] = 0.0
    for k in range(losers):
        p = member[slot + k]
        running[k + 1] = running[k] + loser[p] * v[p]
    whole = running[losers]
    for k in range(winners):
        p = member[slot + losers + k]
        out[p] += scale * winner[p] * (whole - running[losers - window[slot + losers + k]])
    running[0] = 0.0
    for k in range(winners):
        p = member[slot + losers + k]
        running[k + 1] = running[k] + winner[p] * v[p]
    for k in range(losers):
        p = member[slot + k]
        out[p] += scale * loser[p] * running[window[slot + k]]
