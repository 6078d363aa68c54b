"""Unpack a zip or tar file that nobody has vetted: nothing outside the folder, no links, no bombs."""

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from hingerank.data.download import FetchError

_MOST_FILES = 100_000
_BLOCK = 1 << 20


def unpack(archive: Path, folder: Path, limit: int | None = None) -> None:
    """Unpack `archive` (zip, tar, tar.gz, tar.bz2, tar.xz) into the existing, empty `folder`.

    Refused with a FetchError: names that are absolute or climb with `..`, links, devices, encrypted or repeated
    members, more than 100,000 files, and more than `limit` bytes in all (default: 50 times the archive plus 64 MiB,
    several times what ranking text compresses by).
    """
    room = limit if limit is not None else 50 * archive.stat().st_size + (64 << 20)
    count = 0
    with _members(archive) as members:
        for name, stream in members:
            count += 1
            if count > _MOST_FILES:
                raise FetchError(f"{archive.name} holds more than {_MOST_FILES:,} members: refused")
            target = folder / _safe_path(name, archive)
            if stream is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            room = _write(stream, target, room, name, archive)


def _write(stream: IO[bytes], target: Path, room: int, name: str, archive: Path) -> int:
    """Copy one member to a new file; the room left after it."""
    try:
        with stream, open(target, "xb") as file:
            while block := stream.read(_BLOCK):
                room -= len(block)
                if room < 0:
                    raise FetchError(
                        f"{archive.name} unpacks to far more than it should (stopped in {name!r}): refused"
                    )
                file.write(block)
    except FileExistsError:
        raise FetchError(f"{archive.name} holds {name!r} twice: refused") from None
    return room


def _safe_path(name: str, archive: Path) -> PurePosixPath:
    """`name` as a relative path that stays inside the folder, or a FetchError."""
    path = PurePosixPath(name)
    bad = "\\" in name or ":" in name or "\0" in name or path.is_absolute() or ".." in path.parts or not name.strip()
    if bad:
        raise FetchError(f"{archive.name} holds a member named {name!r}, which could leave the folder: refused")
    return path


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes] | None]]]:
    """The members as (name, stream), a folder's stream being None; damage of any kind is a FetchError."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                yield _zip_members(opened, archive)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive, "r:*") as opened:
                yield _tar_members(opened, archive)
        else:
            raise FetchError(
                f"{archive} is neither a zip nor a tar file; unpack it yourself (a .rar: unrar x, 7z x or bsdtar -xf) "
                "and pass the folder with --from"
            )
    except FetchError:
        raise
    except Exception as error:  # damage goes by many names: BadZipFile, ReadError, EOFError, zlib.error, LZMAError …
        raise FetchError(f"cannot unpack {archive.name}: {error or type(error).__name__}") from error


def _zip_members(opened: zipfile.ZipFile, archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    for member in opened.infolist():
        kind = stat.S_IFMT(member.external_attr >> 16)
        if member.is_dir():
            yield member.filename, None
        elif kind not in (0, stat.S_IFREG):
            raise FetchError(f"{archive.name} holds {member.filename!r}, which is a link or a device: refused")
        elif member.flag_bits & 1:
            raise FetchError(f"{archive.name} is encrypted ({member.filename!r}): unpack it yourself")
        else:
            yield member.filename, opened.open(member)


def _tar_members(opened: tarfile.TarFile, archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    for member in opened:
        if member.isdir():
            yield member.name, None
        elif not member.isreg():
            raise FetchError(f"{archive.name} holds {member.name!r}, which is a link or a device: refused")
        else:
            stream = opened.extractfile(member)
            if stream is None:
                raise FetchError(f"{archive.name} holds {member.name!r}, which has no contents")
            yield member.name, stream
