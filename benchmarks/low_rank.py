"""Low-rank multipliers: Factorized and Regularized RankSVM, figures beside those of Xu et al. (2019), and speed.

    python benchmarks/low_rank.py figures           # Table 8 as a heat map, Fig. 2: written to docs/figures
    python benchmarks/low_rank.py curves            # Fig. 4: the objective by iteration and by time
    python benchmarks/low_rank.py epochs            # Fac-RSVM's epoch against rows and K, up to MSLR-WEB10K's shape
    python benchmarks/low_rank.py ratio             # Fac-RSVM's epoch against one that visits every pair
    python benchmarks/low_rank.py rounds            # Reg-RSVM's rounds at OHSUMED's and MSLR-WEB10K's shape
    python benchmarks/low_rank.py starts            # ten starts at C = 8: 500 epochs alone, and with Gauss-Newton steps
    python benchmarks/low_rank.py printed           # the printed algorithms beside fits that converge

--write FOLDER keeps the tables of epochs, ratio, rounds, starts and printed there (docs/results).
The paper's tables: `hingerank reproduce xu2019-table2`, -table4, -table6, -table7, -table8, xu2019-fig2.
"""

import argparse
import resource
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.lab.report.figures import save_figure
from hingerank.papers import Outcome, find_table, load_outcome
from hingerank.papers.interactions import draw_histograms
from hingerank.preferences import GradedPreferences
from hingerank.problem.multipliers import FactorizedDual
from hingerank.problem.problem import RowsDesign
from hingerank.solvers.multipliers import factor_descent, factor_newton
from measuring import default_data, seconds_of, show_table

COMMAND = "python benchmarks/low_rank.py"
OHSUMED = "OHSUMED/QueryLevelNorm"
FIGURES = Path("docs/figures")
CONSOLE = Console(width=150)
RANKS, SHARES = (1, 5, 20), (0.02, 0.1, 0.3, 1.0)  # SHARES: of the queries of MSLR-WEB10K's shape


def heat_map(asked: argparse.Namespace) -> None:
    """MAP of Reg-RSVM by gamma and lambda: what `hingerank reproduce xu2019-table8` saved, beside the paper's."""
    from matplotlib.figure import Figure

    outcome = saved("xu2019-table8")
    cells = np.array(outcome.figures(0)).reshape(-1, len(outcome.table.sections[0].columns))
    grids = {
        "Table 8 of the paper": np.array([[cell.paper for cell in row] for row in cells]),
        "ours, at the optimum": np.array([[cell.ours for cell in row] for row in cells]),
    }
    low, high = min(grid.min() for grid in grids.values()), max(grid.max() for grid in grids.values())
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    for axis, (title, grid) in zip(figure.subplots(1, 2, sharey=True), grids.items()):
        image = axis.imshow(grid, cmap="viridis", aspect="auto", vmin=low, vmax=high)
        axis.set_xticks(range(grid.shape[1]), [cell.column for cell in cells[0]])
        axis.set_yticks(range(grid.shape[0]), [row[0].row for row in cells])
        axis.set_title(f"MAP, OHSUMED fold 1: {title}", fontsize=10)
        for (r, c), value in np.ndenumerate(grid):
            shade = "white" if value < (low + high) / 2 else "black"
            axis.text(c, r, f"{value:.3f}", ha="center", va="center", fontsize=7, color=shade)
    figure.colorbar(image, ax=figure.axes)
    save(figure, "regularized-heat-map.svg", outcome.source)


def histograms(asked: argparse.Namespace) -> None:
    """Fig. 2, queries by the dimensions their multipliers need: what `hingerank reproduce xu2019-fig2` saved."""
    outcome = saved("xu2019-fig2")
    rows = outcome.sections[0]
    shown = {name: rows[name].values.values() for name in ("90% of the energy", "100% of the energy")}
    save(draw_histograms(shown), "interactions.svg", outcome.source)


def saved(name: str) -> Outcome:
    """The stored results of a paper's table."""
    outcome = load_outcome(find_table(name), Path("docs/reproductions"))
    if outcome is None:
        raise SystemExit(f"run `hingerank reproduce {name}` first")
    return outcome


def curves(asked: argparse.Namespace) -> None:
    """Fig. 4: the objective by iteration and by time, what is left of it to fall."""
    from matplotlib.figure import Figure

    train = hr.read_folds(asked.data / OHSUMED, [1])[0].train
    made = {
        "Fac-RSVM (K = 5)": lambda n: hr.FactorizedRankSVM(5, 0.1, tol=0.0, max_iter=600 * n),
        "Reg-RSVM (γ = 50, λ = 10)": lambda n: hr.RegularizedRankSVM(0.1, 50.0, 10.0, tol=0.0, max_iter=30 * n),
    }
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, make in made.items():
        best = make(3).fit(train).objective_
        ranker = make(1).fit(train)
        values = np.array([entry["value"] for entry in ranker.trace_])
        share = (values - best) / (values[0] - best)
        for axis, x in ((left, "iteration"), (right, "seconds")):
            axis.semilogy([entry[x] for entry in ranker.trace_], share, label=name)
            axis.set(xlabel=x)
        CONSOLE.print(f"{name}: {ranker.n_iter_} iterations, {ranker.certificate_.seconds:.2f} s")
    left.set(ylabel="objective above its lowest,\nas a share of the first", ylim=(1e-6, 1.5))
    right.set_xscale("log")
    left.legend()
    save(figure, "low-rank-curves.svg")


def epoch_seconds(data, K: int, epochs: int = 24) -> float:
    """Seconds of an epoch: the least of three fits' lower quartiles, as a busy neighbour can only add."""
    ranker = hr.FactorizedRankSVM(K, 1e-3, tol=0.0, max_iter=epochs)
    traces = [[entry["seconds"] for entry in ranker.fit(data).trace_] for _ in range(3)]
    return min(float(np.quantile(np.diff(trace)[1:], 0.25)) for trace in traces)


def epochs(asked: argparse.Namespace) -> None:
    """Fac-RSVM's epoch against rows and K, up to MSLR-WEB10K's shape, with fitted exponents."""
    from matplotlib.figure import Figure

    whole = hr.make_benchmark("XL")
    ends = [int(whole.blocks.offsets[int(share * whole.n_queries)]) for share in SHARES]
    parts = [whole.take(np.arange(end)) for end in ends]
    parts.insert(len(parts) - 1, hr.make_benchmark("L"))
    table = []
    epoch_seconds(parts[0], 1, 2)
    times = np.array([[epoch_seconds(part, K) for K in RANKS] for part in parts])
    rows = np.array([part.n_rows for part in parts])
    for part, line in zip(parts, times):
        pairs = hr.GradedPreferences(part.y, part.blocks.offsets).n_pairs
        table.append([f"{part.n_rows:,}", f"{pairs:,}", *(f"{1e3 * seconds:.1f}" for seconds in line)])
    exponents = [np.polyfit(np.log(rows), np.log(column), 1)[0] for column in times.T]
    table.append(["exponent in rows", "", *(f"{value:.2f}" for value in exponents)])
    header, title = ["rows", "pairs", *(f"K = {K}" for K in RANKS)], "Fac-RSVM: milliseconds an epoch, 136 features"
    show_table("low-rank-epochs", f"{COMMAND} epochs", header, table, title, asked.write)
    for part, line in zip(parts, times):
        slope, base = np.polyfit(RANKS, line, 1)
        off = np.abs(base + slope * np.array(RANKS) - line).max() / line.max()
        CONSOLE.print(f"{part.n_rows:,} rows: {1e3 * base:.1f} + {1e3 * slope:.2f} K ms, off by at most {off:.0%}")
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.add_subplot()
    for K, column, exponent in zip(RANKS, times.T, exponents):
        axis.loglog(rows, column, "o-", label=f"K = {K}, exponent {exponent:.2f}")
    axis.set(xlabel="rows", ylabel="seconds an epoch", title="Fac-RSVM, MSLR-WEB10K's shape")
    axis.legend()
    save(figure, "low-rank-cost.svg")


def ratio(asked: argparse.Namespace) -> None:
    """Fac-RSVM's epoch against Algorithm 1 as printed, which visits every pair, both compiled."""
    like = hr.make_like("OHSUMED", seed=0)
    vectors = "every pair with vector instructions, ms"
    header, rows = ["K", "ours, ms", "every pair, ms", "ratio", vectors, "ratio"], []
    for K in RANKS:
        ours = epoch_seconds(like, K, 60)
        plain, vector = listed_epoch(like, K, False), listed_epoch(like, K, {"reassoc", "contract", "nsz"})
        cells = [f"{1e3 * ours:.2f}", f"{1e3 * plain:.1f}", f"{plain / ours:.0f}", f"{1e3 * vector:.1f}"]
        rows.append([str(K), *cells, f"{vector / ours:.0f}"])
    show_table("low-rank-every-pair", f"{COMMAND} ratio", header, rows, "OHSUMED's shape", asked.write)


def rounds(asked: argparse.Namespace) -> None:
    """Reg-RSVM: seconds a round, how much of it are decompositions, and memory."""
    settings = {
        "OHSUMED": {"C": 0.01, "gamma": 0.1, "lam": 1.0},
        "MSLR-WEB10K": {"C": 1e-3, "gamma": 0.01, "lam": 1.0},
    }
    header, rows = ["shape", "pairs", "to start, s", "a round, s", "in decompositions", "peak memory, GB"], []
    for name, parameters in settings.items():
        like = hr.make_like(name, seed=0)
        ranker = hr.RegularizedRankSVM(**parameters, tol=0.0, max_iter=5).fit(like)
        first, last = ranker.trace_[0]["seconds"], ranker.trace_[-1]
        a_round, share = (last["seconds"] - first) / 5, last["svd_seconds"] / (last["seconds"] - first)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        cells = [f"{first:.1f}", f"{a_round:.2f}", f"{100 * share:.0f} %", f"{peak:.1f}"]
        rows.append([name, f"{ranker.n_pairs_:,}", *cells])
    show_table("low-rank-rounds", f"{COMMAND} rounds", header, rows, "Reg-RSVM, five rounds", asked.write)


def listed_epoch(data, K: int, fastmath) -> float:
    """Seconds of an epoch of Algorithm 1 as printed: for every query its part of w, the gradient of every row over the
    row's pairs, and its new part of w."""
    from numba import njit

    @njit(fastmath=fastmath)
    def part(X, y, lo, hi, V, w):
        w[:] = 0.0
        for i in range(lo, hi):
            for j in range(lo, hi):
                if y[i] > y[j]:
                    a = 0.0
                    for k in range(V.shape[1]):
                        a += V[i, k] * V[j, k]
                    for c in range(X.shape[1]):
                        w[c] += a * (X[i, c] - X[j, c])

    @njit(fastmath=fastmath)
    def epoch(X, y, offsets, V, w, rate, limit):
        old, new, g = np.empty(len(w)), np.empty(len(w)), np.empty(V.shape[1])
        for q in range(len(offsets) - 1):
            lo, hi = offsets[q], offsets[q + 1]
            part(X, y, lo, hi, V, old)
            for i in range(lo, hi):
                g[:] = 0.0
                for j in range(lo, hi):
                    if y[i] != y[j]:
                        t = 0.0
                        for c in range(X.shape[1]):
                            t += w[c] * (X[i, c] - X[j, c])
                        t = t - 1.0 if y[i] > y[j] else -t - 1.0
                        for k in range(V.shape[1]):
                            g[k] += V[j, k] * t
                for k in range(V.shape[1]):
                    V[i, k] = min(max(V[i, k] - rate * g[k], 0.0), limit)
            part(X, y, lo, hi, V, new)
            w += new - old

    X, y, V = data.blocks.gather(data.X), data.blocks.gather(data.y), np.full((data.n_rows, K), 0.01)
    arguments = X, y, data.blocks.offsets, V, np.zeros(X.shape[1]), 1e-6, 1.0
    epoch(*arguments)
    return float(np.quantile(seconds_of(lambda: epoch(*arguments), 9), 0.25))


def starts(asked: argparse.Namespace) -> None:
    """Fac-RSVM from ten starts on OHSUMED's first fold at C = 8: 500 epochs alone, and what follows them."""
    fold = hr.read_folds(asked.data / OHSUMED)[0]
    blocks = fold.train.blocks
    preferences = GradedPreferences(blocks.gather(fold.train.y), blocks.offsets)
    problem = FactorizedDual(RowsDesign(blocks.gather(fold.train.X)), preferences, 5, 8.0)
    header = ["start", "MAP, 500 epochs", "MAP", "objective, 500 epochs", "objective", "stationarity"]

    def mean_precision(w: np.ndarray) -> float:
        return hr.evaluate(fold.test.y, fold.test.X @ w, fold.test.qid, "map:letor3")["map:letor3"]

    found, rows = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        epochs = factor_descent(problem, problem.start(rng), rng)
        whole = factor_newton(problem, epochs.extra["V"], before=epochs)
        found.append([mean_precision(epochs.w), mean_precision(whole.w), epochs.value, whole.value])
        figures = [bare(value) for value in found[-1][:2]] + [f"{value:,.0f}" for value in found[-1][2:]]
        rows.append([str(seed), *figures, f"{whole.certificate.value:.1e}"])
    means, spreads = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    shown = [f"{bare(m)} ± {bare(s)}" for m, s in zip(means[:2], spreads[:2])]
    rows.append(["mean", *shown, *(f"{m:,.0f} ± {s:,.0f}" for m, s in zip(means[2:], spreads[2:])), ""])
    show_table("low-rank-starts", f"{COMMAND} starts", header, rows, write=asked.write)


def printed(asked: argparse.Namespace) -> None:
    """Algorithms 1 and 2 as printed, twenty iterations by their step, beside fits that converge."""
    fold = hr.read_folds(asked.data / OHSUMED)[0]
    header, rows = ["", "iterations", "objective", "MAP, validation", "MAP, test"], []
    fac, reg = hr.FactorizedRankSVM(rank=5, C=2.0**-10), hr.RegularizedRankSVM(C=2.0**-10, gamma=1.0, lam=1.0)
    for name, ranker in (("Fac-RSVM", fac), ("Reg-RSVM", reg)):
        for rate in (None, 0.001, 0.01, 0.1):
            how = {"solver": "paper", "learning_rate": rate, "max_iter": 20} if rate else {"max_iter": 3000}
            ranker = clone(ranker).set_params(**how).fit(fold.train)
            parts = (fold.validation, fold.test)
            found = [hr.evaluate(p.y, ranker.predict(p), p.qid, "map:letor3")["map:letor3"] for p in parts]
            title = f"{name} as printed, η = {rate}" if rate else f"{name}, to the optimum"
            figures = [str(ranker.certificate_.n_iter), f"{ranker.trace_[-1]['value']:.1f}", *map(bare, found)]
            rows.append([title, *figures])
    show_table("low-rank-printed", f"{COMMAND} printed", header, rows, "OHSUMED, fold 1", asked.write)


def bare(value: float) -> str:
    """A measure as the tables show it: .3471."""
    return f"{value:.4f}".removeprefix("0")


def save(figure, name: str, source: str | None = None) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    save_figure(figure, FIGURES / name, source)
    CONSOLE.print(f"plot: {FIGURES / name}")


PARTS = {
    "figures": (heat_map, histograms),
    "curves": (curves,),
    "epochs": (epochs,),
    "ratio": (ratio,),
    "rounds": (rounds,),
    "starts": (starts,),
    "printed": (printed,),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=list(PARTS))
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--write", type=Path, help="folder to keep the tables in, such as docs/results")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for what in asked.what:
        for part in PARTS[what]:
            part(asked)


if __name__ == "__main__":
    main()
