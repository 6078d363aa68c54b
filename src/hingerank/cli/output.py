"""Output of commands: results on stdout as tables or JSON, progress on stderr of a terminal, files written whole."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from hingerank.data.files import naming, plain, replace_file
from hingerank.notebook import shown

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: object, stream: IO[str] | None = None) -> None:
    """Print one JSON document to `stream` (default: stdout). NaN and infinity, which JSON lacks, become null.

    The document is indented on a terminal, and one line in a pipe or a file.
    """
    stream = stream or sys.stdout
    print(json.dumps(plain(value), indent=2 if stream.isatty() else None, allow_nan=False), file=stream)


Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]  # title, names of columns, rows
Answer = tuple[Any, ...]  # what a command found: a document for JSON, then tables and lines of text


def answer(json: bool, document: object, *shown: "Table | str") -> None:
    """Print what a command found: one JSON document, or tables and lines of text."""
    if json:
        print_json(document)
        return
    for each in shown:
        if isinstance(each, str):
            print(each)
        else:
            print_table(*each)


def facts(title: str, found: Mapping[str, object]) -> Table:
    """Return names and values as a table."""
    return title, ["", ""], [[name.replace("_", " "), value] for name, value in found.items()]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table to stdout: text aligned left, numbers aligned right; without column names it is a list of facts."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if any(columns) else None, show_header=any(columns), pad_edge=False)
    kinds = (SupportsIndex, SupportsFloat)
    numeric = [bool(rows) and all(isinstance(row[place], kinds) for row in rows) for place in range(len(columns))]
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(item)) for item in row))
    out = console()
    out.print(Text(title, style="bold"), soft_wrap=True)
    out.print(table)


def console(stderr: bool = False) -> "Console":
    """Return a rich console on stdout or stderr. It is wide if that is not a terminal, so that no cell is folded."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 240, highlight=False)


@contextmanager
def progress(label: str, share: bool = False, bytes_counted: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr. Call the result with (done, total or None), or with a fraction from 0 to 1.

    Nothing is shown if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda done, total=None, label=None: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    counter = TaskProgressColumn() if share else DownloadColumn() if bytes_counted else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=1.0 if share else None)
        yield lambda done, total=None, label=label: bar.update(
            task, completed=done, total=1.0 if share else total, description=label
        )


@contextmanager
def speaking(label: str) -> Iterator[Callable[..., None]]:
    """Like `progress`; if stderr is not a terminal, print a line about the search from time to time."""
    from hingerank import watching

    with progress(label) as advance:
        if sys.stderr.isatty():
            yield advance
            return
        with watching.progress(sys.stderr):
            yield advance


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show a spinner on stderr while something of unknown length runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(label):
        yield


def note(text: str) -> None:
    """Print a remark on stderr if it is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


@contextmanager
def writing(path: Path | None) -> Iterator[IO[str]]:
    """Open a text stream to `path`, or to stdout if it is None; the file appears only after all of it is written.

    The ending of `path` says how to compress.
    """
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not path.is_file():  # /dev/stdout or a named pipe: it cannot be renamed
        with naming(path), open(path, "w", encoding="utf-8") as stream:
            yield stream
        return
    with replace_file(path) as file, TextIOWrapper(file, encoding="utf-8") as stream:
        yield stream
