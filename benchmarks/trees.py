"""Seconds to score rows with LambdaMART's trees: hingerank against the library that grew them.

    python benchmarks/trees.py [--rows 100000] [--features 136] [--trees 100] [--repeat 5]

Both get the same checked float64 rows and the same number of threads, and have been called once before the clock
starts; XGBoost's DMatrix is made within its time, as its answer needs one. Scores must be equal to the last bit.
"""

import argparse

import numpy as np

import hingerank as hr
from hingerank.kernels.threads import asked_threads
from measuring import best_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 100_000, "features": 136, "trees": 100, "repeat": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.normal(size=(asked.rows, asked.features))
    y = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 2] + random.normal(size=asked.rows)), 0, 4)
    qid, few = np.arange(asked.rows) // 100, slice(0, 20_000)
    for cls in (hr.LightGBMRanker, hr.XGBoostRanker):
        try:
            ranker = cls(n_estimators=asked.trees).fit(X[few], y[few], qid[few])
        except ImportError as error:
            print(error)
            continue
        for rows, kind in ((X, "all rows"), (X[:100], "100 rows")):
            ours, scores = best_of(lambda ranker=ranker, rows=rows: ranker._scores(rows), asked.repeat)
            theirs, own = best_of(library_scores(ranker, rows), asked.repeat)
            if not np.array_equal(scores, own):
                raise SystemExit(f"{cls.requires} gives other scores")
            name = f"{cls.requires}, {kind}"
            print(f"{name:<20} its own {theirs:.5f} s, here {ours:.5f} s: {theirs / ours:.1f} times as fast")


def library_scores(ranker, rows):
    """A call of the library's own predict."""
    booster, threads = ranker.boosters_[0], asked_threads(ranker.n_jobs)
    if ranker.requires == "lightgbm":
        return lambda: booster.predict(rows, num_threads=threads)
    booster.set_param({"nthread": threads})
    return lambda: booster.predict(ranker.library().DMatrix(rows, nthread=threads))


if __name__ == "__main__":
    main()
