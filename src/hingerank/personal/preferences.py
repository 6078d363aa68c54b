"""Preferences of many users among shared items: ratings or comparisons, grouped by user and stored once.

The rows of user u are ``start[u]:start[u+1]``. Row r is about item ``item[r]`` (a row of the item features). Pairs of
ratings are never listed. Passes keep a user's rows in the order of their scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hingerank.arrays import Column, PerRow
from hingerank.data.blocks import check_ids, check_unmasked, number_ids, real_numbers
from hingerank.data.checks import one_of
from hingerank.data.files import DataError
from hingerank.kernels.compiled import kernel
from hingerank.kernels.order import sort_down
from hingerank.kernels.sweeps import sort_run
from hingerank.kernels.threads import cut_shards
from hingerank.personal.losses import GRADES, PAIRS, TARGETS, Known
from hingerank.personal.ratings_files import is_number
from hingerank.preferences.graded import runs_of

MOST_ROWS = np.iinfo(np.int32).max
LARGEST_WEIGHT = 1e30  # of a rating: norms of gradients have its eighth power
LARGEST_TARGET = 1e30  # norms of gradients have its fourth power, and that of its weight
SMALLEST_WEIGHT = 1e-200  # of a user's pairs: nothing is learned from less, as from ratings a thousand half-lives old
ROWS_AT_ONCE = 1 << 18  # ratings that are converted to 8 bytes at once
REPEATED = "repeated ratings, of which the mean counts"
CONTRADICTED = "comparisons that their user also made the other way round"


@dataclass(frozen=True)
class UserPreferences:
    """Rows of items, grouped by user, and the preferences among them.

    Attributes
    ----------
    users : ids, in order of first appearance
    start, item : the rows, as the module describes
    known : grades, comparisons or targets of the rows (see hingerank.personal.losses)
    pairs : number of pairs of each user
    notes : counts of problems found in the data
    judged : preferences whose pairs judge accuracy, if `known` has none
    """

    users: np.ndarray
    start: np.ndarray
    item: np.ndarray
    known: Known
    pairs: np.ndarray
    notes: dict[str, int] = field(default_factory=dict)
    judged: "UserPreferences | None" = None

    @property
    def n_pairs(self) -> int:
        return int(self.pairs.sum())

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The largest numbers of rows, grades and comparisons of a user, for the work arrays of passes."""
        sizes = np.diff(self.start), self.known.grades, np.diff(self.known.start) if self.known.kind == PAIRS else ()
        rows, grades, compared = (int(np.max(size, initial=1)) for size in sizes)
        return rows, grades, compared

    def take(self, users: np.ndarray) -> "UserPreferences":
        """Return a copy of the preferences of these users (numbers)."""
        known, (rows, start) = self.known, runs_of(self.start, users)
        entries, begin = rows, start
        if known.kind == PAIRS:
            entries, begin = runs_of(known.start, users)
        picked = {name: getattr(known, name) for name in ("weight", "grade", "winner", "loser", "target")}
        picked = {name: array[entries] for name, array in picked.items() if len(array)}
        if known.kind == GRADES:
            picked["grades"] = known.grades[users]
        return replace(
            self, users=self.users[users], start=start, item=self.item[rows],
            known=known._replace(start=begin, scale=known.scale[users], **picked), pairs=self.pairs[users],
            judged=None if self.judged is None else self.judged.take(users),
        )  # fmt: skip

    def with_items(self, number: np.ndarray) -> "UserPreferences":
        """Return the preferences with item j renumbered as number[j]."""
        return replace(self._about(number[self.item]), judged=self.judged and self.judged.with_items(number))

    def at_scores(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, "UserPreferences"]:
        """Return (P, V, preferences) for passes over rows with these scores: each row is about an item of its own."""
        return s[:, None], np.ones((len(self.users), 1)), self._about(np.arange(len(s), dtype=np.int32))

    def _about(self, item: np.ndarray) -> "UserPreferences":
        """Return the preferences with other items of the rows, to be reordered by passes as the grades are."""
        known = self.known
        if known.kind == GRADES:
            known = known._replace(grade=known.grade.copy(), weight=known.weight.copy())
        return replace(self, item=item, known=known)

    @property
    def mass(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums of weights of each user's rows, and of the user's pairs; without weights, their numbers."""
        count, known = np.diff(self.start).astype(np.float64), self.known
        if not len(known.weight):
            return count, self.pairs
        if known.kind == PAIRS:
            return count, weigh_pairs(self.start, known)
        total = np.bincount(np.repeat(np.arange(len(count)), np.diff(self.start)), known.weight, len(count))
        return total, self.pairs if known.kind == TARGETS else weigh_pairs(self.start, known)


def weigh_pairs(start: np.ndarray, known: Known) -> np.ndarray:
    """Sum the weights of each user's pairs; those of ratings are ½ (square of the sum - squares of sums by grade)."""
    if known.kind == PAIRS:
        return np.add.reduceat(known.weight, known.start[:-1])
    users, most = len(start) - 1, int(known.grades.max(initial=1))
    of_user = np.repeat(np.arange(users), np.diff(start))
    total = np.bincount(of_user, known.weight, users)
    distinct, place = np.unique(of_user * most + known.grade, return_inverse=True)
    alike = np.bincount(place, known.weight) ** 2
    return np.maximum(0.5 * (total**2 - np.bincount(distinct // most, alike, users)), 0.0)


def from_ratings(
    users: Column, items: Column, ratings: Column, n_items: int, weight: PerRow = None, pair_weight: str = "uniform",
    squared_error: bool = False,
) -> UserPreferences:  # fmt: skip
    """Make preferences from ratings: user u prefers item i to item j if u rated both, and i higher.

    Parameters
    ----------
    users : ids of any type
    items : rows of the item features
    ratings : finite numbers; repeated ratings of an item by a user become their mean, with the weight of the last
    n_items : number of rows of the item features
    weight : weight of each rating, default 1, where 0 is no rating; a pair has the product of its two weights
    pair_weight : "uniform", or "user", which divides the weights of a user's pairs by their sum
    squared_error : make targets of scores, rating - the user's (weighted) mean, whose pairs only judge accuracy

    Examples
    --------
    >>> from_ratings(["ann", "bob", "ann", "ann"], [0, 0, 1, 2], [5, 3, 1, 1], n_items=3).pairs.tolist()
    [2.0, 0.0]
    """
    users, items, ratings, weights = of_positive_weight(users, items, ratings, weight)
    items = check_items(items, n_items, "items")
    ids, codes = number_ids(users, len(items), "users")
    ratings = check_ratings(ratings, len(items))
    if (
        squared_error
        and (largest := max(float(ratings.max(initial=0)), -float(ratings.min(initial=0)))) > LARGEST_TARGET
    ):
        raise DataError(f"a rating of {largest:g}: sums of squares would overflow; divide all ratings by it")
    begin, order = group(codes, len(ids))
    kept, pairs, count = np.empty(len(ids), np.int64), np.empty(len(ids)), np.empty(len(ids), np.int32)
    dropped = int(drop_repeats(begin, order, items, n_items, kept))
    if dropped:
        _, place = np.unique(codes.astype(np.int64) * n_items + items, return_inverse=True)
        ratings = (np.bincount(place, ratings) / np.bincount(place))[place]
    del codes
    start, rows = np.concatenate(([0], np.cumsum(kept))), np.empty(0, np.int32)
    if squared_error:  # the rows of each user in their first order, which the next step changes
        counts = np.diff(begin)
        rows = order[np.arange(len(order)) - np.repeat(begin[:-1], counts) < np.repeat(kept, counts)]
    item, grade = np.empty(start[-1], np.int32), np.empty(start[-1], np.uint8)
    for a, b in cut_shards(begin, ROWS_AT_ONCE):
        values = ratings[order[begin[a] : begin[b]]].astype(np.float64, copy=False)
        lay_out_ratings(a, b, begin, order, kept, items, values, start, item, grade, count, pairs)
    grades = int(count.max())
    if grades > 256:  # they were stored modulo 256, and those of a user increase from 0 by 1
        risen = np.cumsum(np.diff(grade, prepend=grade[:1]) != 0, dtype=np.int32)
        grade = risen - np.repeat(risen[start[:-1]], kept)
    known = Known(GRADES, start, _scale(pairs, pair_weight), np.empty(0), grade, count)
    if weights is not None:
        known = known._replace(weight=weights[order[np.arange(start[-1]) + np.repeat(begin[:-1] - start[:-1], kept)]])
        known = known._replace(scale=_scale(weigh_pairs(start, known), pair_weight))
    graded = UserPreferences(ids, start, item, known, pairs, {REPEATED: dropped})
    if not squared_error:
        return graded
    target, mass = ratings[rows].astype(np.float64), np.ones(len(rows)) if weights is None else weights[rows]
    means = np.add.reduceat(mass * target, start[:-1]) / np.add.reduceat(mass, start[:-1])
    target -= np.repeat(means, kept)
    known = Known(TARGETS, start, np.ones(len(ids)), np.empty(0) if weights is None else mass, target=target)
    return replace(graded, item=items[rows], known=known, judged=graded)


def from_comparisons(
    users: Column, winners: Column, losers: Column, n_items: int, weight: PerRow = None, pair_weight: str = "uniform",
    squared_error: bool = False,
) -> UserPreferences:  # fmt: skip
    """Make preferences from comparisons: user users[e] prefers item winners[e] to item losers[e].

    Parameters
    ----------
    users : ids of any type
    winners, losers : rows of the item features; repeats and contradictions all count
    n_items : number of rows of the item features
    weight : weight of each comparison, default 1, where 0 is no comparison
    pair_weight : as in `from_ratings`
    squared_error : use the loss (1 - t)^2, which requires a difference of exactly 1 instead of at least 1

    Examples
    --------
    >>> from_comparisons([7, 7, 8], [0, 1, 0], [1, 2, 2], n_items=3).start.tolist()
    [0, 3, 5]
    """
    winners, losers = check_items(winners, n_items, "winners"), check_items(losers, n_items, "losers")
    if len(winners) != len(losers):
        raise DataError(f"{len(winners)} winners but {len(losers)} losers: give one of each per comparison")
    same = np.flatnonzero(winners == losers)
    if len(same):
        raise DataError(f"comparison {same[0]} is between item {winners[same[0]]} and itself: leave it out")
    users, winners, losers, given = of_positive_weight(users, winners, losers, weight, "comparison")
    ids, codes = number_ids(users, len(winners), "users")
    begin, order = group(codes, len(ids))
    del codes
    start = np.zeros(len(ids) + 1, np.int64)
    winner, loser = np.empty(len(winners), np.int32), np.empty(len(winners), np.int32)
    number_compared(begin, order, winners, losers, n_items, start, winner, loser)
    item = np.empty(start[-1], np.int32)
    fill_compared(begin, order, winners, losers, start, winner, loser, item)
    pairs = np.diff(begin).astype(np.float64)
    weights = np.empty(0) if given is None else given[order]
    margin = np.inf if squared_error else 1.0
    known = Known(PAIRS, begin, _scale(pairs, pair_weight), weights, winner=winner, loser=loser, margin=margin)
    if len(weights):
        known = known._replace(scale=_scale(weigh_pairs(start, known), pair_weight))
    notes = {CONTRADICTED: int(count_contradictions(begin, winner, loser))}
    return UserPreferences(ids, start, item, known, pairs, notes)


def check_items(items: Column, n_items: int, name: str) -> np.ndarray:
    """Return row numbers of the item features as int32, after checking them."""
    check_unmasked(items, name)
    rows = np.asarray(items)
    if rows.ndim != 1 or len(rows) > MOST_ROWS:
        raise DataError(f"{name} has shape {rows.shape}, expected a list of at most {MOST_ROWS} row numbers")
    if rows.dtype.kind == "f" and len(rows):
        odd = np.flatnonzero(rows != np.floor(rows))  # NaN too
        if len(odd):
            raise DataError(f"{name} must be row numbers of the item features, but {name}[{odd[0]}] is {rows[odd[0]]}")
        rows = rows.astype(np.int64)
    if len(rows) and rows.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be row numbers of the item features, got {rows.dtype}; ids of another kind are numbered by "
            "hr.ratings_from(users, items, ratings, item_ids=...), whose .items are row numbers"
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= n_items):
        place = int(np.flatnonzero((rows < 0) | (rows >= n_items))[0])
        raise DataError(
            f"{name}[{place}] is {rows[place]}, but there are features for {n_items} items (0 to {n_items - 1})"
        )
    return rows.astype(np.int32, copy=False)


def check_columns(given: object, name: str, *parts: str) -> None:
    """Raise a DataError unless there are as many columns as parts, such as users, items and ratings."""
    found = f"is {str(given)[:40]!r}"
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        if len(given) >= len(parts):
            return
        found = f"has {len(given)} columns"
    raise DataError(f"{name} {found}, expected columns of the same length: ({', '.join(parts)})")


def check_ratings(ratings: Column, n_rows: int) -> np.ndarray:
    """Return ratings as finite numbers, one per row, in their own precision."""
    check_unmasked(ratings, "ratings")
    values = np.asarray(ratings)
    if values.dtype.kind not in "biu" and values.dtype not in (np.dtype("f4"), np.dtype("f8")):
        try:
            values = real_numbers(values, "ratings")
        except DataError:
            found = ((row, str(v)[:40]) for row, v in enumerate(values.tolist()) if not is_number(v))
            row, value = next(found, (0, values.dtype))
            raise DataError(f"ratings must be numbers, but the rating at row {row} is {value!r}") from None
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.shape != (n_rows,):
        raise DataError(f"ratings has shape {values.shape}, expected one rating for each of the {n_rows} rows")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"ratings[{row}] is {values[row]}, not a finite number: leave out rows without a rating")
    return values


def check_weights(weight: Column, count: int, what: str) -> np.ndarray:
    """Return a copy of the weights, one for each rating, comparison or click."""
    weights = np.array(real_numbers(weight, "sample_weight"))
    if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError(f"sample_weight must be {count} finite numbers that are not negative, one for each {what}")
    if weights.max(initial=0.0) > LARGEST_WEIGHT:
        raise DataError(f"sample_weight of {weights.max():g}: sums over pairs would overflow; divide all weights by it")
    return weights


def of_positive_weight(
    users: Column, items: Column, ratings: Column, weight: PerRow, what: str = "rating"
) -> tuple[Column, Column, Column, np.ndarray | None]:
    """Return (users, items, ratings, weights), or comparisons and their weights, without those of weight 0."""
    if weight is None:
        return users, items, ratings, None
    weights = check_weights(weight, len(items), what)
    if (weights > 0).all():
        return users, items, ratings, weights
    if not (weights > 0).any():
        raise DataError(f"sample_weight is 0 for every {what}: nothing is left to learn from")
    kept, ratings = weights > 0, np.asarray(ratings)
    if ratings.shape != kept.shape:
        raise DataError(f"ratings has shape {ratings.shape}, expected one rating for each of the {len(kept)} rows")
    return check_ids(users, len(kept), "users")[kept], np.asarray(items)[kept], ratings[kept], weights[kept]


def _scale(pairs: np.ndarray, pair_weight: str) -> np.ndarray:
    alike = one_of("pair_weight", pair_weight, "uniform", "user") == "uniform"
    return np.ones(len(pairs)) if alike else 1.0 / np.where(pairs > SMALLEST_WEIGHT, pairs, 1.0)


def places_within(codes: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Return the place of each row among the rows of its code (0, 1, ...), in the order of the last key, then others.

    >>> places_within(np.array([1, 0, 1]), np.array([0.7, 0.3, 0.1])).tolist()
    [1, 0, 0]
    """
    size, place = np.bincount(codes), np.empty(len(codes), np.int64)
    place[np.lexsort((*keys, codes))] = np.arange(len(codes)) - np.repeat(np.cumsum(size) - size, size)
    return place


# Grouping rows by user, given in any order. All is O(n), except sorting.


@kernel(allocates=True)
def group(codes, count):
    """Return (start, order): the rows of code c are order[start[c]:start[c+1]], in their original order."""
    start = np.zeros(count + 1, np.int64)
    for i in range(len(codes)):
        start[codes[i] + 1] += 1
    for c in range(count):
        start[c + 1] += start[c]
    free, order = start[:-1].copy(), np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        c = codes[i]
        order[free[c]] = i
        free[c] += 1
    return start, order


@kernel(allocates=True)
def drop_repeats(start, order, items, n_items, kept):
    """Drop all but the last of a user's rows about the same item: kept[u] = rows left, moved to the front."""
    seen, dropped = np.full(n_items, -1, np.int32), 0
    for u in range(len(start) - 1):
        lo, hi = start[u], start[u + 1]
        at = hi
        for r in range(hi - 1, lo - 1, -1):  # from the last to the first
            i = order[r]
            if seen[items[i]] != u:
                seen[items[i]] = u
                at -= 1
                order[at] = i
        kept[u] = hi - at
        if at > lo:
            dropped += at - lo
            for r in range(hi - at):
                order[lo + r] = order[at + r]
    return dropped


@kernel(allocates=True)
def lay_out_ratings(first, last, begin, order, kept, items, ratings, start, item, grade, count, pairs):
    """Sort the rows of users first:last by rating; ratings[0] is that of row order[begin[first]].

    Fills item[r], and grade[r] = 0, 1, ... within the user, modulo 256; count[u] = number of different ratings,
    pairs[u] = number of pairs of them.
    """
    n = 0
    for u in range(first, last):
        n = max(n, kept[u])
    spare_at, spare_key = np.empty(n, np.int32), np.empty(n)
    for u in range(first, last):
        lo = begin[u] - begin[first]
        at, key = order[begin[u] : begin[u] + kept[u]], ratings[lo : lo + kept[u]]
        sort_run(at, key, spare_at, spare_key, 0, kept[u])
        g = same = total = 0
        for r in range(kept[u]):
            if r > 0 and key[r] != key[r - 1]:
                g += 1
                same = r
            total += same
            item[start[u] + r] = items[at[r]]
            grade[start[u] + r] = g & 255
        count[u] = min(kept[u], g + 1)
        pairs[u] = total


@kernel(allocates=True)
def number_compared(begin, order, winners, losers, n_items, start, winner, loser):
    """Number each user's compared items 0, 1, ...: fills start and the rows of pairs within their user."""
    seen, number = np.full(n_items, -1, np.int32), np.empty(n_items, np.int32)
    for u in range(len(begin) - 1):
        count = 0
        for e in range(begin[u], begin[u + 1]):
            for side in range(2):
                j = winners[order[e]] if side == 0 else losers[order[e]]
                if seen[j] != u:
                    seen[j] = u
                    number[j] = count
                    count += 1
                if side == 0:
                    winner[e] = number[j]
                else:
                    loser[e] = number[j]
        start[u + 1] = start[u] + count


@kernel
def fill_compared(begin, order, winners, losers, start, winner, loser, item):
    """Fill item[r] for every row that number_compared counted."""
    for u in range(len(begin) - 1):
        for e in range(begin[u], begin[u + 1]):
            item[start[u] + winner[e]] = winners[order[e]]
            item[start[u] + loser[e]] = losers[order[e]]


@kernel(allocates=True)
def count_contradictions(begin, winner, loser):
    """Count the comparisons that the same user also made the other way round."""
    total = 0
    for u in range(len(begin) - 1):
        lo, n = begin[u], begin[u + 1] - begin[u]
        key, spare = np.empty(n, np.int64), np.empty(n, np.int64)
        for e in range(n):
            i, j = np.int64(winner[lo + e]), np.int64(loser[lo + e])
            key[e] = (min(i, j) << 33) + (max(i, j) << 1) + (i > j)
        sort_down(key, 0, n, spare)
        a = 0
        while a < n:
            b, up = a, 0
            while b < n and key[b] >> 1 == key[a] >> 1:
                up += key[b] & 1
                b += 1
            if 0 < up < b - a:
                total += b - a
            a = b
    return total
