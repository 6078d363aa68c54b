"""Generated LETOR-like data: shapes, shares, truth, and no dependence on the number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.data.files import DataError
from hingerank.data.generate import LIKE, make_benchmark, make_letor, make_like, ragged_sizes


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


@pytest.mark.parametrize("density", [None, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_data_on_one_thread_and_on_many(monkeypatch, density, dtype):
    made = []
    for threads in ("1", "3"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        made.append(make_letor(900, (1, 199), 20, 4, sparse_density=density, dtype=dtype, seed=5))
    one, many = made
    assert one.n_rows > 2 * 16 * 2048, "several shards, or this test checks nothing"
    assert one.X.dtype == dtype
    assert (one.X != many.X).sum() == 0
    np.testing.assert_array_equal(one.y, many.y)
    np.testing.assert_array_equal(one.qid, many.qid)
    np.testing.assert_array_equal(one.truth.weights, many.truth.weights)


@pytest.mark.parametrize("density", [None, 0.3])
def test_shards_of_equal_size_draw_different_numbers(density):
    data = make_letor(800, 100, 20, sparse_density=density)
    u = data.truth.utility(data.X)
    assert len(np.unique(u)) > 0.95 * len(u)


def test_seed_changes_everything_and_repeats():
    a, b, c = make_letor(20, seed=1), make_letor(20, seed=1), make_letor(20, seed=2)
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    assert a.X.shape != c.X.shape or (a.X != c.X).any()


@pytest.mark.parametrize("density", [None, 0.2])
@pytest.mark.parametrize("signal", ["linear", "nonlinear"])
def test_grades_follow_the_true_utility(density, signal):
    data = make_letor(
        60, 50, 16, 3, signal=signal, noise=0, query_effect=0, useless=5, constant=2, sparse_density=density, seed=3
    )
    u = data.truth.utility(data.X)
    assert u.std() == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(data.y, np.searchsorted(data.truth.thresholds, _shift(u, data), side="right"))
    assert len(data.truth.columns) == 9
    used = data.X[:, data.truth.columns]
    dense = np.asarray(used.todense() if sp.issparse(used) else used, float)
    design = np.column_stack((dense, np.ones(len(dense))))
    fitted = design @ np.linalg.lstsq(design, u, rcond=None)[0]
    r2 = correlation(fitted, u) ** 2
    assert r2 > 0.999999 if signal == "linear" else 0.2 < r2 < 0.8


def _shift(u, data):
    """Grades come from the utility computed block by block: the same numbers up to rounding."""
    near = np.abs(u[:, None] - data.truth.thresholds).min(axis=1) < 1e-9
    return np.where(near, data.truth.thresholds[np.abs(u[:, None] - data.truth.thresholds).argmin(axis=1)], u)


def test_noise_lowers_the_best_possible_ranking():
    def quality(noise):
        data = make_letor(50, 100, 20, 5, noise=noise, query_effect=0, seed=1)
        return correlation(data.truth.utility(data.X), data.y)

    assert quality(0) > quality(0.5) + 0.03 > quality(3) + 0.1


def test_features_lie_in_the_unit_interval_with_constant_and_useless_columns():
    data = make_letor(100, 50, 30, 3, useless=10, constant=4, noise=0.1, seed=2)
    assert data.X.min() == 0 and data.X.max() == 1
    constant = np.flatnonzero(np.ptp(data.X, axis=0) == 0)
    assert len(constant) == 4 and (data.X[:, constant] == 0).all()
    assert not set(constant) & set(data.truth.columns)


def test_sparse_density_and_values():
    data = make_letor(200, 60, 500, 3, sparse_density=0.02, constant=100, seed=1)
    assert sp.issparse(data.X) and data.X.format == "csr" and data.X.has_sorted_indices
    live = np.diff(data.X.tocsc().indptr) > 0
    assert live.sum() == 400
    assert data.X.nnz / (data.n_rows * 400) == pytest.approx(0.02, rel=0.02)
    assert data.X.data.min() > 0 and data.X.data.max() <= 1


@pytest.mark.parametrize("name", ["OHSUMED", "MQ2008", "MQ2007", "HP2004"])
def test_public_shapes(name):
    data, shape = make_like(name), LIKE[name]
    assert (data.n_queries, data.n_rows, data.n_features) == (shape.queries, shape.rows, shape.features)
    np.testing.assert_allclose(np.bincount(data.y.astype(int)) / len(data), shape.fractions, atol=1e-4)
    sizes = data.blocks.sizes
    assert shape.sizes[0] <= sizes.min() and sizes.max() <= shape.sizes[1]


def test_scaled_shape_and_benchmark():
    small = make_like("MSLR-WEB10K", scale=0.01)
    assert (small.n_queries, small.n_features, small.n_rows) == (100, 136, 12002)
    data = make_benchmark("S")
    assert data.X.shape == (70000, 46) and data.n_queries == 700 and data.X.dtype == np.float32


@pytest.mark.parametrize(
    ("queries", "rows", "least", "most", "spread"), [(1, 5, 1, 9, 0.5), (7, 63, 1, 9, 1.0), (300, 999, 1, 50, 2.0)]
)
def test_ragged_sizes_add_up(queries, rows, least, most, spread):
    for seed in range(20):
        sizes = ragged_sizes(queries, rows, least, most, spread, seed)
        assert len(sizes) == queries and sizes.sum() == rows and sizes.min() >= least and sizes.max() <= most


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_queries": 0}, "n_queries is 0"),
        ({"rows_per_query": (5, 3)}, "least"),
        ({"rows_per_query": [3, 4]}, "rows_per_query"),
        ({"n_grades": 0}, "n_grades is 0"),
        ({"skew": [0.5, 0.5]}, "3 positive fractions"),
        ({"signal": "cubic"}, "'linear' or 'nonlinear'"),
        ({"useless": 46}, "useless is 46 and constant is 0"),
        ({"sparse_density": 0.0}, "sparse_density is 0.0"),
    ],
)
def test_wrong_arguments_are_named(wrong, words):
    with pytest.raises(DataError, match=words):
        make_letor(**wrong)


def test_unknown_shapes_list_the_known_ones():
    with pytest.raises(DataError, match="MSLR-WEB30K"):
        make_like("WEB30K")
    with pytest.raises(DataError, match="XXL"):
        make_benchmark("M")


@pytest.mark.parametrize("seed", ["x", -1, 1.5])
def test_a_wrong_seed_is_named(seed):
    with pytest.raises(ValueError, match=f"seed must be a whole number of at least 0, or None, not {seed!r}"):
        make_letor(seed=seed)
