"""The baselines with PersonalRankSVM's interface, against RankSVM on the features each one amounts to."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.convex import JointRanker, MeanVarianceRanker, SeparateRanker
from hingerank.personal.factorized import InductiveMatrixCompletion, PersonalRankSVM
from hingerank.personal.generate import make_personal

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ALL = [PersonalRankSVM, JointRanker, SeparateRanker, MeanVarianceRanker, InductiveMatrixCompletion]
CONVEX = [JointRanker, SeparateRanker, MeanVarianceRanker]


@pytest.fixture(scope="module")
def data():
    """25 users with 20 noisy ratings each, in random order; half of the features are 0."""
    made = make_personal(25, 60, 7, 2, kind="ratings", per_user=20, noise=0.3, seed=6)
    order = np.random.default_rng(0).permutation(len(made))
    X = np.where(np.abs(made.item_features) < 0.6, 0.0, made.item_features)
    return X, made.users[order], made.items[order], made.ratings[order]


def rank_svm(Z, y, qid, C=0.3):
    return hr.RankSVM(C=C, tol=1e-8).fit(Z, y, qid).coef_


def test_joint_is_one_ranking_svm(data):
    X, users, items, y = data
    ranker = JointRanker(C=0.3, tol=1e-8, scale=None).fit(*data)
    np.testing.assert_allclose(ranker.coef_, rank_svm(X[items], y, users), rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_separate_is_a_ranking_svm_for_each_user(data):
    X, users, items, y = data
    ranker = SeparateRanker(C=0.3, tol=1e-9, scale=None).fit(*data)
    for number, user in enumerate(ranker.users_):
        mine = users == user
        alone = rank_svm(X[items[mine]], y[mine], None)
        np.testing.assert_allclose(ranker.user_weights_[number], alone, rtol=1e-4, atol=1e-5)


def test_mean_variance_is_a_ranking_svm_on_shared_and_own_features(data):
    X, users, items, y = data
    ranker = MeanVarianceRanker(C=0.3, shared=4.0, tol=1e-9, scale=None).fit(*data)
    own = np.zeros((len(users), 25, 7))
    own[np.arange(len(users)), users] = X[items]
    w = rank_svm(np.hstack([2.0 * X[items], own.reshape(len(users), -1)]), y, users)
    np.testing.assert_allclose(ranker.coef_, 2.0 * w[:7], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ranker.user_weights_, w[7:].reshape(25, 7)[ranker.users_], rtol=1e-3, atol=1e-5)


def test_sharing_runs_from_separate_to_joint(data):
    X = data[0]
    separate = SeparateRanker(C=0.3, tol=1e-6).fit(*data).predict(3, X)
    apart = MeanVarianceRanker(C=0.3, shared=1e-7, tol=1e-6).fit(*data).predict(3, X)
    np.testing.assert_allclose(apart, separate, atol=1e-3)
    together = MeanVarianceRanker(C=1e-6, shared=1e5, tol=1e-8).fit(*data)
    assert np.abs(together.user_weights_).max() < 1e-2 * np.abs(together.coef_).max()


@pytest.mark.parametrize("cls", CONVEX)
def test_sparse_and_comparisons_agree_with_dense_ratings(cls, data):
    X, users, items, y = data
    dense = cls(C=0.3, tol=1e-11).fit(*data)
    rows = sp.csr_matrix(X)
    wanted = dense.predict(users, X[items])
    np.testing.assert_allclose(cls(C=0.3, tol=1e-11).fit(rows, *data[1:]).predict(users, X[items]), wanted, atol=1e-4)
    a, b = np.meshgrid(np.arange(len(users)), np.arange(len(users)), indexing="ij")
    pair = (users[a] == users[b]) & (y[a] > y[b])
    paired = cls(C=0.3, tol=1e-11).fit_pairs(X, users[a[pair]], items[a[pair]], items[b[pair]])
    np.testing.assert_allclose(paired.predict(users, X[items]), wanted, atol=1e-4)
    assert paired.n_pairs_ == dense.n_pairs_ == pair.sum()


@pytest.mark.parametrize("cls", CONVEX)
def test_weights_by_user(cls, data):
    ranker = cls(C=5.0, pair_weight="user", tol=1e-7).fit(*data)
    assert ranker.objective_ < 5.0 * 25  # the value at w = 0: one for each user


def test_completion_meets_ratings(data):
    """With the basis fixed a user's weights are the ridge regression of the centred ratings."""
    X, users, items, y = data
    ranker = InductiveMatrixCompletion(rank=7, C=2.0, tol=1e-6, prior="zero", max_iter=500, scale=None).fit(*data)
    assert ranker.certificate_.converged
    for number, user in enumerate(ranker.users_[:5]):
        mine = users == user
        P, target = X[items[mine]] @ ranker.basis_, y[mine] - y[mine].mean()
        ridge = np.linalg.solve(P.T @ P + np.eye(7) / 4.0, P.T @ target)
        np.testing.assert_allclose(ranker.user_weights_[number], ridge, atol=1e-4)
        np.testing.assert_allclose(ranker.add_user(f"again {user}", X[items[mine]], y[mine]), ridge, atol=1e-5)
    miss = ranker.predict(users, X[items]) - (y - np.array([y[users == user].mean() for user in users]))
    value = 2.0 * (miss**2).sum() + 0.5 * (ranker.basis_**2).sum() + 0.5 * (ranker.user_weights_[:25] ** 2).sum()
    assert value == pytest.approx(ranker.objective_)


def test_completion_of_comparisons_wants_differences_of_one(data):
    X = data[0]
    ranker = InductiveMatrixCompletion(rank=2, C=100.0, tol=1e-6).fit_pairs(X, [0, 0], [0, 1], [1, 2])
    scores = ranker.predict(0, X)
    assert scores[0] - scores[1] == pytest.approx(1, abs=0.05) and scores[1] - scores[2] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("cls", ALL)
class TestInterface:
    def test_learns_ranks_and_scores(self, cls, data):
        X, users, items, y = data
        ranker = cls(C=0.3).fit(*data)
        assert ranker.score(*data) > 0.58 and ranker.score(X, users, items, -y) < 0.42
        assert ranker.trace_[-1]["train_accuracy"] == pytest.approx(ranker.score(*data))
        scores = ranker.predict(4, X)
        assert ranker.rank(4, X, top=3).tolist() == np.argsort(-scores, kind="stable")[:3].tolist()
        rows, values = ranker.top_k([4, 5], X, top=3)
        assert rows[0].tolist() == ranker.rank(4, X, top=3).tolist()
        np.testing.assert_allclose(values[0], scores[rows[0]])
        np.testing.assert_allclose(ranker.predict([4, 5], X[:2]), [scores[0], ranker.predict(5, X)[1]])

    @pytest.mark.parametrize("sparse", [False, True])
    def test_model_files(self, cls, data, sparse, tmp_path):
        X, users, items, y = data
        features = sp.csr_matrix(X) if sparse else X
        names = np.array([f"user {user}" for user in users])
        ranker = cls().fit(features, names, items, y)
        back = hr.load(ranker.save(tmp_path))
        assert type(back) is cls and np.array_equal(back.predict(names, X[items]), ranker.predict(names, X[items]))
        assert back.certificate_ == ranker.certificate_ and back.trace_ == ranker.trace_

    def test_validation_accuracy(self, cls, data):
        X, users, items, y = data
        held = np.random.default_rng(1).random(len(users)) < 0.3
        train, test = (tuple(part[rows] for part in (users, items, y)) for rows in (~held, held))
        ranker = cls(C=0.1).fit(X, *train, eval_set=test)
        s = ranker.predict(users, X[items])
        a, b = np.meshgrid(np.arange(len(users)), np.arange(len(users)), indexing="ij")
        pair = (users[a] == users[b]) & (y[a] > y[b]) & (held[a] | held[b])
        assert ranker.trace_[-1]["validation_accuracy"] == pytest.approx((s[a] > s[b])[pair].mean())

    def test_unknown_users_are_named(self, cls, data):
        ranker = cls().fit(*data)
        if cls is hr.SeparateRanker:  # the others can rank for anybody
            with pytest.raises(DataError, match="user 99 is not known"):
                ranker.predict(99, data[0])
        with pytest.raises(DataError, match="users without training"):
            cls().fit(*data, eval_set=([99], [0], [1]))

    def test_bad_settings(self, cls, data):
        with pytest.raises(ValueError, match="C must be a positive"):
            cls(C=-1.0).fit(*data)
        with pytest.raises(ValueError, match="tol must be a positive"):
            cls(tol=0).fit(*data)

    def test_items_without_any_feature(self, cls, data):
        X, *told = data
        assert not cls().fit(sp.csr_matrix(X.shape), *told).predict(told[0][0], X).any()


@pytest.mark.parametrize("sparse", [False, True])
def test_anybody_can_be_ranked_for(sparse, data):
    import scipy.sparse as sp

    X, *told = data
    X = sp.csr_matrix(X) if sparse else X
    for cls in (hr.JointRanker, hr.MeanVarianceRanker):
        ranker = cls(C=0.1, scale=None).fit(X, *told)
        np.testing.assert_allclose(ranker.predict(10**6, X), X @ ranker.coef_)
        rows, _ = ranker.top_k([10**6, ranker.users_[0]], X, 3, exclude=([10**6], [0]))
        order = [i for i in np.argsort(-(X @ ranker.coef_), kind="stable") if i != 0][:3]
        assert rows[0].tolist() == order
        assert rows[1].tolist() == np.argsort(-ranker.predict(ranker.users_[0], X), kind="stable")[:3].tolist()
    with pytest.raises(hr.DataError, match="SeparateRanker cannot rank for others"):
        hr.SeparateRanker(C=0.1, scale=None).fit(X, *told).predict(10**6, X)
    with pytest.raises(hr.DataError, match=r"pass X\[items\]"):
        ranker.predict(ranker.users_[:2], X)
