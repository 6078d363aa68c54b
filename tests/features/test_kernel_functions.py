"""Kernel functions equal their formulas, on dense and CSR rows, in both precisions; gamma comes from the data."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from hingerank.features.kernels import KERNELS, RBF, choose_gamma, make_kernel

FORMULAS = {
    "linear": lambda x, y: x @ y,
    "rbf": lambda x, y: np.exp(-0.7 * np.sum((x - y) ** 2)),
    "polynomial": lambda x, y: (0.7 * x @ y + 0.5) ** 3,
    "laplacian": lambda x, y: np.exp(-0.7 * np.abs(x - y).sum()),
    "chi2": lambda x, y: np.exp(-0.7 * sum((a - b) ** 2 / (a + b) for a, b in zip(x, y) if a + b > 0)),
    "cosine": lambda x, y: x @ y / np.sqrt((x @ x) * (y @ y)) if x.any() and y.any() else 0.0,
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, Y = rng.random((9, 5)), rng.random((7, 5))
    X[rng.random(X.shape) < 0.4] = 0
    X[0] = 0
    return X, Y


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_values_are_those_of_the_formula(name, form, rows):
    X, Y = rows
    kernel = make_kernel(name, gamma=0.7, degree=3, coef0=0.5)
    expected = [[FORMULAS[name](x, y) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.matrix(form(X), form(Y)), expected, rtol=1e-10, atol=1e-12)
    ready = kernel.centred(Y)
    np.testing.assert_allclose(ready.matrix(form(X), Y), expected, rtol=1e-9, atol=1e-11)
    square = [FORMULAS[name](x, x) for x in X]
    diagonal = kernel.diagonal(kernel.left(form(X), np.float64), kernel.right(form(X), np.float64))
    skip = 1 if name == "cosine" else 0  # a row of zeros
    np.testing.assert_allclose(diagonal[skip:], square[skip:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"linear"}))
def test_values_are_those_of_scikit_learn(name, rows):
    X, Y = rows
    peer = {"cosine": {}, "polynomial": {"gamma": 0.3, "degree": 2, "coef0": 1.0}}.get(name, {"gamma": 0.3})
    function = getattr(pairwise, f"{name}_similarity" if name == "cosine" else f"{name}_kernel")
    np.testing.assert_allclose(make_kernel(name, 0.3, 2).matrix(X, Y), function(X, Y, **peer), rtol=1e-9, atol=1e-12)


def test_rbf_in_single_precision_survives_a_large_offset(rows):
    X, Y = (rows[0] + 1000.0, rows[1] + 1000.0)
    kernel = make_kernel("rbf", 0.7)
    exact = kernel.matrix(rows[0], rows[1])

    def single(ready):
        out = np.empty(exact.shape, np.float32)
        ready.between(ready.left(X, np.float32), ready.right(Y, np.float32), out)
        return np.abs(out - exact).max()

    assert single(kernel.centred(Y)) < 1e-5
    assert single(kernel) > 1e-2  # without the centre the differences drown


@pytest.mark.parametrize("size", [1.0, 1e2, 1e5])
def test_rbf_does_not_exceed_one_however_far_the_rows(size):
    X = np.random.default_rng(1).random((200, 30)) * size
    kernel = RBF(1.0).centred(X)
    out = np.empty((200, 200), np.float32)
    kernel.between(kernel.left(X, np.float32), kernel.right(X, np.float32), out)
    assert out.max() <= (1.0 + 2e-6 if size < 10 else 1.0)
    if size < 1000:
        assert np.abs(out.diagonal() - 1).max() < 1e-1


def test_unknown_names_and_bad_values_are_named(rows):
    with pytest.raises(ValueError, match="no kernel 'rfb'"):
        make_kernel("rfb")
    with pytest.raises(ValueError, match="gamma must be positive"):
        make_kernel("rbf", gamma=-1.0)
    with pytest.raises(ValueError, match="non-negative features"):
        make_kernel("chi2").matrix(-rows[0], rows[1])
    with pytest.raises(ValueError, match="expected \\(9, 7\\)"):
        make_kernel(lambda A, B: np.zeros(3)).matrix(*rows)
    with pytest.raises(ValueError, match="NaN or infinite values"):
        make_kernel(lambda A, B: np.full((len(A), len(B)), np.nan)).matrix(*rows)


def test_functions_are_kernels_too(rows):
    kernel = make_kernel(lambda A, B: A @ B.T)
    np.testing.assert_allclose(kernel.matrix(*rows), rows[0] @ rows[1].T)
    np.testing.assert_allclose(kernel.diagonal(rows[0], rows[0]), (rows[0] ** 2).sum(axis=1))


def test_gamma_from_the_data():
    rng = np.random.default_rng(2)
    X = rng.normal(3.0, 2.0, (300, 8))
    X[rng.random(X.shape) < 0.5] = 0
    weight = rng.integers(1, 4, 300).astype(float)
    assert choose_gamma("scale", X) == pytest.approx(1 / X.var(axis=0).sum(), rel=1e-12)
    assert choose_gamma("scale", X + 1e3 * np.arange(8)) == pytest.approx(choose_gamma("scale", X), rel=1e-9)
    assert choose_gamma("scale", sp.csr_matrix(X)) == pytest.approx(1 / X.var(axis=0).sum(), rel=1e-12)
    assert choose_gamma("0.25 * scale", X) == pytest.approx(0.25 / X.var(axis=0).sum(), rel=1e-12)
    heavy = np.repeat(X, weight.astype(int), axis=0)
    for form in (np.asarray, sp.csr_matrix):
        assert choose_gamma("scale", form(X), weight) == pytest.approx(1 / heavy.var(axis=0).sum(), rel=1e-12)
        distances = pairwise.euclidean_distances(X, squared=True)[np.triu_indices(300, 1)]
        median, order = choose_gamma("median", form(X)), rng.permutation(300)
        assert median == pytest.approx(1 / np.median(distances), rel=0.05)
        assert choose_gamma("median", form(X[order])) == median != choose_gamma("median", form(X), seed=1)
    assert choose_gamma("auto", X) == 0.125 and choose_gamma(3, X) == 3.0
    assert choose_gamma("scale", np.ones((4, 2))) == choose_gamma("median", np.ones((4, 2))) == 1.0
    assert choose_gamma("scale", np.full((100, 3), 0.1)) == 1.0  # whose mean is rounded
    for bad in ("wide", 0, -1.0, np.inf, None, "0*scale", "x*scale", "3", True):
        with pytest.raises(ValueError, match="gamma must be"):
            choose_gamma(bad, X)
