"""run.json: what a run folder holds results of. Only the same data, folds, measures and seed continue a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.describe import pairs_per_query
from hingerank.data.plain_json import plain
from hingerank.data.ranking_data import RankingData
from hingerank.lab.folds import PARTS, Fold, Rows, fingerprint
from hingerank.lab.method import Method
from hingerank.lab.store import Record, write_whole
from hingerank.lab.versions import machine, versions

FORMAT = 1
FIXED = {  # the seed first, because it also cuts the folds
    "seed": "another seed",
    "measure": "another measure for choosing settings",
    "measures": "other test measures",
    "data": "other data or folds",
}


def make_header(
    methods: Sequence[Method],
    folds: Sequence[Fold],
    measure: str,
    measures: Sequence[str],
    seed: int,
    about: Mapping[str, Any] | None,
) -> Record:
    """Everything that tells this run from another."""
    return plain(
        {
            "format": FORMAT,
            "data": fingerprint(folds),
            "measure": measure,
            "measures": list(measures),
            "seed": seed,
            "methods": {method.name: method.definition() for method in methods},
            "folds": [{"name": fold.name, **{part: _rows(getattr(fold, part)) for part in PARTS}} for fold in folds],
            "summary": summarise(folds),
            "versions": versions(),
            "machine": machine(),
            "about": dict(about or {}),
        }
    )


def check_header(old: Record | None, new: Record, folder: Path, results: int = 0) -> Record:
    """The header to go on with: the old one's methods and then the new; a ValueError if the two runs do not fit.

    results: how many the folder holds, which without a header may be of anything.
    """
    if old is None:
        if results:
            raise ValueError(f"{folder} holds results without the run.json that says what they are of: delete it")
        return new
    if old.get("format") != FORMAT:
        raise ValueError(f"{folder} holds a run of format {old.get('format')}, this version writes {FORMAT}")
    for name, words in FIXED.items():
        if old[name] != new[name]:
            raise ValueError(f"{folder} holds results for {words} ({name}): choose another folder, or delete that one")
    for name, definition in new["methods"].items():
        if old["methods"].get(name, definition) != definition:
            raise ValueError(
                f"{folder} holds results of a method {name!r} that was defined or searched differently; "
                "test data must be looked at once only: choose another name or another folder"
            )
    return {**new, "methods": {**old["methods"], **new["methods"]}}


def read_header(folder: Path) -> Record | None:
    """The header of a run folder, or None where there is none."""
    path = folder / "run.json"
    if not path.exists():
        return None
    try:
        header = json.loads(path.read_bytes())
        whole = header.get("format") != FORMAT or {*FIXED, "methods", "folds", "summary"} <= set(header)
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged, so it cannot be told what the results there are of: delete the folder")
    return header


def write_header(folder: Path, header: Record) -> None:
    write_whole(folder / "run.json", (json.dumps(header, indent=1, ensure_ascii=False) + "\n").encode())


def summarise(folds: Sequence[Fold]) -> Record:
    """Figures of the data under the folds: rows, queries, features, grades, pairs, rows per query."""
    sets = _data_sets(folds)
    grades: dict[str, int] = {}
    pairs, sizes, no_pair = 0, [], 0
    for data in sets:
        kinds, counts = np.unique(data.y, return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist()):
            grades[f"{kind:g}"] = grades.get(f"{kind:g}", 0) + count
        per_query = pairs_per_query(data.y, data.blocks)
        pairs, no_pair = pairs + int(per_query.sum()), no_pair + int((per_query == 0).sum())
        sizes.append(data.blocks.sizes)
    size = np.concatenate(sizes)
    quantiles = np.quantile(size, [0, 0.25, 0.5, 0.75, 1]).tolist()
    names = sets[0].feature_names
    return {
        "rows": int(size.sum()),
        "queries": len(size),
        "features": sets[0].n_features,
        "feature_names": None if names is None else [str(name) for name in names],
        "grades": grades,
        "pairs": pairs,
        "queries_without_pairs": no_pair,
        "rows_per_query": dict(zip(("least", "quarter", "median", "three quarters", "most"), quantiles)),
    }


def _data_sets(folds: Sequence[Fold]) -> list[RankingData]:
    """The distinct data sets that folds take rows of; for folds of separate files, those of the first fold."""
    under = [getattr(fold, part) for fold in folds for part in PARTS]
    shared = {id(part.data): part.data for part in under if isinstance(part, Rows)}
    return list(shared.values()) or [getattr(folds[0], part) for part in PARTS]


def _rows(part: RankingData | Rows) -> int:
    return len(part.index) if isinstance(part, Rows) else part.n_rows
