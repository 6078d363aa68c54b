"""Folds of ratings: every user is a query, and its rows are the items that the user rated, with their features.

All parts of a fold share the users; what training has not seen is either items ("items": some items with all their
ratings are held out, so methods must judge them by their features) or single ratings ("ratings": some of every user's;
"time": the latest of all). Rankers of rows take part as they are: they learn one function for all users. Personal
rankers take part as `PersonalRows`, baselines and recommenders of other libraries as `BaselineRows`. `rating_folds` is
for measures of the order of rated items (`ndcg@10`). `list_folds` is for measures of lists over all items
(`list_ndcg@10`): a method is judged by where a user's items are in the list that it makes of all items, without those
that the user is known to have, and nothing is sampled.
"""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Matrix, Ranker
from hingerank.data.blocks import number_ids
from hingerank.data.checks import one_of
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData, rotate
from hingerank.lab.folds import Fold, SelectedRows
from hingerank.metrics.measure import MeasureLike, measure_name
from hingerank.personal.baselines import PEERS, ItemBaseline, ItemKNN, ItemMean, KnownItems, Popularity
from hingerank.personal.item_features import Features
from hingerank.personal.ratings import Ratings, dealt
from hingerank.personal.top_n import list_values, parse_list_measure, same_lists
from hingerank.search.folds import predicted

LIST_MEASURE = "list_ndcg@10"
LIST_MEASURES = [f"list_{kind}@10" for kind in ("ndcg", "recall", "precision", "hit_rate", "mrr")]
LONGEST = 100  # items in a list
Known = tuple[np.ndarray, np.ndarray]  # users and the items that each is known to have


class RatedRows:
    """A ranker of ratings with the methods of a ranker of rows: the user of a row is its qid."""

    ranker: Ranker

    def fit(self, X: Matrix, y: np.ndarray, qid: ArrayLike) -> Self:
        self.ranker.fit(X, qid, np.arange(len(y)), y)  # pairs are within users, so every row may be its own item
        return self

    def fit_ratings(self, item_features: Matrix, users: ArrayLike, items: ArrayLike, ratings: ArrayLike) -> Self:
        """Learn from ratings of items that are rows of item_features."""
        self.ranker.fit(item_features, users, items, ratings)
        return self

    def predict(self, X: Matrix, qid: ArrayLike) -> np.ndarray:
        return self.ranker.predict(qid, X)

    def top_k(
        self, users: ArrayLike, candidates: Matrix, top: int = 10, *, exclude: Known | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best candidates of every user."""
        return self.ranker.top_k(users, candidates, top, exclude=exclude)


class PersonalRows(RatedRows):
    """A personal ranker by its registered name; parameters go to the ranker."""

    def __init__(self, ranker: str, random_state: int | None = None, **parameters: object) -> None:
        from hingerank.registry import ranker_class

        cls = ranker_class(ranker)
        if random_state is not None and "random_state" in inspect.signature(cls).parameters:
            parameters["random_state"] = random_state
        self.ranker = cls(**parameters)

    def __getattr__(self, name: str) -> object:
        """Fitted attributes, such as basis_ and certificate_, are the ranker's."""
        if not name.endswith("_") or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.ranker, name)


BASELINES: dict[str, type[ItemBaseline | KnownItems]] = {
    "popularity": Popularity,
    "item-mean": ItemMean,
    "item-knn": ItemKNN,
    **PEERS,
}
TRIED: Mapping[str, Mapping[str, Sequence[object]]] = {  # settings of baselines that have some
    "item-knn": {"neighbours": [20, 100, 400], "shrink": [0.0, 10.0, 100.0]},
    "als": {"factors": [16, 32, 64], "regularization": [0.1, 1.0, 10.0]},
    "bpr": {"factors": [16, 32, 64], "regularization": [0.001, 0.01, 0.1]},
    "lightfm": {"no_components": [16, 32, 64], "taken": ["all", "liked"]},
}


class BaselineRows(RatedRows):
    """A baseline by its name; parameters go to the baseline. Items are identified by their features."""

    def __init__(self, name: str, random_state: int | None = None, **parameters: object) -> None:
        if random_state is not None and "random_state" in baseline_parameters(name):
            parameters["random_state"] = random_state
        self.name = name
        self.ranker = BASELINES[name](**parameters)


def baseline_parameters(name: str) -> list[str]:
    """The parameters of a baseline."""
    return list(BASELINES[name]().get_params())


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
    data = rating_rows(ratings, features)
    return [
        Fold(name, SelectedRows(data, a), SelectedRows(data, b), SelectedRows(data, c), shared_queries=True)
        for name, (a, b, c) in _parts(ratings, k, seed, held_out)
    ]


def list_folds(
    ratings: Ratings,
    features: Features,
    k: int = 5,
    seed: int = 0,
    held_out: str = "ratings",
    relevant: float | None = None,
) -> list[Fold]:
    """k folds as `rating_folds` makes them, whose methods are judged by lists over all items.

    What training and, in the test, validation know of a user is not offered to the user again. With held_out="items"
    lists are made of the items that these do not know. Measures are those of lists, such as "list_ndcg@10".

    Parameters
    ----------
    ratings, features, k, seed, held_out : as in `rating_folds`
        Items with the same features count as one for some methods: give each a column of its own beside its features
        (`identity_features`).
    relevant : the least rating of an item that a list should find; default the median of all ratings

    Examples
    --------
    >>> import hingerank as hr
    >>> from hingerank.lab.methods import method_from_name
    >>> made = hr.make_personal(40, 30, 3, 2, kind="ratings", per_user=15, seed=0)
    >>> ratings = hr.ratings_from(made.users, made.items, made.ratings, item_ids=range(30))
    >>> folds = list_folds(ratings, hr.identity_features(ratings.item_ids), 3)
    >>> results = hr.compare([method_from_name("popularity")], folds, workers=1)
    >>> list(results.measures)
    ['list_ndcg@10', 'list_recall@10', 'list_precision@10', 'list_hit_rate@10', 'list_mrr@10']
    """
    rows = rating_rows(ratings, features)
    least = float(np.median(ratings.ratings)) if relevant is None else float(relevant)
    fields = {name: getattr(rows, name) for name in ("X", "y", "qid", "docid", "feature_names")}
    data = ListRows(**fields, items=np.asarray(ratings.items), catalogue=features[0], relevant=least)
    new = held_out == "items"
    folds = []
    for name, (train, validation, test) in _parts(ratings, k, seed, held_out):
        judged = OfferedRows(data, validation, train, new), OfferedRows(data, test, np.union1d(train, validation), new)
        for purpose, part in zip(("validate", "test"), judged):
            if not (data.y[part.index] >= least).any():
                raise DataError(f"{name} has no rating of {least:g} or more to {purpose} by: lower relevant")
        folds.append(Fold(name, SelectedRows(data, train), *judged, shared_queries=True))
    return folds


@dataclass(frozen=True, eq=False)
class OfferedRows(SelectedRows):
    """Rows to judge lists by."""

    known: np.ndarray  # rows of the data that are known of the users, whose items are not offered again
    new_items: bool  # whether lists are made of items of which no row is known

    def take(self) -> RankingData:
        part, whole = super().take(), self.data
        assert isinstance(whole, ListRows) and isinstance(part, ListRows)
        items = whole.items[self.known]
        if self.new_items:
            return replace(part, offered=np.setdiff1d(np.arange(whole.catalogue.shape[0]), items))
        return replace(part, seen=(whole.qid[self.known], items))


def _parts(ratings: Ratings, k: int, seed: int, held_out: str) -> list[tuple[str, list[np.ndarray]]]:
    """Of every fold its name and the rows to train, to validate and to test."""
    one_of("held_out", held_out, "items", "ratings", "time")
    if k < 3:
        raise ValueError(f"{k} folds: give at least 3, one part each to train, to validate and to test")
    rng = np.random.default_rng(seed)
    _, user = number_ids(ratings.users, len(ratings), "users")
    if held_out == "time":
        if ratings.times is None:
            raise DataError("these ratings have no times, which are needed to hold out the latest: name their column")
        latest = np.argsort(ratings.times, kind="stable")
        cuts = [len(latest) - 2 * len(latest) // k, len(latest) - len(latest) // k]
        folds = [("the latest", np.split(latest, cuts))]
    elif held_out == "items":
        rated = np.unique(ratings.items)
        if len(rated) < k:
            raise DataError(f"{k} folds need at least {k} rated items, there are {len(rated)}")
        part_of_item = np.zeros(ratings.n_items, np.int64)
        part_of_item[rng.permutation(rated)] = np.arange(len(rated)) * k // len(rated)
        part = part_of_item[ratings.items]
    else:
        part = dealt(user, k, rng)
    if held_out != "time":
        turns = rotate([np.flatnonzero(part == p) for p in range(k)])
        folds = [(f"fold {i}", turn) for i, turn in enumerate(turns, 1)]
    found = []
    for name, (train, *others) in folds:
        known = np.zeros(user.max() + 1, bool)
        known[user[train]] = True
        judged = [rows[known[user[rows]]] for rows in others]
        for purpose, rows in zip(("validate", "test"), judged):
            if not len(rows):
                raise DataError(f"{name} has no rating to {purpose} by a user of its training part: give fewer folds")
        found.append((name, [train, *judged]))
    return found


def rating_rows(ratings: Ratings, features: Features) -> RankingData:
    """A row per rating: its item's features, the rating as grade, the user as query, item title or id as docid."""
    X, names = features
    if X.shape[0] != ratings.n_items:
        raise DataError(f"the features have {X.shape[0]} rows, but there are {ratings.n_items} items")
    called = ratings.item_ids if ratings.titles is None else ratings.titles
    docid = np.array([str(value) for value in called.tolist()], object)[ratings.items]
    return RankingData.from_arrays(X[ratings.items], ratings.ratings, ratings.users, docid=docid, feature_names=names)


@runtime_checkable
class Recommender(Protocol):
    """A model that learns from ratings and makes lists: a personal ranker, a baseline, or your own."""

    def fit_ratings(self, item_features: Matrix, users: ArrayLike, items: ArrayLike, ratings: ArrayLike) -> object: ...

    def top_k(
        self, users: ArrayLike, candidates: Matrix, top: int = 10, *, exclude: Known | None = None
    ) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ListRows(RankingData):
    """Ratings as rows, with what lists are made from.

    Attributes
    ----------
    items : the row of the catalogue that each row is about
    catalogue : the features of all items
    relevant : the least rating of an item that a list should find
    seen : (users, items) that are known and not offered again
    offered : row numbers of the items that lists are made from; None: all
    """

    items: np.ndarray
    catalogue: Matrix
    relevant: float
    seen: Known | None = None
    offered: np.ndarray | None = None

    def take(self, rows: ArrayLike) -> "ListRows":
        """Some rows."""
        part = super().take(rows)
        assert isinstance(part, ListRows)  # which `replace` keeps
        return replace(part, items=self.items[np.asarray(rows, np.int64)])

    @property
    def _user_of_row(self) -> np.ndarray:
        return self.blocks.scatter(self.blocks.numbers)

    def placed(self, ranker: Ranker) -> np.ndarray:
        """A score per row: -1 for the first item of its user's list, -2 for the second, …, and the same for all that
        are not in it."""
        users, numbers = self.blocks.ids, self._user_of_row
        every = np.arange(self.catalogue.shape[0]) if self.offered is None else self.offered
        top, X = min(LONGEST, len(every)), self.catalogue[every]
        place_of = np.full(self.catalogue.shape[0], -1, np.int64)
        place_of[every] = np.arange(len(every))
        seen = self.seen
        if seen is not None:
            here = place_of[seen[1]] >= 0
            seen = seen[0][here], place_of[seen[1][here]]
        if isinstance(ranker, Recommender):
            lists, _ = ranker.top_k(users, X, top, exclude=seen)
        else:  # a ranker of rows has one function for all users
            of_all = np.asarray(predicted(ranker, X, np.zeros(X.shape[0], np.int64)), np.float64)
            lists, _ = same_lists(of_all, users, top, seen)
        wanted = place_of[self.items]
        hit = np.asarray(lists)[numbers] == wanted[:, None]
        return np.where(hit.any(axis=1) & (wanted >= 0), -1.0 - hit.argmax(axis=1), -1.0 - max(len(every), LONGEST))

    def values(self, scores: np.ndarray, measures: Sequence[MeasureLike]) -> dict[str, np.ndarray]:
        """Measures of every user's list, NaN for users without a relevant item."""
        good = self.y >= self.relevant
        user, place = self._user_of_row[good], -scores[good].astype(np.int64) - 1
        count = np.bincount(user, minlength=self.n_queries)
        some = np.flatnonzero(count)
        hit = np.zeros((self.n_queries, LONGEST), bool)
        inside = place < LONGEST
        hit[user[inside], place[inside]] = True
        found = {}
        for measure in measures:
            name, top = parse_list_measure(str(measure)) or ("", 0)
            whole = np.full(self.n_queries, np.nan)
            whole[some] = list_values(hit[some, :top], count[some], top)[name]
            found[str(measure)] = whole
        return found

    def fingerprint(self, of_rows: bytes) -> bytes:
        """A hash of the catalogue and of what is relevant beside that of the rows."""
        whole = hashlib.blake2b(of_rows, digest_size=16)
        whole.update(repr((self.relevant, self.catalogue.shape)).encode())
        whole.update(np.asarray(self.items, np.int64).tobytes())
        return whole.digest()


def check_list_measure(measure: MeasureLike) -> None:
    """A ValueError for a measure of anything but lists."""
    found = parse_list_measure(measure) if isinstance(measure, str) else None
    if found is None:
        raise ValueError(
            f"{measure_name(measure)} judges the order of rated items, and these folds are for lists over all items: "
            f"use {', '.join(LIST_MEASURES[:2])} and the like, or rating_folds"
        )
    if found[1] > LONGEST:
        raise ValueError(f"{measure}: lists have at most {LONGEST} items here")
