"""The small quadratic programme of the cutting planes, and that no scale of the features slows them down."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.solvers.cutting_plane import cutting_plane, minimise_on_simplex


def excess(Q, b, a):
    """What moving all weight to the best entry would gain at first order, over the value; 0 at the optimum."""
    gradient = Q @ a - b
    return (gradient @ a - gradient.min()) / max(abs(0.5 * a @ (gradient - b)), 1e-300)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["plain", "repeated", "few dimensions"])
def test_the_optimum_over_the_simplex(kind, scale):
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        slopes = rng.standard_normal((size, 3 if kind == "few dimensions" else 40))
        b = rng.random(size)
        if kind == "repeated":
            slopes, b = np.vstack([slopes, slopes, np.zeros(40)]), np.concatenate([b, b, [0.0]])
        Q = scale * slopes @ slopes.T
        start = np.zeros(len(b))
        start[rng.integers(len(b))] = 1.0
        a = minimise_on_simplex(Q, b, start, 1e-9)
        assert a.min() >= 0 and a.sum() == pytest.approx(1)
        assert excess(Q, b, a) < 1e-6


def test_planes_without_slopes():
    a = minimise_on_simplex(np.zeros((3, 3)), np.array([1.0, 3.0, 2.0]), np.array([1.0, 0, 0]), 1e-9)
    assert a.tolist() == [0, 1, 0]
    a = minimise_on_simplex(np.zeros((3, 3)), np.array([1e-9, 3e-9, 2e-9]), np.array([1.0, 0, 0]), 1e-9)
    assert a.tolist() == [0, 1, 0]


@pytest.mark.parametrize("C", [1e-8, 1e-3, 1.0])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_rows_that_are_all_equal(C):
    ranker = hr.RankSVM(C=C, loss="hinge", solver="cutting-plane")
    with pytest.warns(UserWarning, match="no feature differs"):
        found = ranker.fit(np.ones((4, 2)), [0, 1, 2, 0])
    assert found.certificate_.converged and found.objective_ == pytest.approx(5 * C) and not found.coef_.any()


@pytest.mark.parametrize("C", [1e4, 1e9])
def test_pairs_that_can_be_kept_apart_at_a_large_C(C):
    """The plane R ≥ 0 has nearly all the weight then, and next to its zeros the other planes are huge."""
    differences = np.random.default_rng(3).standard_normal((30, 6)) * 10.0 ** np.arange(6)
    differences[differences @ [1, -1, 1, -1, 1, -1] < 0] *= -1

    def risk(w):
        wrong = differences[differences @ w < 1]
        return float((1 - wrong @ w).sum()), -wrong.sum(axis=0)

    found = cutting_plane(risk, 6, C, tol=1e-3)
    assert found.certificate.converged and found.certificate.n_iter < 1000


@pytest.mark.parametrize("scale", [1e-4, 1e3, 1e6])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_features_of_any_scale(scale):
    data = hr.make_letor(n_queries=8, rows_per_query=(5, 12), n_features=6, seed=0)
    settings = {"loss": "hinge", "tol": 1e-3}
    found = hr.RankSVM(C=0.01, solver="cutting-plane", **settings).fit(data.X * scale, data.y, qid=data.qid)
    other = hr.RankSVM(C=0.01, **settings).fit(data.X * scale, data.y, qid=data.qid)
    assert found.certificate_.converged and found.n_iter_ < 500
    assert found.objective_ == pytest.approx(other.objective_, rel=2e-3)


def test_weights_of_0_that_are_best_are_found_at_once():
    """No direction gains anything at a kink of the risk: there is nothing to be relative to."""

    def risk(w):
        return 3.0 + abs(w).sum(), np.where(w < 0, -1.0, 1.0)

    found = cutting_plane(risk, 3, C=1.0, tol=1e-3, max_iter=200)
    assert found.certificate.converged and np.abs(found.w).max() < 1e-6
