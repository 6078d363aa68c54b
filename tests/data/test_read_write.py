"""One `read` and one `write` for every form: the path decides, and what is written is read back."""

import dataclasses
import gzip
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import rows_view
from hingerank.data.files import DataError, draft_of, is_binary, kind_to_read, kind_to_write, write_whole

TEXTS = ["x.txt", "x.letor", "x.TXT", "x.svm.gz", "x.dat.xz", "x.txt.bz2", "x.libsvm.zst", "x.txt.GZ", "x.gz"]
TABLES = ["x.parquet", "x.pq", "x.feather", "x.arrow", "x.csv", "x.tsv", "x.csv.gz", "x.csv.xz", "x.csv.bz2",
          "x.tsv.zst", "x.CSV.GZ"]  # fmt: skip
FOLDERS = ["x/", "x.bin/", "x"]


def some_data(names=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    docid = np.array([f"d{i}" for i in range(12)])
    return hr.RankingData.from_arrays(X, rng.integers(0, 3, 12), np.arange(12) // 4, docid=docid, feature_names=names)


@pytest.mark.parametrize("name", [*TEXTS, *TABLES, *FOLDERS])
def test_what_is_written_is_read_back(tmp_path, name):
    if name.lower().endswith("zst"):
        pytest.importorskip("zstandard")
    kind = "text" if name in TEXTS else "table" if name in TABLES else "binary"
    path, data = f"{tmp_path}/{name}", some_data(None if name in TEXTS else ["a", "b", "c"])
    assert kind_to_write(path) == kind
    hr.write(data, path)
    assert kind_to_read(path) == kind and hr.read(path) == data
    assert is_binary(path) == (kind == "binary") and os.listdir(tmp_path) == [name.rstrip("/")]
    hr.write(data.take(np.arange(8)), path)  # over it
    assert hr.read(path).n_rows == 8 and os.listdir(tmp_path) == [name.rstrip("/")]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["x.txt", "x.parquet", "x/"])
def test_some_rows_of_a_mapped_folder_are_written_like_any_others(tmp_path, monkeypatch, name, sparse):
    data = some_data() if not sparse else dataclasses.replace(some_data(), X=sp.csr_matrix(np.eye(12, 3)))
    hr.write(data, tmp_path / "mapped")
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)
    view = hr.read(tmp_path / "mapped").take([5, 1, 0, 7])
    assert isinstance(view.X, rows_view.RowsView)
    hr.write(view, f"{tmp_path}/{name}")
    monkeypatch.undo()
    hr.write(data.take([5, 1, 0, 7]), f"{tmp_path}/plain-{name}")
    assert hr.read(f"{tmp_path}/{name}") == hr.read(f"{tmp_path}/plain-{name}")


def test_a_slash_makes_a_binary_folder(tmp_path):
    hr.write(some_data(), f"{tmp_path}/x/")
    assert (tmp_path / "x" / "header.json").is_file() and isinstance(hr.read(tmp_path / "x").X.base, np.memmap)
    hr.write(some_data().take([0]), tmp_path / "x")
    assert hr.read(tmp_path / "x").n_rows == 1
    with pytest.raises(DataError, match="holds data already"):
        hr.write(some_data(), tmp_path / "x", overwrite=False)


def test_other_folders_are_never_touched(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(DataError, match="holds something other than binary data"):
        hr.write(some_data(), tmp_path)
    assert os.listdir(tmp_path) == ["precious.txt"]


@pytest.mark.parametrize("name", ["x.xyz", "x.parquet.gz", "x.json", "x.xyz.gz"])
def test_an_ending_that_says_nothing(tmp_path, name):
    with pytest.raises(
        DataError, match=r"cannot tell from its ending what .*x\..* should be: end it in / for a binary"
    ):
        hr.write(some_data(), tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a/"])
def test_an_array_is_not_written(tmp_path, name):
    with pytest.raises(DataError, match=r"data must be RankingData, such as .* makes, not ndarray"):
        hr.write(np.ones((2, 2)), f"{tmp_path}/{name}")


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_options_of_each_form(tmp_path):
    hr.write(some_data(), tmp_path / "x.txt", index_base=0)
    assert " 0:" in (tmp_path / "x.txt").read_text() and hr.read(tmp_path / "x.txt").index_base == 0
    hr.write(some_data(), tmp_path / "x.parquet", layout="list")
    assert hr.read(tmp_path / "x.parquet") == some_data()
    with pytest.raises(TypeError, match="layout"):
        hr.write(some_data(), tmp_path / "x.txt", layout="list")
    sparse = hr.RankingData.from_arrays(sp.csr_matrix(some_data().X), some_data().y)
    hr.write(sparse, tmp_path / "x")
    assert hr.read(tmp_path / "x", verify=True) == sparse


def test_a_folder_of_nothing_known(tmp_path):
    assert kind_to_read(tmp_path) == "folder"
    with pytest.raises(DataError, match=r"this folder has neither binary data .* name a file in it"):
        hr.read(tmp_path)


def test_a_plain_file_called_gz_is_read_by_its_content(tmp_path):
    (tmp_path / "x.txt.gz").write_text("1 qid:1 1:2\n")
    (tmp_path / "y.txt").write_bytes(gzip.compress(b"1 qid:1 1:2\n"))
    assert hr.read(tmp_path / "x.txt.gz") == hr.read(tmp_path / "y.txt")


def test_a_table_that_misses_values_names_the_parameter(tmp_path):
    (tmp_path / "x.csv").write_text("label,qid,a\n1,1,2\n0,1,\n")
    with pytest.raises(DataError) as caught:
        hr.read(tmp_path / "x.csv")
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == f"{error.problem}; {error.remedy}" and error.problem.startswith(
        f"{tmp_path / 'x.csv'}: X is NaN"
    )
    assert error.option == "missing" and error.remedy == 'pass missing="zero" or missing="nan" to accept it'
    with pytest.raises(DataError) as caught:
        hr.read(tmp_path / "x.csv", label="grade")
    assert caught.value.option == "columns"


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "folder"
    for content in ("first", "second"):
        with draft_of(target) as draft:
            draft.mkdir()
            (draft / content).write_text(content)
        assert os.listdir(target) == [content]
    with pytest.raises(KeyboardInterrupt), draft_of(target) as draft:
        draft.mkdir()
        raise KeyboardInterrupt
    assert os.listdir(target) == ["second"] and os.listdir(tmp_path) == ["folder"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    write_whole(tmp_path / "deep" / "file.csv", b"old")
    with pytest.raises(KeyboardInterrupt), draft_of(tmp_path / "deep" / "file.csv") as draft:
        assert draft.name == "file.csv"  # libraries choose a format by the ending
        draft.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "deep" / "file.csv").read_bytes() == b"old" and os.listdir(tmp_path / "deep") == ["file.csv"]
