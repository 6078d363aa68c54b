"""ClickLog: what was shown where and clicked; its counts by cell; the join with the features of the documents."""

from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hingerank.arrays import ArrayLike, PerRow
from hingerank.clicks.counting import Cells, Groups, codes_of, group_by
from hingerank.data.blocks import as_text, check_ids, number, places_of, real_numbers
from hingerank.data.checks import fraction, generator, warn
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.corrections import ClickData, count_of
from hingerank.rankers.sources import RowsInParts

if TYPE_CHECKING:
    from hingerank.clicks.describe import LogDescription

MOST_PLACES = 1 << 20


class Coded(NamedTuple):
    """Ids as numbers: the code of each entry, and the names that codes stand for."""

    codes: np.ndarray
    names: np.ndarray


class ClickLog:
    """What was shown, at which place, and whether it was clicked: one entry per showing.

    Parameters
    ----------
    queries, documents : arrays of ids
        The query and the document of each showing, of any type.
    places : array of whole numbers
        The position of the document in its list, from 1.
    clicks : array of numbers
        0 or 1, or the weight of what the user did, not negative.
    sessions : array of ids, optional
        The list that a showing belongs to: one id for each list of results. Click models of whole lists, bootstrap
        intervals over lists and interleaving need it.
    propensities : array of numbers, optional
        The logged probability that a showing was examined (or that the document was put there), above 0.
    weights : array of numbers, optional
        How many equal showings an entry stands for; by default 1.
    times : array, optional
        When it was shown: numbers, or dates of NumPy; NaN or NaT if unknown.
    teams : array of ids, optional
        The ranker that placed the document, in interleaved lists; "" or None for documents of neither team.
    contexts : array of ids, optional
        What propensities may depend on: the device, the length of the query, …
    notes : mapping, optional
        What the reader repaired or left out: text -> count.

    Attributes
    ----------
    query, document, place, clicks : arrays, one entry per showing
        Codes into `query_names` and `document_names`, places from 1, clicks.
    session, team, context : int arrays or None
        Codes into `session_names`, `team_names` and `context_names`; team −1 is none.

    Examples
    --------
    >>> log = ClickLog(queries=["q", "q", "q"], documents=["a", "b", "a"], places=[1, 2, 2], clicks=[1, 0, 1])
    >>> log
    ClickLog(3 showings of 2 documents for 1 query at 2 places, 2 clicks)
    >>> cells = log.cells()
    >>> cells.place.tolist(), cells.showings.tolist(), cells.clicks.tolist()
    ([1, 2, 2], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    """

    def __init__(
        self, *, queries: ArrayLike | Coded, documents: ArrayLike | Coded, places: ArrayLike, clicks: ArrayLike,
        sessions: ArrayLike | Coded | None = None, propensities: PerRow = None, weights: PerRow = None,
        times: PerRow = None, teams: ArrayLike | Coded | None = None, contexts: ArrayLike | Coded | None = None,
        notes: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        n = len(np.atleast_1d(np.asarray(places)))
        self.query, self.query_names = coded(queries, n, "queries")
        self.document, self.document_names = coded(documents, n, "documents")
        none: tuple[np.ndarray | None, np.ndarray | None] = None, None
        self.session, self.session_names = none if sessions is None else coded(sessions, n, "sessions")
        self.team, self.team_names = none if teams is None else _teams(teams, n)
        self.context, self.context_names = none if contexts is None else coded(contexts, n, "contexts")
        self.place = _places(places)
        self.clicks = per_showing(clicks, n, "clicks", "0 or 1, or the weight of an action, not negative")
        self.weights = None if weights is None else per_showing(weights, n, "weights", "numbers that are not negative")
        above = "numbers above 0: what cannot be examined cannot have been logged"
        self.propensities = None if propensities is None else per_showing(propensities, n, "propensities", above, False)
        self.times = None if times is None else _times(times, n)
        self.notes: dict[str, int] = dict(notes or {})

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        lists = "" if self.session is None else f" in {count_of(_distinct(self.session), 'list')}"
        showings, clicks = count_of(self.n_showings, "showing"), count_of(float(self._clicked.sum()), "click")
        documents, queries = count_of(_distinct(self.document), "document"), count_of(_distinct(self.query), "query")
        places = count_of(self.n_places, "place")
        return f"ClickLog({showings}{lists} of {documents} for {queries} at {places}, {clicks})"

    @property
    def _clicked(self) -> np.ndarray:
        return self.clicks if self.weights is None else self.clicks * self.weights

    @property
    def n_showings(self) -> float:
        """The number of showings; an entry with a weight is that many."""
        return float(len(self) if self.weights is None else self.weights.sum())

    @cached_property
    def n_places(self) -> int:
        """The last place at which anything was shown."""
        return int(self.place.max(initial=0))

    def cells(self, contexts: bool = True) -> Cells:
        """The numbers of showings and clicks for each query, document, place, context and propensity.

        Parameters
        ----------
        contexts : bool
            False counts showings of all contexts together.
        """
        by = [self.query, self.document, self.place]
        context = self.context if contexts else None
        if context is not None:
            by.append(context)
        if self.propensities is not None:
            values, codes = codes_of(self.propensities)
            by.append(codes)
        groups = group_by(by)
        columns = groups.columns
        return Cells(
            columns[0], columns[1], columns[2], groups.sums(self.weights), groups.sums(self._clicked),
            None if context is None else columns[3],
            None if self.propensities is None else values[columns[-1]],
        )  # fmt: skip

    def named(self, query: np.ndarray, document: np.ndarray) -> "Documents":
        """Documents of queries, by codes of this log."""
        return Documents(Coded(query, self.query_names), Coded(document, self.document_names))

    def lists_by_query(self) -> np.ndarray:
        """How often a list was shown for each query: its sessions, or more if it was shown more often at a place."""
        groups = group_by([self.query, self.place])
        lists = np.zeros(len(self.query_names))
        np.maximum.at(lists, groups.columns[0], groups.sums(self.weights))
        if self.session is not None:  # not all lists have the same places
            in_sessions, weight = self.by_list()
            lists = np.maximum(lists, np.bincount(in_sessions.columns[1], weight, len(lists)))
        return lists

    def by_list(self) -> tuple[Groups, np.ndarray]:
        """The showings of each list, by session and query, and how often the list was shown."""
        lists = group_by([self._sessions().codes, self.query])
        return lists, np.ones(len(lists)) if self.weights is None else self.weights[lists.first]

    def _sessions(self) -> Coded:
        """The sessions; an error where the log has none."""
        if self.session is None or self.session_names is None:
            problem = "the log has no sessions: models, tests and splits need to know which showings were in one list"
            raise DataError(problem, "give sessions=, or read the log with keep='showings'", "sessions")
        return Coded(self.session, self.session_names)

    def take(self, entries: np.ndarray) -> "ClickLog":
        """The showings at these positions, or where a boolean mask is true; names and codes stay as they are."""
        part = copy(self)
        part.__dict__.pop("n_places", None)
        for name in ("query", "document", "place", "clicks", *_OPTIONAL):
            column = getattr(self, name)
            setattr(part, name, None if column is None else column[entries])
        return part

    def without(self, sessions: Iterable[Hashable]) -> "ClickLog":
        """The log without some sessions: a list of their ids, in which numbers match their spelling."""
        session, names = self._sessions()
        unwanted = set(as_text(np.asarray([sessions] if isinstance(sessions, str) else list(sessions))))
        gone = np.array([name in unwanted for name in as_text(names)], bool)
        return self.take(~gone[session])

    def split(self, test_size: float = 0.25, seed: int = 0) -> tuple["ClickLog", "ClickLog"]:
        """(train, test): a random fraction `test_size` of the sessions goes to test."""
        session, names = self._sessions()
        there = np.bincount(session, minlength=len(names)) > 0  # `take` keeps names that are gone
        n = int(there.sum())
        count = round(fraction("test_size", test_size) * n)
        if not 0 < count < n:
            raise DataError(f"test_size {test_size} of {n} sessions leaves one side without a session")
        test = np.zeros(len(names), bool)
        order = generator(seed, "seed").permutation(len(test))
        test[order[there[order]][:count]] = True
        return self.take(~test[session]), self.take(test[session])

    def describe(self) -> "LogDescription":
        """What to know about a log before it is used: clicks by place, which places can be compared, bots, and more.

        Each finding has a count and says what was done. This method leaves nothing out; `notes` say what the reader
        left out.

        Examples
        --------
        >>> log = ClickLog(queries=["q"] * 3, documents=["a", "b", "a"], places=[1, 2, 2], clicks=[1, 0, 1])
        >>> log.describe().findings[0]
        Finding(question='documents shown at several places for a query', count=1, done='they show how places differ')
        """
        from hingerank.clicks.describe import describe

        return describe(self)

    def join(self, data: RankingData | RowsInParts) -> "ClickData":
        """The showings and clicks of each row of `data`, which has the features, at each place.

        Showings of documents without a row are left out and counted in `dropped`, and a warning says so.

        Parameters
        ----------
        data : RankingData with document ids, or rows in parts that have them
            Its query and document ids are compared with those of the log; numbers match their spelling.

        Examples
        --------
        >>> data = RankingData.from_arrays([[1.0], [2.0]], [0, 0], ["q", "q"], docid=["a", "b"])
        >>> log = ClickLog(queries=["q"] * 3, documents=["a", "b", "a"], places=[1, 2, 1], clicks=[1, 0, 0])
        >>> joined = log.join(data)
        >>> joined.row.tolist(), joined.place.tolist(), joined.showings.tolist(), joined.clicks.tolist()
        ([0, 1], [1, 2], [2.0, 1.0], [1.0, 0.0])
        """
        if isinstance(data, RowsInParts):
            return replace(self.join(data.without_features()), parts=data)
        cells = self.cells()
        shown = self.named(cells.query, cells.document)
        row = find_documents(shown, documents_of(data), "no document of the log has a row")
        found, blocks = row >= 0, data.blocks
        row = row[found]
        query = places_of(as_text(self.query_names).tolist(), as_text(blocks.ids).tolist())  # its number in the data
        lists = np.zeros(len(blocks))
        np.add.at(lists, query[query >= 0], self.lists_by_query()[query >= 0])
        dropped = {
            "showings of documents without a row": round(float(cells.showings[~found].sum())),
            "clicks on documents without a row": round(float(cells.clicks[~found].sum())),
            "queries of the log without a row": _distinct(self.query[query[self.query] < 0]),
            "queries of the rows that were never shown": int((lists == 0).sum()),
            "rows that were never shown": data.n_rows - len(np.unique(row)),
        }
        if not found.all():
            showings, clicks = list(dropped.values())[:2]
            warn(
                f"{showings:,} of {self.n_showings:,.0f} showings and {clicks:,} clicks are left out: their documents "
                f"have no row ({_such_as(shown, int(np.argmin(found)))})"
            )
        return ClickData(
            data, row, cells.place[found], cells.showings[found], cells.clicks[found],
            None if cells.propensity is None else cells.propensity[found],
            None if cells.context is None else cells.context[found],
            lists, self.context_names, dropped, {**self.notes, **dropped},
        )  # fmt: skip


def check_log(log: object) -> None:
    """Raise a ValueError if this is not a click log."""
    if not isinstance(log, ClickLog):
        raise ValueError(f"expected a log of clicks (hingerank.read_clicks), got {type(log).__name__}")


_OPTIONAL = ("session", "team", "context", "weights", "propensities", "times")


# Columns.


class Documents(NamedTuple):
    """Documents of queries."""

    query: Coded
    document: Coded


def documents_of(data: RankingData, what: str = "the rows") -> Documents:
    """The document of each row."""
    if not isinstance(data, RankingData):
        raise DataError(f"{what} must be RankingData, as hingerank.read makes them, not {type(data).__name__}")
    if data.docid is None:
        raise DataError(f"{what} have no document ids to find the log's documents by", "read them with docid=", "docid")
    blocks, (document, first) = data.blocks, number(data.docid)
    return Documents(Coded(blocks.scatter(blocks.numbers), blocks.ids), Coded(document, data.docid[first]))


def _such_as(documents: Documents, entry: int) -> str:
    query, document = (ids.names.tolist()[ids.codes[entry]] for ids in documents)
    return f"such as query {query!r}, document {document!r}"


def find_documents(wanted: Documents, among: Documents, none: str) -> np.ndarray:
    """The row of each wanted document of a query, −1 where it has none. Ids are compared as text. O(n log n).

    An error that begins with `none` if no document has a row, and another one if a document has several.

    >>> wanted, among = (Documents(coded(["q"] * 2, 2, ""), coded(ids, 2, "")) for ids in (["7", "8"], [9, 7]))
    >>> find_documents(wanted, among, "no document has a row").tolist()
    [1, -1]
    """
    key, row_key = np.zeros(len(wanted.query.codes), np.int64), np.zeros(len(among.query.codes), np.int64)
    known = np.ones(len(key), bool)
    for own, rows in zip(wanted, among):
        texts = as_text(rows.names).tolist()
        codes = places_of(as_text(own.names).tolist(), texts)[own.codes]
        known &= codes >= 0
        key, row_key = key * len(texts) + codes, row_key * len(texts) + places_of(texts, texts)[rows.codes]
    order = np.argsort(row_key, kind="stable")
    at, end = (np.searchsorted(row_key[order], key, side) for side in ("left", "right"))
    known &= end > at
    twin = known & (end > at + 1)
    if twin.any():
        some = _such_as(among, order[at[np.argmax(twin)]])
        raise DataError(f"documents have several rows in a query ({some}): leave one row of each document")
    if len(known) and not known.any():
        raise DataError(f"{none} ({_such_as(wanted, 0)}): are query and document ids the same in both?")
    found = np.full(len(key), -1)
    found[known] = order[at[known]]
    return found


def coded(ids: ArrayLike | Coded, n: int, name: str) -> Coded:
    """Numbers of the ids by first appearance (int32), and the distinct ids; what is `Coded` stays."""
    if isinstance(ids, Coded):
        return ids
    array = check_ids(ids, n, name)
    codes, first = number(array)
    return Coded(codes, array[first])


def _teams(teams: ArrayLike | Coded, n: int) -> Coded:
    if isinstance(teams, Coded):
        return teams
    names = ["" if value is None or value != value else str(value) for value in np.asarray(teams, object).tolist()]
    codes, found = coded(np.array(names, object), n, "teams")
    kept = np.flatnonzero(found != "")
    back = np.full(len(found), -1, np.int32)
    back[kept] = np.arange(len(kept))
    return Coded(back[codes], found[kept])


def _places(places: ArrayLike) -> np.ndarray:
    values = real_numbers(places, "places").ravel()
    wrong = ~((values >= 1) & (values <= MOST_PLACES) & (values % 1 == 0))
    if wrong.any():
        entry = int(np.argmax(wrong))
        rule = "from 1: add 1 if they count from 0" if values[entry] == 0 else f"from 1 to {MOST_PLACES}"
        raise DataError(f"place {values[entry]:g} at showing {entry}, expected whole numbers {rule}")
    return values.astype(np.int32)


def per_showing(values: ArrayLike, n: int, name: str, expected: str, zero: bool = True) -> np.ndarray:
    """A number for each of n showings, finite and above 0, or 0 where it may be; a DataError names the first other."""
    numbers = real_numbers(values, name)
    if numbers.shape != (n,):
        raise DataError(f"{name} has shape {numbers.shape}, expected a number for each of the {n} showings")
    wrong = ~(((numbers > 0) | (zero & (numbers == 0))) & np.isfinite(numbers))
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise DataError(f"{name} holds {numbers[entry]:g} at showing {entry}, expected {expected}")
    return numbers


def _times(times: ArrayLike, n: int) -> np.ndarray:
    values = np.asarray(times)
    if values.dtype.kind != "M":
        numbers = real_numbers(times, "times")
        per_showing(np.where(np.isnan(numbers), 0.0, numbers), n, "times", "numbers from 0 up, or dates of NumPy")
        return numbers
    if values.shape != (n,):
        raise DataError(f"times has shape {values.shape}, expected a time for each of the {n} showings")
    return values


def _distinct(codes: np.ndarray) -> int:
    return int((np.bincount(codes) > 0).sum())
