"""Low-rank multipliers: Factorized and Regularized RankSVM, beside the figures of Xu et al. (2019).

    python benchmarks/low_rank.py tables            # Tables 2, 4 (and 3 on MQ2007-partial with --mq2007): five folds
    python benchmarks/low_rank.py sensitivity       # Tables 7 and 8 on OHSUMED fold 1, with a heat map
    python benchmarks/low_rank.py interactions      # Fig. 2 and Table 6: ranks of the multipliers
    python benchmarks/low_rank.py curves            # Fig. 4: objective by iteration and by time
    python benchmarks/low_rank.py speed [--xl]      # epoch time against rows and K, and against listing the pairs

Settings are chosen by MAP on each fold's validation part, never on test. Measures follow LETOR 3.0 (preset letor3).
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
from hingerank.data.folds import read_folds
from hingerank.evaluation.leaderboard import leaderboard
from hingerank.evaluation.method import Method
from hingerank.evaluation.protocol import compare

MEASURES = [f"{name}:letor3" for name in ("map", "ndcg@1", "ndcg@3", "ndcg@5")]
SETS = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008", "MQ2007-partial": "MQ2007-partial"}
PAPER = {  # MAP, NDCG@1, NDCG@3, NDCG@5
    "OHSUMED": {
        "RSVM": [0.4427, 0.5289, 0.4553, 0.4392], "RankNet": [0.404, 0.4007, 0.3616, 0.3388],
        "Fac-RSVM": [0.4518, 0.5671, 0.5113, 0.4889], "Reg-RSVM": [0.4480, 0.5553, 0.4946, 0.4723],
    },
    "MQ2008": {
        "RSVM": [0.4713, 0.3686, 0.4277, 0.4730], "RankNet": [0.4522, 0.3410, 0.3991, 0.4500],
        "Fac-RSVM": [0.4723, 0.3690, 0.4361, 0.4764], "Reg-RSVM": [0.4755, 0.3690, 0.4315, 0.4719],
    },
    "MQ2007-partial": {},
}  # fmt: skip
PAPER_TABLE_6 = {49: (5, 5, 8), 45: (5, 6, 92), 35: (5, 15, 234)}  # query -> ranks of Fac-, Reg- and RSVM
FIGURES = Path("docs/figures")


def methods() -> list[Method]:
    """Grids around the paper's ranges; C also well below them, where plain RankSVM does best."""
    Cs = [2.0**k for k in range(-16, 4, 2)]
    return [
        Method("RSVM (hinge)", hr.RankSVM, {"C": Cs}, fixed={"loss": "hinge"}),
        Method("RankNet (linear)", hr.RankSVM, {"C": Cs}, fixed={"loss": "logistic"}),
        Method("Fac-RSVM", hr.FactorizedRankSVM, {"C": [*Cs[::2], 8.0], "rank": [1, 5, 20]}, fixed={"max_iter": 100}),
        Method("Reg-RSVM", hr.RegularizedRankSVM, {"C": Cs[2::2], "gamma": [0.1, 10.0], "lam": [0.1, 1.0]}),
        Method("RankSVM, squared hinge", hr.RankSVM, {"C": Cs}),
    ]


def tables(data: Path, names: list[str], console: Console) -> None:
    for name in names:
        results = compare(methods(), read_folds(data / SETS[name]), "map:letor3", MEASURES)
        by = {b: leaderboard(results, baseline=b, test="t").lines for b in ("RSVM (hinge)", "RankNet (linear)")}
        stars = {line.method: "*" * (line.mark == "▲") for line in by["RSVM (hinge)"]}
        daggers = {line.method: "†" * (line.mark == "▲") for line in by["RankNet (linear)"]}
        title = f"{name}: * better than RSVM, † than RankNet (paired t over queries, Holm, 5 %)"
        table = Table("", *(m.split(":")[0] for m in MEASURES), "± over folds", "seconds a fit", title=title)
        for who, figures in PAPER[name].items():
            table.add_row(f"{who}, paper", *(f"{x:.4f}" for x in figures))
        table.add_section()
        for line in by["RSVM (hinge)"]:
            marks = stars[line.method] + daggers[line.method]
            figures = [f"{line.means[m]:.4f}" for m in MEASURES]
            table.add_row(line.method, figures[0] + marks, *figures[1:], f"{line.spread:.3f}", f"{line.seconds:.2f}")
        console.print(table)


def sensitivity(data: Path, console: Console) -> None:
    fold = read_folds(data / SETS["OHSUMED"], [1])[0]

    def measure(ranker):
        scores = ranker.fit(fold.train).predict(fold.test)
        return [hr.evaluate(fold.test.y, scores, fold.test.qid, MEASURES)[m] for m in MEASURES]

    paper = {1: 0.3472, 3: 0.3475, 5: 0.3486, 10: 0.3481, 20: 0.3476}
    table = Table("K", "MAP, paper", "MAP", "NDCG@1", "NDCG@3", "NDCG@5", title="Table 7: OHSUMED fold 1, C = 2^-10")
    for K in paper:
        table.add_row(str(K), f"{paper[K]:.4f}", *(f"{x:.4f}" for x in measure(hr.FactorizedRankSVM(K, 2.0**-10))))
    console.print(table)
    gammas, lams = [0.1, 0.5, 1, 5, 10, 50], [0.1, 0.5, 1, 5, 10]
    grid = np.array([[measure(hr.RegularizedRankSVM(0.1, g, lam))[0] for lam in lams] for g in gammas])
    table = Table(
        "gamma \\ lambda", *map(str, lams), title="Table 8: MAP on OHSUMED fold 1, C = 0.1 (paper: .341 to .357)"
    )
    for g, row in zip(gammas, grid):
        table.add_row(str(g), *(f"{x:.4f}" for x in row))
    console.print(table)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axis = figure.add_subplot()
    image = axis.imshow(grid, cmap="viridis", aspect="auto")
    axis.set_xticks(range(len(lams)), map(str, lams))
    axis.set_yticks(range(len(gammas)), map(str, gammas))
    axis.set(xlabel="λ", ylabel="γ", title="MAP, OHSUMED fold 1")
    figure.colorbar(image)
    save(figure, "regularized-heat-map.svg", console)


def show_interactions(data: Path, console: Console) -> None:
    from hingerank.analysis.interactions import interactions

    fold = read_folds(data / SETS["OHSUMED"], [1])[0]
    found = {
        "Fac-RSVM": hr.FactorizedRankSVM(5, 0.1).fit(fold.train),
        "Reg-RSVM": hr.RegularizedRankSVM(0.1, 1.0, 1.0).fit(fold.train),
        "RSVM": hr.RankSVM(C=0.1, loss="hinge", solver="dual").fit(fold.train),
    }
    plain = interactions(found["RSVM"])
    sizes = {q.query: q for q in plain.queries}
    ranks = {"RSVM": {q.query: q.rank for q in plain.queries}}
    for name in ("Fac-RSVM", "Reg-RSVM"):
        ids = found[name].queries_
        ranks[name] = dict(zip(ids.tolist(), found[name].ranks_.tolist()))
    table = Table(
        "query", "rows / pairs", *(f"{n}, {w}" for n in ranks for w in ("paper", "ours")), title="Table 6: ranks"
    )
    order = {"Fac-RSVM": 0, "Reg-RSVM": 1, "RSVM": 2}
    for query, figures in PAPER_TABLE_6.items():
        cells = [str(c) for n in ranks for c in (figures[order[n]], ranks[n].get(query, "–"))]
        table.add_row(str(query), f"{sizes[query].size} / {sizes[query].n_pairs}" if query in sizes else "–", *cells)
    console.print(table)
    table = Table("Fig. 2, queries", *(f"{10 * k}–{10 * k + 10} %" for k in range(10)))
    for share in (0.9, 1.0):
        table.add_row(f"{share:.0%} of the energy", *map(str, plain.histogram(share)))
    console.print(table)
    FIGURES.mkdir(parents=True, exist_ok=True)
    plain.plot(FIGURES / "interactions.svg")
    console.print(f"plot: {FIGURES / 'interactions.svg'}")


def curves(data: Path, console: Console) -> None:
    from matplotlib.figure import Figure

    fold = read_folds(data / SETS["OHSUMED"], [1])[0]
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
    parser.add_argument("what", choices=["tables", "sensitivity", "interactions", "curves", "speed"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HINGERANK_DATA", "../shared/data")))
    parser.add_argument("--mq2007", action="store_true", help="tables: also MQ2007-partial (85 % of the rows)")
    parser.add_argument("--xl", action="store_true", help="speed: also the shape of MSLR-WEB10K")
    options = parser.parse_args()
    console = Console(width=150)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.what == "tables":
        tables(options.data, ["OHSUMED", "MQ2008"] + ["MQ2007-partial"] * options.mq2007, console)
    elif options.what == "speed":
        speed(options.xl, console)
    else:
        call = {"sensitivity": sensitivity, "interactions": show_interactions, "curves": curves}[options.what]
        call(options.data, console)


if __name__ == "__main__":
    main()
