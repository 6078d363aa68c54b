"""ClickLog: its counts against a dictionary, its join against a loop, and what it refuses."""

from collections import defaultdict

import numpy as np
import pytest

import hingerank as hr
from hingerank.clicks.counting import count_rows, group_by


def make_log(rng, n=400, **more):
    return hr.ClickLog(
        queries=rng.integers(0, 6, n), documents=np.array(["abcdefgh"[d] for d in rng.integers(0, 8, n)]),
        places=rng.integers(1, 6, n), clicks=rng.integers(0, 2, n), **more,
    )  # fmt: skip


@pytest.mark.parametrize("more", ["", "weights", "contexts", "propensities", "weights contexts propensities"])
def test_cells_are_the_counts_of_a_dictionary(more):
    rng = np.random.default_rng(0)
    optional = {
        "weights": rng.integers(1, 5, 400), "contexts": rng.choice(["phone", "desk"], 400),
        "propensities": rng.choice([0.25, 0.5, 1.0], 400),
    }  # fmt: skip
    log = make_log(rng, **{name: optional[name] for name in more.split()})
    expected = defaultdict(lambda: np.zeros(2))
    for i in range(len(log)):
        key = (log.query[i], log.document[i], log.place[i])
        key += () if log.context is None else (log.context[i],)
        key += () if log.propensities is None else (log.propensities[i],)
        weight = 1.0 if log.weights is None else log.weights[i]
        expected[key] += [weight, weight * log.clicks[i]]
    cells = log.cells()
    columns = [cells.query, cells.document, cells.place]
    columns += [column for column in (cells.context, cells.propensity) if column is not None]
    found = dict(zip(zip(*columns), zip(cells.showings, cells.clicks)))
    assert found == {key: tuple(value) for key, value in expected.items()}
    together = log.cells(contexts=False)
    assert together.context is None
    assert together.showings.sum() == cells.showings.sum() == log.n_showings


def test_weights_are_repeated_showings():
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, 400)
    log = make_log(np.random.default_rng(2), weights=weights)
    again = log.take(np.repeat(np.arange(400), weights))
    again.weights = None
    for name in ("query", "document", "place", "showings", "clicks"):
        np.testing.assert_array_equal(getattr(log.cells(), name), getattr(again.cells(), name))
    np.testing.assert_array_equal(log.lists_by_query(), again.lists_by_query())


def test_a_list_counts_once_whatever_its_places():
    """Only the showings at the most shown place counted: 1 of the first query's three lists."""
    columns = {"queries": list("qqqrrr"), "documents": list("abcabc"), "clicks": [1] * 6}
    places = [1, 2, 3, 1, 1, 2]
    log = hr.ClickLog(**columns, places=places, sessions=[1, 2, 3, 4, 5, 4])
    assert log.lists_by_query().tolist() == [3.0, 2.0]
    log.weights = np.array([1, 2, 3, 4, 5, 4.0])
    assert log.lists_by_query().tolist() == [6.0, 9.0]
    assert hr.ClickLog(**columns, places=places).lists_by_query().tolist() == [1.0, 2.0]


def test_queries_that_are_gone_are_not_missing():
    log = hr.ClickLog(queries=["q", "r"], documents=["a", "a"], places=[1, 1], clicks=[1, 0])
    rows = hr.RankingData.from_arrays([[1.0]], [0], ["q"], docid=["a"])
    with pytest.warns(UserWarning, match="1 of 2 showings"):
        assert log.join(rows).dropped["queries of the log without a row"] == 1
    assert log.take(log.query == 0).join(rows).dropped["queries of the log without a row"] == 0


@pytest.mark.parametrize("sizes", [(3, 4), (1 << 30, 1 << 30), (1 << 31, 1 << 31, 1 << 31, 7)])
def test_groups_are_those_of_unique_rows(sizes):
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 3, 50) * (size // 3) for size in sizes]
    groups = group_by(columns)
    rows, first, inverse, counts = np.unique(
        np.stack(columns, 1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    np.testing.assert_array_equal(np.stack(groups.columns, 1), rows)
    np.testing.assert_array_equal(groups.number, inverse.ravel())
    np.testing.assert_array_equal(groups.first, first)
    np.testing.assert_array_equal(groups.sums(), counts)


def test_take_keeps_names_and_codes():
    log = make_log(np.random.default_rng(4), sessions=np.arange(400) // 4)
    part = log.take(log.place <= 2)
    assert part.n_places == 2 and log.n_places == 5
    assert part.query_names is log.query_names and len(part) == int((log.place <= 2).sum())


def joined(rng):
    data = hr.make_letor(6, 9, seed=0)
    names = np.array([f"d{i}" for i in range(data.n_rows)])
    data = hr.RankingData.from_arrays(data.X, data.y, data.qid, docid=names)
    row = rng.integers(0, data.n_rows, 500)
    log = hr.ClickLog(
        queries=[str(q) for q in data.qid[row]], documents=names[row], places=rng.integers(1, 5, 500),
        clicks=rng.integers(0, 2, 500),
    )  # fmt: skip
    return log, data, row


def test_a_join_counts_the_cells_of_each_row():
    log, data, row = joined(np.random.default_rng(5))
    found = log.join(data)
    showings, clicks = np.zeros((data.n_rows, 5)), np.zeros((data.n_rows, 5))
    np.add.at(showings, (row, log.place), 1)
    np.add.at(clicks, (row, log.place), log.clicks)
    np.testing.assert_array_equal(found.showings, showings[found.row, found.place])
    np.testing.assert_array_equal(found.clicks, clicks[found.row, found.place])
    assert found.showings.sum() == 500
    assert found.X is data.X and found.qid is data.qid and found.feature_names == data.feature_names
    assert found.dropped["showings of documents without a row"] == 0
    queries = data.blocks.ids[[1, 3]]
    part = found.subset(queries)
    assert part.data == data.subset(queries)
    assert part.showings.sum() == np.isin(data.qid[row], queries).sum()
    np.testing.assert_array_equal(data.docid[np.isin(data.qid, queries)][part.row], part.docid[part.row])
    np.testing.assert_array_equal(part.lists, found.lists[[1, 3]])


def test_a_join_says_what_it_drops():
    log, data, row = joined(np.random.default_rng(6))
    some = data.take(np.arange(0, data.n_rows, 2))
    with pytest.warns(UserWarning, match="showings and .* clicks are left out: their documents have no row"):
        found = log.join(some)
    assert found.dropped["showings of documents without a row"] == (row % 2).sum()
    assert found.dropped["clicks on documents without a row"] == log.clicks[row % 2 == 1].sum()
    assert found.dropped["rows that were never shown"] == some.n_rows - len(np.unique(row[row % 2 == 0]))
    assert found.notes == found.dropped


def test_a_join_refuses_what_it_cannot_tell_apart():
    log, data, _ = joined(np.random.default_rng(7))
    with pytest.raises(hr.DataError, match="several rows in a query"):
        log.join(hr.RankingData(data.X, data.y, data.qid, np.full(data.n_rows, "d0")))
    query = log.query_names.tolist()[0]  # as Python shows it, without np.str_
    with pytest.raises(hr.DataError, match=f"no document of the log has a row .such as query {query!r}, document"):
        log.join(hr.RankingData(data.X, data.y, data.qid, np.arange(data.n_rows)))
    with pytest.raises(hr.DataError, match="no document ids"):
        log.join(hr.RankingData(data.X, data.y, data.qid))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"places": [0, 1]}, "whole numbers from 1: add 1 if they count from 0"),
        ({"places": [1, 2.5]}, "place 2.5 at showing 1"),
        ({"places": [1, np.nan]}, "place nan at showing 1"),
        ({"clicks": [0, -1]}, "clicks holds -1 at showing 1"),
        ({"clicks": [0]}, r"clicks has shape \(1,\), expected a number for each of the 2"),
        ({"queries": ["a"]}, "queries has shape"),
        ({"documents": ["a", None]}, "documents is missing"),
        ({"propensities": [0.5, 0]}, "propensities holds 0 at showing 1"),
        ({"weights": [1, np.inf]}, "weights"),
        ({"times": ["x", "y"]}, "times"),
    ],
)
def test_what_a_log_refuses(change, words):
    good = {"queries": ["a", "a"], "documents": ["b", "c"], "places": [1, 2], "clicks": [0, 1]}
    with pytest.raises(hr.DataError, match=words):
        hr.ClickLog(**(good | change))


def test_teams_may_be_absent():
    log = hr.ClickLog(
        queries=list("qqq"), documents=list("abc"), places=[1, 2, 3], clicks=[0, 0, 1], teams=["B", None, "A"]
    )
    assert log.team.tolist() == [0, -1, 1] and log.team_names.tolist() == ["B", "A"]


def test_an_empty_log_is_described_and_nothing_is_learnt_from_it():
    log = hr.ClickLog(queries=[], documents=[], places=[], clicks=[], sessions=[], teams=[])
    assert log.describe().showings == 0 and len(log.cells()) == 0
    for learn in (hr.propensities, hr.click_model, hr.interleaving_test):
        with pytest.raises(hr.DataError, match="the log has no showings"):
            learn(log)


@pytest.mark.parametrize("spread", [1, 1 << 28])
def test_counts_that_are_merged_are_counts_of_all(spread):
    """Of small numbers, which make one key a row, and of numbers too large for that."""
    rng = np.random.default_rng(8)
    parts = [[rng.integers(0, 5, n) * spread for _ in range(3)] for n in (40, 1, 60, 25)]
    merged = count_rows(parts[0])
    for part in parts[1:]:
        more = count_rows(part)
        both = [np.concatenate(pair) for pair in zip(merged[0], more[0])]
        merged = count_rows(both, np.concatenate([merged[1], more[1]]))
    columns, count = count_rows([np.concatenate(column) for column in zip(*parts)])
    np.testing.assert_array_equal(merged[0], columns)
    np.testing.assert_array_equal(merged[1], count)
