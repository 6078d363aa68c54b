"""One page about clicks: what was logged, how often positions are seen, and the value of rankers; no scripts."""

from collections.abc import Sequence
from html import escape

import numpy as np

from hingerank.arrays import Given
from hingerank.clicks.log import ClickData, ClickLog
from hingerank.clicks.models import CLICK_MODELS, click_model
from hingerank.clicks.propensities import Propensities
from hingerank.clicks.value import ClickValues
from hingerank.lab.report.plain import drawing, part, table, whole_page

FEWEST_LISTS = 40  # from which click models are compared


def click_page(
    title: str,
    log: ClickLog,
    data: ClickData,
    values: ClickValues | None = None,
    curves: Propensities | None = None,
    models: Sequence[Sequence[object]] = (),
) -> str:
    """The page of a log joined with features, of the values of rankings, and of rows (click model, perplexity, …)."""
    facts: Given = {
        "showings": log.n_showings,
        "clicks": float(log.cells().clicks.sum()),
        "queries": len(log.query_names),
        "documents": len(log.document_names),
        "lists of queries with features": float(np.sum(data.lists)),
        "showings with features": float(data.showings.sum()),
        "clicks with features": float(data.clicks.sum()),
        **data.notes,
    }
    rows = [[name, f"{value:,.0f}"] for name, value in facts.items()]
    parts = ["<h2>What was logged</h2>" + table(["", "count"], rows), places_part(log, curves)]
    if models:
        parts.append(
            "<h2>Click models on held-out lists</h2>" + table(["model", "perplexity", "log-likelihood"], models)
        )
    if values is not None:
        parts.append(_values(values))
    return whole_page(f"{title} – clicks", title, parts)


def held_out_models(log: ClickLog) -> list[list[object]]:
    """Rows of (click model, perplexity, log-likelihood): fitted to three lists in four, measured on the others.

    Empty where the log has no sessions, or too few.
    """
    if log.session is None or log.session_names is None or len(log.session_names) < FEWEST_LISTS:
        return []
    held = np.random.default_rng(0).random(len(log.session_names))[log.session] < 0.25
    learn, judge = log.take(~held), log.take(held & (log.place <= log.place[~held].max()))
    found = []
    for name in CLICK_MODELS:
        model = click_model(learn, name)
        found.append([name, float(model.perplexity(judge)["mean"]), float(model.log_likelihood(judge))])
    return found


def places_part(log: ClickLog, curves: Propensities | None) -> str:
    """Showings and click rates by position, and propensities with their intervals."""
    weight = np.ones(len(log)) if log.weights is None else log.weights
    n = np.bincount(log.place, weight, log.n_places + 1)[1:]
    c = np.bincount(log.place, weight * log.clicks, log.n_places + 1)[1:]
    rate = np.divide(c, n, out=np.full(len(n), np.nan), where=n > 0)
    header: list[str] = ["position", "showings", "clicks", "click rate"]
    rows: list[list[object]] = [[k + 1, int(n[k]), int(c[k]), float(rate[k])] for k in range(len(n))]
    low = high = middle = None
    if curves is not None and curves.context_names is None:
        middle = np.append(curves.values, np.full(len(n), np.nan))[: len(n)]
        header.append("propensity")
        for row, value in zip(rows, middle):
            row.append(float(value))
        if curves.method != "given":
            low, high = (np.append(bound, np.full(len(n), np.nan))[: len(n)] for bound in curves.interval())
            header.append("95 % interval")
            for row, a, b in zip(rows, low, high):
                row.append(f"{a:.3f} to {b:.3f}")
    words = (
        "Click rates mix how good documents are with how often their position is seen. Propensities (filled circles) "
        "are of the position alone. Open circles are click rates relative to position 1."
    )
    return part("How often a position is seen", words, _curve(middle, low, high, rate), table(header, rows))


def _curve(middle: np.ndarray | None, low: np.ndarray | None, high: np.ndarray | None, rate: np.ndarray) -> str:
    """Propensities with intervals, and click rates relative to the first place (open circles)."""
    width, height, pad = 640.0, 180.0, 28.0
    count = len(rate)
    first = rate[0] if count and rate[0] > 0 else 1.0
    tallest = float(np.nanmax(np.concatenate([[1.0], rate / first, [] if high is None else high])))

    def x(k: int) -> float:
        return pad + (width - 2 * pad) * k / max(count - 1, 1)

    def y(value: float) -> float:
        return height - pad + (2 * pad - height) * value / tallest

    marks = [f'<line class="line" x1="{pad}" y1="{y(0):.1f}" x2="{width - pad}" y2="{y(0):.1f}"/>']
    for k in range(count):
        marks.append(f'<text x="{x(k):.1f}" y="{height - 8:.1f}" text-anchor="middle">{k + 1}</text>')
        if np.isfinite(rate[k]):
            marks.append(f'<circle cx="{x(k):.1f}" cy="{y(rate[k] / first):.1f}" r="3" class="open"/>')
        if middle is not None and k < len(middle) and np.isfinite(middle[k]):
            marks.append(f'<circle class="mark" cx="{x(k):.1f}" cy="{y(middle[k]):.1f}" r="3"/>')
            if low is not None and high is not None:
                ends = f'y1="{y(low[k]):.1f}" y2="{y(high[k]):.1f}"'
                marks.append(f'<line class="mark" x1="{x(k):.1f}" x2="{x(k):.1f}" {ends}/>')
    return drawing("positions", width, height, marks)


def _values(values: ClickValues) -> str:
    """A table of rankers, and their differences to the shown lists as intervals."""
    some = next(iter(values.values()))
    header, rows = values.table()
    ends = np.array([each.difference.interval for each in values.values()])
    reach = float(np.abs(ends).max()) or 1.0
    width, step = 640.0, 26.0
    height = step * len(values) + 10

    def x(value: float) -> float:
        return 0.5 * width + 0.48 * width * value / reach

    marks = [f'<line class="line" x1="{x(0):.1f}" y1="0" x2="{x(0):.1f}" y2="{height:.0f}"/>']
    for k, each in enumerate(values.values()):
        y, (a, b) = step * (k + 0.7), each.difference.interval
        marks.append(f'<line class="mark" x1="{x(a):.1f}" y1="{y:.1f}" x2="{x(b):.1f}" y2="{y:.1f}"/>')
        marks.append(f'<circle class="mark" cx="{x(float(each.difference)):.1f}" cy="{y:.1f}" r="4"/>')
        marks.append(f'<text x="4" y="{y - 6:.1f}">{escape(each.name)}</text>')
    drawn = drawing("differences", width, height, marks)
    words = (
        f"{some.measure} by clicks, estimator {some.estimator}; "
        f"{100 * some.confidence:.3g} % intervals over resampled {some.resampled}. "
        "The picture shows differences to the lists as they were shown."
    )
    return part("What rankings are worth", words, table(header, rows), drawn)
