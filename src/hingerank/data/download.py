"""Download one file over HTTP so that a dropped connection costs only what was lost."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from hingerank.data.errors import DataError
from hingerank.data.whole_files import draft_of

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all (None when the server does not say)

_BLOCK = 1 << 18
_TRY_AGAIN = (408, 425, 429)  # and every 5xx


class FetchError(DataError):
    """A public set that could not be fetched; the message says why and what to do."""


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
    if not url.lower().startswith(("http://", "https://")):
        raise FetchError(f"cannot download {url!r}: expected an address that starts with http:// or https://")
    resumed = _saved_bytes(url, part) > 0
    failures = 0
    while True:
        before = _saved_bytes(url, part)
        try:
            _transfer(url, part, size, progress, timeout)
            return resumed
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in _TRY_AGAIN:
                raise FetchError(f"{url} answered {error.code} {error.reason}") from None
            reason = f"{error.code} {error.reason}"
        except (_Dropped, OSError, http.client.HTTPException) as error:
            reason = _reason(error)
        failures = 1 if _saved_bytes(url, part) > before else failures + 1
        if failures >= attempts:
            saved = _saved_bytes(url, part)
            later = f"to go on from {saved:,} bytes" if saved else "later"
            raise FetchError(
                f"{url} failed {attempts} times in a row ({reason}); run the same command again {later}"
            ) from None
        time.sleep(min(wait * 2 ** (failures - 1), 60.0))


def _transfer(url: str, part: Path, size: int | None, progress: Progress | None, timeout: float) -> None:
    """One request: append what comes to `part`; _Dropped when the connection ends before the announced length."""
    have = _saved_bytes(url, part)
    headers = {"User-Agent": "hingerank", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        validator = _notes(part).get("validator")
        if validator:
            headers["If-Range"] = validator
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            error.close()
            if _range_total(error.headers.get("Content-Range")) == have:
                return  # every byte is here already
            part.unlink()
            raise _Dropped("the part saved earlier is longer than the file") from None
        raise
    with response:
        if response.status != 206 or _range_start(response.headers.get("Content-Range")) != have:
            if response.status == 206:  # not the range that was asked for
                part.unlink(missing_ok=True)
                raise _Dropped("the server sent another range than the one asked for")
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if size is not None and total is not None and total != size:
            raise FetchError(f"{url} is {total:,} bytes long, expected {size:,}: the file there is another one")
        if have == 0:
            _write_notes(part, {"url": url, "validator": _validator(response.headers)})
        done = _copy(response, part, have, total if total is not None else size, progress, total)
    if total is not None and done < total:
        raise _Dropped(f"the connection closed after {done:,} of {total:,} bytes")


def _copy(source, part: Path, have: int, limit: int | None, progress: Progress | None, total: int | None) -> int:
    """Append `source` to the first `have` bytes of `part`; the length reached. Never writes past `limit`."""
    with open(part, "r+b" if have else "wb") as file:
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
    """An opener for http and https alone: a redirect cannot reach file: or ftp: addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _notes_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _notes(part: Path) -> dict:
    try:
        notes = json.loads(_notes_path(part).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _write_notes(part: Path, notes: dict) -> None:
    part.unlink(missing_ok=True)  # notes and bytes belong together: bytes of an older file must not follow new notes
    with draft_of(_notes_path(part)) as draft:
        draft.write_text(json.dumps(notes), "utf-8")


def _saved_bytes(url: str, part: Path) -> int:
    """Bytes of `url` that an earlier attempt left in `part`; 0 if they are of another address."""
    return part.stat().st_size if _notes(part).get("url") == url and part.is_file() else 0


def _validator(headers) -> str | None:
    etag = headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _range_start(text: str | None) -> int | None:
    first = (text or "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdigit() else None


def _range_total(text: str | None) -> int | None:
    total = (text or "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", None) or error
    return str(inner) or type(inner).__name__
