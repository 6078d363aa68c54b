"""Files: the kinds of paths, opening and compressing, writing whole or not at all, lines of delimited text, JSON.

A compressed file is recognised by its first bytes when it is read, and asked for by its ending when it is written.
Nothing here needs NumPy.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

PathLike = str | os.PathLike[str]


class DataError(ValueError):
    """A data file or array that cannot be used; the message names the place, what was found and what was expected.

    Parameters
    ----------
    problem : str
        The message.
    remedy : str
        What a caller in Python can do about it; it follows the problem after a comma.
    option : str, optional
        The parameter that `remedy` is about, for callers such as the command line that name it otherwise.
    """

    def __init__(self, problem: str, remedy: str = "", option: str | None = None) -> None:
        super().__init__(f"{problem}, {remedy}" if remedy else problem)
        self.problem, self.remedy, self.option = problem, remedy, option

    def at(self, place: PathLike) -> Self:
        """The same error about data in `place`."""
        return type(self)(f"{os.fspath(place)}: {self.problem}", self.remedy, self.option)


# Kinds of paths.

_PACKED = {".gz": ("gzip", b"\x1f\x8b"), ".xz": ("xz", b"\xfd7zXZ\x00"), ".bz2": ("bzip2", b"BZh"),
           ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}  # fmt: skip
COMPRESSIONS = tuple(_PACKED)
TEXTS = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".data")
TABLES = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather",
          ".csv": "csv", ".tsv": "tsv"}  # fmt: skip
BINARY_FORMAT, BINARY_HEADER = "hingerank-data", "header.json"


def endings(path: PathLike) -> tuple[str, str]:
    """(what a file holds, how it is compressed) by the endings of its name, in lower case.

    >>> endings("a/b.CSV.gz"), endings("b.txt"), endings("b.xz"), endings("b")
    (('.csv', '.gz'), ('.txt', ''), ('', '.xz'), ('', ''))
    """
    stem, last = os.path.splitext(Path(path).name.lower())
    return (os.path.splitext(stem)[1], last) if last in COMPRESSIONS else (last, "")


def kind_to_read(path: PathLike) -> str:
    """The kind of data at a path: "text", "table", "binary" or "folds" (folders), or "folder" (of anything else)."""
    if os.path.isdir(path):
        return "binary" if is_binary(path) else "folds" if fold_files(path) else "folder"
    return "table" if endings(path)[0] in TABLES else "text"


def kind_to_write(path: PathLike) -> str:
    """The kind of data that a name asks for: "text", "table" or "binary" (a folder)."""
    name = os.fspath(path)
    holds, packed = endings(name)
    if name.endswith(("/", os.sep)) or os.path.isdir(name) or not (holds or packed):
        return "binary"
    if TABLES.get(holds) in ("csv", "tsv") or (holds in TABLES and not packed):
        return "table"
    if holds in TEXTS or not holds:
        return "text"
    raise DataError(
        f"cannot tell from its ending what {name} should be: end it in / for a binary folder, in {', '.join(TABLES)} "
        f"for a table, or in {', '.join(TEXTS)} for text; {', '.join(COMPRESSIONS)} after .csv, .tsv or text compress"
    )


def is_binary(folder: PathLike) -> bool:
    """Whether this folder holds the binary form (of any version)."""
    try:
        return json.loads((Path(folder) / BINARY_HEADER).read_bytes())["format"] == BINARY_FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


ROLES = ("train", "validation", "test")
_PART, _FOLD = re.compile(r"s(\d+)"), re.compile(r"fold(\d+)")
_ROLE = re.compile(r"(?:fold(\d+)[._-])?(train|vali|valid|validation|test)")


def fold_parts(folder: PathLike) -> dict[int, Path]:
    """The parts S1, S2, … of a folder: number -> file."""
    found: dict[int, Path] = {}
    for path in sorted(Path(folder).iterdir()):
        if (match := _PART.fullmatch(_text_stem(path))) and path.is_file():
            _add_once(found, int(match[1]), path)
    return found


def fold_roles(folder: PathLike) -> dict[int, dict[str, Path]]:
    """Fold1, Fold2, … of a folder: number -> role -> file; number 0 for train, vali and test files in it itself."""
    found: dict[int, dict[str, Path]] = {}
    for path in sorted(Path(folder).iterdir()):
        inside = _FOLD.fullmatch(path.name.lower()) if path.is_dir() else None
        for file in sorted(path.iterdir()) if inside else [path]:
            match = _ROLE.fullmatch(_text_stem(file))
            if match and file.is_file() and not (inside and match[1]):
                role = "validation" if match[2].startswith("val") else match[2]
                _add_once(found.setdefault(int(inside[1] if inside else match[1] or 0), {}), role, file)
    return found


def has_folds(folder: PathLike) -> bool:
    """Whether a folder holds parts or folds; train, vali and test files in it itself are no folds."""
    return bool(fold_parts(folder)) or not set(fold_roles(folder)) <= {0}


def fold_files(folder: PathLike) -> list[Path]:
    """Files that together hold every row of the folder once: the parts, or the folds' test files; [] if neither."""
    parts, roles = fold_parts(folder), fold_roles(folder)
    if parts:
        return [parts[k] for k in sorted(parts)]
    if set(roles) == {0}:  # a single fold
        return [roles[0][role] for role in ROLES if role in roles[0]]
    return [roles[k]["test"] for k in sorted(roles) if "test" in roles[k]]


def _text_stem(path: Path) -> str:
    """The name of a text file without the endings that say so, in lower case."""
    name = path.name.lower()
    for known in (COMPRESSIONS, TEXTS):
        stem, last = os.path.splitext(name)
        name = stem if last in known else name
    return name


def _add_once(found: dict, key: Any, path: Path) -> None:
    if key in found:
        raise DataError(f"{path.parent}: both {found[key].name} and {path.name} are there; keep one of them")
    found[key] = path


# Files and folders that appear whole or not at all.


@contextmanager
def draft_of(path: PathLike) -> Iterator[Path]:
    """A name beside `path` for a new file or folder, which takes the place of `path` only when all went well."""
    target = Path(path)
    draft = _beside(target)
    try:
        yield draft
        if draft.is_dir():
            _replace_folder(draft, target)
        else:
            with open(draft, "r+b") as file:
                os.fsync(file.fileno())
            os.replace(draft, target)
        sync_folder(target.parent)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def write_whole(path: PathLike, content: bytes) -> None:
    """Write a file, and the folders above it, so that a reader sees the old content or the new, never a part."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        draft.write_bytes(content)


def sync_folder(folder: PathLike) -> None:
    """Make a new or renamed file's name as lasting as its content, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _beside(target: Path) -> Path:
    """A name that nobody uses, with the same ending: libraries choose a format by it."""
    return target.with_name(f".{secrets.token_hex(6)}.{target.name}")


def _replace_folder(draft: Path, target: Path) -> None:
    """Rename into place; a folder that was there goes aside first, and comes back if the renaming fails."""
    if not target.exists() or not any(target.iterdir()):
        os.replace(draft, target)
        return
    aside = _beside(target)
    os.replace(target, aside)
    try:
        os.replace(draft, target)
    except BaseException:
        os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def replace_file(path: PathLike) -> Iterator[Any]:
    """A binary file to write; it takes the place of `path` only when all went well. The ending says how to compress."""
    with draft_of(path) as draft, open(draft, "xb") as raw:
        packed = endings(path)[1]
        out: Any = raw
        if packed == ".gz":
            out = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0)
        elif packed == ".xz":
            out = lzma.LZMAFile(raw, "wb", preset=1)  # noqa: SIM115
        elif packed == ".bz2":
            out = bz2.BZ2File(raw, "wb")
        elif packed == ".zst":
            out = _zstandard().ZstdCompressor(level=3).stream_writer(raw, closefd=False)
        yield out
        if out is not raw:
            out.close()


# Text files as streams of plain bytes.

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

    def __init__(self, path: PathLike) -> None:
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
    """The plain bytes of a file; `kind` is "plain" or the name of its compression. Damage raises a DataError."""

    def __init__(self, path: str, raw: BinaryIO) -> None:
        start = raw.read(8)
        raw.seek(0)
        self.path, self._raw = path, raw
        self.kind = next((kind for kind, magic in _PACKED.values() if start.startswith(magic)), "plain")
        other = next((what for magic, what in _OTHER.items() if start.startswith(magic)), None)
        if other:
            names = ", ".join(kind for kind, _ in _PACKED.values())
            raise DataError(f"{path}: this is {other}; expected text lines, plain or compressed ({names})")
        unpack: dict[str, Any] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open, "zstd": _ZstdReader}
        self._plain: Any = raw if self.kind == "plain" else unpack[self.kind](raw)

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
            what = f"a damaged or truncated {self.kind} file ({error})"
            raise DataError(f"{self.path} is damaged or not what its name says: {what}") from error
        return done

    def position(self) -> int:
        """Bytes of the file itself read so far."""
        return self._raw.tell()


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


# Delimited text.


def whole_text(path: PathLike, encodings: Sequence[str] = ("utf-8-sig",), by_name: bool = False) -> str:
    """The text of a file, unpacked if it is compressed, in the first of the encodings that fits it.

    by_name=True refuses plain text in a file whose name says that it is compressed.
    """
    parts, view = [], memoryview(bytearray(1 << 20))
    with TextSource(path).open() as stream:
        if by_name and stream.kind == "plain" and endings(path)[1]:
            raise DataError(f"{os.fspath(path)} is damaged or not what its name says: it is not compressed")
        while got := stream.fill(view):
            parts.append(bytes(view[:got]))
    content, why = b"".join(parts), ""
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            why = str(error)
    raise DataError(f"{os.fspath(path)} is not UTF-8 text: {why}")


def split_lines(path: PathLike, text: str, delimiter: str = " ") -> Iterator[tuple[int, list[str]]]:
    """Number and fields of every line of `text` that is not blank; `path` is for errors.

    A blank as delimiter means any number of them. Quotes may hold a delimiter that is a comma or a semicolon.

    >>> list(split_lines("x.csv", '1,"a, b"\\n\\n2,c\\n', ","))
    [(1, ['1', 'a, b']), (3, ['2', 'c'])]
    """
    lines = io.StringIO(text, newline=None)
    if delimiter not in (",", ";"):
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line.rstrip("\n").split(None if delimiter == " " else delimiter)
        return
    reader = csv.reader(lines, delimiter=delimiter, strict=True)  # strict: a quote left open swallows no lines
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{os.fspath(path)}, line {reader.line_num}: {error}") from None


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
