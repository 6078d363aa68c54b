"""read_clicks: click logs from UBI, tables, session lines and feature logs. What is left out is counted."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from hingerank.arrays import Frame
from hingerank.clicks.log import MOST_PLACES, ClickLog
from hingerank.clicks.showings import ClickedPairs, Showings, add_lists, feature_log, session_lines
from hingerank.clicks.ubi import add_ubi, is_ubi
from hingerank.data.blocks import is_missing, number
from hingerank.data.checks import decimal, real, warn
from hingerank.data.files import DataError, PathLike, kind_to_read, no_such_file
from hingerank.data.frames import open_frame
from hingerank.data.streams import first_record

NAMES = {  # what a column holds -> the names it is found by, where none is given
    "query": ("query", "user_query", "query_id", "qid"),
    "document": ("document", "document_id", "docid", "doc_id", "doc", "object_id", "item_id", "item"),
    "place": ("place", "position", "rank", "ordinal"),
    "clicked": ("clicked", "click", "clicks", "action_name"),
    "session": ("session", "session_id", "list_id"),
    "time": ("time", "timestamp"),
    "propensity": ("propensity", "propensity_score"),
    "team": ("team", "search_config"),
    "weight": ("weight", "showings"),
    "context": ("context",),
}
_NEEDED = ("query", "document", "place", "clicked")
_IDS = ("query", "document", "session", "context", "team")
CLICK = {"click": 1.0}
_ROWS = 1 << 20  # of a table, read at a time: the ids of each batch are numbered again


def read_clicks(
    path: PathLike | Sequence[PathLike] | Frame, *, query: str | None = None, document: str | None = None,
    place: str | None = None, clicked: str | None = None, session: str | None = None, time: str | None = None,
    propensity: str | None = None, team: str | None = None, weight: str | None = None, context: str | None = None,
    actions: Mapping[str, float] | None = None, clicks: ClickedPairs | None = None, first_place: int | None = None,
    keep: str = "showings",
) -> ClickLog:  # fmt: skip
    """A click log from a file, several files that belong together, or a data frame.

    The format is recognised: tables by their endings (.csv, .tsv, .parquet, .feather); User Behavior Insights 1.3.0
    (bulk lines, one record per line, or JSON lists; queries and events in one file or two); session lines
    ``query<TAB>doc,doc,… : clicked doc , clicked doc; …``; and the responses with logged features that
    `read_feature_log` reads. Files may be compressed. Lines and rows that cannot be used are left out. The log counts
    each kind of them in ``notes``, which ``describe()`` shows.

    Parameters
    ----------
    path : path, sequence of paths, or data frame of pandas, polars or pyarrow
    query, document, place, clicked : str, optional
        Columns of a table. By default the usual names are tried: query, user_query, query_id, qid; document, docid,
        item_id, …; place, position, rank, ordinal; clicked, click. `clicked` has numbers (0 or 1, or weights), or names
        of actions.
    session, time, propensity, team, weight : str, optional
        Optional columns of a table: the list that a showing belongs to, when it was shown, its logged propensity, the
        ranker that placed the document, and how many showings a row stands for.
    context : str, optional
        What propensities may depend on: a column of a table, or a field of UBI's events or queries, with dots
        ("event_attributes.browser").
    actions : mapping, optional
        The weight of each action, by default ``{"click": 1}``. If there are several actions on one showing, the largest
        weight counts. Actions that are not named are not clicks.
    clicks : file of lines (query, document), or such pairs, optional
        The clicks for feature logs, which have none. The n-th click on a document belongs to the n-th response that
        shows it.
    first_place : {0, 1}, optional
        The number of the first place in a table or in UBI. None detects it: 0 if anything is at place 0 (in UBI,
        separately for each application).
    keep : {"showings", "cells"}
        "cells" counts equal showings while it reads, and drops sessions. Only the counts stay in memory, so the log may
        be larger than memory, but a Feather file is read as a whole first. Click models of whole lists and interleaving
        need "showings".

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"query": ["q", "q"], "document": ["a", "b"], "position": [1, 2], "click": [0, 1]})
    >>> read_clicks(table)
    ClickLog(2 showings of 2 documents for 1 query at 2 places, 1 click)
    """
    weights = _actions(actions)
    showings = Showings(keep, first_place)
    named = {"query": query, "document": document, "place": place, "clicked": clicked, "session": session, "time": time,
             "propensity": propensity, "team": team, "weight": weight, "context": context}  # fmt: skip
    paths = [path] if isinstance(path, str | os.PathLike) else list(path) if isinstance(path, list | tuple) else None
    if paths is None:
        _refuse("clicks", clicks, "is for responses with logged features, and this is a table")
        _add_table(showings, path, named, weights, "the table")
        return showings.log("the table")
    for part in paths:
        if not isinstance(part, str | os.PathLike):
            raise DataError(f"a list holds paths, not a {type(part).__name__}: join several data frames into one")
        if not os.path.exists(part):
            raise DataError(no_such_file(part))
        if os.path.isdir(part):
            raise DataError(f"{part} is a folder: name the files of the log")
    if not paths:
        raise DataError("there is no file to read: the list is empty")
    what = ", ".join(os.fspath(part) for part in paths)
    if all(kind_to_read(part) == "table" for part in paths):
        _refuse("clicks", clicks, f"is for responses with logged features, and {what} is a table")
        for part in paths:
            _add_tables(showings, Path(part), named, weights)
        return showings.log(what)
    for role, name in named.items():
        if name is not None and role != "context":
            raise DataError(f"{role}={name!r} names a column of a table, but {what} is not a table: leave it out")
    showings.first_place = 1  # the places of these kinds are counted here
    first = next((record for part in paths if (record := first_record(part)) is not None), None)
    ubi = first is not None and is_ubi(first)
    if first is None or ubi:
        _refuse("clicks", clicks, f"is for responses with logged features, and {what} has none")
    if not ubi:
        _refuse("context", context, f"is a column of a table or a field of UBI, and {what} has neither")
        _refuse("actions", actions, f"needs names of actions, and {what} has none")
    if first is None:
        add_lists(showings, session_lines(showings, [Path(part) for part in paths]))
    elif ubi:
        add_ubi(showings, [Path(part) for part in paths], weights, context, first_place)
    else:
        add_lists(showings, feature_log(showings, [Path(part) for part in paths], clicks))
    return showings.log(what)


def _refuse(name: str, given: object, why: str) -> None:
    """Raise a DataError about an argument that would do nothing."""
    if given is not None:
        raise DataError(f"{name} {why}: leave it out")


def _actions(actions: Mapping[str, float] | None) -> dict[str, float]:
    weights = dict(CLICK if actions is None else actions)
    for name, value in weights.items():
        if not real(value) >= 0:
            raise DataError(f"action {name!r} has the weight {value!r}, expected a number that is not negative")
    if not any(weights.values()):
        raise DataError("actions has no action with a weight above 0: then nothing is a click")
    return {str(name): float(value) for name, value in weights.items()}


# Tables.


def _add_tables(showings: Showings, path: Path, named: Mapping[str, str | None], actions: Mapping[str, float]) -> None:
    from hingerank.data.tables import read_batches

    def choose(columns: list[str]) -> list[str]:
        return list(dict.fromkeys(_roles(columns, named, os.fspath(path), showings.keep).values()))

    ids = [name for role in _IDS for name in (named[role] or "", *NAMES[role])]
    for batch in read_batches(path, choose, ids, _ROWS):
        _add_table(showings, batch, named, actions, os.fspath(path))


def _roles(columns: Sequence[str], named: Mapping[str, str | None], what: str, keep: str) -> dict[str, str]:
    """What is to be read -> its column."""
    some = ", ".join(map(repr, columns[:12])) + (", …" if len(columns) > 12 else "")
    found: dict[str, str] = {}
    for role, name in named.items():
        if name is not None and name not in columns:
            raise DataError(f"{what}: {role}={name!r} names no column; the table has {some}")
        if keep == "cells" and role in ("session", "time", "team"):
            continue
        chosen = name or next((usual for usual in NAMES[role] if usual in columns), None)
        if chosen is not None:
            found[role] = chosen
        elif role in _NEEDED:
            usual = ", ".join(NAMES[role])
            raise DataError(
                f"{what}: no column is called {usual}: name that of the {role}, as in {role}=NAME; it has {some}"
            )
    return found


def _add_table(
    showings: Showings, frame: Frame, named: Mapping[str, str | None], actions: Mapping[str, float], what: str
) -> None:
    """Add the rows of a table. Those without an id, a place or a click are left out and noted."""
    table = open_frame(frame, "a path, or a pandas, polars or pyarrow table")
    roles = _roles(table.columns, named, what, showings.keep)
    kept = np.ones(len(table), bool)
    columns: dict[str, np.ndarray] = {}
    for role in _IDS:
        if role in roles:
            columns[role] = _codes(showings, role, table[roles[role]])
            if role != "team":
                _leave_out(showings, kept, columns[role] >= 0, f"rows without a {role}: left out")
    place = _numbers(table[roles["place"]])
    good = (place >= 0) & (place <= MOST_PLACES) & (place == np.floor(place))
    _leave_out(showings, kept, good, "rows without a place that is a whole number from 0 or 1: left out")
    if showings.first_place == 1:
        _leave_out(showings, kept, place >= 1, "rows at place 0, before the first: left out")
    columns["clicks"] = _clicks(showings, table[roles["clicked"]], actions)
    good = (columns["clicks"] >= 0) & np.isfinite(columns["clicks"])
    _leave_out(showings, kept, good, "rows without a number of clicks: left out")
    for name, role, wanted in (("propensities", "propensity", "propensity above 0"), ("weights", "weight", "weight")):
        if role in roles:
            columns[name] = values = _numbers(table[roles[role]])
            good = (values > 0 if role == "propensity" else values >= 0) & np.isfinite(values)
            _leave_out(showings, kept, good, f"rows without a {wanted}: left out")
    if "weights" in columns:
        _warn_of_counts(columns["clicks"], columns["weights"], actions, what)
    if "time" in roles:
        columns["times"] = _times(table[roles["time"]])
    columns["place"] = np.where(kept, place, 1).astype(np.int32)
    showings.add(columns if kept.all() else {name: column[kept] for name, column in columns.items()})


def _warn_of_counts(clicks: np.ndarray, weights: np.ndarray, actions: Mapping[str, float], what: str) -> None:
    """Warn if clicks look like counts of the showings that their rows stand for."""
    counts = (clicks > 1) & (clicks <= weights) & ~np.isin(clicks, list(actions.values()))
    if counts.any():
        first = int(np.argmax(counts))
        each, n = clicks[first], weights[first]
        warn(
            f"{what}: a row stands for {n:g} showings with {each:g} clicks each. If {each:g} of the {n:g} were "
            f"clicked, write two rows: {each:g} showings with 1 click, and {n - each:g} with 0"
        )


def _leave_out(showings: Showings, kept: np.ndarray, good: np.ndarray, what: str) -> None:
    """Keep rows that are good. Each other one is counted for the first of its faults."""
    showings.note(what, int((kept & ~good).sum()))
    kept &= good


def _codes(showings: Showings, role: str, column: nw.Series) -> np.ndarray:
    """Numbers of the ids of a column, −1 where it has none."""
    native = column.to_native()
    values: list[Any]
    whole = column.to_numpy() if column.dtype.is_integer() and not column.null_count() else np.zeros(0)
    if len(whole) and int(whole.max()) - int(whole.min()) < 4 * len(whole):  # so close that a table of all is small
        at, first = number(whole)
        values = whole[first].tolist()
    elif column.implementation is nw.Implementation.PYARROW:
        encoded = native.combine_chunks()
        encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
        encoded = encoded if hasattr(encoded, "dictionary") else encoded.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        kinds = set(map(type, values))
        if kinds != {int}:  # all of one kind, as in most columns, is soon done
            values = [value.strip() for value in values] if kinds == {str} else [_plain(value) for value in values]
        at = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    else:
        array = np.empty(len(column), object)
        array[:] = ["" if value is None else value for value in map(_plain, column.to_list())]
        at, first = number(array)
        values = array[first].tolist()
    known = [entry for entry, value in enumerate(values) if value not in (None, "")]
    back = np.full(len(values) + 1, -1, np.int32)  # the last one is what −1 finds
    back[known] = showings.codes(role, [values[entry] for entry in known])
    return back[at]


def _plain(value: object) -> str | int | None:
    """An id as text or a whole number; None where it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return int(number) if number % 1 == 0 and abs(number) < 2**53 else str(number)
    return str(value).strip()


def _numbers(column: nw.Series) -> np.ndarray:
    """A column as float64, NaN where it holds no number."""
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        if column.null_count():
            column = column.cast(nw.Float64)
        return column.to_numpy().astype(np.float64)
    return np.array([_number(value) for value in column.to_list()], np.float64)


def _number(value: object) -> float:
    if isinstance(value, str):
        found = decimal(value.strip())
        return np.nan if found is None else found
    return float(value) if isinstance(value, bool) else real(value)


def _clicks(showings: Showings, column: nw.Series, actions: Mapping[str, float]) -> np.ndarray:
    """Numbers, or the weights of the actions that the column names; NaN for an empty cell."""
    named = not (column.dtype.is_numeric() or column.dtype == nw.Boolean)
    texts = ["" if is_missing(value) else str(value).strip() for value in column.to_list()] if named else []
    some = [text for text in texts if text][:100]
    if all(decimal(text) is not None for text in some):
        if actions != CLICK:
            raise DataError(
                f"actions needs a column with names of actions, and {column.name!r} holds numbers: leave it out"
            )
        return _numbers(column)
    if all(text.lower() in ("true", "false") for text in some):
        return np.array([{"true": 1.0, "false": 0.0}.get(text.lower(), np.nan) for text in texts])
    others: dict[str, int] = {}
    for text in texts:
        if text and text not in actions:
            others[text] = others.get(text, 0) + 1
    for text, count in others.items():
        showings.note_action(text, "rows of action {}: shown, not clicked", count)
    return np.array([actions.get(text, 0.0) if text else np.nan for text in texts])


def _times(column: nw.Series) -> np.ndarray:
    """Dates of NumPy, or numbers; NaT or NaN where there is none."""
    if column.dtype.is_numeric():
        times = _numbers(column)
        return np.where((times >= 0) & np.isfinite(times), times, np.nan)
    from hingerank.clicks.ubi import moment_of

    if column.dtype in (nw.Date, nw.Datetime):
        return np.asarray(column.to_numpy()).astype("datetime64[us]")
    return np.array([moment_of(value)[0] for value in column.to_list()], "datetime64[us]")
