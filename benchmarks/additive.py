"""AdditiveRankSVM at the cost of a line: memory, passes and fits against RankSVM's, and fits against LightGBM's.

    python benchmarks/additive.py [--size L] [--knots 16] [--without-trees] [--write FOLDER]

Data of `make_benchmark` in float32; squared hinge, tol 1e-3. Fits and passes of both rankers are timed in turns in one
process (the least of three fits, of forty passes), by the wall clock and, in brackets, by processor time of all
threads, which tells more on a busy machine. A pass is one Hessian product over all rows. LightGBM grows 100 trees of 31
leaves. --write keeps the tables as additive-cost.json and, with trees, additive-trees.json there (docs/results).
"""

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.generate import make_benchmark, make_letor
from hingerank.features.curves import make_grid, place_knots
from hingerank.losses import squared_hinge
from hingerank.problem import Problem, RowsDesign
from hingerank.problem.curves import CurveBasis, CurveDesign, StackedDesign, SurfaceDesign, binned_design
from measuring import keep_table


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
    """Least seconds of a Hessian product of each design, the bytes of each, and (wall, processor) seconds of making it.

    The design called "surface" is the first one with a surface beside the curves.
    """
    preferences = hr.GradedPreferences(data.y, data.blocks.offsets)
    designs, made = {"RankSVM": RowsDesign(data.X)}, {}
    for count in counts:
        knots = place_knots(data.X, count)
        *made[count], bins = timed(lambda knots=knots: binned_design(data.X, knots))
        designs[count] = CurveDesign(bins, CurveBasis(knots, 10.0, np.ones(data.n_features), zero=False))
        if "surface" not in designs:
            surface = SurfaceDesign(data.X, [make_grid(knots, 0, 1, 5)], 10.0)
            designs["surface"] = StackedDesign(designs[count], surface)
    calls = {}
    for name, design in designs.items():
        w = np.random.default_rng(0).normal(size=design.shape[1])
        curvature = Problem(design, squared_hinge(), preferences, C=1e-4).at(0.01 * w).curvature
        calls[name] = lambda curvature=curvature, w=w: curvature(w)
    sizes = {count: sum(part.nbytes for part in designs[count].inner.rows[:2]) for count in counts}
    return in_turns(calls, 40), sizes, made


def against(ours, line):
    """The factors between two (wall, processor) seconds, as a cell."""
    return f"{ours[0] / line[0]:.1f} ({ours[1] / line[1]:.1f}) × RankSVM's {line[0]:.3g} ({line[1]:.3g})"


def costs(data, knots):
    """(rows of passes and memory, rows of fits, (wall, processor) seconds of the slowest fit)."""
    products, sizes, made = passes(data, (knots, 126, 300))
    line, rows, fits, slowest = products["RankSVM"], [], [], (0.0, 0.0)
    titles = {knots: f"{knots} knots", 126: "126 knots, the most whose bins take a byte", 300: "300 knots"}
    titles["surface"] = f"{knots} knots and a surface"
    for name, what in titles.items():
        wall, busy, _ = products[name]
        rows.append([f"a pass, {what}", f"{wall:.3f} s ({busy:.3f})", against((wall, busy), line)])
    rows.append(["bins and places", f"{sizes[knots] / 1e6:.0f} MB", f"{sizes[knots] / data.X.nbytes:.2f} × X"])
    for C in (1e-4, 1e-2):
        calls = {
            "RankSVM": lambda C=C: hr.RankSVM(C=C).fit(data),
            "ours": lambda C=C: hr.AdditiveRankSVM(knots, C=C).fit(data),
        }
        found = in_turns(calls)
        ours, line = found["ours"], found["RankSVM"]
        assert ours[2].certificate_.converged
        slowest = tuple(max(pair) for pair in zip(slowest, ours[:2], strict=True))
        fits.append([f"a fit, C = {C:g}", f"{ours[0]:.2f} s ({ours[1]:.2f})", against(ours, line)])
    wall, busy = made[knots]
    share = f"{busy / slowest[1]:.2f} of the slower fit's processor time"
    return [*rows, ["finding bins", f"{wall:.2f} s ({busy:.2f})", share]], fits, slowest


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
    rows, fits, slowest = costs(data, asked.knots)
    tables = {"additive-cost": rows + fits}
    if not asked.without_trees:
        trees = hr.LightGBMRanker(n_estimators=100, num_leaves=31, n_jobs=2)
        wall, busy, _ = timed(lambda: trees.fit(data))
        ratio = f"{wall / slowest[0]:.1f} ({busy / slowest[1]:.1f}) × our slower fit"
        tables["additive-trees"] = [*fits, ["LightGBM, 100 trees", f"{wall:.1f} s ({busy:.1f})", ratio]]
    header = [f"{asked.size}: {data.n_rows:,} × {data.n_features}, {asked.knots} knots", "seconds", "against"]
    how = " --without-trees" if asked.without_trees else ""
    for name, cells in tables.items():
        table = Table(*header)
        for row in cells:
            table.add_row(*row)
        Console(width=120).print(table)
        if asked.write:
            keep_table(asked.write, name, f"python benchmarks/additive.py{how}", header, cells)


if __name__ == "__main__":
    main()
