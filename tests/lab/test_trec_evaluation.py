"""Runs against judgments measure as trec_eval does."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.lab.trec_evaluation import evaluate_run, is_qrels, is_run, read_qrels


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    judged, ranked = [], []
    for topic in range(1, 9):
        documents = [f"D{i}" for i in range(30)]
        for document in documents[:20]:
            judged.append(f"{topic} 0 {document} {rng.integers(0, 4) * rng.integers(0, 2)}")
        for rank, document in enumerate(rng.permutation(documents)[: 5 + topic], 1):  # some runs are shorter than 10
            ranked.append(f"{topic} Q0 {document} {rank} {rng.integers(0, 50)} tag")
    (tmp_path / "qrels.txt").write_text("\n".join([*judged, "99 0 D1 1"]) + "\n")
    (tmp_path / "run.txt").write_text("\n".join([*ranked, "77 Q0 D1 1 1.0 tag"]) + "\n")
    return tmp_path / "qrels.txt", tmp_path / "run.txt"


def test_values_equal_trec_eval(files):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels, run = files
    judged = read_qrels(qrels)
    names = ["ndcg@10:trec", "map:trec", "p@5:trec", "recall@10:trec", "mrr:trec", "ndcg:trec"]
    topics, values = evaluate_run(judged, run, names)
    assert topics == [str(t) for t in range(1, 9)]
    plain = {t: {d: int(g) for d, g in docs.items()} for t, docs in judged.items()}
    lines = [line.split() for line in run.read_text().splitlines()]
    theirs = {}
    for topic, _, document, _, score, _ in lines:
        theirs.setdefault(topic, {})[document] = float(score)
    measures = {"ndcg_cut.10", "map", "P.5", "recall.10", "recip_rank", "ndcg"}
    found = pytrec_eval.RelevanceEvaluator(plain, measures).evaluate(theirs)
    for name, key in zip(names, ["ndcg_cut_10", "map", "P_5", "recall_10", "recip_rank", "ndcg"]):
        np.testing.assert_allclose(values[name], [found[t][key] for t in topics], atol=1e-6, err_msg=name)


def test_files_are_told_apart(files, tmp_path):
    qrels, run = files
    rows = tmp_path / "rows.txt"
    rows.write_text("1 qid:1 1:0.5 2:3\n0 qid:1 1:0.5 2:3\n")
    assert is_qrels(qrels) and not is_run(qrels) and is_run(run) and not is_qrels(run)
    assert not is_qrels(rows) and not is_qrels(tmp_path)


def test_on_the_command_line(files, capsys, tmp_path, monkeypatch):
    qrels, run = files
    assert main(["evaluate", str(qrels), str(run), "--measure", "ndcg@10", "--preset", "trec"]) == 0
    assert "8 of 9 judged topics are in run.txt" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    data = hr.make_letor(n_queries=5, rows_per_query=(4, 9), n_features=3, seed=1, dtype="float64")
    names = [f"D{i}" for i in range(data.n_rows)]
    rows = hr.RankingData.from_arrays(data.X, data.y, data.qid, docid=names)
    hr.write(rows, "rows.txt")
    assert main(["fit", "rows.txt", "-o", "model/"]) == 0
    assert main(["rank", "model/", "rows.txt", "-o", "scores.txt"]) == 0
    assert main(["rank", "model/", "rows.txt", "--trec-run", "-o", "own.txt"]) == 0
    capsys.readouterr()
    assert (
        main(["evaluate", "rows.txt", "scores.txt", "--json"])
        == main(["evaluate", "rows.txt", "own.txt", "--json"])
        == 0
    )
    plain, run_means = (eval(line, {"null": None})["means"] for line in capsys.readouterr().out.splitlines())
    assert plain == pytest.approx(run_means)


def test_bad_lines_are_named(tmp_path):
    bad = tmp_path / "qrels.txt"
    bad.write_text("1 0 D1 one\n")
    with pytest.raises(hr.DataError, match="line 1: the grade 'one' is no number"):
        read_qrels(bad)
    bad.write_text("1 0 D1 1\n1 0 D1 2\n")
    with pytest.raises(hr.DataError, match="line 2: document D1 already has grade 1"):
        read_qrels(bad)
