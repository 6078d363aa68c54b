"""Low-rank multipliers: Factorized and Regularized RankSVM, figures beside those of Xu et al. (2019), and speed.

    python benchmarks/low_rank.py figures           # Table 8 as a heat map, Fig. 2, Fig. 4: written to docs/figures
    python benchmarks/low_rank.py speed [--xl]      # epoch time against rows and K, and against listing the pairs

The paper's tables: `hingerank reproduce xu2019-table2`, -table4, -table6, -table7, -table8, xu2019-fig2.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.analysis.interactions import interactions
from hingerank.evaluation.reproductions import Place, find_table, reproduce

OHSUMED = "OHSUMED/QueryLevelNorm"
FIGURES = Path("docs/figures")


def heat_map(data: Path, console: Console) -> None:
    """MAP of Reg-RSVM by gamma and lambda: the values of `hingerank reproduce xu2019-table8`."""
    from matplotlib.figure import Figure

    table = find_table("xu2019-table8")
    outcome = reproduce(table, Place(data, Path("docs/reproductions/runs")))
    grid = np.array([[cell.ours for cell in row] for row in outcome.figures(0)])
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axis = figure.add_subplot()
    image = axis.imshow(grid, cmap="viridis", aspect="auto")
    axis.set_xticks(range(grid.shape[1]), table.sections[0].columns)
    axis.set_yticks(range(grid.shape[0]), [row[0].row for row in outcome.figures(0)])
    axis.set(title="MAP, OHSUMED fold 1")
    figure.colorbar(image)
    save(figure, "regularized-heat-map.svg", console)


def histograms(data: Path, console: Console) -> None:
    """Fig. 2: queries by the dimensions their multipliers need."""
    train = hr.read_folds(data / OHSUMED, [1])[0].train
    FIGURES.mkdir(parents=True, exist_ok=True)
    interactions(hr.RankSVM(C=0.1, loss="hinge", solver="dual").fit(train)).plot(FIGURES / "interactions.svg")
    console.print(f"plot: {FIGURES / 'interactions.svg'}")


def curves(data: Path, console: Console) -> None:
    """Fig. 4: the objective by iteration and by time."""
    from matplotlib.figure import Figure

    fold = hr.read_folds(data / OHSUMED, [1])[0]
    runs = {
        "Fac-RSVM (K = 5)": hr.FactorizedRankSVM(5, 0.1, tol=1e-6, max_iter=300).fit(fold.train),
        "Reg-RSVM (γ = λ = 1)": hr.RegularizedRankSVM(0.1, 1.0, 1.0, tol=1e-9, max_iter=30).fit(fold.train),
    }
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for k, (x, label) in enumerate([("iteration", "iteration"), ("seconds", "seconds")]):
        axis = figure.add_subplot(1, 2, k + 1)
        for name, ranker in runs.items():
            values = np.array([entry["value"] for entry in ranker.trace_])
            scaled = (values - values.min()) / (values.max() - values.min())
            axis.plot([entry[x] for entry in ranker.trace_], scaled, label=name)
        axis.set(xlabel=label, ylabel="objective, rescaled to 0–1", yscale="symlog")
        axis.set_yscale("symlog", linthresh=1e-6)
    figure.axes[0].legend()
    for name, ranker in runs.items():
        console.print(f"{name}: {ranker.n_iter_} iterations, {ranker.certificate_.seconds:.2f} s")
    save(figure, "low-rank-curves.svg", console)


def speed(xl: bool, console: Console) -> None:
    from hingerank.data.generate import make_letor, make_like

    def epoch(data, K, repeats=3):
        """Seconds of an epoch: the difference between longer and shorter fits."""

        def fit(n):
            start = time.perf_counter()
            hr.FactorizedRankSVM(K, 1e-3, tol=1e-12, max_iter=n).fit(data)
            return time.perf_counter() - start

        fit(1)
        return min((fit(11) - fit(1)) / 10 for _ in range(repeats))

    shapes = [(n, 120) for n in (250, 1000, 4000)] + ([(10_000, 120)] if xl else [])
    table = Table(
        "rows", "K", "pairs", "seconds an epoch", "slope in rows", title="Fac-RSVM epoch, 136 features, 5 grades"
    )
    for K in (1, 5, 20):
        last = None
        for n_queries, rows in shapes:
            data = make_letor(n_queries=n_queries, rows_per_query=rows, n_features=136, n_grades=5, seed=1)
            pairs = hr.GradedPreferences(data.y, data.blocks.offsets).n_pairs
            seconds = epoch(data, K)
            slope = "" if last is None else f"{np.log(seconds / last[1]) / np.log(data.n_rows / last[0]):.2f}"
            last = (data.n_rows, seconds)
            table.add_row(f"{data.n_rows:,}", str(K), f"{pairs:,}", f"{seconds:.4f}", slope)
    console.print(table)
    data = make_like("OHSUMED", seed=0)
    ours, listed = epoch(data, 5), listed_epoch(data, 5)
    console.print(
        f"OHSUMED's shape, K = 5: an epoch {1e3 * ours:.2f} ms; visiting every pair in compiled code "
        f"{1e3 * listed:.2f} ms: {listed / ours:.0f} ×"
    )
    start = time.perf_counter()
    ranker = hr.RegularizedRankSVM(0.01, 0.1, 1.0, max_iter=3, tol=1e-12).fit(data)
    whole, rounds = time.perf_counter() - start, ranker.trace_[-1]
    first = ranker.trace_[0]["seconds"]
    console.print(
        f"Reg-RSVM, OHSUMED's shape: {(rounds['seconds'] - first) / ranker.n_iter_:.2f} s a round, "
        f"{rounds['svd_seconds'] / max(rounds['seconds'] - first, 1e-9):.0%} of it decompositions, {whole:.1f} s in all"
    )
    if xl:
        big = make_like("MSLR-WEB10K", seed=0)
        ranker = hr.RegularizedRankSVM(1e-4, 1e-3, 1.0, max_iter=2, tol=1e-12).fit(big)
        entry = ranker.trace_[-1]
        console.print(f"Reg-RSVM, WEB10K's shape ({ranker.n_pairs_:,} pairs): {entry['seconds']:.0f} s for "
                      f"{ranker.n_iter_} rounds, {entry['svd_seconds']:.0f} s of it in decompositions")  # fmt: skip


def listed_epoch(data, K) -> float:
    """Seconds of the straightforward epoch: gradient and update of every query by visiting its pairs."""
    from numba import njit

    @njit
    def visit(X, winner, loser, V, w, G):
        for k in range(len(winner)):
            i, j = winner[k], loser[k]
            t = -1.0
            for c in range(X.shape[1]):
                t += (X[i, c] - X[j, c]) * w[c]
            for h in range(V.shape[1]):
                G[i, h] += V[j, h] * t
                G[j, h] += V[i, h] * t
        for k in range(len(winner)):
            i, j = winner[k], loser[k]
            a = 0.0
            for h in range(V.shape[1]):
                a += V[i, h] * V[j, h]
            for c in range(X.shape[1]):
                w[c] += 1e-9 * a * (X[i, c] - X[j, c])

    pairs = hr.GradedPreferences(data.y, data.blocks.offsets).pairs()
    X, V = data.blocks.gather(data.X), np.full((data.n_rows, K), 0.01)
    arguments = X, pairs.winner, pairs.loser, V, np.zeros(X.shape[1]), np.zeros_like(V)
    visit(*arguments)
    start = time.perf_counter()
    visit(*arguments)
    return time.perf_counter() - start


def save(figure, name: str, console: Console) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / name)
    console.print(f"plot: {FIGURES / name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["figures", "speed"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HINGERANK_DATA", "../shared/data")))
    parser.add_argument("--xl", action="store_true", help="speed: also the shape of MSLR-WEB10K")
    options = parser.parse_args()
    console = Console(width=150)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.what == "speed":
        speed(options.xl, console)
        return
    for draw in (heat_map, histograms, curves):
        draw(options.data, console)


if __name__ == "__main__":
    main()
