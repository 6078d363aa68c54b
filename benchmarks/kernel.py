"""Table 2 of Chen et al. (2017) again: seconds and MeanNDCG of linear, exact RBF, Nyström and Fourier Ranking SVMs.

    python benchmarks/kernel.py            # quick: a fifth of the queries, m = 500
    python benchmarks/kernel.py --full [--write FOLDER]    # fold 1 of MQ2007-partial and of a generated set, m = 2000
    python benchmarks/kernel.py --full --sets generated    # one of the two
    python benchmarks/kernel.py --budget [--full] [--write FOLDER]    # mapping again for every pass instead of storing
    python benchmarks/kernel.py --figure   # Figure 2, from the results of `hingerank reproduce chen2017-fig2`

The paper's tables over five folds: `hingerank reproduce chen2017-table4`, -table5, chen2017-mq2008.
Real data from --data FOLDER, $HINGERANK_DATA or ../shared/data. MQ2007-partial is a uniform 85 % of MQ2007's rows, so
its measures are not those of the paper's table; the generated set has MQ2007's 69,623 rows but not its values.

Every fit runs in a process of its own. *Fit* leaves the mapping out. One *pass* is numpy's ``Phi @ v`` plus
``Phi.T @ u`` on the same float32 matrix in the same process; *mapping* is compared with the bare ``X @ W`` of the same
shapes. *MB* is the peak resident size during mapping and fit less that before. --write keeps the tables of
docs/kernel.md there (docs/results); MeanNDCG on MQ2007-partial is that of the reproductions, in double precision.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from measuring import default_data, keep_table, reset_peak, resident, run_apart, seconds_of, show_table

SETS = ["MQ2007-partial", "generated"]
PAPER = {  # MeanNDCG and seconds, 16 cores at 2.0 GHz, MQ2007 fold 1
    "linear, hinge": (0.5265, 1.9),
    "linear, squared hinge": (0.5270, 1.2),
    "exact RBF": (0.5310, 47463.5),
    "Nyström": (0.5330, 10.9),
    "Fourier": (0.5336, 16.1),
}
STORED = {  # rows of the stored table -> rows of chen2017-table2: ours, and the paper's
    "linear, squared hinge": ("RankSVM-Primal, linear, L2", "RankSVM-Primal, linear, L2"),
    "exact RBF": ("exact RBF, L2", "RankSVM-TRON, RBF, L1"),
    "Nyström": ("RankNyström, RBF, L2", "RankNyström, RBF, L2"),
    "Fourier": ("RankRandomFourier, RBF, L2", "RankRandomFourier, RBF, L2"),
    "Fourier, orthogonal": ("RankRandomFourier, orthogonal", ""),
}
SETTINGS = {  # the paper's C and gamma
    "linear, hinge": ("RankSVM", {"C": 2.0**-5, "loss": "hinge"}),
    "linear, squared hinge": ("RankSVM", {"C": 2.0**-10}),
    "exact RBF": ("KernelRankSVM", {"C": 2.0**-2, "gamma": 2.0**-5}),
    "Nyström": ("NystroemRankSVM", {"C": 2.0**-2, "gamma": 2.0**-5}),
    "Fourier": ("FourierRankSVM", {"C": 2.0**-2, "gamma": 2.0**-5, "orthogonal": False}),
    "Fourier, orthogonal": ("FourierRankSVM", {"C": 2.0**-2, "gamma": 2.0**-5}),
}


def load(name: str, share: float, folder: Path):
    """(train, validation, test) of fold 1, float32."""
    from hingerank.data.generate import make_like
    from hingerank.data.read_write import read_folds
    from hingerank.lab.folds import query_folds

    if name == "generated":
        fold = query_folds(make_like("MQ2007", seed=0, scale=share, dtype=np.float32))[0]
        return tuple(fold.part(part) for part in ("train", "validation", "test"))
    parts = read_folds(folder / "MQ2007-partial")[0]
    return tuple(_some(single(part), share) for part in parts)


def single(data):
    from dataclasses import replace

    return replace(data, X=data.X.astype(np.float32))


def _some(data, share: float):
    queries = data.blocks.ids
    kept = set(np.asarray(queries)[: max(1, round(share * len(queries)))].tolist())
    return data if share >= 1 else data.take(np.flatnonzero([q in kept for q in np.asarray(data.qid).tolist()]))


def work(job: dict) -> dict:
    """One method on one data set, in this process."""
    import hingerank as hr

    train, _, test = load(job["data"], job["share"], Path(job["folder"]))
    options = dict(job["options"])
    if job["ranker"] in ("NystroemRankSVM", "FourierRankSVM"):
        options["n_components"] = job["m"]
    ranker = getattr(hr, job["ranker"])(**options)
    warm = _some(train, 0.02)
    ranker.fit(warm)  # compiled code is loaded
    before = resident()
    reset_peak()
    start = time.perf_counter()
    ranker.fit(train)
    whole = time.perf_counter() - start
    answer = {
        "rows": train.n_rows, "pairs": ranker.n_pairs_, "seconds": whole, "solve": ranker.certificate_.seconds,
        "memory": resident("VmHWM") - before, "certificate": ranker.certificate_.value,
        "products": ranker.trace_[-1].get("products"), "steps": ranker.n_iter_,
        "mean_ndcg": hr.evaluate(test.y, ranker.predict(test.X), test.qid, "mean_ndcg:letor4")["mean_ndcg:letor4"],
    }  # fmt: skip
    if "n_components" in options:
        answer |= mapping(ranker, train.X)
    if job["ranker"] == "KernelRankSVM":
        answer["support"] = len(ranker.support_)
    return answer


def mapping(ranker, X) -> dict:
    """Seconds of the mapping, of its bare product, and of one pass over the mapped rows."""
    feature_map = ranker._map
    fitted = min(seconds_of(lambda: ranker._new_map().fit(X), 1))
    mapped = min(seconds_of(lambda: feature_map.rows(X), 3))
    W = np.ones((X.shape[1], feature_map.width_), np.float32)
    bare = min(seconds_of(lambda: X @ W, 3))
    Phi = feature_map.rows(X)
    v, u = np.ones(Phi.shape[1], np.float32), np.ones(Phi.shape[0], np.float32)
    one_pass = min(seconds_of(lambda: (Phi @ v, Phi.T @ u), 7))
    return {"choose": fitted, "map": mapped, "bare": bare, "pass": one_pass, "width": Phi.shape[1]}


def table(console: Console, name: str, arguments) -> dict[str, dict]:
    """Print a table, and return what was found by method."""
    share, m, rows = (1.0 if arguments.full else 0.2), (2000 if arguments.full else 500), []
    for method, (ranker, options) in SETTINGS.items():
        job = {
            "data": name,
            "share": share,
            "folder": str(arguments.data),
            "ranker": ranker,
            "options": options,
            "m": m,
        }
        rows.append((method, options, run_apart(__file__, job)))
    title = f"{name}: the paper's C and gamma"
    if name == "MQ2007-partial":
        title += " (85 % of MQ2007's rows: not comparable with the paper's MeanNDCG)"
    shown = Table(
        "", "C", "γ", "MeanNDCG", "seconds", "fit", "fit / pass", "choose", "map", "map / bare", "MB", "paper NDCG",
        "paper s", title=title,
    )  # fmt: skip
    for method, options, found in rows:
        paper = PAPER.get(method, ("", ""))
        if "error" in found:
            shown.add_row(method, *[""] * 10, found["error"][:60])
            continue
        shown.add_row(
            method, f"2^{np.log2(options['C']):.0f}",
            f"2^{np.log2(options['gamma']):.0f}" if "gamma" in options else "",
            f"{found['mean_ndcg']:.4f}", f"{found['seconds']:.2f}", f"{found['solve']:.2f}",
            f"{found['solve'] / found['pass']:.0f}" if "pass" in found else "",
            f"{found['choose']:.2f}" if "map" in found else "",
            f"{found['map']:.2f}" if "map" in found else "",
            f"{found['map'] / found['bare']:.2f}" if "map" in found else "",
            f"{found['memory'] / 1e6:.0f}", *map(str, paper),
        )  # fmt: skip
    console.print(shown)
    first = rows[0][2]
    console.print(f"{first.get('rows', '?')} training rows, {first.get('pairs', '?')} pairs, m = {m}")
    exact = rows[2][2]
    if "error" not in exact:
        console.print(
            f"exact RBF: {exact['products']} products in {exact['steps']} Newton steps, {exact['support']} of "
            f"{exact['rows']} rows kept; one triangle of K is {2 * exact['rows'] ** 2 / 1e9:.2f} GB\n"
        )
    return {method: found for method, _, found in rows}


def stored_rows(name: str, by_method: dict[str, dict]) -> list[list[str]]:
    """The rows of docs/results/kernel-full.json of one data set."""
    rows = []
    for method, (ours, papers) in STORED.items():
        found = by_method[method]
        seconds, cited = found["seconds"], "{paper chen2017-table2 / MQ2007, fold 1 / %s / MeanNDCG}"
        real = name == "MQ2007-partial"
        rows.append([
            "" if rows else f"{found['rows']:,}, {name}",
            "Fourier, independent" if method == "Fourier" else method,
            f"{seconds:.{1 if seconds >= 10 else 2}f}",
            f"{found['solve'] / found['pass']:.0f}" if "pass" in found else "",
            f"{found['map'] / found['bare']:.2f}" if "map" in found else "",
            cited.replace("paper ", "") % ours if real else f"{found['mean_ndcg']:.4f}",
            f"{PAPER[method][1]:,}, {cited % papers}" if real and papers else "",
        ])  # fmt: skip
    return rows


def budget(arguments) -> None:
    """The same fits with less stored, or nothing: memory saved, and what it costs."""
    share, m = (1.0, 2000) if arguments.full else (0.2, 500)
    header, rows = ["ranker", "`memory_gb`", "seconds", "MB"], []
    for method, half in (("exact RBF", 1.75 * share**2), ("Nyström", None), ("Fourier", None)):
        ranker, options = SETTINGS[method]
        for memory in (None, 0) if half is None else (None, half, 0):
            job = {"data": "generated", "share": share, "folder": "", "ranker": ranker, "m": m}
            found = run_apart(__file__, job | {"options": options | {"memory_gb": memory}})
            if "error" in found:
                raise SystemExit(f"{method}: {found['error']}")
            words = "all kept" if memory is None else f"{memory:g}, half kept" if memory else "0, nothing kept"
            rows.append([method, words, f"{found['seconds']:.2f}", f"{found['memory'] / 1e6:,.0f}"])
    command = "python benchmarks/kernel.py --budget" + " --full" * arguments.full
    show_table("kernel-memory", command, header, rows, "less memory, generated set", arguments.write)


LABELS = {
    "RankNyström": "Nyström",
    "RankRandomFourier": "Fourier, independent",
    "RankRandomFourier, orthogonal": "Fourier, orthogonal",
}


def figure(console: Console, path: Path) -> None:
    """Figure 2: measures on test against m, mean over five folds, with the linear ranker as a dotted line."""
    from matplotlib.figure import Figure

    from hingerank.lab.report.figures import save_figure
    from hingerank.papers import find_table, load_outcome

    sizes = (25, 50, 100, 200, 500, 1000, 2000)
    outcome = load_outcome(find_table("chen2017-fig2"), Path("docs/reproductions"))
    if outcome is None:
        raise SystemExit("there are no results to draw: run `hingerank reproduce chen2017-fig2` first")
    ours = {name: row.values for name, row in outcome.sections[0].items()}
    drawing = Figure(figsize=(13, 3.2), layout="constrained")
    for k, title in enumerate(outcome.table.sections[0].columns):
        axis = drawing.add_subplot(1, 4, k + 1)
        for name, label in LABELS.items():
            rows = {m: ours.get(name if m == sizes[-1] else f"{name}, m = {m}") for m in sizes}
            known = {m: row[title] for m, row in rows.items() if row}
            axis.plot(list(known), list(known.values()), marker="o", markersize=3, label=label)
        axis.axhline(ours["RankSVM-Primal"][title], color="black", linestyle=":", label="linear")
        axis.set(title=title, xlabel="m", xscale="log")
        axis.set_xticks(sizes, [str(m) for m in sizes], rotation=45)
        axis.minorticks_off()
    drawing.axes[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(drawing, path, outcome.source)
    console.print(f"plot: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--plot", type=Path, default=Path("docs/figures/kernel_components.svg"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--write", type=Path, help="folder to keep the table in, such as docs/results")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(json.loads(arguments.worker))))
        return
    console = Console(width=160)
    if arguments.budget or arguments.figure:
        budget(arguments) if arguments.budget else figure(console, arguments.plot)
        return
    if arguments.write and (not arguments.full or arguments.sets != SETS):
        parser.error("the stored table is of all sets in full: give --write with --full, without --sets")
    rows: list[list[str]] = []
    for name in arguments.sets:
        if name != "generated" and not (arguments.data / name).is_dir():
            console.print(f"{arguments.data} has no {name}: left out")
            continue
        found = table(console, name, arguments)
        rows += stored_rows(name, found) if arguments.write else []
    if arguments.write:
        header = ["training rows", "ranker", "seconds", "fit / pass", "mapping / product", "MeanNDCG",
                  "paper: seconds, MeanNDCG"]  # fmt: skip
        keep_table(arguments.write, "kernel-full", "python benchmarks/kernel.py --full", header, rows)


if __name__ == "__main__":
    main()
