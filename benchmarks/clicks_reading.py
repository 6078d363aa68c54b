"""Counting a click log into cells beside just reading its Parquet file: seconds, and memory as the log grows.

    python benchmarks/clicks_reading.py                     1, 3, 10 and 30 million showings
    python benchmarks/clicks_reading.py --write docs/results     the same, stored

A log of 1,000 queries × 30 documents × 10 places, ids as text or as whole numbers, in row groups of a million. It
begins with one showing of each of these 300,000 cells with a click and one without, so that logs of all sizes have the
same cells; all others are drawn at random. Each line runs in a process of its own: "read" is pyarrow's whole table of
the same columns, "count" is `hr.read_clicks(path, keep="cells")` and its `cells()`. Seconds are the best of three after
a first small file; memory (Linux) is what the process grew by at its peak in the first reading. The bound is 10 × the
time of "read".
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from measuring import keep_table

RUN = """
import gc, json, sys, time
kind, path, small = sys.argv[1:]
def memory(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
if kind == "read":
    from pyarrow import parquet
    def load(path):
        return parquet.read_table(path, columns=["query", "document", "place", "clicked"]).num_rows
else:
    import hingerank as hr
    def load(path):
        return len(hr.read_clicks(path, keep="cells").cells())
load(small)
gc.collect()
before = memory("VmRSS")
seconds = []
for turn in range(3):
    start = time.perf_counter()
    size = load(path)
    seconds.append(time.perf_counter() - start)
    if turn == 0:
        grown = memory("VmHWM") - before
print(json.dumps({"seconds": min(seconds), "memory": grown, "size": size}))
"""


def write(path: Path, rows: int, text: bool) -> None:
    """A log of so many showings."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, writer = np.random.default_rng(0), None
    for first in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - first)
        query, place, document = rng.integers(0, 1000, n), rng.integers(1, 11, n), rng.integers(0, 30, n)
        clicked = rng.random(n) < 0.3 / place
        if first == 0 and n >= 600_000:  # one of each
            each = rng.permutation(600_000)
            query[:600_000], place[:600_000] = each // 600, each // 60 % 10 + 1
            document[:600_000], clicked[:600_000] = each // 2 % 30, each % 2 == 1
        document += query * 30
        names = {True: [f"query number {q}" for q in range(1000)], False: np.arange(1000)}[text]
        documents = {True: [f"document-{d:012d}" for d in range(30000)], False: np.arange(30000)}[text]
        table = pa.table({
            "query": pa.array(np.asarray(names)[query]), "document": pa.array(np.asarray(documents)[document]),
            "place": place, "clicked": clicked.astype(np.int8),
        })  # fmt: skip
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def measure(kind: str, path: Path, small: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", RUN, kind, path, small], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 3_000_000, 10_000_000, 30_000_000])
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for text in (False, True):
            small = Path(folder, "small.parquet")
            write(small, 10_000, text)
            for rows in arguments.rows:
                path = Path(folder, "log.parquet")
                write(path, rows, text)
                read, count = measure("read", path, small), measure("count", path, small)
                line = {"ids": "text" if text else "numbers", "showings": rows, "cells": count["size"]}
                line |= {"file, MB": path.stat().st_size / 1e6, "times": count["seconds"] / read["seconds"]}
                line |= {"read, s": read["seconds"], "count, s": count["seconds"]}
                line |= {"read, MB": read["memory"] / 1e6, "count, MB": count["memory"] / 1e6}
                lines.append(line)
                print({name: round(v, 3) if isinstance(v, float) else v for name, v in lines[-1].items()})
    if arguments.write:
        header = ["showings", "ids", "cells", "read, s", "count, s", "times", "read, MB", "count, MB"]
        forms = {"read, s": ".2f", "count, s": ".2f", "times": ".1f", "read, MB": ".0f", "count, MB": ".0f"}
        rows = [
            [format(line[name], forms.get(name, "" if name == "ids" else ",")) for name in header] for line in lines
        ]
        keep_table(arguments.write, "clicks-reading", "python benchmarks/clicks_reading.py", header, rows)


if __name__ == "__main__":
    main()
