"""Diversity judgments and runs of TREC: what is read, what is written, what is refused."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from hingerank.data.files import DataError
from hingerank.diversity.trec import as_qrels, as_run, read_diversity_qrels, read_run, write_run

TREC_DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data")) / "trec-web-diversity"
RUN = "1 Q0 a 2 5.0 x\n1 Q0 c 3 5.0 x\n\n1 Q0 b 1 4.5 x\n2 Q0 a 1 -1e3 x\n"


def written(folder, text, name="file.txt"):
    path = folder / name
    path.write_text(text)
    return path


def test_three_orders_of_a_run(tmp_path):
    path = written(tmp_path, RUN)
    assert read_run(path)["1"].docids == ["a", "c", "b"]
    assert read_run(path, order="trec")["1"].docids == ["c", "a", "b"]
    assert read_run(path, order="rank")["1"].docids == ["b", "a", "c"]
    assert read_run(path)["1"].scores.tolist() == [5.0, 5.0, 4.5]
    assert list(read_run(path)) == ["1", "2"]


def test_run_written_is_read_back_in_every_order(tmp_path):
    path = tmp_path / "out.txt.gz"
    run = as_run({"1": ["b", "a", "c"], "2": {"x": 0.1, "y": 0.1, "z": 7}})
    write_run(path, run, tag="mine")
    assert gzip.decompress(path.read_bytes()).startswith(b"1 Q0 b 1 3.0 mine\n")
    for order in ("score", "trec", "rank"):
        again = read_run(path, order=order)
        assert {topic: ranked.docids for topic, ranked in again.items()} == {"1": ["b", "a", "c"], "2": ["z", "x", "y"]}
    assert [name.name for name in tmp_path.iterdir()] == ["out.txt.gz"]


def test_scores_that_single_precision_cannot_tell_apart_are_numbered(tmp_path):
    """trec_eval holds scores in float32 and would order these by document id."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    write_run(tmp_path / "run", [("1", "a", 1 + 2e-9), ("1", "b", 1 + 1e-9), ("1", "c", 1.0)])
    with open(tmp_path / "run") as file:
        run = pytrec_eval.parse_run(file)
    found = pytrec_eval.RelevanceEvaluator({"1": {"a": 1, "b": 0, "c": 0}}, {"recip_rank"}).evaluate(run)
    assert found["1"]["recip_rank"] == 1.0
    assert [score for _, score in sorted(run["1"].items())] == [3.0, 2.0, 1.0]


def test_damaged_files_are_named(tmp_path):
    text = "".join(f"{topic} Q0 d{n} {n} {-n}.5 x\n" for topic in range(40) for n in range(20)).encode()
    for ending, compress in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        path = tmp_path / f"run.txt{ending}"
        path.write_bytes(compress(text))
        assert len(read_run(path)) == 40
        for damaged in (compress(text)[:-20], text):
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=rf"run\.txt{ending} is damaged or not what"):
                read_run(path)
    path = tmp_path / "run.txt"
    path.write_bytes(b"1 Q0 \xff 1 2.0 x\n")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_run(path)
    path.write_bytes(b"\xef\xbb\xbf1 Q0 a 1 2.0 x\r\n")
    assert list(read_run(path)) == ["1"]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst", ".GZ"])
def test_a_run_is_compressed_as_its_name_says(tmp_path, ending):
    """A run called .zst was plain text, which nothing reads back by its name."""
    if ending == ".zst":
        pytest.importorskip("zstandard")
    path = tmp_path / f"run.txt{ending}"
    write_run(path, {"1": ["b", "a"]})
    assert read_run(path)["1"].docids == ["b", "a"]
    start = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
    assert path.read_bytes().startswith(start.get(ending.lower(), b"1 Q0 b"))
    assert os.listdir(tmp_path) == [path.name]


def test_strictly_falling_scores_are_kept_exactly(tmp_path):
    path = tmp_path / "run.txt"
    write_run(path, [("1", "a", 1 / 3), ("1", "b", 1e-300)])
    assert read_run(path)["1"].scores.tolist() == [1 / 3, 1e-300]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("1 Q0 a 1 2.0 x\n1 Q0 a 2 1.0 x\n", "line 2: document a was already on line 1"),
        ("1 Q0 a 1 2.0\n", "line 1: 5 fields, expected 6"),
        ("1 Q0 a one 2.0 x\n", "line 1: rank 'one'"),
        *(
            (f"1 Q0 a 1 {word} x\n", f"line 1: rank '1' and score '{word}' must be")
            for word in ("nan", "1_0", "1e999", "0x10", "inf", "٣")
        ),
        ("1 Q0 a 1_0 2 x\n", "line 1: rank '1_0' and score '2' must be"),
        ("\n\n", "is empty"),
    ],
)
def test_bad_runs(tmp_path, text, problem):
    with pytest.raises(DataError, match=problem):
        read_run(written(tmp_path, text))


def test_shared_ranks_need_another_order(tmp_path):
    path = written(tmp_path, "1 Q0 a 1 2.0 x\n1 Q0 b 1 3.0 x\n")
    with pytest.raises(DataError, match="share rank 1; read with order='score'"):
        read_run(path, order="rank")
    assert read_run(path)["1"].docids == ["b", "a"]
    with pytest.raises(ValueError, match="order must be 'score', 'trec' or 'rank', not 'best'"):
        read_run(path, order="best")


def test_diversity_qrels(tmp_path):
    qrels = read_diversity_qrels(written(tmp_path, "9 2 a 1\n9 10 b -2\n9 1 b 3\n8 0 a 0\n"))
    assert list(qrels) == ["9", "8"]
    assert qrels["9"].subtopics == ["1", "2", "10"]
    assert qrels["9"].judgments.tolist() == [[0, 1, 0], [3, 0, -2]]
    assert qrels["9"].select(["b", "unjudged", "a"]).tolist() == [[3, 0, -2], [0, 0, 0], [0, 1, 0]]
    for text, problem in [
        ("1 1 a x\n", "line 1: judgment is 'x'"),
        ("1 1 a 12345678901234567890\n", "line 1: judgment is '12345678901234567890', expected a whole number below"),
        ("1 1 a 1_0\n", "line 1: judgment is '1_0'"),
        ("1 1 a \0\n", "line 1: a zero byte"),
        ("1 1 a 1\n1 1 a 1\n", "judges document a twice for subtopic 1"),
        ("1 a 1\n", "3 fields, expected 4: topic subtopic document judgment"),
    ]:
        with pytest.raises(DataError, match=problem):
            read_diversity_qrels(written(tmp_path, text))


@pytest.mark.skipif(not TREC_DATA.is_dir(), reason=f"no TREC diversity data in {TREC_DATA}")
def test_real_judgments():
    qrels = read_diversity_qrels(TREC_DATA / "qrels.diversity.2012.xz")
    assert len(qrels) == 50
    assert min(judged.judgments.min() for judged in qrels.values()) == -2
    assert np.sum([np.count_nonzero(judged.judgments > 0) for judged in qrels.values()]) == 5578 + 2486 + 1174 + 130


def test_ids_that_would_break_a_line_are_not_written(tmp_path):
    for run, name in (
        ({"7": ["a b"]}, "'a b'"),
        ({"7": [""]}, "''"),
        ({"7 8": ["a"]}, "'7 8'"),
        ({"7": ["a\n"]}, "'a"),
    ):
        with pytest.raises(DataError, match=f"the run has the id {name}.*spaces"):
            write_run(tmp_path / "run.txt", run)
    assert not list(tmp_path.iterdir())


def test_rows_and_mappings_that_mean_something_else():
    for odd in (0.5, np.nan, np.inf):
        with pytest.raises(DataError, match=f"judges document a by {odd}, expected a whole number"):
            as_qrels([("7", "1", "a", odd)])
    assert as_qrels([("7", "1", "a", np.float64(2))])["7"].judgments.tolist() == [[2]]
    with pytest.raises(DataError, match="topic 7 of the run is 'doc1', expected a list of documents"):
        as_run({"7": "doc1"})
