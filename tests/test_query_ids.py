"""Rows without query ids: one warning class, refusals where an answer would be wrong, and ways to say it is meant."""

import gzip
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import hingerank as hr
from hingerank.cli import main


@pytest.fixture
def rows():
    data = hr.make_letor(n_queries=6, rows_per_query=(4, 8), n_features=3, seed=1)
    return data.X, data.y, data.qid


def pairs(y):
    return int(sum((a > b) for a in y for b in y))


def said(call):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in heard if issubclass(w.category, hr.OneQueryWarning)]


def test_a_warning_says_how_many_rows_and_pairs_became_one_query(rows):
    X, y, qid = rows
    for call in (
        lambda: hr.RankSVM().fit(X, y),
        lambda: hr.RankSVM().fit_path(X, y, Cs=[1.0]),
        lambda: hr.evaluate(y, y),
        lambda: hr.RankingData.from_arrays(X, y),
        lambda: hr.RankSVM().fit(X, y, 0).score(X, y),
    ):
        (text,) = said(call)
        assert f"all {len(y)} rows" in text and f"{pairs(y):,} pairs" in text and "qid=0" in text
    for call in (
        lambda: hr.RankSVM().fit(X, y, qid),
        lambda: hr.RankSVM().fit(X, y, group=[len(y)]),
        lambda: hr.RankSVM().fit(X, y, "one"),
        lambda: hr.evaluate(y, y, 0),
        lambda: hr.RankingData.from_arrays(X, y, 7),
        lambda: hr.RankSVM().fit(X, y, qid).rank(X[:4]),
    ):
        assert said(call) == []


def test_one_id_for_all_is_one_query(rows):
    X, y, _ = rows
    same = hr.RankSVM().fit(X, y, np.zeros(len(y)))
    assert np.array_equal(hr.RankSVM().fit(X, y, "x").predict(X), same.predict(X))
    assert hr.evaluate(y, X[:, 0], 0) == hr.evaluate(y, X[:, 0], np.zeros(len(y)))
    assert hr.RankingData.from_arrays(X, y, "x").qid.tolist() == ["x"] * len(y)


def test_a_ranker_of_many_queries_refuses_to_score_without_ids(rows):
    X, y, qid = rows
    ranker = hr.RankSVM().fit(X, y, qid)
    with pytest.raises(ValueError, match="fitted on 6 queries, but score got no query ids"):
        ranker.score(X, y)
    assert ranker.score(X, y, qid) > 0 and ranker.score(X, y, 0) > 0


def test_an_unrouted_grid_search_does_not_choose_in_silence(rows):
    X, y, _ = rows
    heard = said(lambda: GridSearchCV(hr.RankSVM(), {"C": [0.1, 1.0]}, cv=2).fit(X, y))
    assert heard and "set_score_request(qid=True)" in heard[0]


def test_a_wrong_eval_group_is_named(rows):
    X, y, qid = rows
    for group, message in [
        ([[3]], r"eval_group\[0\] does not fit eval_set\[0\]: group counts add up to 3"),
        ([[1.5]], r"eval_group\[0\] does not fit"),
        ([None, None], "as long as eval_set"),
    ]:
        with pytest.raises(ValueError, match=message):
            hr.RankSVM().fit(X, y, qid, eval_set=[(X, y)], eval_group=group)


@pytest.fixture
def without(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1 1:0.5 2:1\n0 1:0.25 2:2\n2 1:0.5\n0 1:0.125\n")
    return path


def test_a_file_without_ids_warns_and_takes_a_word(without):
    (text,) = said(lambda: hr.read(without))
    assert "all 4 rows" in text and "5 pairs" in text and "one_query=True" in text
    assert said(lambda: hr.read(without, one_query=True)) == []
    assert (
        said(lambda: list(hr.read_pieces(without)))
        and said(lambda: list(hr.read_pieces(without, one_query=True))) == []
    )


@pytest.mark.parametrize("name", ["rows.txt.query", "rows.query", "rows.txt.group", "rows.group"])
def test_counts_beside_the_data_are_found(without, name):
    (without.parent / name).write_text("2\n2\n")
    assert said(lambda: None) == [] and hr.read(without).qid.tolist() == [0, 0, 1, 1]
    packed = without.parent / "rows.txt.gz"
    packed.write_bytes(gzip.compress(without.read_bytes()))
    assert hr.read(packed).qid.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("command", [["info"], ["fit", "-o", "model/"], ["tune", "-o", "m/"], ["convert", "out/"]])
def test_the_command_line_stops_unless_it_is_meant(without, command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [command[0], str(without), *command[1:]]
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert "all 4 rows count as one query" in err and "--one-query" in err and err.count("\n") == 1
    if command[0] != "tune":  # which needs queries to hold out
        assert main([*arguments, "--one-query"]) == 0
