"""Tables over LETOR folds: every row a method, its setting chosen on validation, each column a measure on test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hingerank.lab.reproductions.engine import Ours, Place, Section

OHSUMED, MQ2008, MQ2007 = "OHSUMED/QueryLevelNorm", "MQ2008", "MQ2007-partial"
Figures = Sequence[float | None]
Column = str | Callable[[Any, str], float]


def powers_of_two(first: int, last: int, step: int = 1) -> list[float]:
    """
    >>> powers_of_two(-2, 2, 2)
    [0.25, 1.0, 4.0]
    """
    return [2.0**k for k in range(first, last + 1, step)]


@dataclass(frozen=True)
class Row:
    """One method of a table: its name there, the paper's figures, and the ranker by its public name with the values to
    try and the parameters that are fixed. No ranker: the paper's figures only. No figures: a method of ours beside.
    after: what the paper prints after each figure."""

    name: str
    figures: Figures = ()
    ranker: str | None = None
    search: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    after: Sequence[str] = ()

    def method(self) -> Any:
        import hingerank
        from hingerank.lab.methods import Method

        return Method(self.name, getattr(hingerank, self.ranker or ""), dict(self.search), dict(self.fixed))


@dataclass(frozen=True)
class Study:
    """Methods compared on one data set. Tables that share a study share its results: run names its folder.

    choose: the measure that chooses on validation. measures: those taken on test, all that any of its tables shows.
    """

    run: str
    data: str
    choose: str
    measures: Sequence[str]
    folds: Sequence[int] | None = None

    def results(self, methods: Sequence[Any], place: Place) -> Any:
        """The results of these methods: read where they are known, computed where they are not."""
        from hingerank.data.read_write import read_folds
        from hingerank.lab.comparison import compare

        numbers = place.folds if place.folds is not None else self.folds
        folds = read_folds(place.find(self.data), numbers)
        partly = place.folds is not None and place.folds != self.folds
        name = self.run + "".join(f"-fold{k}" for k in numbers or []) * partly
        options: dict[str, Any] = {"folder": place.runs / name, "workers": place.workers, "progress": place.progress}
        return compare(methods, folds, self.choose, self.measures, **options)

    def section(
        self, title: str, columns: Mapping[str, Column], rows: Sequence[Row], marks: Mapping[str, str] | None = None
    ) -> Section:
        """A section whose columns are measures, or functions of (results, method).

        marks: sign -> row; methods that are significantly better than that row get the sign.
        """

        figures = {row.name: row.figures for row in rows if row.figures}
        comparison = Comparison(self, columns, rows, marks or {})
        after = {row.name: row.after for row in rows if row.after}
        return Section(title, list(columns), figures, comparison, note=comparison.note, after=after)


@dataclass(frozen=True)
class Comparison:
    """The computation of a section: rows, columns and marks over a study."""

    study: Study
    columns: Mapping[str, Column]
    rows: Sequence[Row]
    marks: Mapping[str, str]

    def __call__(self, place: Place) -> dict[str, Ours]:
        methods = [row.method() for row in self.rows if row.ranker]
        results = self.study.results(methods, place)
        signs = _signs(results, self.columns, self.marks)
        return {m.name: _ours(results, m.name, self.columns, signs.get(m.name)) for m in methods}

    @property
    def note(self) -> str:
        better = ", ".join(f"{sign} than {row}" for sign, row in self.marks.items())
        return f"Significantly better (paired t over queries, 5 %, Holm): {better}." if better else ""


def _signs(results: Any, columns: Mapping[str, Column], marks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """method -> column -> the signs of the rows it beats."""
    from hingerank.lab.leaderboard import leaderboard

    signs: dict[str, dict[str, str]] = {}
    for sign, row in marks.items():
        for title, measure in columns.items():
            if isinstance(measure, str) and results.tests(row):
                for line in leaderboard(results, measure, baseline=row, test="t").lines:
                    if line.mark == "▲":
                        own = signs.setdefault(line.method, {})
                        own[title] = own.get(title, "") + sign
    return signs


def _ours(results: Any, method: str, columns: Mapping[str, Column], marks: Mapping[str, str] | None) -> Ours:
    tests = results.tests(method)
    if not tests:
        return Ours({})
    values: dict[str, float] = {}
    spread: dict[str, float] = {}
    for name, column in columns.items():
        if callable(column):
            values[name] = column(results, method)
            continue
        per_fold = results.fold_means(method, column)
        values[name] = float(per_fold.mean())
        if len(per_fold) > 1:
            spread[name] = float(per_fold.std(ddof=1))
    chosen = [record["setting"] for record in tests]
    seconds = float(np.median([record["seconds"] for record in tests]))
    return Ours(values, marks, spread or None, chosen if any(chosen) else (), seconds)


def nonzero_share(results: Any, method: str) -> float:
    """Nonzero weights over weights, averaged over folds: the sparsity ratio of Lai et al."""
    weights = [results.arrays(method, record["fold"]).get("weights") for record in results.tests(method)]
    return float(np.mean([np.count_nonzero(w) / len(w) for w in weights if w is not None]))


def fit_seconds(results: Any, method: str) -> float:
    """Median seconds of the fit whose ranker was tested."""
    return float(np.median([record["seconds"] for record in results.tests(method)]))
