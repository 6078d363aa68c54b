"""Folds of ratings, on which `hingerank.tune` tries personal rankers; they hold out ratings or items."""

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.arrays import Column, Matrix, PerRow, Ranker, RowsLike
from hingerank.data.checks import one_of, whole
from hingerank.data.files import DataError
from hingerank.metrics import evaluate, parse_measure
from hingerank.personal.preferences import of_positive_weight
from hingerank.personal.ratings import are_known, part_of_each
from hingerank.personal.top_n import evaluate_top, parse_list_measure
from hingerank.search.folds import OF_A_SETTING, FoldOutcome
from hingerank.search.settings import Setting, Stage, Staged, usual_search

Columns = dict[str, Any]  # arguments of `fit`: users, items, ratings, and sample_weight if there are weights


@runtime_checkable
class RatedItems(Protocol):
    """Ratings with features of their items: `hr.read_ratings(...).with_features(...)`, `hr.make_personal(...)`."""

    users: Column
    items: Column
    ratings: Column
    item_features: RowsLike


class RatingFolds:
    """Folds that hold out a part of every user's ratings, or of the items, in turn; or one validation set.

    Parameters
    ----------
    data : ratings with features of their items
    measure : of the order of held-out items, or a measure of lists over all items such as "list_ndcg@10"
    validation : ratings to choose settings on, instead of folds
    folds : number of folds
    seed : seed of the parts
    hold_out : "ratings" or "items"
    sample_weight : weight of each rating in fits
    """

    def __init__(
        self, data: Any, measure: str, validation: Any = None, folds: int = 5, seed: int = 0,
        hold_out: str = "ratings", sample_weight: PerRow = None,
    ) -> None:  # fmt: skip
        self.measure, (self.X, rated) = measure, _columns(data)
        self.of_lists = parse_list_measure(measure)
        if self.of_lists is None:
            parse_measure(measure)
        self.relevant = float(np.median(rated["ratings"]))
        if sample_weight is not None:
            kept = of_positive_weight(rated["users"], rated["items"], rated["ratings"], sample_weight)
            rated = dict(zip((*rated, "sample_weight"), kept))
        if validation is None:
            self.parts, self.everything = rating_parts(rated, folds, hold_out, seed), rated
            return
        other, held = _columns(validation)
        if sample_weight is not None:
            held["sample_weight"] = np.ones(len(held["users"]))
        if other.shape[1] != self.X.shape[1]:
            raise DataError(
                f"validation has {other.shape[1]} features but the data have {self.X.shape[1]}: use the same"
            )
        if other is not self.X and (other.shape != self.X.shape or _differ(other, self.X)):
            raise DataError(
                "validation has other item features than the data, but its items are rows of them too: give both the "
                "same ones, as parts of one set of ratings have (ratings.take)"
            )
        self.parts = [(rated, _of_known_users(rated, held))]
        self.everything = {name: np.concatenate([rated[name], held[name]]) for name in rated}

    def __len__(self) -> int:
        return len(self.parts)

    def search(self, ranker: Ranker, given: Stage) -> Staged:
        """Return the settings worth trying, around the default C of the ranker on the first fold."""
        first = {name: column for name, column in self.parts[0][0].items() if name != "sample_weight"}
        return usual_search(ranker, given, natural=lambda: ranker.natural_C(self.X, **first))

    def fit(self, ranker: Ranker) -> Any:
        """Fit the ranker to all ratings and return it."""
        return ranker.fit(self.X, **self.everything)

    def outcomes(self, k: int, ranker: Ranker, settings: Sequence[Setting]) -> Iterator[FoldOutcome]:
        """Yield the value of every setting on fold k."""
        for setting in settings:
            began = time.perf_counter()
            try:
                value, problem = self._value(clone(ranker).set_params(**setting), *self.parts[k]), None
            except OF_A_SETTING as error:
                value, problem = np.nan, str(error)
            yield FoldOutcome(setting, value, time.perf_counter() - began, problem)

    def _value(self, ranker: Ranker, learn: Columns, judge: Columns) -> float:
        if "prior" in ranker.get_params(deep=False):
            ranker.set_params(prior=0.0)  # no users are added here, so the prior need not be learnt
        users, items, ratings = judge["users"], judge["items"], judge["ratings"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker.fit(self.X, **learn)
            if self.of_lists is not None:
                (name, top), seen = self.of_lists, (learn["users"], learn["items"])
                found = evaluate_top(ranker, self.X, (users, items, ratings), seen, top=top, relevant=self.relevant)
                return found.means[name]
            scores = ranker._scores(ranker._rows(self.X), ranker._numbers(users), np.asarray(items))
            return float(evaluate(ratings, scores, users, [self.measure])[self.measure])


def _differ(a: Matrix, b: Matrix) -> bool:
    """Return whether two matrices or data frames of the same shape differ in a value."""
    a, b = (X if sp.issparse(X) else np.asarray(X) for X in (a, b))
    return bool((a != b).nonzero()[0].size)


def _columns(data: object) -> tuple[RowsLike, Columns]:
    if not isinstance(data, RatedItems) or data.item_features is None or data.ratings is None:
        raise ValueError(
            "personal rankers are tuned on ratings with features of their items: "
            "hr.read_ratings(path).with_features(X, names)"
        )
    return data.item_features, {name: np.asarray(getattr(data, name)) for name in ("users", "items", "ratings")}


def rating_parts(rated: Columns, folds: int, hold_out: str, seed: int) -> list[tuple[Columns, Columns]]:
    """Return (ratings to learn from, ratings to judge by) of every fold, which holds out ratings of users, or items.

    If a user has no ratings to learn from in a fold, the ratings to judge by are left out.
    """
    one_of("hold_out", hold_out, "ratings", "items")
    folds = whole("folds", folds, 2)
    part = part_of_each(rated["users"], rated["items"], folds, hold_out, seed)
    found = []
    for k in range(folds):
        learn, judge = ({name: column[rows] for name, column in rated.items()} for rows in (part != k, part == k))
        found.append((learn, _of_known_users(learn, judge)))
    return found


def _of_known_users(learn: Columns, judge: Columns) -> Columns:
    """Return the ratings to judge by whose users also have ratings to learn from."""
    rows = are_known(judge["users"], learn["users"])
    if not rows.any():
        raise DataError("no user has ratings both to learn from and to judge by: give fewer folds")
    return {name: column[rows] for name, column in judge.items()}
