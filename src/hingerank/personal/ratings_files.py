"""Text files with a few columns: delimiters found by looking, numbers read fast, errors with their line."""

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.checks import decimal
from hingerank.data.files import DataError
from hingerank.data.streams import split_lines, whole_text

MOST_EXACT = 2.0**53  # float64 cannot tell whole numbers from here on apart
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
DELIMITERS = ("::", "\t", ",", ";", "|", " ")


def text_of(path: Path) -> str:
    """The text of a file; UTF-8, or latin-1 where it is not."""
    try:
        return whole_text(path, ("utf-8-sig", "latin-1"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None


def read_rows(path: Path, delimiter: str) -> list[tuple[int, list[str]]]:
    """Number and fields of all lines; quotes hold a delimiter only where it is a comma or semicolon."""
    return list(split_lines(path, text_of(path), delimiter))


def read_columns(
    path: Path, columns: Sequence[str | int], delimiter: str | None = None, numbers: Sequence[int] = (),
    moments: Sequence[int] = (),
) -> list[np.ndarray]:  # fmt: skip
    """Columns by number, or by name where the first line has names; a name without such a line means its place.

    numbers: which of `columns` (their places in it) must hold finite numbers; moments: which may hold dates instead.
    """
    text = text_of(path)
    first = text.partition("\n")[0]
    if not first.strip():
        raise DataError(f"{path}: the first line is empty, expected {len(columns)} columns")
    if delimiter is None:
        delimiter = next((d for d in DELIMITERS if d in first), " ")
    head = [field.strip().strip('"') for field in next(split_lines(path, first, delimiter), (1, [""]))[1]]
    places, skip = _places(path, columns, head)
    if delimiter == "::":
        text, delimiter = text.replace("::", "\t"), "\t"
    odd = '"' in text if delimiter in (",", ";") else not text.isascii()  # NumPy takes other blanks for blanks too
    if odd or re.search(rf"[\n\t{re.escape(delimiter)}]0[0-9]", text) or re.match("0[0-9]", text):  # 007: no number
        return _mixed_columns(path, text, delimiter, places, skip, numbers, moments)
    try:
        table = np.loadtxt(
            io.StringIO(text), delimiter=None if delimiter == " " else delimiter, usecols=places, skiprows=skip,
            ndmin=2, comments=None,
        )  # fmt: skip
        exact = bool((np.abs(table) < MOST_EXACT).all())  # and finite
    except ValueError:  # ids that are no numbers, or a broken line
        exact = False
    if not exact:
        return _mixed_columns(path, text, delimiter, places, skip, numbers, moments)
    return [_whole(column) for column in table.T]


def _places(path: Path, columns: Sequence[str | int], head: list[str]) -> tuple[list[int], int]:
    """Column numbers, and the number of lines to skip."""
    names = [name.lower() for name in head]
    named = {name: place for place, name in enumerate(names)}
    wanted = [column for column in columns if isinstance(column, str)]
    found = [find_name(column, named) for column in wanted]
    has_names = any(place is not None for place in found) or not any(is_number(field) for field in head)
    if wanted and has_names and None in found:
        missing = wanted[found.index(None)]
        raise DataError(f"{path}: there is no column {missing!r}; the first line has: {', '.join(head)}")
    twice = next((head[place] for place in found if place is not None and names.count(names[place]) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: line 1 has two columns {twice[:40]!r}: rename one of them")
    named_places = iter(found)
    places = []
    for place, column in enumerate(columns):
        known = column if isinstance(column, int) else next(named_places)
        places.append(place if known is None else known)
    if max(places) >= len(head):
        raise DataError(f"{path}: line 1 has {len(head)} columns, expected at least {max(places) + 1}")
    return places, int(has_names)


def find_name(column: str, named: dict[str, int]) -> int | None:
    """The place of a column, also under the names that public files use: userId, user_id, movieId, ..."""
    usual = {"user": ("userid", "user_id"), "item": ("itemid", "item_id", "movieid", "movie_id", "movie")}
    names = (column.lower(), *usual.get(column.lower(), ()))
    return next((named[name] for name in names if name in named), None)


def _mixed_columns(
    path: Path, text: str, delimiter: str, places: list[int], skip: int, numbers: Sequence[int], moments: Sequence[int]
) -> list[np.ndarray]:
    """Columns with text in them: each one as whole numbers, numbers or text, whichever fits all of it."""
    kept: list[list[str]] = [[] for _ in places]
    most = max(places)
    dates: dict[int, list[datetime]] = {which: [] for which in moments}
    for number, fields in split_lines(path, text, delimiter):
        if number <= skip:
            continue
        if len(fields) <= most:
            line = delimiter.join(fields)
            raise DataError(
                f"{path}, line {number}: {len(fields)} columns, expected at least {most + 1}: {line[:80]!r}"
            )
        for column, place in zip(kept, places):
            column.append(fields[place].strip())
        for which in numbers:
            value = kept[which][-1]
            if decimal(value) is None:
                raise DataError(
                    f"{path}, line {number}, column {places[which] + 1}: found {value[:40]!r}, expected a finite number"
                )
        for which, found in dates.items():
            value, before = kept[which][-1], len(kept[which]) - 1
            date = None if decimal(value) is not None else date_of(value)
            if date is not None and len(found) == before:
                found.append(date)
            elif date is not None or decimal(value) is None or found:
                wanted = "a number, or a date such as 2024-05-31T18:00:00Z" + (
                    ", as on the lines before" if before else ""
                )
                raise DataError(
                    f"{path}, line {number}, column {places[which] + 1}: found {value[:40]!r}, expected {wanted}"
                )
    return [
        np.array(dates[which], "datetime64[us]") if dates.get(which) else _typed(column)
        for which, column in enumerate(kept)
    ]


def date_of(value: str) -> datetime | None:
    """A date of ISO 8601, with a time or without, in UTC; None where it is none.

    >>> date_of("2024-05-31T18:00:00+02:00")
    datetime.datetime(2024, 5, 31, 16, 0)
    """
    try:
        return in_utc(datetime.fromisoformat(value))
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """The same moment without a zone, which numpy's dates do not have."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _typed(values: list[str]) -> np.ndarray:
    if all(map(_WHOLE_NUMBER.fullmatch, values)):
        try:
            return np.array([int(value) for value in values], np.int64)
        except OverflowError:
            return np.array(values)
    numbers = [decimal(value) if _plain_number(value) else None for value in values]
    return np.array(values) if None in numbers else _whole(np.array(numbers, np.float64))


def _plain_number(value: str) -> bool:
    """A number whose text is its value: "007" is an id, not the number 7."""
    return not (len(value) > 1 and value[0] == "0" and value[1:2].isdigit())


def _whole(column: np.ndarray) -> np.ndarray:
    whole = (
        np.isfinite(column).all() and (column == np.floor(column)).all() and np.abs(column).max(initial=0) < MOST_EXACT
    )
    return column.astype(np.int64) if whole else column


def is_number(field: Any) -> bool:
    """Whether a value is a finite number, or text that spells one."""
    if isinstance(field, str):
        return decimal(field.strip()) is not None
    try:
        float(field)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
