"""What came out of running a paper's table again: kept as small JSON, compared figure by figure."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hingerank.lab.reproductions.table import TIME, Ours, PaperTable, Place, Section
from hingerank.lab.store import plain, write_whole
from hingerank.lab.versions import versions

KEPT = 6  # decimals in the saved file


@dataclass(frozen=True)
class Figure:
    """One figure: where it stands, the paper's and ours, None where there is none, our marks of significance, what the
    paper prints after its figure, and our standard deviation where the paper gives one."""

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
    """sections: {row: Ours} for each section of the table; seconds: of the run that ended it; versions: used."""

    table: PaperTable
    sections: Sequence[Mapping[str, Ours]]
    seconds: float
    versions: Mapping[str, str]

    def figures(self, place: int) -> list[list[Figure]]:
        """The figures of a section, row by row: the paper's rows, then those only we have."""
        return compared(self.table.sections[place], self.sections[place])

    def note(self, place: int) -> str:
        """What the marks in a section mean, and that there are none if so."""
        text = self.table.sections[place].note
        marked = any(figure.marks for row in self.figures(place) for figure in row)
        return text if marked or not text else f"{text} No method is."

    def differences(self) -> Iterator[tuple[Section, Figure]]:
        """Every figure that both have."""
        for place, section in enumerate(self.table.sections):
            for row in self.figures(place):
                for figure in row:
                    if figure.difference is not None:
                        yield section, figure

    def agreement(self) -> str:
        """How many figures agree: "26 of 30 figures within 0.01"."""
        found = list(self.differences())
        if not found:
            return "none to compare"
        close = sum(abs(figure.difference or 0) <= section.close * (1 + 1e-9) for section, figure in found)
        least = max((section.close for section in self.table.sections), default=0.0)
        return f"{close} of {len(found)} figures " + (f"within {least:g}" if least else "equal")

    def summary(self) -> str:
        """How many figures agree, by how much ours are larger on average, and where the largest difference is."""
        found = list(self.differences())
        if not found:
            return "No figure to compare."
        mean = sum(figure.difference or 0 for _, figure in found) / len(found)
        section, far = max(found, key=lambda pair: abs(pair[1].difference or 0))
        place = ", ".join([section.title] * (len(self.table.sections) > 1) + [far.row, far.column])
        return (
            f"{self.agreement()}; ours minus the paper's: {mean:+.{section.digits}f} on average, at most "
            f"{far.difference:+.{section.digits}f} ({place})."
        )

    def save(self, folder: Path) -> Path:
        """Write NAME.json into the folder."""
        path = folder / f"{self.table.name}.json"
        sections = [
            {"title": section.title, "rows": {row: _short(ours) for row, ours in rows.items()}}
            for section, rows in zip(self.table.sections, self.sections)
        ]
        words = {"name": self.table.name, "seconds": round(self.seconds, 1), "versions": dict(self.versions)}
        text = json.dumps(plain({**words, "sections": sections}), indent=1, ensure_ascii=False)
        write_whole(path, (text + "\n").encode())
        return path


def reproduce(table: PaperTable, place: Place) -> Outcome:
    """Run every section of a table."""
    start = time.perf_counter()
    sections = [section.compute(place) for section in table.sections]
    return Outcome(table, sections, time.perf_counter() - start, versions())


def load_outcome(table: PaperTable, folder: Path) -> Outcome | None:
    """What `save` wrote for this table, or None."""
    path = folder / f"{table.name}.json"
    if not path.exists():
        return None
    words = json.loads(path.read_text("utf-8"))
    found = {section["title"]: section["rows"] for section in words["sections"]}
    sections = [{row: Ours(**ours) for row, ours in found.get(section.title, {}).items()} for section in table.sections]
    return Outcome(table, sections, words["seconds"], words["versions"])


def compared(section: Section, ours: Mapping[str, Ours]) -> list[list[Figure]]:
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


def _short(ours: Ours) -> dict[str, Any]:
    """As JSON, rounded, without what is not there."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, KEPT)
        return {k: rounded(v) for k, v in value.items()} if isinstance(value, Mapping) else value

    words = {name: value for name, value in asdict(ours).items() if value}
    if "chosen" in words:
        words["chosen"] = [dict(setting) for setting in words["chosen"]]
    return {"values": {}, **{k: v if k == "chosen" else rounded(v) for k, v in words.items()}}
