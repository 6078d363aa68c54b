"""The baselines on OHSUMED and MQ2008, five folds, beside the rows of the papers.

    python benchmarks/baselines.py [--data FOLDER] [--sets OHSUMED,MQ2008] [--trees] [--only PRank,SVM-MAP]

Settings are chosen by MAP on each fold's validation part. All measures follow LETOR 3.0's evaluation script (preset
letor3), as the papers' tables do. RankNet, ListNet and LambdaMART of Xu et al. are RankLib's, AdaRank and RankBoost are
LETOR's published baselines; here RankNet and FRank are linear.
"""

import argparse
import warnings
from pathlib import Path

from rich.console import Console

import hingerank as hr
from hingerank.data.read_write import read_folds
from hingerank.lab.comparison import compare
from hingerank.lab.methods import Method
from letor_linear import MEASURES, SETS, beside_papers
from measuring import default_data

PAPERS = {
    "OHSUMED": [
        ("RankNet (Xu et al. 2019, Table 2)", [0.4040, 0.4007, 0.3616, 0.3388, None]),
        ("ListNet (Xu et al. 2019, Table 2)", [0.4443, 0.5134, 0.4664, 0.4530, None]),
        ("ListNet (Lai et al. 2013, Table 8)", [0.4457, 0.5326, 0.4732, 0.4432, 0.4410]),
        ("RankRLS (Chen et al. 2017, Table 4)", [0.4470, 0.5490, 0.4770, 0.4530, None]),
        ("AdaRank-MAP (Chen et al. 2017, Table 4)", [0.4487, 0.5388, 0.4682, 0.4613, None]),
        ("AdaRank-NDCG (Lai et al. 2013, Table 8)", [0.4498, 0.5330, 0.4790, 0.4673, 0.4496]),
        ("RankBoost (Lai et al. 2013, Table 8)", [0.4411, 0.4632, 0.4555, 0.4494, 0.4302]),
        ("LambdaMART (Xu et al. 2019, Table 2)", [0.4096, 0.5166, 0.4443, 0.4366, None]),
        ("XGBoost (Xu et al. 2019, Table 2)", [0.4301, 0.5325, 0.4758, 0.4485, None]),
    ],
    "MQ2008": [
        ("RankNet (Xu et al. 2019, Table 4)", [0.4522, 0.3410, 0.3991, 0.4500, None]),
        ("ListNet (Xu et al. 2019, Table 4)", [0.4415, 0.3244, 0.3916, 0.4396, None]),
        ("ListNet (Lai et al. 2013, Table 8)", [0.4775, 0.3754, 0.4324, 0.4747, 0.2303]),
        ("AdaRank-NDCG (Lai et al. 2013, Table 8)", [0.4824, 0.3826, 0.4420, 0.4821, 0.2307]),
        ("RankBoost (Lai et al. 2013, Table 8)", [0.4775, 0.3856, 0.4288, 0.4666, 0.2255]),
        ("LambdaMART (Xu et al. 2019, Table 4)", [0.4731, 0.3622, 0.4299, 0.4714, None]),
        ("XGBoost (Xu et al. 2019, Table 4)", [0.4790, 0.3839, 0.4293, 0.4764, None]),
    ],
}


BAGS = {"n_bags": 10, "bag_share": 0.3}
PRIMAL = {"form": "primal", "max_iter": 150}


def powers(first: int, last: int) -> dict[str, list[float]]:
    return {"C": [2.0**k for k in range(first, last + 1, 2)]}


def methods(trees: bool) -> list[Method]:
    rounds = {"max_iter": [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300]}
    found = [
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
        Method("OrdinalSVM logistic", hr.OrdinalSVM, powers(-14, 2), {"loss": "logistic"}),
        Method("MPRank one-sided", hr.RankSVM, powers(-18, 0), {"loss": "grade_margins"}),
        Method("RankingFM", hr.RankingFM, powers(-16, -8), {"rank": 2}),
        Method("Factorized squared hinge", hr.FactorizedRankSVM, powers(-14, -6), PRIMAL | {"loss": "squared_hinge"}),
        Method("Regularized squared hinge", hr.RegularizedRankSVM, powers(-16, -2), {"loss": "squared_hinge"}),
        Method("SVM-MAP", hr.SVMMAP, powers(-12, 8)),
        Method("LambdaRank", hr.LambdaRank, powers(-12, 2)),
        Method("SoftRank", hr.SoftRank, powers(-4, 12)),
        Method("RankCosine", hr.RankCosine, powers(-12, 10)),
    ]
    if trees:
        counts = {"n_estimators": [10, 20, 40, 70, 100, 150]}
        small = {"num_leaves": 7, "learning_rate": 0.05, "min_child_samples": 50}
        found += [
            Method("LambdaMART (LightGBM)", hr.LightGBMRanker, counts, small),
            Method("BL-MART: 10 bags of it", hr.LightGBMRanker, counts, small | {"n_bags": 10}),
            Method("GBRank", hr.GBRank, counts, small),
            Method("QBRank", hr.GBRank, counts | {"alpha": [0.1, 0.5, 0.9]}, small),
            Method("McRank", hr.McRank, counts, small),
            Method("McRank ordinal", hr.McRank, counts, small | {"variant": "ordinal"}),
            Method("XGBoost", hr.XGBoostRanker, counts, {"max_depth": 3, "learning_rate": 0.1}),
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--sets", default="OHSUMED")
    parser.add_argument("--only", default="", help="names of methods, with commas between them")
    parser.add_argument("--trees", action="store_true", help="LightGBM and XGBoost as well")
    asked = parser.parse_args()
    console, names = Console(width=140), [f"{name}:letor3" for name in MEASURES]
    warnings.simplefilter("ignore")
    wanted = [method for method in methods(asked.trees) if not asked.only or method.name in asked.only.split(",")]
    for name in asked.sets.split(","):
        results = compare(wanted, read_folds(asked.data / SETS[name]), "map:letor3", names)
        console.print(beside_papers(name, results, PAPERS[name]))


if __name__ == "__main__":
    main()
