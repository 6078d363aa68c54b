"""The command line as a user meets it: results, one-line errors, exit statuses, JSON, pipes, interruption."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.cli.app import PANELS

COMMANDS = sorted(name for commands in PANELS.values() for name in commands)
ROWS = """\
2 qid:q1 1:0.9 2:0.1 3:0.3 #docid = d1
0 qid:q1 1:0.1 2:0.8 3:0.3 #docid = d2
1 qid:q1 1:0.5 2:0.2 3:0.3 #docid = d3
0 qid:q2 1:0.2 2:0.9 3:0.3 #docid = d4
1 qid:q2 1:0.8 2:0.4 3:0.3 #docid = d5
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """call(*arguments) -> (status, stdout, stderr), run in an empty folder that holds data.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINGERANK_CACHE", str(tmp_path / "cache"))
    Path("data.txt").write_text(ROWS)
    Path("scores.txt").write_text("3\n1\n2\n2\n1\n")

    def run(*arguments):
        capsys.readouterr()
        status = main([str(word) for word in arguments])
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


def one_line(stderr):
    return stderr.startswith("hingerank: ") and stderr.count("\n") == 1 and "Traceback" not in stderr


def test_help_and_version(call):
    status, out, _ = call()
    assert status == 0 and all(name in out for name in COMMANDS)
    status, out, _ = call("--version")
    assert status == 0 and out.startswith("hingerank 0.")


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["nothing"], 2, "No such command"),
        (["info"], 2, "DATA"),
        (["info", "absent.txt"], 1, "absent.txt: there is no such file or folder"),
        (["info", "empty.txt"], 1, "empty"),
        (["info", "noise.bin"], 1, "noise.bin"),
        (["info", "data.txt", "--missing", "maybe"], 1, "maybe"),
        (["info", "data.txt", "--unknown"], 2, "--unknown"),
        (["info", "table.csv"], 1, "label"),
        (["info", "nan.txt"], 1, "line 1"),
        (["convert", "data.txt"], 2, "OUT"),
        (["convert", "data.txt", "data.txt/x.txt"], 1, "data.txt/x.txt: Not a directory"),
        (["convert", "data.txt", "data.xyz"], 1, "data.xyz"),
        (["convert", "data.txt", "data.txt"], 1, "data.txt"),
        (["evaluate", "data.txt", "short.txt"], 1, "5"),
        (["evaluate", "data.txt", "scores.txt", "--measure", "ndgc@10"], 1, "did you mean"),
        (["evaluate", "data.txt", "scores.txt", "--preset", "letor5"], 1, "letor4"),
        (["evaluate", "data.txt", "absent"], 1, "absent"),
        (["fit", "data.txt"], 2, "--output"),
        (["fit", "data.txt", "-o", "m/", "--model", "svm"], 1, "rank-svm"),
        (["fit", "data.txt", "-o", "m/", "--C", "much"], 2, "--C"),
        (["fit", "data.txt", "-o", "m/", "--C", "-1"], 1, "C"),
        (["fit", "data.txt", "-o", "m/", "--set", "colour=red"], 1, "no parameter 'colour'"),
        (["fit", "data.txt", "-o", "m/", "--set", "colour"], 1, "NAME=VALUE"),
        (["fit", "data.txt", "-o", "m/", "--set", "C=much"], 1, "C must be a positive number, not 'much'"),
        (["info", "."], 1, "name a file in it"),
        (["fit", "data.txt", "-o", "m/", "--features", "rows"], 1, "leave it out (and there is no file 'rows')"),
        (["info", "header.csv"], 1, "header.csv: the table has no rows"),
        (
            ["fit", "data.txt", "-o", "m/", "--validation", "wide.txt"],
            1,
            "wide.txt has 4 features, but the model has 3",
        ),
        (["explain", "m/", "data.txt", "--query", "q1", "--pair", "d1"], 2, "see hingerank explain --help"),
        (["rank", "data.txt", "data.txt", "--query", "q1"], 2, "see hingerank rank --help"),
        (["info", "hole.csv"], 1, "--missing zero"),
        (["rank", "data.txt", "data.txt"], 1, "not a hingerank model"),
        (["rank", "absent/", "data.txt"], 1, "absent"),
        (["fetch"], 2, "--list"),
        (["fetch", "nothing"], 1, "unknown set 'nothing'"),
        (["fetch", "mslr-web10k"], 1, "accept the licence"),
        (["fetch", "ml-1m", "--from", "data.txt"], 1, "damaged or another file"),
        (["fit", "data.txt", "-o", "m/", "--model", "mmr"], 1, "use hingerank rerank"),
        (["fit", "data.txt", "-o", "m/", "--model", "joint"], 1, "data.txt is read as ratings of users: --user-column"),
        (["compare", "data.txt", "-o", "run", "--methods", "pm2"], 1, "use hingerank rerank"),
        (["compare", "data.txt", "-o", "run", "--methods", ","], 1, "names no ranker"),
        (["compare", "data.txt", "-o", "run", "--methods", "listnet,listnet"], 1, "another name, as in other=listnet"),
        (["compare", "data.txt", "-o", "run", "--hold-out", "items"], 1, "with --items, or a ranker of ratings"),
        (["compare", "ratings.csv", "-o", "run"], 1, "name the items with --items"),
        (
            ["compare", "ratings.csv", "-o", "run", "--methods", "joint"],
            1,
            "learnt about the items that are held out; name a table of their features with --items, or pass --hold-out",
        ),
        (["compare", "ratings.csv", "-o", "run", "--items", "absent.csv"], 1, "absent.csv: there is no such file"),
        (
            ["compare", "ratings.csv", "-o", "run", "--items", "items.csv"],
            1,
            "column 'title' has no word that two items",
        ),
        (["report", "absent"], 1, "absent: there is no such file or folder"),
        (["report", "absent", "-o", "."], 1, "is a folder"),
        (["reproduce", "nothing"], 1, "there is no table 'nothing'"),
        (["analyse", "nothing", "m"], 1, "there is no analysis 'nothing'"),
        (["warmup", "now"], 2, "unexpected extra argument"),
        (["demo", "-o", "data.txt"], 1, "data.txt"),
        (["rerank", "run.txt", "-o", "out.txt"], 1, "which MMR needs; give --features"),
        (
            ["rerank", "run.txt", "-o", "out.txt", "--method", "pm2"],
            1,
            "which PM2 needs; give --aspects, or --clusters",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(call, arguments, status, words):
    Path("empty.txt").write_text("")
    Path("short.txt").write_text("1\n2\n")
    Path("nan.txt").write_text("1 qid:1 1:nan\n")
    Path("noise.bin").write_bytes(np.random.default_rng(0).bytes(1000))
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("header.csv").write_text("label,qid,a\n")
    Path("wide.txt").write_text("1 qid:1 4:1\n0 qid:1 4:2\n")
    Path("hole.csv").write_text("label,qid,a\n1,1,2\n0,1,\n")
    Path("ratings.csv").write_text("user,item,rating\na,x,5\na,y,2\nb,x,1\n")
    Path("items.csv").write_text("item,title\nx,One\ny,Two\n")
    Path("run.txt").write_text("1 Q0 d1 1 2.0 x\n1 Q0 d2 2 1.0 x\n")
    found, out, err = call(*arguments)
    assert found == status
    assert out == ""
    assert one_line(err), err
    assert words in err


def test_an_encoding_without_a_letter_is_named(call, capsys, monkeypatch):
    Path("data.csv").write_text("label,qid,docid,a\n1,1,é,2\n0,1,帐,1\n", encoding="utf-8")
    assert call("fit", "data.csv", "-o", "m/")[0] == 0
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert main(["rank", "m/", "data.csv", "--top", "1", "--json"]) == 0  # JSON has only ASCII
    assert main(["rank", "m/", "data.csv", "--top", "2"]) == 1
    said = capsys.readouterr().err
    assert "standard output: its encoding latin-1 has no '帐': set PYTHONIOENCODING=utf-8" in said


def test_a_message_of_several_lines_becomes_one(call, monkeypatch):
    def read(*_, **__):
        raise ValueError("first\n  second")

    monkeypatch.setattr("hingerank.data.read_write.read", read)
    assert call("info", "data.txt") == (1, "", "hingerank: first second\n")


def test_debug_adds_the_traceback_wherever_it_is_written(call):
    for arguments in (["--debug", "info", "absent.txt"], ["info", "absent.txt", "--debug"]):
        status, _, err = call(*arguments)
        assert status == 1
        assert "Traceback" in err and err.splitlines()[-1].startswith("hingerank: absent.txt")


def test_info_as_a_list_and_as_json(call):
    status, out, err = call("info", "data.txt")
    assert (status, err) == (0, "")
    assert "queries" in out and "f3" in out  # the constant column
    status, out, err = call("info", "data.txt", "--json")
    found = json.loads(out)
    assert (found["queries"], found["rows"], found["pairs"], found["grades"]) == (2, 5, 4, {"0": 2, "1": 2, "2": 1})


@pytest.mark.parametrize(
    "name",
    [
        *("copy.txt", "copy.txt.gz", "copy.svm.xz", "copy.LETOR.BZ2", "copy.gz", "copy/", "copy", "copy.parquet"),
        *("copy.csv", "copy.csv.gz", "copy.csv.xz", "copy.csv.zst", "copy.tsv.bz2", "copy.feather", "copy.arrow"),
    ],
)
def test_convert_there_and_back_keeps_every_row(call, name):
    if name.endswith(".zst"):
        pytest.importorskip("zstandard")
    status, out, err = call("convert", "data.txt", name)
    assert (status, err) == (0, "") and "5 rows, 2 queries, 3 features" in out
    assert call("convert", name, "back.txt")[0] == 0
    assert Path("back.txt").read_text() == ROWS
    status, _, err = call("convert", "data.txt", name)
    assert status == 1 and "--force" in err
    assert call("convert", "data.txt", name, "--force", "--dtype", "float32")[0] == 0
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_options_of_reading_hold_for_binary_folders_and_logs(call):
    Path("data.txt").write_text("1 qid:1 1:NaN 2:0.1\n0 qid:1 1:3\n")
    assert call("convert", "data.txt", "data/", "--missing", "nan")[0] == 0
    assert call("convert", "data/", "data.csv", "--missing", "zero")[0] == 0
    assert hr.read("data.csv").X.tolist() == [[0, 0.1], [3, 0]]
    assert call("convert", "data/", "narrow/", "--dtype", "float32")[0] == 0
    assert hr.read("narrow").X.dtype == np.float32
    Path("log.json").write_text('{"qid": "q", "response": {"docs": [{"id": "d", "[features]": "a=0.5"}]}}')
    Path("qrels.txt").write_text("q 0 d 1\n")
    assert call("convert", "log.json", "log/", "--judgments", "qrels.txt", "--dtype", "float32")[0] == 0
    assert hr.read("log").X.dtype == np.float32
    status, _, err = call("convert", "log.json", "log.csv", "--judgments", "qrels.txt", "--label", "grade")
    assert status == 1 and "--label names a column of a table" in err


def test_fit_rank_evaluate(call):
    status, out, err = call("fit", "data.txt", "--C", "1", "-o", "model/", "--validation", "data.txt", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["model"] == "rank-svm" and found["pairs"] == 4 and found["validation ndcg@10"] == 1.0
    assert Path(found["saved"]) == Path("model/model.safetensors")
    assert call("rank", "model/", "data.txt", "-o", "mine.txt") == (0, "", "")
    lines = Path("mine.txt").read_text().splitlines()
    assert len(lines) == 5 and float(lines[0]) > float(lines[2]) > float(lines[1])
    status, out, _ = call("evaluate", "data.txt", "mine.txt", "-m", "ndcg@10", "-m", "map", "--json")
    assert json.loads(out)["means"] == {"ndcg@10": 1.0, "map": 1.0}


def test_evaluate_takes_a_model(call):
    call("fit", "data.txt", "--C", "1", "-o", "model/")
    call("rank", "model/", "data.txt", "-o", "mine.txt")
    of_scores = call("evaluate", "data.txt", "mine.txt", "-m", "ndcg@2", "--json")
    assert call("evaluate", "data.txt", "model/", "-m", "ndcg@2", "--json") == of_scores


def test_a_model_and_data_are_told_apart_in_either_order(call):
    call("fit", "data.txt", "--C", "1", "-o", "model/")
    for name, more in (("rank", ()), ("evaluate", ()), ("explain", ("--query", "q1"))):
        found = call(name, "model/", "data.txt", *more)
        assert found[0] == 0 and found == call(name, "data.txt", "model/", *more)


def test_a_model_is_replaced_with_force_only_and_a_failure_leaves_nothing(call):
    assert call("fit", "data.txt", "--C", "1", "-o", "model/")[0] == 0
    before = Path("model/model.safetensors").read_bytes()
    for name in ("fit", "tune"):
        for place in ("model/", "model", "model/model.safetensors"):
            status, _, err = call(name, "data.txt", "-o", place)
            assert status == 1 and one_line(err) and "pass --force to replace it" in err
    assert Path("model/model.safetensors").read_bytes() == before
    assert call("fit", "data.txt", "--C", "2", "-o", "model/", "--force")[0] == 0
    assert Path("model/model.safetensors").read_bytes() != before
    for words in (("fit", "--C", "-1"), ("tune", "--set", "C=-1"), ("tune", "--measure", "ndgc@10")):
        assert call(words[0], "data.txt", "-o", "new/", *words[1:])[0] == 1
        assert not Path("new").exists()


def test_fit_says_how_many_features_a_sparse_model_kept(call):
    _, out, _ = call("fit", "data.txt", "--model", "fenchel-rank", "--set", "radius=0.01", "-o", "model/", "--json")
    found = json.loads(out)
    assert found["features kept"] == 1 < found["features"]


def test_rank_forms(call):
    call("fit", "data.txt", "--C", "1", "-o", "model/")
    status, out, _ = call("rank", "model/", "data.txt", "--top", "2")
    assert [line.split("\t")[:3] for line in out.splitlines()] == [
        ["q1", "1", "d1"],
        ["q1", "2", "d3"],
        ["q2", "1", "d5"],
        ["q2", "2", "d4"],
    ]
    _, out, _ = call("rank", "model/", "data.txt", "--trec-run", "--top", "1")
    assert [line.split()[:4] for line in out.splitlines()] == [["q1", "Q0", "d1", "1"], ["q2", "Q0", "d5", "1"]]
    _, out, _ = call("rank", "model/", "data.txt", "--json", "--top", "1")
    assert [(entry["qid"], entry["documents"]) for entry in json.loads(out)] == [("q1", ["d1"]), ("q2", ["d5"])]
    assert status == 0


@pytest.mark.parametrize("name", ["s.txt.gz", "s.xz", "s.txt.bz2", "s.zst"])
def test_scores_are_compressed_if_their_name_says_so(call, name):
    if name == "s.zst":
        pytest.importorskip("zstandard", reason="zstandard is not installed: pip install 'hingerank[zstd]'")
    assert call("fit", "data.txt", "-o", "m/")[0] == 0
    assert call("rank", "m/", "data.txt", "-o", name)[0] == 0
    assert not Path(name).read_bytes()[:1].isdigit()
    assert call("evaluate", "data.txt", name, "-m", "map") == call("evaluate", "data.txt", "m/", "-m", "map")


def test_a_trec_run_has_the_scores_in_full_and_ranks_equal_ones_as_trec_eval(call):
    pairs = "".join(f"{row % 3} qid:{row % 2} 1:{row // 8 / 7} 2:1 #d{row}\n" for row in range(40))
    Path("tied.txt").write_text(pairs)
    call("fit", "tied.txt", "-o", "model/", "--C", "1")
    scores = [float(line) for line in call("rank", "model/", "tied.txt")[1].split()]
    call("rank", "model/", "tied.txt", "--trec-run", "-o", "run.txt")
    lines = [line.split() for line in Path("run.txt").read_text().splitlines()]
    assert {line[2]: float(line[4]) for line in lines} == {f"d{row}": scores[row] for row in range(40)}
    for query in "01":
        ranked = [(float(line[4]), line[2]) for line in lines if line[0] == query]
        assert ranked == sorted(ranked, reverse=True) and len({score for score, _ in ranked}) == 5
    for preset in ("default", "trec", "sklearn", "catboost"):
        how = [
            "-m",
            "ndcg@3",
            "-m",
            "map",
            "-m",
            "err@5",
            "-m",
            "mean_ndcg",
            "--preset",
            preset,
            "--per-query",
            "--json",
        ]
        found = [json.loads(call("evaluate", "tied.txt", given, *how)[1]) for given in ("model/", "run.txt")]
        assert found[0]["means"] == pytest.approx(found[1]["means"], rel=1e-12), preset


def test_rows_without_the_last_features_can_be_ranked(call):
    Path("fewer.txt").write_text("0 qid:1 1:0.5\n1 qid:1 1:0.7\n")
    Path("more.txt").write_text("0 qid:1 1:0.5 9:1\n")
    call("fit", "data.txt", "-o", "model/")
    status, out, err = call("rank", "model/", "fewer.txt")
    assert status == 1 and out == ""
    assert one_line(err) and "has features up to 1, but the model has 3" in err and "--pad" in err
    status, out, err = call("rank", "model/", "fewer.txt", "--pad")
    assert (status, err) == (0, "") and len(out.splitlines()) == 2
    status, _, err = call("rank", "model/", "more.txt")
    assert status == 1 and one_line(err)


def test_features_are_counted_as_in_the_training_text(call):
    rows = [f"{row % 2} qid:{row // 2} 0:0.5 1:{row % 2} 2:{(row * 7) % 5}" for row in range(20)]
    Path("train.txt").write_text("\n".join(rows) + "\n")  # feature 1 decides, and the text counts from 0
    Path("test.txt").write_text("1 qid:1 1:1 2:0\n0 qid:1 1:0 2:4\n")  # feature 0 is 0 throughout
    status, out, err = call("fit", "train.txt", "-o", "model/", "--C", "10", "--validation", "test.txt", "--json")
    assert (status, err, json.loads(out)["validation ndcg@10"]) == (0, "", 1.0)
    status, out, err = call("rank", "model/", "test.txt")
    first, second = map(float, out.split())
    assert (status, err) == (0, "") and first > second + 0.5
    call("convert", "train.txt", "from1.txt")
    assert call("rank", "model/", "from1.txt") == call("rank", "model/", "train.txt")
    call("fit", "data.txt", "-o", "other/")
    status, _, err = call("rank", "other/", "train.txt")
    assert (
        status == 1 and one_line(err) and "train.txt, line 1" in err and "features count from 1, as in the text" in err
    )


@pytest.mark.filterwarnings("default")
def test_a_fit_that_does_not_converge_warns_in_one_line(call):
    status, _, err = call("fit", "data.txt", "--C", "1000", "--tol", "1e-12", "--set", "max_iter=1", "-o", "model/")
    assert status == 0
    assert one_line(err) and "warning: stopped after 1 iterations" in err
    _, _, err = call("fit", "data.txt", "--model", "sparse-rank-svm", "--tol", "1e-30", "-o", "stalled/")
    assert one_line(err) and "(stalled)" in err and "(--scale ...)" in err and "scale=" not in err


def test_advice_about_scales_names_options(call):
    Path("wide.txt").write_text(re.sub(r" 1:0\.(\d)", r" 1:\g<1>00000", ROWS))
    _, _, err = call("fit", "wide.txt", "-o", "wide/")
    assert one_line(err) and "--scale standard" in err and "hingerank tune" in err and 'scale="' not in err
    _, _, err = call("fit", "data.txt", "--C", "1e-9", "-o", "weak/")
    assert one_line(err) and "C=1e-09 is small" in err and "(--C)" in err and "hingerank.tune" not in err
    _, _, err = call("fit", "data.txt", "--model", "fenchel-rank", "--set", "radius=1e-9", "-o", "sparse/")
    assert one_line(err) and "--set radius=" in err


def test_what_cannot_be_saved_is_found_before_the_fit(call):
    for place in ("data.txt/model.safetensors", "data.txt/deep/model/"):
        status, _, err = call("fit", "absent.txt", "-o", place)
        assert status == 1 and one_line(err) and f"--output {place}: data.txt is a file, not a folder" in err
    status, _, err = call("fit", "data.txt", "-o", "data.txt")
    assert status == 1 and "is the data itself" in err
    assert Path("data.txt").read_text() == ROWS


def test_a_parameter_given_twice_is_refused(call):
    for words in (("--C", "1", "--set", "C=2"), ("--set", "tol=0.1", "--set", "tol=0.2")):
        status, _, err = call("fit", "data.txt", "-o", "model/", *words)
        assert status == 1 and one_line(err) and "is given twice" in err


def test_settings_are_read_as_values(call):
    status, _, _ = call("fit", "data.txt", "-o", "m/", "--set", "tol=1e-6", "--set", "scale=None", "--loss", "logistic")
    assert status == 0
    from hingerank.export.model_file import load

    ranker = load("m/")
    assert (ranker.tol, ranker.scale, ranker.loss) == (1e-6, None, "logistic")


def test_evaluate_per_query_and_presets(call):
    _, out, _ = call("evaluate", "data.txt", "scores.txt", "--per-query", "-m", "p@1", "--json")
    found = json.loads(out)
    assert found["per_query"] == {"qid": ["q1", "q2"], "p@1": [1.0, 0.0]} and found["means"] == {"p@1": 0.5}
    _, plain, _ = call("evaluate", "data.txt", "scores.txt", "-m", "ndcg@10", "--json")
    _, letor, _ = call("evaluate", "data.txt", "scores.txt", "-m", "ndcg@10", "--preset", "letor4", "--json")
    assert json.loads(letor)["means"]["ndcg@10"] == 0.0 < json.loads(plain)["means"]["ndcg@10"]
    _, out, _ = call("evaluate", "data.txt", "scores.txt", "--per-query")
    assert [line.split()[0] for line in out.splitlines() if line.strip()][-1] == "mean"


def test_undefined_values_are_null_in_json(call):
    Path("flat.txt").write_text("1 qid:1 1:1\n1 qid:1 1:2\n")
    Path("two.txt").write_text("1\n2\n")
    _, out, _ = call("evaluate", "flat.txt", "two.txt", "-m", "pair_accuracy", "--json")
    assert json.loads(out)["means"]["pair_accuracy"] is None


def test_fetch_list_and_a_copy_of_ones_own(call):
    status, out, _ = call("fetch", "--list")
    assert status == 0 and "mslr-web30k" in out and "recorded at first use" in out
    _, out, _ = call("fetch", "--list", "--json")
    assert {"name", "licence", "page", "checksum"} <= set(json.loads(out)[0])
    Path("MQ2008/Fold1").mkdir(parents=True)
    Path("MQ2008/Fold1/train.txt").write_text(ROWS)
    status, out, err = call("fetch", "mq2008", "--from", "MQ2008")
    assert (status, err) == (0, "")
    assert (Path(out.strip()) / "Fold1" / "train.txt").read_text() == ROWS
    assert call("fetch", "mq2008")[1] == out


def test_output_that_cannot_be_written(call):
    call("fit", "data.txt", "-o", "model/")
    for place in ("data.txt/scores.txt", "model"):
        status, _, err = call("rank", "model/", "data.txt", "-o", place)
        assert status == 1 and one_line(err), err
    Path("old.txt").write_text("old")
    status, _, _ = call("rank", "model/", "more.txt", "-o", "old.txt")
    assert status == 1 and Path("old.txt").read_text() == "old"


def test_missing_folders_above_an_output_are_made_and_go_after_an_error(call):
    """Of every command with an output; what it cannot read is found before it writes or while it does."""
    call("fit", "data.txt", "-o", "model/")
    Path("worse.txt").write_text(ROWS.replace("d2", "d 2"))
    good = [
        ("rank model/ data.txt --trec-run", "out.run"),
        ("explain model/ data.txt --query q1", "out.html"),
        ("export model/ --to c", "out.c"),
        ("fit data.txt", "model.safetensors"),
        ("fit data.txt", "model/"),
        ("convert data.txt", "out.bin/"),
        ("convert data.txt", "out.txt.gz"),
        ("convert data.txt", "out.csv"),
    ]
    for line, name in good:
        words = line.split()
        option = {"convert": [], "explain": ["--page"]}.get(words[0], ["-o"])
        status, _, err = call(*words, *option, f"new/deep/{name}")
        assert (status, err) == (0, "") and Path("new/deep", name).exists(), (line, err)
        shutil.rmtree("new")
        bad = [{"data.txt": "worse.txt" if "--trec-run" in words else "short.txt"}.get(word, word) for word in words]
        Path("short.txt").write_text(ROWS + "1 qid:q3 1:x\n")
        status, _, err = call(*bad, *option, f"new/deep/{name}")
        assert words[0] == "export" or (status == 1 and one_line(err) and not Path("new").exists()), (line, err)
        shutil.rmtree("new", ignore_errors=True)


def test_a_picture_with_an_unknown_ending_is_named_before_anything_is_written(call):
    shown = [(n, "abc"[(n + k) % 3], k + 1, int((n * 7 + k) % 4 == 0)) for n in range(30) for k in range(3)]
    lines = "".join(f"q,{session},{document},{place},{clicked}\n" for session, document, place, clicked in shown)
    Path("log.csv").write_text("query,session,document,place,clicked\n" + lines)
    status, _, err = call("clicks", "propensities", "log.csv", "-o", "new/p.json", "--picture", "new/p.xyz")
    assert status == 1 and "new/p.xyz: the ending of a picture is one of" in err and not Path("new").exists()


def in_a_process(arguments, **options):
    command = [sys.executable, "-m", "hingerank", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("".join(f"{i % 2} qid:{i // 10} 1:{i}\n" for i in range(20_000)))
    model = tmp_path / "m.safetensors"
    assert main(["fit", str(many), "-o", str(model), "--scale", "query-minmax"]) == 0
    process = in_a_process(["rank", model, many])
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 1


def open_when_read(pipe, seconds=60.0):
    """The writing end of a named pipe, once another process has opened the pipe for reading."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interruption_of_the_imports_is_one_line(monkeypatch, capsys, wrapped):
    """Where a class is being made, Python before 3.12 raises a RuntimeError from the interruption."""

    def interrupted(*words):
        if wrapped:
            raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "hingerank.cli.app")
    monkeypatch.setattr("builtins.__import__", interrupted)
    assert main(["info"]) == 130
    monkeypatch.undo()
    assert capsys.readouterr().err == "hingerank: interrupted\n"
    if wrapped:  # and so in a command, which imports what it uses
        monkeypatch.setattr("hingerank.cli.app.app", lambda *words, **more: interrupted())
        assert (main(["info"]), capsys.readouterr().err) == (130, "hingerank: interrupted\n")


@pytest.mark.slow
def test_an_interruption_is_one_line(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    pipe = tmp_path / "data.txt"
    os.mkfifo(pipe)  # reading it waits for ever
    process = in_a_process(["info", pipe])
    writer = open_when_read(pipe)
    time.sleep(0.3)  # until it waits for bytes: Python sees a signal that comes just before only after them
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    os.close(writer)
    assert process.returncode == 130 and out == ""
    assert err == "hingerank: interrupted\n"


@pytest.mark.slow
def test_demo_writes_a_page_and_replaces_only_its_own(call):
    status, out, err = call("demo", "--queries", "30", "--output", "show")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == str(Path("show/report.html")) and "corrected clicks, curves" in out
    page = Path("show/report.html").read_text("utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>") and "bm25_title" in page and "duality gap" in page
    for outside in ('src="http', "src='http", 'href="http', "@import", "url(http", "<script"):
        assert outside not in page
    status, out, _ = call("demo", "--queries", "30", "--output", "show", "--json")
    found = json.loads(out)
    assert status == 0 and found["certificate"]["status"] == "converged"
    ndcg = {row[0]: row[1] for row in found["rows"]}
    assert list(ndcg) == sorted(ndcg, key=ndcg.get), "each step of the story is better than the one before"
    status, _, err = call("demo", "--queries", "500", "--output", "show")
    assert status == 1 and one_line(err) and Path("show/report.html").exists(), "nothing goes before it can be replaced"
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("x")
    status, _, err = call("demo", "--queries", "30", "--output", "mine")
    assert status == 1 and one_line(err) and "thesis.txt" in err and Path("mine/thesis.txt").exists()


@pytest.mark.slow
def test_the_commands_on_the_page_of_the_demo_run(call):
    from html import unescape

    assert call("demo", "--queries", "30", "--output", "show")[0] == 0
    block = re.search("<pre>(.*?)</pre>", Path("show/report.html").read_text("utf-8"), re.DOTALL)[1]
    commands = unescape(block).splitlines()
    assert len(commands) == 5
    for command in commands:
        program, *arguments = command.split()
        status, _, err = call(*arguments)
        assert program == "hingerank" and status == 0, f"{command}: {err}"
    assert "SELECT" in Path("ranker.sql").read_text().upper()


@pytest.mark.slow
def test_warmup_runs_every_step_and_reports_failures(call, monkeypatch):
    from hingerank.lab import warmup

    status, out, err = call("warmup", "--json")
    steps = json.loads(out)
    assert (status, err) == (0, "")
    assert [step for step in steps if step["problem"]] == []
    assert {"reader", "writer", "measures", "rank-svm, sparse float32"} <= {step["label"] for step in steps}
    monkeypatch.setattr(warmup, "_batches", lambda: [[("broken", partial(int, "nowhere"))]])
    status, out, _ = call("warmup")
    assert status == 1 and "0 of 1" in out and "nowhere" in out


def test_columns_of_a_table_are_named_on_the_command_line(call):
    rows = "\n".join(f"{q},{(q * 7 + d) % 3},{d % 4},{(q * d) % 5}" for q in range(8) for d in range(6))
    Path("t.csv").write_text(f"topic,grade,a,b\n{rows}\n")
    status, _, err = call("fit", "t.csv", "-o", "m/")
    assert status == 1 and one_line(err) and "no column 'label'" in err and "--label, --qid and --features" in err
    named = ("--label", "grade", "--qid", "topic", "--features", "a,b")
    assert call("fit", "t.csv", "-o", "m/", *named)[0] == 0
    assert call("rank", "m/", "t.csv", *named)[0] == 0 and call("info", "t.csv", *named)[0] == 0
    status, out, _ = call("tune", "t.csv", "-o", "n/", "--folds", "2", "--json", *named)
    assert status == 0 and json.loads(out)["folds"] == 2
    status, _, err = call("fit", "data.txt", "-o", "l/", "--label", "grade")
    assert status == 1 and one_line(err) and "--label" in err
    Path("bare.csv").write_text(f"{rows}\n")
    status, _, err = call("info", "bare.csv")
    assert (
        status == 1
        and one_line(err)
        and "has numbers, expected the names of the columns" in err
        and "label,qid,f1" in err
    )


def test_a_table_scored_by_a_model_of_the_same_text_does_not_warn(call):
    call("fit", "data.txt", "-o", "m/")
    call("convert", "data.txt", "data.csv")
    from_text, from_table = call("rank", "m/", "data.txt"), call("rank", "m/", "data.csv")
    assert from_text[1] == from_table[1] and from_table[2] == ""
    call("fit", "data.csv", "-o", "n/")
    assert call("rank", "n/", "data.txt")[2] == ""


def test_explanations_as_table_json_and_page(call):
    call("fit", "data.txt", "-o", "m/")
    status, out, _ = call("explain", "m/", "data.txt", "--query", "q1", "--page", "e.html")
    assert status == 0 and "exact: the score is a sum over features" in out and "score" in out
    assert "<rect" in Path("e.html").read_text()
    status, out, _ = call("explain", "m/", "data.txt", "--query", "q1", "--json")
    documents = [row["document"] for row in json.loads(out)["rows"]]
    status, out, _ = call("explain", "m/", "data.txt", "--query", "q1", "--pair", documents[0], documents[1], "--json")
    of_ids = json.loads(call("explain", "m/", "data.txt", "--query", "q1", "--pair", "d1", "d2", "--json")[1])["pair"]
    of_rows = json.loads(call("explain", "m/", "data.txt", "--query", "q1", "--pair", "1", "2", "--json")[1])["pair"]
    assert of_rows == of_ids
    Path("bare.txt").write_text("\n".join(line.partition("#")[0] for line in ROWS.splitlines()) + "\n")
    of_bare = json.loads(call("explain", "m/", "bare.txt", "--query", "q1", "--pair", "1", "2", "--json")[1])["pair"]
    assert of_bare["contributions"] == of_ids["contributions"] and (of_bare["first"], of_bare["second"]) == ("1", "2")
    pair = json.loads(out)["pair"]
    assert status == 0 and pair["difference"] >= 0
    assert sum(pair["contributions"].values()) == pytest.approx(pair["difference"], abs=1e-6)
    status, _, err = call("explain", "m/", "data.txt", "--query", "nowhere")
    assert status == 1 and one_line(err) and "no query 'nowhere'" in err


def test_warnings_of_scipy_are_not_shown(call, capsys):
    import warnings

    from hingerank.cli.app import _show_warning

    _show_warning(UserWarning("x"), UserWarning, "/site-packages/scipy/stats/a.py", 1)
    assert capsys.readouterr().err == ""
    _show_warning(warnings.WarningMessage("y", UserWarning, "a.py", 1).message, UserWarning, "/hingerank/a.py", 1)
    assert "warning: y" in capsys.readouterr().err
