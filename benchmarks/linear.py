"""Linear RankSVM against its peers, and its cost as the data grow.

    python benchmarks/linear.py                 # S and L: ours, and the peers that are installed
    python benchmarks/linear.py --sizes XL XXL --peers     # without peers
    python benchmarks/linear.py --sizes L --peers --losses logistic exponential listnet listmle
    python benchmarks/linear.py --curves        # cost against rows, features, rows per query and grades, with a plot
    python benchmarks/linear.py --hessian       # where an explicit Hessian beats conjugate gradients
    python benchmarks/linear.py --passes [--sizes L] [--write docs/results]    # where the passes of a fit go

Every fit runs in a process of its own on float32 rows made by `hingerank.data.generate.make_benchmark`. One *pass* is
the time numpy takes for ``X @ v`` and ``X.T @ u`` on the same array in the same process. *Extra memory* is the peak
resident size during the fit less that just before it, as a share of X.
"""

import argparse
import dataclasses
import json
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from measuring import keep_table, reset_peak, resident, run_apart, seconds_of

SIZES = {"S": "700 × 100 × 46, 3 grades", "L": "6,000 × 120 × 136, 5 grades", "XL": "WEB10K", "XXL": "WEB30K"}
CS = (1e-6, 1e-3, 1.0)
PEERS = ["LightGBM lambdarank", "XGBoost rank:ndcg", "CatBoost YetiRank", "LinearSVC on pairs"]
RECORDED = [  # measured on a like machine with programs that no package registry carries: seconds / MB at S and at L
    ("LIBLINEAR ranksvm, squared hinge", ".26 / 61", "4.73 / 1582"),
    ("SVMrank, hinge", "2.7 / 42", "52 / 905"),
    ("sofia-ml, a million steps", ".87 / 49", "2.5 / 1500"),
    ("dlib, two grades only", "1.07 / 59", "11.8 / 1557"),
    ("RLScore RankRLS", ".37 / 314", "26.9 / 6295"),
]


def pass_seconds(X) -> float:
    v, u = np.ones(X.shape[1], X.dtype), np.ones(X.shape[0], X.dtype)
    return min(seconds_of(lambda: (X @ v, X.T @ u), 7))


def work(job: dict) -> dict:
    """One fit, in this process."""
    from hingerank.data.generate import make_benchmark, make_letor

    data = make_letor(**job["make"]) if "make" in job else make_benchmark(job["size"])
    X, y, qid = data.X, data.y, data.qid
    fit = peer_fit(job["peer"], data) if "peer" in job else our_fit(job, data)
    if "peer" not in job:
        our_fit(job, make_letor(n_queries=40, rows_per_query=20, n_features=8, seed=0))()  # load compiled code
    one_pass, before = pass_seconds(X), resident()
    reset_peak()
    [first] = seconds_of(fit)
    extra = max(0, resident("VmHWM") - before) / X.nbytes
    answer = {"rows": X.shape[0], "features": X.shape[1], "pass": one_pass, "extra": extra}
    answer["seconds"] = first if "peer" in job else statistics.median(seconds_of(fit, 3))
    if "peer" not in job:
        ranker = fit()
        answer |= {"pairs": ranker.n_pairs_, "certificate": ranker.certificate_.value, "iterations": ranker.n_iter_}
        from hingerank import evaluate

        answer["ndcg"] = evaluate(y, ranker.predict(X), qid, "ndcg@10")["ndcg@10"]
    return answer


class Counted:
    """Counts the readings of rows in a fit, in units of all rows, and the seconds of each kind."""

    KINDS = ("checks", "preferences", "loss and gradient", "Hessian products", "samples")

    def __init__(self):
        from hingerank.problem import problem
        from hingerank.rankers import base, linear

        self.readings, self.seconds = dict.fromkeys(self.KINDS, 0.0), dict.fromkeys(self.KINDS, 0.0)
        self.wrap(base.BaseRanker, "_learning_rows", "checks")
        self.wrap(linear.PairwiseRanker, "_preferences", "preferences")
        self.wrap(problem.FusedPass, "at", "loss and gradient")

    def timed(self, kind, stride, function, *given, **more):
        began = time.perf_counter()
        found = function(*given, **more)
        kind = "samples" if stride > 1 else kind
        self.readings[kind] += 1 / stride
        self.seconds[kind] += time.perf_counter() - began
        return found

    def wrap(self, owner, name, kind):
        usual, count = getattr(owner, name), self

        def counted(own, *given, **more):
            stride = getattr(own, "stride", 1)
            found = count.timed(kind, stride, usual, own, *given, **more)
            if hasattr(found, "curvature"):
                product = partial(count.timed, "Hessian products", stride, found.curvature)
                found = dataclasses.replace(found, curvature=product)
            return found

        setattr(owner, name, counted)


def count_passes(job: dict) -> dict:
    """Where the passes of one fit go, in this process."""
    from hingerank.data.generate import make_benchmark, make_letor

    data = make_benchmark(job["size"])
    our_fit(job, make_letor(n_queries=40, rows_per_query=20, n_features=8, seed=0))()
    fit = our_fit(job, data)
    one_pass, fastest = pass_seconds(data.X), min(seconds_of(fit, 5))  # the fastest of several, both
    counted = Counted()
    ranker = fit()
    answer = {"seconds": fastest, "pass": one_pass, "iterations": ranker.n_iter_}
    return answer | {"readings": counted.readings, "spent": counted.seconds, "certificate": ranker.certificate_.value}


def passes(sizes, console, write: Path | None) -> None:
    """A table of the readings of all rows in a fit, and of its seconds in passes; write: a folder to store it in."""
    header = ["size", "C", "iterations", "certificate", "passes in all", *Counted.KINDS]
    rows = []
    for size in sizes:
        for C in (1e-6, 1e-3, 1.0, 1e3):
            answer = run_apart(__file__, {"size": size, "C": C, "loss": "squared_hinge", "passes": True})
            if "error" in answer:
                raise SystemExit(answer["error"])
            read, spent = answer["readings"], answer["spent"]
            rows.append([
                size, f"{C:g}", str(answer["iterations"]), f"{answer['certificate']:.1e}",
                f"{answer['seconds'] / answer['pass']:.1f}",
                *(f"{spent[kind] / answer['pass']:.2f} / {read[kind]:.2f}" for kind in Counted.KINDS),
            ])  # fmt: skip
    table = Table(*header, title="passes of a fit; of each kind: seconds in passes / readings of all rows")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if write is not None:
        keep_table(write, "linear-passes", "python benchmarks/linear.py --passes --sizes L", header, rows)


def our_fit(job, data):
    from hingerank import RankSVM

    options = {k: job[k] for k in ("loss", "C", "tol") if k in job}
    return lambda: RankSVM(**options).fit(data)


def peer_fit(name, data):
    X, y, counts = data.X, data.y.astype(int), data.blocks.sizes
    if name.startswith("LightGBM"):
        import lightgbm

        ranker = lightgbm.LGBMRanker(n_estimators=100, num_leaves=31, n_jobs=2, verbose=-1)
        return lambda: ranker.fit(X, y, group=counts)
    if name.startswith("XGBoost"):
        import xgboost

        ranker = xgboost.XGBRanker(
            objective="rank:ndcg", n_estimators=100, max_leaves=31, max_depth=0, grow_policy="lossguide", n_jobs=2
        )
        return lambda: ranker.fit(X, y, group=counts)
    if name.startswith("CatBoost"):
        import catboost

        ranker = catboost.CatBoostRanker(
            loss_function="YetiRank", iterations=100, max_leaves=31, grow_policy="Lossguide", thread_count=2,
            verbose=False, allow_writing_files=False,
        )  # fmt: skip
        return lambda: ranker.fit(X, y, group_id=data.qid)
    from sklearn.svm import LinearSVC

    from hingerank import GradedPreferences

    pairs = GradedPreferences(data.y, data.blocks.offsets).pairs()
    some = np.random.default_rng(0).permutation(len(pairs.winner))[:1_000_000]

    def fit():
        D = X[pairs.winner[some]] - X[pairs.loser[some]]
        sign = np.where(np.arange(len(D)) % 2, 1, -1)
        LinearSVC(C=1e-3, fit_intercept=False, dual=False, tol=1e-3).fit(D * sign[:, None], sign)

    return fit


def compare(sizes, peers, losses, console) -> list[dict]:
    rows = []
    for size in sizes:
        table = Table(title=f"{size}: {SIZES[size]}")
        for column in ("method", "seconds", "passes", "extra memory / X", "certificate", "iterations", "train NDCG@10"):
            table.add_column(column, justify="left" if column == "method" else "right")
        jobs = [{"size": size, "tol": 1e-3, "loss": loss, "C": C} for loss in losses for C in CS]
        jobs += [{"size": size, "peer": peer} for peer in PEERS if peer.split()[0] in peers]
        for job in jobs:
            name = job.get("peer") or f"RankSVM {job['loss'].replace('_', ' ')}, C = {job['C']:g}"
            answer = run_apart(__file__, job)
            rows.append({"size": size, "method": name, **answer})
            if "error" in answer:
                table.add_row(name, answer["error"][:60])
                continue
            table.add_row(
                name, f"{answer['seconds']:.3f}", f"{answer['seconds'] / answer['pass']:.1f}", f"{answer['extra']:.2f}",
                f"{answer['certificate']:.1e}" if "certificate" in answer else "",
                str(answer.get("iterations", "")), f"{answer['ndcg']:.4f}" if "ndcg" in answer else "",
            )  # fmt: skip
        console.print(table)
        console.print(f"one pass: {min(r['pass'] for r in rows if r['size'] == size and 'pass' in r):.4f} s")
    if peers:
        table = Table(
            "recorded elsewhere on a like machine", "S: s / MB", "L: s / MB", title="peers no registry carries"
        )
        for row in RECORDED:
            table.add_row(*row)
        console.print(table)
    return rows


def curves(console, figure: Path) -> list[dict]:
    """Seconds of a fit as one size grows and the others stand still; slope of log seconds against log size."""
    base = {"n_queries": 1500, "rows_per_query": 100, "n_features": 64, "n_grades": 5, "seed": 1}
    sweeps = {
        "rows (more queries)": ("n_queries", [500, 1500, 4500, 13500], 100),
        "features": ("n_features", [16, 64, 256, 1024], 1),
        "rows per query": ("rows_per_query", [10, 100, 1000, 10000], 1),
        "grades": ("n_grades", [2, 5, 20, 100], 1),
    }
    rows = []
    table = Table("size", "value", "seconds", "passes", "slope from the point before")
    for name, (key, values, factor) in sweeps.items():
        last = None
        for value in values:
            make = base | {key: value}
            if key == "rows_per_query":
                make["n_queries"] = max(1, 150_000 // value)
            answer = run_apart(__file__, {"make": make, "loss": "squared_hinge", "C": 1e-4, "tol": 1e-3})
            size = value * factor
            slope = "" if last is None else f"{np.log(answer['seconds'] / last[1]) / np.log(size / last[0]):.2f}"
            last = (size, answer["seconds"])
            rows.append({"sweep": name, "size": size, **answer})
            table.add_row(
                name, str(size), f"{answer['seconds']:.4f}", f"{answer['seconds'] / answer['pass']:.1f}", slope
            )
    console.print(table)
    plot(rows, figure)
    console.print(f"plot: {figure}")
    return rows


def plot(rows, figure: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["sweep"] for row in rows))
    picture, axes = plt.subplots(1, len(names), figsize=(12, 3), constrained_layout=True)
    for axis, name in zip(axes, names):
        x, s, p = (np.array([row[k] for row in rows if row["sweep"] == name]) for k in ("size", "seconds", "pass"))
        axis.loglog(x, s, "o-", label="fit")
        axis.loglog(x, p, "s--", label="one pass over X", color="0.5")
        axis.set(xlabel=name, ylabel="seconds" if axis is axes[0] else "")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(figure)


def hessian(console) -> None:
    """Seconds of the explicit Hessian in Hessian products, over the dimension: above which count it pays."""
    from hingerank import GradedPreferences
    from hingerank.data.generate import make_letor
    from hingerank.losses import squared_hinge
    from hingerank.problem import Problem, RowsDesign

    table = Table("rows", "features", "product, ms", "Hessian, ms", "Hessian in products", "per dimension")
    for n_queries, d in ((60, 45), (600, 45), (600, 136), (300, 300)):
        data = make_letor(n_queries=n_queries, rows_per_query=150, n_features=d, n_grades=3, seed=1)
        preferences = GradedPreferences(data.y, data.blocks.offsets)
        point = Problem(RowsDesign(data.X), squared_hinge(), preferences, C=1e-3).at(np.zeros(d))
        point.hessian()
        v = np.ones(d)
        product = min(seconds_of(lambda p=point, v=v: p.curvature(v), 20))
        whole = min(seconds_of(point.hessian, 5))
        table.add_row(
            str(data.n_rows), str(d), f"{1e3 * product:.2f}", f"{1e3 * whole:.2f}", f"{whole / product:.0f}",
            f"{whole / product / d:.2f}",
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["S", "L"])
    parser.add_argument("--peers", nargs="*", default=[peer.split()[0] for peer in PEERS], help="by their first word")
    parser.add_argument("--losses", nargs="+", default=["squared_hinge", "hinge"])
    parser.add_argument("--curves", action="store_true")
    parser.add_argument("--hessian", action="store_true")
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/linear-cost.svg"))
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--write", type=Path, help="folder to store the table of --passes in, such as docs/results")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        job = json.loads(options.worker)
        print(json.dumps(count_passes(job) if job.get("passes") else work(job)))
        return
    console = Console(width=140)
    if options.hessian:
        hessian(console)
        return
    if options.passes:
        passes(options.sizes, console, options.write)
        return
    rows = (
        curves(console, options.figure)
        if options.curves
        else compare(options.sizes, options.peers, options.losses, console)
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
