"""Results of a comparison as values, and the leaderboard of its methods.

`Results` is one long table with the few views of it that summaries need. The leaderboard has the mean over folds of the
test means, their spread over folds, and significance over pooled queries.
"""

import csv
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.checks import decimal
from hingerank.data.files import canonical, write_whole
from hingerank.lab.run_folder import Record, current, read_header, read_results
from hingerank.lab.statistics import TESTS, bootstrap_interval, holm, p_values, win_tie_loss
from hingerank.notebook import html_table

LEVEL = 0.05
COLUMNS = ("method", "fold", "query", "measure", "value", "seconds", "setting", "versions", "seed")
DAMAGE = (  # what numpy, zip and deflate answer to bytes that are not theirs
    OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """What came out of a comparison.

    Attributes
    ----------
    header : what was compared (run.json)
    records : what the methods' present code gave (results.jsonl), of two kinds
        "validation" has a setting's ``value``; "test" has the chosen setting's ``values``, lists by measure in the
        order of ``queries`` (None where a measure is not defined); both have ``seconds`` (to fit) and ``error`` (None
        where all went well).
    folder : where both are
    """

    header: Record
    records: list[Record]
    folder: Path | None = None
    _tests: dict[tuple[str, str], Record] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", current(self.header, self.records))
        found = {(r["method"], r["fold"]): r for r in self.records if r["kind"] == "test"}
        object.__setattr__(self, "_tests", found)

    @property
    def methods(self) -> list[str]:
        return list(self.header["methods"])

    @property
    def folds(self) -> list[str]:
        return [fold["name"] for fold in self.header["folds"]]

    @property
    def measures(self) -> list[str]:
        return list(self.header["measures"])

    def test(self, method: str, fold: str) -> Record | None:
        """The test record of a method on a fold; None while there is none or where it failed."""
        record = self._tests.get((method, fold))
        return None if record is None or record["error"] else record

    def tests(self, method: str) -> list[Record]:
        """The good test records of a method, in the order of the folds."""
        return [record for fold in self.folds if (record := self.test(method, fold)) is not None]

    def fold_means(self, method: str, measure: str) -> np.ndarray:
        """The test mean over queries in each fold that has one."""
        return np.array([mean_value(record, measure) for record in self.tests(method)])

    def per_query(self, method: str, measure: str) -> dict[tuple[str, Any], float]:
        """{(fold, query): value} over the test queries of all folds for which the measure is defined."""
        return {
            (record["fold"], query): value
            for record in self.tests(method)
            for query, value in zip(record["queries"], record["values"][measure])
            if value is not None
        }

    def validations(self, method: str) -> list[Record]:
        """The latest validation record of each fold and setting, sorted by fold, then setting."""
        found = {
            (self.folds.index(r["fold"]), canonical(r["setting"])): r
            for r in self.records
            if r["kind"] == "validation" and r["method"] == method and r["fold"] in self.folds
        }
        return [found[key] for key in sorted(found)]

    def failures(self) -> list[Record]:
        """Latest records with an error: methods in order, folds in order, settings sorted, validation before test."""
        last = [*self._tests.values(), *(r for method in self.methods for r in self.validations(method))]
        place = {name: i for i, name in enumerate(self.methods)}
        known = [r for r in last if r["error"] and r["method"] in place and r["fold"] in self.folds]

        def order(r: Record) -> tuple[Any, ...]:
            return place[r["method"]], self.folds.index(r["fold"]), r["kind"] == "test", canonical(r["setting"])

        return sorted(known, key=order)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The long table, COLUMNS wide: a row for each method, fold, test query and measure, in that order."""
        for method in self.methods:
            for record in self.tests(method):
                rest = record["seconds"], record["setting"], record["versions"], record["seed"]
                for measure in self.measures:
                    for query, value in zip(record["queries"], record["values"][measure]):
                        yield method, record["fold"], query, measure, value, *rest

    def table(self) -> dict[str, list[Any]]:
        """The long table by column: `pandas.DataFrame(results.table())` and its like take it as it is."""
        columns = list(zip(*self.rows())) or [()] * len(COLUMNS)
        return {name: list(column) for name, column in zip(COLUMNS, columns)}

    def write_csv(self, path: Path | str) -> None:
        """The long table as CSV; settings and versions as JSON in their cells."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for *head, setting, made_with, seed in self.rows():
            writer.writerow(map(no_formula, [*head, canonical(setting), canonical(made_with), seed]))
        write_whole(Path(path), text.getvalue().encode())

    def arrays(self, method: str, fold: str) -> dict[str, np.ndarray]:
        """Test scores ("scores", rows in the order of the test part), and "weights" or a "basis" if there are any."""
        record = self.test(method, fold)
        if record is None or self.folder is None or "arrays" not in record:
            return {}
        path = self.folder / record["arrays"]
        if not path.exists():
            return {}
        content = path.read_bytes()
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            if len(found) != int.from_bytes(content[-12:-10], "little"):  # how many there are, by the zip file's end
                raise ValueError("arrays are missing")
            return found
        except DAMAGE as error:
            raise ValueError(f"{path} is damaged: delete it, and do without these scores and weights") from error


def no_formula(cell: Any) -> Any:
    """A cell of CSV, text that a spreadsheet would run beginning with an apostrophe.

    >>> no_formula("=1+1"), no_formula("-0.5"), no_formula(-0.5)
    ("'=1+1", '-0.5', -0.5)
    """
    runs = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) and decimal(cell) is None
    return f"'{cell}" if runs else cell


def mean_value(record: Record, measure: str) -> float:
    """The mean of a test record's values, without queries for which the measure is not defined."""
    known = [value for value in record["values"][measure] if value is not None]
    return float(np.mean(known)) if known else float("nan")


def load_results(folder: Path | str) -> Results:
    """The results of a run folder, finished or still running."""
    folder = Path(folder)
    header = read_header(folder)
    if header is None:
        raise ValueError(f"{folder} holds no run: expected a file run.json there, as `hingerank compare -o` writes it")
    path = folder / "results.jsonl"
    return Results(header, read_results(path) if path.exists() else [], folder)


@dataclass(frozen=True)
class Line:
    """One method on the leaderboard.

    Attributes
    ----------
    mean, spread : over folds, of the test means of ``measure``, and their standard deviation (n−1; NaN for one fold)
    low, high : bootstrap interval of the mean over pooled queries
    means : the mean over folds of every measure
    p : two-sided, against the baseline over the queries both have, Holm-corrected over the methods (NaN for the
        baseline itself and where nothing can be compared)
    difference : mean over these queries
    wins, ties, losses : counts of these queries
    seconds : median time of a fit (the first one in a process also loads kernels)
    folds : how many have a result
    failed : how many fits of any kind failed
    """

    method: str
    measure: str
    mean: float
    spread: float
    low: float
    high: float
    means: dict[str, float]
    difference: float
    p: float
    wins: int
    ties: int
    losses: int
    seconds: float
    folds: int
    failed: int

    @property
    def mark(self) -> str:
        """▲ significantly better than the baseline at 5 %, ▼ significantly worse, else nothing."""
        if not self.p < LEVEL:
            return ""
        return "▲" if self.difference > 0 else "▼"


@dataclass(frozen=True)
class Leaderboard:
    """Lines, best first; baseline: what the others are compared with; test: the significance test used."""

    lines: list[Line]
    measure: str
    baseline: str
    test: str

    def to_dict(self) -> list[dict[str, Any]]:
        """One dict per line, best first."""
        return [{**asdict(line), "mark": line.mark, "baseline": line.method == self.baseline} for line in self.lines]

    def _repr_html_(self) -> str:
        names = ["method", self.measure, "± folds", "difference", "p", "s/fit", "folds"]
        rows = [
            [n.method, f"{number(n.mean)}{n.mark}", n.spread, n.difference, n.p, n.seconds, n.folds] for n in self.lines
        ]
        cells = [[None if isinstance(c, float) and np.isnan(c) else c for c in row] for row in rows]
        return html_table(f"against {self.baseline}, {self.test} test", names, cells)

    def to_csv(self) -> str:
        """All figures in full precision; columns as in `Line`, then the mean of every measure."""
        text = io.StringIO()
        others = list(self.lines[0].means) if self.lines else []
        names = [name for name in Line.__annotations__ if name != "means"]
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*names, "mark", *(f"mean {name}" for name in others)])
        for line in self.lines:
            head = [getattr(line, name) for name in names]
            writer.writerow(map(no_formula, [*head, line.mark, *(line.means[name] for name in others)]))
        return text.getvalue()

    def to_latex(self, measures: Sequence[str] | None = None) -> str:
        """A tabular for a paper: means, in bold the best of each column; marks beside the chosen measure."""
        measures = [self.measure] if measures is None else list(measures)
        best = {name: max((line.means[name] for line in self.lines), default=np.nan) for name in measures}
        rows = [" & ".join(["method", *(latex_text(name) for name in measures)]) + r" \\"]
        for line in self.lines:
            cells = [latex_text(line.method)]
            for name in measures:
                cell = "--" if np.isnan(line.means[name]) else f"{line.means[name]:.4f}"
                cell = rf"\textbf{{{cell}}}" if f"{line.means[name]:.4f}" == f"{best[name]:.4f}" else cell
                sign = {"▲": r"$^{\blacktriangle}$", "▼": r"$^{\blacktriangledown}$"}.get(line.mark, "")
                cells.append(cell + (sign if name == self.measure else ""))
            rows.append(" & ".join(cells) + r" \\")
        begin = rf"\begin{{tabular}}{{l{'r' * len(measures)}}}"
        return "\n".join([begin, r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}", ""])

    def to_rich(self) -> Any:
        """A table for the terminal."""
        from rich.table import Table
        from rich.text import Text

        any_failed = any(line.failed for line in self.lines)
        names = ["method", self.measure, "± folds", "difference", "p", "w/t/l", "s/fit", *["failed"] * any_failed]
        table = Table(box=None, pad_edge=False)
        for name in names:
            table.add_column(Text(name), justify="left" if name == "method" else "right", no_wrap=True)
        for line in self.lines:
            own = line.method == self.baseline
            style = {"▲": "green", "▼": "red"}.get(line.mark, "")
            cells = [
                Text(line.method),
                Text(f"{number(line.mean)}{line.mark or ' '}", style=f"bold {style}".strip()),
                Text(number(line.spread)),
                Text("baseline" if own else "–" if np.isnan(line.p) else f"{line.difference:+.4f}", style=style),
                Text("" if np.isnan(line.p) else f"{line.p:.2g}"),
                Text("" if own else f"{line.wins}/{line.ties}/{line.losses}"),
                Text("" if np.isnan(line.seconds) else f"{line.seconds:.2g}"),
            ]
            table.add_row(*cells, *[Text(str(line.failed or ""), style="red")] * any_failed)
        return table


def leaderboard(
    results: Results,
    measure: str | None = None,
    baseline: str | None = None,
    test: str = "randomisation",
    rounds: int = 10_000,
) -> Leaderboard:
    """Sort the methods of a run by the mean over folds of their test means of `measure`.

    Parameters
    ----------
    results : what `compare` or `load_results` answered
    measure : default the one that chose the settings
    baseline : what the others are compared with; default the first method of the run
    test : "randomisation", "t" or "wilcoxon"
    rounds : random rounds of the randomisation test
    """
    measure = results.header["measure"] if measure is None else measure
    baseline = results.methods[0] if baseline is None else baseline
    for kind, name, known in (
        ("measure", measure, results.measures),
        ("baseline", baseline, results.methods),
        ("test", test, TESTS),
    ):
        if name not in known:
            raise ValueError(f"there is no {kind} {name!r} in this run; it has {', '.join(known)}")
    seed = results.header["seed"]
    pairs = {method: shared_values(results, measure, method, baseline) for method in results.methods}
    others = [method for method in results.methods if method != baseline]
    corrected = holm(p_values(test, [pairs[method] for method in others], rounds, seed))
    p = dict(zip(others, corrected))
    lines = [_line(results, method, measure, pairs[method], p.get(method, float("nan"))) for method in results.methods]
    lines.sort(key=lambda line: (np.isnan(line.mean), -line.mean))
    return Leaderboard(lines, measure, baseline, test)


def shared_values(results: Results, measure: str, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of two methods on the test queries that both have."""
    own, other = results.per_query(first, measure), results.per_query(second, measure)
    shared = [key for key in own if key in other]
    return np.array([own[key] for key in shared]), np.array([other[key] for key in shared])


def _line(results: Results, method: str, measure: str, pair: tuple[np.ndarray, np.ndarray], p: float) -> Line:
    per_fold = results.fold_means(method, measure)
    own = list(results.per_query(method, measure).values())
    low, high = bootstrap_interval(own, rounds=1000, seed=results.header["seed"])
    outcome = win_tie_loss(*pair)
    seconds = [record["seconds"] for record in results.tests(method)]
    return Line(
        method=method,
        measure=measure,
        mean=_mean(per_fold),
        spread=float(per_fold.std(ddof=1)) if len(per_fold) > 1 else float("nan"),
        low=low,
        high=high,
        means={name: _mean(results.fold_means(method, name)) for name in results.measures},
        difference=_mean(pair[0] - pair[1]),
        p=p,
        wins=outcome.wins,
        ties=outcome.ties,
        losses=outcome.losses,
        seconds=float(np.median(seconds)) if seconds else float("nan"),
        folds=len(per_fold),
        failed=sum(record["method"] == method for record in results.failures()),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4f}"


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters made harmless."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special.update({c: "\\" + c for c in "&%$#_{}"})
    return "".join(special.get(c, c) for c in text)
