"""Logged features of search engines become rows to learn from."""

import json

import numpy as np
import pytest

import hingerank as hr

SOLR = [
    {"responseHeader": {"params": {"qid": "a"}}, "response": {"docs": [
        {"id": "1", "[features]": "title=0.5,age=3.0"}, {"id": "2", "[features]": "title=1.5"}]}},
    {"response": {"docs": [{"id": "1", "qid": ["b"], "[features]": "age=2.0,x=y=7"}]}},
]  # fmt: skip
PLUGIN = {
    "took": 3,
    "qid": "a",
    "hits": {
        "hits": [
            {"_id": "7", "fields": {"_ltrlog": [{"log": [{"name": "t", "value": 1.5}, {"name": "b"}]}]}},
            {"_id": "8", "fields": {"_ltrlog": [{"log": [{"name": "t", "value": 0.5}, {"name": "b", "value": 2}]}]}},
        ]
    },
}


def lines(path, responses):
    path.write_text("\n".join(map(json.dumps, responses)) + "\n")
    return path


def test_solr_lines_with_judgments_of_a_file(tmp_path):
    (tmp_path / "qrels").write_text("a 0 1 2\nb 0 1 1\nb 0 9 4\n")
    data = hr.read_feature_log(lines(tmp_path / "log", SOLR), tmp_path / "qrels")
    assert list(data.feature_names) == ["title", "age", "x=y"]
    assert data.X.tolist() == [[0.5, 3.0, 0.0], [0.0, 2.0, 7.0]]
    assert data.y.tolist() == [2, 1] and data.qid.tolist() == ["a", "b"] and data.docid.tolist() == ["1", "1"]
    kept = hr.read_feature_log(tmp_path / "log", [("a", 1, 2)], unjudged=-1)
    assert kept.y.tolist() == [2, -1, -1]


def test_plugin_logs_with_clicks(tmp_path):
    log = lines(tmp_path / "log", [PLUGIN])
    data = hr.read_feature_log(log, clicks=[("a", 8), ("a", 8)], missing="zero")
    assert data.X.tolist() == [[1.5, 0.0], [0.5, 2.0]] and data.y.tolist() == [0, 2]
    (tmp_path / "clicks").write_text("a 7\n")
    data = hr.read_feature_log(log, clicks=tmp_path / "clicks", missing="nan")
    assert np.isnan(data.X[0, 1]) and data.y.tolist() == [1, 0]
    (tmp_path / "many").write_text(json.dumps({"responses": [PLUGIN, PLUGIN | {"qid": "b"}]}, indent=2))
    assert hr.read_feature_log(tmp_path / "many", clicks=[("b", 7)], missing="zero").qid.tolist() == [
        "a",
        "a",
        "b",
        "b",
    ]


def test_mistakes_are_named(tmp_path):
    log = lines(tmp_path / "log", [PLUGIN])
    with pytest.raises(hr.DataError, match="b of document '7' of query 'a' has no value"):
        hr.read_feature_log(log, {("a", "7"): 1})
    with pytest.raises(hr.DataError, match="judgments or clicks"):
        hr.read_feature_log(log)
    with pytest.raises(hr.DataError, match="none of them has a grade"):
        hr.read_feature_log(log, {("z", "7"): 1})
    with pytest.raises(hr.DataError, match="expected query"):
        hr.read_feature_log(log, [("a", 1, "x")])
    with pytest.raises(hr.DataError, match="response 1: this is no response"):
        hr.read_feature_log(lines(tmp_path / "bad", [{"hits": 3}]), {("a", "7"): 1})
    with pytest.raises(hr.DataError, match="there is no 'nothing'"):
        hr.read_feature_log(log, {("a", "7"): 1}, query="nothing")
    (tmp_path / "worse").write_text('{"a": 1}\n{not json\n')
    with pytest.raises(hr.DataError, match="worse"):
        hr.read_feature_log(tmp_path / "worse", {("a", "7"): 1})
