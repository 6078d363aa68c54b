"""Reading LETOR/SVMlight text: hingerank beside scikit-learn and XGBoost on the same file, in the same run.

    python benchmarks/loading.py            30 MB: one thread, scikit-learn, XGBoost; short rows; compressed
    python benchmarks/loading.py --big      1.2 GB (720,000 x 136): XGBoost on one and two threads, peak memory

Every reader runs in a process of its own, after a first small read that loads the compiled code; seconds are the best
of --repeat, "times" is in units of the first line. Peak memory (Linux) is what the process grew by in its first read;
the table gives that less the arrays returned, as a share of the file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

READERS = {
    "hingerank": """
        from hingerank.data.letor import read_text
        def load(path):
            data = read_text(path, dtype=dtype)
            X = data.X
            arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
            arrays += [data.y, data.qid] + ([] if data.docid is None else [data.docid])
            return X.shape, sum(a.nbytes for a in arrays)
        """,
    "scikit-learn": """
        from sklearn.datasets import load_svmlight_file
        def load(path):
            X, y, qid = load_svmlight_file(path, query_id=True, dtype=dtype)
            return X.shape, X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes + qid.nbytes
        """,
    "xgboost": """
        import warnings; warnings.filterwarnings("ignore")
        import xgboost
        xgboost.set_config(verbosity=0)
        def load(path):
            data = xgboost.DMatrix(path + "?format=libsvm", nthread=threads)
            return (data.num_row(), data.num_col()), 8 * data.num_nonmissing()
        """,
}

MEASURE = """
    import gc, json, os, sys, time
    import numpy as np
    path, small, dtype, threads, repeat = sys.argv[1:]
    threads = int(threads)
    os.environ["HINGERANK_NUM_THREADS"] = str(threads)
    {load}
    def memory(name):
        for line in open("/proc/self/status"):
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    load(small)
    gc.collect()
    with open("/proc/self/clear_refs", "w") as out:
        out.write("5")  # the peak starts again
    before = memory("VmRSS")
    runs = []
    for i in range(int(repeat)):
        start, cpu = time.perf_counter(), time.process_time()
        shape, nbytes = load(path)
        runs.append((time.perf_counter() - start, time.process_time() - cpu))
        if i == 0:
            grown = memory("VmHWM") - before
    seconds, cpu = min(runs)
    print(json.dumps(dict(seconds=seconds, cpu=cpu, shape=shape, arrays=nbytes, grown=grown)))
"""


def measure(reader: str, path: str, small: str, dtype: str, threads: int, repeat: int) -> dict:
    """Time one reader in a new process."""
    code = textwrap.dedent(MEASURE).replace("{load}", textwrap.dedent(READERS[reader]).strip())
    command = [sys.executable, "-c", code, path, small, dtype, str(threads), str(repeat)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    out = subprocess.run(command, capture_output=True, text=True, env=environment)
    if out.returncode:
        return {"failed": out.stderr.strip().splitlines()[-1]}
    return json.loads(out.stdout.strip().splitlines()[-1])


def write_rows(path: Path, rows: int, features: int, per_query: int, decimals: int = 6) -> None:
    """Random values with so many decimals, a tenth of them small whole numbers; document ids as LETOR writes them."""
    from hingerank.data.files import replace_file
    from hingerank.data.letor_writer import _Rows
    from hingerank.data.ranking_data import RankingData

    random = np.random.default_rng(1)
    with replace_file(path) as out:
        for first in range(0, rows, 20_000):
            count = min(20_000, rows - first)
            X = np.round(random.random((count, features)), decimals)
            whole = random.random(X.shape) < 0.1
            X[whole] = np.floor(X[whole] * 100)
            number = np.arange(first, first + count)
            docid = np.char.add("GX", np.char.zfill(number.astype(str), 9))
            lines = _Rows(RankingData(X, random.integers(0, 5, count).astype(float), number // per_query, docid), 1)
            for block in lines.blocks():
                out.write(lines.text(block))


def report(title: str, path: Path, small: Path, runs: list[tuple[str, str, int]], repeat: int) -> None:
    size = path.stat().st_size
    print(f"\n{title}: {path.name}, {size / 1e6:.1f} MB")
    names = f"{'reader':<14}{'dtype':<9}{'threads':>7}{'seconds':>9}{'CPU s':>8}{'MB/s':>7}{'times':>8}"
    print(f"  {names}  arrays MB  peak - arrays")
    first = None
    for reader, dtype, threads in runs:
        result = measure(reader, str(path), str(small), dtype, threads, repeat)
        if "failed" in result:
            print(f"  {reader:<14}{dtype:<9}{threads:>7}  failed: {result['failed'][:80]}")
            continue
        seconds = result["seconds"]
        first = first or seconds
        over = (result["grown"] - result["arrays"]) / size
        print(
            f"  {reader:<14}{dtype:<9}{threads:>7}{seconds:>9.3f}{result['cpu']:>8.3f}{size / seconds / 1e6:>7.0f}"
            f"{seconds / first:>8.2f}{result['arrays'] / 1e6:>11.1f}  {over:+.2f} x file",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--big", action="store_true", help="the 1.2 GB file")
    parser.add_argument("--rows", type=int, default=None, help="rows of 136 features (default 18,000; --big 720,000)")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, wide = folder / "small.txt", folder / "wide.txt"
        write_rows(small, 100, 136, 20)
        write_rows(wide, options.rows or (720_000 if options.big else 18_000), 136, 120)
        one = [("hingerank", "float64", 1), ("hingerank", "float32", 1)]
        two = [("hingerank", "float64", 2), ("hingerank", "float32", 2)]
        if options.big:
            report("wide rows, two threads", wide, small, [*two, ("xgboost", "float32", 2)], options.repeat)
            report("wide rows, one thread", wide, small, [*one, ("xgboost", "float32", 1)], options.repeat)
            return
        peers = [("scikit-learn", "float64", 1), ("xgboost", "float32", 1)]
        report("wide rows, one thread", wide, small, one + peers, options.repeat)
        report("wide rows, two threads", wide, small, [*two, ("xgboost", "float32", 2)], options.repeat)
        short = folder / "short.txt"
        write_rows(short, 100_000, 10, 20)
        report("short rows, one thread", short, small, one[:1] + peers, options.repeat)
        for suffix in (".gz", ".xz", ".zst"):
            packed = folder / ("short.txt" + suffix)
            write_rows(packed, 100_000, 10, 20)
            report("compressed, two threads", packed, small, two[:1], options.repeat)


if __name__ == "__main__":
    main()
