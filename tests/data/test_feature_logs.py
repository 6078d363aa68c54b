"""Logged features of search engines become rows to learn from."""

import json

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run

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
    with pytest.warns(UserWarning, match=r"1 judgments without a logged row \(such as \('b', '9'\)\), 1 logged rows"):
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
    twice = "entry 3: document '7' of query 'a' has grade 2, and 1 in entry 2: leave one of them out"
    with pytest.raises(hr.DataError, match=twice):
        hr.read_feature_log(log, [("a", "7", 1), ("a", 7, 1.0), ("a", 7, 2)])
    with pytest.raises(hr.DataError, match="none of them has a grade"):
        hr.read_feature_log(log, {("z", "7"): 1})
    with pytest.raises(hr.DataError, match="expected query"):
        hr.read_feature_log(log, [("a", 1, "x")])
    with pytest.raises(hr.DataError, match="line 1: this is not a response with logged features"):
        hr.read_feature_log(lines(tmp_path / "bad", [{"hits": 3}]), {("a", "7"): 1})
    with pytest.raises(hr.DataError, match="there is no 'nothing'"):
        hr.read_feature_log(log, {("a", "7"): 1}, query="nothing")
    (tmp_path / "worse").write_text('{"a": 1}\n{not json\n')
    with pytest.raises(hr.DataError, match="worse"):
        hr.read_feature_log(tmp_path / "worse", {("a", "7"): 1})


def test_what_the_join_leaves_out_is_counted_and_named(tmp_path):
    log = lines(tmp_path / "log", [*SOLR, SOLR[1]])
    grades = {("a", "1"): 2, ("a", "9"): 1, ("c", "1"): 0, ("c", "2"): 1}
    with pytest.warns(UserWarning, match="4 judgments and 3 logged rows make 1 rows; left out are 3 judgments") as told:
        data = hr.read_feature_log(log, grades)
    assert "2 queries without a row left (such as 'b', 'c')" in str(told[0].message)
    assert "logged before" not in str(told[0].message)  # what was repeated had the same values
    other = [{"qid": "b", "response": {"docs": [{"id": "1", "[features]": f"age={age}"}]}} for age in (1, 2)]
    with pytest.warns(UserWarning, match=r"1 rows logged before with other values \(such as \('b', '1'\)\)"):
        assert hr.read_feature_log(lines(tmp_path / "two", other), {("b", "1"): 1}).X.tolist() == [[2.0]]
    assert data.n_rows == 1 and list(data.notes.values()) == [3, 2, 2, 1]
    with pytest.warns(UserWarning, match="1 clicked documents without a logged row"):
        clicked = hr.read_feature_log(log, clicks=[("a", "1"), ("a", "9")])
    assert clicked.n_rows == 3 and clicked.notes["clicked documents without a logged row"] == 1
    whole = hr.read_feature_log(log, {("a", "1"): 2, ("a", "2"): 1, ("b", "1"): 0})
    assert whole.notes["queries without a row left"] == 0 and whole.take([0]).n_rows == 1


def test_responses_may_be_indented_and_stand_one_after_the_other(tmp_path):
    """As curl leaves them in a file: Solr indents unless it is told not to, and ends with an empty line."""
    expected = hr.read_feature_log(lines(tmp_path / "log", SOLR), [("a", 1, 2), ("a", 2, 1), ("b", 1, 0)])
    texts = {
        "indented": "\n\n".join(json.dumps(r, indent=2) + "\n" for r in SOLR),
        "joined": "".join(map(json.dumps, SOLR)),
        "mixed": json.dumps(SOLR[:1]) + "\r\n" + json.dumps({"responses": SOLR[1:]}, indent=1) + " \t\n\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert hr.read_feature_log(tmp_path / name, [("a", 1, 2), ("a", 2, 1), ("b", 1, 0)]) == expected, name
    (tmp_path / "cut").write_text(texts["indented"][:-9])
    with pytest.raises(hr.DataError, match=r"cut, response 2 \(line 2\d\): this is not JSON"):
        hr.read_feature_log(tmp_path / "cut", {("a", "1"): 1})
    (tmp_path / "one").write_text(texts["indented"] + '{"hits": 3}')
    with pytest.raises(
        hr.DataError, match=r"one, response 3 \(line \d+\): this is not a response with logged features"
    ):
        hr.read_feature_log(tmp_path / "one", {("a", "1"): 1})


@pytest.mark.parametrize("value", ["NaN", float("nan"), None])
def test_nan_is_a_missing_value(tmp_path, value):
    found = PLUGIN["hits"]["hits"][1] | {"fields": {"_ltrlog": [{"log": [{"name": "b", "value": value}]}]}}
    log, grades = lines(tmp_path / "log", [{"qid": "a", "hits": {"hits": [found]}}]), {("a", "8"): 1}
    with pytest.raises(hr.DataError, match="has no value; give missing="):
        hr.read_feature_log(log, grades)
    assert hr.read_feature_log(log, grades, missing="zero").X.tolist() == [[0.0]]
    assert np.isnan(hr.read_feature_log(log, grades, missing="nan").X).all()
    solr = lines(tmp_path / "solr", [{"qid": "a", "response": {"docs": [{"id": "8", "[features]": "b=NaN"}]}}])
    with pytest.raises(hr.DataError, match="has no value"):
        hr.read_feature_log(solr, grades)


def test_a_line_ends_where_it_ends(tmp_path):
    responses = [{"qid": "a\u2028b", "response": {"docs": [{"id": "\u0085x\x0b", "[features]": "t=1"}]}}] * 2
    (tmp_path / "log").write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in responses), "utf-8")
    (tmp_path / "qrels").write_text("a\u2028b 0 \u0085x\x0b 2\n", "utf-8")
    data = hr.read_feature_log(tmp_path / "log", {("a\u2028b", "\u0085x\x0b"): 2})
    assert data.qid.tolist() == ["a\u2028b"] and data.y.tolist() == [2]


def test_the_command_line_makes_rows_of_a_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "log", [PLUGIN])
    (tmp_path / "qrels").write_text("a 0 7 2\na 0 8 1\n")
    (tmp_path / "clicks").write_text("a 7\n")
    assert run(["convert", "log", "rows/", "--judgments", "qrels", "--missing", "zero"]) == 0
    assert hr.read("rows/") == hr.read_feature_log("log", "qrels", missing="zero")
    assert run(["convert", "log", "rows.csv", "--clicks", "clicks", "--missing", "zero"]) == 0
    assert "2 rows, 1 queries, 2 features" in capsys.readouterr().out
    assert run(["convert", "log", "more/", "--judgments", "qrels"]) == 1
    assert "has no value; pass --missing zero" in capsys.readouterr().err
    assert run(["convert", "log", "more/", "--document", "sku"]) == 1
    assert "--document does nothing without --judgments or --clicks" in capsys.readouterr().err
    assert run(["convert", "log", "more/", "--judgments", "qrels", "--clicks", "clicks"]) == 1
    assert not (tmp_path / "more").exists()
