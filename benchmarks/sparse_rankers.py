"""How fast the sparse rankers are: paths, steps, truncated gradient, wide sparse text.

    python benchmarks/sparse_rankers.py [path] [steps] [table6] [ratio] [curves] [text]
        [--data FOLDER] [--figures FOLDER] [--rows 100000] [--features 200000] [--write FOLDER]

path    a 20-point path on OHSUMED's first training fold against one dense RankSVM fit (goal: under 10 times)
steps   iterations of every FenchelRank variant to the same duality gap on that fold, and the paper's bound
table6  Table 6 of Lai et al. (2013): FenchelRank against TGRank at the matching radius, on generated data of HP2004's
        shape, 75 queries × 1,000 rows × 64 features, one relevant row a query (goal: 20 times at equal objective)
ratio   that ratio for features that are correlated and for independent ones, over values of C: it depends on both
curves  the objective against time for all of them on that data, drawn in FOLDER/sparse_race.svg
text    a path on a sparse matrix with 100 numbers a row (goal: minutes, memory at most twice the matrix)

Default: all, curves only with --figures. --write keeps the tables there (docs/results). Short times are the best of
three after one call that is not timed. Memory is the kernel's own peak (VmHWM, Linux) in a fresh process for every
path, so nothing an earlier one left behind is used.
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
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.data.generate import make_letor
from hingerank.data.read_write import read_folds
from hingerank.solvers.sparse import VARIANTS
from measuring import best_of, default_data, reset_peak, resident, show_table

COMMAND = "python benchmarks/sparse_rankers.py"
CONSOLE = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--write", type=Path, help="folder to keep the tables in, such as docs/results")
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
    show_table("sparse-path", f"{COMMAND} path", header, rows, "OHSUMED, training fold 1", asked.write)


def steps(asked) -> None:
    """Iterations to a duality gap, by variant; the table of the looser gap is kept."""
    train = read_folds(asked.data / "OHSUMED/QueryLevelNorm", folds=[1])[0].train
    for tol, radii in ((1e-3, (0.5, 1.0, 2.0, 4.0, 16.0)), (1e-5, (0.5, 1.0, 2.0))):
        rows = [["the paper's bound", *(f"{16 * r * r / tol - 1:,.0f}" for r in radii)]]
        for variant in ("classic", "away", "pairwise", "corrective"):
            fits = [hr.FenchelRank(r, tol, 1000, "exact", variant).fit(train) for r in radii]
            rows.append([variant, *(str(r.n_iter_) if r.certificate_.converged else "> 1000" for r in fits)])
        title = f"OHSUMED fold 1: iterations to a gap of {tol:g}, at most 1000"
        write = asked.write if tol == 1e-3 else None
        show_table("sparse-steps", f"{COMMAND} steps", ["", *(f"r = {r:g}" for r in radii)], rows, title, write)


UNTIL = "TGRank until it has FenchelRank's objective"
STRENGTH = 300.0  # a C that keeps about the paper's share of features
TABLE6 = [  # seconds and share of features, the least and the most of folds 1 to 5
    ["FenchelRank, HP2004 / NP2004, paper", "3.8–14.4 / 8.8–17.7", ".13–.16 / .14–.20"],
    ["TGRank, HP2004 / NP2004, paper", "25.7–33.2 / 24.7–31.3", ".59–.69 / .58–.70"],
]


def span(values, digits: int) -> str:
    """The least and the most of some figures: .13–.22."""
    return "–".join(f"{value:.{digits}f}".removeprefix("0") for value in (min(values), max(values)))


def table6(asked) -> None:
    """The paper's protocol (T = 1000 for both), then TGRank until it has FenchelRank's objective."""
    seconds: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    over = False  # whether TGRank ended before it had the objective
    for fold in range(1, 6):
        data = one_relevant_row(seed=fold)
        radius, fast, slow = race(data, STRENGTH)
        over |= slow[1].certificate_.status != "callback"
        classic, stopped = (timed(r, data) for r in (hr.FenchelRank(radius, variant="classic"), hr.TGRank(STRENGTH)))
        runs = {"FenchelRank (corrective)": fast, "FenchelRank, classic": classic, "TGRank": stopped, UNTIL: slow}
        for name, (taken, ranker) in runs.items():
            seconds.setdefault(name, []).append(taken)
            shares.setdefault(name, []).append(ranker.sparsity_)
            CONSOLE.print(f"fold {fold}, {name}: {taken:.3f} s, loss {mean_loss(ranker.coef_, *data):.4f}")
    rows = [
        [name, span(taken, 3 if max(taken) < 0.1 else 1), "" if name == UNTIL else span(shares[name], 2)]
        for name, taken in seconds.items()
    ]
    rows[-1][1] += " and more" * over
    show_table("sparse-table6", f"{COMMAND} table6", ["", "seconds", "share of features"], TABLE6 + rows, "Table 6 of "
               "Lai et al., generated data of HP2004's shape", asked.write)  # fmt: skip
    ratios = [slow / fast for slow, fast in zip(seconds[UNTIL], seconds["FenchelRank (corrective)"])]
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
    strengths, rows = (30.0, 100.0, 300.0, 1000.0, 3000.0), []
    for name, make in (("correlated", one_relevant_row), ("nearly independent", independent_features)):
        data = make(seed=1)
        races = [race(data, C)[1:] for C in strengths]
        rows.append([f"{name} features, seconds", *(f"{fast[0]:.3f}".removeprefix("0") for fast, _ in races)])
        over = ["" if slow[1].certificate_.status == "callback" else "over " for _, slow in races]
        rows.append(["times, TGRank", *(f"{o}{slow[0] / fast[0]:.0f}" for o, (fast, slow) in zip(over, races))])
    header = ["C", *(f"{C:g}" for C in strengths)]
    show_table("sparse-ratio", f"{COMMAND} ratio", header, rows, "fold 1", asked.write)


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
    header, rows, title = ["", "seconds", "peak memory with the matrix", "features in use"], [], ""
    for name in TEXT:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            row, title = process.apply(measure_text, (name, asked.rows, asked.features))
        rows.append([name, *row])
    show_table("sparse-text", f"{COMMAND} text", header, rows, title, asked.write)


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
    row = f"{1 + beyond / size:.2f} × the matrix", " to ".join(map(str, sorted({min(used), max(used)})))
    title = f"text: {X.shape[0]:,} rows × {X.shape[1]:,} features, {X.nnz:,} numbers, {size:.0f} MiB as CSR"
    return (f"{seconds:.1f}", *row), title


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
