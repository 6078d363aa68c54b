"""Items by the items that a user took: the closed form against its own equations, and what it does with new items."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.baselines import Popularity
from hingerank.personal.item_item import STRENGTHS, scores_without


@pytest.fixture(scope="module")
def data():
    """Users of two tastes; items with a taste as a feature and a column of their own."""
    rng = np.random.default_rng(0)
    taste = np.arange(40) % 2
    X = np.column_stack([np.eye(2)[taste], np.eye(40)])
    users = np.repeat(np.arange(30), 6)
    items = np.concatenate([rng.permutation(np.arange(u % 2, 36, 2))[:6] for u in range(30)])  # the last 4 are new
    return X, users, items


@pytest.mark.parametrize("sparse", [False, True])
def test_the_weights_solve_each_items_regression(data, sparse):
    X, users, items = data
    ranker = hr.EASE(ridge=5.0, feature_weight=2.0).fit_clicks(sp.csr_matrix(X) if sparse else X, users, items)
    X, n = X[:36], 36  # nobody took the others
    T = np.zeros((30, n))
    T[users, items] = 1
    A = np.vstack([T, np.sqrt(2.0) * X.T])  # features as further users
    total = 0.0
    for j in range(n):
        others = np.delete(np.arange(n), j)
        M = A[:, others]
        expected = np.linalg.solve(M.T @ M + 5.0 * np.eye(n - 1), M.T @ A[:, j])
        np.testing.assert_allclose(ranker.weights_[others, j], expected, atol=1e-9)
        assert ranker.weights_[j, j] == 0
        total += np.sum((A[:, j] - M @ expected) ** 2) + 5.0 * np.sum(expected**2)
    assert ranker.objective_ == pytest.approx(total) and ranker.certificate_.converged
    scores = ranker.predict(3, sp.csr_matrix(X) if sparse else X)
    np.testing.assert_allclose(scores, T[3] @ ranker.weights_, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_items_that_nobody_took_are_ranked_by_their_features(data, sparse, tmp_path):
    X, users, items = data
    kind = sp.csr_matrix if sparse else np.asarray
    ranker = hr.EASE(ridge=5.0, feature_weight=2.0).fit_clicks(kind(X[:36]), users, items)
    T, F = np.zeros((30, 36)), X[:36, :2]  # columns of their own say nothing of others
    T[users, items] = 1
    ridge = ranker.new_strength_ * np.mean(np.sum(F**2, axis=1))
    expected = 0.7 * T @ ranker.weights_ @ F @ np.linalg.solve(F.T @ F + ridge * np.eye(2), X[36:, :2].T)
    found = np.array([ranker.predict(u, kind(X[36:])) for u in range(30)])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    even, odd = found[:, [0, 2]], found[:, [1, 3]]
    assert (even > odd)[::2].all() and (odd > even)[1::2].all()
    whole = hr.EASE(ridge=5.0, feature_weight=2.0).fit_clicks(kind(X), users, items)  # in the catalogue, but not taken
    np.testing.assert_allclose(whole.predict(4, kind(X)), ranker.predict(4, kind(X)))
    back = hr.load(ranker.save(tmp_path))
    np.testing.assert_array_equal(back.predict(4, kind(X)), ranker.predict(4, kind(X)))
    rows, values = ranker.top_k([0, 1], kind(X), 5, exclude=(users, items))
    np.testing.assert_allclose(values[0], ranker.predict(0, kind(X)[rows[0]]))
    for silent in (
        hr.EASE(feature_weight=0.0).fit_clicks(X, users, items),
        hr.EASE().fit_clicks(np.eye(40), users, items),
    ):
        features = X if silent.n_features_in_ == 42 else np.eye(40)
        assert (silent.predict(4, features[36:]) == 0).all()  # nothing is known of them


def test_items_are_held_back_as_if_they_had_never_been_there():
    rng = np.random.default_rng(2)
    T, F = sp.csr_matrix((rng.random((25, 15)) < 0.4).astype(float)), rng.standard_normal((15, 3))
    held, known = np.array([2, 7, 11]), np.delete(np.arange(15), [2, 7, 11])

    def inverse(T, F):
        return np.linalg.inv((T.T @ T).toarray() + 3.0 * F @ F.T + 5.0 * np.eye(len(F)))

    P = inverse(T[:, known], F[known])
    B = np.eye(12) - P / np.diag(P)
    np.testing.assert_allclose(scores_without(T, inverse(T, F), known, held), T[:, known] @ B, atol=1e-9)


@pytest.mark.parametrize("noise", [0, 30])
def test_lists_of_new_items_are_of_the_users_group_though_most_features_say_nothing(noise):
    rng, n = np.random.default_rng(3), 200
    group, users = np.arange(n) % 2, np.repeat(np.arange(300), 15)
    items = np.concatenate([rng.choice(np.flatnonzero(group == u % 2), 15, replace=False) for u in range(300)])
    X = np.hstack([np.eye(2)[group] + 0.3 * rng.standard_normal((n, 2)), rng.standard_normal((n, noise))])
    old = items < 160
    ranker = hr.EASE(ridge=20.0, feature_weight=0.1, scale=None).fit_clicks(X, users[old], items[old])
    rows = ranker.top_k(ranker.users_, X[160:])[0]
    right = (group[160:][rows] == (ranker.users_ % 2)[:, None]).mean()
    assert right > 0.9 and ranker.new_strength_ in STRENGTHS, right


def test_lists_are_better_than_those_of_popularity():
    rng = np.random.default_rng(1)
    groups, users = rng.integers(0, 5, 100), np.repeat(np.arange(200), 12)
    items = np.concatenate([
        rng.choice(100, 12, replace=False, p=(w := 1.0 + 20 * (groups == u % 5)) / w.sum()) for u in range(200)
    ])  # fmt: skip
    held = np.arange(len(users)) % 4 == 0
    train, test = (users[~held], items[~held]), (users[held], items[held])
    X = np.eye(100)
    found = [
        hr.evaluate_top(ranker, X, test, train).means["ndcg"]
        for ranker in (hr.EASE(ridge=20.0).fit_clicks(X, *train), Popularity().fit(X, *train))
    ]
    assert found[0] > 2 * found[1]


def test_what_does_not_count(data):
    X, users, items = data
    ranker = hr.EASE()
    plain = ranker.fit_clicks(X, users, items).predict(0, X)
    np.testing.assert_array_equal(ranker.fit(X, users, items, np.arange(len(users))).predict(0, X), plain)
    np.testing.assert_array_equal(ranker.fit_clicks(X, np.r_[users, users], np.r_[items, items]).predict(0, X), plain)
    assert not np.allclose(ranker.fit_clicks(X, users, items, sample_weight=1.0 + items).predict(0, X), plain)
    for wrong, words in (({"ridge": 0}, "ridge"), ({"feature_weight": -1}, "feature_weight")):
        with pytest.raises(ValueError, match=words):
            hr.EASE(**wrong).fit_clicks(X, users, items)
    with pytest.raises(ValueError, match="use fit_clicks"):
        ranker.fit_pairs(X, users, items, items)
    with pytest.raises(ValueError, match="leave eval_set out"):
        ranker.fit(X, users, items, items, eval_set=(users, items, items))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_items_are_known_whatever_the_form_of_their_features(make, dtype):
    """Rows in another form have other bits, also because dense and CSR columns are scaled with other roundings."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(1990.3, 10.7, 30), rng.random(30) < 0.3, rng.random((30, 4))]).astype(dtype)
    users, items = rng.integers(0, 40, 300), rng.integers(0, 30, 300)
    ranker = hr.EASE(ridge=10.0).fit_clicks(make(X), users, items)
    expected = ranker.top_k([3, 5], make(X), 30)
    for form in (np.asarray, sp.csr_matrix, sp.csc_matrix):
        rows, scores = ranker.top_k([3, 5], form(X), 30)
        np.testing.assert_array_equal(rows, expected[0])
        np.testing.assert_array_equal(scores, expected[1])
    known = Popularity().fit(make(X), users, items)
    np.testing.assert_array_equal(known.predict(None, X), known.predict(None, sp.csr_matrix(X)))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_rounded_features_are_those_of_new_items_and_a_warning_says_so(make):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 300), rng.integers(0, 30, 300)
    whole, parts = rng.integers(0, 90, (30, 4)).astype(float), rng.random((30, 4))
    ranker = hr.EASE(ridge=10.0).fit_clicks(make(parts), users, items)
    with pytest.warns(UserWarning, match="float32, and EASE learned from float64"):
        ranker.top_k([3], make(parts.astype(np.float32)), 5)
    ranker = hr.EASE(ridge=10.0).fit_clicks(make(whole), users, items)
    expected, found = (ranker.top_k([3, 5], make(whole.astype(dtype)), 30) for dtype in (np.float64, np.float32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [hr.EASE, hr.ListRanker])
def test_a_rating_of_weight_0_is_none(data, kind):
    X, users, items = data
    ratings, weight = np.arange(len(users)) % 5, np.where(items == 4, 0.0, 0.5)
    some = weight > 0
    found = kind(ridge=2.0).fit(X, users, items, ratings, sample_weight=weight)
    same = kind(ridge=2.0).fit(X, users[some], items[some], ratings[some], sample_weight=weight[some])
    assert np.array_equal(found.predict(3, X), same.predict(3, X)) and len(found.items_) == 35
    assert not (found._taken(X)[1] == 4).any()
    with pytest.raises(ValueError, match="0 for every"):
        kind().fit(X, users, items, ratings, sample_weight=0 * weight)


@pytest.mark.parametrize("kind", [hr.EASE, hr.ListRanker])
def test_an_unknown_user_gets_advice_that_applies(data, kind):
    X, users, items = data
    ranker = kind().fit(X, users, items, np.arange(len(users)) % 5)
    with pytest.raises(ValueError, match=r"user 77 is not known.*unknown='mean'"):
        ranker.top_k([77], X)
    assert not hasattr(ranker, "add_user")


def test_weights_that_hide_the_ridge_are_named(data):
    with pytest.raises(hr.DataError, match=r"ridge=300 is lost in sums of .* divide the weights or features"):
        hr.EASE().fit_clicks(*data, sample_weight=np.full(len(data[1]), 1e12))
