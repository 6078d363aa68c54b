"""Explanations add up to scores, exactly where they say so, and name what a truth that is known is made of."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import SplineTransformer

import hingerank as hr
from hingerank.lab.report.plain import explained_page
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

GRADED = [n for n in RANKERS if issubclass(ranker_class(n), BaseRanker)]
QUICK = {"lightgbm": {"n_estimators": 10, "min_child_samples": 2}, "xgboost": {"n_estimators": 10}}
BY_GRADIENT = {"kernel-rank-svm", "nystroem-rank-svm", "fourier-rank-svm", "ranking-fm"}


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(n_queries=12, rows_per_query=(5, 12), n_features=5, seed=2, dtype="float64")
    return hr.RankingData(made.X + 0.1, made.y, made.qid)


def make(name):
    cls = ranker_class(name)
    if hasattr(cls, "requires"):
        pytest.importorskip(cls.requires)
    return cls(**QUICK.get(name, {}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GRADED)
def test_contributions_add_up(name, data):
    ranker = make(name).fit(data)
    found = ranker.explain(data)
    spread = np.ptp(found.scores)
    np.testing.assert_allclose(found.scores, ranker.predict(data), rtol=1e-6, atol=1e-6 * spread)
    assert found.exact == (name not in BY_GRADIENT) and ("gradient" in found.how) == (not found.exact)
    assert np.abs(found.rest).max() <= (1e-5 if found.exact else 0.02) * spread
    assert found.contributions.shape == data.X.shape


def test_a_linear_score_is_weights_times_scaled_features(data):
    ranker = hr.RankSVM(scale="query-standard").fit(data)
    found = ranker.explain(data)
    scaled = ranker.scaler_.transform(data.X, data.qid)
    np.testing.assert_allclose(found.contributions, scaled * ranker.coef_)
    np.testing.assert_array_equal(found.values, data.X)


def test_sums_of_functions_of_single_features_are_exact_through_a_map(data):
    found = hr.RankSVM(features=SplineTransformer(4)).fit(data).explain(data)
    assert np.abs(found.rest).max() < 1e-5 * np.ptp(found.scores)


def test_trees_agree_with_the_paths_of_a_single_stump():
    pytest.importorskip("lightgbm")
    X, y = np.tile([[0.0, 5.0], [1.0, 5.0]], (20, 1)), np.tile([0, 1], 20)
    ranker = hr.LightGBMRanker(n_estimators=1, min_child_samples=1).fit(X, y, np.repeat([0, 1], 20))
    found = ranker.explain(X[:2])
    assert found.contributions[:, 1].tolist() == [0, 0]
    assert found.contributions[1, 0] == pytest.approx(found.scores[1] - found.base[1])
    assert found.base[0] == pytest.approx(np.mean(found.scores))


def test_the_feature_that_decides_is_the_strongest_for_a_kernel():
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    y, qid = (X[:, 1] > 0.5).astype(float), np.repeat(np.arange(10), 20)
    found = hr.NystroemRankSVM(60, C=10.0).fit(X, y, qid).explain(X, qid)
    strongest = np.abs(found.contributions).mean(axis=0)
    assert strongest.argmax() == 1 and strongest[1] > 3 * np.delete(strongest, 1).max()


def test_why_one_document_stands_above_another(data):
    frame = data.to_frame("pandas")[list(data.names)]
    ranker = hr.RankSVM().fit(frame.rename(columns={"f1": "bm25"}), data.y, data.qid)
    rows = hr.RankingData(
        data.X, data.y, data.qid, np.array([f"D{i}" for i in range(data.n_rows)]), ["bm25", *data.names[1:]]
    )
    found = ranker.explain(rows).query(data.qid[0])
    assert (np.diff(found.scores) <= 0).all() and found.names[0] == "bm25"
    first, second = found.documents[:2]
    columns, table = found.pair(first, second, top=None)
    assert columns == ["feature", f"of {first}", f"of {second}", f"for {first}"]
    assert sum(row[-1] for row in table[:-1]) == pytest.approx(found.scores[0] - found.scores[1], abs=1e-6)
    sizes = [abs(row[-1]) for row in table[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    _, shown = found.table(0, top=2)
    assert [row[0] for row in shown][2:] == ["3 others", "score"]
    assert [row[0] for row in found.table(0, top=4)[1]][4:] == ["1 other", "score"]
    assert sum(row[-1] for row in shown[:-1]) == pytest.approx(shown[-1][-1], abs=1e-5)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["rows"][0]["document"] == first and plain["exact"] is True
    assert sum(plain["rows"][0]["contributions"].values()) == pytest.approx(found.scores[0], abs=1e-5)
    for call, message in [(lambda: found.find("D99999"), "no documents"), (lambda: found.query("x"), "no query 'x'")]:
        with pytest.raises(hr.DataError, match=message):
            call()


def test_sparse_rows_and_one_query(data):
    ranker = hr.RankSVM().fit(data)
    dense, csr = ranker.explain(data.X[:4]), ranker.explain(sp.csr_matrix(data.X[:4]))
    np.testing.assert_allclose(dense.contributions, csr.contributions)
    assert dense.documents.tolist() == [1, 2, 3, 4] and len(set(dense.qid.tolist())) == 1


def test_the_page_escapes_what_the_data_say(data):
    rows = hr.RankingData(data.X, data.y, data.qid, np.array(["<script>alert(1)</script>"] * data.n_rows), None)
    page = explained_page(hr.RankSVM().fit(data).explain(rows).query(data.qid[0]), "<b>")
    assert (
        "<script" not in page and "&lt;script&gt;" in page and "<rect" in page and "http" not in page.split("meta")[0]
    )
