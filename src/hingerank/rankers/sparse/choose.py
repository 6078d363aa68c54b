"""Choose a point of a path on validation data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hingerank.metrics import evaluate
from hingerank.rankers.inputs import unpack


def choose_on_validation(
    path: Sequence[Any], X: Any, y: Any = None, qid: Any = None, measure: str = "ndcg@10"
) -> tuple[Any, np.ndarray]:
    """(the ranker of the path with the largest mean of `measure` on the validation rows, everyone's value).

    Of equals the earlier one is taken: give the path from sparse to dense.

    >>> from hingerank.rankers.sparse.fenchel import FenchelRank
    >>> X, y, qid = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> best, values = choose_on_validation(FenchelRank().fit_path(X, y, qid, [0.5, 1]), X, y, qid)
    >>> best.radius, values.tolist()
    (0.5, [1.0, 1.0])
    """
    if not path:
        raise ValueError("the path is empty: there is nothing to choose from")
    given, (_, y, qid) = X, unpack(X, y, qid)
    values = np.array([evaluate(y, ranker.predict(given, qid), qid, measure)[measure] for ranker in path])
    return path[int(np.argmax(values))], values
