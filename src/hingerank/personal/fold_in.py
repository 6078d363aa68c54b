"""The weights of a user with the basis fixed, from a few ratings and a prior from the fitted users; and the default C.

The prior of a new user is v = v̄ + R z, with v̄ the mean of the fitted users and R Rᵀ their covariance S up to a factor.
For n ratings with |P| pairs

    z = argmin  ½‖z‖² + strength · min(1, n/20) · n/|P| · loss(X U (v̄ + R z)),

so a user whose ratings are all equal is the mean user. R = S^½ / √(2m), with m the variance over users of the score
difference of a pair: with strength 1 a single pair moves by half of what its margin requires, whatever the scale of the
features. The pairs of a user together have the weight of the n ratings, because they contain no more information. The
first 20 ratings have less: on held-out ratings, what 2 or 3 ratings imply for the other items is mostly wrong. So one
strength is right for 2 ratings and for 20. The default strength is checked on some of the fitted users. The basis takes
a few steps without these users, which is enough to remove what it learnt from them alone. Then they are added as new
users with a few ratings.

The default C is chosen by held-out data too, as a multiple of the smallest useful C, below which all weights are 0.
Noisy data with few ratings needs about 5 times as much, comparisons without noise a thousand times. The numbers of
users, ratings and features do not tell the two apart. So a part of the data of half of the users is held out, and the
multiples are tried in increasing order, each from the result of the one before, for a few epochs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.alternating import ROWS_OF_USERS, blocks_of, gram
from hingerank.personal.losses import GRADES, PAIRS, TARGETS
from hingerank.personal.passes import RIGHT, users_pass, users_step
from hingerank.personal.preferences import ROWS_AT_ONCE, UserPreferences, places_within
from hingerank.preferences.graded import runs_of

STEPS, LEFT = 50, 1e-6  # largest number of Newton steps, fraction of the first gradient at which to stop
NARROWING = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)  # widths of the rounded kink of the hinge
ROWS_PER_SHARD = 4096
ENOUGH = 20.0  # number of ratings from which on each has full weight
STRENGTHS, USUAL = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0), 0.03  # the default if all are equally good
SIZES, LEAST_USERS = (2, 5, 20), 5  # numbers of ratings of simulated new users, and how many users must have them
TO_JUDGE, MOST_TO_JUDGE = 5, 30  # further ratings that such a user must have, and the most that are used
PART_FORGOTTEN, MOST_FORGOTTEN = 0.2, 150  # users who are simulated as new ones
LEAST_ROWS, MOST_ROWS, PART_ROWS = 10_000, 100_000, 0.3  # rows of the other users that are used
MULTIPLES, USUAL_MULTIPLE = (5.0, 25.0, 125.0, 625.0, 3125.0), 25.0  # the default if too little can be held out
LEAST_GIVEN, PART_HELD = 10, 0.2  # fewest ratings or comparisons of a user to hold some out, and the fraction
PART_USERS, ENOUGH_USERS = 0.5, 200  # fraction of users that are used, and number up to which all are
MOST_GIVEN = 2_000_000  # largest number of ratings or comparisons that are used


@dataclass(frozen=True)
class Prior:
    """The prior v = mean + root z with the penalty ½‖z‖², and the weight `strength` of the loss.

    by_rating: multiply the loss by min(1, n/20) n/|P|. widths: of the rounded kink of the hinge, one after the other;
    (0,) is the squared hinge.
    """

    mean: np.ndarray
    root: np.ndarray
    strength: float
    by_rating: bool = True
    widths: tuple[float, ...] = (0.0,)


def fold_in(P: np.ndarray, shared: np.ndarray | None, p: UserPreferences, prior: Prior) -> np.ndarray:
    """Return the weights of every user of `p`, by rows.

    Parameters
    ----------
    P : X U, a row per item
    shared : the part of the items' scores that does not depend on the user
    p : preferences of the users; their rows are reordered
    prior : the prior of all these users
    """
    fixed = P @ prior.mean + (0.0 if shared is None else shared)
    Q, k = np.column_stack([P @ prior.root, fixed]), prior.root.shape[1]
    V, scores = np.zeros((len(p.users), k + 1)), np.empty(len(p.item), np.float32)
    V[:, k] = 1.0
    known, centre, C = p.known, np.zeros(k), float(prior.strength)
    if prior.by_rating:  # a user's pairs together have the weight of the user's rows, and less if these are few
        rows, pairs = p.mass
        trust = np.minimum(1.0, rows / ENOUGH)
        if known.kind == TARGETS:
            weight = np.repeat(trust, np.diff(p.start))
            known = known._replace(weight=weight * known.weight if len(known.weight) else weight)
        else:
            known = known._replace(scale=trust * rows / np.where(pairs > 0, pairs, 1.0))

    def learn(users: tuple[int, int]) -> None:
        for width in prior.widths:
            rounded = replace(p, known=known._replace(width=width))
            users_step(Q, V, *users, rounded, C, centre, LEFT, STEPS, scores)

    run_shards(learn, cut_shards(p.start, ROWS_PER_SHARD))
    return prior.mean + V[:, :k] @ prior.root.T


def spread_of_users(V: np.ndarray, P: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (v̄, R) of the fitted users V; `item` has the items in their data, as often as they occur.

    The covariance is shrunk towards equal variance in all directions, with the weight k / (k + users).
    """
    users, k = V.shape
    mean = V.mean(axis=0)
    S = sum(gram(V[rows] - mean) for rows in blocks_of(V, ROWS_OF_USERS)) / max(1, users - 1)
    part = k / (k + users)
    S = (1 - part) * S + part * np.trace(S) / k * np.eye(k)
    count = np.zeros(len(P))
    for a in range(0, len(item), ROWS_AT_ONCE):  # in parts, because bincount converts to 8 bytes per number
        count += np.bincount(item[a : a + ROWS_AT_ONCE], minlength=len(P))
    centred = P - count @ P / max(1.0, count.sum())
    variance = 2.0 * float(count @ np.einsum("ic,cd,id->i", centred, S, centred)) / max(1.0, count.sum())
    values, vectors = np.linalg.eigh(S)
    scale = 1.0 / np.sqrt(2.0 * variance) if variance > 0 else 0.0
    return mean, vectors * (scale * np.sqrt(np.maximum(values, 0.0)))


def forgotten_users(p: UserPreferences) -> tuple[np.ndarray, np.ndarray]:
    """Choose (users to simulate as new, users to keep): a fifth of those with enough ratings, up to a limit."""
    rng, given = np.random.default_rng(0), np.diff(p.known.start)
    able = rng.permutation(np.flatnonzero((given >= SIZES[0] + TO_JUDGE) & (p.pairs > 0)))
    gone = able[: min(MOST_FORGOTTEN, int(PART_FORGOTTEN * len(able)))]
    others = rng.permutation(np.setdiff1d(np.arange(len(p.users)), gone))
    few = np.cumsum(np.diff(p.start)[others]) <= np.clip(PART_ROWS * len(p.item), LEAST_ROWS, MOST_ROWS)
    return gone, np.sort(others[few])


def learn_strength(
    P: np.ndarray, shared: np.ndarray | None, p: UserPreferences, mean: np.ndarray, root: np.ndarray,
    make: Callable[..., UserPreferences],
) -> float:  # fmt: skip
    """Return the default strength, unless simulated new users with 2, 5 or 20 ratings show that it is wrong.

    A strength is acceptable if it orders as many pairs correctly as the best one, up to a standard error of the
    difference. For no number of ratings may it be worse than the mean user by more than two standard errors. The
    acceptable strength nearest to the default is returned, or 0, the mean user itself, if there is none. A few hundred
    users cannot distinguish neighbouring strengths, so taking the best one would fit noise.

    Parameters
    ----------
    P, shared, mean, root : as in `fold_in`
    p : users that the basis was not fitted to
    make : function that makes preferences: `PersonalRanker._known`
    """
    rng, changes = np.random.default_rng(0), []
    for size in SIZES:
        parts = _parts(p, size, make, rng)
        if parts is None:
            continue
        little, rest = parts
        order = np.argsort(little.users)[rest.users]  # users are numbered in both, in different orders
        right = np.empty((1 + len(STRENGTHS), len(order)))
        for row, strength in enumerate((0.0, *STRENGTHS)):
            copied = little.take(np.arange(len(little.users)))
            right[row] = right_of_users(P, shared, fold_in(P, shared, copied, Prior(mean, root, strength))[order], rest)
        changes.append((right[1:] - right[0]) / max(1, rest.n_pairs))  # contribution of each user to the fraction
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
    """Return sums over users, and their standard errors, of changes (strengths x users), for each number of ratings."""
    return (
        np.array([change.sum(axis=1) for change in changes]),
        np.array([np.sqrt(change.shape[1]) * change.std(axis=1) for change in changes]),
    )


def right_of_users(P: np.ndarray, shared: np.ndarray | None, V: np.ndarray, p: UserPreferences) -> np.ndarray:
    """Return the number of correctly ordered pairs of each user."""
    numbers = np.repeat(np.arange(len(p.users)), np.diff(p.start))
    scores = np.einsum("rc,rc->r", P[p.item], V[numbers]) + (0.0 if shared is None else shared[p.item])
    S, ones, rows = p.at_scores(scores)
    return np.array([users_pass(RIGHT, S, ones, u, u + 1, rows)[0] for u in range(len(p.users))])


def _parts(
    p: UserPreferences, size: int, make: Callable[..., UserPreferences], rng: np.random.Generator
) -> tuple[UserPreferences, UserPreferences] | None:
    """Return (`size` ratings or comparisons of each of some users, the others); None if too few users have so many."""
    begin = p.known.start
    able = np.flatnonzero((np.diff(begin) >= size + TO_JUDGE) & (p.pairs > 0))
    if len(able) < LEAST_USERS:
        return None
    some = [rng.permutation(np.arange(begin[u], begin[u + 1]))[: size + MOST_TO_JUDGE] for u in able]
    count = [len(rows) for rows in some]
    users, rows = np.repeat(np.arange(len(able)), count), np.concatenate(some)
    few = np.concatenate([np.arange(n) for n in count]) < size
    little, rest = (some_of(p, able, users[part], rows[part], make) for part in (few, ~few))
    return little, rest.judged or rest


def some_of(
    p: UserPreferences, able: np.ndarray, users: np.ndarray, rows: np.ndarray, make: Callable[..., UserPreferences]
) -> UserPreferences:
    """Return the preferences that `make` makes from some ratings or comparisons of `p`.

    users, rows: the number of the user among `able`, and the place in `p`, of each of them.
    """
    n_items = int(p.item.max()) + 1
    if p.known.kind == PAIRS:
        first = p.start[able][users]
        winners, losers = p.item[first + p.known.winner[rows]], p.item[first + p.known.loser[rows]]
        return make(users, winners, losers, n_items, pairs=True)
    given = p.known.grade if p.known.kind == GRADES else p.known.target
    return make(users, p.item[rows], given[rows].astype(np.float64), n_items)


def held_back(
    p: UserPreferences, make: Callable[..., UserPreferences]
) -> tuple[UserPreferences, UserPreferences] | None:
    """Return (the data to learn from, all data to judge by) of half of the users; None if too few users have enough.

    The pairs that judge a fit are not among those that it learns from. For ratings these are pairs of two held-out
    ratings, or of a held-out one and another one, as in Cheng et al. (2018).

    Parameters
    ----------
    p : preferences of all users
    make : function that makes preferences: `PersonalRanker._known`
    """
    rng, begin = np.random.default_rng(0), p.known.start
    some = rng.permutation(len(p.users))
    if len(p.users) > ENOUGH_USERS:
        some = some[: max(ENOUGH_USERS, int(PART_USERS * len(p.users)))]
    some = np.sort(some[np.cumsum(np.diff(begin)[some]) <= MOST_GIVEN])
    count = np.diff(begin)[some]
    held = np.where((count >= LEAST_GIVEN) & (p.pairs[some] > 0), PART_HELD * count, 0).astype(np.int64)
    if (held > 0).sum() < LEAST_USERS:
        return None
    users, rows = np.repeat(np.arange(len(some)), count), runs_of(begin, some)[0]
    rank = places_within(users, rng.random(len(rows)))  # a random order within each user
    kept = rank >= held[users]
    return some_of(p, some, users[kept], rows[kept], make), (p.judged or p).take(some)
