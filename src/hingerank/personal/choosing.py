"""Choose C as a multiple of the smallest useful C, by ratings or comparisons held out of a first fit.

The smallest useful C is the one below which all weights are 0. Noisy data with few ratings needs about 5 times as much,
comparisons without noise a thousand times. The numbers of users, ratings and features do not tell the two apart. So a
part of the data of half of the users is held out, and the multiples are tried in increasing order, each from the result
of the one before, for a few epochs.
"""

from collections.abc import Callable

import numpy as np

from hingerank.personal.fold_in import LEAST_USERS, begins, few_and_rest
from hingerank.personal.preferences import UserPreferences, rows_of

MULTIPLES, USUAL = (5.0, 25.0, 125.0, 625.0, 3125.0), 25.0  # the default if too little can be held out
LEAST_GIVEN, PART_HELD = 10, 0.2  # fewest ratings or comparisons of a user to hold some out, and the fraction
PART_USERS, ENOUGH_USERS = 0.5, 200  # fraction of users that are used, and number up to which all are
MOST_ROWS = 2_000_000  # largest number of ratings or comparisons that are used


def held_back(
    p: UserPreferences, build: Callable[..., UserPreferences], seed: int = 0
) -> tuple[UserPreferences, UserPreferences] | None:
    """Return (the data to learn from, all data to judge by) of half of the users; None if too few users have enough.

    The pairs that judge a fit are not among those that it learns from. For ratings these are pairs of two held-out
    ratings, or of a held-out one and another one, as in Cheng et al. (2018).

    Parameters
    ----------
    p : preferences of all users
    build : function that makes preferences from users, items and ratings (or winners and losers)
    """
    rng, begin = np.random.default_rng(seed), begins(p)
    some = rng.permutation(p.n_users)
    if p.n_users > ENOUGH_USERS:
        some = some[: max(ENOUGH_USERS, int(PART_USERS * p.n_users))]
    some = np.sort(some[np.cumsum(np.diff(begin)[some]) <= MOST_ROWS])
    count = np.diff(begin)[some]
    held = np.where((count >= LEAST_GIVEN) & (p.pairs[some] > 0), PART_HELD * count, 0).astype(np.int64)
    if (held > 0).sum() < LEAST_USERS:
        return None
    users, rows = np.repeat(np.arange(len(some)), count), rows_of(begin, some)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    rank = np.empty(len(rows), np.int64)
    rank[np.lexsort((rng.random(len(rows)), users))] = place  # a random order within each user
    learnt, _ = few_and_rest(p, some, users, rows, rank >= held[users], build)
    return learnt, (p.judged or p).take(some)


def choose_multiple(right: Callable[[float], float], n_pairs: float) -> float:
    """Return the smallest multiple that orders about as many held-out pairs correctly as the best one.

    Larger multiples are tried until one is clearly worse.

    Parameters
    ----------
    right : function of a multiple: the number of held-out pairs that a fit with it orders correctly
        It is called with increasing multiples.
    n_pairs : number of held-out pairs; "about" is the square root of the number that the best one orders wrongly

    Examples
    --------
    >>> choose_multiple({5.0: 64.0, 25.0: 83.0, 125.0: 84.0, 625.0: 79.0}.get, 100)
    25.0
    """
    found: dict[float, float] = {}
    for multiple in MULTIPLES:
        found[multiple] = right(multiple)
        enough = max(found.values()) - np.sqrt(max(0.0, n_pairs - max(found.values())))
        if found[multiple] < enough:
            break
    return next(multiple for multiple in MULTIPLES if found[multiple] >= enough)
