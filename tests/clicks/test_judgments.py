"""Judgments from click models: grades, rows for measures, TREC's lines, OpenSearch's import."""

import json

import numpy as np
import pytest

import hingerank as hr


@pytest.fixture
def model(place_log):
    log = place_log([1, 0.5, 0.2], [0.8, 0.6, 0.4, 0.05], 3000)
    log.query_names = np.array(["red shoes"], object)
    return hr.click_model(log, "pbm")


def test_grades_follow_what_made_the_clicks(model):
    found = hr.judgments(model)
    assert dict(zip(found.document.tolist(), found.grade.tolist())) == {0: 4, 1: 3, 2: 2, 3: 0}
    assert found.showings.sum() == 9000 and "grades 0: 1, 2: 1" in repr(found)
    assert sorted(hr.judgments(model, n_grades=2).grade.tolist()) in ([0, 0, 1, 1], [0, 1, 1, 1])
    assert len(hr.judgments(model, least_showings=2240)) < 4
    with pytest.raises(hr.DataError, match="no document was shown 10000 times"):
        hr.judgments(model, least_showings=1e4)
    with pytest.raises(ValueError, match="n_grades must be"):
        hr.judgments(model, n_grades=1)


def test_rows_for_measures(model):
    data = hr.RankingData.from_arrays(np.zeros((5, 1)), np.zeros(5), ["red shoes"] * 5, docid=[3, 2, 1, 0, 9])
    y = hr.judgments(model).grades_of(data)
    assert y.tolist() == [0, 2, 3, 4, 0]
    assert hr.evaluate(y, y, data.qid, "ndcg@10") == {"ndcg@10": 1.0}
    with pytest.raises(hr.DataError, match="no row has a judgment"):
        hr.judgments(model).grades_of(hr.RankingData(data.X, data.y, data.qid, np.full(5, "z")))
    with pytest.raises(hr.DataError, match="no document ids"):
        hr.judgments(model).grades_of(hr.RankingData(data.X, data.y, data.qid))


def test_files_for_others(model, tmp_path):
    found = hr.judgments(model)
    with pytest.raises(hr.DataError, match="query 'red shoes' has blanks"):
        found.to_qrels(tmp_path / "qrels")
    found.to_qrels(tmp_path / "qrels", topics=tmp_path / "topics")
    lines = sorted(line.split() for line in (tmp_path / "qrels").read_text().splitlines())
    assert lines == [["1", "0", str(d), str(g)] for d, g in [(0, 4), (1, 3), (2, 2), (3, 0)]]
    assert (tmp_path / "topics").read_text() == "1\tred shoes\n"
    run = {"1": {"0": 4.0, "1": 3.0, "2": 2.0}}
    assert hr.evaluate_run(tmp_path / "qrels", run, "ndcg@3")["ndcg@3"] == pytest.approx(1)
    found.to_opensearch(tmp_path / "import.json", name="spring")
    body = json.loads((tmp_path / "import.json").read_text())
    assert set(body) == {"name", "description", "type", "judgmentRatings"}
    assert (body["name"], body["type"]) == ("spring", "IMPORT_JUDGMENT")
    (query,) = body["judgmentRatings"]
    assert query["query"] == "red shoes" and [rating["docId"] for rating in query["ratings"]] == list("0123")
    assert all(set(rating) == {"docId", "rating"} and 0 <= float(rating["rating"]) <= 1 for rating in query["ratings"])
    for backend in ("pandas", "polars", "pyarrow"):
        assert len(found.to_frame(backend)) == 4
    with pytest.raises(hr.DataError, match="backend is 'x'"):
        found.to_frame("x")


def test_satisfaction_counts_in_dynamic_models(model, place_log):
    log = place_log([1, 1], [0.5, 0.5, 0.5], 500)
    sdbn = hr.click_model(log, "sdbn")
    np.testing.assert_array_equal(hr.judgments(sdbn).relevance, sdbn.attraction_ * sdbn.parameters_["satisfaction"])
