"""PersonalRankSVM: its objective against plain Python, the solver and its optimum."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from hingerank.personal.alternating import LocalUsers, alternating, balance, count_right, half_square
from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.generate import make_personal
from hingerank.personal.preferences import from_comparisons, from_ratings

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def ratings(n_users=12, n_items=30, n_features=6, seed=0, grades=5):
    """A few users with 1 to 15 ratings each, in random order."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 16, n_users)
    users = np.repeat(np.arange(n_users), counts)
    items = np.concatenate([rng.choice(n_items, c, replace=False) for c in counts])
    order = rng.permutation(len(users))
    X = rng.standard_normal((n_items, n_features))
    return X, users[order], items[order], rng.integers(1, grades + 1, len(users)).astype(float)


def listed(users, items, y):
    """Every pair that the ratings imply: (user, winner, loser)."""
    pairs = [
        (users[a], items[a], items[b])
        for a, b in itertools.permutations(range(len(users)), 2)
        if users[a] == users[b] and y[a] > y[b]
    ]
    return tuple(np.array(column) for column in zip(*pairs))


def plain_value(X, U, V, C, users, winners, losers):
    t = np.einsum("ec,ec->e", V[users], (X[winners] - X[losers]) @ U)
    return C * (np.maximum(0, 1 - t) ** 2).sum() + 0.5 * (U**2).sum() + 0.5 * (V**2).sum()


class TestObjective:
    @pytest.mark.parametrize("kind", ["ratings", "pairs"])
    @pytest.mark.parametrize("grades", [2, 5, 40])
    def test_value_gradient_and_curvature(self, kind, grades, monkeypatch):
        monkeypatch.setattr("hingerank.personal.alternating.STEPS", 0)  # steps only look at where V is
        X, users, items, y = ratings(grades=grades)
        u, i, j = listed(users, items, y)
        preferences = from_ratings(users, items, y, 30) if kind == "ratings" else from_comparisons(u, i, j, 30)
        number = {user: place for place, user in enumerate(preferences.users)}
        coded = np.array([number[user] for user in u])
        rng = np.random.default_rng(1)
        U, V = rng.standard_normal((6, 3)), rng.standard_normal((len(preferences.users), 3))
        local = LocalUsers(X, preferences, V)
        local.begin(0.7, rank=3)

        def value(U):
            return plain_value(X, U, V, 0.7, coded, i, j)

        def gradient(U):
            return U + 0.7 * local.step(U).gradient

        assert local.value(U) + half_square(U) + half_square(V) == pytest.approx(value(U), rel=1e-12)
        here = local.step(U)
        assert here.value(U, 0.7, here.loss) == pytest.approx(value(U), rel=1e-12)
        D, h = rng.standard_normal(U.shape), 1e-6
        assert (value(U + h * D) - value(U - h * D)) / (2 * h) == pytest.approx((gradient(U) * D).sum(), rel=1e-6)
        ahead, behind = gradient(U + h * D), gradient(U - h * D)
        local.value(U)
        product = (D + 0.7 * local.curved(D)).ravel()
        np.testing.assert_allclose(product, (ahead - behind).ravel() / (2 * h), rtol=1e-5, atol=1e-5)

    def test_pairs_are_counted_and_judged(self):
        X, users, items, y = ratings()
        u, i, j = listed(users, items, y)
        preferences = from_ratings(users, items, y, 30)
        number = {user: place for place, user in enumerate(preferences.users)}
        V = np.random.default_rng(2).integers(-1, 2, (len(preferences.users), 1)).astype(float)  # with ties
        t = (X[i, 0] - X[j, 0]) * V[[number[user] for user in u], 0]
        right = (t > 0).sum() + 0.5 * (t == 0).sum()
        assert count_right(X[:, :1].copy(), V, preferences) == (right, len(u))

    def test_pair_weight_user_divides_by_the_pairs(self):
        X, users, items, y = ratings()
        preferences = from_ratings(users, items, y, 30, pair_weight="user")
        local = LocalUsers(X, preferences)
        local.begin(2.0, rank=2)
        assert local.value(np.zeros((6, 2))) == pytest.approx(2.0 * (preferences.pairs > 0).sum())


class TestSolver:
    def test_balancing_keeps_the_product(self):
        rng = np.random.default_rng(0)
        U, V = rng.standard_normal((7, 3)) * [1, 10, 0.1], rng.standard_normal((20, 3))
        W, before, other = U @ V.T, (U**2).sum() + (V**2).sum(), 2 * U
        U, same, turn = balance(U, V.T @ V, other)
        V = V @ turn
        np.testing.assert_allclose(U @ V.T, W, atol=1e-12)
        np.testing.assert_allclose(U.T @ U, V.T @ V, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(same, 2 * U, atol=1e-10)
        norm = 2 * np.linalg.svd(W, compute_uv=False).sum()
        assert (U**2).sum() + (V**2).sum() == pytest.approx(norm) and norm < before

    def test_balancing_lost_directions(self):
        rng = np.random.default_rng(1)
        U, V = rng.standard_normal((7, 4)), rng.standard_normal((20, 4))
        U[:, 2], V[:, 3], V[:, 1] = 0, 0, 2 * V[:, 0]
        W = U @ V.T
        U, _, turn = balance(U, V.T @ V, U)
        V = V @ turn
        np.testing.assert_allclose(U @ V.T, W, atol=1e-8)
        zeros = np.zeros((3, 2))
        assert balance(zeros, np.ones((2, 2)), zeros)[0] is zeros

    def test_objective_never_rises_and_gradient_vanishes(self, low_rank, fitted, monkeypatch):
        monkeypatch.setattr("hingerank.personal.alternating.STEPS", 0)
        values = [entry["value"] for entry in fitted.trace_]
        assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))
        assert fitted.certificate_.converged and fitted.certificate_.value <= 1e-5
        train = low_rank[0]
        preferences = from_comparisons(train.users, train.winners, train.losers, 200)
        U, local = fitted.basis_, LocalUsers(train.item_features, preferences, fitted.user_weights_.copy())
        local.begin(1.0, U.shape[1])
        here = local.step(U)
        assert here.value(U, 1.0, here.loss) == pytest.approx(fitted.objective_, rel=1e-10)
        first = fitted.trace_[0]["value"]
        assert np.linalg.norm(U + here.gradient) < 1e-4 * first and np.sqrt(here.squares) < 1e-4 * first

    def test_full_rank_reaches_the_convex_optimum(self):
        """With k = min(features, users) there are no bad local optima: every seed finds the trace-norm optimum."""
        data = make_personal(8, 40, 4, 2, per_user=25, seed=1, noise=0.5)
        values = [
            PersonalRankSVM(rank=4, C=0.5, tol=1e-7, max_iter=2000, random_state=seed)
            .fit_pairs(data.item_features, data.users, data.winners, data.losers)
            .objective_
            for seed in range(3)
        ]
        assert np.ptp(values) < 1e-6 * values[0]

    def test_ratings_and_their_listed_pairs_give_the_same_fit(self):
        X, users, items, y = ratings(n_users=20, seed=5)
        u, i, j = listed(users, items, y)
        graded = PersonalRankSVM(rank=2, C=0.3, tol=1e-6, max_iter=500, cold_users="zero").fit(X, users, items, y)
        paired = PersonalRankSVM(rank=2, C=0.3, tol=1e-6, max_iter=500).fit_pairs(X, u, i, j)
        assert graded.n_pairs_ == paired.n_pairs_ == len(u)
        rated, test = np.unique(u), np.random.default_rng(0).standard_normal((5, 6))
        for user in rated:
            np.testing.assert_allclose(graded.predict(user, test), paired.predict(user, test), atol=2e-3)

    def test_threads_do_not_change_the_answer(self):
        data = make_personal(150, 80, 10, 3, kind="ratings", per_user=60, seed=2, noise=0.3)
        arguments = data.item_features, np.tile(data.users, 1), data.items, data.ratings
        many = np.concatenate([data.users + 150 * block for block in range(5)])
        arguments = data.item_features, many, np.tile(data.items, 5), np.tile(data.ratings, 5)
        fits = [PersonalRankSVM(rank=4, C=0.01, max_iter=4, tol=1e-9, n_jobs=n) for n in (1, 2, 3)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, *others = [fit.fit(*arguments) for fit in fits]
        preferences = from_ratings(*arguments[1:], 80)
        local = LocalUsers(data.item_features, preferences)
        local.begin(1.0, rank=4)
        assert len(local.shards) > 1
        for other in others:
            assert np.array_equal(one.basis_, other.basis_) and np.array_equal(one.user_weights_, other.user_weights_)

    def test_dense_sparse_and_single_precision_agree(self):
        X, users, items, y = ratings(n_users=20)
        X = np.where(np.abs(X) < 0.7, 0, np.round(X, 2))
        models = [PersonalRankSVM(rank=3, C=0.5, tol=1e-6, max_iter=500) for _ in range(3)]
        dense = models[0].fit(X, users, items, y).predict(0, X)
        np.testing.assert_allclose(models[1].fit(sp.csr_matrix(X), users, items, y).predict(0, X), dense, atol=1e-3)
        np.testing.assert_allclose(models[2].fit(X.astype(np.float32), users, items, y).predict(0, X), dense, atol=1e-3)

    def test_unused_items_and_features_change_nothing(self):
        X, users, items, y = ratings(n_users=20)
        small = PersonalRankSVM(rank=2, C=0.5, max_iter=20, scale=None).fit(sp.csr_matrix(X), users, items, y)
        wide = sp.csr_matrix(sp.block_diag([X, np.ones((100, 50))]))
        large = PersonalRankSVM(rank=2, C=0.5, max_iter=20, scale=None).fit(wide, users, items, y)
        assert np.array_equal(large.basis_[:6], small.basis_) and not large.basis_[6:].any()
        assert np.array_equal(large.user_weights_, small.user_weights_)

    def test_callback_and_limits(self, low_rank):
        train = low_rank[0]
        data = train.item_features, train.users, train.winners, train.losers
        seen = []
        stopped = PersonalRankSVM(rank=2, callback=lambda entry: seen.append(entry) or len(seen) == 3)
        with pytest.warns(ConvergenceWarning):
            assert stopped.fit_pairs(*data).certificate_.status == "callback"
        assert [entry["epoch"] for entry in seen] == [0, 1, 2]
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            assert PersonalRankSVM(rank=2, max_iter=1).fit_pairs(*data).n_iter_ == 1
        with pytest.warns(ConvergenceWarning):
            assert PersonalRankSVM(rank=2, max_seconds=0).fit_pairs(*data).certificate_.status == "max_seconds"

    def test_alternating_from_a_given_start(self):
        X, users, items, y = ratings()
        preferences = from_ratings(users, items, y, 30)
        local = LocalUsers(X, preferences)
        local.begin(0.1, rank=2)
        start = np.random.default_rng(0).standard_normal((6, 2))
        solution = alternating(local, start, tol=1e-6, max_iter=500)
        assert solution.certificate.converged and solution.extra["V"] is local.V
        norms = half_square(solution.w) + half_square(local.V)
        assert local.value(solution.w) + norms == pytest.approx(solution.value, rel=1e-10)


class TestLearning:
    def test_low_rank_truth_is_found(self, low_rank, fitted):
        _, test = low_rank
        X = test.item_features
        margin = fitted.predict(test.users, X[test.winners]) - fitted.predict(test.users, X[test.losers])
        assert (margin > 0).mean() > 0.93

    def test_trace_has_the_accuracies(self):
        data = make_personal(30, 100, 8, 2, kind="ratings", per_user=30, seed=4, noise=0.2)
        train, test = data.split(0.3, seed=1)
        ranker = PersonalRankSVM(rank=2, C=0.1, max_iter=60).fit(
            data.item_features, train.users, train.items, train.ratings, eval_set=(test.users, test.items, test.ratings)
        )
        held = np.concatenate([np.zeros(len(train), bool), np.ones(len(test), bool)])
        users, items, y = (
            np.concatenate([getattr(train, name), getattr(test, name)]) for name in ("users", "items", "ratings")
        )
        s = ranker.predict(users, data.item_features[items])
        right = {False: [], True: []}
        for a, b in itertools.permutations(range(len(users)), 2):
            if users[a] == users[b] and y[a] > y[b]:
                right[bool(held[a] or held[b])].append(s[a] > s[b])
        last = ranker.trace_[-1]
        assert last["train_accuracy"] == pytest.approx(np.mean(right[False]))
        assert last["validation_accuracy"] == pytest.approx(np.mean(right[True]))
        assert ranker.score(data.item_features, test.users, test.items, test.ratings) > 0.85

    def test_eval_pairs(self, low_rank):
        train, test = low_rank
        X = train.item_features
        ranker = PersonalRankSVM(rank=3, C=1.0).fit_pairs(
            X, train.users, train.winners, train.losers, eval_set=(test.users, test.winners, test.losers)
        )
        margin = ranker.predict(test.users, X[test.winners]) - ranker.predict(test.users, X[test.losers])
        assert ranker.trace_[-1]["validation_accuracy"] == pytest.approx((margin > 0).mean())
