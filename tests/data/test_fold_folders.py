"""Folders of folds: S1…S5, Fold1…Fold5, test files alone; and what `read` makes of a folder."""

import gzip

import pytest

import hingerank as hr
from hingerank.data.read_write import read_folds


def line(k: int) -> str:
    return f"1 qid:{k} {k}:1\n0 qid:{k} 1:{k}\n"


def queries(fold):
    return [part.blocks.ids.tolist() for part in fold]


RULE = [
    [[1, 2, 3], [4], [5]],
    [[2, 3, 4], [5], [1]],
    [[3, 4, 5], [1], [2]],
    [[4, 5, 1], [2], [3]],
    [[5, 1, 2], [3], [4]],
]


@pytest.fixture
def parts(tmp_path):
    for k in range(1, 6):
        if k == 3:
            (tmp_path / "S3.txt.gz").write_bytes(gzip.compress(line(k).encode()))
        else:
            (tmp_path / f"S{k}.txt").write_text(line(k))
    (tmp_path / "README.txt").write_text("not data")
    return tmp_path


@pytest.fixture
def fold_folders(tmp_path):
    for k, roles in enumerate(RULE, 1):
        folder = tmp_path / f"Fold{k}"
        folder.mkdir()
        for name, numbers in zip(("train", "vali", "test"), roles):
            (folder / f"{name}.txt").write_text("".join(map(line, numbers)))
    return tmp_path


def test_parts_by_letor_rule(parts):
    folds = read_folds(parts)
    assert [queries(fold) for fold in folds] == RULE
    assert all(part.n_features == 5 for fold in folds for part in fold)
    assert folds[3].train.X.tolist()[:2] == [[0, 0, 0, 1, 0], [4, 0, 0, 0, 0]]
    assert folds[0].validation.X.base is not None  # a slice, not a copy


def test_chosen_folds(parts):
    assert [queries(fold) for fold in read_folds(parts, folds=[5, 2])] == [RULE[4], RULE[1]]
    with pytest.raises(hr.DataError, match="no fold 6, only 1, 2, 3, 4, 5"):
        read_folds(parts, folds=[6])


def test_options_reach_the_reader(parts):
    fold = read_folds(parts, folds=[1], dtype="float32", n_features=9)[0]
    assert fold.train.X.dtype == "float32" and fold.test.n_features == 9


def test_fold_folders(fold_folders):
    assert [queries(fold) for fold in read_folds(fold_folders)] == RULE
    assert all(part.n_features == 5 for fold in read_folds(fold_folders) for part in fold)
    (fold_folders / "Fold2" / "vali.txt").unlink()
    with pytest.raises(hr.DataError, match="fold 2 has no validation file"):
        read_folds(fold_folders)


def test_fold_folders_of_the_same_parts_are_read_once(fold_folders):
    folds = read_folds(fold_folders)
    assert folds[0].train.X.base is folds[1].test.X.base is not None
    other = fold_folders / "Fold3" / "train.txt"
    other.write_text(other.read_text().replace("1:3", "1:7"))  # as long as before, but not the same
    folds = read_folds(fold_folders)
    assert folds[2].train.X[1, 0] == 7 and folds[1].test.X.base is not folds[0].train.X.base


def test_test_files_alone_are_the_parts(tmp_path):
    for k, roles in enumerate(RULE, 1):
        (tmp_path / f"Fold{k}.test.txt").write_text(line(roles[2][0]))
    assert [queries(fold) for fold in read_folds(tmp_path)] == RULE


def test_reading_a_folder_gives_each_row_once(parts):
    assert hr.read(parts).qid.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_reading_fold_folders_gives_each_row_once(fold_folders):
    assert hr.read(fold_folders).qid.tolist() == [5, 5, 1, 1, 2, 2, 3, 3, 4, 4]
    assert hr.read(fold_folders / "Fold1").qid.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_folders_that_do_not_fit(tmp_path):
    with pytest.raises(hr.DataError, match="no folds here"):
        read_folds(tmp_path)
    (tmp_path / "S1.txt").write_text(line(1))
    (tmp_path / "S3.txt").write_text(line(3))
    with pytest.raises(hr.DataError, match=r"the parts are S1\.txt, S3\.txt; expected at least three"):
        read_folds(tmp_path)
    (tmp_path / "S1.txt.gz").write_bytes(b"")
    with pytest.raises(hr.DataError, match=r"both S1\.txt and S1\.txt\.gz"):
        read_folds(tmp_path)


def test_folds_without_test_files_are_named(tmp_path):
    """Rows of a fold whose test file is absent would be left out without a word."""
    for k in (1, 2):
        (tmp_path / f"Fold{k}").mkdir()
        (tmp_path / f"Fold{k}" / "train.txt").write_text("1 qid:1 1:2\n")
    with pytest.raises(hr.DataError, match="the folds have no test files"):
        hr.read(tmp_path)
    (tmp_path / "Fold1" / "test.txt").write_text("1 qid:2 1:2\n")
    with pytest.raises(hr.DataError, match="fold 2 has no test file"):
        hr.read(tmp_path)


def test_ids_that_start_again_in_every_file_are_noticed(tmp_path, recwarn):
    for k in (1, 2, 3):
        (tmp_path / f"S{k}.txt").write_text(f"1 qid:1 1:0.{k}\n0 qid:1 1:0\n1 qid:2 1:1\n")
    with pytest.warns(UserWarning, match=r"query 1 is in .*S1.txt and in .*S2.txt.* \(2 such queries\)"):
        hr.read_folds(tmp_path)
    with pytest.warns(UserWarning, match="start again in every file"):
        hr.read([tmp_path / "S1.txt", tmp_path / "S3.txt"])
    (tmp_path / "rest.txt").write_text("0 qid:2 1:0\n1 qid:3 1:0\n")
    recwarn.clear()
    assert hr.read([tmp_path / "S1.txt", tmp_path / "rest.txt"]).n_queries == 3  # query 2 goes on in the next file
    assert not recwarn.list
