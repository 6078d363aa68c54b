"""Scalers against plain NumPy by query, against scikit-learn, and against LETOR's own normalised files."""

import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
import sklearn.preprocessing as skl
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from hingerank.data.files import DataError
from hingerank.data.scaling import SCALERS, QueryMinMaxScaler, QueryStandardScaler, make_scaler, scaler_from_state

HERE = Path(__file__).resolve().parents[2]
OHSUMED = Path(os.environ.get("HINGERANK_DATA", HERE.parent / "shared" / "data")) / "OHSUMED"


def plain_minmax(block):
    lo, hi = np.nanmin(block, axis=0), np.nanmax(block, axis=0)
    return np.where(hi > lo, (block - lo) / np.where(hi > lo, hi - lo, 1), block * 0)


def plain_standard(block):
    block = block - block[0]  # the same numbers, without the rounding of a large mean
    sd = np.where(np.ptp(block, axis=0) > 0, block.std(axis=0), 0)
    return np.where(sd > 0, (block - block.mean(axis=0)) / np.where(sd > 0, sd, 1), 0)


DENSE_ONLY = ("minmax", "quantile")  # they would fill a CSR matrix
PLAIN = {"query-minmax": plain_minmax, "query-standard": plain_standard}


def by_query(function, X, qid):
    out = np.empty(X.shape)
    for q in np.unique(qid):
        out[qid == q] = function(X[qid == q].astype(float))
    return out


def some_rows(seed, n=80, d=6, queries=7, zeros=0.5, dtype=np.float64, negative=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) if negative else rng.random((n, d)) + 0.1
    X *= rng.random((n, d)) >= zeros
    X[:, 1] = 0.1  # constant, and 0.1 summed is never exact
    qid = rng.integers(0, queries, n)
    X[:, 2] = qid / 3  # constant within each query
    X[:, 3] = rng.integers(0, 2, n) * 1e-3 + 1e6  # large beside its spread
    return X.astype(dtype), qid


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(PLAIN)), st.integers(0, 999), st.integers(1, 30), st.sampled_from([np.float32, np.float64])
)
def test_dense_equals_numpy(name, seed, queries, dtype):
    X, qid = some_rows(seed, queries=queries, dtype=dtype)
    scaled = make_scaler(name).fit(X).transform(X, qid)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled, by_query(PLAIN[name], X, qid), atol=1e-6 if dtype == np.float32 else 1e-9)
    assert (scaled[:, [1, 2]] == 0).all()
    if name == "query-minmax":
        assert scaled.min() >= 0 and scaled.max() <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.integers(1, 30), st.floats(0, 1))
def test_csr_minmax_equals_dense(seed, queries, zeros):
    X, qid = some_rows(seed, queries=queries, zeros=zeros, negative=False)
    sparse = QueryMinMaxScaler().fit(X).transform(sp.csr_matrix(X), qid)
    assert sparse.format == "csr"
    np.testing.assert_array_equal(sparse.toarray(), QueryMinMaxScaler().fit(X).transform(X, qid))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.integers(1, 30), st.floats(0, 1))
def test_csr_standard_is_dense_without_centring(seed, queries, zeros):
    X, qid = some_rows(seed, queries=queries, zeros=zeros)
    sparse = QueryStandardScaler().fit(X).transform(sp.csr_matrix(X), qid)

    def divided(block):
        sd = np.where(np.ptp(block, axis=0) > 0, (block - block[0]).std(axis=0), 0)
        return np.where(sd > 0, block / np.where(sd > 0, sd, 1), 0)

    np.testing.assert_allclose(sparse.toarray(), by_query(divided, X, qid), rtol=1e-9, atol=1e-12)
    assert (sparse.indptr == sp.csr_matrix(X).indptr).all()


def test_negative_values_beside_absent_ones_are_refused():
    X = sp.csr_matrix(np.array([[1.0, 0], [2.0, 0], [1.0, -5], [3.0, 0]]))
    with pytest.raises(DataError, match="query b has negative values in a column with absent entries"):
        QueryMinMaxScaler().fit_transform(X, qid=["a", "a", "b", "b"])
    full = sp.csr_matrix(np.array([[-1.0], [2.0], [-4.0]]))  # no absent entry: nothing is lost
    np.testing.assert_array_equal(QueryMinMaxScaler().fit_transform(full).toarray(), [[0.5], [1], [0]])


@pytest.mark.parametrize("name", sorted(PLAIN))
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_nan_is_passed_over_and_kept(name, form):
    X = np.array([[1.0, 2, np.nan], [np.nan, 4, np.nan], [3.0, 6, np.nan], [5.0, 8, np.nan]])
    scaled = make_scaler(name).fit(form(X)).transform(form(X))
    scaled = scaled.toarray() if sp.issparse(scaled) else scaled
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(X))
    known = form(X[[0, 2, 3], :2])
    without = make_scaler(name).fit(known).transform(known)
    without = without.toarray() if sp.issparse(without) else without
    np.testing.assert_allclose(scaled[[0, 2, 3], 0], without[:, 0])


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_threads_and_order_of_rows_change_nothing(monkeypatch, name):
    X, qid = some_rows(3, n=20_000, queries=300, dtype=np.float32)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "1")
    one = make_scaler(name).fit(X).transform(X, qid)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "3")
    np.testing.assert_array_equal(make_scaler(name).fit(X).transform(X, qid), one)
    order = np.argsort(qid, kind="stable")
    np.testing.assert_array_equal(make_scaler(name).fit(X).transform(X[order], qid[order]), one[order])


@pytest.mark.parametrize(
    ("name", "theirs"), [("minmax", skl.MinMaxScaler), ("standard", skl.StandardScaler), ("maxabs", skl.MaxAbsScaler)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_column_scalers_equal_scikit_learn(name, theirs, dtype):
    train, test = some_rows(1, dtype=dtype)[0], some_rows(2, n=10_000, dtype=dtype)[0]  # more than one shard
    train[:, 3] = test[:, 3] = 1.0  # scikit-learn rounds columns that are large beside their spread
    ours = make_scaler(name).fit(train).transform(test)
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, theirs().fit(train.astype(float)).transform(test.astype(float)), atol=1e-5)


@pytest.mark.parametrize("name", ["standard", "maxabs"])
def test_column_scalers_keep_csr(name):
    X = some_rows(1)[0]
    theirs = skl.StandardScaler(with_mean=False) if name == "standard" else skl.MaxAbsScaler()
    scaled = make_scaler(name).fit_transform(sp.csr_matrix(X))
    assert scaled.format == "csr"
    np.testing.assert_allclose(scaled.toarray(), theirs.fit_transform(sp.csr_matrix(X)).toarray())


def test_csr_that_would_fill_up_is_refused():
    X = some_rows(1)[0]
    with pytest.raises(DataError, match="'minmax' would fill a CSR matrix"):
        make_scaler("minmax").fit(sp.csr_matrix(X))
    with pytest.raises(DataError, match="'standard' was fitted on dense rows"):
        make_scaler("standard").fit(X).transform(sp.csr_matrix(X))


@pytest.mark.parametrize("name", sorted(SCALERS))
def test_state_round_trip(name):
    train, (test, qid) = some_rows(1)[0], some_rows(2)
    scaler = make_scaler(name).fit(train)
    header, arrays = scaler.to_state()
    again = scaler_from_state((json.loads(json.dumps(header)), arrays))
    assert type(again) is type(scaler) and again.per_query == name.startswith("query")
    np.testing.assert_array_equal(again.transform(test, qid), scaler.transform(test, qid))
    assert clone(scaler).fit(train).to_state()[0] == header


def test_states_that_do_not_fit():
    header, arrays = make_scaler("standard").fit(np.eye(3)).to_state()
    with pytest.raises(DataError, match="there is no scaler 'rank'"):
        scaler_from_state((header | {"name": "rank"}, arrays))
    with pytest.raises(DataError, match="needs the arrays"):
        scaler_from_state((header, {}))
    with pytest.raises(DataError, match="must hold 3 finite numbers"):
        scaler_from_state((header, arrays | {"width": np.ones(2)}))
    with pytest.raises(DataError, match=r"widths of the scaler .* must be positive"):
        scaler_from_state((header, arrays | {"width": np.zeros(3)}))


def test_wrong_input():
    with pytest.raises(DataError, match="not fitted"):
        QueryMinMaxScaler().transform([[1.0]])
    with pytest.raises(DataError, match="X has 1 features, but the scaler was fitted on 2"):
        QueryMinMaxScaler().fit([[1.0, 2]]).transform([[1.0]])
    with pytest.raises(DataError, match="infinite at row 0"):
        QueryMinMaxScaler().fit_transform([[np.inf]])
    with pytest.raises(DataError, match="choose from none, query-minmax"):
        make_scaler("zscore")


def letor_rows(path):
    values, qid = [], []
    with lzma.open(path, "rt") as lines:
        for line in lines:
            tokens = line.partition("#")[0].split()
            qid.append(tokens[1])
            values.append([np.nan if t.endswith("NULL") else float(t.partition(":")[2]) for t in tokens[2:]])
    return np.array(values), np.array(qid)


@pytest.mark.skipif(not OHSUMED.is_dir(), reason=f"OHSUMED is not in {OHSUMED.parent}; set $HINGERANK_DATA")
def test_letor_query_level_norm_from_its_raw_file():
    """LETOR 3.0's normalised file follows from the raw one to the six digits printed.

    NULL of the BM25 columns counts as 0; NULL of the language model columns (negative logarithms) is passed over and
    becomes 0, the place of the query's minimum.
    """
    raw, qid = letor_rows(OHSUMED / "Feature-null" / "S1.txt.xz")
    expected, _ = letor_rows(OHSUMED / "QueryLevelNorm" / "S1.txt.xz")
    bm25 = np.array([11, 12, 26, 27, 41, 42]) - 1
    raw[:, bm25] = np.nan_to_num(raw[:, bm25])
    assert np.isnan(raw).any()
    scaled = np.nan_to_num(QueryMinMaxScaler().fit_transform(raw, qid=qid))
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=5.1e-7)


def test_query_scaler_in_a_pipeline():
    X, qid = some_rows(4)
    y = np.arange(len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = QueryMinMaxScaler().set_fit_request(qid=True).set_transform_request(qid=True)
        pipe = make_pipeline(scaler, Ridge()).fit(X, y, qid=qid)
        found = pipe.predict(X, qid=qid)
    scaled = by_query(plain_minmax, X, qid)
    np.testing.assert_allclose(found, Ridge().fit(scaled, y).predict(scaled))


@pytest.mark.parametrize("name", ["deviation", "log", "quantile"])
def test_scalings_of_columns_by_their_formulas_and_through_a_state(name):
    rng = np.random.default_rng(7)
    X = rng.lognormal(0, 2, (300, 4)) * rng.choice([-1, 1], (300, 4))
    X[rng.random(X.shape) < 0.3] = 0
    scaler = make_scaler(name).fit(X)
    found = scaler.transform(X)
    logs = np.sign(X) * np.log1p(np.abs(X))
    if name == "quantile":
        order = np.argsort(X[:, 0], kind="stable")
        assert found.min() == 0 and found.max() == 1 and (np.diff(found[order, 0]) >= 0).all()
        share = (X[:, 0] < 0).mean() + 0.5 * (X[:, 0] == 0).mean()
        assert found[X[:, 0] == 0, 0] == pytest.approx(share, abs=0.02)
        assert make_scaler(name).fit(X).transform(np.full((1, 4), 1e9)).tolist() == [[1.0] * 4]
    else:
        plain = X if name == "deviation" else logs
        np.testing.assert_allclose(found, plain / plain.std(axis=0), rtol=1e-6)
        sparse = make_scaler(name).fit(sp.csr_matrix(X)).transform(sp.csr_matrix(X))
        np.testing.assert_allclose(sparse.toarray(), found, rtol=1e-6)
    again = scaler_from_state(scaler.to_state())
    assert np.array_equal(again.transform(X), found)
    assert np.isnan(scaler.transform(np.full((1, 4), np.nan))).all()


def test_auto_divides_by_the_deviation_and_counts_weights():
    X, weight = np.array([[0.0, 3.0], [2.0, 1.0], [4.0, 8.0]]), np.array([1.0, 3.0, 2.0])
    heavy = make_scaler("auto").fit(np.repeat(X, weight.astype(int), axis=0))
    assert np.array_equal(make_scaler("auto").fit(X, sample_weight=weight).width_, heavy.width_)
    assert heavy.name == "deviation" and not heavy.centre_.any()


@pytest.mark.parametrize("name", ["minmax", "standard", "maxabs", "deviation"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_row_of_weight_two_counts_as_two_rows_also_beside_missing_values(name, form):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 4)) * (rng.random((60, 4)) < 0.7)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.integers(1, 4, 60)
    if name == "minmax" and form is sp.csr_matrix:
        pytest.skip("it would fill a CSR matrix")
    found = make_scaler(name).fit(form(X), sample_weight=weight.astype(float))
    expected = make_scaler(name).fit(form(np.repeat(X, weight, axis=0)))
    np.testing.assert_allclose(found.width_, expected.width_, rtol=1e-6)
    np.testing.assert_allclose(found.centre_, expected.centre_, rtol=1e-6, atol=1e-12)


def test_quantiles_that_fall_are_refused():
    header, arrays = make_scaler("quantile").fit(np.arange(6.0)[:, None]).to_state()
    with pytest.raises(DataError, match="the quantiles of the scaler 'quantile' must not fall"):
        scaler_from_state((header, {"quantiles": arrays["quantiles"][:, ::-1]}))


@pytest.mark.parametrize(
    "name, form",
    [*((name, np.asarray) for name in SCALERS), *((name, sp.csr_matrix) for name in SCALERS if name not in DENSE_ONLY)],
)
def test_a_column_without_values_in_training_leaves_no_infinite_width(name, form):
    X = np.column_stack((np.arange(4.0), np.full(4, np.nan)))
    scaler = scaler_from_state(make_scaler(name).fit(form(X)).to_state())
    found = scaler.transform(form([[1.0, 2.0], [3.0, 4.0]]), qid=[1, 1])
    assert np.isfinite(found.data if sp.issparse(found) else found).all()
