"""Files cut into windows of whole lines, the next window read while the last one is parsed."""

import math
import os
import re
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from hingerank.data.files import SUFFIXES, DataError, TextSource
from hingerank.kernels import text as parse
from hingerank.kernels.threads import thread_count

FIRST_WINDOW, SMALLEST_WINDOW, LARGEST_WINDOW = 1 << 17, 1 << 19, 1 << 25
SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 18, 1 << 20
LONGEST_LINE = 1 << 30
SPARE = 16  # bytes after the last newline, so that a kernel may look a few bytes ahead


@dataclass
class Window:
    """Whole lines of one file: buffer[:length], the last byte a newline; valid until the next window is asked for.

    `share` of the whole input ends here. `lines_before` in the same file is for whoever counts lines to fill in.
    """

    source: int
    path: str
    buffer: bytearray
    length: int
    share: float
    lines_before: int = 0

    def chunks(self) -> list[tuple[int, int]]:
        """Line borders that cut the window into pieces for the threads."""
        size = min(max(self.length // 16, SMALLEST_CHUNK), LARGEST_CHUNK)
        borders = [0]
        while borders[-1] < self.length:
            borders.append(self.buffer.find(b"\n", min(borders[-1] + size, self.length - 1)) + 1)
        return list(pairwise(borders))

    def line_number(self, place: int) -> int:
        return self.lines_before + self.buffer.count(b"\n", 0, place) + 1

    def line_start(self, place: int) -> int:
        return self.buffer.rfind(b"\n", 0, place) + 1


def windows(sources: Sequence[TextSource]) -> Iterator[Window]:
    """The windows of all `sources` in order; with more than one thread, one window ahead."""
    if thread_count() == 1:
        return _windows(sources)
    return _one_ahead(_windows(sources))


def _windows(sources: Sequence[TextSource]) -> Generator[Window, None, None]:
    total = max(1, sum(source.size for source in sources))
    size = min(max(total // 32, SMALLEST_WINDOW), LARGEST_WINDOW)
    want, before = FIRST_WINDOW, 0
    buffers = [bytearray(), bytearray()]
    for number, source in enumerate(sources):
        rest = memoryview(b"")
        with source.open() as stream:
            started = ended = False
            while not ended:
                buffer = buffers[0]
                length, wanted = len(rest), len(rest) + want
                if len(buffer) < wanted + SPARE:
                    buffer = buffers[0] = bytearray(wanted + SPARE)
                buffer[:length] = rest
                with memoryview(buffer) as view:
                    got = stream.fill(view[length:wanted])
                ended = got < wanted - length
                if not started:
                    _check_start(buffer, got, source.path)
                    started = True
                length += got
                end = buffer.rfind(b"\n", 0, length) + 1
                if ended and end < length:  # the last line has no newline
                    buffer[length] = 10
                    end = length = length + 1
                rest = memoryview(buffer)[end:length]
                if len(rest) > LONGEST_LINE:
                    raise DataError(f"{source.path}: a line of more than {LONGEST_LINE} bytes, expected text lines")
                if end == 0:
                    want = max(want, len(rest))  # a line longer than the window
                    continue
                share = min(1.0, (before + stream.position()) / total)
                buffers.reverse()
                yield Window(number, source.path, buffer, end, share)
                want = size
        before += source.size


def _check_start(buffer: bytearray, length: int, path: str) -> None:
    """Refuse a binary file at once; blank out a byte order mark."""
    place = buffer.find(b"\0", 0, min(length, 4096))
    if place >= 0:
        raise DataError(
            f"{path}: a binary file (byte {place} is zero); expected text lines 'label qid:id index:value …'"
        )
    if buffer.startswith(b"\xef\xbb\xbf"):
        buffer[:3] = b"   "


def _one_ahead(items: Generator[Window, None, None]) -> Iterator[Window]:
    with ThreadPoolExecutor(1, thread_name_prefix="hingerank-read") as reader:
        coming = reader.submit(next, items, None)
        try:
            while (item := coming.result()) is not None:
                coming = reader.submit(next, items, None)
                yield item
        finally:
            reader.submit(items.close)  # runs after the read under way


# What is wrong at a place of a data file, in one line: file, line, column, the text found, what was expected.


_EXPECTED: dict[int, str] = {
    int(parse.BAD_LABEL): "a number as the label at the start of the line",
    int(parse.BAD_QID): "a query id without blanks or control characters after 'qid:'",
    int(parse.NO_QID): "'qid:' after the label, as on the first line",
    int(parse.UNEXPECTED_QID): "no 'qid:', as on the first line (give every line a query id, or none)",
    int(parse.BAD_ENTRY): "index:value",
    int(parse.BAD_VALUE): "a number after ':'",
    int(parse.MISSING_VALUE): 'a number after \':\' (pass missing="zero" or missing="nan" to accept missing values)',
    int(parse.REPEATED_INDEX): "each feature index once per line",
    int(parse.FOUND_INDEX_ZERO): "feature indices from 1 on, since index_base=1 was given",
    int(parse.NUL_BYTE): "text (this looks like a binary file)",
}


def wrong_text(window: Window, status: int, place: int, limit: int, limit_name: str) -> DataError:
    """The error for a parse that stopped with `status` at `place`; `limit` is the number of features allowed."""
    found = token_at(window, place)
    expected = _EXPECTED.get(status, "")
    if status == parse.LARGE_INDEX:
        expected = f"at most {limit} features ({limit_name}={limit}); pass a larger {limit_name} if the file is right"
    elif status == parse.BAD_ENTRY and found.startswith("-") and found[1:2].isdigit():
        expected = "no negative feature index"
    elif status == parse.BAD_ENTRY and found.startswith("qid:"):
        expected = "'qid:' only once, right after the label"
    elif status == parse.BAD_VALUE and found.lower().lstrip("+-") in ("inf", "infinity", "nan"):
        expected = "a finite number"
    elif status == parse.REPEATED_INDEX:
        place = _second_index(window, place)
        found = token_at(window, place)
    return located(window, place, found, expected)


def located(window: Window, place: int, found: str, expected: str) -> DataError:
    """A DataError that names file, line and column of `place`."""
    start = window.line_start(place)
    column = len(window.buffer[start:place].decode("utf-8", "replace")) + 1
    what = repr(found) if found else "the line end"
    return DataError(
        f"{window.path}, line {window.line_number(place)}, column {column}: found {what}, expected {expected}"
    )


def token_at(window: Window, place: int) -> str:
    """The text from `place` to the next blank, shortened."""
    line = bytes(window.buffer[place : place + 200]).split(b"\n")[0].rstrip(b"\r")
    words = line.split(None, 1)
    word = words[0] if words and not line[:1].isspace() else line[:1]
    text = word.decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:37] + "..."


def no_utf8(window: Window, row: int) -> DataError:
    """The error for data row number `row` of the window, which has bytes that are no UTF-8."""
    place = -1
    while row >= 0:
        start, place = place + 1, window.buffer.index(b"\n", place + 1)
        line = bytes(window.buffer[start:place])
        row -= bool(line.strip(b" \t\r")) and not line.lstrip(b" \t").startswith(b"#")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        start += error.start
    expected = "UTF-8 in query ids and comments (convert the file, or pass docids=False to skip comments)"
    return located(window, start, token_at(window, start), expected)


def _second_index(window: Window, place: int) -> int:
    """The place of the first repeated index on the line of `place`."""
    start = window.line_start(place)
    line = bytes(window.buffer[start : window.buffer.find(b"\n", start)]).split(b"#")[0]
    seen, at = set(), 0
    for word in line.split():
        at = line.index(word, at)
        head = word.split(b":")[0]
        if head.isdigit() and b":" in word:
            if int(head) in seen:
                return start + at
            seen.add(int(head))
        at += len(word)
    return place


# Small files of one number per line beside the data: scores, and counts of rows per query.


_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_scores(path: str | os.PathLike) -> np.ndarray:
    """scores[i] = the number on line i; compressed files are fine, blank lines only at the end.

    >>> from pathlib import Path
    >>> _ = Path("scores.txt").write_text("0.5\\n-2e-3\\n")
    >>> read_scores("scores.txt").tolist()
    [0.5, -0.002]
    """
    return np.array(_numbers(path, "a finite number, one score per line"), np.float64)


def read_counts(path: str | os.PathLike) -> np.ndarray:
    """counts[q] = rows of query q, in row order: LightGBM's ``.query`` and XGBoost's ``.group`` files."""
    counts = np.array(_numbers(path, "a number of rows, one query per line"), np.float64)
    bad = np.flatnonzero((counts < 0) | (counts != np.floor(counts)) | (counts > 2**53))
    if len(bad):
        raise DataError(f"{os.fspath(path)}: {counts[bad[0]]:g} is no number of rows; expected whole numbers from 0 up")
    return counts.astype(np.int64)


def find_counts(path: str) -> str | None:
    """The counts file beside the data file `path`: its name plus .query or .group, with or without .gz and the like."""
    names = [path, path.removesuffix(Path(path).suffix)] if path.endswith(SUFFIXES) else [path]
    found = [name + suffix for name in names for suffix in (".query", ".group") if os.path.isfile(name + suffix)]
    return found[0] if found else None


def _numbers(path: str | os.PathLike, expected: str) -> list[float]:
    numbers: list[float] = []
    number = blank = 0
    for window in windows([TextSource(path)]):
        for line in bytes(window.buffer[: window.length - 1]).split(b"\n"):
            word, number = line.strip(b" \t\r"), number + 1
            if not word:
                blank = blank or number
                continue
            value = float(word) if not blank and _DECIMAL.fullmatch(word) else math.nan
            if not math.isfinite(value):
                found, number = (
                    (repr(word[:40].decode("utf-8", "replace")), number) if not blank else ("nothing", blank)
                )
                raise DataError(f"{os.fspath(path)}, line {number}: found {found}, expected {expected}")
            numbers.append(value)
    return numbers
