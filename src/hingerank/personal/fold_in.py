"""A user's weights with the basis fixed: from a few ratings, and from what the fitted users have in common.

A new user is drawn from the fitted ones: v = v̄ + R z with v̄ their mean and R Rᵀ their covariance S, up to a number.
Of n ratings with |P| pairs

    z = argmin  ½‖z‖² + strength · min(1, n/20) · n/|P| · loss(X U (v̄ + R z)),

so that a user who says nothing that tells items apart is the mean user. R = S^½ / √(2m) with m the variance of a pair's
difference of scores from user to user: strength 1 lets a pair of its own move by half of what its margin wants,
whatever the scale of the features. Pairs count as much as the ratings they come from, because n ratings are no more
than n pieces of news, and the first 20 ratings less still: what 2 or 3 ratings say of all the others is mostly wrong,
as held back ratings show, and one strength is then right for 2 ratings and for 20. Whether the usual strength is right
is learnt: some of the fitted users are forgotten (the basis takes a few steps without them, which is enough to lose
what it knew of them alone) and come again as new users with a few ratings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.losses import UserGrades, UserPairs, UserTargets, packed
from hingerank.personal.passes import users_right, users_step
from hingerank.personal.preferences import ROWS_AT_ONCE, UserPreferences, from_ratings
from hingerank.personal.problem import blocks_of, gram

STEPS, LEFT = 50, 1e-6  # Newton steps at most, fraction of the first gradient that may be left
NARROWING = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)  # widths of a hinge's kink
ROWS_PER_SHARD = 4096
ENOUGH = 20.0  # ratings of a user from which on each counts in full
STRENGTHS, USUAL = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0), 0.03  # the usual one where all are alike
SIZES, LEAST_USERS = (2, 5, 20), 5  # ratings that new users are taken to bring, users who must have them
TO_JUDGE, MOST_TO_JUDGE = 5, 30  # further ratings that a user must have to take part, and that are looked at
PART_FORGOTTEN, MOST_FORGOTTEN = 0.2, 150  # users who come again
LEAST_ROWS, MOST_ROWS, PART_ROWS = 10_000, 100_000, 0.3  # that the others may have, all or a part of all rows


@dataclass(frozen=True)
class Prior:
    """v = mean + root z with ½‖z‖² to pay, and `strength` times the loss; by_rating: min(1, n/20) n/|P| times that.

    widths: of the hinge's rounded kink, one after the other; (0,) is the squared hinge.
    """

    mean: np.ndarray
    root: np.ndarray
    strength: float
    by_rating: bool = True
    widths: tuple[float, ...] = (0.0,)


def plain_prior(mean: np.ndarray, C: float, hinge: bool = False) -> Prior:
    """½‖v - mean‖² + C · loss, as in the objective of a fit (where the mean is 0)."""
    return Prior(mean, np.eye(len(mean)), C, by_rating=False, widths=NARROWING if hinge else (0.0,))


def fold_in(P: np.ndarray, shared: np.ndarray | None, p: UserPreferences, prior: Prior) -> np.ndarray:
    """The weights of every user of `p`, by rows.

    Parameters
    ----------
    P : X U, a row per item
    shared : the part of the items' scores that does not depend on the user
    p : what the users said; their rows are put in another order
    prior : what is known of them before
    """
    fixed = P @ prior.mean + (0.0 if shared is None else shared)
    Q, k = np.column_stack([P @ prior.root, fixed]), prior.root.shape[1]
    V, scores = np.zeros((p.n_users, k + 1)), np.empty(p.n_rows, np.float32)
    V[:, k] = 1.0
    known = _by_rating(p) if prior.by_rating else p.known
    unused = np.empty((0, k + 1)), np.empty(0), np.empty(0)
    centre, C = np.zeros(k), float(prior.strength)

    def learn(users: tuple[int, int]) -> None:
        for width in prior.widths:
            form = packed(known, width)
            users_step(Q, V, *users, p.start, p.item, form, C, centre, LEFT, STEPS, p.sizes, scores, *unused)

    run_shards(learn, cut_shards(p.start, ROWS_PER_SHARD))
    return prior.mean + V[:, :k] @ prior.root.T


def _by_rating(p: UserPreferences) -> UserGrades | UserPairs | UserTargets:
    """What is known, a user's pairs weighing as much together as the rows they are of, and less if these are few."""
    rows, pairs = p.mass
    trust = np.minimum(1.0, rows / ENOUGH)
    if isinstance(p.known, UserTargets):
        weight = np.repeat(trust, np.diff(p.start))
        return p.known._replace(weight=weight * p.known.weight if len(p.known.weight) else weight)
    return p.known._replace(scale=trust * rows / np.where(pairs > 0, pairs, 1.0))


def spread_of_users(V: np.ndarray, P: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(v̄, R) of fitted users V; `item` has the items they spoke of, as often as they did.

    The covariance is drawn towards the same variance in all directions by k of k + users parts.
    """
    users, k = V.shape
    mean = V.mean(axis=0)
    S = sum(gram(part - mean) for part in blocks_of(V)) / max(1, users - 1)
    part = k / (k + users)
    S = (1 - part) * S + part * np.trace(S) / k * np.eye(k)
    count = np.zeros(len(P))
    for a in range(0, len(item), ROWS_AT_ONCE):  # bincount makes 8 bytes of each number
        count += np.bincount(item[a : a + ROWS_AT_ONCE], minlength=len(P))
    centred = P - count @ P / max(1.0, count.sum())
    variance = 2.0 * float(count @ np.einsum("ic,cd,id->i", centred, S, centred)) / max(1.0, count.sum())
    values, vectors = np.linalg.eigh(S)
    scale = 1.0 / np.sqrt(2.0 * variance) if variance > 0 else 0.0
    return mean, vectors * (scale * np.sqrt(np.maximum(values, 0.0)))


def forgotten_users(p: UserPreferences, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(users to forget and to meet again, others to stay): a fifth of those with enough ratings, not too many."""
    rng, given = np.random.default_rng(seed), np.diff(begins(p))
    able = rng.permutation(np.flatnonzero((given >= SIZES[0] + TO_JUDGE) & (p.pairs > 0)))
    gone = able[: min(MOST_FORGOTTEN, int(PART_FORGOTTEN * len(able)))]
    others = rng.permutation(np.setdiff1d(np.arange(p.n_users), gone))
    few = np.cumsum(np.diff(p.start)[others]) <= np.clip(PART_ROWS * p.n_rows, LEAST_ROWS, MOST_ROWS)
    return gone, np.sort(others[few])


def learn_strength(
    P: np.ndarray, shared: np.ndarray | None, p: UserPreferences, mean: np.ndarray, root: np.ndarray,
    build: Callable[..., UserPreferences], seed: int = 0,
) -> float:  # fmt: skip
    """The usual strength, unless users all but 2, 5 or 20 of whose ratings are hidden say that it is wrong for them.

    Of the strengths that have as many pairs right as the best one, to a standard error of the difference, and that for
    none of these numbers of ratings have fewer right than the mean user has, by more than two standard errors, the one
    nearest to the usual; 0, the mean user itself, if there is none. Some hundred users cannot tell neighbours apart: to
    take the best one would follow their noise.

    Parameters
    ----------
    P, shared, mean, root : as in `fold_in`
    p : users that the basis does not know
    build : makes preferences of users, items and ratings (or winners and losers)
    """
    rng, changes = np.random.default_rng(seed), []
    for size in SIZES:
        parts = _parts(p, size, build, rng)
        if parts is None:
            continue
        little, rest = parts
        order, everyone = _order(little, rest), np.arange(little.n_users)
        right = np.empty((1 + len(STRENGTHS), len(order)))
        for row, strength in enumerate((0.0, *STRENGTHS)):
            V = fold_in(P, shared, little.take(everyone), Prior(mean, root, strength))[order]
            right[row] = right_of_users(P, shared, V, rest)
        changes.append((right[1:] - right[0]) / max(1, rest.n_pairs))  # each user's part in that of the fraction right
    if not changes:
        return USUAL
    gains, errors = _sums_and_errors(changes)
    harmless = np.min(gains + 2 * errors, axis=0) >= 0
    best = int(np.argmax(np.where(harmless, gains.mean(axis=0), -np.inf)))
    behind, error = _sums_and_errors([change[best] - change for change in changes])
    fit = np.flatnonzero(harmless & (behind.mean(axis=0) <= np.sqrt(np.mean(error**2, axis=0) / len(changes))))
    if len(fit) == 0:
        return 0.0
    return STRENGTHS[int(min(fit, key=lambda row: abs(np.log(STRENGTHS[row] / USUAL))))]


def _sums_and_errors(changes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of changes (strengths x users), one array for each number of ratings: their sums over users, standard errors."""
    return (
        np.array([change.sum(axis=1) for change in changes]),
        np.array([np.sqrt(change.shape[1]) * change.std(axis=1) for change in changes]),
    )


def right_of_users(P: np.ndarray, shared: np.ndarray | None, V: np.ndarray, p: UserPreferences) -> np.ndarray:
    """Pairs in the right order, of each user."""
    numbers = np.repeat(np.arange(p.n_users), np.diff(p.start))
    scores = np.einsum("rc,rc->r", P[p.item], V[numbers]) + (0.0 if shared is None else shared[p.item])
    known, rows = packed(p.known), (scores[:, None], np.ones((p.n_users, 1)))
    item = np.arange(p.n_rows, dtype=np.int32)  # every row an item of its own
    return np.array([users_right(*rows, u, u + 1, p.start, item, known, p.sizes) for u in range(p.n_users)])


def _parts(
    p: UserPreferences, size: int, build: Callable[..., UserPreferences], rng: np.random.Generator
) -> tuple[UserPreferences, UserPreferences] | None:
    """(`size` ratings or comparisons of each of some users, their others); None if too few users have so many."""
    begin = begins(p)
    able = np.flatnonzero((np.diff(begin) >= size + TO_JUDGE) & (p.pairs > 0))
    if len(able) < LEAST_USERS:
        return None
    some = [rng.permutation(np.arange(begin[u], begin[u + 1]))[: size + MOST_TO_JUDGE] for u in able]
    count = [len(rows) for rows in some]
    users, rows = np.repeat(np.arange(len(able)), count), np.concatenate(some)
    few = np.concatenate([np.arange(n) for n in count]) < size
    return few_and_rest(p, able, users, rows, few, build)


def few_and_rest(
    p: UserPreferences, able: np.ndarray, users: np.ndarray, rows: np.ndarray, few: np.ndarray,
    build: Callable[..., UserPreferences],
) -> tuple[UserPreferences, UserPreferences]:  # fmt: skip
    """(what `build` makes of the ratings or comparisons marked few, the pairs of the others).

    users, rows: of each, the number of its user among `able` and its place in `p`.
    """
    if isinstance(p.known, UserPairs):
        first = p.start[able][users]
        winners, losers = p.item[first + p.known.winner[rows]], p.item[first + p.known.loser[rows]]
        return build(users[few], winners[few], losers[few]), build(users[~few], winners[~few], losers[~few])
    given = p.known.grade if isinstance(p.known, UserGrades) else p.known.target
    items, values = p.item[rows], given[rows].astype(np.float64)
    n_items = int(p.item.max()) + 1
    rest = from_ratings(users[~few], items[~few], values[~few], n_items)
    return build(users[few], items[few], values[few]), rest


def begins(p: UserPreferences) -> np.ndarray:
    """Where each user's ratings or comparisons begin."""
    return p.known.start if isinstance(p.known, UserPairs) else p.start


def _order(little: UserPreferences, rest: UserPreferences) -> np.ndarray:
    """Where the users of `rest` stand in `little`."""
    number = np.empty(len(little.users), np.int64)
    number[little.users] = np.arange(len(little.users))
    return number[rest.users]
