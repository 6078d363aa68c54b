"""One page that shows what the features gave to the scores of a query: bars, complete in itself, no scripts."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from hingerank.notebook import shown
from hingerank.rankers.explanation import Explanation

MOST_DOCUMENTS = 50
STYLE = """
:root { color-scheme: light dark; --for: #2a78b5; --against: #c2554a; --line: #8886; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; } p.note { opacity: .75; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .15rem .5rem; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bar { width: 45%; border-left: 1px solid var(--line); border-right: 1px solid var(--line); }
svg { display: block; width: 100%; height: 1em; }
rect.for { fill: var(--for); } rect.against { fill: var(--against); } line { stroke: var(--line); }
tr.sum td { border-top: 1px solid var(--line); font-weight: 600; }
"""


def explained_page(
    explanation: Explanation, query: str, pair: Sequence[str] | None = None, top: int | None = 10
) -> str:
    """The page of one query's explanation, rows best first; pair: two documents to set apart first.

    Every text of the data is escaped, and the page's policy lets nothing load or run.
    """
    parts = []
    if pair is not None:
        columns, rows = explanation.pair(pair[0], pair[1], top)
        parts.append(
            f"<h2>Why {escape(str(pair[0]))} and {escape(str(pair[1]))} stand apart</h2>" + _bars(columns, rows)
        )
    for place in range(min(len(explanation), MOST_DOCUMENTS)):
        name = escape(str(explanation.documents[place]))
        parts.append(f"<h2>{place + 1}. document {name}</h2>" + _bars(*explanation.table(place, top)))
    left = len(explanation) - MOST_DOCUMENTS
    more = f'<p class="note">{left:,} more documents are not shown.</p>' if left > 0 else ""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>query {escape(query)} – hingerank explains</title><style>{STYLE}</style></head><body>"
        f"<h1>Query {escape(query)}</h1>"
        f'<p class="note">What each feature gave to the score; {escape(explanation.how)}.</p>'
        f"{''.join(parts)}{more}</body></html>\n"
    )


def _bars(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table whose last column is drawn as bars from a middle line; its last row is the sum."""
    widest = max((abs(float(row[-1])) for row in rows[:-1]), default=1.0) or 1.0
    head = "".join(
        f'<th class="number">{escape(name)}</th>' if place else f"<th>{escape(name)}</th>"
        for place, name in enumerate(columns)
    )
    body = []
    for place, row in enumerate(rows):
        last = place == len(rows) - 1
        cells = "".join(f'<td class="number">{escape(shown(item))}</td>' for item in row[1:])
        bar = "" if last else _bar(float(row[-1]) / widest)
        start = '<tr class="sum">' if last else "<tr>"
        body.append(f'{start}<td>{escape(str(row[0]))}</td>{cells}<td class="bar">{bar}</td></tr>')
    return f"<table><thead><tr>{head}<th></th></tr></thead><tbody>{''.join(body)}</tbody></table>"


def _bar(part: float) -> str:
    width = 50.0 * float(np.clip(abs(part), 0.0, 1.0))
    start, side = (50.0, "for") if part >= 0 else (50.0 - width, "against")
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{side}" x="{start:.2f}" y="1" width="{width:.2f}" height="8"/>'
        '<line x1="50" y1="0" x2="50" y2="10" vector-effect="non-scaling-stroke"/></svg>'
    )
