"""The leaderboard's figures are those worked out by hand from the long table, in every format."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from hingerank.lab.leaderboard import latex_text, leaderboard, ranked_methods
from hingerank.lab.results import COLUMNS, Results
from hingerank.lab.statistics import randomisation


def made(values, errors=(), queries=None, seeds=None):
    """Results with given per-query values: {method: {fold: [values]}}, or [[values], …] with a list for each seed.

    queries: fold -> ids, default different ones in every fold; seeds: of methods that have several.
    """
    folds = list(dict.fromkeys(fold for by_fold in values.values() for fold in by_fold))
    header = {
        "methods": {method: {} for method in values},
        "folds": [{"name": fold} for fold in folds],
        "measure": "ndcg@10",
        "measures": ["ndcg@10", "map"],
        "seed": 0,
        "seeds": seeds or {},
    }
    records = [
        {
            "kind": "test",
            "method": method,
            "fold": fold,
            "setting": {"C": 1.0},
            "seed": seed,
            "versions": {"python": "3"},
            "seconds": 2.0,
            "error": None,
            "queries": (queries or {}).get(fold, [f"{fold}-{i}" for i in range(len(v))]),
            "values": {"ndcg@10": list(v), "map": [x / 2 for x in v]},
        }
        for method, by_fold in values.items()
        for fold, by_seed in by_fold.items()
        for seed, v in enumerate(by_seed if np.ndim(by_seed) == 2 else [by_seed])
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
    assert line.mean == pytest.approx((30 * folds[0] + 20 * folds[1]) / 50)
    assert line.fold_mean == pytest.approx(np.mean(folds))
    assert line.spread == pytest.approx(np.std(folds, ddof=1)) and np.isnan(line.seed_spread)
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
    with pytest.raises(ValueError, match="test must be 'randomisation', 't' or 'wilcoxon', not 'anova'"):
        leaderboard(results, test="anova")
    with pytest.raises(ValueError, match="no measure 'err' in this run; it has"):
        board.to_latex(["map", "err"])
    for wanted in (("bette", "map"), ("better", "err")):
        with pytest.raises(ValueError, match="in this run; it has"):
            results.query_mean(*wanted)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("test", ["t", "randomisation"])
def test_one_quantity_a_line(seed, test):
    """Folds of any size: order, difference, interval, effect and mark are about the same mean over queries."""
    rng = np.random.default_rng(seed)
    sizes = {f"f{i}": int(rng.integers(1, 60)) for i in range(4)}
    base = {f: rng.random() + 0.2 * rng.standard_normal(n) for f, n in sizes.items()}
    methods = {"base": base}
    for m in ("one", "two"):
        methods[m] = {f: v + 0.2 * rng.standard_normal() + 0.3 * rng.standard_normal(len(v)) for f, v in base.items()}
    board = leaderboard(made(methods), test=test, rounds=2000)
    means = [line.mean for line in board.lines]
    assert means == sorted(means, reverse=True)
    best = board.lines[0]
    assert rf"{best.method} & \textbf{{{latex(best.mean)}}}" in board.to_latex()
    own = next(line for line in board.lines if line.method == "base")
    for line in board.lines:
        assert line.mean == pytest.approx(np.mean(np.concatenate(list(methods[line.method].values()))))
        assert line.low <= line.mean <= line.high
        if line is not own:
            assert line.difference == pytest.approx(line.mean - own.mean)
            assert line.difference_low <= line.difference <= line.difference_high
            assert line.effect_low <= line.effect <= line.effect_high
            assert line.difference * line.effect >= 0
            assert line.mark != ("▼" if line.mean > own.mean else "▲")


def latex(value):
    return f"${value:.4f}$" if value < 0 else f"{value:.4f}"


def test_a_method_that_failed_on_its_worst_fold_is_not_first():
    """Without the hard fold its mean is the best; it stands below the others, named and unmarked."""
    easy, hard = np.linspace(0.6, 0.9, 12), np.linspace(0.0, 0.2, 12)
    whole = {"f1": easy, "f2": hard}
    results = made(
        {"base": whole, "left out": {"f1": easy + 0.01}, "good": {f: v + 0.02 for f, v in whole.items()}},
        errors=[("left out", "f2")],
    )
    board = leaderboard(results, test="t")
    assert [line.method for line in board.lines] == ["good", "base", "left out"] == ranked_methods(results)
    line = board.lines[-1]
    assert (line.missing, line.folds, line.failed, line.mark) == (["f2"], 1, 1, "")
    assert np.isnan([line.p, line.difference, line.effect]).all() and (line.wins, line.ties, line.losses) == (0, 0, 0)
    assert board.lines[0].p == pytest.approx(0.0)  # corrected for the one comparison that was made
    assert shown(board).splitlines()[-1].split()[-2:] == ["f2", "1"]
    row = next(line for line in board.to_latex().splitlines() if line.startswith("left out"))
    assert "textbf" not in row and "dagger" in row
    other = leaderboard(results, baseline="left out", test="t")
    assert all(np.isnan(line.p) and not line.mark for line in other.lines)
    unfinished = made({"base": {"f1": easy, "f2": hard}, "first": {"f1": easy}})
    assert (
        leaderboard(replace(unfinished, header={**unfinished.header, "methods": {"first": {}, "base": {}}})).baseline
        == "base"
    )


def test_a_query_that_is_tested_again_is_one_query():
    """Ten repeats of cross-validation are no ten times as many queries: p is that of the means of the repeats."""
    rng = np.random.default_rng(5)
    base = rng.random(25)
    gain = 0.02 + 0.1 * rng.standard_normal(25)
    ids = [f"q{i}" for i in range(25)]
    values = {"base": {}, "other": {}}
    for repeat in range(10):
        order = rng.permutation(25)
        noise = 0.001 * rng.standard_normal((2, 25))
        values["base"][f"r{repeat}"] = (base + noise[0])[order]
        values["other"][f"r{repeat}"] = (base + gain + noise[1])[order]
        values.setdefault("ids", {})[f"r{repeat}"] = [ids[i] for i in order]
    queries = values.pop("ids")
    repeated = made(values, queries=queries)
    line = next(line for line in leaderboard(repeated).lines if line.method == "other")
    once = randomisation(base + gain, base).p
    assert line.p == pytest.approx(once, rel=0.1) and once > 0.1
    assert line.wins + line.ties + line.losses == 25
    assert sorted(repeated.per_query("base", "map")) == sorted(ids)


def test_seeds_are_averaged_before_the_test():
    rng = np.random.default_rng(6)
    base = rng.random(30)
    fits = base + 0.05 * rng.standard_normal((3, 30)) + np.array([[0.0], [0.1], [0.2]])
    results = made({"base": {"f1": base[:10], "f2": base[10:]}, "drawn": {"f1": fits[:, :10], "f2": fits[:, 10:]}},
                   seeds={"drawn": 3})  # fmt: skip
    line = leaderboard(results, test="t").lines[0]
    assert line.method == "drawn" and line.mean == pytest.approx(fits.mean())
    assert line.seed_spread == pytest.approx(fits.mean(axis=1).std(ddof=1))
    assert line.p == pytest.approx(scipy.stats.ttest_rel(fits.mean(axis=0), base).pvalue)
    assert "± seeds" in shown(leaderboard(results)) and len(results.table()["value"]) == 2 * (30 + 3 * 30)
    lost = replace(results, records=[r for r in results.records if (r["fold"], r["seed"]) != ("f2", 2)])
    assert leaderboard(lost).lines[-1].missing == ["f2"]


def test_a_method_without_results_comes_last():
    results = made({"a": {"f1": [0.1, 0.2]}, "b": {}}, errors=[("b", "f1")])
    board = leaderboard(results)
    assert [line.method for line in board.lines] == ["a", "b"]
    assert np.isnan(board.lines[1].mean) and board.lines[1].mark == ""
    assert "--" in board.to_latex()
    assert shown(board).splitlines()[-1].split() == ["b", "–", "–", "–", "0", "f1", "1"]


def shown(board, width=120):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(board.to_rich(width))
    return console.file.getvalue()


def test_a_narrow_terminal_has_fewer_columns_and_whole_figures(results):
    wide, narrow = shown(leaderboard(results)), shown(leaderboard(results), 50)
    assert "w/t/l" in wide and "95 % interval" in wide and "w/t/l" not in narrow
    for line in leaderboard(results).lines:
        assert f"{line.mean:.4f}" in narrow and (np.isnan(line.p) or f"{line.p:.2g}" in narrow)
    assert "…" not in narrow


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
