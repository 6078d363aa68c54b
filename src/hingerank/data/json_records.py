"""Records of JSON files.

A file holds one record on each line, which are read one at a time. Or it holds JSON texts one after the other, each on
any number of lines and with one or several records.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain

from hingerank.arrays import Facts
from hingerank.data.files import PathLike
from hingerank.data.streams import stream_lines, whole_text

BLANK = re.compile(r"[ \t\n\r]*")


class BrokenRecord(ValueError):
    """A line that is not JSON. The message says why."""


def json_records(path: PathLike, noun: str = "record") -> Iterator[tuple[str, object]]:
    """The position ("line 3", "record 3 (line 40)") and value of each record. The value of what is not JSON is a
    `BrokenRecord`.

    If a file begins with a list, or its first line is not JSON by itself, it is read as JSON texts one after the other,
    each on any number of lines. If its first text is not JSON either, it is read line by line.
    """
    start = _first_line(path)
    texts = start[:1] == b"[" or isinstance(_parsed(start), BrokenRecord)
    found = _texts(whole_text(path)) if texts else iter(())
    first = next(found, None)
    if first is None or isinstance(first[1], BrokenRecord):
        yield from ((f"line {number}", _parsed(line)) for number, line in stream_lines(path) if line.strip())
        return
    each = ((line, text if isinstance(text, list) else [text]) for line, text in chain([first], found))
    records = ((line, one) for line, several in each for one in several)
    yield from ((f"{noun} {number} (line {line})", value) for number, (line, value) in enumerate(records, 1))


def _texts(text: str) -> Iterator[tuple[int, object]]:
    """The line and value of each JSON text. A `BrokenRecord` is the last one."""
    decoder, at, line = json.JSONDecoder(), 0, 1
    while (begin := BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        line, at = line + text.count("\n", at, begin), begin
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield line, BrokenRecord(str(error)[:200])
            return
        yield line, value
        line, at = line + text.count("\n", at, end), end


def first_record(path: PathLike) -> Facts | None:
    """The first record of a JSON file that is an object; None if there is none, or the file is not JSON."""
    if _first_line(path)[:1] not in (b"{", b"["):
        return None
    return next((value for _, value in json_records(path) if isinstance(value, dict)), None)


def _first_line(path: PathLike) -> bytes:
    lines = (line.removeprefix(b"\xef\xbb\xbf").strip() for _, line in stream_lines(path))
    return next((line for line in lines if line), b"")


def _parsed(text: bytes | str) -> object:
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        return BrokenRecord(str(error)[:200])
