"""Results on disk that survive a kill at any byte.

A results file holds one JSON line per result, ``{"check": "<crc32>", "record": {...}}``, the checksum being that of the
record's own bytes. Lines are only ever added, each batch by one write followed by fsync, and only by the one process
that holds the file's lock. A process killed while writing leaves at most an unfinished last line; the next one to open
the file cuts it off, and the result is computed again.
"""

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hingerank.data.plain_json import plain
from hingerank.data.whole_files import draft_of

Record = dict[str, Any]


class ResultsFile:
    """Records read from `path` and added to it; `path=None` keeps them in memory only.

    >>> results = ResultsFile(None)
    >>> results.append([{"method": "rank-svm", "value": 0.5}])
    >>> results.records
    [{'method': 'rank-svm', 'value': 0.5}]
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self._file: Any = None
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 (open until close)
        try:
            _lock(self._file, self.path)
            self._file.seek(0)
            self.records, whole = _parse(self._file.read(), self.path)
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
            _sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, records: Iterable[Record]) -> None:
        """Add records; when this returns they are on the disk."""
        clean = [plain(record) for record in records]
        if self._file is not None:
            data = memoryview(b"".join(_line(record) for record in clean))
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        self.records.extend(clean)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "ResultsFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_results(path: Path | str) -> list[Record]:
    """The whole records of a results file, without locking or changing it (it may still be growing)."""
    return _parse(Path(path).read_bytes(), Path(path))[0]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        draft.write_bytes(content)
    _sync_folder(path.parent)


def canonical(value: Any) -> str:
    """One text for equal values: JSON with sorted keys and no spaces."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _line(record: Record) -> bytes:
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    return _framed(body)


def _framed(body: bytes) -> bytes:
    return b'{"check":"%08x","record":%s}\n' % (zlib.crc32(body), body)


def _parse(data: bytes, path: Path) -> tuple[list[Record], int]:
    """The records of all whole lines, and how many bytes they take."""
    records: list[Record] = []
    place = 0
    while (end := data.find(b"\n", place)) >= 0:
        body = data[place + len(_framed(b"")) - 2 : end - 1]
        if data[place : end + 1] != _framed(body):
            if data.find(b"\n", end + 1) < 0:
                break  # the last line: as good as unfinished
            raise ValueError(
                f"{path}, line {len(records) + 1}: the checksum does not fit, so the file was changed or damaged; "
                "delete that line to have its result computed again"
            )
        records.append(json.loads(body))
        place = end + 1
    return records, place


def _lock(file: Any, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ValueError(f"{path} is in use by another run: wait for it, or choose another folder") from error


def _sync_folder(folder: Path) -> None:
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
