"""`fit`, `tune`, `evaluate` and `report` of a click log, as typed on the command line."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hingerank as hr
from hingerank.cli import main

P = (1 / np.arange(1, 9)).round(4)
GIVEN = ",".join(map(str, P))


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(60, 8, n_features=5, n_grades=3, seed=4)
    return replace(made, docid=np.array([f"d{k}" for k in range(made.n_rows)]))


@pytest.fixture(scope="module")
def files(tmp_path_factory, rows):
    """A log and a table of features without grades."""
    place = tmp_path_factory.mktemp("clicks")
    log = hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=4000, seed=1, counted=True)
    pd.DataFrame(
        {
            "query": log.query_names[log.query], "document": log.document_names[log.document], "place": log.place,
            "clicked": log.clicks, "weight": log.weights,
        }
    ).to_csv(place / "log.csv", index=False)  # fmt: skip
    table = pd.DataFrame(rows.X, columns=[f"f{k}" for k in range(5)])
    table.assign(qid=rows.qid, docid=rows.docid).to_parquet(place / "features.parquet")
    hr.RankSVM().fit(rows).save(str(place / "judged.safetensors"))
    return place


def run(*words):
    assert main([str(word) for word in words]) in (None, 0)


def test_fit_learns_what_fit_clicks_does(files, rows, capsys):
    words = ["--features", files / "features.parquet", "--propensities", GIVEN, "--correction", "clipped", "--C", 1e-4]
    run("fit", files / "log.csv", *words, "-o", files / "fitted.safetensors", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "converged" and said["rows"] == rows.n_rows
    data = hr.read_clicks(files / "log.csv").join(rows)
    again = hr.RankSVM(C=1e-4).fit_clicks(data, propensities=P, correction="clipped")
    np.testing.assert_allclose(hr.load(files / "fitted.safetensors").coef_, again.coef_, rtol=1e-4, atol=1e-7)


def test_columns_of_the_log_can_be_named(files, capsys):
    pd.read_csv(files / "log.csv").add_prefix("my ").to_csv(files / "named.csv", index=False)
    words = ["--features", files / "features.parquet", "--propensities", GIVEN]
    assert main([str(word) for word in ("fit", files / "named.csv", *words, "-o", files / "named.safetensors")]) == 1
    assert "as in --query NAME" in capsys.readouterr().err
    named = [
        word for name in ("query", "document", "place", "clicked", "weight") for word in (f"--{name}", f"my {name}")
    ]
    run("fit", files / "named.csv", *words, *named, "-o", files / "named.safetensors")
    run("fit", files / "log.csv", *words, "-o", files / "plain.safetensors")
    models = [files / "named.safetensors", "--also", files / "plain.safetensors"]
    capsys.readouterr()
    run("evaluate", files / "named.csv", *models, *words, *named, "--json")
    one, two = json.loads(capsys.readouterr().out)["values"]["dcg@10"].values()
    assert one == two


def test_tune_blends(files, capsys):
    words = ["--features", files / "features.parquet", "--propensities", GIVEN, "--folds", 2, "--blend"]
    settings = ["--set", "C=1e-4", "--set", "scale=standard", "--set", "context=none"]
    target = files / "blend.safetensors"
    run("tune", files / "log.csv", *words, *settings, "--model", "rank-svm,additive-rank-svm", "-o", target, "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["ranker"] == "blend" and list(said["members"]) == ["rank-svm", "additive-rank-svm"]
    assert isinstance(hr.load(target), hr.Blend)


def test_tune_and_evaluate(files, capsys):
    settings = ["--set", "scale=none", "--set", "loss=squared_hinge", "--set", "pair_weight=uniform"]
    words = ["--features", files / "features.parquet", "--propensities", GIVEN]
    run("tune", files / "log.csv", *words, *settings, "--folds", 2, "-o", files / "tuned.safetensors", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["measure"] == "dcg@10"
    models = [files / "tuned.safetensors", "--also", files / "judged.safetensors"]
    run(
        "evaluate",
        files / "log.csv",
        *models,
        *words,
        "--estimator",
        "snips",
        "-m",
        "dcg@3",
        "-m",
        "average-rank",
        "--json",
    )
    said = json.loads(capsys.readouterr().out)
    found = said["values"]["dcg@3"]
    assert len(found) == 2 and all(each["interval"][0] < each["value"] < each["interval"][1] for each in found.values())
    run("evaluate", files / "log.csv", *models, *words)
    assert "effective size" in capsys.readouterr().out


def test_report(files, capsys):
    page = files / "page.html"
    words = ["--features", files / "features.parquet", "--propensities", GIVEN, "-o", page]
    run("report", files / "log.csv", *words, "--model", files / "judged.safetensors")
    text = page.read_text()
    for word in (
        "What was logged",
        "rows that were never shown",
        "How often a position is seen",
        "propensity",
        "What rankings are worth",
        "<svg",
    ):
        assert word in text
    run("report", files / "log.csv", "--features", files / "features.parquet", "-o", page, "--force")  # by all-pairs
    assert "95 % interval" in page.read_text() and "What rankings are worth" not in page.read_text()
    assert "<script" not in page.read_text()


def test_the_report_of_a_log_says_that_it_needs_features(files, capsys):
    assert main(["report", str(files / "log.csv")]) == 1
    assert "for a click log, name the file of its documents' features with --features" in capsys.readouterr().err


def test_the_report_of_a_log_with_sessions_compares_click_models(rows):
    from hingerank.lab.report.clicks import click_page, held_out_models

    log = hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=1500, seed=1)
    models = held_out_models(log)
    assert {"pbm", "ubm"} <= {row[0] for row in models} and all(1 < row[1] < 2 for row in models)
    text = click_page("<log>", log, log.join(rows), models=models)
    assert "Click models on held-out lists" in text and "&lt;log&gt;" in text and "<log>" not in text
    log.clicks[:] = 0  # the page was an error: there is nothing to learn
    assert held_out_models(log) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "log.csv", "--features", "features.parquet", "-o", "x.safetensors"], "the log itself has none"),
        (
            ["fit", "log.csv", "--features", "features.parquet", "--propensities", "p.json", "-o", "x"],
            "neither a file nor numbers",
        ),
        (["fit", "log.csv", "--features", "features.parquet", "--model", "lightgbm", "-o", "x"], "learn from clicks"),
        (["fit", "features.parquet", "--correction", "naive", "-o", "x"], "--correction is for a click log"),
        (
            ["fit", "log.csv", "--features", "feature.parquet", "--propensities", GIVEN, "-o", "x"],
            "feature.parquet: there is no such file or folder; did you mean",
        ),
        (
            ["fit", "log.csv", "--features", "features.parquet", "--propensities", GIVEN, "--clip", "0.2", "-o", "x"],
            "--clip 0.2 is for --correction clipped or --correction doubly-robust, not for --correction ips",
        ),
        (
            ["evaluate", "log.csv", "judged.safetensors", "--features", "features.parquet", "--clip", "0.2"],
            "--clip 0.2 is for --estimator clipped or --estimator dr, not for --estimator ips",
        ),
        (
            ["evaluate", "log.csv", "judged.safetensors", "--features", "features.parquet"],
            "--estimator ips needs propensities",
        ),
        (
            ["evaluate", "log.csv", "judged.safetensors", "--features", "features.parquet", "--preset", "trec"],
            "--preset",
        ),
    ],
)
def test_what_does_not_fit_is_said(files, words, said, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(words) != 0
    assert said in capsys.readouterr().err
