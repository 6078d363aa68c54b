"""What a careful analyst would ask of a click log: each question with a count and what was done about it."""

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hingerank.arrays import Facts
from hingerank.clicks.counting import Cells, group_by
from hingerank.clicks.places import place_graph
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


@dataclass(frozen=True)
class Finding:
    """A question, how many there are (None where it cannot be counted), and what was done or can be."""

    question: str
    count: int | None
    done: str


@dataclass(frozen=True)
class LogDescription:
    """Counts of a log, its clicks by place, and findings.

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
        lines = [(name, "–" if value is None else f"{value:,.6g}", "") for name, value in sizes]
        lines += [(f.question, "–" if f.count is None else f"{f.count:,}", f.done) for f in self.findings]
        return lines + [("while reading", f"{count:,}", text) for text, count in self.notes.items()]

    def rates(self) -> list[tuple[str, str, str, str]]:
        """Lines of the second table: place, showings, clicks, click rate."""
        return [(f"{k}", f"{n:,g}", f"{c:,g}", f"{rate:.4f}") for k, n, c, rate in zip(*self.places.values())]

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
    n, c = np.bincount(at.ravel(), cells.showings), np.bincount(at.ravel(), cells.clicks)
    lists = _ListCounts(log)
    return LogDescription(
        showings=float(n.sum()),
        clicks=float(c.sum()),
        lists=lists.count,
        queries=len(np.unique(log.query)),
        documents=len(np.unique(log.document)),
        places={"place": place.tolist(), "showings": n.tolist(), "clicks": c.tolist(),
                "rate": (c / np.where(n > 0, n, 1.0)).tolist()},
        findings=[*_graph_findings(cells), *_query_findings(cells), *lists.findings(), *_time_findings(log)],
        notes=dict(log.notes),
        suspects=lists.suspects(),
    )  # fmt: skip


def _graph_findings(cells: Cells) -> list[Finding]:
    graph = place_graph(cells)
    columns, group = group_by([cells.query, cells.document])
    several = int((np.bincount(group, minlength=len(columns[0])) > 1).sum()) if len(group) else 0
    thinnest = graph.thinnest()
    apart = [int(k) for k in graph.places[graph.part != graph.part[0]]] if len(graph.part) else []
    some = ", ".join(map(str, apart[:8])) + (", …" if len(apart) > 8 else "")
    unknown = f"their propensities are unknown: {some}" if apart else "all can be compared"
    joined = "no two places share a document: propensities cannot be estimated from this log"
    if thinnest is not None:
        joined = f"the thinnest edge joins places {thinnest[0]} and {thinnest[1]}, by {thinnest[2]:,g} showings"
    return [
        Finding("documents of a query seen at several places", several, "they show how places differ"),
        Finding("parts of the graph of places", graph.n_parts, joined),
        Finding("places that nothing joins with the first", len(apart), unknown),
    ]


def _query_findings(cells: Cells) -> list[Finding]:
    queries, group = np.unique(cells.query, return_inverse=True)
    clicks = np.bincount(group.ravel(), cells.clicks, len(queries))
    return [Finding("queries without clicks", int((clicks == 0).sum()), "kept: they teach nothing about their order")]


class _ListCounts:
    """What can be asked of lists; nothing where the log has no sessions."""

    def __init__(self, log: DescribedLog) -> None:
        self.log = log
        self.count: int | None = None
        if log.session is not None:
            columns, self.group = group_by([log.session, log.query])
            self.session, self.count = columns[0], len(columns[0])

    def _clicks_all(self) -> np.ndarray:
        shown = np.bincount(self.group, minlength=self.count or 0)
        clicked = np.bincount(self.group, self.log.clicks > 0, minlength=self.count or 0)
        return (shown >= LEAST_SHOWN) & (clicked == shown)

    def suspects(self) -> list[Hashable]:
        if self.log.session_names is None:
            return []
        return self.log.session_names[np.unique(self.session[self._clicks_all()])].tolist()

    def findings(self) -> list[Finding]:
        questions = [
            (f"lists of {LEAST_SHOWN} documents or more with every one clicked (bots)",
             "kept: describe().suspects names them, log.without(suspects) leaves them out"),
            ("documents that stand twice in a list", "kept: each is a showing of its place"),
            ("places of a list that hold two documents", "kept: models of whole lists take the first"),
            ("lists that do not begin at place 1", "kept: models of whole lists take their places as they are"),
        ]  # fmt: skip
        if self.count is None:
            return [Finding(question, None, NO_LISTS) for question, _ in questions]
        log = self.log
        twice = len(log) - len(group_by([self.group, log.document])[0][0])
        shared = len(log) - len(group_by([self.group, log.place])[0][0])
        first = np.full(self.count, np.iinfo(np.int64).max)
        np.minimum.at(first, self.group, log.place)
        counts = [int(self._clicks_all().sum()), twice, shared, int((first > 1).sum())]
        return [Finding(question, n, done) for (question, done), n in zip(questions, counts)]


def _time_findings(log: DescribedLog) -> list[Finding]:
    order, absent = "showings that are earlier than the one before them in their list", "showings without a time"
    if log.times is None:
        return [Finding(order, None, NO_TIMES), Finding(absent, None, NO_TIMES)]
    missing = int((log.times != log.times).sum())
    session = np.zeros(len(log), np.int64) if log.session is None else log.session
    lines = np.argsort(session, kind="stable")
    times, same = log.times[lines], session[lines][1:] == session[lines][:-1]
    back = int((same & (times[1:] < times[:-1])).sum())
    return [
        Finding(order, back, "kept: nothing here depends on the order of time"),
        Finding(absent, missing, "kept"),
    ]
