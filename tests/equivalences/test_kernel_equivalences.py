"""Kernel rankers agree with each other where they must, with the linear ranker, and with plain minimisation."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from hingerank import FourierRankSVM, KernelRankSVM, NystroemRankSVM, RankSVM
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import make_kernel
from hingerank.features.nystroem import NystroemMap
from hingerank.losses import LOSSES


def problem(seed=0, n_queries=14, d=4, rows=(1, 22)):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(*rows, n_queries))
    X = rng.random((len(qid), d))
    X[rng.random(X.shape) < 0.2] = 0
    y = np.clip(np.round(2 * np.sin(6 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=len(qid))), 0, 2)
    return X, y, qid


def pairs(y, qid):
    return np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))


def kernel_value(a, K, i, j, C, loss):
    s = K @ a
    return 0.5 * a @ s + C * LOSSES[loss]().pointwise(s[i] - s[j])[0].sum()


def same(a, b, tolerance):
    """Equal scores up to a constant, relative to their spread."""
    assert np.abs((a - a.mean()) - (b - b.mean())).max() <= tolerance * np.ptp(b)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "chi2", "cosine"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_exact_kernel_reaches_the_minimum_over_coefficients(kernel, loss):
    X, y, qid = problem()
    K, (i, j) = make_kernel(kernel, 2.0).matrix(X, X), pairs(y, qid)
    ranker = KernelRankSVM(kernel, gamma=2.0, C=0.5, loss=loss, tol=1e-8).fit(X, y, qid)
    a = np.zeros(len(y))
    a[ranker.support_] = ranker.dual_coef_
    assert ranker.certificate_.converged
    assert ranker.objective_ == pytest.approx(kernel_value(a, K, i, j, 0.5, loss), rel=1e-9)
    # in coordinates L'a the problem is well behaved for a plain minimiser
    values, vectors = np.linalg.eigh(K)
    L = vectors[:, values > 1e-9] * np.sqrt(values[values > 1e-9])

    def value_and_gradient(w):
        value, slope, _ = LOSSES[loss]().pointwise((L @ w)[i] - (L @ w)[j])
        pull = np.bincount(i, slope, len(L)) - np.bincount(j, slope, len(L))
        return 0.5 * w @ w + 0.5 * value.sum(), w + 0.5 * L.T @ pull

    best = scipy.optimize.minimize(
        value_and_gradient, np.zeros(L.shape[1]), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "maxiter": 5000}
    )
    assert ranker.objective_ <= best.fun * (1 + 1e-7)
    same(ranker.predict(X), L @ best.x, 1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "modified_huber"])
def test_linear_kernel_is_the_linear_ranker(loss):
    X, y, qid = problem(1)
    tol = 1e-8 if loss != "hinge" else 1e-6
    linear = RankSVM(C=0.7, loss=loss, tol=tol).fit(X, y, qid)
    kernel = KernelRankSVM("linear", C=0.7, loss=loss, tol=tol).fit(X, y, qid)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    np.testing.assert_allclose(kernel.dual_coef_ @ kernel.support_rows_, linear.coef_, atol=2e-3)
    same(kernel.predict(X), linear.predict(X), 1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_nystroem_with_all_rows_is_the_exact_kernel(kernel, loss):
    X, y, qid = problem(2)
    options = {"kernel": kernel, "gamma": 1.5, "C": 0.3, "loss": loss, "tol": 1e-9 if loss != "hinge" else 1e-5}
    exact = KernelRankSVM(**options).fit(X, y, qid)
    landmarks = NystroemRankSVM(len(X), **options).fit(X, y, qid)
    assert landmarks.objective_ == pytest.approx(exact.objective_, rel=2e-5 if loss == "hinge" else 1e-8)
    new = np.random.default_rng(9).random((50, 4))
    tolerance = 1e-4 if loss != "hinge" else 5e-3  # the hinge's optimum is flat
    for rows in (X, new):
        same(landmarks.predict(rows), exact.predict(rows), tolerance)


def test_nystroem_by_cholesky_and_by_all_eigenvectors_are_one_ranker():
    X, y, qid = problem(3)
    options = {"n_components": 40, "gamma": 1.5, "C": 0.3, "tol": 1e-9}
    cholesky = NystroemRankSVM(**options).fit(X, y, qid)
    eigen = NystroemRankSVM(rank=40, **options).fit(X, y, qid)
    assert eigen.objective_ == pytest.approx(cholesky.objective_, rel=1e-7)
    same(eigen.predict(X), cholesky.predict(X), 1e-4)


def test_mapped_rankers_are_linear_rankers_on_mapped_rows():
    X, y, qid = problem(4)
    for ranker, feature_map in (
        (NystroemRankSVM(30, gamma=1.5, C=0.3, tol=1e-8), NystroemMap(30, gamma=1.5)),
        (FourierRankSVM(30, gamma=1.5, C=0.3, tol=1e-8), FourierMap(30, gamma=1.5)),
    ):
        Phi = feature_map.fit(X).transform(X)
        linear = RankSVM(C=0.3, tol=1e-8).fit(Phi, y, qid)
        through_the_door = RankSVM(C=0.3, tol=1e-8, features=feature_map).fit(X, y, qid)
        fitted = ranker.fit(X, y, qid)
        for other in (fitted, through_the_door):
            assert other.objective_ == pytest.approx(linear.objective_, rel=1e-8)
            same(other.predict(X), linear.predict(Phi), 1e-5)


def test_features_and_pipeline_are_the_same_door():
    X, y, qid = problem(5)
    transformer = Nystroem(n_components=25, gamma=1.5, random_state=0)
    inside = RankSVM(C=0.3, tol=1e-8, features=transformer).fit(X, y, qid)
    outside = make_pipeline(transformer, RankSVM(C=0.3, tol=1e-8)).fit(X, y, ranksvm__qid=qid)
    same(inside.predict(X), outside.predict(X), 1e-5)


def test_fourier_approaches_the_exact_kernel_as_components_grow():
    X, y, qid = problem(6)
    exact = KernelRankSVM(gamma=1.5, C=0.3, tol=1e-6).fit(X, y, qid).predict(X)

    def distance(m):
        fits = [FourierRankSVM(m, gamma=1.5, C=0.3, tol=1e-6, random_state=s).fit(X, y, qid) for s in range(3)]
        return np.mean([np.std(f.predict(X) - f.predict(X).mean() - exact + exact.mean()) for f in fits])

    near = [distance(m) for m in (50, 400, 3200)]
    assert near[2] < 0.6 * near[1] < 0.36 * near[0]


@pytest.mark.parametrize("C", [0.05, 5.0])
def test_all_hinge_solvers_agree_and_their_bounds_hold(C):
    X, y, qid = problem(7)
    K = make_kernel("rbf", 1.5).matrix(X, X)
    options = {"gamma": 1.5, "C": C, "loss": "hinge", "tol": 1e-5}
    smooth = KernelRankSVM(**options).fit(X, y, qid)
    dual = KernelRankSVM(solver="dual", **options).fit(X, y, qid)
    a = np.zeros(len(y))
    a[dual.support_] = dual.dual_coef_
    multipliers = dual.multipliers_
    assert multipliers.min() >= 0 and multipliers.max() <= C and len(multipliers) == len(pairs(y, qid)[0])
    bound = multipliers.sum() - 0.5 * a @ K @ a
    assert bound <= smooth.objective_ <= bound * (1 + 3e-5)
    winner, loser = dual.pairs_.T
    np.testing.assert_allclose(
        np.bincount(winner, multipliers, len(y)) - np.bincount(loser, multipliers, len(y)), a, atol=1e-12
    )


@pytest.mark.parametrize("make", [KernelRankSVM, NystroemRankSVM, FourierRankSVM])
def test_paths_equal_single_fits_and_map_once(make):
    X, y, qid = problem(8)
    ranker = make(gamma=1.5, tol=1e-7)
    path = ranker.fit_path(X, y, qid, Cs=[1.0, 0.01, 0.1])
    assert [r.C for r in path] == [1.0, 0.01, 0.1]
    for member in path:
        alone = make(gamma=1.5, tol=1e-7, C=member.C).fit(X, y, qid)
        assert member.objective_ == pytest.approx(alone.objective_, rel=1e-6) and member.certificate_.converged
        same(member.predict(X), alone.predict(X), 1e-3)


@pytest.mark.parametrize("make", [KernelRankSVM, NystroemRankSVM, FourierRankSVM])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_memory_and_storage_change_nothing(make):
    X, y, qid = problem(9)
    options = {"gamma": 1.5, "C": 0.3, "tol": 1e-13}
    reference = make(**options).fit(X, y, qid).predict(X)
    same(make(memory_gb=0, **options).fit(X, y, qid).predict(X), reference, 1e-6)
    same(make(**options).fit(sp.csr_matrix(X), y, qid).predict(X), reference, 1e-6)
    single = make(**options).fit(X.astype(np.float32), y, qid)
    same(single.predict(X.astype(np.float32)), reference, 2e-3)
    i, j = pairs(y, qid)
    same(make(**options).fit_pairs(X, i, j).predict(X), reference, 1e-5)
