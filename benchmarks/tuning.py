"""What tuning costs: `hingerank.tune` over C and scale of RankSVM in five folds, in fits of one RankSVM on all rows.

    python benchmarks/tuning.py [--rows 720000] [--features 136] [--tails]
    python benchmarks/tuning.py --rankers rank-svm,additive-rank-svm,lightgbm --rows 5000 --features 46

The data are generated, with columns that differ in scale as those of a search engine do, with --tails some of them with
long ones; the scalings are those that `tune` tries on them by itself. The fit that everything is divided by is the best
setting's own, on all rows, with its scaling and without: the median of three.

With --rankers, what `hingerank.tune(name, data)` tries by itself: settings and how many of them were stopped, seconds,
processor seconds (in those of the first ranker, too), and the mean NDCG@10 of the best setting.
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


def compare_rankers(names: list[str], rows: int, features: int) -> None:
    """Print what tuning each of some rankers costs."""
    data = hr.make_letor(n_queries=rows // 50, rows_per_query=(30, 70), n_features=features, seed=0)
    print(f"{data.n_rows:,} rows, {data.n_features} features, {data.n_queries:,} queries")
    first = None
    for name in names:
        hr.tune(name, hr.make_letor(60, (30, 70), features, seed=1), folds=2)  # loads what these shapes need
        began, used = time.perf_counter(), time.process_time()
        found = hr.tune(name, data).tuning_
        took, used = time.perf_counter() - began, time.process_time() - used
        first = first or used
        stopped = sum(trial.problem is not None for trial in found.trials)
        print(
            f"{name:<20} {len(found.trials):>3} settings, {stopped:>3} stopped {took:>7.1f} s {used:>7.1f} "
            f"processor seconds {used / first:>6.1f} times   {found.chosen.mean:.4f} {found.best}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=720_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--tails", action="store_true")
    parser.add_argument("--rankers", help="names with commas between them: compare what tuning them costs")
    arguments = parser.parse_args()
    if arguments.rankers:
        compare_rankers(arguments.rankers.split(","), arguments.rows, arguments.features)
        return
    data = make(arguments.rows, arguments.features, arguments.tails)
    hr.tune("rank-svm", hr.make_letor(20, seed=1), folds=2)  # compiles what is needed
    print(f"{data.n_rows:,} rows, {data.n_features} features, {data.n_queries:,} queries")
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
