"""A comparison killed with SIGKILL again and again ends with the table of one that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hingerank.lab.results import load_results

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np
from hingerank.data.ranking_data import RankingData
from hingerank.lab import Method, compare, query_folds
from hingerank.metrics import evaluate

class Slow:
    def __init__(self, column=0, random_state=None):
        self.column, self.random_state = column, random_state
    def fit(self, X, y, qid=None):
        time.sleep(0.01)
        return self
    def predict(self, X):
        return X[:, self.column] + 0.1 * np.random.default_rng(self.random_state).standard_normal(len(X))

rng = np.random.default_rng(0)
X = rng.standard_normal((240, 4))
data = RankingData(X, np.clip(np.round(X[:, 0]), 0, 2), np.repeat(np.arange(30), 8))
methods = [Method(name, Slow, {"column": [0, 1, 2, 3]}) for name in ("a", "b", "c")]
folder, workers, kills, seconds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def work():
    compare(methods, query_folds(data, 5), measures=["ndcg@10", "map"], folder=folder, workers=workers)

evaluate(data.y, data.X[:, 0], data.qid, ["ndcg@10", "map"])  # kernels are loaded before the clock starts
print("ready", flush=True)
if kills:
    known, random = [], random.Random(1)
    while len(known) < kills:  # every attempt is a fork of this process, so it starts at once
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        time.sleep(seconds * random.uniform(0.2, 1))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        path = folder / "results.jsonl"
        known.append(path.read_bytes().count(b"\\n") if path.exists() else 0)
    print(json.dumps(known), flush=True)
work()
"""


def start(folder, workers, kills=0, seconds=0.0):
    """The program up to the moment the comparison begins."""
    command = [sys.executable, "-c", PROGRAM, str(folder), str(workers), str(kills), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def table(folder):
    results = load_results(folder)
    seconds = ("seconds", "predict_seconds")
    records = [{k: v for k, v in r.items() if k not in seconds} for r in results.records]
    assert results.failures() == []
    return sorted(records, key=lambda r: (r["method"], r["fold"], r["kind"], str(r["setting"])))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    process = start(folder, 1)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return table(folder)


@pytest.mark.parametrize("workers, kills, seconds, least", [(1, 12, 0.3, 3), (2, 2, 2.0, 1)])
def test_killed_runs_lose_nothing(tmp_path, expected, workers, kills, seconds, least):
    assert len(expected) == 3 * 5 * 5

    process = start(tmp_path, workers, kills, seconds)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    known = json.loads(out.splitlines()[-1])
    assert known == sorted(known), "a result got lost"
    assert len(known) >= least
    assert table(tmp_path) == expected


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_no_worker_outlives_a_killed_run(tmp_path):
    process = start(tmp_path, 2)
    deadline = time.monotonic() + 30
    while len(children(process.pid)) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    workers = children(process.pid)
    assert workers
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
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
