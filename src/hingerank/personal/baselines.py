"""Baselines that every recommender should beat: the most popular items and the best rated ones, the same for all users.

Also the base class of baselines with a list for each user, which identify items by their features.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from hingerank.data.blocks import number_ids
from hingerank.data.checks import whole
from hingerank.personal.catalogue import UserIndex
from hingerank.personal.preferences import check_items
from hingerank.personal.products import all_products, row_products
from hingerank.personal.ratings import check_ratings
from hingerank.personal.top_lists import hidden_items, top_lists


class ItemBaseline(BaseEstimator):
    """A score for each item, which is identified by its features: equal features share a score, unseen items have 0."""

    def fit(self, item_features: Any, users: Any, items: Any, ratings: Any = None) -> Self:
        """Count the ratings; arguments as in PersonalRankSVM. Ratings may be left out if only who took what counts."""
        keys = row_keys(item_features)
        n_items = item_features.shape[0]
        rows = check_items(items, n_items, "items")
        values = np.ones(len(rows)) if ratings is None else check_ratings(ratings, len(rows)).astype(np.float64)
        number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        code = np.array([number[key] for key in keys])[rows]
        self.scores_ = dict(zip(number, self._value(code, values, len(number)).tolist()))
        return self

    def _value(self, code: np.ndarray, ratings: np.ndarray, count: int) -> np.ndarray:
        raise NotImplementedError

    def predict(self, users: Any, features: Any) -> np.ndarray:
        """Return one score per row of features; it does not depend on the user."""
        return np.array([self.scores_.get(key, 0.0) for key in row_keys(features)])

    def top_k(
        self, users: Any, candidates: Any, top: int = 10, *, exclude: tuple[Any, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lists as PersonalRankSVM.top_k does: the same for all users, without what each user has seen."""
        top, scores = whole("top", top), self.predict(None, candidates)
        order = np.argsort(-scores, kind="stable")
        seen: dict[Any, set[int]] = {}
        if exclude is not None:
            for user, item in zip(np.asarray(exclude[0]).tolist(), np.asarray(exclude[1]).tolist()):
                seen.setdefault(user, set()).add(item)
        rows = np.full((len(users), top), -1, np.int64)
        for line, user in enumerate(np.asarray(users).tolist()):
            mine = seen.get(user, set())
            first = order[: top + len(mine)].tolist()
            best = [item for item in first if item not in mine][:top]
            rows[line, : len(best)] = best
        return rows, np.where(rows >= 0, scores[rows], -np.inf)


class Popularity(ItemBaseline):
    """score(i) = number of ratings of item i.

    Examples
    --------
    >>> X = np.eye(3)
    >>> Popularity().fit(X, [1, 2, 2], [0, 0, 1]).top_k([3], X, 2)[0].tolist()
    [[0, 1]]
    """

    def _value(self, code: np.ndarray, ratings: np.ndarray, count: int) -> np.ndarray:
        return np.bincount(code, minlength=count).astype(np.float64)


class ItemMean(ItemBaseline):
    """score(i) = sum over its ratings of (rating - mean of all) / (their number + shrink).

    Examples
    --------
    >>> X = np.eye(2)
    >>> ItemMean(shrink=0).fit(X, [1, 2], [0, 1], [5, 1]).predict(None, X).tolist()
    [2.0, -2.0]
    """

    def __init__(self, shrink: float = 5.0):
        self.shrink = shrink

    def _value(self, code: np.ndarray, ratings: np.ndarray, count: int) -> np.ndarray:
        total = np.bincount(code, ratings - ratings.mean(), count)
        return total / np.maximum(np.bincount(code, minlength=count) + self.shrink, 1e-12)


class KnownItems(BaseEstimator):
    """score(u, i) = <own(u), place(i)>, for items identified by their features: equal features count as one item.

    A subclass defines `fit`, which calls `_know`, and `_place` and `_own`.
    """

    users_: np.ndarray
    _number: dict[bytes, int]

    def _know(self, item_features: Any, users: Any, items: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the number of each user, the number of each item taken, and the first row of each distinct item."""
        number: dict[bytes, int] = {}
        place = np.array([number.setdefault(key, len(number)) for key in row_keys(item_features)], np.int64)
        rows = check_items(items, len(place), "items")
        self.users_, code = number_ids(users, len(rows), "users")
        self._number = number
        return code, place[rows], np.unique(place, return_index=True)[1]

    def _numbers(self, features: Any) -> np.ndarray:
        """Return the number of each item, -1 for items that were not in the fit."""
        return np.array([self._number.get(key, -1) for key in row_keys(features)], np.int64)

    def _place(self, features: Any) -> Any:
        """Return a vector for each item, dense or CSR, to be multiplied with a user's vector."""
        raise NotImplementedError

    def _own(self, numbers: np.ndarray) -> Any:
        """Return the vectors of users as rows, dense or CSR."""
        raise NotImplementedError

    def predict(self, users: Any, features: Any) -> np.ndarray:
        """Return one score per row of features; users who took nothing have scores of 0."""
        number = UserIndex(self.users_).numbers(users, features.shape[0])
        return row_products(self._place(features), self._own(number)) * (number >= 0)

    def top_k(
        self, users: Any, candidates: Any, top: int = 10, *, exclude: tuple[Any, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lists as PersonalRankSVM.top_k does; users who took nothing have scores of 0."""
        number, place, n_items = UserIndex(self.users_).numbers(users), self._place(candidates), candidates.shape[0]

        def scores(block: slice) -> np.ndarray:
            S = np.asarray(all_products(self._own(number[block]), place), np.float64)
            S[number[block] < 0] = 0.0
            return S

        return top_lists(scores, len(number), n_items, whole("top", top), hidden_items(exclude, users, n_items))


def row_keys(X: Any) -> list[bytes]:
    """Return bytes for each row that are the same for equal rows, dense or CSR."""
    X = sp.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    columns, cuts = X.indices.astype(np.int32, copy=False), zip(X.indptr[:-1], X.indptr[1:])
    return [columns[a:b].tobytes() + X.data[a:b].tobytes() for a, b in cuts]
