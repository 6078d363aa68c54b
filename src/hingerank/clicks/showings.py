"""Showings as they are read, batch by batch: kept one by one, or counted at once in the memory of the cells."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from hingerank.clicks.counting import Counted, codes_of, count_rows, group_by, merge_rows
from hingerank.clicks.log import ClickLog, Coded
from hingerank.data.blocks import number_values
from hingerank.data.files import DataError

KEEP = ("showings", "cells")
_IDS = ("query", "document", "session", "team", "context")
_COUNTED_BY = ("query", "document", "place", "clicks", "context", "propensities")
_NUMBERED = ("clicks", "propensities")


class Showings:
    """Columns of showings that grow; ids have one numbering over all batches.

    Parameters
    ----------
    keep : {"showings", "cells"}
        "cells" counts equal showings (query, document, place, clicks, context, propensity) and forgets sessions, times
        and teams.
    first_place : {0, 1}, optional
        What the first place is called; None finds out: 0 where anything stands at place 0.
    """

    def __init__(self, keep: str = "showings", first_place: int | None = None) -> None:
        if keep not in KEEP:
            raise DataError(f"keep is {keep!r}, expected 'showings' or 'cells'")
        if first_place not in (None, 0, 1):
            raise DataError(f"first_place is {first_place!r}, expected 0, 1, or None to look for a place 0")
        self.keep, self.first_place = keep, first_place
        self.notes: dict[str, int] = {}
        self._numbers: dict[str, dict[Hashable, int]] = {name: {} for name in (*_IDS, *_NUMBERED)}
        self._batches: list[dict[str, np.ndarray]] = []
        self._cells: Counted | None = None
        self._counted_by: list[str] = []

    def note(self, what: str, count: int = 1) -> None:
        """Add to the count of something that was found."""
        if count:
            self.notes[what] = self.notes.get(what, 0) + int(count)

    def codes(self, column: str, values: Sequence[Hashable]) -> np.ndarray:
        """The numbers of some ids."""
        return number_values(values, self._numbers[column])

    def add(self, batch: Mapping[str, np.ndarray | None]) -> None:
        """Showings by column: codes of ids, places, clicks; the same columns in every batch."""
        columns = {name: column for name, column in batch.items() if column is not None}
        n = len(columns["place"])
        if not n:
            return
        if self.keep == "showings":
            self._batches.append(columns)
            return
        names = [name for name in _COUNTED_BY if name in columns]
        counted = count_rows([self._coded(name, columns[name]) for name in names], columns.get("weights"))
        self._cells = counted if self._cells is None else merge_rows(self._cells, counted)
        self._counted_by = names

    def _coded(self, name: str, column: np.ndarray) -> np.ndarray:
        """Whole numbers for a column: places and ids are, other numbers are numbered."""
        if name not in _NUMBERED:
            return column
        distinct, codes = codes_of(column)
        return self.codes(name, distinct.tolist())[codes]

    def _counts(self, distinct: list[np.ndarray], weights: np.ndarray) -> dict[str, np.ndarray]:
        columns = dict(zip(self._counted_by, distinct))
        for name in _NUMBERED:
            if name in columns:
                columns[name] = np.array(list(self._numbers[name]))[columns[name]]
        return columns | {"weights": weights}

    def _joined(self) -> dict[str, np.ndarray]:
        names = self._batches[0]
        if len(self._batches) == 1:
            return self._batches[0]
        return {name: np.concatenate([batch[name] for batch in self._batches]) for name in names}

    def log(self, what: str) -> ClickLog:
        """All showings as a log; `what` they were read from is for errors."""
        if not self._batches and self._cells is None:
            found = "; ".join(f"{count:,} {text}" for text, count in self.notes.items())
            raise DataError(f"{what}: there is no showing that counts" + (f" (found: {found})" if found else ""))
        columns = self._joined() if self._cells is None else self._counts(*self._cells)
        self._batches, self._cells = [], None
        columns["place"] = self._from_one(columns)
        if self.keep == "showings" and "weights" not in columns:
            columns = self._merged(columns)

        ids = {name: Coded(columns[name], self._names(name)) for name in _IDS if name in columns}
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

    def _names(self, column: str) -> np.ndarray:
        names = list(self._numbers[column])
        if all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in names):
            return np.array(names, np.int64)
        found = np.empty(len(names), object)
        found[:] = names
        return found

    def _merged(self, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Entries for a document of a list at one place as one showing, clicked if one of them is."""
        if "session" not in columns:
            return columns
        by = [columns[name] for name in ("session", "query", "document", "place")]
        distinct, group = group_by(by)
        n, kept = len(group), len(distinct[0])
        if kept == n:
            return columns
        self.note("repeated showings of a document at its place in a list: one is counted", n - kept)
        first = np.full(kept, n, np.int64)
        np.minimum.at(first, group, np.arange(n))
        order = np.argsort(first)  # as they came
        clicks = np.zeros(kept)
        np.maximum.at(clicks, group, columns["clicks"])
        return {name: column[first[order]] for name, column in columns.items()} | {"clicks": clicks[order]}
