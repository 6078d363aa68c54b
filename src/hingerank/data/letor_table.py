"""Parsing LETOR/SVMlight text. Windows of whole lines are parsed in pieces, which are added to the arrays of a table.

The next window is read while the last one is parsed. The parser follows a plan: dense or sparse, how many columns,
indices from 0 or 1. A line that does not fit the plan raises `Misfit`.
"""

import math
import re
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.files import DataError, other_format
from hingerank.data.memory import check_room
from hingerank.data.streams import TextSource
from hingerank.kernels import text as parse
from hingerank.kernels.threads import run_shards, thread_count

FIRST_WINDOW, SMALLEST_WINDOW, LARGEST_WINDOW = 1 << 17, 1 << 19, 1 << 25
SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 18, 1 << 20
LONGEST_LINE = 1 << 30
SPARE = 16  # bytes after the last newline, so that a kernel may read a few bytes ahead
DENSE_FRACTION = 0.25  # X is dense if the text has at least this fraction of the values,
SMALL_TABLE = 1024  # or if the whole table has at most this many cells
SMALL_MEMORY = 1 << 28  # bytes that every machine is assumed to have
NEWLINE, COLON = 10, 58
MISSING = {"error": parse.MISSING_IS_ERROR, "zero": parse.MISSING_IS_ZERO, "nan": parse.MISSING_IS_NAN}


@dataclass
class Window:
    """Whole lines of one file: buffer[:length] ends with a newline. It is valid until the next window is requested.

    `fraction` of the whole input has been read at its end. `TextTable.add` sets `lines_before`, counted in this file.
    """

    source: int
    path: str
    buffer: bytearray
    length: int
    fraction: float
    lines_before: int = 0

    def chunks(self) -> list[tuple[int, int]]:
        """Pieces of whole lines for the threads, as (first, last) bytes of the window."""
        size = min(max(self.length // 16, SMALLEST_CHUNK), LARGEST_CHUNK)
        borders = [0]
        while borders[-1] < self.length:
            borders.append(self.buffer.find(b"\n", min(borders[-1] + size, self.length - 1)) + 1)
        return list(pairwise(borders))

    def error(self, place: int, expected: str, remedy: str = "", option: str | None = None) -> DataError:
        """A DataError with the file, line and column of `place`, the text up to a blank, and what was expected."""
        start = self.buffer.rfind(b"\n", 0, place) + 1
        line = self.lines_before + self.buffer.count(b"\n", 0, place) + 1
        column = len(self.buffer[start:place].decode("utf-8", "replace")) + 1
        rest = bytes(self.buffer[place : place + 200]).split(b"\n")[0].rstrip(b"\r")
        words = rest.split(None, 1)
        found = (words[0] if words and not rest[:1].isspace() else rest[:1]).decode("utf-8", "replace")
        what = repr(found if len(found) <= 40 else found[:37] + "...") if found else "the line end"
        where = f"{self.path}, line {line}, column {column}"
        return DataError(f"{where}: found {what}, expected {expected}", remedy, option)


def windows(sources: Sequence[TextSource], most: int | None = None) -> Generator[Window, None, None]:
    """The windows of all `sources` in order, or the first `most` of them. With more than one thread, the next window is
    read in advance."""
    items = _windows(sources)
    if thread_count() == 1 or most is not None:
        with closing(items):
            yield from islice(items, most)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="hingerank-read") as reader:
        coming = reader.submit(next, items, None)
        try:
            while (item := coming.result()) is not None:
                coming = reader.submit(next, items, None)
                yield item
        finally:
            reader.submit(items.close)  # runs after the current read


def _windows(sources: Sequence[TextSource]) -> Generator[Window, None, None]:
    total = max(1, sum(source.size for source in sources))
    size = min(max(total // 32, SMALLEST_WINDOW), LARGEST_WINDOW)
    want, before = FIRST_WINDOW, 0
    buffers = [bytearray(), bytearray()]
    for number, source in enumerate(sources):
        with source.open() as file:
            started = False
            while True:
                if len(buffers[0]) < want:
                    buffers[0] = bytearray(want)
                buffer = buffers[0]
                with memoryview(buffer) as view:
                    got = file.readinto(view[:want])  # type: ignore[attr-defined]
                if not started:
                    _check_start(buffer, got, source.path)
                if got == 0:
                    break
                rest = file.readline(LONGEST_LINE + 1)
                if len(rest) > LONGEST_LINE:
                    raise DataError(f"{source.path}: a line has more than {LONGEST_LINE} bytes, expected text lines")
                buffer[got:] = rest
                if not buffer.endswith(b"\n"):  # the last line has no newline
                    buffer += b"\n"
                length = len(buffer)
                buffer += bytes(SPARE)
                buffers.reverse()
                yield Window(number, source.path, buffer, length, min(1.0, (before + source.position()) / total))
                want, started = size, True
        before += source.size


def _check_start(buffer: bytearray, length: int, path: str) -> None:
    """Raise a DataError if this is a binary file. Replace a byte order mark by blanks."""
    place = buffer.find(b"\0", 0, min(length, 4096))
    if place >= 0:
        raise DataError(f"{path}: a binary file (byte {place} is zero), expected lines 'label qid:id index:value …'")
    if buffer.startswith(b"\xef\xbb\xbf"):
        buffer[:3] = b"   "


# Errors of lines.

_EXPECTED: dict[int, tuple[str, ...]] = {  # what was expected; then, for some, a remedy and the option it is about
    int(parse.BAD_LABEL): ("a number as the label at the start of the line",),
    int(parse.BAD_QID): ("a query id without blanks or control characters after 'qid:'",),
    int(parse.NO_QID): ("'qid:' after the label, as on the first line",),
    int(parse.UNEXPECTED_QID): ("no 'qid:', as on the first line (give every line a query id, or none)",),
    int(parse.BAD_ENTRY): ("index:value, with no negative feature index, and 'qid:' only once, after the label",),
    int(parse.BAD_VALUE): ("a finite number after ':'",),
    int(parse.MISSING_VALUE): ("a number after ':'", 'pass missing="zero" or missing="nan" to accept it', "missing"),
    int(parse.REPEATED_INDEX): ("each feature index once per line",),
    int(parse.FOUND_INDEX_ZERO): ("feature indices from 1 on", "index_base=1 was given, not 0", "index_base"),
    int(parse.NUL_BYTE): ("text (this looks like a binary file)",),
}


_ROW = re.compile(rb"(?m)^[ \t]*[^ \t\r\n#]")  # the start of a line that is not blank or a comment


def wrong_text(window: Window, status: int, place: int, limit: int = 0, limit_name: str = "") -> DataError:
    """The error if the parser stopped with `status` at `place`. `limit` is the number of features allowed."""
    expected = _EXPECTED.get(status, ())
    if status in (parse.BAD_LABEL, parse.BAD_ENTRY, parse.NO_QID):
        expected += other_format(window.buffer, place)
    elif status == parse.LARGE_INDEX:
        remedy = f"if there are more, pass a larger {limit_name}"
        expected = (f"at most {limit} features ({limit_name}={limit})", remedy, limit_name)
    return window.error(place, *expected)


def _repeated_index(window: Window, first: int, row: int) -> DataError:
    """The error for a row that has an index twice; rows are counted from the position `first`."""
    start = next(islice(_ROW.finditer(window.buffer, first), row, None)).start()
    line, seen = bytes(window.buffer[start : window.buffer.find(b"\n", start)]).split(b"#")[0], set[bytes]()
    for match in re.finditer(rb"(?<!\S)(\d+):", line):
        index = match[1].lstrip(b"0")
        if index in seen:
            return wrong_text(window, int(parse.REPEATED_INDEX), start + match.start())
        seen.add(index)
    raise AssertionError(f"no index is repeated in row {row}")


def _check_utf8(window: Window, first: int, last: int, comments_matter: bool) -> None:
    """Raise a DataError about the first bytes in the rows from `first` to `last` that are not UTF-8."""
    text = bytes(window.buffer[first:last])
    with suppress(UnicodeDecodeError):
        text.decode()
        return
    ignored = rb"(?m)^[ \t]*#.*" if comments_matter else rb"#.*"
    try:
        re.sub(ignored, lambda found: b" " * len(found[0]), text).decode()
    except UnicodeDecodeError as error:
        expected = "UTF-8 in query ids and comments (convert the file, or pass docids=False to skip them)"
        raise window.error(first + error.start, expected) from None


# Collecting rows.


class GrowingArray:
    """Values of one type. Reserved room that is not used yet costs address space, not memory.

    `extend` and `finish` replace or move `array`: do not keep a view of it across them.
    """

    def __init__(self, dtype: np.dtype | type) -> None:
        self.array, self.used = np.empty(0, dtype), 0

    def extend(self, pieces: Sequence[np.ndarray], growth: float) -> None:
        """Append pieces. If the array has to grow, it becomes `growth` times as large as needed."""
        borders = (self.used + np.cumsum([0, *(piece.size for piece in pieces)])).tolist()
        self.used = borders[-1]
        if len(self.array) == 0:
            self.array = np.empty(int(self.used * growth), self.array.dtype)
        elif self.used > len(self.array):
            self.array.resize(int(self.used * growth), refcheck=False)
        for piece, ends in zip(pieces, pairwise(borders)):
            self.array[slice(*ends)] = piece.ravel()

    def finish(self, *shape: int) -> np.ndarray:
        """The array, cut to exactly `shape`. Call this last."""
        array, self.array, self.used = self.array, np.empty(0, self.array.dtype), 0
        array.resize(shape, refcheck=False)
        return array


@dataclass(frozen=True)
class Options:
    """Parameters of `read_text`, which explains them."""

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
        if self.sparse not in (None, True, False):
            raise ValueError(f"sparse is {self.sparse!r}, expected True, False or None")
        if self.index_base not in (None, 0, 1):
            raise ValueError(f"index_base is {self.index_base!r}, expected 0, 1 or None")
        for name, value in (("n_features", self.n_features), ("max_features", self.max_features)):
            if value is not None and not (isinstance(value, Integral) and 1 <= value < 2**31):
                raise ValueError(f"{name} is {value!r}, expected a whole number from 1 to {2**31 - 1}")


@dataclass(frozen=True)
class ReadingPlan:
    """What the parser assumes about the text."""

    dense: bool = False
    width: int = 0  # number of columns, if dense
    base: int | None = None  # None: not known yet
    qid_style: int = parse.QID_UNKNOWN


class Misfit(DataError):
    """The text does not fit the plan. If the plan was made from all of the text, the text has changed."""

    @classmethod
    def of(cls, path: str) -> "Misfit":
        return cls(f"{path}: the text changed while it was being read; read it again")


class Chunk(NamedTuple):
    """A piece of a window, and the arrays into which it is parsed, as `parse_rows` wants them, up to state[ROW], …"""

    first: int
    last: int
    y: np.ndarray
    sizes: np.ndarray
    spans: np.ndarray
    values: np.ndarray
    columns: np.ndarray
    letters: np.ndarray
    asked: np.ndarray
    state: np.ndarray


class Comments:
    """What the comments of all rows have in common, collected window by window."""

    def __init__(self) -> None:
        self.rows, self.runs, self.first_empty = 0, 0, -1
        self.any, self.whole = False, True
        self._last: int | None = None

    def add(self, letters: np.ndarray, spans: np.ndarray, may_be_queries: bool) -> None:
        """Add the comments of some rows; whether they may be query ids, because the lines have none."""
        if len(spans) == 0:
            return
        empty = spans[:, 1] == 0
        if self.first_empty < 0 and empty.any():
            self.first_empty = self.rows + int(np.argmax(empty))
        self.any = self.any or not empty.all()
        if self.whole and may_be_queries:
            numbers = np.empty(len(spans), np.int64)
            self.whole = bool(parse.whole_numbers(letters, spans, 1, numbers))
            self.runs += np.count_nonzero(numbers[1:] != numbers[:-1]) + (self._last != numbers[0])
            self._last = int(numbers[-1])
        self.rows += len(spans)

    @property
    def look_like_query_ids(self) -> bool:
        """Whether the comments are whole numbers that mostly repeat from line to line, like Yandex's query ids."""
        return self.whole and self.rows > 1 and 2 * self.runs <= self.rows


class TextTable:
    """Arrays of the rows added since `forget`. `source_rows`, `entries_seen` and `comments` are of all rows.

    Without a plan, the table finds the one that is `fitting` the text.
    """

    def __init__(self, options: Options, plan: ReadingPlan | None = None) -> None:
        self.options = options
        self.plan = plan or ReadingPlan(base=options.index_base)
        self.qid_style, self.qid_is_text = self.plan.qid_style, False
        self.rows = self.entries_seen = 0
        self.whole = plan is not None  # all of the input goes into this table: its size is estimated in advance
        self.smallest, self.largest, self.comments = 2**31, -1, Comments()  # the first two are columns
        self.source_rows: dict[int, int] = {}
        self.source_lines: dict[int, int] = {}
        self.y = GrowingArray(np.float64)
        self.spans, self.letters = GrowingArray(np.int32), GrowingArray(np.uint8)
        self.sizes, self.columns = GrowingArray(np.int64), GrowingArray(np.int32)
        self.values = GrowingArray(options.dtype)
        self.limit = (options.n_features or options.max_features, f"{'n' if options.n_features else 'max'}_features")

    def forget(self) -> None:
        """Drop the rows added so far. Arrays that were returned before do not change."""
        for array in (self.y, self.spans, self.letters, self.sizes, self.columns, self.values):
            array.used = 0
        self.rows, self.whole = 0, False

    @property
    def texts(self) -> tuple[np.ndarray, np.ndarray]:
        """(bytes of all stored query ids and comments, lengths of both for each row)."""
        return self.letters.array[: self.letters.used], self.spans.array[: 2 * self.rows].reshape(-1, 2)

    @property
    def keeps_comments(self) -> bool:
        asked = self.options.qid_in_comment
        return self.options.docids or asked is True or (asked is None and self.qid_style != parse.QID_PRESENT)

    def add(self, window: Window) -> None:
        """Parse the lines of `window` and append their rows."""
        window.lines_before = self.source_lines.get(window.source, 0)
        growth = 1.03 / max(window.fraction, 1e-6) if self.whole else 1.0  # the total, from the fraction read so far
        chunks = self._parse(window, growth)
        for chunk in chunks:
            self._check(window, chunk)
        states = np.array([chunk.state for chunk in chunks])
        rows, entries = states[:, parse.ROW], states[:, parse.ENTRIES]
        counts = {"y": rows, "spans": rows, "letters": states[:, parse.LETTER]}
        if self.plan.dense:
            counts |= {"values": rows * self.plan.width}
        else:
            counts |= {"values": entries, "columns": entries, "sizes": rows}
        first_letter, first_row = self.letters.used, self.rows
        for name, count in counts.items():
            getattr(self, name).extend([getattr(c, name)[:n] for c, n in zip(chunks, count.tolist())], growth)
        self.rows, self.entries_seen = self.rows + int(rows.sum()), self.entries_seen + int(entries.sum())
        self.qid_style = int(states[-1, parse.QID_STYLE])
        letters, spans = self.texts
        no_queries = self.qid_style != parse.QID_PRESENT
        self.comments.add(letters[first_letter:], spans[first_row:], may_be_queries=no_queries)
        if not (no_queries or self.qid_is_text):
            new = spans[first_row:]
            self.qid_is_text = not parse.whole_numbers(letters[first_letter:], new, 0, np.empty(len(new), np.int64))
        self.largest = max(self.largest, int(states[:, parse.LARGEST].max()))
        self.source_rows[window.source] = self.source_rows.get(window.source, 0) + int(rows.sum())
        if self.plan.base is None:
            columns = [chunk.columns[:n] for chunk, n in zip(chunks, entries.tolist())]
            self.smallest = min(self.smallest, *(int(found.min(initial=2**31 - 1)) for found in columns))

    def _parse(self, window: Window, growth: float) -> list[Chunk]:
        """Parse each chunk of the window into arrays of its own, which have room for all of its lines."""
        text = np.frombuffer(window.buffer, np.uint8)
        chunks = window.chunks() if self.qid_style != parse.QID_UNKNOWN else [(0, window.length)]
        lines = run_shards(lambda ab: np.count_nonzero(text[slice(*ab)] == NEWLINE), chunks)
        self.source_lines[window.source] = window.lines_before + sum(lines)
        dense, width = self.plan.dense, self.plan.width
        if dense:
            n_rows = int((self.rows + sum(lines)) * growth)
            wanted = n_rows * width * self.options.dtype.itemsize
            if wanted > SMALL_MEMORY:  # the check takes as long as parsing some rows
                check_room(wanted, f"{n_rows} rows of {width} features as a dense array", "pass sparse=True")
        plan = np.zeros(parse.PLAN_SIZE, np.int64)
        plan[parse.BASE], plan[parse.DENSE] = self.plan.base or 0, dense
        most = self.limit[0] + (self.plan.base is None)  # if it counts from 1
        plan[parse.MOST_FEATURES], plan[parse.WIDTH] = most, width if dense else most
        plan[parse.KEEP_COMMENT], plan[parse.MISSING] = self.keeps_comments, MISSING[self.options.missing]
        plan[parse.NARROW] = self.options.dtype == np.float32

        def parse_chunk(number: int) -> Chunk:
            (first, last), n = chunks[number], lines[number]
            entries = n * width if dense else np.count_nonzero(text[first:last] == COLON)
            chunk = Chunk(
                first, last,
                np.empty(n), np.empty(0 if dense else n, np.int64), np.empty((n, 2), np.int32),
                np.empty(entries, self.options.dtype), np.zeros(width if dense else entries, np.int32),
                np.empty(last - first, np.uint8),
                np.empty(((last - first) // 4 + 1, 3), np.int64),  # a number left to Python is as long as '1e23 '
                np.zeros(parse.STATE_SIZE, np.int64),
            )  # fmt: skip
            chunk.state[parse.QID_STYLE], chunk.state[parse.LARGEST] = self.qid_style, -1
            parse.parse_rows(text, *chunk[:2], plan, *chunk[2:])
            return chunk

        return run_shards(parse_chunk, range(len(chunks)))

    def _check(self, window: Window, chunk: Chunk) -> None:
        """Raise an error for the first mistake in a chunk; else store the numbers that were left to Python."""
        state = chunk.state
        for slot, start, end in chunk.asked[: state[parse.ASKED]].tolist():
            number = float(window.buffer[start:end])
            narrow = slot >= 0 and self.options.dtype == np.float32
            if abs(number) >= (parse.FLOAT32_OVERFLOW if narrow else math.inf):
                fits = 'float32 (or pass dtype="float64")' if narrow else "float64"
                raise window.error(start, f"a number that fits {fits}")
            if slot < 0:
                chunk.y[-1 - slot] = number
            else:
                chunk.values[slot] = number
        if state[parse.UNORDERED]:
            self._sort(window, chunk)
        status, place = int(state[parse.STATUS]), int(state[parse.PLACE])
        unplanned = status == parse.FOUND_INDEX_ZERO and self.options.index_base is None
        if unplanned or status == parse.FOUND_COLUMN:
            raise Misfit.of(window.path)
        if status != parse.FINE:
            raise wrong_text(window, status, place, *self.limit)
        letters = chunk.letters[: state[parse.LETTER]]
        if len(letters) and letters.max() >= 128:
            comments_matter = self.options.docids or state[parse.QID_STYLE] != parse.QID_PRESENT
            _check_utf8(window, chunk.first, chunk.last, comments_matter)

    def _sort(self, window: Window, chunk: Chunk) -> None:
        """Sort the entries of each row of a sparse chunk by column. An index that a row has twice is an error."""
        rows, entries = chunk.state[parse.ROW], chunk.state[parse.ENTRIES]
        sizes = chunk.sizes[:rows]
        parts = chunk.values[:entries], chunk.columns[:entries], np.append(0, np.cumsum(sizes))
        matrix = sp.csr_matrix(parts, shape=(rows, self.limit[0]))
        matrix.sort_indices()
        chunk.values[:entries], chunk.columns[:entries] = matrix.data, matrix.indices
        row = np.repeat(np.arange(rows), sizes)
        repeated = row[1:][(np.diff(matrix.indices) == 0) & (np.diff(row) == 0)]
        if len(repeated):
            raise _repeated_index(window, chunk.first, repeated[0])

    def fitting(self) -> ReadingPlan:
        """The plan that fits all rows so far."""
        base = int(self.smallest > 0) if self.plan.base is None else self.plan.base
        width = self.options.n_features or max(0, self.largest + 1 + (self.plan.base or 0) - base)
        dense = not self.options.sparse
        if self.options.sparse is None:
            cells = sum(self.source_rows.values()) * width
            dense = cells <= SMALL_TABLE or self.entries_seen >= DENSE_FRACTION * cells
        return ReadingPlan(dense, width, base, self.qid_style)

    def features(self) -> Matrix:
        """X, after all windows were added."""
        width = self.fitting().width
        if self.plan.dense:
            return self.values.finish(self.rows, width)
        entries = self.columns.used
        offsets = np.zeros(self.rows + 1, np.int32 if entries < 2**31 else np.int64)
        np.cumsum(self.sizes.array[: self.rows], out=offsets[1:])
        parts = (self.values.finish(entries), self.columns.finish(entries), offsets)
        return sp.csr_matrix(parts, shape=(self.rows, width), copy=False)
