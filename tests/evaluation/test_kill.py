"""A comparison killed with SIGKILL again and again ends with the table of one that was left alone."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from hingerank.evaluation.results import load_results

PROGRAM = """
import sys, time
import numpy as np
from hingerank.data.ranking_data import RankingData
from hingerank.evaluation.folds import query_folds
from hingerank.evaluation.method import Method
from hingerank.evaluation.protocol import compare

class Slow:
    def __init__(self, column=0, seconds=0.02, random_state=None):
        self.column, self.seconds, self.random_state = column, seconds, random_state
    def fit(self, X, y, qid=None):
        time.sleep(self.seconds)
        return self
    def predict(self, X):
        return X[:, self.column] + 0.1 * np.random.default_rng(self.random_state).standard_normal(len(X))

rng = np.random.default_rng(0)
X = rng.standard_normal((240, 4))
data = RankingData(X, np.clip(np.round(X[:, 0]), 0, 2), np.repeat(np.arange(30), 8))
methods = [Method(name, Slow, {"column": [0, 1, 2, 3]}) for name in ("a", "b", "c")]
print("ready", flush=True)
compare(methods, query_folds(data, 5), measures=["ndcg@10", "map"], folder=sys.argv[1], workers=int(sys.argv[2]))
"""


def start(folder, workers):
    """The program in its own process group, up to the moment the comparison begins."""
    command = [sys.executable, "-c", PROGRAM, str(folder), str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def table(folder):
    results = load_results(folder)
    seconds = ("seconds", "predict_seconds")
    records = [{k: v for k, v in r.items() if k not in seconds} for r in results.records]
    assert results.failures() == []
    return sorted(records, key=lambda r: (r["method"], r["fold"], r["kind"], str(r["setting"])))


@pytest.mark.parametrize("workers, least", [(1, 2), (2, 1)])
def test_killed_runs_lose_nothing(tmp_path, workers, least):
    whole = start(tmp_path / "whole", workers)
    assert whole.wait(60) == 0, whole.stderr.read()
    expected = table(tmp_path / "whole")
    assert len(expected) == 3 * 5 * 5

    rng, kills, kept = np.random.default_rng(workers), 0, 0
    patience = 0.8 if workers == 1 else 1.6  # long enough for some results, short enough never to finish in one go
    path = tmp_path / "killed" / "results.jsonl"
    while True:
        process = start(tmp_path / "killed", workers)
        try:
            process.wait(patience + 0.3 * rng.random() if kills < 3 else 60)
            break
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        lines = path.read_bytes().count(b"\n") if path.exists() else 0
        assert lines >= kept, "a result got lost"
        patience *= 1.3 if lines == kept else 1.0  # a slow machine
        kept = lines
    assert process.returncode == 0, process.stderr.read()
    assert kills >= least
    assert table(tmp_path / "killed") == expected


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_no_worker_outlives_a_killed_run(tmp_path):
    process = start(tmp_path, 2)
    deadline = time.monotonic() + 30
    while len(children(process.pid)) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    workers = children(process.pid)
    assert workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while (alive := [pid for pid in workers if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive == []


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == pid and state != "Z":
                found.append(int(name))
    return found


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
