"""Missing values in exports of trees, which send them down a branch of their own."""

import json

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.formats import FORMATS
from hingerank.export.forms import Trees

WITH_TREES = [to for to, form in FORMATS.items() if "trees" in form.carries]
ZERO, OWN = "A missing feature counts as the number 0.", "A missing value is not a zero: it takes a branch of its own."


def gappy(seed, n_queries=25, rows=8):
    """A feature tells by its value, another by being missing alone, a third by both; query 0 lacks the last one."""
    rng = np.random.default_rng(seed)
    X, qid = rng.random((n_queries * rows, 3)), np.repeat(np.arange(n_queries), rows)
    X[:, 1] = np.floor(3 * X[:, 1])
    X[rng.random(X.shape) < 0.3] = np.nan
    X[qid == 0, 2] = np.nan
    y = np.isnan(X[:, 1]) + (np.nan_to_num(X[:, 0], nan=0.4) > 0.5) + np.isnan(X[:, 2])
    return hr.RankingData(X, y.astype(float), qid)


def trees(scale):
    return hr.LightGBMRanker(n_estimators=15, num_leaves=5, min_child_samples=2, scale=scale).fit(gappy(0))


@pytest.mark.parametrize("to", WITH_TREES)
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_split_of_missing_values_from_all_others(tmp_path, scale, to):
    """LightGBM writes it as a threshold of infinity."""
    ranker = trees(scale)
    body = ranker._form().body
    assert isinstance(body, Trees) and body.number[body.feature >= 0].max() == np.finfo(float).max
    done = ranker.export(tmp_path / "out/", to)
    assert OWN in "".join(done.notes)
    options = {"shift": "auto"} if "shift" in FORMATS[to].options else {}
    found = ranker.export(tmp_path / "out/", to, check=gappy(1), **options).check
    assert found["relative_to_largest_score"] < (1e-5 if options else 1e-12)


@pytest.mark.parametrize("to", WITH_TREES)
def test_trees_of_one_leaf_score_rows_with_missing_values(tmp_path, to):
    ranker = hr.LightGBMRanker(n_estimators=2, min_child_samples=10**6).fit(gappy(0))
    assert not (ranker._form().body.feature >= 0).any()
    found = ranker.export(tmp_path / "out/", to, check=gappy(1)).check
    assert found["rows"] == 200 and found["largest_difference"] == 0


@pytest.mark.parametrize("scale", ["query-minmax", "query-standard"])
def test_missing_values_are_skipped_and_kept_when_scaled_within_queries(tmp_path, scale):
    ranker, data = trees(scale), gappy(1)
    expected = ranker.predict(data.X, data.qid)
    np.testing.assert_allclose(ranker.scorer()(data.X, data.qid), expected, rtol=1e-12)
    for to in ("sql", "onnx"):
        assert ranker.export(tmp_path / "m", to, check=data).check["relative_to_largest_score"] < 1e-12


def test_made_up_rows_have_missing_values_only_for_rankers_that_handle_them(tmp_path):
    data = hr.make_letor(n_queries=12, n_features=3, seed=0)
    made = {"trees": trees(None), "steps": hr.RankBoost(max_iter=9).fit(data), "solr": trees(None)}
    for name, ranker in made.items():
        options = {"missing": False} if name == "solr" else {}
        done = ranker.export(tmp_path / name, "solr", **options)
        rows = json.loads(done.files[-1].read_text("utf-8"))["rows"]
        assert any(None in row for row in rows) == (name == "trees")


def test_notes_on_trees_that_take_missing_values_for_zeros(tmp_path):
    data = hr.make_letor(n_queries=12, n_features=3, seed=0)
    plain = hr.LightGBMRanker(n_estimators=5, num_leaves=4, min_child_samples=3)
    zeros = hr.LightGBMRanker(n_estimators=5, num_leaves=4, min_child_samples=3, params={"zero_as_missing": True})
    for ranker in (hr.RankBoost(max_iter=9), plain, zeros):
        assert ZERO in ranker.fit(data).export(tmp_path / "m", "python").notes
    within = hr.RankBoost(max_iter=9, scale="query-minmax").fit(data)
    assert ZERO not in within.export(tmp_path / "m", "onnx").notes
