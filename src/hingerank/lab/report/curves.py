"""Curves and tables of a run's searches, convergence traces and weights."""

from typing import Any

import numpy as np

from hingerank.lab.results import Results
from hingerank.lab.store import canonical

MOST_WEIGHTS, MOST_FUNCTIONS, MOST_WORDS = 60, 12, 15
MOST_POINTS = 80


def search_curves(results: Results, method: str) -> dict[str, Any]:
    """{parameter: curve} for every parameter with several values: at each value and in each fold, the best validation
    value over the other parameters; `numeric` tells whether the values can be drawn on an axis."""
    records = results.validations(method)
    curves = {}
    for name in dict.fromkeys(key for record in records for key in record["setting"]):
        best: dict[str, dict[str, float]] = {}
        seen: dict[str, Any] = {}
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
        chosen = [record["setting"].get(name) for record in results.tests(method)]
        curves[name] = {
            "numeric": numeric,
            "values": [seen[key] for key in order],
            "folds": {fold: [best[key].get(fold) for key in order] for fold in results.folds},
            "chosen": {fold["fold"]: value for fold, value in zip(results.tests(method), chosen)},
        }
    return curves


def traces(results: Results, method: str) -> list[dict[str, Any]]:
    """The numeric columns of each fold's trace; the horizontal axis is "iteration" where the solver does not say."""
    found = []
    for record in results.tests(method):
        entries = [entry for entry in record.get("trace") or [] if isinstance(entry, dict)]
        if len(entries) < 2:
            continue
        names = [k for k in entries[0] if all(_number(entry.get(k)) for entry in entries)]
        places = np.unique(np.linspace(0, len(entries) - 1, min(len(entries), MOST_POINTS)).astype(int)).tolist()
        columns = {name: [float(f"{entries[i][name]:.5g}") for i in places] for name in names}
        if columns:
            columns.setdefault("iteration", [i + 1 for i in places])
            found.append({"fold": record["fold"], "columns": columns})
    return found


def weights(results: Results, method: str) -> dict[str, Any] | None:
    """The features a linear ranker uses: mean and spread of their weights over folds, and in how many folds they are
    not zero; heaviest first, at most MOST_WEIGHTS. None for other rankers."""
    rows = [w for fold in results.folds if (w := results.arrays(method, fold).get("weights")) is not None]
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    table = np.array(rows, float)
    names = _feature_names(results, table.shape[1])
    order = np.argsort(-np.abs(table).mean(axis=0), kind="stable")[:MOST_WEIGHTS]
    order = order[np.abs(table[:, order]).max(axis=0) > 0]
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    return {
        "total": table.shape[1],
        "used": [int(np.count_nonzero(row)) for row in table],
        "features": [
            {
                "name": names[j],
                "mean": float(f"{table[:, j].mean():.5g}"),
                "spread": float(f"{spread[j]:.5g}"),
                "folds": int(np.count_nonzero(table[:, j])),
            }
            for j in order.tolist()
        ],
    }


def basis(results: Results, method: str) -> dict[str, Any] | None:
    """The basic ranking functions of a personal ranker in the first fold that has them (those of different folds do not
    correspond): the heaviest features of each, liked and disliked; at most MOST_FUNCTIONS. None for other rankers."""
    for fold in results.folds:
        columns = results.arrays(method, fold).get("basis")
        if columns is not None:
            names = _feature_names(results, len(columns))
            functions = []
            for column in columns.T[:MOST_FUNCTIONS]:
                order = np.argsort(-column, kind="stable")
                ends = {"likes": order[:MOST_WORDS], "dislikes": order[::-1][:MOST_WORDS]}
                functions.append({side: _words(column, rows, names) for side, rows in ends.items()})
            return {"fold": fold, "total": columns.shape[1], "functions": functions}
    return None


def _words(column: np.ndarray, rows: np.ndarray, names: list[str]) -> list[list[Any]]:
    """[name, weight] of those rows whose sign is that of the first one."""
    return [[names[j], float(f"{column[j]:.4g}")] for j in rows.tolist() if column[j] * column[rows[0]] > 0]


def _feature_names(results: Results, count: int) -> list[str]:
    given = [str(name) for name in results.header["summary"]["feature_names"] or []]
    return given + [f"f{j + 1}" for j in range(len(given), count)]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
