"""Showings counted into cells; rows of whole numbers grouped by a sort of one number a row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_MOST = 1 << 62


@dataclass(frozen=True)
class Cells:
    """Counts of showings that agree in query, document, place, context and propensity.

    Parameters
    ----------
    query, document : int arrays
        Codes into `query_names` and `document_names` of the log.
    place : int array
        From 1.
    showings, clicks : float arrays
        Sums over the showings of a cell: of their weights, and of weight times clicks.
    context : int array, optional
        Codes into `context_names` of the log.
    propensity : float array, optional
        The logged propensity of the cell's showings.
    """

    query: np.ndarray
    document: np.ndarray
    place: np.ndarray
    showings: np.ndarray
    clicks: np.ndarray
    context: np.ndarray | None = None
    propensity: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.query)


def group_by(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct rows of columns of numbers from 0 up, in order, and the group of each row. O(n log n).

    >>> distinct, group = group_by([np.array([1, 0, 1]), np.array([2, 5, 2])])
    >>> [column.tolist() for column in distinct], group.tolist()
    ([[0, 1], [5, 2]], [1, 0, 1])
    """
    sizes = [int(column.max(initial=0)) + 1 for column in columns]
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes):
        if span * size > _MOST:  # as many as there are rows, at most
            distinct, key = np.unique(key, return_inverse=True)
            key, span = key.ravel(), len(distinct)
        key = key * size + column
        span *= size
    if span <= 4 * len(key) + 1024:  # few enough to count
        seen = np.zeros(span, bool)
        seen[key] = True
        first = np.empty(span, np.int64)
        first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
        number = np.cumsum(seen) - 1
        group, first = number[key], first[seen]
    else:
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return [column[first] for column in columns], group.ravel()
