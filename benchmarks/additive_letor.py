"""AdditiveRankSVM on real sets against lines, kernels and trees, each with the same number of settings to choose from.

    python benchmarks/additive_letor.py [--data FOLDER] [--sets OHSUMED,MQ2008,MQ2007-partial] [--write FOLDER]

Five folds; of 18 settings of each method the one with the largest NDCG@10 on validation is measured on test. p is of a
two-sided randomisation test against AdditiveRankSVM over the test queries of all folds. --write keeps the table as
additive-letor.json there (docs/results), for the documentation; --folder keeps every fit and continues from it.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.read_write import read_folds
from hingerank.lab.comparison import compare
from hingerank.lab.leaderboard import shared_values
from hingerank.lab.methods import Method
from hingerank.lab.statistics import randomisation
from measuring import default_data, keep_table

SETS = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008", "MQ2007-partial": "MQ2007-partial"}
MEASURES = ("ndcg@10", "map")
SIX = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
METHODS = [
    Method("AdditiveRankSVM", hr.AdditiveRankSVM, {"smoothness": [1.0, 10.0, 100.0], "C": SIX}),
    Method("RankSVM", hr.RankSVM, {"C": np.geomspace(1e-6, 10.0, 18).tolist()}, {"scale": "standard"}),
    Method("NystroemRankSVM", hr.NystroemRankSVM, {"gamma": ["0.25*scale", "scale", "4*scale"], "C": SIX}),
    Method(
        "LightGBMRanker", hr.LightGBMRanker,
        {"num_leaves": [7, 15, 31], "learning_rate": [0.05, 0.1], "n_estimators": [50, 100, 200]}, {"n_jobs": 1},
    ),
    Method(
        "XGBoostRanker", hr.XGBoostRanker,
        {"max_depth": [3, 4, 6], "learning_rate": [0.1, 0.3], "n_estimators": [20, 50, 100]}, {"n_jobs": 1},
    ),
]  # fmt: skip


def rows_of(name, results):
    """(method, means of measures, p against the first method) of a set."""
    found = []
    for method in (method.name for method in METHODS):
        pair = shared_values(results, "ndcg@10", METHODS[0].name, method)
        p = None if method == METHODS[0].name else randomisation(*pair).p
        means = [float(np.mean(results.fold_means(method, measure))) for measure in MEASURES]
        found.append((name, method, *means, p))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in asked.sets.split(","):
        folder = None if asked.folder is None else asked.folder / name
        rows += rows_of(name, compare(METHODS, read_folds(asked.data / SETS[name]), "ndcg@10", MEASURES, folder=folder))
    header = ["set", "method", "NDCG@10", "MAP", "p"]
    cells = [[n, m, f"{a:.4f}", f"{b:.4f}", "" if p is None else f"{p:.3f}"] for n, m, a, b, p in rows]
    table = Table(*header)
    for row in cells:
        table.add_row(*row)
    Console(width=120).print(table)
    if asked.write:
        keep_table(asked.write, "additive-letor", "python benchmarks/additive_letor.py", header, cells)


if __name__ == "__main__":
    main()
