"""What a careful analyst would ask of a click log: each question with a count and what was done about it."""

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hingerank.arrays import Facts
from hingerank.clicks.counting import Cells, Groups, group_by
from hingerank.clicks.estimation import SharedCells
from hingerank.notebook import html_table

if TYPE_CHECKING:
    from rich.table import Table

LEAST_SHOWN = 3  # a list of fewer may well be clicked from end to end
RATES = ["place", "showings", "clicks", "click rate"]
NO_LISTS = "not counted: the log has no sessions"
NO_TIMES = "not counted: the log has no times"


class DescribedLog(Protocol):
    """What is asked of a log, as `ClickLog` has it."""

    query: np.ndarray
    document: np.ndarray
    place: np.ndarray
    clicks: np.ndarray
    session: np.ndarray | None
    session_names: np.ndarray | None
    times: np.ndarray | None
    notes: dict[str, int]

    def __len__(self) -> int: ...

    def cells(self, contexts: bool = True) -> Cells: ...

    def by_list(self) -> tuple[Groups, np.ndarray]: ...


@dataclass(frozen=True)
class Finding:
    """What was looked for, how often it was found (None if it cannot be counted), and what was done or can be done."""

    question: str
    count: int | None
    done: str


@dataclass(frozen=True)
class LogDescription:
    """Counts of a log, its clicks by place, and what was found.

    Parameters
    ----------
    showings, clicks : float
    lists, queries, documents : int
        `lists` is None where the log has no sessions.
    places : dict
        Columns "place", "showings", "clicks" and "rate", an entry a place.
    findings : list of Finding
    notes : dict
        What the reader noted: text -> count.
    suspects : list
        Sessions in which every document was clicked.
    """

    showings: float
    clicks: float
    lists: int | None
    queries: int
    documents: int
    places: dict[str, list[float]]
    findings: list[Finding]
    notes: dict[str, int]
    suspects: list[Hashable]

    def to_dict(self) -> Facts:
        """Plain values for JSON."""
        return asdict(self)

    def facts(self) -> list[tuple[str, str, str]]:
        """Lines of the table: question, count, what was done."""
        sizes = [("showings", self.showings), ("clicks", self.clicks), ("lists", self.lists),
                 ("queries", self.queries), ("documents", self.documents)]  # fmt: skip
        lines = [(name, "–" if value is None else f"{value:,.12g}", "") for name, value in sizes]
        lines += [(f.question, "–" if f.count is None else f"{f.count:,}", f.done) for f in self.findings]
        return lines + [("while reading", f"{count:,}", text) for text, count in self.notes.items()]

    def rates(self) -> list[tuple[str, str, str, str]]:
        """Lines of the second table: place, showings, clicks, click rate."""
        return [(f"{k}", f"{n:,.12g}", f"{c:,.12g}", f"{rate:.4f}") for k, n, c, rate in zip(*self.places.values())]

    def tables(self) -> list["Table"]:
        """Two rich tables: the findings, and clicks by place."""
        from rich.table import Table

        facts = Table("", "count", "what was done", title="click log")
        for line in self.facts():
            facts.add_row(*line)
        places = Table(*RATES, title="clicks by place")
        for rate in self.rates():
            places.add_row(*rate)
        return [facts, places]

    def _repr_html_(self) -> str:
        places = html_table("clicks by place", RATES, self.rates())
        return html_table("click log", ["", "count", "what was done"], self.facts()) + places


def describe(log: DescribedLog) -> LogDescription:
    """See `ClickLog.describe`."""
    cells = log.cells(contexts=False)
    place, at = np.unique(cells.place, return_inverse=True)
    groups = group_by([cells.query, cells.document, at.ravel()])  # whatever their propensities
    columns, n, c = groups.columns, groups.sums(cells.showings), groups.sums(cells.clicks)
    seen, clicked = (np.bincount(columns[2], column, len(place)) for column in (n, c))
    queries, query = np.unique(columns[0], return_inverse=True)
    silent = int((np.bincount(query.ravel(), c, len(queries)) == 0).sum())
    lists, suspects, of_lists = _lists(log)
    return LogDescription(
        showings=float(n.sum()),
        clicks=float(c.sum()),
        lists=lists,
        queries=len(queries),
        documents=len(np.unique(columns[1])),
        places={"place": place.tolist(), "showings": seen.tolist(), "clicks": clicked.tolist(),
                "rate": (clicked / np.where(seen > 0, seen, 1.0)).tolist()},
        findings=[
            *_joins(place, columns, n, c),
            Finding("queries without clicks", silent, "kept: they do not say which document is better"),
            *of_lists, *_times(log),
        ],
        notes=dict(log.notes),
        suspects=suspects,
    )  # fmt: skip


def _joins(place: np.ndarray, columns: list[np.ndarray], n: np.ndarray, c: np.ndarray) -> list[Finding]:
    """Which places can be compared: through documents that were shown at several of them for a query."""
    graph = SharedCells(columns[0], columns[1], columns[2], len(place)).graph(n, c)
    several, thinnest = int((group_by(columns[:2]).sums() > 1).sum()), graph.thinnest()
    apart = place[graph.part != graph.part[0]].tolist() if len(place) else []
    some = ", ".join(map(str, apart[:8])) + (", …" if len(apart) > 8 else "")
    joined = "no two places share a document: propensities cannot be estimated from this log"
    if thinnest is not None:
        low, high = place[list(thinnest[:2])]
        joined = f"the weakest link is between places {low} and {high}, by {thinnest[2]:,.12g} showings"
    unknown = f"their propensities are unknown: {some}" if apart else "all can be compared"
    return [
        Finding("documents shown at several places for a query", several, "they show how places differ"),
        Finding("groups of places that share documents", len(set(graph.part.tolist())), joined),
        Finding("places that cannot be compared with the first", len(apart), unknown),
    ]


def _lists(log: DescribedLog) -> tuple[int | None, list[Hashable], list[Finding]]:
    """The number of lists, the sessions in which everything was clicked, and findings; None and [] without sessions."""
    questions = [
        (f"lists of {LEAST_SHOWN} or more documents that were all clicked (bots)",
         "kept: describe().suspects names them, log.without(suspects) leaves them out"),
        ("documents that are in a list twice", "kept: each counts as a showing at its place"),
        ("places of a list that hold two documents", "kept: models of whole lists take the first"),
        ("lists that do not begin at place 1", "kept: models of whole lists take their places as they are"),
    ]  # fmt: skip
    if log.session is None or log.session_names is None:
        return None, [], [Finding(question, None, NO_LISTS) for question, _ in questions]
    lists, _ = log.by_list()
    first = np.full(len(lists), np.iinfo(np.int64).max)
    np.minimum.at(first, lists.number, log.place)
    size = lists.sums()
    all_clicked = (size >= LEAST_SHOWN) & (lists.sums(log.clicks > 0) == size)
    twice, shared = (len(log) - len(group_by([lists.number, column])) for column in (log.document, log.place))
    counts = [int(all_clicked.sum()), twice, shared, int((first > 1).sum())]
    suspects = log.session_names[np.unique(lists.columns[0][all_clicked])].tolist()
    return len(lists), suspects, [Finding(question, n, done) for (question, done), n in zip(questions, counts)]


def _times(log: DescribedLog) -> list[Finding]:
    order, absent = "showings that are earlier than the one before them in their list", "showings without a time"
    if log.times is None:
        return [Finding(order, None, NO_TIMES), Finding(absent, None, NO_TIMES)]
    missing = Finding(absent, int((log.times != log.times).sum()), "kept")
    if log.session is None:
        return [Finding(order, None, NO_LISTS), missing]
    lines = np.argsort(log.session, kind="stable")
    times, session = log.times[lines], log.session[lines]
    back = int(((session[1:] == session[:-1]) & (times[1:] < times[:-1])).sum())
    return [Finding(order, back, "kept: nothing depends on the times"), missing]
