"""Models are the same bits whatever the number of threads that BLAS uses."""

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import hingerank as hr

FIT = {"C": 0.1, "max_iter": 20}
WIDE = {  # on more features than BLAS sums on one thread
    "newton": hr.RankSVM(**FIT),
    "smoothing": hr.RankSVM(loss="hinge", **FIT),
    "cutting planes": hr.RankSVM(loss="hinge", solver="cutting-plane", **FIT),
    "dual": hr.RankSVM(loss="hinge", solver="dual", **FIT),
    "smallest useful C": hr.RankSVM(C=None, max_iter=20),
    "not convex": hr.FRank(**FIT),
    "reranking": hr.LambdaRank(**FIT),
    "L-BFGS": hr.SoftRank(**FIT),
}


def fitted_twice(ranker, X, y, qid):
    found = []
    for number in (1, 2):
        with threadpool_limits(number, "blas"):
            ranker.fit(X, y, qid)
            found.append(np.append(ranker.coef_, getattr(ranker, "factors_", 0.0)))
    return found


@pytest.mark.filterwarnings("ignore:stopped after")
@pytest.mark.parametrize("name", WIDE)
def test_sums_over_many_features_do_not_depend_on_threads(name):
    rng = np.random.default_rng(0)
    X = sp.random(60, 40_000, density=0.01, random_state=0, format="csr")
    first, second = fitted_twice(WIDE[name], X, rng.integers(0, 3, 60), np.repeat(np.arange(4), 15))
    assert (first == second).all()


def test_multipliers_and_products_of_features_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(9001, 45)), rng.integers(0, 3, 9001), np.arange(9001) // 100
    with pytest.warns(UserWarning, match="stopped after"):
        first, second = fitted_twice(hr.FactorizedRankSVM(rank=5, C=0.1, max_iter=3, random_state=0), X, y, qid)
    assert (first == second).all()
    with pytest.warns(UserWarning, match="stopped after"):
        ranker = hr.RankingFM(rank=5, C=0.1, max_iter=3, random_state=0).fit(X, y, qid)
    scores = []
    for number in (1, 2):
        with threadpool_limits(number, "blas"):
            scores.append(ranker.predict(X))
    assert (scores[0] == scores[1]).all()
