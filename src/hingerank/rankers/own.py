"""Rankers of classes that users wrote: which shortcuts suit them, and fits and scores as their own methods take rows.

A class may derive from a ranker of this package and override `fit` or `predict` alone, or only have such methods. Its
`fit` takes X, y and qid; that of this package also takes RankingData with the names of its features.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hingerank.arrays import PerRow, Ranker, RowsLike
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.base import BaseRanker


def follows(kind: type, home: type, *methods: str) -> bool:
    """Whether a shortcut of the class `home` is valid for `kind`: no user's class overrides `methods`.

    Classes of this package override methods and keep the shortcuts valid, which their tests check.

    >>> from hingerank import RankSVM
    >>> Mine = type("Mine", (RankSVM,), {"fit": lambda self, X: self, "__module__": "mine"})
    >>> follows(RankSVM, RankSVM, "fit"), follows(Mine, RankSVM, "fit"), follows(Mine, RankSVM, "predict")
    (True, False, True)
    """
    order = kind.__mro__
    if home not in order:
        return False
    users = [place for place in order[: order.index(home)] if place.__module__.partition(".")[0] != "hingerank"]
    return not any(name in vars(place) for place in users for name in methods)


def fit_rows(ranker: Ranker, rows: RowsLike, **more: PerRow) -> Ranker:
    """Fit any ranker to RankingData or data in parts; more: sample_weight, if it takes one."""
    if follows(type(ranker), BaseRanker, "fit") or not isinstance(rows, RankingData):
        return ranker.fit(rows, **more)
    return ranker.fit(rows.X, rows.y, qid=rows.qid, **more)


def path_of_rows(ranker: Ranker, rows: RowsLike, values: Sequence[object], **more: object) -> list[Ranker]:
    """Any ranker's ``fit_path`` over RankingData or data in parts; more: eval_set, if it takes one."""
    whole = follows(type(ranker), BaseRanker, "fit", "fit_path") or not isinstance(rows, RankingData)
    return list(ranker.fit_path(*((rows, None, None) if whole else (rows.X, rows.y, rows.qid)), values, **more))


def predict_rows(ranker: Ranker, rows: RankingData) -> np.ndarray:
    """What any ranker predicts for RankingData with the columns of its fit."""
    if follows(type(ranker), BaseRanker, "predict"):
        return ranker.predict(with_names_of(ranker, rows))
    return predicted(ranker, rows.X, rows.qid)


def with_names_of(ranker: Ranker, rows: RankingData) -> RankingData:
    """Rows with the names of features that a fitted ranker has seen, or with none."""
    names = getattr(ranker, "feature_names_in_", None)
    return replace(rows, feature_names=None if names is None else tuple(names))


def predicted(ranker: Ranker, X: RowsLike, qid: PerRow) -> np.ndarray:
    """What any ranker predicts for rows without names, by their queries if it asks for these."""
    ids = {"qid": qid} if "qid" in inspect.signature(ranker.predict).parameters else {}
    return ranker.predict(X, **ids)
