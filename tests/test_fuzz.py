"""A few thousand mutated files; benchmarks/fuzz_reader.py runs as many as wished."""

import importlib.util
from pathlib import Path

import pytest

FUZZER = Path(__file__).parents[2] / "benchmarks" / "fuzz_reader.py"


@pytest.fixture(scope="module")
def fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_reader", FUZZER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("threads, files", [("1", 3000), ("2", 300)])
def test_refused_or_read_as_the_slow_reader_does(fuzzer, monkeypatch, threads, files):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
    counts = fuzzer.fuzz(files, seed=int(threads))
    assert min(counts.values()) > 0.1 * files


def test_the_slow_reader_itself(fuzzer):
    table = fuzzer.slow_read(b"2 qid:a 1:0.5 3:NULL # docid = x inc = 1\n0 qid:b 2:1\n", missing="zero")
    assert table.X.tolist() == [[0.5, 0, 0], [0, 1, 0]] and table.y.tolist() == [2, 0]
    assert table.qid.tolist() == ["a", "b"] and table.docid.tolist() == ["x", ""]
    for bad in (b"x 1:1", b"1 1:1 1:2", b"1 1:inf", b"1 1:NULL", b"", b"1 qid:1 1:1\n0 1:1", b"1 -1:2", b"1 1:1_0"):
        with pytest.raises(fuzzer.Refused):
            fuzzer.slow_read(bad)
