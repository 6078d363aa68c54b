"""Pair losses of one user at a time, in score space: from ratings (pair-free), from comparisons, or rating errors.

A user owns rows (rated or compared items). What is known about them is one of three tuples, and three functions,
chosen by the tuple's type when compiling, answer for a user's n rows at scores s:

    user_start(known, u, n, space)          lay out the user's pairs (once for a user)
    user_loss(known, u, n, s, z, space)     the loss; z = its gradient; leaves what the next line needs
    user_bend(known, u, n, t, out, space)   out = (Hessian of the loss) t
    user_degree(known, u, n, out, space)    out = the diagonal of that Hessian
    user_settle(known, n, item, s, z, space)   put rows in the order found, so that the next sort is short
    user_right(known, u, n, s, space)       pairs in the right order, those of equal score counting one half

The loss of a pair (i preferred to j) is max(0, 1 - s_i + s_j)^2. With grades it costs O(n log n), whatever the number
of pairs: see kernels/windows.py for the sweep and kernels/grade_tree.py for the tree of nodes.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from hingerank.kernels.windows import add_neighbours, merge_runs, sort_run, sweep_node


class UserGrades(NamedTuple):
    """Rows of a user lie by ascending grade; a leaf is a run of equal grades."""

    leaf_start: np.ndarray  # (T+1)
    leaf: np.ndarray  # first row of each leaf, counted within its user
    scale: np.ndarray  # (T) weight of every pair of a user


class UserPairs(NamedTuple):
    """Explicit comparisons: row `winner` above row `loser`, both counted within the user."""

    start: np.ndarray  # (T+1)
    winner: np.ndarray
    loser: np.ndarray
    weight: np.ndarray
    margin: float  # 1, or inf for the plain squared error (1 - t)^2


class UserTargets(NamedTuple):
    """A number that each row's score should equal: loss (s - target)^2."""

    start: np.ndarray  # (T+1)
    target: np.ndarray


class UserSpace(NamedTuple):
    """Scratch for the widest user of a shard."""

    order: np.ndarray  # (n) rows within each leaf by score
    at: np.ndarray
    spare_at: np.ndarray
    key: np.ndarray
    spare_key: np.ndarray
    net0: np.ndarray
    net1: np.ndarray
    degree: np.ndarray  # (n) diagonal of the Hessian
    ones: np.ndarray
    running: np.ndarray  # (n+1)
    node: np.ndarray  # (nodes, 4)
    slot: np.ndarray  # (nodes+1)
    stack: np.ndarray
    member: np.ndarray  # (slots)
    window: np.ndarray  # (slots)
    gap: np.ndarray  # (pairs) of explicit comparisons


@njit(cache=True, nogil=True)
def user_space(sizes):
    """Scratch for users of at most sizes = (rows, nodes, slots, comparisons)."""
    n, nodes, slots, pairs = sizes
    i32 = np.int32
    return UserSpace(
        np.empty(n, i32), np.empty(n, i32), np.empty(n, i32), np.empty(n), np.empty(n), np.empty(n), np.empty(n),
        np.empty(n), np.ones(n), np.empty(n + 1), np.empty((nodes, 4), np.int64), np.empty(nodes + 1, np.int64),
        np.empty((nodes + 2, 2), np.int64), np.empty(slots, i32), np.empty(slots, i32), np.empty(pairs),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def grow_user_tree(leaf, first, last, n, node, slot, stack):
    """Nodes (losers' first, end, winners' first, end) of a user's leaves first:last, children first; their number."""
    count = last - first
    if count < 2:
        return 0
    stack[0, 0], stack[0, 1] = 0, count
    depth, at = 1, count - 1
    while depth > 0:
        depth -= 1
        i, j = stack[depth, 0], stack[depth, 1]
        begin = leaf[first + i]
        end = leaf[first + j] if j < count else n
        m = i + 1
        while m + 1 < j and abs(2 * leaf[first + m + 1] - begin - end) <= abs(2 * leaf[first + m] - begin - end):
            m += 1
        at -= 1
        node[at, 0], node[at, 1], node[at, 2], node[at, 3] = begin, leaf[first + m], leaf[first + m], end
        if m - i > 1:
            stack[depth, 0], stack[depth, 1] = i, m
            depth += 1
        if j - m > 1:
            stack[depth, 0], stack[depth, 1] = m, j
            depth += 1
    slot[0] = 0
    for k in range(count - 1):
        slot[k + 1] = slot[k] + node[k, 3] - node[k, 0]
    return count - 1


@njit(cache=True, nogil=True)
def widest_tree(start, leaf_start, leaf, first, last):
    """(rows, nodes, slots) enough for any user of first:last."""
    n = nodes = slots = 1
    for u in range(first, last):
        nodes = max(nodes, leaf_start[u + 1] - leaf_start[u])
    node, slot, stack = (
        np.empty((nodes, 4), np.int64),
        np.empty(nodes + 1, np.int64),
        np.empty((nodes + 2, 2), np.int64),
    )
    for u in range(first, last):
        rows = start[u + 1] - start[u]
        n = max(n, rows)
        used = grow_user_tree(leaf, leaf_start[u], leaf_start[u + 1], rows, node, slot, stack)
        if used > 0:
            slots = max(slots, slot[used])
    return n, nodes, slots


def user_start(known, u, n, space):
    raise NotImplementedError("compiled code only")


def user_loss(known, u, n, s, z, space):
    raise NotImplementedError("compiled code only")


def user_bend(known, u, n, t, out, space):
    raise NotImplementedError("compiled code only")


def user_degree(known, u, n, out, space):
    raise NotImplementedError("compiled code only")


def user_settle(known, n, item, s, z, space):
    raise NotImplementedError("compiled code only")


def user_right(known, u, n, s, space):
    raise NotImplementedError("compiled code only")


def _kind(known):
    return known.instance_class


@overload(user_start)
def _user_start(known, u, n, space):
    if _kind(known) is UserGrades:

        def grades(known, u, n, space):
            grow_user_tree(
                known.leaf, known.leaf_start[u], known.leaf_start[u + 1], n, space.node, space.slot, space.stack
            )
            for p in range(n):
                space.order[p] = p

        return grades

    def nothing(known, u, n, space):
        pass

    return nothing


@overload(user_loss)
def _user_loss(known, u, n, s, z, space):
    if _kind(known) is UserGrades:
        return lambda known, u, n, s, z, space: grades_loss(known, u, n, s, z, space)
    if _kind(known) is UserPairs:
        return lambda known, u, n, s, z, space: pairs_loss(known, u, n, s, z, space)
    return lambda known, u, n, s, z, space: targets_loss(known, u, n, s, z)


@overload(user_bend)
def _user_bend(known, u, n, t, out, space):
    if _kind(known) is UserGrades:
        return lambda known, u, n, t, out, space: grades_bend(known, u, n, t, out, space)
    if _kind(known) is UserPairs:
        return lambda known, u, n, t, out, space: pairs_bend(known, u, n, t, out, space)

    def targets(known, u, n, t, out, space):
        for p in range(n):
            out[p] = 2.0 * t[p]

    return targets


@overload(user_degree)
def _user_degree(known, u, n, out, space):
    if _kind(known) is UserGrades:

        def grades(known, u, n, out, space):
            for p in range(n):
                out[p] = 2.0 * space.degree[p]

        return grades
    if _kind(known) is UserPairs:

        def pairs(known, u, n, out, space):
            out[:n] = 0.0
            base = known.start[u]
            for e in range(base, known.start[u + 1]):
                out[known.winner[e]] += 2.0 * space.gap[e - base]
                out[known.loser[e]] += 2.0 * space.gap[e - base]

        return pairs

    def targets(known, u, n, out, space):
        out[:n] = 2.0

    return targets


@overload(user_settle)
def _user_settle(known, n, item, s, z, space):
    if _kind(known) is UserGrades:

        def grades(known, n, item, s, z, space):
            for p in range(n):
                q = space.order[p]
                space.at[p], space.net0[p], space.net1[p] = item[q], s[q], z[q]
            for p in range(n):
                item[p], s[p], z[p] = space.at[p], space.net0[p], space.net1[p]

        return grades

    def nothing(known, n, item, s, z, space):
        pass

    return nothing


@overload(user_right)
def _user_right(known, u, n, s, space):
    if _kind(known) is UserGrades:
        return lambda known, u, n, s, space: grades_right(known, u, n, s, space)

    def pairs(known, u, n, s, space):
        right = 0.0
        for e in range(known.start[u], known.start[u + 1]):
            t = s[known.winner[e]] - s[known.loser[e]]
            right += 1.0 if t > 0 else (0.5 if t == 0 else 0.0)
        return right

    return pairs


@njit(cache=True, nogil=True)
def grades_right(known, u, n, s, space):
    """Pairs of different grades in the right order. O(n log n)."""
    at, key = space.at, space.key
    first, last = known.leaf_start[u], known.leaf_start[u + 1]
    for p in range(n):
        at[p] = space.order[p]
        key[p] = s[space.order[p]]
    for k in range(first, last):
        end = known.leaf[k + 1] if k + 1 < last else n
        sort_run(at, key, space.spare_at, space.spare_key, known.leaf[k], end)
    right = 0.0
    for k in range(last - first - 1):
        l0, w0, w1 = space.node[k, 0], space.node[k, 2], space.node[k, 3]
        below = upto = l0
        for i in range(w0, w1):
            while below < w0 and key[below] < key[i]:
                below += 1
            while upto < w0 and key[upto] <= key[i]:
                upto += 1
            right += 0.5 * (below + upto) - l0
        merge_runs(at, key, space.spare_at, space.spare_key, l0, w0, w1)
    return right


@njit(cache=True, nogil=True)
def grades_loss(known, u, n, s, z, space):
    """Squared hinge over all pairs of different grades. O(n log n), O(n log G) when `order` is nearly right."""
    order, at, key = space.order, space.at, space.key
    net0, net1, degree = space.net0, space.net1, space.degree
    first, last = known.leaf_start[u], known.leaf_start[u + 1]
    scale = known.scale[u]
    for p in range(n):
        at[p] = order[p]
        key[p] = s[order[p]]
        net0[p] = net1[p] = degree[p] = 0.0
    for k in range(first, last):
        end = known.leaf[k + 1] if k + 1 < last else n
        sort_run(at, key, space.spare_at, space.spare_key, known.leaf[k], end)
    order[:n] = at[:n]
    value = 0.0
    for k in range(last - first - 1):
        node = space.node[k]
        value += sweep_node(
            key, at, node, space.slot[k], space.ones, space.ones, scale, 1.0, space.member, space.window,
            net0, net1, degree,
        )[2]  # fmt: skip
        merge_runs(at, key, space.spare_at, space.spare_key, node[0], node[1], node[3])
    for p in range(n):
        z[p] = 2.0 * net1[p]
    return value


@njit(cache=True, nogil=True)
def grades_bend(known, u, n, t, out, space):
    """(Hessian at the last user_loss) t. O(n log G)."""
    net = space.net0
    net[:n] = 0.0
    for k in range(known.leaf_start[u + 1] - known.leaf_start[u] - 1):
        node = space.node[k]
        add_neighbours(
            t, node[1] - node[0], node[3] - node[0], space.slot[k], space.ones, space.ones, known.scale[u],
            space.member, space.window, space.running, net,
        )  # fmt: skip
    for p in range(n):
        out[p] = 2.0 * (space.degree[p] * t[p] - net[p])


@njit(cache=True, nogil=True)
def pairs_loss(known, u, n, s, z, space):
    """Squared hinge (or squared error) over a user's comparisons. O(n + pairs)."""
    z[:n] = 0.0
    value, base = 0.0, known.start[u]
    for e in range(base, known.start[u + 1]):
        i, j = known.winner[e], known.loser[e]
        gap = 1.0 - s[i] + s[j]
        active = 1.0 - gap < known.margin
        space.gap[e - base] = known.weight[e] if active else 0.0
        if active:
            force = known.weight[e] * gap
            value += force * gap
            z[i] -= 2.0 * force
            z[j] += 2.0 * force
    return value


@njit(cache=True, nogil=True)
def pairs_bend(known, u, n, t, out, space):
    """(Hessian at the last user_loss) t. O(n + pairs)."""
    out[:n] = 0.0
    base = known.start[u]
    for e in range(base, known.start[u + 1]):
        i, j = known.winner[e], known.loser[e]
        force = 2.0 * space.gap[e - base] * (t[i] - t[j])
        out[i] += force
        out[j] -= force


@njit(cache=True, nogil=True)
def targets_loss(known, u, n, s, z):
    """Squared error of the scores. O(n)."""
    value, base = 0.0, known.start[u]
    for p in range(n):
        miss = s[p] - known.target[base + p]
        value += miss * miss
        z[p] = 2.0 * miss
    return value
