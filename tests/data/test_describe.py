"""The numbers of a description against counting by hand."""

import io
import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hingerank.data.blocks import blocks_from_qid
from hingerank.data.describe import column_quantiles, pairs_per_query
from hingerank.data.generate import make_letor
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, StackedRows


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1.0, 0, 0.5, 1, 2, 3e9])), min_size=1, max_size=40))
def test_pairs_equal_enumeration(rows):
    qid, y = np.array([q for q, _ in rows]), np.array([g for _, g in rows])
    blocks = blocks_from_qid(qid, len(qid))
    expected = [sum(a > b for a in y[qid == q] for b in y[qid == q]) for q in blocks.ids]
    assert pairs_per_query(y, blocks).tolist() == expected


def test_pairs_of_one_huge_query_are_exact():
    y = np.arange(200_000) % 2
    assert pairs_per_query(y, blocks_from_qid(None, len(y))).tolist() == [10**10]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_everything_by_hand(form):
    X = np.array([[0, 1.0, 5, 2, -1], [0, 0, 5, np.nan, 0], [0, 2, 5, 2, -1], [0, 0, 5, 2, -1]])
    data = RankingData.from_arrays(
        form(X), [2, 0, 0.5, 0.5], ["b", "a", "b", "a"], docid=["d", "", "d", ""], missing="nan"
    )
    found = data.describe()
    assert (found.queries, found.rows, found.features, found.pairs) == (2, 4, 5, 2)
    assert found.grades == {0.0: 1, 0.5: 2, 2.0: 1}
    assert found.constant_columns == ["f1", "f3", "f4"]
    assert found.missing_values == 1 and found.density == 13 / 20
    assert found.queries_without_pairs == 0 and found.duplicate_docids == 1
    assert found.rows_per_query == {"min": 2, "median": 2.0, "max": 2}
    assert json.loads(json.dumps(found.to_dict()))["grades"] == {"0": 1, "0.5": 2, "2": 1}


def test_sparse_and_dense_agree():
    data = make_letor(30, (1, 60), 20, constant=3, sparse_density=0.05, seed=3)
    dense = RankingData(data.X.toarray(), data.y, data.qid, feature_names=[f"n{j}" for j in range(20)])
    a, b = data.describe(), dense.describe()
    assert [f"n{int(name[1:]) - 1}" for name in a.constant_columns] == b.constant_columns
    assert (a.pairs, a.density, a.grades) == (b.pairs, b.density, b.grades)
    assert b.memory == dense.X.nbytes + dense.y.nbytes + dense.qid.nbytes


def test_many_rows_are_looked_at_in_pieces():
    X = np.zeros((40_000, 3))
    X[39_999, 1] = np.nan
    X[20_000, 2] = 1
    found = RankingData.from_arrays(X, np.zeros(40_000), missing="nan").describe()
    assert found.constant_columns == ["f1", "f2"] and found.queries_without_pairs == 1


def test_table():
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=200).print(make_letor(30, 20, 5).describe().table())
    text = out.getvalue()
    assert "30" in text and "600" in text and "constant columns" in text and "dense float32" in text


def test_rows_of_several_sparse_files_are_described_as_sparse():
    data = make_letor(20, seed=0, sparse_density=0.1)
    view = RowsView(StackedRows([data.X, data.X]))
    both = RankingData(view, *(np.concatenate([part, part]) for part in (data.y, data.qid)))
    found, copied = both.describe(), RankingData(view.copied("a test"), both.y, both.qid).describe()
    assert found.layout == "CSR float32" and found.density == copied.density and found.scaling == copied.scaling


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_quantiles_are_numpys_of_repeated_rows(form):
    """A weight of 0 leaves a row out; missing values do not count, and a column of them has 0."""
    rng, asked = np.random.default_rng(0), np.linspace(0, 1, 7)
    X, weight = rng.integers(0, 4, (40, 5)).astype(float), rng.integers(0, 3, 40)
    X[:, 1] += 1.0  # no zeros
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 4] = np.nan
    for mass in (None, weight.astype(float)):
        rows = X if mass is None else np.repeat(X, weight, axis=0)
        expected = np.nanquantile(rows[:, :4], asked, axis=0, method="inverted_cdf").T
        found = column_quantiles(form(X), mass, asked)
        assert np.array_equal(found[:4], expected) and not found[4].any()


def test_columns_of_a_square_csc_matrix_are_not_taken_for_rows():
    X = np.array([[0.0, 1.0], [0.0, 5.0]])
    found = RankingData(sp.csc_matrix(X), np.zeros(2), np.zeros(2)).describe()
    assert found.columns["max"] == [0, 5] and found.layout == "CSR float64"
