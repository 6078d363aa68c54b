"""Whole lists of a click log: documents and clicks by place, equal lists counted once."""

from dataclasses import dataclass

import numpy as np

from hingerank.clicks.counting import group_by
from hingerank.clicks.log import ClickLog
from hingerank.data.files import DataError


@dataclass(frozen=True)
class LogLists:
    """Distinct lists.

    Parameters
    ----------
    query : int array, an entry a list
    document : int array, lists × places
        −1 where a list has nothing.
    clicks : bool array, lists × places
    weight : float array
        How often the list was shown and clicked in this way.
    """

    query: np.ndarray
    document: np.ndarray
    clicks: np.ndarray
    weight: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """Where there is a document."""
        return self.document >= 0

    @property
    def last(self) -> np.ndarray:
        """The number (from 0) of the last clicked place, −1 where nothing was clicked."""
        width = self.clicks.shape[1]
        return np.where(self.clicks.any(axis=1), width - 1 - np.argmax(self.clicks[:, ::-1], axis=1), -1)


def lists_of(log: ClickLog) -> LogLists:
    """The lists of a log with sessions.

    Of two documents at one place the first counts. One that is shown there twice is clicked if either showing is.
    """
    if log.session is None:
        raise DataError(
            "models of whole lists need to know which showings stood in one list: give sessions=, or read the log with "
            "keep='showings'"
        )
    if not len(log):
        raise DataError("the log has no showings")
    columns, number = group_by([log.session, log.query])
    size, width = len(columns[0]), log.n_places
    document, clicks = np.full((size, width), -1, np.int64), np.zeros((size, width), bool)
    at = log.place - 1
    document[number[::-1], at[::-1]] = log.document[::-1]
    clicked = (log.clicks > 0) & (log.document == document[number, at])
    clicks[number[clicked], at[clicked]] = True
    weight = np.ones(size)
    if log.weights is not None:
        weight[number[::-1]] = log.weights[::-1]
    distinct, group = group_by([columns[1], *(document + 1).T, *clicks.T.astype(np.int64)])
    first = np.full(len(distinct[0]), size)
    np.minimum.at(first, group, np.arange(size))
    return LogLists(columns[1][first], document[first], clicks[first], np.bincount(group, weight))
