"""The picture of a table: the paper's figures and ours, a panel for each column, as a small SVG file."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

LABELS, WIDTH, LINE, ABOVE, BELOW = 190, 170, 15, 34, 24  # pixels: row names, panel, row, title, axis
PANELS = 4  # side by side
PAPER, OURS, FAINT, INK = "#c2571a", "#1f5fa8", "#d5d5d5", "#333333"


class PlotPoint(NamedTuple):
    """A row: the paper's figure and ours, None if there is none, and our standard deviation over folds or starts."""

    row: str
    paper: float | None
    ours: float | None
    spread: float | None


class Panel(NamedTuple):
    """A column of a section; sections are below each other."""

    section: str
    column: str
    points: Sequence[PlotPoint]
    digits: int = 4


def draw(panels: Sequence[Panel]) -> str:
    """SVG with rows from top to bottom, figures from left to right; hollow: the paper's, filled: ours with deviation.

    >>> picture = draw([Panel("Set", "MAP", [PlotPoint("RSVM", 0.44, 0.45, 0.01)])])
    >>> picture.count("<circle"), picture.count("<rect"), "RSVM" in picture
    (2, 2, True)
    """
    parts = [*_key()]
    top = 28
    for section, own in groupby(panels, key=lambda panel: panel.section):
        columns = list(own)
        parts.append(_text(6, top + 12, section, weight="bold"))
        top += 18
        for first in range(0, len(columns), PANELS):
            line = columns[first : first + PANELS]
            rows = list(dict.fromkeys(point.row for panel in line for point in panel.points))
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


def _key() -> list[str]:
    """The legend."""
    return [
        _diamond(14, 14),
        _text(24, 18, "the paper"),
        f'<circle cx="90" cy="14" r="3.5" fill="{OURS}"/>',
        _text(100, 18, "ours, with the standard deviation over folds (of “ten starts”: over starts)"),
    ]


def _panel(panel: Panel, rows: Sequence[str], left: float, top: float) -> list[str]:
    ends = [end for point in panel.points for end in _ends(point)]
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
    for point in panel.points:
        y = top + ABOVE + rows.index(point.row) * LINE
        if point.ours is not None and point.spread:
            a, b = across(point.ours - point.spread), across(point.ours + point.spread)
            parts.append(f'<line x1="{a:.1f}" y1="{y}" x2="{b:.1f}" y2="{y}" stroke="{OURS}"/>')
        if point.ours is not None:
            parts.append(f'<circle cx="{across(point.ours):.1f}" cy="{y}" r="3.5" fill="{OURS}"/>')
        if point.paper is not None:
            parts.append(_diamond(across(point.paper), y))
    return parts


def _ends(point: PlotPoint) -> list[float]:
    """The values that must be inside the panel."""
    around = [] if point.ours is None else [point.ours - (point.spread or 0.0), point.ours + (point.spread or 0.0)]
    return around + ([] if point.paper is None else [point.paper])


def _diamond(x: float, y: float) -> str:
    corners = f"{x:.1f},{y - 5:g} {x + 5:.1f},{y:g} {x:.1f},{y + 5:g} {x - 5:.1f},{y:g}"
    return f'<polygon points="{corners}" fill="none" stroke="{PAPER}" stroke-width="1.4"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 10, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
