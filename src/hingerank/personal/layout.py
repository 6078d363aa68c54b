"""Group ratings or comparisons, given in any order, by user (`UserPreferences`). All is O(n), except sorting."""

import numpy as np

from hingerank.kernels.compiled import inner, kernel
from hingerank.kernels.order import sort_down
from hingerank.kernels.sweeps import sort_run


@kernel(allocates=True)
def group(codes, count):
    """Return (start, order): the rows of code c are order[start[c]:start[c+1]], in their original order."""
    start = np.zeros(count + 1, np.int64)
    for i in range(len(codes)):
        start[codes[i] + 1] += 1
    for c in range(count):
        start[c + 1] += start[c]
    free, order = start[:-1].copy(), np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        c = codes[i]
        order[free[c]] = i
        free[c] += 1
    return start, order


@inner
def widest_group(start):
    """Return the number of rows of the largest group."""
    n = 0
    for c in range(len(start) - 1):
        n = max(n, start[c + 1] - start[c])
    return n


@kernel(allocates=True)
def drop_repeats(start, order, items, n_items, kept):
    """Drop all but the last of a user's rows about the same item: kept[u] = rows left, moved to the front."""
    seen, dropped = np.full(n_items, -1, np.int32), 0
    for u in range(len(start) - 1):
        lo, hi = start[u], start[u + 1]
        at = hi
        for r in range(hi - 1, lo - 1, -1):  # from the last to the first
            i = order[r]
            if seen[items[i]] != u:
                seen[items[i]] = u
                at -= 1
                order[at] = i
        kept[u] = hi - at
        if at > lo:
            dropped += at - lo
            for r in range(hi - at):
                order[lo + r] = order[at + r]
    return dropped


@kernel(allocates=True)
def lay_out_ratings(first, last, begin, order, kept, items, ratings, start, item, grade, count, pairs):
    """Sort the rows of users first:last by rating; ratings[0] is that of row order[begin[first]].

    Fills item[r], and grade[r] = 0, 1, ... within the user, modulo 256; count[u] = number of different ratings,
    pairs[u] = number of pairs of them.
    """
    n = widest_group(begin)
    spare_at, spare_key = np.empty(n, np.int32), np.empty(n)
    for u in range(first, last):
        lo = begin[u] - begin[first]
        at, key = order[begin[u] : begin[u] + kept[u]], ratings[lo : lo + kept[u]]
        sort_run(at, key, spare_at, spare_key, 0, kept[u])
        g = same = total = 0
        for r in range(kept[u]):
            if r > 0 and key[r] != key[r - 1]:
                g += 1
                same = r
            total += same
            item[start[u] + r] = items[at[r]]
            grade[start[u] + r] = g & 255
        count[u] = min(kept[u], g + 1)
        pairs[u] = total


@kernel(allocates=True)
def number_compared(begin, order, winners, losers, n_items, start, winner, loser):
    """Number each user's compared items 0, 1, ...: fills start and the rows of pairs within their user."""
    seen, number = np.full(n_items, -1, np.int32), np.empty(n_items, np.int32)
    for u in range(len(begin) - 1):
        count = 0
        for e in range(begin[u], begin[u + 1]):
            for side in range(2):
                j = winners[order[e]] if side == 0 else losers[order[e]]
                if seen[j] != u:
                    seen[j] = u
                    number[j] = count
                    count += 1
                if side == 0:
                    winner[e] = number[j]
                else:
                    loser[e] = number[j]
        start[u + 1] = start[u] + count


@kernel
def fill_compared(begin, order, winners, losers, start, winner, loser, item):
    """Fill item[r] for every row that number_compared counted."""
    for u in range(len(begin) - 1):
        for e in range(begin[u], begin[u + 1]):
            item[start[u] + winner[e]] = winners[order[e]]
            item[start[u] + loser[e]] = losers[order[e]]


@kernel(allocates=True)
def count_contradictions(begin, winner, loser):
    """Count the comparisons that the same user also made the other way round."""
    total = 0
    for u in range(len(begin) - 1):
        lo, n = begin[u], begin[u + 1] - begin[u]
        key, spare = np.empty(n, np.int64), np.empty(n, np.int64)
        for e in range(n):
            i, j = np.int64(winner[lo + e]), np.int64(loser[lo + e])
            key[e] = (min(i, j) << 33) + (max(i, j) << 1) + (i > j)
        sort_down(key, 0, n, spare)
        a = 0
        while a < n:
            b, up = a, 0
            while b < n and key[b] >> 1 == key[a] >> 1:
                up += key[b] & 1
                b += 1
            if 0 < up < b - a:
                total += b - a
            a = b
    return total
