"""Files: the kinds of paths, writing and compressing whole or not at all, JSON. Nothing here needs NumPy."""

import bz2
import errno
import gzip
import json
import lzma
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Self

from hingerank.registry import did_you_mean

PathLike = str | os.PathLike[str]
UBI = "User Behavior Insights (UBI)"


class DataError(ValueError):
    """A data file or array that cannot be used; the message names the place, what was found and what was expected.

    Parameters
    ----------
    problem : str
        The message.
    remedy : str
        What a caller in Python can do about it; it follows the problem after a semicolon.
    option : str, optional
        The parameter that `remedy` is about. The command line replaces the remedy by words of its own.
    """

    def __init__(self, problem: str, remedy: str = "", option: str | None = None) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem, self.remedy, self.option = problem, remedy, option

    def at(self, place: PathLike) -> Self:
        """The same error about data in `place`."""
        return type(self)(f"{os.fspath(place)}: {self.problem}", self.remedy, self.option)


def no_such_file(path: PathLike) -> str:
    """What to say of a path where nothing is, with the files and folders beside it that have a name like it."""
    asked, beside = Path(path), {}
    with suppress(OSError):
        names = sorted(islice((p.name for p in asked.parent.iterdir() if not p.name.startswith(".")), 1000))
        for name in sorted(names, key=lambda name: Path(name).suffix == asked.suffix):  # of the same kind: the last
            beside[Path(name).stem] = str(asked.parent / name)
    return f"{asked}: there is no such file or folder{did_you_mean(asked.stem, beside, beside)}"


def other_format(buffer: bytes | bytearray, place: int) -> tuple[()] | tuple[str, str]:
    """The remedy and the option of a `DataError` for a line that has another format which this library reads.

    Such a line has no number as its label, or no index:value after it. Any other line gives ().

    >>> other_format(b"1\\t1193\\t5\\n", 2)
    ('this looks like ratings of users: read it with hr.read_ratings', 'ratings')
    """
    start = buffer.rfind(b"\n", 0, place) + 1
    line = bytes(buffer[start : buffer.find(b"\n", start)]).strip()
    if line.startswith((b"{", b"[")):
        clicks, logged = f"hr.read_clicks for clicks such as {UBI}", "hr.read_feature_log for logged features"
        return f"this looks like JSON: use {clicks}, or {logged}", "json"
    if re.match(rb"[^\t]+\t[^\t:]*,[^\t:]*:[^\t]*;", line):
        return "this looks like the sessions of a click log: read it with hr.read_clicks", "click log"
    if re.fullmatch(rb"[-+.\de]+((\t|::|,|;)[-+.\de]+){2,}", line):
        return "this looks like ratings of users: read it with hr.read_ratings", "ratings"
    return ()


# Kinds of paths.

PACKED = {".gz": ("gzip", b"\x1f\x8b"), ".xz": ("xz", b"\xfd7zXZ\x00"), ".bz2": ("bzip2", b"BZh"),
           ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}  # fmt: skip
COMPRESSIONS = tuple(PACKED)
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
    packs, hint = ", ".join(COMPRESSIONS), did_you_mean(holds, [*TABLES, *TEXTS])
    raise DataError(
        f"cannot tell from its ending what {name} should be: end it in / for a binary folder, in {', '.join(TABLES)} "
        f"for a table, or in {', '.join(TEXTS)} for text; {packs} after .csv, .tsv or text compress{hint}"
    )


def is_binary(folder: PathLike) -> bool:
    """Whether this folder holds the binary form (of any version)."""
    try:
        return json.loads((Path(folder) / BINARY_HEADER).read_bytes())["format"] == BINARY_FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


ROLES = ("train", "validation", "test")
_PART, _FOLD = re.compile(r"s(\d+)"), re.compile(r"fold(\d+)")
_ROLE = re.compile(r"(?:fold(\d+)[._-])?(train|vali|valid|validation|test|(?:training|validation|test)set)")


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
                role = next(role for role in ROLES if role.startswith(match[2][:3]))  # trainingset: LETOR 3.0's names
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


def _add_once(found: dict, key: Hashable, path: Path) -> None:
    if key in found:
        raise DataError(f"{path.parent}: both {found[key].name} and {path.name} are there; keep one of them")
    found[key] = path


# Files and folders that appear whole or not at all.

SCRATCH = ".hingerank-"  # how the hidden folders begin that hold what is not finished
_REPLACED = "replaced"  # in such a folder: what was at the target before


@contextmanager
def scratch_folder(folder: PathLike) -> Iterator[Path]:
    """A new hidden folder inside `folder` to work in, which is gone afterwards; those of killed processes go first.

    Its process holds a lock on it, which ends with the process however that ends: what is locked is in use.
    """
    place = Path(folder)
    _clear_scratch(place)
    while True:
        scratch = place / f"{SCRATCH}{secrets.token_hex(6)}"
        scratch.mkdir()
        try:
            held = _lock_folder(scratch)
            break
        except (BlockingIOError, FileNotFoundError):  # another process took it for left over before it was locked
            continue
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if held is not None:
            os.close(held)


def _lock_folder(folder: Path) -> int | None:
    """The descriptor that holds the lock of this folder; None where the system has no such locks.

    BlockingIOError: another process holds it. FileNotFoundError: the folder is gone.
    """
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(folder)
        return descriptor
    except (BlockingIOError, FileNotFoundError):
        os.close(descriptor)
        raise
    except OSError:  # as on some network drives
        os.close(descriptor)
        return None


def _clear_scratch(place: Path) -> None:
    """Remove what killed processes left in a folder; what they were about to replace is put back first."""
    try:
        hidden = [entry for entry in os.scandir(place) if entry.name.startswith(SCRATCH)]
        found = [Path(entry.path) for entry in hidden if _is_ours(entry.stat(follow_symlinks=False))]
    except OSError:
        return
    for scratch in found:
        with suppress(OSError):
            held = _lock_folder(scratch)
            if held is None:
                continue
            try:
                for old in (scratch / _REPLACED).glob("*"):
                    if not (place / old.name).exists():
                        os.replace(old, place / old.name)
                shutil.rmtree(scratch, ignore_errors=True)
            finally:
                os.close(held)


def _is_ours(status: os.stat_result) -> bool:
    """Whether this is a folder, and no link, of the user whose process this is."""
    return stat.S_ISDIR(status.st_mode) and status.st_uid == getattr(os, "getuid", lambda: 0)()


@contextmanager
def draft_of(path: PathLike) -> Iterator[Path]:
    """A name for a new file or folder, which takes the place of `path` only when all went well.

    A disk that is full, and a folder that is missing or may not be written to, are errors that name `path`.
    """
    target = Path(path)
    with naming(target), scratch_folder(target.parent) as scratch:
        draft = scratch / target.name  # with the same ending: libraries choose a format by it
        yield draft
        if draft.is_dir():
            _replace_folder(draft, target)
        else:
            with open(draft, "r+b") as file:
                os.fsync(file.fileno())
            os.replace(draft, target)
        sync_folder(target.parent)


def disk_is_full(error: BaseException) -> bool:
    """Whether this is about the space on a disk, or what one user or file may take of it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def naming(target: PathLike) -> Iterator[None]:
    """Errors of writing to `target` name it: those of a full disk name no file, others perhaps a hidden draft."""
    try:
        yield
    except OSError as error:
        full = disk_is_full(error)
        if error.errno is None or not (full or SCRATCH in str(error.filename)):
            raise
        also = ": make room or choose another place; what was there before is unchanged" if full else ""
        raise OSError(error.errno, os.strerror(error.errno) + also, os.fspath(target)) from error


def write_whole(path: PathLike, content: bytes) -> None:
    """Write a file, and the folders above it, so that a reader sees the old content or the new, never a part."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        draft.write_bytes(content)


def sync_folder(folder: PathLike) -> None:
    """Make a new or renamed file's name as lasting as its content, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace_folder(draft: Path, target: Path) -> None:
    """Rename into place; a folder that was there goes aside first, and comes back if the renaming fails."""
    if not target.exists() or not any(target.iterdir()):
        os.replace(draft, target)
        return
    aside = draft.parent / _REPLACED / target.name
    aside.parent.mkdir()
    os.replace(target, aside)
    try:
        os.replace(draft, target)
    except BaseException:
        os.replace(aside, target)
        raise


@contextmanager
def replace_file(path: PathLike) -> Iterator[Any]:
    """A binary file to write; it takes the place of `path` only when all went well. The ending says how to compress.

    All that is compressed carries a checksum.
    """
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
            out = zstd_library().ZstdCompressor(level=3, write_checksum=True).stream_writer(raw, closefd=False)
        yield out
        if out is not raw:
            out.close()


def zstd_library() -> Any:
    """The optional package for .zst files."""
    try:
        import zstandard
    except ImportError as error:
        raise DataError("a .zst file needs the zstandard package: pip install 'hingerank[zstd]'") from error
    return zstandard


# Values as JSON holds them.


def plain(value: object) -> Any:
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


def canonical(value: object) -> str:
    """One text for equal values: JSON with sorted keys and no spaces."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
