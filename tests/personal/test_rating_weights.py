"""sample_weight: pairs weigh w_i w_j, as if they were listed so often."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.alternating import LocalUsers
from hingerank.personal.convex import pair_distances, row_preferences
from hingerank.personal.factorized import InductiveMatrixCompletion, PersonalRankSVM
from hingerank.personal.preferences import from_comparisons, from_ratings

CONVEX = [hr.JointRanker, hr.SeparateRanker, hr.MeanVarianceRanker]


def told(seed, grades=4, n_users=5, n_items=14, least=1):
    """X, users, items, ratings, weights: some users with one rating or one grade, some weights equal, far apart, 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_items, 4))
    users, items = zip(*((u, i) for u in range(n_users) for i in rng.permutation(n_items)[: rng.integers(least, 12)]))
    y = rng.integers(0, grades, len(users)).astype(float)
    weights = rng.choice([0.25, 1.0, 2.0, 3.5, 1e-3, 40.0], len(users))
    return X, np.array(users), np.array(items), y, weights


def listed(users, items, y, weights):
    """Every pair, and its weight."""
    pairs = [(a, b) for a in range(len(users)) for b in range(len(users)) if users[a] == users[b] and y[a] > y[b]]
    a, b = np.array(pairs).T
    return users[a], items[a], items[b], weights[a] * weights[b]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("grades", [2, 4, 40])
class TestKernels:
    def test_value_gradient_and_curvature_are_those_of_listed_pairs(self, seed, grades, monkeypatch):
        monkeypatch.setattr("hingerank.personal.alternating.STEPS", 0)  # steps only look at where V is
        X, users, items, y, w = told(seed, grades)
        rng = np.random.default_rng(seed)
        given = from_ratings(users, items, y, len(X), weight=w)
        u, i, j, pair = listed(users, items, y, w)
        compared = from_comparisons(u, i, j, len(X), pair)
        number = {user: k for k, user in enumerate(given.users)}
        order = [number[user] for user in compared.users]
        swept, plain = LocalUsers(X, given), LocalUsers(X, compared)
        for users_here in (swept, plain):
            users_here.begin(0.3, rank=2)
        for _ in range(3):  # rows are put in the order of their scores in between
            U, V = rng.standard_normal((4, 2)), rng.standard_normal((len(number), 2))
            swept.V[:], plain.V[:] = V, V[order]
            assert swept.value(U) == pytest.approx(plain.value(U))
            D = rng.standard_normal((4, 2))
            np.testing.assert_allclose(swept.curved(D), plain.curved(D), rtol=1e-4, atol=1e-5)
            first, second = swept.step(U), plain.step(U)
            np.testing.assert_allclose(first.gradient, second.gradient, rtol=1e-9, atol=1e-9)
            for name in ("curved", "weight", "mixed"):
                np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-9)

    def test_gradient_at_zero_and_users_that_weigh_alike(self, seed, grades):
        X, users, items, y, w = told(seed, grades)
        p = from_ratings(users, items, y, len(X), w, "user")
        rows, pairs = p.mass
        of_user = np.repeat(p.users, np.diff(p.start))
        for k, user in enumerate(p.users):
            _, _, _, mine = (
                listed(*(c[users == user] for c in (users, items, y, w))) if p.pairs[k] else (0, 0, 0, np.zeros(1))
            )
            assert pairs[k] == pytest.approx(mine.sum())
            assert rows[k] == pytest.approx(w[users == user].sum())
            assert p.known.scale[k] * mine.sum() == pytest.approx(1.0 if p.pairs[k] else 0.0)
        g, s = LocalUsers(X, p).first.data, np.zeros(len(p.item))
        for r in range(len(p.item)):
            mine = of_user == of_user[r]
            higher, lower = (mine & side(p.known.grade, p.known.grade[r]) for side in (np.greater, np.less))
            k = np.searchsorted(p.start, r, "right") - 1
            s[r] = (
                2 * p.known.scale[k] * p.known.weight[r] * (p.known.weight[higher].sum() - p.known.weight[lower].sum())
            )
        np.testing.assert_allclose(g, s, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("ranker", CONVEX)
def test_convex_rankers_find_the_optimum_of_weighted_pairs(ranker, kind):
    X, users, items, y, w = told(3, least=3)
    X = kind(X)
    one = ranker(C=0.1, tol=1e-9).fit(X, users, items, y, sample_weight=w)
    u, i, j, pair = listed(users, items, y, w)
    two = ranker(C=0.1, tol=1e-9).fit_pairs(X, u, i, j, pair)
    assert one.certificate_.converged and one.certificate_.kind == "relative duality gap"
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)
    who = two.users_[np.zeros(X.shape[0], int)]
    np.testing.assert_allclose(one.predict(who, X), two.predict(who, X), rtol=1e-3, atol=1e-4)


def test_factorised_rankers_reach_the_same_point():
    X, users, items, y, w = told(1, least=4)
    settings = {"rank": 2, "C": 0.05, "tol": 1e-10, "max_iter": 500, "prior": "zero"}
    one = PersonalRankSVM(**settings).fit(X, users, items, y, sample_weight=w)
    u, i, j, pair = listed(users, items, y, w)
    two = PersonalRankSVM(**settings).fit_pairs(X, u, i, j, pair)
    assert one.certificate_.converged
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-5)


def test_a_weight_of_two_is_the_rating_twice():
    """Of ratings to be met, where the same item twice is the same equation twice; rows of X may be equal."""
    X, users, items, y, _ = told(2, least=3)
    w = np.where(np.arange(len(users)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(users)), w.astype(int))
    copies = np.arange(len(twice))  # each an item of its own, with the features of the item it copies
    for make in (PersonalRankSVM, InductiveMatrixCompletion, hr.JointRanker):
        ranker = make(
            C=0.05, tol=1e-9, **({"max_iter": 500, "rank": 2} if make is not hr.JointRanker else {}), scale=None
        )
        one = ranker.fit(X, users, items, y, sample_weight=w).objective_
        assert one == pytest.approx(ranker.fit(X[items[twice]], users[twice], copies, y[twice]).objective_, rel=1e-4)


def test_targets_are_met_as_heavily_as_they_weigh():
    X, users, items, y, w = told(4)
    p = from_ratings(users, items, y, len(X), weight=w, squared_error=True)
    U, V = np.eye(4)[:, :2], np.ones((len(p.users), 2))
    value = 0.0
    for user in np.unique(users):
        mine = users == user
        target = y[mine] - np.average(y[mine], weights=w[mine])
        value += float(w[mine] @ (X[items[mine]] @ U @ np.ones(2) - target) ** 2)
    found = LocalUsers(X, p, V)
    found.begin(1.0, V.shape[1])
    assert found.value(U) == pytest.approx(value)


def test_a_weight_of_zero_is_no_rating():
    X, users, items, y, w = told(5, least=3)
    w[::4] = 0.0
    kept = w > 0
    for make in (PersonalRankSVM, hr.MeanVarianceRanker):
        one = make().fit(X, users, items, y, sample_weight=w)
        two = make().fit(X, users[kept], items[kept], y[kept], sample_weight=w[kept])
        assert one.objective_ == two.objective_ and one.C_ == two.C_ and one.users_.tolist() == two.users_.tolist()
    with pytest.raises(hr.DataError, match="0 for every rating"):
        PersonalRankSVM().fit(X, users, items, y, sample_weight=0 * w)
    with pytest.raises(hr.DataError, match="one for each rating"):
        PersonalRankSVM().fit(X, users, items, y, sample_weight=[1.0])
    with pytest.raises(hr.DataError, match="not negative"):
        PersonalRankSVM().fit(X, users, items, y, sample_weight=-w)


def test_equal_weights_change_nothing_but_C():
    X, users, items, y, _ = told(6, least=3)
    p, q = from_ratings(users, items, y, len(X)), from_ratings(users, items, y, len(X), weight=np.full(len(y), 2.0))
    assert pair_distances(X, q) == pytest.approx(4 * pair_distances(X, p))
    assert row_preferences(q).total_weight == pytest.approx(4 * row_preferences(p).total_weight)
    one, two = (
        PersonalRankSVM().fit(X, users, items, y),
        PersonalRankSVM().fit(X, users, items, y, sample_weight=np.full(len(y), 2.0)),
    )
    assert pytest.approx(one.C_ / 4) == two.C_ and two.objective_ == pytest.approx(one.objective_, rel=1e-9)


def test_the_given_weights_stay_as_they_are():
    X, users, items, y, w = told(7, least=3)
    before = w.copy()
    PersonalRankSVM(rank=2).fit(X, users, items, y, sample_weight=w)
    assert (w == before).all()


def test_new_users_and_tuning_heed_weights():
    X, users, items, y, w = told(3, n_users=12, least=8)
    ranker = PersonalRankSVM(rank=2, C=0.1).fit(X, users, items, y)
    names = np.array([f"new {user}" for user in users])
    ranker.add_users(names, X, items, y, sample_weight=np.full(len(y), 1.0))
    same = ranker.user_weights_[12:].copy()
    ranker.add_users(names, X, items, y, replace=True)
    np.testing.assert_allclose(ranker.user_weights_[12:], same)
    ranker.add_users(names, X, items, y, sample_weight=np.where(items == 3, 0.0, w), replace=True)
    kept = items != 3
    other = PersonalRankSVM(rank=2, C=0.1).fit(X, users, items, y)
    other.add_users(names[kept], X, items[kept], y[kept], sample_weight=w[kept])
    np.testing.assert_allclose(ranker.user_weights_[12:], other.user_weights_[12:])
    data = hr.ratings_from(users, items, y, item_ids=np.arange(len(X))).with_features(X)
    search = {"folds": 2, "measure": "pair_accuracy", "params": {"C": [0.01, 0.1]}}
    for ranker in (PersonalRankSVM(rank=2), hr.JointRanker()):
        found = hr.tune(ranker, data, sample_weight=w, **search)
        again = type(found)(**found.get_params()).fit(X, users, items, y, sample_weight=w)
        np.testing.assert_allclose(found.predict(0, X), again.predict(0, X))
        assert found.tuning_.chosen.scores != hr.tune(ranker, data, **search).tuning_.chosen.scores
    with pytest.raises(ValueError, match="sample_weight is only for ratings"):
        hr.tune("rank-svm", hr.make_letor(5), sample_weight=w)


@pytest.mark.parametrize("make", [hr.PersonalRankSVM, hr.MeanVarianceRanker])
def test_a_comparison_of_weight_0_is_none(make):
    data = hr.make_personal(8, 30, 4, 2, per_user=10, seed=0)
    told, X = (data.users, data.winners, data.losers), data.item_features
    weight = np.where((data.users == 3) | (data.winners % 4 == 0), 0.0, 2.0)
    found = make(C=0.1).fit_pairs(X, *told, sample_weight=weight)
    some = weight > 0
    same = make(C=0.1).fit_pairs(X, *(column[some] for column in told), sample_weight=weight[some])
    assert found.n_pairs_ == some.sum() and 3 not in found.users_
    np.testing.assert_array_equal(found.predict(5, X), same.predict(5, X))
    with pytest.raises(DataError, match="0 for every comparison"):
        make(C=0.1).fit_pairs(X, *told, sample_weight=0 * weight)


def test_columns_of_different_lengths_are_named_with_weights_of_0_too():
    X, weight = np.eye(3), [1, 0, 1]
    for fit in (hr.JointRanker().fit, hr.ListRanker().fit):
        with pytest.raises(DataError, match="users has shape"):
            fit(X, [1, 1], [0, 1, 2], [1, 2, 3], sample_weight=weight)
        with pytest.raises(DataError, match="ratings has shape"):
            fit(X, [1, 1, 1], [0, 1, 2], [1, 2], sample_weight=weight)
    for fit_clicks in (hr.EASE().fit_clicks, hr.PersonalRankSVM().fit_clicks):
        with pytest.raises(DataError, match="users has shape"):
            fit_clicks(X, [1, 1], [0, 1, 2], sample_weight=weight)


def compared(seed=0):
    data = hr.make_personal(12, 30, 4, 2, per_user=(6, 25), seed=seed)
    return (
        data.item_features,
        (data.users, data.winners, data.losers),
        np.random.default_rng(1).integers(1, 4, len(data)),
    )


def test_users_whose_comparisons_have_weights_count_alike_with_pair_weight_user():
    X, told, weight = compared()
    heavy = np.where(told[0] % 2, 10, 1) * weight
    fit = [hr.JointRanker(C=1.0, pair_weight="user", tol=1e-10).fit_pairs(X, *told, w).coef_ for w in (weight, heavy)]
    np.testing.assert_allclose(*fit, rtol=1e-6)
    p = from_comparisons(*told, len(X), weight, "user")
    np.testing.assert_allclose(p.known.scale * np.bincount(told[0], weight), 1.0)


@pytest.mark.parametrize("prior", [0.3, "zero"])
def test_a_comparison_of_weight_2_is_two_comparisons(prior):
    """In the fit, in the default C of convex rankers, and for new users."""
    X, told, weight = compared()
    twice = [np.repeat(column, weight) for column in told]
    default = hr.JointRanker().fit_pairs(X, *told, weight).C_
    assert default == pytest.approx(hr.JointRanker().fit_pairs(X, *twice).C_)
    one, two = (hr.PersonalRankSVM(rank=2, C=1.0, prior=prior).fit_pairs(X, *told) for _ in range(2))
    new = ["new", "other"]
    users = np.array(new)[told[0][told[0] < 2]]
    mine = told[0] < 2
    one.add_users(users, X, winners=told[1][mine], losers=told[2][mine], sample_weight=weight[mine])
    again = np.repeat(np.arange(mine.sum()), weight[mine])
    two.add_users(users[again], X, winners=told[1][mine][again], losers=told[2][mine][again])
    np.testing.assert_allclose(one.user_weights_[-2:], two.user_weights_[-2:], rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [PersonalRankSVM, hr.SeparateRanker, hr.MeanVarianceRanker])
def test_a_user_of_vanishing_weights_harms_no_other(make):
    """Ratings a few hundred half-lives old have such weights; the sum over their pairs has no reciprocal."""
    X, users, items, y, _ = told(8, least=5)
    others = users != users[0]
    ranker = make(C=1.0, pair_weight="user")
    for tiny in (1e-158, 1e-300):
        ranker.fit(X, users, items, y, sample_weight=np.where(others, 1.0, tiny))
        found = ranker.score(X, users[others], items[others], y[others])
        ranker.fit(X, users[others], items[others], y[others])
        assert found >= ranker.score(X, users[others], items[others], y[others]) - 0.05


def test_weights_whose_squares_overflow_are_refused():
    X, users, items, y, w = told(9, least=3)
    for fit in (
        lambda: PersonalRankSVM().fit(X, users, items, y, sample_weight=1e40 * w),
        lambda: hr.JointRanker().fit_pairs(X, ["a"], [0], [1], sample_weight=[1e40]),
        lambda: hr.EASE().fit_clicks(X, users, items, sample_weight=1e40 * w),
    ):
        with pytest.raises(DataError, match="sums over pairs would overflow; divide all weights by it"):
            fit()
