"""Text files as streams of bytes, compressed or not: read by their first bytes, written by their suffix, atomically."""

import bz2
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from hingerank.data.errors import DataError
from hingerank.data.whole_files import draft_of

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_OTHER = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "a Parquet file: give it the suffix .parquet",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"Rar!": "a rar archive: unpack it first",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}


class TextSource:
    """A file that can be read from the start more than once (a pipe is kept in memory)."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)
        status = os.stat(self.path)
        self.size = status.st_size
        self._kept: bytes | None = None
        if not stat.S_ISREG(status.st_mode):
            self._kept = Path(self.path).read_bytes()
            self.size = len(self._kept)

    @contextmanager
    def open(self) -> Iterator["ByteStream"]:
        raw: BinaryIO = open(self.path, "rb", buffering=0) if self._kept is None else io.BytesIO(self._kept)  # noqa: SIM115
        with raw:
            yield ByteStream(self.path, raw)


class ByteStream:
    """The plain bytes of a file; a damaged compressed file raises DataError."""

    def __init__(self, path: str, raw: BinaryIO) -> None:
        start = raw.read(8)
        raw.seek(0)
        self.path, self._raw = path, raw
        self.kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "plain")
        other = next((what for magic, what in _OTHER.items() if start.startswith(magic)), None)
        if other:
            raise DataError(
                f"{path}: this is {other}; expected text lines, plain or compressed (gzip, xz, bzip2, zstd)"
            )
        self._plain = _decompressor(self.kind, raw)

    def fill(self, view: memoryview) -> int:
        """Read until `view` is full or the file ends; returns the number of bytes."""
        done = 0
        try:
            while done < len(view):
                got = self._plain.readinto(view[done:])
                if not got:
                    break
                done += got
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
            if self.kind == "plain":
                raise
            raise DataError(f"{self.path}: damaged or truncated {self.kind} file ({error})") from error
        return done

    def position(self) -> int:
        """Bytes of the file itself read so far."""
        return self._raw.tell()


def _decompressor(kind: str, raw: BinaryIO) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if kind == "xz":
        return lzma.LZMAFile(raw, "rb")
    if kind == "bzip2":
        return bz2.BZ2File(raw, "rb")
    return _ZstdReader(raw) if kind == "zstd" else raw


class _ZstdReader:
    """Frames of a zstd file one after the other (the library's own reader takes a truncated frame for the end)."""

    def __init__(self, raw: BinaryIO) -> None:
        self._library = _zstandard()
        self._raw, self._ahead = raw, b""
        self._frame: Any = None
        self._plain = memoryview(b"")

    def readinto(self, view: memoryview) -> int:
        while not self._plain:
            data = self._ahead or self._raw.read(1 << 17)
            if not data:
                if self._frame is not None:
                    raise EOFError("the last frame is not complete")
                return 0
            if self._frame is None:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                self._plain = memoryview(self._frame.decompress(data))
            except self._library.ZstdError as error:
                raise ValueError(str(error)) from error
            self._ahead = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        count = min(len(view), len(self._plain))
        view[:count] = self._plain[:count]
        self._plain = self._plain[count:]
        return count


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise DataError("a .zst file needs the zstandard package: pip install 'hingerank[zstd]'") from error
    return zstandard


@contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Any]:
    """A binary file to write; it takes the place of `path` only when all went well. The suffix says how to compress."""
    with draft_of(path) as draft, open(draft, "xb") as raw, _compressor(Path(path).suffix, raw) as out:
        yield out


@contextmanager
def _compressor(suffix: str, raw: BinaryIO) -> Iterator[Any]:
    out: Any = raw
    if suffix == ".gz":
        out = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0)
    elif suffix == ".xz":
        out = lzma.LZMAFile(raw, "wb", preset=1)  # noqa: SIM115
    elif suffix == ".bz2":
        out = bz2.BZ2File(raw, "wb")
    elif suffix == ".zst":
        out = _zstandard().ZstdCompressor(level=3).stream_writer(raw, closefd=False)
    yield out
    if out is not raw:
        out.close()
