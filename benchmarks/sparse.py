"""How fast the sparse rankers are: paths, steps, truncated gradient, wide sparse text.

    python benchmarks/sparse.py [path] [steps] [table6] [text] [--data FOLDER] [--rows 100000] [--features 200000]

path    a 20-point path on OHSUMED's first training fold against one dense RankSVM fit (goal: under 10 times)
steps   iterations of every FenchelRank variant to the same duality gap on that fold, and the paper's bound
table6  Table 6 of Lai et al. (2013): FenchelRank against TGRank at the matching radius, on generated data of HP2004's
        shape, 75 queries × 1,000 rows × 64 features, one relevant row a query (goal: 20 times at equal objective)
text    a path on a sparse matrix with 100 numbers a row (goal: minutes, memory at most twice the matrix)

Default: all four. Times are the best of three after one call that is not timed, so ratios are of the same run.
"""

import argparse
import os
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.data.folds import read_folds
from hingerank.data.generate import make_letor

CONSOLE = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HINGERANK_DATA", "../shared/data")))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=200_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in asked.parts:
        PARTS[part](asked)


def best_of(call, repeat=3):
    """(least seconds of `repeat` calls after one that is not timed, the last answer)."""
    answer, taken = call(), []
    for _ in range(repeat):
        start = time.perf_counter()
        answer = call()
        taken.append(time.perf_counter() - start)
    return min(taken), answer


def path(asked) -> None:
    """A 20-point path against one dense fit, all through the estimators, checks included."""
    train = read_folds(asked.data / "OHSUMED/QueryLevelNorm", folds=[1])[0].train
    radii = np.geomspace(0.5, 48, 20).tolist()  # beyond 48 the ball no longer matters on this fold
    calls = {
        "RankSVM, C = 1, one fit": lambda: [hr.RankSVM(C=1.0).fit(train)],
        "RankSVM, C = 2^-14, one fit": lambda: [hr.RankSVM(C=2.0**-14).fit(train)],
        "SparseRankSVM, 20 values of C": lambda: hr.SparseRankSVM().fit_path(train, Cs=20),
        "SparseRankSVM, 20 values of C, ridge 1": lambda: hr.SparseRankSVM(ridge=1.0).fit_path(train, Cs=20),
        "FenchelRank, 20 radii": lambda: hr.FenchelRank().fit_path(train, radii=radii),
    }
    seconds = {name: best_of(call) for name, call in calls.items()}
    dense = seconds["RankSVM, C = 1, one fit"][0]
    table = Table("", "milliseconds", "times the dense fit", "features in use", title="OHSUMED, training fold 1")
    for name, (taken, rankers) in seconds.items():
        used = [int(np.count_nonzero(r.coef_)) for r in rankers]
        span = f"{used[0]}" if len(used) == 1 else f"{used[0]} to {used[-1]}"
        table.add_row(name, f"{1000 * taken:.1f}", f"{taken / dense:.1f}", span)
    CONSOLE.print(table)


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


STRENGTH = 3000.0  # a C that gives radii like the paper's, about 20


def table6(asked) -> None:
    """The paper's protocol, then a race to the same objective."""
    protocol = Table("fold", "radius", title="Table 6's protocol, generated data of HP2004's shape: T = 1000, gap 1e-3")
    race = Table("fold", "radius", title="the same data, both to within 0.1 % of the optimum they share")
    for name in ("corrective", "classic", "TGRank"):
        for column in ("seconds", "loss", "ratio"):
            protocol.add_column(f"{name} {column}", justify="right")
        race.add_column(f"{name} seconds (steps)", justify="right")
    race.add_column("TGRank / corrective", justify="right")
    ratios = []
    for fold in range(1, 6):
        data = one_relevant_row(seed=fold)
        radius, fits = papers_protocol(data)
        cells = [(seconds, mean_loss(r.coef_, *data), r.sparsity_) for seconds, r in fits]
        protocol.add_row(str(fold), f"{radius:.2f}", *(f"{x:.4f}" for cell in cells for x in cell))
        radius, fits = to_the_same_objective(data)
        ratios.append(fits[2][0] / fits[0][0])
        late = ["" if r.certificate_.status == "callback" else ", not there" for _, r in fits]
        cells = [f"{seconds:.3f} ({r.n_iter_}{note})" for (seconds, r), note in zip(fits, late)]
        race.add_row(str(fold), f"{radius:.2f}", *cells, f"{ratios[-1]:.0f}")
    CONSOLE.print(protocol)
    CONSOLE.print(
        "The paper, HP2004: FenchelRank 3.8 to 14.4 s, ratio .125 to .156; TGRank 25.7 to 33.2 s, ratio .594 to .688.\n"
        "The paper, NP2004: FenchelRank 8.8 to 17.7 s, ratio .141 to .203; TGRank 24.7 to 31.3 s, ratio .578 to .703."
    )
    CONSOLE.print(race)
    CONSOLE.print(f"TGRank takes {min(ratios):.0f} to {max(ratios):.0f} times as long as FenchelRank (goal: 20)")


def papers_protocol(data):
    """TGRank with T = 1000, then FenchelRank at the radius of its weights."""
    slow = timed(hr.TGRank(C=STRENGTH), data)
    radius = float(np.abs(slow[1].coef_).sum())
    return radius, [timed(hr.FenchelRank(radius, variant=v), data) for v in ("corrective", "classic")] + [slow]


def to_the_same_objective(data):
    """All stop when ‖w‖₁ + C·loss is within a thousandth of its minimum, FenchelRank at the minimiser's radius."""
    exact = hr.SparseRankSVM(C=STRENGTH, tol=1e-8).fit(*data)
    radius, goal = float(np.abs(exact.coef_).sum()), 1.001 * exact.objective_

    def inside(entry):
        return STRENGTH * entry["value"] + radius <= goal

    def penalised(entry):
        return entry["value"] <= goal

    rankers = [hr.FenchelRank(radius, 1e-9, variant=v, callback=inside) for v in ("corrective", "classic")]
    rankers.append(hr.TGRank(STRENGTH, tol=1e-9, max_iter=30_000, callback=penalised))
    return radius, [timed(ranker, data) for ranker in rankers]


def timed(ranker, data):
    """(seconds, the fitted ranker)."""
    start = time.perf_counter()
    ranker.fit(*data)
    return time.perf_counter() - start, ranker


def one_relevant_row(seed, queries=45):
    """A training fold (three fifths of 75 queries) with 1,000 rows and one relevant row a query, features in [0, 1]."""
    data = make_letor(queries, 1000, 64, 2, skew=(0.999, 0.001), useless=44, seed=seed)
    y = np.zeros(data.n_rows)
    best = np.asarray(data.y) + 1e-3 * (data.X @ np.ones(64))  # one row a query, also where the draw gave several
    for q in range(queries):
        y[q * 1000 + np.argmax(best[q * 1000 : (q + 1) * 1000])] = 1
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    return (data.X - low) / np.maximum(high - low, 1e-9), y, data.qid


def mean_loss(w, X, y, qid) -> float:
    """FenchelRank's objective at w."""
    s, total, pairs = X @ w, 0.0, 0
    for q in np.unique(qid):
        up, down = s[(qid == q) & (y > 0)], s[(qid == q) & (y == 0)]
        total += float((np.maximum(0, 1 - up[:, None] + down[None, :]) ** 2).sum())
        pairs += len(up) * len(down)
    return total / pairs


def text(asked) -> None:
    """Paths on a wide sparse matrix, and how much memory they take beyond it."""
    X, y, qid = make_text(asked.rows, asked.features)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    rows = slice(0, 2000)
    for ranker in (hr.SparseRankSVM(C=20.0), hr.FenchelRank(), hr.FenchelRank(variant="pairwise", max_iter=3)):
        ranker.fit(X[rows], y[rows], qid[rows])
    title = f"text: {X.shape[0]:,} rows × {X.shape[1]:,} features, {X.nnz:,} numbers, {size:.0f} MiB as CSR"
    table = Table("", "seconds", "peak memory beyond the matrix", "features in use", "iterations", title=title)
    calls = {
        "SparseRankSVM, 20 values of C": lambda: hr.SparseRankSVM().fit_path(X, y, qid, 20),
        "FenchelRank, 10 radii": lambda: hr.FenchelRank().fit_path(X, y, qid, np.geomspace(1, 40, 10).tolist()),
        "FenchelRank, radius 10, pairwise steps": lambda: [hr.FenchelRank(10.0, variant="pairwise").fit(X, y, qid)],
    }
    for name, call in calls.items():
        with PeakMemory() as memory:
            start = time.perf_counter()
            rankers = call()
            seconds = time.perf_counter() - start
        used, counts = [len(r.selected_features_) for r in rankers], [r.n_iter_ for r in rankers]
        extra = f"{memory.peak:.0f} MiB, with the matrix {1 + memory.peak / size:.2f} × the matrix"
        table.add_row(name, f"{seconds:.1f}", extra, f"{min(used)} to {max(used)}", f"{sum(counts)}")
    CONSOLE.print(table)


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


class PeakMemory:
    """Resident memory above that at the start, in MiB, looked at fifty times a second (Linux)."""

    def __enter__(self):
        self.start, self.peak, self.done = self.resident(), 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.done.set()
        self.thread.join()

    def watch(self):
        while not self.done.wait(0.02):
            self.peak = max(self.peak, self.resident() - self.start)

    @staticmethod
    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


PARTS = {"path": path, "steps": steps, "table6": table6, "text": text}

if __name__ == "__main__":
    main()
