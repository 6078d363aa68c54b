"""A list of public ranking data sets, and `fetch`, which downloads or copies, verifies and unpacks one of them.

A checksum in public_sets.json is documented by the publisher, or by several independent projects, for the same file.
If none is known, the first copy is trusted. Its checksum is recorded in the cache, and later copies must match it.

Downloads resume after a dropped connection, also in a later call. The checksum, or that of the compression, notices if
the server's file has changed in between. Archives must pass limits on names, links, numbers of files and sizes
before zipfile or tarfile unpack them.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import stat
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hingerank.data.files import DataError, PathLike, disk_is_full, draft_of, naming, scratch_folder
from hingerank.registry import did_you_mean

Progress = Callable[[int, int | None], None]  # bytes so far, total bytes (None if the server does not say)

_BLOCK = 1 << 18
_TRY_AGAIN = (408, 425, 429)  # HTTP status codes after which to try again; every 5xx is another
_WEB = ("http://", "https://")
_MOST_FILES = 100_000


@dataclass(frozen=True)
class PublicSet:
    """One public data set. `url` is None if a person has to accept a licence on `page` and download `file` by hand."""

    name: str
    title: str
    licence: str
    page: str
    file: str
    url: str | None = None
    checksum: str | None = None  # "sha256:<hex>"
    size: int | None = None  # bytes of `file`
    licence_page: str = ""


_KNOWN = json.loads(Path(__file__).with_name("public_sets.json").read_text("utf-8"))
PUBLIC_SETS = {
    entry["name"]: PublicSet(**entry | {"licence": _KNOWN["licences"][entry["licence"]]}) for entry in _KNOWN["sets"]
}


class FetchError(DataError):
    """A public data set could not be fetched. The message says why and what to do."""


def cache_folder() -> Path:
    """The folder for fetched data sets: $HINGERANK_CACHE, else `hingerank` in the user's cache folder."""
    if asked := os.environ.get("HINGERANK_CACHE"):
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
    cache: PathLike | None = None,
    *,
    source: PathLike | None = None,
    checksum: str | None = None,
    progress: Progress | None = None,
    **transfer: Any,
) -> Path:
    """Fetch the public data set `name`, unless it is in the cache already, and return its folder.

    The checksum is verified before anything is unpacked. If none is known, the first copy is trusted. Its SHA-256 is
    recorded in the cache as `name`.json, and a later copy with another one is an error.

    Parameters
    ----------
    name : str
        A key of ``hingerank.data.fetching.PUBLIC_SETS``, for example "ml-100k".
    cache : path, optional
        Folder in which data sets are kept; default `cache_folder()`.
    source : path or URL, optional
        Use this copy instead of the registered URL: an archive, an unpacked folder, or an http(s) URL. Any mirror will
        do if the checksum is known. Required for data sets whose licence has to be accepted by hand.
    checksum : str, optional
        The checksum to require instead of the registered one, as "sha256:<hex>".
    progress : callable, optional
        Called with (bytes so far, total bytes or None) while downloading.
    **transfer
        `attempts`, `wait` and `timeout` of ``hingerank.data.fetching.download``.

    Examples
    --------
    >>> folder = fetch("ml-100k")  # doctest: +SKIP
    """
    if name not in PUBLIC_SETS:
        raise FetchError(
            f"unknown set {name!r}: expected one of {', '.join(PUBLIC_SETS)}{did_you_mean(str(name), PUBLIC_SETS)}"
        )
    entry = PUBLIC_SETS[name]
    folder = Path(cache) if cache is not None else cache_folder()
    home = folder / name
    if home.is_dir() and source is None:
        return home
    if checksum is not None and not re.fullmatch("sha256:[0-9a-fA-F]{64}", checksum):
        raise FetchError(f"checksum is {checksum!r}, expected sha256:<64 hexadecimal digits>")
    origin = source if source is not None else entry.url
    if origin is None:
        raise FetchError(manual_steps(entry))
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{name}.lock"), naming(home), scratch_folder(folder) as scratch:
        if home.is_dir() and source is None:  # another process fetched it while this one waited
            return home
        work = scratch / "set"  # below the hidden folder, where no name of a copy has a meaning
        work.mkdir()
        local = Path(origin)
        if not str(origin).lower().startswith(_WEB) and local.is_dir():
            link = next((path for path in local.rglob("*") if path.is_symlink()), None)
            if link is not None:
                raise FetchError(f"{link} is a symbolic link: copy the file itself into the folder first")
            shutil.copytree(local, work, copy_function=shutil.copyfile, dirs_exist_ok=True)
            record: dict[str, object] = {"folder": str(local)}
        else:
            archive, record = _archive(entry, str(origin), folder, checksum, progress, transfer)
            try:
                unpack(archive, work)
            finally:
                if "url" in record:  # an archive that the user gave stays
                    archive.unlink()
        inside = [path for path in work.iterdir() if path.name != "__MACOSX"]
        if not inside:
            raise FetchError(f"the copy of {name} holds no files: name another one")
        work.chmod(0o755)
        lift = "folder" not in record and len(inside) == 1 and inside[0].is_dir()  # an archive's ml-100k/ml-100k
        record = {"name": name, **record, "licence": entry.licence, "fetched": time.strftime("%Y-%m-%d")}
        with draft_of(folder / f"{name}.json") as about, draft_of(home) as draft:
            about.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            (inside[0] if lift else work).rename(draft)
    return home


def manual_steps(entry: PublicSet) -> str:
    """Instructions for a data set that has to be downloaded by hand."""
    stem, _, ending = entry.file.partition(".")
    unpacking, copy = ("", entry.file) if ending != "rar" else (f"unpack it (unrar x {entry.file}), ", stem)
    return (
        f"{entry.name} has to be downloaded by hand: accept the licence on {entry.page} , save {entry.file}, "
        f"{unpacking}then run: hingerank fetch {entry.name} --from {copy}"
    )


def _archive(
    entry: PublicSet, origin: str, folder: Path, checksum: str | None, progress: Progress | None, transfer: dict
) -> tuple[Path, dict[str, object]]:
    """The verified archive, and the facts to record about it."""
    expected = checksum or entry.checksum
    if expected is None:  # that of the first copy, if there was one
        with suppress(OSError, ValueError, AttributeError):
            expected = json.loads((folder / f"{entry.name}.json").read_text("utf-8")).get("checksum")
    if not origin.lower().startswith(_WEB):
        archive = Path(origin)
        if not archive.is_file():
            raise FetchError(f"there is no file or folder {origin}, expected {entry.file} from {entry.page}")
        found = _verify(archive, expected, origin)
        return archive, {"file": archive.name, "checksum": found}
    archive = folder / ".downloads" / f"{entry.file}.part"
    archive.parent.mkdir(exist_ok=True)
    size = entry.size if checksum is None else None
    while True:
        resumed = download(origin, archive, size, progress, **transfer)
        try:
            return archive, {"url": origin, "checksum": _verify(archive, expected, origin)}
        except FetchError:
            archive.unlink()
            if not resumed:  # else the server's file may have changed since: start over
                raise


def _verify(path: Path, expected: str | None, origin: str) -> str:
    """The file's checksum, after comparing it with the one expected, if there is one."""
    with open(path, "rb") as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if expected is not None and found != expected.lower():
        raise FetchError(
            f"{origin} is damaged or another file: its checksum is {found}, expected {expected}; "
            "fetch it again, or pass --checksum if you trust this copy"
        )
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let only one process at a time fetch a data set, if the system has file locks."""
    with open(path, "a", encoding="utf-8") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Downloading.


def download(
    url: str,
    part: Path,
    size: int | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: float = 1.0,
    timeout: float = 60.0,
) -> bool:
    """Download `url` into the file `part`. Returns True if an earlier, interrupted call had downloaded some of it.

    After a broken connection, a stall of `timeout` seconds or a server error, the download resumes from the last byte
    (HTTP Range). It waits `wait`, 2·`wait`, 4·`wait` … seconds between attempts, and gives up after `attempts` of them
    in a row without a new byte. If the server ignores Range, the download starts over. `size`, if given, must be the
    length that the server announces. The caller has to compare the checksum, as the server's file may have changed
    since, and to rename the file.
    """
    if not url.lower().startswith(_WEB):
        raise FetchError(f"cannot download {url!r}: expected a URL that starts with http:// or https://")
    resumed, failures = _length(part) > 0, 0
    while True:
        before = _length(part)
        try:
            _transfer(url, part, size, progress, timeout)
            return resumed
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection open
            reason = f"{error.code} {error.reason}"
            if error.code < 500 and error.code not in _TRY_AGAIN:
                raise FetchError(f"{url} answered {reason}; check the URL, or fetch from another copy") from None
        except (OSError, http.client.HTTPException) as error:
            if disk_is_full(error):
                raise
            inner = getattr(error, "reason", None) or error
            reason = str(inner) or type(inner).__name__
        saved = _length(part)
        failures = 1 if saved > before else failures + 1
        if failures >= attempts:
            later = f"to resume from {saved:,} bytes" if saved else "later"
            raise FetchError(f"{url} failed {attempts} times in a row ({reason}); run the same command again {later}")
        time.sleep(min(wait * 2 ** (failures - 1), 60.0))


def _transfer(url: str, part: Path, size: int | None, progress: Progress | None, timeout: float) -> None:
    """Send one request and append the response to `part`. A ConnectionError means that some of it was not sent."""
    have = _length(part)
    headers = {"User-Agent": "hingerank", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={have}-"} if have else {}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()
        return  # no bytes follow those that are here
    with response:
        have = have if response.status == 206 else 0
        if have and not (response.headers["Content-Range"] or "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than the one requested")
        length = response.headers.get("Content-Length") or ""
        total = have + int(length) if length.isdigit() else None
        if size is not None and total is not None and total != size:
            raise FetchError(f"{url} is {total:,} bytes long, expected {size:,}: the file there is a different one")
        with open(part, "ab" if have else "wb") as file:
            report = progress or (lambda done, total: None)
            report(have, total)
            while block := response.read1(_BLOCK):
                have += len(block)
                if size is not None and have > size:
                    raise FetchError(f"the server sent more than the expected {size:,} bytes; fetch it again")
                file.write(block)
                report(have, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have < total:
        raise ConnectionError(f"the connection closed after {have:,} of {total:,} bytes")


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


# Unpacking.


def unpack(archive: Path, folder: Path, limit: int | None = None) -> None:
    """Unpack `archive` (zip, tar, tar.gz, tar.bz2, tar.xz) into the existing, empty `folder`.

    These are a FetchError: names that are absolute or contain `..`, links, devices, encrypted members, more than
    100,000 members, and more than `limit` bytes in all. The default limit is 50 times the archive plus 64 MiB, which is
    several times the compression of ranking text. The libraries write no more of a member than its header announces.
    """
    room, count = limit if limit is not None else 50 * archive.stat().st_size + (64 << 20), 0

    def check(name: str, size: int, kind: str) -> bool:
        nonlocal room, count
        room, count, path, why = room - abs(size), count + 1, PurePosixPath(name), ""
        if set(name) & set("\\:\0") or path.is_absolute() or ".." in path.parts or not name.strip():
            why = f"holds a member named {name!r}, which could be written outside the folder"
        elif kind not in ("file", "folder"):
            why = f"holds {name!r}, which is {kind}"
        elif count > _MOST_FILES:
            why = f"holds more than {_MOST_FILES:,} members"
        elif room < 0:
            why = f"unpacks to far more than it should (in {name!r})"
        if why:
            raise FetchError(f"{archive.name} {why}: refused; if you trust it, unpack it yourself and pass the folder")
        return True

    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for member in zipped.infolist():
                    check(member.filename, member.file_size, _zip_kind(member))
                zipped.extractall(folder)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tarred:
                tarred.extraction_filter = getattr(tarfile, "data_filter", None)  # not before Python 3.11.4
                kinds = ((m, "folder" if m.isdir() else "file" if m.isreg() else "a link or a device") for m in tarred)
                tarred.extractall(folder, (m for m, kind in kinds if check(m.name, m.size, kind)))
        else:
            raise FetchError(
                f"{archive} is neither a zip nor a tar file; unpack it yourself (a .rar: unrar x, 7z x or bsdtar -xf) "
                "and pass the folder with --from"
            )
    except FetchError:
        raise
    except Exception as error:  # many kinds: BadZipFile, ReadError, EOFError, zlib.error, LZMAError …
        raise FetchError(
            f"cannot unpack {archive.name}: {error or type(error).__name__}; if it is damaged, fetch it again"
        ) from error


def _zip_kind(member: zipfile.ZipInfo) -> str:
    if member.is_dir():
        return "folder"
    if member.flag_bits & 1:
        return "encrypted"
    return "file" if stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG) else "a link or a device"
