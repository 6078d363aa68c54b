"""The users of PersonalRankSVM: predictions, lists, fold-in, model files, and what it says about bad input."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.baselines import ItemKNN
from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.item_item import EASE
from hingerank.personal.lists import ListRanker
from hingerank.personal.top_n import evaluate_top
from hingerank.registry import ranker_class

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def ratings(n_users=12, n_items=30, n_features=6, seed=0):
    """A few users with 1 to 15 ratings each, in random order."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 16, n_users)
    users = np.repeat(np.arange(n_users), counts)
    items = np.concatenate([rng.choice(n_items, c, replace=False) for c in counts])
    order = rng.permutation(len(users))
    X = rng.standard_normal((n_items, n_features))
    return X, users[order], items[order], rng.integers(1, 6, len(users)).astype(float)


class TestPredictions:
    def test_rank_and_top_agree_with_scores(self, low_rank, fitted):
        X = low_rank[0].item_features
        scores = fitted.predict(7, X)
        np.testing.assert_allclose(scores, X @ fitted.basis_ @ fitted.user_weights_[fitted.users_ == 7][0])
        assert fitted.rank(7, X).tolist() == np.argsort(-scores, kind="stable").tolist()
        assert fitted.rank(7, X, top=5).tolist() == fitted.rank(7, X)[:5].tolist()
        rows, values = fitted.top_k([9, 7, 9], X, top=4)
        assert rows[1].tolist() == fitted.rank(7, X, top=4).tolist() and np.array_equal(rows[0], rows[2])
        np.testing.assert_allclose(values[1], np.sort(scores)[::-1][:4])

    def test_ties_keep_the_order_of_rows(self, fitted):
        X = np.repeat(np.eye(12)[:3], 4, axis=0)
        rows, _ = fitted.top_k([0], X, top=12)
        assert rows[0].tolist() == fitted.rank(0, X).tolist()

    def test_exclude(self, low_rank, fitted):
        X = low_rank[0].item_features[:6]
        rows, values = fitted.top_k([3, 4], X, top=6, exclude=([3, 3, 99], [0, 5, 1]))
        assert set(rows[0]) == {1, 2, 3, 4, -1} and set(rows[1]) == set(range(6))
        assert values[0, -1] == -np.inf and rows[0, -1] == -1

    def test_blocks_of_users(self, monkeypatch, low_rank, fitted):
        X = low_rank[0].item_features
        whole = fitted.top_k(np.arange(60), X, top=3)[0]
        monkeypatch.setattr("hingerank.personal.top_n.SCORES_AT_ONCE", 450)  # lists
        monkeypatch.setattr("hingerank.personal.rankers.SCORES_AT_ONCE", 450)  # scores of pairs
        assert np.array_equal(fitted.top_k(np.arange(60), X, top=3)[0], whole)
        np.testing.assert_allclose(
            fitted.predict(np.arange(60), X[:60]), np.diag(X[:60] @ fitted.basis_ @ fitted.user_weights_.T)
        )

    def test_basis_table(self, fitted):
        names = [f"word{j}" for j in range(12)]
        table = fitted.basis_table(names, top=4)
        assert len(table) == 3 and all(len(row["positive"]) <= 4 for row in table)
        weights = dict(table[0]["positive"] + table[0]["negative"])
        column = fitted.basis_[:, 0] * np.sign(fitted.user_weights_[:, 0].mean())
        for word, weight in weights.items():
            assert weight == pytest.approx(column[names.index(word)])
        strength = np.linalg.norm(fitted.basis_, axis=0) * np.linalg.norm(fitted.user_weights_, axis=0)
        assert (np.diff(strength) <= 0).all()
        with pytest.raises(ValueError, match="3 names"):
            fitted.basis_table(["a", "b", "c"])


class TestFoldIn:
    def test_a_user_added_approaches_the_jointly_trained_one(self, low_rank, fitted):
        train = low_rank[0]
        X, mine = train.item_features, train.users == 11
        copy = PersonalRankSVM(rank=3, C=1.0, prior="zero", scale=None).fit_pairs(
            X, train.users, train.winners, train.losers
        )
        copy.basis_, copy.user_weights_ = fitted.basis_, fitted.user_weights_.copy()
        weights = copy.add_user("new", X, winners=train.winners[mine], losers=train.losers[mine])
        np.testing.assert_allclose(weights, fitted.user_weights_[fitted.users_ == 11][0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(copy.predict("new", X), fitted.predict(11, X), rtol=1e-3, atol=1e-3)

    def test_a_few_comparisons_go_most_of_the_way(self, low_rank):
        """Users left out of the fit and folded in from their comparisons are nearly as good as those trained."""
        train, test = low_rank
        X, inside, late = train.item_features, train.users < 50, test.users >= 50
        ranker = PersonalRankSVM(rank=3, C=1.0).fit_pairs(
            X, train.users[inside], train.winners[inside], train.losers[inside]
        )
        ranker.add_users(train.users[~inside], X, winners=train.winners[~inside], losers=train.losers[~inside])
        margin = ranker.predict(test.users, X[test.winners]) - ranker.predict(test.users, X[test.losers])
        assert (margin[late] > 0).mean() > (margin[~late] > 0).mean() - 0.06

    @pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
    def test_the_solution_is_a_ranking_svm_on_the_basis(self, fitted):
        rng = np.random.default_rng(8)
        features, y = rng.standard_normal((15, 12)), rng.integers(0, 3, 15)
        user = PersonalRankSVM(rank=3, C=1.0)
        user.__dict__.update(fitted.__dict__)
        weights = user.add_user("x", features, y)
        reference = hr.RankSVM(C=1.0, tol=1e-8).fit(features @ fitted.basis_, y).coef_
        np.testing.assert_allclose(weights, reference, rtol=1e-4, atol=1e-5)
        assert len(fitted.users_) == 60  # a shallow copy grew, not the fixture

    def test_update_moves_from_the_prior(self, low_rank):
        train = low_rank[0]
        X = train.item_features
        ranker = PersonalRankSVM(rank=3, C=1.0).fit_pairs(X, train.users, train.winners, train.losers)
        before = ranker.user_weights_[ranker.users_ == 5][0].copy()
        order = ranker.rank(5, X)
        ranker.update_user(5, X[order[[0, 1]]], [2, 1])  # what it thinks anyway, though less firmly than a margin of 1
        near = np.linalg.norm(ranker.user_weights_[ranker.users_ == 5][0] - before)
        ends = X[order[[0, -1]]]
        firm = np.subtract(*ranker.predict(5, ends))
        ranker.update_user(5, X[order[[0, -1]]], winners=[1], losers=[0])  # the opposite
        assert np.subtract(*ranker.predict(5, ends)) < firm
        assert near < 0.7 * np.linalg.norm(before)
        with pytest.raises(DataError, match="not known"):
            ranker.update_user("nobody", X[:2], [1, 2])

    def test_errors_and_growth(self, low_rank):
        train = low_rank[0]
        X = train.item_features
        ranker = PersonalRankSVM(rank=2).fit_pairs(X, train.users, train.winners, train.losers)
        with pytest.raises(DataError, match="known already"):
            ranker.add_user(5, X[:2], [1, 2])
        with pytest.raises(ValueError, match="winners and losers"):
            ranker.add_user("x", X[:2])
        mean = ranker.user_weights_.mean(axis=0)
        np.testing.assert_allclose(ranker.add_user(1000, X[:2], [3, 3]), mean)  # no pair: the mean
        assert ranker.has_pairs_.sum() == 60 and len(ranker.has_pairs_) == 61
        for user in range(100, 180):
            ranker.add_user(user, X[user : user + 2], [1, 2])
        assert ranker.users_.dtype.kind == "i" and len(ranker.users_) == 141 == len(ranker.user_weights_)
        told, mean_user = (np.subtract(*ranker.predict(user, X[[180, 179]])) for user in (179, 1000))
        assert told > mean_user
        before = ranker.predict(100, X)
        ranker.add_users([100, 100], X, [0, 1], [1, 2], replace=True)
        assert len(ranker.users_) == 141 and not np.array_equal(ranker.predict(100, X), before)


class TestInput:
    def test_users_without_pairs(self):
        X = np.random.default_rng(0).standard_normal((6, 3))
        users, items, y = ["a", "a", "b", "c", "c"], [0, 1, 2, 3, 4], [5, 1, 3, 2, 2]
        ranker = PersonalRankSVM(rank=2, C=1.0).fit(X, users, items, y)
        assert ranker.notes_["users without a pair"] == 2 and ranker.has_pairs_.tolist() == [True, False, False]
        assert np.array_equal(ranker.predict("b", X), ranker.predict("a", X))
        silent = PersonalRankSVM(rank=2, C=1.0, cold_users="zero").fit(X, users, items, y)
        assert not silent.predict("b", X).any() and silent.predict("a", X).any()
        with pytest.warns(UserWarning, match="no preference pairs"):
            none = PersonalRankSVM(rank=2).fit(X, ["a", "b"], [0, 1], [1, 2])
        assert not none.predict("a", X).any()

    @pytest.mark.parametrize("name", ["personal-rank-svm", "separate", "mean-variance", "joint", "ease", "list-ranker"])
    def test_unknown_users_can_have_the_list_of_the_mean_user(self, name):
        X, users, items, y = ratings()
        ranker = ranker_class(name)().fit(X, users, items, y)
        rows, _ = ranker.top_k([99, users[0]], X, 3, exclude=([99], [0]), unknown="mean")
        everybody = np.mean([ranker.predict(user, X) for user in ranker.users_], axis=0)
        mean = ranker.predict(99, X, unknown="mean")
        if name not in ("personal-rank-svm", "mean-variance"):  # the mean of those with pairs, and the shared function
            np.testing.assert_allclose(mean, everybody, atol=1e-9)
        assert mean.std() > 0 and 0 not in rows[0] and ranker.rank(99, X, 1, unknown="mean") == [np.argmax(mean)]
        np.testing.assert_array_equal(rows[1], ranker.top_k([users[0]], X, 3)[0][0])
        with pytest.raises(ValueError, match="unknown must be"):
            ranker.predict(99, X, unknown="zero")

    def test_repeated_ratings(self):
        X, users, items, y = ratings()
        again = 4
        more = np.append(users, users[again]), np.append(items, items[again]), np.append(y, y[again] + 1)
        with pytest.warns(UserWarning, match="1 ratings repeat"):
            ranker = PersonalRankSVM(rank=2, C=0.3, max_iter=10).fit(X, *more)
        changed = y.copy()
        changed[again] += 0.5
        same = PersonalRankSVM(rank=2, C=0.3, max_iter=10).fit(X, users, items, changed)
        np.testing.assert_allclose(ranker.predict(users[again], X), same.predict(users[again], X), atol=1e-6)
        assert ranker.notes_["repeated ratings, of which the mean counts"] == 1

    def test_contradictions_stand_against_each_other(self):
        X = np.eye(4)
        ranker = PersonalRankSVM(rank=1, C=1.0, tol=1e-12).fit_pairs(X, [1, 1, 1, 2], [0, 1, 2, 3], [1, 0, 3, 2])
        assert ranker.notes_["comparisons that their user also made the other way round"] == 2
        scores = ranker.predict(1, X)
        assert abs(scores[0] - scores[1]) < 1e-6 and scores[2] > scores[3]

    def test_weights_of_comparisons_count_repeats(self):
        X = np.random.default_rng(0).standard_normal((5, 3))
        repeated = PersonalRankSVM(rank=2, C=0.2, tol=1e-6).fit_pairs(X, [1, 1, 1, 2], [0, 0, 1, 3], [1, 1, 2, 4])
        weighted = PersonalRankSVM(rank=2, C=0.2, tol=1e-6).fit_pairs(X, [1, 1, 2], [0, 1, 3], [1, 2, 4], [2, 1, 1])
        np.testing.assert_allclose(repeated.predict(1, X), weighted.predict(1, X), atol=1e-5)

    @pytest.mark.parametrize(
        "ids",
        [
            ["ann", "bob", "cy"],
            [10**12, -5, 7],
            [np.uint64(2**63 + 1), np.uint64(3), np.uint64(2**63 + 5)],
            [1.5, -2.0, 7.25],
            [("a", 1), ("b", 2), ("a", 2)],
            np.array(["2020-01-01", "2020-01-02", "2021-01-01"], "datetime64[D]"),
            [True, False, True],
        ],
        ids=["text", "numbers", "unsigned", "floats", "tuples", "dates", "bools"],
    )
    def test_ids_of_any_type(self, ids):
        X = np.random.default_rng(0).standard_normal((8, 3))
        items, y = np.tile(np.arange(8), 3), np.tile([1, 2, 3, 4, 4, 3, 2, 1], 3)
        users = np.empty(24, object)
        users[:] = [ids[r // 8] for r in range(24)]
        if not isinstance(ids[0], tuple):
            users = np.asarray(users.tolist())
        keep = np.ones(24, bool) if len(set(map(str, ids))) == 3 else np.arange(24) < 16
        ranker = PersonalRankSVM(rank=2, max_iter=5).fit(X, users[keep], items[keep], y[keep])
        assert len(ranker.users_) == len(set(users[keep].tolist()))
        assert ranker.predict(users[:2], X[:2]).shape == (2,)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"items": [0, 1, 99]}, r"items\[2\] is 99, but there are features for 5 items"),
            ({"items": [0, -1, 2]}, r"items\[1\] is -1"),
            ({"items": ["x", "y", "z"]}, "must be row numbers"),
            ({"items": [0, 1, 1.5]}, r"must be row numbers of the item features, but items\[2\] is 1.5"),
            ({"items": [np.nan, 1, 2]}, r"must be row numbers of the item features, but items\[0\] is nan"),
            ({"eval_set": (["a"], [3])}, r"eval_set has 2 columns, .*of the same length: \(users, items, ratings\)"),
            ({"users": ["a", float("nan"), "b"]}, r"users is missing \(nan\) at row 1"),
            ({"ratings": [1, np.nan, 2]}, r"ratings\[1\] is nan"),
            ({"ratings": [1, 2]}, "expected one rating for each of the 3 rows"),
            ({"ratings": ["good", "bad", "ugly"]}, "must be numbers"),
            ({"users": ["a", None, "b"]}, "missing"),
            ({"users": ["a", "b"]}, "expected one id for each of the 3 rows"),
            ({"users": [], "items": [], "ratings": []}, "empty"),
            ({"item_features": np.full((5, 2), np.nan)}, "NaN"),
            ({"users": ["a", ("b", 1), 3]}, "users has entries of different lengths"),
        ],
    )
    def test_bad_ratings(self, change, message):
        given = {"item_features": np.ones((5, 2)), "users": ["a", "a", "b"], "items": [0, 1, 2], "ratings": [1, 2, 3]}
        with pytest.raises(ValueError, match=message):
            PersonalRankSVM(rank=1).fit(**given | change)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"winners": [0, 1, 9]}, r"winners\[2\] is 9"),
            ({"losers": [1, 2]}, "3 winners but 2 losers"),
            ({"losers": [0, 2, 3]}, "comparison 0 is between item 0 and itself"),
            ({"sample_weight": [1, 2, -3]}, "not negative"),
        ],
    )
    def test_bad_comparisons(self, change, message):
        given = {"users": ["a", "a", "b"], "winners": [0, 1, 2], "losers": [1, 2, 3]}
        with pytest.raises(ValueError, match=message):
            PersonalRankSVM(rank=1).fit_pairs(np.ones((5, 2)), **given | change)

    @pytest.mark.parametrize(
        "settings",
        [{"rank": 0}, {"rank": 2.5}, {"rank": "two"}, {"C": 0}, {"C": np.inf}, {"C": "1"}, {"tol": -1}, {"n_jobs": 0},
         {"n_jobs": "all"}, {"cold_users": "x"}, {"pair_weight": "x"}, {"max_iter": 2.5}, {"max_iter": -1},
         {"max_seconds": -1}, {"max_seconds": "x"}],
    )  # fmt: skip
    def test_bad_settings(self, settings):
        with pytest.raises(ValueError, match=next(iter(settings))):
            PersonalRankSVM(**settings).fit(np.ones((3, 2)), [1, 1], [0, 1], [1, 2])

    def test_bad_settings_of_lists(self):
        given = np.eye(3), ["a", "a", "b"], [0, 1, 2], [1, 2, 3]
        for ranker, name in (
            (EASE(feature_weight="x"), "feature_weight must be a number"),
            (ListRanker(relevant="x"), "relevant must be a number"),
            (ItemKNN(neighbours=2.5), "neighbours must be a positive whole number"),
        ):
            with pytest.raises(ValueError, match=name):
                ranker.fit(*given)
        assert not hasattr(EASE(), "natural_C")
        with pytest.raises(NotFittedError):
            ItemKNN().predict("a", np.eye(3))

    def test_new_users_give_either_ratings_or_comparisons(self):
        X, users, items, y = ratings()
        ranker = PersonalRankSVM(rank=2, C=1.0, prior="zero").fit(X, users, items, y)
        for given in (
            {},
            {"ratings": [1, 2], "winners": [0], "losers": [1]},
            {"ratings": [1, 2], "winners": [0]},
            {"winners": [0]},
        ):
            with pytest.raises(ValueError, match="give either ratings of items, or winners and losers"):
                ranker.add_user("new", X[:2], **given)
        with pytest.raises(ValueError, match="give either ratings"):
            ranker.add_users(["new"], X, [0], winners=[0], losers=[1])
        with pytest.raises(DataError, match="users is a list"):
            ranker.add_user(["new"], X[:2], [1, 2])

    @pytest.mark.parametrize("given", [["a"], 3, "a"], ids=str)
    def test_columns_of_lists_are_counted(self, given):
        X, users, items, y = ratings()
        ranker = PersonalRankSVM(rank=2, C=1.0, prior="zero").fit(X, users, items, y)
        with pytest.raises(DataError, match=r"exclude (is|has) .*expected columns of the same length: \(users, rows\)"):
            ranker.top_k(users[:1], X, 2, exclude=given)
        with pytest.raises(DataError, match=r"test (is|has) .*: \(users, items\)"):
            evaluate_top(ranker, X, given)
        with pytest.raises(DataError, match=r"test has 2 columns, .*: \(users, items, ratings\)"):
            evaluate_top(ranker, X, (users, items), relevant=4)

    def test_unknown_users_and_features(self, fitted):
        with pytest.raises(DataError, match="user 'zed' is not known"):
            fitted.predict("zed", np.ones((1, 12)))
        with pytest.raises(DataError, match="user 77 is not known"):
            fitted.predict([5, 77], np.ones((2, 12)))
        with pytest.raises(ValueError, match="11 features"):
            fitted.predict(5, np.ones((1, 11)))
        with pytest.raises(ValueError, match="top must be"):
            fitted.rank(5, np.ones((1, 12)), top=0)

    @pytest.mark.filterwarnings("ignore:.*ratings repeat")
    def test_rank_above_features_and_users(self):
        X, users, items, y = ratings()
        assert PersonalRankSVM(rank=50, max_iter=5).fit(X, users, items, y).basis_.shape == (6, 6)
        assert PersonalRankSVM(rank=50, max_iter=5).fit(X, users % 2, np.arange(len(y)) % 30, y).basis_.shape == (6, 2)


class TestModelFile:
    @pytest.mark.parametrize("text", [False, True])
    def test_round_trip(self, tmp_path, text, fitted, low_rank):
        train = low_rank[0]
        X = train.item_features
        users = np.array([f"user {u}" for u in train.users]) if text else train.users
        ranker = PersonalRankSVM(rank=2, max_iter=4, random_state=7).fit_pairs(X, users, train.winners, train.losers)
        back = hr.load(ranker.save(tmp_path))
        assert np.array_equal(back.predict(users[0], X), ranker.predict(users[0], X))
        assert back.trace_ == ranker.trace_ and back.certificate_ == ranker.certificate_ and back.rank == 2
        assert back.notes_ == ranker.notes_ and back.get_params() == ranker.get_params()
        back.add_user("late" if text else 10**6, X[:2], [1, 2])
        assert len(back.users_) == 61 and hr.load(back.save(tmp_path)).users_.tolist() == back.users_.tolist()

    @pytest.mark.filterwarnings("ignore:.*ratings repeat")
    @pytest.mark.parametrize(
        "ids",
        [
            np.array(["2024-01-01", "2025-01-01"], "M8[D]"),
            np.array([b"a", b"bc"]),
            np.array(["text", ("a", 2), None], object)[:-1],
        ],
    )
    def test_ids_of_any_type(self, tmp_path, ids):
        X, users, items, y = ratings()
        ranker = PersonalRankSVM(rank=2, max_iter=3).fit(X, ids[users % 2], items, y)
        back = hr.load(ranker.save(tmp_path))
        assert back.users_.tolist() == ranker.users_.tolist() and back.users_.dtype == ids.dtype
        assert np.array_equal(back.predict(ids[:1], X[:1]), ranker.predict(ids[:1], X[:1]))

    @pytest.mark.filterwarnings("ignore:.*ratings repeat")
    @pytest.mark.parametrize(
        ("ids", "late"),
        [
            (np.array(["2024-01-01", "2025-01-01"], "M8[D]"), np.datetime64("2026-01-01")),
            (np.array([5, 7], "m8[s]"), np.timedelta64(9, "s")),
            (np.array([b"a", b"b"]), b"longer"),
        ],
    )
    def test_new_ids_of_the_same_type(self, tmp_path, ids, late):
        X, users, items, y = ratings()
        ranker = PersonalRankSVM(rank=2, max_iter=3).fit(X, ids[users % 2], items, y)
        ranker.add_user(late, X[:2], [1, 2])
        assert ranker.users_.dtype.kind == ids.dtype.kind and ranker.users_[-1] == late
        back = hr.load(ranker.save(tmp_path))
        for user in (late, ids[0]):
            assert np.array_equal(back.predict([user] * 2, X[:2]), ranker.predict([user] * 2, X[:2]))

    @pytest.mark.parametrize("kind", [">i8", ">i4", ">f8", ">f4", "f2", np.longdouble])
    def test_numbers_of_any_layout(self, kind):
        X, users, items, y = ratings()
        plain = PersonalRankSVM(rank=2, max_iter=3).fit(X, users, items, y)
        other = PersonalRankSVM(rank=2, max_iter=3).fit(X, users.astype(kind), items, y.astype(kind))
        assert np.array_equal(other.predict(users[:3], X[:3]), plain.predict(users[:3], X[:3]))

    def test_new_ids_of_another_type(self, tmp_path):
        X, *told = ratings()
        ranker = PersonalRankSVM(rank=2, prior="zero", max_iter=3).fit(X, *told)
        ranker.add_user("late", X[:2], [1, 2])
        assert hr.load(ranker.save(tmp_path)).rank("late", X[:2]).tolist() == [1, 0]

    def test_forged_shapes_are_refused(self, tmp_path, fitted):
        broken = PersonalRankSVM()
        broken.__dict__.update(fitted.__dict__, user_weights_=fitted.user_weights_[:-1])
        with pytest.raises(ValueError, match="user_weights_ has shape"):
            hr.load(broken.save(tmp_path))


@pytest.mark.parametrize("kind", ["U", "O"])
@pytest.mark.parametrize("asked", ["U", "O", "list"])
def test_users_are_known_whatever_array_holds_their_names(kind, asked):
    """Text columns of tables come as objects: what they exclude must be excluded."""
    X, names = np.eye(3), np.array(["ann", "ann", "bob", "bob"])
    ranker = PersonalRankSVM(rank=1).fit(X, names.astype(kind), [0, 1, 1, 2], [2, 1, 2, 1])
    who = ["ann"] if asked == "list" else np.array(["ann"]).astype(asked)
    best = int(ranker.rank("ann", X)[0])
    for seen in (np.array(["ann"]), np.array(["ann"], object), ["ann"]):
        assert best not in ranker.top_k(who, X, 2, exclude=(seen, [best]))[0]
