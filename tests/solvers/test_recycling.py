"""Recycled curvature: the inverse of a quadratic from its conjugate directions, and fewer Hessian products for it."""

import tracemalloc

import numpy as np
import pytest

import hingerank as hr
from hingerank.features.fourier import FourierMap
from hingerank.losses import squared_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.problem import problem as module
from hingerank.problem.kernel_space import Expansion, GivenGram, KernelProblem
from hingerank.problem.problem import FusedPass
from hingerank.solvers.newton import Recycled, conjugate_gradients, newton


@pytest.fixture(scope="module")
def system():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    return (Q * np.geomspace(1e4, 1.0, 30)) @ Q.T, rng.normal(size=30)


def test_a_second_system_with_the_same_matrix_needs_few_products(system):
    H, g = system
    inverse = Recycled(64)
    first, _, used = conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, inverse)
    assert np.linalg.norm(H @ first + g) <= 0.1 * np.linalg.norm(g) and len(inverse.pairs) == used > 5
    for direction, product, _ in inverse.pairs:
        np.testing.assert_allclose(product, H @ direction, rtol=1e-6, atol=1e-8)
    newest, image, _ = inverse.pairs[-1]
    np.testing.assert_allclose(inverse(image), newest, rtol=1e-8)
    again, _, fewer = conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, inverse)
    assert np.linalg.norm(H @ again + g) <= 0.1 * np.linalg.norm(g) and fewer <= 1


def test_it_is_symmetric_and_positive_and_forgets_the_oldest(system):
    H, g = system
    inverse = Recycled(7)
    conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, inverse)
    assert len(inverse.pairs) == 7
    M = np.stack([inverse(e) for e in np.eye(30)], axis=1)
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0


def test_nothing_remembered_is_the_identity(system):
    inverse = Recycled(0)
    H, g = system
    plain = conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0)
    told = conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, inverse)
    assert np.array_equal(plain[0], told[0]) and not inverse.pairs and inverse(g) is g


def ranking(seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 1201, 12)
    X = rng.random((1200, 6))
    y = np.clip(np.round(2 * np.sin(6 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=1200)), 0, 2)
    return X, GradedPreferences(y, offsets)


def test_newton_finds_the_same_minimum_with_fewer_products():
    X, preferences = ranking()
    problem = Problem(RowsDesign(FourierMap(420, gamma=1.0).fit(X).transform(X)), squared_hinge(), preferences)
    assert problem.recycled == 0  # small
    plain = newton(problem, tol=1e-11)
    problem.recycled = 64
    quick = newton(problem, tol=1e-11)
    assert quick.certificate.converged and quick.value == pytest.approx(plain.value, rel=1e-9)
    assert quick.trace[-1]["products"] < 0.75 * plain.trace[-1]["products"]


def test_it_works_in_a_kernels_space():
    X, preferences = ranking(1)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    problem = KernelProblem(GivenGram(K), squared_hinge(), preferences)
    problem.recycled = 0
    plain = newton(problem, tol=1e-11)
    problem.recycled = 64
    quick = newton(problem, tol=1e-11)
    assert isinstance(quick.w, Expansion) and quick.value == pytest.approx(plain.value, rel=1e-9)
    assert quick.trace[-1]["products"] < 0.85 * plain.trace[-1]["products"]


def test_a_fit_that_begins_with_samples_reads_all_rows_only_where_they_lead(monkeypatch):
    """Once for the point that the samples give, and once for every step: nothing at weights of 0."""
    import hingerank as hr

    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 200)
    data = hr.make_letor(1500, 8, n_features=3, seed=0, dtype="float64")
    whole, usual = [], FusedPass.at

    def counted(self, w):
        whole.append(np.any(w)) if self.stride == 1 else None
        return usual(self, w)

    monkeypatch.setattr(FusedPass, "at", counted)
    ranker = hr.RankSVM(C=1e-3, tol=1e-6).fit(data)
    assert all(whole) and len(whole) == 1 + ranker.n_iter_ and ranker.certificate_.converged
    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 10**9)
    plain = hr.RankSVM(C=1e-3, tol=1e-6).fit(data)
    np.testing.assert_allclose(ranker.coef_, plain.coef_, rtol=1e-2, atol=1e-4)
    assert not all(whole)  # without samples weights of 0 are where it begins


def test_the_hessian_of_a_sample_is_that_of_its_own_queries(monkeypatch):
    """The windows of other queries are not there, or old."""
    from hingerank.losses import squared_hinge
    from hingerank.preferences import GradedPreferences

    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 100)
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(6000, 3)), rng.integers(0, 3, 6000).astype(float), rng.normal(size=3)
    for rows in (X, X.astype(np.float32)):
        problem = Problem(RowsDesign(rows), squared_hinge(), GradedPreferences(y, np.arange(0, 6001, 6)), C=0.1)
        parts = problem.samples()
        assert parts
        for part in parts:
            point = part.at(w)
            expected = np.stack([point.curvature(e) for e in np.eye(3)], axis=1)
            np.testing.assert_allclose(point.hessian(), expected, rtol=1e-5)


def test_what_the_samples_teach_saves_products_of_the_whole(monkeypatch):
    """The Hessian of a sample is near that of all rows, so its products precondition the steps that follow."""
    import hingerank as hr
    from hingerank.solvers import newton as solver

    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 200)
    data = hr.make_letor(8000, 8, n_features=30, seed=0, dtype="float64")
    preferences = GradedPreferences(data.y, data.blocks.offsets)
    problem = Problem(RowsDesign(data.X), squared_hinge(), preferences)
    problem.recycled = 64
    assert len(problem.samples()) == 2
    taught, usual = newton(problem), solver.solve_samples
    monkeypatch.setattr(solver, "solve_samples", lambda *given: (usual(*given)[0], None))
    forgotten = newton(problem)
    assert taught.certificate.converged and taught.value == pytest.approx(forgotten.value, rel=1e-3)
    assert taught.trace[-1]["products"] < 0.8 * forgotten.trace[-1]["products"]


def test_it_goes_on_from_one_that_is_like_it(system):
    H, g = system
    first = Recycled(64)
    conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, first)
    for diagonal in (None, np.diag(H)):
        second = Recycled(64, diagonal, first)
        assert len(second.pairs) == len(first.pairs)
        step, _, used = conjugate_gradients(lambda v: H @ v, g, np.inf, 0.0, None, second)
        assert used <= 1 and np.linalg.norm(H @ step + g) <= 0.1 * np.linalg.norm(g)


def test_a_hinge_takes_about_the_memory_of_a_squared_hinge():
    """A hinge is minimised rounded: windows of its own would be made for nothing."""
    rows = hr.make_letor(600, rows_per_query=50, n_features=4, seed=0)
    peaks = {}
    for loss in ("squared_hinge", "hinge"):
        ranker = hr.RankSVM(C=1e-3, loss=loss).fit(rows)
        tracemalloc.start()
        try:
            ranker.fit(rows)
            peaks[loss] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peaks["hinge"] < 1.4 * peaks["squared_hinge"]
