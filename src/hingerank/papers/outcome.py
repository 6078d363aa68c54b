"""The outcome of running a paper's table again: saved as small JSON, compared figure by figure, and drawn."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.files import plain, write_whole
from hingerank.lab.run_folder import versions
from hingerank.papers.engine import Ours, PaperTable, Place, Recipe, Section, shown
from hingerank.papers.sets import MissingSet
from hingerank.search.settings import size_of
from hingerank.watching import describe_time

LABELS, WIDTH, LINE, ABOVE, BELOW = 190, 170, 15, 34, 24  # pixels: row names, panel, row, title, axis
PANELS = 4  # side by side
PAPER, OURS, FAINT, INK = "#c2571a", "#1f5fa8", "#d5d5d5", "#333333"

TIME = "seconds"  # a column of this name is shown but not compared: machines differ
KEPT = 6  # decimals in the saved file
BY_ROW = ("letor.comparison", "personal.personal")  # runners that compute a row independently of the others


@dataclass(frozen=True)
class Figure:
    """One figure: its row and column, the paper's value and ours, None if there is none.

    marks: our marks of significance. after: what the paper prints after its figure, None if it prints nothing after
    those of the row. spread: our standard deviation.
    """

    row: str
    column: str
    paper: float | None
    ours: float | None
    marks: str = ""
    after: str | None = None
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

    def not_run(self) -> str:
        """A sentence that names the sections whose data were not available; "" if all were."""
        titles = "; ".join(section.title for section, ours in zip(self.table.sections, self.sections) if not ours)
        return f"Not run: data unavailable ({titles})." if titles else ""

    def figures(self, place: int) -> list[Figure]:
        """The figures of a section, row by row: the paper's rows, then those that only we have."""
        section, ours = self.table.sections[place], self.sections[place]
        found = []
        for name in dict.fromkeys([*section.figures, *ours]):
            given = section.figures.get(name) or [None] * len(section.columns)
            own = ours.get(name, Ours({}))
            marks, spread = own.marks or {}, own.spread or {}
            after: Sequence[str | None] = section.after.get(name, [None] * len(section.columns))
            for c, paper, printed in zip(section.columns, given, after, strict=True):
                found.append(Figure(name, c, paper, own.values.get(c), marks.get(c, ""), printed, spread.get(c)))
        return found

    def note(self, place: int) -> str:
        """The meaning of the marks in a section, and a sentence if there are none."""
        text = self.table.sections[place].note
        marked = any(figure.marks for figure in self.figures(place))
        return text if marked or not text else f"{text} No method is."

    def differences(self) -> Iterator[tuple[Section, Figure]]:
        """Every figure that both have for the same data; those of a part or a stand-in are for orientation only."""
        for place, section in enumerate(self.table.sections):
            for figure in self.figures(place) if section.counted and not self.share(place) else []:
                if figure.difference is not None:
                    yield section, figure

    def sides(self, own: bool | None = None) -> np.ndarray:
        """How many figures are above, within and below print; own: only the paper's own methods, or its baselines."""
        found = np.zeros(3, int)
        for section, figure in self.differences():
            if own is None or self.table.is_own(figure.row, figure.column) == own:
                apart, close = figure.difference or 0, section.close * (1 + 1e-9)
                found[0 if apart > close else 2 if apart < -close else 1] += 1
        return found

    def counts(self, own: bool | None = None) -> tuple[int, int]:
        """(Figures that agree, all figures); own as in `sides`."""
        found = self.sides(own)
        return int(found[1]), int(found.sum())

    def agreement(self) -> str:
        """How many figures agree: "7 of 8 figures of its own methods are within 0.01 of the paper's"."""
        if not self.counts()[1]:
            return "for orientation only" if self._printed() else "none to compare"
        counted = []
        for own, of in ((True, " of its own methods"), (False, " of its baselines")):
            near, total = self.counts(own)
            if total:
                counted.append(f"{near} of {total} figures" + of * bool(self.table.own))
        close = self.within()
        return f"{' and '.join(counted)} are {close} {'to' if close == 'equal' else 'of'} the paper's"

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
            f"{self.agreement()}. Ours minus the paper's is {mean:+.{section.digits}f} on average; the largest "
            f"difference is {far.difference:+.{section.digits}f} ({place}).{why}"
        )

    def moved_from(self, old: "Outcome") -> list[str]:
        """Our figures that changed in a digit that is shown: "OHSUMED, RSVM, MAP: 0.4479 to 0.4481"."""
        found = []
        for place, section in enumerate(self.table.sections):
            before = {(f.row, f.column): f.ours for f in old.figures(place) if f.column != TIME}
            after = {(f.row, f.column): f.ours for f in self.figures(place) if f.column != TIME}
            for cell in dict.fromkeys([*before, *after]):
                was, now = (figure_text(values.get(cell), section.digits) for values in (before, after))
                if was != now:
                    found.append(f"{', '.join([section.title, *cell])}: {was} to {now}")
        return found

    @property
    def source(self) -> str:
        """The table's name and a check sum of our figures: what a picture drawn from them says of its origin."""
        values = [{row: dict(ours.values) for row, ours in rows.items()} for rows in self.sections]
        return f"{self.table.name} {crc32(json.dumps(values).encode()):08x}"

    def picture(self) -> str:
        """SVG of the paper's figures and ours, a panel for each column of a section that was run."""
        panels = []
        for place, section in enumerate(self.table.sections):
            for column in (column for column in section.columns if column != TIME):
                if shown := [f for f in self.figures(place) if f.column == column and f.ours is not None]:
                    panels.append(Panel(self.section_title(place), column, shown, section.digits))
        return draw(panels)

    def grids(self) -> list[str]:
        """Lines that say which grids were extended because the best value was at their edge, and where it still is."""
        grown: dict[str, dict[str, set[object]]] = {}
        edges: dict[str, dict[str, dict[str, None]]] = {}
        for row, recipe, ours in self._chosen():
            for name, values in (ours.widened or {}).items():
                grown.setdefault(row, {}).setdefault(name, set()).update(values)
            if found := recipe.edges(ours):
                why = f" ({self._why(row)})" if self._why(row) else ""
                where = "an end of these grids, which are the paper's own or hold all values there are"
                where = where if recipe.closed else f"the edge of all that was tried, in some fold{why}"
                edges.setdefault(where, {}).setdefault(row, {}).update(dict.fromkeys(found))
        lines: list[str] = []
        if grown:
            beyond = []
            for row, by_name in grown.items():
                in_order = {name: sorted(tried, key=lambda v: size_of(v) or 0.0) for name, tried in by_name.items()}
                texts = [f"{name} = {', '.join(map(shown, tried))}" for name, tried in in_order.items()]
                beyond.append(f"{row} ({' and '.join(texts)})")
            text = "Grids grew where the best value was at their edge; values tried beyond"
            lines += [f"{text}: {'; '.join(beyond)}.", ""]
        for where, rows in edges.items():
            best = [f"{row} ({', '.join(values)})" for row, values in rows.items()]
            lines += [f"The best value is at {where}: {'; '.join(best)}.", ""]
        return lines

    def when(self) -> str:
        """The day and the version of most rows, and those of the others; "" if they were not saved."""
        if not self.date:
            return ""
        first = f"{self.date} by version {self.versions['hingerank']}"
        stamps = [(row, ours.made or first) for rows in self.sections for row, ours in rows.items()]
        times = [time for _, time in stamps]
        most = max([first, *times], key=times.count)
        others = dict.fromkeys(f"{row} on {time}" for row, time in stamps if time != most)
        return f"Run on {'; '.join([most, *others])}."

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

    def _printed(self) -> bool:
        """Whether the paper has a figure for one of ours, on whatever data."""
        places = range(len(self.table.sections))
        return any(figure.difference is not None for place in places for figure in self.figures(place))

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
    by_row = [section for section in saved.table.sections if section.runner in BY_ROW]
    known = dict.fromkeys(row for section in by_row for row in section.methods)
    for row in rows:
        if row not in known:
            choice = f"choose from {', '.join(map(repr, known))}" if known else "leave out --row"
            raise ValueError(f"{saved.table.name} has no row {row!r} that can be run alone: {choice}")
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


def figure_text(value: float | None, digits: int, column: str = "") -> str:
    """A figure as tables show it; a dash where there is none."""
    if value is None:
        return "–"
    if column == TIME:
        digits = 1 if value >= 10 else 2
    return f"{value:.{digits}f}"


def _short(ours: Ours) -> Facts:
    """As JSON without empty fields; figures are rounded, chosen settings are not."""

    def rounded(value: object) -> object:
        if isinstance(value, Mapping):
            return {k: rounded(v) for k, v in value.items()}
        return round(value, KEPT) if isinstance(value, float) else value

    return {"values": {}, **{name: rounded(value) for name, value in asdict(ours).items() if value}}


def cost(table: PaperTable, saved: Outcome | None = None) -> str:
    """The number of settings to try, and how long their fits took when the table was saved.

    >>> from hingerank.papers import TABLES
    >>> cost(TABLES["xu2019-fig2"])
    'xu2019-fig2: nothing to choose; how long it takes is not known'
    """
    recipes = {row: recipe for section in table.sections for row, recipe in section.methods.items()}
    tried = {row: math.prod(map(len, recipe.search.values())) for row, recipe in recipes.items()}
    words = f"{len(tried)} methods, {sum(tried.values())} settings a fold or more" if tried else "nothing to choose"
    found = {row: ours for rows in (saved.sections if saved else []) for row, ours in rows.items() if row in tried}
    fits = [tried[row] * max(1, len(ours.chosen)) * (ours.seconds or 0.0) for row, ours in found.items()]
    if saved is None:
        return f"{table.name}: {words}; how long it takes is not known"
    return (
        f"{table.name}: {words}; it took {describe_time(sum(fits) or saved.seconds)} when it was saved ({saved.date})"
    )


# The picture of a table: the paper's figures and ours, a panel for each column, as a small SVG file.


class Panel(NamedTuple):
    """A column of a section, with the figures that we have; sections are below each other."""

    section: str
    column: str
    figures: Sequence[Figure]
    digits: int = 4


def draw(panels: Sequence[Panel]) -> str:
    """SVG with rows from top to bottom, figures from left to right; hollow: the paper's, filled: ours with deviation.

    >>> picture = draw([Panel("Set", "MAP", [Figure("RSVM", "MAP", 0.44, 0.45, spread=0.01)])])
    >>> picture.count("<circle"), picture.count("<rect"), "RSVM" in picture
    (2, 2, True)
    """
    parts = [
        _diamond(14, 14),
        _text(24, 18, "the paper"),
        f'<circle cx="90" cy="14" r="3.5" fill="{OURS}"/>',
        _text(100, 18, "ours, with the standard deviation over folds (of “ten starts”: over starts)"),
    ]
    top = 28
    for section, own in groupby(panels, key=lambda panel: panel.section):
        columns = list(own)
        parts.append(_text(6, top + 12, section, weight="bold"))
        top += 18
        for first in range(0, len(columns), PANELS):
            line = columns[first : first + PANELS]
            rows = list(dict.fromkeys(figure.row for panel in line for figure in panel.figures))
            for k, row in enumerate(rows):
                parts.append(_text(LABELS - 8, top + ABOVE + k * LINE + 4, row, "end"))
            for place, panel in enumerate(line):
                parts += _panel(panel, rows, LABELS + place * WIDTH, top)
            top += ABOVE + len(rows) * LINE + BELOW
    width = LABELS + PANELS * WIDTH + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
    style = f'font-family="sans-serif" font-size="10" fill="{INK}">'
    paper = f'<rect x="0" y="0" width="{width}" height="{top}" fill="white"/>'
    return "\n".join([head + style, paper, *parts, "</svg>", ""])


def _panel(panel: Panel, rows: Sequence[str], left: float, top: float) -> list[str]:
    points = [(f.row, f.paper, f.ours or 0.0, f.spread or 0.0) for f in panel.figures]
    ends = [end for _, _, ours, spread in points for end in (ours - spread, ours + spread)]
    ends += [paper for _, paper, _, _ in points if paper is not None]
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    inner = WIDTH - 26

    def across(value: float) -> float:
        return left + 8 + inner * (value - low) / (high - low)

    bottom = top + ABOVE + len(rows) * LINE - 6
    parts = [_text(left + 8 + inner / 2, top + 14, panel.column, "middle")]
    parts.append(f'<rect x="{left + 8}" y="{top + 22}" width="{inner}" height="{bottom - top - 22:g}" '
                 f'fill="none" stroke="{FAINT}"/>')  # fmt: skip
    for value in (low + margin, (low + high) / 2, high - margin):
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="{INK}"/>')
        parts.append(_text(x, bottom + 14, f"{value:.{min(panel.digits, 3)}f}", "middle", 8))
    for row, paper, ours, spread in points:
        y = top + ABOVE + rows.index(row) * LINE
        if spread:
            a, b = across(ours - spread), across(ours + spread)
            parts.append(f'<line x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}" stroke="{OURS}"/>')
        parts.append(f'<circle cx="{across(ours):.1f}" cy="{y}" r="3.5" fill="{OURS}"/>')
        if paper is not None:
            parts.append(_diamond(across(paper), y))
    return parts


def _diamond(x: float, y: float) -> str:
    corners = f"{x:.1f},{y - 5:g} {x + 5:.1f},{y:g} {x:.1f},{y + 5:g} {x - 5:.1f},{y:g}"
    return f'<polygon points="{corners}" fill="none" stroke="{PAPER}" stroke-width="1.4"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 10, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
