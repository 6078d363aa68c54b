"""Pages of the documentation from stored results: a figure is stored once, and pages that show it get it from there.

Two pages are about the reproductions alone and written whole. In any other page `hingerank reproduce --write-docs`
writes the tables, each between two marks:

    <!-- table sparse-steps -->
    | | r = 1 | r = 2 |
    <!-- end -->

The table is in results/sparse-steps.json beside the page, with the command that measured it, the day and the version: a
header and rows of cells. `{lai2013-table5 / OHSUMED / TGRank / MAP}` in a cell stands for our figure in that section,
row and column of a reproduction, `{paper lai2013-table5 / …}` for the paper's.

A figure in running text, also in the findings of `figures/`, is followed by the same address in a comment, which no
page shows, or by that of a stored table: its name, the first cell of the row, and the column. The number of digits is
kept:

    MAP .448<!-- = lai2013-table5 / OHSUMED / TGRank / MAP --> in 33.6<!-- = sparse-path / TGRank / milliseconds --> ms
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from hingerank.data.files import DataError, write_whole
from hingerank.papers.outcome import TIME, Outcome, figure_text
from hingerank.papers.sets import KNOWN

SUMMARY = """\
# What came out

<!-- Written by `hingerank reproduce --write-docs` from the results saved in reproductions/. Change those, or the
     data in src/hingerank/papers/figures, not this page. -->

The tables of four papers and of one set of slides were computed again. [Reproductions](reproductions.md) compares them
figure by figure. This page says what came out of each, and what to believe today.

A figure is *within* if it is near the printed one: for most tables, at most .01 of a measure from it. Otherwise it is
*above* or *below*. Figures on other data than the paper's, or on partial data, are not counted. A baseline above the
printed figure was tuned less in the paper, so the paper's own method improves on it less than printed.

"""

INTRODUCTION = """\
# Reproductions

<!-- Written by `hingerank reproduce --write-docs` from the results saved in reproductions/. Change those, or the
     data in src/hingerank/papers/figures, not this page. -->

This page repeats the tables of the papers whose methods are implemented here. `hingerank reproduce --list` lists the
tables, and `hingerank reproduce NAME` runs one. Each fit is saved as it is computed; rerun the same command to resume.
Settings are chosen on validation queries, and test queries are measured once.

Each row has the paper's figures and, below them, ours with the difference in brackets. A dash means that a figure is
not given, or not computed. The measures follow a named convention, such as LETOR 3.0's: see [Measures](measures.md).

Tables computed on partial data say so in the title. Tables computed on other data than the paper's say which data. The
paper's figures are for orientation only there, and none of them is counted as agreement. A paper's own methods and its
baselines are counted separately. Some papers cite their baselines, or tune them less than their own methods. Here all
methods are tuned in the same way, so these baselines differ from print. A line below each table says by how much.

## The sets

`hingerank reproduce` looks for a set below the folder that `--data` or `$HINGERANK_DATA` names, in the layout in which
the set is published, and then where `hingerank fetch` keeps it. It uses partial data only if the whole set is not
there. `hingerank reproduce NAME --on SET` runs the methods of a table on another set of graded rows.

- MSLR and Istella have raw values, so all methods but trees scale the columns.
- Istella's largest doubles mark missing values and become 0. Its full set has no validation queries, so every fifth
  training query is used for validation.
- HetRec 2011 has its genres in a separate file.
- The folder of TREC's Web Tracks has the diversity judgments as TREC's server names them (09/qrels.diversity.gz,
  10/10.diversity-qrels.final, 11/qrels.diversity, 12/qrels.diversity). Your own runs over ClueWeb09-B belong in
  runs/QL.txt, runs/MMR.txt, …: one file for all topics, named after the table's row.
"""

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

    def show(match: re.Match[str]) -> str:
        text = f"{look_up(match[2], outcomes, bool(match[1])):.{words.get('digits', 4)}f}"
        bare = not words.get("zero", True) and text.startswith(("0.", "-0."))
        return text.replace("0.", ".", 1) if bare else text

    rows = [[_ASKED.sub(show, text) for text in row] for row in words["rows"]]
    return markdown_lines(words["header"], rows, words.get("align"))


def look_up(address: str, outcomes: Mapping[str, Outcome], paper: bool = False) -> float:
    """Our figure, or the paper's, at "table / section / row / column"; a DataError if there is none."""
    name, title, row, column = address.split(" / ")
    for place, section in enumerate(outcomes[name].table.sections if name in outcomes else ()):
        if section.title == title:
            for figure in outcomes[name].figures(place):
                value = figure.paper if paper else figure.ours
                if (figure.row, figure.column) == (row, column) and value is not None:
                    return value
    raise DataError(f"no stored result has {'the paper’s ' * paper}{address}: run `hingerank reproduce {name}`")


def write_page(path: Path, outcomes: Sequence[Outcome], pictures: str = "reproductions") -> None:
    """Write one Markdown page with all outcomes; pictures: the folder beside it that contains theirs."""
    sets = [[name, f"`{known.fetched}`", ", ".join(f"`{f}/`" for f in known.folders)] for name, known in KNOWN.items()]
    parts = [INTRODUCTION, *_escaped(["set", "in `fetch`", "folder"], sets), "", "## The tables\n"]
    rows = []
    for o in outcomes:
        counts = [f"{close} of {total}" if total else "–" for close, total in (o.counts(own) for own in (True, False))]
        agreed = o.within() if o.counts()[1] else o.agreement()
        rows.append([f"[{o.table.name}](#{o.table.name})", o.table.cited, o.title, *counts, agreed])
    header = ["name", "paper", "table", "its own methods", "its baselines", "figures"]
    parts += [*_escaped(header, rows), ""]
    parts += [_chapter(outcome, pictures) for outcome in outcomes]
    _write_filled(path, parts, outcomes)


def _write_filled(path: Path, parts: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Write a page whose findings may have marked figures."""
    text = fill("\n".join(parts), path.parent / "results", {outcome.table.name: outcome for outcome in outcomes})
    write_whole(path, (text.rstrip() + "\n").encode())


def table_lines(outcome: Outcome, place: int) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a section: for each row a line with the paper's figures and one with ours."""
    columns, figures, lines = outcome.table.sections[place].columns, outcome.figures(place), []
    digits = {column: _digits(outcome, place, column) for column in columns}
    for name, of_row in groupby(figures, key=lambda figure: figure.row):
        row = list(of_row)
        if any(figure.paper is not None for figure in row):
            printed = [figure_text(f.paper, digits[f.column], f.column) + (f.after or "") for f in row]
            lines.append([name, "paper", *printed])
        if any(figure.ours is not None for figure in row):
            own = []
            for f in row:
                spread = "" if f.spread is None or f.after is None else f" ± {f.spread:.{digits[f.column] - 1}f}"
                apart = "" if f.difference is None else f" ({f.difference:+.{digits[f.column]}f})"
                own.append(figure_text(f.ours, digits[f.column], f.column) + f.marks + spread + apart)
            lines.append([name, "ours", *own])
    return ["", "", *columns], lines


def _digits(outcome: Outcome, place: int, column: str) -> int:
    """The section's number of decimals; none in a column of counts."""
    figures = [figure for figure in outcome.figures(place) if figure.column == column]
    values = [value for figure in figures for value in (figure.paper, figure.ours) if value is not None]
    counts = all(float(value).is_integer() for value in values) and all(figure.spread is None for figure in figures)
    return 0 if counts and column != TIME else outcome.table.sections[place].digits


def _chapter(outcome: Outcome, pictures: str) -> str:
    table = outcome.table
    lines = [f"## {table.name}", "", f"{table.paper}. {outcome.title}.", "", table.setup, ""]
    for place in range(len(table.sections)):
        if not outcome.sections[place]:
            continue
        lines += [f"**{outcome.section_title(place)}**", "", *_escaped(*table_lines(outcome, place)), ""]
        if outcome.note(place):
            lines += [outcome.note(place), ""]
    if outcome.not_run():
        lines += [outcome.not_run(), ""]
    lines += [outcome.summary(), "", *outcome.grids()]
    lines += [f"![{table.name}: the paper's figures beside ours]({pictures}/{table.name}.svg)", ""]
    if table.finding:
        lines += [table.finding, ""]
    if outcome.when():
        lines += [outcome.when(), ""]
    return "\n".join(lines)


def _escaped(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table of text, in which nothing is markup."""
    header, *lines = ([cell.replace("|", "\\|").replace("*", "\\*") for cell in row] for row in (header, *rows))
    return markdown_lines(header, lines)


def markdown_lines(
    header: Sequence[str], rows: Iterable[Sequence[str]], align: Sequence[str] | None = None
) -> list[str]:
    """The lines of a Markdown table; align: the cells of its second line, "---" for each column by default."""
    lines = (header, align or ["---"] * len(header), *rows)
    return ["|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|" for cells in lines]


def write_what_came_out(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write one Markdown page about all papers."""
    papers = {outcome.table.paper: outcome.table for outcome in outcomes}
    rows, parts = [], []
    for paper, table in papers.items():
        own = [outcome for outcome in outcomes if outcome.table.paper == paper]
        sides = [np.sum([outcome.sides(of) for outcome in own], axis=0) for of in (True, False)]
        rows.append([table.cited, *(str(n) if found.any() else "–" for found in sides for n in found.tolist())])
        parts += [f"## {table.cited}", "", f"{paper}.", "", f"**What came out.** {table.came_out}", ""]
        findings = [
            f"- [{o.table.name}](reproductions.md#{o.table.name}): {o.agreement()}. "
            + re.split(r"(?<=\.) ", o.table.finding, maxsplit=1)[0]  # its first sentence
            for o in own
            if o.counts()[1]
        ]
        parts += [f"**What to believe.** {table.believe}", "", *findings, ""]
    header = ["paper", "own methods: above", "within", "below", "baselines: above", "within", "below"]
    _write_filled(path, [SUMMARY + "\n".join(markdown_lines(header, rows)), "", *parts], outcomes)
