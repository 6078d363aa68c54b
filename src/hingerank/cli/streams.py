"""Standard output and standard error as they are given: closed, full, or a pipe whose reader has left."""

import os
import sys
from typing import TextIO


def open_streams() -> None:
    """Put something in the place of standard streams that are closed, before a file that is opened takes their number.

    What is written to a closed standard output fails as on a full disk; standard error just has no reader.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def say(text: str) -> None:
    """A text on stderr; where that cannot be written to, nobody is listening."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def flush_output() -> OSError | None:
    """Write what stdout still holds; the error where that fails, after which it holds nothing."""
    try:
        sys.stdout.flush()
    except OSError as error:
        drop(sys.stdout)
        return error
    return None


def drop(stream: TextIO) -> None:
    """Let go of what a stream holds: Python would try to write it again when it ends, and exit with 120."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    stream.flush()
