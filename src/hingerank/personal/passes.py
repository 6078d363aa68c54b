"""Passes over the users of a factorised model s_uj = <p_j, v_u>: Newton steps of users, and products for the basis.

P (items x k) holds the coordinates U^T x_j of the items, V (users x k) those of the users. Each function computes for
users first:last in one thread; callers split the users into shards. A user's rows are gathered once, and all Newton
iterations of the user run in the processor's cache. Arrays are copied by loops, because numba takes seconds to compile
the assignment of an array to a slice.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel, with_room
from hingerank.kernels.rows import block_back, block_scores
from hingerank.personal.losses import (
    UserSpace,
    user_curvature,
    user_diagonal,
    user_loss,
    user_right,
    user_settle,
    user_start,
)

RUN = 64  # number of scores that are compared together
ENOUGH = 0.1  # a Newton step's equations are solved until this fraction of the gradient is left
ARMIJO = 1e-4
LEAST_LENGTH, LEAST_MOVE = 2.0**-25, 1e-3  # a search ends below this length of a step, if scores move less than that
NO_SCORES, NO_SUMS, NO_WEIGHT = np.empty(0, np.float32), np.empty((0, 0)), np.empty(0)


@inner
def user_newton(block, lo, n, known, u, C, v, centre, fraction, most, s, z, vectors, space):
    """Minimise ½‖v - centre‖² + C loss_u(block v) by Newton's method from v, and return (loss, ‖g‖).

    Coordinates beyond those of the centre stay as they are and have no penalty. The method stops at
    ‖g‖ ≤ fraction ‖g before‖ or after `most` steps. v, s and z (scores and gradient of the loss at v) are changed in
    place; vectors: (8, max(n, k)) work array.
    """
    g, step, moved = vectors[0, : len(v)], vectors[1, : len(v)], vectors[2, :n]
    block_scores((block,), 0, n, v, s)
    loss = user_loss(known, u, lo, n, s, z, space)
    entry = norm = 0.0
    for iteration in range(most + 1):
        g[:] = 0.0
        block_back((block,), 0, n, z, g)
        norm = 0.0
        g[len(centre) :] = 0.0
        for c in range(len(centre)):
            g[c] = v[c] - centre[c] + C * g[c]
            norm += g[c] * g[c]
        norm = np.sqrt(norm)
        if iteration == 0:
            entry = norm
        if norm <= fraction * entry or iteration == most:
            break
        user_equations(block, lo, n, known, u, C, g, len(centre), step, moved, vectors[3:], space)
        length, loss = user_search(lo, n, known, u, C, v, centre, g, step, moved, loss, s, z, space)
        if length == 0.0:  # no descent larger than rounding errors
            break
        for c in range(len(v)):
            v[c] += length * step[c]
    return loss, norm


@inner
def user_equations(block, lo, n, known, u, C, g, free, step, moved, vectors, space):
    """Solve  H step = -g  in the first `free` coordinates, until ENOUGH of g is left; moved = block step."""
    k = len(g)
    r, d, out, t, curved = vectors[0, :k], vectors[1, :k], vectors[2, :k], vectors[3, :n], vectors[4, :n]
    rr = 0.0
    for c in range(k):
        step[c] = 0.0
        r[c] = d[c] = -g[c]
        rr += g[c] * g[c]
    moved[:] = 0.0
    target = ENOUGH * ENOUGH * rr
    for _ in range(2 * k):
        block_scores((block,), 0, n, d, t)
        user_curvature(known, u, lo, n, t, curved, space)
        out[:] = 0.0
        block_back((block,), 0, n, curved, out)
        out[free:] = 0.0
        curvature = 0.0
        for c in range(free):
            out[c] = d[c] + C * out[c]
            curvature += d[c] * out[c]
        if curvature <= 0.0:  # C is so large that only rounding errors are left
            break
        length = rr / curvature
        for p in range(n):
            moved[p] += length * t[p]
        before, rr = rr, 0.0
        for c in range(k):
            step[c] += length * d[c]
            r[c] -= length * out[c]
            rr += r[c] * r[c]
        if rr <= target:
            break
        for c in range(k):
            d[c] = r[c] + (rr / before) * d[c]


@inner
def user_search(lo, n, known, u, C, v, centre, g, step, moved, loss, s, z, space):
    """Return (length, loss) of a step that lowers the objective, or length 0; s and z are those at the result."""
    vs = ss = slope = 0.0
    for c in range(len(centre)):
        vs += (v[c] - centre[c]) * step[c]
        ss += step[c] * step[c]
        slope += g[c] * step[c]
    length, taken, farthest = 1.0, 0.0, 0.0
    for p in range(n):
        farthest = max(farthest, abs(moved[p]))
    while length > LEAST_LENGTH or length * farthest > LEAST_MOVE:
        for p in range(n):
            s[p] += (length - taken) * moved[p]
        taken = length
        trial = user_loss(known, u, lo, n, s, z, space)
        if length * vs + 0.5 * length * length * ss + C * (trial - loss) <= ARMIJO * length * slope:
            return length, trial
        length *= 0.5
    for p in range(n):
        s[p] -= taken * moved[p]
    return 0.0, user_loss(known, u, lo, n, s, z, space)


def user_space(sizes: tuple[int, int, int]) -> UserSpace:
    """Make work arrays for users of at most sizes = (rows, grades, comparisons)."""
    n, grades, pairs = sizes
    i32 = np.int32
    return UserSpace(
        np.empty(n, i32), np.empty(n), np.empty(n, np.int64), np.ones(n), np.empty((2, n), i32), np.empty((2, n), i32),
        np.empty((2, n)), np.empty(n, i32), np.empty(n), np.empty(n), np.empty((2, grades + 1)),
        np.empty((2, grades + 1)), np.empty(pairs), np.zeros(2),
    )  # fmt: skip


@with_room
def users_step(P, V, first, last, p, C, centre, fraction, most, scores, G=NO_SUMS, weight=NO_WEIGHT, spread=NO_WEIGHT):
    """Improve v_u for users first:last and return (loss, sum of ‖g_u‖², sums of `UserSpace.hinge`).

    Unless G is empty, adds z_r v_u to G[item], the Hessian's diagonal h_r to weight[item] and sum(h_r) v_u² to spread.
    """
    k, widest = P.shape[1], p.sizes[0]
    room = np.empty((widest, k)), np.empty((8, max(widest, k))), np.empty((3, widest)), user_space(p.sizes)
    given = P, V, first, last, p.start, p.item, p.known, C, centre, fraction, most
    return step_of_users(*given, scores, G, weight, spread, *room)


@kernel
def step_of_users(
    P, V, first, last, start, item, known, C, centre, fraction, most, scores, G, weight, spread, block, vectors, rows,
    space,
):  # fmt: skip
    k, s, z, h = P.shape[1], rows[0], rows[1], rows[2]
    loss = after = hinge = kink = 0.0
    for u in range(first, last):
        lo, hi = start[u], start[u + 1]
        n = hi - lo
        for p in range(n):
            for c in range(k):
                block[p, c] = P[item[lo + p], c]
        user_start(n, space)
        value, norm = user_newton(block, lo, n, known, u, C, V[u], centre, fraction, most, s, z, vectors, space)
        loss += value
        after += norm * norm
        hinge += space.hinge[0]
        kink += space.hinge[1]
        if len(G) > 0:
            user_diagonal(known, u, lo, n, h, space)
            total = 0.0
            for p in range(n):
                weight[item[lo + p]] += h[p]
                total += h[p]
            for c in range(k):
                spread[c] += total * V[u, c] * V[u, c]
        user_settle(known, lo, n, item[lo:hi], s, z, space)
        for p in range(n):
            scores[lo + p] = s[p]
        if len(G) > 0:
            add_outer(item[lo:hi], z, V[u], G)
    return loss, after, hinge, kink


LOSS, CURVATURE, RIGHT = 0, 1, 2  # what `users_pass` computes


@with_room
def users_pass(what, P, V, first, last, p, scores=NO_SCORES, G=NO_SUMS):
    """Compute for users first:last, at s = <p_item, v_u>, one of

    LOSS : return (loss, sums of `UserSpace.hinge`), store s in `scores`, add z_r v_u to G[item]. O(rows (k + log n))
    CURVATURE : add y_r v_u to G[item], y = (Hessian at `scores`) s. O(rows (k + log G))
    RIGHT : return the number of pairs that s orders correctly, and zeros. O(rows (k + log n))

    An empty G stays as it is.
    """
    room = np.empty((3, p.sizes[0])), user_space(p.sizes)
    return pass_of_users(what, P, V, first, last, p.start, p.item, p.known, scores, G, *room)


@kernel
def pass_of_users(what, P, V, first, last, start, item, known, scores, G, rows, space):
    """Compute what `users_pass` describes: the three share half of their code, which is so compiled only once."""
    s, z, t = rows[0], rows[1], rows[2]
    total = hinge = kink = 0.0
    for u in range(first, last):
        lo, hi = start[u], start[u + 1]
        n = hi - lo
        item_scores(item[lo:hi], P, V[u], s)
        user_start(n, space)
        if what == RIGHT:
            total += user_right(known, u, lo, n, s, space)
            continue
        if what == CURVATURE:
            for p in range(n):
                t[p], s[p] = s[p], scores[lo + p]
        total += user_loss(known, u, lo, n, s, z, space)
        hinge += space.hinge[0]
        kink += space.hinge[1]
        if what == CURVATURE:
            user_curvature(known, u, lo, n, t, z, space)
        else:
            user_settle(known, lo, n, item[lo:hi], s, z, space)
            for p in range(n):
                scores[lo + p] = s[p]
        if len(G) > 0:
            add_outer(item[lo:hi], z, V[u], G)
    return total, hinge, kink


@inner(fastmath=SUMS_MAY_REORDER)
def item_scores(item, P, v, out):
    """out[r] = <P[item[r]], v>."""
    for r in range(len(item)):
        j, total = item[r], 0.0
        for c in range(len(v)):
            total += P[j, c] * v[c]
        out[r] = total


@inner
def add_outer(item, z, v, G):
    """G[item[r]] += z[r] v."""
    for r in range(len(item)):
        j, zr = item[r], z[r]
        if zr != 0.0:
            for c in range(len(v)):
                G[j, c] += zr * v[c]


@kernel
def own_scores(X, W, first, last, start, item, out):
    """out[r] = <X[item[r]], W[u]> for the rows of users first:last."""
    for u in range(first, last):
        item_scores(item[start[u] : start[u + 1]], X, W[u], out[start[u] : start[u + 1]])


@kernel
def own_back(X, z, first, last, start, item, W):
    """W[u] = sum over the user's rows of z[r] X[item[r]]."""
    for u in range(first, last):
        W[u] = 0.0
        for r in range(start[u], start[u + 1]):
            if z[r] != 0.0:
                for c in range(X.shape[1]):
                    W[u, c] += z[r] * X[item[r], c]


@inner(fastmath=SUMS_MAY_REORDER)
def top_of(s, rows, values):
    """Fill the list of the best scores, best first, equal ones in order, and return its length."""
    top, count = len(rows), 0
    for lo in range(0, len(s), RUN):
        run = s[lo : lo + RUN]
        if count == top:
            best, worst = run[0], values[count - 1]
            for j in range(len(run)):  # most runs have no score for the list, and this loop has no branches
                best = run[j] if run[j] > best else best
            if best <= worst:
                continue
        for j in range(len(run)):
            x = run[j]
            if x == -float("inf") or (count == top and x <= values[count - 1]):
                continue
            at = count if count < top else top - 1
            while at > 0 and values[at - 1] < x:
                values[at] = values[at - 1]
                rows[at] = rows[at - 1]
                at -= 1
            values[at] = x
            rows[at] = lo + j
            if count < top:
                count += 1
    return count


@kernel
def top_rows(S, first, last, rows, values):
    """rows[b], values[b] = the columns of the best scores of S[b], best first, equal scores in column order.

    Scores of -inf are left out (row -1). O(columns) a row while few scores enter the list.
    """
    for b in range(first, last):
        count = top_of(S[b], rows[b], values[b])
        for at in range(count, rows.shape[1]):
            rows[b, at], values[b, at] = -1, -float("inf")
