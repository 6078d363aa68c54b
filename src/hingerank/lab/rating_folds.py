"""Folds of ratings: every user is a query, and its rows are the items that the user rated, with their features.

All parts of a fold share the users; what training has not seen is either items ("items": some items with all their
ratings are held out, so methods must judge them by their features) or single ratings ("ratings": some of every user's;
"time": the latest of all). Recommenders take part: personal rankers, baselines and models of other libraries. So do
rankers of rows, which learn one function for all users. `rating_folds` is for measures of the order of rated items
(`ndcg@10`). `list_folds` is for measures of lists over all items (`list_ndcg@10`): a method is judged by where a user's
items are in the list that it makes of all items, without those that the user is known to have, and nothing is sampled.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import ArrayLike, Matrix
from hingerank.data.blocks import number_ids
from hingerank.data.checks import one_of, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData, rotate
from hingerank.lab.folds import Fold, SelectedRows
from hingerank.personal.item_features import Features
from hingerank.personal.ratings import Ratings, are_known, part_of_each


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
        Items can be held out only if some of them share features.

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
        for name, (a, b, c) in _parts(ratings, features[0], k, seed, held_out)
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
    for name, (train, validation, test) in _parts(ratings, features[0], k, seed, held_out):
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


def _parts(ratings: Ratings, X: Matrix, k: int, seed: int, held_out: str) -> list[tuple[str, list[np.ndarray]]]:
    """For every fold its name and the rows to train, to validate and to test."""
    one_of("held_out", held_out, "items", "ratings", "time")
    if whole("k", k) < 3:
        raise ValueError(f"{k} folds: give at least 3, one part each to train, to validate and to test")
    if held_out == "items" and sp.csc_matrix(X).getnnz(axis=0).max(initial=0) < 2:
        problem = "no two items share a feature, so nothing can be learnt about the items that are held out"
        raise DataError(problem, "give features such as genres, or held_out='ratings'", "item features")
    _, user = number_ids(ratings.users, len(ratings), "users")
    if held_out == "time":
        if ratings.times is None:
            raise DataError("these ratings have no times, which are needed to hold out the latest: name their column")
        latest = np.argsort(ratings.times, kind="stable")
        cuts = [len(latest) - 2 * len(latest) // k, len(latest) - len(latest) // k]
        folds = [("the latest", np.split(latest, cuts))]
    else:
        part = part_of_each(user, ratings.items, k, held_out, seed, in_runs=True)
        turns = rotate([np.flatnonzero(part == p) for p in range(k)])
        folds = [(f"fold {i}", turn) for i, turn in enumerate(turns, 1)]
    found = []
    for name, (train, *others) in folds:
        judged = [rows[are_known(user[rows], user[train])] for rows in others]
        for purpose, rows in zip(("validate", "test"), judged):
            if not len(rows) and held_out == "time":
                raise DataError(f"no user has a rating to {purpose} after others to train: hold out ratings or items")
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
    seen: tuple[np.ndarray, np.ndarray] | None = None
    offered: np.ndarray | None = None

    def take(self, rows: ArrayLike) -> "ListRows":
        """Some rows."""
        part = super().take(rows)
        assert isinstance(part, ListRows)  # which `replace` keeps
        return replace(part, items=self.items[np.asarray(rows, np.int64)])
