"""Showings as they are read, batch by batch, and kept or counted; those of session lines and feature logs."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hingerank.clicks.counting import codes_of, count_rows, group_by
from hingerank.clicks.log import ClickLog, Coded
from hingerank.data.blocks import number_values
from hingerank.data.checks import one_of, warn
from hingerank.data.feature_logs import clicked_pairs, logged_lists
from hingerank.data.files import DataError, PathLike
from hingerank.data.streams import stream_lines

_IDS = ("query", "document", "session", "team", "context")
_COUNTED_BY = ("query", "document", "place", "clicks", "context", "propensities")
_NUMBERED = {"clicks", "propensities"}


class Showings:
    """Columns of showings that grow; ids have one numbering over all batches.

    Parameters
    ----------
    keep : {"showings", "cells"}
        "cells" counts equal showings (query, document, place, clicks, context, propensity) and drops sessions, times
        and teams.
    first_place : {0, 1}, optional
        The number of the first place. None detects it: 0 if anything is at place 0.
    """

    def __init__(self, keep: str, first_place: int | None) -> None:
        if first_place not in (None, 0, 1):
            raise DataError(f"first_place is {first_place!r}, expected 0, 1, or None to look for a place 0")
        self.keep, self.first_place = one_of("keep", keep, "showings", "cells"), first_place
        self.notes: dict[str, int] = {}
        self._others: dict[str, int] = {}  # actions that are not clicks
        self._numbers: dict[str, dict[Hashable, int]] = {name: {} for name in (*_IDS, *_NUMBERED)}
        self._batches: list[dict[str, np.ndarray]] = []  # one of them where equal showings are counted

    def note(self, what: str, count: int = 1) -> None:
        """Add to the count of something that was found."""
        if count:
            self.notes[what] = self.notes.get(what, 0) + int(count)

    def note_action(self, name: str, what: str, count: int = 1) -> None:
        """Add to the count of an action that is no click."""
        self._others[name] = self._others.get(name, 0) + count
        self.note(what.format(repr(name[:40])), count)

    def codes(self, column: str, values: Sequence[Hashable]) -> np.ndarray:
        """The numbers of some ids."""
        return number_values(values, self._numbers[column])

    def add(self, batch: Mapping[str, np.ndarray | None]) -> None:
        """Showings by column: codes of ids, places, clicks; the same columns in every batch."""
        columns = {name: column for name, column in batch.items() if column is not None}
        if not len(columns["place"]):
            return
        if self.keep == "cells":
            for name in _NUMBERED & columns.keys():  # places and ids are whole numbers, these are numbered
                distinct, codes = codes_of(columns[name])
                columns[name] = self.codes(name, distinct.tolist())[codes]
            columns = _counted(columns)
        known = self._batches[0] if self._batches else columns
        for name in sorted(columns.keys() ^ known.keys()):
            raise DataError(
                f"only some files of the log have a column of {name}: add it to the others, or leave it out"
            )
        if "times" in columns and columns["times"].dtype != known["times"].dtype:
            raise DataError("some files of the log have times as numbers, others as dates: write them alike")
        if self.keep == "cells" and self._batches:
            columns = _counted({name: np.concatenate([known[name], columns[name]]) for name in columns})
            self._batches.clear()
        self._batches.append(columns)

    def log(self, what: str) -> ClickLog:
        """All showings as a log. `what` they were read from is for errors."""
        if not self._batches:
            found = "; ".join(f"{count:,} {text}" for text, count in self.notes.items())
            raise DataError(f"{what}: there is no showing that counts" + (f" (found: {found})" if found else ""))
        columns = self._batches[0]
        if len(self._batches) > 1:
            columns = {name: np.concatenate([batch[name] for batch in self._batches]) for name in columns}
        self._batches = []
        if self.keep == "cells":
            columns |= {name: np.array(list(self._numbers[name]))[columns[name]] for name in _NUMBERED & columns.keys()}
        if self._others and not columns["clicks"].any():
            often = sorted(self._others, key=lambda name: -self._others[name])[:5]
            names = ", ".join(repr(name[:40]) for name in often)
            warn(f"{what}: no action is a click; the actions are {names}: name what counts, as in actions={{'buy': 1}}")
        if columns["clicks"].all() and len(columns["clicks"]) > 1:
            warn(f"{what}: every showing was clicked, so nothing can be learnt: add what was shown and not clicked")
        ids = {name: self._coded(name, columns[name]) for name in _IDS if name in columns}
        columns |= {name: found.codes for name, found in ids.items()}
        columns["place"] = self._from_one(columns)
        if self.keep == "showings" and "weights" not in columns and "session" in columns:
            columns = self._merged(columns)
        ids = {name: found._replace(codes=columns[name]) for name, found in ids.items()}
        return ClickLog(
            queries=ids["query"], documents=ids["document"], places=columns["place"], clicks=columns["clicks"],
            sessions=ids.get("session"), teams=ids.get("team"), contexts=ids.get("context"),
            weights=columns.get("weights"), propensities=columns.get("propensities"), times=columns.get("times"),
            notes=self.notes,
        )  # fmt: skip

    def _from_one(self, columns: dict[str, np.ndarray]) -> np.ndarray:
        """Places from 1."""
        place, weights = columns["place"], columns.get("weights", np.ones(len(columns["place"])))
        zero = self.first_place == 0 or (self.first_place is None and place.min() == 0)
        if not zero:
            return place
        self.note("showings at places that are counted from 0: 1 was added", round(weights.sum()))
        if "session" in columns:
            least = np.full(len(self._numbers["session"]), np.iinfo(np.int64).max)
            np.minimum.at(least, columns["session"], place)
            later = int((least[np.unique(columns["session"])] == 1).sum())
            what = "lists that begin at place 1 in a log with a place 0: they now begin at 2 (or give first_place=1)"
            self.note(what, later)
        return place + 1

    def _coded(self, column: str, codes: np.ndarray) -> Coded:
        """Codes and names. Where some files have numbers and others text, numbers are text: 7 is "7"."""
        names = list(self._numbers[column])
        if all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in names):
            return Coded(codes, np.array(names, np.int64))
        if not all(isinstance(name, str) for name in names):
            texts: dict[Hashable, int] = {}
            codes = np.append(number_values([str(name) for name in names], texts), np.int32(-1))[codes]  # -1 stays
            names = list(texts)
        return Coded(codes, np.array(names, object))

    def _merged(self, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Join the entries of a document at one place of a list into one showing, clicked if one of them is."""
        groups = group_by([columns[name] for name in ("session", "query", "document", "place")])
        repeated = len(groups.number) - len(groups)
        if not repeated:
            return columns
        self.note("repeated showings of a document at its place in a list: one is counted", repeated)
        order = np.argsort(groups.first)  # as they came
        clicks = np.zeros(len(groups))
        np.maximum.at(clicks, groups.number, columns["clicks"])
        return {name: column[groups.first[order]] for name, column in columns.items()} | {"clicks": clicks[order]}


def _counted(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Equal rows of columns of whole numbers once, with their weight."""
    used = [name for name in _COUNTED_BY if name in columns]
    rows, weights = count_rows([columns[name] for name in used], columns.get("weights"))
    return dict(zip(used, rows)) | {"weights": weights}


ClickedPairs: TypeAlias = PathLike | Iterable[tuple[Hashable, Hashable]]  # a file of (query, document), or such pairs
ShownList: TypeAlias = tuple[str, list[str], list[str]]  # query, documents, clicked ones
_AT_A_TIME = 1 << 14  # lists


def add_lists(showings: Showings, lists: Iterator[ShownList]) -> None:
    """Lists in the order in which they were shown; each is a session."""
    note, codes, count = showings.note, showings.codes, 0
    while batch := list(islice(lists, _AT_A_TIME)):
        clicks: list[bool] = []
        for _, documents, clicked in batch:
            distinct = set(clicked)
            note("repeated clicks on a document in a list: one is counted", len(clicked) - len(distinct))
            note("clicks on documents that their list does not show: left out", len(distinct - set(documents)))
            clicks += [document in distinct for document in documents]
        sizes = np.array([len(documents) for _, documents, _ in batch], np.int64)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        columns: dict[str, np.ndarray | None] = {
            "query": np.repeat(codes("query", [query for query, _, _ in batch]), sizes),
            "document": codes("document", [document for _, documents, _ in batch for document in documents]),
            "place": (within + 1).astype(np.int32),
            "clicks": np.array(clicks, np.float64),
        }
        if showings.keep == "showings":
            columns["session"] = np.repeat(codes("session", range(count, count + len(batch))), sizes)
        showings.add(columns)
        count += len(batch)


def session_lines(showings: Showings, paths: Sequence[Path]) -> Iterator[ShownList]:
    """Lists ``query<TAB>doc,doc,… : clicked , clicked``, separated by semicolons or ends of line."""
    for path in paths:
        for number, text in _entries(path):
            query, tab, rest = text.partition("\t")
            shown, colon, clicked = rest.partition(" :" if " :" in rest else ":")  # ids such as product:7 have a colon
            documents = [word.strip() for word in shown.split(",")]
            clicks = [word.strip() for word in clicked.split(",") if word.strip()]
            whole = tab and colon and query.strip() and all(documents)
            if whole and not any(" " in word for word in (*documents, *clicks)):
                yield query.strip(), documents, clicks
            elif number == 1:
                raise DataError(
                    f"{path}, line 1: found {text.strip()[:60]!r}, expected session lines (query<TAB>document,… : "
                    "clicked document,…;), UBI, or a table that its ending names (.csv, .parquet, …)"
                )
            else:
                showings.note("lines that are no lists: left out")


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every list of a file; bytes that are not UTF-8 make a list that does not count."""
    parts = (part for _, line in stream_lines(path) for part in line.split(b";") if part.strip())
    for count, part in enumerate(parts, 1):
        try:
            text = part.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        yield count, "\0" if "\0" in text else text


def feature_log(showings: Showings, paths: Sequence[Path], clicks: ClickedPairs | None) -> Iterator[ShownList]:
    """Documents of each response at their places, and the n-th click on one in the n-th response that shows it."""
    if clicks is None:
        raise DataError(
            f"{paths[0]} has responses with logged features, which say what was shown: give clicks=FILE too"
        )
    left = clicked_pairs(clicks)
    for query, documents in (response for path in paths for response in logged_lists(path)):
        found = [document for document in dict.fromkeys(documents) if left.get((query, document), 0) > 0]
        for document in found:
            left[query, document] -= 1
        yield query, documents, found
    showings.note("clicks without a response that shows the document: left out", round(sum(left.values())))
