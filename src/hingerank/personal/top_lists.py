"""The best items of many users, for one block of users at a time, without excluded items."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import number_ids
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.catalogue import UserIndex
from hingerank.personal.passes import top_rows
from hingerank.personal.preferences import check_items

SCORES_AT_ONCE = 1 << 22


def hidden_items(exclude: tuple[Any, Any] | None, users: Any, n_items: int) -> sp.csr_matrix | None:
    """Return which items are excluded for each of these users (by rows)."""
    if exclude is None:
        return None
    items = check_items(exclude[1], n_items, "exclude")
    distinct, place = number_ids(users, len(users), "users")
    numbers = UserIndex(distinct).numbers(exclude[0], len(items))
    items, numbers = items[numbers >= 0], numbers[numbers >= 0]
    found = sp.csr_matrix((np.ones(len(items), bool), (numbers, items)), shape=(len(distinct), n_items))
    return found if len(distinct) == len(place) else found[place]


def top_lists(
    scores: Callable[[slice], np.ndarray], n_users: int, n_items: int, top: int, hidden: sp.csr_matrix | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, scores) of the best items, a line per user, best first; rows are -1 if too few items are left.

    Parameters
    ----------
    scores : function of a block of users that returns a new dense array of users x items
    n_users, n_items : numbers of users and items
    top : number of items per user
    hidden : the result of `hidden_items`
    """
    rows, values = np.empty((n_users, top), np.int64), np.empty((n_users, top))
    step = max(1, SCORES_AT_ONCE // max(1, n_items))
    for a in range(0, n_users, step):
        block = slice(a, min(a + step, n_users))
        S, into = scores(block), (rows[block], values[block])
        if hidden is not None:
            S[hidden[block].nonzero()] = -np.inf
        shards = cut_shards(np.arange(len(S) + 1) * n_items, 1 << 16)
        run_shards(lambda ab, S=S, into=into: top_rows(S, *ab, *into), shards)
    return rows, values
