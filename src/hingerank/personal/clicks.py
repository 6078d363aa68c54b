"""Clicks, listens, purchases: what a user took, and nothing about the rest, of which every item may lose.

Of a user with n clicks and m drawn items all n·m pairs count (by the sweep, unlisted); items are drawn again for every
epoch, so that in the end a user's clicks are set against the catalogue.
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
    """Items that users took, each once, by user: those of user u are items[start[u]:start[u+1]], ascending.

    weight: of each, None where all count alike.
    """

    users: np.ndarray
    start: np.ndarray
    items: np.ndarray
    n_items: int
    weight: np.ndarray | None = None

    @property
    def code(self) -> np.ndarray:
        """The user of each click."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.start))


def clicks_of(users: Any, items: Any, n_items: int, weight: Any = None) -> Clicks:
    """Clicks in any order, repeats counting once, or where they have weights as their sum; those of weight 0 not.

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
        raise DataError(f"user {user!r} took every item, so that nothing is left to lose: leave such users out")
    total = None if weight is None else np.bincount(place, weights)
    return Clicks(ids, start, (key % n_items).astype(np.int32), n_items, total)


def draw_losers(
    clicks: Clicks, per_click: float, least: int, how: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(users, items): for every user items not taken, some for each click, each item once."""
    count = np.maximum(np.ceil(per_click * np.diff(clicks.start)).astype(np.int64), least)
    code = np.repeat(np.arange(len(count)), count)
    if how == "uniform":
        items = rng.integers(0, clicks.n_items, len(code))
    else:  # as often as items are taken, with a click more for each so that all have a chance
        popular = np.cumsum(np.bincount(clicks.items, minlength=clicks.n_items) + 1.0)
        items = np.searchsorted(popular, rng.random(len(code)) * popular[-1], side="right")
    key = np.sort(code * clicks.n_items + items)  # np.unique would hash, which takes many times as long
    key = key[np.diff(key, prepend=-1) > 0]
    taken = clicks.code * clicks.n_items + clicks.items
    at = np.minimum(np.searchsorted(taken, key), len(taken) - 1)
    key = key[taken[at] != key]
    return key // clicks.n_items, key % clicks.n_items


def drawn_preferences(
    clicks: Clicks, per_click: float, least: int, how: str, rng: np.random.Generator, pair_weight: str
) -> UserPreferences:
    """Every click of a user above every item drawn for the user; users in the order of `clicks`."""
    users, items = draw_losers(clicks, per_click, least, how, rng)
    all_users = np.concatenate([clicks.code, users])
    values = np.concatenate([np.ones(len(clicks.items)), np.zeros(len(items))])
    all_items = np.concatenate([clicks.items, items])
    weight = None if clicks.weight is None else np.concatenate([clicks.weight, np.ones(len(items))])
    return from_ratings(all_users, all_items, values, clicks.n_items, pair_weight, weight)
