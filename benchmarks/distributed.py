"""A fit over the workers of a Dask cluster against one process: the same answer, seconds, rounds and bytes.

    python benchmarks/distributed.py --rows 1000000 --parts 8 --workers 2 4 --kill [--write docs/results]

Workers are processes of this machine, so that only the cost of the rounds is new: the processors are the same. --write
keeps two tables that docs/scale.md shows (`hingerank reproduce --write-docs`): scale-workers.json and scale-paper.json.
The latter is what a billion rows would take by the page's formula at the speed measured here. A few minutes.
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

# this file bears the name of a package of Dask's: its folder must come last, in workers as well
HERE = Path(__file__).resolve().parent
sys.path[:] = [*(place for place in sys.path if Path(place).resolve() != HERE), str(HERE)]

from measuring import keep_table  # noqa: E402

FEATURES, ROWS_PER_QUERY = 136, 100
HEADER = ["", "seconds", "rounds", "an empty round", "processor seconds", "to one process", "MB received", "objective"]


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
    parser.add_argument("--write", type=Path, help="folder to keep the tables in, such as docs/results")
    asked = parser.parse_args()
    from distributed import Client, LocalCluster

    import hingerank as hr

    warnings.simplefilter("ignore")
    folder = tempfile.mkdtemp(prefix="hingerank-distributed-")
    try:
        paths = make_parts(folder, asked.rows, asked.parts)
        parts = [hr.read(path) for path in paths]
        columns = ([getattr(part, name) for part in parts] for name in ("X", "y", "qid"))
        whole = hr.RankingData(*map(np.concatenate, columns))  # in memory, not a view of mapped files
        alone = [timed(lambda: hr.RankSVM(tol=asked.tol).fit(whole)) for _ in range(asked.repeats)]
        one, seconds, processor = alone[0][0], min(a[1] for a in alone), min(a[2] for a in alone)
        rows = [["one process", f"{seconds:.2f}", "–", "–", f"{processor:.2f}", "1", "–", ""]]
        print(f"{whole.n_rows:,} × {whole.n_features}, {asked.parts} parts, tol {asked.tol:g}", flush=True)
        rounds = 0
        for count in asked.workers:
            threads = max(1, (os.cpu_count() or 1) // count)
            options = {"threads_per_worker": threads, "dashboard_address": None, "memory_limit": 0, "silence_logs": 50}
            with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
                data = hr.distributed.read(paths, client)
                hr.RankSVM(tol=0.5).fit(data)  # kernels are loaded
                empty = min(timed(lambda data=data: data.ask(nothing))[1] for _ in range(30))
                for killed in [False, True][: 1 + asked.kill]:
                    label = f"{count} workers{', one killed' if killed else ''}"
                    row, found = report(client, data, one, processor, asked, label, killed)
                    rows.append([*row[:3], "–" if killed else f"{1e3 * empty:.0f} ms", *row[3:]])
                    rounds = rounds if killed else found
                    print(rows[-1], flush=True)
        from hingerank.losses import squared_hinge
        from hingerank.problem import Problem, RowsDesign

        preferences = hr.GradedPreferences(whole.y, whole.blocks.offsets)
        problem = Problem(RowsDesign(whole.X), squared_hinge(), preferences)
        spent = min(timed(lambda: problem.at(0.1 * one.coef_))[2] for _ in range(5)) / whole.n_rows / whole.n_features
        rows.append([f"an evaluation, {1e9 * spent:.2f} ns a number", *["–"] * 6, ""])
        show(HEADER, rows)
        paper = on_paper(spent, rounds)
        show(*paper)
        if asked.write:
            command = f"python benchmarks/distributed.py --rows {asked.rows} --parts {asked.parts} --workers "
            command += " ".join(map(str, asked.workers)) + " --kill" * asked.kill
            command += f" --repeats {asked.repeats}"
            keep_table(asked.write, "scale-workers", command, HEADER, rows)
            keep_table(asked.write, "scale-paper", command, *paper)
    finally:
        shutil.rmtree(folder)


def nothing(part) -> None:
    """A question that costs nothing."""


def on_paper(c: float, rounds: int) -> tuple[list[str], list[list[str]]]:
    """T = R (a round) + E n d c / (W k) for a billion rows on 100 workers, at c seconds of a processor a number."""
    n, W, rows = 10**9, 100, []
    for cores, each, R, E in [
        (8, 0.02, rounds, rounds - 2),
        (8, 0.02, 55, 50),
        (8, 0.5, 55, 50),
        (1, 0.5, 55, 50),
    ]:
        asked, evaluated = R * each, E * n * FEATURES * c / (W * cores)
        figures = [f"{x:.1f} s" if x < 10 else f"{x:.0f} s" for x in (asked, evaluated, asked + evaluated)]
        rows.append([str(cores), f"{1e3 * each:.0f} ms", f"{R}, {E}", *figures])
    return ["cores a worker", "a round", "R, E", "rounds", "evaluations", "in all"], rows


def show(header: list[str], rows: list[list[str]]) -> None:
    """A table in Markdown."""
    print()
    for row in [header, ["---"] * len(header), *rows]:
        print(f"| {' | '.join(row)} |", flush=True)


def report(client, data, one, processor: float, asked, label: str, kill: bool) -> tuple[list[str], int]:
    """The row of a fit over the workers but for the empty round, and how many rounds it took."""
    import hingerank as hr

    best, runner = None, data.runner
    for _ in range(1 if kill else asked.repeats):
        before = runner.rounds, runner.received
        done: list[str] = []

        def strike(entry, done=done) -> None:
            if entry["iteration"] == 2 and kill and not done:
                done.append(runner.place[data.parts[0].key])
                os.kill(client.run(os.getpid, workers=done)[done[0]], signal.SIGKILL)

        workers = sum(client.run(time.process_time).values())
        ranker, spent, used = timed(lambda strike=strike: hr.RankSVM(tol=asked.tol, callback=strike).fit(data))
        used += sum(client.run(time.process_time).values()) - workers
        found = [now - then for now, then in zip((runner.rounds, runner.received), before)]
        best = (spent, used, found, ranker) if best is None or used < best[1] else best
    spent, used, (rounds, received), ranker = best
    apart = abs(ranker.objective_ / one.objective_ - 1)
    return [
        label,
        f"{spent:.2f}",
        str(rounds),
        "–" if kill else f"{used:.2f}",
        "–" if kill else f"{used / processor:.2f}",
        f"{received / 1e6:.0f}",
        f"equal to {apart:.0e}",
    ], rounds


def timed(work):
    """(what it gives, seconds, seconds of all processors of this process)."""
    started, used = time.perf_counter(), time.process_time()
    return work(), time.perf_counter() - started, time.process_time() - used


if __name__ == "__main__":
    main()
