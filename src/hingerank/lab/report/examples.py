"""Queries worth looking at: those on which the methods differ most, with their documents, scores and features.

They are chosen when a comparison ends, while the data are at hand, and kept in the run folder (examples.json), so that
a report needs neither the data nor the rankers.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Facts
from hingerank.data.files import plain, write_whole
from hingerank.data.ranking_data import RankingData
from hingerank.lab.folds import Fold
from hingerank.lab.results import Results
from hingerank.lab.run_folder import plain_id

FILE = "examples.json"


def collect_examples(
    results: Results,
    folds: Sequence[Fold],
    queries: int = 80,
    top: int = 15,
    most_features: int = 12,
    most_bytes: int = 900_000,
) -> Facts:
    """Test queries with their documents, largest gap between any two methods first, up to `most_bytes` of JSON.

    top: documents that some method ranks among its first `top`, and the first `top` relevant ones. most_features: the
    heaviest ones, whose values are given.
    """
    chosen = _most_different(results, queries)
    features = _heaviest(results, folds, most_features)
    names = folds[0].part("train").names
    described: dict[object, Facts] = {}
    for fold in folds:
        if mine := [query for fold_name, query in chosen if fold_name == fold.name]:
            test = fold.part("test")
            scores = {m: a["scores"] for m in results.methods if "scores" in (a := results.arrays(m, fold.name))}
            blocks = test.blocks
            number: dict[object, int] = {plain_id(q): i for i, q in enumerate(blocks.ids.tolist())}
            for query in mine:
                rows = blocks.rows[blocks.offsets[number[query]] : blocks.offsets[number[query] + 1]]
                head = {"fold": fold.name, "query": query}
                described[query] = plain({**head, **_describe(test, rows, scores, features, top)})
    kept, size = [], 0
    for found in (described[query] for _, query in chosen if query in described):
        size += len(json.dumps(found, separators=(",", ":")))
        if size > most_bytes:
            break
        kept.append(found)
    return {"features": [names[j] for j in features], "queries": kept}


def write_examples(results: Results, folds: Sequence[Fold]) -> None:
    """Collect examples and keep them in the run folder."""
    if results.folder is not None:
        text = json.dumps(collect_examples(results, folds), separators=(",", ":"), allow_nan=False)
        write_whole(results.folder / FILE, text.encode())


def read_examples(folder: Path | None) -> Facts:
    """What `write_examples` kept; empty where there is nothing."""
    path = None if folder is None else folder / FILE
    if path is None or not path.exists():
        return {"features": [], "queries": []}
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: delete it, and `hingerank compare` makes it again") from error


def _most_different(results: Results, count: int) -> list[tuple[str, object]]:
    """(first fold, query) by max − min of the choosing measure over the methods that have it; earlier ones win ties."""
    gaps, first = results.gaps(), results.first_folds()
    return [(first[query], query) for query in sorted(gaps, key=gaps.__getitem__, reverse=True)[:count]]


def _heaviest(results: Results, folds: Sequence[Fold], count: int) -> list[int]:
    """Features by the mean over linear rankers of |weight| × standard deviation, each ranker's sum being 1; without
    linear rankers, by standard deviation. Deviations are those of scaled features, about 1 if rows are scaled apart."""
    X = folds[0].part("train").X
    with np.errstate(over="ignore", invalid="ignore"):  # huge values have no spread
        mean = np.asarray(X.mean(axis=0)).ravel()
        square = np.asarray((X.multiply(X) if sp.issparse(X) else np.square(X)).mean(axis=0)).ravel()
        spread = np.nan_to_num(np.sqrt(np.maximum(square - mean**2, 0)), posinf=0.0)
    total = np.zeros(len(spread))
    for method in results.methods:
        for fold in results.folds:
            by_name = results.weights(method, fold)
            weights = np.array([by_name.get(name, 0.0) for name in results.feature_names])
            if weights.any():
                widths = results.arrays(method, fold).get("widths", np.ones(len(spread)))
                importance = np.abs(weights) * np.where(np.isnan(widths), 1.0, np.maximum(spread, 1e-12) / widths)
                total += importance / importance.sum()
    order = np.argsort(-(total if total.any() else spread), kind="stable")
    return order[:count].tolist()


def _describe(
    data: RankingData, rows: np.ndarray, scores: dict[str, np.ndarray], features: list[int], top: int
) -> Facts:
    """Documents in file order with grade and features; per method their scores and their places in the full ranking."""
    places = {}
    kept = np.zeros(len(rows), bool)
    kept[np.flatnonzero(data.y[rows] > 0)[:top]] = True
    for method, all_scores in scores.items():
        order = np.argsort(-all_scores[rows], kind="stable")
        place = np.empty(len(rows), int)
        place[order] = np.arange(1, len(rows) + 1)
        places[method] = place
        kept[order[:top]] = True
    shown = np.flatnonzero(kept)
    X = data.X[rows[shown]][:, features]
    values = X.toarray() if sp.issparse(X) else np.asarray(X)
    return {
        "rows": len(rows),
        "docs": [str(rows[i]) if data.docid is None else str(data.docid[rows[i]]) for i in shown],
        "grades": data.y[rows[shown]],
        "values": [[short(value) for value in row] for row in values.tolist()],
        "places": {method: place[shown] for method, place in places.items()},
        "scores": {method: [short(s) for s in scores[method][rows[shown]].tolist()] for method in places},
    }


def short(value: float, digits: int = 4) -> float:
    """The number to so many digits, which JSON then has few of."""
    return float(f"{value:.{digits}g}")
