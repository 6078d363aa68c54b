"""A few thousand damaged files of every kind; benchmarks/fuzz.py runs as many as wished."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import fuzz
import slow_readers as slow

pytestmark = pytest.mark.slow


@pytest.fixture
def usual_windows():
    from hingerank.data import letor_table

    names = ("FIRST_WINDOW", "SMALLEST_WINDOW", "SMALLEST_CHUNK")
    kept = {name: getattr(letor_table, name) for name in names}
    yield
    for name, value in kept.items():
        setattr(letor_table, name, value)


@pytest.mark.parametrize("threads, files", [("1", 4000), ("2", 400)])
def test_every_damaged_file_is_refused_by_name_or_read_right(tmp_path, monkeypatch, usual_windows, threads, files):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
    counts, problems = fuzz.fuzz(range(files), int(threads), tmp_path)
    assert problems == []
    kinds = {name for name, _ in counts}
    assert len(kinds) == 11 and all(counts[kind, "refused"] for kind in kinds)
    assert counts["LETOR text", "accepted"] > 0.1 * counts["LETOR text", "refused"]


def test_the_slow_readers_themselves():
    table = slow.slow_read(b"2 qid:a 1:0.5 3:NULL # docid = x inc = 1\n0 qid:b 2:1\n", missing="zero")
    assert table.X.tolist() == [[0.5, 0, 0], [0, 1, 0]] and table.y.tolist() == [2, 0]
    assert table.qid.tolist() == ["a", "b"] and table.docid.tolist() == ["x", ""]
    for bad in (b"x 1:1", b"1 1:1 1:2", b"1 1:inf", b"1 1:NULL", b"", b"1 qid:1 1:1\n0 1:1", b"1 -1:2", b"1 1:1_0"):
        with pytest.raises(slow.Refused):
            slow.slow_read(bad)
    assert slow.slow_run(b"1 Q0 b 1 2 x\n1 Q0 a 2 2 x\n") == {"1": [("a", 2.0), ("b", 2.0)]}
    assert slow.slow_csv(b'a,b\r1,"2,3"\r', ",") == {"a": ["1"], "b": ["2,3"]}
    for read, bad in (
        (slow.slow_run, b"1 Q0 a 1 1_0 x"),
        (slow.slow_numbers, b"1\n\n2"),
        (slow.slow_qrels, b"1 1 a x"),
    ):
        with pytest.raises(slow.Refused):
            read(bad)


def test_what_is_wrong_is_found(tmp_path):
    def unclear():
        raise IndexError("no place")

    with pytest.raises(fuzz.Unclear):
        fuzz.attempt(unclear, tmp_path)
    with pytest.raises(AssertionError, match="refused without need"):
        fuzz.compare(None, [1], list.__eq__)
    with pytest.raises(AssertionError, match="accepted what the slow reader refuses"):
        fuzz.compare([1], None, list.__eq__)
