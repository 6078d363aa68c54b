"""Round trips through pandas, polars, pyarrow, Parquet and CSV, and messages about tables that do not fit."""

import lzma

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.clicks.reading import read_clicks
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.read_write import read_table_file, write_table_file

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

BACKENDS = ["pandas", "polars", "pyarrow"]


def some_data(seed=0, dtype=np.float32, text=True, documents=True, names=("bm25", "page rank", "été")):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, 5, 30)
    return RankingData.from_arrays(
        rng.standard_normal((30, 3)).astype(dtype),
        rng.integers(0, 3, 30) / 2,
        np.array([f"q{i}" for i in qid], object) if text else qid,
        docid=np.array([f'GX{i}, "x"' for i in range(30)], object) if documents else None,
        feature_names=names,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("documents", [False, True])
def test_round_trip(backend, dtype, text, documents):
    data = some_data(1, dtype, text, documents)
    frame = data.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    assert RankingData.from_frame(frame) == data


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip_of_a_list_column(backend, dtype):
    data = some_data(2, dtype, names=None)
    assert RankingData.from_frame(data.to_frame(backend, "list")) == data


@pytest.mark.parametrize("layout", ["wide", "list"])
@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.feather", "a.arrow"])
def test_parquet(tmp_path, layout, name):
    data = some_data(3, names=None if layout == "list" else ("a", "b", "c"))
    write_table_file(data, tmp_path / name, layout)
    assert read_table_file(tmp_path / name) == data
    assert [p.name for p in tmp_path.iterdir()] == [name], "no temporary file stays"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.xz", "a.csv.bz2", "a.CSV.zst"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csv(tmp_path, name, dtype):
    data = some_data(4, dtype)
    write_table_file(data, tmp_path / name)
    assert read_table_file(tmp_path / name, dtype=dtype) == data


def test_csv_by_hand(tmp_path):
    (tmp_path / "x.csv").write_text("query,rel,bm25,clicks,url\n7,1,0.5,3,a\n7,0,,2,b\n8,2,0.1,1,c\n")
    data = read_table_file(
        tmp_path / "x.csv", label="rel", qid="query", docid="url", features=["clicks", "bm25"], missing="nan"
    )
    np.testing.assert_array_equal(data.X, [[3, 0.5], [2, np.nan], [1, 0.1]])
    assert data.qid.tolist() == [7, 7, 8] and data.docid.tolist() == ["a", "b", "c"]
    assert data.feature_names == ("clicks", "bm25")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [str, np.dtypes.StringDType()])
def test_text_types_of_numpy(backend, kind):
    data = some_data(6)
    other = RankingData(data.X, data.y, data.qid.astype(kind), data.docid.astype(kind), data.feature_names)
    assert RankingData.from_frame(other.to_frame(backend)) == data
    assert other == data


def test_csr_is_written_with_its_zeros():
    data = some_data(5)
    sparse = RankingData(sp.csr_matrix(data.X), data.y, data.qid, data.docid, data.feature_names)
    assert RankingData.from_frame(sparse.to_frame()) == data


def test_type_of_the_features():
    frame = {"qid": [1, 1], "label": [0, 1]}
    small = pd.DataFrame(frame | {"a": np.array([1, 2], np.float32), "b": np.array([1, 2], np.int8)})
    assert RankingData.from_frame(small).X.dtype == np.float32
    assert RankingData.from_frame(small.assign(c=[1, 2])).X.dtype == np.float64
    assert RankingData.from_frame(small.assign(c=[1, 2]), dtype=np.float32).X.dtype == np.float32
    flags = RankingData.from_frame(small.assign(c=[True, False]))
    assert flags.X[:, 2].tolist() == [1, 0]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"label": [1, 0], "a": pd.array([1, None], "Int64")}),
        pl.DataFrame({"label": [1, 0], "a": [1, None]}),
        pa.table({"label": [1, 0], "a": [1, None]}),
        pd.DataFrame({"label": [1, 0], "features": [[1.0], [None]]}),
        pl.DataFrame({"label": [1, 0], "features": [[1.0], [None]]}),
        pa.table({"label": [1, 0], "features": [[1.0], [None]]}),
    ],
)
def test_null_is_missing(frame):
    with pytest.raises(DataError, match=r"NaN .* at row 1, column 0"):
        RankingData.from_frame(frame, qid=None)
    assert RankingData.from_frame(frame, qid=None, missing="zero").X.tolist() == [[1], [0]]
    assert np.isnan(RankingData.from_frame(frame, qid=None, missing="nan").X[1, 0])


def test_pyterrier_frame():
    frame = pd.DataFrame(
        {
            "qid": ["1", "1"],
            "docno": ["d1", "d2"],
            "label": [0, 1],
            "score": [3.0, 2.0],
            "features": [np.ones(3), np.zeros(3)],
        }
    )
    data = RankingData.from_frame(frame)
    assert data.X.shape == (2, 3) and data.docid.tolist() == ["d1", "d2"] and data.feature_names is None


def test_chunked_pyarrow_lists():
    table = pa.concat_tables([some_data(i, names=None).to_frame("pyarrow", "list") for i in range(3)])
    data = RankingData.from_frame(table.slice(10, 60))
    expected = np.concatenate([some_data(i).X for i in range(3)])[10:70]
    np.testing.assert_array_equal(data.X, expected)


GOOD = {"qid": [1, 1], "label": [0, 1], "a": [0.5, 0.25]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("columns", "arguments", "words"),
    [
        (GOOD, {"label": "grade"}, "no column 'grade'; the table has 'qid', 'label', 'a'"),
        (GOOD, {"features": ["a", "b"]}, "no column 'b'"),
        (GOOD | {"title": ["x", "y"]}, {}, "column 'title' holds String ('x' at row 0), expected numbers"),
        (GOOD | {"t": ["x", "yy"]}, {"features": "t"}, "column 't' holds String ('x' at row 0), expected numbers"),
        (GOOD | {"label": ["1", "1_0"]}, {}, "column 'label' holds String ('1_0' at row 1), expected numbers"),
        (GOOD | {"label": [1, None]}, {}, "y is nan at row 1"),
        (GOOD | {"qid": ["a", None]}, {}, "column 'qid' is missing"),
        ({"qid": [1], "label": [0]}, {}, "the table has no feature columns, only the label and the ids"),
        (GOOD | {"features": [[1.0], [1.0, 2.0]]}, {}, "2 numbers at row 1 but 1 at row 0"),
        (GOOD, {"missing": "drop"}, "missing is 'drop'"),
    ],
)
def test_tables_that_do_not_fit(make, columns, arguments, words):
    with pytest.raises(DataError) as error:
        RankingData.from_frame(make(columns), **arguments)
    assert words in str(error.value)


def test_no_table():
    with pytest.raises(DataError, match="collect a lazy one first"):
        RankingData.from_frame(pl.DataFrame(GOOD).lazy())
    with pytest.raises(DataError, match="expected a pandas, polars or pyarrow table"):
        RankingData.from_frame([[1, 2]])
    with pytest.raises(DataError, match="no rows"):
        RankingData.from_frame(pd.DataFrame(GOOD).iloc[:0])
    with pytest.raises(DataError, match="backend is 'spark'"):
        some_data().to_frame("spark")
    with pytest.raises(DataError, match="layout is 'tall'"):
        some_data().to_frame("pandas", "tall")
    with pytest.raises(DataError, match="a feature is called 'label'"):
        some_data(names=("a", "b", "label")).to_frame()


def test_files_that_do_not_fit(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        read_table_file(tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"does not say what kind of table it is; expected .parquet"):
        read_table_file(tmp_path / "data.xlsx")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is none")
    with pytest.raises(DataError, match=r"bad.parquet: cannot be read as parquet"):
        read_table_file(tmp_path / "bad.parquet")
    (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(DataError, match=r"bad.csv: cannot be read as csv"):
        read_table_file(tmp_path / "bad.csv")
    write_table_file(some_data(), tmp_path / "good.parquet")
    with pytest.raises(DataError, match=r"good.parquet: there is no column 'grade'"):
        read_table_file(tmp_path / "good.parquet", label="grade")
    with pytest.raises(DataError, match="cannot hold a column of lists"):
        write_table_file(some_data(), tmp_path / "a.csv", "list")


def test_a_table_whose_names_are_no_text_is_named(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(b"label,qid,\xe9t\xe9\n1,1,2\n")
    with pytest.raises(DataError, match=r"latin.csv: .*'utf-8' codec"):
        read_table_file(path)


@pytest.mark.parametrize(
    "ids, expected",
    [
        (["1", "01"], ["1", "01"]),
        (["007", "12"], ["007", "12"]),
        (["1e5", "100000"], ["1e5", "100000"]),
        (["18446744073709551615", "18446744073709551614"], ["18446744073709551615", "18446744073709551614"]),
        (["76561197970982479", "76561197970982480"], [76561197970982479, 76561197970982480]),
        (["10", "3"], [10, 3]),
        (["1.5", "2.0"], [1.5, 2.0]),
        (["1.5", "2"], [1.5, 2.0]),
        (["1.10", "1.2"], ["1.10", "1.2"]),
        (["1e5", "7"], ["1e5", "7"]),
        (["+5", "-0"], ["+5", "-0"]),
        (["0x10", "0x11"], ["0x10", "0x11"]),
        (["True", "False"], ["True", "False"]),
        (["10:30", "10:30:00"], ["10:30", "10:30:00"]),
        (["2024-01-02 10:00:00", "2024-01-02T10:00:00"], ["2024-01-02 10:00:00", "2024-01-02T10:00:00"]),
    ],
)
@pytest.mark.parametrize("name", ["ids.csv", "ids.tsv", "ids.csv.xz"])
def test_ids_of_a_csv_file_stay_what_they_are(tmp_path, ids, expected, name):
    """pyarrow takes digits for numbers, which made one query of 1 and 01, and of very long ids, and 1.1 of 1.10."""
    open_file, comma = (lzma.open if name.endswith("xz") else open), "\t" if "tsv" in name else ","
    with open_file(tmp_path / name, "wt") as file:
        for fields in (("label", "qid", "docid", "x"), ("1", ids[0], ids[0], "2"), ("0", ids[1], ids[1], "3")):
            file.write(comma.join(fields) + "\n")
    data = read_table_file(tmp_path / name)
    assert data.qid.tolist() == expected and data.docid.tolist() == expected


def test_an_id_that_pandas_calls_na_is_missing():
    frame = pd.DataFrame({"qid": pd.Series(["a", pd.NA], dtype="string"), "label": [1, 0], "x": [0.5, 0.1]})
    with pytest.raises(DataError, match=r"'qid' is missing .* at row 1"):
        RankingData.from_frame(frame)
    with pytest.raises(DataError, match=r"qid is missing .* at row 1"):
        RankingData.from_arrays([[1.0], [2.0]], [0, 1], frame["qid"])


@pytest.mark.parametrize("column", ["qid", "label", "docid"])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather", ""])
def test_a_missing_value_of_a_dictionary_is_missing(tmp_path, column, name):
    """pyarrow gives NumPy another value of the dictionary in its place."""
    columns = {"qid": [1, 1, 2], "docid": [1, 2, 3], "label": [0, 1, 2], "x": [0.5, 0.25, 1.0]}
    table = pa.table(columns | {column: pa.array([3, None, 5]).dictionary_encode()})
    if name:
        write_by_pyarrow(table, tmp_path / name)
    with pytest.raises(DataError, match="is nan at row 1" if column == "label" else r"is missing \(nan\) at row 1"):
        read_table_file(tmp_path / name) if name else RankingData.from_frame(table)


def write_by_pyarrow(table, path):
    from pyarrow import feather, parquet

    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(table, str(path))


@pytest.mark.parametrize(
    "rows, words",
    [
        ("1,1,0x10\n", r"column 'a' holds '0x10' at row 0, expected a decimal number"),
        ("1,1,1_0\n", r"column 'a' holds String \('1_0' at row 0\), expected numbers"),
        ("1,1,٣\n", r"column 'a' holds String \('٣' at row 0\), expected numbers"),
        ("1,1,1\n1,1,1e999\n", r"X is infinite at row 1, column 0"),
        ("1_0,1,1\n", r"column 'label' holds String \('1_0' at row 0\), expected numbers"),
        ('1,1,2\n1,1,"2\n1,1,2\n', r", line 3: a quote .* not closed on this line"),
        ('1,1,2\n1,"1,2\n1,1",2\n', r", line 3: a quote .* not closed on this line"),
        ('1,1,"2', r", line 2: a quote .* not closed on this line"),
    ],
)
def test_csv_takes_plain_numbers_and_closed_quotes_only(tmp_path, rows, words):
    path = tmp_path / "rows.csv"
    path.write_text("label,qid,a\n" + rows)
    with pytest.raises(DataError, match=r"rows\.csv.*" + words):
        read_table_file(path)


def test_csv_that_is_no_utf8_or_has_a_name_twice(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"label,qid,a\n1,\xff,2\n")
    with pytest.raises(DataError, match=r"rows.csv: column 'qid' is not UTF-8"):
        read_table_file(path)
    path.write_bytes(b"label,qid,a,a\n1,1,2,3\n")
    with pytest.raises(DataError, match=r"rows.csv: two columns are called 'a'"):
        read_table_file(path)
    path.write_bytes(b"label,qid,a\r1,1,2\r")
    assert read_table_file(path).X.tolist() == [[2]]


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv.gz"])
def test_a_spreadsheet_runs_no_text_of_ours(tmp_path, name):
    ids = ["=1+1", "+x", "-x", "@SUM(A1)", "'=x", "''y", "-0.5", "plain", "a=b"]
    docid = np.array(ids, object)
    data = RankingData(-np.eye(9)[:, :2] / 2, np.arange(9) % 2 * 1.0, np.arange(9), docid, ("=cmd", "-b"))
    write_table_file(data, tmp_path / name)
    assert read_table_file(tmp_path / name) == data
    if name.endswith(".csv"):
        first, *lines = (tmp_path / name).read_text().splitlines()
        assert first == '"qid","docid","label","\'=cmd","\'-b"'
        assert [line.split(",")[1] for line in lines] == [
            '"\'=1+1"', '"\'+x"', '"\'-x"', '"\'@SUM(A1)"', '"\'\'=x"', "\"''y\"", '"-0.5"', '"plain"', '"a=b"'
        ]  # fmt: skip
        assert lines[0].endswith(",-0.5,-0") or lines[0].endswith(",-0.5,-0.0")


def test_usual_names_of_ids_are_found_and_pandas_index_is_no_feature(tmp_path):
    """Tables of features that belong to a click log call their columns as the log does."""
    rows = pd.DataFrame({"query": ["a", "a", "b"], "document": ["x", "y", "x"], "price": [1.0, 2.0, 3.0]})
    rows[[True, False, True]].to_parquet(tmp_path / "rows.parquet")
    data = read_table_file(tmp_path / "rows.parquet", label=None)
    assert data.feature_names == ("price",)
    assert (data.qid.tolist(), data.docid.tolist()) == (["a", "b"], ["x", "x"])
    rows.set_axis([7, 8, 9]).rename_axis("row").to_parquet(tmp_path / "rows.parquet")
    assert read_table_file(tmp_path / "rows.parquet", label=None).feature_names == ("price",)
    named = read_table_file(tmp_path / "rows.parquet", label=None, features=["price", "row"])
    assert named.X.tolist() == [[1, 7], [2, 8], [3, 9]]
    rows.set_index(["query", "document"]).to_parquet(tmp_path / "rows.parquet")
    assert read_table_file(tmp_path / "rows.parquet", label=None).docid.tolist() == ["x", "y", "x"]


def test_columns_without_a_name_are_not_features(tmp_path):
    """pandas' to_csv writes the row numbers into a column without a name, and reads it as 'Unnamed: 0'."""
    frame = pd.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [0.5, 0.25]})
    frame.to_csv(tmp_path / "x.csv")
    again = pd.read_csv(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"column 0 has no name \(''\).*to_csv\(index=False\)"):
        read_table_file(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"column 0 has no name \('Unnamed: 0'\)"):
        RankingData.from_frame(again)
    for data in (read_table_file(tmp_path / "x.csv", features="x"), RankingData.from_frame(again, features=["x"])):
        assert data.X.ravel().tolist() == [0.5, 0.25]


def test_names_of_columns_may_be_numbers_but_must_differ():
    frame = pd.DataFrame({"qid": [1, 1], "label": [0, 1], 0: [1.0, 2.0], 1: [3.0, 4.0]})
    assert RankingData.from_frame(frame).feature_names == ("0", "1")
    assert RankingData.from_frame(frame, features=[1]).X.ravel().tolist() == [3, 4]
    with pytest.raises(DataError, match=r"'0' twice"):
        RankingData.from_frame(frame, features=[0, 0])
    with pytest.raises(DataError, match="two columns have the same name"):
        RankingData.from_frame(pd.DataFrame([[1, 0, 1.0, 2.0]], columns=["qid", "label", "x", "x"]))


@pytest.mark.parametrize("value", ["2024-01-01", "12:30:00"])
def test_a_single_column_of_dates_is_no_feature(tmp_path, value):
    (tmp_path / "x.csv").write_text(f"label,qid,when\n1,1,{value}\n")
    with pytest.raises(DataError, match=r"column 'when' holds .* expected numbers"):
        read_table_file(tmp_path / "x.csv")


def test_a_column_of_structures_is_no_feature():
    with pytest.raises(DataError, match=r"column 'x' holds Struct.* expected numbers"):
        RankingData.from_frame(pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [{"a": 1}, {"a": 2}]}))


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.csv"])
def test_ids_of_bytes_and_of_seconds_are_read_again(tmp_path, name):
    """Parquet stores seconds as milliseconds: the checksum of the seconds did not match it."""
    qid, docid = np.array([0, 86400, 5], "datetime64[s]"), np.array([b"a", b"b", b"c"])
    write_table_file(RankingData(np.eye(3), np.zeros(3), qid, docid), tmp_path / name)
    found = read_table_file(tmp_path / name)
    assert found.qid.tolist() == qid.tolist() and found.docid.tolist() == ["a", "b", "c"]


def test_booleans_of_pandas_may_be_missing():
    frame = pd.DataFrame({"qid": [1, 1, 1], "label": [0, 1, 2], "x": pd.array([True, None, False], "boolean")})
    assert RankingData.from_frame(frame, missing="zero").X.ravel().tolist() == [1, 0, 0]
    with pytest.raises(DataError, match=r"NaN .* column 0 'x'"):
        RankingData.from_frame(frame)


def test_missing_values_of_pandas_are_nan_in_arrays_too():
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0.5, 2.0]})
    assert RankingData.from_arrays(frame, [1, 0], [1, 1], missing="zero").X.tolist() == [[1, 0.5], [0, 2]]
    with pytest.raises(DataError, match=r"NaN .* at row 1, column 0"):
        RankingData.from_arrays(frame, [1, 0], [1, 1])


def test_lists_of_text_are_no_features():
    with pytest.raises(DataError, match=r"column 'features' holds .* expected lists of numbers.* 'x'"):
        RankingData.from_frame(pd.DataFrame({"qid": [1, 1], "label": [0, 1], "features": [["1", "x"], [3, 4]]}))


def test_text_among_the_grades_says_so(tmp_path):
    (tmp_path / "x.csv").write_text("label,qid,f1\ngood,1,2\n")
    with pytest.raises(
        DataError, match=r"'label' holds String \('good' at row 0\), expected numbers; write the grades"
    ):
        read_table_file(tmp_path / "x.csv")


def test_whole_numbers_of_128_bits():
    """NumPy has no such numbers. Ids that do not fit into 64 bits are text."""
    columns = {"label": [1, 0], "qid": [7, 7], "docid": [2**100, 5], "x": [3, 2]}
    wide = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int128))
    data = RankingData.from_frame(wide)
    assert (data.y.tolist(), data.qid.tolist(), data.X.tolist()) == ([1, 0], [7, 7], [[3], [2]])
    assert data.docid.tolist() == [str(2**100), "5"]
    log = read_clicks(wide.rename({"qid": "query", "x": "place", "label": "clicked"}))
    assert (log.query_names.tolist(), log.place.tolist(), log.clicks.tolist()) == ([7], [3, 2], [1, 0])
