"""`rerank` and `evaluate --diversity` as functions over files."""

import json

import numpy as np
import pytest

from hingerank.cli.diversity_commands import evaluate_run, rerank
from hingerank.data.diverse_generator import make_diverse
from hingerank.data.trec import read_run, write_run


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
    rerank(files / "run.txt", files / "mmr.txt", method="mmr", features=files / "features.txt", settings=["lam=0.3"])
    rerank(files / "run.txt", files / "xquad.txt", method="xquad", aspects=files / "aspects.txt", top=5, tag="mine")
    before, mmr, xquad = (read_run(files / name) for name in ("run.txt", "mmr.txt", "xquad.txt"))
    assert list(mmr) == list(before)
    assert all(len(ranked) == 20 for ranked in mmr.values())
    assert mmr["1"].docids[0] == before["1"].docids[0]
    assert mmr["1"].docids != before["1"].docids[:20]
    assert all(len(ranked) == 5 for ranked in xquad.values())
    assert (files / "xquad.txt").read_text().splitlines()[0].endswith(" mine")


def test_learned_model_over_files(files, capsys):
    features = files / "features.txt"
    rerank(
        files / "run.txt",
        method="pamm",
        features=features,
        qrels=files / "qrels.txt",
        save=str(files / "model.safetensors"),
        settings=["epochs=3"],
    )
    assert "pamm" in capsys.readouterr().out
    rerank(files / "run.txt", files / "out.txt", model=files / "model.safetensors", features=features, depth=10, top=10)
    before, after = read_run(files / "run.txt"), read_run(files / "out.txt")
    for topic, ranked in after.items():
        assert sorted(ranked.docids) == sorted(before[topic].docids[:10])


def test_evaluation_prints_means_and_topics(files, capsys):
    evaluate_run(files / "qrels.txt", files / "run.txt", None, per_query=False, json=False)
    text = capsys.readouterr().out
    assert "8 topics of run.txt" in text
    assert "alpha-ndcg@20" in text
    evaluate_run(files / "qrels.txt", files / "run.txt", ["err-ia@5", "strec@5"], per_query=True, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["topics"] == 8
    assert found["means"]["err-ia@5"] == pytest.approx(np.mean(list(found["per_query"]["err-ia@5"].values())))


@pytest.mark.parametrize(
    "how, problem",
    [
        ({"method": "rank-svm"}, "rank-svm does not diversify"),
        ({"method": "mmr", "settings": ["alpha=1"]}, "mmr has no parameter 'alpha'; it has lam, relation"),
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
