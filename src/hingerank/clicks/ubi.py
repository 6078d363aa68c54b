"""User Behavior Insights 1.3.0: queries and events become showings, and mistakes of real files are counted.

A showing is an "impression" event. If a query has no such events, the hits of its response are its showings. An action
on a document is a click on its showing in the list of the same ``query_id``. An event takes some 70 bytes of memory;
the file is read line by line.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.clicks.counting import group_by
from hingerank.clicks.log import MOST_PLACES
from hingerank.clicks.showings import Showings
from hingerank.data.blocks import spelled
from hingerank.data.checks import decimal
from hingerank.data.streams import BrokenRecord, json_records

IMPRESSION = "impression"
_BULK = ("index", "create", "update", "delete")
_COLUMNS = ("place", "weight", "list", "document", "time", "context", "team", "application", "text")
SHOWN, HIT = -1.0, -2.0  # weights of what is no action
_NONE = "(none)"  # the context of an event that has none


def is_ubi(record: Given) -> bool:
    """Whether this is a record of UBI, or a line about one, rather than a response with logged features."""
    hits = dig(record, "hits", "hits")
    logged = isinstance(hits, list) and any(dig(hit, "fields", "_ltrlog") is not None for hit in hits[:1])
    return not (logged or "response" in record or "responses" in record)


def add_ubi(
    showings: Showings, paths: Sequence[Path], actions: Mapping[str, float], context: str | None,
    first_place: int | None,
) -> None:  # fmt: skip
    """Read queries and events of all files, and add their showings."""
    log = _Events(showings, actions, context)
    for path in paths:
        for record in _records(showings, path):
            log.take(record)
    log.finish(first_place)


def _records(showings: Showings, path: Path) -> Iterator[Facts]:
    """The records of a file, without the lines that say where a bulk request puts them."""
    for _, value in json_records(path):
        if isinstance(value, BrokenRecord):
            showings.note("lines that are not JSON: left out")
        elif not isinstance(value, dict):
            showings.note("records that are not objects: left out")
        elif isinstance(dig(value, "hits", "hits"), list):
            yield from (hit["_source"] for hit in value["hits"]["hits"] if isinstance(dig(hit, "_source"), dict))
        elif isinstance(value.get("_source"), dict):
            yield value["_source"]
        elif not (len(value) == 1 and next(iter(value)) in _BULK):
            yield value


class _Events:
    """Events, and hits of queries, as columns of numbers."""

    def __init__(self, showings: Showings, actions: Mapping[str, float], context: str | None) -> None:
        self.showings, self.actions, self.context = showings, actions, context
        self.lists: dict[str, int] = {}  # query_id -> number
        self.texts: dict[str, int] = {}
        self.applications: dict[str, int] = {}
        self.contexts: dict[str, int] = {_NONE: 0}
        self.text_of: dict[int, int] = {}  # list -> text, by its query
        self.context_of: dict[int, int] = {}  # list -> context, by its query
        self.with_hits: set[int] = set()  # lists
        self.rows = array("d")  # of _COLUMNS

    def take(self, record: Given) -> None:
        if "action_name" in record:
            self._event(record)
        elif "user_query" in record or "query_id" in record:
            self._query(record)
        else:
            self.showings.note("records that are neither queries nor events: left out")

    def _query(self, record: Given) -> None:
        key, text = id_of(record.get("query_id")), _text(record.get("user_query"))
        if key is None or text is None:
            self.showings.note("queries without query_id or user_query: left out")
            return
        number = self._number(self.lists, key)
        hits = record.get("query_response_hit_ids") or record.get("query_response_object_ids")
        found = [id_of(hit) for hit in hits] if isinstance(hits, list) else []
        known = [(place, hit) for place, hit in enumerate(found, 1) if hit is not None]
        self.showings.note("hits of queries without an id: left out", len(found) - len(known))
        if number in self.text_of:
            self.showings.note("queries under a query_id that came before: the first counts, or its first with hits")
            if not known or number in self.with_hits:
                return
        self.text_of[number] = self._number(self.texts, text)
        self.context_of[number] = self._context(record)
        time = self._time(record.get("timestamp"))
        for place, document in known:
            self.with_hits.add(number)
            self._put(place, HIT, number, document, time)

    def _event(self, record: Given) -> None:
        action = record["action_name"]
        if not isinstance(action, str) or (action != IMPRESSION and action not in self.actions):
            self.showings.note_action(str(action), "events of action {}: not counted")
            return
        key = id_of(record.get("query_id"))
        if key is None:
            self.showings.note("events without query_id: left out")
            return
        attributes = record.get("event_attributes")
        document = id_of(dig(attributes, "object", "object_id"))
        if document is None:
            missing = "event_attributes" if not isinstance(attributes, dict) else "an object_id"
            self.showings.note(f"events without {missing}: left out")
            return
        place, written = _ordinal(dig(attributes, "position", "ordinal"))
        if place is None and action == IMPRESSION:
            what = "an ordinal that is a whole number" if written else "an ordinal"
            self.showings.note(f"impressions without {what}: left out")
            return
        text, team = _text(record.get("user_query")), _text(dig(attributes, "object", "search_config"))
        self._put(
            np.nan if place is None else place, SHOWN if action == IMPRESSION else self.actions[action],
            self._number(self.lists, key), document, self._time(record.get("timestamp")), self._context(record),
            -1 if team is None else int(self.showings.codes("team", [team])[0]),
            self._number(self.applications, str(record.get("application", ""))),
            -1 if text is None else self._number(self.texts, text),
        )  # fmt: skip

    def _put(
        self, place: float, weight: float, list_: int, document: str, time: int, context: int = 0, team: int = -1,
        application: int = -1, text: int = -1,
    ) -> None:  # fmt: skip
        code = int(self.showings.codes("document", [document])[0])
        self.rows.extend((place, weight, list_, code, time, context, team, application, text))

    @staticmethod
    def _number(numbers: dict[str, int], value: str) -> int:
        return numbers.setdefault(value, len(numbers))

    def _time(self, value: object) -> int:
        moment, written = moment_of(value)
        self.showings.note(f"times as {written}: read" if moment is not None else f"times {written}: unknown")
        return int(np.datetime64(moment, "us").astype(np.int64)) if moment is not None else np.iinfo(np.int64).min

    def _context(self, record: Given) -> int:
        value = None if self.context is None else dig(record, *self.context.split("."))
        return 0 if value is None else self._number(self.contexts, str(value))

    def finish(self, first_place: int | None) -> None:
        """The showings of all lists, with their clicks."""
        place, weight, *codes = np.array(self.rows).reshape(-1, len(_COLUMNS)).T
        events = dict(zip(_COLUMNS[2:], (column.astype(np.int64) for column in codes)))
        lists, place = events["list"], self._from_one(place, events["application"], first_place)
        text = self._texts(events)
        known = text[lists] >= 0
        impressed, listed = (np.zeros(len(self.lists) + 1, bool) for _ in range(2))
        impressed[lists[known & (weight == SHOWN)]] = True
        hits = (weight == HIT) & ~impressed[lists]
        note = self.showings.note
        silent = sum(not impressed[number] and number not in self.with_hits for number in self.text_of)
        note("queries without impressions whose hits count as shown", len(np.unique(lists[hits])))
        note("queries without impressions and without hits: nothing was shown", silent)
        shown = np.concatenate([np.flatnonzero(known & (weight == SHOWN)), np.flatnonzero(hits)])
        shown = shown[(place[shown] >= 1) & (place[shown] <= MOST_PLACES)]
        listed[lists[shown]] = True
        acted = known & (weight >= 0)
        clicks = np.flatnonzero(acted & listed[lists])  # of other lists every document would be a clicked one
        note("clicks in lists without a showing: left out", int(acted.sum()) - len(clicks))
        both = np.concatenate([shown, clicks])
        if len(both):
            columns = {name: column[both] for name, column in events.items()}
            self._add(columns, place[both], np.maximum(weight[both], 0.0), len(shown), text)

    def _from_one(self, place: np.ndarray, application: np.ndarray, first_place: int | None) -> np.ndarray:
        """Ordinals from 1; an application that has a 0 counts from 0."""
        for name, number in self.applications.items():
            own = application == number
            if first_place == 0 or (first_place is None and (place[own] == 0).any()):
                place = np.where(own, place + 1, place)
                self.showings.note(f"ordinals counted from 0 (application {name[:40]!r}): 1 was added", int(own.sum()))
            elif len(self.applications) > 1:
                self.showings.note(f"ordinals counted from 1 (application {name[:40]!r}): kept", int(own.sum()))
        self.showings.note("ordinals before the first place: left out", int((place < 1).sum()))
        return place

    def _texts(self, events: Mapping[str, np.ndarray]) -> np.ndarray:
        """The text of each list's query: its own, or else that of its first event which has one."""
        text = np.full(len(self.lists) + 1, -1, np.int64)
        own = events["text"] >= 0
        text[events["list"][own][::-1]] = events["text"][own][::-1]
        orphan = np.zeros(len(text), bool)
        orphan[events["list"]] = True
        for number, value in self.text_of.items():
            text[number], orphan[number] = value, False
        note = self.showings.note
        note(
            "query ids of events that no query has: the event's own user_query counts",
            int((orphan & (text >= 0)).sum()),
        )
        note("query ids of events that no query has, and no user_query: left out", int((orphan & (text < 0)).sum()))
        note("events without their query: left out", int((text[events["list"]] < 0).sum()))
        return text

    def _add(
        self, events: Mapping[str, np.ndarray], place: np.ndarray, weight: np.ndarray, s: int, text: np.ndarray
    ) -> None:
        """Add showings, the first s entries, with the clicks on them. A clicked document without one gets one."""
        groups = group_by([events["list"], events["document"]])
        group, n = groups.number, len(groups)
        order = np.where(place >= 1, np.arange(len(group)), len(group))  # one without a place names none
        first = np.full(n, len(group), np.int64)
        np.minimum.at(first, group, order)
        has_showing, clicks = np.zeros(n, bool), np.zeros(n)
        has_showing[group[:s]] = True
        np.maximum.at(clicks, group, weight)
        note = self.showings.note
        note("repeated impressions of a document in a list: the first counts", s - int(has_showing.sum()))
        note(
            "repeated clicks on a document in a list: the largest weight counts",
            len(group) - s - len(np.unique(group[s:])),
        )
        lost = ~has_showing & (first >= len(group))
        note("clicked documents without a showing and without a place: left out", int(lost.sum()))
        note("clicked documents without a showing: counted as shown at their place", int((~has_showing & ~lost).sum()))
        kept = np.flatnonzero(~lost)
        kept = kept[np.argsort(first[kept])]
        entry, team = first[kept], np.full(n, -1)
        with_team = events["team"] >= 0
        team[group[with_team][::-1]] = events["team"][with_team][::-1]
        columns: dict[str, np.ndarray | None] = {
            "query": self.showings.codes("query", _chosen(self.texts, text[events["list"][entry]])),
            "document": events["document"][entry].astype(np.int32),
            "session": self.showings.codes("session", _chosen(self.lists, events["list"][entry])),
            "place": place[entry].astype(np.int32),
            "clicks": clicks[kept],
            "times": events["time"][entry].astype("datetime64[us]"),
            "team": team[kept].astype(np.int32) if with_team.any() else None,
        }  # fmt: skip
        if self.context is not None:
            of_query = np.array([self.context_of.get(number, 0) for number in range(len(self.lists))])
            context = np.where(events["context"] > 0, events["context"], of_query[events["list"]])[entry]
            columns["context"] = self.showings.codes("context", _chosen(self.contexts, context))
        self.showings.add(columns)


def _chosen(numbers: Mapping[str, int], codes: np.ndarray) -> list[str]:
    names = list(numbers)
    return [names[code] for code in codes.tolist()]


# Values of records, which may be anything.


def dig(value: object, *keys: str) -> Any:
    """The value under these keys; None if a key is missing or its parent is not an object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def id_of(value: object) -> str | None:
    """Text, or a number as text; None for anything else and for empty text."""
    if isinstance(value, str):
        return value.strip() or None
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return None
    return spelled(value)


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _ordinal(value: object) -> tuple[float | None, bool]:
    """A whole number from 0 up, or None; and whether anything is written there."""
    number = decimal(value) if isinstance(value, str) else value
    good = isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= MOST_PLACES
    return (float(number) if good and number % 1 == 0 else None), value is not None  # type: ignore[operator, arg-type]


_UNITS = ((1e17, 1e9, "nanoseconds"), (1e14, 1e6, "microseconds"), (1e11, 1e3, "milliseconds"), (-1e9, 1.0, "seconds"))


def moment_of(value: object) -> tuple[datetime | None, str]:
    """A time in UTC without a zone, and how it is written; None where it cannot be read.

    >>> moment_of("2025-01-22T14:57:25.099+0000")[0] == moment_of(1737557845099)[0]
    True
    """
    number = decimal(value) if isinstance(value, str) else value
    try:
        if isinstance(number, int | float) and not isinstance(number, bool):
            per_second, name = next((unit[1:] for unit in _UNITS if number >= unit[0]), (0, ""))
            if not per_second:
                return None, "that are no times"
            return datetime.fromtimestamp(number / per_second, UTC).replace(tzinfo=None), f"{name} since 1970"
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            if moment.tzinfo is None:
                return moment, "ISO 8601 with no zone"
            zone = "Z" if value.strip().endswith(("Z", "z")) else "an offset"
            return moment.astimezone(UTC).replace(tzinfo=None), f"ISO 8601 with {zone}"
        if isinstance(value, date):  # or a datetime, which is one
            return moment_of(value.isoformat())[0], "dates"
    except (ValueError, OverflowError, OSError):
        return None, "that are no times"
    return None, "that are missing"
