"""What tuning costs: `hingerank.tune` over C and scale of RankSVM in five folds, in fits of one RankSVM on all rows.

    python benchmarks/tuning.py [--rows 720000] [--features 136] [--tails]
    python benchmarks/tuning.py --usual rank-svm,additive-rank-svm --rows 20000 --features 46

The data are generated, with columns that differ in scale as those of a search engine do, with --tails some of them with
long ones; the scalings are those that `tune` tries on them by itself. The fit that everything is divided by is the best
setting's own, on all rows, with its scaling and without: the median of three. --usual tunes rankers with the settings
that `tune` tries by itself, and prints seconds, settings, how many of them were stopped, and what was chosen.
"""

import argparse
import time

import numpy as np

import hingerank as hr
from hingerank.search.settings import scales_for


def make(rows: int, features: int, tails: bool, seed: int = 0) -> hr.RankingData:
    """Generated rows whose columns have spreads from 1e-3 to 1e3; tails: every fourth has a long one."""
    data = hr.make_letor(n_queries=rows // 120, rows_per_query=(60, 180), n_features=features, seed=seed)
    widths = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, features)
    X = np.asarray(data.X, np.float64)
    if tails:
        X[:, ::4] = np.expm1(8 * X[:, ::4])
    return hr.RankingData.from_arrays(X * widths, data.y, data.qid)


def seconds(ranker: hr.RankSVM, data: hr.RankingData) -> float:
    started = time.perf_counter()
    ranker.fit(data)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=720_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--tails", action="store_true")
    parser.add_argument("--usual", help="rankers, with commas between them")
    arguments = parser.parse_args()
    data = make(arguments.rows, arguments.features, arguments.tails)
    hr.tune("rank-svm", hr.make_letor(20, seed=1), folds=2)  # compiles what is needed
    print(f"{data.n_rows:,} rows, {data.n_features} features, {data.n_queries:,} queries")
    if arguments.usual:
        for name in arguments.usual.split(","):
            started = time.process_time()
            found = hr.tune(name, data, folds=5).tuning_
            stopped = sum(t.problem is not None for t in found.trials)
            spent = time.process_time() - started
            print(f"{name}: {spent:.1f} processor seconds, {stopped} of {len(found.trials)} settings stopped")
            print(found)
        return
    started = time.perf_counter()
    grid = {"C": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1], "scale": scales_for(data.X)}
    ranker = hr.tune("rank-svm", data, folds=5, params=grid)
    tuned = time.perf_counter() - started
    print(ranker.tuning_)
    scaled = hr.RankingData(ranker.scaler_.transform(data.X, data.qid), data.y, data.qid)
    for what, rows, scale in (("with its scaling", data, ranker.scale), ("of scaled rows", scaled, None)):
        fit = float(np.median([seconds(hr.RankSVM(C=ranker.C, scale=scale), rows) for _ in range(3)]))
        print(f"tuning {tuned:.1f} s, one fit {what} {fit:.2f} s: {tuned / fit:.0f} fits")


if __name__ == "__main__":
    main()
