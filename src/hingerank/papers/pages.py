"""Figures of the documentation from stored results: each is stored once, and the pages that show it are filled from it.

A page marks where a table goes, and `hingerank reproduce --write-docs` writes what is between the marks:

    <!-- table sparse-steps -->
    | | r = 1 | r = 2 |
    <!-- end -->

The table is in results/sparse-steps.json beside the page, with the command that measured it, the day and the version: a
header and rows of cells. `{lai2013-table5 / OHSUMED / TGRank / MAP}` in a cell stands for our figure in that section,
row and column of a reproduction, `{paper lai2013-table5 / …}` for the paper's.

A figure in running text is followed by the same address in a comment, which no page shows, or by that of a stored
table: its name, the first cell of the row, and the column. The number of digits is kept:

    MAP .448<!-- = lai2013-table5 / OHSUMED / TGRank / MAP --> in 33.6<!-- = sparse-path / TGRank / milliseconds --> ms
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hingerank.arrays import Given
from hingerank.data.files import DataError, write_whole
from hingerank.papers.outcome import Outcome, compared, markdown_lines

MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
FIGURE = re.compile(r"([-+−]?[\d,]*\.?\d+)(<!-- = (paper )?([^<>]+?) -->)")
_ASKED = re.compile(r"\{(paper )?([^{}]+? / [^{}]+? / [^{}]+? / [^{}]+?)\}")


def fill_pages(docs: Path, outcomes: Mapping[str, Outcome]) -> list[Path]:
    """Write the marked tables and figures of a folder's pages and the README beside it; returns the changed pages."""
    changed = []
    for path in [*sorted(docs.glob("*.md")), *docs.parent.glob("README.md")]:
        text = path.read_text("utf-8")
        new = fill(text, docs / "results", outcomes)
        if new != text:
            write_whole(path, new.encode())
            changed.append(path)
    return changed


def fill(text: str, results: Path, outcomes: Mapping[str, Outcome]) -> str:
    """The text of a page with its marked tables and figures filled from the files of `results` and reproductions."""

    def table(match: re.Match[str]) -> str:
        lines = stored_table(results / f"{match[2]}.json", outcomes)
        return match[1] + "".join(f"{line}\n" for line in lines) + match[4]

    def figure(match: re.Match[str]) -> str:
        shown, mark, paper, address = match.groups()
        parts = address.split(" / ")
        value = look_up_cell(parts, results, outcomes) if len(parts) == 3 else look_up(address, outcomes, bool(paper))
        return written_as(shown, value) + mark

    return FIGURE.sub(figure, MARKED.sub(table, text))


def written_as(shown: str, value: float) -> str:
    """A value in the format of `shown`: its digits, sign, commas and zero before the point.

    >>> written_as(".828", 0.8256), written_as("+1,234.5", 2345.67), written_as("0.83", 0.8256)
    ('.826', '+2,345.7', '0.83')
    """
    digits, bare = len(shown.partition(".")[2]), shown.lstrip("+-−")
    text = f"{abs(value):{',' if ',' in shown else ''}.{digits}f}"
    sign = (shown[0] if shown[0] in "-−" else "-") if value < 0 else "+" * shown.startswith("+")
    return sign + (text.removeprefix("0") if bare.startswith(".") else text)


def look_up_cell(parts: list[str], results: Path, outcomes: Mapping[str, Outcome]) -> float:
    """The first number in a cell of a stored table, given its name, the first cell of the row, and the column."""
    name, row, column = parts
    header, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in stored_table(results / f"{name}.json", outcomes)
    )
    cell = next((cells[header.index(column)] for cells in rows if cells[0] == row and column in header), "")
    if (number := re.search(r"[-+−]?[\d,]*\.?\d+", cell)) is None:
        raise DataError(f"{results / f'{name}.json'} has no number in the row {row!r} and the column {column!r}")
    return float(number[0].replace(",", "").replace("−", "-"))


def stored_table(path: Path, outcomes: Mapping[str, Outcome]) -> list[str]:
    """The Markdown lines of a stored table, with its references looked up."""
    if not path.is_file():
        raise DataError(f"there is no {path}, but a page shows this table: run its benchmark, or remove the mark")
    words = json.loads(path.read_text("utf-8"))
    show = _shown(words)

    def cell(text: str) -> str:
        return _ASKED.sub(lambda match: show(look_up(match[2], outcomes, bool(match[1]))), text)

    return markdown_lines(words["header"], [[cell(text) for text in row] for row in words["rows"]], words.get("align"))


def look_up(address: str, outcomes: Mapping[str, Outcome], paper: bool = False) -> float:
    """Our figure, or the paper's, at "table / section / row / column"; a DataError if there is none."""
    name, title, row, column = address.split(" / ")
    for place, section in enumerate(outcomes[name].table.sections if name in outcomes else ()):
        if section.title == title:
            for figures in compared(section, outcomes[name].sections[place]):
                for figure in figures:
                    value = figure.paper if paper else figure.ours
                    if (figure.row, figure.column) == (row, column) and value is not None:
                        return value
    raise DataError(f"no stored result has {'the paper’s ' * paper}{address}: run `hingerank reproduce {name}`")


def _shown(words: Given) -> Callable[[float], str]:
    """How the table writes a figure: its number of digits, and whether there is a zero before the point."""
    digits, zero = words.get("digits", 4), words.get("zero", True)

    def show(value: float) -> str:
        text = f"{value:.{digits}f}"
        return text if zero else text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text

    return show
