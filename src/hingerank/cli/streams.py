"""Standard output and standard error that may be closed, full, or a pipe whose reader has ended."""

import os
import sys
from typing import TextIO


def open_streams() -> None:
    """Open the null device for closed standard streams, so that no other file gets their numbers.

    Writing to a closed standard output fails as on a full disk. What is written to a closed standard error is lost.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # it gets the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def interrupted(error: BaseException) -> bool:
    """Whether the user interrupted; before Python 3.12, a class that is being made turns that into a RuntimeError."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def say(text: str) -> None:
    """Print a text on stderr; if that fails, drop it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def flush_output() -> OSError | None:
    """Write what stdout still buffers, and return the error if that fails; the buffer is then dropped."""
    try:
        sys.stdout.flush()
    except OSError as error:
        drop(sys.stdout)
        return error
    return None


def drop(stream: TextIO) -> None:
    """Drop what a stream buffers: Python would try to write it again at exit, and exit with status 120."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    stream.flush()
