"""Public ranking sets: what is known of each, and `fetch`, which downloads or copies, verifies and unpacks it once.

A checksum in public_sets.json is one that the publisher or several independent projects document for the same file.
Where none is known the first copy is trusted, its checksum is recorded in the cache and later copies must match it.

Downloads resume after a dropped connection. Unvetted archives must pass limits on names, links, numbers and sizes
before zipfile or tarfile unpack them.
"""

import hashlib
import http.client
import json
import logging
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
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

from hingerank.data.files import DataError, PathLike, disk_is_full, draft_of, naming, scratch_folder, write_whole

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all (None when the server does not say)

_BLOCK = 1 << 18
_TRY_AGAIN = (408, 425, 429)  # and every 5xx
_WEB = ("http://", "https://")
_MOST_FILES = 100_000
_DOWNLOADS = ".downloads"
_HASHES = {"sha256": 64, "sha1": 40, "md5": 32}  # algorithm -> hexadecimal digits
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublicSet:
    """One public set. `url` is None where a person has to accept a licence on `page` and save `file` themselves."""

    name: str
    title: str
    licence: str
    page: str
    file: str
    url: str | None = None
    checksum: str | None = None  # "sha256:<hex>"
    size: int | None = None  # bytes of `file`
    licence_page: str = ""


def _known_sets() -> dict[str, PublicSet]:
    known = json.loads(Path(__file__).with_name("public_sets.json").read_text("utf-8"))
    entries = (entry | {"licence": known["licences"][entry["licence"]]} for entry in known["sets"])
    return {entry["name"]: PublicSet(**entry) for entry in entries}


PUBLIC_SETS = _known_sets()


class FetchError(DataError):
    """A public set that could not be fetched; the message says why and what to do."""


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
    cache: PathLike | None = None,
    *,
    source: PathLike | None = None,
    checksum: str | None = None,
    progress: Progress | None = None,
    **transfer: Any,
) -> Path:
    """The folder that holds the public set `name`, fetched on the first call and found in the cache afterwards.

    The checksum is verified before anything is unpacked. Where none is known the first copy is trusted, its SHA-256 is
    recorded in the cache as `name`.json, and a later copy that differs is refused.

    Parameters
    ----------
    name : str
        A key of ``hingerank.data.fetching.PUBLIC_SETS``, for example "ml-100k".
    cache : path, optional
        Folder to keep sets in; default `cache_folder()`.
    source : path or address, optional
        Take this copy instead of the registered address: an archive, an unpacked folder, or an http(s) address (any
        mirror will do where the checksum is known). Needed for sets whose licence has to be accepted by hand.
    checksum : str, optional
        "sha256:<hex>" to require instead of the registered one.
    progress : callable, optional
        Called with (bytes so far, bytes in all or None) while downloading.
    **transfer
        attempts, wait, timeout of ``hingerank.data.fetching.download``.

    Examples
    --------
    >>> folder = fetch("ml-100k")  # doctest: +SKIP
    """
    if name not in PUBLIC_SETS:
        raise FetchError(f"unknown set {name!r}: expected one of {', '.join(PUBLIC_SETS)}")
    entry = PUBLIC_SETS[name]
    folder = Path(cache) if cache is not None else cache_folder()
    home = folder / name
    if home.is_dir() and source is None:
        return home
    _check_form(checksum)
    origin = source if source is not None else entry.url
    if origin is None:
        raise FetchError(manual_steps(entry))
    folder.mkdir(parents=True, exist_ok=True)
    with (
        _locked(folder / f".{name}.lock"),
        naming(folder / name),
        scratch_folder(folder) as work,
    ):
        if home.is_dir() and source is None:  # another process fetched it while this one waited
            return home
        local = Path(origin)
        if not str(origin).lower().startswith(_WEB) and local.is_dir():
            _copy_folder(local, work)
            record: dict[str, object] = {"folder": str(local)}
        else:
            archive, record = _archive(entry, str(origin), folder, checksum, progress, transfer)
            unpack(archive, work)
            if archive.parent == folder / _DOWNLOADS:
                archive.unlink()  # a downloaded archive has served its purpose; a given one stays the user's
        _put_in_place(work, home, lift="folder" not in record)
        record = {"name": name, **record, "licence": entry.licence, "fetched": time.strftime("%Y-%m-%d")}
        write_whole(folder / f"{name}.json", json.dumps(record, indent=1).encode() + b"\n")
    return home


def manual_steps(entry: PublicSet) -> str:
    """What a person has to do for a set that no program may download."""
    stem, _, ending = entry.file.partition(".")
    unpacking, copy = ("", entry.file) if ending != "rar" else (f"unpack it (unrar x {entry.file}), ", stem)
    return (
        f"{entry.name} has to be downloaded by hand: accept the licence on {entry.page} , save {entry.file}, "
        f"{unpacking}then run: hingerank fetch {entry.name} --from {copy}"
    )


def _archive(
    entry: PublicSet, origin: str, folder: Path, checksum: str | None, progress: Progress | None, transfer: dict
) -> tuple[Path, dict[str, object]]:
    """The verified archive and what to record about it."""
    expected = checksum or entry.checksum or _recorded(folder, entry.name)
    if not origin.lower().startswith(_WEB):
        archive = Path(origin)
        if not archive.is_file():
            raise FetchError(f"no file or folder {origin}: expected {entry.file} from {entry.page}")
        found = _verify(archive, expected, origin)
        return archive, {"file": archive.name, "checksum": found}
    archive = folder / _DOWNLOADS / entry.file
    archive.parent.mkdir(exist_ok=True)
    part = archive.with_name(archive.name + ".part")
    size = entry.size if checksum is None else None
    while True:
        resumed = download(origin, part, size, progress, **transfer)
        try:
            found = _verify(part, expected, origin)
            break
        except FetchError:
            part.unlink()
            if not resumed:
                raise
            _log.info("the resumed download of %s is damaged; starting over", entry.name)
    part.replace(archive)
    _notes_path(part).unlink(missing_ok=True)
    return archive, {"url": origin, "checksum": found}


def _check_form(checksum: str | None) -> None:
    if checksum is None:
        return
    algorithm, _, digits = checksum.partition(":")
    if _HASHES.get(algorithm) != len(digits) or not set(digits.lower()) <= set("0123456789abcdef"):
        raise FetchError(f"checksum {checksum!r} is not of the form sha256:<64 hexadecimal digits>")


def _verify(path: Path, expected: str | None, origin: str) -> str:
    """The file's SHA-256 as "sha256:…", after comparing it with `expected` (of any algorithm) if there is one."""
    algorithm, _, digits = (expected or "sha256:").partition(":")
    found = {}
    for name in {"sha256", algorithm}:
        with open(path, "rb") as file:
            found[name] = hashlib.file_digest(file, name).hexdigest()
    if digits and found[algorithm] != digits.lower():
        raise FetchError(
            f"{origin} is damaged or another file: its {algorithm} is {found[algorithm]}, expected {digits}; "
            "fetch it again, or pass --checksum if you trust this copy"
        )
    return f"sha256:{found['sha256']}"


def _recorded(folder: Path, name: str) -> str | None:
    """The checksum recorded when a set without a published one was first fetched."""
    try:
        return json.loads((folder / f"{name}.json").read_text("utf-8")).get("checksum")
    except (OSError, ValueError, AttributeError):
        return None


def _copy_folder(source: Path, work: Path) -> None:
    link = next((path for path in source.rglob("*") if path.is_symlink()), None)
    if link is not None:
        raise FetchError(f"{link} is a link: copy the file itself into the folder first")
    shutil.copytree(source, work, copy_function=shutil.copyfile, dirs_exist_ok=True)


def _put_in_place(work: Path, home: Path, lift: bool) -> None:
    """Rename the filled folder to `home`; lift: a single folder inside it (ml-100k/ml-100k) becomes `home` itself."""
    inside = [path for path in work.iterdir() if path.name != "__MACOSX"]
    if not inside:
        raise FetchError(f"the copy of {home.name} holds no files")
    work.chmod(0o755)
    ready = inside[0] if lift and len(inside) == 1 and inside[0].is_dir() else work
    with draft_of(home) as draft:
        ready.rename(draft)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time per set, where the system has file locks."""
    with open(path, "a", encoding="utf-8") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Downloading.


class _Dropped(Exception):
    """The connection ended early; what arrived so far is kept."""


def download(
    url: str,
    part: Path,
    size: int | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: float = 1.0,
    timeout: float = 60.0,
) -> bool:
    """Fill the file `part` with the bytes at `url`; True if some of them came from an earlier, interrupted call.

    After a broken connection, a stall of `timeout` seconds or a server error it asks again from the last byte (HTTP
    Range), up to `attempts` times in a row without a new byte, waiting `wait`, 2·`wait`, 4·`wait` … seconds between.
    A server that ignores Range, or whose file has changed since (If-Range), makes it start over. `size`, if known, must
    be the length that the server announces. The caller checks the checksum and renames the file.
    """
    if not url.lower().startswith(_WEB):
        raise FetchError(f"cannot download {url!r}: expected an address that starts with http:// or https://")
    resumed = _saved(url, part)[0] > 0
    failures = 0
    while True:
        before = _saved(url, part)[0]
        try:
            _transfer(url, part, size, progress, timeout)
            return resumed
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in _TRY_AGAIN:
                raise FetchError(f"{url} answered {error.code} {error.reason}") from None
            reason = f"{error.code} {error.reason}"
        except (_Dropped, OSError, http.client.HTTPException) as error:
            if disk_is_full(error):
                raise
            inner = getattr(error, "reason", None) or error
            reason = str(inner) or type(inner).__name__
        failures = 1 if _saved(url, part)[0] > before else failures + 1
        if failures >= attempts:
            saved = _saved(url, part)[0]
            later = f"to resume from {saved:,} bytes" if saved else "later"
            raise FetchError(
                f"{url} failed {attempts} times in a row ({reason}); run the same command again {later}"
            ) from None
        time.sleep(min(wait * 2 ** (failures - 1), 60.0))


def _transfer(url: str, part: Path, size: int | None, progress: Progress | None, timeout: float) -> None:
    """One request: append what comes to `part`; _Dropped when the connection ends before the announced length."""
    have, validator = _saved(url, part)
    headers = {"User-Agent": "hingerank", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        headers |= {"If-Range": validator} if validator else {}
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            error.close()
            if _range(error.headers)[1] == have:
                return  # every byte is here already
            part.unlink()
            raise _Dropped("the part saved earlier is longer than the file") from None
        raise
    with response:
        if response.status != 206:
            have = 0
        elif _range(response.headers)[0] != have:
            part.unlink(missing_ok=True)
            raise _Dropped("the server sent another range than the one asked for")
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if size is not None and total is not None and total != size:
            raise FetchError(f"{url} is {total:,} bytes long, expected {size:,}: the file there is a different one")
        if have == 0:
            part.unlink(missing_ok=True)  # bytes of an older file must not follow new notes
            etag = response.headers.get("ETag") or "W/"
            validator = response.headers.get("Last-Modified") if etag.startswith("W/") else etag
            write_whole(_notes_path(part), json.dumps({"url": url, "validator": validator}).encode())
        done = _copy(response, part, have, total if total is not None else size, progress, total)
    if total is not None and done < total:
        raise _Dropped(f"the connection closed after {done:,} of {total:,} bytes")


def _copy(source, part: Path, have: int, limit: int | None, progress: Progress | None, total: int | None) -> int:
    """Append `source` to the first `have` bytes of `part`; the length reached. Never writes past `limit`."""
    with naming(part), open(part, "r+b" if have else "wb") as file:
        file.seek(have)
        file.truncate()
        if progress:
            progress(have, total)
        while block := source.read1(_BLOCK):
            if limit is not None and have + len(block) > limit:
                raise FetchError(f"the server sent more than the expected {limit:,} bytes")
            file.write(block)
            have += len(block)
            if progress:
                progress(have, total)
        file.flush()
        os.fsync(file.fileno())
    return have


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()  # for http and https alone: no redirect can reach file: or ftp: addresses
    for kind in ("Proxy", "HTTP", "HTTPS", "HTTPRedirect", "HTTPDefaultError", "Unknown"):
        opener.add_handler(getattr(urllib.request, f"{kind}Handler")())
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    return opener


def _notes_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _saved(url: str, part: Path) -> tuple[int, str | None]:
    """Bytes of `url` that an earlier attempt left in `part`, and what tells its version; 0 if of another address."""
    try:
        notes = json.loads(_notes_path(part).read_text("utf-8"))
        return (part.stat().st_size, notes.get("validator")) if notes["url"] == url else (0, None)
    except (OSError, ValueError, LookupError, TypeError):
        return 0, None


def _range(headers: Message) -> tuple[int | None, int | None]:
    """(first byte, length of the whole file) by Content-Range, None where it does not say."""
    match = re.fullmatch(r"(?:bytes )?(?:(\d+)-\d*|\*)/(\d+|\*)", headers.get("Content-Range") or "")
    first, total = match.groups() if match else (None, None)
    return (int(first) if first else None), (int(total) if total and total != "*" else None)


# Unpacking.


def unpack(archive: Path, folder: Path, limit: int | None = None) -> None:
    """Unpack `archive` (zip, tar, tar.gz, tar.bz2, tar.xz) into the existing, empty `folder`.

    Refused with a FetchError: names that are absolute or climb with `..`, links, devices, encrypted or repeated
    members, more than 100,000 files, and more than `limit` bytes in all (default: 50 times the archive plus 64 MiB,
    several times what ranking text compresses by). The libraries write no more of a member than its header announces.
    """
    room = limit if limit is not None else 50 * archive.stat().st_size + (64 << 20)
    passed: dict[PurePosixPath, str] = {}

    def check(name: str, size: int, kind: str) -> bool:
        nonlocal room
        path, room, why = PurePosixPath(name), room - abs(size), ""
        if set(name) & set("\\:\0") or path.is_absolute() or ".." in path.parts or not name.strip():
            why = f"holds a member named {name!r}, which could leave the folder"
        elif kind not in ("file", "folder"):
            why = f"holds {name!r}, which is {kind}"
        elif path in passed and (kind, passed[path]) != ("folder", "folder"):
            why = f"holds {name!r} twice"
        elif len(passed) >= _MOST_FILES:
            why = f"holds more than {_MOST_FILES:,} members"
        elif room < 0:
            why = f"unpacks to far more than it should (in {name!r})"
        if why:
            raise FetchError(f"{archive.name} {why}: refused")
        passed[path] = kind
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
                tarred.extractall(folder, (m for m in tarred if check(m.name, m.size, _tar_kind(m))))
        else:
            raise FetchError(
                f"{archive} is neither a zip nor a tar file; unpack it yourself (a .rar: unrar x, 7z x or bsdtar -xf) "
                "and pass the folder with --from"
            )
    except FetchError:
        raise
    except Exception as error:  # damage goes by many names: BadZipFile, ReadError, EOFError, zlib.error, LZMAError …
        raise FetchError(f"cannot unpack {archive.name}: {error or type(error).__name__}") from error


def _zip_kind(member: zipfile.ZipInfo) -> str:
    if member.is_dir():
        return "folder"
    if member.flag_bits & 1:
        return "encrypted (unpack it yourself)"
    return "file" if stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG) else "a link or a device"


def _tar_kind(member: tarfile.TarInfo) -> str:
    return "folder" if member.isdir() else "file" if member.isreg() else "a link or a device"
