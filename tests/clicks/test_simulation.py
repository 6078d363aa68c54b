"""Simulated clicks have the rates that the model says, and a seed gives them again."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(12, 6, n_features=5, n_grades=3, seed=4)
    return replace(made, docid=np.arange(made.n_rows))


def rates(log, rows, places):
    """Click rates by grade and place."""
    grade = rows.y[log.document_names[log.document]]
    weight = np.ones(len(log)) if log.weights is None else log.weights
    out = np.full((3, places), np.nan)
    for y in range(3):
        for k in range(places):
            mine = (grade == y) & (log.place == k + 1)
            if mine.any():
                out[y, k] = weight[mine] @ log.clicks[mine] / weight[mine].sum()
    return out


GAINS = np.array([0.1, 0.1 + 0.9 / 3, 1.0])


@pytest.mark.parametrize("counted", [False, True])
def test_places_are_looked_at_one_in_k(rows, counted):
    log = hr.simulate_clicks(rows, rows.X[:, 0], sessions=60_000, seed=1, counted=counted)
    found = rates(log, rows, 6)
    expected = GAINS[:, None] / np.arange(1, 7)
    assert np.nanmax(np.abs(found - expected)) < 0.02
    assert log.n_showings == sum(
        n * size for n, size in zip(np.bincount(log.query, log.weights)[: len(rows.blocks)] / 6, rows.blocks.sizes)
    )
    assert (log.session is None) == counted


def test_counting_and_listing_have_the_same_cells(rows):
    """The same queries are drawn; only the clicks are drawn otherwise."""
    one, other = (hr.simulate_clicks(rows, rows.y, sessions=500, seed=3, counted=c).cells() for c in (True, False))
    for name in ("query", "document", "place"):
        np.testing.assert_array_equal(np.sort(getattr(one, name)), np.sort(getattr(other, name)))
    assert one.showings.sum() == other.showings.sum()


def test_sessions_are_whole_lists_in_the_order_of_the_scores(rows):
    log = hr.simulate_clicks(rows, rows.X[:, 1], sessions=300, seed=2, top=4)
    assert log.n_places == 4 and len(log) == 1200 and len(log.session_names) == 300
    first = log.take(log.session == log.session[0])
    shown = log.document_names[first.document]
    mine = np.flatnonzero(rows.qid == rows.qid[shown[0]])
    assert shown.tolist() == mine[np.argsort(-rows.X[mine, 1], kind="stable")][:4].tolist()


def test_a_seed_gives_the_same_clicks_and_another_seed_others(rows):
    one, again, other = (hr.simulate_clicks(rows, rows.y, sessions=200, seed=s) for s in (5, 5, 6))
    assert np.array_equal(one.clicks, again.clicks) and not np.array_equal(one.clicks, other.clicks)


def test_several_rankers_show_documents_at_several_places(rows):
    ranker = hr.RankSVM().fit(rows)
    log = hr.simulate_clicks(rows, [ranker, -rows.X[:, 0]], sessions=400, seed=0)
    places = [len(set(log.place[log.document == d].tolist())) for d in range(len(log.document_names))]
    assert np.mean(np.array(places) == 2) > 0.5


def test_users_of_other_models(rows):
    cascade = hr.simulate_clicks(rows, rows.y, "cascade", sessions=3000, seed=0)
    per_session = np.bincount(cascade.session, cascade.clicks)
    assert per_session.max() == 1
    first = rates(cascade, rows, 6)[:, 0]
    np.testing.assert_allclose(first[~np.isnan(first)], GAINS[~np.isnan(first)], atol=0.05)
    dbn = hr.simulate_clicks(rows, rows.y, "dbn", sessions=3000, seed=0)
    assert np.bincount(dbn.session, dbn.clicks).max() > 1
    assert rates(dbn, rows, 6)[0, 5] < 0.1  # few come that far

    def every(rng, attraction):
        return np.ones(attraction.shape)

    assert hr.simulate_clicks(rows, rows.y, every, sessions=10).clicks.all()
    given = hr.simulate_clicks(rows, rows.y, [1.0, 0.5, 0.0], sessions=50, top=3)
    assert not given.clicks[given.place == 3].any()


def test_what_cannot_be_simulated(rows):
    with pytest.raises(ValueError, match="model returned clicks of shape"):
        hr.simulate_clicks(rows, rows.y, lambda rng, seen: seen.T > 0.5, sessions=20)
    with pytest.raises(ValueError, match="did you mean 'cascade'"):
        hr.simulate_clicks(rows, rows.y, "cascad")
    with pytest.raises(ValueError, match="a probability for each of the 6 places"):
        hr.simulate_clicks(rows, rows.y, [1.0, 0.5])
    with pytest.raises(ValueError, match="counted=True needs places"):
        hr.simulate_clicks(rows, rows.y, "dbn", counted=True)
    with pytest.raises(ValueError, match="sessions must be"):
        hr.simulate_clicks(rows, rows.y, sessions=0)
    with pytest.raises(ValueError, match="a finite score for each"):
        hr.simulate_clicks(rows, rows.y[:3])
    with pytest.raises(ValueError, match="fewer sessions"):
        hr.simulate_clicks(rows, rows.y, sessions=10**9)
