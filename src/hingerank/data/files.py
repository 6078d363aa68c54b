"""Kinds of files, writing and compressing files that appear only when complete, and JSON. Nothing here needs NumPy."""

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
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Self

from hingerank.registry import did_you_mean

PathLike = str | os.PathLike[str]
UBI = "User Behavior Insights (UBI)"


class DataError(ValueError):
    """A data file or array cannot be used. The message says where, what was found and what was expected.

    Parameters
    ----------
    problem : str
        The message.
    remedy : str
        What a user of Python can do about it. It follows the problem after a semicolon.
    option : str, optional
        The parameter that `remedy` is about. The command line uses it to show another remedy.
    """

    def __init__(self, problem: str, remedy: str = "", option: str | None = None) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem, self.remedy, self.option = problem, remedy, option

    def at(self, place: PathLike) -> Self:
        """The same error with the path `place` before the message."""
        return type(self)(f"{os.fspath(place)}: {self.problem}", self.remedy, self.option)


def no_such_file(path: PathLike) -> str:
    """The message for a path that does not exist, with files and folders beside it that have a similar name."""
    asked, beside = Path(path), {}
    if os.fspath(path) == "-":
        return "-: there is no such file; name /dev/stdin to read from standard input"
    with suppress(OSError):
        names = sorted(islice((p.name for p in asked.parent.iterdir() if not p.name.startswith(".")), 1000))
        for name in sorted(names, key=lambda name: Path(name).suffix == asked.suffix):  # the last wins: the same suffix
            beside[Path(name).stem] = str(asked.parent / name)
    return f"{asked}: there is no such file or folder{did_you_mean(asked.stem, beside, beside)}"


_OTHER_FORMATS = (  # how a line in another format begins; the remedy and the option of the error about it
    (rb"[{\[]", f"this looks like JSON: use hr.read_clicks for clicks such as {UBI}, or hr.read_feature_log for logged "
     "features", "json"),
    (rb"[^\t]+\t[^\t:]*,[^\t:]*:[^\t]*;", "this looks like the sessions of a click log: read it with hr.read_clicks",
     "click log"),
    (rb"[-+.\de]+((\t|::|,|;)[-+.\de]+){2,}$", "this looks like ratings of users: read it with hr.read_ratings",
     "ratings"),
    (rb"[^\s,;]+([,;\t] ?[^\s,;]+)+$", "this looks like a table: end its name in .csv or .tsv", "table"),
)  # fmt: skip


def other_format(buffer: bytes | bytearray, place: int) -> tuple[()] | tuple[str, str]:
    """The remedy and the option of a `DataError` about a line in another format that this library can read.

    The line is one whose label is not a number, or that has no index:value after it. If its format is not known, the
    result is ().

    >>> other_format(b"1\\t1193\\t5\\n", 2)
    ('this looks like ratings of users: read it with hr.read_ratings', 'ratings')
    """
    start = buffer.rfind(b"\n", 0, place) + 1
    line = bytes(buffer[start : buffer.find(b"\n", start)]).strip()
    return next(((remedy, option) for begins, remedy, option in _OTHER_FORMATS if re.match(begins, line)), ())


# Kinds of paths.

PACKED = {".gz": ("gzip", b"\x1f\x8b"), ".xz": ("xz", b"\xfd7zXZ\x00"), ".bz2": ("bzip2", b"BZh"),
           ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}  # fmt: skip
COMPRESSIONS = tuple(PACKED)
TEXTS = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".data")
TABLES = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather",
          ".csv": "csv", ".tsv": "tsv"}  # fmt: skip
BINARY_FORMAT, BINARY_HEADER = "hingerank-data", "header.json"


def endings(path: PathLike) -> tuple[str, str]:
    """The two endings of a file's name, in lower case: one for its kind, one for its compression.

    >>> endings("a/b.CSV.gz"), endings("b.txt"), endings("b.xz"), endings("b")
    (('.csv', '.gz'), ('.txt', ''), ('', '.xz'), ('', ''))
    """
    stem, last = os.path.splitext(Path(path).name.lower())
    return (os.path.splitext(stem)[1], last) if last in COMPRESSIONS else (last, "")


def kind_to_read(path: PathLike) -> str:
    """The kind of data at a path: "text", "table", "binary" or "folds" (both are folders), or "folder" (any other)."""
    if os.path.isdir(path):
        return "binary" if is_binary(path) else "folds" if fold_files(path) else "folder"
    return "table" if endings(path)[0] in TABLES else "text"


def kind_to_write(path: PathLike) -> str:
    """The kind of data to write, by the name: "text", "table" or "binary" (a folder)."""
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
        f"for a table, or in {', '.join(TEXTS)} for text; add {packs} to .csv, .tsv or text to compress it{hint}"
    )


def is_binary(folder: PathLike) -> bool:
    """Whether this folder holds binary data (of any version)."""
    try:
        return json.loads((Path(folder) / BINARY_HEADER).read_bytes())["format"] == BINARY_FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


ROLES = ("train", "validation", "test")
_PART, _FOLD = re.compile(r"s(\d+)"), re.compile(r"fold(\d+)")
_ROLE = re.compile(r"(?:fold(\d+)[._-])?(train|vali|valid|validation|test|(?:training|validation|test)set)")


def find_folds(folder: PathLike) -> tuple[dict[int, Path], dict[int, dict[str, Path]]]:
    """The files S1, S2, … of a folder by their number, and those of Fold1, Fold2, … by fold number and role.

    Train, vali and test files that are directly in the folder have the number 0.
    """
    parts: dict[int, Path] = {}
    roles: dict[int, dict[str, Path]] = {}
    for path in sorted(Path(folder).iterdir()):
        inside = _FOLD.fullmatch(path.name.lower()) if path.is_dir() else None
        for file in sorted(path.iterdir()) if inside else [path]:
            stem = _text_stem(file)
            if not file.is_file():
                continue
            if not inside and (match := _PART.fullmatch(stem)):
                _add_once(parts, int(match[1]), file)
            elif (match := _ROLE.fullmatch(stem)) and not (inside and match[1]):
                role = next(role for role in ROLES if role.startswith(match[2][:3]))  # trainingset: LETOR 3.0's names
                _add_once(roles.setdefault(int(inside[1] if inside else match[1] or 0), {}), role, file)
    return parts, roles


def has_folds(folder: PathLike) -> bool:
    """Whether a folder holds parts or folds. Train, vali and test files directly in the folder do not count."""
    parts, roles = find_folds(folder)
    return bool(parts) or not set(roles) <= {0}


def fold_files(folder: PathLike) -> list[Path]:
    """Files that together hold every row of the folder once: the parts, or the folds' test files. [] without both."""
    parts, roles = find_folds(folder)
    if parts:
        return [parts[k] for k in sorted(parts)]
    if set(roles) == {0}:  # a single fold
        return [roles[0][role] for role in ROLES if role in roles[0]]
    tests = [roles[k]["test"] for k in sorted(roles) if "test" in roles[k]]
    lacking = [k for k in sorted(roles) if k and "test" not in roles[k]]
    if tests and lacking:
        raise DataError(f"{folder}: fold {lacking[0]} has no test file, and other folds have one; add it")
    return tests


def _text_stem(path: Path) -> str:
    """The name of a text file without its endings for text and compression, in lower case."""
    holds, packed = endings(path)
    return path.name.lower().removesuffix(packed).removesuffix(holds if holds in TEXTS else "")


def _add_once(found: dict, key: Hashable, path: Path) -> None:
    if key in found:
        raise DataError(f"{path.parent}: both {found[key].name} and {path.name} are there; keep one of them")
    found[key] = path


# Files and folders that appear only when they are complete.

SCRATCH = ".hingerank-"  # names of hidden folders begin so, which hold unfinished files
_REPLACED = "replaced"  # inside such a folder: what was at the target before


@contextmanager
def scratch_folder(folder: PathLike) -> Iterator[Path]:
    """A new hidden folder inside `folder` to work in. It is removed afterwards.

    Hidden folders that killed processes left are removed first. A process holds a lock on its own one, which ends with
    the process, also if it is killed. A locked folder is therefore in use.
    """
    place, held = Path(folder), None
    _clear_scratch(place)
    while True:
        scratch = place / f"{SCRATCH}{secrets.token_hex(6)}"
        scratch.mkdir()
        with suppress(BlockingIOError, FileNotFoundError):  # another process removed it before it was locked
            held = _lock_folder(scratch)
            break
    try:
        yield scratch
    finally:
        _remove_scratch(scratch, held)


def _lock_folder(folder: Path) -> int | None:
    """Lock this folder and return the file descriptor that holds the lock; None if the system has no such locks.

    A BlockingIOError means that another process holds the lock, a FileNotFoundError that the folder was removed.
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
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError | FileNotFoundError):
            raise
        return None  # some network drives have no locks


def _remove_scratch(scratch: Path, held: int | None) -> None:
    """Remove a hidden folder and its lock. What it was about to replace is put back, if nothing is in its place."""
    try:
        for old in (scratch / _REPLACED).glob("*"):
            if not (scratch.parent / old.name).exists():
                os.replace(old, scratch.parent / old.name)
        shutil.rmtree(scratch, ignore_errors=True)
    finally:
        if held is not None:
            os.close(held)


def _clear_scratch(place: Path) -> None:
    """Remove what killed processes left in a folder. Folders of other users, and links, are left alone."""
    user = getattr(os, "getuid", lambda: 0)()
    with suppress(OSError):
        for scratch in [Path(entry.path) for entry in os.scandir(place) if entry.name.startswith(SCRATCH)]:
            with suppress(OSError):
                status = scratch.lstat()
                if not stat.S_ISDIR(status.st_mode) or status.st_uid != user:
                    continue
                held = _lock_folder(scratch)
                if held is not None:
                    _remove_scratch(scratch, held)


@contextmanager
def draft_of(path: PathLike) -> Iterator[Path]:
    """A temporary name for a new file or folder. It replaces `path` at the end, if there was no error.

    Missing folders above `path` are made, and removed again after an error. A full disk and a missing permission are
    errors that name `path`.
    """
    target = Path(path)
    with naming(target), _folders_above(target), scratch_folder(target.parent) as scratch:
        draft = scratch / target.name  # with the same ending, by which libraries choose a format
        yield draft
        if not draft.is_dir():
            with open(draft, "r+b") as file:
                os.fsync(file.fileno())
        elif target.exists() and any(target.iterdir()):  # a folder that is not empty cannot be replaced
            (scratch / _REPLACED).mkdir()
            os.replace(target, scratch / _REPLACED / target.name)
        os.replace(draft, target)
        sync_folder(target.parent)


@contextmanager
def _folders_above(target: Path) -> Iterator[None]:
    """Make the missing folders above a path; an error within removes them again."""
    missing = list(takewhile(lambda folder: not folder.exists(), target.parents))
    try:
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)  # another process may have made it by now
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def disk_is_full(error: BaseException) -> bool:
    """Whether this error means a full disk, an exceeded quota, or a file that is too large for the disk."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def naming(target: PathLike) -> Iterator[None]:
    """Make errors of writing name `target`. A full disk's error names no file, others may name a hidden folder."""
    try:
        yield
    except OSError as error:
        full, named = disk_is_full(error), isinstance(error.__cause__, OSError)  # by a call of this function inside
        if error.errno is None or named or not (full or SCRATCH in str(error.filename)):
            raise
        also = ": free some space or choose another folder; what was there before is unchanged" if full else ""
        raise OSError(error.errno, os.strerror(error.errno) + also, os.fspath(target)) from error


def write_whole(path: PathLike, content: bytes) -> None:
    """Write a file. Readers see the old or the new content, never a part of it."""
    write_together({path: content})


def write_together(contents: Mapping[Any, bytes]) -> None:
    """Write a file for each path. No old file is replaced before all new ones are complete."""
    with ExitStack() as drafts:
        for path, content in contents.items():
            drafts.enter_context(draft_of(path)).write_bytes(content)


def sync_folder(folder: PathLike) -> None:
    """Write the names of new or renamed files in a folder to the disk, if the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replace_file(path: PathLike) -> Iterator[Any]:
    """A binary file to write. It replaces `path` at the end, if there was no error.

    The ending of `path` says how to compress. All compressed files have a checksum.
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


# Values for JSON.


def plain(value: object) -> Any:
    """`value` with types that JSON has: Python's own numbers and lists, keys as text, None for NaN and infinities."""
    if hasattr(value, "tolist"):  # a NumPy value; NumPy is not imported here
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values have equal texts."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
