"""What is written reads back bit for bit, whatever the values, ids and compression."""

import os
import struct

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.letor_writer import write_text
from hingerank.data.ranking_data import RankingData


def data_of(X, y=None, qid=None, docid=None):
    n = X.shape[0]
    y = np.arange(n, dtype=float) % 3 if y is None else y
    return RankingData(X, y, np.arange(n) // 2 if qid is None else np.asarray(qid), docid)


def any_doubles(count, seed):
    """Random bits: every exponent, subnormal numbers too."""
    values = np.frombuffer(np.random.default_rng(seed).bytes(8 * count), np.float64).copy()
    values[~np.isfinite(values)] = 0
    return values


KINDS = {
    "any bits": lambda: any_doubles(20_000, 1),
    "unit": lambda: np.random.default_rng(2).random(20_000),
    "normal": lambda: np.random.default_rng(3).normal(size=20_000) * 1e6,
    "whole": lambda: np.random.default_rng(4).integers(-(2**60), 2**60, 20_000).astype(float),
    "six decimals": lambda: np.round(np.random.default_rng(5).random(20_000), 6),
    "powers": lambda: np.concatenate([2.0 ** np.arange(-1074, 1024), 10.0 ** np.arange(-307, 309)]),
    "edges": lambda: np.array(
        [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3, 1e16, 2**53]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_labels(tmp_path, kind, dtype):
    values = KINDS[kind]()
    with np.errstate(over="ignore", under="ignore"):
        X = np.resize(values, (len(values) // 4, 4)).astype(dtype)
    X[~np.isfinite(X)] = 1
    y = np.ascontiguousarray(np.resize(values, len(X)))
    write_text(data_of(X, y), tmp_path / "x.txt")
    back = hr.read(tmp_path / "x.txt", dtype=dtype, sparse=False)
    assert back.X.tobytes() == X.tobytes() and back.y.tobytes() == y.tobytes()


def test_numbers_are_written_short(tmp_path):
    X = np.array([[0.1, 3, 0.25, 1e-7, 1e300, -0.0, 1 / 3, 123456.789]])
    write_text(data_of(X, np.array([2.0])), tmp_path / "x.txt")
    expected = "2 qid:0 1:0.1 2:3 3:0.25 4:0.0000001 5:1e300 6:-0 7:0.3333333333333333 8:123456.789\n"
    assert (tmp_path / "x.txt").read_text() == expected
    write_text(data_of(X[:, [0, 6]].astype(np.float32)), tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text() == "0 qid:0 1:0.1 2:0.33333334\n"


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse(tmp_path, base, dtype):
    X = sp.random(50, 297, 0.02, format="csr", dtype=dtype, random_state=np.random.default_rng(0))
    X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(50, 300))  # the last columns are empty
    X.sort_indices()
    write_text(data_of(X), tmp_path / "x.txt", index_base=base)
    back = hr.read(tmp_path / "x.txt", dtype=dtype)
    assert sp.issparse(back.X) and back.X.shape == X.shape and (back.X != X).nnz == 0
    assert back.X.nnz - X.nnz in (1, 2)  # the explicit zeros that keep the shape
    write_text(back, tmp_path / "y.txt", index_base=base)
    assert (tmp_path / "y.txt").read_bytes() == (tmp_path / "x.txt").read_bytes()


def test_sparse_with_repeated_and_unsorted_columns(tmp_path):
    X = sp.csr_matrix((np.array([1.0, 2, 4, 3]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3))
    write_text(data_of(X), tmp_path / "x.txt")
    assert hr.read(tmp_path / "x.txt").X.tolist() == [[2, 0, 5], [0, 3, 0]]
    assert X.data.tolist() == [1, 2, 4, 3]  # the caller's matrix is left alone


def test_missing_values(tmp_path):
    X = np.array([[np.nan, 1], [2, np.nan]])
    write_text(data_of(X), tmp_path / "x.txt")
    assert np.array_equal(hr.read(tmp_path / "x.txt", missing="nan").X, X, equal_nan=True)


@pytest.mark.parametrize(
    "qid",
    [
        [3, 1, 3],
        ["a", "b", "a"],
        ["1", "x", "0"],
        np.array([2.0, 7.0, 2.0]),
        np.array(["é", "b", "c"], object),
        [True, False, True],
    ],
    ids=["int", "str", "mixed", "float", "object", "bool"],
)
def test_query_ids(tmp_path, qid):
    write_text(data_of(np.eye(3), qid=qid), tmp_path / "x.txt")
    back = hr.read(tmp_path / "x.txt")
    wanted = [int(q) if isinstance(q, float) else q for q in np.asarray(qid).tolist()]
    assert back.qid.tolist() == [str(q) if isinstance(q, bool) else q for q in wanted]


DOCIDS = [
    "GX029-35-5894638",
    "",
    "7555 rambo",
    "a # b",
    "größe 好",
    "inc",
    "X inc = 1 prob = 2",
    "docid =",
    "inc = 3",
    "docid = a",
]


@pytest.mark.parametrize("dtype", ["U", "object", "T"])
def test_document_ids(tmp_path, dtype):
    docid = np.array(DOCIDS, np.dtypes.StringDType() if dtype == "T" else {"U": str, "object": object}[dtype])
    write_text(data_of(np.ones((len(DOCIDS), 1)), docid=docid), tmp_path / "x.txt")
    assert hr.read(tmp_path / "x.txt").docid.tolist() == DOCIDS


@pytest.mark.parametrize("docid", ["a\nb", " a", "a\t", "docid=a inc = 1", "a\0b"])
def test_document_ids_that_cannot_be_written(tmp_path, docid):
    with pytest.raises(hr.DataError, match="cannot be written"):
        write_text(data_of(np.ones((2, 1)), docid=np.array(["x", docid])), tmp_path / "x.txt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("qid", ["a b", "", "a#b", "a\nb"])
def test_query_ids_that_cannot_be_written(tmp_path, qid):
    with pytest.raises(hr.DataError, match=r"query id .* cannot be written"):
        write_text(data_of(np.ones((2, 1)), qid=["x", qid]), tmp_path / "x.txt")


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_values_that_cannot_be_written(tmp_path, bad):
    with pytest.raises(hr.DataError, match=r"y is .* at row 1"):
        write_text(data_of(np.ones((2, 1)), np.array([0, bad])), tmp_path / "x.txt")
    if np.isinf(bad):
        with pytest.raises(hr.DataError, match="infinite"):
            write_text(data_of(np.array([[bad], [1]])), tmp_path / "x.txt")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_compressed_by_suffix(tmp_path, suffix):
    if suffix == ".zst":
        pytest.importorskip("zstandard")
    data = data_of(np.random.default_rng(0).random((5000, 7)), docid=np.char.add("d", np.arange(5000).astype(str)))
    path = tmp_path / ("x.txt" + suffix)
    write_text(data, path)
    assert hr.read(path) == data
    first = path.read_bytes()
    write_text(data, path)
    assert path.read_bytes() == first  # no time stamps


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    path.write_text("old")
    monkeypatch.setattr("hingerank.data.letor_writer.run_shards", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_text(data_of(np.ones((2, 1))), path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x.txt"]


def test_real_bits_of_float32_pass_through_double(tmp_path):
    """Shortest float32 decimals are read as doubles first; none may be rounded twice into a neighbour."""
    bits = np.random.default_rng(9).integers(0, 0x7F7FFFFF, 100_000, np.uint32)
    X = bits.view(np.float32).reshape(-1, 10)
    write_text(data_of(X), tmp_path / "x.txt")
    assert hr.read(tmp_path / "x.txt", dtype="float32").X.tobytes() == X.tobytes()
    assert struct.calcsize("f") == X.itemsize


def test_ids_that_are_floats_stay_apart_and_together(tmp_path):
    """Far from zero no two become one, and each is written alike in every block of rows."""
    far = np.array([1e300, 2e300, 2.0**63, 3.0])
    write_text(data_of(np.ones((4, 1)), qid=far, docid=far), tmp_path / "far.txt")
    back = hr.read(tmp_path / "far.txt")
    assert [float(i) for i in back.qid] == far.tolist() == [float(i) for i in back.docid]
    many = np.repeat(np.arange(400.0) % 7, 10)
    many[-1] = 0.5
    write_text(data_of(np.random.default_rng(0).random((4000, 100)), qid=many), tmp_path / "many.txt")
    assert [float(i) for i in hr.read(tmp_path / "many.txt").qid] == many.tolist()
    assert hr.read(tmp_path / "many.txt").n_queries == 8


@pytest.mark.parametrize("name", ["rows.txt", "rows/"])
def test_grades_that_cannot_be_read_are_not_written(tmp_path, name):
    rows = data_of(np.eye(2), y=np.array([1.0, np.nan]))
    with pytest.raises(hr.DataError, match="y is nan at row 1"):
        hr.write(rows, f"{tmp_path}/{name}")
    assert not list(tmp_path.iterdir())


def test_rows_without_features_are_no_text(tmp_path):
    with pytest.raises(hr.DataError, match="there are no features"):
        hr.write(data_of(np.empty((3, 0))), tmp_path / "rows.txt")
