"""One HTML page of a run: everything inside the file, nothing from the network, no text from the data taken as code."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from hingerank.lab.report.payload import make_payload
from hingerank.lab.results import Results, load_results
from hingerank.lab.store import write_whole

MOST_BYTES = 2_000_000
SCRIPTS = ("chart.js", "tables.js", "queries.js", "page.js")


def write_report(
    run: Results | Path | str, path: Path | str | None = None, baseline: str | None = None, test: str = "randomisation"
) -> Path:
    """Write the page of a run (results or a run folder) to `path`, by default report.html in the run folder."""
    results = run if isinstance(run, Results) else load_results(run)
    if path is None:
        if results.folder is None:
            raise ValueError("these results have no folder: give the path of the page")
        path = results.folder / "report.html"
    write_whole(Path(path), fitting_page(make_payload(results, baseline, test)).encode())
    return Path(path)


def fitting_page(payload: dict[str, Any], most_bytes: int = MOST_BYTES) -> str:
    """The page, with as many of the example queries as keep it within `most_bytes`."""
    examples = payload["examples"]
    while True:
        page = render_page({**payload, "examples": examples})
        if len(page.encode()) <= most_bytes or not examples["queries"]:
            return page
        examples = {**examples, "queries": examples["queries"][: len(examples["queries"]) * 3 // 4]}


def render_page(payload: dict[str, Any]) -> str:
    """The page as text.

    Data travel as JSON in which < is written \\u003c, so nothing in them can end the element they are in, and the
    scripts put them on the page as text only. The page's own policy lets no other script run and nothing load.
    """
    script = "\n".join(_resource(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "title": html.escape(payload["title"]),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        "style": _resource("page.css"),
        "data": script_json(payload),
        "script": script,
        "leaderboard": _plain_table(payload),
    }
    page = _resource("page.html")
    for name, text in parts.items():  # marks cannot occur in what is put in: there every < is escaped
        page = page.replace(f"<!--{name}-->", text)
    return page


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _resource(name: str) -> str:
    return files("hingerank.lab.report").joinpath(name).read_text("utf-8")


def _plain_table(payload: dict[str, Any]) -> str:
    """The leaderboard for readers without scripts."""
    rows = [
        f"<tr><td>{html.escape(line['method'])}</td><td>"
        + ("–" if line["mean"] is None else f"{line['mean']:.4f} {html.escape(line['mark'])}")
        + "</td></tr>"
        for line in payload["lines"]
    ]
    head = f"<tr><th>method</th><th>{html.escape(payload['measure'])}</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
