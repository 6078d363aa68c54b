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

    Empty where the log has no sessions, or too few, or no clicks.
    """
    if log.session is None or log.session_names is None or len(log.session_names) < FEWEST_LISTS:
        return []
    held = np.random.default_rng(0).random(len(log.session_names))[log.session] < 0.25
    learn, judge = log.take(~held), log.take(held & (log.place <= log.place[~held].max()))
    if not learn.clicks.any():
        return []
    found = []
    for name in CLICK_MODELS:
        model = click_model(learn, name)
        found.append([name, float(model.perplexity(judge)["mean"]), float(model.log_likelihood(judge))])
    return found


def places_part(log: ClickLog, curves: Propensities | None) -> str:
    """Showings and click rates by position, and propensities with their intervals."""
    found = log.describe().places
    place, rate = np.array(found["place"], np.int64), np.array(found["rate"])
    columns: dict[str, Sequence[object]] = {
        "position": place.tolist(), "showings": list(map(int, found["showings"])),
        "clicks": list(map(int, found["clicks"])), "click rate": rate.tolist(),
    }  # fmt: skip
    middle = low = high = np.full(len(place), np.nan)

    def here(values: np.ndarray) -> np.ndarray:
        return np.append(values, np.nan)[np.minimum(place - 1, len(values))]

    if curves is not None and curves.context_names is None:
        middle = here(curves.values)
        columns["propensity"] = middle.tolist()
        if curves.method != "given":
            low, high = map(here, curves.interval())
            columns["95 % interval"] = [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high)]
    words = (
        "Click rates mix how good documents are with how often their position is seen. Propensities (filled circles) "
        "are of the position alone. Open circles are click rates relative to position 1."
    )
    drawn = _curve(place, rate / (rate[0] if len(rate) and rate[0] > 0 else 1.0), middle, low, high)
    return part("How often a position is seen", words, drawn, table(list(columns), list(zip(*columns.values()))))


def _curve(place: np.ndarray, rate: np.ndarray, middle: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    """Propensities with intervals, and click rates relative to the first place (open circles)."""
    width, height, pad = 640.0, 180.0, 28.0
    tallest = float(np.nanmax(np.concatenate([[1.0], rate, middle, high])))
    across = np.linspace(pad, width - pad, max(len(place), 2))

    def y(value: float) -> float:
        return height - pad + (2 * pad - height) * value / tallest

    marks = [f'<line class="line" x1="{pad}" y1="{y(0):.1f}" x2="{width - pad}" y2="{y(0):.1f}"/>']
    for x, name, clicked, value, a, b in zip(across, place, rate, middle, low, high):
        marks.append(f'<text x="{x:.1f}" y="{height - 8:.1f}" text-anchor="middle">{name}</text>')
        marks.append(f'<circle cx="{x:.1f}" cy="{y(clicked):.1f}" r="3" class="open"/>')
        if np.isfinite(value):
            marks.append(f'<circle class="mark" cx="{x:.1f}" cy="{y(value):.1f}" r="3"/>')
        if np.isfinite(a):
            marks.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{y(a):.1f}" y2="{y(b):.1f}"/>')
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
