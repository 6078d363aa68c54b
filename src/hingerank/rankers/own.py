"""Rankers of classes that users wrote: which shortcuts suit them, and fits and scores as their own methods take rows.

A class may derive from a ranker of this package and override `fit` or `predict` alone, or only have such methods. Its
`fit` takes X, y and qid; that of this package also takes RankingData with the names of its features.
"""

import inspect
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


def given_rows(ranker: Ranker, rows: RowsLike, *methods: str) -> tuple[RowsLike, PerRow, PerRow]:
    """RankingData or data in parts as the first arguments X, y and qid of these methods of a ranker."""
    whole = follows(type(ranker), BaseRanker, *methods) or not isinstance(rows, RankingData)
    return (rows, None, None) if whole else (rows.X, rows.y, rows.qid)


def fit_rows(ranker: Ranker, rows: RowsLike, **more: PerRow) -> Ranker:
    """Fit any ranker to RankingData or data in parts; more: sample_weight, if it takes one."""
    X, y, qid = given_rows(ranker, rows, "fit")
    return ranker.fit(X, y, qid=qid, **more)


def predict_rows(ranker: Ranker, rows: RankingData) -> np.ndarray:
    """What any ranker predicts for RankingData with the columns of its fit, named or not as they were there."""
    if not follows(type(ranker), BaseRanker, "predict"):
        return predicted(ranker, rows.X, rows.qid)
    names = getattr(ranker, "feature_names_in_", None)
    return ranker.predict(replace(rows, feature_names=None if names is None else tuple(names)))


def predicted(ranker: Ranker, X: RowsLike, qid: PerRow) -> np.ndarray:
    """What any ranker predicts for rows without names, by their queries if it asks for these."""
    ids = {"qid": qid} if "qid" in inspect.signature(ranker.predict).parameters else {}
    return ranker.predict(X, **ids)
