"""Sparse rankers on OHSUMED and MQ2008 beside the figures of Lai et al. (2013): Fig. 1 and Tables 2 to 5 and 7.

    python benchmarks/sparse_letor.py [OHSUMED] [MQ2008] [--data FOLDER] [--figures FOLDER] [--quick]

Five folds; radius 1, 2, 4, ..., 256 (other methods: their own values, below) chosen by NDCG@10 on validation; measures
of LETOR's scripts; sparsity ratio = weights that are not 0 / all, averaged over folds. 1 SE: the sparsest model within
one standard error of the best on validation. p values compare each method with RankSVM over all test queries: paired t
as the paper does, one-sided, and Fisher's randomisation test, two-sided.
--figures writes Fig. 1 and the path plots there; --quick leaves out the slow methods (classic steps, TGRank, RSRank).
`hingerank reproduce lai2013-table5` and its like run the same tables with every fit kept on disk.
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
from hingerank.rankers.sparse import choose_on_validation
from measuring import default_data

SETS = {"OHSUMED": ("OHSUMED/QueryLevelNorm", "letor3"), "MQ2008": ("MQ2008", "letor4")}
MEASURES = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map")
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
    "FenchelRank, optimum": lambda train: hr.FenchelRank(tol=1e-6).fit_path(train, radii=RADII),
    "SparseRankSVM, 20 values of C": lambda train: hr.SparseRankSVM().fit_path(train, Cs=20),
    "SparseRankSVM, ridge 1": lambda train: hr.SparseRankSVM(ridge=1.0).fit_path(train, Cs=20),
    "TGRank": lambda train: hr.TGRank().fit_path(train, Cs=[10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]),
    "RSRank": lambda train: hr.RSRank(max_iter=300).fit_path(train, Cs=[0.003, 0.01, 0.03, 0.1, 0.3, 1.0]),
    "FS-Rank, k chosen": lambda train: selections(train, (5, 10, 15, 20, 25)),
    **{f"FS-Rank, k={k}": lambda train, k=k: selections(train, (k,)) for k in (5, 15, 25)},
}
CAUTIOUS = ("FenchelRank, optimum", "SparseRankSVM, 20 values of C")  # also chosen within one standard error
SLOW = ("FenchelRank, classic", "TGRank", "RSRank")

PAPER = {  # NDCG@1, 3, 5, 10, MAP, sparsity ratio: Tables 2, 4, 5, 7 and 8
    "OHSUMED": {
        "RankSVM-Primal": (0.5460, 0.4855, 0.4689, 0.4504, 0.4446, 0.8),
        "FenchelRank": (0.5456, 0.5166, 0.4826, 0.4637, 0.4486, 0.2889),
        "TGRank": (0.5616, 0.4923, 0.4813, 0.4524, 0.4479, 0.2178),
        "RSRank": (0.5395, 0.4831, 0.4684, 0.4503, 0.4486, 0.5156),
        "FS-Rank(k=5)": (0.5228, 0.4811, 0.4633, 0.4494, 0.4416, None),
        "FS-Rank(k=15)": (0.5457, 0.5027, 0.4778, 0.4573, 0.4492, None),
        "FS-Rank(k=25)": (0.5648, 0.5012, 0.4770, 0.4542, 0.4511, None),
    },
    "MQ2008": {
        "RankSVM-Primal": (None, None, None, None, 0.4744, 0.8697),
        "FenchelRank": (0.3762, 0.4402, 0.4790, 0.2317, 0.4785, 0.3435),
        "TGRank": (0.3626, 0.4303, 0.4712, 0.2277, 0.4709, 0.3957),
        "RSRank": (0.3686, 0.4340, 0.4734, 0.2282, 0.4781, 0.5261),
    },
}
PAPER_P = {  # Table 3, FenchelRank against RankSVM-Primal
    "OHSUMED": (0.5, 0.0053, 0.0602, 0.0455, 0.0838),
    "MQ2008": (0.3506, 0.1239, 0.2731, 0.3891, 0.1650),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], default=list(SETS))
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    console = Console(width=150)
    for name in asked.sets:
        folder, preset = SETS[name]
        folds = read_folds(asked.data / folder)
        figure1(console, name, folds, preset, asked.figures)
        if asked.figures:
            draw_path(name, folds[0], asked.figures)
        results = {
            method: run(METHODS[method], folds, preset) for method in METHODS if not (asked.quick and method in SLOW)
        }
        for method in CAUTIOUS:
            results[f"{method}, 1 SE"] = run(METHODS[method], folds, preset, standard_errors=1)
        console.print(accuracy_table(name, results))
        console.print(p_value_table(name, results))


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
    table = Table("", *(m.upper() for m in MEASURES), "sparsity", "chosen in folds 1 to 5", title=f"{name}, five folds")
    for method, figures in PAPER[name].items():
        table.add_row(f"paper: {method}", *("" if x is None else f"{x:.4f}" for x in figures), "")
    table.add_section()
    for method, (_, means, ratios, chosen) in results.items():
        cells = [f"{np.mean(means[m]):.4f}" for m in MEASURES]
        table.add_row(method, *cells, f"{np.mean(ratios):.4f}", ", ".join(f"{value:.3g}" for value in chosen))
    return table


def p_value_table(name, results) -> Table:
    title = f"{name}: p values against RankSVM, one-sided t / two-sided randomisation (Table 3's comparison)"
    table = Table("", *(m.upper() for m in MEASURES), title=title)
    table.add_row("paper: FenchelRank, t", *(f"{p:.4f}" for p in PAPER_P[name]))
    dense = results["RankSVM"][0]
    for method, (pooled, *_) in results.items():
        if method == "RankSVM" or "k=" in method:
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
