"""Trees are scored here to the last bit as the library that grew them scores them, whatever the rows hold."""

import importlib.util

import numpy as np
import pytest
from scipy import sparse

import hingerank as hr


def need(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


TINY = float(np.float32(1e-35))  # LightGBM's largest zero
SPECIAL = [
    np.nan, 0.0, -0.0, 1.0, -1.0, TINY, -TINY, np.nextafter(TINY, 1), -np.nextafter(TINY, 1), 1e-36, -1e-36, 5e-324,
    1e-45, -1e-45, 3e38, -3e38,
]  # fmt: skip


def training(seed, n_features=7, rows=600):
    """Rows with repeated values, zeros and, in some columns, missing values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n_features))
    X[:, 1] = np.round(X[:, 1] * 2)
    X[rng.random(X.shape) < 0.2] = 0.0
    X[:, 3:5][rng.random((rows, 2)) < 0.3] = np.nan
    X[:, 5] *= 1e-36 if seed % 2 else 1e30
    y = np.clip(np.round(np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 3]) + 0.3 * rng.normal(size=rows)), 0, 3)
    return X, y, np.repeat(np.arange(rows // 30), 30)


def probes(X, seed):
    """Rows of the training, rows beside them and rows of special numbers, as all kinds of matrices."""
    rng = np.random.default_rng(seed + 100)
    near = np.nextafter(X, rng.choice([-np.inf, np.inf], X.shape))
    odd = np.where(rng.random(X.shape) < 0.5, rng.choice(SPECIAL, X.shape), X * 2)
    single = np.concatenate((X, near, odd)).astype(np.float32)
    beside = np.nextafter(single, rng.choice(np.float32([-np.inf, np.inf]), single.shape))
    double = np.concatenate((X, near, odd, single, np.where(np.isinf(beside), single, beside)))
    rows = [double, double.astype(np.float32), double[:1], double[:0].reshape(0, X.shape[1])]
    return [*rows, *(sparse.csr_matrix(part) for part in rows[:2])]


def scores(ranker, rows):
    if not rows.shape[0]:
        return ranker._scores(rows)  # scikit-learn refuses no rows
    with np.errstate(all="ignore"):  # it adds numbers up to find infinite ones, and these are large
        return ranker.predict(rows)


LIGHTGBM = [
    {},
    {"params": {"zero_as_missing": True}},
    {"params": {"use_missing": False}},
    {"num_leaves": 2},
    {"num_leaves": 255, "min_child_samples": 1, "n_estimators": 40},
    {"num_leaves": 63, "params": {"max_depth": 4, "lambda_l1": 0.1, "lambda_l2": 2.0, "max_bin": 15}},
    {"params": {"boosting": "dart", "drop_rate": 0.5}},
    {"params": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "zero_as_missing": True}},
    {"params": {"extra_trees": True, "feature_fraction": 0.5, "path_smooth": 1.0}},
    {"params": {"monotone_constraints": [1, 0, 0, -1, 0, 0, 0], "boosting": "goss"}},
    {"objective": "rank_xendcg"},
    {"objective": "regression"},
    {"min_child_samples": 10_000},  # a single leaf
]
XGBOOST = [
    {},
    {"max_depth": 1, "n_estimators": 50},
    {"max_depth": 0, "params": {"grow_policy": "lossguide", "max_leaves": 40, "min_child_weight": 0.0}},
    {"params": {"tree_method": "exact", "gamma": 0.3}},
    {"params": {"tree_method": "exact", "gamma": 3.0, "max_depth": 9}},
    {"params": {"tree_method": "approx", "num_parallel_tree": 3, "subsample": 0.7, "colsample_bynode": 0.5}},
    {"params": {"base_score": 0.3, "reg_lambda": 5.0, "reg_alpha": 0.1, "max_bin": 8}},
    {"objective": "rank:pairwise", "learning_rate": 3.0},
    {"params": {"booster": "dart", "rate_drop": 0.5, "normalize_type": "forest"}},
    {"objective": "reg:squarederror"},
    {"params": {"gamma": 1e9}},  # a single leaf
]


@pytest.fixture
def trained(monkeypatch):
    """The boosters as the library's `train` returns them."""
    found = []

    def watch(library):
        own = library.train
        monkeypatch.setattr(library, "train", lambda *args, **named: found.append(own(*args, **named)) or found[-1])
        return found

    return watch


@need("lightgbm")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("settings", LIGHTGBM, ids=str)
def test_lightgbms_scores(settings, seed, trained):
    import lightgbm

    X, y, qid = training(seed)
    boosters = trained(lightgbm)
    ranker = hr.LightGBMRanker(**{"n_estimators": 15, "min_child_samples": 3} | settings).fit(X, y, qid)
    for rows in probes(X, seed):
        own = boosters[0].predict(rows, num_threads=1) if rows.shape[0] else np.zeros(0)
        np.testing.assert_array_equal(scores(ranker, rows), own)
    extreme = [1e300, -1e300, 1.7e308, -1.7e308, 0, np.nan, *([] if settings else [np.inf, -np.inf])]
    extreme = np.random.default_rng(seed).choice(extreme, X.shape)
    np.testing.assert_array_equal(ranker._scores(extreme), boosters[0].predict(extreme))


@need("xgboost")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("settings", XGBOOST, ids=str)
def test_xgboosts_scores(settings, seed, trained):
    import xgboost

    X, y, qid = training(seed)
    boosters = trained(xgboost)
    ranker = hr.XGBoostRanker(**{"n_estimators": 15} | settings).fit(X, y, qid)
    for rows in probes(X, seed):
        if rows.shape[0]:
            own = boosters[0].predict(xgboost.DMatrix(rows.toarray() if sparse.issparse(rows) else rows))
            assert own.dtype == np.float32
            np.testing.assert_array_equal(scores(ranker, rows), own)


@need("xgboost")
def test_numbers_beyond_single_precision_are_refused_as_xgboost_does():
    import xgboost

    X, y, qid = training(0)
    ranker = hr.XGBoostRanker(n_estimators=2).fit(X, y, qid)
    X[3, 2] = 1e39
    with pytest.raises(ValueError, match="inf"):
        xgboost.DMatrix(X)
    with pytest.raises(ValueError, match="beyond single precision"):
        ranker.predict(X)
    with pytest.raises(ValueError, match="beyond single precision"):
        ranker.predict(sparse.csr_matrix(X))


@need("lightgbm")
@pytest.mark.slow
def test_wide_sparse_rows_and_threads(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random(3000, 2000, 0.02, "csr", rng=rng)
    y = np.asarray((X[:, :20].sum(axis=1) > 0.15).astype(float) + (X[:, 20:40].sum(axis=1) > 0.3)).ravel()
    ranker = hr.LightGBMRanker(n_estimators=20).fit(X, y, np.arange(3000) // 50)
    own = ranker.boosters_[0].predict(X)
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        np.testing.assert_array_equal(ranker.predict(X), own)
        np.testing.assert_array_equal(ranker.predict(X.toarray()), own)


@need("lightgbm")
def test_contributions_and_importances_are_lightgbms():
    X, y, qid = training(3)
    ranker = hr.LightGBMRanker(n_estimators=15, min_child_samples=5).fit(X, y, qid)
    (booster,), (forest,) = ranker.boosters_, ranker.models_
    np.testing.assert_allclose(forest.contributions(X, 2), booster.predict(X, pred_contrib=True), atol=1e-12)
    np.testing.assert_allclose(forest.importances(), booster.feature_importance("gain"), rtol=1e-6)


@need("xgboost")
def test_contributions_and_importances_are_xgboosts():
    import xgboost

    X, y, qid = training(3)
    X = X.astype(np.float32)
    ranker = hr.XGBoostRanker(n_estimators=15).fit(X, y, qid)
    (booster,), (forest,) = ranker.boosters_, ranker.models_
    np.testing.assert_allclose(
        forest.contributions(X, 2), booster.predict(xgboost.DMatrix(X), pred_contribs=True), atol=1e-5
    )
    gains = booster.get_score(importance_type="total_gain")
    np.testing.assert_allclose(forest.importances(), [gains.get(f"f{j}", 0.0) for j in range(7)], rtol=1e-5)
