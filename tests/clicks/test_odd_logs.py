"""Logs and arguments that say little or nothing: every click model, method and estimator is right or says why."""

from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.clicks.models import CLICK_MODELS
from hingerank.clicks.propensities import METHODS
from hingerank.clicks.value import ESTIMATORS, policy_value
from hingerank.rankers.corrections import click_weights

LEARNT = [method for method in METHODS if method != "given"]
ROWS = hr.RankingData.from_arrays(np.eye(2), [0, 1], ["q", "q"], docid=["a", "b"])


def log_of(clicks, places=(1, 2, 2, 1), **more):
    return hr.ClickLog(
        queries=["q"] * 4, documents=list("abab"), places=places, clicks=clicks, sessions=[1, 1, 2, 2], **more
    )


@pytest.mark.parametrize("model", CLICK_MODELS)
def test_a_log_without_clicks_teaches_no_click_model(model):
    with pytest.raises(hr.DataError, match="no clicks"):
        hr.click_model(log_of([0] * 4), model)
    with pytest.raises(hr.DataError, match="no clicks"):  # once a division by 0
        hr.click_model(log_of([1] * 4, weights=[0] * 4), model)


@pytest.mark.parametrize("method", LEARNT)
def test_a_log_without_clicks_or_showings_has_no_propensities(method):
    with pytest.raises(hr.DataError, match="no clicks"):
        hr.propensities(log_of([0] * 4), method, data=ROWS)
    with pytest.raises(hr.DataError, match="no showings"):
        hr.propensities(log_of([1] * 4, weights=[0] * 4), method, data=ROWS)


@pytest.mark.parametrize("method", LEARNT)
def test_one_place_is_examined_as_often_as_itself(method):
    assert hr.propensities(log_of([1, 0, 0, 1], places=[1] * 4), method, data=ROWS).values.tolist() == [1.0]


@pytest.mark.parametrize("model", CLICK_MODELS)
def test_a_repeated_showing_is_clicked_if_either_is(model):
    """As a reader has them: a line for the showing, and a line for the click."""
    shown = {"queries": ["q"] * 5, "documents": list("aabba"), "places": [1, 1, 2, 1, 2], "sessions": [1, 1, 1, 2, 2]}
    late, early = (hr.ClickLog(**shown, clicks=clicks) for clicks in ([0, 1, 0, 0, 1], [1, 0, 0, 0, 1]))
    once = hr.ClickLog(**{name: column[1:] for name, column in shown.items()}, clicks=[1, 0, 0, 1])
    expected = hr.click_model(once, model).attraction_
    for log in (late, early):
        np.testing.assert_allclose(hr.click_model(log, model).attraction_, expected)


def test_an_interval_is_of_the_drawn_logs_that_compare_the_places():
    """One drawn log in eight has the lists of one order only; its NaN was the bounds of all."""
    shown = {"documents": list("abbaabba"), "places": [1, 2] * 4, "sessions": np.repeat(range(4), 2)}
    found = hr.propensities(hr.ClickLog(queries=["q"] * 8, **shown, clicks=[1] * 8))
    with pytest.warns(UserWarning, match="% of the logs drawn for intervals cannot tell the propensity of position 1:"):
        low, high = found.interval()
    np.testing.assert_allclose([low, high], 1.0)


def test_logged_propensities_are_relative_to_the_first_place():
    columns = {"queries": ["q"] * 2, "documents": ["a", "b"], "clicks": [1, 0], "propensities": [0.5, 0.2]}
    found = hr.propensities(hr.ClickLog(**columns, places=[1, 3]), "given")
    np.testing.assert_allclose(found.values, [1.0, np.nan, 0.4])
    assert found.reasons == {"2": "nothing was shown there"}
    with pytest.raises(hr.DataError, match="nothing was shown at place 1"):
        hr.propensities(hr.ClickLog(**columns, places=[2, 3]), "given")


def test_regression_needs_document_ids_and_finite_features():
    log, X = log_of([1, 0, 0, 1]), np.array([[np.nan, 1.0], [0.0, 1.0]])
    with pytest.raises(hr.DataError, match="no document ids"):
        hr.propensities(log, "regression-em", data=hr.RankingData.from_arrays(np.eye(2), [0, 1], ["q", "q"]))
    gaps = hr.RankingData.from_arrays(X, [0, 1], ["q", "q"], docid=["a", "b"], missing="nan")
    with pytest.raises(hr.DataError, match="missing values"):
        hr.propensities(log, "regression-em", data=gaps)


def test_sessions_are_left_out_by_their_spelling_and_split_into_two():
    log = log_of([1, 0, 0, 1])
    assert len(log.without(["1"])) == len(log.without([1.0])) == len(log.without(np.array([1]))) == 2
    assert [len(part) for part in log.split(0.5)] == [2, 2]
    named = hr.ClickLog(queries=["q"] * 2, documents=["a", "b"], places=[1, 2], clicks=[1, 0], sessions=["12", "1"])
    assert named.without("12").session_names[named.without("12").session].tolist() == ["1"]  # not "1" and "2"
    with pytest.raises(hr.DataError, match="leaves one side without a session"):
        log.split(0.01)


def test_a_part_of_a_log_is_split_by_the_sessions_that_it_has():
    """`take` keeps the names of sessions that are gone: the same seed drew those once, and so an empty part."""
    sessions = np.arange(100)
    log = hr.ClickLog(queries=["q"] * 100, documents=sessions, places=[1] * 100, clicks=[1] * 100, sessions=sessions)
    train, _ = log.split(0.25)
    assert [len(part) for part in train.split(0.2)] == [60, 15]


def test_a_stray_place_far_down_fits_into_memory():
    """Once lists were counted in an array of queries x places: 80 GB for this log."""
    queries = np.arange(10_000)
    log = hr.ClickLog(
        queries=queries,
        documents=["a"] * 10_000,
        places=[1] * 9_999 + [1_000_000],
        clicks=queries % 2,
        sessions=queries,
    )
    assert log.lists_by_query().tolist() == [1.0] * 10_000
    for model, words in (("pbm", "lists of up to 1,000,000 places"), ("ubm", "1,000,000 places")):
        with pytest.raises(hr.DataError, match=words):
            hr.click_model(log, model)


def test_a_document_at_very_many_places_is_no_matter_of_memory():
    """All pairs of its places were listed, for hours or until the memory was full."""
    places = np.arange(1, 200_001)
    log = hr.ClickLog(queries=places * 0, documents=places * 0, places=places, clicks=places % 2)
    for ask in (log.describe, lambda: hr.propensities(log)):
        with pytest.raises(hr.DataError, match="19,999,900,000 pairs of places that share a document take"):
            ask()
    assert log.take(log.place <= 50).describe().findings[0].count == 1


def test_showings_of_no_weight_need_no_propensity():
    """Their propensity, NaN, times their clicks, 0, was the weight of the row."""
    shown = {"queries": ["q"] * 5, "documents": list("ababa"), "clicks": [1, 0, 0, 1, 0]}
    data = hr.ClickLog(**shown, places=[1, 2, 2, 1, 9], weights=[1, 1, 1, 1, 0]).join(ROWS)
    assert click_weights(data, [1, 0.5]).tolist() == [1, 1]


def test_a_saved_estimate_is_read_before_it_corrects():
    for path in ("p.json", Path("p.json")):
        with pytest.raises(ValueError, match=r"give hingerank\.propensities.log, 'given', values='p.json'"):
            click_weights(log_of([1, 0, 0, 1]).join(ROWS), path)


def test_as_many_rankers_as_rows_are_no_scores():
    rankers = [hr.RankSVM().fit(ROWS), hr.RankSVM(C=2).fit(ROWS)]
    log = hr.ClickLog(queries=["q"] * 80, documents=list("abba") * 20, places=[1, 2] * 40, clicks=[1, 0, 0, 1] * 20)
    assert list(hr.evaluate_clicks(log.join(ROWS), rankers, propensities=[1, 0.5])) == ["RankSVM 1", "RankSVM 2"]


def test_ids_of_mixed_kinds_match_their_spelling():
    log = hr.ClickLog(queries=np.array([7.0, 7], object), documents=[1.0, 2.0], places=[1, 2], clicks=[1, 0])
    rows = hr.RankingData.from_arrays(np.eye(2), [0, 1], [7, 7], docid=["1", "2"])
    assert log.join(rows).row.tolist() == [0, 1]


def test_teams_that_are_gone_do_not_play():
    log = log_of([1, 0, 0, 1], teams=list("ABCC"))
    assert hr.interleaving_test(log.take(log.session == 0)).wins == (1, 0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rankers", [{}, []])
def test_some_ranker_must_be_evaluated(estimator, rankers):
    with pytest.raises(ValueError, match="there is no ranker"):
        hr.evaluate_clicks(log_of([1, 0, 0, 1]).join(ROWS), rankers, propensities=[1, 0.5], estimator=estimator)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"confidence": 2}, "confidence must be"),
        ({"resamples": 0}, "resamples must be"),
        ({"estimator": "clipped", "clip": 0}, "clip must be"),
        ({"estimator": "ipz"}, "did you mean 'ips'"),
    ],
)
def test_policies_are_judged_with_sensible_settings(wrong, words):
    with pytest.raises(ValueError, match=words):
        policy_value([1, 0] * 50, [0.5] * 100, [0.5] * 100, **wrong)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda log: log.join(ROWS.X), "the rows must be RankingData, as hingerank.read makes them, not ndarray"),
        (lambda log: hr.propensities(ROWS), "expected a log of clicks .*, got RankingData"),
        (lambda log: hr.propensities(log, tol="x"), "tol must be a number of at least 0, not 'x'"),
        (lambda log: hr.propensities(log, "regression-em", data=ROWS.X), "data must be RankingData"),
        (lambda log: hr.propensities(log, judgments=[1, 2]), "the judgments must be RankingData"),
        (lambda log: hr.propensities(log, judgments={"a": 1}), "judgments must map pairs .query, document. to grades"),
        (lambda log: hr.propensities(log, judgments={}), "grades from 0 up, one of them above 0"),
        (lambda log: hr.evaluate_clicks(log.join(ROWS), "rank-svm", propensities=[1, 0.5]), "found 'rank-svm'"),
        (lambda log: click_weights(log.join(ROWS), [1, 0.5], "clipped", "x"), "clip must be a propensity .*, not 'x'"),
        (lambda log: log.split("x"), "test_size must be a number from 0 to 1, not 'x'"),
        (lambda log: log.split(0.5, seed="x"), "seed must be a whole number of at least 0, or None, not 'x'"),
        (lambda log: hr.simulate_clicks(ROWS, ROWS.y, seed=-1), "seed must be a whole number"),
        (lambda log: hr.simulate_clicks(ROWS.X, ROWS.y), "data must be RankingData, .*, not ndarray"),
        (lambda log: hr.interleave("ab", "ba", seed="x"), "seed must be a whole number"),
        (lambda log: hr.make_shop(2, 10, seed="x"), "seed must be a whole number"),
        (lambda log: hr.interleaving_test(ROWS), "expected a log of clicks .*, got RankingData"),
        (lambda log: hr.click_model(ROWS), "expected a log of clicks .*, got RankingData"),
        (lambda log: hr.judgments(log), "expected a fitted click model .*, got ClickLog"),
        (lambda log: hr.judgments(hr.click_model(log), least_showings="3"), "least_showings must be a number"),
        (lambda log: hr.propensities(log, judgments={("q", "a"): "good"}), "judgments must hold numbers: found 'good'"),
        (lambda log: hr.propensities(log, "given", values="none.json"), "none.json: there is no such file"),
    ],
)
def test_the_wrong_thing_is_named(ask, words):
    """These were TypeErrors and AttributeErrors."""
    with pytest.raises(ValueError, match=words):
        ask(log_of([1, 0, 0, 1]))


@pytest.mark.parametrize("top", [0, -1, 1.5])
def test_simulated_lists_have_a_place(top):
    with pytest.raises(ValueError, match="top must be"):
        hr.simulate_clicks(ROWS, ROWS.y, sessions=3, top=top)


@pytest.mark.parametrize("scores", [[np.nan, 1.0], [np.inf, 1.0]])
def test_simulated_lists_are_ranked_by_numbers(scores):
    with pytest.raises(hr.DataError, match="a finite score for each"):
        hr.simulate_clicks(ROWS, np.array(scores), sessions=3)


@pytest.mark.parametrize("credits", [[1.0, 2.0], [-1.0, 1.0, 1.0, 1.0]])
def test_credits_are_numbers_for_each_showing(credits):
    with pytest.raises(hr.DataError, match="credits"):
        hr.interleaving_test(log_of([1, 0, 0, 1], teams=list("ABBA")), credits=credits)


@pytest.mark.parametrize("queries, biased", [(2, []), (60, ["em"])])
def test_an_interval_warns_of_a_biased_method(queries, biased):
    """EM has a parameter for each document, and 600 lists tell little of each of 480 documents."""
    rng, lists = np.random.default_rng(0), 600
    attraction = rng.uniform(0.1, 0.9, (queries, 8))
    query = rng.integers(0, queries, lists)
    order = np.argsort(rng.normal(size=(lists, 8)) - attraction[query], axis=1)[:, :3]
    clicks = rng.random(order.shape) < np.array([1.0, 0.6, 0.3]) * attraction[query[:, None], order]
    log = hr.ClickLog(
        queries=np.repeat(query, 3), documents=order.ravel(), places=np.tile([1, 2, 3], lists), clicks=clicks.ravel(),
        sessions=np.repeat(np.arange(lists), 3),
    )  # fmt: skip
    for method in ("em", "all-pairs"):
        found = hr.propensities(log, method)
        if method in biased:
            with pytest.warns(UserWarning, match="biased on this log.*use method='all-pairs'"):
                found.interval(rounds=20)
        else:
            found.interval(rounds=20)
