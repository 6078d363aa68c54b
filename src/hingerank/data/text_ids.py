"""Query and document ids of text rows: where they come from, and as arrays."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.number_files import find_counts, read_counts
from hingerank.data.ranking_data import RankingData
from hingerank.data.text_files import TextSource
from hingerank.data.text_table import Options, TextTable
from hingerank.kernels.parse import QID_PRESENT
from hingerank.kernels.tokens import spell, whole_numbers


class Comments:
    """What the comments of all rows have in common, gathered table by table."""

    def __init__(self) -> None:
        self.rows, self.runs, self.first_empty = 0, 0, -1
        self.any, self.whole = False, True
        self._last: int | None = None

    def add(self, table: TextTable) -> None:
        letters, spans = _texts(table)
        if len(spans) == 0:
            return
        empty = spans[:, 1] == 0
        if self.first_empty < 0 and empty.any():
            self.first_empty = self.rows + int(np.argmax(empty))
        self.any = self.any or not empty.all()
        if self.whole and table.qid_style != QID_PRESENT:
            numbers = np.empty(len(spans), np.int64)
            self.whole = bool(whole_numbers(letters, spans, numbers))
            self.runs += np.count_nonzero(numbers[1:] != numbers[:-1]) + (self._last != numbers[0])
            self._last = int(numbers[-1])
        self.rows += len(spans)

    @property
    def look_like_query_ids(self) -> bool:
        """Whole numbers that mostly repeat from line to line, as Yandex writes query ids."""
        return self.whole and self.rows > 1 and 2 * self.runs <= self.rows


@dataclass(frozen=True)
class IdRule:
    """qid_from: "line", "comment", "counts" (then `counted` has the query of every row) or "nothing"; docids: any."""

    qid_from: str
    docids: bool
    counted: np.ndarray | None = None


def choose_rule(
    options: Options, comments: Comments, qid_style: int, sources: Sequence[TextSource], rows: Sequence[int], query: Any
) -> IdRule:
    """Query ids from the lines if they have any, else from counts files, else from comments."""
    path, docids = sources[0].path, options.docids and comments.any
    if qid_style == QID_PRESENT:
        for asked, name in ((query is not None, "query="), (options.qid_in_comment, "qid_in_comment=True")):
            if asked:
                raise DataError(f"{path}: the lines have 'qid:', so {name} cannot be used as well")
        return IdRule("line", docids)
    counted = _qid_from_counts(sources, rows, query)
    if counted is not None:
        return IdRule("counts", docids, counted)
    if options.qid_in_comment and comments.first_empty >= 0:
        raise DataError(f"{path}: qid_in_comment=True, but data row {comments.first_empty + 1} has no comment")
    if options.qid_in_comment or (options.qid_in_comment is None and comments.look_like_query_ids):
        return IdRule("comment" if comments.whole else "comment text", False)
    return IdRule("nothing", docids)


def assemble(table: TextTable, X: Any, rule: IdRule, first_row: int = 0) -> RankingData:
    """The rows of a finished table; they are rows `first_row` on of the whole."""
    letters, spans = _texts(table)
    if rule.qid_from == "line" and table.plan.qid_is_text:
        qid = _strings(letters, spans, 0)
    elif rule.qid_from == "comment text":
        qid = _strings(letters, spans, 1)
    elif rule.qid_from == "comment":
        qid = np.empty(table.rows, np.int64)
        whole_numbers(letters, spans, qid)
    elif rule.counted is not None:
        qid = rule.counted[first_row : first_row + table.rows]
    else:
        qid = table.qid.finish(table.rows)
    docid = _strings(letters, spans, 1) if rule.docids else None
    return RankingData(X, table.y.finish(table.rows), qid, docid, index_base=table.plan.base)


def _qid_from_counts(sources: Sequence[TextSource], rows: Sequence[int], query: Any) -> np.ndarray | None:
    """Query numbers 0, 1, … from counts files, one for each source; None if there are none."""
    if query is not None:
        files = [os.fspath(query)] if isinstance(query, str | os.PathLike) else [os.fspath(each) for each in query]
        if len(files) != len(sources):
            raise DataError(f"query= names {len(files)} counts files for {len(sources)} data files")
    else:
        files = [name for source in sources if (name := find_counts(source.path))]
        if len(files) < len(sources):
            return None
    counts = [read_counts(name) for name in files]
    for name, count, source, n_rows in zip(files, counts, sources, rows):
        if count.sum() != n_rows:
            raise DataError(f"{name}: the counts add up to {count.sum()} rows, but {source.path} has {n_rows}")
    together = np.concatenate(counts)
    return np.repeat(np.arange(len(together)), together)


def _texts(table: TextTable) -> tuple[np.ndarray, np.ndarray]:
    return table.letters.array[: table.n_letters], table.spans.array[: 2 * table.rows].reshape(-1, 2)


def _strings(letters: np.ndarray, spans: np.ndarray, which: int) -> np.ndarray:
    """The ids in `letters` as a numpy array of str: fixed width, unless a few very long ones would waste memory."""
    longest = max(1, int(spans[:, which].max()))
    if len(spans) * longest <= 4 * len(letters) + 16 * len(spans) + 4096:
        points = np.zeros((len(spans), longest), np.uint32)
        spell(letters, spans, which, points)
        return points.view(f"U{longest}")[:, 0]
    ends = np.cumsum(spans.ravel(), dtype=np.int64).reshape(-1, 2)[:, which].tolist()
    whole, lengths = letters.tobytes(), spans[:, which].tolist()
    return np.array([whole[e - n : e].decode() for e, n in zip(ends, lengths)], np.dtypes.StringDType())
