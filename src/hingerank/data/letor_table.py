"""Arrays that grow by rows in place, for input whose size is only known at its end."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hingerank.data.files import DataError, TextSource
from hingerank.data.letor_lines import Window, find_counts, located, no_utf8, read_counts, token_at, wrong_text
from hingerank.data.ranking_data import RankingData
from hingerank.kernels import text as parse
from hingerank.kernels.text import QID_PRESENT, bad_characters, spell, spread_rows, whole_numbers
from hingerank.kernels.threads import run_shards


class GrowingArray:
    """Rows of `width` values; room beyond the rows in use costs address space, not memory.

    `array` is replaced or moved by `reserve`, `widen` and `finish`: keep no view of it across them.
    """

    def __init__(self, dtype: np.dtype | type, width: int = 1) -> None:
        self.array = np.empty(0, dtype)
        self.width = width

    @property
    def room(self) -> int:
        return len(self.array) // self.width if self.width else np.iinfo(np.int64).max

    def reserve(self, rows: int, expected: int) -> None:
        """Make room for `rows`, and for `expected` rows if it has to grow at all."""
        if rows <= self.room:
            return
        size = max(rows, expected) * self.width
        if len(self.array) == 0:
            self.array = np.empty(size, self.array.dtype)
        else:
            self.array.resize(size, refcheck=False)

    def close_gaps(self, starts: list[int], counts: list[int]) -> None:
        """Move the runs of counts[i] rows at starts[i] down so that they follow each other."""
        at = starts[0]
        for start, count in zip(starts, counts):
            if at != start and count and self.width:
                w = self.width
                self.array[at * w : (at + count) * w] = self.array[start * w : (start + count) * w]
            at += count

    def widen(self, rows: int, width: int) -> None:
        """Give each of the first `rows` rows more columns, filled with 0."""
        old, self.width = self.width, width
        if rows == 0:
            self.array = np.empty(0, self.array.dtype)
            return
        self.array.resize(2 * rows * width, refcheck=False)
        if old:
            spread_rows(self.array, rows, old, width)

    def finish(self, *shape: int) -> np.ndarray:
        """The array cut to exactly `shape`; the last call."""
        array, self.array = self.array, np.empty(0, self.array.dtype)
        array.resize(shape, refcheck=False)
        return array


# The rows of LETOR/SVMlight text gathered into arrays, window after window.
#
# The parser writes straight into the arrays that are returned. What it has to know beforehand (dense or sparse, indices
# from 0 or 1, query ids as numbers or text) is a plan made from the first lines; a line that proves the plan wrong
# raises `Replan`, and the caller starts again with a better one. Each part of a plan changes at most twice.


DENSE_SHARE = 0.25  # dense if at least this share of the values is written out
SMALL_TABLE = 1024  # ... or the whole table has no more cells than this
NEWLINE, COLON = 10, 58
MISSING = {"error": parse.MISSING_IS_ERROR, "zero": parse.MISSING_IS_ZERO, "nan": parse.MISSING_IS_NAN}


@dataclass(frozen=True)
class Options:
    """What the caller of `read_text` asked for; see there."""

    dtype: Any = np.float64
    sparse: bool | None = None
    missing: str = "error"
    index_base: int | None = None
    n_features: int | None = None
    docids: bool = True
    qid_in_comment: bool | None = None
    max_features: int = 1 << 25

    def __post_init__(self) -> None:
        if str(self.dtype) not in ("float32", "float64") and self.dtype not in (np.float32, np.float64, float):
            raise ValueError(f'dtype is {self.dtype!r}, expected "float64" or "float32"')
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.missing not in MISSING:
            raise ValueError(f'missing is {self.missing!r}, expected "error", "zero" or "nan"')
        if self.index_base not in (None, 0, 1):
            raise ValueError(f"index_base is {self.index_base!r}, expected 0, 1 or None")
        for name, value in (("n_features", self.n_features), ("max_features", self.max_features)):
            if value is not None and not 1 <= value < 2**31:
                raise ValueError(f"{name} is {value!r}, expected a whole number from 1 to {2**31 - 1}")


@dataclass(frozen=True)
class Plan:
    """What the parser takes for granted; `settled`: the whole text was seen, dense or sparse is decided."""

    dense: bool
    base: int
    qid_is_text: bool = False
    settled: bool = False


class Replan(Exception):
    """The text does not fit the plan: start again with `plan`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def first_plan(options: Options) -> Plan:
    dense = (options.n_features or 0) <= 1 << 16 if options.sparse is None else not options.sparse
    return Plan(dense=dense, base=1 if options.index_base is None else options.index_base)


def dense_enough(entries: int, rows: int, width: int) -> bool:
    return rows * width <= SMALL_TABLE or entries >= DENSE_SHARE * rows * width


@dataclass
class Chunk:
    """Bytes first:last of a window: where its arrays start, where the parser stopped, the tokens it left to Python."""

    first: int
    last: int
    start: np.ndarray
    state: np.ndarray
    asked: np.ndarray

    def count(self, slot: int) -> int:
        return int(self.state[slot] - self.start[slot])


class TextTable:
    """Arrays of the rows added so far; `source_rows[i]` = rows of source i."""

    def __init__(self, options: Options, plan: Plan, qid_style: int = parse.QID_UNKNOWN) -> None:
        self.options, self.plan, self.qid_style = options, plan, qid_style
        self.rows = self.entries = self.n_letters = 0
        self.largest = -1
        self.source_rows: dict[int, int] = {}
        self.source_lines: dict[int, int] = {}
        self.whole = True  # all of the input goes in here, so its size can be guessed ahead
        self.y, self.qid = GrowingArray(np.float64), GrowingArray(np.int64)
        self.spans, self.letters = GrowingArray(np.int32, 2), GrowingArray(np.uint8)
        self.sizes, self.columns = GrowingArray(np.int64), GrowingArray(np.int32)
        self.values = GrowingArray(options.dtype, (options.n_features or 0) if plan.dense else 1)
        self._asked = np.empty((0, 3), np.int64)

    def successor(self) -> "TextTable":
        """An empty table for the rows that follow."""
        table = TextTable(self.options, self.plan, self.qid_style)
        table.source_lines, table.whole = self.source_lines, False
        return table

    @property
    def limit(self) -> tuple[int, str]:
        n = self.options.n_features
        return (self.options.max_features, "max_features") if n is None else (n, "n_features")

    @property
    def keeps_comments(self) -> bool:
        asked = self.options.qid_in_comment
        return self.options.docids or asked is True or (asked is None and self.qid_style != parse.QID_PRESENT)

    def add(self, window: Window) -> None:
        """Parse the lines of `window` and append their rows."""
        window.lines_before = self.source_lines.get(window.source, 0)
        while True:
            chunks = self._parse(window)
            answers = [self._check(window, chunk) for chunk in chunks]
            largest = max(int(chunk.state[parse.LARGEST]) for chunk in chunks)
            if not self.plan.dense or largest < self.values.width:
                break
            self._widen(largest + 1, chunks, window.share)
        for chunk, numbers in zip(chunks, answers):
            self._store_answers(chunk.asked[: chunk.state[parse.ASKED], 0], numbers)
        self._close_gaps(chunks)
        self._check_characters(window, chunks)
        self._advance(window, chunks)

    def _parse(self, window: Window) -> list[Chunk]:
        """Make room for the rows of each chunk and parse them."""
        text = np.frombuffer(window.buffer, np.uint8)
        borders = window.chunks() if self.qid_style != parse.QID_UNKNOWN else [(0, window.length)]
        lines = run_shards(lambda b: np.count_nonzero(text[b[0] : b[1]] == NEWLINE), borders)
        colons = [0] * len(borders)
        if not self.plan.dense:
            colons = run_shards(lambda b: np.count_nonzero(text[b[0] : b[1]] == COLON), borders)
        self._reserve(sum(lines), sum(colons), window)
        self.source_lines[window.source] = window.lines_before + sum(lines)
        chunks = []
        row, entry = self.rows, self.entries
        for (first, last), n_lines, n_colons in zip(borders, lines, colons):
            start = np.zeros(parse.STATE_SIZE, np.int64)
            start[parse.ROW], start[parse.ENTRY], start[parse.LARGEST] = row, entry, -1
            start[parse.LETTER], start[parse.QID_STYLE] = self.n_letters + first, self.qid_style
            chunks.append(Chunk(first, last, start, start.copy(), self._asked[first // 4 : last // 4 + 1]))
            row, entry = row + n_lines, entry + n_colons
        run_shards(lambda chunk: self._parse_chunk(text, chunk), chunks)
        return chunks

    def _parse_chunk(self, text: np.ndarray, chunk: Chunk) -> None:
        plan = np.zeros(parse.PLAN_SIZE, np.int64)
        plan[parse.BASE], plan[parse.DENSE] = self.plan.base, self.plan.dense
        plan[parse.MOST_FEATURES] = self.limit[0]
        plan[parse.WIDTH] = self.values.width if self.plan.dense else self.limit[0]
        plan[parse.QID_IS_TEXT], plan[parse.KEEP_COMMENT] = self.plan.qid_is_text, self.keeps_comments
        plan[parse.MISSING], plan[parse.NARROW] = MISSING[self.options.missing], self.options.dtype == np.float32
        columns = np.empty(max(1, self.values.width), np.int32) if self.plan.dense else self.columns.array
        by_row = (self.y.array, self.qid.array, self.sizes.array, self.spans.array.reshape(-1, 2))
        rest = (self.values.array, columns, self.letters.array, chunk.asked, chunk.state)
        parse.parse_rows(text, chunk.first, chunk.last, plan, *by_row, *rest)

    def _reserve(self, rows: int, entries: int, window: Window) -> None:
        """Room for so many more; the share of the input read so far tells what to expect in all."""
        growth = 1.03 / max(window.share, 1e-6) if self.whole else 1.0
        rows, entries = self.rows + rows, self.entries + entries
        for array in (self.y, self.qid, self.spans):
            array.reserve(rows, int(rows * growth))
        if self.keeps_comments or self.plan.qid_is_text:
            letters = self.n_letters + window.length
            self.letters.reserve(letters, int(self.n_letters * growth) + letters)
        if self.plan.dense:
            self._check_memory(int(rows * growth), self.values.width)
            self.values.reserve(rows, int(rows * growth))
        else:
            self.sizes.reserve(rows, int(rows * growth))
            for array in (self.columns, self.values):
                array.reserve(entries, int(entries * growth))
        if len(self._asked) < window.length // 4 + 1:  # no token left to Python is shorter than '1e23 '
            self._asked = np.empty((window.length // 4 + 1, 3), np.int64)

    def _check(self, window: Window, chunk: Chunk) -> list[float]:
        """Raise for what is wrong in a chunk, the first thing first; returns the numbers left to Python."""
        numbers = []
        for slot, start, end in chunk.asked[: chunk.state[parse.ASKED]].tolist():
            number = float(window.buffer[start:end])
            narrow = slot >= 0 and self.options.dtype == np.float32
            if abs(number) >= (parse.FLOAT32_OVERFLOW if narrow else math.inf):
                expected = (
                    'a number that fits float32 (or pass dtype="float64")' if narrow else "a number that fits float64"
                )
                raise located(window, start, token_at(window, start), expected)
            numbers.append(number)
        status, place = int(chunk.state[parse.STATUS]), int(chunk.state[parse.PLACE])
        if status == parse.FOUND_TEXT_QID:
            raise Replan(replace(self.plan, qid_is_text=True))
        if status == parse.FOUND_INDEX_ZERO and self.options.index_base is None:
            raise Replan(replace(self.plan, base=0))
        if status != parse.FINE:
            raise wrong_text(window, status, place, *self.limit)
        return numbers

    def _widen(self, width: int, chunks: list[Chunk], share: float) -> None:
        """Make room for columns up to `width` in the dense rows, unless they have become too empty for that."""
        rows = self.rows + sum(chunk.count(parse.ROW) for chunk in chunks)
        entries = self.entries + sum(chunk.count(parse.ENTRIES) for chunk in chunks)
        if self.options.sparse is None and not self.plan.settled and not dense_enough(entries, rows, width):
            raise Replan(replace(self.plan, dense=False))
        self._check_memory(int(rows / max(share, 1e-6)), width)
        self.values.widen(self.rows, width)

    def _check_memory(self, rows: int, width: int) -> None:
        wanted, there = rows * width * self.options.dtype.itemsize, _memory()
        if wanted > there:
            raise DataError(
                f"{rows} rows of {width} features take {wanted / 2**30:.1f} GiB as a dense array, but the machine has "
                f"{there / 2**30:.1f} GiB: pass sparse=True"
            )

    def _store_answers(self, slots: np.ndarray, numbers: list[float]) -> None:
        if numbers:
            answers, labels = np.array(numbers), slots < 0
            self.y.array[-1 - slots[labels]] = answers[labels]
            self.values.array[slots[~labels]] = answers[~labels]

    def _close_gaps(self, chunks: list[Chunk]) -> None:
        """Blank lines, comments and colons outside entries made the chunks reserve more than they used."""
        by_row = [self.y, self.qid, self.spans, self.values if self.plan.dense else self.sizes]
        by_entry = [] if self.plan.dense else [self.columns, self.values]
        for slot, arrays in ((parse.ROW, by_row), (parse.ENTRY, by_entry), (parse.LETTER, [self.letters])):
            for array in arrays:
                array.close_gaps([int(chunk.start[slot]) for chunk in chunks], [chunk.count(slot) for chunk in chunks])

    def _check_characters(self, window: Window, chunks: list[Chunk]) -> None:
        rows, count = (sum(chunk.count(slot) for chunk in chunks) for slot in (parse.ROW, parse.LETTER))
        new = self.letters.array[self.n_letters : self.n_letters + count]
        if count and new.max() >= 128:
            spans = self.spans.array.reshape(-1, 2)[self.rows : self.rows + rows]
            comments_matter = self.options.docids or chunks[-1].state[parse.QID_STYLE] != parse.QID_PRESENT
            bad = int(bad_characters(new, spans, comments_matter))
            if bad >= 0:
                raise no_utf8(window, bad)

    def _advance(self, window: Window, chunks: list[Chunk]) -> None:
        rows = sum(chunk.count(parse.ROW) for chunk in chunks)
        self.rows += rows
        self.entries += sum(chunk.count(parse.ENTRIES) for chunk in chunks)
        self.n_letters += sum(chunk.count(parse.LETTER) for chunk in chunks)
        self.largest = max(self.largest, *(int(chunk.state[parse.LARGEST]) for chunk in chunks))
        self.qid_style = int(chunks[-1].state[parse.QID_STYLE])
        self.source_rows[window.source] = self.source_rows.get(window.source, 0) + rows

    def features(self) -> Any:
        """X, once all windows are in; may raise `Replan`."""
        width = self.largest + 1 if self.options.n_features is None else self.options.n_features
        if self.options.sparse is None and not self.plan.settled:
            dense = dense_enough(self.entries, self.rows, width)
            if dense != self.plan.dense:
                raise Replan(replace(self.plan, dense=dense, settled=True))
        if self.plan.dense:
            return self.values.finish(self.rows, width)
        from scipy.sparse import csr_matrix

        offsets = np.zeros(self.rows + 1, np.int32 if self.entries < 2**31 else np.int64)
        np.cumsum(self.sizes.array[: self.rows], out=offsets[1:])
        parts = (self.values.finish(self.entries), self.columns.finish(self.entries), offsets)
        return csr_matrix(parts, shape=(self.rows, width), copy=False)


def _memory() -> int:
    """Bytes of memory in the machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on this platform
        return 1 << 62


# Query and document ids of text rows: where they come from, and as arrays.


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
