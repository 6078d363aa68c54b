"""Microseconds to score the rows of one request on one thread: `ranker.scorer()` beside the programs people serve with.

    python benchmarks/serving.py [--features 136] [--seconds 0.5] [--write docs/results]

A linear ranker with a scaling of columns, curves, and 100 trees of LightGBM's and of XGBoost's, on generated rows.
Every program gets the same float64 rows, has been called before the clock starts, and meets other rows at each call: a
processor that has seen the same rows a hundred times guesses every branch. C is the export to C, compiled by -O2, and
called through ctypes once a request. A cell is the median and, after the slash, the 99th percentile.
"""

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from itertools import cycle
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["HINGERANK_NUM_THREADS"] = "1"

import numpy as np

import hingerank as hr
from measuring import keep_table

SIZES = (10, 100, 1000)
BLOCKS = 20  # of rows, one after another
LOOP = (
    "\nvoid scores(const double *x, int n, double *out) { for (int i = 0; i < n; i++) out[i] = score(x + i * %d); }\n"
)


def times(score, blocks, seconds):
    """Microseconds of calls: the median and the 99th percentile."""
    for block in blocks:
        score(block)
    taken, end = [], time.perf_counter() + seconds
    for block in cycle(blocks):
        began = time.perf_counter()
        score(block)
        taken.append(time.perf_counter() - began)
        if taken[-1] + began > end and len(taken) >= 100:
            break
    return np.quantile(taken, (0.5, 0.99)) * 1e6


def by_onnx(ranker, folder):
    import onnxruntime

    ranker.export(folder / "model.onnx", to="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda X: session.run(None, {"features": X})[0]


def by_c(ranker, folder, features):
    ranker.export(folder / "model.c", to="c")
    text = (folder / "model.c").read_text("utf-8") + LOOP % features
    library = folder / "model.so"
    command = ["cc", "-O2", "-std=c99", "-shared", "-fPIC", "-o", library, "-x", "c", "-", "-lm"]
    subprocess.run(command, input=text, text=True, check=True)
    function = ctypes.CDLL(str(library)).scores

    def score(X):
        out = np.empty(len(X))
        function(ctypes.c_void_p(X.ctypes.data), ctypes.c_int(len(X)), ctypes.c_void_p(out.ctypes.data))
        return out

    return score


def programs(ranker, folder, features):
    """name -> a function of rows."""
    found = {"`scorer()`": ranker.scorer(), "`predict`": ranker.predict}
    found |= {"onnxruntime": by_onnx(ranker, folder), "C": by_c(ranker, folder, features)}
    if isinstance(ranker, hr.LightGBMRanker):
        booster = ranker.boosters_[0]
        found["LightGBM's booster"] = lambda X: booster.predict(X, num_threads=1)
    if isinstance(ranker, hr.XGBoostRanker):
        model = ranker.boosters_[0]
        model.set_param({"nthread": 1})
        found["XGBoost's `inplace_predict`"] = model.inplace_predict
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each cell of the table")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="keep the table there")
    asked = parser.parse_args()
    data = hr.make_letor(n_queries=100, rows_per_query=(60, 140), n_features=asked.features, seed=0)
    rows = np.resize(np.asarray(data.X, np.float64), (BLOCKS * max(SIZES), asked.features))
    rankers = {
        "line": hr.RankSVM(C=0.01, scale="standard"),
        "curves": hr.AdditiveRankSVM(C=0.01),
        "trees of LightGBM's": hr.LightGBMRanker(n_jobs=1),
        "trees of XGBoost's": hr.XGBoostRanker(n_jobs=1),
    }
    header, table = ["model", "scored by", *(f"{size:,} rows, µs" for size in SIZES)], []
    for name, ranker in rankers.items():
        ranker.fit(data)
        with tempfile.TemporaryDirectory() as folder:
            for program, score in programs(ranker, Path(folder), asked.features).items():
                np.testing.assert_allclose(score(rows[:50]), ranker.predict(rows[:50]), rtol=1e-3, atol=1e-4)
                cells = []
                for size in SIZES:
                    blocks = [rows[k * size : (k + 1) * size] for k in range(BLOCKS)]
                    middle, slow = times(score, blocks, asked.seconds)
                    cells.append(f"{middle:,.0f} / {slow:,.0f}" if middle >= 10 else f"{middle:.1f} / {slow:,.0f}")
                table.append([name, program, *cells])
                print(f"{name:<20} {program:<28}", "   ".join(f"{cell:>16}" for cell in cells), flush=True)
    if asked.write is not None:
        keep_table(asked.write, "serving", "python benchmarks/serving.py", header, table)


if __name__ == "__main__":
    main()
