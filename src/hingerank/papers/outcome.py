"""The outcome of running a paper's table again: saved as small JSON, compared figure by figure, shown as a page."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from hingerank.arrays import Facts
from hingerank.data.files import plain, write_whole
from hingerank.lab.run_folder import versions
from hingerank.papers.engine import Ours, PaperTable, Place, Recipe, Section, shown
from hingerank.papers.pictures import Panel, PlotPoint, draw
from hingerank.papers.sets import KNOWN, MissingSet

TIME = "seconds"  # a column of this name is shown but not compared: machines differ
KEPT = 6  # decimals in the saved file
BY_ROW = ("comparison", "personal")  # runners that compute a row independently of the others


@dataclass(frozen=True)
class Figure:
    """One figure: its row and column, the paper's value and ours, None if there is none.

    marks: our marks of significance. after: what the paper prints after its figure. spread: our standard deviation, if
    the paper gives one.
    """

    row: str
    column: str
    paper: float | None
    ours: float | None
    marks: str = ""
    after: str = ""
    spread: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.paper is None or self.ours is None or self.column == TIME:
            return None
        return self.ours - self.paper


@dataclass(frozen=True)
class Outcome:
    """The results of a table.

    Attributes
    ----------
    sections : {row: Ours} for each section of the table, {} for one that was not run
    seconds : duration of the last run
    versions : of the libraries used
    shares : for each section the part of its set that it was run on, "" for all of it
    date : of the run, as in 2026-11-15
    """

    table: PaperTable
    sections: Sequence[Mapping[str, Ours]]
    seconds: float
    versions: Mapping[str, str]
    shares: Sequence[str] = ()
    date: str = ""

    def share(self, place: int) -> str:
        """The part of its set that a section was run on, "" for all of it."""
        return self.shares[place] if self.shares else ""

    @property
    def title(self) -> str:
        """The table's title, with the part of the data that it was run on."""
        shares = dict.fromkeys(filter(None, self.shares))
        return self.table.title + (f" (on {', '.join(shares)})" if shares else "")

    def section_title(self, place: int) -> str:
        """The section's title, with the part of the data that it was run on."""
        return ", ".join(filter(None, [self.table.sections[place].title, self.share(place)]))

    def not_run(self) -> list[str]:
        """The titles of the sections whose data were not available."""
        return [section.title for section, ours in zip(self.table.sections, self.sections) if not ours]

    def figures(self, place: int) -> list[list[Figure]]:
        """The figures of a section, row by row: the paper's rows, then those that only we have."""
        return compared(self.table.sections[place], self.sections[place])

    def note(self, place: int) -> str:
        """The meaning of the marks in a section, and a sentence if there are none."""
        text = self.table.sections[place].note
        marked = any(figure.marks for row in self.figures(place) for figure in row)
        return text if marked or not text else f"{text} No method is."

    def differences(self) -> Iterator[tuple[Section, Figure]]:
        """Every figure that both have for the same data; those of a part or a stand-in are for orientation only."""
        for place, section in enumerate(self.table.sections):
            for row in self.figures(place) if section.counted and not self.share(place) else []:
                for figure in row:
                    if figure.difference is not None:
                        yield section, figure

    def counts(self, own: bool | None = None) -> tuple[int, int]:
        """(Figures that agree, all figures); own: only the paper's own methods (True) or its baselines (False)."""
        found = [
            abs(figure.difference or 0) <= section.close * (1 + 1e-9)
            for section, figure in self.differences()
            if own is None or self.table.is_own(figure.row, figure.column) == own
        ]
        return sum(found), len(found)

    def agreement(self) -> str:
        """How many figures agree: "7 of 8 figures of its own methods and 5 of 20 figures of its baselines equal"."""
        if not self.counts()[1]:
            return "for orientation only" if self._printed() else "none to compare"
        counted = []
        for own, of in ((True, " of its own methods"), (False, " of its baselines")):
            close, total = self.counts(own)
            if total:
                counted.append(f"{close} of {total} figures" + of * bool(self.table.own))
        return f"{' and '.join(counted)} {self.within()}"

    def within(self) -> str:
        """What counts as agreement: "within 0.01"."""
        least = max((section.close for section in self.table.sections), default=0.0)
        return f"within {least:g}" if least else "equal"

    def summary(self) -> str:
        """How many figures agree, by how much ours are larger on average, and where the largest difference is."""
        found = list(self.differences())
        if not found and self._printed():
            return "The paper's figures are of other data: they are for orientation only, and none is counted."
        if not found:
            return "No figure to compare."
        mean = sum(figure.difference or 0 for _, figure in found) / len(found)
        section, far = max(found, key=lambda pair: abs(pair[1].difference or 0))
        place = ", ".join([section.title] * (len(self.table.sections) > 1) + [far.row, far.column])
        far_off = self.counts(False)[0] < self.counts(False)[1]
        why = f" Baselines: {self.table.baselines}" if self.table.own and self.table.baselines and far_off else ""
        return (
            f"{self.agreement()}; ours minus the paper's: {mean:+.{section.digits}f} on average, at most "
            f"{far.difference:+.{section.digits}f} ({place}).{why}"
        )

    def moved_from(self, old: "Outcome") -> list[str]:
        """Our figures that changed in a digit that is shown: "OHSUMED, RSVM, MAP: 0.4479 to 0.4481"."""
        found = []
        for place, section in enumerate(self.table.sections):
            before = {(f.row, f.column): f.ours for row in old.figures(place) for f in row if f.column != TIME}
            after = {(f.row, f.column): f.ours for row in self.figures(place) for f in row if f.column != TIME}
            for cell in dict.fromkeys([*before, *after]):
                was, now = (_number(values.get(cell), section.digits) for values in (before, after))
                if was != now:
                    found.append(f"{', '.join([section.title, *cell])}: {was} to {now}")
        return found

    def picture(self) -> str:
        """SVG of the paper's figures and ours, a panel for each column of a section that was run."""
        panels = []
        for place, section in enumerate(self.table.sections):
            ours, rows = self.sections[place], self.figures(place) if self.sections[place] else []
            for column in section.columns if rows else []:
                cells = [cell for row in rows for cell in row if cell.column == column and column != TIME]
                points = [
                    PlotPoint(cell.row, cell.paper, cell.ours, (ours[cell.row].spread or {}).get(column))
                    for cell in cells
                    if cell.ours is not None
                ]
                if points:
                    panels.append(Panel(self.section_title(place), column, points, section.digits))
        return draw(panels)

    def grids(self) -> list[str]:
        """Lines that say which grids were extended because the best value was at their edge, and where it still is."""
        grown: list[str] = []
        edges: dict[str, list[str]] = {}
        for row, recipe, ours in self._chosen():
            grown += [f"{row} ({name} = {', '.join(map(shown, values))})"
                      for name, values in (ours.widened or {}).items()]  # fmt: skip
            if found := recipe.edges(ours):
                edges.setdefault(self._why_at_edge(row, recipe), []).append(f"{row} ({', '.join(found)})")
        lines: list[str] = []
        if grown:
            lines += [f"Grids grew where the best value was at their edge: {'; '.join(dict.fromkeys(grown))}.", ""]
        for why, rows in edges.items():
            lines += [f"Best at {why}: {'; '.join(dict.fromkeys(rows))}.", ""]
        return lines

    def edges(self) -> dict[str, str]:
        """Rows of open grids whose best value is at an edge of all that was tried -> why; "" if no reason is given."""
        return {row: self._why(row) for row, recipe, ours in self._chosen() if recipe.edges(ours) and not recipe.closed}

    def _chosen(self) -> Iterator[tuple[str, Recipe, Ours]]:
        for place, section in enumerate(self.table.sections):
            for row, recipe in section.methods.items():
                if row in self.sections[place]:
                    yield row, recipe, self.sections[place][row]

    def _why(self, row: str) -> str:
        return next((why for rows, why in self.table.edges.items() if fnmatchcase(row, rows)), "")

    def _why_at_edge(self, row: str, recipe: Recipe) -> str:
        if recipe.closed:
            return "an end of a grid that stays, the paper's own or of all values there are"
        why = self._why(row)
        return "the edge of what was tried, in some fold" + (f" ({why})" if why else "")

    def _printed(self) -> bool:
        """Whether the paper has a figure for one of ours, on whatever data."""
        rows = (row for place in range(len(self.table.sections)) for row in self.figures(place))
        return any(figure.difference is not None for row in rows for figure in row)

    def save(self, folder: Path) -> Path:
        """Write NAME.json, and NAME.svg with the picture, into the folder."""
        path = folder / f"{self.table.name}.json"
        sections = [
            {
                "title": section.title,
                **({"share": self.share(place)} if self.share(place) else {}),
                "rows": {row: _short(ours) for row, ours in rows.items()},
            }
            for place, (section, rows) in enumerate(zip(self.table.sections, self.sections))
        ]
        words = {
            "name": self.table.name,
            "date": self.date,
            "seconds": round(self.seconds, 1),
            "versions": dict(self.versions),
        }
        text = json.dumps(plain({**words, "sections": sections}), indent=1, ensure_ascii=False)
        write_whole(path, (text + "\n").encode())
        write_whole(path.with_suffix(".svg"), self.picture().encode())
        return path


def reproduce(table: PaperTable, place: Place) -> Outcome:
    """Run every section of a table whose data are available; a MissingSet if no section's are."""
    start = time.perf_counter()
    sections: list[Mapping[str, Ours]] = []
    missing = []
    for section in table.sections:
        try:
            sections.append(section.compute(place))
        except MissingSet as error:
            sections.append({})
            missing.append(error)
    if missing and not any(sections):
        raise missing[0]
    shares = [place.share(section.study.data) if ours else "" for section, ours in zip(table.sections, sections)]
    return Outcome(table, sections, time.perf_counter() - start, versions(), shares, time.strftime("%Y-%m-%d"))


def reproduce_rows(saved: Outcome, rows: Sequence[str], place: Place) -> Outcome:
    """A saved outcome with these rows run again in every section that compares them; the others stay unchanged."""
    known = [row for section in saved.table.sections if section.runner in BY_ROW for row in section.methods]
    for row in rows:
        if row not in known:
            raise ValueError(
                f"{saved.table.name} has no row {row!r} that can be run alone; choose from {', '.join(known)}"
            )
    used = versions()
    made = f"{time.strftime('%Y-%m-%d')} by version {used['hingerank']}"
    sections: list[Mapping[str, Ours]] = []
    for section, old in zip(saved.table.sections, saved.sections):
        wanted = {row: section.methods[row] for row in rows if row in section.methods}
        if section.runner not in BY_ROW or not wanted:
            sections.append(old)
            continue
        if section.marks:
            raise ValueError(f"the marks of {section.title!r} compare its rows, so run all of {saved.table.name}")
        try:
            found = replace(section, methods=wanted).compute(place)
        except MissingSet:
            if old:
                raise
            found = {}  # as when the whole table was run
        new = {row: replace(ours, made=made) for row, ours in found.items()}
        merged = {**old, **new}
        sections.append({row: merged[row] for row in section.methods if row in merged})
    return replace(saved, sections=sections)


def load_outcome(table: PaperTable, folder: Path) -> Outcome | None:
    """The outcome that `save` wrote for this table, or None."""
    path = folder / f"{table.name}.json"
    if not path.exists():
        return None
    words = json.loads(path.read_text("utf-8"))
    found = {section["title"]: section for section in words["sections"]}
    known = [found.get(section.title, {"rows": {}}) for section in table.sections]
    sections = [{row: Ours(**ours) for row, ours in section["rows"].items()} for section in known]
    shares = [section.get("share", "") for section in known]
    return Outcome(table, sections, words["seconds"], words["versions"], shares, words.get("date", ""))


def compared(section: Section, ours: Mapping[str, Ours]) -> list[list[Figure]]:
    """The figures of a section with ours."""
    rows = []
    for name in dict.fromkeys([*section.figures, *ours]):
        given = section.figures.get(name) or [None] * len(section.columns)
        own = ours.get(name, Ours({}))
        marks, after = own.marks or {}, section.after.get(name, [""] * len(section.columns))
        spread = own.spread or {} if name in section.after else {}
        rows.append(
            [
                Figure(name, c, paper, own.values.get(c), marks.get(c, ""), printed, spread.get(c))
                for c, paper, printed in zip(section.columns, given, after, strict=True)
            ]
        )
    return rows


def _short(ours: Ours) -> Facts:
    """As JSON without empty fields; figures are rounded, chosen settings are not."""

    def rounded(value: object) -> object:
        if isinstance(value, Mapping):
            return {k: rounded(v) for k, v in value.items()}
        return round(value, KEPT) if isinstance(value, float) else value

    return {"values": {}, **{name: rounded(value) for name, value in asdict(ours).items() if value}}


# The page of reproductions, from saved outcomes, and the same tables for the terminal.

INTRODUCTION = """\
# Reproductions

<!-- Written by `hingerank reproduce --write-docs` from the results saved in reproductions/. Change those, or the
     data in src/hingerank/papers/figures, not this page. -->

This page repeats the tables of the papers whose methods are implemented here. `hingerank reproduce NAME` runs one
table. It finds the data below the folder that `--data` or `$HINGERANK_DATA` names, or where `hingerank fetch` keeps
them. It saves each fit as it is computed; rerun the same command to resume. `hingerank reproduce --list` lists the
tables. Settings are chosen on validation queries, and test queries are measured once.

Each row has the paper's figures and, below them, ours with the difference in brackets. A dash means that a figure is
not given, or not computed. A preset of the measures fixes what each figure means: see [Measures](measures.md).

Tables computed on partial data say so in the title. Tables computed on other data than the paper's say which data; the
paper's figures are for orientation only there, and none of them is counted as agreement. A paper's own methods and its
baselines are counted separately. Some papers cite their baselines, or tune them less than their own methods. Here all
methods are tuned in the same way, so these baselines differ from print. A line below each table says by how much.

## The sets

`hingerank reproduce` looks for a set in that folder, in the layout in which it is published, and then where
`hingerank fetch` keeps it. It uses partial data only if the whole set is not there. `hingerank reproduce NAME --on SET`
runs the methods of a table on another set of graded rows.

- MSLR and Istella have raw values, so all methods but trees scale the columns.
- Istella's largest doubles mark missing values and become 0. Its full set has no validation queries, so every fifth
  training query is used for validation.
- HetRec 2011 has its genres in a separate file.
- The folder of TREC's Web Tracks has the diversity judgments as TREC's server names them (09/qrels.diversity.gz,
  10/10.diversity-qrels.final, 11/qrels.diversity, 12/qrels.diversity). Your own runs over ClueWeb09-B belong in
  runs/QL.txt, runs/MMR.txt, …: one file for all topics, named after the table's row.
"""


def write_page(path: Path, outcomes: Sequence[Outcome], pictures: str = "reproductions") -> None:
    """Write one Markdown page with all outcomes; pictures: the folder beside it that contains theirs."""
    parts = [
        INTRODUCTION,
        _sets(),
        "## The tables\n",
        _overview(outcomes),
        *(_chapter(outcome, pictures) for outcome in outcomes),
    ]
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


def _chapter(outcome: Outcome, pictures: str) -> str:
    table = outcome.table
    lines = [f"## {table.name}", "", f"{table.paper}. {outcome.title}.", "", table.setup, ""]
    for place in range(len(table.sections)):
        if not outcome.sections[place]:
            continue
        lines += [f"**{outcome.section_title(place)}**", "", *_markdown(*table_lines(outcome, place)), ""]
        if outcome.note(place):
            lines += [outcome.note(place), ""]
    if outcome.not_run():
        lines += [f"Not run: data unavailable ({', '.join(outcome.not_run())}).", ""]
    lines += [outcome.summary(), "", *outcome.grids()]
    lines += [f"![{table.name}: the paper's figures beside ours]({pictures}/{table.name}.svg)", ""]
    if table.finding:
        lines += [table.finding, ""]
    if outcome.date:
        later = {row: ours.made for rows in outcome.sections for row, ours in rows.items() if ours.made}
        when = [f"{outcome.date} by version {outcome.versions['hingerank']}"]
        lines += [f"Run on {'; '.join(when + [f'{row} on {made}' for row, made in later.items()])}.", ""]
    return "\n".join(lines)


def _sets() -> str:
    rows = [[name, f"`{known.fetched}`", ", ".join(f"`{f}/`" for f in known.folders)] for name, known in KNOWN.items()]
    return "\n".join([*_markdown(["set", "in `fetch`", "folder"], rows), ""])


def _counted(outcome: Outcome, own: bool) -> str:
    """The cell of the overview for the paper's own methods, or for its baselines."""
    close, total = outcome.counts(own)
    return f"{close} of {total}" if total else "–"


def _overview(outcomes: Iterable[Outcome]) -> str:
    rows = [
        [
            f"[{o.table.name}](#{o.table.name})",
            o.table.cited,
            o.title,
            _counted(o, True),
            _counted(o, False),
            o.within() if o.counts()[1] else o.agreement(),
        ]
        for o in outcomes
    ]
    header = ["name", "paper", "table", "its own methods", "its baselines", "figures"]
    return "\n".join([*_markdown(header, rows), ""])


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return markdown_lines(_escaped(header), map(_escaped, rows))


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|").replace("*", "\\*") for cell in cells]


def markdown_lines(
    header: Sequence[str], rows: Iterable[Sequence[str]], align: Sequence[str] | None = None
) -> list[str]:
    """The lines of a Markdown table; align: the cells of its second line, "---" for each column by default."""
    return [_line(header), _line(align or ["---"] * len(header)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


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
