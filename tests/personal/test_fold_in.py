"""New users are drawn from the fitted ones: the optimum against another solver, the limits, and that ratings help."""

import numpy as np
import pytest
from scipy.optimize import minimize

import hingerank as hr
from hingerank.personal.alternating import LocalUsers, first_gradient_norm
from hingerank.personal.convex import pair_distances
from hingerank.personal.fold_in import Prior, fold_in, learn_strength, spread_of_users
from hingerank.personal.preferences import from_comparisons, from_ratings

rng = np.random.default_rng(5)


def brute(z, Q, fixed, y, strength):
    """½‖z‖² + strength · min(1, n/20) n/|P| · sum over listed pairs."""
    s = Q @ z + fixed
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    strength *= min(1.0, len(y) / 20)
    return 0.5 * z @ z + strength * len(y) / len(pairs) * sum(max(0.0, 1 - s[i] + s[j]) ** 2 for i, j in pairs)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("strength", [0.01, 3.0])
def test_the_optimum_is_that_of_a_plain_solver(shared, strength):
    P, mean, root = rng.standard_normal((9, 3)), rng.standard_normal(3), rng.standard_normal((3, 3))
    w = rng.standard_normal(9) if shared else None
    items, y = np.array([4, 1, 7, 0, 3]), np.array([2.0, 5.0, 2.0, 1.0, 4.0])
    found = fold_in(P, w, from_ratings(np.zeros(5, int), items, y, 9), Prior(mean, root, strength))[0]
    fixed = P[items] @ mean + (0 if w is None else w[items])
    best = minimize(brute, np.zeros(3), (P[items] @ root, fixed, y, strength), tol=1e-14)
    np.testing.assert_allclose(found, mean + root @ best.x, atol=1e-5)


def test_what_says_nothing_leaves_the_mean_user():
    P, mean, root = rng.standard_normal((6, 2)), rng.standard_normal(2), rng.standard_normal((2, 2))
    P[3] = P[0]
    told = [([0, 1, 2], [3, 3, 3]), ([0], [5]), ([0, 3], [1, 5])]  # equal ratings, one rating, equal items
    for items, ratings in told:
        p = from_ratings(np.zeros(len(items), int), np.array(items), np.array(ratings), 6)
        np.testing.assert_allclose(fold_in(P, None, p, Prior(mean, root, 1.0))[0], mean)
    p = from_ratings([0, 0], np.array([0, 1]), np.array([1, 2]), 6)
    np.testing.assert_allclose(fold_in(P, None, p, Prior(mean, root, 0.0))[0], mean)


def test_the_spread_does_not_mind_the_scale_of_features():
    V, P, item = rng.standard_normal((50, 3)), rng.standard_normal((20, 3)), rng.integers(0, 20, 200)
    mean, root = spread_of_users(V, P, item)
    again = spread_of_users(V, 1000 * P, item)[1]
    np.testing.assert_allclose(1000 * again @ again.T, root @ root.T / 1000)
    np.testing.assert_allclose(mean, V.mean(axis=0))
    shares = np.linalg.eigvalsh(root @ root.T) / np.trace(root @ root.T)
    wanted = np.linalg.eigvalsh(np.cov(V.T)) / np.trace(np.cov(V.T))
    np.testing.assert_allclose(shares, 50 / 53 * wanted + 3 / 53 / 3)
    nobody, flat = spread_of_users(V[:1], P, item)
    assert np.array_equal(nobody, V[0]) and not flat.any()


def test_the_strength_follows_how_much_ratings_tell():
    n_users, P = 200, rng.standard_normal((60, 2))
    users, items = np.repeat(np.arange(n_users), 30), np.concatenate([rng.permutation(60)[:30] for _ in range(n_users)])
    V = rng.standard_normal((n_users, 2)) + 2.0
    mean, root = spread_of_users(V, P, items)
    scores = np.einsum("rc,rc->r", P[items], V[users])
    clear = learn_strength(P, None, from_ratings(users, items, np.round(2 * scores), 60), mean, root, from_ratings)
    same = np.round(2 * (P @ mean))[items]  # everybody is the mean user, with noise
    noise = same + rng.integers(-3, 4, len(same))
    dull = learn_strength(P, None, from_ratings(users, items, noise, 60), mean, root, from_ratings)
    assert clear > dull


def test_a_new_user_does_not_get_worse_by_telling():
    data = hr.make_personal(250, 300, 20, 5, kind="ratings", per_user=60, noise=1.0, seed=4)
    X, truth, old = data.item_features, data.truth, data.users < 200
    truth.V[:] += 0.8  # users agree on something
    scores = truth.item_scores(data.users, data.items, X)
    y = np.digitize(scores + 8 * rng.standard_normal(len(scores)), np.quantile(scores, [0.2, 0.4, 0.6, 0.8]))
    ranker = hr.PersonalRankSVM(rank=5).fit(X, data.users[old], data.items[old], y[old])
    assert ranker.prior_strength_ > 0
    users, items, y = data.users[~old], data.items[~old], y[~old]
    place = np.tile(np.arange(60), 50)
    accuracy = {}
    for n in (0, 2, 5, 20):
        told = place < n if n else place < 2
        values = y[told] if n else np.ones(told.sum())
        ranker.add_users(users[told], X, items[told], values, replace=True)
        accuracy[n] = ranker.score(X, users[place >= 20], items[place >= 20], y[place >= 20])
    assert accuracy[2] >= accuracy[0] - 0.002 and accuracy[5] > accuracy[0] and accuracy[20] > accuracy[5]


def test_an_old_file_adds_users_as_it_did(tmp_path):
    """A model file of version 0.1 has neither C_ nor a prior."""
    X, users, items = rng.standard_normal((8, 3)), np.repeat([1, 2, 3], 4), np.tile(np.arange(8), 2)[:12]
    y = np.array([1, 2, 3, 4, 4, 3, 2, 1, 1, 3, 2, 4])
    ranker = hr.PersonalRankSVM(rank=2, C=0.5, prior="zero").fit(X, users, items, y)
    state = {name: v for name, v in ranker._state().items() if name != "C_" and not name.startswith("prior")}
    old = hr.PersonalRankSVM(rank=2, C=0.5)
    old._restore(state)
    np.testing.assert_array_equal(old.add_user("x", X[:3], [1, 2, 3]), ranker.add_user("x", X[:3], [1, 2, 3]))
    back = hr.load(old.save(tmp_path))
    assert back.C_ == 0.5 and back.prior_mean_ is None


def test_prior_may_be_given(tmp_path):
    data = hr.make_personal(30, 40, 6, 2, kind="ratings", per_user=15, seed=0)
    given = data.item_features, data.users, data.items, data.ratings
    still = hr.PersonalRankSVM(rank=2, prior=0).fit(*given)
    np.testing.assert_allclose(still.add_user("x", data.item_features[:4], [1, 2, 3, 4]), still.prior_mean_)
    ranker = hr.PersonalRankSVM(rank=2, prior=5.0).fit(*given)
    back = hr.load(ranker.save(tmp_path))
    same = [r.add_user("x", data.item_features[:4], [1, 2, 3, 4]) for r in (ranker, back)]
    np.testing.assert_array_equal(*same)
    assert np.linalg.norm(same[0] - ranker.prior_mean_) > 1e-3
    for bad in (-1.0, "mean", True, np.inf):
        with pytest.raises(ValueError, match="prior"):
            hr.PersonalRankSVM(prior=bad).fit(*given)


class TestNaturalC:
    def test_first_gradient_is_that_of_listed_pairs(self):
        users, items, y = [0, 0, 0, 1, 1], [0, 1, 2, 1, 3], [3, 1, 1, 2, 5]
        p = from_ratings(users, items, y, 4)
        assert LocalUsers(np.eye(4), p).first.toarray().tolist() == [[-4, 2, 2, 0], [0, 2, 0, -2]]
        compared = from_comparisons([0, 0], [0, 1], [1, 2], 3)
        assert LocalUsers(np.eye(3), compared).first.toarray().tolist() == [[-2.0, 0.0, 2.0]]

    def test_norm_is_that_of_the_matrix(self):
        X, n = rng.standard_normal((12, 5)), 40
        users, items, y = rng.integers(0, 6, n), rng.integers(0, 12, n), rng.integers(1, 6, n)
        p = from_ratings(users, items, y, 12)
        found = LocalUsers(X, p)
        norm = np.linalg.norm(found.first @ X, 2)
        assert first_gradient_norm(X.shape[1], found.power, 200) == pytest.approx(norm, rel=1e-6)
        assert first_gradient_norm(X.shape[1], found.power) == pytest.approx(norm, rel=0.05)

    @pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
    def test_below_the_first_c_nothing_is_learnt(self):
        data = hr.make_personal(20, 30, 5, 2, kind="ratings", per_user=12, seed=1)
        given = data.item_features, data.users, data.items, data.ratings
        power = LocalUsers(data.item_features, from_ratings(*given[1:], 30)).power
        norm = first_gradient_norm(data.item_features.shape[1], power, 200)
        for factor, learnt in ((0.9, False), (1.5, True)):
            ranker = hr.PersonalRankSVM(rank=5, C=factor / norm, tol=1e-9, max_iter=2000, scale=None).fit(*given)
            W = ranker.basis_ @ ranker.user_weights_.T
            assert (np.abs(W).max() > 1e-2) == learnt, factor

    @pytest.mark.parametrize("name", ["PersonalRankSVM", "JointRanker", "SeparateRanker", "MeanVarianceRanker"])
    def test_the_default_follows_the_features_scale(self, name):
        data = hr.make_personal(30, 40, 6, 2, kind="ratings", per_user=12, noise=0.5, seed=2)
        X, *told = data.item_features, data.users, data.items, data.ratings
        ranker, far = getattr(hr, name)(tol=1e-6).fit(X, *told), getattr(hr, name)(tol=1e-6).fit(1000 * X, *told)
        np.testing.assert_allclose(far.predict(3, 1000 * X), ranker.predict(3, X), rtol=0.05, atol=0.02)
        assert getattr(hr, name)(C=0.25).fit(X, *told).C_ == 0.25

    def test_distances_of_pairs(self):
        X = rng.standard_normal((5, 3))
        p = from_ratings([0] * 5, np.arange(5), [1, 2, 3, 4, 5], 5)
        wanted = sum(np.sum((X[i] - X[j]) ** 2) for i in range(5) for j in range(i))
        # over pairs of different items the mean squared distance is twice the variance times n / (n - 1)
        assert pair_distances(X, p) == pytest.approx(wanted * 4 / 5)
        assert pair_distances(np.ones((5, 3)), p) == 1.0


@pytest.mark.parametrize("shared", [False, True])
def test_plain_python_finds_the_same_user(shared):
    from hingerank.personal.serving import new_user

    data = hr.make_personal(30, 40, 6, 2, kind="ratings", per_user=15, seed=0)
    X = data.item_features
    ranker = hr.PersonalRankSVM(rank=2, prior=0.5, shared=shared).fit(X, data.users, data.items, data.ratings)
    vectors = ranker._vectors(X)[2]
    for y in ([5, 1, 3, 3], [2, 2, 2, 2]):
        found = new_user(ranker.new_users(), vectors[[3, 8, 9, 20]].tolist(), y)
        weights = ranker.add_user(f"new {y}", X[[3, 8, 9, 20]], y)
        np.testing.assert_allclose(found[:2], weights, atol=1e-5)
        np.testing.assert_allclose(vectors @ found, ranker.predict(f"new {y}", X), atol=1e-4)
    with pytest.raises(ValueError, match="no prior"):
        hr.PersonalRankSVM(rank=2, prior="zero").fit(X, data.users, data.items, data.ratings).new_users()


def test_the_strength_is_learnt_where_ratings_say_much():
    """New users of a generated set: the usual strength, made for the noise of real ratings, wastes what they say."""
    data = hr.make_personal(300, 400, 20, 4, kind="ratings", per_user=40, noise=1.5, seed=3)
    old, place = data.users < 220, np.arange(len(data.users)) % 40
    X = data.item_features
    ranker = hr.PersonalRankSVM(rank=4).fit(X, data.users[old], data.items[old], data.ratings[old])
    few, rest = ~old & (place < 5), ~old & (place >= 5)
    right = []
    for strength in (ranker.prior_strength_, 0.03):
        ranker.prior_strength_ = strength
        ranker.add_users(data.users[few], X, data.items[few], data.ratings[few], replace=True)
        right.append(ranker.score(X, data.users[rest], data.items[rest], data.ratings[rest]))
    assert right[0] > right[1] + 0.03
