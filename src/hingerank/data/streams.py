"""Text files as streams of bytes, which are decompressed piece by piece; their lines, fields and JSON records.

A compressed file is recognised by its first bytes. Nothing here needs NumPy.
"""

import bz2
import csv
import io
import json
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from hingerank.data.files import PACKED, DataError, PathLike, endings, zstd_library

_OTHER = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "a Parquet file: give it the suffix .parquet",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"Rar!": "a rar archive: unpack it first",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}
MOST_TIMES, MOST_BYTES = 200, 1 << 26  # a file may unpack to at most this multiple of its size plus this many bytes
_MOST_MEMORY = 1 << 29  # bytes that decompressing an xz file may use
_WORD = re.compile(r"[^ \t\n\r\f\v]+")


class TextSource:
    """A file that can be read from the start more than once. The content of a pipe is kept in memory.

    `kind` is "plain" or the name of its compression. It is known when the file was opened.
    """

    def __init__(self, path: PathLike) -> None:
        self.path, self.kind = os.fspath(path), ""
        status = os.stat(self.path)
        self._kept = None if stat.S_ISREG(status.st_mode) else Path(self.path).read_bytes()
        self.size = status.st_size if self._kept is None else len(self._kept)
        self._file: BinaryIO

    @contextmanager
    def open(self, by_name: bool = False) -> Iterator[BinaryIO]:
        """The decompressed bytes. by_name=True: plain text is an error if the name says that it is compressed."""
        with open(self.path, "rb") if self._kept is None else io.BytesIO(self._kept) as self._file:
            start = self._file.read(8)
            self._file.seek(0)
            self.kind = next((kind for kind, magic in PACKED.values() if start.startswith(magic)), "plain")
            other = next((what for magic, what in _OTHER.items() if start.startswith(magic)), None)
            if other:
                names = ", ".join(kind for kind, _ in PACKED.values())
                raise DataError(f"{self.path}: this is {other}; expected text lines, plain or compressed ({names})")
            if self.kind != "plain":
                pieces = _unpacked(self.path, self.kind, self._file, MOST_TIMES * self.size + MOST_BYTES)
                yield io.BufferedReader(_Unpacked(pieces))
            elif by_name and endings(self.path)[1]:
                raise DataError(f"{self.path} is damaged or not what its name says: it is not compressed")
            else:
                yield self._file

    def position(self) -> int:
        """The number of bytes of the open file itself (compressed, if it is) that were read so far."""
        return self._file.tell()


class _Unpacked(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._ahead = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        self._ahead = self._ahead or memoryview(next(self._pieces, b""))
        got = min(len(view), len(self._ahead))
        view[:got], self._ahead = self._ahead[:got], self._ahead[got:]
        return got


def _unpacked(path: str, kind: str, raw: BinaryIO, room: int) -> Iterator[bytes]:
    """The content of the frames (members, streams) of a compressed file, one after the other.

    Unlike the libraries' own readers, this one does not treat a truncated or damaged frame as the end of the file. It
    decompresses a few kilobytes at a time, which become at most 130 MB. More than `room` bytes in all are an error.
    """
    new: dict[str, Callable[[], Any]] = {
        "gzip": lambda: zlib.decompressobj(31),
        "xz": lambda: lzma.LZMADecompressor(memlimit=_MOST_MEMORY),
        "bzip2": bz2.BZ2Decompressor,
        "zstd": lambda: zstd_library().ZstdDecompressor().decompressobj(),
    }
    errors: Any = zstd_library().ZstdError if kind == "zstd" else (zlib.error, lzma.LZMAError, OSError, ValueError)
    damaged = f"{path} is damaged or not what its name says: a damaged or truncated {kind} file"
    size = 1 << 16 if kind == "gzip" else 1 << 12  # gzip compresses at most 1000-fold, others far more
    frame: Any = None
    ahead = b""
    while data := ahead or raw.read(size):
        ahead = b""
        if frame is None and kind in ("gzip", "xz"):  # zeros may follow a frame
            data = data.lstrip(b"\0")
            if not data:
                continue
        frame = frame or new[kind]()
        try:
            plain = frame.decompress(data)
        except errors as error:
            raise DataError(f"{damaged} ({error})") from error
        if frame.eof:
            frame, ahead = None, frame.unused_data
        room -= len(plain)
        if room < 0:
            raise DataError(
                f"{path} unpacks to more than {MOST_TIMES} times its size, which no ranking text does; if you trust "
                "it, unpack it yourself"
            )
        if plain:
            yield plain
    if frame is not None:
        raise DataError(f"{damaged} (the last frame is not complete)")


# Lines and fields.


def whole_bytes(path: PathLike, by_name: bool = False) -> bytearray:
    """The content of a file, decompressed if necessary; `by_name` as in `TextSource.open`."""
    content = bytearray()
    with TextSource(path).open(by_name) as file:
        while piece := file.read(1 << 20):
            content += piece
    return content


def pieces_of_lines(path: PathLike, size: int) -> Iterator[tuple[int, bytes]]:
    """The file in pieces: each has its first line that is not blank, and then about `size` bytes of whole lines.

    With each piece comes the number of lines of the file that are left out before the end of the first one.
    """
    with TextSource(path).open(by_name=True) as file:
        left_out = 0
        while not (first := file.readline()).strip() and first:
            left_out += 1
        lines = file.read(size) + file.readline()
        yield left_out, first + lines
        while lines:
            left_out += lines.count(b"\n")
            if lines := file.read(size) + file.readline():
                yield left_out, first + lines


def stream_lines(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """The number and bytes of every line of a file, without the newline. The file is decompressed piece by piece."""
    with TextSource(path).open() as file:
        yield from ((number, line.removesuffix(b"\n")) for number, line in enumerate(file, 1))


def refuse_zeros(path: PathLike, content: bytes | bytearray, left_out: int = 0) -> None:
    """Raise a DataError with the line of the first zero byte. `left_out` lines of the file are not in `content`."""
    zero = content.find(b"\0")
    if zero >= 0:
        line = content.count(b"\n", 0, zero) + 1 + left_out
        raise DataError(f"{os.fspath(path)}, line {line}: a zero byte, expected text (this looks like a binary file)")


def whole_text(path: PathLike, encodings: Sequence[str] = ("utf-8-sig",), by_name: bool = False) -> str:
    """The text of a file (see `whole_bytes`) in the first of the encodings that fits it. All lines end in "\\n"."""
    content, why = whole_bytes(path, by_name), ""
    refuse_zeros(path, content)
    for encoding in encodings:
        try:
            return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            why = f"byte {content[error.start]:#04x} on line {line}"
    raise DataError(f"{os.fspath(path)} is not UTF-8 text ({why}): convert it, for example with iconv -t UTF-8")


def split_lines(path: PathLike, text: str, delimiter: str = " ") -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of every line of `text` that is not blank. `path` is for errors.

    The delimiter " " means any number of blanks and tabs. If the delimiter is a comma or a semicolon, fields in quotes
    may contain it. A quote must close on its own line.

    >>> list(split_lines("x.csv", '1,"a, b"\\n\\n2,c\\n', ","))
    [(1, ['1', 'a, b']), (3, ['2', 'c'])]
    """
    lines = io.StringIO(text, newline=None)
    if delimiter not in (",", ";"):
        for number, line in enumerate(lines, start=1):
            if line.strip() and delimiter != " ":
                yield number, line.rstrip("\n").split(delimiter)
            elif line.strip():  # characters that are blank only in Unicode, such as U+2028, belong to words
                yield number, line.split() if line.isascii() else _WORD.findall(line)
        return
    reader, number = csv.reader(lines, delimiter=delimiter, strict=True), 0
    try:
        for fields in reader:
            number += 1
            if reader.line_num > number:
                raise open_quote(path, number)
            if len(fields) > 1 or "".join(fields).strip():
                yield number, fields
    except csv.Error as error:
        if reader.line_num > number + 1:
            raise open_quote(path, number + 1) from None
        raise DataError(f"{os.fspath(path)}, line {number + 1}: {error}; check the quotes on this line") from None


def open_quote(path: PathLike, line: int) -> DataError:
    """The error for a quote that does not close on its line. The following lines would become a part of its field."""
    return DataError(
        f'{os.fspath(path)}, line {line}: a quote (") is opened and not closed on this line; close it, take it out, or '
        'double it ("") inside quotes'
    )


# JSON records: one on each line, which are read one at a time, or JSON texts one after the other, each on any number of
# lines and with one or several records.

_BLANK = re.compile(r"[ \t\n\r]*")


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
    while (begin := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        line, at = line + text.count("\n", at, begin), begin
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield line, BrokenRecord(str(error)[:200])
            return
        yield line, value
        line, at = line + text.count("\n", at, end), end


def first_record(path: PathLike) -> dict[str, Any] | None:
    """The first record of a JSON file that is an object; None if there is none, or the file is not JSON."""
    if _first_line(path)[:1] not in (b"{", b"["):
        return None
    return next((value for _, value in json_records(path) if isinstance(value, dict)), None)


def _first_line(path: PathLike) -> bytes:
    lines = (line.removeprefix(b"\xef\xbb\xbf").strip() for _, line in stream_lines(path))
    return next((line for line in lines if line), b"")


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return BrokenRecord(str(error)[:200])
