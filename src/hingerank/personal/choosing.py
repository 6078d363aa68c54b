"""How many times the smallest C at which anything is learnt: from what users said and a first fit did not see.

Few ratings of noisy users want about 50 times, many comparisons without noise a hundred times that. No number of users,
ratings or features tells the two apart, so a part of what every user said is held back, and the multiples are tried in
rising order, each from where the one before ended. (Fewer users would not do: with more of them to share a basis, more
can be learnt of each.)
"""

from collections.abc import Callable

import numpy as np

from hingerank.personal.fold_in import LEAST_USERS, begins, told_and_rest
from hingerank.personal.preferences import UserPreferences, rows_of

MULTIPLES = (50.0, 250.0, 1250.0, 6250.0)  # the first unless others have clearly more pairs right
LEAST_GIVEN, PART_HELD = 10, 0.2  # ratings or comparisons of a user of whom some are held back, and their fraction
MOST_ROWS = 2_000_000  # ratings or comparisons that are looked at: all, or those of some users


def held_back(
    p: UserPreferences, build: Callable[..., UserPreferences], seed: int = 0
) -> tuple[UserPreferences, UserPreferences] | None:
    """(most of what users said, all of it, to judge by); None if too few users said enough.

    Pairs of the one are not among those that a fit to the other is judged by: of ratings, these are pairs of two that
    were held back, or of one of them and one that was not, as in Cheng et al. (2018).

    Parameters
    ----------
    p : what all users said
    build : makes preferences of users, items and ratings (or winners and losers)
    """
    rng, begin = np.random.default_rng(seed), begins(p)
    some = np.arange(p.n_users)
    if begin[-1] > MOST_ROWS:
        some = rng.permutation(some)
        some = np.sort(some[np.cumsum(np.diff(begin)[some]) <= MOST_ROWS])
    count = np.diff(begin)[some]
    held = np.where((count >= LEAST_GIVEN) & (p.pairs[some] > 0), PART_HELD * count, 0).astype(np.int64)
    if (held > 0).sum() < LEAST_USERS:
        return None
    users, rows = np.repeat(np.arange(len(some)), count), rows_of(begin, some)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    rank = np.empty(len(rows), np.int64)
    rank[np.lexsort((rng.random(len(rows)), users))] = place  # a random order of each user's own
    learnt, _ = told_and_rest(p, some, users, rows, rank >= held[users], build)
    return learnt, (p.judged or p).take(some)


def choose_multiple(right: Callable[[float], np.ndarray], n_pairs: int) -> float:
    """The largest multiple up to which each has more held back pairs right than the one before, by a standard error.

    Parameters
    ----------
    right : of a multiple, the pairs of each user that a fit with it has right; called with rising ones
    n_pairs : pairs that were held back

    Examples
    --------
    >>> choose_multiple(lambda m: np.full(4, {50.0: 8.0, 250.0: 9.0}.get(m, 7.0)), n_pairs=40)
    250.0
    """
    chosen, before = MULTIPLES[0], right(MULTIPLES[0])
    for multiple in MULTIPLES[1:]:
        now = right(multiple)
        change = (now - before) / max(1, n_pairs)
        if not change.sum() > np.sqrt(len(change)) * change.std():
            break
        chosen, before = multiple, now
    return chosen
