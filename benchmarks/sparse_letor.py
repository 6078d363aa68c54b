"""Sparse rankers on OHSUMED and MQ2008, beside what `hingerank reproduce` has of Lai et al. (2013), and their Fig. 1.

    python benchmarks/sparse_letor.py [OHSUMED] [MQ2008] [--data FOLDER] [--figures FOLDER] [--quick] [--write FOLDER]

Five folds; radius 1, 2, 4, ..., 256 (other methods: their own values, below) chosen by NDCG@10 on validation; measures
of LETOR's scripts; sparsity ratio = weights that are not 0 / all, averaged over folds. One standard error: the sparsest
model within it of the best on validation. p values compare each method with RankSVM over all test queries: paired t,
one-sided, and Fisher's randomisation test, two-sided.
--figures writes Fig. 1 and the path plots there; --quick leaves out the slow methods (classic steps, TGRank, RSRank).
--write keeps the tables of docs/sparse.md there (docs/results): references to the reproductions for the paper's methods
(`CITED`), and this run's figures for the others.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.data.read_write import read_folds
from hingerank.lab.report.figures import plot_path, save_figure
from hingerank.lab.statistics import paired_t, randomisation
from hingerank.notebook import new_figure
from hingerank.papers import find_table
from hingerank.rankers.sparse import choose_on_validation
from measuring import default_data, keep_table

COMMAND = "python benchmarks/sparse_letor.py --quick"
SETS = {
    "OHSUMED": ("OHSUMED/QueryLevelNorm", "letor3", "sparse-ohsumed"),
    "MQ2008": ("MQ2008", "letor4", "sparse-mq2008"),
}
MEASURES = {"ndcg@1": "N@1", "ndcg@3": "N@3", "ndcg@5": "N@5", "ndcg@10": "N@10", "map": "MAP"}
RADII = [2.0**k for k in range(9)]
CS = [2.0**k for k in range(-20, 5, 2)]


def one_by_one(ranker, train):
    """A fit from 0 for every radius, as in the paper: early stopping makes warm starts another method."""
    return [type(ranker)(**ranker.get_params() | {"radius": radius}).fit(train) for radius in RADII]


def selections(train, ks):
    """FS-Rank for these numbers of features, and some values of RankSVM's C for each."""
    return [r for C in CS[2::3] for r in hr.FeatureSelectionRanker(C=C).fit_path(train, n_features=ks)]


# name -> path of fitted rankers on the training rows
METHODS = {
    "RankSVM": lambda train: hr.RankSVM().fit_path(train, Cs=CS),
    "FenchelRank, classic": lambda train: one_by_one(hr.FenchelRank(variant="classic"), train),
    "FenchelRank, optimum (gap 1e-6)": lambda train: hr.FenchelRank(tol=1e-6).fit_path(train, radii=RADII),
    "SparseRankSVM, 20 values of C": lambda train: hr.SparseRankSVM().fit_path(train, Cs=20),
    "SparseRankSVM, ridge 1": lambda train: hr.SparseRankSVM(ridge=1.0).fit_path(train, Cs=20),
    "TGRank": lambda train: hr.TGRank().fit_path(train, Cs=[10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]),
    "RSRank": lambda train: hr.RSRank(max_iter=300).fit_path(train, Cs=[0.003, 0.01, 0.03, 0.1, 0.3, 1.0]),
    "FS-Rank, k chosen": lambda train: selections(train, (5, 10, 15, 20, 25)),
    **{f"FS-Rank (k = {k})": lambda train, k=k: selections(train, (k,)) for k in (5, 15, 25)},
}
CAUTIOUS = ("FenchelRank, optimum (gap 1e-6)", "SparseRankSVM, 20 values of C")  # also within one standard error
SLOW = ("FenchelRank, classic", "TGRank", "RSRank")

WITHIN = "one standard error"  # the sparsest model so near the best on validation
CITED = {  # row of the stored tables -> row of the reproductions, and the tables that have its NDCG, MAP and sparsity
    "RankSVM": ("RankSVM-Primal", ("lai2013-fig2", "lai2013-table2", "lai2013-table4")),
    "FenchelRank, classic": ("FenchelRank, classic", ("lai2013-table5", "lai2013-table5", "lai2013-table4")),
    "TGRank": ("TGRank", ("lai2013-table5", "lai2013-table5", "lai2013-table4")),
    "RSRank": ("RSRank", ("lai2013-table5", "lai2013-table5", "lai2013-table4")),
    **{f"FS-Rank (k = {k})": (f"FS-Rank(k={k})", ("lai2013-table7", "lai2013-table7", "")) for k in (5, 15, 25)},
}
STORED = [  # rows of the stored tables, in order: those of CITED, and of METHODS
    "RankSVM", "FenchelRank, classic", "FenchelRank, optimum (gap 1e-6)", f"FenchelRank, optimum, {WITHIN}",
    "SparseRankSVM, 20 values of C", f"SparseRankSVM, 20 values of C, {WITHIN}", "SparseRankSVM, ridge 1",
    "TGRank", "RSRank", *(f"FS-Rank (k = {k})" for k in (5, 15, 25)), "FS-Rank, k chosen",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"default: {' '.join(SETS)}")
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", type=Path, help="folder to keep the tables in, such as docs/results")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    console = Console(width=150)
    if unknown := set(asked.sets) - set(SETS):
        parser.error(f"there is no set {', '.join(unknown)} here: choose from {', '.join(SETS)}")
    for name in asked.sets or SETS:
        folder, preset, table = SETS[name]
        folds = read_folds(asked.data / folder)
        figure1(console, name, folds, preset, asked.figures)
        if asked.figures:
            draw_path(name, folds[0], asked.figures)
        results = {
            method: run(METHODS[method], folds, preset) for method in METHODS if not (asked.quick and method in SLOW)
        }
        for method in CAUTIOUS:
            title = f"{method.removesuffix(' (gap 1e-6)')}, {WITHIN}"
            results[title] = run(METHODS[method], folds, preset, standard_errors=1)
        console.print(accuracy_table(name, results))
        console.print(p_value_table(name, results))
        if asked.write:
            header = [name, *MEASURES.values(), "sparsity"]
            keep_table(asked.write, table, COMMAND, header, stored_rows(name, folds[0].train.n_features, results))


def run(path_of, folds, preset, standard_errors=0):
    """({measure: a value per test query, pooled}, fold means by measure, sparsity ratios, chosen values)."""
    names = [f"{measure}:{preset}" for measure in MEASURES]
    pooled, means, ratios, chosen = {m: [] for m in MEASURES}, {m: [] for m in MEASURES}, [], []
    for fold in folds:
        chosen_by = {"measure": f"ndcg@10:{preset}", "standard_errors": standard_errors}
        best, _ = choose_on_validation(path_of(fold.train), fold.validation, **chosen_by)
        values = hr.evaluate(fold.test.y, best.predict(fold.test), fold.test.qid, names, per_query=True)
        for measure, name in zip(MEASURES, names):
            pooled[measure].extend(values[name])
            means[measure].append(np.mean(values[name]))
        ratios.append(np.mean(best.coef_ != 0))
        chosen.append(getattr(best, getattr(best, "path_parameter", "C")))
    return pooled, means, ratios, chosen


def accuracy_table(name, results) -> Table:
    table = Table("", *MEASURES.values(), "sparsity", "chosen in folds 1 to 5", title=f"{name}, five folds")
    for method, result in results.items():
        table.add_row(method, *own_cells(result), ", ".join(f"{value:.3g}" for value in result[-1]))
    return table


def own_cells(result) -> list[str]:
    _, means, ratios, _ = result
    return [f"{value:.4f}".removeprefix("0") for value in (*(np.mean(means[m]) for m in MEASURES), np.mean(ratios))]


def stored_rows(name, n_features, results) -> list[list[str]]:
    rows = []
    for method in STORED:
        if method not in CITED:
            rows.append([method, *own_cells(results[method])])
            continue
        row, (ndcg, precision, ratio) = CITED[method]
        columns = [(ndcg, "N@1"), (ndcg, "N@3"), (ndcg, "N@5"), (ndcg, "N@10"), (precision, "MAP"), (ratio, "ratio")]
        if not any(row in section.figures for section in find_table(precision).sections if section.title == name):
            continue
        of_paper = "RankSVM-Primal" if method == "RankSVM" else method.removesuffix(", classic")
        for title, paper in ((f"{of_paper}, paper", True), (method, False)):
            cells = [cited(name, row, table, column, paper) for table, column in columns if table]
            if not ratio:  # FS-Rank's number of features is given
                cells.append(f"{int(row.partition('=')[2].rstrip(')')) / n_features:.4f}".removeprefix("0"))
            rows.append([title, *cells])
    return rows


def cited(name, row, table, column, paper) -> str:
    """The reference to a figure of a reproduction; a dash where the paper has none."""
    section = next(section for section in find_table(table).sections if section.title == name)
    given = section.figures.get(row, [None] * len(section.columns))[section.columns.index(column)]
    return "–" if paper and given is None else f"{{{'paper ' * paper}{table} / {name} / {row} / {column}}}"


def p_value_table(name, results) -> Table:
    title = f"{name}: p values against RankSVM, one-sided t / two-sided randomisation (Table 3's comparison)"
    table = Table("", *MEASURES.values(), title=title)
    dense = results["RankSVM"][0]
    for method, (pooled, *_) in results.items():
        if method == "RankSVM" or "k =" in method:
            continue
        cells = []
        for measure in MEASURES:
            t = paired_t(pooled[measure], dense[measure])
            one_sided = t.p / 2 if t.statistic > 0 else 1 - t.p / 2
            cells.append(f"{one_sided:.4f} / {randomisation(pooled[measure], dense[measure]).p:.4f}")
        table.add_row(method, *cells)
    return table


def figure1(console, name, folds, preset, figures) -> None:
    """NDCG@10 of every feature alone over all queries, and of ten draws of random weights that add up to 1.

    Also how many features are above that when ties are averaged: features that are 0 in most rows tie them.
    """
    parts = [fold.test for fold in folds]
    X, y = np.vstack([np.asarray(part.X) for part in parts]), np.concatenate([part.y for part in parts])
    qid, measure = np.concatenate([part.qid for part in parts]), f"ndcg@10:{preset}"
    weights = np.random.default_rng(0).dirichlet(np.ones(X.shape[1]), 10)

    def single_and_random(name: str) -> tuple[np.ndarray, float]:
        alone = np.array([hr.evaluate(y, column, qid, name)[name] for column in X.T])
        return alone, float(np.mean([hr.evaluate(y, X @ w, qid, name)[name] for w in weights]))

    (alone, line), (averaged, below) = (single_and_random(f"{measure}{ties}") for ties in ("", ":ties=average"))
    above = f"{(alone > line).sum()} (ties averaged: {(averaged > below).sum()})"
    best = ", ".join(f"f{j + 1} {alone[j]:.4f}" for j in np.argsort(-alone)[:5])
    console.print(f"{name}, Fig. 1: random weights {line:.4f}; {above} of {len(alone)} features above it; best {best}")
    if figures:
        figures.mkdir(parents=True, exist_ok=True)
        file = figures / f"sparse_features_{name.lower()}.svg"
        figure = new_figure(6.4, 3.2)
        axes = figure.subplots()
        axes.plot(np.arange(1, len(alone) + 1), alone, "o", ms=4, color="C0", label="one feature alone")
        axes.axhline(line, color="C3", label="random weights, mean of ten")
        axes.set(xlabel="feature", ylabel="NDCG@10", title=f"{name}: features alone")
        axes.legend(fontsize="small", frameon=False)
        save_figure(figure, file)


def draw_path(name, fold, figures) -> None:
    path = hr.FenchelRank().fit_path(fold.train, radii=np.geomspace(0.1, 16, 40).tolist())
    figures.mkdir(parents=True, exist_ok=True)
    plot_path(path, fold.validation, file=figures / f"sparse_path_{name.lower()}.svg")


if __name__ == "__main__":
    main()
