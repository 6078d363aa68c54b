"""`hingerank compare` and `hingerank report` from the command line."""

import csv
import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys

import numpy as np
import pytest

from hingerank.cli.app import run
from hingerank.lab import load_results


@pytest.fixture
def text_file(tmp_path):
    """Forty queries of six rows in LETOR's text form."""
    rng = np.random.default_rng(0)
    lines = []
    for q in range(40):
        for d in range(6):
            x = rng.random(3)
            grade = int(np.clip(round(2.4 * x[0] + 0.4 * rng.standard_normal()), 0, 2))
            lines.append(f"{grade} qid:{q} 1:{x[0]:.4f} 2:{x[1]:.4f} 3:{x[2]:.4f} #docid = d{q}-{d}\n")
    path = tmp_path / "made.txt"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def part_folder(tmp_path, text_file):
    """The same rows as parts S1 … S4, ten queries each."""
    folder = tmp_path / "parts"
    folder.mkdir()
    lines = text_file.read_text().splitlines(keepends=True)
    for k in range(4):
        (folder / f"S{k + 1}.txt").write_text("".join(lines[60 * k : 60 * (k + 1)]))
    return folder


OPTIONS = ["--methods", "rank-svm,hinge=rank-svm", "--set", "hinge.loss=hinge", "--set", "C=0.01,1"]


def test_compare_prints_a_leaderboard_and_keeps_everything(text_file, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["compare", str(text_file), *OPTIONS, "--folds", "3", "-o", str(out)]) == 0
    shown = capsys.readouterr()
    assert "baseline" in shown.out and "hinge" in shown.out and "ndcg@10" in shown.out
    results = load_results(out)
    assert results.methods == ["rank-svm", "hinge"] and len(results.folds) == 3
    assert len(results.tests("hinge")) == 3 and len(results.validations("hinge")) == 6
    with open(out / "leaderboard.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"rank-svm", "hinge"}
    assert r"\begin{tabular}" in (out / "leaderboard.tex").read_text()
    assert json.loads((out / "examples.json").read_text())["queries"]


def test_the_stored_command_gives_the_same_again(text_file, tmp_path, capsys):
    out = tmp_path / "run"
    more = ["--measure", "map:letor4", "--search", "random", "--trials", "3", "--seed", "4", "--baseline", "hinge"]
    assert run(["compare", str(text_file), *OPTIONS, "--folds", "3", *more, "-o", str(out)]) == 0
    first = load_results(out)
    command = shlex.split(first.header["about"]["command"])
    assert command[:2] == ["hingerank", "compare"]
    again = tmp_path / "again"
    assert run([*command[1:-1], str(again)]) == 0
    second = load_results(again)
    assert second.header["methods"] == first.header["methods"]
    assert second.header["data"] == first.header["data"]
    assert [r["values"] for r in second.tests("hinge")] == [r["values"] for r in first.tests("hinge")]


def test_folds_of_a_folder(part_folder, tmp_path, capsys):
    def folds(*options):
        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        assert run(["compare", str(part_folder), "--set", "C=1", *options, "-o", str(out)]) == 0
        return load_results(out)

    own = folds()
    assert [fold["test"] for fold in own.header["folds"]] == [60] * 4
    assert own.test("rank-svm", "fold 1")["queries"] == list(range(30, 40))
    assert folds("--folds", "4").header["data"] == own.header["data"]
    assert len(folds("--folds", "5").folds) == 5


def test_a_folder_of_folds_is_read_as_other_data(part_folder, tmp_path, capsys):
    words = ["compare", str(part_folder), "--methods", "rank-svm", "-o", str(tmp_path / "run")]
    assert run([*words, "--label", "grade"]) == 1
    assert "--label names a column of a table" in capsys.readouterr().err
    for part in part_folder.iterdir():
        part.write_text(re.sub(r"qid:\d+ ", "", part.read_text()))
    assert run(words) == 1
    said = capsys.readouterr().err
    assert "no query ids" in said and "a file beside each, such as S1.txt.query, or pass --one-query" in said


def test_continuing_and_json(text_file, tmp_path, capsys):
    words = ["compare", str(text_file), *OPTIONS, "--folds", "3", "-o", str(tmp_path / "run"), "--json"]
    assert run(words) == 0
    first = json.loads(capsys.readouterr().out)
    assert run(words) == 0
    second = capsys.readouterr()
    assert json.loads(second.out) == first
    assert "resuming with 18 of 18 results" in second.err
    assert [line["method"] for line in first] and all(0 < line["mean"] <= 1 for line in first)


def test_seeds_and_sizes(text_file, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["--methods", "rank-svm,fourier", "--set", "C=1", "--set", "fourier.n_components=4"]
    words += ["--set", "fourier.gamma=1", "--seeds", "2", "--sizes", "20%,100%", "--folds", "3"]
    assert run(["compare", str(text_file), *words, "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "± seeds" in shown and "ndcg@10 by the fraction of training queries" in shown and "20 %" in shown
    results = load_results(out)
    assert len(results.all_tests("fourier")) == 6 and len(results.at(0.2).all_tests("rank-svm")) == 3
    assert {"--seeds", "--sizes"} <= set(shlex.split(results.header["about"]["command"]))
    assert run(["report", str(out)]) == 0
    assert run(["info", str(out), "--verify"]) == 0
    assert run(["compare", str(text_file), "--sizes", "half", "-o", str(out)]) == 1
    assert "10%,30%,100%" in capsys.readouterr().err


def test_report(text_file, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["compare", str(text_file), *OPTIONS, "--folds", "3", "-o", str(out)]) == 0
    capsys.readouterr()
    assert run(["report", str(out), "--table", str(tmp_path / "long.csv")]) == 0
    assert capsys.readouterr().out.strip() == str(out / "report.html")
    assert (out / "report.html").stat().st_size < 2_000_000
    with open(tmp_path / "long.csv", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 2 * 40 * len(load_results(out).measures)
    assert run(["report", str(out), "-o", str(tmp_path / "page.html"), "--baseline", "hinge", "--test", "t"]) == 0
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--methods", "nobody"], "there is no ranker named 'nobody'"),
        (["--set", "other.C=1"], "not in --methods"),
        (["--test", "anova"], "--test anova: choose one of randomisation, t, wilcoxon"),
        (["--baseline", "x"], "the baseline 'x' is not one of the methods"),
        (["--measure", "nonsense@3"], "nonsense"),
        (["--folds", "50"], "50 folds of 40 queries"),
        (["--set", "C=-1"], "no method has a result"),
        (["--set", "C=1", "--set", "C=2"], "--set gives C twice"),
    ],
)
def test_mistakes_are_one_line(text_file, tmp_path, capsys, options, words):
    assert run(["compare", str(text_file), *options, "-o", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("hingerank: ") and words in said and "Traceback" not in said


def test_a_damaged_run_folder_is_named_and_its_results_are_not_taken_for_others(text_file, tmp_path, capsys):
    out = tmp_path / "run"
    again = ["compare", str(text_file), "--set", "C=0.1,1", "--folds", "3", "-o", str(out)]
    assert run(again) == 0
    header = (out / "run.json").read_bytes()

    def refused(words, *parts):
        assert run(words) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert all(part in said for part in ("hingerank: ", *parts)), said

    refused([*again, "--seed", "1"], "another seed")
    for damage in (b"", b"{", b"[]", b'{"format": 1}', b"\xff"):
        (out / "run.json").write_bytes(damage)
        refused(again, "run.json is damaged", "delete")
        refused(["report", str(out)], "run.json is damaged", "delete")
    (out / "run.json").unlink()
    refused(again, "results without a run.json")
    (out / "run.json").write_bytes(header)
    (out / "examples.json").write_text("{")
    refused(["report", str(out)], "examples.json is damaged")
    assert run(again) == 0  # makes it again
    array = next((out / "arrays").iterdir())
    array.write_bytes(array.read_bytes()[:-40])
    refused(["report", str(out)], array.name, "is damaged: delete it")
    array.unlink()
    assert run(["report", str(out)]) == 0
    refused(["report", str(out), "--table", str(tmp_path)], "is a folder: name a file")


def test_report_of_no_run(tmp_path, capsys):
    assert run(["report", str(tmp_path)]) == 1
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.slow
def test_live_board_on_a_terminal(text_file, tmp_path):
    """In a real terminal the board is drawn and cleared, and the final table stays."""
    main, other = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "hingerank",
        "compare",
        str(text_file),
        *OPTIONS,
        "--folds",
        "3",
        "-o",
        str(tmp_path / "r"),
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
    os.close(other)
    seen = b""
    while True:
        ready, _, _ = select.select([main], [], [], 60)
        try:
            data = os.read(main, 65536) if ready else b""
        except OSError:
            data = b""
        if not data:
            break
        seen += data
    os.close(main)
    assert process.wait(60) == 0, seen.decode()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "of 18 results" in text and "left" in text
    assert "baseline" in text.splitlines()[-3] or "baseline" in text.splitlines()[-2]
    assert "writes a page about it" in text


def test_a_blend_is_tuned_compared_kept_and_explained(text_file, tmp_path, capsys):
    import hingerank as hr

    model, few = tmp_path / "model", ["--set", "C=0.1,1", "--set", "scale=standard"]
    names = ["--model", "rank-svm,additive-rank-svm", "--blend", "--folds", "2"]
    assert run(["tune", str(text_file), *names, *few, "-o", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "blend: weights=" in shown and "  additive-rank-svm: C=" in shown
    assert isinstance(hr.load(model), hr.Blend)
    assert run(["explain", str(model), str(text_file), "--query", "3"]) == 0
    assert "exact: the weighted sum" in capsys.readouterr().out
    assert run(["evaluate", str(text_file), str(model)]) == 0
    assert run(["tune", str(text_file), "--blend", "-o", str(tmp_path / "other")]) != 0
    assert "at least two rankers" in capsys.readouterr().err
    out, kept = tmp_path / "run", tmp_path / "kept"
    members = 'blend.members=["rank-svm", "pointwise-regression"]'
    options = ["--methods", "blend", "--set", members, "--set", "blend.folds=2", "--folds", "3"]
    assert run(["compare", str(text_file), *options, "-o", str(out), "--keep", str(kept)]) == 0
    assert load_results(out).methods == ["blend"] and isinstance(hr.load(kept), hr.Blend)
    assert run(["compare", str(text_file), "--methods", "blend", "--set", "C=1", "-o", str(tmp_path / "x")]) != 0
    assert "blend has no parameter 'C' here" in capsys.readouterr().err
