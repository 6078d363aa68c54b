"""How fast the sparse rankers are: paths, steps, truncated gradient, wide sparse text.

    python benchmarks/sparse_rankers.py [path] [steps] [table6] [ratio] [curves] [text]
        [--data FOLDER] [--figures FOLDER] [--rows 100000] [--features 200000]

path    a 20-point path on OHSUMED's first training fold against one dense RankSVM fit (goal: under 10 times)
steps   iterations of every FenchelRank variant to the same duality gap on that fold, and the paper's bound
table6  Table 6 of Lai et al. (2013): FenchelRank against TGRank at the matching radius, on generated data of HP2004's
        shape, 75 queries × 1,000 rows × 64 features, one relevant row a query (goal: 20 times at equal objective)
ratio   that ratio for features that are correlated and for independent ones, over values of C: it depends on both
curves  the objective against time for all of them on that data, drawn in FOLDER/sparse_race.svg
text    a path on a sparse matrix with 100 numbers a row (goal: minutes, memory at most twice the matrix)

Default: all, curves only with --figures. Short times are the best of three after one call that is not timed. Memory is
the kernel's own peak (VmHWM, Linux) in a fresh process for every path, so nothing an earlier one left behind is used.
"""

import argparse
import ctypes
import gc
import multiprocessing
import time
import warnings
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.data.generate import make_letor
from hingerank.data.read_write import read_folds
from hingerank.papers.engine import default_data
from hingerank.solvers.frank_wolfe import VARIANTS
from measuring import best_of, keep_table, reset_peak, resident

CONSOLE = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--write", type=Path, help="folder to keep the table of the path in, such as docs/results")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=200_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in asked.parts:
        PARTS[part](asked)


def path(asked) -> None:
    """A 20-point path against one dense fit, all through the estimators, checks included."""
    train = read_folds(asked.data / "OHSUMED/QueryLevelNorm", folds=[1])[0].train
    radii = np.geomspace(0.5, 48, 20).tolist()  # beyond 48 the ball no longer matters on this fold
    calls = {
        "RankSVM, C = 1, one fit": lambda: [hr.RankSVM(C=1.0).fit(train)],
        "RankSVM, C = 2⁻¹⁴, one fit": lambda: [hr.RankSVM(C=2.0**-14).fit(train)],
        "SparseRankSVM, 20 values of C": lambda: hr.SparseRankSVM().fit_path(train, Cs=20),
        "SparseRankSVM, 20 values of C, ridge 1": lambda: hr.SparseRankSVM(ridge=1.0).fit_path(train, Cs=20),
        "FenchelRank, 20 radii": lambda: hr.FenchelRank().fit_path(train, radii=radii),
    }
    seconds = {name: best_of(call) for name, call in calls.items()}
    dense = seconds["RankSVM, C = 1, one fit"][0]
    header, rows = ["", "milliseconds", "times the dense fit", "features in use"], []
    for name, (taken, rankers) in seconds.items():
        used = [int(np.count_nonzero(r.coef_)) for r in rankers]
        span = f"{used[0]}" if len(used) == 1 else f"{used[0]} to {used[-1]}"
        rows.append([name, f"{1000 * taken:.1f}", f"{taken / dense:.1f}", span])
    table = Table(*header, title="OHSUMED, training fold 1")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)
    if asked.write is not None:
        keep_table(asked.write, "sparse-path", "python benchmarks/sparse_rankers.py path", header, rows)


def steps(asked) -> None:
    """Iterations to a duality gap, by variant."""
    train = read_folds(asked.data / "OHSUMED/QueryLevelNorm", folds=[1])[0].train
    settings = [("classic", "exact"), ("classic", "closed-form"), ("away", "exact"), ("pairwise", "exact")]
    settings.append(("corrective", "exact"))
    for tol, radii in ((1e-3, (0.5, 1.0, 2.0, 4.0, 16.0)), (1e-5, (0.5, 1.0, 2.0))):
        title = f"OHSUMED fold 1: iterations (milliseconds) to a gap of {tol:g}, at most 1000"
        table = Table("variant, step", title=title)
        for radius in radii:
            table.add_column(f"radius {radius:g}", justify="right")
        table.add_row("the paper's bound", *(f"{16 * r * r / tol - 1:.0f}" for r in radii))
        for variant, step in settings:
            cells = []
            for radius in radii:
                ranker = hr.FenchelRank(radius, tol, 1000, step, variant).fit(train)
                mark = "" if ranker.certificate_.converged else f", gap {ranker.certificate_.value:.0e}"
                cells.append(f"{ranker.certificate_.n_iter} ({1000 * ranker.certificate_.seconds:.0f}{mark})")
            table.add_row(f"{variant}, {step}", *cells)
        CONSOLE.print(table)


STRENGTH = 300.0  # a C that keeps about the paper's share of features
TABLE6 = {  # seconds and share of features of folds 1 to 5
    "HP2004": "FenchelRank 3.8 to 14.4 s, share .125 to .156; TGRank 25.7 to 33.2 s, share .594 to .688",
    "NP2004": "FenchelRank 8.8 to 17.7 s, share .141 to .203; TGRank 24.7 to 31.3 s, share .578 to .703",
}


def table6(asked) -> None:
    """The paper's protocol (T = 1000 for both), then TGRank until it has FenchelRank's objective."""
    protocol = Table("fold", "radius", title="Table 6, generated data of HP2004's shape: gap 1e-3, at most 1000 steps")
    for name in ("FenchelRank", "classic", "TGRank"):
        for column in ("seconds", "loss", "share"):
            protocol.add_column(f"{name} {column}", justify="right")
    against = Table("fold", title="the same data: TGRank until its objective is no more than FenchelRank's")
    for column in ("FenchelRank seconds (steps)", "TGRank seconds (steps)", "ratio"):
        against.add_column(column, justify="right")
    ratios = []
    for fold in range(1, 6):
        data = one_relevant_row(seed=fold)
        radius, fast, slow = race(data, STRENGTH)
        stopped = [timed(r, data) for r in (hr.FenchelRank(radius, variant="classic"), hr.TGRank(STRENGTH))]
        cells = [(seconds, mean_loss(r.coef_, *data), r.sparsity_) for seconds, r in (fast, *stopped)]
        protocol.add_row(str(fold), f"{radius:.2f}", *(f"{x:.4f}" for cell in cells for x in cell))
        ratios.append(slow[0] / fast[0])
        note = "" if slow[1].certificate_.status == "callback" else ", not there"
        steps = f"{fast[0]:.3f} ({fast[1].n_iter_})", f"{slow[0]:.2f} ({slow[1].n_iter_}{note})"
        against.add_row(str(fold), *steps, f"{ratios[-1]:.0f}")
    CONSOLE.print(protocol)
    for name, figures in TABLE6.items():
        CONSOLE.print(f"The paper, {name}: {figures}.")
    CONSOLE.print(against)
    CONSOLE.print(f"TGRank takes {min(ratios):.0f} to {max(ratios):.0f} times as long as FenchelRank (goal: 20)")


def curves(asked) -> None:
    """‖w‖₁ + C·loss above its minimum, relative, against seconds."""
    if asked.figures is None:
        return
    data = one_relevant_row(seed=1)
    exact = hr.SparseRankSVM(STRENGTH, tol=1e-8).fit(*data)
    radius, least = float(np.abs(exact.coef_).sum()), exact.objective_
    ball = {"max_iter": 1000, "tol": 1e-7}
    rankers = {f"FenchelRank, {v}": hr.FenchelRank(radius, variant=v, **ball) for v in ("corrective", *VARIANTS)}
    rankers |= {
        "SparseRankSVM": hr.SparseRankSVM(STRENGTH, tol=1e-7),
        "TGRank": hr.TGRank(STRENGTH, tol=1e-7, max_iter=5000),
    }
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for name, ranker in rankers.items():
        trace, inside = ranker.fit(*data).trace_[1:], "Fenchel" in name
        values = [STRENGTH * e["value"] + radius if inside else e["value"] for e in trace]
        above = np.maximum(np.array(values) / least - 1, 1e-8)
        axes.loglog([e["seconds"] for e in trace], above, marker="." if len(trace) < 50 else None, label=name)
    axes.set(xlabel="seconds", ylabel="objective above the least, relative", ylim=(5e-7, None))
    axes.legend(fontsize="small", frameon=False)
    asked.figures.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hingerank"}):
        figure.savefig(asked.figures / "sparse_race.svg", metadata={"Date": None})


def timed(ranker, data):
    """(seconds, the fitted ranker)."""
    start = time.perf_counter()
    ranker.fit(*data)
    return time.perf_counter() - start, ranker


def one_relevant_row(seed, queries=45, rows=1000):
    """A training fold (three fifths of 75 queries) with one relevant row a query, features in [0, 1].

    The features are variants (four each) of sixteen quantities, of which five say which row is relevant: correlated,
    with a condition number of about 240, and skewed. LETOR's are correlated far more strongly (OHSUMED: 250,000).
    """
    rng = np.random.default_rng(seed)
    quantities = rng.normal(size=(queries * rows, 16)) @ (np.eye(16) + 0.3 * rng.normal(size=(16, 16)))
    quantities /= quantities.std(axis=0)
    X = np.exp(0.7 * (np.repeat(quantities, 4, axis=1) + 0.2 * rng.normal(size=(queries * rows, 64))))
    utility = quantities[:, :5] @ np.array([1.0, 0.8, 0.6, 0.5, 0.4])
    return best_row(X, utility / utility.std() + 0.5 * rng.normal(size=len(X)), queries)


def independent_features(seed, queries=45, rows=1000):
    """The same shape with features that are nearly independent (condition number about 10)."""
    data = make_letor(queries, rows, 64, 2, skew=(0.999, 0.001), useless=44, seed=seed)
    return best_row(data.X, np.asarray(data.y) + 1e-3 * (data.X @ np.ones(64)), queries)


def best_row(X, utility, queries):
    """(X scaled to [0, 1], y = 1 for the row of the largest utility in each query, query ids)."""
    rows = len(X) // queries
    y = np.zeros((queries, rows))
    y[np.arange(queries), utility.reshape(queries, rows).argmax(axis=1)] = 1
    low, high = X.min(axis=0), X.max(axis=0)
    return ((X - low) / np.maximum(high - low, 1e-9)).astype(np.float32), y.ravel(), np.repeat(np.arange(queries), rows)


def ratio(asked) -> None:
    """TGRank until it has FenchelRank's objective, for both kinds of features and several C."""
    table = Table(
        "features", "C", "radius", "in use", "FenchelRank seconds", "TGRank seconds (steps)", "ratio", title="fold 1"
    )
    for name, make in (("correlated", one_relevant_row), ("independent", independent_features)):
        data = make(seed=1)
        for C in (30.0, 100.0, 300.0, 1000.0, 3000.0):
            radius, fast, slow = race(data, C)
            note = "" if slow[1].certificate_.status == "callback" else ", not there"
            seconds = f"{fast[0]:.3f}", f"{slow[0]:.2f} ({slow[1].n_iter_}{note})", f"{slow[0] / fast[0]:.1f}"
            table.add_row(name, f"{C:g}", f"{radius:.1f}", str(len(fast[1].selected_features_)), *seconds)
    CONSOLE.print(table)


def race(data, C):
    """(radius of the optimum at C, FenchelRank there, TGRank until its objective is no more), both timed."""
    radius = float(np.abs(hr.SparseRankSVM(C, tol=1e-8).fit(*data).coef_).sum())
    fast = best_of(lambda: hr.FenchelRank(radius).fit(*data))
    goal = C * fast[1].objective_ + float(np.abs(fast[1].coef_).sum())
    slow = hr.TGRank(C, tol=1e-9, max_iter=20_000, callback=lambda entry: entry["value"] <= goal)
    return radius, fast, timed(slow, data)


def mean_loss(w, X, y, qid) -> float:
    """FenchelRank's objective at w."""
    s, total, pairs = X @ w, 0.0, 0
    for q in np.unique(qid):
        up, down = s[(qid == q) & (y > 0)], s[(qid == q) & (y == 0)]
        total += float((np.maximum(0, 1 - up[:, None] + down[None, :]) ** 2).sum())
        pairs += len(up) * len(down)
    return total / pairs


TEXT = {  # name -> path of fitted rankers
    "SparseRankSVM, 20 values of C": lambda *data: hr.SparseRankSVM().fit_path(*data, 20),
    "FenchelRank, 20 radii": lambda *data: hr.FenchelRank().fit_path(*data, np.geomspace(1, 40, 20).tolist()),
    "FenchelRank, radius 10, pairwise steps": lambda *data: [hr.FenchelRank(10.0, variant="pairwise").fit(*data)],
}


def text(asked) -> None:
    """Paths on a wide sparse matrix, and how much memory they take beyond it."""
    table = Table("", "seconds", "peak beyond the matrix, MiB", "with it", "features in use", "iterations")
    for name in TEXT:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            row, table.title = process.apply(measure_text, (name, asked.rows, asked.features))
        table.add_row(name, *row)
    CONSOLE.print(table)


def measure_text(name, rows, features):
    """(a row of the table, its title), from a process of its own."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = X, y, qid = make_text(rows, features)
    for ranker in (hr.SparseRankSVM(C=20.0), hr.FenchelRank(), hr.FenchelRank(variant="pairwise", max_iter=3)):
        ranker.fit(X[:2000], y[:2000], qid[:2000])  # loads what is compiled
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    reset_peak()
    before, start = resident(), time.perf_counter()
    path = TEXT[name](*data)
    seconds, beyond = time.perf_counter() - start, (resident("VmHWM") - before) / 2**20
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    used = [len(r.selected_features_) for r in path]
    row = f"{beyond:.0f}", f"{1 + beyond / size:.2f} × the matrix", f"{min(used)} to {max(used)}"
    title = f"text: {X.shape[0]:,} rows × {X.shape[1]:,} features, {X.nnz:,} numbers, {size:.0f} MiB as CSR"
    return (f"{seconds:.1f}", *row, str(sum(r.n_iter_ for r in path))), title


def make_text(rows, features, per_row=100, per_query=100, seed=0):
    """Bag-of-words rows (words of log-uniform frequency) whose grades depend on 140 of the words."""
    rng = np.random.default_rng(seed)
    words = (features ** rng.random((rows, per_row))).astype(np.int32) - 1
    values = rng.random((rows, per_row))
    starts = np.arange(0, rows * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_matrix((values.ravel(), words.ravel(), starts), shape=(rows, features))
    X.sum_duplicates()
    truth = np.zeros(features)
    used = np.union1d(np.arange(20, 60), rng.choice(min(5000, features), 100, replace=False))
    truth[used] = 2 * rng.normal(size=len(used))
    score = (X @ truth + 0.7 * rng.normal(size=rows)).reshape(-1, per_query)
    place = np.argsort(np.argsort(-score, axis=1), axis=1).ravel()
    return X, np.select([place < 5, place < 20], [2.0, 1.0], 0.0), np.repeat(np.arange(rows // per_query), per_query)


PARTS = {"path": path, "steps": steps, "table6": table6, "ratio": ratio, "curves": curves, "text": text}

if __name__ == "__main__":
    main()
