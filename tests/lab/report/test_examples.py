"""Examples show the queries that differ most, with the places their documents have in the full rankings."""

import numpy as np
import pytest

from hingerank import RankSVM
from hingerank.data.ranking_data import RankingData
from hingerank.lab import Method, compare, load_results, query_folds
from hingerank.lab.report.examples import collect_examples, read_examples, write_examples


@pytest.fixture
def run(data, rankers, tmp_path):
    methods = [Method("good", rankers.Column), Method("bad", rankers.Column, fixed={"column": 2})]
    folds = query_folds(data, 4)
    return compare(methods, folds, workers=1, measures=["map"], folder=tmp_path), folds


def test_the_most_different_queries_come_first(run, data):
    results, folds = run
    examples = collect_examples(results, folds, queries=6)
    good, bad = (results.per_query(m, "ndcg@10") for m in ("good", "bad"))
    gaps = sorted((abs(good[key] - bad[key]) for key in good), reverse=True)
    shown = [abs(good[e["query"]] - bad[e["query"]]) for e in examples["queries"]]
    assert shown == pytest.approx(gaps[:6])


def test_documents_scores_and_places(run, data):
    results, folds = run
    examples = collect_examples(results, folds, queries=5, top=2)
    for example in examples["queries"]:
        rows = np.flatnonzero(data.qid == example["query"])
        by_id = dict(zip(data.docid[rows], rows))
        for method, column in (("good", 0), ("bad", 2)):
            ranking = rows[np.argsort(-data.X[rows, column], kind="stable")]
            for doc, place, score in zip(example["docs"], example["places"][method], example["scores"][method]):
                assert ranking[place - 1] == by_id[doc]
                assert score == pytest.approx(data.X[by_id[doc], column], rel=1e-3)
            assert set(data.docid[ranking[:2]]) <= set(example["docs"])
        assert example["rows"] == 8
        assert list(example["grades"]) == [data.y[by_id[doc]] for doc in example["docs"]]


def test_features_are_the_heaviest(run, data):
    results, folds = run
    examples = collect_examples(results, folds, most_features=2)
    assert sorted(examples["features"]) == ["feature 0", "feature 2"]
    place = examples["features"].index("feature 2")
    first = examples["queries"][0]
    row = list(data.docid).index(first["docs"][0])
    assert first["values"][0][place] == pytest.approx(data.X[row, 2], rel=1e-3)


def test_kept_in_the_folder_and_cut_to_size(run):
    results, folds = run
    kept = read_examples(load_results(results.folder).folder)
    assert len(kept["queries"]) == 20
    (results.folder / "examples.json").unlink()
    assert read_examples(results.folder) == {"features": [], "queries": []}
    write_examples(results, folds)
    assert read_examples(results.folder) == kept
    assert len(collect_examples(results, folds, most_bytes=3000)["queries"]) < 20


def test_scattered_sparse_rows_without_ids(data, rankers, tmp_path):
    import scipy.sparse as sp

    order = np.random.default_rng(1).permutation(data.n_rows)
    mixed = RankingData(sp.csr_matrix(data.X[order]), data.y[order], data.qid[order])

    class First(rankers.Column):
        def predict(self, X):
            return np.asarray(X[:, [0]].todense()).ravel()

    folds = query_folds(mixed, 3)
    results = compare([Method("a", First)], folds, workers=1, measures=["map"], folder=tmp_path)
    examples = collect_examples(results, folds, queries=2)
    assert len(examples["queries"]) == 2 and len(examples["features"]) == 4


def test_the_heaviest_features_where_a_ranker_adds_ranks_within_queries(tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((120, 2)) * [1.0, 30.0], np.repeat(np.arange(12), 10)
    data = RankingData.from_arrays(X, (X[:, 0] > 0).astype(float), qid, feature_names=["telling", "wide"])
    folds = query_folds(data, 3)
    methods = [Method("ranks", RankSVM, fixed={"C": 1.0, "context": "rank"})]
    results = compare(methods, folds, workers=1, folder=tmp_path)
    ranks = ["telling, rank in its query", "wide, rank in its query"]
    assert list(results.weights("ranks", "fold 1")) == ["telling", "wide", *ranks]
    assert collect_examples(results, folds, most_features=1)["features"] == ["telling"]


@pytest.mark.parametrize("scale", ["standard", "query-standard", "minmax"])
def test_the_heaviest_features_of_a_ranker_that_scales(tmp_path, scale):
    """Its weights are of scaled features: a column of large numbers is no heavier for that."""
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((400, 2)) * [1.0, 3000.0], np.repeat(np.arange(40), 10)
    y = (X[:, 0] + 1e-4 * X[:, 1] > 0).astype(float)
    data = RankingData.from_arrays(X, y, qid, feature_names=["telling", "wide"])
    folds = query_folds(data, 3)
    results = compare([Method("scaled", RankSVM, fixed={"C": 1.0, "scale": scale})], folds, workers=1, folder=tmp_path)
    assert collect_examples(results, folds, most_features=1)["features"] == ["telling"]
