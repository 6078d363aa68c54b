"""PersonalRankSVM with a function that all users share besides: w_u = w + U v_u."""

import itertools

import numpy as np
import pytest

import hingerank as hr

SETTINGS = {"rank": 2, "C": 0.05, "tol": 1e-6, "max_iter": 500, "scale": None}


@pytest.fixture(scope="module")
def data():
    """Users that agree on one function and differ by another."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    users, items = np.repeat(np.arange(20), 12), np.concatenate([rng.permutation(60)[:12] for _ in range(20)])
    own = np.where(users % 2 == 0, 1.0, -1.0)
    ratings = np.round(X[items, 0] + 0.7 * own * X[items, 1] + 0.2 * rng.standard_normal(240), 1)
    return X, users, items, ratings


@pytest.fixture(scope="module")
def ranker(data):
    return hr.PersonalRankSVM(shared=True, prior="zero", **SETTINGS).fit(*data)


def objective(w, U, V, data, C):
    X, users, items, ratings = data
    total = 0.5 * (np.sum(w**2) + np.sum(U**2) + np.sum(V**2))
    for u in range(20):
        s, y = X[items[users == u]] @ (w + U @ V[u]), ratings[users == u]
        margins = s[:, None] - s[None, :]
        total += C * np.sum(np.maximum(0, 1 - margins)[y[:, None] > y[None, :]] ** 2)
    return total


def test_the_objective_is_that_of_all_pairs_and_flat(ranker, data):
    parts = [ranker.coef_, ranker.basis_, ranker.user_weights_]
    value = objective(*parts, data, 0.05)
    assert ranker.objective_ == pytest.approx(value, rel=1e-6)
    rng = np.random.default_rng(1)
    for place in range(3):
        way = rng.standard_normal(parts[place].shape)
        ends = []
        for step in (1e-4, -1e-4):
            moved = list(parts)
            moved[place] = parts[place] + step * way
            ends.append(objective(*moved, data, 0.05))
        assert abs(ends[0] - ends[1]) / 2e-4 < 1e-3 * value


def test_it_is_no_worse_than_one_function_for_all(ranker, data):
    joint = hr.JointRanker(C=0.05, tol=1e-8, scale=None).fit(*data)
    assert ranker.objective_ < joint.objective_
    values = [entry["value"] for entry in ranker.trace_]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(values))


def test_scores_are_the_shared_ones_and_ones_own(ranker, data):
    X = data[0]
    expected = X @ (ranker.coef_ + ranker.basis_ @ ranker.user_weights_[3])
    assert np.allclose(ranker.predict(3, X), expected)
    assert ranker.rank(3, X, top=4).tolist() == np.argsort(-expected)[:4].tolist()
    assert ranker.top_k([3], X, top=4)[0][0].tolist() == np.argsort(-expected)[:4].tolist()
    assert ranker.basis_.shape == (5, 2) and ranker.user_weights_.shape == (20, 2) and ranker.coef_.shape == (5,)


def test_a_user_added_with_a_users_data_gets_its_weights(ranker, data, tmp_path):
    X, users, items, ratings = data
    ranker.save(tmp_path / "model")
    again = hr.load(tmp_path / "model")
    assert np.array_equal(again.predict(users, X[items]), ranker.predict(users, X[items]))
    own = users == 7
    assert np.allclose(again.add_user("new", X[items[own]], ratings[own]), ranker.user_weights_[7], atol=1e-3)
    again.cold_users = "zero"
    again.add_user("silent", X[:1], [3.0])
    assert np.allclose(again.predict("silent", X), X @ ranker.coef_)


def test_without_it_there_is_no_such_function(data):
    plain = hr.PersonalRankSVM(**SETTINGS).fit(*data)
    assert not hasattr(plain, "coef_")
    assert np.allclose(plain.predict(3, data[0]), data[0] @ plain.basis_ @ plain.user_weights_[3])


def test_a_fit_without_it_forgets_it(tmp_path):
    X, users, items, y = np.eye(4), [0, 0, 1, 1], [0, 1, 2, 3], [1, 0, 0, 1]
    ranker = hr.PersonalRankSVM(rank=1, shared=True).fit(X, users, items, y)
    ranker.set_params(shared=False).fit(X, users, items, y)
    assert not hasattr(ranker, "coef_")
    ranker.set_params(shared=True)
    with pytest.raises(ValueError, match="coef_"):
        hr.load(ranker.save(tmp_path))


def test_a_rating_is_not_measured_against_another_of_the_same_item(ranker, data):
    """Pairs are counted by subtraction, so a rating in both parts made the share of right pairs 4.3, 11 or -2."""
    X, *ratings = data
    train, test = ([part[:180] for part in ratings], [part[180:] for part in ratings])
    assert 0 <= ranker.score(X, *test, against=train) <= 1
    again = [np.append(part, part[0]) for part in train]  # a rating twice in one part is no such case
    assert ranker.score(X, *test, against=again) == ranker.score(X, *test, against=train)
    both = [part[170:] for part in ratings]
    with pytest.raises(hr.DataError, match="10 ratings of against are of items that the same user rated"):
        ranker.score(X, *both, against=train)
    with pytest.raises(hr.DataError, match="10 ratings of eval_set"):
        hr.PersonalRankSVM(rank=2).fit(X, *train, eval_set=both)


def test_how_much_users_share_is_a_question_for_another_ranker(data):
    with pytest.raises(ValueError, match=r"shared must be True or False, not 10\.0"):
        hr.PersonalRankSVM(shared=10.0, **SETTINGS).fit(*data)
