"""Sums over one user's pairs: of all pairs of differently graded rows without listing them, and of listed pairs."""

from numba import njit

from hingerank.kernels.windows import sort_run

FEW = 32  # grades up to which a sum over lower or higher grades is simply added up, above it a Fenwick tree helps


@njit(cache=True, nogil=True)
def put(sums, grade, grades, x):
    """Add x to what is known of a grade."""
    if grades <= FEW:
        sums[grade] += x
    else:
        g = grade + 1
        while g <= grades:
            sums[g] += x
            g += g & -g


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def higher(sums, grade, grades):
    """The sum over grades above `grade`."""
    if grades <= FEW:
        total = 0.0
        for g in range(grade + 1, grades):
            total += sums[g]
        return total
    return lower(sums, grades, grades) - lower(sums, grade + 1, grades)


@njit(cache=True, nogil=True)
def sort_rows(known, lo, n, s, space):
    """Bring order, key and grade to ascending scores, from the last order. O(n log n), O(n) if it still holds."""
    order, key, grade = space.order, space.key, space.grade
    for p in range(n):
        key[p] = s[order[p]]
    sort_run(order, key, space.spare_at, space.spare_key, 0, n)
    for p in range(n):
        grade[p] = known.grade[lo + order[p]]


@njit(cache=True, nogil=True)
def grades_loss(known, u, lo, n, s, z, space):
    """Squared hinge over all pairs of different grades, by one sweep up the sorted scores.

    Row i should beat the lower grades that score more than s_i - 1, and is in the way of the higher grades that score
    less than s_i + 1. Two pointers follow: rows are taken from `low` once s_i - 1 has reached them, and put into `high`
    once s_i + 1 has passed them, so that both know, by grade, how many are left and the sum of their scores. With
    gap = 1 - s_i + s_j the loss is the sum of gap plus that of gap (s_j - s_i), which is s·z / 2. Scores are taken from
    their middle, so that little is lost in differences.
    """
    G, scale = known.grades[u], known.scale[u]
    if G < 2:
        z[:n] = 0.0
        space.degree[:n] = 0.0
        return 0.0
    sort_rows(known, lo, n, s, space)
    order, key, grade, low, high = space.order, space.key, space.grade, space.low, space.high
    middle = 0.5 * (key[0] + key[n - 1])
    low[:, : G + 1] = 0.0
    high[:, : G + 1] = 0.0
    for p in range(n):
        key[p] -= middle
        put(low[0], grade[p], G, 1.0)
        put(low[1], grade[p], G, key[p])
    gaps = inner = 0.0
    a = b = 0
    for p in range(n):
        x, g = key[p], grade[p]
        while x - key[a] >= 1.0:
            put(low[0], grade[a], G, -1.0)
            put(low[1], grade[a], G, -key[a])
            a += 1
        while b < n and key[b] - x < 1.0:
            put(high[0], grade[b], G, 1.0)
            put(high[1], grade[b], G, key[b])
            b += 1
        losers, winners = lower(low[0], g, G), higher(high[0], g, G)
        as_winner = losers * (1.0 - x) + lower(low[1], g, G)
        as_loser = winners * (1.0 + x) - higher(high[1], g, G)
        space.below[p], space.reach[p] = a, b
        space.degree[p] = losers + winners
        gaps += as_winner
        inner += x * (as_loser - as_winner)
        z[order[p]] = 2.0 * scale * (as_loser - as_winner)
    return scale * (gaps + inner)


@njit(cache=True, nogil=True)
def grades_bend(known, u, lo, n, t, out, space):
    """(Hessian at the last user_loss) t: degree t less the sum of t over active partners. O(n)."""
    G, scale = known.grades[u], 2.0 * known.scale[u]
    if G < 2:
        out[:n] = 0.0
        return
    order, grade, sorted_t, low, high = space.order, space.grade, space.spare_key, space.low[0], space.high[0]
    low[: G + 1] = 0.0
    high[: G + 1] = 0.0
    for p in range(n):
        sorted_t[p] = t[order[p]]
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
        out[order[p]] = scale * (space.degree[p] * sorted_t[p] - partners)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def pairs_loss(known, u, n, s, z, space):
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
