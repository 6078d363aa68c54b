"""`rerank` and `evaluate --diversity` over TREC files: as functions, and as typed on the command line."""

import json

import numpy as np
import pytest

from hingerank.cli import main
from hingerank.cli.diversity_commands import rerank
from hingerank.cli.evaluate_command import evaluate
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.trec import read_run, write_run
from hingerank.lab.run_folder import read_header


@pytest.fixture
def files(tmp_path):
    """A run, LETOR features, judgments and aspects of eight generated topics."""
    data = make_diverse(8, 25, seed=3)
    write_run(tmp_path / "run.txt", {q.qid: dict(zip(q.docids, q.relevance)) for q in data})
    with open(tmp_path / "features.txt", "w") as file:
        for q in data:
            for docid, x in zip(q.docids, q.X):
                values = " ".join(f"{j + 1}:{value:.6f}" for j, value in enumerate(x))
                file.write(f"0 qid:{q.qid} {values} # docid = {docid}\n")
    with open(tmp_path / "qrels.txt", "w") as qrels, open(tmp_path / "aspects.txt", "w") as aspects:
        for q in data:
            for i, docid in enumerate(q.docids):
                for j, grade in enumerate(q.judgments[i]):
                    qrels.write(f"{q.qid} {j + 1} {docid} {int(grade)}\n")
                for a, probability in enumerate(q.aspects[i]):
                    aspects.write(f"{q.qid} s{a} {docid} {probability:.4f}\n")
    return tmp_path


def test_classics_over_files(files):
    rerank(
        files / "run.txt", output=files / "mmr.txt", method="mmr", features=files / "features.txt", settings=["lam=0.3"]
    )
    rerank(
        files / "run.txt", output=files / "xquad.txt", method="xquad", aspects=files / "aspects.txt", top=5, tag="mine"
    )
    before, mmr, xquad = (read_run(files / name) for name in ("run.txt", "mmr.txt", "xquad.txt"))
    assert list(mmr) == list(before)
    assert all(len(ranked) == 20 for ranked in mmr.values())
    assert mmr["1"].docids[0] == before["1"].docids[0]
    assert mmr["1"].docids != before["1"].docids[:20]
    assert all(len(ranked) == 5 for ranked in xquad.values())
    assert (files / "xquad.txt").read_text().splitlines()[0].endswith(" mine")


@pytest.mark.filterwarnings("ignore:the model learned from")
def test_learned_model_over_files(files, capsys):
    features = files / "features.txt"
    rerank(
        files / "run.txt",
        method="pamm",
        features=features,
        qrels=files / "qrels.txt",
        save=str(files / "model.safetensors"),
        settings=["max_iter=3"],
    )
    assert "pamm" in capsys.readouterr().out
    rerank(
        files / "run.txt",
        output=files / "out.txt",
        model=files / "model.safetensors",
        features=features,
        depth=10,
        top=10,
    )
    before, after = read_run(files / "run.txt"), read_run(files / "out.txt")
    for topic, ranked in after.items():
        assert sorted(ranked.docids) == sorted(before[topic].docids[:10])


@pytest.mark.filterwarnings("ignore:the model learned from")
def test_features_are_counted_as_in_the_training_text(files):
    """Where the first feature is 0 throughout, leaving it out changes nothing, also in text that counts from 0."""
    lines = [line.split() for line in (files / "features.txt").read_text().splitlines()]
    entries = [[f"{int(word.partition(':')[0]) - 1}:{word.partition(':')[2]}" for word in w[2:-4]] for w in lines]
    for name, first in (("train", None), ("with", ["0:0"]), ("without", [])):
        texts = [[*w[:2], *(e[:1] if first is None else first), *e[1:], *w[-4:]] for w, e in zip(lines, entries)]
        (files / f"{name}.txt").write_text("\n".join(map(" ".join, texts)) + "\n")
    learn = {"method": "r-ltr", "qrels": files / "qrels.txt"}
    rerank(files / "run.txt", features=files / "train.txt", save=str(files / "model"), **learn)
    for name in ("with", "without"):
        rerank(files / "run.txt", output=files / f"{name}.run", model=files / "model", features=files / f"{name}.txt")
    assert (files / "with.run").read_text() == (files / "without.run").read_text()


def test_evaluation_prints_means_and_topics(files, capsys):
    evaluate(files / "qrels.txt", files / "run.txt", diversity=True)
    text = capsys.readouterr().out
    assert "8 topics of run.txt" in text
    assert "alpha-ndcg@20" in text
    measures = {"measure": ["err-ia@5", "strec@5"]}
    evaluate(files / "qrels.txt", files / "run.txt", diversity=True, **measures, per_query=True, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["topics"] == 8
    assert found["means"]["err-ia@5"] == pytest.approx(np.mean(list(found["per_query"]["err-ia@5"].values())))


@pytest.mark.parametrize(
    "how, problem",
    [
        ({"method": "rank-svm"}, "rank-svm does not diversify"),
        ({"method": "mmr", "settings": ["alpha=1"]}, "mmr has no parameter 'alpha'; it has lam, relation"),
        ({"model": "model", "settings": ["lam=0.9"]}, "--method and --set change no saved model"),
        ({"method": "mmr"}, "no relations, which MMR needs"),
        ({"method": "xquad", "aspects": "nowhere.txt"}, "nowhere.txt"),
        ({"save": "model"}, "--fit and --save go together"),
        ({"output": None}, "nothing to do"),
    ],
)
def test_mistakes(files, how, problem):
    given = {"output": files / "out.txt", **how}
    with pytest.raises((ValueError, OSError), match=problem):
        rerank(files / "run.txt", **given)
    assert not (files / "out.txt").exists()


@pytest.fixture
def call(files, capsys, monkeypatch):
    """call("hingerank's arguments") -> (status, stdout, stderr), run in the folder of the files."""
    monkeypatch.chdir(files)

    def run(line):
        capsys.readouterr()
        status = main(line.split())
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


def test_typed_from_run_to_measures(call, files):
    """A model learned, saved and used, and the classics: every run that comes out can be measured."""
    learn = "rerank run.txt --method pamm --features features.txt --fit qrels.txt --save model --set max_iter=3"
    assert call(learn)[0] == 0
    for name, how in {
        "pamm": "--model model --features features.txt",
        "mmr": "--method mmr --features features.txt",
        "xquad": "--method xquad --aspects aspects.txt",
        "pm2": "--method pm2 --features features.txt --clusters 4",
    }.items():
        status, _, err = call(f"rerank run.txt {how} --top 10 -o {name}.txt")
        assert status == 0, err
        status, out, _ = call(f"evaluate --diversity qrels.txt {name}.txt --measure alpha-ndcg@10 --json")
        assert status == 0
        assert 0 < json.loads(out)["means"]["alpha-ndcg@10"] <= 1
        lines = [line.split() for line in (files / f"{name}.txt").read_text().splitlines()]
        assert [int(line[3]) for line in lines[:10]] == list(range(1, 11))
        assert all(len(line) == 6 and line[1] == "Q0" for line in lines)


def test_evaluation_says_which_topics_are_left_out(call, files):
    for name in ("run.txt", "qrels.txt"):
        lines = (files / name).read_text().splitlines(keepends=True)
        gone = "1 " if name == "run.txt" else "2 "
        (files / f"part-{name}").write_text("".join(line for line in lines if not line.startswith(gone)))
    _, out, _ = call("evaluate --diversity part-qrels.txt part-run.txt")
    assert "6 topics of part-run.txt with judgments; 1 without are left out; 1 judged topics are not in the run" in out
    _, out, _ = call("evaluate --diversity part-qrels.txt part-run.txt --json")
    assert json.loads(out)["topics_only_in"] == {"run": 1, "judgments": 1}


@pytest.mark.parametrize(
    "line, problem",
    [
        ("rerank run.txt --method r-ltr --features features.txt -o out.txt", "r-ltr learns from judgments"),
        ("rerank twice.txt --method mmr --features features.txt -o out.txt", "line 201: document q1-d2 was already on"),
        ("rerank run.txt --method mmr --features short.txt -o out.txt", "topic 8 of the run has no features"),
        ("rerank run.txt --method mmr --features nan.txt --missing nan -o out.txt", "feature 1 of document q1-d2"),
        (
            "rerank run.txt --method xquad --clusters 3 -o out.txt",
            "--clusters makes aspects from features: give --features",
        ),
        (
            "rerank run.txt --method xquad --aspects aspects.txt -o run.txt/out.txt",
            "run.txt is a file, not a folder",
        ),
        ("rerank run.txt --method pamm --features features.txt --fit short.txt --save m", "expected 4: topic subtopic"),
        ("evaluate --diversity qrels.txt twice.txt", "document q1-d2 was already on line 1"),
        ("evaluate --diversity qrels.txt run.txt --measure ndcg@10", "'ndcg@10' is no diversity measure"),
        ("evaluate qrels.txt run.txt", "already has grade 0; pass --diversity for judgments of subtopics"),
        (
            "evaluate --diversity qrels.txt run.txt --preset letor3",
            "--preset is for graded rows, not for a TREC run judged by subtopics",
        ),
    ],
)
def test_typed_mistakes_are_one_line(call, files, line, problem):
    run, features = (files / "run.txt").read_text(), (files / "features.txt").read_text()
    (files / "twice.txt").write_text(run + run.splitlines()[0] + "\n")
    (files / "short.txt").write_text("".join(row for row in features.splitlines(keepends=True) if "qid:8" not in row))
    (files / "nan.txt").write_text(features.replace(" 1:", " 1:nan 1000:").replace("1000:", "11:"))
    status, out, err = call(line)
    assert status == 1
    assert problem in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (files / "out.txt").exists()


def test_documents_without_features_are_counted_and_stay(call, files):
    lines = (files / "features.txt").read_text().splitlines(keepends=True)
    (files / "some.txt").write_text("".join(lines[3:]))  # the first three are of topic 1
    status, _, err = call("rerank run.txt --method mmr --features some.txt -o out.txt")
    assert status == 1 and "3 of 25 documents of topic 1 have no features" in err and "--incomplete keep" in err
    status, _, err = call("rerank run.txt --method mmr --features some.txt --incomplete keep --top 25 -o out.txt")
    assert status == 0 and "3 documents without features: kept at the end of their topic's ranking" in err
    before, after = read_run(files / "run.txt"), read_run(files / "out.txt")
    lost = [docid for docid in before["1"].docids if docid in ("q1-d0", "q1-d1", "q1-d2")]
    assert after["1"].docids[-3:] == lost and len(after["1"]) == 25
    status, _, err = call("rerank run.txt --method mmr --features some.txt --incomplete skip --top 25 -o less.txt")
    assert status == 0 and "3 documents without features: left out" in err
    assert len(read_run(files / "less.txt")["1"]) == 22


def test_reranking_the_topics_of_training_says_so(call, files):
    learn = "rerank run.txt --method r-ltr --features features.txt --fit qrels.txt --save model"
    assert "learned from" not in call(learn)[2]
    says = "the model learned from 8 of these 8 topics: measures of this run are on training topics, not on test"
    assert "pass --force to replace it" in call(f"{learn} -o out.txt")[2]
    assert says in call(f"{learn} --force -o out.txt")[2]
    assert says in call("rerank run.txt --model model --features features.txt -o other.txt")[2]
    assert "; give --features" in call("rerank run.txt --model model -o bare.txt")[2]
    others = [f"new{line}" for line in (files / "run.txt").read_text().splitlines(keepends=True)]
    (files / "others.txt").write_text("".join(others))
    rows = (files / "features.txt").read_text().replace("qid:", "qid:new")
    (files / "new.txt").write_text(rows)
    assert "learned from" not in call("rerank others.txt --model model --features new.txt -o last.txt")[2]


def test_topics_are_compared(call, files):
    """A run with features and aspects: PAMM learns for the choosing measure, and both measures are shown."""
    line = (
        "compare run.txt --qrels qrels.txt --features features.txt --aspects aspects.txt --folds 3 --workers 1 -o out"
    )
    more = (
        " --methods mmr,xquad,rltr,pamm --set rltr.top=5 --set rltr.C=1 --set pamm.top=5 --set pamm.learning_rate=0.1"
    )
    status, out, err = call(f"{line}{more} --measure err-ia@20")
    assert status == 0, err
    assert out.index("err-ia@20") < out.index("alpha-ndcg@20") and out.count("pamm") == 2
    header = read_header(files / "out")
    assert header["methods"]["pamm"]["fixed"]["measure"] == header["measure"] == "err-ia@20"
    assert "--qrels qrels.txt" in header["about"]["command"]
    assert r"\textbf" in (files / "out" / "leaderboard.tex").read_text()
    status, out, err = call(f"{line}{more} --measure err-ia@20 --json")  # goes on, with nothing left to do
    assert status == 0 and {entry["method"] for entry in json.loads(out)} == {"mmr", "xquad", "rltr", "pamm"}
    assert call("report out")[0] == 0


def test_judged_documents_without_a_run_get_a_first_stage(call, files):
    (files / "rows.txt").write_text((files / "features.txt").read_text())
    line = "compare rows.txt --qrels qrels.txt --clusters 3 --methods mmr,xquad --folds 3 --workers 1"
    status, out, err = call(f"{line} -o out")
    assert status == 0 and "xquad" in out, err
    status, _, err = call(f"{line} --first none -o other")
    assert status == 1 and "has no relevance, which mmr needs; give a run, or --first listmle" in err


@pytest.mark.parametrize(
    "line, problem",
    [
        (
            "compare features.txt --methods mmr -o out",
            "mmr reorders documents of topics: name judgments with --qrels",
        ),
        ("compare run.txt --qrels qrels.txt --methods mmr -o out", "no relations, which mmr needs; give --features"),
        ("compare run.txt --qrels qrels.txt -o out", "leaves nothing to compare: give --features or --aspects"),
        (
            "compare features.txt --aspects aspects.txt -o out",
            "--aspects is for topics to diversify, not for graded rows: name their subtopic",
        ),
        ("compare features.txt --qrels qrels.txt --features features.txt -o out", "is not a TREC run"),
        (
            "compare features.txt --qrels qrels.txt --first mmr -o out",
            "a first stage scores rows; use a ranker such as",
        ),
        ("compare features.txt --qrels qrels.txt --methods joint -o out", "joint is for ratings, not for topics"),
    ],
)
def test_mistakes_in_comparing_topics(call, files, line, problem):
    status, _, err = call(line)
    assert status == 1 and problem in err
    assert not (files / "out").exists()
