"""Counterfactual values: formulas click by click, the truth with endless data, intervals, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.clicks.value import ESTIMATORS

P = 1.0 / np.arange(1, 9)


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(60, 8, n_features=5, n_grades=3, seed=4)
    return replace(made, docid=np.arange(made.n_rows))


@pytest.fixture(scope="module")
def log(rows):
    return hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=3000, seed=1)


def places_of(rows, scores):
    place = np.empty(rows.n_rows, int)
    for q in rows.blocks.ids:
        mine = np.flatnonzero(rows.qid == q)
        place[mine[np.argsort(-scores[mine], kind="stable")]] = np.arange(1, len(mine) + 1)
    return place


def untied(scores):
    return scores.astype(float) + 1e-6 * np.arange(len(scores))


def dcg(place, depth=10):
    return np.where(place <= depth, 1 / np.log2(1 + place), 0.0)


def test_formulas_of_single_clicks(rows, log):
    data, scores = log.join(rows), untied(rows.X[:, 2])
    new = places_of(rows, scores)[log.document_names[log.document]]
    worth, shown, c, N = dcg(new, 5), dcg(log.place, 5), log.clicks, 3000
    clipped = np.maximum(P[log.place - 1], 10 / np.sqrt(N))
    ips = c / P[log.place - 1]
    expected = {
        "ips": ((worth * ips).sum() / N, (shown * ips).sum() / N),
        "snips": ((worth * ips).sum() / ips.sum(), (shown * ips).sum() / ips.sum()),
        "clipped": ((worth * c / clipped).sum() / N, (shown * c / clipped).sum() / N),
    }
    for estimator, (value, logged) in expected.items():
        found = hr.evaluate_clicks(data, scores, propensities=P, estimator=estimator, measure="dcg@5")
        np.testing.assert_allclose([found.value, found.logged], [value, logged], rtol=1e-12)
        np.testing.assert_allclose(found.difference, value - logged, rtol=1e-9)
        assert found.interval[0] < value < found.interval[1]
        w = worth * (c / clipped if estimator == "clipped" else ips)
        np.testing.assert_allclose(found.effective_size, w.sum() ** 2 / (w**2).sum(), rtol=1e-9)
    found = hr.evaluate_clicks(data, scores, propensities=P, measure="average-rank")
    np.testing.assert_allclose(found.value, (new * ips).sum() / N, rtol=1e-12)


def test_doubly_robust_by_its_formula(rows, log):
    from hingerank.rankers.corrections import relevance

    data, scores, N = log.join(rows), untied(rows.X[:, 2]), 3000
    mu = relevance(data, P[data.place - 1], np.zeros(len(data)), 10 / np.sqrt(N))
    lists = data.lists[rows.blocks.scatter(rows.blocks.numbers)]
    found = hr.evaluate_clicks(data, scores, propensities=P, estimator="dr")
    np.testing.assert_allclose(found.value, (lists * dcg(places_of(rows, scores)) * mu).sum() / N, rtol=1e-10)
    np.testing.assert_allclose(
        found.logged, (dcg(log.place) * mu[log.document_names[log.document]]).sum() / N, rtol=1e-10
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_with_many_clicks_the_value_is_the_true_one(rows, estimator):
    """DCG of the relevance that users have, whatever ranker was in production."""
    relevance = 0.1 + 0.9 * (2.0**rows.y - 1) / (2.0 ** rows.y.max() - 1)
    log = hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=10**6, seed=2, counted=True)
    data, ranking = log.join(rows), rows.y + 1e-3 * rows.X[:, 3]
    true = (dcg(places_of(rows, ranking)) * relevance).sum() / rows.n_queries
    true = true / (relevance.sum() / rows.n_queries) if estimator == "snips" else true
    found = hr.evaluate_clicks(data, ranking, propensities=P, estimator=estimator)
    assert found.value == pytest.approx(true, rel=0.01) and found.difference.interval[0] > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_clicks_from_trust_are_no_relevance(rows, estimator):
    """P(click) = α r + β: the rate β of the places was taken for relevance, by all but the doubly robust estimate."""
    known = replace(hr.propensities(hr.simulate_clicks(rows, rows.y, sessions=9), "given", values=0.7 * P), beta=P / 4)
    known = replace(known, alpha=0.7 * P)
    relevance = (2.0**rows.y - 1) / (2.0 ** rows.y.max() - 1)
    rankers = [rows.X[:, 0], rows.X[:, 1]]
    data = hr.simulate_clicks(rows, rankers, known, sessions=10**6, noise=0, counted=True).join(rows)
    ranking = rows.y + 1e-3 * rows.X[:, 3]
    true = (dcg(places_of(rows, ranking)) * relevance).sum() / rows.n_queries
    true = true / (relevance.sum() / rows.n_queries) if estimator == "snips" else true
    found = hr.evaluate_clicks(data, ranking, propensities=known, estimator=estimator)
    assert found.value == pytest.approx(true, rel=0.02)
    few = hr.evaluate_clicks(data.subset(rows.blocks.ids[:5].tolist()), ranking[np.isin(rows.qid, rows.blocks.ids[:5])],
                             propensities=known, estimator=estimator)  # fmt: skip
    assert few.resampled == "showings" and few.interval[0] < few.value < few.interval[1]
    with pytest.warns(UserWarning, match="takes clicks from trust in a place for relevance: use 'affine'"):
        hr.RankSVM().fit_clicks(data, propensities=known)


def test_lists_that_are_cut_off_say_nothing_of_other_documents(rows):
    """What a list did not show has no click in it: once without a word, for a value of half the true one."""
    relevance = 0.1 + 0.9 * (2.0**rows.y - 1) / (2.0 ** rows.y.max() - 1)
    data = hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=10**5, top=4, counted=True).join(rows)
    ranking = -rows.X[:, 0]
    true = (dcg(places_of(rows, ranking), 4) * relevance).sum() / rows.n_queries
    with pytest.warns(
        UserWarning, match=r"ranking: \d\d % of its dcg@4 is for documents in lists that did not show them"
    ):
        low = hr.evaluate_clicks(data, ranking, propensities=P, measure="dcg@4")
    robust = hr.evaluate_clicks(data, ranking, propensities=P, measure="dcg@4", estimator="dr")
    assert low.value < 0.6 * true and abs(robust.value - true) < 0.15 * true


def test_equal_scores_share_their_places(rows, log):
    data, depth = log.join(rows), 3
    flat = hr.evaluate_clicks(data, np.zeros(rows.n_rows), propensities=P, measure=f"dcg@{depth}")
    mean = dcg(np.arange(1, 9), depth).mean()
    np.testing.assert_allclose(flat.value, mean * (log.clicks / P[log.place - 1]).sum() / 3000, rtol=1e-12)


def test_several_rankers_share_resamples_and_make_a_table_and_a_picture(rows, log):
    data = log.join(rows)
    rankers = {"grades": rows.y, "a feature": rows.X[:, 2], "fitted": hr.RankSVM().fit(rows)}
    found = hr.evaluate_clicks(data, rankers, propensities=P, seed=3)
    alone = hr.evaluate_clicks(data, rows.y, propensities=P, seed=3)
    assert list(found) == list(rankers) and found["grades"].difference == alone.difference
    assert found["grades"].interval == alone.interval
    names, table = found.table()
    assert [line[0] for line in table] == ["as shown", *rankers] and len(names) == len(table[0])
    assert "as shown" in found._repr_html_() and "effective size" in repr(alone)
    assert len(found.plot().axes[0].get_yticklabels()) == 3
    unnamed = hr.evaluate_clicks(data, [rows.y, rows.X[:, 2]], propensities=P)
    assert list(unnamed) == ["ranking 1", "ranking 2"]


def test_of_few_queries_clicks_are_resampled(rows, log):
    data = log.join(rows).subset(rows.blocks.ids[:5].tolist())
    for estimator in ESTIMATORS:
        found = hr.evaluate_clicks(data, rows.y[np.isin(rows.qid, data.qid)], propensities=P, estimator=estimator)
        assert found.resampled == "showings" and found.interval[0] < found.value < found.interval[1]


def test_what_is_refused(rows, log):
    data = log.join(rows)
    with pytest.raises(hr.DataError, match=r"effective sample size is 2\.\d clicks of equal weight"):
        few = log.take(np.flatnonzero(log.clicks)[:3]).join(rows)
        hr.evaluate_clicks(few, rows.y, propensities=P)
    with pytest.raises(ValueError, match="did you mean 'snips'"):
        hr.evaluate_clicks(data, rows.y, propensities=P, estimator="snip")
    with pytest.raises(ValueError, match="'ndcg@10' is no measure of clicks"):
        hr.evaluate_clicks(data, rows.y, propensities=P, measure="ndcg@10")
    with pytest.raises(ValueError, match=r"log\.join"):
        hr.evaluate_clicks(log, rows.y, propensities=P)
    with pytest.raises(ValueError, match="a finite score for each"):
        hr.evaluate_clicks(data, rows.y[:4], propensities=P)
    with pytest.raises(ValueError, match="confidence must be"):
        hr.evaluate_clicks(data, rows.y, propensities=P, confidence=95)
    with pytest.raises(ValueError, match="resamples must be"):
        hr.evaluate_clicks(data, rows.y, propensities=P, resamples=1)
    with pytest.raises(ValueError, match=r"clip=0\.2 is for estimator='clipped' or estimator='dr', not"):
        hr.evaluate_clicks(data, rows.y, propensities=P, clip=0.2)
