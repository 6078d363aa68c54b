"""Pair losses of one user at a time, as functions of scores: from ratings, comparisons, or errors of ratings.

A user has rows (rated or compared items), and `Known` says what is known of them. The functions named `user_...`
compute for a user's n rows (lo is the first) at scores s. The loss of a pair (i preferred to j), t = s_i - s_j, is
max(0, 1 - t)². For a `width` u > 0 it is the hinge max(0, 1 - t) with its kink rounded over u, the difference of two
squared hinges: (max(0, 1 - t)² - max(0, 1 - u - t)²) / 2u. With grades a user costs O(n log n), or O(n) if the order of
scores has changed little, whatever the number of pairs (`grades_window`).
"""

from typing import NamedTuple

import numpy as np

from hingerank.kernels.compiled import inner
from hingerank.kernels.sweeps import sort_run

FEW = 32  # up to so many grades sums over grades are direct, above it a Fenwick tree is faster
GRADES, PAIRS, TARGETS = 0, 1, 2


class Known(NamedTuple):
    """Grades, comparisons or targets of the users' rows; the arrays of the other two are empty.

    They have one type, so that each pass is compiled once. An entry is a row, or a comparison.
    """

    kind: int  # GRADES, PAIRS or TARGETS
    start: np.ndarray  # (T+1) the first entry of each user
    scale: np.ndarray  # (T) factor of the weights of a user's pairs
    weight: np.ndarray  # of each entry, empty if all are 1; the pair of graded rows i and j has weight_i · weight_j
    grade: np.ndarray = np.empty(0, np.uint8)  # 0, 1, ... of each row within its user; uint8 or int32
    grades: np.ndarray = np.empty(0, np.int32)  # (T) number of different grades of a user
    winner: np.ndarray = np.empty(0, np.int32)  # the preferred row of each comparison, numbered within the user
    loser: np.ndarray = np.empty(0, np.int32)
    target: np.ndarray = np.empty(0)  # what the score of each row should equal, with the loss weight (s - target)²
    margin: float = 1.0  # of comparisons; inf for the plain squared error (1 - t)²
    width: float = 0.0  # 0 for the squared hinge, else the width of the rounded kink of the hinge


class UserSpace(NamedTuple):
    """Work arrays for the largest user of a shard; rows "by score" are in increasing order of their scores.

    below, reach and degree have two windows: for margin 1, and for 1 - width if the hinge needs it.
    """

    order: np.ndarray  # (n) row at each place by score
    key: np.ndarray  # (n) scores in order
    grade: np.ndarray  # (n) grades in order
    weight: np.ndarray  # (n) weights in order, 1 if all are equal
    below: np.ndarray  # (2, n) by score: places more than a margin below
    reach: np.ndarray  # (2, n) by score: places up to less than a margin above
    degree: np.ndarray  # (2, n) by score: active pairs
    spare_at: np.ndarray
    spare_key: np.ndarray
    swap: np.ndarray
    low: np.ndarray  # (2, grades+1) sums by grade
    high: np.ndarray  # (2, grades+1)
    gap: np.ndarray  # (pairs) of explicit comparisons: half the second derivative
    hinge: np.ndarray  # (2) hinge at the last user_loss: its value, and the part of the gap due to rounding


@inner
def user_start(n, space):
    """Prepare for a user, before all other functions."""
    for p in range(n):
        space.order[p] = p


@inner
def user_loss(known, u, lo, n, s, z, space):
    """Return the loss, set z to its gradient, and store what the next three functions need."""
    if known.kind == GRADES:
        return grades_loss(known, u, lo, n, s, z, space)
    if known.kind == PAIRS:
        return pairs_loss(known, u, n, s, z, space)
    value, weighted = 0.0, len(known.weight) > 0
    for p in range(n):
        miss = s[p] - known.target[lo + p]
        force = known.weight[lo + p] * miss if weighted else miss
        value += force * miss
        z[p] = 2.0 * force
    return value


@inner
def user_curvature(known, u, lo, n, t, out, space):
    """Set out = (Hessian of the loss) t. O(n), of comparisons O(n + pairs)."""
    out[:n] = 0.0
    if known.kind == GRADES and known.grades[u] >= 2:
        scale, width = known.scale[u], known.width
        if width == 0.0:
            window_curvature(known, u, n, 0, 2.0 * scale, t, out, space)
        else:
            window_curvature(known, u, n, 0, scale / width, t, out, space)
            window_curvature(known, u, n, 1, -scale / width, t, out, space)
    elif known.kind == PAIRS:
        base = known.start[u]
        for e in range(base, known.start[u + 1]):
            i, j = known.winner[e], known.loser[e]
            force = 2.0 * space.gap[e - base] * (t[i] - t[j])
            out[i] += force
            out[j] -= force
    elif known.kind == TARGETS:
        weighted = len(known.weight) > 0
        for p in range(n):
            out[p] = 2.0 * known.weight[lo + p] * t[p] if weighted else 2.0 * t[p]


@inner
def user_diagonal(known, u, lo, n, out, space):
    """Set out to the diagonal of that Hessian."""
    out[:n] = 0.0
    if known.kind == GRADES:
        scale, width = known.scale[u], known.width
        for p in range(n):
            if width == 0.0:
                out[space.order[p]] = 2.0 * scale * space.degree[0, p]
            else:
                out[space.order[p]] = scale / width * (space.degree[0, p] - space.degree[1, p])
    elif known.kind == PAIRS:
        base = known.start[u]
        for e in range(base, known.start[u + 1]):
            out[known.winner[e]] += 2.0 * space.gap[e - base]
            out[known.loser[e]] += 2.0 * space.gap[e - base]
    else:
        weighted = len(known.weight) > 0
        for p in range(n):
            out[p] = 2.0 * known.weight[lo + p] if weighted else 2.0


@inner
def user_settle(known, lo, n, item, s, z, space):
    """Reorder graded rows by their scores, so that the next sort is fast."""
    if known.kind != GRADES:
        return
    for p in range(n):
        q = space.order[p]
        space.spare_at[p], space.spare_key[p], space.swap[p] = item[q], s[q], z[q]
        space.grade[p] = known.grade[lo + q]
    for p in range(n):
        item[p], s[p], z[p] = space.spare_at[p], space.spare_key[p], space.swap[p]
        known.grade[lo + p] = space.grade[p]
    if len(known.weight) > 0:
        for p in range(n):
            space.swap[p] = known.weight[lo + space.order[p]]
        for p in range(n):
            known.weight[lo + p] = space.swap[p]


@inner
def user_right(known, u, lo, n, s, space):
    """Return the number of correctly ordered pairs; equal scores count one half."""
    if known.kind == GRADES:
        return grades_right(known, u, lo, n, s, space)
    right = 0.0
    for e in range(known.start[u], known.start[u + 1]):
        t = s[known.winner[e]] - s[known.loser[e]]
        right += 1.0 if t > 0 else (0.5 if t == 0 else 0.0)
    return right


# Ratings: all pairs of different grades, not listed. `put`, `lower` and `higher` keep sums by grade.


@inner
def put(sums, grade, grades, x):
    """Add x to the sum of a grade."""
    if grades <= FEW:
        sums[grade] += x
    else:
        g = grade + 1
        while g <= grades:
            sums[g] += x
            g += g & -g


@inner
def lower(sums, grade, grades):
    """Return the sum over grades below `grade`. O(grades) if few, else O(log grades)."""
    total = 0.0
    if grades <= FEW:
        for g in range(grade):
            total += sums[g]
    else:
        g = grade
        while g > 0:
            total += sums[g]
            g -= g & -g
    return total


@inner
def higher(sums, grade, grades):
    """Return the sum over grades above `grade`."""
    if grades <= FEW:
        total = 0.0
        for g in range(grade + 1, grades):
            total += sums[g]
        return total
    return lower(sums, grades, grades) - lower(sums, grade + 1, grades)


@inner
def sort_rows(known, lo, n, s, space):
    """Sort order, key, grade and weight by increasing score from the last order. O(n log n), O(n) if it still holds."""
    order, key, grade = space.order, space.key, space.grade
    for p in range(n):
        key[p] = s[order[p]]
    sort_run(order, key, space.spare_at, space.spare_key, 0, n)
    for p in range(n):
        grade[p] = known.grade[lo + order[p]]
    if len(known.weight) > 0:
        for p in range(n):
            space.weight[p] = known.weight[lo + order[p]]


@inner
def grades_loss(known, u, lo, n, s, z, space):
    """Return the loss over all pairs of different grades. Scores are centred, so that differences lose few digits."""
    z[:n] = 0.0
    space.hinge[:] = 0.0
    if known.grades[u] < 2:
        space.degree[:, :n] = 0.0
        return 0.0
    sort_rows(known, lo, n, s, space)
    middle = 0.5 * (space.key[0] + space.key[n - 1])
    for p in range(n):
        space.key[p] -= middle
    scale, width = known.scale[u], known.width
    if width == 0.0:
        return scale * grades_window(known, u, n, 0, 1.0, 2.0 * scale, z, space)[1]
    gaps, squares = grades_window(known, u, n, 0, 1.0, scale / width, z, space)
    less, inside = grades_window(known, u, n, 1, 1.0 - width, -scale / width, z, space)
    space.hinge[0] = scale * gaps
    space.hinge[1] = scale * (gaps - (squares - inside) / width + less)
    return scale * (squares - inside) / (2.0 * width)


@inner
def grades_window(known, u, n, window, margin, force, z, space):
    """Return the sums of gap and gap² over pairs with gap = margin - s_i + s_j > 0; z += force · gaps by row. O(n).

    Row i as a winner has active pairs with lower grades that score more than s_i - margin. As a loser it has active
    pairs with higher grades that score less than s_i + margin. Two pointers follow i: a row is removed from `low` when
    s_i - margin reaches it, and added to `high` when s_i + margin passes it. So both hold, by grade, the number of
    active rows and the sum of their scores (weighted, if rows have weights). The sum of gap² is margin times that of
    gap plus that of gap (s_j - s_i).
    """
    G, order, key, grade, weight, low, high = (
        known.grades[u], space.order, space.key, space.grade, space.weight, space.low, space.high
    )  # fmt: skip
    below, reach, degree = space.below[window], space.reach[window], space.degree[window]
    low[:, : G + 1] = 0.0
    high[:, : G + 1] = 0.0
    for p in range(n):
        put(low[0], grade[p], G, weight[p])
        put(low[1], grade[p], G, weight[p] * key[p])
    gaps = inner = 0.0
    a = b = 0
    for p in range(n):
        x, g = key[p], grade[p]
        while x - key[a] >= margin:
            put(low[0], grade[a], G, -weight[a])
            put(low[1], grade[a], G, -weight[a] * key[a])
            a += 1
        while b < n and key[b] - x < margin:
            put(high[0], grade[b], G, weight[b])
            put(high[1], grade[b], G, weight[b] * key[b])
            b += 1
        losers, winners = lower(low[0], g, G), higher(high[0], g, G)
        as_winner = weight[p] * (losers * (margin - x) + lower(low[1], g, G))
        as_loser = weight[p] * (winners * (margin + x) - higher(high[1], g, G))
        below[p], reach[p], degree[p] = a, b, weight[p] * (losers + winners)
        gaps += as_winner
        inner += x * (as_loser - as_winner)
        z[order[p]] += force * (as_loser - as_winner)
    return gaps, margin * gaps + inner


@inner
def window_curvature(known, u, n, window, force, t, out, space):
    """out += force · (degree t minus the weighted sum of t over active partners)."""
    order, grade, sorted_t, low, high = space.order, space.grade, space.spare_key, space.low[0], space.high[0]
    G, weight, below, reach, degree = (
        known.grades[u], space.weight, space.below[window], space.reach[window], space.degree[window]
    )  # fmt: skip
    low[: G + 1] = 0.0
    high[: G + 1] = 0.0
    for p in range(n):
        sorted_t[p] = weight[p] * t[order[p]]
        put(low, grade[p], G, sorted_t[p])
    a = b = 0
    for p in range(n):
        while a < below[p]:
            put(low, grade[a], G, -sorted_t[a])
            a += 1
        while b < reach[p]:
            put(high, grade[b], G, sorted_t[b])
            b += 1
        partners = lower(low, grade[p], G) + higher(high, grade[p], G)
        out[order[p]] += force * (degree[p] * t[order[p]] - weight[p] * partners)


@inner
def grades_right(known, u, lo, n, s, space):
    """Return the number of correctly ordered pairs of different grades; equal scores count one half. O(n log n)."""
    G = known.grades[u]
    if G < 2:
        return 0.0
    sort_rows(known, lo, n, s, space)
    key, grade, under, upto = space.key, space.grade, space.low[0], space.high[0]
    under[: G + 1] = 0.0
    upto[: G + 1] = 0.0
    right = 0.0
    a = b = 0
    for p in range(n):
        while key[a] < key[p]:
            put(under, grade[a], G, 0.5)
            a += 1
        while b < n and key[b] <= key[p]:
            put(upto, grade[b], G, 0.5)
            b += 1
        right += lower(under, grade[p], G) + lower(upto, grade[p], G)
    return right


# Comparisons: the pairs are listed.


@inner
def pairs_loss(known, u, n, s, z, space):
    """Return the loss (or squared error) over a user's comparisons. O(n + pairs)."""
    z[:n] = 0.0
    space.hinge[:] = 0.0
    value, base, width = 0.0, known.start[u], known.width
    for e in range(base, known.start[u + 1]):
        i, j = known.winner[e], known.loser[e]
        gap = 1.0 - s[i] + s[j]
        weight = known.scale[u] * known.weight[e] if len(known.weight) > 0 else known.scale[u]
        space.gap[e - base] = 0.0
        if 1.0 - gap < known.margin:
            if width == 0.0:
                space.gap[e - base] = weight
                force = 2.0 * weight * gap
                value += weight * gap * gap
            elif gap < width:
                space.gap[e - base] = weight / (2.0 * width)
                force = weight * gap / width
                value += 0.5 * force * gap
            else:
                force = weight
                value += weight * (gap - 0.5 * width)
            if width > 0.0:
                space.hinge[0] += weight * gap
                space.hinge[1] += (weight - force) * gap
            z[i] -= force
            z[j] += force
    return value
