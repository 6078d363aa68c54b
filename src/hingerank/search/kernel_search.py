"""A search for gamma and C of kernel rankers that maps the rows once for every gamma."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import is_mapped
from hingerank.features.kernels import choose_gamma
from hingerank.metrics import evaluate
from hingerank.rankers.inputs import check_features, unpack
from hingerank.rankers.kernel import MappedRanker
from hingerank.search.shortcuts import SCORES, follows, path_of

CS = tuple(2.0**k for k in range(-14, 3, 2))
WIDTHS = tuple(4.0**k for k in range(-4, 2))  # of gamma="scale"


@dataclass(frozen=True)
class KernelSearch:
    """What ``search_kernel`` found.

    Attributes
    ----------
    best : the fitted ranker with the largest value
    table : one dict of gamma, C, value and seconds for every fit
    """

    best: Any
    table: list[dict[str, float]]


def search_kernel(
    ranker: Any, train: Any, validation: Any, *, Cs: Iterable[float] = CS, gammas: Iterable[float] | None = None,
    measure: str = "ndcg@10",
) -> KernelSearch:  # fmt: skip
    """argmax over gamma and C of measure(validation), for KernelRankSVM, NystroemRankSVM or FourierRankSVM.

    For every gamma the rows are mapped (or the kernel matrix is computed) once, and C follows a warm-started path from
    small to large. Validation rows are mapped once for all values of C as well. Of equals the smaller C is taken.
    (`hingerank.tune` does this over folds, with the scaling among what it tries.)

    Parameters
    ----------
    ranker : with the other settings
    train, validation : RankingData
    Cs : values of C
    gammas : values of gamma; by default 4^-4, ..., 4 times what ``gamma="scale"`` gives for the scaled rows
    measure : what to maximise

    Examples
    --------
    >>> from hingerank import FourierRankSVM
    >>> from hingerank.data.generate import make_letor
    >>> train, validation = make_letor(20, seed=0), make_letor(10, seed=1)
    >>> found = search_kernel(FourierRankSVM(50), train, validation, Cs=[0.01, 1.0], gammas=[0.1, 0.5])
    >>> len(found.table), found.best.gamma in (0.1, 0.5)
    (4, True)
    """
    Cs = sorted({float(C) for C in Cs})
    if gammas is None:
        scale = choose_gamma("scale", clone(ranker)._learning_rows(train, None, None, None, None).X)
        gammas = [scale * width for width in WIDTHS]
    best, top, table = None, -np.inf, []
    for gamma in gammas:
        made = clone(ranker).set_params(gamma=float(gamma))
        one_by_one = path_of(made) != "C"
        path = [clone(made).set_params(C=C).fit(train) for C in Cs] if one_by_one else made.fit_path(train, Cs=Cs)
        for member, scores in zip(path, path_scores(path, validation)):
            value = float(evaluate(validation.y, scores, validation.qid, measure)[measure])
            seconds = member.certificate_.seconds
            table.append({"gamma": float(gamma), "C": member.C, "value": value, "seconds": seconds})
            if value > top:
                best, top = member, value
    if best is None:
        raise ValueError("there is nothing to choose from: give values for Cs and gammas")
    return KernelSearch(best, table)


def path_scores(path: list[Any], X: Any, qid: Any = None) -> list[np.ndarray]:
    """The scores of every ranker of one path; rankers that share a feature map have the rows mapped once."""
    first = path[0]
    apart = not follows(type(first), MappedRanker, SCORES) or any(member._map is not first._map for member in path)
    if apart or is_mapped(X.X if isinstance(X, RankingData) else X):
        return [member.predict(X, qid) for member in path]
    _, _, qid = unpack(X, None, qid)
    rows = first._scaled(check_features(first, X, reset=False), qid)
    return list(first._map.scores(rows, np.stack([member.coef_ for member in path], axis=1)).T)
