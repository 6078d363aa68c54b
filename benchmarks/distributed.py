"""A fit over the workers of a Dask cluster against one process: the same answer, seconds, rounds and bytes.

    python benchmarks/distributed.py --rows 1000000 --parts 8 --workers 1 2 4 --kill

Workers are processes of this machine, so that only the cost of the rounds is new: the processors are the same.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

# this file bears the name of a package of Dask's: its folder must not come first
sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]

FEATURES, ROWS_PER_QUERY = 136, 100


def make_parts(folder: str, rows: int, parts: int) -> list[str]:
    """Parts of whole queries, float32, as binary folders."""
    import hingerank as hr

    rng, paths = np.random.default_rng(0), []
    w, each = rng.normal(size=FEATURES).astype(np.float32), rows // parts // ROWS_PER_QUERY * ROWS_PER_QUERY
    for k in range(parts):
        X = rng.standard_normal((each, FEATURES), np.float32)
        y = np.digitize(X @ w + 4 * rng.standard_normal(each, np.float32), [0.0, 10.0, 20.0]).astype(float)
        qid = (k * each + np.arange(each)) // ROWS_PER_QUERY
        paths.append(f"{folder}/part{k}")
        hr.write(hr.RankingData(X, y, qid), f"{paths[-1]}/")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--kill", action="store_true", help="also kill a worker in the middle of a fit")
    asked = parser.parse_args()
    from distributed import Client, LocalCluster

    import hingerank as hr

    warnings.simplefilter("ignore")
    empty: dict[int, float] = {}
    folder = tempfile.mkdtemp(prefix="hingerank-distributed-")
    try:
        paths = make_parts(folder, asked.rows, asked.parts)
        whole = hr.RankingData.concatenate([hr.read(path) for path in paths])
        alone = [timed(lambda: hr.RankSVM(tol=asked.tol).fit(whole)) for _ in range(asked.repeats)]
        one, seconds, processor = alone[0][0], min(a[1] for a in alone), min(a[2] for a in alone)
        size = f"{whole.n_rows:,} × {whole.n_features}, {asked.parts} parts"
        print(f"{size}, tol {asked.tol:g}; one process {seconds:.2f} s, {processor:.2f} s of processors\n")
        print("| workers | seconds | rounds | processor seconds | to one process | MB sent | MB received | objective |")
        print("|---|---|---|---|---|---|---|---|")
        for count in asked.workers:
            threads = max(1, (os.cpu_count() or 1) // count)
            options = {"threads_per_worker": threads, "dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
            with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
                data = hr.distributed.read(paths, client)
                hr.RankSVM(tol=0.5).fit(data)  # kernels are loaded
                empty[count] = min(timed(lambda data=data: data.ask(nothing))[1] for _ in range(30))
                for killed in [False, True][: 1 + asked.kill]:
                    report(client, data, one, processor, asked, f"{count}{', one killed' if killed else ''}", killed)
        print("\nempty round: " + ", ".join(f"{1e3 * s:.0f} ms with {count} workers" for count, s in empty.items()))
        rows = whole.n_rows
        problem = hr.RankSVM()._problem(whole.X, hr.GradedPreferences(whole.y, whole.blocks.offsets), None)
        spent = min(timed(lambda: problem.at(0.1 * one.coef_))[2] for _ in range(5))
        print(f"one evaluation: {1e9 * spent / rows / whole.n_features:.2f} ns of a processor a number")
    finally:
        shutil.rmtree(folder)


def nothing(part) -> None:
    """A question that costs nothing."""


def report(client, data, one, processor: float, asked, label: str, kill: bool) -> None:
    import hingerank as hr

    best, runner = None, data.runner
    for _ in range(1 if kill else asked.repeats):
        before = runner.rounds, runner.sent, runner.received
        done: list[str] = []

        def strike(entry, done=done) -> None:
            if entry["iteration"] == 2 and kill and not done:
                done.append(runner.place[data.parts[0].key])
                os.kill(client.run(os.getpid, workers=done)[done[0]], signal.SIGKILL)

        workers = sum(client.run(time.process_time).values())
        ranker, spent, used = timed(lambda strike=strike: hr.RankSVM(tol=asked.tol, callback=strike).fit(data))
        used += sum(client.run(time.process_time).values()) - workers
        found = [now - then for now, then in zip((runner.rounds, runner.sent, runner.received), before)]
        best = (spent, used, found, ranker) if best is None or used < best[1] else best
    spent, used, (rounds, sent, received), ranker = best
    apart = abs(ranker.objective_ / one.objective_ - 1)
    print(
        f"| {label} | {spent:.2f} | {rounds} | {'–' if kill else f'{used:.2f}'} "
        f"| {'–' if kill else f'{used / processor:.2f}'} | {sent / 1e6:.1f} | {received / 1e6:.1f} "
        f"| equal to {apart:.0e} |",
        flush=True,
    )


def timed(work):
    """(what it gives, seconds, seconds of all processors of this process)."""
    started, used = time.perf_counter(), time.process_time()
    return work(), time.perf_counter() - started, time.process_time() - used


if __name__ == "__main__":
    main()
