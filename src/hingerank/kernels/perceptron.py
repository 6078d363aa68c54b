"""The perceptron with thresholds (PRank)."""

from hingerank.kernels.compiled import kernel
from hingerank.kernels.rows import block_back, block_scores


@kernel
def prank_pass(rows, level, order, w, b, total_w, total_b, spare):
    """Visit the rows in the given order and return the sum of the absolute errors in their grades; w and b change when
    a threshold is on the wrong side of a score; total_w and total_b sum them after each row, for the average.

    O(numbers + rows · levels).
    """
    missed = 0
    for at in range(len(order)):
        r = order[at]
        block_scores(rows, r, r + 1, w, spare[:1])
        score, move = spare[0], 0
        for k in range(len(b)):
            side = 1 if level[r] > k else -1
            if side * (score - b[k]) <= 0.0:
                move += side
                missed += 1
                b[k] -= side
        if move != 0:
            spare[0] = move
            block_back(rows, r, r + 1, spare[:1], w)
        for c in range(len(w)):
            total_w[c] += w[c]
        for k in range(len(b)):
            total_b[k] += b[k]
    return missed
