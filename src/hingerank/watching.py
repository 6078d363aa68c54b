"""`with hingerank.progress():` shows how far long fits are; without it nothing is printed."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO

FIRST, AGAIN, LINES = 0.5, 0.2, 5.0  # seconds before the first message, between messages, and between lines of a log


class Board:
    """One line that is updated in a terminal or a notebook; elsewhere a new line every few seconds."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.live = stream, stream.isatty() or "ipykernel" in sys.modules
        self.said = time.monotonic() + FIRST - (AGAIN if self.live else LINES)
        self.width, self.task, self.outlook = 0, "", ""

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.said >= (AGAIN if self.live else LINES):
            self.said = now
            parts = (self.task, self.outlook, text)
            self._write(": ".join(part for part in parts if part))

    def tell(self, iteration: int, figures: Mapping[str, object], tolerance: float, measured: str) -> None:
        """Show the figures of a solver's iteration."""
        value = figures.get(measured)
        goal = f", {measured} {value:.2g} (stops at {tolerance:.2g})" if isinstance(value, float) else ""
        self(f"iteration {iteration}{goal}, {figures.get('seconds', 0.0):.1f} s")

    def _write(self, text: str) -> None:
        end = "" if self.live else "\n"
        start = "\r" if self.live else ""
        self.stream.write(f"{start}{text:<{self.width}}{end}")
        self.stream.flush()
        self.width = max(len(text), self.width) if self.live else 0

    def close(self) -> None:
        if self.live and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


BOARD: ContextVar[Board | None] = ContextVar("hingerank progress", default=None)


@contextmanager
def progress(stream: IO[str] | None = None) -> Iterator[None]:
    """Show how far the fits and searches within are, once they take longer than half a second.

    Parameters
    ----------
    stream : where to write; default the error stream

    Examples
    --------
    >>> import hingerank as hr
    >>> with hr.progress():
    ...     ranker = hr.RankSVM(C=0.01).fit(hr.make_letor(20, seed=0))
    """
    board = Board(sys.stderr if stream is None else stream)
    token = BOARD.set(board)
    try:
        yield
    finally:
        BOARD.reset(token)
        board.close()


def is_watched() -> bool:
    """Whether progress is shown, so that texts for it are worth making."""
    return BOARD.get() is not None


def tell_task(task: str) -> None:
    """Show what the following fits are part of."""
    board = BOARD.get()
    if board is not None:
        board.task, board.outlook = task, ""
        board("…")


def tell_outlook(outlook: str) -> None:
    """Show how far a search is, and how long it may still take."""
    board = BOARD.get()
    if board is not None:
        board.outlook = outlook
        board("")


def describe_time(seconds: float) -> str:
    """ "about 40 s", "about 3 min", ...

    >>> describe_time(200)
    'about 3 min'
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(1, round(seconds))} s"
