"""Folds of ratings, on which `hingerank.tune` tries personal rankers; they hold out ratings or items."""

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError
from hingerank.metrics import evaluate, parse_measure
from hingerank.personal.preferences import counting
from hingerank.personal.ratings import are_known, dealt
from hingerank.personal.top_n import evaluate_top, parse_list_measure
from hingerank.search.folds import FoldOutcome, check_count
from hingerank.search.settings import Setting, Stage, Staged, resolved

Columns = tuple[Any, ...]  # users, items, ratings, and weights if there are any
WAYS = ("ratings", "items")


@runtime_checkable
class RatedItems(Protocol):
    """Ratings with features of their items: `hr.read_ratings(...).with_features(...)`, `hr.make_personal(...)`."""

    users: Any
    items: Any
    ratings: Any
    item_features: Any


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
        hold_out: str = "ratings", sample_weight: Any = None,
    ) -> None:  # fmt: skip
        self.measure, (self.X, rated) = measure, _columns(data)
        self.of_lists = parse_list_measure(measure)
        if self.of_lists is None:
            parse_measure(measure)
        self.relevant = float(np.median(rated[2]))
        if sample_weight is not None:
            rated = counting(rated[0], rated[1], rated[2], sample_weight)
        if validation is None:
            self.parts, self.everything = rating_parts(rated, folds, hold_out, seed), rated
            return
        other, held = _columns(validation)
        if sample_weight is not None:
            held = (*held, np.ones(len(held[2])))
        if other.shape[1] != self.X.shape[1]:
            raise DataError(
                f"validation has {other.shape[1]} features but the data have {self.X.shape[1]}: use the same"
            )
        if not _are_equal(other, self.X):
            raise DataError(
                "validation has other item features than the data, but its items are rows of them too: give both the "
                "same ones, as parts of one set of ratings have (ratings.take)"
            )
        self.parts = [(rated, _known(rated, held))]
        self.everything = tuple(np.concatenate(both) for both in zip(rated, held))

    def __len__(self) -> int:
        return len(self.parts)

    def search(self, ranker: Any, given: Stage, widen: bool = True) -> Staged:
        """Return the settings worth trying, around the default C of the ranker on the first fold."""
        stages, start = resolved(ranker, given, natural=lambda: ranker.natural_C(self.X, *self.parts[0][0][:3]))
        return Staged(stages, start, widen)

    def fit(self, ranker: Any) -> Any:
        """Fit the ranker to all ratings and return it."""
        return ranker.fit(self.X, *self.everything[:3], **_weighing(self.everything))

    def outcomes(self, k: int, ranker: Any, settings: Sequence[Setting]) -> Iterator[FoldOutcome]:
        """Yield the value of every setting on fold k."""
        for setting in settings:
            began = time.perf_counter()
            try:
                value, problem = self._value(clone(ranker).set_params(**setting), *self.parts[k]), None
            except (ValueError, TypeError) as error:
                value, problem = np.nan, str(error)
            yield FoldOutcome(setting, value, 0.0, time.perf_counter() - began, problem)

    def _value(self, ranker: Any, learn: Columns, judge: Columns) -> float:
        if "prior" in ranker.get_params(deep=False):
            ranker.set_params(prior=0.0)  # no users are added here, so the prior need not be learnt
        users, items, ratings = judge[:3]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker.fit(self.X, *learn[:3], **_weighing(learn))
            if self.of_lists is not None:
                name, top = self.of_lists
                found = evaluate_top(ranker, self.X, judge[:3], learn[:2], top=top, relevant=self.relevant)
                return found.means[name]
            scores = ranker.predict(users, self.X[items])
            return float(evaluate(ratings, scores, users, [self.measure])[self.measure])


def _are_equal(X: Any, Y: Any) -> bool:
    if X is Y or X.shape != Y.shape:
        return X is Y
    apart = X != Y
    return (apart.nnz if sp.issparse(apart) else np.count_nonzero(apart)) == 0


def _weighing(rated: Columns) -> dict[str, Any]:
    """Return the argument of `fit` for the fourth column, if there is one."""
    return {"sample_weight": rated[3]} if len(rated) > 3 else {}


def _columns(data: Any) -> tuple[Any, Columns]:
    if not isinstance(data, RatedItems) or data.item_features is None or data.ratings is None:
        raise ValueError(
            "personal rankers are tuned on ratings with features of their items: "
            "hr.read_ratings(path).with_features(X, names)"
        )
    return data.item_features, (data.users, np.asarray(data.items), np.asarray(data.ratings))


def rating_parts(rated: Columns, folds: int, hold_out: str, seed: int) -> list[tuple[Columns, Columns]]:
    """Return (ratings to learn from, ratings to judge by) of every fold, which holds out ratings of users, or items.

    If a user has no ratings to learn from in a fold, the ratings to judge by are left out.
    """
    if hold_out not in WAYS:
        raise ValueError(f"hold_out is {hold_out!r}, expected {' or '.join(map(repr, WAYS))}")
    check_count(folds)
    users, items = rated[:2]
    _, code = number_ids(users, len(items), "users")
    rng = np.random.default_rng(seed)
    if hold_out == "items":
        order = rng.permutation(np.unique(items))
        part_of = np.zeros(int(items.max()) + 1, np.int64)
        part_of[order] = np.arange(len(order)) % folds
        part = part_of[items]
    else:
        part = dealt(code, folds, rng)
    found = []
    for k in range(folds):
        learn, judge = (tuple(np.asarray(c)[rows] for c in rated) for rows in (part != k, part == k))
        found.append((learn, _known(learn, judge)))
    return found


def _known(learn: Columns, judge: Columns) -> Columns:
    """Return the ratings to judge by whose users also have ratings to learn from."""
    rows = are_known(judge[0], learn[0])
    if not rows.any():
        raise DataError("no user has ratings both to learn from and to judge by: give fewer folds")
    return tuple(np.asarray(column)[rows] for column in judge)
