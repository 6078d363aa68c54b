"""Small quadratic models with an l1 norm or inside an l1 ball, as solved by a Newton step on a working set.

Both alternate two kinds of moves: cheap ones that find which coordinates are zero (coordinate descent under the norm;
moving weight between two corners of the ball), and a conjugate-gradient solve over the others with their signs fixed,
since the cheap moves are very slow on correlated columns. Throughout, q is the model's gradient at v, and the Hessian
H has a positive diagonal.
"""

import numpy as np

from hingerank.kernels.compiled import SUMS_MAY_REORDER, inner, kernel, with_room

FACES = 5  # Newton steps on shrinking faces before coordinates may change again
NORM, INSIDE, BORDER = 0, 1, 2  # the current face: the penalty; the interior of the ball; its border


@with_room
def minimise_under_norm(H, q, v, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) + ‖x‖₁ up to a subgradient of tol. O(k²) a round and more."""
    _minimise_under_norm(H, q, v, tol, rounds, *_room(len(v)))


@with_room
def minimise_in_ball(H, q, v, radius, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) over ‖x‖₁ ≤ radius, until no move of weight between two
    corners gains more than tol per unit. O(k²) a round and more."""
    _minimise_in_ball(H, q, v, radius, tol, rounds, *_room(len(v)))


def _room(k):
    """Work arrays of `newton_on_face`."""
    return np.empty((9, k)), np.empty((k, k)), np.empty(k, np.int64)


@kernel
def _minimise_under_norm(H, q, v, tol, rounds, vectors, A, S):
    for _ in range(rounds):
        for _ in range(3):
            if norm_sweep(H, q, v) <= tol:
                return
        for _ in range(FACES):
            if not newton_on_face(H, q, v, NORM, np.inf, 0.1 * tol, vectors, A, S):
                break


@kernel
def _minimise_in_ball(H, q, v, radius, tol, rounds, vectors, A, S):
    for _ in range(rounds):
        for _ in range(2 * len(v)):
            if ball_move(H, q, v, radius) <= tol:
                return
        for _ in range(FACES):
            full = size(v) >= radius * (1.0 - 1e-12)
            if not newton_on_face(H, q, v, BORDER if full else INSIDE, radius, 0.1 * tol, vectors, A, S):
                break


@inner
def sign_of(x):
    """-1, 0 or 1."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)


@inner
def size(v):
    """‖v‖₁."""
    total = 0.0
    for j in range(len(v)):
        total += abs(v[j])
    return total


@inner
def add_multiple(to, factor, x):
    """to += factor x."""
    for j in range(len(to)):
        to[j] += factor * x[j]


@inner(fastmath=SUMS_MAY_REORDER)
def product(x, y, m):
    """<x, y> of the first m entries."""
    total = 0.0
    for a in range(m):
        total += x[a] * y[a]
    return total


@inner
def norm_sweep(H, q, v):
    """Minimise over each coordinate in turn; returns the largest step times its curvature. O(k) per changed one."""
    excess = 0.0
    for j in range(len(v)):
        if v[j] == 0.0 and abs(q[j]) <= 1.0:
            continue
        aim = v[j] - q[j] / H[j, j]
        new = sign_of(aim) * max(abs(aim) - 1.0 / H[j, j], 0.0)
        step = new - v[j]
        if step != 0.0:
            excess = max(excess, abs(step) * H[j, j])
            v[j] = new
            add_multiple(q, step, H[j])
    return excess


@inner
def ball_move(H, q, v, radius):
    """Move weight from the worst corner in use (or the slack, the corner 0) to the one that gains most; returns the
    largest difference of the gradient between the two. O(k)."""
    slack = radius - size(v)
    away, height = -1, 0.0 if slack > 1e-12 * radius else -np.inf
    for j in range(len(v)):
        if v[j] != 0.0 and q[j] * sign_of(v[j]) > height:
            away, height = j, q[j] * sign_of(v[j])
    out = sign_of(v[away]) if away >= 0 else 0.0
    room = abs(v[away]) if away >= 0 else slack
    toward, gain, curvature, worst = -1, 0.0, 1.0, 0.0
    for j in range(len(v)):
        difference = height + abs(q[j])
        worst = max(worst, difference)
        here = H[j, j]
        if away >= 0:
            here += H[away, away] + 2.0 * sign_of(q[j]) * out * H[j, away]
        here = max(here, 1e-15 * H[j, j])  # rounding can make a curvature of 0 negative
        if difference > 0.0 and difference * difference / here > gain:
            toward, gain, curvature = j, difference * difference / here, here
    if toward < 0:
        return 0.0
    sign = -sign_of(q[toward])
    step = min((height + abs(q[toward])) / curvature, room)
    add_multiple(q, step * sign, H[toward])
    if away >= 0:
        add_multiple(q, -step * out, H[away])
        v[away] = v[away] - step * out if step < room else 0.0
    v[toward] += step * sign
    return worst


@inner
def newton_on_face(H, q, v, face, radius, tol, vectors, A, S):
    """Go to the minimiser over the nonzero coordinates with fixed signs (on a BORDER also fixed sum); a coordinate that
    reaches 0 on the way stays there. True if one did, or if the border was met. O(m²) a product, m nonzero ones."""
    sign, border, ease, d, change, m = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], 0
    for j in range(len(v)):
        if v[j] != 0.0:
            S[m] = j
            m += 1
    for a in range(m):
        sign[a], ease[a] = sign_of(v[S[a]]), 1.0 / H[S[a], S[a]]
        border[a] = sign[a] if face == BORDER else 0.0
        vectors[5, a] = -q[S[a]] - (sign[a] if face == NORM else 0.0)
        for b in range(m):
            A[a, b] = H[S[a], S[b]]
    conjugate_gradients(A, m, vectors, border, ease, tol, d)
    stopped = False
    for _ in range(m + 1):
        slope, curvature = 0.0, 0.0
        change[:] = 0.0
        for a in range(m):
            slope += d[a] * (q[S[a]] + (sign[a] if face == NORM else 0.0))
            if d[a] != 0.0:
                add_multiple(change, d[a], H[S[a]])
        for a in range(m):
            curvature += d[a] * change[S[a]]
        if slope >= 0.0 or curvature <= 0.0:
            break
        t, hit = -slope / curvature, -1
        for a in range(m):
            if d[a] * sign[a] < 0.0 and -v[S[a]] / d[a] <= t:
                t, hit = -v[S[a]] / d[a], a
        room, out = radius - size(v), product(sign, d, m)
        full = face == INSIDE and out > 0.0 and room / out < t
        if full:
            t, hit = room / out, -1
        add_multiple(q, t, change)
        for a in range(m):
            v[S[a]] += t * d[a]
        if hit < 0:
            return stopped or full
        v[S[hit]], d[hit], sign[hit], border[hit], stopped = 0.0, 0.0, 0.0, 0.0, True
        level(d, border, ease, m)
    return stopped


@inner
def level(d, border, ease, m):
    """Make <border, d> = 0 by the cheapest change, where changing a coordinate costs its square over its ease."""
    weight, off = 0.0, 0.0
    for a in range(m):
        weight += border[a] * border[a] * ease[a]
        off += border[a] * d[a]
    if weight > 0.0:
        for a in range(m):
            d[a] -= off / weight * border[a] * ease[a]


@inner(fastmath=SUMS_MAY_REORDER)
def conjugate_gradients(A, m, vectors, border, ease, tol, d):
    """d with A d ≈ r = vectors[5] inside <border, d> = 0, preconditioned by `ease` = 1 / diagonal. r is overwritten.
    O(m²) a product."""
    r, z, p, image = vectors[5], vectors[6], vectors[7], vectors[8]
    for a in range(m):
        d[a], z[a] = 0.0, ease[a] * r[a]
    level(z, border, ease, m)
    rz = product(r, z, m)
    before = rz
    for step in range(m + 5):
        largest = 0.0
        for a in range(m):
            largest = max(largest, abs(z[a] / ease[a]))
            p[a] = z[a] + (rz / before) * p[a] if step > 0 else z[a]
        if largest <= tol or rz <= 0.0:
            break
        for a in range(m):
            image[a] = product(A[a], p, m)
        curvature = product(p, image, m)
        if curvature <= 1e-14 * rz:  # zero up to rounding: a further step would follow noise
            break
        for a in range(m):
            d[a] += (rz / curvature) * p[a]
            r[a] -= (rz / curvature) * image[a]
            z[a] = ease[a] * r[a]
        level(z, border, ease, m)
        before, rz = rz, product(r, z, m)
    level(d, border, ease, m)  # removes what rounding has added across the border
