"""Everything the page shows, as one JSON value worked out from the results of a run."""

import datetime
import re
from typing import Any

import numpy as np

from hingerank.data.plain_json import plain
from hingerank.lab.examples import read_examples
from hingerank.lab.leaderboard import Leaderboard, leaderboard, shared_values
from hingerank.lab.report.curves import basis, search_curves, traces, weights
from hingerank.lab.results import Results, mean_value
from hingerank.lab.statistics import differences, holm, p_values
from hingerank.lab.store import canonical

MOST_QUERIES = 3000


def make_payload(results: Results, baseline: str | None = None, test: str = "randomisation") -> dict[str, Any]:
    """The page's data: leaderboard, pairs of methods, curves, queries, examples, searches, traces, weights, basis."""
    board = leaderboard(results, baseline=baseline, test=test)
    header = results.header
    about = header.get("about", {})
    return plain(
        {
            "title": about.get("title") or about.get("data") or "comparison",
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "measure": board.measure,
            "baseline": board.baseline,
            "test": board.test,
            "measures": results.measures,
            "folds": header["folds"],
            "lines": [_line(results, board, i) for i in range(len(board.lines))],
            "pairs": pairs(results, board),
            "ranks": rank_curves(results),
            "queries": query_values(results),
            "examples": read_examples(results.folder),
            "searches": {method: search_curves(results, method) for method in results.methods},
            "traces": {method: traces(results, method) for method in results.methods},
            "weights": {method: weights(results, method) for method in results.methods},
            "basis": {method: basis(results, method) for method in results.methods},
            "failures": [
                {k: r.get(k) for k in ("method", "fold", "kind", "setting", "error")} for r in results.failures()
            ],
            "warnings": _warnings(results),
            "data": header["summary"],
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


def _line(results: Results, board: Leaderboard, place: int) -> dict[str, Any]:
    entry = board.to_dict()[place]
    tests = results.tests(entry["method"])
    measure = board.measure
    return {
        **entry,
        "fold_means": {record["fold"]: mean_value(record, measure) for record in tests},
        "settings": {record["fold"]: record["setting"] for record in tests},
        "certificates": {record["fold"]: record.get("certificate") for record in tests},
        "predict_seconds": float(np.mean([record["predict_seconds"] for record in tests])) if tests else None,
    }


def pairs(results: Results, board: Leaderboard) -> dict[str, Any]:
    """Every method against every other over the queries both have: mean difference and p, Holm-corrected over all."""
    names = [line.method for line in board.lines]
    upper = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    values = [shared_values(results, board.measure, names[i], names[j]) for i, j in upper]
    means = [float(differences(a, b).mean()) if len(a) else float("nan") for a, b in values]
    chances = p_values(board.test, values, seed=results.header["seed"])
    return {"methods": names, "at": upper, "difference": means, "p": holm(chances)}


def rank_curves(results: Results) -> dict[str, Any]:
    """{measure family: {"k": [1, 2, ...], "values": {method: means over folds}}} for families at two ranks or more."""
    families: dict[str, dict[int, str]] = {}
    for name in results.measures:
        found = re.fullmatch(r"([a-z_]+)@(\d+)((?::.*)?)", name)
        if found:
            families.setdefault(found[1] + found[3], {})[int(found[2])] = name
    curves = {}
    for family, by_rank in families.items():
        if len(by_rank) > 1:
            ranks = sorted(by_rank)
            values = {m: [float(results.fold_means(m, by_rank[k]).mean()) for k in ranks] for m in _tested(results)}
            curves[family] = {"k": ranks, "values": values}
    return curves


def query_values(results: Results) -> dict[str, Any]:
    """The choosing measure of test queries under each method; of very many, the most different and some of the rest."""
    measure = results.header["measure"]
    values = {method: results.per_query(method, measure) for method in _tested(results)}
    keys = list(dict.fromkeys(key for by_query in values.values() for key in by_query))
    total = len(keys)
    if total > MOST_QUERIES:
        known = [[v[key] for v in values.values() if key in v] for key in keys]
        order = np.argsort([-(max(k) - min(k)) for k in known], kind="stable")
        extreme, rest = order[: MOST_QUERIES // 2], order[MOST_QUERIES // 2 :]
        even = rest[np.linspace(0, len(rest) - 1, MOST_QUERIES - len(extreme)).astype(int)]
        keys = [keys[i] for i in sorted({*extreme.tolist(), *even.tolist()})]
    folds = results.folds
    return {
        "total": total,
        "folds": [folds.index(fold) for fold, _ in keys],
        "ids": [str(query) for _, query in keys],
        "values": {m: [round(v[k], 5) if k in v else None for k in keys] for m, v in values.items()},
    }


def _tested(results: Results) -> list[str]:
    return [method for method in results.methods if results.tests(method)]


def _warnings(results: Results) -> list[dict[str, Any]]:
    """Warnings by method and kind, with how many fits gave them and one text."""
    counted: dict[tuple[str, str], dict[str, Any]] = {}
    for record in results.records:
        for text in record.get("warnings") or []:
            key = record["method"], text.partition(":")[0]
            entry = counted.setdefault(key, {"method": key[0], "kind": key[1], "fits": 0, "example": text})
            entry["fits"] += 1
    return sorted(counted.values(), key=canonical)
