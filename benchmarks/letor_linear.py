"""Linear RankSVM on OHSUMED and MQ2008, five folds, beside the rows of the papers.

    python benchmarks/letor_linear.py [--data FOLDER]      # or $HINGERANK_DATA

C is chosen among 2^-20 ... 2^6 by MAP on each fold's validation part; one row fixes C = 2^-14 on all folds instead.
All measures follow LETOR 3.0's evaluation script (preset letor3), as the papers' tables do.
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hingerank import RankSVM
from hingerank.data.read_write import read_folds
from hingerank.lab.comparison import compare
from hingerank.lab.leaderboard import leaderboard
from hingerank.lab.methods import Method
from hingerank.lab.results import Results
from measuring import default_data

MEASURES = ["map", "ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"]
SETS = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008"}
PAPERS = {
    "OHSUMED": [
        ("RSVM (Xu et al. 2019, Table 2)", [0.4427, 0.5289, 0.4553, 0.4392, None]),
        ("RankSVM-Primal (Lai et al. 2013, Table 7)", [0.4446, 0.5460, 0.4855, 0.4689, 0.4504]),
        ("RankSVM-Struct (Lai et al. 2013, Table 8)", [0.4478, 0.5515, 0.4850, 0.4729, 0.4523]),
        ("RankSVM-Primal (Chen et al. 2017, Table 4)", [0.4439, 0.5645, 0.5004, 0.4782, None]),
    ],
    "MQ2008": [
        ("RSVM (Xu et al. 2019, Table 4)", [0.4713, 0.3686, 0.4277, 0.4730, None]),
        ("RankSVM-Primal (Lai et al. 2013, Table 2)", [0.4744, None, None, None, None]),
        ("RankSVM-Struct (Lai et al. 2013, Table 8)", [0.4696, 0.3627, 0.4286, 0.4695, 0.2279]),
    ],
}


def beside_papers(name: str, results: Results, papers: list[tuple[str, list[float | None]]]) -> Table:
    """The papers' rows, then ours, best first."""
    table = Table("", *MEASURES, "seconds a fit", title=f"{name}, mean over five folds")
    for who, figures in papers:
        table.add_row(who, *("" if figure is None else f"{figure:.4f}" for figure in figures), "")
    table.add_section()
    for line in leaderboard(results, "map:letor3").lines:
        means = (f"{results.fold_means(line.method, f'{measure}:letor3').mean():.4f}" for measure in MEASURES)
        table.add_row(line.method, *means, f"{line.seconds:.3f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    data = parser.parse_args().data
    console = Console(width=140)
    Cs = [2.0**k for k in range(-20, 7)]
    methods = [
        Method("RankSVM, squared hinge", RankSVM, {"C": Cs}),
        Method("RankSVM, hinge", RankSVM, {"C": Cs}, fixed={"loss": "hinge"}),
        Method("RankSVM, squared hinge, C = 2^-14", RankSVM, {"C": [2.0**-14]}),
    ]
    names = [f"{name}:letor3" for name in MEASURES]
    for name, folder in SETS.items():
        results = compare(methods, read_folds(data / folder), "map:letor3", names)
        console.print(beside_papers(name, results, PAPERS[name]))


if __name__ == "__main__":
    main()
