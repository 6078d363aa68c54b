"""Pair losses of one user at a time, in score space: from ratings (pair-free), from comparisons, or rating errors.

A user owns rows (rated or compared items). What is known about them is one of three tuples, and these functions, chosen
by the tuple's type when compiling, answer for a user's n rows (lo is the first) at scores s:

    user_start(known, n, space)                  before anything else about a user
    user_loss(known, u, lo, n, s, z, space)      the loss; z = its gradient; leaves what the next three need
    user_bend(known, u, lo, n, t, out, space)    out = (Hessian of the loss) t
    user_degree(known, u, lo, n, out, space)     out = the diagonal of that Hessian
    user_settle(known, lo, n, item, s, z, space) put the rows in the order of their scores: the next sort is short
    user_right(known, u, lo, n, s, space)        pairs in the right order, those of equal score counting one half

The loss of a pair (i preferred to j) is max(0, 1 - s_i + s_j)^2. With grades a user costs O(n log n), O(n) when the
scores' order has hardly changed, whatever the number of pairs: see kernels/personal_losses.py.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from hingerank.personal.pass_losses import grades_bend, grades_loss, grades_right, pairs_bend, pairs_loss


class UserGrades(NamedTuple):
    """Grades 0, 1, ... of each row among its user's own."""

    grade: np.ndarray  # (N) uint8 or int32
    grades: np.ndarray  # (T) different grades that a user gave
    scale: np.ndarray  # (T) weight of every pair of a user


class UserPairs(NamedTuple):
    """Explicit comparisons: row `winner` above row `loser`, both counted within the user."""

    start: np.ndarray  # (T+1)
    winner: np.ndarray
    loser: np.ndarray
    weight: np.ndarray  # of each comparison; empty where all weigh alike
    scale: np.ndarray  # (T) weight of every comparison of a user, besides
    margin: float  # 1, or inf for the plain squared error (1 - t)^2


class UserTargets(NamedTuple):
    """A number that each row's score should equal: loss (s - target)^2."""

    target: np.ndarray  # (N)


class UserSpace(NamedTuple):
    """Scratch for the widest user of a shard; rows "by score" are in ascending order of their scores."""

    order: np.ndarray  # (n) row at each place by score
    key: np.ndarray  # (n) scores in order
    grade: np.ndarray  # (n) grades in order
    below: np.ndarray  # (n) by score: places more than a margin below
    reach: np.ndarray  # (n) by score: places up to less than a margin above
    degree: np.ndarray  # (n) by score: active pairs
    spare_at: np.ndarray
    spare_key: np.ndarray
    swap: np.ndarray
    low: np.ndarray  # (2, grades+1) sums by grade
    high: np.ndarray  # (2, grades+1)
    gap: np.ndarray  # (pairs) of explicit comparisons: weight where active


@njit(cache=True, nogil=True)
def user_space(sizes):
    """Scratch for users of at most sizes = (rows, grades, comparisons)."""
    n, grades, pairs = sizes
    i32 = np.int32
    return UserSpace(
        np.empty(n, i32), np.empty(n), np.empty(n, np.int64), np.empty(n, i32), np.empty(n, i32), np.empty(n),
        np.empty(n, i32), np.empty(n), np.empty(n), np.empty((2, grades + 1)), np.empty((2, grades + 1)),
        np.empty(pairs),
    )  # fmt: skip


def user_start(known, n, space):
    raise NotImplementedError("compiled code only")


def user_loss(known, u, lo, n, s, z, space):
    raise NotImplementedError("compiled code only")


def user_bend(known, u, lo, n, t, out, space):
    raise NotImplementedError("compiled code only")


def user_degree(known, u, lo, n, out, space):
    raise NotImplementedError("compiled code only")


def user_settle(known, lo, n, item, s, z, space):
    raise NotImplementedError("compiled code only")


def user_right(known, u, lo, n, s, space):
    raise NotImplementedError("compiled code only")


def _kind(known):
    return known.instance_class


@overload(user_start)
def _user_start(known, n, space):
    if _kind(known) is UserGrades:

        def grades(known, n, space):
            for p in range(n):
                space.order[p] = p

        return grades

    def nothing(known, n, space):
        pass

    return nothing


@overload(user_loss)
def _user_loss(known, u, lo, n, s, z, space):
    if _kind(known) is UserGrades:
        return lambda known, u, lo, n, s, z, space: grades_loss(known, u, lo, n, s, z, space)
    if _kind(known) is UserPairs:
        return lambda known, u, lo, n, s, z, space: pairs_loss(known, u, n, s, z, space)

    def targets(known, u, lo, n, s, z, space):
        value = 0.0
        for p in range(n):
            miss = s[p] - known.target[lo + p]
            value += miss * miss
            z[p] = 2.0 * miss
        return value

    return targets


@overload(user_bend)
def _user_bend(known, u, lo, n, t, out, space):
    if _kind(known) is UserGrades:
        return lambda known, u, lo, n, t, out, space: grades_bend(known, u, lo, n, t, out, space)
    if _kind(known) is UserPairs:
        return lambda known, u, lo, n, t, out, space: pairs_bend(known, u, n, t, out, space)

    def targets(known, u, lo, n, t, out, space):
        for p in range(n):
            out[p] = 2.0 * t[p]

    return targets


@overload(user_degree)
def _user_degree(known, u, lo, n, out, space):
    if _kind(known) is UserGrades:

        def grades(known, u, lo, n, out, space):
            for p in range(n):
                out[space.order[p]] = 2.0 * known.scale[u] * space.degree[p]

        return grades
    if _kind(known) is UserPairs:

        def pairs(known, u, lo, n, out, space):
            out[:n] = 0.0
            base = known.start[u]
            for e in range(base, known.start[u + 1]):
                out[known.winner[e]] += 2.0 * space.gap[e - base]
                out[known.loser[e]] += 2.0 * space.gap[e - base]

        return pairs

    def targets(known, u, lo, n, out, space):
        out[:n] = 2.0

    return targets


@overload(user_settle)
def _user_settle(known, lo, n, item, s, z, space):
    if _kind(known) is UserGrades:

        def grades(known, lo, n, item, s, z, space):
            for p in range(n):
                q = space.order[p]
                space.spare_at[p], space.spare_key[p], space.swap[p] = item[q], s[q], z[q]
                space.below[p] = known.grade[lo + q]
            for p in range(n):
                item[p], s[p], z[p] = space.spare_at[p], space.spare_key[p], space.swap[p]
                known.grade[lo + p] = space.below[p]

        return grades

    def nothing(known, lo, n, item, s, z, space):
        pass

    return nothing


@overload(user_right)
def _user_right(known, u, lo, n, s, space):
    if _kind(known) is UserGrades:
        return lambda known, u, lo, n, s, space: grades_right(known, u, lo, n, s, space)

    def pairs(known, u, lo, n, s, space):
        right = 0.0
        for e in range(known.start[u], known.start[u + 1]):
            t = s[known.winner[e]] - s[known.loser[e]]
            right += 1.0 if t > 0 else (0.5 if t == 0 else 0.0)
        return right

    return pairs
