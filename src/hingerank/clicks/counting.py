"""Showings counted into cells; rows of whole numbers grouped by a sort of one number a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

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


def count_rows(columns: Sequence[np.ndarray], weights: np.ndarray | None = None) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct rows of columns of numbers from 0 up, in order, and how often (or with what weight) each came.

    >>> distinct, count = count_rows([np.array([1, 0, 1]), np.array([2, 5, 2])])
    >>> [column.tolist() for column in distinct], count.tolist()
    ([[0, 1], [5, 2]], [1.0, 2.0])
    """
    sizes = _sizes(columns)
    if weights is not None or prod(sizes) > _MOST:
        groups = group_by(columns)
        return groups.columns, groups.sums(weights)
    key, _ = _keys(columns, sizes)
    key = key.astype(np.uint32) if prod(sizes) <= 1 << 32 else key  # half as wide, sorted twice as fast
    key.sort()  # of keys alone, which is several times as fast as to find their order
    first = np.flatnonzero(np.concatenate(([len(key) > 0], key[1:] != key[:-1])))
    count, key = np.diff(np.append(first, len(key))).astype(np.float64), key[first]
    found = []
    for column, size in zip(columns[::-1], sizes[::-1]):
        key, value = np.divmod(key, size)
        found.append(value.astype(column.dtype))
    return found[::-1], count


def _sizes(columns: Sequence[np.ndarray]) -> list[int]:
    return [int(column.max(initial=0)) + 1 for column in columns]


def _keys(columns: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """A number for each row, in the order of rows, and a number that is above all of them."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column, size in zip(columns, sizes):
        if span * size > _MOST:  # as many as there are rows, at most
            distinct, key = np.unique(key, return_inverse=True)
            key, span = key.ravel(), len(distinct)
        key *= size
        key += column
        span *= size
    return key, span


def codes_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values, rising, and the number of each value among them; zeros and ones without a sort."""
    if ((values == 0) | (values == 1)).all():
        return np.array([0.0, 1.0]), values.astype(np.int32)
    distinct = np.unique(values)
    return distinct, np.searchsorted(distinct, values)


@dataclass(frozen=True)
class Groups:
    """Equal rows of columns of numbers.

    Parameters
    ----------
    columns : list of int arrays, an entry a group
        The distinct rows, in order.
    number : int array
        The number of each row's group.
    first : int array
        The first row of each group.
    """

    columns: list[np.ndarray]
    number: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def sums(self, values: np.ndarray | None = None) -> np.ndarray:
        """The sum of the values of each group's rows; without values how many rows it has."""
        return np.bincount(self.number, values, len(self)).astype(np.float64)


def group_by(columns: Sequence[np.ndarray]) -> Groups:
    """The groups of equal rows of columns of numbers from 0 up. O(n log n).

    >>> groups = group_by([np.array([1, 0, 1]), np.array([2, 5, 2])])
    >>> [column.tolist() for column in groups.columns], groups.number.tolist(), groups.first.tolist()
    ([[0, 1], [5, 2]], [1, 0, 1], [1, 0])
    """
    key, span = _keys(columns, _sizes(columns))
    if span <= 4 * len(key) + 1024:  # few enough to count
        seen = np.zeros(span, bool)
        seen[key] = True
        first = np.empty(span, np.int64)
        first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
        number = np.cumsum(seen) - 1
        number, first = number[key], first[seen]
    else:
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return Groups([column[first] for column in columns], number.ravel(), first)
