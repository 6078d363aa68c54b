"""Presets: the conventions of named tools for what a measure's name leaves open.

The same ranking scores 0.131 to 0.728 NDCG@10 under ten tools. A ``Preset`` records every choice in which they differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np


def _above(x: float) -> float:
    """The threshold t for which  grade >= t  means  grade > x."""
    return float(np.nextafter(x, np.inf))


@dataclass(frozen=True)
class Preset:
    """The choices in which the tools differ.

    Parameters
    ----------
    gain : "exponential" 2^g - 1, or "linear" g
        Grades below 0 gain 0.
    discount : at rank r, "log2" 1/log2(r+1), or "letor" 1, 1, then 1/log2(r)
    ndcg_empty, map_empty, recall_empty : NDCG, AP and recall of a query without a relevant item
    empty : the same for every measure, overriding the three above
        nan leaves such a query out of the mean. None: as above, and 0 for the other measures.
    short : NDCG@k of a query with fewer than k items
        "truncate" uses the items there are, "zero" gives 0.
    precision : P@k of such a query
        Divide by "k" or by the "list" length, or "zero".
    relevant : the least grade that is relevant, for P, recall, MAP and MRR
    map_divisor : what AP@k divides by
        All "relevant" items, "cutoff" for min(relevant, k), or "whole", which ignores k.
    ties : the order of equal scores
        "average" is the expected value over all their orders, "stable" keeps row order, "worst" ranks the lowest grade
        first, "docid" compares scores in single precision and ranks the larger docid first (row order without docids).
    grades : which grades a gain is defined for
        "any", "nonnegative", or "label_gain" (whole, 0 to 30).
    max_grade : the top of the scale in ERR
        None takes the largest grade of the call.
    """

    gain: str = "exponential"
    discount: str = "log2"
    ndcg_empty: float = 0.0
    map_empty: float = 0.0
    recall_empty: float = 0.0
    empty: float | None = None
    short: str = "truncate"
    precision: str = "k"
    relevant: float = _above(0.0)
    map_divisor: str = "relevant"
    ties: str = "average"
    grades: str = "any"
    max_grade: float | None = None


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "default": Preset(),
        "letor3": Preset(discount="letor", short="zero", ties="stable", precision="zero", relevant=1.0),
        "letor4": Preset(discount="letor", short="zero", ties="stable", relevant=1.0),
        "mslr": Preset(discount="letor", short="zero", ties="stable", relevant=2.0),
        "trec": Preset(gain="linear", relevant=1.0, ties="docid", max_grade=4.0),
        "sklearn": Preset(gain="linear", grades="nonnegative"),
        "lightgbm": Preset(
            ndcg_empty=1.0,
            map_empty=1.0,
            relevant=_above(0.5),
            map_divisor="cutoff",
            ties="stable",
            grades="label_gain",
        ),
        "xgboost": Preset(ndcg_empty=1.0, map_empty=1.0, map_divisor="cutoff", ties="stable", grades="nonnegative"),
        "catboost": Preset(
            gain="linear",
            ndcg_empty=1.0,
            recall_empty=1.0,
            precision="list",
            relevant=_above(0.5),
            map_divisor="cutoff",
            ties="worst",
            grades="nonnegative",
        ),
        "ranklib": Preset(precision="list", map_divisor="whole", ties="stable", max_grade=4.0),
    }
)

PRESET_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "letor3.0": "letor3",
        "letor4.0": "letor4",
        "mslrweb10k": "mslr",
        "mslrweb30k": "mslr",
        "treceval": "trec",
        "pytreceval": "trec",
        "irmeasures": "trec",
        "scikitlearn": "sklearn",
        "lgbm": "lightgbm",
        "lgb": "lightgbm",
        "xgb": "xgboost",
    }
)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError("a number")
    return value


def _empty(text: str) -> float:
    values = {"0": 0.0, "1": 1.0, "skip": np.nan}
    if text not in values:
        raise ValueError("0, 1 or skip")
    return values[text]


# option in a measure's name -> reader of its value; a reader's ValueError says what was expected
OPTIONS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "gain": _one_of("exponential", "linear"),
        "discount": _one_of("log2", "letor"),
        "empty": _empty,
        "short": _one_of("truncate", "zero"),
        "precision": _one_of("k", "list", "zero"),
        "relevant": _number,
        "map_divisor": _one_of("relevant", "cutoff", "whole"),
        "ties": _one_of("stable", "average", "worst", "docid"),
        "grades": _one_of("any", "nonnegative", "label_gain"),
        "max_grade": _number,
    }
)
