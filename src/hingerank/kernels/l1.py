"""Small quadratic models with an l1 norm or inside an l1 ball: what a working set's Newton step solves.

Both alternate two kinds of moves: cheap ones that find out which coordinates are zero (coordinate descent under the
norm; moving weight between two corners of the ball), and a conjugate-gradient solve among the others with their signs
held, which finishes what correlated columns would make very slow. Throughout, q is the model's gradient at v, and the
Hessian H has a positive diagonal."""

import numpy as np
from numba import njit

FACES = 5  # Newton steps on shrinking faces before coordinates may change again
NORM, INSIDE, BORDER = 0, 1, 2  # what holds on the current face: the penalty; a ball with room; a ball without


@njit(cache=True, nogil=True)
def minimise_under_norm(H, q, v, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) + ‖x‖₁ up to a subgradient of tol. O(k²) a round and more."""
    for _ in range(rounds):
        excess = 0.0
        for _ in range(3):
            excess = norm_sweep(H, q, v)
            if excess <= tol:
                return
        for _ in range(FACES):
            if not newton_on_face(H, q, v, NORM, np.inf, 0.1 * tol):
                break


@njit(cache=True, nogil=True)
def norm_sweep(H, q, v):
    """Minimise over each coordinate in turn; returns the largest step times its bend. O(k) a changed coordinate."""
    excess = 0.0
    for j in range(len(v)):
        if v[j] == 0.0 and abs(q[j]) <= 1.0:
            continue
        aim = v[j] - q[j] / H[j, j]
        new = np.sign(aim) * max(abs(aim) - 1.0 / H[j, j], 0.0)
        step = new - v[j]
        if step != 0.0:
            excess = max(excess, abs(step) * H[j, j])
            v[j] = new
            q += step * H[j]
    return excess


@njit(cache=True, nogil=True)
def minimise_in_ball(H, q, v, radius, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) over ‖x‖₁ ≤ radius, until no move of weight between two
    corners gains more than tol a unit. O(k²) a round and more."""
    for _ in range(rounds):
        for _ in range(2 * len(v)):
            if ball_move(H, q, v, radius) <= tol:
                return
        for _ in range(FACES):
            full = np.abs(v).sum() >= radius * (1.0 - 1e-12)
            if not newton_on_face(H, q, v, BORDER if full else INSIDE, radius, 0.1 * tol):
                break


@njit(cache=True, nogil=True)
def ball_move(H, q, v, radius):
    """Move weight from the worst corner in use (or the slack, the corner 0) to the one that gains most; returns by how
    much the gradient there differed at most. O(k)."""
    k, slack = len(v), radius - np.abs(v).sum()
    away, height = -1, 0.0 if slack > 1e-12 * radius else -np.inf
    for j in range(k):
        if v[j] != 0.0 and q[j] * np.sign(v[j]) > height:
            away, height = j, q[j] * np.sign(v[j])
    out = np.sign(v[away]) if away >= 0 else 0.0
    room = abs(v[away]) if away >= 0 else slack
    toward, gain, bend, worst = -1, 0.0, 1.0, 0.0
    for j in range(k):
        difference = height + abs(q[j])
        worst = max(worst, difference)
        here = H[j, j]
        if away >= 0:
            here += H[away, away] + 2.0 * np.sign(q[j]) * out * H[j, away]
        here = max(here, 1e-15 * H[j, j])  # rounding can make it less than nothing
        if difference > 0.0 and difference * difference / here > gain:
            toward, gain, bend = j, difference * difference / here, here
    if toward < 0:
        return 0.0
    sign = -np.sign(q[toward])
    step = min((height + abs(q[toward])) / bend, room)
    q += step * sign * H[toward]
    if away >= 0:
        q -= step * out * H[away]
        v[away] = v[away] - step * out if step < room else 0.0
    v[toward] += step * sign
    return worst


@njit(cache=True, nogil=True)
def newton_on_face(H, q, v, face, radius, tol):
    """Go to the minimiser over the coordinates not zero, their signs (and on a BORDER their sum) held; one that
    reaches 0 on the way stays there. True when some did, or the ball's border was met. O(m²) a product, m not zero."""
    S = np.flatnonzero(v)
    sign, r, ease = np.sign(v[S]), -q[S], 1.0 / np.diag(H)[S]
    if face == NORM:
        r -= sign
    border = sign.copy() if face == BORDER else np.zeros(len(S))
    d = conjugate_gradients(H[S][:, S], r, border, ease, tol)
    stopped = False
    for _ in range(len(S) + 1):
        slope, bend, change = 0.0, 0.0, np.zeros(len(v))
        for a in range(len(S)):
            slope += d[a] * (q[S[a]] + (sign[a] if face == NORM else 0.0))
            if d[a] != 0.0:
                change += d[a] * H[S[a]]
        for a in range(len(S)):
            bend += d[a] * change[S[a]]
        if slope >= 0.0 or bend <= 0.0:
            break
        t, hit = -slope / bend, -1
        for a in range(len(S)):
            if d[a] * sign[a] < 0.0 and -v[S[a]] / d[a] <= t:
                t, hit = -v[S[a]] / d[a], a
        room, out = radius - np.abs(v).sum(), sign @ d
        full = face == INSIDE and out > 0.0 and room / out < t
        if full:
            t, hit = room / out, -1
        q += t * change
        for a in range(len(S)):
            v[S[a]] += t * d[a]
        if hit < 0:
            return stopped or full
        v[S[hit]], d[hit], sign[hit], border[hit], stopped = 0.0, 0.0, 0.0, 0.0, True
        level(d, border, ease)
    return stopped


@njit(cache=True, nogil=True)
def level(d, border, ease):
    """Make <border, d> = 0 by the cheapest change, where a coordinate's change costs its square over its ease."""
    weight = 0.0
    for a in range(len(d)):
        weight += border[a] * border[a] * ease[a]
    if weight > 0.0:
        d -= ((border @ d) / weight) * border * ease


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def conjugate_gradients(A, r, border, ease, tol):
    """d with A d ≈ r inside <border, d> = 0, preconditioned by `ease` = 1 / diagonal. r is used up. O(m²) a product."""
    m = len(r)
    d, product, z = np.zeros(m), np.empty(m), ease * r
    level(z, border, ease)
    p, rz = z.copy(), r @ z
    for _ in range(m + 5):
        if np.abs(z / ease).max() <= tol or rz <= 0.0:
            break
        for a in range(m):
            total = 0.0
            for b in range(m):
                total += A[a, b] * p[b]
            product[a] = total
        bend = p @ product
        if bend <= 1e-14 * rz:  # flat as far as rounding can tell: going on would follow noise
            break
        d += (rz / bend) * p
        r -= (rz / bend) * product
        z = ease * r
        level(z, border, ease)
        before, rz = rz, r @ z
        p = z + (rz / before) * p
    level(d, border, ease)  # rounding must not leave the border
    return d
