"""Feature maps: inner products approach the kernel as they should, blocks and threads change nothing."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from hingerank.features import maps as blocks
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import make_kernel
from hingerank.features.maps import TransformerMap, factorise, leading_factor
from hingerank.features.named_maps import feature_map
from hingerank.features.nystroem import NystroemMap, distinct_rows

GAMMA = 0.3


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((300, 12))


def error(feature_map, X, kernel="rbf"):
    F = feature_map.fit(X).transform(X).astype(float)
    return float(np.sqrt(np.mean((F @ F.T - make_kernel(kernel, GAMMA).matrix(X, X)) ** 2)))


def fourier_error(X, m, orthogonal):
    maps = [FourierMap(m, gamma=GAMMA, orthogonal=orthogonal, random_state=seed) for seed in range(8)]
    return float(np.mean([error(one, X) for one in maps]))


@pytest.mark.parametrize("orthogonal", [False, True])
def test_fourier_error_falls_like_one_over_root_m(X, orthogonal):
    sizes = np.array([64, 256, 1024])
    slope = np.polyfit(np.log(sizes), np.log([fourier_error(X, m, orthogonal) for m in sizes]), 1)[0]
    assert -0.6 < slope < -0.4


@pytest.mark.parametrize("m", [23, 64, 256])
def test_orthogonal_directions_have_the_smaller_error(X, m):
    assert fourier_error(X, m, True) < 0.75 * fourier_error(X, m, False)


@pytest.mark.parametrize("m", [20, 60])
def test_nystroem_error_is_below_fouriers_at_equal_small_m(X, m):
    for how in ("uniform", "kmeans", "leverage"):
        assert error(NystroemMap(m, gamma=GAMMA, landmarks=how), X) < 0.5 * fourier_error(X, m, True)


@pytest.mark.slow
def test_means_and_leverage_are_better_landmarks_on_clustered_rows():
    rng = np.random.default_rng(1)
    centres = rng.normal(0, 6, (12, 5))
    sizes = [600] + [10] * 11  # one crowd and eleven hamlets
    X = np.concatenate([c + 0.5 * rng.normal(size=(k, 5)) for c, k in zip(centres, sizes)])

    def missing(how):
        """How much of κ(x, x) = 1 is missing for a row of the hamlets, on average."""
        maps = [NystroemMap(40, gamma=GAMMA, landmarks=how, random_state=s).fit(X) for s in range(4)]
        return np.mean([1 - np.square(one.transform(X[600:])).sum(axis=1) for one in maps])

    uniform = missing("uniform")
    assert missing("kmeans") < 0.8 * uniform and missing("leverage") < 0.8 * uniform


def test_orthogonal_directions_are_orthogonal_and_as_long_as_gaussian_ones(X):
    Omega = FourierMap(24, gamma=0.5).fit(X).frequencies_  # 2γ = 1, 12 directions in 12 dimensions
    products = Omega[:, :12].T @ Omega[:, :12]
    assert np.abs(products - np.diag(products.diagonal())).max() < 1e-10
    many = FourierMap(2400, gamma=0.5).fit(X).frequencies_
    assert np.mean((many**2).sum(axis=0)) == pytest.approx(12, rel=0.05)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "chi2", "cosine", "linear"])
def test_all_rows_as_landmarks_give_the_kernel_itself(X, kernel):
    assert error(NystroemMap(300, kernel=kernel, gamma=GAMMA), X, kernel) < 1e-5


def test_rank_keeps_the_leading_part(X):
    K = make_kernel("rbf", GAMMA).matrix(X, X)
    values, vectors = np.linalg.eigh(K)
    best = (vectors[:, -20:] * values[-20:]) @ vectors[:, -20:].T
    F = NystroemMap(300, gamma=GAMMA, rank=20).fit(X).transform(X)
    assert F.shape == (300, 20)
    np.testing.assert_allclose(F @ F.T, best, atol=1e-8)


def test_factors_invert_and_leave_out_what_others_span():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(6, 3))
    W = A @ A.T  # rank 3
    kept, T = factorise(W)
    assert len(kept) == 3
    np.testing.assert_allclose(T @ T.T, np.linalg.inv(W[np.ix_(kept, kept)]), rtol=1e-8)
    L = leading_factor(W, 5, 1e-10)
    assert L.shape == (6, 3)
    np.testing.assert_allclose(L.T @ W @ L, np.eye(3), atol=1e-8)
    assert factorise(np.zeros((3, 3)))[1].tolist() == [[0.0]] and not leading_factor(np.zeros((3, 3)), 2).any()


MAPS = [
    NystroemMap(40, gamma=GAMMA),
    NystroemMap(40, gamma=GAMMA, rank=15),
    NystroemMap(40, kernel="laplacian", gamma=GAMMA, landmarks="kmeans"),
    FourierMap(40, gamma=GAMMA),
    FourierMap(41, gamma=GAMMA, orthogonal=False),
    TransformerMap(PolynomialFeatures(2)),
]


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda m: type(m).__name__)
def test_scores_transform_and_rows_agree(feature_map, X):
    fitted = clone(feature_map).fit(X)
    F, w = fitted.transform(X), np.random.default_rng(0).normal(size=fitted.transform(X[:1]).shape[1])
    weights = fitted.unmixed(w)
    np.testing.assert_allclose(fitted.scores(X, weights), F @ w, atol=1e-8)
    np.testing.assert_allclose(fitted.rows(X) @ weights, F @ w, atol=1e-8)
    np.testing.assert_allclose(fitted.scores(sp.csr_matrix(X), weights), F @ w, atol=1e-8)
    single = fitted.transform(X.astype(np.float32))
    assert single.dtype == np.float32 and np.abs(single - F).max() < 1e-3
    with pytest.raises(ValueError, match="X has 3 features"):
        fitted.transform(X[:, :3])


@pytest.mark.parametrize("feature_map", MAPS[:1] + MAPS[3:4], ids=lambda m: type(m).__name__)
def test_threads_change_no_number_and_blocks_none_that_matters(feature_map, X, monkeypatch):
    fitted = clone(feature_map).fit(X.astype(np.float32))
    whole = fitted.rows(X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 40 * 4 * 16)
    many = fitted.rows(X)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "1")
    assert np.array_equal(fitted.rows(X), many)
    np.testing.assert_allclose(many, whole, atol=1e-12)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "3")
    assert np.array_equal(fitted.rows(X), many)


def test_large_results_are_single_precision(X, monkeypatch):
    fitted = FourierMap(40, gamma=GAMMA).fit(X)
    assert fitted.rows(X).dtype == np.float64
    monkeypatch.setattr(blocks, "SMALL_BYTES", 1000)
    assert fitted.rows(X).dtype == np.float32 and fitted.stored_bytes(X) == 300 * 40 * 4


def test_any_transformer_will_do(X):
    fitted = feature_map(RBFSampler(gamma=GAMMA, n_components=30, random_state=0)).fit(X)
    np.testing.assert_allclose(fitted.rows(X), fitted.transformer_.transform(X))
    sparse = feature_map(OneHotEncoder(handle_unknown="ignore")).fit(X.round(1))
    assert sp.issparse(sparse.rows(X.round(1))) and sparse.stored_bytes(X) == 0
    w = np.arange(sparse.width_)
    np.testing.assert_allclose(sparse.scores(X.round(1), w), sparse.rows(X.round(1)) @ w)
    with pytest.raises(ValueError, match="fit and transform"):
        feature_map(3).fit(X)
    assert type(feature_map(MAPS[0])) is NystroemMap


@pytest.mark.parametrize("how", ["uniform", "kmeans", "leverage"])
def test_landmarks_depend_on_the_set_of_rows_alone(how, X):
    """Not on their order, how often they are given, or how they are stored."""
    rng = np.random.default_rng(3)
    X = X.astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0

    def chosen(rows):
        found = NystroemMap(20, gamma=GAMMA, landmarks=how).fit(rows).landmarks_
        found = found.toarray() if sp.issparse(found) else found
        return found[np.lexsort(found.round(4).T)]

    expected = chosen(X)
    again = X[rng.permutation(np.repeat(np.arange(len(X)), rng.integers(1, 4, len(X))))]
    np.testing.assert_array_equal(chosen(again), expected)
    if how != "kmeans":  # whose centres depend on rounding
        np.testing.assert_array_equal(chosen(X.astype(float)), expected)
        np.testing.assert_array_equal(chosen(sp.csr_matrix(X)), expected)


def test_keys_tell_rows_apart():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (5000, 6)).astype(float)
    for rows in (X, sp.csr_matrix(X), X.astype(np.float32), -0.0 * X + X):
        found = distinct_rows(rows)
        assert len(found) == len(np.unique(X, axis=0)) == len(np.unique(X[found], axis=0))


def test_seeds_decide(X):
    for kind in (NystroemMap, FourierMap):
        one, same, other = (kind(20, gamma=GAMMA, random_state=s).fit(X).transform(X) for s in (1, 1, 2))
        assert np.array_equal(one, same) and not np.allclose(one, other)


@pytest.mark.parametrize(
    "feature_map, words",
    [
        (NystroemMap(0), "n_components must be"),
        (NystroemMap(2.5), "n_components must be"),
        (NystroemMap(5, rank=-1), "rank must be"),
        (NystroemMap(5, landmarks="best"), "landmarks must be"),
        (FourierMap(True), "n_components must be"),
        (FourierMap(5, gamma="wide"), "gamma must be"),
    ],
)
def test_wrong_parameters_are_named(feature_map, words, X):
    with pytest.raises(ValueError, match=words):
        feature_map.fit(X)
