"""The leaderboard of a comparison.

Everything on a line is about one quantity, a query's value: its mean over all test queries, the difference of two such
means, p, interval and effect size over the same queries. Means over folds, as LETOR's tables have them, are a further
column. `winner` and `refit` lead from a comparison to a model.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hingerank.arrays import Facts, Ranker
from hingerank.data.checks import one_of
from hingerank.data.files import canonical
from hingerank.data.ranking_data import RankingData
from hingerank.lab.methods import Method
from hingerank.lab.results import Results, check_known, csv_text, mean_of
from hingerank.lab.statistics import (
    TESTS,
    TestResult,
    bootstrap_interval,
    effect_size,
    holm,
    paired_tests,
    queries_needed,
    win_tie_loss,
)
from hingerank.notebook import html_table
from hingerank.personal.top_n import Recommends
from hingerank.rankers.own import fit_rows

if TYPE_CHECKING:
    from rich.table import Table

MARKS = {"▲": r"$^{\blacktriangle}$", "▼": r"$^{\blacktriangledown}$"}  # of the package amssymb
LEVEL = 0.05
WHERE_ANY = ("± seeds", "missing", "failed")  # columns that are shown only if a line has a value
DROPPED = ("tried", "w/t/l", "± folds", "s/fit", "95 % interval")  # if the terminal is narrow


@dataclass(frozen=True)
class Line:
    """One method on the leaderboard.

    Attributes
    ----------
    mean : over all test queries, of ``measure``
    low, high : bootstrap interval of the mean, 95 %
    fold_mean, spread : mean over folds of the folds' means, and their standard deviation (n−1; NaN for one fold)
    seed_spread : standard deviation over seeds of the mean (NaN for one seed)
    means : the mean over all test queries of every measure
    difference : of the means of this method and the baseline, over the same queries
    difference_low, difference_high : bootstrap interval of the difference, 95 %, not corrected
    p : two-sided p value against the baseline, Holm-corrected over the methods. NaN for the baseline itself, and for
        methods that cannot be compared because they or the baseline lack the result of a fold
    p_error : standard error of p that is left from the random rounds of the test
    effect, effect_low, effect_high : standardised difference (Hedges' g) and its 95 % interval
    needed : queries with which a t test at 5 % would find an effect of this size four times in five
    wins, ties, losses : counts of queries
    seconds : median time of a fit (the first one in a process also loads kernels)
    tried : settings tried in a fold, the most over folds
    folds : how many have a result
    missing : folds without a result for every seed
    failed : how many fits of any kind failed
    """

    method: str
    measure: str
    mean: float
    low: float
    high: float
    fold_mean: float
    spread: float
    seed_spread: float
    means: dict[str, float]
    difference: float
    difference_low: float
    difference_high: float
    p: float
    p_error: float
    effect: float
    effect_low: float
    effect_high: float
    needed: float
    wins: int
    ties: int
    losses: int
    seconds: float
    tried: int
    folds: int
    missing: list[str]
    failed: int

    @property
    def mark(self) -> str:
        """▲ significantly better than the baseline at 5 %, ▼ significantly worse, else nothing."""
        if not self.p < LEVEL:
            return ""
        return "▲" if self.difference > 0 else "▼"

    @property
    def interval(self) -> str:
        """The interval of the difference as text; empty where nothing is compared."""
        known = not np.isnan(self.p)
        return f"{self.difference_low:+.4f} … {self.difference_high:+.4f}" if known else ""

    @property
    def absent(self) -> str:
        """The folds without a result, as text."""
        return ", ".join(self.missing)


@dataclass(frozen=True)
class Leaderboard:
    """Lines, best first, and below them methods without a result on some fold; baseline: what the others are compared
    with; test: the significance test used."""

    lines: list[Line]
    measure: str
    baseline: str
    test: str

    def to_dict(self) -> list[Facts]:
        """One dict per line, best first."""
        return [{**asdict(line), "mark": line.mark, "baseline": line.method == self.baseline} for line in self.lines]

    def _repr_html_(self) -> str:
        names = ["method", self.measure, "difference", "95 % interval", "p", "± folds", "s/fit", "missing"]
        rows = [
            [n.method, f"{number(n.mean)}{n.mark}", n.difference, n.interval, n.p, n.spread, n.seconds, n.absent]
            for n in self.lines
        ]
        cells = [[None if isinstance(c, float) and np.isnan(c) else c for c in row] for row in rows]
        return html_table(f"against {self.baseline}, {self.test} test", names, cells)

    def to_csv(self) -> str:
        """All figures in full precision; columns as in `Line`, then the mean of every measure."""
        others = list(self.lines[0].means) if self.lines else []
        names = [name for name in Line.__annotations__ if name not in ("means", "missing")]
        rows = (
            [*(getattr(line, name) for name in names), line.absent, line.mark, *(line.means[name] for name in others)]
            for line in self.lines
        )
        return csv_text([*names, "missing", "mark", *(f"mean {name}" for name in others)], rows)

    def to_latex(self, measures: Sequence[str] | None = None) -> str:
        """A tabular for a paper (it needs the package booktabs): means, in bold the best of each column among methods
        with all folds; marks beside the chosen measure."""
        measures = [self.measure] if measures is None else list(measures)
        for name in measures:
            check_known("measure", name, self.lines[0].means)
        rows = [latex_row(["method", *map(latex_text, measures)]), r"\midrule"]
        rows += [latex_row(self.latex_cells(line, measures)) for line in self.lines]
        begin = [rf"\begin{{tabular}}{{l{'r' * len(measures)}}}", r"\toprule"]
        return "\n".join([*begin, *rows, r"\bottomrule", r"\end{tabular}", ""])

    def latex_cells(self, line: Line, measures: Sequence[str]) -> list[str]:
        """A line's method and means: a dagger without all folds, the best in bold, marks beside the chosen measure."""
        cells = [latex_text(line.method) + (r"$^{\dagger}$" if line.missing else "")]
        for name in measures:
            known = [m for other in self.lines if not other.missing and not np.isnan(m := other.means[name])]
            best = max(known, default=np.nan)
            bold = not line.missing and f"{line.means[name]:.4f}" == f"{best:.4f}"
            mark = MARKS.get(line.mark, "") if name == self.measure else ""
            cells.append(latex_number(line.means[name], bold) + mark)
        return cells

    def to_rich(self, width: int | None = None) -> "Table":
        """A table for the terminal; where it is wider than `width`, without columns of DROPPED, first ones first."""
        from rich.table import Table
        from rich.text import Text

        rows = [{name: Text(*cell) for name, cell in self._cells(line).items()} for line in self.lines]
        shown = [name for name in (rows[0] if rows else []) if name not in WHERE_ANY or any(row[name] for row in rows)]
        for name in DROPPED:
            wide = sum(max(len(name), *(len(row[name]) for row in rows)) + 2 for name in shown) - 2
            if width is not None and wide > width and name in shown:
                shown.remove(name)
        table = Table(box=None, pad_edge=False)
        for name in shown:
            table.add_column(Text(name), justify="left" if name == "method" else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(row[name] for name in shown))
        return table

    def _cells(self, line: Line) -> dict[str, tuple[str, str]]:
        """Column -> (text, style) of a line."""
        own, compared = line.method == self.baseline, not np.isnan(line.p)
        style = {"▲": "green", "▼": "red"}.get(line.mark, "")
        return {
            "method": (line.method, ""),
            self.measure: (f"{number(line.mean)}{line.mark or ' '}", f"bold {style}".strip()),
            "difference": ("baseline" if own else f"{line.difference:+.4f}" if compared else "–", style),
            "95 % interval": (line.interval, ""),
            "p": (f"{line.p:.2g}" if compared else "", ""),
            "w/t/l": (f"{line.wins}/{line.ties}/{line.losses}" if compared else "", ""),
            "± folds": (number(line.spread), ""),
            "± seeds": ("" if np.isnan(line.seed_spread) else number(line.seed_spread), ""),
            "tried": (str(line.tried), ""),
            "s/fit": ("" if np.isnan(line.seconds) else f"{line.seconds:.2g}", ""),
            "missing": (line.absent, "red"),
            "failed": (str(line.failed or ""), "red"),
        }


def leaderboard(
    results: Results,
    measure: str | None = None,
    baseline: str | None = None,
    test: str = "randomisation",
    rounds: int | None = None,
) -> Leaderboard:
    """Sort the methods of a run by the mean of `measure` over all test queries.

    A method without a result on some fold is not comparable with the others. It is listed below them, without a
    comparison, and its missing folds are named.

    Parameters
    ----------
    results : what `compare` or `load_results` returned
    measure : default the measure that chose the settings
    baseline : what the others are compared with; default the first method of the run that has all folds
    test : "randomisation", "t" or "wilcoxon"
    rounds : random rounds of the randomisation test; default as many as make p precise
    """
    measure = results.header["measure"] if measure is None else measure
    baseline = next(iter(results.complete), results.methods[0]) if baseline is None else baseline
    check_known("measure", measure, results.measures)
    check_known("baseline", baseline, results.methods)
    one_of("test", test, *TESTS)
    whole = results.complete if baseline in results.complete else []
    pairs = {m: shared_values(results, measure, m, baseline) for m in whole if m != baseline}
    found = paired_tests(test, list(pairs.values()), rounds, results.header["seed"])
    p = holm([one.p for one in found])
    upper = holm([one.p + one.error for one in found])
    tested = {m: replace(one, p=q, error=u - q) for m, one, q, u in zip(pairs, found, p, upper)}
    lines = [_line(results, m, measure, pairs.get(m), tested.get(m)) for m in ranked_methods(results, measure)]
    return Leaderboard(lines, measure, baseline, test)


def ranked_methods(results: Results, measure: str | None = None) -> list[str]:
    """Methods with all folds, best first, and then those without, by what they have."""
    measure = results.header["measure"] if measure is None else measure
    means = {m: results.query_mean(m, measure) for m in results.methods}
    return sorted(means, key=lambda m: (bool(results.missing(m)), np.isnan(means[m]), -np.nan_to_num(means[m])))


def shared_values(results: Results, measure: str, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of two methods on the test queries that both have."""
    own, other = results.per_query(first, measure), results.per_query(second, measure)
    shared = [key for key in own if key in other]
    return np.array([own[key] for key in shared]), np.array([other[key] for key in shared])


def _line(
    results: Results, method: str, measure: str, pair: tuple[np.ndarray, np.ndarray] | None, test: TestResult | None
) -> Line:
    """The line of a method; pair: its values and the baseline's; test: their corrected test; None for no comparison."""
    per_fold, per_seed = results.fold_means(method, measure), results.seed_means(method, measure)
    own, seed = list(results.per_query(method, measure).values()), results.header["seed"]
    low, high = bootstrap_interval(own, rounds=1000, seed=seed)
    pair = (np.array([]), np.array([])) if pair is None else pair
    d = pair[0] - pair[1]
    less, more = bootstrap_interval(d, rounds=1000, seed=seed)
    effect = effect_size(*pair)
    tried: dict[str, int] = {}
    for record in results.validations(method):
        tried[record["fold"]] = tried.get(record["fold"], 0) + 1
    seconds = [record["seconds"] for record in results.all_tests(method)]
    return Line(
        method=method,
        measure=measure,
        mean=results.query_mean(method, measure),
        low=low,
        high=high,
        fold_mean=mean_of(per_fold),
        spread=_deviation(per_fold),
        seed_spread=_deviation(per_seed),
        means={name: results.query_mean(method, name) for name in results.measures},
        difference=mean_of(d),
        difference_low=less,
        difference_high=more,
        p=float("nan") if test is None else test.p,
        p_error=float("nan") if test is None else test.error,
        effect=effect.value,
        effect_low=effect.low,
        effect_high=effect.high,
        needed=queries_needed(effect.value),
        **vars(win_tie_loss(*pair)),
        seconds=float(np.median(seconds)) if seconds else float("nan"),
        tried=max(tried.values(), default=1 if seconds else 0),
        folds=len(per_fold),
        missing=results.missing(method),
        failed=sum(record["method"] == method for record in results.failures()),
    )


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4f}"


def learning_curves(results: Results, measure: str | None = None) -> Facts:
    """{"sizes": fractions, "methods": {method: [{"mean", "low", "high"}, ... one for each size]}}

    Means and 95 % bootstrap intervals are over all test queries; None where a fold has no result at that size. No
    methods where the run has one size only.
    """
    measure = results.header["measure"] if measure is None else measure
    curves: dict[str, list[dict[str, float] | None]] = {}
    for there in map(results.at, results.sizes if len(results.sizes) > 1 else []):
        for method in results.methods:
            values = list(there.per_query(method, measure).values())
            low, high = bootstrap_interval(values, rounds=1000, seed=results.header["seed"])
            point = None if there.missing(method) else {"mean": mean_of(values), "low": low, "high": high}
            curves.setdefault(method, []).append(point)
    return {"measure": measure, "sizes": results.sizes, "methods": curves}


def latex_text(text: str) -> str:
    r"""Text with LaTeX's special characters made harmless.

    >>> print(latex_text("50%_a"))
    50\%\_a
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    special |= {c: "\\" + c for c in "&%$#_{}"}
    special |= {c: f"{{{c}}}" for c in "[]*"}  # else options of the row before
    return "".join(special.get(c, c) for c in text if c.isprintable())


def latex_number(value: float, bold: bool = False, signed: bool = False) -> str:
    """Four decimals with a minus sign of mathematics, or a dash where there is no number."""
    if not math.isfinite(value):
        return "--"
    text = f"{value:+.4f}" if signed else f"{value:.4f}"
    text = f"${text}$" if text[0] in "+-" else text
    return rf"\textbf{{{text}}}" if bold else text


def latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def best_setting(results: Results, method: str) -> Facts:
    """The setting of a method with the largest mean over folds of its validation values, among those most folds tried.

    If nothing was searched it is the one that was tested.
    """
    values: dict[str, list[float]] = {}
    settings: dict[str, Facts] = {}
    for record in results.validations(method):
        if record["value"] is not None:
            values.setdefault(canonical(record["setting"]), []).append(record["value"])
            settings[canonical(record["setting"])] = record["setting"]
    if not values:
        tested = results.tests(method)
        if not tested:
            raise ValueError(f"{method} has no result: there is nothing to keep")
        return tested[0]["setting"]
    most = max(map(len, values.values()))
    return settings[max((key for key in values if len(values[key]) == most), key=lambda key: np.mean(values[key]))]


def winner(results: Results) -> tuple[str, Facts]:
    """The method at the top of the leaderboard, and its best setting."""
    name = ranked_methods(results)[0]
    return name, best_setting(results, name)


def refit(results: Results, methods: Iterable[Method], data: RankingData) -> tuple[str, Ranker]:
    """The name of the winner, and the winner fitted on all of `data`."""
    name, setting = winner(results)
    chosen = next((method for method in methods if method.name == name), None)
    if chosen is None:
        raise ValueError(f"{name} won, and it is not among the methods given: give it too")
    if isinstance(chosen.ranker, Recommends):
        raise ValueError(f"{name} learns a function for each user: fit it from Python and save it there")
    return name, fit_rows(chosen.make(setting, results.header["seed"]), data)
