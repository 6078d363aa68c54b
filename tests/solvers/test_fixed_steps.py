"""The printed algorithms of Xu et al. (2019) against plain loops over pairs, and against solvers that converge."""

import itertools
import warnings

import numpy as np
import pytest

from hingerank import FactorizedRankSVM, RegularizedRankSVM
from hingerank.solvers.run import GAP


def small(seed=0, sizes=(5, 1, 4, 6), d=3, grades=3):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(qid), d)), rng.integers(0, grades, len(qid)).astype(float), qid


def pairs_of(y, qid):
    return [(i, j) for i, j in itertools.permutations(range(len(y)), 2) if qid[i] == qid[j] and y[i] > y[j]]


def quietly(ranker, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranker.fit(*data)


def algorithm_1(X, y, qid, V, C, step, epochs):
    """Pair by pair, row by row, from V in the order of rows."""
    pairs, limit = pairs_of(y, qid), np.sqrt(C / V.shape[1])
    for _ in range(epochs):
        for q in np.unique(qid):
            w = sum((V[i] @ V[j] * (X[i] - X[j]) for i, j in pairs), np.zeros(X.shape[1]))
            gradient = np.zeros_like(V)
            for i, j in pairs:
                if qid[i] == q:
                    margin = w @ (X[i] - X[j]) - 1.0
                    gradient[i] += V[j] * margin
                    gradient[j] += V[i] * margin
            V = np.clip(V - step * gradient, 0.0, limit)
    return sum((V[i] @ V[j] * (X[i] - X[j]) for i, j in pairs), np.zeros(X.shape[1]))


@pytest.mark.parametrize("epochs", [1, 3])
def test_algorithm_1_equals_loops_over_pairs(epochs):
    X, y, qid = small()
    for q in np.unique(qid):  # so that the order of factors is that of rows
        y[qid == q] = np.sort(y[qid == q])
    C, K, step = 0.5, 2, 0.05
    V = np.random.default_rng(7).uniform(0.0, np.sqrt(C / K), (len(y), K))
    options = {"solver": "paper", "learning_rate": step, "max_iter": epochs, "random_state": 7}
    ranker = quietly(FactorizedRankSVM(rank=K, C=C, **options), X, y, qid)
    np.testing.assert_allclose(ranker.coef_, algorithm_1(X, y, qid, V, C, step, epochs), rtol=1e-12)
    assert ranker.n_iter_ == epochs and len(ranker.trace_) == epochs + 1


def algorithm_2(X, y, qid, start, C, gamma, lam, step, rounds, inner):
    pairs = pairs_of(y, qid)
    D, a = np.array([X[i] - X[j] for i, j in pairs]), np.array([start[pair] for pair in pairs])

    def shrunk(a):
        A = np.zeros_like(a)
        for q in np.unique(qid):
            own = [k for k, (i, _) in enumerate(pairs) if qid[i] == q]
            full = np.zeros((len(y), len(y)))
            for k in own:
                full[pairs[k]] = a[k]
            u, s, vt = np.linalg.svd(full)
            low = (u * np.maximum(s - gamma / (2 * lam), 0.0)) @ vt
            A[own] = [low[pairs[k]] for k in own]
        return A

    A = shrunk(a)
    for _ in range(rounds):
        for _ in range(inner):
            a = np.clip(a - step * (D @ (D.T @ a) - 1.0 + 2 * lam * (a - A)), 0.0, C)
        A = shrunk(a)
    return D.T @ a


def test_algorithm_2_equals_loops_over_pairs():
    X, y, qid = small(1, sizes=(5,), grades=2)
    order = np.argsort(y, kind="stable")  # losers first, as in the matrix
    X, y = X[order], y[order]
    losers = int((y == 0).sum())
    drawn = np.random.default_rng(3).uniform(0.0, 0.4, (len(y) - losers) * losers)
    start = {(losers + r, c): drawn[r * losers + c] for r in range(len(y) - losers) for c in range(losers)}
    given = {"C": 0.4, "gamma": 0.3, "lam": 0.7}
    options = {"solver": "paper", "learning_rate": 0.02, "max_iter": 3, "inner_iter": 2, "random_state": 3}
    ranker = quietly(RegularizedRankSVM(**given, **options), X, y, qid)
    np.testing.assert_allclose(ranker.coef_, algorithm_2(X, y, qid, start, **given, step=0.02, rounds=3, inner=2))


def test_small_steps_end_where_the_exact_solver_does():
    X, y, qid = small(2)
    given = {"C": 0.2, "gamma": 0.2, "lam": 0.5}
    exact = RegularizedRankSVM(**given, tol=1e-8).fit(X, y, qid)
    paper = RegularizedRankSVM(**given, solver="paper", learning_rate=0.01, max_iter=400, inner_iter=20).fit(X, y, qid)
    assert paper.certificate_.kind == GAP and paper.certificate_.converged
    np.testing.assert_allclose(paper.objective_, exact.objective_, rtol=1e-5)
    np.testing.assert_allclose(paper.coef_, exact.coef_, atol=1e-3)


def test_too_few_steps_are_not_called_converged():
    X, y, qid = small(4)
    with pytest.warns(UserWarning, match="max_iter"):
        ranker = FactorizedRankSVM(rank=2, solver="paper", learning_rate=1e-4, max_iter=3).fit(X, y, qid)
    assert not ranker.certificate_.converged


@pytest.mark.parametrize("ranker", [FactorizedRankSVM, RegularizedRankSVM])
def test_an_unknown_solver_is_refused(ranker):
    with pytest.raises(ValueError, match="'paper', not 'newton'"):
        ranker(solver="newton").fit(*small())


def test_the_paper_takes_no_validation():
    with pytest.raises(ValueError, match="needs form='dual'"):
        FactorizedRankSVM(solver="paper", form="primal").fit(*small())
