"""Rows of whole numbers grouped by a sort of one number a row."""

from collections.abc import Sequence

import numpy as np

_MOST = 1 << 62


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
