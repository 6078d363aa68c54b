"""The command-line reference: the help of every command, as a terminal shows it, written before the site is read."""

import contextlib
import io
import os
from pathlib import Path

WIDTH = "96"


def write(folder: Path) -> None:
    """command-line.rst: a section for each panel, and in it one for each command."""
    from hingerank.cli.app import PANELS

    folder.mkdir(exist_ok=True)
    parts = [
        "Command line\n============\n\n",
        "This page has every option. In a terminal ``--help`` shows those for the usual kind of data, and at its end "
        "names the other pages, such as ``hingerank fit --help ratings``.\n\n"
        "Every command takes ``--json``, and ``--force`` where it writes. A mistake is one line and a status other "
        "than 0; ``--debug`` adds the traceback.\n\n",
        _block(_help(["--help"])),
    ]
    for panel, commands in PANELS.items():
        parts.append(f"{panel}\n{'-' * len(panel)}\n\n")
        for name in commands:
            title = f"hingerank {name}"
            parts.append(f"{title}\n{'~' * len(title)}\n\n{_block(_help([name, '--help', 'all']))}")
    path, text = folder / "command-line.rst", "".join(parts)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def _help(command: list[str]) -> str:
    from hingerank.cli import main

    before, said = os.environ.get("COLUMNS"), io.StringIO()
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(said):
            main(command)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return said.getvalue()


def _block(text: str) -> str:
    return ".. code-block:: text\n\n" + "".join(f"   {line}".rstrip() + "\n" for line in text.splitlines()) + "\n"
