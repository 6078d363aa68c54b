"""Numbers too large for double precision are answered by a certificate that says so."""

import warnings

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.kernels.order import order_blocks
from hingerank.solvers.run import relative

LONG = np.longdouble


def quiet(ranker, *data, **weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranker.fit(*data, **weights)


def test_weights_that_fit_worse_than_zeros_are_never_certified():
    """Scores of 1e13 times the margin hide the multipliers: their gradient is 0 although no pair is in order."""
    rng = np.random.default_rng(263)
    X, y, qid = 1e12 * rng.normal(size=(28, 2)), rng.integers(0, 3, 28).astype(float), np.zeros(28)
    X += rng.normal(size=2) * 1e15
    weight = rng.choice([1e-8, 1.0, 1e8], 28)
    i, j = np.nonzero(y[:, None] > y[None, :])
    D, pair = X.astype(LONG)[i] - X.astype(LONG)[j], weight.astype(LONG)[i] * weight.astype(LONG)[j]
    for C in (1.0, 100.0):
        ranker = quiet(hr.RankSVM(C=C, loss="hinge", tol=1e-5, max_iter=60), X, y, qid, sample_weight=weight)
        w = ranker.coef_.astype(LONG)
        value = w @ w / 2 + LONG(C) * (pair * np.maximum(0, 1 - D @ w)).sum()
        assert not ranker.certificate_.converged or value <= LONG(C) * pair.sum(), C
    assert relative(1e-6, 2.0, 1.0) == np.inf


@pytest.mark.parametrize("C", [1e15, 1e25, 1e200])
def test_any_C_is_answered_honestly(C):
    """Beside a large C the penalty's 1 vanishes from matrices; beside a very large one sums overflow."""
    data = hr.make_letor(60, n_features=6, seed=0)
    X = np.hstack([data.X, 2 * data.X[:, :1], np.ones((len(data.X), 1))])
    for ranker in (
        hr.RankRLS(C=C),
        hr.CRR(C=C),
        hr.SVMMAP(C=C, max_iter=20),
        hr.RankSVM(C, "hinge", solver="cutting-plane", max_iter=20),
        hr.KernelRankSVM(C=C, max_iter=2, gamma=0.5),
    ):
        with np.errstate(all="ignore"):
            certificate = quiet(ranker, X, data.y, data.qid).certificate_
        assert np.isfinite(ranker.predict(X)).all() and (C < 1e200 or certificate.status == "overflow"), ranker


def test_curves_converge_for_large_C():
    """Blocks of the Hessian may be singular in double precision."""
    data = hr.make_letor(200, n_features=8, seed=0)
    X = np.hstack([data.X, np.round(data.X[:, :2]), np.ones((len(data.X), 1))])
    for C in (1e12, 1e15):
        assert quiet(hr.AdditiveRankSVM(C=C), X, data.y, data.qid).certificate_.converged, C


@pytest.mark.parametrize("C", [1e155, 1e200, 1e300])
def test_multipliers_of_any_C_are_answered_honestly(C):
    """Factors scaled down to 0, as w·w overflowed, were a stationary point; Gram matrices overflowed."""
    data = hr.make_letor(8, n_features=4, seed=0)
    with np.errstate(all="ignore"):
        factorized = quiet(hr.FactorizedRankSVM(2, C, max_iter=5), data.X, data.y, data.qid)
        regularized = quiet(hr.RegularizedRankSVM(C), data.X, data.y, data.qid)
    assert factorized.objective_ < 0 and factorized.coef_.any()
    assert regularized.certificate_.status == "overflow"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ranker", [hr.KernelRankSVM("polynomial"), hr.NystroemRankSVM(20, kernel="polynomial")])
def test_scores_are_finite_or_an_error(ranker):
    data = hr.make_letor(8, n_features=4, seed=0)
    rows, huge = ranker.fit(data), data.X.astype(float)
    huge[3] = 1e200
    with pytest.raises(DataError, match="the score of row 3 is"):
        rows.predict(huge)


@pytest.mark.parametrize(
    "options", [{"kernel": "rbf"}, {"kernel": "polynomial"}, {"rank": 3}, {"landmarks": "leverage"}]
)
def test_landmarks_whose_kernel_overflows_are_an_error(options):
    data = hr.make_letor(8, n_features=4, seed=0)
    with pytest.raises(DataError, match="values are not finite"):
        hr.NystroemRankSVM(20, gamma=1.0, **options).fit(1e200 * data.X.astype(float), data.y, data.qid)


def test_scores_that_are_not_numbers_are_ordered_within_their_array():
    """An order of them means nothing, but a kernel that reads other rows ends the process."""
    s = np.random.default_rng(0).normal(size=300)
    s[::3] = np.nan
    order = np.full(300, 10**9)
    order_blocks(s, np.array([0, 90, 300]), 0, 2, order)
    assert order.min() >= 0 and order.max() < 300
