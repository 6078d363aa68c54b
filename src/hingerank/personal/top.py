"""The best few of many scores, by rows."""

from numba import njit


@njit(cache=True, nogil=True)
def top_rows(S, first, last, rows, values):
    """rows[b], values[b] = the columns of the best scores of S[b], best first, equal scores in column order.

    Scores of -inf are left out (row -1). O(columns) a row while few scores enter the list.
    """
    top = rows.shape[1]
    for b in range(first, last):
        count = 0
        for j in range(S.shape[1]):
            s = S[b, j]
            if s == -float("inf") or (count == top and s <= values[b, count - 1]):
                continue
            at = count if count < top else top - 1
            while at > 0 and values[b, at - 1] < s:
                values[b, at] = values[b, at - 1]
                rows[b, at] = rows[b, at - 1]
                at -= 1
            values[b, at] = s
            rows[b, at] = j
            if count < top:
                count += 1
        for at in range(count, top):
            rows[b, at], values[b, at] = -1, -float("inf")
