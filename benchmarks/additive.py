"""AdditiveRankSVM at the cost of a line: memory, passes and fits against RankSVM's, and fits against LightGBM's.

    python benchmarks/additive.py [--size L] [--knots 16] [--without-trees] [--write FOLDER]

Data of `make_benchmark` in float32; squared hinge, tol 1e-3. Fits and passes of both rankers are timed in turns in one
process (the least of three), by the wall clock and, in brackets, by processor time of all threads, which tells more on
a busy machine. A pass is one Hessian product over all rows. LightGBM grows 100 trees of 31 leaves. --write keeps the
table as additive-cost.json there (docs/results).
"""

import argparse
import datetime
import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.generate import make_benchmark, make_letor
from hingerank.features.curves import place_knots
from hingerank.losses import squared_hinge
from hingerank.problem import Problem, RowsDesign
from hingerank.problem.binned import curve_design


def timed(call):
    """(wall seconds, processor seconds, answer)."""
    wall, busy = time.perf_counter(), time.process_time()
    answer = call()
    return time.perf_counter() - wall, time.process_time() - busy, answer


def in_turns(calls, repeat=3):
    """The least (wall, processor) seconds of each call, and its last answer."""
    found = dict.fromkeys(calls, (np.inf, np.inf, None))
    for _ in range(repeat):
        for name, call in calls.items():
            wall, busy, answer = timed(call)
            found[name] = min(found[name][0], wall), min(found[name][1], busy), answer
    return found


def passes(data, counts):
    """Least seconds of a Hessian product of each design, and the bytes of each."""
    preferences = hr.GradedPreferences(data.y, data.blocks.offsets)
    designs = {"RankSVM": RowsDesign(data.X)}
    for count in counts:
        designs[count] = curve_design(data.X, place_knots(data.X, count), 10.0, np.ones(data.n_features))
    calls = {}
    for name, design in designs.items():
        w = np.random.default_rng(0).normal(size=design.shape[1])
        curvature = Problem(design, squared_hinge(), preferences, C=1e-4).at(0.01 * w).curvature
        calls[name] = lambda curvature=curvature, w=w: curvature(w)
    sizes = {count: sum(part.nbytes for part in designs[count].inner.rows) for count in counts}
    return in_turns(calls, 5), sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="L")
    parser.add_argument("--knots", type=int, default=16)
    parser.add_argument("--without-trees", action="store_true")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    small = make_letor(n_queries=40, rows_per_query=20, n_features=8, dtype="float32", seed=0)
    hr.RankSVM().fit(small), hr.AdditiveRankSVM().fit(small)  # load compiled code
    data = make_benchmark(asked.size)
    rows = []

    def add(what, ours, theirs):
        rows.append([what, ours, theirs])

    products, sizes = passes(data, (asked.knots, 100))
    line = products["RankSVM"]
    for count in (asked.knots, 100):
        wall, busy, _ = products[count]
        against = f"{wall / line[0]:.1f} ({busy / line[1]:.1f}) × RankSVM's {line[0]:.3f} ({line[1]:.3f})"
        add(f"a pass, {count} knots", f"{wall:.3f} s ({busy:.3f})", against)
    add("bins and places", f"{sizes[asked.knots] / 1e6:.0f} MB", f"{sizes[asked.knots] / data.X.nbytes:.2f} × X")
    slowest = busiest = 0.0
    for C in (1e-4, 1e-2):
        fits = in_turns(
            {
                "RankSVM": lambda C=C: hr.RankSVM(C=C).fit(data),
                "ours": lambda C=C: hr.AdditiveRankSVM(asked.knots, C=C).fit(data),
            }
        )
        (a, b, ours), (c, d, _) = fits["ours"], fits["RankSVM"]
        slowest, busiest = max(slowest, a), max(busiest, b)
        assert ours.certificate_.converged
        add(f"a fit, C = {C:g}", f"{a:.2f} s ({b:.2f})", f"{a / c:.1f} ({b / d:.1f}) × RankSVM's {c:.2f} ({d:.2f})")
    if not asked.without_trees:
        trees = hr.LightGBMRanker(n_estimators=100, num_leaves=31, n_jobs=2)
        wall, busy, _ = timed(lambda: trees.fit(data))
        add(
            "LightGBM, 100 trees",
            f"{wall:.1f} s ({busy:.1f})",
            f"{wall / slowest:.1f} ({busy / busiest:.1f}) × our slower fit",
        )
    header = [f"{asked.size}: {data.n_rows:,} × {data.n_features}, {asked.knots} knots", "seconds", "against"]
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)
    if asked.write:
        how = " --without-trees" if asked.without_trees else ""
        words = {"command": f"python benchmarks/additive.py{how}", "date": str(datetime.date.today())}
        words |= {"version": hr.__version__, "header": header, "rows": rows}
        (asked.write / "additive-cost.json").write_text(json.dumps(words, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
