"""The leaderboard's figures are those worked out by hand from the long table, in every format."""

import csv
import io
import json

import numpy as np
import pytest
import scipy.stats

from hingerank.lab.leaderboard import latex_text, leaderboard
from hingerank.lab.results import COLUMNS, Results


def made(values, errors=()):
    """Results with given per-query values: {method: {fold: [values]}}."""
    folds = list(dict.fromkeys(fold for by_fold in values.values() for fold in by_fold))
    header = {
        "methods": {method: {} for method in values},
        "folds": [{"name": fold} for fold in folds],
        "measure": "ndcg@10",
        "measures": ["ndcg@10", "map"],
        "seed": 0,
    }
    records = [
        {
            "kind": "test",
            "method": method,
            "fold": fold,
            "setting": {"C": 1.0},
            "seed": 0,
            "versions": {"python": "3"},
            "seconds": 2.0,
            "error": None,
            "queries": [f"{fold}-{i}" for i in range(len(v))],
            "values": {"ndcg@10": list(v), "map": [x / 2 for x in v]},
        }
        for method, by_fold in values.items()
        for fold, v in by_fold.items()
    ]
    for method, fold in errors:
        records.append({"kind": "test", "method": method, "fold": fold, "setting": {}, "error": "no", "seconds": 0.1})
    return Results(header, records)


@pytest.fixture
def results():
    rng = np.random.default_rng(0)
    base = {"f1": rng.random(30), "f2": rng.random(20)}
    better = {k: v + 0.2 + 0.05 * rng.standard_normal(len(v)) for k, v in base.items()}
    same = {k: v + 0.01 * rng.standard_normal(len(v)) for k, v in base.items()}
    worse = {k: v - 0.1 for k, v in base.items()}
    return made({"base_1": base, "better": better, "same": same, "worse": worse})


def test_means_spread_and_order(results):
    board = leaderboard(results)
    assert board.lines[0].method == "better"
    assert board.lines[-1].method == "worse"
    line = board.lines[0]
    folds = [np.mean(results.test("better", fold)["values"]["ndcg@10"]) for fold in ("f1", "f2")]
    assert line.mean == pytest.approx(np.mean(folds))
    assert line.spread == pytest.approx(np.std(folds, ddof=1))
    assert line.means["map"] == pytest.approx(line.mean / 2)
    assert line.low < line.mean < line.high
    assert (line.wins, line.ties, line.losses) == (50, 0, 0)
    assert line.seconds == 2.0


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomisation"])
def test_significance_is_over_pooled_queries_and_corrected(results, test):
    board = leaderboard(results, test=test)
    lines = {line.method: line for line in board.lines}
    assert [lines[m].mark for m in ("base_1", "better", "same", "worse")] == ["", "▲", "", "▼"]
    assert np.isnan(lines["base_1"].p)
    if test == "t":
        pooled = {m: list(results.per_query(m, "ndcg@10").values()) for m in results.methods}
        alone = scipy.stats.ttest_rel(pooled["same"], pooled["base_1"]).pvalue
        assert lines["same"].p == pytest.approx(min(1.0, alone))  # the largest of three: Holm's factor is 1
        middle = scipy.stats.ttest_rel(pooled["better"], pooled["base_1"]).pvalue
        assert lines["better"].p == pytest.approx(2 * middle)


def test_another_baseline_and_measure(results):
    board = leaderboard(results, measure="map", baseline="worse")
    lines = {line.method: line for line in board.lines}
    assert lines["base_1"].mark == "▲" and lines["base_1"].difference == pytest.approx(0.05)
    with pytest.raises(ValueError, match="no baseline 'x'"):
        leaderboard(results, baseline="x")
    with pytest.raises(ValueError, match="no measure 'err'"):
        leaderboard(results, measure="err")
    with pytest.raises(ValueError, match="randomisation, t, wilcoxon"):
        leaderboard(results, test="anova")


def test_only_shared_queries_are_compared():
    results = made({"a": {"f1": [0.1, 0.2], "f2": [0.9]}, "b": {"f1": [0.3, 0.3]}}, errors=[("b", "f2")])
    line = next(line for line in leaderboard(results).lines if line.method == "b")
    assert (line.wins, line.folds, line.failed) == (2, 1, 1)
    assert line.difference == pytest.approx(0.15)


def test_a_method_without_results_comes_last():
    results = made({"a": {"f1": [0.1, 0.2]}, "b": {}}, errors=[("b", "f1")])
    board = leaderboard(results)
    assert [line.method for line in board.lines] == ["a", "b"]
    assert np.isnan(board.lines[1].mean) and board.lines[1].mark == ""
    assert "--" in board.to_latex()
    assert shown(board).splitlines()[-1].split() == ["b", "–", "–", "–", "0/0/0", "1"]


def shown(board):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(board.to_rich())
    return console.file.getvalue()


def test_formats_agree(results):
    board = leaderboard(results)
    best = board.lines[0]
    rows = list(csv.DictReader(io.StringIO(board.to_csv())))
    assert [row["method"] for row in rows] == [line.method for line in board.lines]
    assert float(rows[0]["mean"]) == best.mean and float(rows[0]["mean map"]) == best.means["map"]
    assert board.to_dict()[0]["mean"] == best.mean
    assert f"{best.mean:.4f}▲" in shown(board)
    latex = board.to_latex(["ndcg@10", "map"])
    assert rf"better & \textbf{{{best.mean:.4f}}}$^{{\blacktriangle}}$ & \textbf{{{best.means['map']:.4f}}} \\" in latex
    assert r"base\_1" in latex


def test_method_names_are_text_not_markup():
    board = leaderboard(made({"[red]x[/red] 50%_&": {"f1": [0.1]}}))
    assert "[red]x[/red]" in shown(board)
    assert latex_text("a_b%{\\") == r"a\_b\%\{\textbackslash{}"


def test_the_long_table(results, tmp_path):
    table = results.table()
    assert tuple(table) == COLUMNS
    assert len(table["value"]) == 4 * 2 * 50
    place = table["value"].index(results.test("same", "f2")["values"]["map"][3])
    assert {name: table[name][place] for name in ("method", "fold", "query", "measure")} == {
        "method": "same",
        "fold": "f2",
        "query": "f2-3",
        "measure": "map",
    }
    results.write_csv(tmp_path / "long.csv")
    with open(tmp_path / "long.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == table["value"]
    assert json.loads(rows[0]["setting"]) == {"C": 1.0}
    assert made({"a": {}}).table() == {name: [] for name in COLUMNS}
