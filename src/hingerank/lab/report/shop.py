"""The page of the demo: one search before and after, the curves, the value of each ranking, a certificate."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from hingerank.lab.report.clicks import places_part
from hingerank.lab.report.plain import bars, curve_panels, table, whole_page

SHOWN = ("price", "rating", "margin")  # of each product in the lists
LISTED = 7  # products of a list


def shop_page(found: Any) -> str:
    """The page of what the demo found (`hingerank.lab.demo.Demo`)."""
    parts = [_story(found), _cards(found), _search(found), _curves(found), _rankings(found)]
    parts += [places_part(found.shop.log, found.places), _why(found), _proof(found), _shipped(found)]
    return whole_page("hingerank demo", "A small shop: from clicks to a ranking", parts)


def _story(found: Any) -> str:
    log = found.shop.log
    return (
        f'<p class="note">{len(log.session_names):,} searches in a generated shop, {float(log.clicks.sum()):,.0f} '
        "clicks, no judgments. The shop puts products of high margin first, and customers mostly see the top of the "
        "page. hingerank estimated how often each position is seen, corrected the clicks for it, and learned one curve "
        "per feature.</p>"
    )


def _cards(found: Any) -> str:
    before, after = found.ndcg["today"], found.ndcg[found.best]
    value = found.values[found.best]
    cards = [
        (f"{before:.2f} → {after:.2f}", "NDCG@10 by judgments that training never saw"),
        (
            f"{100 * float(value.difference) / value.logged:+.0f} %",
            f"{value.measure.upper()} by clicks, before any A/B test",
        ),
        (f"{found.ranker.certificate_.value:.1g}", "duality gap: how far from the optimum, at most"),
    ]
    return (
        '<div class="panels">' + "".join(f'<div class="card"><b>{a}</b>{escape(b)}</div>' for a, b in cards) + "</div>"
    )


def _search(found: Any) -> str:
    """One search as the shop ranks it and as the ranker does."""
    halves = "".join(
        f"<div><h3>{escape(title)}</h3>{_listing(found, order)}</div>"
        for title, order in (("Today", found.before), ("Learned from clicks", found.after))
    )
    stars = "● marks how well customers like a product here: none to ●●●. The ranker never saw these grades."
    heading = f"<h2>A search for “{escape(str(found.query))}”</h2>"
    return f'{heading}<div class="beside">{halves}</div><p class="note">{stars}</p>'


def _listing(found: Any, order: Sequence[int]) -> str:
    rows = found.shop.rows
    columns = [rows.names.index(name) for name in SHOWN]
    head = "".join(f'<th class="number">{name}</th>' for name in SHOWN)
    lines = []
    for number, row in enumerate(order[:LISTED], 1):
        cells = "".join(f'<td class="number">{rows.X[row, j]:.4g}</td>' for j in columns)
        liked = "●" * int(rows.y[row])
        title = escape(str(found.shop.titles[row]))
        lines.append(f'<tr><td>{number}. {title} <span class="full">{liked}</span></td>{cells}</tr>')
    return f'<div class="wide-table"><table><thead><tr><th></th>{head}</tr></thead>{"".join(lines)}</table></div>'


def _curves(found: Any) -> str:
    ranker = found.ranker
    order = np.argsort(-ranker.deviations_, kind="stable")
    words = (
        "A score is the sum of these curves. Customers want a fitting title, a good rating and a price near 60. "
        "Margin, which today's ranking pushes, is almost flat. Ticks show where the products are."
    )
    panels = curve_panels([ranker.curves_[j] for j in order], [ranker.rug_[j] for j in order])
    return f'<h2>What it learned</h2><p class="note">{words}</p>{panels}'


def _rankings(found: Any) -> str:
    words = (
        "All were learned from the clicks of some searches and measured on the others. Clicks as they are repeat the "
        "ranking that was shown: margin seems to matter."
    )
    return f'<h2>What the correction does</h2><p class="note">{words}</p>{table(*found.table())}'


def _why(found: Any) -> str:
    first, second = found.explained.documents[:2]
    titles = dict(zip(found.shop.rows.docid.tolist(), found.shop.titles.tolist()))
    columns, rows = found.explained.pair(first, second)
    heading = f"<h2>Why “{escape(titles[first])}” is above “{escape(titles[second])}”</h2>"
    return heading + bars([columns[0], "first", "second", "contribution"], rows)


def _proof(found: Any) -> str:
    certificate = found.ranker.certificate_
    words = (
        "Training minimises a convex function. The certificate bounds how much lower it could be: the "
        f"{certificate.kind} is {certificate.value:.2g}, found in {certificate.n_iter} iterations."
    )
    return f'<h2>Certificate</h2><p class="note">{escape(words)}</p>'


def _shipped(found: Any) -> str:
    check = found.exported.check
    words = (
        f"{found.exported.files[0].name} holds the ranker as {found.exported.to.upper()}. It was run by "
        f"{check['consumer']} on {check['rows']:,} products; the largest difference of a score is "
        f"{check['largest_difference']:.1g}. The same steps on files of your own:"
    )
    return f'<h2>Ship it</h2><p class="note">{escape(words)}</p><pre>{escape(chr(10).join(found.commands))}</pre>'
