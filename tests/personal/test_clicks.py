"""Clicks alone: what is drawn, and that taste is found."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.clicks import clicks_of, draw_losers, drawn_preferences


def test_clicks_count_once_and_by_user():
    clicks = clicks_of(["b", "a", "b", "b", "a"], [3, 1, 0, 3, 2], 5)
    assert clicks.users.tolist() == ["b", "a"] and clicks.start.tolist() == [0, 2, 4]
    assert clicks.items.tolist() == [0, 3, 1, 2] and clicks.code.tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="empty"):
        clicks_of([], np.empty(0, int), 5)
    with pytest.raises(DataError, match="user 'a' took every item"):
        clicks_of(["a", "a"], [0, 1], 2)


@pytest.mark.parametrize("how", ["uniform", "popularity"])
def test_losers_were_not_taken_and_follow_the_chances(how):
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(200), 10)
    items = np.concatenate([rng.choice(50, 10, replace=False, p=np.arange(1, 51) / 1275) for _ in range(200)])
    clicks = clicks_of(users, items, 50)
    taken = set(zip(clicks.code.tolist(), clicks.items.tolist()))
    u, j = draw_losers(clicks, 1.0, 1, how, rng)
    assert not taken & set(zip(u.tolist(), j.tolist())) and len(set(zip(u.tolist(), j.tolist()))) == len(u)
    assert np.bincount(u, minlength=200).max() <= 10
    late = (j >= 25).mean()  # the popular half: of what is left after the clicks, fewer
    assert late < 0.55 if how == "uniform" else late > 0.58
    again = draw_losers(clicks, 1.0, 1, how, rng)
    assert len(again[0]) != len(u) or (again[1] != j).any()


def test_every_click_beats_every_item_drawn():
    clicks = clicks_of([0, 0, 1], [0, 1, 2], 4)
    p = drawn_preferences(clicks, 100.0, 1, "uniform", np.random.default_rng(0), "uniform")
    assert p.pairs.tolist() == [4.0, 3.0]  # 2 clicks x 2 others, 1 click x 3 others


@pytest.mark.slow
def test_taste_is_found(tmp_path):
    rng = np.random.default_rng(1)
    X = np.vstack([np.eye(2)[c % 2] for c in range(60)]) + 0.1 * rng.standard_normal((60, 2))
    users = np.repeat(np.arange(40), 8)
    items = np.concatenate([rng.permutation(np.arange(u % 2, 60, 2))[:8] for u in range(40)])
    ranker = hr.PersonalRankSVM(rank=2).fit_clicks(X, users, items, n_draws=3, per_click=2)
    assert ranker.certificate_.converged and ranker.users_.tolist() == list(range(40))
    best = ranker.top_k(range(40), X, 5, exclude=(users, items))[0]
    assert (best % 2 == np.arange(40)[:, None] % 2).mean() > 0.95
    same = hr.PersonalRankSVM(rank=2).fit_clicks(X, users, items, n_draws=3, per_click=2)
    np.testing.assert_array_equal(same.user_weights_, ranker.user_weights_)
    assert hr.load(ranker.save(tmp_path)).predict(3, X).tolist() == ranker.predict(3, X).tolist()
    with pytest.raises(ValueError, match="negatives"):
        hr.PersonalRankSVM().fit_clicks(X, users, items, negatives="hard")
    with pytest.raises(ValueError, match="per_click"):
        hr.PersonalRankSVM().fit_clicks(X, users, items, per_click=0)
    with pytest.warns(UserWarning, match="fit_clicks"):
        hr.PersonalRankSVM(rank=2).fit(X, users, items, np.ones(len(items)))


def test_weights_of_clicks():
    clicks = clicks_of(["b", "a", "b", "b", "a"], [3, 1, 0, 3, 2], 5, [1.0, 2.0, 0.0, 0.5, 1.0])
    assert clicks.items.tolist() == [3, 1, 2] and clicks.table.data.tolist() == [1.5, 2.0, 1.0]
    told = drawn_preferences(clicks, 1.0, 3, "uniform", np.random.default_rng(0), "uniform")
    taken = np.isin(told.item, [3, 1, 2]) & (told.known.grade > 0)
    assert sorted(told.known.weight[taken]) == [1.0, 1.5, 2.0] and (told.known.weight[~taken] == 1).all()
    X, users, items = np.eye(6), np.repeat([0, 1, 2, 3], 3), np.array([0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5])
    ranker = hr.PersonalRankSVM(rank=2, C=0.1)
    plain, weighed = (
        ranker.fit_clicks(X, users, items, **w).predict(0, X) for w in ({}, {"sample_weight": np.ones(12)})
    )
    np.testing.assert_allclose(weighed, plain)
    assert not np.allclose(ranker.fit_clicks(X, users, items, sample_weight=1.0 + items).predict(0, X), plain)
    with pytest.raises(DataError, match="0 for every click"):
        ranker.fit_clicks(X, users, items, sample_weight=np.zeros(12))
    with pytest.raises(DataError, match="12 finite numbers that are not negative, one for each click"):
        ranker.fit_clicks(X, users, items, sample_weight=np.ones(3))
