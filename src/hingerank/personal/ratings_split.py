"""Splits of ratings into train and test: by items within each user (the paper's), or by items for all users."""

from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.user_numbers import number_ids
from hingerank.personal.layout import group
from hingerank.personal.ratings import Ratings


def split_by_user(ratings: Ratings, test_size: float = 0.2, seed: int = 0) -> tuple[Ratings, Ratings]:
    """(train, test): of every user's items a share `test_size`, chosen at random, goes to test (Cheng et al. 2018).

    A user's number of test items is rounded, but never all of them; a user with one rating is in train only.
    """
    _check_share(test_size)
    ids, codes = number_ids(ratings.users, len(ratings), "users")
    start, order = group(codes, len(ids))
    size = np.diff(start)
    chance = np.random.default_rng(seed).random(len(ratings))
    place = np.empty(len(ratings), np.int64)
    shuffled = order[np.lexsort((chance[order], codes[order]))]
    place[shuffled] = np.arange(len(ratings)) - start[codes[shuffled]]
    test = place < np.minimum(np.round(test_size * size), size - 1)[codes]
    return ratings.take(~test), ratings.take(test)


def split_by_item(
    ratings: Ratings, test_size: float = 0.2, seed: int = 0, *, known_users: bool = True
) -> tuple[Ratings, Ratings]:
    """(train, test): a share `test_size` of the rated items, with all their ratings, goes to test: cold items.

    known_users: leave out of test the users that have no training rating, about whom nothing can be known.
    """
    _check_share(test_size)
    rated = np.unique(ratings.items)
    chosen = np.random.default_rng(seed).permutation(len(rated))[: round(test_size * len(rated))]
    held = np.zeros(ratings.n_items, bool)
    held[rated[chosen]] = True
    test = held[ratings.items]
    train, rest = ratings.take(~test), ratings.take(test)
    if not known_users:
        return train, rest
    known = set(train.users.tolist())
    return train, rest.take(np.fromiter((user in known for user in rest.users.tolist()), bool, len(rest)))


def _check_share(test_size: Any) -> None:
    if not 0 < test_size < 1:
        raise DataError(f"test_size is {test_size}, expected a share between 0 and 1")
