"""Small quadratic models with an l1 norm or inside an l1 ball: what a working set's Newton step solves.

Both alternate two kinds of moves: cheap ones that find out which coordinates are zero (coordinate descent under the
norm; moving weight between two corners of the ball), and a conjugate-gradient solve among the others with their signs
held, which finishes what correlated columns would make very slow. Throughout, q is the model's gradient at v.
"""

import numpy as np
from numba import njit

FLAT = 1e-10  # curvature below this share of the largest is rounding
NORM, INSIDE, BORDER = 0, 1, 2  # what holds on the current face: the penalty; a ball with room; a ball without


@njit(cache=True, nogil=True)
def minimise_under_norm(H, q, v, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) + ‖x‖₁ up to a subgradient of tol. O(k²) a round and more."""
    floor = FLAT * largest_bend(H)
    for _ in range(rounds):
        excess = 0.0
        for _ in range(3):
            excess = norm_sweep(H, q, v, floor)
            if excess <= tol:
                return
        for _ in range(len(v)):
            if not newton_on_face(H, q, v, NORM, np.inf, floor, 0.1 * tol):
                break


@njit(cache=True, nogil=True)
def norm_sweep(H, q, v, floor):
    """Minimise over each coordinate in turn; returns the largest step times its bend. O(k) a changed coordinate."""
    excess = 0.0
    for j in range(len(v)):
        if v[j] == 0.0 and abs(q[j]) <= 1.0:
            continue
        bend = max(H[j, j], floor)
        aim = v[j] - q[j] / bend
        new = np.sign(aim) * max(abs(aim) - 1.0 / bend, 0.0)
        step = new - v[j]
        if step != 0.0:
            excess = max(excess, abs(step) * bend)
            v[j] = new
            q += step * H[j]
    return excess


@njit(cache=True, nogil=True)
def minimise_in_ball(H, q, v, radius, tol, rounds):
    """v <- argmin of <q, x - v> + ½ (x - v)^T H (x - v) over ‖x‖₁ ≤ radius, until no move of weight between two
    corners gains more than tol a unit. O(k²) a round and more."""
    floor = FLAT * largest_bend(H)
    for _ in range(rounds):
        for _ in range(2 * len(v)):
            if ball_move(H, q, v, radius, floor) <= tol:
                return
        for _ in range(len(v)):
            full = np.abs(v).sum() >= radius * (1.0 - 1e-12)
            if not newton_on_face(H, q, v, BORDER if full else INSIDE, radius, floor, 0.1 * tol):
                break


@njit(cache=True, nogil=True)
def ball_move(H, q, v, radius, floor):
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
        here = max(here, floor)
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
def newton_on_face(H, q, v, face, radius, floor, tol):
    """Minimise over the coordinates not zero, their signs held (and their sum on a BORDER), by conjugate gradients;
    stop where a coordinate reaches 0 or the ball its border. True when stopped so. O(m k) a product."""
    S = np.flatnonzero(v)
    m = len(S)
    if m == 0:
        return False
    sign, r, d = np.sign(v[S]), np.empty(m), np.zeros(m)
    for a in range(m):
        r[a] = -q[S[a]] - (sign[a] if face == NORM else 0.0)
    if face == BORDER:
        r -= sign * ((sign @ r) / m)
    p, rr, product = r.copy(), r @ r, np.empty(m)
    for _ in range(m + 5):
        if np.abs(r).max() <= tol:
            break
        for a in range(m):
            total = 0.0
            for b in range(m):
                total += H[S[a], S[b]] * p[b]
            product[a] = total
        if face == BORDER:
            product -= sign * ((sign @ product) / m)
        bend = p @ product
        if bend <= floor * rr:  # flat as far as rounding can tell: going on would follow noise
            break
        d += (rr / bend) * p
        r -= (rr / bend) * product
        before, rr = rr, r @ r
        p = r + (rr / before) * p
    t, hit = 1.0, -1
    for a in range(m):
        if d[a] * sign[a] < 0.0 and -v[S[a]] / d[a] < t:
            t, hit = -v[S[a]] / d[a], a
    blocked = hit >= 0
    if face == INSIDE and sign @ d > 0.0 and (radius - np.abs(v).sum()) / (sign @ d) < t:
        t, hit, blocked = (radius - np.abs(v).sum()) / (sign @ d), -1, True
    for a in range(m):
        v[S[a]] += t * d[a]
        q += (t * d[a]) * H[S[a]]
    if hit >= 0:
        v[S[hit]] = 0.0
    return blocked


@njit(cache=True, nogil=True)
def largest_bend(H):
    """The largest diagonal entry, and never quite 0."""
    most = 1e-290
    for j in range(len(H)):
        most = max(most, H[j, j])
    return most
