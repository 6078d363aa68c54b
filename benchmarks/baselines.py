"""The baselines on OHSUMED and MQ2008, five folds, beside the rows of the papers.

    python benchmarks/baselines.py [--data FOLDER] [--sets OHSUMED,MQ2008] [--trees] [--only PRank,SVM-MAP]
        [--write FOLDER]

Settings are chosen by MAP on each fold's validation part. All measures follow LETOR 3.0's evaluation script (preset
letor3), as the papers' tables do. RankNet, ListNet and LambdaMART of Xu et al. are RankLib's, AdaRank and RankBoost are
LETOR's published baselines; here RankNet and FRank are linear.

--write, with --trees and OHSUMED alone, keeps the table of docs/baselines.md there (docs/results): references to the
reproductions for the methods that a paper has (`CITED`), and this run's figures for the others.
"""

import argparse
import warnings
from pathlib import Path

import hingerank as hr
from hingerank.data.read_write import read_folds
from hingerank.lab.comparison import compare
from hingerank.lab.leaderboard import leaderboard
from hingerank.lab.methods import Method
from hingerank.lab.results import Results
from hingerank.papers import TABLES
from measuring import default_data, keep_table, show_table

MEASURES = {"map": "MAP", "ndcg@1": "N@1", "ndcg@3": "N@3", "ndcg@5": "N@5", "ndcg@10": "N@10"}
SETS = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008"}
PAPERS = ("xu2019-table2", "xu2019-table4", "lai2013-table8", "chen2017-table4")
CITED = {  # in the stored table: method -> the tables that print it, and whose program made their figures
    "RankNet": {"xu2019-table2": "RankLib, Xu et al. 2019"},
    "ListNet": {"xu2019-table2": "RankLib, Xu et al. 2019", "chen2017-table4": "LETOR"},
    "RankRLS": {"chen2017-table4": "Chen et al. 2017"},
    "AdaRank-MAP": {"chen2017-table4": "LETOR"},
    "AdaRank-NDCG": {"chen2017-table4": "LETOR"},
    "RankBoost": {"chen2017-table4": "LETOR"},
    "LambdaMART": {"xu2019-table2": "RankLib, Xu et al. 2019"},
    "XGBoost": {"xu2019-table2": "Xu et al. 2019"},
}
RANK_SVMS = {"RankSVM", "RankSVM, hinge"}  # not in the stored table
BAGS = {"n_bags": 10, "bag_share": 0.3}
PRIMAL = {"form": "primal", "max_iter": 150}


def powers(first: int, last: int) -> dict[str, list[float]]:
    return {"C": [2.0**k for k in range(first, last + 1, 2)]}


def methods(trees: bool) -> list[Method]:
    rounds = {"max_iter": [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300]}
    found = [
        Method("RankSVM", hr.RankSVM, powers(-20, 6)),
        Method("RankSVM, hinge", hr.RankSVM, powers(-20, 6), {"loss": "hinge"}),
        Method("RankNet", hr.RankNet, powers(-18, 2)),
        Method("FRank", hr.FRank, powers(-14, 2)),
        Method("ListNet", hr.ListNet, powers(-14, 10)),
        Method("ListMLE", hr.ListMLE, powers(-14, 6)),
        Method("RankRLS", hr.RankRLS, powers(-20, 2)),
        Method("RankRLS, a query's pairs divided by its rows", hr.RankRLS, powers(-14, 6), {"pair_weight": "rows"}),
        Method("CRR", hr.CRR, powers(-4, 16)),
        Method("AdaRank-MAP", hr.AdaRank, rounds, {"measure": "map"}),
        Method("AdaRank-NDCG", hr.AdaRank, rounds, {"measure": "ndcg@10"}),
        Method("RankBoost", hr.RankBoost, rounds),
        Method("Pointwise regression", hr.PointwiseRegression, powers(-4, 16)),
        Method("PRank", hr.PRank, {"max_iter": [1, 2, 5, 10, 20, 50, 100]}, {"scale": "query-standard"}),
        Method("OAP-BPM", hr.PRank, {"max_iter": [1, 2, 5, 10, 20, 50, 100]}, {"scale": "query-standard"} | BAGS),
        Method("OrdinalSVM", hr.OrdinalSVM, powers(-14, 2)),
        Method("OrdinalSVM, logistic loss", hr.OrdinalSVM, powers(-14, 2), {"loss": "logistic"}),
        Method("MPRank, one-sided", hr.RankSVM, powers(-18, 0), {"loss": "grade_margins"}),
        Method("RankingFM", hr.RankingFM, powers(-16, -8), {"rank": 2}),
        Method(
            "FactorizedRankSVM, squared hinge",
            hr.FactorizedRankSVM,
            powers(-14, -6),
            PRIMAL | {"loss": "squared_hinge"},
        ),
        Method("RegularizedRankSVM, squared hinge", hr.RegularizedRankSVM, powers(-16, -2), {"loss": "squared_hinge"}),
        Method("SVM-MAP", hr.SVMMAP, powers(-12, 8)),
        Method("LambdaRank", hr.LambdaRank, powers(-12, 2)),
        Method("SoftRank", hr.SoftRank, powers(-4, 12)),
        Method("RankCosine", hr.RankCosine, powers(-12, 10)),
    ]
    if trees:
        counts = {"n_estimators": [10, 20, 40, 70, 100, 150]}
        small = {"num_leaves": 7, "learning_rate": 0.05, "min_child_samples": 50}
        found += [
            Method("LambdaMART", hr.LightGBMRanker, counts, small),
            Method("LambdaMART, ten bags (BL-MART)", hr.LightGBMRanker, counts, small | {"n_bags": 10}),
            Method("GBRank", hr.GBRank, counts, small),
            Method("QBRank", hr.GBRank, counts | {"alpha": [0.1, 0.5, 0.9]}, small),
            Method("McRank", hr.McRank, counts, small),
            Method("McRank, ordinal form", hr.McRank, counts, small | {"variant": "ordinal"}),
            Method("XGBoost", hr.XGBoostRanker, counts, {"max_depth": 3, "learning_rate": 0.1}),
        ]
    return found


def printed(name: str) -> list[list[str]]:
    """The rows that the papers print for a set."""
    lines = []
    for table in (TABLES[paper] for paper in PAPERS):
        for section in (section for section in table.sections if section.title == name):
            columns = [column.replace("NDCG", "N") for column in section.columns]
            for row, given in section.figures.items():
                figures = dict(zip(columns, given))
                found = [figures.get(title) for title in MEASURES.values()]
                lines.append([f"{row} ({table.name})", *("" if f is None else f"{f:.4f}" for f in found), ""])
    return lines


def ours(results: Results) -> list[list[str]]:
    """Our rows, best first."""
    lines = []
    for line in leaderboard(results, "map:letor3").lines:
        means = (f"{results.fold_means(line.method, f'{measure}:letor3').mean():.4f}" for measure in MEASURES)
        lines.append([line.method, *means, f"{line.seconds:.3f}"])
    return lines


def stored_rows(results: Results) -> list[list[str]]:
    """The rows of the stored table: the paper's figures and ours, of MAP and of NDCG@1."""
    rows = []
    for name, tables in CITED.items():
        row = [name]
        for column in ("MAP", "NDCG@1"):
            places = {f"{table} / OHSUMED / {name} / {column}": whose for table, whose in tables.items()}
            row.append(", ".join(f"{{paper {at}}}" + f" ({who})" * (column == "MAP") for at, who in places.items()))
            row.append(f"{{{next(iter(places))}}}")
        rows.append(row)
    for name in (name for name in results.methods if name not in RANK_SVMS | CITED.keys()):
        means = (results.fold_means(name, f"{measure}:letor3").mean() for measure in ("map", "ndcg@1"))
        average_precision, gain = (f"{mean:.4f}".removeprefix("0") for mean in means)
        rows.append([name, "–", average_precision, "–", gain])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--sets", default="OHSUMED")
    parser.add_argument("--only", default="", help="names of methods, with commas between them")
    parser.add_argument("--trees", action="store_true", help="LightGBM and XGBoost as well")
    parser.add_argument("--write", type=Path, help="folder to keep the table in, such as docs/results")
    asked = parser.parse_args()
    if asked.write and (asked.only or not asked.trees or asked.sets != "OHSUMED"):
        parser.error(
            "the stored table has all methods on OHSUMED: give --write with --trees, without --only and --sets"
        )
    names, header = [f"{name}:letor3" for name in MEASURES], ["", *MEASURES.values(), "seconds a fit"]
    warnings.simplefilter("ignore")
    wanted = [method for method in methods(asked.trees) if not asked.only or method.name in asked.only.split(",")]
    for name in asked.sets.split(","):
        results = compare(wanted, read_folds(asked.data / SETS[name]), "map:letor3", names)
        show_table("", "", header, printed(name) + ours(results), f"{name}, mean over five folds")
        if asked.write:
            columns = ["", "paper's MAP", "ours", "paper's NDCG@1", "ours"]
            keep_table(
                asked.write,
                "baselines-ohsumed",
                "python benchmarks/baselines.py --trees",
                columns,
                stored_rows(results),
            )


if __name__ == "__main__":
    main()
