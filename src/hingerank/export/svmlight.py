"""Linear models of older programs: SVM-light / SVMrank and LIBLINEAR text files, and how their C relates to ours.

All minimise ½‖w‖² + (weight) · sum over pairs of a hinge; only the meaning of the weight differs:
LIBLINEAR's ranksvm uses our C; SVMrank divides its c by the number of queries, so C = c / Q.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Ranker
from hingerank.data.checks import decimal, whole_decimal
from hingerank.data.files import DataError, draft_of
from hingerank.export.forms import Affine, ExportError
from hingerank.registry import ranker_class


def C_from_svmrank(c: float, n_queries: int) -> float:
    """Our C for SVMrank's ``-c``.

    Examples
    --------
    >>> C_from_svmrank(3.0, n_queries=60)
    0.05
    """
    return c / n_queries


def C_to_svmrank(C: float, n_queries: int) -> float:
    """SVMrank's ``-c`` for our C."""
    return C * n_queries


def read_linear_model(path: str | os.PathLike, n_features: int | None = None) -> Any:
    """A fitted RankSVM from a linear model file of SVM-light, SVMrank or LIBLINEAR.

    Parameters
    ----------
    path : the file
    n_features : columns of the data to be scored, if the file does not name the last ones; default the file's number
    """
    lines = Path(path).read_text(encoding="latin-1").removesuffix("\n").split("\n")
    if lines and lines[0].startswith("SVM-light"):
        weights = _svmlight_weights(path, lines)
    elif lines and lines[0].startswith("solver_type"):
        weights = _liblinear_weights(path, lines)
    else:
        found = lines[0][:40] if lines else ""
        raise DataError(f"{path}, line 1: found {found!r}, expected a model of SVM-light, SVMrank or LIBLINEAR")
    if n_features is None:
        n_features = len(weights)
    if np.any(weights[n_features:]):
        raise DataError(f"{path} has weights beyond the {n_features} features: pass more, or leave n_features out")
    ranker = ranker_class("rank-svm")()
    ranker.coef_ = np.zeros(n_features)
    ranker.coef_[: len(weights)] = weights[:n_features]
    ranker.n_features_in_, ranker.scaler_ = n_features, None
    return ranker


def write_svmrank_model(ranker: Ranker, path: str | os.PathLike) -> None:
    """Write a linear ranker for ``svm_rank_classify``; anything but weights of the features is refused."""
    check_is_fitted(ranker)
    form = ranker._form()
    weights = form.body.weights if isinstance(form.body, Affine) else None
    what = "maps its features" if weights is None else "scales its features" if form.scaling is not None else ""
    what = what or ("has learned what missing values mean" if form.outline.filled == "values" else "")
    if weights is None or what:
        raise ExportError(
            f"this ranker {what}, which an SVMrank model file cannot express: fit a linear ranker with scale=None, "
            "features=None and missing='error' or 'zero'"
        )
    terms = " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(weights.tolist()) if value)
    head = ["SVM-light Version V6.20", "0 # kernel type"]
    head += [f"{value} # kernel parameter -{letter} " for value, letter in ((3, "d"), (1, "g"), (1, "s"), (1, "r"))]
    head += ["empty# kernel parameter -u ", f"{len(weights)} # highest feature index "]
    head += ["1 # number of training documents ", "2 # number of support vectors plus 1 "]
    head += ["0 # threshold b, each following line is a SV (starting with alpha*y)"]
    with draft_of(path) as draft:
        draft.write_text("\n".join([*head, f"1 {terms} #", ""]), encoding="ascii")


def _svmlight_weights(path: object, lines: list[str]) -> np.ndarray:
    """Sum over the listed vectors of (alpha y) · x."""
    if len(lines) < 11 or lines[1].split("#")[0].strip() != "0":
        kind = lines[1].split("#")[0].strip() if len(lines) > 1 else "nothing"
        raise DataError(f"{path}, line 2: kernel type {kind}, expected 0: only linear models can be read")
    highest = int(_number(path, 8, lines[7].split("#")[0], whole=True))
    if not 0 <= highest <= 10_000_000:
        raise DataError(f"{path}, line 8: {highest} features; expected at most 10,000,000")
    weights, last = np.zeros(highest), 0
    for number, line in enumerate(lines[11:], 12):
        tokens = line.split("#")[0].split()
        if not tokens:
            continue
        factor = _number(path, number, tokens[0])
        for index, value in _entries(path, number, tokens[1:], highest):
            weights[index - 1] += factor * value
            last = max(last, index)
    # SVMrank counts one feature more than the data have
    return weights[: max(last, highest - 1)]


def _entries(path: object, number: int, tokens: list[str], highest: int) -> Iterator[tuple[int, float]]:
    for token in tokens:
        index, colon, value = token.partition(":")
        place = whole_decimal(index)
        if not colon or place is None or not 1 <= place <= highest:
            raise DataError(
                f"{path}, line {number}: found {token[:40]!r}, expected index:value with index 1 to {highest}"
            )
        yield place, _number(path, number, value)


def _liblinear_weights(path: object, lines: list[str]) -> np.ndarray:
    head = dict(words for line in lines if len(words := line.split(maxsplit=1)) == 2 and not line[0].isdigit())
    if "w" not in lines or "nr_feature" not in head:
        raise DataError(f"{path}: expected the lines 'nr_feature N' and 'w' of a LIBLINEAR model")
    if head.get("nr_class", "2").strip() != "2":
        raise DataError(f"{path}: a model of {head['nr_class'].strip()} classes, expected 2 (one weight vector)")
    start, count = lines.index("w") + 1, int(_number(path, 0, head["nr_feature"], whole=True))
    if count < 0 or len(lines) < start + count:
        raise DataError(f"{path}: {len(lines) - start} weights, expected {count}: the file is cut short")
    return np.array([_number(path, start + k + 1, lines[start + k]) for k in range(count)])


def _number(path: object, line: int, text: str, whole: bool = False) -> float:
    word = text.strip()
    value = whole_decimal(word) if whole else decimal(word)
    if value is None:
        kind = "whole" if whole else "finite"
        raise DataError(f"{path}, line {line}: found {word[:40]!r}, expected a {kind} number")
    return value
