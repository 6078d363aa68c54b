"""What a certificate says is so: objective and gap are computed again by listing the pairs, in extended precision."""

import warnings

import numpy as np
import pytest

import hingerank as hr

LONG = np.longdouble
LOSSES = {
    "squared_hinge": lambda t: (np.maximum(0, 1 - t) ** 2, -2 * np.maximum(0, 1 - t)),
    "logistic": lambda t: (np.logaddexp(LONG(0), -t), -1 / (1 + np.exp(t))),
    "squared": lambda t: ((1 - t) ** 2, -2 * (1 - t)),
}


def problem(seed, spread):
    """Rows with ties and repeats, whose columns differ in scale by `spread` decades, and offsets of that size."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 60)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d))
    X[rng.random(n) < 0.2] = X[0]
    X = (X + rng.integers(0, 3)) * 10.0 ** rng.uniform(-spread / 2, spread / 2, d)
    return X, rng.integers(0, 4, n).astype(float), np.sort(rng.integers(0, 4, n)), rng.uniform(0.5, 2.0, n)


def recomputed(X, y, qid, weight, C, loss, w):
    """(objective, relative duality gap) at w over the listed pairs."""
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    D, pair = X.astype(LONG)[i] - X.astype(LONG)[j], weight.astype(LONG)[i] * weight.astype(LONG)[j]
    w = w.astype(LONG)
    value, slope = LOSSES[loss](D @ w)
    f = w @ w / 2 + LONG(C) * (pair * value).sum()
    g = w + LONG(C) * D.T @ (pair * slope)
    return float(f), float(g @ g / 2 / f)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread", [0, 6, 12])
def test_what_is_certified_is_true(loss, spread):
    certified = 0
    for seed in range(25):
        X, y, qid, weight = problem(seed, spread)
        if not any(len(np.unique(y[qid == q])) > 1 for q in np.unique(qid)):
            continue
        C = 10.0 ** np.random.default_rng(seed).uniform(-12, 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = hr.RankSVM(C=C, loss=loss).fit(X, y, qid, sample_weight=weight)
        f, gap = recomputed(X, y, qid, weight, C, loss, ranker.coef_)
        assert ranker.certificate_.kind == "relative duality gap"
        if ranker.certificate_.converged:
            certified += 1
            assert gap <= 1e-3 * (1 + 1e-3) + 1e-9, (seed, gap, ranker.certificate_)
            assert abs(ranker.objective_ - f) <= 1e-6 * f, (seed, ranker.objective_, f)
    assert certified >= 15, certified


def test_columns_of_any_scale_converge_in_about_as_many_iterations():
    data = hr.make_letor(100, n_features=20, seed=1)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    spread = 10.0 ** np.random.default_rng(0).uniform(-3, 6.6, X.shape[1])
    for C in (1e-3, 1.0):
        even = hr.RankSVM(C=C).fit(X, data.y, data.qid).certificate_
        uneven = hr.RankSVM(C=C).fit((X + 5) * spread, data.y, data.qid).certificate_
        assert even.converged and uneven.converged and uneven.n_iter <= 3 * even.n_iter, (even, uneven)


def test_the_dual_certifies_the_weights_it_returns():
    for seed in range(12):
        X, y, qid, _ = problem(seed, 0)
        ranker = hr.RankSVM(C=100.0, loss="hinge", solver="dual", max_iter=5000).fit(X, y, qid)
        best = hr.RankSVM(C=100.0, loss="hinge", tol=1e-7, max_iter=5000).fit(X, y, qid)
        if ranker.certificate_.converged:
            assert ranker.objective_ <= best.objective_ * (1 + 1.1e-3), seed
