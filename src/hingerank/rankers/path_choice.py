"""The choice of a point of a path of sparse rankers."""

from collections.abc import Sequence

import numpy as np

from hingerank.arrays import PerRow, Ranker, RowsLike
from hingerank.metrics import evaluate
from hingerank.rankers.inputs import unpack


def choose_on_validation(
    path: Sequence[Ranker],
    X: RowsLike,
    y: PerRow = None,
    qid: PerRow = None,
    measure: str = "ndcg@10",
    standard_errors: float = 0.0,
) -> tuple[Ranker, np.ndarray]:
    """The ranker of a path with the largest mean of `measure` on the validation rows, and the values of all rankers.

    Of equally good rankers the first is taken, so give the path from sparse to dense. With standard_errors = 1 the
    result is the ranker with the fewest features among those that are worse than the best by no more than one standard
    error of the difference over the validation queries.

    Parameters
    ----------
    path : fitted rankers, from sparse to dense
    X, y, qid : validation rows as in fit
    measure : what to maximise
    standard_errors : how many standard errors below the best a ranker may be

    Examples
    --------
    >>> from hingerank import FenchelRank
    >>> X, y, qid = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> best, values = choose_on_validation(FenchelRank().fit_path(X, y, qid, [0.5, 1]), X, y, qid)
    >>> best.radius, values.tolist()
    (0.5, [1.0, 1.0])
    """
    if not path:
        raise ValueError("the path is empty: there is nothing to choose from")
    if not standard_errors >= 0:
        raise ValueError(f"standard_errors must be a number of at least 0, not {standard_errors!r}")
    given, (_, y, qid) = X, unpack(X, y, qid)
    if y is None:
        raise ValueError("the validation rows have no grades: give y, or RankingData")
    per_query = np.array([evaluate(y, r.predict(given, qid), qid, measure, per_query=True)[measure] for r in path])
    per_query = per_query[:, ~np.isnan(per_query[0])]  # queries without a value, such as those of one grade
    if not per_query.size:
        raise ValueError(f"no validation query has a value of {measure}: there is nothing to choose by")
    values = per_query.mean(axis=1)
    best = int(np.argmax(values))
    if standard_errors > 0:
        behind = per_query[best] - per_query
        error = behind.std(axis=1) / np.sqrt(max(behind.shape[1] - 1, 1))
        near = np.flatnonzero(values >= values[best] - standard_errors * error)
        best = min(near.tolist(), key=lambda k: np.count_nonzero(path[k].coef_))
    return path[best], values
