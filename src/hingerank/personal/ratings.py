"""Ratings of items by many users, with ids of any type: reading, and splits into train and test."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

import numpy as np

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.blocks import check_ids, check_unmasked, number_ids, places_of
from hingerank.data.checks import fraction, generator, one_of, positive, whole
from hingerank.data.files import TABLES, DataError, endings
from hingerank.personal.preferences import check_ratings, places_within
from hingerank.personal.ratings_files import date_of, in_utc, place_of, read_columns, whole_if_exact
from hingerank.renaming import renamed

KINDS = ("id", "id", "number", "moment")  # what is in the columns of users, items, ratings and times


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Ratings: user users[r] gave the item with id item_ids[items[r]] the rating ratings[r].

    Parameters
    ----------
    users : ids
    items : row numbers of item_ids, and of the item features that are made for them
    ratings : numbers
    item_ids : ids of all items, rated or not
    titles, genres : of the items, if known
    times : when each rating was given, if known: numbers (seconds) or dates
    item_features, feature_names : of the items, if they have been made
    """

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    item_ids: np.ndarray
    titles: np.ndarray | None = None
    genres: list[tuple[str, ...]] | None = None
    times: np.ndarray | None = None
    item_features: RowsLike = None
    feature_names: list[str] | None = None

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        n_users = len(set(self.users.tolist()))
        return f"Ratings({len(self)} ratings of {len(self.item_ids)} items by {n_users} users)"

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def take(self, rows: Column) -> "Ratings":
        """Return some of the ratings; the items keep their numbers."""
        times = None if self.times is None else self.times[rows]
        return replace(self, users=self.users[rows], items=self.items[rows], ratings=self.ratings[rows], times=times)

    @renamed
    def with_features(self, X: Matrix, feature_names: Sequence[str] | None = None) -> "Ratings":
        """Return the same ratings with item features, a row for each item; X may be a tuple (features, names)."""
        X, names = X if isinstance(X, tuple) and feature_names is None else (X, feature_names)
        X = np.asarray(X) if isinstance(X, list) else X
        if X.shape[0] != self.n_items:
            raise DataError(
                f"the features have {X.shape[0]} rows, but there are {self.n_items} items: give one for each"
            )
        return replace(self, item_features=X, feature_names=None if names is None else list(names))

    @property
    def triples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The users, items and ratings, as `fit` takes them after the item features."""
        return self.users, self.items, self.ratings


def ratings_from(
    users: Column, items: Column, ratings: Column, item_ids: PerRow = None, *, times: PerRow = None,
    duplicates: str = "mean",
) -> Ratings:  # fmt: skip
    """Make ratings from three columns with ids of any type.

    Parameters
    ----------
    users, items : ids of any type
    ratings : finite numbers
    item_ids : all items in the order of your item features; a rated item that is not listed is an error
        Ids of another type are compared as text. By default the items that occur are sorted and numbered.
    times : when each rating was given: numbers, or dates of numpy
    duplicates : what to do if a user rated an item several times
        "mean" keeps the mean, with a warning; "last" keeps the last one (by time, if there are times); "error" refuses
        them. Otherwise the same item could be on both sides of a split.

    Examples
    --------
    >>> made = ratings_from(["ann", "bob"], ["Alien", "Heat"], [5, 3], item_ids=["Heat", "Ronin", "Alien"])
    >>> made.items.tolist()
    [2, 0]
    """
    values = check_ratings(ratings, len(ratings)).astype(np.float64)
    users, items = check_ids(users, len(values), "users"), check_ids(items, len(values), "items")
    ids, numbers = number_items(items, item_ids)
    rated = Ratings(users, numbers, values, ids, times=None if times is None else check_times(times, len(values)))
    one_of("duplicates", duplicates, "mean", "last", "error")
    if len(rated) == 0:
        return rated
    _, code = number_ids(users, len(rated), "users")
    key, number, count = np.unique(code.astype(np.int64) * len(ids) + numbers, return_inverse=True, return_counts=True)
    if len(key) == len(rated):
        return rated
    if duplicates == "error":
        row = int(np.flatnonzero(count[number] > 1)[0])
        user, item = users[row : row + 1].tolist()[0], ids[numbers[row : row + 1]].tolist()[0]
        raise DataError(f"user {user!r} rated item {item!r} {count[number[row]]} times (first at row {row}): keep one")
    order = np.arange(len(rated)) if rated.times is None else np.argsort(rated.times, kind="stable")
    last = np.empty(len(key), np.int64)
    last[number[order]] = order
    rows = np.sort(last)
    if duplicates == "last":
        return rated.take(rows)
    extra = len(rated) - len(key)
    warnings.warn(f"{extra} ratings repeat an item of the same user: their mean counts", stacklevel=2)
    return replace(rated.take(rows), ratings=(np.bincount(number, values) / count)[number[rows]])


def check_times(times: Column, n_rows: int, name: str = "times") -> np.ndarray:
    """Return one time for each row: finite numbers, or dates (also as ISO 8601 text)."""
    check_unmasked(times, name)
    when = np.asarray(times)
    if when.dtype.kind in "OUT" and when.ndim == 1:
        dates = [date_of(value) if isinstance(value, str) else value for value in when.tolist()]
        bad = next((row for row, value in enumerate(dates) if not isinstance(value, date)), None)
        if bad is not None:
            raise DataError(f"{name}[{bad}] is {when.tolist()[bad]!r}, expected a date such as 2024-05-31T18:00:00Z")
        when = np.array([in_utc(value) if isinstance(value, datetime) else value for value in dates], "M8[us]")
    if when.shape != (n_rows,) or when.dtype.kind not in "iufM":
        raise DataError(f"{name} must be {n_rows} numbers or dates, one for each rating, got {when.dtype} {when.shape}")
    bad = np.isnat(when) if when.dtype.kind == "M" else ~np.isfinite(when)
    if bad.any():
        raise DataError(f"{name}[{int(np.flatnonzero(bad)[0])}] is {when[bad][0]}: leave out ratings without a time")
    return when


def read_ratings(
    source: object, user: str | int = "user", item: str | int = "item", rating: str | int = "rating", *,
    time: str | int | None = None, delimiter: str | None = None, item_ids: PerRow = None, duplicates: str = "mean",
) -> Ratings:  # fmt: skip
    """Read ratings from a data frame or a file.

    Parameters
    ----------
    source : a pandas, polars or pyarrow table; a Parquet or Feather file; or a text file, plain or compressed
    user, item, rating : names of columns, or their numbers from 0
        A text file without a line of names has its columns in this order, unless numbers are given.
    time : the column of times, such as "timestamp", if there is one: numbers, or ISO 8601 dates
    delimiter : separator of the columns of a text file; detected by default: tab, comma, semicolon, "::" or space
    item_ids, duplicates : as in `ratings_from`
    """
    wanted = [user, item, rating] if time is None else [user, item, rating, time]
    users, items, values, *when = columns_of(source, wanted, delimiter)
    try:
        return ratings_from(users, items, values, item_ids, times=when[0] if when else None, duplicates=duplicates)
    except DataError as error:  # name the file
        raise (error.at(source) if isinstance(source, str | os.PathLike) else error) from None


def columns_of(source: object, columns: Sequence[str | int], delimiter: str | None = None) -> list[np.ndarray]:
    """Return the columns of users, items and perhaps ratings and times, of a frame or file, by name or number."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if TABLES.get(endings(path)[0]) not in ("parquet", "feather"):
            return read_columns(path, columns, delimiter, KINDS[: len(columns)])
        from hingerank.data.tables import read_table

        source = read_table(path, [c for c in columns if isinstance(c, str)] or None)
    from hingerank.data.frames import open_frame

    table = open_frame(source, "a data frame or the path of a file")
    names = [str(name) for name in table.columns]
    places = [column if isinstance(column, int) else place_of(column, names) for column in columns]
    for column, place in zip(columns, places):
        if place is None or place >= len(names):
            raise DataError(f"there is no column {column!r}; the columns are: {', '.join(names)}")
    users, items, *others = (table[table.columns[place]].to_numpy() for place in places)
    # ids that a table holds as 7.0, as pandas does after a missing value, are those that a text holds as 7
    return [*(whole_if_exact(ids) if ids.dtype.kind == "f" else ids for ids in (users, items)), *others]


def number_items(items: np.ndarray, item_ids: Column = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all items, and the items as numbers of these."""
    if item_ids is None:
        if items.dtype.kind == "O" and len({type(value) for value in items.tolist()}) > 1:  # cannot be sorted
            items = np.asarray([str(value) for value in items])
        ids, numbers = np.unique(items, return_inverse=True)
        return ids, numbers.ravel().astype(np.int64)
    ids = check_ids(item_ids, len(item_ids), "item_ids")
    if len(set(ids.tolist())) < len(ids):
        raise DataError("item_ids has an id twice: give every item one row")
    numbers = places_of(items.tolist(), ids.tolist())
    if (
        items.dtype.kind != ids.dtype.kind and numbers.min(initial=0) < 0
    ):  # one of two files has 1 and 2, the other x too
        numbers = places_of([str(item) for item in items.tolist()], map(str, ids.tolist()))
    if len(numbers) and numbers.min() < 0:
        row = int(np.argmin(numbers))
        item = items[row : row + 1].tolist()[0]
        raise DataError(
            f"items has {item!r} at row {row}, which is not in item_ids, of which the first are {ids[:2].tolist()}: it "
            "has no features; add the item, or leave out its ratings"
        )
    return ids, numbers


def part_of_each(
    users: np.ndarray, items: np.ndarray, parts: int, hold_out: str, seed: int, in_runs: bool = False
) -> np.ndarray:
    """Return the part of each rating, for folds that hold out one part after the other.

    Parameters
    ----------
    users, items : of the ratings; items are row numbers
    parts : number of parts
    hold_out : "ratings" or "items"
        With "ratings" those of a user are shuffled and dealt to all parts in turn, from a random one on. With "items"
        the ratings of an item are in the same part.
    seed : of the parts
    in_runs : cut the shuffled items into runs, as stored comparisons have them, instead of dealing them in turn
    """
    rng = generator(seed, "seed")
    if hold_out == "ratings":
        _, code = number_ids(users, len(users), "users")
        places = places_within(code, np.argsort(rng.permutation(len(code))))
        return (places + rng.integers(parts, size=int(code.max()) + 1)[code]) % parts
    rated = np.unique(items)
    if len(rated) < parts:
        raise DataError(f"{parts} folds need at least {parts} rated items, there are {len(rated)}")
    number, part_of = np.arange(len(rated)), np.zeros(int(rated[-1]) + 1, np.int64)
    part_of[rng.permutation(rated)] = number * parts // len(rated) if in_runs else number % parts
    return part_of[items]


def split_by_user(ratings: Ratings, test_size: float = 0.2, seed: int = 0) -> tuple[Ratings, Ratings]:
    """Return (train, test): test has a random fraction `test_size` of every user's items (Cheng et al. 2018).

    The number of test items of a user is rounded, but is never all of them. A user with one rating is only in train.

    Parameters
    ----------
    ratings : the ratings to split
    test_size : fraction of the test data
    seed : seed of the random choice
    """
    fraction("test_size", test_size, inside=True)
    _, codes = number_ids(ratings.users, len(ratings), "users")
    size, place = np.bincount(codes), places_within(codes, generator(seed, "seed").random(len(ratings)))
    test = place < np.minimum(np.round(test_size * size), size - 1)[codes]
    return ratings.take(~test), ratings.take(test)


def split_by_item(
    ratings: Ratings, test_size: float = 0.2, seed: int = 0, *, known_users: bool = True
) -> tuple[Ratings, Ratings]:
    """Return (train, test): test has a fraction `test_size` of the rated items with all their ratings, so all are new.

    Parameters
    ----------
    ratings : the ratings to split
    test_size : fraction of the test data
    seed : seed of the random choice
    known_users : leave users without a training rating out of test, since nothing is known about them
    """
    fraction("test_size", test_size, inside=True)
    rated = np.unique(ratings.items)
    chosen = generator(seed, "seed").permutation(len(rated))[: round(test_size * len(rated))]
    test = np.isin(ratings.items, rated[chosen])
    train = ratings.take(~test)
    if known_users:
        test &= are_known(ratings.users, train.users)
    return train, ratings.take(test)


def split_by_time(ratings: Ratings, test_size: float = 0.2) -> tuple[Ratings, Ratings]:
    """Return (train, test): test has the latest fraction `test_size` of all ratings, as a system in use would see them.

    Ratings at the time of the cut are in train. Users without an earlier rating are left out of test.
    """
    fraction("test_size", test_size, inside=True)
    when = _times(ratings)
    cut = np.sort(when)[max(0, len(when) - 1 - round(test_size * len(when)))]
    train = ratings.take(when <= cut)
    return train, ratings.take((when > cut) & are_known(ratings.users, train.users))


def are_known(users: Column, known: Column) -> np.ndarray:
    """Return which users are among the known ones."""
    users, known = np.asarray(users), np.asarray(known)
    if users.dtype.kind in "iu" and known.dtype.kind in "iu":
        return np.isin(users, known)
    listed = set(known.tolist())
    return np.fromiter((user in listed for user in users.tolist()), bool, len(users))


def split_last(ratings: Ratings, n: int = 1) -> tuple[Ratings, Ratings]:
    """Return (train, test): test has the last `n` ratings of every user with more than n (leave-last-out)."""
    when, n = _times(ratings), whole("n", n)
    _, codes = number_ids(ratings.users, len(ratings), "users")
    size = np.bincount(codes)[codes]
    test = (places_within(codes, when) >= size - n) & (size > n)
    return ratings.take(~test), ratings.take(test)


def age_weights(times: Column, half_life: float, now: object = None) -> np.ndarray:
    """2^(-age / half_life), age = now - time: for ``sample_weight``.

    Parameters
    ----------
    times : of the ratings, numbers or dates
    half_life : the age at which the weight of a rating is one half, in units of `times` (days for dates)
    now : the time to count from, default the latest of `times`

    Examples
    --------
    >>> age_weights([0, 10, 20], half_life=10).tolist()
    [0.25, 0.5, 1.0]
    """
    when = check_times(times, len(times))
    positive("half_life", half_life)
    if not len(when):
        return np.empty(0)
    latest, dates = when.max() if now is None else check_times([now], 1, "now")[0], when.dtype.kind == "M"
    if (latest.dtype.kind == "M") != dates:
        raise DataError(f"now is {now!r}, but times are {'dates' if dates else 'numbers'}: give the same kind")
    age = (latest - when) / np.timedelta64(1, "D") if dates else float(latest) - when.astype(np.float64)
    return 0.5 ** np.maximum(age / half_life, 0.0)


def ticks_per_second(times: np.ndarray) -> float:
    """Guess the unit of times from the latest: 1 for seconds since 1970, 1e3 for milliseconds, 1e6 and 1e9 for smaller.

    Examples
    --------
    >>> [ticks_per_second(np.array([latest])) for latest in (1_700_000_000, 1_700_000_000_000)]
    [1.0, 1000.0]
    """
    latest = float(np.abs(times).max(initial=0))
    return next((ticks for bound, ticks in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if latest >= bound), 1.0)


def _times(ratings: Ratings) -> np.ndarray:
    if ratings.times is None:
        raise DataError("these ratings have no times: read them with read_ratings(path, time='timestamp')")
    return ratings.times
