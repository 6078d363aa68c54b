"""Pages without scripts: one file, its style, tables, bars and curves. Every text of the data is escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from hingerank.notebook import shown
from hingerank.rankers.explanation import Explanation
from hingerank.rankers.shapes import Curve

MOST_DOCUMENTS = 50

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing loads, nothing runs
STYLE = """
:root { color-scheme: light dark; --mark: #2a78b5; --for: #1b7a4b; --against: #c2554a; --line: #8886; --soft: #8881; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; } h3 { font-size: 1rem; margin: .4rem 0; }
p.note { opacity: .8; } pre { overflow-x: auto; background: var(--soft); padding: .6rem .8rem; font-size: .85rem; }
table { border-collapse: collapse; }
td, th { padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.bars { width: 100%; } td.bar { width: 45%; border-left: 1px solid var(--line); padding-right: 0; }
td.bar svg { display: block; width: 100%; height: 1em; }
table.bars tr:last-child td { border-top: 1px solid var(--line); }
svg text { font-size: 11px; fill: currentColor; } svg.wide { display: block; max-width: 40rem; }
.mark { fill: var(--mark); stroke: var(--mark); } .for { color: var(--for); }
.against { fill: var(--against); color: var(--against); } .line { stroke: var(--line); }
.open { fill: none; stroke: currentColor; opacity: .6; }
.curve { fill: none; stroke: var(--mark); stroke-width: 2; } .wide-table { overflow-x: auto; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: .4rem 1.6rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .4rem 1rem; }
.card { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .8rem; }
.card b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.full { color: var(--mark); } .best { font-weight: 600; }
td.words { min-width: 8rem; } td.words span { margin-right: .6em; line-height: 1.5; }
td.reasons span { margin-right: .9em; white-space: nowrap; } circle.user { fill: var(--mark); opacity: .35; }
circle.named { fill: var(--against); }
"""


def whole_page(title: str, heading: str, parts: Sequence[str]) -> str:
    """An HTML document; title and heading are escaped here, parts are HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(heading)}</h1>{''.join(parts)}</body></html>\n"
    )


def part(heading: str, note: str, *content: str) -> str:
    """A part of a page below a heading and a note, both text; the content is HTML already."""
    return f'<h2>{escape(heading)}</h2><p class="note">{escape(note)}</p>{"".join(content)}'


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    kinds = ["number" if place else "" for place in range(len(header))]
    return html_table(header, kinds, [[escape(shown(cell)) for cell in row] for row in rows])


def html_table(header: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> str:
    """A table of cells that are HTML already; kinds: the class of each column's cells."""
    head = "".join(f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, header))
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, row)) + "</tr>" for row in rows
    )
    start = f'<div class="wide-table"><table class="{style}"><thead><tr>{head}</tr></thead>'
    return f"{start}<tbody>{body}</tbody></table></div>"


def drawing(label: str, width: float, height: float, marks: Sequence[str], kind: str = "wide") -> str:
    """An SVG picture of marks."""
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}"'
    return f'<svg class="{kind}" {size}>{"".join(marks)}</svg>'


def bars(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table whose last column is drawn as bars from a middle line; its last row is the sum."""
    widest = max((abs(float(row[-1])) for row in rows[:-1]), default=1.0) or 1.0
    drawn = [*(_bar(float(row[-1]) / widest) for row in rows[:-1]), ""]
    cells = [[escape(str(row[0])), *(escape(shown(item)) for item in row[1:]), bar] for row, bar in zip(rows, drawn)]
    return html_table([*header, ""], ["", *["number"] * (len(header) - 1), "bar"], cells, "bars")


def _bar(size: float) -> str:
    """A bar from the middle of its cell, to the right for numbers above 0; size: from -1 to 1."""
    width = 50.0 * min(abs(size), 1.0)
    left, side = (50.0, "mark") if size >= 0 else (50.0 - width, "against")
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{side}" x="{left:.2f}" y="1" width="{width:.2f}" height="8" stroke="none"/>'
        '<line class="line" x1="50" y1="0" x2="50" y2="10" vector-effect="non-scaling-stroke"/></svg>'
    )


def curve_panels(curves: Sequence[Curve], rugs: Sequence[np.ndarray]) -> str:
    """A small picture of each curve, all with the same height scale; ticks below (rugs) say where the data are."""
    low = min((float(curve.heights.min()) for curve in curves), default=0.0)
    high = max((float(curve.heights.max()) for curve in curves), default=0.0)
    panels = [_panel(curve, np.asarray(rug), low, max(high, low + 1e-12)) for curve, rug in zip(curves, rugs)]
    return f'<div class="panels">{"".join(panels)}</div>'


def _panel(curve: Curve, rug: np.ndarray, low: float, high: float) -> str:
    width, height, floor = 220.0, 120.0, 96.0
    first, last = float(curve.knots.min()), float(curve.knots.max())

    def x(value: float) -> float:
        return 6.0 + (width - 12.0) * (float(value) - first) / ((last - first) or 1.0)

    def y(value: float) -> float:
        return floor - 8.0 - (floor - 26.0) * (float(value) - low) / (high - low)

    points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(curve.knots, curve.heights))
    inside = rug[(rug >= first) & (rug <= last)]
    ticks = "".join(
        f'<line class="line" x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{floor}" y2="{floor + 6}"/>' for v in inside
    )
    zero = (
        f'<line class="line" x1="6" x2="{width - 6}" y1="{y(0.0):.1f}" y2="{y(0.0):.1f}"/>' if low <= 0 <= high else ""
    )
    ends = (
        f'<text x="6" y="{height - 4}">{first:.4g}</text>'
        f'<text x="{width - 6}" y="{height - 4}" text-anchor="end">{last:.4g}</text>'
    )
    title = f'<text x="6" y="12" class="best">{escape(str(curve.name))}</text>'
    line = f'<polyline class="curve" points="{points}"/>'
    return drawing(f"curve of {curve.name}", width, height, [title, zero, line, ticks, ends], "small")


def explained_page(
    explanation: Explanation, query: str, pair: Sequence[str] | None = None, top: int | None = 10
) -> str:
    """The page of one query's explanation, rows best first; pair: two documents to compare first."""
    parts = [f'<p class="note">What each feature contributed to the score; {escape(explanation.how)}.</p>']
    if pair is not None:
        names = f"{escape(str(pair[0]))} and {escape(str(pair[1]))}"
        parts.append(f"<h2>Why {names} have different scores</h2>" + bars(*explanation.pair(pair[0], pair[1], top)))
    for place in range(min(len(explanation), MOST_DOCUMENTS)):
        name = escape(str(explanation.documents[place]))
        parts.append(f"<h2>{place + 1}. document {name}</h2>" + bars(*explanation.table(place, top)))
    left = len(explanation) - MOST_DOCUMENTS
    if left > 0:
        parts.append(f'<p class="note">{left:,} more documents are not shown.</p>')
    return whole_page(f"query {query} – hingerank explains", f"Query {query}", parts)
