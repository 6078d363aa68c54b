"""Blends from clicks: every member learns from them, and so do scales and weights, on queries held out."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.distributed import read
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.winners import WinnersRanker
from hingerank.registry import RANKERS, ranker_class

P = 1.0 / np.arange(1, 9)
MEMBERS = [hr.RankSVM(C=1e-4), hr.AdditiveRankSVM(n_knots=4, C=1e-4)]


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(40, 8, n_features=5, n_grades=3, seed=4)
    return replace(made, docid=np.arange(made.n_rows), feature_names=tuple("abcde"))


@pytest.fixture(scope="module")
def data(rows):
    return hr.simulate_clicks(rows, [rows.X[:, 0], rows.X[:, 1]], sessions=3000, seed=1, counted=True).join(rows)


@pytest.mark.parametrize("weights", ["equal", "stack", "auto"])
def test_members_learn_from_clicks_and_grades_play_no_part(rows, data, weights, tmp_path):
    blend = hr.Blend(MEMBERS, weights).fit_clicks(data, propensities=P)
    blind = replace(data, data=replace(data.data, y=np.zeros(rows.n_rows)))
    again = hr.Blend(MEMBERS, weights).fit_clicks(blind, propensities=P)
    np.testing.assert_array_equal(blend.predict(rows), again.predict(rows))
    alone = hr.RankSVM(C=1e-4).fit_clicks(data, propensities=P)
    np.testing.assert_allclose(blend.members_[0].coef_, alone.coef_, rtol=1e-6)
    assert blend.out_of_fold_["measure"] == "dcg@10" and blend.score(rows) > 0.75
    assert blend.weights_.sum() == pytest.approx(1) and blend.n_pairs_ == alone.n_pairs_
    np.testing.assert_array_equal(hr.load(blend.save(tmp_path / "m")).predict(rows), blend.predict(rows))


def test_a_members_value_is_that_of_tune_on_the_same_folds(rows, data):
    """The mean over queries is in the units of `evaluate_clicks`, as it is when tune judges a fold."""
    blend = hr.Blend(MEMBERS, folds=2, measure="average-rank").fit_clicks(data, propensities=P)
    values = blend.out_of_fold_["values"]
    assert all(value < 0 for value, _ in values.values())  # less is better
    found = hr.evaluate_clicks(data, hr.RankSVM(C=1e-4).fit_clicks(data, propensities=P), propensities=P,
                               measure="average-rank")  # fmt: skip
    assert -values["rank-svm"][0] == pytest.approx(found.value, rel=0.1)


@pytest.mark.parametrize("name", [name for name in RANKERS if issubclass(ranker_class(name), BaseRanker)])
def test_members_that_do_not_learn_from_clicks_are_named_before_any_fit(name, data, monkeypatch):
    kind = ranker_class(name)
    if issubclass(kind, WinnersRanker):
        return
    monkeypatch.setattr(hr.RankSVM, "fit_winners", lambda *given: pytest.fail("a fit"))
    with pytest.raises(
        ValueError, match=f"{kind.__name__} does not learn from clicks: rankers with a loss of pairs do"
    ):
        hr.Blend([hr.RankSVM(), kind()]).fit_clicks(data, propensities=P)


GRID = {"C": [1e-4, 1e-3], "scale": "standard"}


def test_tune_blends_what_it_chose_from_clicks(rows, data, monkeypatch):
    fits, usual = [], hr.RankSVM.fit_winners

    def fit(self, X, *more, **how):
        fits.append(X.n_rows)
        return usual(self, X, *more, **how)

    monkeypatch.setattr(hr.RankSVM, "fit_winners", fit)
    rankers = ["rank-svm", hr.AdditiveRankSVM(n_knots=4)]
    blend = hr.tune(rankers, data, propensities=P, folds=2, params=GRID, widen=False, blend=True)
    settings = sum(trial.ranker == "rank-svm" for trial in blend.tuning_.trials)
    assert sum(fits) == (settings + 1) * rows.n_rows  # over two folds a half each, and the last fit
    assert blend.out_of_fold_["measure"] == blend.tuning_.measure == "dcg@10"
    alone = hr.RankSVM(**blend.tuning_.members["rank-svm"]).fit_clicks(data, propensities=P)
    np.testing.assert_allclose(blend.members_[0].coef_, alone.coef_, rtol=1e-6)
    assert blend.n_pairs_ == alone.n_pairs_ and blend.score(rows) > 0.75
    other = hr.tune(rankers, data, propensities=P, validation=data, params=GRID, widen=False, blend=True)
    assert other.tuning_.folds == 1 and other.score(rows) > 0.75


def test_tuned_members_stay_near_the_weights_given(data):
    centre = np.array([9.0, 0.0, 0.0, 0.0, 0.0])
    lines = [hr.RankSVM(C=1e-9), hr.RankSVM(C=1e-8)]
    blend = hr.tune(lines, data, propensities=P, around=centre, folds=2, params={"C": [1e-9]}, widen=False, blend=True)
    np.testing.assert_allclose(blend.members_[0].coef_, centre, atol=1e-3)


def test_a_blend_is_judged_by_clicks_as_its_members_are(data):
    """Two times the same ranker: the blend's value of every fold is the ranker's."""
    same = hr.RankSVM(C=1e-4)
    blend = hr.tune([same, same], data, propensities=P, folds=3, params={"C": [1e-4], "scale": "standard"},
                    widen=False, blend=True, measure="average-rank")  # fmt: skip
    best = max(blend.tuning_.trials[:-1], key=lambda trial: trial.mean)
    assert blend.tuning_.chosen.scores == pytest.approx(best.scores)


def test_what_a_blend_of_clicks_cannot_do_is_said(rows, data):
    with pytest.raises(ValueError, match="LightGBMRanker does not learn from clicks"):
        hr.tune(["rank-svm", "lightgbm"], data, propensities=P, blend=True)
    with pytest.raises(ValueError, match="'map' is no measure of clicks"):
        hr.Blend(MEMBERS, measure="map").fit_clicks(data, propensities=P)
    with pytest.raises(ValueError, match="AdditiveRankSVM with these parameters is not"):
        hr.Blend(MEMBERS).fit_clicks(data, propensities=P, around=np.zeros(5))
    none = replace(data, clicks=np.zeros_like(data.clicks))
    with pytest.raises(hr.DataError, match="no clicks to learn from"):
        hr.Blend(MEMBERS).fit_clicks(none, propensities=P)


def test_rows_in_parts_are_refused_in_words(rows, tmp_path):
    hr.write(rows, tmp_path / "rows.txt")
    parts = read([tmp_path / "rows.txt"], parts=2)
    with pytest.raises(ValueError, match="parts"):
        hr.Blend(MEMBERS).fit(parts)
    with pytest.raises(ValueError, match="scores of all rows in one place"):
        hr.tune(["rank-svm", "additive-rank-svm"], parts, blend=True)
