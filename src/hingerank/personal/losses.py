"""Pair losses of one user at a time, in score space: from ratings (pair-free), from comparisons, or rating errors.

A user owns rows (rated or compared items). What is known about them is one of three tuples, and the functions named
`user_...`, chosen by the tuple's type when compiling, answer for a user's n rows (lo is the first) at scores s. The
loss of a pair (i preferred to j) is max(0, 1 - s_i + s_j)^2. With grades a user costs O(n log n), O(n) when the scores'
order has hardly changed, whatever the number of pairs: see `grades_loss`.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import overload

from hingerank.kernels.compiled import PART_OF_A_KERNEL, inner
from hingerank.kernels.sweeps import sort_run

FEW = 32  # grades up to which a sum over lower or higher grades is simply added up, above it a Fenwick tree helps


class UserGrades(NamedTuple):
    """Grades 0, 1, ... of each row among its user's own; a pair of rows i and j weighs scale · weight_i · weight_j."""

    grade: np.ndarray  # (N) uint8 or int32
    grades: np.ndarray  # (T) different grades that a user gave
    scale: np.ndarray  # (T) weight of every pair of a user
    weight: np.ndarray  # (N) of each row; empty where all weigh 1


class UserPairs(NamedTuple):
    """Explicit comparisons: row `winner` above row `loser`, both counted within the user."""

    start: np.ndarray  # (T+1)
    winner: np.ndarray
    loser: np.ndarray
    weight: np.ndarray  # of each comparison; empty where all weigh alike
    scale: np.ndarray  # (T) weight of every comparison of a user, besides
    margin: float  # 1, or inf for the plain squared error (1 - t)^2


class UserTargets(NamedTuple):
    """A number that each row's score should equal: loss weight (s - target)^2."""

    target: np.ndarray  # (N)
    weight: np.ndarray  # (N); empty where all weigh 1


Known = UserGrades | UserPairs | UserTargets


class UserSpace(NamedTuple):
    """Scratch for the widest user of a shard; rows "by score" are in ascending order of their scores."""

    order: np.ndarray  # (n) row at each place by score
    key: np.ndarray  # (n) scores in order
    grade: np.ndarray  # (n) grades in order
    weight: np.ndarray  # (n) weights in order, 1 where all weigh alike
    below: np.ndarray  # (n) by score: places more than a margin below
    reach: np.ndarray  # (n) by score: places up to less than a margin above
    degree: np.ndarray  # (n) by score: active pairs
    spare_at: np.ndarray
    spare_key: np.ndarray
    swap: np.ndarray
    low: np.ndarray  # (2, grades+1) sums by grade
    high: np.ndarray  # (2, grades+1)
    gap: np.ndarray  # (pairs) of explicit comparisons: weight where active


@inner(allocates=True)
def user_space(sizes):
    """Scratch for users of at most sizes = (rows, grades, comparisons)."""
    n, grades, pairs = sizes
    i32 = np.int32
    return UserSpace(
        np.empty(n, i32), np.empty(n), np.empty(n, np.int64), np.ones(n), np.empty(n, i32), np.empty(n, i32),
        np.empty(n), np.empty(n, i32), np.empty(n), np.empty(n), np.empty((2, grades + 1)), np.empty((2, grades + 1)),
        np.empty(pairs),
    )  # fmt: skip


def user_start(known, n, space):
    """Before anything else about a user."""
    raise NotImplementedError("compiled code only")


def user_loss(known, u, lo, n, s, z, space):
    """The loss; z = its gradient; leaves what the next three need."""
    raise NotImplementedError("compiled code only")


def user_curvature(known, u, lo, n, t, out, space):
    """out = (Hessian of the loss) t."""
    raise NotImplementedError("compiled code only")


def user_diagonal(known, u, lo, n, out, space):
    """out = the diagonal of that Hessian."""
    raise NotImplementedError("compiled code only")


def user_settle(known, lo, n, item, s, z, space):
    """Put the rows in the order of their scores: the next sort is short."""
    raise NotImplementedError("compiled code only")


def user_right(known, u, lo, n, s, space):
    """Pairs in the right order, those of equal score counting one half."""
    raise NotImplementedError("compiled code only")


# Ratings: all pairs of differently graded rows, without listing them. `put`, `lower` and `higher` keep sums by grade.


@inner
def put(sums, grade, grades, x):
    """Add x to what is known of a grade."""
    if grades <= FEW:
        sums[grade] += x
    else:
        g = grade + 1
        while g <= grades:
            sums[g] += x
            g += g & -g


@inner
def lower(sums, grade, grades):
    """The sum over grades below `grade`. O(grades) if few, else O(log grades)."""
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
    """The sum over grades above `grade`."""
    if grades <= FEW:
        total = 0.0
        for g in range(grade + 1, grades):
            total += sums[g]
        return total
    return lower(sums, grades, grades) - lower(sums, grade + 1, grades)


@inner
def sort_rows(known, lo, n, s, space):
    """Bring order, key, grade and weight to ascending scores, from the last order. O(n log n), O(n) if it holds."""
    order, key, grade = space.order, space.key, space.grade
    for p in range(n):
        key[p] = s[order[p]]
    sort_run(order, key, space.spare_at, space.spare_key, 0, n)
    for p in range(n):
        grade[p] = known.grade[lo + order[p]]
    if len(known.weight) > 0:
        for p in range(n):
            space.weight[p] = known.weight[lo + order[p]]


def grades_start(known, n, space):
    for p in range(n):
        space.order[p] = p


def grades_loss(known, u, lo, n, s, z, space):
    """Squared hinge over all pairs of different grades, by one sweep up the sorted scores.

    Row i should beat the lower grades that score more than s_i - 1, and is in the way of the higher grades that score
    less than s_i + 1. Two pointers follow: rows are taken from `low` once s_i - 1 has reached them, and put into `high`
    once s_i + 1 has passed them, so that both know, by grade, how many are left and the sum of their scores (both
    weighted, where rows have weights). With gap = 1 - s_i + s_j the loss is the sum of gap plus that of
    gap (s_j - s_i), which is s·z / 2. Scores are taken from their middle, so that little is lost in differences.
    """
    G, scale = known.grades[u], known.scale[u]
    if G < 2:
        z[:n] = 0.0
        space.degree[:n] = 0.0
        return 0.0
    sort_rows(known, lo, n, s, space)
    order, key, grade, weight, low, high = space.order, space.key, space.grade, space.weight, space.low, space.high
    middle = 0.5 * (key[0] + key[n - 1])
    low[:, : G + 1] = 0.0
    high[:, : G + 1] = 0.0
    for p in range(n):
        key[p] -= middle
        put(low[0], grade[p], G, weight[p])
        put(low[1], grade[p], G, weight[p] * key[p])
    gaps = inner = 0.0
    a = b = 0
    for p in range(n):
        x, g = key[p], grade[p]
        while x - key[a] >= 1.0:
            put(low[0], grade[a], G, -weight[a])
            put(low[1], grade[a], G, -weight[a] * key[a])
            a += 1
        while b < n and key[b] - x < 1.0:
            put(high[0], grade[b], G, weight[b])
            put(high[1], grade[b], G, weight[b] * key[b])
            b += 1
        losers, winners = lower(low[0], g, G), higher(high[0], g, G)
        as_winner = weight[p] * (losers * (1.0 - x) + lower(low[1], g, G))
        as_loser = weight[p] * (winners * (1.0 + x) - higher(high[1], g, G))
        space.below[p], space.reach[p] = a, b
        space.degree[p] = weight[p] * (losers + winners)
        gaps += as_winner
        inner += x * (as_loser - as_winner)
        z[order[p]] = 2.0 * scale * (as_loser - as_winner)
    return scale * (gaps + inner)


def grades_curvature(known, u, lo, n, t, out, space):
    """(Hessian at the last user_loss) t: degree t less the weighted sum of t over active partners. O(n)."""
    G, scale = known.grades[u], 2.0 * known.scale[u]
    if G < 2:
        out[:n] = 0.0
        return
    order, grade, sorted_t, low, high = space.order, space.grade, space.spare_key, space.low[0], space.high[0]
    weight = space.weight
    low[: G + 1] = 0.0
    high[: G + 1] = 0.0
    for p in range(n):
        sorted_t[p] = weight[p] * t[order[p]]
        put(low, grade[p], G, sorted_t[p])
    a = b = 0
    for p in range(n):
        while a < space.below[p]:
            put(low, grade[a], G, -sorted_t[a])
            a += 1
        while b < space.reach[p]:
            put(high, grade[b], G, sorted_t[b])
            b += 1
        partners = lower(low, grade[p], G) + higher(high, grade[p], G)
        out[order[p]] = scale * (space.degree[p] * t[order[p]] - weight[p] * partners)


def grades_diagonal(known, u, lo, n, out, space):
    for p in range(n):
        out[space.order[p]] = 2.0 * known.scale[u] * space.degree[p]


def grades_settle(known, lo, n, item, s, z, space):
    for p in range(n):
        q = space.order[p]
        space.spare_at[p], space.spare_key[p], space.swap[p] = item[q], s[q], z[q]
        space.below[p] = known.grade[lo + q]
    for p in range(n):
        item[p], s[p], z[p] = space.spare_at[p], space.spare_key[p], space.swap[p]
        known.grade[lo + p] = space.below[p]
    if len(known.weight) > 0:
        for p in range(n):
            space.swap[p] = known.weight[lo + space.order[p]]
        for p in range(n):
            known.weight[lo + p] = space.swap[p]


def grades_right(known, u, lo, n, s, space):
    """Pairs of different grades in the right order, equal scores counting one half. O(n log n)."""
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


def pairs_loss(known, u, lo, n, s, z, space):
    """Squared hinge (or squared error) over a user's comparisons. O(n + pairs)."""
    z[:n] = 0.0
    value, base, weighted = 0.0, known.start[u], len(known.weight) > 0
    for e in range(base, known.start[u + 1]):
        i, j = known.winner[e], known.loser[e]
        gap = 1.0 - s[i] + s[j]
        weight = known.scale[u] * known.weight[e] if weighted else known.scale[u]
        active = 1.0 - gap < known.margin
        space.gap[e - base] = weight if active else 0.0
        if active:
            force = weight * gap
            value += force * gap
            z[i] -= 2.0 * force
            z[j] += 2.0 * force
    return value


def pairs_curvature(known, u, lo, n, t, out, space):
    """(Hessian at the last user_loss) t. O(n + pairs)."""
    out[:n] = 0.0
    base = known.start[u]
    for e in range(base, known.start[u + 1]):
        i, j = known.winner[e], known.loser[e]
        force = 2.0 * space.gap[e - base] * (t[i] - t[j])
        out[i] += force
        out[j] -= force


def pairs_diagonal(known, u, lo, n, out, space):
    out[:n] = 0.0
    base = known.start[u]
    for e in range(base, known.start[u + 1]):
        out[known.winner[e]] += 2.0 * space.gap[e - base]
        out[known.loser[e]] += 2.0 * space.gap[e - base]


def pairs_right(known, u, lo, n, s, space):
    right = 0.0
    for e in range(known.start[u], known.start[u + 1]):
        t = s[known.winner[e]] - s[known.loser[e]]
        right += 1.0 if t > 0 else (0.5 if t == 0 else 0.0)
    return right


# Ratings to be met.


def targets_loss(known, u, lo, n, s, z, space):
    value, weighted = 0.0, len(known.weight) > 0
    for p in range(n):
        miss = s[p] - known.target[lo + p]
        force = known.weight[lo + p] * miss if weighted else miss
        value += force * miss
        z[p] = 2.0 * force
    return value


def targets_curvature(known, u, lo, n, t, out, space):
    weighted = len(known.weight) > 0
    for p in range(n):
        out[p] = 2.0 * known.weight[lo + p] * t[p] if weighted else 2.0 * t[p]


def targets_diagonal(known, u, lo, n, out, space):
    weighted = len(known.weight) > 0
    for p in range(n):
        out[p] = 2.0 * known.weight[lo + p] if weighted else 2.0


# Which function answers for which tuple.


def no_start(known, n, space):
    pass


def no_settle(known, lo, n, item, s, z, space):
    pass


@overload(user_start, jit_options=PART_OF_A_KERNEL)
def _user_start(known, n, space):
    return grades_start if known.instance_class is UserGrades else no_start


@overload(user_loss, jit_options=PART_OF_A_KERNEL)
def _user_loss(known, u, lo, n, s, z, space):
    return {UserGrades: grades_loss, UserPairs: pairs_loss, UserTargets: targets_loss}[known.instance_class]


@overload(user_curvature, jit_options=PART_OF_A_KERNEL)
def _user_curvature(known, u, lo, n, t, out, space):
    kinds = {UserGrades: grades_curvature, UserPairs: pairs_curvature, UserTargets: targets_curvature}
    return kinds[known.instance_class]


@overload(user_diagonal, jit_options=PART_OF_A_KERNEL)
def _user_diagonal(known, u, lo, n, out, space):
    kinds = {UserGrades: grades_diagonal, UserPairs: pairs_diagonal, UserTargets: targets_diagonal}
    return kinds[known.instance_class]


@overload(user_settle, jit_options=PART_OF_A_KERNEL)
def _user_settle(known, lo, n, item, s, z, space):
    return grades_settle if known.instance_class is UserGrades else no_settle


@overload(user_right, jit_options=PART_OF_A_KERNEL)
def _user_right(known, u, lo, n, s, space):
    return grades_right if known.instance_class is UserGrades else pairs_right
