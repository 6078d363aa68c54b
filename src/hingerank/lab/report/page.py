"""One HTML page of a run: everything inside the file, nothing from the network, no text from the data taken as code.

`make_payload` works out all that the page shows as one JSON value, `render_page` puts it beside the scripts.
"""

import base64
import datetime
import hashlib
import html
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.files import canonical, plain, write_whole
from hingerank.lab.leaderboard import Leaderboard, leaderboard, learning_curves, shared_values, winner
from hingerank.lab.report.examples import read_examples, short
from hingerank.lab.report.plain import table as plain_table
from hingerank.lab.results import Results, load_results, mean_value
from hingerank.lab.statistics import differences, holm, paired_tests
from hingerank.lab.topics import IN_PAPERS, is_diversity_measure
from hingerank.metrics.measure import is_measure

MOST_QUERIES, MOST_POINTS = 3000, 80
MOST_WEIGHTS, MOST_FUNCTIONS, MOST_WORDS, MOST_CURVES = 60, 12, 15, 24
MOST_BYTES = 2_000_000
SCRIPTS = ("chart.js", "tables.js", "queries.js", "page.js")


def make_payload(results: Results, baseline: str | None = None, test: str = "randomisation") -> Facts:
    """The page's data: the leaderboard, and what the functions below say of it."""
    board = leaderboard(results, baseline=baseline, test=test)
    header, methods = results.header, results.methods
    about = header.get("about", {})
    won: Facts | None = None
    if _tested(results):
        command, (method, setting) = about.get("command"), winner(results)
        kind = about.get("kind", "topics" if is_diversity_measure(header["measure"]) else "rows")  # 0.3 notes it
        keep = f"{command} --keep model/" if command is not None and kind == "rows" else None
        use = "hingerank rank model/ DATA\nhingerank explain model/ DATA --query ID"
        won = {"method": method, "setting": setting, "command": keep, "use": use}
    # measures that papers on diversity show, and the user's own: the leaderboard has them with their marks
    more = [m for m in results.measures if m in IN_PAPERS or not (is_diversity_measure(m) or is_measure(m))]
    return plain(
        {
            "title": about.get("title") or about.get("data") or "comparison",
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "measure": board.measure,
            "baseline": board.baseline,
            "test": board.test,
            "measures": results.measures,
            "more": more,
            "folds": header["folds"],
            "lines": _lines(results, board, more),
            "pairs": pairs(results, board),
            "ranks": rank_curves(results),
            "learning": learning_curves(results, board.measure),
            "queries": query_values(results),
            "examples": read_examples(results.folder),
            "searches": {method: search_curves(results, method) for method in methods},
            "traces": {method: traces(results, method) for method in methods},
            "weights": {method: weights(results, method) for method in methods},
            "shapes": {method: shapes(results, method) for method in methods},
            "basis": {method: basis(results, method) for method in methods},
            "failures": [
                {k: r.get(k) for k in ("method", "fold", "kind", "setting", "error")} for r in results.failures()
            ],
            "warnings": _warnings(results),
            "data": header["summary"],
            "winner": won,
            "rebuild": {
                "command": about.get("command"),
                "versions": header["versions"],
                "machine": header["machine"],
                "seed": header["seed"],
                "fingerprint": header["data"],
                "methods": header["methods"],
            },
        }
    )


def _lines(results: Results, board: Leaderboard, more: list[str]) -> list[Facts]:
    """The leaderboard's lines, with what each fold found and the marks (▲, ▼ or "") of more measures."""
    marks: dict[str, dict[str, str]] = {line.method: {} for line in board.lines}
    for measure in more:
        for line in leaderboard(results, measure, board.baseline, board.test).lines:
            marks[line.method][measure] = line.mark
    found = []
    for entry in board.to_dict():
        tests = results.tests(entry["method"])
        of_folds: Facts = {
            "marks": marks[entry["method"]],
            "fold_means": {record["fold"]: mean_value(record, board.measure) for record in tests},
            "settings": {record["fold"]: record["setting"] for record in tests},
            "certificates": {record["fold"]: record.get("certificate") for record in tests},
            "predict_seconds": float(np.mean([record["predict_seconds"] for record in tests])) if tests else None,
        }
        found.append(entry | of_folds)
    return found


def pairs(results: Results, board: Leaderboard) -> Facts:
    """Every method with all folds against every other: mean difference over queries and p, Holm-corrected over all."""
    names = [line.method for line in board.lines if not line.missing]
    upper = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    values = [shared_values(results, board.measure, names[i], names[j]) for i, j in upper]
    means = [float(differences(a, b).mean()) if len(a) else float("nan") for a, b in values]
    found = paired_tests(board.test, values, seed=results.header["seed"])
    return {"methods": names, "at": upper, "difference": means, "p": holm([one.p for one in found])}


def rank_curves(results: Results) -> Facts:
    """{measure family: {"k": [1, 2, ...], "values": {method: means}}} for families at two ranks or more."""
    families: dict[str, dict[int, str]] = {}
    for name in results.measures:
        found = re.fullmatch(r"([a-z_-]+)@(\d+)((?::.*)?)", name)
        if found:
            families.setdefault(found[1] + found[3], {})[int(found[2])] = name
    curves = {}
    shown = results.complete or _tested(results)
    for family, by_rank in families.items():
        if len(by_rank) > 1:
            ranks = sorted(by_rank)
            values = {m: [results.query_mean(m, by_rank[k]) for k in ranks] for m in shown}
            curves[family] = {"k": ranks, "values": values}
    return curves


def query_values(results: Results) -> Facts:
    """The choosing measure of test queries under each method; of very many, the most different and some of the rest."""
    measure = results.header["measure"]
    values = {method: results.per_query(method, measure) for method in _tested(results)}
    gaps = results.gaps()
    keys, total = list(gaps), len(gaps)
    if total > MOST_QUERIES:
        order = np.argsort([-gap for gap in gaps.values()], kind="stable")
        extreme, rest = order[: MOST_QUERIES // 2], order[MOST_QUERIES // 2 :]
        even = rest[np.linspace(0, len(rest) - 1, MOST_QUERIES - len(extreme)).astype(int)]
        keys = [keys[i] for i in sorted({*extreme.tolist(), *even.tolist()})]
    folds, first = results.folds, results.first_folds()
    return {
        "total": total,
        "folds": [folds.index(first[query]) for query in keys],
        "ids": [str(query) for query in keys],
        "values": {m: [round(v[k], 5) if k in v else None for k in keys] for m, v in values.items()},
    }


def _tested(results: Results) -> list[str]:
    return [method for method in results.methods if results.tests(method)]


def _warnings(results: Results) -> list[Facts]:
    """Warnings by method and kind, with the number of fits that raised them and one text."""
    counted: dict[tuple[str, str], Facts] = {}
    for record in results.records:
        for text in record.get("warnings") or []:
            key = record["method"], text.partition(":")[0]
            entry = counted.setdefault(key, {"method": key[0], "kind": key[1], "fits": 0, "example": text})
            entry["fits"] += 1
    return sorted(counted.values(), key=canonical)


def search_curves(results: Results, method: str) -> Facts:
    """{parameter: curve} for every parameter with several values: at each value and in each fold, the best validation
    value over the other parameters; `numeric` tells whether the values can be drawn on an axis."""
    records = results.validations(method)
    curves = {}
    for name in dict.fromkeys(key for record in records for key in record["setting"]):
        best: dict[str, dict[str, float]] = {}
        seen: Facts = {}
        for record in records:
            if name in record["setting"] and record["value"] is not None:
                value = record["setting"][name]
                at = best.setdefault(canonical(value), {})
                seen[canonical(value)] = value
                at[record["fold"]] = max(record["value"], at.get(record["fold"], -np.inf))
        if len(seen) < 2:
            continue
        numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in seen.values())
        order = sorted(seen, key=lambda k: seen[k]) if numeric else list(seen)
        curves[name] = {
            "numeric": numeric,
            "values": [seen[key] for key in order],
            "folds": {fold: [best[key].get(fold) for key in order] for fold in results.folds},
            "chosen": {record["fold"]: record["setting"].get(name) for record in results.tests(method)},
        }
    return curves


def traces(results: Results, method: str) -> list[Facts]:
    """The numeric columns of each fold's trace; the horizontal axis is "iteration" where the solver does not say."""
    found = []
    for record in results.tests(method):
        entries = [entry for entry in record.get("trace") or [] if isinstance(entry, dict)]
        if len(entries) < 2:
            continue
        names = [k for k in entries[0] if all(_number(entry.get(k)) for entry in entries)]
        places = np.unique(np.linspace(0, len(entries) - 1, min(len(entries), MOST_POINTS)).astype(int)).tolist()
        columns = {name: [short(entries[i][name], 5) for i in places] for name in names}
        if columns:
            columns.setdefault("iteration", [i + 1 for i in places])
            found.append({"fold": record["fold"], "columns": columns})
    return found


def weights(results: Results, method: str) -> Facts | None:
    """The features a linear ranker uses: mean and spread of their weights over folds, and in how many folds they are
    not zero; heaviest first, at most MOST_WEIGHTS. None for other rankers."""
    rows = [row for fold in results.folds if (row := results.weights(method, fold))]
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    order = np.argsort(-np.abs(table).mean(axis=0), kind="stable")[:MOST_WEIGHTS]
    order = order[np.abs(table[:, order]).max(axis=0) > 0]
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    return {
        "total": table.shape[1],
        "used": [int(np.count_nonzero(row)) for row in table],
        "features": [
            {
                "name": names[j],
                "mean": short(table[:, j].mean(), 5),
                "spread": short(spread[j], 5),
                "folds": int(np.count_nonzero(table[:, j])),
            }
            for j in order.tolist()
        ],
    }


def shapes(results: Results, method: str) -> Facts | None:
    """The curves of an additive ranker, those of most weight first: of each fold its knots and heights, since those of
    different folds show how sure a curve is; at most MOST_CURVES features. None for other rankers."""
    found = {fold: curves for fold in results.folds if (curves := results.curves(method, fold))}
    if not found:
        return None
    names = dict.fromkeys(name for curves in found.values() for name in curves)
    weight = {name: sum(c[name][0] for c in found.values() if name in c) / len(found) for name in names}
    return {
        "total": len(weight),
        "features": [
            {
                "name": name,
                "weight": short(weight[name]),
                "folds": [
                    [fold, *([short(value, 5) for value in values] for values in curves[name][1:])]
                    for fold, curves in found.items()
                    if name in curves
                ],
            }
            for name in sorted(weight, key=lambda name: -weight[name])[:MOST_CURVES]
            if weight[name] > 0
        ],
    }


def basis(results: Results, method: str) -> Facts | None:
    """The basic ranking functions of a personal ranker in the first fold that has them (those of different folds do not
    correspond): the heaviest features of each, liked and disliked; at most MOST_FUNCTIONS. None for other rankers."""
    for fold in results.folds:
        columns = results.arrays(method, fold).get("basis")
        names = results.feature_names
        if columns is not None and len(columns) == len(names):
            functions = []
            for column in columns.T[:MOST_FUNCTIONS]:
                order = np.argsort(-column, kind="stable")
                ends = {"likes": order[:MOST_WORDS], "dislikes": order[::-1][:MOST_WORDS]}
                functions.append(
                    {  # the features whose sign is that of the first one
                        side: [[names[j], short(column[j])] for j in rows.tolist() if column[j] * column[rows[0]] > 0]
                        for side, rows in ends.items()
                    }
                )
            return {"fold": fold, "total": columns.shape[1], "functions": functions}
    return None


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


# The page as text.


def write_report(
    run: Results | Path | str, path: Path | str | None = None, baseline: str | None = None, test: str = "randomisation"
) -> Path:
    """Write the page of a run, results or a folder, and answer its path, by default report.html in the folder."""
    results = run if isinstance(run, Results) else load_results(run)
    if path is None:
        if results.folder is None:
            raise ValueError("these results have no folder: give the path of the page")
        path = results.folder / "report.html"
    write_whole(Path(path), fitting_page(make_payload(results, baseline, test)).encode())
    return Path(path)


def fitting_page(payload: Facts, most_bytes: int = MOST_BYTES) -> str:
    """The page, with as many of the example queries as keep it within `most_bytes`."""
    examples = payload["examples"]
    while True:
        page = render_page({**payload, "examples": examples})
        if len(page.encode()) <= most_bytes or not examples["queries"]:
            return page
        examples = {**examples, "queries": examples["queries"][: len(examples["queries"]) * 3 // 4]}


def render_page(payload: Facts) -> str:
    """The page as text.

    Data travel as JSON in which < is written \\u003c, so nothing in them can end the element they are in, and the
    scripts put them on the page as text only. The page's own policy lets no other script run and nothing load.
    """
    script = "\n".join(_resource(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    lines = [
        [line["method"], "–" if line["mean"] is None else f"{line['mean']:.4f} {line['mark']}"]
        for line in payload["lines"]
    ]
    parts = {
        "title": html.escape(payload["title"]),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        "style": _resource("page.css"),
        "data": script_json(payload),
        "script": script,
        "leaderboard": plain_table(["method", payload["measure"]], lines),  # for readers without scripts
    }
    page = _resource("page.html")
    for name, text in parts.items():  # marks cannot occur in what is put in: there every < is escaped
        page = page.replace(f"<!--{name}-->", text)
    return page


def script_json(value: object) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _resource(name: str) -> str:
    return files("hingerank.lab.report").joinpath(name).read_text("utf-8")
