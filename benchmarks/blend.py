"""Blends against their members and against tuned trees: real sets in five folds, and generated ones.

    python benchmarks/blend.py fit [--sets OHSUMED,MQ2008] [--families LightGBM,RankSVM] [--folds 1,2,3,4,5]
    python benchmarks/blend.py report [--write docs/results]

`fit` tries 18 settings of every family on the training queries of a fold and keeps the one with the largest NDCG@10 on
the validation queries; trees stop early on these. It keeps the chosen model's scores of validation and test queries in
--folder, and goes on from there. Pieces may be run one after another.

`report` makes the blends: scales and weights come from the scores of validation queries, which no member has learnt
from. Test queries are measured once. p is of a two-sided randomisation test against LightGBM over the test queries of
all folds, with Holm's correction over the methods of a set. Seconds are of the processor: all 18 fits of a method, of a
blend those of its members, mean over folds.
"""

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.read_write import read_folds
from hingerank.lab.statistics import holm, randomisation
from hingerank.papers.engine import default_data
from hingerank.rankers.blending import OutOfFold, blend_scores
from measuring import keep_table

REAL = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008", "MQ2007-partial": "MQ2007-partial"}
MADE = {"lines, 20k rows": ("linear", 250), "interactions, 20k rows": ("nonlinear", 250)}
MADE |= {"lines, 500k rows": ("linear", 6000), "interactions, 500k rows": ("nonlinear", 6000)}
MEASURE, STOP, MOST_TREES = "ndcg@10", 50, 500
NINE, SIX = np.geomspace(1e-6, 1.0, 9).tolist(), np.geomspace(1e-6, 1e-1, 6).tolist()
LINES = [{"scale": scale, "C": C} for scale in ("standard", "query-minmax") for C in NINE]
CURVES = [{"smoothness": s, "C": C} for s in (1.0, 10.0, 100.0) for C in SIX]
RANKS = [{"context": context, "C": C} for context in ("rank", "standard") for C in NINE]
PAIRS = [{"interactions": pairs, "C": C} for pairs in (0, 6, 20) for C in SIX]


def sampled(share: float, rows: str, columns: str, more: dict) -> dict:
    """Parameters of a library that grows trees on a share of the rows and columns."""
    return {} if share == 1 else {rows: share, columns: share} | more


BAGS = "bagging_fraction", "feature_fraction", {"bagging_freq": 1}
LIGHTGBM = [
    {"num_leaves": n, "learning_rate": r, "params": sampled(s, *BAGS)}
    for n in (7, 15, 31) for r in (0.05, 0.1) for s in (1.0, 0.7, 0.5)
]  # fmt: skip
XGBOOST = [
    {"max_depth": d, "learning_rate": r, "params": sampled(s, "subsample", "colsample_bytree", {})}
    for d in (3, 4, 6) for r in (0.05, 0.1) for s in (1.0, 0.7, 0.5)
]  # fmt: skip
TREES = {"n_estimators": MOST_TREES, "early_stopping_rounds": STOP, "n_jobs": 1}
FAMILIES = {
    "LightGBM": (hr.LightGBMRanker, LIGHTGBM, TREES),
    "XGBoost": (hr.XGBoostRanker, XGBOOST, TREES),
    "RankSVM": (hr.RankSVM, LINES, {}),
    "curves": (hr.AdditiveRankSVM, CURVES, {}),
    "RankSVM, NDCG rounds": (hr.RankSVM, LINES, {"pair_weight": "ndcg"}),
    "curves, NDCG rounds": (hr.AdditiveRankSVM, CURVES, {"pair_weight": "ndcg"}),
    "curves and surfaces": (hr.AdditiveRankSVM, PAIRS, {}),
    "RankSVM, context": (hr.RankSVM, RANKS, {"scale": "standard"}),
}
THREE, TWO = ["LightGBM", "RankSVM", "curves"], ["RankSVM", "curves"]
BLENDS = {
    "LightGBM + RankSVM + curves, equal": (THREE, "equal"),
    "LightGBM + RankSVM + curves, stack": (THREE, "stack"),
    "LightGBM + RankSVM + curves, auto": (THREE, "auto"),
    "RankSVM + curves, auto": (TWO, "auto"),
    "LightGBM + XGBoost, auto": (["LightGBM", "XGBoost"], "auto"),
    "LightGBM + RankSVM + curves with NDCG rounds, auto": (["LightGBM", "RankSVM", "curves, NDCG rounds"], "auto"),
    "LightGBM + RankSVM + curves and surfaces, auto": (["LightGBM", "RankSVM", "curves and surfaces"], "auto"),
}


def folds_of(name: str, data: Path) -> list:
    """(train, validation, test) of every fold."""
    if name in REAL:
        return [(fold.train, fold.validation, fold.test) for fold in read_folds(data / REAL[name])]
    signal, queries = MADE[name]
    found = []
    for seed in range(5 if queries < 1000 else 1):  # a truth of its own each time
        made = hr.make_letor(5 * queries // 3, (40, 120), n_features=30, n_grades=5, signal=signal, seed=100 + seed)
        rest, test = made.split(0.2, seed=seed)
        train, validation = rest.split(0.25, seed=seed)
        found.append((train, validation, test))
    return found


def fitted(kind, settings, fixed, train, validation):
    """A fitted ranker for every setting; those that differ in C alone along one path."""
    if "early_stopping_rounds" in fixed:
        for setting in settings:
            yield setting, kind(**fixed, **setting).fit(train, eval_set=[validation])
        return
    groups: dict = {}
    for setting in settings:
        rest = {name: value for name, value in setting.items() if name != "C"}
        groups.setdefault(json.dumps(rest), []).append(setting)
    for group in groups.values():
        first = {name: value for name, value in group[0].items() if name != "C"}
        yield from zip(group, kind(**fixed, **first).fit_path(train, Cs=[setting["C"] for setting in group]))


def fit(family: str, parts, trials: int) -> dict:
    """The best setting of a family on the validation queries, and its scores."""
    kind, settings, fixed = FAMILIES[family]
    train, validation, test = parts
    began, best = time.process_time(), None
    for setting, ranker in fitted(kind, settings[:: max(1, len(settings) // trials)], fixed, train, validation):
        scores = ranker.predict(validation.X, validation.qid)
        value = hr.evaluate(validation.y, scores, validation.qid, MEASURE)[MEASURE]
        if best is None or value > best["value"]:
            best = {"value": value, "setting": setting, "validation": scores, "ranker": ranker}
    seconds = time.process_time() - began
    scores = best.pop("ranker").predict(test.X, test.qid)
    return {**best, "test": scores, "seconds": seconds}


def place(folder: Path, name: str, fold: int, family: str) -> Path:
    return folder / f"{name} {fold} {family}.npz".replace(",", "").replace(" ", "-")


def measured(part, scores) -> np.ndarray:
    return hr.evaluate(part.y, scores, part.qid, MEASURE, per_query=True)[MEASURE]


def out_of_fold(part, scores: list) -> OutOfFold:
    """Scores of validation queries by members that have not learnt from them; five parts for the stack's own folds."""
    blocks = part.blocks
    columns = blocks.gather(np.stack(scores, axis=1))
    return OutOfFold(columns, blocks.gather(part.y).astype(float), blocks.offsets, None, np.arange(len(blocks)) % 5)


def collected(name: str, folder: Path, data: Path):
    """Values of test queries, seconds, and what was chosen, by method, where it has all folds of LightGBM."""
    values, seconds, chosen, kinds = {}, {}, {}, {}
    for number, (_, validation, test) in enumerate(folds_of(name, data), 1):
        files = {family: place(folder, name, number, family) for family in FAMILIES}
        found = {family: np.load(path) for family, path in files.items() if path.exists()}
        if "LightGBM" not in found:  # nothing to compare with yet
            continue
        for family, own in found.items():
            values.setdefault(family, []).append(measured(test, own["test"]))
            seconds.setdefault(family, []).append(float(own["seconds"]))
            chosen.setdefault(family, []).append(str(own["setting"]))
        for blend, (members, weights) in BLENDS.items():
            if not all(member in found for member in members):
                continue
            held = out_of_fold(validation, [found[member]["validation"] for member in members])
            blending = blend_scores(held, members, weights, MEASURE, 1e-3)
            scores = np.stack([found[member]["test"] for member in members], axis=1) / blending.scales
            values.setdefault(blend, []).append(measured(test, scores @ blending.weights))
            seconds.setdefault(blend, []).append(sum(float(found[member]["seconds"]) for member in members))
            kinds.setdefault(blend, []).append(blending.kind)
    most = max(map(len, values.values()), default=0)
    whole = [method for method in [*FAMILIES, *BLENDS] if len(values.get(method, [])) == most > 0]
    return {m: np.concatenate(values[m]) for m in whole}, {m: float(np.mean(seconds[m])) for m in whole}, chosen, kinds


def lines_of(name: str, values: dict, seconds: dict) -> list:
    """Of each method: mean, error, difference to LightGBM with its error, p, Holm's p, less its best member."""
    base, others = values["LightGBM"], [method for method in values if method != "LightGBM"]
    tests = {method: randomisation(values[method], base) for method in others}
    corrected = dict(zip(others, holm([tests[method].p for method in others])))
    rows = []
    for method, own in values.items():
        apart = own - base
        size = np.sqrt(np.count_nonzero(~np.isnan(own)))
        row = [name, method, np.nanmean(own), np.nanstd(own, ddof=1) / size]
        row += [np.nanmean(apart), np.nanstd(apart, ddof=1) / size] if method in tests else [None, None]
        row += [tests[method].p, corrected[method]] if method in tests else [None, None]
        best = max((np.nanmean(values[member]) for member in BLENDS.get(method, ([], ""))[0]), default=None)
        rows.append([*row, None if best is None else np.nanmean(own) - best, seconds[method]])
    return rows


HEADER = [
    "set", "method", "NDCG@10", "±", "less LightGBM", "±", "p", "p, Holm", "less best member", "processor seconds",
]  # fmt: skip


def cells_of(row: list) -> list[str]:
    name, method, *numbers, seconds = row
    signed = {2: True, 6: True}
    texts = [
        "" if x is None else f"{x:+.4f}" if signed.get(k) else f"{x:.3f}" if k in (4, 5) else f"{x:.4f}"
        for k, x in enumerate(numbers)
    ]
    return [name, method, *texts, f"{seconds:.0f}"]


def report(folder: Path, data: Path, write: Path | None) -> None:
    rows, pooled, cost, kinds = [], {}, {}, {}
    for name in [*REAL, *MADE]:
        values, seconds, _, taken = collected(name, folder, data)
        if "LightGBM" not in values:
            continue
        rows += lines_of(name, values, seconds)
        kinds[name] = taken
        for method in values if name in REAL else ():
            pooled.setdefault(method, []).append(values[method])
            cost.setdefault(method, []).append(seconds[method])
    whole = {m: np.concatenate(v) for m, v in pooled.items() if len(v) == len(pooled["LightGBM"])}
    if whole:
        rows += lines_of("real sets together", whole, {m: float(np.mean(cost[m])) for m in whole})
    cells = [cells_of(row) for row in rows]
    table = Table(*HEADER)
    for row in cells:
        table.add_row(*row)
    console = Console(width=190)
    console.print(table)
    for name, taken in kinds.items():
        console.print(name, {blend: each for blend, each in taken.items() if "auto" in blend})
    if write:
        keep_table(write, "blend", "python benchmarks/blend.py fit && python benchmarks/blend.py report", HEADER, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "report"])
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--folder", type=Path, default=Path("runs/blend"))
    parser.add_argument("--sets", default=";".join(REAL), help="separated by ;")
    names = ";".join(family.replace(",", "") for family in FAMILIES)
    parser.add_argument("--families", default=names, help="separated by ; or, to go through the folds together, by ,")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--trials", type=int, default=18)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing new after so many seconds")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.what == "report":
        report(asked.folder, asked.data, asked.write)
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (name, number, family, asked)
        for families in (group.split(",") for group in asked.families.split(";"))
        for name in asked.sets.split(";")
        for number in map(int, asked.folds.split(","))
        for family in families
    ]
    with ProcessPoolExecutor(asked.workers) as pool:
        for said in pool.map(run, jobs):
            if said:
                print(said, flush=True)


BEGAN, PARTS = time.perf_counter(), {}


def run(job) -> str:
    """Fit a family to a fold, unless that is done or the time is over; what was found, in words."""
    warnings.simplefilter("ignore")
    name, number, family, asked = job
    family = next(known for known in FAMILIES if known.replace(",", "") == family.replace(",", ""))
    path = place(asked.folder, name, number, family)
    if path.exists() or time.perf_counter() - BEGAN > asked.seconds:
        return ""
    if name not in PARTS:
        PARTS.clear()
        PARTS[name] = folds_of(name, asked.data)
    if number > len(PARTS[name]):
        return ""
    found = fit(family, PARTS[name][number - 1], asked.trials)
    draft = path.with_suffix(".draft.npz")
    np.savez(draft, **{k: json.dumps(v) if k == "setting" else v for k, v in found.items()})
    draft.rename(path)
    return f"{name} {number} {family} {found['value']:.4f}, {found['seconds']:.0f} s, {found['setting']}"


if __name__ == "__main__":
    main()
