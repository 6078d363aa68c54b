"""Fetch public ranking sets into a cache: download or take a given copy, verify, unpack, rename into place."""

import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hingerank.data.download import FetchError, Progress, download
from hingerank.data.public_sets import PUBLIC_SETS, PublicSet
from hingerank.data.unpack import unpack
from hingerank.data.whole_files import draft_of

_log = logging.getLogger(__name__)
_DOWNLOADS = ".downloads"
_HASHES = {"sha256": 64, "sha1": 40, "md5": 32}  # algorithm -> hexadecimal digits


def cache_folder() -> Path:
    """Where fetched sets live: $HINGERANK_CACHE, else `hingerank` in the user's cache folder."""
    asked = os.environ.get("HINGERANK_CACHE")
    if asked:
        return Path(asked).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hingerank"


def fetch(
    name: str,
    cache: str | os.PathLike | None = None,
    *,
    source: str | os.PathLike | None = None,
    checksum: str | None = None,
    progress: Progress | None = None,
    **transfer: Any,
) -> Path:
    """The folder that holds the public set `name`, fetched on the first call and found in the cache afterwards.

    Parameters
    ----------
    name : a key of `hingerank.data.public_sets.PUBLIC_SETS`, for example "ml-100k".
    cache : folder to keep sets in; default `cache_folder()`.
    source : take this copy instead of the registered address: an archive, an unpacked folder, or an http(s) address
        (any mirror will do where the checksum is known). Needed for sets whose licence has to be accepted by hand.
    checksum : "sha256:<hex>" to insist on instead of the registered one.
    progress : called with (bytes so far, bytes in all or None) while downloading.
    transfer : attempts, wait, timeout of `hingerank.data.download.download`.

    The checksum is verified before anything is unpacked. Where none is known the first copy is trusted, its SHA-256 is
    recorded in the cache as `name`.json, and a later copy that differs is refused.

    >>> from hingerank.data.fetching import fetch
    >>> folder = fetch("ml-100k")  # doctest: +SKIP
    """
    entry = _find(name)
    folder = Path(cache) if cache is not None else cache_folder()
    home = folder / name
    if home.is_dir() and source is None:
        return home
    _check_form(checksum)
    origin = source if source is not None else entry.url
    if origin is None:
        raise FetchError(manual_steps(entry))
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{name}.lock"), _workplace(folder, name) as work:
        if home.is_dir() and source is None:  # another process fetched it while this one waited
            return home
        local = Path(origin)
        if not str(origin).lower().startswith(("http://", "https://")) and local.is_dir():
            _copy_folder(local, work)
            record: dict[str, Any] = {"folder": str(local)}
        else:
            archive, record = _archive(entry, str(origin), folder, checksum, progress, transfer)
            unpack(archive, work)
            if archive.parent == folder / _DOWNLOADS:
                archive.unlink()  # a downloaded archive has served its purpose; a given one stays the user's
        _put_in_place(work, home, lift="folder" not in record)
        _write_json(folder / f"{name}.json", {"name": name, **record, "licence": entry.licence})
    return home


def manual_steps(entry: PublicSet) -> str:
    """What a person has to do for a set that no program may download."""
    stem, _, ending = entry.file.partition(".")
    unpacking, copy = ("", entry.file) if ending != "rar" else (f"unpack it (unrar x {entry.file}), ", stem)
    return (
        f"{entry.name} has to be downloaded by hand: accept the licence on {entry.page} , save {entry.file}, "
        f"{unpacking}then run: hingerank fetch {entry.name} --from {copy}"
    )


def _find(name: str) -> PublicSet:
    if name not in PUBLIC_SETS:
        raise FetchError(f"unknown set {name!r}: expected one of {', '.join(PUBLIC_SETS)}")
    return PUBLIC_SETS[name]


def _archive(
    entry: PublicSet, origin: str, folder: Path, checksum: str | None, progress: Progress | None, transfer: dict
) -> tuple[Path, dict[str, Any]]:
    """The verified archive and what to record about it."""
    expected = checksum or entry.checksum or _recorded(folder, entry.name)
    if not origin.lower().startswith(("http://", "https://")):
        archive = Path(origin)
        if not archive.is_file():
            raise FetchError(f"no file or folder {origin}: expected {entry.file} from {entry.page}")
        found = _verify(archive, expected, origin)
        return archive, {"file": archive.name, "checksum": found}
    archive = folder / _DOWNLOADS / entry.file
    archive.parent.mkdir(exist_ok=True)
    part = archive.with_name(archive.name + ".part")
    size = entry.size if checksum is None else None
    resumed = download(origin, part, size, progress, **transfer)
    try:
        found = _verify(part, expected, origin)
    except FetchError:
        part.unlink()
        if not resumed:
            raise
        _log.info("the resumed download of %s is damaged; starting over", entry.name)
        download(origin, part, size, progress, **transfer)
        found = _verify(part, expected, origin, remove=True)
    part.replace(archive)
    part.with_name(part.name + ".json").unlink(missing_ok=True)
    return archive, {"url": origin, "checksum": found}


def _check_form(checksum: str | None) -> None:
    if checksum is None:
        return
    algorithm, _, digits = checksum.partition(":")
    if _HASHES.get(algorithm) != len(digits) or not set(digits.lower()) <= set("0123456789abcdef"):
        raise FetchError(f"checksum {checksum!r} is not of the form sha256:<64 hexadecimal digits>")


def _verify(path: Path, expected: str | None, origin: str, remove: bool = False) -> str:
    """The file's SHA-256 as "sha256:…", after comparing it with `expected` (of any algorithm) if there is one."""
    found = _digest(path, "sha256")
    if expected is None:
        return f"sha256:{found}"
    algorithm, _, digits = expected.partition(":")
    actual = found if algorithm == "sha256" else _digest(path, algorithm)
    if actual != digits.lower():
        if remove:
            path.unlink()
        raise FetchError(
            f"{origin} is damaged or another file: its {algorithm} is {actual}, expected {digits}; "
            "fetch it again, or pass --checksum if you trust this copy"
        )
    return f"sha256:{found}"


def _digest(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _recorded(folder: Path, name: str) -> str | None:
    """The checksum recorded when a set without a published one was first fetched."""
    try:
        return json.loads((folder / f"{name}.json").read_text("utf-8")).get("checksum")
    except (OSError, ValueError, AttributeError):
        return None


def _copy_folder(source: Path, work: Path) -> None:
    for path in sorted(source.rglob("*")):
        target = work / path.relative_to(source)
        if path.is_symlink():
            raise FetchError(f"{path} is a link: copy the file itself into the folder first")
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.is_file():
            shutil.copyfile(path, target)


def _put_in_place(work: Path, home: Path, lift: bool) -> None:
    """Rename the filled folder to `home`; lift: a single folder inside it (ml-100k/ml-100k) becomes `home` itself."""
    inside = [path for path in work.iterdir() if path.name != "__MACOSX"]
    if not inside:
        raise FetchError(f"the copy of {home.name} holds no files")
    ready = inside[0] if lift and len(inside) == 1 and inside[0].is_dir() else work
    if home.exists():
        home.rename(work.with_name(work.name + ".old"))
    ready.rename(home)


def _write_json(path: Path, content: dict) -> None:
    with draft_of(path) as draft:
        draft.write_text(json.dumps({**content, "fetched": time.strftime("%Y-%m-%d")}, indent=1) + "\n", "utf-8")


@contextmanager
def _workplace(folder: Path, name: str) -> Iterator[Path]:
    """An empty folder beside the final one, removed at the end whatever happens."""
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    work.chmod(0o755)
    try:
        yield work
    finally:
        for leftover in (work, work.with_name(work.name + ".old")):
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time per set, where the system has file locks."""
    with open(path, "a") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
