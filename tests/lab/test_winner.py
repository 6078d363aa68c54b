"""From a comparison to a model: the winner, its setting by validation alone, fitted on all rows."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.export.model_file import read_header
from hingerank.lab import Method, compare, query_folds
from hingerank.lab.leaderboard import best_setting, refit, winner
from hingerank.lab.report.page import make_payload


@pytest.fixture(scope="module")
def data():
    return hr.make_letor(n_queries=24, rows_per_query=(6, 14), n_features=6, seed=3, dtype="float64")


def test_the_setting_is_the_best_mean_over_folds_of_validation(data):
    methods = [
        Method("bad", hr.RankSVM, {"C": [1e-9]}, fixed={"loss": "hinge"}),
        Method("good", hr.RankSVM, {"C": [1e-6, 0.01, 1.0]}),
    ]
    results = compare(methods, query_folds(data, 4, 0), workers=1)
    name, setting = winner(results)
    means = {}
    for record in results.validations(name):
        means.setdefault(record["setting"]["C"], []).append(record["value"])
    assert setting == {"C": max(means, key=lambda C: np.mean(means[C]))}
    kept, ranker = refit(results, methods, data)
    assert kept == name and ranker.fingerprint_["queries"] == data.n_queries
    assert np.allclose(ranker.predict(data), hr.RankSVM(C=setting["C"]).fit(data).predict(data)) or name == "bad"
    assert best_setting(results, "bad") == {"C": 1e-9}
    shown = make_payload(results)["winner"]
    assert shown["method"] == name and shown["setting"] == setting and shown["command"] is None


def test_compare_keeps_the_winner_and_the_page_says_how(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hr.write(data, "rows.txt")
    command = ["compare", "rows.txt", "--methods", "rank-svm", "--set", "C=0.01,1", "--folds", "3", "-o", "run"]
    assert main([*command, "--keep", "model/"]) == 0
    out = capsys.readouterr().out
    assert "rank-svm, fitted on all" in out and "model/model.safetensors" in out
    ranker = hr.load("model/")
    assert ranker.fingerprint_["queries"] == 24 and read_header("model/")["metadata"]["method"] == "rank-svm"
    assert main(["report", "run"]) == 0
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "--keep model/" in page and "Use the winner" in page
    assert main([*command, "--keep", "rows.txt"]) == 1
    assert "is the data itself" in capsys.readouterr().err


def test_default_grids_try_scales(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wide = hr.RankingData.from_arrays(data.X * 10.0 ** np.arange(-3, 3), data.y, data.qid)
    hr.write(wide, "rows.txt")
    assert main(["compare", "rows.txt", "--methods", "rank-svm,lightgbm", "--folds", "3", "-o", "run", "--set",
                 "lightgbm.n_estimators=5", "--set", "lightgbm.num_leaves=3", "--keep", "m/"]) == 0  # fmt: skip
    tried = {record["setting"].get("scale") for record in hr.lab.load_results("run").validations("rank-svm")}
    assert tried == {"standard", "query-minmax"}  # spreads differ too much for none, and no column has a long tail
    assert not any("scale" in r["setting"] for r in hr.lab.load_results("run").validations("lightgbm"))
    capsys.readouterr()


def test_one_fold_has_no_spread(data):
    folds = query_folds(data, 3, 0)[:1]
    board = hr.leaderboard(compare([Method("a", hr.RankSVM, {"C": [0.1]})], folds, workers=1))
    from rich.console import Console

    console = Console(width=120, record=True, quiet=True)
    console.print(board.to_rich())
    assert np.isnan(board.lines[0].spread) and "0.0000" not in console.export_text()
    assert "<table>" in board._repr_html_() and "nan" not in board._repr_html_()
