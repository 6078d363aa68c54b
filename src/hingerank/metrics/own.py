"""User-defined measures: functions of the grades and scores of one query's rows."""

from collections.abc import Callable

import numpy as np

from hingerank.data.blocks import QueryBlocks
from hingerank.metrics.measure import Measure

OwnMeasure = Callable[[np.ndarray, np.ndarray], float]
MeasureLike = str | Measure | OwnMeasure


def measure_name(measure: MeasureLike) -> str:
    """The name of a measure in results: the string itself, or a function's name (its ``name`` or ``__name__``).

    Examples
    --------
    >>> def first_grade(y, scores):
    ...     return float(y[scores.argmax()])
    >>> measure_name("ndcg@10"), measure_name(first_grade)
    ('ndcg@10', 'first_grade')
    """
    if isinstance(measure, str | Measure):
        return str(measure)
    if not callable(measure):
        raise ValueError(f"a measure is a name such as 'ndcg@10' or a function of (y, scores), not {measure!r}")
    name = getattr(measure, "name", None) or getattr(measure, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ValueError(f"the measure {measure!r} has no name: define it with def, or set its attribute `name`")
    return name


def own_values(measure: OwnMeasure, y: np.ndarray, scores: np.ndarray, blocks: QueryBlocks) -> np.ndarray:
    """measure(y_q, s_q) of every query q; nan where the function returns nan, for undefined.

    Parameters
    ----------
    measure : a function of the grades and the scores of a query's rows, both in the rows' order
    y, scores : a number per row
    blocks : the queries
    """
    name, values, y, scores = measure_name(measure), np.empty(len(blocks)), blocks.gather(y), blocks.gather(scores)
    for q, (first, last) in enumerate(zip(blocks.offsets[:-1], blocks.offsets[1:])):
        found = measure(y[first:last].copy(), scores[first:last].copy())
        try:
            values[q] = float(found)
        except (TypeError, ValueError):
            raise ValueError(
                f"the measure {name} returned {found!r} for query {blocks.ids.tolist()[q]!r}: it takes (y, scores), "
                "the grades and scores of one query's rows, and must return one number, or nan if it is not defined"
            ) from None
        if np.isinf(values[q]):
            raise ValueError(
                f"the measure {name} returned {values[q]} for query {blocks.ids.tolist()[q]!r}: return a finite number"
            )
    return values
