"""The text reader on well-formed files: forms of lines, ids, options, compression, side files."""

import bz2
import gzip
import lzma
import os

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import letor_table
from hingerank.data.letor import read_text


def test_letor_lines(rows):
    data = hr.read(
        rows(
            "2 qid:10 1:0.5 2:0.25 #docid = GX029-35-5894638 inc = 0.0119 prob = 0.1398\n"
            "0 qid:10 1:1e-3 2:-7 #docid = GX1\n"
            "1 qid:9 2:3 # any words here \n"
            "0 qid:9 1:1\n"
        )
    )
    assert data.X.tolist() == [[0.5, 0.25], [0.001, -7], [0, 3], [1, 0]]
    assert data.X.dtype == data.y.dtype == np.float64 and data.X.flags.c_contiguous
    assert data.y.tolist() == [2, 0, 1, 0]
    assert data.qid.tolist() == [10, 10, 9, 9] and data.qid.dtype == np.int64
    assert data.docid.tolist() == ["GX029-35-5894638", "GX1", "any words here", ""]
    assert data.feature_names is None


@pytest.mark.parametrize(
    "comment, docid",
    [
        ("#docid = A", "A"),
        ("# docid=A inc=1 prob=2", "A"),
        ("#docid = two words", "two words"),
        ("#docid =", "docid ="),
        ("#docidA", "docidA"),
        ("# docid = A income = 3", "A income = 3"),
        ("#\tx # y\t", "x # y"),
        ("# größe 好 😀", "größe 好 😀"),
    ],
)
def test_comments_as_docids(rows, comment, docid):
    data = hr.read(rows(f"1 qid:1 1:2 {comment}\n0 qid:1 1:3{comment}\n"))
    assert data.docid.tolist() == [docid, docid]
    assert data.docid.dtype.kind == "U"


def test_no_comments_no_docids(rows):
    assert hr.read(rows("1 qid:1 1:2 #\n")).docid is None
    assert hr.read(rows("1 qid:1 1:2 # a\n"), docids=False).docid is None


def test_one_very_long_docid_does_not_waste_memory(rows):
    long = "x" * 200_000
    data = hr.read(rows("0 qid:1 1:1 # a\n" * 3000 + f"0 qid:1 1:1 # {long}\n"))
    assert data.docid[-1] == long and data.docid[0] == "a" and len(data.docid) == 3001


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_blank_lines_and_comment_lines(rows, end, last):
    lines = [
        "# head",
        "",
        "1 qid:1\t1:2 \t 2:3\t",
        "   ",
        "  0 qid:1 1:5#x",
        "\t# tail",
        "2 qid:2 2:1" + (end if last else ""),
    ]
    data = hr.read(rows(end.join(lines)))
    assert data.X.tolist() == [[2, 3], [5, 0], [0, 1]] and data.y.tolist() == [1, 0, 2]
    assert data.docid.tolist() == ["", "x", ""]


def test_byte_order_mark(rows):
    assert hr.read(rows(b"\xef\xbb\xbf1 qid:1 1:2\n")).y.tolist() == [1]


def test_query_ids_of_any_form(rows):
    data = hr.read(rows("1 qid:WT04-132 1:1\n0 qid:7 1:1\n0 qid:WT04-132 1:1\n"))
    assert data.qid.tolist() == ["WT04-132", "7", "WT04-132"] and data.qid.dtype.kind == "U"
    assert data.n_queries == 2
    assert hr.read(rows("1 qid:-5 1:1\n0 qid:0 1:1\n")).qid.tolist() == [-5, 0]
    for token in ("007", "-0", "+1", "1.0", "9" * 19):
        assert hr.read(rows(f"1 qid:5 1:1\n0 qid:{token} 1:1\n")).qid.tolist() == ["5", token]


def test_text_query_id_late_in_the_file(rows, monkeypatch):
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 64)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 128)
    data = hr.read(rows("".join(f"0 qid:{i // 3} 1:{i}\n" for i in range(100)) + "1 qid:last 1:5\n"))
    assert data.qid.tolist() == [str(i // 3) for i in range(100)] + ["last"]


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_without_query_ids_one_query(rows):
    data = hr.read(rows("1 1:1\n0 1:2\n"))
    assert data.qid.tolist() == [0, 0] and data.n_queries == 1


def test_index_base(rows):
    path = rows("1 qid:1 0:5 2:6\n")
    assert hr.read(path).X.tolist() == [[5, 0, 6]]
    path = rows("1 qid:1 1:5 2:6\n")
    assert hr.read(path).X.tolist() == [[5, 6]]
    assert hr.read(path, index_base=0).X.tolist() == [[0, 5, 6]]


def test_index_zero_late_in_the_file(rows, monkeypatch):
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 32)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 64)
    data = hr.read(rows("0 qid:1 1:2 2:3\n" * 50 + "0 qid:1 0:9\n"))
    assert data.X.shape == (51, 3) and data.X[0].tolist() == [0, 2, 3] and data.X[-1].tolist() == [9, 0, 0]


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_indices_in_any_order(rows, sparse, dtype):
    chance = np.random.default_rng(0)
    expected = np.zeros((30, 40))
    lines = []
    for row in expected:
        columns = chance.permutation(40)[: chance.integers(0, 30)]
        row[columns] = chance.integers(1, 9, len(columns)) / 8
        row[39] = 0.5
        lines.append("1 qid:1 40:0.5 " + " ".join(f"{c + 1}:{row[c]}" for c in columns if c != 39))
    X = hr.read(rows("\n".join(lines)), sparse=sparse, dtype=dtype).X
    assert sp.issparse(X) == sparse and X.dtype == dtype
    assert (X.toarray() if sparse else X).tolist() == expected.tolist()
    assert not sparse or (X.has_canonical_format and X.indices.dtype == np.int32)


def test_numbers_left_to_python_land_in_their_places(rows):
    hard = ["9007199254740993", "1e23", "4.9e-324", "1.7976931348623157e308"]
    line = " ".join(f"{i}:{v}" for i, v in ((9, hard[0]), (3, hard[1]), (7, "1.5"), (1, hard[2]), (5, hard[3])))
    path = rows(f"1e23 qid:1 {line}\n0 qid:1 2:1\n9007199254740993 qid:1 {line}\n")
    expected = [float(hard[2]), 0, float(hard[1]), 0, float(hard[3]), 0, 1.5, 0, float(hard[0])]
    for sparse in (True, False):
        data = hr.read(path, sparse=sparse)
        X = data.X.toarray() if sparse else data.X
        assert X[0].tolist() == X[2].tolist() == expected and X[1].tolist() == [0, 1] + [0] * 7
        assert data.y.tolist() == [1e23, 0, float("9007199254740993")]


def test_dense_or_sparse_by_density(rows):
    full = "".join(f"0 qid:{i} " + " ".join(f"{j}:{i + j}" for j in range(1, 21)) + "\n" for i in range(100))
    thin = "".join(f"0 qid:{i} {i % 50 + 1}:1 {i % 40 + 60}:2\n" for i in range(100))
    assert isinstance(hr.read(rows(full)).X, np.ndarray)
    assert sp.issparse(hr.read(rows(thin)).X)
    assert sp.issparse(hr.read(rows(full), sparse=True).X)
    assert isinstance(hr.read(rows(thin), sparse=False).X, np.ndarray)
    assert isinstance(hr.read(rows("1 qid:1 30:1\n")).X, np.ndarray)  # a tiny table


def test_density_is_that_of_the_whole_file(rows, monkeypatch):
    """Whatever the first lines look like."""
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 200)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 400)
    full = [f"0 qid:1 {' '.join(f'{j}:{j}' for j in range(1, 21))}" for _ in range(60)]
    thin = [f"0 qid:1 {i % 20 + 1}:1" for i in range(60)]
    wide = [f"0 qid:1 {i}:1" for i in range(100, 900, 7)]
    for lines, dense in ((full + thin, True), (thin + full, True), (full + wide, False), (wide + full, False)):
        data = hr.read(rows("\n".join(lines)))
        assert isinstance(data.X, np.ndarray) == dense
        expected = np.zeros(data.X.shape)
        for i, line in enumerate(lines):
            for entry in line.split()[2:]:
                column, value = entry.split(":")
                expected[i, int(column) - 1] = float(value)
        assert ((data.X if dense else data.X.toarray()) == expected).all()


def test_columns_that_appear_late(rows, monkeypatch):
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 50)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 100)
    lines = [f"0 qid:1 {' '.join(f'{j}:{i}.{j}' for j in range(1, 2 + i // 4))}" for i in range(80)]
    for dtype in ("float64", "float32"):
        X = hr.read(rows("\n".join(lines)), dtype=dtype).X
        assert X.shape == (80, 20)
        for i in range(80):
            wanted = [float(f"{i}.{j}") if j < 2 + i // 4 else 0 for j in range(1, 21)]
            assert X[i].tolist() == np.array(wanted, dtype).tolist()


def test_n_features_pads_and_limits(rows):
    path = rows("1 qid:1 1:5 2:6\n")
    assert hr.read(path, n_features=4).X.tolist() == [[5, 6, 0, 0]]
    assert hr.read(path, n_features=4, sparse=True).X.shape == (1, 4)
    with pytest.raises(hr.DataError, match="at most 1 features"):
        hr.read(path, n_features=1)
    assert hr.read(rows("1 qid:1\n"), n_features=2).X.tolist() == [[0, 0]]


@pytest.mark.parametrize("mark", ["NULL", "null", "NaN", "NA"])
@pytest.mark.parametrize("sparse", [True, False])
def test_missing_values(rows, mark, sparse):
    path = rows(f"1 qid:1 1:{mark} 2:5\n0 qid:1 1:3 2:{mark}# x\n")
    X = hr.read(path, missing="zero", sparse=sparse).X
    assert (X.toarray() if sparse else X).tolist() == [[0, 5], [3, 0]]
    X = hr.read(path, missing="nan", sparse=sparse).X
    assert np.array_equal(X.toarray() if sparse else X, [[np.nan, 5], [3, np.nan]], equal_nan=True)
    with pytest.raises(hr.DataError, match=rf"line 1, column 11: found '{mark}'.*missing="):
        hr.read(path, sparse=sparse)


PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_compressed(rows, suffix):
    text = "".join(f"{i % 3} qid:{i // 7} 1:{i} 2:0.5 # d{i}\n" for i in range(40_000)).encode()
    if suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        pack = zstandard.ZstdCompressor().compress
    else:
        pack = PACKERS[suffix]
    half = text.index(b"\n", len(text) // 2) + 1
    plain = hr.read(rows(text))
    for packed in (pack(text), pack(text[:half]) + pack(text[half:])):  # one member, or two after each other
        for name in ("rows.txt" + suffix, "no_suffix"):
            assert hr.read(rows(packed, name)) == plain


def test_several_files_as_one(rows):
    a, b = rows("1 qid:1 1:5 # x", "a"), rows("0 qid:q 3:6\n", "b")
    data = hr.read([a, str(b)])
    assert data.X.tolist() == [[5, 0, 0], [0, 0, 6]] and data.qid.tolist() == ["1", "q"]
    assert data.docid.tolist() == ["x", ""]


@pytest.mark.parametrize("suffix", [".query", ".group"])
@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz"])
def test_counts_file_beside_the_data(rows, suffix, name):
    text = b"1 0:1\n0 0:2\n2 0:3\n"
    path = rows(gzip.compress(text) if name.endswith(".gz") else text, name)
    rows("2\n1\n", "rows.txt" + suffix)
    assert hr.read(path).qid.tolist() == [0, 0, 1]


def test_counts_file_by_name(rows):
    path, counts = rows("1 0:1\n0 0:2\n2 0:3\n"), rows("1\r\n0\r\n2\r\n", "counts")
    assert hr.read(path, query=counts).qid.tolist() == [0, 2, 2]
    with pytest.raises(hr.DataError, match=r"add up to 4 rows, but .* has 3"):
        hr.read(path, query=rows("4\n", "counts"))
    with pytest.raises(hr.DataError, match="whole numbers"):
        hr.read(path, query=rows("1.5\n1.5\n", "counts"))
    with pytest.raises(hr.DataError, match="'qid:', so query="):
        hr.read(rows("1 qid:1 1:1\n"), query=counts)
    rows("3\n", "rows.txt.query")
    assert hr.read(rows("1 qid:8 1:1\n")).qid.tolist() == [8]  # ids in the lines win over a file found by itself


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_query_id_in_the_comment(rows):
    yandex = rows("0.07 1:1 # 42\n1.5 1:2 # 42\n0 2:3 # 7\n0 2:3 # 7\n")
    data = hr.read(yandex)
    assert data.qid.tolist() == [42, 42, 7, 7] and data.docid is None
    data = hr.read(yandex, qid_in_comment=False)
    assert data.qid.tolist() == [0] * 4 and data.docid.tolist() == ["42", "42", "7", "7"]
    distinct = rows("0 1:1 # 1\n0 1:2 # 2\n1 1:3 # 3\n")
    assert hr.read(distinct).docid.tolist() == ["1", "2", "3"]
    assert hr.read(distinct, qid_in_comment=True, docids=False).qid.tolist() == [1, 2, 3]
    words = rows("0 1:1 # a\n0 1:2 # b\n")
    assert hr.read(words, qid_in_comment=True).qid.tolist() == ["a", "b"]
    with pytest.raises(hr.DataError, match="data row 2 has no comment"):
        hr.read(rows("0 1:1 # 1\n0 1:2\n"), qid_in_comment=True)


def test_same_answer_for_any_number_of_threads_and_any_windows(rows, monkeypatch):
    chance = np.random.default_rng(5)
    lines = [
        f"{chance.integers(5)} qid:q{chance.integers(9)} "
        + " ".join(f"{j}:{chance.random():.{chance.integers(1, 19)}f}" for j in range(1, chance.integers(2, 30)))
        + ("" if chance.random() < 0.3 else f" # doc {i}")
        + ("\n\n" if chance.random() < 0.1 else "")
        for i in range(2000)
    ]
    path = rows("\n".join(lines))
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "1")
    expected = hr.read(path)
    for threads, first, window, chunk in (
        ("1", 300, 999, 100),
        ("3", 1 << 17, 1 << 19, 1 << 18),
        ("4", 50, 20_000, 333),
    ):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        monkeypatch.setattr(letor_table, "FIRST_WINDOW", first)
        monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", window)
        monkeypatch.setattr(letor_table, "SMALLEST_CHUNK", chunk)
        for sparse in (False, True):
            data = hr.read(path, sparse=sparse)
            X = data.X.toarray() if sparse else data.X
            assert X.tobytes() == expected.X.tobytes() and (data.qid == expected.qid).all()
            assert (data.docid == expected.docid).all() and data.y.tobytes() == expected.y.tobytes()


def test_pipe(rows, tmp_path):
    """A pipe can be read only once, and this text needs two passes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    from threading import Thread

    writer = Thread(target=lambda: pipe.write_text("1 qid:1 1:5\n0 qid:x 0:2\n"))
    writer.start()
    data = hr.read(pipe)
    writer.join()
    assert data.X.tolist() == [[0, 5], [2, 0]] and data.qid.tolist() == ["1", "x"]


def test_progress(rows, monkeypatch):
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 100)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 200)
    shares = []
    read_text(rows("1 qid:1 1:5\n" * 100), progress=shares.append)
    assert len(shares) > 3 and shares == sorted(shares) and shares[-1] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "int32"},
        {"missing": "ignore"},
        {"index_base": 2},
        {"n_features": 0},
        {"n_features": "3"},
        {"n_features": 3.5},
        {"max_features": 2**31},
        {"sparse": "no"},
    ],
)
def test_options_are_checked(rows, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is .*expected"):
        hr.read(rows("1 qid:1 1:1\n"), **options)
