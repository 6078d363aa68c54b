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


def test_what_a_blend_of_clicks_cannot_do_is_said(rows, data):
    with pytest.raises(ValueError, match=r"fit_clicks\(data\)"):
        hr.tune(["rank-svm", "additive-rank-svm"], data, propensities=P, blend=True)
    with pytest.raises(ValueError, match="no measure 'map' of clicks"):
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
