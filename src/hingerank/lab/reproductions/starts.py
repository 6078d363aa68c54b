"""How far a method that begins at random depends on its start."""

import json
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from hingerank.lab.reproductions.engine import Ours, Place, Section, kept
from hingerank.lab.reproductions.letor import Row, Study

STARTS = 10


def starts_section(title: str, study: Study, columns: Mapping[str, str], row: Row) -> Section:
    """The row's method fitted again from ten starts, in every fold with the setting that validation chose: mean and
    standard deviation over starts of the means over folds."""
    name = f"{row.name}, ten starts"
    compute = partial(_over_starts, name, study, columns, row)
    return Section(title, list(columns), {}, compute, after={name: [""] * len(columns)})


def _over_starts(name: str, study: Study, columns: Mapping[str, str], row: Row, place: Place) -> dict[str, Ours]:
    tests = study.results([row.method()], place).tests(row.name)
    chosen = {record["fold"]: record["setting"] for record in tests}
    mark = zlib.crc32(json.dumps(chosen, sort_keys=True).encode())
    values = kept(place, study.run, f"{name} {mark:08x}", partial(_refit, study, columns, row, chosen, place))
    mean, spread = np.mean(values, axis=0).tolist(), np.std(values, axis=0, ddof=1).tolist()
    return {name: Ours(dict(zip(columns, mean)), spread=dict(zip(columns, spread)))}


def _refit(
    study: Study, columns: Mapping[str, str], row: Row, chosen: Mapping[str, Any], place: Place
) -> list[list[float]]:
    """One line for each start: the means over folds of the test measures."""
    import warnings

    import hingerank

    make = getattr(hingerank, row.ranker or "")
    folds = hingerank.read_folds(place.find(study.data), place.folds if place.folds is not None else study.folds)
    lines = []
    for seed in range(STARTS):
        line = []
        for fold, setting in zip(folds, chosen.values(), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ranker = make(**row.fixed, **setting, random_state=seed).fit(fold.train)
            found = hingerank.evaluate(fold.test.y, ranker.predict(fold.test), fold.test.qid, list(columns.values()))
            line.append([found[measure] for measure in columns.values()])
        lines.append(np.mean(line, axis=0).tolist())
    return lines
