"""Session lines (query, documents, clicked documents) and responses with logged features, as showings."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hingerank.clicks.showings import Showings
from hingerank.data.feature_logs import clicked_pairs, logged_lists
from hingerank.data.files import DataError, PathLike
from hingerank.data.streams import stream_lines

ClickedPairs: TypeAlias = PathLike | Iterable[tuple[Hashable, Hashable]]  # a file of (query, document), or such pairs
_AT_A_TIME = 1 << 14  # lists


def add_session_lines(showings: Showings, path: Path) -> None:
    """Lists ``query<TAB>doc,doc,… : clicked , clicked``, separated by semicolons or ends of line."""
    batch = _WaitingLists(showings)
    for number, text in _entries(path):
        query, tab, rest = text.partition("\t")
        shown, colon, clicked = rest.partition(":")
        documents = [word.strip() for word in shown.split(",")]
        clicks = [word.strip() for word in clicked.split(",") if word.strip()]
        whole = tab and colon and query.strip() and all(documents)
        if not whole or any(" " in word for word in (*documents, *clicks)):
            if number == 1:
                raise DataError(
                    f"{path}, line 1: found {text.strip()[:60]!r}, expected session lines (query<TAB>document,… : "
                    "clicked document,…;), UBI, or a table that its ending names (.csv, .parquet, …)"
                )
            showings.note("lines that are no lists: left out")
            continue
        batch.add(query.strip(), documents, clicks)
    batch.flush()


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every list of a file; bytes that are not UTF-8 make a list that does not count."""
    count = 0
    for _, line in stream_lines(path):
        for part in line.split(b";"):
            if part.strip():
                count += 1
                yield count, part.decode("utf-8-sig", "surrogateescape") if _is_text(part) else "\x00"


def _is_text(part: bytes) -> bool:
    try:
        part.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return b"\0" not in part


def add_feature_log(showings: Showings, paths: Sequence[Path], clicks: ClickedPairs | None) -> None:
    """Documents of each response at their places, and the n-th click on one in the n-th response that shows it."""
    if clicks is None:
        raise DataError(
            f"{paths[0]} has responses with logged features, which say what was shown: give clicks=FILE too"
        )
    left = clicked_pairs(clicks)
    batch = _WaitingLists(showings)
    for path in paths:
        for query, documents in logged_lists(path):
            found = []
            for document in dict.fromkeys(documents):
                if left.get((query, document), 0) > 0:
                    left[query, document] -= 1
                    found.append(document)
            batch.add(query, documents, found)
    batch.flush()
    showings.note("clicks without a response that shows the document: left out", round(sum(left.values())))


class _WaitingLists:
    """Lists that wait to become columns."""

    def __init__(self, showings: Showings) -> None:
        self.showings, self.count = showings, 0
        self._clear()

    def _clear(self) -> None:
        self.queries: list[str] = []
        self.sizes: list[int] = []
        self.documents: list[str] = []
        self.clicks: list[bool] = []

    def add(self, query: str, documents: list[str], clicked: list[str]) -> None:
        note, distinct = self.showings.note, set(clicked)
        note("repeated clicks on a document in a list: one is counted", len(clicked) - len(distinct))
        note("clicks on documents that their list does not show: left out", len(distinct - set(documents)))
        self.queries.append(query)
        self.sizes.append(len(documents))
        self.documents += documents
        self.clicks += [document in distinct for document in documents]
        if len(self.queries) >= _AT_A_TIME:
            self.flush()

    def flush(self) -> None:
        sizes = np.array(self.sizes, np.int64)
        lists = np.arange(self.count, self.count + len(sizes))
        self.count += len(sizes)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        columns: dict[str, np.ndarray | None] = {
            "query": np.repeat(self.showings.codes("query", self.queries), sizes),
            "document": self.showings.codes("document", self.documents),
            "place": (within + 1).astype(np.int32),
            "clicks": np.array(self.clicks, np.float64),
        }
        if self.showings.keep == "showings":
            columns["session"] = np.repeat(self.showings.codes("session", lists.tolist()), sizes)
        self.showings.add(columns)
        self._clear()
