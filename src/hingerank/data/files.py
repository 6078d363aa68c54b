"""Files: what kind one is, opening and compressing it, writing it whole or not at all, and tables in files."""

import bz2
import gzip
import io
import json
import lzma
import math
import os
import secrets
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

# The one error that bad data raises.


class DataError(ValueError):
    """A data file or array that cannot be used; the message names the place, what was found and what was expected."""


# Values as JSON holds them.


def plain(value: Any) -> Any:
    """`value` as JSON holds it: NumPy scalars and arrays as Python's own, keys as text, NaN and infinities as None."""
    if hasattr(value, "tolist"):  # NumPy's, without importing it
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def canonical(value: Any) -> str:
    """One text for equal values: JSON with sorted keys and no spaces."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# Files that appear whole or not at all.


@contextmanager
def draft_of(path: str | os.PathLike) -> Iterator[Path]:
    """A name beside `path` to write to; the file written there takes the place of `path` only when all went well."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        yield draft
        with open(draft, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


# Text files as streams of bytes, compressed or not: read by their first bytes, written by their suffix, atomically.


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


# Files of tables as pyarrow reads and writes them: Parquet, Feather, CSV; the name says which.


KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".csv": "csv",
    ".tsv": "tsv",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".xz")  # after .csv and .tsv


def need(library: str, purpose: str) -> Any:
    """The imported library, or a DataError that says how to install it."""
    try:
        return import_module(library)
    except ImportError:
        raise DataError(f"{purpose} needs {library}: pip install 'hingerank[frames]'") from None


def table_kind(path: Path) -> str:
    """ "parquet", "feather", "csv" or "tsv"."""
    name = path.name.lower()
    plain = name.removesuffix(Path(name).suffix) if name.endswith(COMPRESSED) else name
    kind = KINDS.get(Path(plain).suffix)
    if kind is None or (plain != name and kind not in ("csv", "tsv")):
        raise DataError(
            f"{path}: the name does not say what kind of table it is; expected {', '.join(KINDS)}, the last two "
            f"perhaps with {', '.join(COMPRESSED)}"
        )
    return kind


def read_table(path: Path, columns: list[str] | None = None, ids: Collection[str] = ()) -> Any:
    """A pyarrow table; of a Parquet file only `columns`, if all of them are there.

    ids: columns of ids, which a CSV file may write with digits and yet not as numbers: 007 is not 7.
    """
    kind = table_kind(path)
    pa = need("pyarrow", f"reading {path.name}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        if kind == "parquet":
            return _read_parquet(path, columns)
        return _read_feather(path) if kind == "feather" else _with_ids(_read_csv(path, kind), path, kind, ids)
    except (pa.ArrowException, OSError, EOFError, ValueError, KeyError, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}") from None


def write_table(table: Any, path: Path) -> None:
    """Write a pyarrow table to a temporary name in the same folder, then rename it."""
    temporary = path.parent / f".{secrets.token_hex(6)}.{path.name}"  # the ending stays: it chooses the compression
    try:
        _write(table, str(temporary), table_kind(path))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_parquet(path: Path, columns: list[str] | None) -> Any:
    import pyarrow.parquet as pq

    if columns is not None:
        known = set(pq.read_schema(path).names)
        columns = columns if known >= set(columns) else None  # from_frame names the one that is not there
    return pq.read_table(path, columns=columns)


def _read_feather(path: Path) -> Any:
    import pyarrow.feather as feather

    return feather.read_table(path)


def _read_csv(path: Path, kind: str, texts: list[str] | None = None) -> Any:
    """The table, or some of its columns as text."""
    import pyarrow.csv as csv

    options: dict[str, Any] = {"parse_options": csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",")}
    if texts is not None:
        types = dict.fromkeys(texts, "string")
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=texts)
    if path.suffix.lower() != ".xz":  # pyarrow unpacks the others by itself
        return csv.read_csv(path, **options)
    with lzma.open(path) as stream:
        return csv.read_csv(stream, **options)


def _with_ids(table: Any, path: Path, kind: str, ids: Collection[str]) -> Any:
    """The table with those columns of ids as text that are not the numbers which pyarrow takes them for."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    numeric = [n for n in dict.fromkeys(ids) if n in table.column_names and table.column_names.count(n) == 1]
    numeric = [n for n in numeric if kinds.is_integer(table[n].type) or kinds.is_floating(table[n].type)]
    written = _read_csv(path, kind, numeric) if numeric else table
    for name in numeric:
        numbers, texts = table[name], pc.utf8_trim_whitespace(written[name])
        odd = pc.match_substring_regex(texts, r"^[+-]?(0[0-9]|[0-9]{16})")  # digits that a number may drop
        same = pc.count_distinct(numbers).as_py() == pc.count_distinct(texts).as_py()
        if numbers.null_count == 0 and (not same or (pc.any(odd).as_py() and not _as_written(numbers, texts))):
            table = table.set_column(table.column_names.index(name), name, texts)
    return table


def _as_written(numbers: Any, texts: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.equal(pc.cast(numbers, "string"), texts)).as_py())


def _write(table: Any, path: str, kind: str) -> None:
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif kind == "feather":
        import pyarrow.feather as feather

        feather.write_feather(table, path)
    else:
        import pyarrow.csv as csv

        with lzma.open(path, "wb") if path.lower().endswith(".xz") else pa.output_stream(path) as stream:
            csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
