"""Lists of recommendations: the best items of many users, and their evaluation over the whole catalogue.

Lists are made for one block of users at a time, so no array of size users x items is stored. They are evaluated by the
items that users took afterwards: for every user with a relevant item in the test data, the list holds the best `top` of
all items that the user does not have in training. Relevant items in the list are hits.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Column, Matrix, RowsLike
from hingerank.data.blocks import check_ids, number_ids
from hingerank.data.checks import real, whole
from hingerank.data.files import DataError
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.metrics.measure import kind_and_cutoff
from hingerank.personal.catalogue import UserIndex, count_of
from hingerank.personal.passes import top_rows
from hingerank.personal.preferences import check_columns, check_items, check_ratings

SCORES_AT_ONCE = 1 << 22
MEASURES = ("recall", "hit_rate", "precision", "ndcg", "mrr")
OF_LISTS = ("coverage", "novelty", "popularity_bias")
USERS_AT_ONCE = 20_000
GROUPS = (20, 100)  # numbers of training ratings that separate groups of users


def row_products(A: Matrix, B: Matrix) -> np.ndarray:
    """Return <A[r], B[r]> for every r; each matrix is dense or CSR."""
    if sp.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    if sp.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel()
    return np.einsum("rc,rc->r", A, B)


def rows_or_mean(A: Matrix, numbers: np.ndarray, mean: np.ndarray | None = None) -> Matrix:
    """Return A[numbers], dense or CSR, with `mean` for the number -1, by default the mean of all rows."""
    if len(numbers) == 0 or numbers.min() >= 0:
        return A[numbers]
    mean = A.mean(axis=0) if mean is None else mean
    if sp.issparse(A):
        return sp.csr_matrix(sp.vstack([A, sp.csr_matrix(mean)]))[numbers]
    return np.where((numbers >= 0)[:, None], A[numbers], mean)


def all_products(A: Matrix, B: Matrix) -> np.ndarray:
    """Return A Bᵀ as a dense matrix."""
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else np.ascontiguousarray(product)


def top_lists(
    scores: Callable[[slice], np.ndarray], users: Column, n_items: int, top: int, exclude: tuple[Any, Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, scores) of the best items, a line per user, best first; rows are -1 if too few items are left.

    Parameters
    ----------
    scores : function of a block of users that returns a new dense array of users x items
    users : ids
    n_items, top : number of items, and of those in a list
    exclude : (users, items) to leave out
    """
    count = count_of(users)
    rows, values, hidden = np.empty((count, whole("top", top)), np.int64), np.empty((count, top)), None
    if exclude is not None:
        check_columns(exclude, "exclude", "users", "rows")
        items = check_items(exclude[1], n_items, "exclude")
        distinct, place = number_ids(users, count, "users")
        numbers = _of_excluded(distinct, exclude[0], len(items))
        items, numbers = items[numbers >= 0], numbers[numbers >= 0]
        hidden = sp.csr_matrix((np.ones(len(items), bool), (numbers, items)), shape=(len(distinct), n_items))
        hidden = hidden if len(distinct) == len(place) else hidden[place]
    step = max(1, SCORES_AT_ONCE // max(1, n_items))
    for a in range(0, count, step):
        block = slice(a, min(a + step, count))
        S, into = scores(block), (rows[block], values[block])
        if hidden is not None:
            S[hidden[block].nonzero()] = -np.inf
        shards = cut_shards(np.arange(len(S) + 1) * n_items, 1 << 16)
        run_shards(lambda ab, S=S, into=into: top_rows(S, *ab, *into), shards)
    return rows, values


def _of_excluded(users: np.ndarray, excluded: Column, n_rows: int) -> np.ndarray:
    """Return the number among `users` of each user to leave items out for, -1 for others."""
    ids = check_ids(excluded, n_rows, "users of exclude")
    text = {ids.dtype.kind == "U" for ids in (users, ids) if ids.dtype.kind in "biufU"}
    if len(text) == 2 and n_rows:  # none can be equal, so nothing would be left out
        raise DataError(
            f"users of exclude are {ids.dtype} such as {ids[:1].tolist()[0]!r}, but the others are {users.dtype}: give "
            "ids of one type"
        )
    return UserIndex(users).numbers(ids)


def same_lists(
    scores: np.ndarray, users: Column, top: int, exclude: tuple[Any, Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return `top_lists` of scores that do not depend on the user."""
    return top_lists(lambda block: np.tile(scores, (block.stop - block.start, 1)), users, len(scores), top, exclude)


@runtime_checkable
class Recommends(Protocol):
    """Any personal ranker, or a baseline."""

    def top_k(self, users: Column, candidates: RowsLike, top: int = 10, *, exclude: Any = None) -> Any: ...


def part_found(scores: np.ndarray, wanted: np.ndarray, top: int) -> float:
    """Return the mean fraction of each user's wanted items (users x items, 1 or 0) among the `top` highest scores.

    If a user wants more items than `top`, the fraction is of `top`.
    """
    shape = len(scores), min(top, scores.shape[1])
    best, values = np.empty(shape, np.int64), np.empty(shape)
    top_rows(scores, 0, len(scores), best, values)
    hits = (np.take_along_axis(wanted, best, axis=1) * (best >= 0)).sum(axis=1)
    return float((hits / np.clip(wanted.sum(axis=1), 1.0, top)).mean())


def parse_list_measure(text: str) -> tuple[str, int] | None:
    """Return the measure of lists and their length; None if it is not a measure of lists.

    Examples
    --------
    >>> parse_list_measure("list_ndcg@10"), parse_list_measure("ndcg@10")
    (('ndcg', 10), None)
    """
    if not text.startswith("list_"):
        return None
    name, top = kind_and_cutoff(text, {f"list_{kind}": "optional" for kind in MEASURES}, "measure of lists")
    return name.removeprefix("list_"), top or 10


def top_in_blocks(
    ranker: Recommends, users: Column, item_features: RowsLike, top: int = 10, *,
    exclude: tuple[Any, Any] | None = None, **how: Any,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:  # fmt: skip
    """Yield (users, rows, scores) of ``ranker.top_k``, for one block of ``USERS_AT_ONCE`` users at a time.

    Parameters
    ----------
    ranker, users, item_features, top, exclude : as in ``top_k``; no user may appear twice
    how : passed to ``top_k``
    """
    users = np.asarray(users)
    if exclude is not None:  # sorted by user, so that each block is a slice
        number = _of_excluded(users, exclude[0], len(exclude[0]))
        order = np.argsort(number, kind="stable")
        number, hidden = number[order], np.asarray(exclude[1])[order]
    for a in range(0, len(users), USERS_AT_ONCE):
        block, seen = users[a : a + USERS_AT_ONCE], None
        if exclude is not None:
            mine = slice(*np.searchsorted(number, (a, a + len(block))))
            seen = users[number[mine]], hidden[mine]
        yield block, *ranker.top_k(block, item_features, top, exclude=seen, **how)


@dataclass(frozen=True, repr=False)
class TopN:
    """The quality of lists of `top` items.

    Attributes
    ----------
    top : length of the lists
    means : measure -> value over all users that are judged
    groups : users by their number of training ratings -> the number of such users and the means of the measures
    users, per_user : the users that are judged, and measure -> a value for each
    items : the lists, a line per user; -1 if too few items were left

    Notes
    -----
    A user has h hits among the `top` items, and r relevant items in the test data. ``recall`` is h/r, ``hit_rate``
    is whether h > 0, ``precision`` is h/top. ``ndcg`` is the sum of 1/log₂(1 + rank) over hits, divided by that of
    min(r, top) hits at the top. ``mrr`` is 1/rank of the first hit. Measures of all lists together: ``coverage`` is
    the fraction of the catalogue that is in any list. ``novelty`` is the mean of -log₂ of the fraction of training
    users who have the item (an item without users counts as half a user). ``popularity_bias`` is the mean popularity of
    recommended items divided by that of relevant items: above 1 the lists are more popular than what users chose.
    """

    top: int
    means: dict[str, float]
    groups: dict[str, dict[str, float]]
    users: np.ndarray
    per_user: dict[str, np.ndarray]
    items: np.ndarray

    def __repr__(self) -> str:
        named = (f"{name}@{self.top}" if name in MEASURES else name for name in self.means)
        figures = ", ".join(f"{name} {value:.4f}" for name, value in zip(named, self.means.values()))
        return f"TopN({len(self.users)} users: {figures})"

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the names of columns, and rows: all users, then each group."""
        names = [name for name in self.means if name in MEASURES]
        rows: list[list[Any]] = [["all", len(self.users), *(self.means[name] for name in names)]]
        rows += [[group, int(f["users"]), *(f[name] for name in names)] for group, f in self.groups.items()]
        return ["training ratings", "users", *(f"{name}@{self.top}" for name in names)], rows


def evaluate_top(
    ranker: Recommends, item_features: RowsLike, test: Sequence[Column], train: Sequence[Column] | None = None, *,
    top: int = 10, relevant: float | None = None, groups: Sequence[int] = GROUPS,
) -> TopN:  # fmt: skip
    """Evaluate the lists that a ranker makes over the whole catalogue.

    Parameters
    ----------
    ranker : a fitted personal ranker, or anything with its ``top_k``
    item_features : a row for each item of the catalogue
    test : (users, items) or (users, items, ratings) that the lists should find; items are rows of item_features
    train : (users, items, ...) of the training data, which are left out of lists and define popularity
    top : length of the lists
    relevant : the smallest rating of a relevant test item
        By default all test items are relevant, as for clicks, listens and purchases. With star ratings set it, usually
        to 4 of 5: a list should not be rewarded for items that the user disliked.
    groups : numbers of training ratings that separate groups of users, for figures by group

    Examples
    --------
    >>> from hingerank import JointRanker
    >>> X = np.array([[3.0], [2.0], [1.0], [0.0]])
    >>> ranker = JointRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 3, 1, 3], [5, 1, 4, 2])
    >>> found = evaluate_top(ranker, X, (["ann", "bob"], [1, 2]), (["ann", "ann", "bob", "bob"], [0, 3, 1, 3]), top=1)
    >>> found.means["recall"], found.items.tolist()
    (0.5, [[1], [0]])
    >>> str(found)[:52]
    'TopN(2 users: recall@1 0.5000, hit_rate@1 0.5000, pr'
    """
    n_items, top = np.shape(item_features)[0], whole("top", top)
    check_columns(test, "test", "users", "items", *(["ratings"] if relevant is not None else []))
    users, items = test[0], check_items(test[1], n_items, "test items")
    ids, code = number_ids(users, len(items), "test users")
    seen = None if train is None else (np.asarray(train[0]), check_items(train[1], n_items, "train items"))
    if seen is not None:
        left_out = UserIndex(ids).numbers(seen[0], len(seen[1])) * n_items + seen[1]
        count = int(np.isin(code.astype(np.int64) * n_items + items, left_out).sum())
        if count:
            warnings.warn(
                f"{count} of {len(items)} test ratings are of items that lists leave out, because the user has rated "
                "them before: give other test ratings, or leave train out (--include-rated)",
                stacklevel=1,  # once, however many rankers are evaluated
            )
    if relevant is not None:
        if np.isnan(real(relevant)):
            raise ValueError(f"relevant must be a number, not {relevant!r}")
        good = check_ratings(test[2], len(items)) >= relevant
        if not good.any():
            raise DataError(
                f"no test rating is {relevant:g} or higher, so no test item is relevant: pass a lower relevant"
            )
        items, code = items[good], code[good]
    key = np.unique(code.astype(np.int64) * n_items + items)
    wanted = np.bincount(key // n_items, minlength=len(ids))
    judged = np.flatnonzero(wanted > 0)
    lists, _ = ranker.top_k(ids[judged], item_features, top, exclude=seen)
    place = judged[:, None].astype(np.int64) * n_items + lists
    at = np.minimum(np.searchsorted(key, place), len(key) - 1)
    hit = (key[at] == place) & (lists >= 0)
    per_user = list_values(hit, wanted[judged], top)
    means = {name: float(values.mean()) for name, values in per_user.items()}
    shown, by_group = lists[lists >= 0], dict[str, dict[str, float]]()
    means["coverage"] = len(np.unique(shown)) / n_items
    if seen is not None:
        known, of_user = number_ids(seen[0], len(seen[1]), "train users")
        rows = np.append(np.bincount(of_user, minlength=len(known)), 0)  # the last entry is for unknown users
        by_group = _by_group(per_user, rows[UserIndex(known).numbers(ids[judged])], groups)
        popularity = np.maximum(np.bincount(seen[1], minlength=n_items).astype(np.float64), 0.5) / len(known)
        if len(shown):
            means["novelty"] = float(-np.log2(popularity[shown]).mean())
            means["popularity_bias"] = float(popularity[shown].mean() / popularity[key % n_items].mean())
    return TopN(top, means, by_group, ids[judged], per_user, lists)


def list_values(hit: np.ndarray, relevant: np.ndarray, top: int) -> dict[str, np.ndarray]:
    """Return the value of every measure for every user.

    A row of `hit` says which ranks of a list are hits; `relevant` is the number of relevant items.
    """
    hits = hit.sum(axis=1)
    gain = 1.0 / np.log2(np.arange(2, top + 2))
    ideal = np.cumsum(gain)[np.minimum(relevant, top) - 1]
    first = np.where(hits > 0, 1.0 / (1 + hit.argmax(axis=1)), 0.0)
    return {
        "recall": hits / relevant,
        "hit_rate": (hits > 0).astype(np.float64),
        "precision": hits / top,
        "ndcg": hit @ gain / ideal,
        "mrr": first,
    }


def _by_group(per_user: dict[str, np.ndarray], count: np.ndarray, edges: Sequence[int]) -> dict[str, dict[str, float]]:
    bounds = [0, *sorted(edges), None]
    found = {}
    for low, high in itertools.pairwise(bounds):
        mine = (count >= low) & ((count < high) if high is not None else True)
        if mine.any():
            name = f"{low} or more" if high is None else f"{low} to {high - 1}"
            found[name] = {"users": float(mine.sum()), **{m: float(v[mine].mean()) for m, v in per_user.items()}}
    return found
