"""RankingData from arrays: checks, subsets, splits, LETOR's folds, concatenation, equality."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData


def some_data(seed=0, n=60, d=4, queries=9, sparse=False, text=False, documents=True):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=np.float32) * (rng.random((n, d)) < 0.6)
    qid = rng.integers(0, queries, n)
    return RankingData.from_arrays(
        sp.csr_matrix(X) if sparse else X,
        rng.integers(0, 3, n),
        np.char.add("q", qid.astype(str)) if text else qid,
        docid=[f"d{i}" for i in range(n)] if documents else None,
        feature_names=[f"name {j}" for j in range(d)],
    )


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, np.asfortranarray, sp.coo_matrix, sp.csc_array])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_forms_of_X(form):
    X = np.array([[1.0, 0, 2], [0, 0, 3]])
    data = RankingData.from_arrays(form(X), [1, 0])
    dense = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(dense, X)
    if sp.issparse(data.X):
        assert data.X.format == "csr"
    else:
        assert data.X.flags.c_contiguous
    assert data.y.dtype == np.float64 and data.n_queries == 1


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("i8", "f8"), ("?", "f8"), ("O", "f8"), (">f4", "f4"), (">f8", "f8")],
)
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_number_types(given_type, kept):
    data = RankingData.from_arrays(np.eye(3).astype(given_type), [0, 1, 2])
    assert data.X.dtype == np.dtype(kept) and data.X.dtype.isnative
    np.testing.assert_array_equal(data.X, np.eye(3))


def test_what_fits_is_not_copied_and_what_is_given_is_not_changed():
    X = np.random.default_rng(0).random((5, 2), dtype=np.float32)
    assert RankingData.from_arrays(X, np.zeros(5)).X is X
    S = sp.csr_matrix(X)
    assert np.shares_memory(RankingData.from_arrays(S, np.zeros(5)).X.data, S.data)
    twice = sp.csr_matrix((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert RankingData.from_arrays(twice, [0]).X.toarray().tolist() == [[0.0, 3.0]]
    assert twice.nnz == 2, "the user's matrix stays as it was"


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_missing_values():
    X = np.array([[1.0, np.nan], [0.0, 2.0]])
    for form in (np.asarray, sp.csr_matrix):
        with pytest.raises(DataError, match=r"NaN .* at row 0, column 1"):
            RankingData.from_arrays(form(X), [0, 1])
        kept = RankingData.from_arrays(form(X), [0, 1], missing="nan").X
        assert np.isnan(kept[0, 1])
        zero = RankingData.from_arrays(form(X), [0, 1], missing="zero").X
        assert zero[0, 1] == 0 and zero[1, 1] == 2
    assert np.isnan(X[0, 1]), "the user's array stays as it was"
    big = np.full((3, 2), 3e38, np.float32)  # the sum overflows though every value is finite
    assert RankingData.from_arrays(big, [0, 1, 2]).X is big


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X": [1, 2, 3]}, r"shape \(3,\), expected two dimensions.*X\[:, None\]"),
        ({"X": np.zeros((2, 2, 2))}, r"shape \(2, 2, 2\)"),
        ({"X": [["a", 1], ["b", 2]]}, "X is not a table of numbers"),
        ({"X": [[1, 2], [3]]}, "X is not a table of numbers"),
        ({"X": np.eye(2) * 1j}, "type complex128, expected real numbers"),
        ({"X": np.empty((0, 2)), "y": []}, "no rows"),
        ({"X": [[0, np.inf], [0, 0]]}, "infinite at row 0, column 1"),
        ({"X": sp.csr_matrix([[0, 0], [0, -np.inf]])}, "infinite at row 1, column 1"),
        ({"y": [1, 2, 3]}, r"y has shape \(3,\), expected one grade for each of the 2 rows"),
        ({"y": [1, np.nan]}, "y is nan at row 1"),
        ({"y": ["good", "bad"]}, "y must hold numbers"),
        ({"y": [1j, 2]}, "expected real numbers"),
        ({"qid": [1]}, "qid has shape"),
        ({"qid": [1, 1], "group": [2]}, "qid or group, not both"),
        ({"group": [3]}, "add up to 3 rows but there are 2"),
        ({"docid": ["a"]}, "docid has shape"),
        ({"feature_names": ["a"]}, "1 names, expected one for each of the 2 columns"),
        ({"feature_names": ["a", "a"]}, "'a' twice"),
        ({"feature_names": "ab"}, "the text 'ab'"),
        ({"missing": "drop"}, "missing is 'drop'"),
    ],
)
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(DataError, match=words):
        RankingData.from_arrays(**({"X": [[1, 2], [3, 4]], "y": [0, 1]} | arguments))


def test_a_broken_sparse_matrix_is_refused():
    broken = sp.csr_matrix(np.eye(3))
    broken.indices[1] = 77
    with pytest.raises(DataError, match="X is not a valid sparse matrix"):
        RankingData.from_arrays(broken, [0, 1, 2])


def test_group_counts_make_ids():
    data = RankingData.from_arrays(np.eye(4), [0, 1, 0, 1], group=[1, 3])
    assert data.qid.tolist() == [0, 1, 1, 1] and data.n_queries == 2


def test_repr():
    assert repr(some_data()) == "RankingData(9 queries, 60 rows, 4 features, float32)"
    assert repr(some_data(sparse=True)).endswith("float32, CSR 57.92% full)")


def test_equality():
    assert some_data(1) == some_data(1)
    assert some_data(1) != some_data(2)
    assert some_data(1) != some_data(1, sparse=True)
    assert some_data(1) != some_data(1, documents=False)
    assert some_data(1) != "data"
    nan = RankingData.from_arrays([[np.nan]], [0], missing="nan")
    assert nan == RankingData.from_arrays([[np.nan]], [0], missing="nan")
    with pytest.raises(TypeError):
        hash(nan)


def rows_of(data):
    """Every row as one comparable value."""
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    ids = [None] * len(data) if data.docid is None else data.docid.tolist()
    return list(zip(map(tuple, X.tolist()), data.y.tolist(), data.qid.tolist(), ids))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.booleans(), st.booleans(), st.data())
def test_subset_of_queries_and_of_rows(seed, sparse, text, draw):
    data = some_data(seed, sparse=sparse, text=text)
    chosen = draw.draw(st.lists(st.sampled_from(data.blocks.ids.tolist()), min_size=1, unique=True))
    expected = [row for row in rows_of(data) if row[2] in chosen]
    for part in (
        data.subset(chosen),
        data.subset(np.isin(data.qid, chosen)),
        data.subset(rows=np.isin(data.qid, chosen)),
    ):
        assert rows_of(part) == expected
        assert part.feature_names == data.feature_names and part.X.dtype == np.float32
        assert sp.issparse(part.X) == sparse


def test_a_run_of_rows_is_a_view():
    data = some_data()
    assert np.shares_memory(data.take(np.arange(3, 20)).X, data.X)
    assert not np.shares_memory(data.take([3, 5]).X, data.X)
    assert rows_of(data.take([5, 3])) == [rows_of(data)[5], rows_of(data)[3]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, r"needs either queries \(a list of ids\) or rows"),
        ({"queries": [0], "rows": [True]}, r"needs either queries \(a list of ids\) or rows"),
        ({"queries": ["no such query"]}, "'no such query' is not in the data"),
        ({"queries": []}, "no rows are left"),
        ({"rows": [0, 1]}, "expected 60 booleans"),
        ({"rows": np.zeros(60, bool)}, "no rows are left"),
    ],
)
def test_bad_subsets(arguments, words):
    with pytest.raises(DataError, match=words):
        some_data().subset(**arguments)


def test_split_keeps_queries_whole():
    data = some_data(queries=30)
    train, test = data.split(0.3, seed=4)
    assert sorted(rows_of(train) + rows_of(test)) == sorted(rows_of(data))
    assert not set(train.qid) & set(test.qid)
    assert test.n_queries == round(0.3 * data.n_queries)
    assert data.split(0.3, seed=4)[1] == test
    assert data.split(0.3, seed=5)[1] != test
    with pytest.raises(DataError, match=r"leaves train or test without any of the [0-9]+ queries"):
        data.split(0.001)
    with pytest.raises(ValueError, match="test_size must be a number from 0 to 1"):
        data.split("0.2")
    with pytest.raises(ValueError, match="seed must be a whole number"):
        data.split(0.3, seed="x")


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_folds_follow_letor(seed):
    data = some_data(queries=23, n=200)
    folds = list(data.folds(5, seed))
    tests = [set(fold.test.qid) for fold in folds]
    assert set.union(*tests) == set(data.qid) and sum(map(len, tests)) == data.n_queries
    for i, fold in enumerate(folds):
        assert sorted(rows_of(fold.train) + rows_of(fold.validation) + rows_of(fold.test)) == sorted(rows_of(data))
        # S_{i+4} is tested and S_{i+3} validates, so what validates fold i was tested by the fold before
        assert set(fold.validation.qid) == tests[i - 1]
        assert set(fold.train.qid) == tests[i - 2] | tests[i - 3] | tests[i - 4]
    if seed is None:
        first = data.blocks.ids[: len(tests[1])].tolist()
        assert tests[1] == set(first), "fold 1 tests on S5, fold 2 on S1"
    with pytest.raises(DataError, match="at least 3"):
        data.folds(2)
    with pytest.raises(DataError, match="30 folds of 23 queries"):
        data.folds(30)


@pytest.mark.parametrize("sparse", [False, True])
def test_concatenate_undoes_a_split(sparse):
    data = some_data(sparse=sparse)
    parts = data.split(0.5)
    whole = RankingData.concatenate(parts)
    assert rows_of(whole) == rows_of(parts[0]) + rows_of(parts[1])
    assert whole.feature_names == data.feature_names and whole.X.dtype == np.float32
    mixed = RankingData.concatenate([parts[0], some_data(9, queries=99).subset([29, 96])])
    assert sp.issparse(mixed.X) == sparse


def test_concatenate_refuses_what_does_not_fit():
    data = some_data()
    with pytest.raises(DataError, match="is in part 0 and in part 1"):
        RankingData.concatenate([data, data])
    assert RankingData.concatenate([data, data], join_queries=True).n_queries == data.n_queries
    with pytest.raises(DataError, match="the list is empty"):
        RankingData.concatenate([])
    with pytest.raises(DataError, match="part 0 has 4 features but part 1 has 5"):
        RankingData.concatenate([data, some_data(d=5)])
    with pytest.raises(DataError, match="document ids"):
        RankingData.concatenate([data, some_data(documents=False)])
    with pytest.raises(DataError, match="qid has different types"):
        RankingData.concatenate([data, some_data(text=True)])


def test_concatenate_joins_kinds_of_text():
    parts = [some_data(i, text=True) for i in range(3)]
    kinds = [str, object, np.dtypes.StringDType()]
    other = [RankingData(p.X, p.y, p.qid.astype(k), p.docid.astype(k), p.feature_names) for p, k in zip(parts, kinds)]
    whole = RankingData.concatenate(other, join_queries=True)
    assert whole == RankingData.concatenate(parts, join_queries=True)
    assert whole.n_queries == len(set(whole.qid.tolist()))


def test_the_constructor_takes_arrays_alone():
    """Rows of a pandas series would be taken by its labels."""
    X, y, qid = np.eye(3), np.array([0.0, 1, 2]), np.zeros(3)
    for other in ({"X": X.tolist()}, {"y": y.tolist()}, {"qid": qid.tolist()}):
        with pytest.raises(DataError, match="from_arrays"):
            RankingData(**({"X": X, "y": y, "qid": qid} | other))


def test_rows_to_take_are_numbers():
    data = RankingData.from_arrays(np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 2], [1, 1, 1, 2, 2, 2])
    for rows in (data.y > 0, [0.7, 2.9]):
        with pytest.raises(DataError, match=r"expected row numbers; subset\(rows=\) takes a boolean mask"):
            data.take(rows)
    for rows in ([6], [5, 6], [-7]):
        with pytest.raises(DataError, match=r"there is no row -?\d: the data have 6 rows"):
            data.take(rows)
    assert data.take(np.array([5, 0], np.uint8)).y.tolist() == [2, 0] and data.take([-1]).y.tolist() == [2]


@pytest.mark.parametrize("name", ["qid", "docid", "group"])
def test_masked_ids_are_refused(name):
    given = {"qid": [1, 1]} if name == "docid" else {}
    with pytest.raises(DataError, match=f"{name} is a masked array with 1 masked"):
        RankingData.from_arrays([[1.0], [2.0]], [0, 1], **given, **{name: np.ma.array([1, 1], mask=[0, 1])})


def test_concatenate_keeps_where_features_begin(tmp_path):
    for name, line in (("zero", "1 qid:1 0:2 1:5\n"), ("one", "1 qid:2 1:2 2:1\n"), ("more", "1 qid:3 1:2 2:1\n")):
        (tmp_path / f"{name}.txt").write_text(line)
    zero, one, more = (hr.read(tmp_path / f"{name}.txt") for name in ("zero", "one", "more"))
    assert RankingData.concatenate([one, more]).index_base == 1
    with pytest.raises(DataError, match="part 0 counts features from 0 and part 1 from 1"):
        RankingData.concatenate([zero, one])


@pytest.mark.parametrize("name", ["y", "qid", "docid"])
def test_every_row_needs_an_entry(name):
    """Rows of different numbers were written into files that could not be read."""
    columns = {"y": np.zeros(3), "qid": np.zeros(3, int), "docid": np.array(["a", "b", "c"])}
    with pytest.raises(DataError, match=rf"{name} has shape \(2,\), expected an entry for each of the 3 rows of X"):
        RankingData(np.eye(3), **columns | {name: columns[name][:2]})
