"""Tables as people have them: other delimiters, columns without values, rows that are too short."""

import numpy as np
import pytest

import hingerank as hr

pa = pytest.importorskip("pyarrow")


def refused(path, text, **options):
    path.write_text(text)
    with pytest.raises(hr.DataError) as error:
        hr.read(path, **options)
    return str(error.value)


@pytest.mark.parametrize(
    "name, mark, wanted", [("a.csv", ";", ","), ("a.csv", "\t", ","), ("a.tsv", ",", "\t"), ("a.tsv", ";", "\t")]
)
def test_another_delimiter_is_named(tmp_path, name, mark, wanted):
    message = refused(tmp_path / name, mark.join(["label", "qid", "f1"]) + "\n" + mark.join("1a2") + "\n")
    assert f"separates columns by {mark!r}, expected {wanted!r}" in message


def test_a_row_of_another_length_is_named(tmp_path):
    assert "Row #3: Expected 3 columns, got 2: 0,a" in refused(tmp_path / "a.csv", "label,qid,f1\n1,a,2\n0,a\n")


def test_a_column_without_values_is_missing(tmp_path):
    path = tmp_path / "a.csv"
    assert 'pass missing="zero"' in refused(path, "label,qid,f1,f2\n1,a,,2\n0,a,nan,3\n")
    assert hr.read(path, missing="zero").X.tolist() == [[0, 2], [0, 3]]
    assert np.isnan(hr.read(path, missing="nan").X[:, 0]).all()


def test_an_empty_query_id_is_no_id(tmp_path):
    assert "the query id is empty at row 1" in refused(tmp_path / "a.csv", "label,qid,f1\n1,a,1\n0,,2\n")
    assert "the query id is empty at row 0" in refused(tmp_path / "a.csv", "label,qid,f1\n1,,1\n0,,2\n")


@pytest.mark.parametrize("ids", [["NA", "null"], ["7", "NA"], ["1.5", "nan"]])
def test_ids_that_look_like_missing_values_stay(tmp_path, ids):
    data = hr.RankingData.from_arrays([[1.0], [2.0]], [1, 0], ids, docid=["", ids[1]], feature_names=["x"])
    hr.write(data, tmp_path / "a.csv")
    assert hr.read(tmp_path / "a.csv") == data


def test_a_missing_id_among_numbers_is_missing(tmp_path):
    text = "label,qid,docid,x\n1,a,7,1\n0,a,,2\n"
    assert "column 'docid' is missing (nan) at row 1" in refused(tmp_path / "a.csv", text)


def test_a_row_without_a_list_is_named():
    table = pa.table({"label": [1, 0], "qid": ["a", "a"], "features": [[1.0, 2.0], None]})
    with pytest.raises(hr.DataError, match="column 'features' has no list at row 1"):
        hr.RankingData.from_frame(table)


def test_whole_numbers_are_no_type_of_features():
    """They would cut 0.5 to 0."""
    table = pa.table({"label": [1, 0], "qid": ["a", "a"], "f1": [0.5, 2.0]})
    with pytest.raises(hr.DataError, match="dtype is 'int32', expected"):
        hr.RankingData.from_frame(table, dtype="int32")


@pytest.mark.parametrize("second", ["b.csv", "b"])
def test_several_paths_are_text(tmp_path, second):
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n")
    hr.write(hr.make_letor(2, 3, 2), tmp_path / second)
    with pytest.raises(hr.DataError, match=r"b(\.csv)?: several paths must be text files"):
        hr.read([tmp_path / "a.txt", tmp_path / second])


def test_a_table_that_is_named_as_text_is_recognised(tmp_path):
    assert "end its name in .csv" in refused(tmp_path / "a.txt", "label,qid,f1\n1,a,2\n")
    assert ".csv" not in refused(tmp_path / "a.txt", "good morning\n")


def test_a_table_without_rows_says_so(tmp_path):
    assert "the table has no rows" in refused(tmp_path / "a.csv", "label,qid,f1\n")


def test_another_delimiter_is_named_before_commas_in_numbers(tmp_path):
    assert "separates columns by ';', expected ','" in refused(tmp_path / "a.csv", "label;qid;f1\n1;2;0,5\n")
