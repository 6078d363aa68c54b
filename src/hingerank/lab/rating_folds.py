"""Folds of ratings: every user is a query, and its rows are the items that the user rated, with their features.

All parts of a fold share the users; what training has not seen is either items ("items": some items with all their
ratings are held out, so methods must judge them by their features) or single ratings ("ratings": some of every user's;
"time": the latest of all). Rankers of rows take part as they are: they learn one function for all users. Personal
rankers take part as `PersonalRows`, baselines as `BaselineRows`.
"""

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Matrix
from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData, rotate
from hingerank.lab.folds import Fold, SelectedRows
from hingerank.personal.baselines import ItemMean, Popularity
from hingerank.personal.item_features import Features
from hingerank.personal.lists import ItemKNN
from hingerank.personal.ratings import Ratings

HELD_OUT = ("items", "ratings", "time")


class PersonalRows:
    """A personal ranker that fits and scores rows with the user as qid; parameters go to the ranker."""

    def __init__(self, ranker: str, random_state: int | None = None, **parameters: Any) -> None:
        from hingerank.registry import ranker_class

        cls = ranker_class(ranker)
        if random_state is not None and "random_state" in inspect.signature(cls).parameters:
            parameters["random_state"] = random_state
        self.ranker = cls(**parameters)

    def fit(self, X: Matrix, y: np.ndarray, qid: ArrayLike) -> "PersonalRows":
        self.ranker.fit(X, qid, np.arange(len(y)), y)  # pairs are within users: rows need not know their items
        return self

    def predict(self, X: Matrix, qid: ArrayLike) -> np.ndarray:
        return self.ranker.predict(qid, X)

    def __getattr__(self, name: str) -> Any:
        """What was fitted, such as basis_ and certificate_, is the ranker's."""
        if not name.endswith("_") or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.ranker, name)


BASELINES: dict[str, Any] = {"popularity": Popularity, "item-mean": ItemMean, "item-knn": ItemKNN}  # of ratings


class BaselineRows:
    """A baseline that fits and scores rows with the user as qid; items are known by their features."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.baseline = BASELINES[name]()

    def fit(self, X: Matrix, y: np.ndarray, qid: ArrayLike) -> "BaselineRows":
        self.baseline.fit(X, qid, np.arange(len(y)), y)
        return self

    def predict(self, X: Matrix, qid: ArrayLike) -> np.ndarray:
        return self.baseline.predict(qid, X)


def rating_folds(
    ratings: Ratings, features: Features, k: int = 5, seed: int = 0, held_out: str = "items"
) -> list[Fold]:
    """k folds by LETOR's rule over parts of the items, or of every user's ratings; see the module.

    Validation and test rows of users without a training row in the fold are left out: no method can rank for them.

    Parameters
    ----------
    ratings : who rated what
    features : of the items, as `genre_features`, `word_features` and the like make them
    k : folds, at least 3
    seed : of the parts
    held_out : "items" or "ratings", or "time": a single fold, in which the latest k-th of all ratings is tested and the
        k-th before it validates

    Examples
    --------
    >>> from hingerank.personal.item_features import word_features
    >>> from hingerank.personal.ratings import ratings_from
    >>> made = ratings_from(list("aaabbb"), [0, 1, 2, 0, 1, 2], [5, 4, 1, 1, 4, 5], item_ids=[0, 1, 2])
    >>> words = word_features(["red car", "red bus", "old bus"], min_items=1)
    >>> [fold.test.take().docid.tolist() for fold in rating_folds(made, words, 3)]
    [['1', '1'], ['2', '2'], ['0', '0']]
    """
    if held_out not in HELD_OUT:
        raise ValueError(f"held_out is {held_out!r}; choose {' or '.join(HELD_OUT)}")
    if k < 3:
        raise ValueError(f"{k} folds: give at least 3, one part each to train, to validate and to test")
    data = rating_rows(ratings, features)
    rng = np.random.default_rng(seed)
    users, user = number_ids(ratings.users, len(ratings), "users")
    if held_out == "time":
        if ratings.times is None:
            raise DataError("these ratings have no times, which are needed to hold out the latest: name their column")
        latest = np.argsort(ratings.times, kind="stable")
        cuts = [len(latest) - 2 * len(latest) // k, len(latest) - len(latest) // k]
        return [_of_known_users("the latest", data, np.split(latest, cuts), user)]
    if held_out == "items":
        rated = np.unique(ratings.items)
        if len(rated) < k:
            raise DataError(f"{k} folds need at least {k} rated items, there are {len(rated)}")
        part_of_item = np.zeros(ratings.n_items, np.int64)
        part_of_item[rng.permutation(rated)] = np.arange(len(rated)) * k // len(rated)
        part = part_of_item[ratings.items]
    else:
        shuffled = rng.permutation(len(ratings))
        shuffled = shuffled[np.argsort(user[shuffled], kind="stable")]
        start = np.searchsorted(user[shuffled], np.arange(len(users)))
        part = np.empty(len(ratings), np.int64)
        part[shuffled] = (
            np.arange(len(ratings)) - start[user[shuffled]] + rng.integers(k, size=len(users))[user[shuffled]]
        ) % k
    turns = rotate([np.flatnonzero(part == p) for p in range(k)])
    return [_of_known_users(f"fold {i}", data, turn, user) for i, turn in enumerate(turns, 1)]


def rating_rows(ratings: Ratings, features: Features) -> RankingData:
    """A row per rating: its item's features, the rating as grade, the user as query, item title or id as docid."""
    X, names = features
    if X.shape[0] != ratings.n_items:
        raise DataError(f"the features have {X.shape[0]} rows, but there are {ratings.n_items} items")
    called = ratings.item_ids if ratings.titles is None else ratings.titles
    docid = np.array([str(value) for value in called.tolist()], object)[ratings.items]
    return RankingData.from_arrays(X[ratings.items], ratings.ratings, ratings.users, docid=docid, feature_names=names)


def _of_known_users(name: str, data: RankingData, parts: list[np.ndarray], user: np.ndarray) -> Fold:
    """A fold of these rows to train, to validate and to test, without the users that training does not know."""
    train, *others = parts
    known = np.zeros(user.max() + 1, bool)
    known[user[train]] = True
    validation, test = (rows[known[user[rows]]] for rows in others)
    for purpose, rows in (("validate", validation), ("test", test)):
        if not len(rows):
            raise DataError(f"{name} has no rating to {purpose} by a user of its training part: give fewer folds")
    return Fold(
        name, SelectedRows(data, train), SelectedRows(data, validation), SelectedRows(data, test), shared_queries=True
    )
