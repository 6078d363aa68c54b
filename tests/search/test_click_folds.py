"""tune from clicks: settings are chosen by held-out queries' clicks, and nothing sees a grade."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.rankers.corrections import click_weights

P = 1.0 / np.arange(1, 9)


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(60, 8, n_features=5, n_grades=3, seed=4)
    return replace(made, docid=np.arange(made.n_rows), feature_names=tuple("abcde"))


@pytest.fixture(scope="module")
def data(rows):
    return hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=5000, seed=1, counted=True).join(rows)


QUICK = {"scale": None, "context": None, "loss": "squared_hinge", "pair_weight": "uniform"}


def test_the_best_of_the_folds_is_fitted_on_all_clicks(rows, data):
    ranker = hr.tune(
        "rank-svm", data, propensities=P, correction="clipped", params={"C": [1e-6, 1e-3], **QUICK}, widen=False
    )
    again = hr.RankSVM(C=ranker.C).fit_clicks(data, propensities=P, correction="clipped")
    np.testing.assert_allclose(ranker.coef_, again.coef_)
    assert ranker.tuning_.measure == "dcg@10" and len(ranker.tuning_.chosen.scores) == 5


def test_grades_play_no_part(rows, data):
    blind = replace(data, data=replace(data.data, y=np.zeros(rows.n_rows)))
    how = {"propensities": P, "params": {"C": [1e-5, 1e-3], **QUICK}}
    one, other = (hr.tune("rank-svm", each, **how) for each in (data, blind))
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_a_folds_value_is_the_counterfactual_one(rows, data):
    """With one validation set: what evaluate_clicks says of it."""
    ids = rows.blocks.ids.tolist()
    learn, judge = data.subset(ids[:40]), data.subset(ids[40:])
    ranker = hr.tune("rank-svm", learn, validation=judge, propensities=P, measure="dcg@3", params={"C": 1e-4, **QUICK})
    first = hr.RankSVM(C=1e-4, tol=1e-2).fit_clicks(learn, propensities=P)
    found = hr.evaluate_clicks(judge, first, propensities=P, measure="dcg@3")
    assert ranker.tuning_.chosen.mean == pytest.approx(found.value, rel=1e-6)
    least = hr.tune(
        "rank-svm", learn, validation=judge, propensities=P, measure="average-rank", params={"C": 1e-4, **QUICK}
    )
    assert least.tuning_.chosen.mean < 0


def test_the_usual_C_falls_with_the_number_of_clicks(rows):
    """C multiplies a sum over clicks: the grid follows their weight, so that more sessions need no wider one."""
    found = []
    for sessions in (10**3, 10**6):
        log = hr.simulate_clicks(rows, rows.X[:, 0], sessions=sessions, seed=1, counted=True)
        found.append(hr.tune("rank-svm", log.join(rows), propensities=P, params=QUICK, widen=False, folds=2))
    Cs = [sorted(trial.setting["C"] for trial in ranker.tuning_.trials) for ranker in found]
    np.testing.assert_allclose(np.array(Cs[0]) / np.array(Cs[1]), 1000, rtol=1e-9)
    weight = click_weights(log.join(rows), P)
    assert 1e-2 < Cs[1][-1] * weight[weight > 0].mean() < 10
    assert len(set(Cs[1])) == 5


def test_around_the_ranker_in_production(rows, data):
    production = hr.RankSVM(scale="standard").fit(rows)
    params = {"C": [1e-9], "scale": "standard", "loss": "squared_hinge", "pair_weight": "uniform"}
    near = hr.tune("rank-svm", data, propensities=P, around=production, params=params, widen=False)
    np.testing.assert_allclose(near.coef_, production.coef_, atol=1e-3)


def test_nothing_is_tuned_without_clicks(data):
    """All settings had the value 0, and the first of them was fitted."""
    with pytest.raises(hr.DataError, match="no clicks to learn from"):
        hr.tune("rank-svm", replace(data, clicks=np.zeros(len(data))), propensities=P, params=QUICK)


def test_what_is_refused(rows, data):
    with pytest.raises(ValueError, match="LightGBMRanker does not learn from clicks"):
        hr.tune("lightgbm", data, propensities=P)
    with pytest.raises(ValueError, match="propensities is only for clicks"):
        hr.tune("rank-svm", rows, propensities=P)
    with pytest.raises(ValueError, match="'ndcg@10' is no measure of clicks"):
        hr.tune("rank-svm", data, propensities=P, measure="ndcg@10")
    with pytest.raises(ValueError, match="validation must be clicks"):
        hr.tune("rank-svm", data, propensities=P, validation=rows)
    with pytest.raises(ValueError, match="the log itself has none"):
        hr.tune("rank-svm", data)
