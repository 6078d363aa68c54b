"""What many users prefer among shared items: ratings or comparisons, grouped by user, each held once.

Rows of user u are ``start[u]:start[u+1]``; row r is about item ``item[r]`` (a row of the item features). Ratings never
list their pairs; passes keep a user's rows in the order of their scores.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError
from hingerank.personal.layout import (
    count_contradictions,
    count_grades,
    drop_repeats,
    fill_compared,
    group,
    lay_out_ratings,
    number_compared,
    widest_group,
)
from hingerank.personal.losses import UserGrades, UserPairs, UserTargets

MOST_ROWS = np.iinfo(np.int32).max
REPEATED = "repeated ratings, of which the last was kept"
CONTRADICTED = "comparisons that their user also made the other way round"


@dataclass(frozen=True)
class UserPreferences:
    """start, item: the rows; known: what is known of them (see kernels/personal.py); pairs: how many each user has.

    users: the ids, in order of first appearance; sizes: scratch for the widest user; notes: what was found in the data.
    """

    users: np.ndarray
    start: np.ndarray
    item: np.ndarray
    known: Any
    pairs: np.ndarray
    sizes: tuple[int, int, int]
    notes: dict[str, int] = field(default_factory=dict)
    judged: "UserPreferences | None" = None  # by which pairs to judge accuracy, where `known` has none
    includes_training: bool = False

    @property
    def n_users(self) -> int:
        return len(self.start) - 1

    @property
    def n_rows(self) -> int:
        return len(self.item)

    @property
    def n_pairs(self) -> int:
        return int(self.pairs.sum())

    def with_items(self, number: np.ndarray) -> "UserPreferences":
        """The same with item j called number[j]."""
        judged = None if self.judged is None else self.judged.with_items(number)
        known = self.known._replace(grade=self.known.grade.copy()) if isinstance(self.known, UserGrades) else self.known
        return replace(self, item=number[self.item], known=known, judged=judged)


def from_ratings(users: Any, items: Any, ratings: Any, n_items: int, pair_weight: str = "uniform") -> UserPreferences:
    """Item i is preferred to item j by user u when u rated both and i higher.

    users: ids of any type; items: rows of the item features; ratings: any finite numbers. Of several ratings of an item
    by a user the last one given counts. pair_weight "user" divides a user's pairs by their number.

    >>> from_ratings(["ann", "bob", "ann", "ann"], [0, 0, 1, 2], [5, 3, 1, 1], n_items=3).pairs.tolist()
    [2.0, 0.0]
    """
    items = check_items(items, n_items, "items")
    ids, codes = number_ids(users, len(items), "users")
    ratings = check_ratings(ratings, len(items))
    begin, order = group(codes, len(ids))
    del codes
    kept = np.empty(len(ids), np.int64)
    dropped = drop_repeats(begin, order, items, n_items, kept)
    start, pairs, count = np.concatenate(([0], np.cumsum(kept))), np.empty(len(ids)), np.empty(len(ids), np.int32)
    count_grades(begin, order, kept, ratings, count, pairs)
    grades = int(count.max())
    item, grade = np.empty(start[-1], np.int32), np.empty(start[-1], np.uint8 if grades <= 256 else np.int32)
    lay_out_ratings(begin, order, kept, items, ratings, start, item, grade)
    known, sizes = UserGrades(grade, count, _scale(pairs, pair_weight)), (max(1, int(widest_group(start))), grades, 1)
    return UserPreferences(ids, start, item, known, pairs, sizes, {REPEATED: int(dropped)})


def from_comparisons(
    users: Any, winners: Any, losers: Any, n_items: int, weight: Any = None, pair_weight: str = "uniform",
    squared_error: bool = False,
) -> UserPreferences:  # fmt: skip
    """User u prefers item winners[e] to losers[e], which counts weight[e]. Repeats count again; contradictions stand
    against each other.

    squared_error: want a difference of 1 exactly (1 - t)^2, not at least 1.

    >>> from_comparisons([7, 7, 8], [0, 1, 0], [1, 2, 2], n_items=3).start.tolist()
    [0, 3, 5]
    """
    winners, losers = check_items(winners, n_items, "winners"), check_items(losers, n_items, "losers")
    if len(winners) != len(losers):
        raise DataError(f"{len(winners)} winners but {len(losers)} losers: give one of each for a comparison")
    same = np.flatnonzero(winners == losers)
    if len(same):
        raise DataError(f"comparison {same[0]} is between item {winners[same[0]]} and itself: leave it out")
    ids, codes = number_ids(users, len(winners), "users")
    weights = _pair_weights(weight, len(winners))
    begin, order = group(codes, len(ids))
    del codes
    start = np.zeros(len(ids) + 1, np.int64)
    winner, loser = np.empty(len(winners), np.int32), np.empty(len(winners), np.int32)
    number_compared(begin, order, winners, losers, n_items, start, winner, loser)
    item = np.empty(start[-1], np.int32)
    fill_compared(begin, order, winners, losers, start, winner, loser, item)
    pairs = np.diff(begin).astype(np.float64)
    known = UserPairs(
        begin, winner, loser, weights[order] if len(weights) else weights, _scale(pairs, pair_weight),
        np.inf if squared_error else 1.0,
    )  # fmt: skip
    sizes = (max(1, int(widest_group(start))), 1, max(1, int(widest_group(begin))))
    notes = {CONTRADICTED: int(count_contradictions(begin, winner, loser))}
    return UserPreferences(ids, start, item, known, pairs, sizes, notes)


def from_targets(users: Any, items: Any, ratings: Any, n_items: int) -> UserPreferences:
    """Ratings as numbers to be met: target = rating - the user's mean rating. The pairs they imply serve to judge."""
    judged = from_ratings(users, items, ratings, n_items)
    items = check_items(items, n_items, "items")
    ids, codes = number_ids(users, len(items), "users")
    begin, order = group(codes, len(ids))
    kept = np.empty(len(ids), np.int64)
    drop_repeats(begin, order, items, n_items, kept)
    rows = order[np.arange(len(order)) - np.repeat(begin[:-1], np.diff(begin)) < np.repeat(kept, np.diff(begin))]
    start = np.concatenate(([0], np.cumsum(kept)))
    target = check_ratings(ratings, len(items))[rows].astype(np.float64)
    target -= np.repeat(np.add.reduceat(target, start[:-1]) / kept, kept)
    known, sizes = UserTargets(target), (max(1, int(widest_group(start))), 1, 1)
    return UserPreferences(ids, start, items[rows], known, judged.pairs, sizes, judged.notes, judged)


def check_items(items: Any, n_items: int, name: str) -> np.ndarray:
    """Row numbers of the item features as int32."""
    rows = np.asarray(items)
    if rows.ndim != 1 or len(rows) > MOST_ROWS:
        raise DataError(f"{name} has shape {rows.shape}, expected a list of at most {MOST_ROWS} row numbers")
    if rows.dtype.kind == "f" and len(rows) and (rows == np.floor(rows)).all():
        rows = rows.astype(np.int64)
    if len(rows) and rows.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be row numbers of the item features, got {rows.dtype}; for ids of another kind see "
            "hingerank.personal.ratings.Ratings, which keeps them"
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= n_items):
        place = int(np.flatnonzero((rows < 0) | (rows >= n_items))[0])
        raise DataError(
            f"{name}[{place}] is {rows[place]}, but there are features for {n_items} items (0 to {n_items - 1})"
        )
    return rows.astype(np.int32, copy=False)


def check_ratings(ratings: Any, n_rows: int) -> np.ndarray:
    """Finite numbers, one per row, in their own precision."""
    values = np.asarray(ratings)
    if values.dtype.kind not in "biu" and values.dtype not in (np.dtype("f4"), np.dtype("f8")):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"ratings must be numbers, got {values.dtype}") from None
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.shape != (n_rows,):
        raise DataError(f"ratings has shape {values.shape}, expected one rating for each of the {n_rows} rows")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"ratings[{row}] is {values[row]}: leave out rows without a rating")
    return values


def _pair_weights(weight: Any, n_pairs: int) -> np.ndarray:
    """One for each comparison; none where all weigh alike."""
    if weight is None:
        return np.empty(0)
    weights = np.asarray(weight, np.float64)
    if weights.shape != (n_pairs,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError(f"weight must be {n_pairs} finite numbers that are not negative, one for each comparison")
    return weights


def _scale(pairs: np.ndarray, pair_weight: str) -> np.ndarray:
    if pair_weight not in ("uniform", "user"):
        raise ValueError(f"pair_weight must be 'uniform' or 'user', not {pair_weight!r}")
    return np.ones(len(pairs)) if pair_weight == "uniform" else 1.0 / np.maximum(pairs, 1.0)
