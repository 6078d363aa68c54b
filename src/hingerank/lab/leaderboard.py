"""The leaderboard of a comparison.

It has the mean over folds of the test means, their spread over folds, and significance over pooled queries.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hingerank.lab.results import Results, no_formula
from hingerank.lab.statistics import TESTS, bootstrap_interval, holm, p_values, win_tie_loss
from hingerank.notebook import html_table

LEVEL = 0.05


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
