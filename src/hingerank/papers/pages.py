"""Tables of the documentation from stored results: a figure has one place, and the pages that show it take it there.

A page marks where a table stands, and `hingerank reproduce --write-docs` writes what is between the marks:

    <!-- table sparse-steps -->
    | | r = 1 | r = 2 |
    <!-- end -->

The table is in results/sparse-steps.json beside the page, with the command that measured it, the day and the version: a
header and rows of cells. `{lai2013-table5 / OHSUMED / TGRank / MAP}` in a cell stands for our figure in that section,
row and column of a reproduction, `{paper lai2013-table5 / …}` for the paper's.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hingerank.data.files import DataError, write_whole
from hingerank.papers.outcome import Outcome, compared, markdown_lines

MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_ASKED = re.compile(r"\{(paper )?([^{}]+? / [^{}]+? / [^{}]+? / [^{}]+?)\}")


def fill_pages(docs: Path, outcomes: Mapping[str, Outcome]) -> list[Path]:
    """Write the marked tables of the pages in a folder anew; the pages that changed."""
    changed = []
    for path in sorted(docs.glob("*.md")):
        text = path.read_text("utf-8")
        new = fill(text, docs / "results", outcomes)
        if new != text:
            write_whole(path, new.encode())
            changed.append(path)
    return changed


def fill(text: str, results: Path, outcomes: Mapping[str, Outcome]) -> str:
    """The text of a page with its marked tables from the files of `results`."""

    def table(match: re.Match[str]) -> str:
        lines = stored_table(results / f"{match[2]}.json", outcomes)
        return match[1] + "".join(f"{line}\n" for line in lines) + match[4]

    return MARKED.sub(table, text)


def stored_table(path: Path, outcomes: Mapping[str, Outcome]) -> list[str]:
    """The Markdown lines of a stored table, its references looked up."""
    if not path.is_file():
        raise DataError(f"there is no {path}: a page shows this table")
    words = json.loads(path.read_text("utf-8"))
    show = _shown(words)

    def cell(text: str) -> str:
        return _ASKED.sub(lambda match: show(look_up(match[2], outcomes, bool(match[1]))), text)

    return markdown_lines(words["header"], [[cell(text) for text in row] for row in words["rows"]], words.get("align"))


def look_up(address: str, outcomes: Mapping[str, Outcome], paper: bool = False) -> float:
    """Our figure, or the paper's, at "table / section / row / column"; a DataError where there is none."""
    name, title, row, column = address.split(" / ")
    for place, section in enumerate(outcomes[name].table.sections if name in outcomes else ()):
        if section.title == title:
            for figures in compared(section, outcomes[name].sections[place]):
                for figure in figures:
                    value = figure.paper if paper else figure.ours
                    if (figure.row, figure.column) == (row, column) and value is not None:
                        return value
    raise DataError(f"no stored result has {'the paper’s ' * paper}{address}: run `hingerank reproduce {name}`")


def _shown(words: Mapping[str, Any]) -> Callable[[float], str]:
    """How the table writes a figure: with so many digits, and with a zero before the point or without."""
    digits, zero = words.get("digits", 4), words.get("zero", True)

    def show(value: float) -> str:
        text = f"{value:.{digits}f}"
        return text if zero else text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text

    return show
