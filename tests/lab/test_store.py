"""A results file cut at any byte gives the whole records before the cut and takes new ones."""

import os

import numpy as np
import pytest

from hingerank.data.files import canonical, plain, write_whole
from hingerank.lab.run_folder import ResultsFile, read_results

RECORDS = [
    {"method": "a", "value": 0.1 + 0.2, "setting": {"C": 1e-3}},
    {"method": "b\n\u2028</script>é", "value": None, "values": {"ndcg@10": [0.5, 1.0]}},
    {"method": "c", "error": 'ValueError: "x"'},
]


def write(path, records):
    with ResultsFile(path) as file:
        for record in records:
            file.append([record])


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    write(path, RECORDS)
    assert read_results(path) == RECORDS
    with ResultsFile(path) as file:
        assert file.records == RECORDS


def test_cut_at_every_byte(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path, RECORDS)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert read_results(path) == RECORDS[:whole]
        with ResultsFile(path) as file:
            assert file.records == RECORDS[:whole]
            file.append(RECORDS[whole:])
        assert path.read_bytes() == data


def test_zeros_after_a_power_cut_are_an_unfinished_line(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path, RECORDS)
    data = path.read_bytes()
    path.write_bytes(data + b"\0" * 50)
    with ResultsFile(path) as file:
        assert file.records == RECORDS
    assert path.read_bytes() == data


def test_every_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "results.jsonl"
    write(path, RECORDS)
    data = bytearray(path.read_bytes())
    for place in range(data.index(b"\n") + 1):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="line 1: the checksum"):
            read_results(path)


def test_two_runs_cannot_share_a_file(tmp_path):
    path = tmp_path / "results.jsonl"
    with ResultsFile(path) as file:
        file.append(RECORDS[:1])
        with pytest.raises(ValueError, match="in use by another run"):
            ResultsFile(path)
        assert read_results(path) == RECORDS[:1]
    with ResultsFile(path) as file:
        assert file.records == RECORDS[:1]


def test_plain_values():
    got = plain({1: np.float64(0.5), "a": np.arange(2), "b": (np.int8(3), float("nan"), np.inf, True), "c": {"d"}})
    assert got == {"1": 0.5, "a": [0, 1], "b": [3, None, None, True], "c": "{'d'}"}
    assert canonical({"b": 1, "a": np.float64(1.0)}) == canonical({"a": 1.0, "b": np.int64(1)})


def test_write_whole_leaves_no_part(tmp_path):
    path = tmp_path / "x" / "run.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after(tmp_path, monkeypatch):
    path, synced = tmp_path / "new", []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append((os.fstat(number).st_ino, path.exists())))
    write_whole(path, b"new")
    assert synced == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
