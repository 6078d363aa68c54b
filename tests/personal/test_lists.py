"""Lists from ratings: what is chosen times what is liked, and the baseline of similar items."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.personal.baselines import ItemKNN, Popularity
from hingerank.personal.lists import MIXES, USUAL


@pytest.fixture(scope="module")
def rated():
    """Users choose among items of their group, and like those of a high quality, which popularity does not show."""
    rng = np.random.default_rng(0)
    n, groups, quality = 80, np.arange(80) % 4, rng.standard_normal(80)
    users = np.repeat(np.arange(120), 16)
    items = np.concatenate([
        rng.choice(n, 16, replace=False, p=(w := 0.3 + 10.0 * (groups == u % 4)) / w.sum()) for u in range(120)
    ])  # fmt: skip
    ratings = np.clip(np.round(3 + quality[items] + 0.4 * rng.standard_normal(len(items))), 1, 5)
    held = np.arange(len(users)) % 4 == 0
    return np.eye(n), *((users[part], items[part], ratings[part]) for part in (~held, held))


def ndcg(ranker, X, train, test):
    return hr.evaluate_top(ranker, X, test, train, top=5, relevant=4).means["ndcg"]


def test_lists_need_what_is_chosen_and_what_is_liked(rated, tmp_path):
    X, train, test = rated
    both = hr.ListRanker(ridge=20.0, rank=3).fit(X, *train)
    chosen, liked = hr.EASE(ridge=20.0).fit(X, *train), hr.PersonalRankSVM(rank=3).fit(X, *train)
    found = {name: ndcg(r, X, train, test) for name, r in (("both", both), ("chosen", chosen), ("liked", liked))}
    assert found["both"] > max(found["chosen"], found["liked"]) + 0.05, found
    assert found["both"] > max(ndcg(base.fit(X, *train[:2]), X, train, test) for base in (Popularity(), ItemKNN()))
    assert both.mix_ in MIXES[1:]
    back = hr.load(both.save(tmp_path))
    np.testing.assert_array_equal(back.predict(3, X), both.predict(3, X))
    rows, values = both.top_k([3], X, 4, exclude=train[:2])
    np.testing.assert_allclose(both.predict(3, X[rows[0]]), values[0])
    _, own, vectors = both._vectors(X)
    np.testing.assert_allclose(own[3] @ vectors.T, both.predict(both.users_[3], X))


def test_the_mix_may_be_given(rated):
    X, train, _ = rated
    chosen = hr.EASE(ridge=20.0).fit(X, *train).predict(3, X)
    np.testing.assert_allclose(hr.ListRanker(ridge=20.0, mix=0).fit(X, *train).predict(3, X), chosen)
    one, two = (hr.ListRanker(ridge=20.0, rank=2, mix=mix).fit(X, *train).predict(3, X) for mix in (1.0, 2.0))
    np.testing.assert_allclose(two - chosen, 2 * (one - chosen), atol=1e-9)
    assert (one - chosen).std() == pytest.approx(chosen.std(), rel=1.0)  # on one scale, about
    few = train[0] < 10
    assert hr.ListRanker(rank=2).fit(X, *(column[few] for column in train)).mix_ == USUAL
    for call, words in (
        (lambda: hr.ListRanker(mix=-1).fit(X, *train), "mix must be a number of at least 0"),
        (lambda: hr.ListRanker().fit_clicks(X, *train[:2]), "use EASE"),
        (lambda: hr.ListRanker().fit(X, *train, eval_set=train), "leave eval_set out"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_similar_items_are_those_of_the_same_users():
    users, items = [1, 1, 2, 2, 3, 3, 4], [0, 1, 0, 1, 2, 3, 2]
    knn = ItemKNN(neighbours=2, shrink=0.0).fit(np.eye(5), users, items)
    rows, values = knn.top_k([4, 1, 9], np.eye(5), 2, exclude=([4, 1, 1], [2, 0, 1]))
    assert rows[0, 0] == 3 and values[0, 0] == pytest.approx(1 / np.sqrt(2)) and not set(rows[1]) & {0, 1}
    assert (values[2] == 0).all()


def test_similar_items_do_not_depend_on_the_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 300), rng.integers(0, 25, 300)
    T = np.zeros((30, 25))
    T[users, items] = 1.0
    together, own = T.T @ T, np.sqrt(T.sum(axis=0))
    S = together / (np.outer(own, own) + 10.0)
    np.fill_diagonal(S, 0.0)
    S[np.sort(S, axis=1)[:, -4, None] > S] = 0.0
    for at_once in (25, 70, 1000):
        monkeypatch.setattr("hingerank.personal.baselines.SCORES_AT_ONCE", at_once)
        knn = ItemKNN(neighbours=4).fit(np.eye(25), users, items)
        np.testing.assert_allclose(knn.predict(7, np.eye(25)), S @ T[7], rtol=1e-12)


def test_a_fit_whose_lists_are_worse_than_popularity_warns():
    """Users who all choose by popularity, a few times each, cannot be told apart."""
    rng = np.random.default_rng(0)
    chance = 1.0 / np.arange(1, 201)
    users = np.repeat(np.arange(150), 6)
    items = np.concatenate([rng.choice(200, 6, replace=False, p=chance / chance.sum()) for _ in range(150)])
    ratings = rng.integers(1, 6, len(items))
    with pytest.warns(UserWarning, match="lists by popularity alone are better on held-out ratings"):
        hr.ListRanker(rank=2, C=0.1).fit(np.eye(200), users, items, ratings)


def test_weights_count_in_both_parts(rated):
    X, train, _ = rated
    weight = np.where(train[0] % 2 == 0, 1.0, 0.25)
    found = hr.ListRanker(ridge=20.0, mix=0).fit(X, *train, sample_weight=weight)
    expected = hr.EASE(ridge=20.0).fit_clicks(X, *train[:2], sample_weight=weight)
    np.testing.assert_allclose(found.predict(3, X), expected.predict(3, X))
