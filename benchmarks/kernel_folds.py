"""Kernel rankers on real folds: Tables 4 and 5 and Figure 2 of Chen et al. (2017), beside the paper's figures.

    python benchmarks/kernel_folds.py            # quick: few values of C and gamma, m = 200
    python benchmarks/kernel_folds.py --full     # the paper's grid (C 2^-12 ... 2^6, gamma 2^-12 ... 2^2), m = 500
    python benchmarks/kernel_folds.py --figure   # measures against m on fold 1 of MQ2007-partial, as a plot

C and gamma are chosen on each fold's validation part, by MAP (MeanNDCG for MQ2007); for every gamma the rows are mapped
once and C follows a path. Measures follow LETOR's scripts: letor3 for OHSUMED, letor4 for MQ2007 and MQ2008. The paper
has no table for MQ2008. MQ2007-partial is 85 % of MQ2007's rows: its figures and Table 5's are not comparable.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.folds import read_folds
from hingerank.evaluation.leaderboard import leaderboard
from hingerank.evaluation.method import Method
from hingerank.evaluation.protocol import compare

SETS = {  # folder, preset, choosing measure, measures
    "OHSUMED": ("OHSUMED/QueryLevelNorm", "letor3", "map", ["ndcg@1", "ndcg@3", "ndcg@5", "p@1", "p@3", "map"]),
    "MQ2008": ("MQ2008", "letor4", "map", ["ndcg@1", "ndcg@3", "ndcg@5", "p@1", "p@3", "map"]),
    "MQ2007": ("MQ2007-partial", "letor4", "mean_ndcg", ["ndcg@1", "ndcg@3", "mean_ndcg", "p@1", "p@3", "map"]),
}
PAPER = {
    "OHSUMED": [
        ("RankSVM-Primal, Table 4", [0.5645, 0.5004, 0.4782, 0.6710, 0.6112, 0.4439]),
        ("RankNyström, Table 4", [0.5730, 0.4874, 0.4780, 0.6801, 0.5890, 0.4473]),
        ("RankRandomFourier, Table 4", [0.5728, 0.4965, 0.4804, 0.6801, 0.5983, 0.4472]),
    ],
    "MQ2008": [],
    "MQ2007": [
        ("RankSVM-Primal, Table 5 (all rows)", [0.4109, 0.4063, 0.4973, 0.4747, 0.4317, 0.4655]),
        ("RankNyström, Table 5 (all rows)", [0.4242, 0.4138, 0.5036, 0.4888, 0.4394, 0.4695]),
        ("RankRandomFourier, Table 5 (all rows)", [0.4224, 0.4136, 0.5036, 0.4871, 0.4386, 0.4698]),
    ],
}
FIGURE = [("ndcg@1", "NDCG@1"), ("ndcg@3", "NDCG@3"), ("mean_ndcg", "MeanNDCG"), ("map", "MAP")]


def methods(m: int, full: bool, exact: bool) -> list[Method]:
    powers = range(-12, 7) if full else range(-12, 3, 4)
    Cs, gammas = [2.0**k for k in powers], [2.0**k for k in (range(-12, 3) if full else (-7, -4, -1))]
    grid, fixed = {"gamma": gammas, "C": Cs}, {"n_components": m}
    found = [
        Method("RankSVM", hr.RankSVM, {"C": [2.0**k for k in range(-20, 7, 1 if full else 3)]}),
        Method("NystroemRankSVM", hr.NystroemRankSVM, grid, fixed),
        Method("NystroemRankSVM, kmeans", hr.NystroemRankSVM, grid, fixed | {"landmarks": "kmeans"}),
        Method("FourierRankSVM", hr.FourierRankSVM, grid, fixed),
        Method("FourierRankSVM, independent", hr.FourierRankSVM, grid, fixed | {"orthogonal": False}),
    ]
    return found + ([Method("KernelRankSVM", hr.KernelRankSVM, grid)] if exact else [])


def tables(console: Console, arguments) -> None:
    m = 500 if arguments.full else 200
    for name in arguments.sets:
        folder, preset, chooser, measures = SETS[name]
        names = [f"{measure}:{preset}" for measure in measures]
        folds = read_folds(arguments.data / folder)
        found = compare(
            methods(m, arguments.full, arguments.exact), folds, f"{chooser}:{preset}", names, folder=arguments.results
            and arguments.results / name,
        )  # fmt: skip
        shown = Table("", *measures, "seconds a fit", title=f"{folder}, mean over five folds, m = {m}")
        for who, figures in PAPER[name]:
            shown.add_row(who, *(f"{figure:.4f}" for figure in figures), "")
        shown.add_section()
        for line in leaderboard(found, f"{chooser}:{preset}").lines:
            shown.add_row(line.method, *(f"{line.means[k]:.4f}" for k in names), f"{line.seconds:.3f}")
        console.print(shown)


def figure(console: Console, arguments) -> None:
    """Figure 2: test measures against m, mean over seeds, with the linear ranker as a dotted line."""
    sizes = [50, 100, 200, 500, 1000, 2000] if arguments.full else [25, 50, 100, 200]
    seeds = range(3 if arguments.full else 2)
    train, validation, test = read_folds(arguments.data / "MQ2007-partial")[0]
    names = [f"{measure}:letor4" for measure, _ in FIGURE]

    def measured(ranker, data, what):
        return hr.evaluate(data.y, ranker.predict(data.X), data.qid, what)

    linear = max(
        hr.RankSVM().fit_path(train, Cs=2.0 ** np.arange(-16, 1)),
        key=lambda r: measured(r, validation, "mean_ndcg:letor4")["mean_ndcg:letor4"],
    )
    base = measured(linear, test, names)
    makers = {
        "Nyström": lambda **o: hr.NystroemRankSVM(**o),
        "Fourier, independent": lambda **o: hr.FourierRankSVM(orthogonal=False, **o),
        "Fourier, orthogonal": lambda **o: hr.FourierRankSVM(**o),
    }
    gammas, Cs = [2.0**-5], [2.0**-6, 2.0**-3]
    if arguments.full:
        gammas, Cs = [2.0**-7, 2.0**-5, 2.0**-3], [2.0**k for k in range(-10, 1, 2)]
    curves = {}
    for who, make in makers.items():
        for m in sizes:
            runs = []
            for seed in seeds:
                tried = [
                    r for g in gammas for r in make(n_components=m, gamma=g, random_state=seed).fit_path(train, Cs=Cs)
                ]
                best = max(tried, key=lambda r: measured(r, validation, "mean_ndcg:letor4")["mean_ndcg:letor4"])
                runs.append([measured(best, test, names)[k] for k in names])
            curves[who, m] = np.mean(runs, axis=0)
            console.print(f"{who}, m = {m}: " + ", ".join(f"{k} {v:.4f}" for k, v in zip(names, curves[who, m])))
    console.print("linear: " + ", ".join(f"{k} {base[k]:.4f}" for k in names))
    draw(sizes, list(makers), curves, base, names, arguments.plot)


def draw(sizes, makers, curves, base, names, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
    for k, (axis, (_, title)) in enumerate(zip(axes, FIGURE)):
        for who in makers:
            axis.plot(sizes, [curves[who, m][k] for m in sizes], marker="o", markersize=3, label=who)
        axis.axhline(base[names[k]], color="black", linestyle=":", label="linear")
        axis.set(title=title, xlabel="m", xscale="log")
        axis.set_xticks(sizes, [str(m) for m in sizes])
        axis.minorticks_off()
    axes[0].legend(frameon=False, fontsize=8)
    drawing.suptitle("MQ2007-partial (85 % of the rows), fold 1, test part")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, metadata={"Date": None})
    print(f"drawn in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--exact", action="store_true", help="add the exact kernel to the tables")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=["OHSUMED", "MQ2008"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HINGERANK_DATA", "../shared/data")))
    parser.add_argument("--results", type=Path, help="keep results in this folder and continue from there")
    parser.add_argument("--plot", type=Path, default=Path("docs/figures/kernel_components.svg"))
    arguments = parser.parse_args()
    console = Console(width=140)
    figure(console, arguments) if arguments.figure else tables(console, arguments)


if __name__ == "__main__":
    main()
