"""The binary form: round trips without a copy, safe replacement, and damage that is noticed."""

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hingerank.data.binary import is_binary, load_binary, save_binary
from hingerank.data.files import DataError
from hingerank.data.generate import make_letor
from hingerank.data.letor import read_pieces, read_text
from hingerank.data.ranking_data import RankingData

IDS = {
    "int": lambda rng, n: rng.integers(0, 9, n),
    "int16": lambda rng, n: rng.integers(0, 9, n).astype(np.int16),
    "float": lambda rng, n: rng.integers(0, 9, n) / 4,
    "bytes": lambda rng, n: rng.integers(0, 9, n).astype("S3"),
    "text": lambda rng, n: np.array(["", "WT04-132", "é", "日本", "\udce9"])[rng.integers(0, 5, n)],
    "objects": lambda rng, n: np.array(["", "WT04-132", "é", "x" * 500], object)[rng.integers(0, 4, n)],
    "numpy text": lambda rng, n: np.array(["", "a", "é", "x" * 99], np.dtypes.StringDType())[rng.integers(0, 4, n)],
    "dates": lambda rng, n: rng.integers(0, 9, n).astype("datetime64[D]"),
}


def some_data(seed=0, n=40, d=5, sparse=False, dtype=np.float32, qid="int", docid=None, names=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype) * (rng.random((n, d)) < 0.4)
    return RankingData(
        sp.csr_matrix(X) if sparse else X,
        rng.standard_normal(n),
        IDS[qid](rng, n),
        None if docid is None else IDS[docid](rng, n),
        [f"ü {j}" for j in range(d)] if names else None,
    )


SAVED = Path(__file__).parent / "saved"  # written by version 0.1


@pytest.mark.parametrize("base", [0, 1])
def test_the_index_of_the_first_feature_is_kept(tmp_path, base):
    """Text that a ranker is used on has to count its features as the text that was converted."""
    (tmp_path / "rows.txt").write_text(f"1 qid:1 {base}:0.5 2:3\n0 qid:1 2:1\n")
    save_binary(read_pieces(tmp_path / "rows.txt"), tmp_path / "rows")
    train = load_binary(tmp_path / "rows")
    assert train.index_base == base
    (tmp_path / "test.txt").write_text("1 qid:1 2:7\n")
    assert read_text(tmp_path / "test.txt", index_base=train.index_base).X.tolist() == [[0] * (2 - base) + [7]]
    with pytest.raises(DataError, match="part 0 counts features from"):
        RankingData.concatenate([train, RankingData(train.X, train.y, train.qid + 9, index_base=1 - base)])


@pytest.mark.parametrize("name", ["dense-0.1", "csr-0.1"])
def test_folders_of_version_0_1_are_read_and_written_the_same(tmp_path, name):
    X, y = np.array([[0.5, 0, -1], [0, 2, 0], [0, 0, 0], [1e-3, 0, 7]]), np.array([2.0, 0, 1, 0])
    if name == "dense-0.1":
        expected = RankingData(X.astype(np.float32), y, np.array([7, 7, 3, 3]), None, tuple("abc"))
    else:
        docid = np.array(["d1", "", "d 3", "日本"], object)
        expected = RankingData(sp.csr_matrix(X), y, np.array(["q1", "q1", "é", "é"]), docid)
    assert load_binary(SAVED / name, verify=True) == expected
    folder = save_binary(expected, tmp_path / "data")
    assert sorted(os.listdir(folder)) == sorted(os.listdir(SAVED / name))
    for path in folder.glob("*.npy"):
        assert path.read_bytes() == (SAVED / name / path.name).read_bytes()
    headers = [json.loads((place / "header.json").read_text()) for place in (folder, SAVED / name)]
    assert headers[0] == headers[1]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 999),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(sorted(IDS)),
    st.sampled_from([None, *sorted(IDS)]),
    st.booleans(),
)
def test_round_trip(tmp_path_factory, seed, sparse, dtype, qid, docid, names):
    data = some_data(seed, 1 + seed % 50, 1 + seed % 7, sparse, dtype, qid, docid, names)
    folder = save_binary(data, tmp_path_factory.mktemp("binary") / "data")
    for verify in (False, True):
        again = load_binary(folder, verify=verify)
        assert again == data
        assert again.qid.dtype == data.qid.dtype or (again.qid.dtype == object and data.qid.dtype.kind in "UOT")


def test_nothing_is_copied_and_plain_numpy_reads_it(tmp_path):
    data = make_letor(20, 30, 8)
    folder = save_binary(data, tmp_path / "data")
    loaded = load_binary(folder)
    assert type(loaded.X) is np.ndarray and isinstance(loaded.X.base, np.memmap)
    np.testing.assert_array_equal(np.load(folder / "X.npy"), data.X)
    loaded.X[0, 0] = 7  # a private map: the file stays as it was
    assert load_binary(folder, verify=True) == data
    sparse = make_letor(20, 30, 50, sparse_density=0.1)
    loaded = load_binary(save_binary(sparse, tmp_path / "sparse"))
    assert isinstance(loaded.X.data.base.base, np.memmap) or isinstance(loaded.X.data.base, np.memmap)
    assert loaded == sparse


def test_parts_make_one_set(tmp_path):
    for sparse in (False, True):
        parts = [some_data(i, sparse=sparse, qid="text", docid="objects") for i in range(3)]
        folder = save_binary(iter(parts), tmp_path / f"data{sparse}")
        assert load_binary(folder) == RankingData.concatenate(parts, join_queries=True)
    wide, narrow = some_data(1, d=9, sparse=True, names=False), some_data(2, d=4, sparse=True, names=False)
    assert load_binary(save_binary([narrow, wide], tmp_path / "ragged")).X.shape == (80, 9)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"sparse": True}, "layout: the first part has 'dense', a later one has 'csr'"),
        ({"d": 4, "names": False}, "feature_names"),
        ({"dtype": np.float64}, "parts differ in X"),
        ({"qid": "text"}, "type of qid"),
        ({"docid": "text"}, "has docid"),
    ],
)
def test_parts_that_differ(tmp_path, second, words):
    with pytest.raises(DataError, match=words):
        save_binary([some_data(), some_data(**second)], tmp_path / "data")
    assert not list(tmp_path.iterdir()), "nothing half-written stays"


def test_what_cannot_be_saved(tmp_path):
    mixed = RankingData.from_arrays(np.eye(2), [0, 1], np.array(["a", 1], object))
    with pytest.raises(DataError, match="qid mixes int, str: make all ids text"):
        save_binary(mixed, tmp_path / "data")
    large = RankingData.from_arrays(np.eye(2), [0, 1], [2**63 + 1, -7])
    with pytest.raises(DataError, match="qid mixes int: make all ids text"):  # no type of numbers holds both
        save_binary(large, tmp_path / "data")
    with pytest.raises(DataError, match="nothing to save"):
        save_binary([], tmp_path / "data")
    numbers = RankingData.from_arrays(np.eye(2), [0, 1], np.array([5, 6], object))
    assert load_binary(save_binary(numbers, tmp_path / "data")).qid.tolist() == [5, 6]


def test_a_folder_in_the_way(tmp_path):
    first, second = some_data(1), some_data(2)
    folder = save_binary(first, tmp_path / "deep" / "data")
    with pytest.raises(DataError, match="overwrite=True"):
        save_binary(second, folder)
    mapped = load_binary(folder)
    save_binary(second, folder, overwrite=True)
    assert load_binary(folder) == second
    assert mapped == first, "an open map keeps the old data"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["data"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    with pytest.raises(DataError, match="holds something other than binary data"):
        save_binary(first, other, overwrite=True)
    with pytest.raises(DataError, match="this is a file, but binary data need a folder"):
        save_binary(first, other / "precious.txt", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert load_binary(save_binary(first, tmp_path / "empty")) == first
    assert is_binary(folder) and not is_binary(other) and not is_binary(tmp_path / "none")


def test_an_interrupted_save_leaves_the_old_data(tmp_path):
    folder = save_binary(some_data(1), tmp_path / "data")

    def parts():
        yield some_data(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_binary(parts(), folder, overwrite=True)
    assert load_binary(folder) == some_data(1)
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_permissions_are_the_usual_ones(tmp_path):
    folder = save_binary(some_data(), tmp_path / "data")
    (tmp_path / "plain").mkdir()
    assert os.stat(folder).st_mode == os.stat(tmp_path / "plain").st_mode


def rewrite_header(folder, change):
    """Change the header and sign it again: what a careless program or an attacker could do."""
    header = json.loads((folder / "header.json").read_text())
    change(header)
    header.pop("checksum", None)
    header["checksum"] = zlib.crc32(json.dumps(header, sort_keys=True).encode())
    (folder / "header.json").write_text(json.dumps(header))


@pytest.mark.parametrize("sparse", [False, True])
def test_every_cut_file_is_noticed(tmp_path, sparse):
    folder = save_binary(some_data(sparse=sparse, qid="text", docid="objects"), tmp_path / "data")
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for damaged in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"x"):
            path.write_bytes(damaged)
            if path.name == "header.json" and damaged == whole[:-1]:
                continue  # only the last newline
            with pytest.raises(DataError) as error:
                load_binary(folder)
            assert str(folder) in str(error.value)
        path.unlink()
        with pytest.raises(DataError, match=r"missing|no binary data"):
            load_binary(folder)
        path.write_bytes(whole)
    load_binary(folder, verify=True)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_every_flipped_byte_is_noticed(tmp_path, sparse):
    """Unless asked not to look the load must at least never crash or point outside the arrays."""
    data = some_data(n=6, d=3, sparse=sparse, qid="text", docid="objects")
    folder = save_binary(data, tmp_path / "data")
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in rng.choice(len(whole), min(40, len(whole)), replace=False):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(damaged)
            with pytest.raises(DataError):
                load_binary(folder)
            try:
                loaded = load_binary(folder, verify=False)
            except DataError:
                continue
            assert loaded.X.shape == data.X.shape and len(loaded.qid) == 6
            if sparse:
                loaded.X.check_format(full_check=True)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: h.update(version=2), "the format has version 2, but this program reads version 1"),
        (lambda h: h.update(format="other"), "a header.json of the format hingerank-data"),
        (lambda h: h["arrays"]["y"].update(dtype="|O"), "type '|O' and shape (40,), which this format does not allow"),
        (lambda h: h["arrays"].update({"../../etc/passwd": h["arrays"]["y"]}), "which this format does not allow"),
        (lambda h: h["arrays"]["X"].update(shape=[10**15, 5]), "bytes, as the header says"),
        (lambda h: h["arrays"]["X"].update(shape=[200]), "shape (200,), which this format does not allow"),
        (lambda h: h["arrays"]["X"].update(shape=[20, 10]), "of type '<f4' and shape (20, 10) in 928 bytes"),
        (lambda h: h["arrays"].pop("y"), "do not fit together"),
        (lambda h: h.pop("features"), "do not fit together"),
        (lambda h: h.update(arrays=[1]), "do not fit together"),
        (lambda h: h.update(feature_names=["a"]), "do not fit together"),
    ],
)
def test_headers_that_do_not_fit(tmp_path, change, words):
    folder = save_binary(some_data(), tmp_path / "data")
    rewrite_header(folder, change)
    with pytest.raises(DataError) as error:
        load_binary(folder)
    assert words in str(error.value)


def test_damaged_places_are_noticed_even_when_signed(tmp_path):
    folder = save_binary(some_data(sparse=True), tmp_path / "data")
    for name, value in (("X_indices", 99), ("X_indices", -1), ("X_indptr", 10**9)):
        whole = (folder / f"{name}.npy").read_bytes()
        array = np.load(folder / f"{name}.npy", mmap_mode="r+")
        array[1] = value
        array.flush()
        with pytest.raises(DataError, match="the folder is damaged"):
            load_binary(folder, verify=False)
        with pytest.raises(DataError, match=f"{name}.npy: the checksum differs"):
            load_binary(folder)
        (folder / f"{name}.npy").write_bytes(whole)


def test_pickles_are_never_read(tmp_path):
    folder = save_binary(some_data(), tmp_path / "data")
    np.save(folder / "y.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DataError, match="bytes, as the header says"):
        load_binary(folder)


@pytest.mark.parametrize(
    "change", [sp.csc_matrix, lambda X: X.astype(int), lambda X: X > 0.5, lambda X: X.astype("f2")]
)
def test_features_of_other_types_are_written_as_what_the_format_holds(tmp_path, change):
    """Columns of a square CSC matrix would be its rows, and whole numbers could not be opened again."""
    X = change(np.arange(9.0).reshape(3, 3))
    found = load_binary(save_binary(RankingData(X, np.zeros(3), np.ones(3, int)), tmp_path / "data")).X
    assert found.dtype in (np.float32, np.float64)
    dense = [each.toarray() if sp.issparse(each) else each for each in (found, X)]
    np.testing.assert_array_equal(*dense)
