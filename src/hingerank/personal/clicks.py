"""Clicks, listens, purchases: the items that a user took. All other items may be negatives.

For a user with n clicks and m sampled items all n·m pairs count, without being listed. Items are sampled again in every
epoch, so that in the end a user's clicks are compared with the whole catalogue.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError
from hingerank.personal.preferences import UserPreferences, check_items, check_weights, from_ratings

CHANCES = ("uniform", "popularity")


@dataclass(frozen=True)
class Clicks:
    """The items that users took, each once: those of user u are items[start[u]:start[u+1]], in increasing order.

    weight: of each click; None if all weights are equal.
    """

    users: np.ndarray
    start: np.ndarray
    items: np.ndarray
    n_items: int
    weight: np.ndarray | None = None

    @property
    def code(self) -> np.ndarray:
        """The number of the user of each click."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.start))


def clicks_of(users: Any, items: Any, n_items: int, weight: Any = None) -> Clicks:
    """Group clicks, given in any order, by user.

    Repeats count once, or with the sum of their weights if they have weights. Clicks of weight 0 are left out.

    Examples
    --------
    >>> clicks_of(["bob", "ann", "bob", "bob"], [2, 1, 0, 2], 3).items.tolist()
    [0, 2, 1]
    """
    rows = check_items(items, n_items, "items")
    if weight is not None:
        weights = check_weights(weight, len(rows), "sample_weight", "click")
        users, rows, weights = np.asarray(users)[weights > 0], rows[weights > 0], weights[weights > 0]
        if not len(rows):
            raise DataError("sample_weight is 0 for every click: nothing is left to learn from")
    ids, code = number_ids(users, len(rows), "users")
    key, place = np.unique(code.astype(np.int64) * n_items + rows, return_inverse=True)
    start = np.searchsorted(key, np.arange(len(ids) + 1) * n_items)
    full = np.flatnonzero(np.diff(start) == n_items)
    if len(full):
        user = ids[full].tolist()[0]
        raise DataError(f"user {user!r} took every item, so there is no item to compare with: leave such users out")
    total = None if weight is None else np.bincount(place, weights)
    return Clicks(ids, start, (key % n_items).astype(np.int32), n_items, total)


def draw_losers(
    clicks: Clicks, per_click: float, least: int, how: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sample items that users did not take, some for each click, and return (users, items), each pair once."""
    count = np.maximum(np.ceil(per_click * np.diff(clicks.start)).astype(np.int64), least)
    code = np.repeat(np.arange(len(count)), count)
    if how == "uniform":
        items = rng.integers(0, clicks.n_items, len(code))
    else:  # proportional to the clicks plus one, so that every item has a chance
        popular = np.cumsum(np.bincount(clicks.items, minlength=clicks.n_items) + 1.0)
        items = np.searchsorted(popular, rng.random(len(code)) * popular[-1], side="right")
    key = np.sort(code * clicks.n_items + items)  # np.unique would use hashing, which is many times slower
    key = key[np.diff(key, prepend=-1) > 0]
    taken = clicks.code * clicks.n_items + clicks.items
    at = np.minimum(np.searchsorted(taken, key), len(taken) - 1)
    key = key[taken[at] != key]
    return key // clicks.n_items, key % clicks.n_items


def drawn_preferences(
    clicks: Clicks, per_click: float, least: int, how: str, rng: np.random.Generator, pair_weight: str
) -> UserPreferences:
    """Return preferences for every click of a user over every item sampled for the user; users as in `clicks`."""
    users, items = draw_losers(clicks, per_click, least, how, rng)
    all_users = np.concatenate([clicks.code, users])
    values = np.concatenate([np.ones(len(clicks.items)), np.zeros(len(items))])
    all_items = np.concatenate([clicks.items, items])
    weight = None if clicks.weight is None else np.concatenate([clicks.weight, np.ones(len(items))])
    return from_ratings(all_users, all_items, values, clicks.n_items, pair_weight, weight)
