"""The same numbers in single and in double precision give the same ranker, up to rounding: every ranker, every scaler.

Scores may differ by CLOSE, relative to their spread. Rows that a scaler made differ in their seventh digit, so what is
chosen among them (landmarks, thresholds, centres) must not hang on it. FactorizedRankSVM is not convex: from scaled
rows it may come to other factors.
"""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import sparse

from hingerank.kernels.rows import row_keys
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

CLOSE = 3e-5
CLASSES = {name: cls for name in RANKERS if issubclass(cls := ranker_class(name), BaseRanker)}
GRADED = {name: cls for name, cls in CLASSES.items() if find_spec(getattr(cls, "requires", "sklearn"))}
FEW = {"n_components": 5}
VARIANTS = {
    "nystroem-rank-svm": [FEW, FEW | {"landmarks": "leverage"}, FEW | {"landmarks": "kmeans"}, {"rank": 3}],
    "kernel-rank-svm": [{"loss": "hinge"}, {"kernel": "polynomial", "tol": 1e-7}],
    "fourier-rank-svm": [{"memory_gb": 0}],
    "rank-svm": [{"loss": "hinge"}, {"loss": "logistic"}],
    "additive-rank-svm": [{"loss": "hinge"}, {"monotone": {0: 1}}],
}
SCALES = ("standard", "log", "query-minmax", "quantile")
CASES = [(name, more) for name in sorted(GRADED) for more in [{}, *VARIANTS.get(name, [])]]


def usual():
    """Dense columns with zeros among them."""
    rng = np.random.default_rng(3)
    X = rng.random((90, 6))
    X[rng.random(X.shape) < 0.3] = 0
    y = np.clip(np.round(4 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=90)), 0, 3)
    return X.astype(np.float32), y, rng.integers(0, 9, 90)


def far():
    """Columns far from 0, where single precision has few digits left and neighbours become equal."""
    rng = np.random.default_rng(1)
    X = (rng.random((120, 3)) + 20).astype(np.float32)
    return X, np.round(2 * X[:, 0] - 2 * X[:, 1]) + rng.integers(0, 2, 120), rng.integers(0, 8, 120)


def made(name, settings):
    known = GRADED[name]().get_params()
    return GRADED[name](**({"n_estimators": 5} if "n_estimators" in known else {}) | settings)


def differ(name, settings, data, form=lambda X: X):
    """How much the scores of the two fits differ, relative to their spread."""
    X, y, qid = data
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (form(X), form(X.astype(np.float64))):
            scores = made(name, settings).fit(rows, y, qid).predict(rows, qid)
            found.append(scores - scores.mean())
    return np.abs(found[0] - found[1]).max() / np.ptp(found[1])


@pytest.mark.parametrize("name, settings", CASES)
def test_rows_as_they_are(name, settings):
    assert differ(name, settings, usual()) <= CLOSE
    assert differ(name, settings, usual(), sparse.csr_matrix) <= CLOSE
    if settings.get("kernel") == "polynomial":
        return  # third powers of numbers around 20 have no digits left to tell rows apart
    plain = settings | ({"scale": None} if "scale" in GRADED[name]().get_params() else {})
    assert differ(name, plain, far()) <= CLOSE
    assert differ(name, plain, far(), sparse.csr_matrix) <= CLOSE


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name, settings", [case for case in CASES if case[0] != "factorized"])
def test_scaled_rows(name, settings, scale):
    if "scale" in GRADED[name]().get_params():
        assert differ(name, settings | {"scale": scale}, usual()) <= CLOSE


@pytest.mark.parametrize("name", ["rankboost", "gbrank", "lightgbm", "mcrank"])
def test_rounding_makes_no_neighbours_equal(name):
    """Of these rankers the order of a feature's values counts, and a scaler must keep it: also of next numbers."""
    rng = np.random.default_rng(0)
    step = np.spacing(np.float32(20.0))
    X = (20 + step * np.stack([rng.permutation(120) for _ in range(3)], axis=1)).astype(np.float32)
    data = X, np.argsort(np.argsort(X[:, 0])) // 12, np.repeat(np.arange(8), 15)
    for form, scale in ((np.asarray, "standard"), (np.asarray, "log"), (sparse.csr_matrix, "deviation")):
        assert differ(name, {"scale": scale}, data, form) == 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_keys_of_rows_are_those_of_their_values_in_single_precision(form):
    X = np.random.default_rng(0).normal(size=(50, 4)) ** 3
    single, keys = X.astype(np.float32).astype(np.float64), []
    single[:4] = X[:4] = np.array([[1e300], [2e300], [1e-300], [2e-300]])  # beyond single precision they still differ
    for rows in (form(X), form(single)):
        keys.append(np.empty(50, np.uint64))
        row_keys((rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,), keys[-1])
    assert np.array_equal(*keys) and len(np.unique(keys[0])) == 50
