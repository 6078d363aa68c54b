"""Bad input: one DataError that names file, line, column, the text found and what was expected; never a large array."""

import bz2
import gzip
import lzma
import os
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.data import letor_table

GOOD = "1 qid:1 1:0.5 2:1\n"

# text of the third line, column, text found, part of what was expected
LINES = {
    "label word": ("x qid:1 1:1", 1, "x", "a number as the label"),
    "label missing": ("qid:1 1:1", 1, "qid:1", "a number as the label"),
    "label is an entry": ("1:1 2:2", 1, "1:1", "a number as the label"),
    "label nan": ("nan qid:1 1:1", 1, "nan", "a number as the label"),
    "label inf": ("-inf qid:1 1:1", 1, "-inf", "a number as the label"),
    "label overflow": ("1e400 qid:1 1:1", 1, "1e400", "fits float64"),
    "label hex": ("0x1 qid:1 1:1", 1, "0x1", "a number as the label"),
    "qid empty": ("1 qid: 1:1", 3, "qid:", "a query id"),
    "qid control": ("1 qid:a\x01b 1:1", 3, "qid:a\x01b", "a query id"),
    "qid absent": ("1 1:1", 3, "1:1", "'qid:' after the label"),
    "qid twice": ("1 qid:1 qid:2 1:1", 9, "qid:2", "only once"),
    "qid late": ("1 1:1 qid:2", 3, "1:1", "'qid:' after the label"),
    "no colon": ("1 qid:1 1:1 5 3:1", 13, "5", "index:value"),
    "word": ("1 qid:1 1:1 foo:2", 13, "foo:2", "index:value"),
    "no index": ("1 qid:1 :2", 9, ":2", "index:value"),
    "negative index": ("1 qid:1 -3:2", 9, "-3:2", "no negative feature index"),
    "fractional index": ("1 qid:1 1.5:2", 9, "1.5:2", "index:value"),
    "no value": ("1 qid:1 1: 2:1", 11, "", "a finite number after ':'"),
    "value word": ("1 qid:1 1:abc", 11, "abc", "a finite number after ':'"),
    "two colons": ("1 qid:1 1:2:3", 11, "2:3", "a finite number after ':'"),
    "comma": ("1 qid:1 1:0,5", 11, "0,5", "a finite number after ':'"),
    "underscore": ("1 qid:1 1:1_0", 11, "1_0", "a finite number after ':'"),
    "nan": ("1 qid:1 1:nan", 11, "nan", "a number after ':'"),
    "inf": ("1 qid:1 1:1 2:inf", 15, "inf", "a finite number"),
    "overflow": ("1 qid:1 1:1e309", 11, "1e309", "fits float64"),
    "null": ("1 qid:1 1:NULL", 11, "NULL", 'missing="zero"'),
    "null after tabs": ("1\tqid:1\t1:NULL", 11, "NULL", 'missing="zero"'),
    "repeated": ("1 qid:1 1:1 2:2 1:3", 17, "1:3", "each feature index once"),
    "repeated next": ("1 qid:1 1:1 1:1", 13, "1:1", "each feature index once"),
    "repeated with zeros": ("1 qid:1 2:1 02:1", 13, "02:1", "each feature index once"),
    "huge": ("1 qid:1 4000000000:1", 9, "4000000000:1", "max_features"),
    "beyond int64": ("1 qid:1 99999999999999999999:1", 9, "99999999999999999999:1", "max_features"),
    "old line end": ("1 qid:1 1:1\r2 qid:1 1:1", 11, "1", "a finite number after ':'"),
    "zero byte": ("1 qid:1 1:1 # a\x00b", 16, "\x00b", "binary"),
    "zero byte in a comment line": ("  # \x00", 5, "\x00", "binary"),
    "after umlauts": ("1 qid:äöü 1:1 x", 15, "x", "index:value"),
}


@pytest.mark.parametrize("sparse", [None, True])
@pytest.mark.parametrize("case", LINES)
def test_located(rows, monkeypatch, case, sparse):
    line, column, found, expected = LINES[case]
    monkeypatch.setattr(letor_table, "_check_start", lambda *_: None)  # which would see the zero byte first
    path = rows(GOOD + "\n" + line + "\n" + GOOD)
    with pytest.raises(hr.DataError) as caught:
        hr.read(path, sparse=sparse)
    message = str(caught.value)
    assert message.startswith(
        f"{path}, line 3, column {column}: found {found!r}" if found else f"{path}, line 3, column"
    )
    assert expected in message.split("expected", 1)[1] and "\n" not in message


@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_first_error_of_many_lines(rows, monkeypatch, threads):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
    monkeypatch.setattr(letor_table, "SMALLEST_CHUNK", 1000)
    lines = [GOOD] * 60_000
    for bad, first in ((50_001, 50_001), (59_000, 50_001), (40_001, 40_001)):
        lines[bad - 1] = "1 qid:1 1:x\n"
        with pytest.raises(hr.DataError, match=f"line {first}, column 11: found 'x'"):
            hr.read(rows("".join(lines)))


def test_error_in_the_second_file(rows):
    a, b = rows(GOOD * 3, "a.txt"), rows(GOOD + "oops\n", "b.txt")
    with pytest.raises(hr.DataError, match=r"b\.txt, line 2, column 1: found 'oops'"):
        hr.read([a, b])


def test_query_ids_on_some_lines_only(rows):
    with pytest.raises(hr.DataError, match="line 2, column 3: found 'qid:1', expected no 'qid:', as on the first line"):
        hr.read(rows("1 1:1\n1 qid:1 1:1\n"))


def test_index_zero_where_one_is_the_first(rows):
    with pytest.raises(hr.DataError, match=r"line 1, column 9: found '0:1', expected .* index_base=1"):
        hr.read(rows("1 qid:1 0:1\n"), index_base=1)


def test_float32_overflow(rows):
    path = rows("1 qid:1 1:3.5e38\n")
    assert hr.read(path).X[0, 0] == 3.5e38
    with pytest.raises(hr.DataError, match=r"found '3\.5e38', expected a number that fits float32"):
        hr.read(path, dtype="float32")
    assert np.isfinite(hr.read(rows("1 qid:1 1:3.4028235e38\n"), dtype="float32").X[0, 0])


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n", b"   ", b"\r\n"])
def test_empty(rows, text):
    path = rows(text)
    with pytest.raises(hr.DataError, match="no rows"):
        hr.read(path)
    for pack in (gzip.compress, lzma.compress, bz2.compress):
        with pytest.raises(hr.DataError, match="no rows"):
            hr.read(rows(pack(text)))


def test_no_features(rows):
    with pytest.raises(hr.DataError, match="no line has a feature"):
        hr.read(rows("1 qid:1\n0 qid:1 # x\n"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list open files")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_wrong_line_leaves_no_file_open(rows, monkeypatch, threads):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
    path = rows("x qid:1 1:1\n")
    with pytest.raises(hr.DataError) as error:
        hr.read(path)
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert error.value is not None and str(path) not in [os.readlink(link) for link in links]


@pytest.mark.parametrize("size", [20, 1000, 200_000])
def test_binary(rows, size):
    for seed in range(20):
        noise = np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()
        with pytest.raises(hr.DataError):
            hr.read(rows(noise))


@pytest.mark.parametrize(
    "start, what", [(b"PK\x03\x04", "zip"), (b"PAR1", "Parquet"), ("1 qid:1 1:1\n".encode("utf-16"), "UTF-16")]
)
def test_other_kinds_are_named(rows, start, what):
    with pytest.raises(hr.DataError, match=what):
        hr.read(rows(start + b"rest"))


@pytest.mark.parametrize("kind", ["gzip", "xz", "bzip2", "zstd"])
def test_truncated_and_damaged(rows, kind):
    text = "".join(f"1 qid:{i} 1:{i * 7919 % 1000}\n" for i in range(20_000)).encode()
    if kind == "zstd":
        zstandard = pytest.importorskip("zstandard")
        packed = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    else:
        packed = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}[kind](text)
    for end in (9, 40, len(packed) // 2, len(packed) - 3):
        with pytest.raises(hr.DataError, match=f"truncated {kind} file"):
            hr.read(rows(packed[:end]))
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 255
    with pytest.raises(hr.DataError):
        hr.read(rows(bytes(damaged)))


def test_huge_indices_do_not_allocate(rows):
    texts = [
        "1 qid:1 4000000000:1\n",
        "1 qid:1 1:1\n" * 50 + "0 qid:1 33554433:1\n",
        "1 qid:1 1:1\n0 qid:1 30000000:1\n",
    ]
    for text in texts:
        path = rows(text)
        tracemalloc.start()
        try:
            data = hr.read(path)
            assert data.X.shape == (2, 30_000_000) and data.X.nnz == 2
        except hr.DataError as error:
            assert "max_features" in str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 5e6
    assert hr.read(rows("1 qid:1 2000000000:1\n"), max_features=2**31 - 1, sparse=True).X.shape == (1, 2_000_000_000)
    with pytest.raises(hr.DataError, match="pass sparse=True"):
        hr.read(rows("1 qid:1 2000000000:1\n" * 1000), max_features=2**31 - 1, sparse=False)


@pytest.mark.parametrize(
    "line, column", [(b"1 qid:1 1:1 # caf\xe9", 18), (b"1 qid:\xe9 1:1", 7), (b"1 qid:1 1:1 # \xed\xa0\x80", 15)]
)
def test_no_utf8(rows, line, column):
    with pytest.raises(hr.DataError, match=rf"line 5, column {column}: .*UTF-8"):
        hr.read(rows(GOOD.encode() * 2 + b"\n# \xe9\n" + line + b"\n"))


def test_no_utf8_in_comments_that_nobody_wants(rows):
    assert hr.read(rows(b"1 qid:1 1:1 # caf\xe9\n"), docids=False).y.tolist() == [1]


@pytest.mark.parametrize(
    "text",
    [
        "1 " + "9" * 3_000_000,
        "1 qid:1 " + "9" * 3_000_000 + ":1",
        "1 qid:1 1:" + "1" * 3_000_000,
        "1" * 3_000_000,
        "1 qid:1 1:1 #" + "x" * 3_000_000 + "\n" + "0 qid:1 1:1\n" * 1000,
        "1 qid:1 " + " ".join(f"{i}:1" for i in range(300_000, 0, -1)),
        "1 qid:1 " + " ".join(f"{i}:1" for i in range(200_000, 0, -1)) + " 7:1",
        "1 qid:1 " + " ".join(f"{i}:1e23" for i in range(100_000, 0, -1)),
        " " * 3_000_000 + "1 qid:1 1:1",
        "1 qid:" + "q" * 3_000_000 + " 1:1",
    ],
    ids=["entry", "index", "value", "label", "comment", "reversed", "repeated", "hard numbers", "blanks", "qid"],
)
def test_long_lines_take_no_long_time(rows, text):
    path = rows(text)
    start = time.perf_counter()
    try:
        hr.read(path)
    except hr.DataError as error:
        assert len(str(error)) < 500
    assert time.perf_counter() - start < 20


def test_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        hr.read(tmp_path / "nowhere.txt")


EVENT = '{"application": "shop", "action_name": "click", "query_id": "q1", "timestamp": "2026-01-01T00:00:00Z"}\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [("events.ndjson", EVENT), ("events.json", f"[\n {EVENT}]"), ("late.txt", "1 qid:1 1:2\n" + EVENT)],
)
def test_json_is_sent_to_its_own_readers(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    wanted = r"expected a number as the label .*hr\.read_clicks for clicks such as User Behavior Insights \(UBI\)"
    with pytest.raises(hr.DataError, match=wanted + r", or hr\.read_feature_log"):
        hr.read(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "reader"),
    [
        ("1\t1193\t5\t978300760", "hr.read_ratings"),
        ("1::1193::5::978300760", "hr.read_ratings"),
        ("98435_1\t232429,688835 : 688835; 98435_1\t232429,688835 :;", "hr.read_clicks"),
        ("9866\t232429,688835 :  ;", "hr.read_clicks"),
        ("1 qid:1 7", None),
        ("a qid:1 1:2", None),
    ],
)
def test_ratings_and_sessions_are_sent_to_their_readers(tmp_path, line, reader):
    (tmp_path / "rows.txt").write_text(f"1 qid:1 1:2\n{line}\n")
    with pytest.raises(hr.DataError, match="line 2, column") as caught:
        hr.read(tmp_path / "rows.txt")
    assert (caught.value.remedy.rpartition(" ")[2] or None) == reader


def test_tables_of_events_are_sent_to_their_reader(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "events.csv").write_text("action_name,query_id\nclick,q1\n")
    with pytest.raises(hr.DataError, match=r"User Behavior Insights \(UBI\): read them with hr\.read_clicks"):
        hr.read(tmp_path / "events.csv")
