"""The page of reproductions, from saved outcomes, and the same tables for the terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hingerank.lab.reproductions.outcome import Figure, Outcome
from hingerank.lab.reproductions.table import TIME

INTRODUCTION = """\
# Reproductions

<!-- Written by `hingerank reproduce --write-docs` from the results saved in reproductions/. Change those, or the
     descriptions in src/hingerank/evaluation/reproductions, not this page. -->

Tables of the papers whose methods are implemented here, run again. `hingerank reproduce NAME` runs one: it needs the
data in `$HINGERANK_DATA` (or `--data`), keeps every fit as it comes, and goes on where it stopped when it is started
again. `hingerank reproduce --list` says what there is. Settings are chosen on validation queries; test queries are
measured once.

Each row has the paper's figures and, below them, ours with the difference in brackets. A dash means that a figure is
not given, or not computed. What a figure means is fixed by a preset of the measures: see [Measures](measures.md).
"""


def write_page(path: Path, outcomes: Sequence[Outcome]) -> None:
    """One Markdown page with all outcomes."""
    from hingerank.lab.store import write_whole

    parts = [INTRODUCTION, _overview(outcomes), *(_chapter(outcome) for outcome in outcomes)]
    write_whole(path, ("\n".join(parts).rstrip() + "\n").encode())


def table_lines(outcome: Outcome, place: int) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a section: for each row a line with the paper's figures and one with ours."""
    section = outcome.table.sections[place]
    lines = []
    for row in outcome.figures(place):
        if any(figure.paper is not None for figure in row):
            lines.append([row[0].row, "paper", *(_number(f.paper, section.digits, f.column) + f.after for f in row)])
        if any(figure.ours is not None for figure in row):
            lines.append([row[0].row, "ours", *(_own(f, section.digits) for f in row)])
    return ["", "", *section.columns], lines


def _chapter(outcome: Outcome) -> str:
    table = outcome.table
    lines = [f"## {table.name}", "", f"{table.paper}. {table.title}.", "", table.setup, ""]
    for place, section in enumerate(table.sections):
        header, rows = table_lines(outcome, place)
        if not rows:  # a section newer than the saved results
            continue
        lines += [f"**{section.title}**", "", *_markdown(header, rows), ""]
        if outcome.note(place):
            lines += [outcome.note(place), ""]
    lines += [outcome.summary(), ""]
    if table.finding:
        lines += [table.finding, ""]
    return "\n".join(lines)


def _overview(outcomes: Iterable[Outcome]) -> str:
    rows = [[f"[{o.table.name}](#{o.table.name})", o.table.cited, o.table.title, o.agreement()] for o in outcomes]
    return "\n".join([*_markdown(["name", "paper", "table", "agreement"], rows), ""])


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    line = [" --- "] * len(header)
    return [_line(header), "|" + "|".join(line) + "|", *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |"


def _number(value: float | None, digits: int, column: str = "") -> str:
    if value is None:
        return "–"
    if column == TIME:
        digits = 1 if value >= 10 else 2
    return f"{value:.{digits}f}"


def _own(figure: Figure, digits: int) -> str:
    text = _number(figure.ours, digits, figure.column) + figure.marks
    text += "" if figure.spread is None else f" ± {figure.spread:.{digits - 1}f}"
    return text if figure.difference is None else f"{text} ({figure.difference:+.{digits}f})"
