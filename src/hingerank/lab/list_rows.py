"""Lists over a whole catalogue under the protocol of all comparisons.

A user is a query, and its rows are the items that the user rated, but a method is judged by where these items are in
the list that it makes of all items, without those that the user is known to have: measures of lists (`list_ndcg@10`)
are never mixed with measures of the order of rated items (`ndcg@10`), and nothing is sampled.
"""

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Matrix, Ranker
from hingerank.data.ranking_data import RankingData
from hingerank.metrics.own import MeasureLike, measure_name
from hingerank.personal.top_lists import hidden_items, top_lists
from hingerank.personal.top_n import list_values, parse_list_measure

MEASURE = "list_ndcg@10"
MEASURES = [f"list_{kind}@10" for kind in ("ndcg", "recall", "precision", "hit_rate", "mrr")]
LONGEST = 100  # items in a list
Known = tuple[np.ndarray, np.ndarray]  # users and the items that each is known to have


@runtime_checkable
class Recommender(Protocol):
    """A model that learns from ratings and makes lists: a personal ranker, a baseline, or your own."""

    def fit_ratings(self, item_features: Matrix, users: ArrayLike, items: ArrayLike, ratings: ArrayLike) -> object: ...

    def top_k(
        self, users: ArrayLike, candidates: Matrix, top: int = 10, *, exclude: Known | None = None
    ) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ListRows(RankingData):
    """Ratings as rows, with what lists are made from.

    Attributes
    ----------
    items : the row of the catalogue that each row is about
    catalogue : the features of all items
    relevant : the least rating of an item that a list should find
    seen : (users, items) that are known and not offered again
    offered : row numbers of the items that lists are made from; None: all
    """

    items: np.ndarray
    catalogue: Matrix
    relevant: float
    seen: Known | None = None
    offered: np.ndarray | None = None

    def take(self, rows: ArrayLike) -> "ListRows":
        """Some rows."""
        part = super().take(rows)
        assert isinstance(part, ListRows)  # which `replace` keeps
        return replace(part, items=self.items[np.asarray(rows, np.int64)])

    @property
    def _user_of_row(self) -> np.ndarray:
        return self.blocks.scatter(self.blocks.numbers)

    def placed(self, ranker: Ranker) -> np.ndarray:
        """A score per row: -1 for the first item of its user's list, -2 for the second, …, and the same for all that
        are not in it."""
        users, numbers = self.blocks.ids, self._user_of_row
        every = np.arange(self.catalogue.shape[0]) if self.offered is None else self.offered
        top, X = min(LONGEST, len(every)), self.catalogue[every]
        place_of = np.full(self.catalogue.shape[0], -1, np.int64)
        place_of[every] = np.arange(len(every))
        seen = self.seen
        if seen is not None:
            here = place_of[seen[1]] >= 0
            seen = seen[0][here], place_of[seen[1][here]]
        if isinstance(ranker, Recommender):
            lists, _ = ranker.top_k(users, X, top, exclude=seen)
        else:
            lists = _same_list(ranker, X, users, top, seen)
        wanted = place_of[self.items]
        hit = np.asarray(lists)[numbers] == wanted[:, None]
        return np.where(hit.any(axis=1) & (wanted >= 0), -1.0 - hit.argmax(axis=1), -1.0 - len(every))

    def values(self, scores: np.ndarray, measures: Sequence[MeasureLike]) -> dict[str, np.ndarray]:
        """Measures of every user's list, NaN for users without a relevant item."""
        good = self.y >= self.relevant
        user, place = self._user_of_row[good], -scores[good].astype(np.int64) - 1
        count = np.bincount(user, minlength=self.n_queries)
        some = np.flatnonzero(count)
        hit = np.zeros((self.n_queries, LONGEST), bool)
        inside = place < LONGEST
        hit[user[inside], place[inside]] = True
        found = {}
        for measure in measures:
            name, top = parse_list_measure(str(measure)) or ("", 0)
            whole = np.full(self.n_queries, np.nan)
            whole[some] = list_values(hit[some, :top], count[some], top)[name]
            found[str(measure)] = whole
        return found

    def fingerprint(self, of_rows: bytes) -> bytes:
        """A hash of the catalogue and of what is relevant beside that of the rows."""
        whole = hashlib.blake2b(of_rows, digest_size=16)
        whole.update(repr((self.relevant, self.catalogue.shape)).encode())
        whole.update(np.asarray(self.items, np.int64).tobytes())
        return whole.digest()


def _same_list(ranker: Ranker, X: Matrix, users: np.ndarray, top: int, seen: Known | None) -> np.ndarray:
    """The lists of a ranker of rows, which has one function for all users."""
    asks_qid = "qid" in inspect.signature(ranker.predict).parameters
    one_query = {"qid": np.zeros(X.shape[0], np.int64)} if asks_qid else {}
    scores = np.asarray(ranker.predict(X, **one_query), np.float64)
    hidden = hidden_items(seen, users, X.shape[0])
    return top_lists(
        lambda block: np.tile(scores, (block.stop - block.start, 1)), len(users), len(scores), top, hidden
    )[0]


def check_list_measures(measures: Sequence[MeasureLike]) -> None:
    """A ValueError for measures of anything but lists."""
    for measure in measures:
        found = parse_list_measure(measure) if isinstance(measure, str) else None
        if found is None:
            raise ValueError(
                f"{measure_name(measure)} judges the order of rated items, and these folds are for lists over all "
                f"items: use {', '.join(MEASURES[:2])} and the like, or rating_folds"
            )
        if found[1] > LONGEST:
            raise ValueError(f"{measure}: lists have at most {LONGEST} items here")
