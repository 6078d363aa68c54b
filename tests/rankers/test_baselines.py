"""RankNet, ListNet, ListMLE, FRank, RankRLS and CRR against outside solvers and their definitions over listed pairs."""

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import hingerank as hr
from hingerank.export.forms import Outline
from hingerank.features.fourier import FourierMap
from hingerank.features.nystroem import NystroemMap
from hingerank.losses import make_loss
from hingerank.losses.lists import WithRegression
from hingerank.preferences import GradedPreferences
from hingerank.rankers import least_squares as base

LINEAR = [hr.RankNet, hr.ListNet, hr.ListMLE, hr.FRank]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    qid = rng.integers(0, 12, 150)
    X = rng.normal(size=(150, 6)) + 3.0
    y = np.clip(np.round(X[:, 0] - X[:, 1] + rng.normal(size=150)) + 1, 0, 3)
    return X, y, qid


def listed(y, qid, ties=False):
    """Rows (i, j) of every pair with y_i > y_j, or of every two rows of a query."""
    same = qid[:, None] == qid[None, :]
    first = np.arange(len(y))[:, None] > np.arange(len(y))[None, :]
    return np.nonzero(same & ((y[:, None] > y[None, :]) | (ties & first & (y[:, None] == y[None, :]))))


def sorted_lists(X, y, qid):
    order = np.argsort(qid, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(qid))))
    return X[order], GradedPreferences(y[order], offsets)


def test_ranknet_is_logistic_regression_on_listed_differences(data):
    X, y, qid = data
    i, j = listed(y, qid)
    signs = np.where(np.arange(len(i)) % 2, 1, -1)
    peer = LogisticRegression(C=0.05, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit((X[i] - X[j]) * signs[:, None], signs)
    ranker = hr.RankNet(C=0.05, tol=1e-9).fit(X, y, qid)
    np.testing.assert_allclose(ranker.coef_, peer.coef_[0], atol=1e-5)


@pytest.mark.parametrize("cls", LINEAR)
def test_nothing_better_is_found_elsewhere(cls, data):
    X, y, qid = data
    ranker = cls(C=0.3, tol=1e-9).fit(X, y, qid)
    rows, preferences = sorted_lists(X, y, qid)

    def value(w):
        return 0.5 * w @ w + 0.3 * make_loss(cls.loss).at(rows @ w, preferences).value

    found = scipy.optimize.minimize(value, np.zeros(6), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(ranker.objective_, value(ranker.coef_), rtol=1e-10)
    assert ranker.objective_ <= found.fun * (1 + 1e-9)
    np.testing.assert_allclose(ranker.coef_, found.x, atol=1e-4)


def test_frank_ends_at_a_stationary_point_also_from_where_it_is_not_convex(data):
    X, y, qid = data
    far = np.array([-9.0, 9.0, 0.0, 5.0, 0.0, -5.0])
    ranker = hr.FRank(C=20.0, tol=1e-9, init=far).fit(X, y, qid)
    assert ranker.certificate_.converged
    rows, preferences = sorted_lists(X, y, qid)
    at = make_loss("fidelity").at(rows @ ranker.coef_, preferences)
    np.testing.assert_allclose(ranker.coef_ + 20.0 * rows.T @ at.gradient, 0.0, atol=0.05)


@pytest.mark.parametrize("loss", ["all_differences", "grade_differences", "squared"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_rankrls_solves_the_normal_equations_of_the_listed_pairs(loss, C, data):
    X, y, qid = data
    m = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    i, j = listed(y, qid, ties=loss == "all_differences")
    D, weight = X[i] - X[j], m[i] * m[j]
    target = np.ones(len(i)) if loss == "squared" else y[i] - y[j]
    w = np.linalg.solve(np.eye(6) + 2 * C * (D.T * weight) @ D, 2 * C * D.T @ (weight * target))
    ranker = hr.RankRLS(C=C, loss=loss)
    fitted = [
        ranker.fit(X, y, qid, m),
        hr.RankRLS(C=C, loss=loss).fit(sparse.csr_matrix(X), y, qid, m),
        hr.RankRLS(loss=loss).fit_path(X, y, qid, [10 * C, C], m)[1],
        hr.RankSVM(C=C, loss=loss, tol=1e-16).fit(X, y, qid, m),
    ]
    for other in fitted:
        np.testing.assert_allclose(other.coef_, w, atol=1e-8)
    np.testing.assert_allclose(
        ranker.objective_, 0.5 * w @ w + C * (weight * (target - D @ w) ** 2).sum(), rtol=1e-9
    )  # fmt: skip
    assert ranker.certificate_.value < 1e-9 and ranker.n_iter_ == 1


def test_rankrls_is_the_papers_with_the_laplacian_and_rlscores_with_the_centring_matrix(data):
    X, y, qid = data
    C = 0.7
    same = (qid[:, None] == qid[None, :]).astype(float)
    laplacian, centring = np.diag(same.sum(1)) - same, np.eye(len(y)) - same / same.sum(1)
    for L, pair_weight in ((laplacian, "uniform"), (centring, "rows")):
        w = np.linalg.solve(X.T @ L @ X + np.eye(6) / (2 * C), X.T @ L @ y)  # regparam = 1 / (2C)
        ranker = hr.RankRLS(C=C, pair_weight=pair_weight).fit(X, y, qid)
        np.testing.assert_allclose(ranker.coef_, w, atol=1e-10)
    with pytest.raises(ValueError, match="pair_weight must be 'uniform' or 'rows'"):
        hr.RankRLS(pair_weight="query").fit(X, y, qid)
    with pytest.raises(ValueError, match=r"there is no loss 'hinge'; the known ones are: .* logistic"):
        hr.CRR(loss="hinge").fit(X, y, qid)


def test_many_features_go_by_conjugate_gradients_to_the_same_answer(data, monkeypatch):
    X, y, qid = data
    exact = hr.RankRLS(C=0.5, tol=1e-10).fit(X, y, qid)
    monkeypatch.setattr(base, "LARGEST_SOLVED", 5)
    by_steps = hr.RankRLS(C=0.5, tol=1e-10).fit(X, y, qid)
    assert "products" in by_steps.trace_[-1] and "products" not in exact.trace_[-1]
    np.testing.assert_allclose(by_steps.coef_, exact.coef_, atol=1e-8)


def test_squares_of_explicit_pairs(data):
    X, y, qid = data
    i, j = listed(y, qid)
    explicit = hr.RankRLS(C=0.5, loss="squared", tol=1e-10).fit_pairs(X, i, j)
    np.testing.assert_allclose(explicit.coef_, hr.RankRLS(C=0.5, loss="squared").fit(X, y, qid).coef_, atol=1e-8)


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_crr_solves_both_parts_and_the_intercept_together(C, data):
    X, y, qid = data
    alpha, m = 0.3, np.random.default_rng(2).uniform(0.2, 2.0, len(y))
    i, j = listed(y, qid)
    rows, pairs = np.c_[X, np.ones(len(y))], np.c_[X[i] - X[j], np.zeros(len(i))]
    by_row, by_pair = alpha * m / m.sum(), (1 - alpha) * m[i] * m[j] / (m[i] * m[j]).sum()
    H = np.diag([1.0] * 6 + [0.0]) + 2 * C * ((rows.T * by_row) @ rows + (pairs.T * by_pair) @ pairs)
    b = 2 * C * (rows.T @ (by_row * y) + pairs.T @ (by_pair * (y[i] - y[j])))
    w = np.linalg.solve(H, b)
    for ranker in (hr.CRR(C=C, alpha=alpha).fit(X, y, qid, m), hr.CRR(alpha=alpha).fit_path(X, y, qid, [1, C], m)[1]):
        np.testing.assert_allclose(np.append(ranker.coef_, ranker.intercept_), w, atol=1e-9)
        np.testing.assert_allclose(ranker.predict(X), rows @ w, atol=1e-8)


def test_the_ends_of_crr_are_ridge_regression_and_rankrls(data):
    X, y, qid = data
    n, pairs = len(y), len(listed(y, qid)[0])
    ridge = Ridge(alpha=n / (2 * 3.0)).fit(X, y)
    ranker = hr.CRR(C=3.0, alpha=1.0).fit(X, y, qid)
    np.testing.assert_allclose(ranker.coef_, ridge.coef_, atol=1e-9)
    np.testing.assert_allclose(ranker.intercept_, ridge.intercept_, atol=1e-8)
    alone = hr.RankRLS(C=3.0 / pairs, loss="grade_differences").fit(X, y, qid)
    np.testing.assert_allclose(hr.CRR(C=3.0, alpha=0.0).fit(X, y, qid).coef_, alone.coef_, atol=1e-9)
    for alpha in (1.5, "half", float("nan")):
        with pytest.raises(ValueError, match="alpha must be a number from 0"):
            hr.CRR(alpha=alpha).fit(X, y, qid)


def test_regression_beside_any_loss_has_the_right_derivatives(data):
    X, y, qid = data
    _, preferences = sorted_lists(X, y, qid)
    loss, rng, h = WithRegression(make_loss("logistic"), 0.4), np.random.default_rng(3), 1e-5
    s, v = rng.normal(size=(2, len(y)))
    here, up, down = (loss.at(s + e * v, preferences) for e in (0, h, -h))
    np.testing.assert_allclose((up.value - down.value) / (2 * h), here.gradient @ v, rtol=1e-7)
    np.testing.assert_allclose((up.gradient - down.gradient) / (2 * h), here.curvature(v), atol=1e-8)
    unit = np.zeros(len(y))
    unit[7] = 1.0
    np.testing.assert_allclose(here.curvature(unit)[7], here.diagonal[7], rtol=1e-10)
    assert hr.CRR(C=10.0, loss="logistic").fit(X, y, qid).certificate_.converged


@pytest.mark.parametrize("cls", [*LINEAR, hr.RankRLS, hr.CRR])
def test_paths_are_single_fits(cls, data):
    X, y, qid = data
    Cs = [1.0, 1e-2]
    for C, ranker in zip(Cs, cls(tol=1e-12).fit_path(X, y, qid, Cs)):
        alone = cls(C=C, tol=1e-12).fit(X, y, qid)
        assert ranker.C == C
        np.testing.assert_allclose(ranker.predict(X), alone.predict(X), atol=1e-5)


@pytest.mark.parametrize("cls", [*LINEAR, hr.RankRLS, hr.CRR])
def test_any_feature_map(cls, data):
    """A transformer as `features` is the transformer before the ranker."""
    X, y, qid = data
    inside = cls(C=0.01, tol=1e-8, features=PolynomialFeatures(2)).fit(X, y, qid)
    pipeline = make_pipeline(PolynomialFeatures(2), cls(C=0.01, tol=1e-8))
    pipeline.fit(X, y, **{f"{cls.__name__.lower()}__qid": qid})
    np.testing.assert_allclose(inside.predict(X), pipeline.predict(X), atol=1e-4)


def test_weights_of_a_feature_map_are_named_after_its_outputs(data):
    X, y, qid = data
    squares = PolynomialFeatures(2, include_bias=False)
    ranker = hr.RankSVM(features=squares).fit(X[:, :2], y, qid)
    assert {name for name, _ in ranker.feature_table(["a", "b"])} == {"a", "b", "a^2", "a b", "b^2"}
    assert {name for name, _ in ranker.feature_table()} == {"f1", "f2", "f1^2", "f1 f2", "f2^2"}
    turned = hr.RankSVM(features=PCA(X.shape[1])).fit(X, y, qid)  # as many outputs as features
    assert turned.feature_table()[0][0].startswith("pca")


@pytest.mark.parametrize("missing", ["error", "indicator"])
@pytest.mark.parametrize("features", [FourierMap(5, gamma=0.1), NystroemMap(5, kernel="polynomial", gamma=0.1)])
def test_exports_of_regression_on_a_feature_map_have_its_intercept(features, missing, data, tmp_path):
    X, y, qid = data
    if missing != "error":
        X = np.where(X > 1, np.nan, X)
    ranker = hr.CRR(C=100.0, features=features, missing=missing, scale="standard").fit(X, y + 3.0, qid)
    np.testing.assert_allclose(ranker.scorer()(X), ranker.predict(X), rtol=1e-9)
    ranker.export(tmp_path / "model.py", to="python")  # which compares scores
    assert hr.CRR(features=features)._form_parts() == [Outline("mapped"), Outline("linear")]


@pytest.mark.parametrize("loss", ["listnet", "listmle", "all_differences", "fidelity"])
def test_kernel_rankers_take_the_same_losses(loss, data, tmp_path):
    X, y, qid = data
    linear = hr.RankSVM(C=0.1, loss=loss, tol=1e-8).fit(X, y, qid).predict(X)
    kernel = hr.KernelRankSVM("linear", C=0.1, loss=loss, tol=1e-8).fit(X, y, qid)
    mapped = hr.NystroemRankSVM(150, kernel="linear", C=0.1, loss=loss, tol=1e-8).fit(X, y, qid)
    for ranker in (kernel, mapped):
        np.testing.assert_allclose(ranker.predict(X), linear, atol=1e-4 * np.ptp(linear))
        again = hr.load(ranker.save(tmp_path / f"{loss}.safetensors"))
        assert np.array_equal(again.predict(X), ranker.predict(X))


def test_lists_are_refused_where_there_are_none(data):
    X, y, qid = data
    with pytest.raises(ValueError, match="cannot learn from single comparisons"):
        hr.ListNet().fit_pairs(X, [0], [1])
    for ranker in (hr.CRR(loss="logistic"), hr.LambdaRank()):
        with pytest.raises(ValueError, match="needs graded rows: it cannot learn from winners or single comparisons"):
            ranker.fit_pairs(X, [0], [1])
        with pytest.raises(ValueError, match="needs graded rows"):
            ranker.fit_winners(X, y, qid)
    with pytest.raises(ValueError, match="takes no weights of pairs"):
        hr.RankSVM(loss="listmle", pair_weight="query").fit(X, y, qid)


def test_closed_forms_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(4)
    X, y, qid = rng.normal(size=(60_000, 8)).astype(np.float32), rng.integers(0, 3, 60_000), np.arange(60_000) // 40
    answers = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        answers.append(hr.CRR(C=5.0).fit(X, y, qid).coef_.tobytes())
    assert answers[0] == answers[1] == answers[2]


def test_margins_of_grades_are_the_optimum_over_listed_pairs():
    """MPRank's one-sided form, with weights, ties, a single row and a query of one grade."""
    rng = np.random.default_rng(5)
    qid = np.repeat([1, 2, 3, 4], [1, 8, 5, 9])
    X, y = rng.normal(size=(23, 3)).round(1), rng.choice([0.0, 1.0, 2.5], 23)
    y[qid == 3], m = 1.0, rng.choice([0.0, 1.0, 2.0], 23)
    pairs = [(i, j) for i in range(23) for j in range(23) if qid[i] == qid[j] and y[i] > y[j]]
    i, j = np.array(pairs).T

    def objective(w):
        t = (X[i] - X[j]) @ w
        return 0.5 * w @ w + 0.2 * (m[i] * m[j]) @ np.maximum(0.0, y[i] - y[j] - t) ** 2

    ranker = hr.RankSVM(C=0.2, loss="grade_margins", tol=1e-9).fit(X, y, qid, sample_weight=m)
    best = scipy.optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose([ranker.objective_, *ranker.coef_], [best.fun, *best.x], rtol=1e-4, atol=1e-4)
    assert ranker.certificate_.converged
    with pytest.raises(ValueError, match="cannot learn from winners"):
        hr.RankSVM(loss="grade_margins").fit_winners(X, y, qid)
