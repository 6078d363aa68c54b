"""How many times the smallest C at which anything is learnt: by ratings or comparisons that a first fit did not see.

Noisy data with few ratings need about 5 times, comparisons without noise a thousand times that much. No number of
users, ratings or features tells the two apart, so a part of the data of half of the users is held back, and the
multiples are tried in rising order, each from where the one before ended, for a few epochs.
"""

from collections.abc import Callable

import numpy as np

from hingerank.personal.fold_in import LEAST_USERS, begins, few_and_rest
from hingerank.personal.preferences import UserPreferences, rows_of

MULTIPLES, USUAL = (5.0, 25.0, 125.0, 625.0, 3125.0), 25.0  # the usual one where too little can be held back
LEAST_GIVEN, PART_HELD = 10, 0.2  # ratings or comparisons of a user of whom some are held back, and their fraction
PART_USERS, ENOUGH_USERS = 0.5, 200  # users that are looked at, and up to how many all are
MOST_ROWS = 2_000_000  # ratings or comparisons that are looked at, at most


def held_back(
    p: UserPreferences, build: Callable[..., UserPreferences], seed: int = 0
) -> tuple[UserPreferences, UserPreferences] | None:
    """(most of what half of the users said, all of it, to judge by); None if too few users said enough.

    Pairs of the one are not among those that a fit to the other is judged by: of ratings, these are pairs of two that
    were held back, or of one of them and one that was not, as in Cheng et al. (2018).

    Parameters
    ----------
    p : what all users said
    build : makes preferences of users, items and ratings (or winners and losers)
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
    rank[np.lexsort((rng.random(len(rows)), users))] = place  # a random order of each user's own
    learnt, _ = few_and_rest(p, some, users, rows, rank >= held[users], build)
    return learnt, (p.judged or p).take(some)


def choose_multiple(right: Callable[[float], float], n_pairs: float) -> float:
    """The smallest multiple that has about as many held back pairs right as the best; the larger ones are tried until
    one has clearly fewer right.

    Parameters
    ----------
    right : of a multiple, the held back pairs that a fit with it has right; called with rising ones
    n_pairs : pairs that were held back; "about" is the square root of the number that the best has wrong

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
