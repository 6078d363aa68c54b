"""Read text files with a few columns: separators are detected, numbers are read fast, errors name the line."""

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.checks import decimal
from hingerank.data.files import DataError, no_such_file
from hingerank.data.streams import split_lines, whole_text

MOST_EXACT = 2.0**53  # float64 does not distinguish all whole numbers from here on
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
_MOMENT = "a number, or a date such as 2024-05-31T18:00:00Z, in the whole column"
DELIMITERS = ("::", "\t", ",", ";", "|", " ")


def text_of(path: Path) -> str:
    """Return the text of a file, read as UTF-8, or as latin-1 if it is not UTF-8."""
    try:
        return whole_text(path, ("utf-8-sig", "latin-1"))
    except FileNotFoundError:
        raise DataError(no_such_file(path)) from None


def read_rows(path: Path, delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the number and fields of all lines; quotes count only if the delimiter is a comma or semicolon."""
    return list(split_lines(path, text_of(path), delimiter))


def read_columns(
    path: Path, columns: Sequence[str | int], delimiter: str | None = None, kinds: Sequence[str] = ()
) -> list[np.ndarray]:
    """Read columns by number, or by name if the first line has names; otherwise a name means its place in `columns`.

    kinds: of each column. Each "id" is filled, and 1.10 and 1.1 are two; a "number" is finite; a "moment" is a number,
    or a date; "any" value may be in the others, and in all columns by default.
    """
    kinds = kinds or ["any"] * len(columns)
    text = text_of(path)
    first = text.partition("\n")[0]
    if not first.strip():
        raise DataError(f"{path}: the first line is empty, expected {len(columns)} columns")
    delimiter = delimiter or guess_delimiter(first)
    head = [field.strip().strip('"') for field in next(split_lines(path, first, delimiter), (1, [""]))[1]]
    places, skip = _places(path, columns, head)
    if skip and not text.partition("\n")[2].strip():
        return [np.empty(0) for _ in columns]
    if len(delimiter) > 1:
        text, delimiter = text.replace(delimiter, "\t"), "\t"
    odd = '"' in text if delimiter in (",", ";") else not text.isascii()  # NumPy splits at non-ASCII spaces too
    if odd or re.search(rf"[\n\t{re.escape(delimiter)}]0[0-9]", text) or re.match("0[0-9]", text):  # 007 is no number
        return _mixed_columns(path, text, delimiter, places, skip, kinds)
    try:
        table = np.loadtxt(
            io.StringIO(text), delimiter=None if delimiter == " " else delimiter, usecols=places, skiprows=skip,
            ndmin=2, comments=None,
        )  # fmt: skip
        exact = bool((np.abs(table) < MOST_EXACT).all())  # also false for NaN
    except ValueError:  # ids that are not numbers, or a bad line
        exact = False
    found = [whole_if_exact(column) for column in table.T] if exact else []
    if not exact or any(kind == "id" and column.dtype.kind == "f" for kind, column in zip(kinds, found)):
        return _mixed_columns(path, text, delimiter, places, skip, kinds)
    return found


def guess_delimiter(text: str) -> str:
    """Guess the separator of the columns of a text from its first line."""
    first = text.partition("\n")[0]
    return next((delimiter for delimiter in DELIMITERS if delimiter in first), " ")


def _places(path: Path, columns: Sequence[str | int], head: list[str]) -> tuple[list[int], int]:
    """Return column numbers, and the number of lines to skip."""
    found = [column if isinstance(column, int) else place_of(column, head) for column in columns]
    named = [place for place, column in zip(found, columns) if isinstance(column, str)]
    has_names = any(place is not None for place in named) or not any(is_number(field) for field in head)
    if has_names and None in named:
        missing = columns[found.index(None)]
        raise DataError(f"{path}: there is no column {missing!r}; the first line has: {', '.join(head)}")
    names = [name.lower() for name in head]
    twice = next((head[place] for place in named if place is not None and names.count(names[place]) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: line 1 has two columns {twice[:40]!r}: rename one of them")
    places = [number if place is None else place for number, place in enumerate(found)]
    if max(places) >= len(head):
        raise DataError(f"{path}: line 1 has {len(head)} columns, expected at least {max(places) + 1}")
    return places, int(has_names)


def place_of(column: str, names: Sequence[str]) -> int | None:
    """Return the place of a column, ignoring case, also under names of public files: userId, user_id, movieId, ..."""
    usual = {"user": ("userid", "user_id"), "item": ("itemid", "item_id", "movieid", "movie_id", "movie")}
    lower = [name.lower() for name in names]
    tried = [(column, names), *((name, lower) for name in (column.lower(), *usual.get(column.lower(), ())))]
    return next((where.index(name) for name, where in tried if name in where), None)


def _mixed_columns(
    path: Path, text: str, delimiter: str, places: list[int], skip: int, kinds: Sequence[str]
) -> list[np.ndarray]:
    """Read columns that contain text: each becomes whole numbers, numbers or text, whichever fits all of its values."""
    rows = [row for row in split_lines(path, text, delimiter) if row[0] > skip]
    for line, fields in rows:
        if len(fields) <= max(places):
            found = f"{len(fields)} columns, expected at least {max(places) + 1}: {delimiter.join(fields)[:80]!r}"
            raise DataError(f"{path}, line {line}: {found}")

    def fitting(place: int, values: list[Any], expected: str) -> np.ndarray:
        if None in values:
            line, fields = rows[values.index(None)]
            found = f"found {fields[place].strip()[:40]!r}, expected {expected}"
            raise DataError(f"{path}, line {line}, column {place + 1}: {found}")
        return np.array(values)

    columns = []
    for place, kind in zip(places, kinds):
        texts = [fields[place].strip() for _, fields in rows]
        numbers: list[Any] = [decimal(text) for text in texts] if kind in ("number", "moment") else []
        if kind == "id":
            fitting(place, [text or None for text in texts], "an id")
        elif kind == "number":
            fitting(place, numbers, "a finite number")
        elif kind == "moment" and numbers and numbers[0] is None:
            dates = [date_of(text) if number is None else None for text, number in zip(texts, numbers)]
            columns.append(fitting(place, dates, _MOMENT).astype("datetime64[us]"))
            continue
        elif kind == "moment":
            fitting(place, numbers, _MOMENT)
        columns.append(_typed(texts, kind == "id"))
    return columns


def date_of(value: str) -> datetime | None:
    """Parse an ISO 8601 date, with or without a time, into UTC; None if it is not a date.

    >>> date_of("2024-05-31T18:00:00+02:00")
    datetime.datetime(2024, 5, 31, 16, 0)
    """
    try:
        return in_utc(datetime.fromisoformat(value))
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC without a time zone, since numpy's dates have none."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _typed(values: list[str], ids: bool) -> np.ndarray:
    """Return values as whole numbers, numbers or text; ids that are different texts stay different."""
    if all(map(_WHOLE_NUMBER.fullmatch, values)):
        try:
            return np.array([int(value) for value in values], np.int64)
        except OverflowError:
            return np.array(values)
    numbers = [None if value[:1] == "0" and value[1:2].isdigit() else decimal(value) for value in values]  # 007: an id
    if None in numbers:
        return np.array(values)
    column = whole_if_exact(np.array(numbers, np.float64))
    joined = ids and column.dtype.kind == "f" and len(set(numbers)) < len(set(values))
    return np.array(values) if joined else column


def whole_if_exact(column: np.ndarray) -> np.ndarray:
    """Return numbers as int64 if all of them are whole and exact."""
    whole = (
        np.isfinite(column).all() and (column == np.floor(column)).all() and np.abs(column).max(initial=0) < MOST_EXACT
    )
    return column.astype(np.int64) if whole else column


def is_number(field: Any) -> bool:
    """Return whether a value is a finite number, or text of one."""
    if isinstance(field, str):
        return decimal(field.strip()) is not None
    try:
        float(field)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
