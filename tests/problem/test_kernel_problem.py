"""Gram matrices, the kernel's space and mapped designs: stored or computed again, the numbers are the same."""

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.features import maps as blocks
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import KERNELS, make_kernel
from hingerank.features.nystroem import NystroemMap
from hingerank.losses import LOSSES
from hingerank.preferences import ExplicitPairs, GradedPreferences
from hingerank.problem import Problem, RowsDesign, kernel_space, mapped
from hingerank.problem.kernel_space import Expansion, GivenGram, Gram, KernelProblem
from hingerank.problem.mapped import mapped_design
from hingerank.solvers.newton import newton

MUCH = 10**9


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 30, 25)
    X = rng.random((sizes.sum(), 6))
    X[rng.random(X.shape) < 0.3] = 0
    y = np.clip(np.round(3 * np.sin(5 * X[:, 0]) + X[:, 1] + rng.normal(size=len(X)) * 0.3), 0, 3)
    return X, y, np.concatenate(([0], np.cumsum(sizes)))


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_products_equal_those_of_the_whole_matrix(name, form, data, monkeypatch):
    monkeypatch.setattr(kernel_space, "ENTRIES_PER_SHARD", 5000)
    monkeypatch.setattr(kernel_space, "TILE", (7, 50))
    X = form(data[0])
    kernel = make_kernel(name, 0.8, 2, 0.5)
    K, v = kernel.matrix(X, X), np.random.default_rng(1).normal(size=X.shape[0])
    stored, computed = Gram(kernel, X, MUCH), Gram(kernel, X, 0)
    partly = Gram(kernel, X, sum(block.nbytes for block in stored.blocks) // 2)
    assert len(stored.blocks) == len(stored.shards) > 3 > len(computed.blocks) == 0
    assert 0 < len(partly.blocks) < len(stored.blocks) and stored.cost < partly.cost < computed.cost
    tolerance = 1e-9 if X.dtype == np.float64 else 2e-4
    np.testing.assert_allclose(stored.product(v), K @ v, atol=tolerance)
    for other in (partly, computed):
        np.testing.assert_allclose(other.product(v), stored.product(v), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stored.matrix(), K)


def test_the_triangle_takes_half_the_memory_and_respects_the_budget():
    X = np.random.default_rng(0).random((3000, 3))
    kernel = make_kernel("rbf", 1.0)
    kept = Gram(kernel, X, MUCH).blocks
    size = sum(block.nbytes for block in kept)
    assert all(block.dtype == np.float32 for block in kept)
    assert 3000 * 3000 * 2 < size < 1.3 * 3000 * 3000 * 2
    assert len(Gram(kernel, X, size).blocks) == len(kept) == len(Gram(kernel, X, size - 1).blocks) + 1
    half = Gram(kernel, X, size // 2).blocks
    assert 0.4 * size < sum(block.nbytes for block in half) <= size // 2


def test_answers_do_not_depend_on_threads(data, monkeypatch):
    monkeypatch.setattr(kernel_space, "ENTRIES_PER_SHARD", 5000)
    v = np.random.default_rng(1).normal(size=len(data[0]))
    for budget in (MUCH, 300_000, 0):
        found = []
        for threads in ("1", "2", "3"):
            monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
            found.append(Gram(make_kernel("rbf", 0.8), data[0], budget).product(v))
        assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_expansions_are_vectors_with_the_kernels_inner_product(data):
    X = data[0]
    K = make_kernel("rbf", 0.8).matrix(X, X)
    space = GivenGram(K)
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, len(X)))
    f, g = Expansion(space, a), Expansion(space, b)
    assert f @ g == pytest.approx(a @ K @ b)
    assert np.linalg.norm(f) == pytest.approx(np.sqrt(a @ K @ a))
    h = np.float64(2.0) * f - g * 3.0 + (-f).copy()
    np.testing.assert_allclose(h.a, a - 3 * b)
    np.testing.assert_allclose(h.values, K @ (a - 3 * b), atol=1e-10)
    zero = np.zeros_like(f)
    assert not np.any(zero) and np.any(f) and len(zero) == len(X) and not zero.values.any()
    with pytest.raises(TypeError):
        np.sum(f)


@pytest.mark.parametrize("cost", [0.0, 100.0])
def test_a_step_of_conjugate_gradients_costs_one_product(data, cost):
    X, y, offsets = data

    class Counted(GivenGram):
        products = 0

        def product(self, v):
            self.products += 1
            return super().product(v)

    space = Counted(make_kernel("rbf", 0.8).matrix(X, X))
    space.cost = cost
    objective = KernelProblem(space, LOSSES["squared_hinge"](), GradedPreferences(y, offsets), 1.0)
    assert (objective.recycled > 0) == (cost > 0)
    solution = newton(objective, tol=1e-6)
    assert solution.certificate.converged
    # one for every gradient, whose values start the conjugate gradients, one for every step of these, and two more
    # where Newton's step begins with removing coefficients
    near = sum(entry["gap"] <= 1e-4 for entry in solution.trace[:-1])
    assert space.products <= solution.trace[-1]["products"] + solution.certificate.n_iter + 1 + 2 * near


@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", "logistic"])
def test_objective_in_the_kernels_space_is_that_of_explicit_features(loss, data):
    """Rows of a factor of K: the same value, gradient and curvature, seen from the other side."""
    X, y, offsets = data
    preferences = GradedPreferences(y, offsets)
    K = make_kernel("rbf", 0.8).matrix(X, X)
    there = KernelProblem(GivenGram(K), LOSSES[loss](), preferences, 0.7)
    values, vectors = np.linalg.eigh(K)
    L = vectors * np.sqrt(np.maximum(values, 0))
    here = Problem(RowsDesign(L), LOSSES[loss](), preferences, C=0.7)
    a, b = np.random.default_rng(3).normal(size=(2, len(X))) * 0.1
    point, plain = there.at(a), here.at(L.T @ a)
    assert point.value == pytest.approx(plain.value)
    np.testing.assert_allclose(L.T @ point.gradient.a, plain.gradient, atol=1e-8)
    product = point.curvature(Expansion(there.gram, b))
    np.testing.assert_allclose(L.T @ product.a, plain.curvature(L.T @ b), atol=1e-8)
    assert there.with_C(1.4).at(a).value == pytest.approx(here.with_C(1.4).at(L.T @ a).value)
    with pytest.raises(ValueError, match="C must be a positive number"):
        KernelProblem(there.gram, LOSSES[loss](), preferences, 0.0)


MAPS = [NystroemMap(30, gamma=0.8), NystroemMap(30, gamma=0.8, rank=10), FourierMap(30, gamma=0.8)]


@pytest.mark.parametrize("feature_map", MAPS, ids=["cholesky", "eigenvectors", "fourier"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_mapped_designs_stored_or_not_equal_plain_rows(feature_map, loss, data, monkeypatch):
    monkeypatch.setattr(mapped, "BLOCK_BYTES", 30 * 8 * 20)
    X, y, offsets = data
    fitted = feature_map.fit(X)
    graded = GradedPreferences(y, offsets)
    pairs = graded.pairs()
    for preferences in (graded, ExplicitPairs(pairs.winner, pairs.loser, len(y))):
        plain = Problem(RowsDesign(fitted.transform(X)), LOSSES[loss](), preferences, C=0.5)
        w, v = np.random.default_rng(1).normal(size=(2, plain.dimension))
        expected, curved = plain.at(w), plain.at(w).curvature(v)
        for budget in (MUCH, 0):
            objective = Problem(mapped_design(fitted, X, budget), LOSSES[loss](), preferences, C=0.5)
            point = objective.at(w)
            assert point.value == pytest.approx(expected.value, rel=1e-9)
            np.testing.assert_allclose(point.gradient, expected.gradient, rtol=1e-7, atol=1e-7)
            objective.at(-w)  # windows of another point in between
            np.testing.assert_allclose(point.curvature(v), curved, rtol=1e-7, atol=1e-7)
            if point.hessian is not None:
                np.testing.assert_allclose(point.hessian(), expected.hessian(), rtol=1e-7, atol=1e-7)


def test_parts_of_the_queries_agree_too(data, monkeypatch):
    monkeypatch.setattr(mapped, "BLOCK_BYTES", 30 * 8 * 20)
    X, y, offsets = data
    for feature_map in MAPS:
        fitted, found = feature_map.fit(X), []
        for budget in (MUCH, 0):
            objective = Problem(
                mapped_design(fitted, X, budget), LOSSES["squared_hinge"](), GradedPreferences(y, offsets)
            )
            w = np.linspace(-1, 1, objective.dimension)
            here = objective.design.sweep(objective.loss, objective.preferences).every(3).at(w)
            found.append((here.moments, here.gradient, here.curvature(w)))
        for stored, streamed in zip(*found):
            np.testing.assert_allclose(stored, streamed, rtol=1e-9, atol=1e-9)


def test_streams_never_hold_the_mapped_rows(data):
    X, y, offsets = data
    fitted = FourierMap(64, gamma=0.8).fit(X)
    sizes = []
    plain_write = fitted.write
    fitted.write = lambda rows, out: (sizes.append(out.size), plain_write(rows, out))[1]
    design = mapped_design(fitted, X, 0)
    design.height = 10
    objective = Problem(design, LOSSES["squared_hinge"](), GradedPreferences(y, offsets))
    sizes.clear()
    objective.at(np.ones(64))
    assert sum(sizes) <= X.shape[0] * 64  # one mapping serves value and gradient
    assert max(sizes) <= 64 * (2 * 10 + int(np.diff(offsets).max()))


def test_storage_is_double_only_where_it_is_given_and_small():
    assert blocks.storage_type(100, 100, np.float64) is np.float64
    assert blocks.storage_type(100, 100, np.float32) is np.float32
    assert blocks.storage_type(100_000, 100_000, np.float64) is np.float32
