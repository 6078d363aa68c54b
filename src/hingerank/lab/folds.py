"""Folds: what a ranker may learn from, what chooses its setting, and what it is measured on.

Parts rotate by LETOR's rule (`hingerank.data.ranking_data.rotate`); queries are never cut.

Ratings go under the same protocol: every user is a query, and its rows are the items that the user rated, with their
features. All parts of a fold share the users; what training has not seen is either items ("items": some items with all
their ratings are held out, so methods must judge them by their features) or single ratings ("ratings": some of every
user's; "time": the latest of all). Rankers of rows take part as they are: they learn one function for all users.
Personal rankers take part as `PersonalRows`. Topics for diversification are queries too: see `hingerank.lab.topics`.
"""

import hashlib
import inspect
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Facts, Matrix
from hingerank.data.blocks import blocks_from_qid, fingerprint_whole, number_ids
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData, rotate
from hingerank.data.rows_view import RowsView
from hingerank.diversity.queries import DiverseData
from hingerank.lab.topics import TopicRows, join_topics, topic_rows
from hingerank.personal.baselines import ItemMean, Popularity
from hingerank.personal.item_features import Features
from hingerank.personal.lists import ItemKNN
from hingerank.personal.ratings import Ratings

PARTS = ("train", "validation", "test")
HELD_OUT = ("items", "ratings", "time")


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Some rows of a data set, taken only when they are needed."""

    data: RankingData
    index: np.ndarray

    def take(self) -> RankingData:
        return self.data.take(self.index)


@dataclass(frozen=True, eq=False)
class Fold:
    """A name and three parts.

    Attributes
    ----------
    name : what it is called in results
    train, validation, test : RankingData, or `SelectedRows` of one
    shared_queries : the parts are meant to share queries, as those of ratings share users
    """

    name: str
    train: RankingData | SelectedRows
    validation: RankingData | SelectedRows
    test: RankingData | SelectedRows
    shared_queries: bool = False

    @property
    def rows(self) -> RankingData:
        """Data that rows to test are taken of."""
        return self.test.data if isinstance(self.test, SelectedRows) else self.test

    def part(self, name: str) -> RankingData:
        """ "train", "validation" or "test"."""
        chosen = getattr(self, name)
        return _plain_arrays(chosen.take() if isinstance(chosen, SelectedRows) else chosen)


def _plain_arrays(data: RankingData) -> RankingData:
    """The same data with arrays mapped from a file as plain ones, which is what they are to every kernel."""
    if isinstance(data.X, RowsView):
        X: Matrix = data.X
    elif isinstance(data.X, np.ndarray):
        X = np.asarray(data.X)
    else:
        parts = (np.asarray(data.X.data), np.asarray(data.X.indices), np.asarray(data.X.indptr))
        X = type(data.X)(parts, shape=data.X.shape, copy=False)
    docid = None if data.docid is None else np.asarray(data.docid)
    return replace(data, X=X, y=np.asarray(data.y), qid=np.asarray(data.qid), docid=docid)


def query_folds(data: RankingData | DiverseData, k: int = 5, seed: int = 0) -> list[Fold]:
    """Shuffle the queries, cut them into k parts of nearly equal size and rotate the parts by LETOR's rule."""
    data = _rows_of(data)
    return _folds(data, data.fold_rows(k, seed))


def _rows_of(data: RankingData | DiverseData) -> RankingData:
    return topic_rows(data) if isinstance(data, DiverseData) else data


def part_folds(parts: Sequence[RankingData | DiverseData]) -> list[Fold]:
    """LETOR's rule over parts that already exist, such as OHSUMED's S1 ... S5."""
    if len(parts) < 3:
        raise ValueError(f"{len(parts)} parts: give at least 3, one each to train, to validate and to test")
    rows = [_rows_of(part) for part in parts]
    topics = [part for part in rows if isinstance(part, TopicRows)]
    data = join_topics(topics) if len(topics) == len(rows) else RankingData.concatenate(rows)
    ends = np.cumsum([part.n_rows for part in rows])
    return _folds(data, rotate([np.arange(end - part.n_rows, end) for part, end in zip(rows, ends)]))


def _folds(data: RankingData, turns: Sequence[Sequence[np.ndarray]]) -> list[Fold]:
    parts = [[SelectedRows(data, rows) for rows in turn] for turn in turns]
    return [Fold(f"fold {i}", train, check, test) for i, (train, check, test) in enumerate(parts, 1)]


def check_folds(folds: Iterable[Fold | Sequence[RankingData | DiverseData]]) -> list[Fold]:
    """The folds as a list, if each is usable: rows and queries in every part, none of them shared between parts."""
    named = [_named(fold, number) for number, fold in enumerate(folds, 1)]
    if not named:
        raise ValueError("there are no folds: give at least one")
    names = [fold.name for fold in named]
    if len(set(names)) < len(names):
        raise ValueError(f"folds must have different names, got {names}")
    for fold in named:
        seen: dict[Hashable, str] = {}
        for name in PARTS:
            ids = _queries(getattr(fold, name))
            if not ids:
                raise DataError(f"{fold.name}: the {name} part is empty")
            shared = next((q for q in ids if q in seen), None)
            if shared is not None and not fold.shared_queries:
                raise DataError(f"{fold.name}: query {shared!r} is in both the {seen[shared]} and the {name} part")
            seen.update(dict.fromkeys(ids, name))
    return named


def _named(fold: Fold | Sequence[RankingData | DiverseData], number: int) -> Fold:
    """A triple (train, validation, test) without a name, such as `read_folds` gives, is called by its number."""
    if isinstance(fold, Fold):
        return fold
    train, validation, test = map(_rows_of, fold)
    return Fold(f"fold {number}", train, validation, test)


def _queries(part: RankingData | SelectedRows) -> list[Hashable]:
    if isinstance(part, SelectedRows):
        return blocks_from_qid(part.data.qid[part.index], len(part.index)).ids.tolist()
    return part.blocks.ids.tolist()


def fingerprint(folds: Sequence[Fold]) -> str:
    """One short text for the folds' rows, grades, queries and features: it changes when any of them does."""
    sums: dict[int, bytes] = {}

    def digest(data: RankingData) -> bytes:
        if id(data) not in sums:
            whole = fingerprint_whole(data.X, data.y, data.qid)
            sums[id(data)] = data.fingerprint(whole) if isinstance(data, TopicRows) else whole
        return sums[id(data)]

    whole = hashlib.blake2b(digest_size=16)
    for fold in folds:
        whole.update(fold.name.encode())
        for name in PARTS:
            part = getattr(fold, name)
            rows = isinstance(part, SelectedRows)
            whole.update(digest(part.data if rows else part))
            whole.update(np.asarray(part.index, np.int64).tobytes() if rows else b"all")
    return whole.hexdigest()


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


class BlendRows:
    """A blend of rankers whose settings are tuned on folds of the training rows: `tune` with ``blend=True``.

    Parameters
    ----------
    members : names of the rankers; None: rank-svm, additive-rank-svm and, where it is installed, lightgbm
    folds : of the training queries
    measure : to tune by
    random_state : of the folds, and of rankers
    """

    def __init__(
        self, members: Any = None, folds: int = 5, measure: str = "ndcg@10", random_state: int | None = None
    ) -> None:
        self.members, self.folds, self.measure, self.random_state = members, folds, measure, random_state

    def fit(self, X: Matrix, y: Any = None, qid: Any = None) -> "BlendRows":
        from hingerank.search.tuning import tune

        names = self.members
        if names is None:
            names = ["rank-svm", "additive-rank-svm", *(["lightgbm"] if find_spec("lightgbm") else [])]
        data = X if isinstance(X, RankingData) else RankingData(X, y, qid)
        self.ranker_ = tune(
            list(names), data, measure=self.measure, folds=self.folds, random_state=self.random_state or 0, blend=True
        )
        return self

    def predict(self, X: Matrix, qid: Any = None) -> np.ndarray:
        return self.ranker_.predict(X, qid)

    def save(self, path: Any, metadata: Any = None) -> str:
        """Write the blend to a model file."""
        return self.ranker_.save(path, metadata)

    def __getattr__(self, name: str) -> Any:
        """What was fitted, such as members_ and certificate_, is the blend's."""
        if not name.endswith("_") or name.startswith("_") or name == "ranker_":
            raise AttributeError(name)
        return getattr(self.ranker_, name)


BASELINES: Facts = {"popularity": Popularity, "item-mean": ItemMean, "item-knn": ItemKNN}  # of ratings


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
