"""Blends against their members and against tuned trees: real sets in five folds, and generated ones.

    python benchmarks/blend.py fit [--sets OHSUMED,MQ2008] [--families LightGBM,RankSVM] [--folds 1,2,3,4,5]
    python benchmarks/blend.py report [--write docs/results]

`fit` tries 18 settings of every family on the training queries of a fold and keeps the one with the largest NDCG@10 on
the validation queries; trees stop early on these. Then the chosen setting is fitted to folds of the training queries,
to score each by a ranker of the others. Scores are kept in --folder, and a second call resumes there. Sets of
500,000 rows have one fold, three settings of every family, and no folds inside.

`report` makes the blends: scales and weights come from scores of training and validation queries by members that have
not learnt from them. Test queries are measured once. p is of a two-sided randomisation test against LightGBM over the
test queries of all folds, with Holm's correction over the methods of a set. Seconds are of the processor: all trials of
a method, of a blend those of its members with their fits to folds, mean over folds. A second table has every blend less
the member that was best on test, with the error of the paired difference.
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
from hingerank.rankers.blending import OutOfFold, blend_scores
from measuring import default_data, keep_table

REAL = {"OHSUMED": "OHSUMED/QueryLevelNorm", "MQ2008": "MQ2008", "MQ2007-partial": "MQ2007-partial"}
MADE = {"lines, 20k rows": ("linear", 250), "interactions, 20k rows": ("nonlinear", 250)}
MADE |= {"lines, 500k rows": ("linear", 6000), "interactions, 500k rows": ("nonlinear", 6000)}
MEASURE, STOP, MOST_TREES = "ndcg@10", 50, 500
INNER = 5  # folds of the training queries
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


def large(name: str) -> bool:
    """Whether a set is made of so many rows that one fold and fewer trials must do."""
    return name in MADE and MADE[name][1] > 1000


def folds_of(name: str, data: Path) -> list:
    """(train, validation, test) of every fold."""
    if name in REAL:
        return [(fold.train, fold.validation, fold.test) for fold in read_folds(data / REAL[name])]
    signal, queries = MADE[name]
    found = []
    for seed in range(1 if large(name) else 5):  # a truth of its own each time
        made = hr.make_letor(5 * queries // 3, (40, 120), n_features=30, n_grades=5, signal=signal, seed=100 + seed)
        rest, test = made.split(0.2, seed=seed)
        train, validation = rest.split(0.25, seed=seed)
        found.append((train, validation, test))
    return found


def together(settings: list, fixed: dict) -> list[list]:
    """Settings that are fitted together: those that differ in C alone, along one path; of trees each by itself."""
    if "early_stopping_rounds" in fixed:
        return [[setting] for setting in settings]
    groups: dict = {}
    for setting in settings:
        groups.setdefault(json.dumps(setting | {"C": None}), []).append(setting)
    return list(groups.values())


def fitted(kind, group: list, fixed: dict, train, validation):
    """A fitted ranker for every setting of a group."""
    if "early_stopping_rounds" in fixed:
        return [kind(**fixed, **group[0]).fit(train, eval_set=[validation])]
    return kind(**fixed | group[0]).fit_path(train, Cs=[setting["C"] for setting in group])


def fit(name: str, family: str, parts, draft: Path, until: float) -> dict | None:
    """The best setting of a family on the validation queries, and its scores; None if the time ends before.

    What is known after a group of settings is kept in the draft, and the next call resumes there.
    """
    kind, settings, fixed = FAMILIES[family]
    if large(name):
        settings = settings[3::6]  # the middle C, or the larger learning rate, with three values of the rest
    train, validation, test = parts
    groups = together(settings, fixed)
    best = {"value": -1.0, "tried": 0, "seconds": 0.0}
    if draft.exists():
        best = {k: v[()] for k, v in np.load(draft).items()}
    for group in groups[int(best["tried"]) :]:
        if time.perf_counter() > until:
            return None
        began, found = time.process_time(), None
        for setting, ranker in zip(group, fitted(kind, group, fixed, train, validation)):
            scores = ranker.predict(validation.X, validation.qid)
            value = hr.evaluate(validation.y, scores, validation.qid, MEASURE)[MEASURE]
            if value > best["value"]:
                found = ranker
                best |= {"value": value, "setting": json.dumps(setting), "validation": scores}
        best |= {"seconds": best["seconds"] + time.process_time() - began, "tried": best["tried"] + 1}
        if found is not None:
            best |= {"test": found.predict(test.X, test.qid), "trees": getattr(found, "n_iter_", 0)}
        np.savez(draft, **best)
    return best


def dealt(part) -> np.ndarray:
    """The fold of every query, for scores of rows by rankers that have learnt from the other folds."""
    return np.random.default_rng(0).permutation(part.n_queries) % INNER


def held_out(family: str, setting: dict, trees: int, train) -> dict:
    """Scores of training rows by rankers of the chosen setting, each without the fold that it scores; the seconds."""
    kind, _, fixed = FAMILIES[family]
    how = fixed | setting | ({"n_estimators": trees, "early_stopping_rounds": None} if fixed is TREES else {})
    began, scores = time.process_time(), np.empty(train.n_rows)
    fold = train.blocks.scatter(dealt(train)[train.blocks.numbers])
    for k in range(INNER):
        held = np.flatnonzero(fold == k)
        ranker = kind(**how).fit(train.take(np.flatnonzero(fold != k)))
        scores[held] = ranker.predict(train.X[held], train.qid[held])
    return {"training": scores, "training_seconds": time.process_time() - began}


def place(folder: Path, name: str, fold: int, family: str) -> Path:
    return folder / f"{name} {fold} {family}.npz".replace(",", "").replace(" ", "-")


def seconds_of(found) -> float:
    """Of a member of a blend: its trials, and its fits to folds."""
    return float(found["seconds"]) + (float(found["training_seconds"]) if "training_seconds" in found else 0.0)


def measured(part, scores) -> np.ndarray:
    return hr.evaluate(part.y, scores, part.qid, MEASURE, per_query=True)[MEASURE]


def out_of_fold(train, validation, found: list) -> OutOfFold:
    """Scores of training and validation queries by members that have not learnt from them; of large sets the latter."""
    kinds = {"validation": validation} if "training" not in found[0] else {"training": train, "validation": validation}
    columns, grades, sizes, folds = [], [], [], []
    for kind, part in kinds.items():
        columns.append(part.blocks.gather(np.stack([own[kind] for own in found], axis=1)))
        grades.append(part.blocks.gather(part.y).astype(float))
        sizes.append(part.blocks.sizes)
        folds.append(dealt(part))
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    return OutOfFold(np.concatenate(columns), np.concatenate(grades), offsets, None, np.concatenate(folds))


def collected(name: str, folder: Path, data: Path):
    """Values of test queries, seconds, and the stack's share in each fold, of methods with all folds of LightGBM."""
    values, seconds, shares = {}, {}, {}
    for number, (train, validation, test) in enumerate(folds_of(name, data), 1):
        files = {family: place(folder, name, number, family) for family in FAMILIES}
        found = {family: np.load(path) for family, path in files.items() if path.exists()}
        if "LightGBM" not in found:  # nothing to compare with yet
            continue
        for family, own in found.items():
            values.setdefault(family, []).append(measured(test, own["test"]))
            seconds.setdefault(family, []).append(float(own["seconds"]))
        for blend, (members, weights) in BLENDS.items():
            if not all(member in found for member in members):
                continue
            held = out_of_fold(train, validation, [found[member] for member in members])
            blending = blend_scores(held, members, weights, MEASURE, 1e-3)
            scores = np.stack([found[member]["test"] for member in members], axis=1) / blending.scales
            values.setdefault(blend, []).append(measured(test, scores @ blending.weights))
            seconds.setdefault(blend, []).append(sum(seconds_of(found[member]) for member in members))
            shares.setdefault(blend, []).append(blending.share)
    most = max(map(len, values.values()), default=0)
    whole = [method for method in [*FAMILIES, *BLENDS] if len(values.get(method, [])) == most > 0]
    return {m: np.concatenate(values[m]) for m in whole}, {m: float(np.mean(seconds[m])) for m in whole}, shares


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
        rows.append([*row, seconds[method]])
    return rows


def against_members(name: str, values: dict) -> list:
    """Of each blend: the member that was best on test, the blend less that one with its paired error, p, in words."""
    rows = []
    for blend in (blend for blend in BLENDS if blend in values):
        best = max(BLENDS[blend][0], key=lambda member: np.nanmean(values[member]))
        apart = (values[blend] - values[best])[~np.isnan(values[blend])]
        mean, error, p = (
            apart.mean(),
            apart.std(ddof=1) / np.sqrt(len(apart)),
            randomisation(values[blend], values[best]).p,
        )
        words = "above" if mean > 0 else "within .002" if mean >= -0.002 else "below"
        words += "" if words == "within .002" else ", significant" if p < 0.05 else ", not significant"
        rows.append([name, blend, best, f"{mean:+.4f}", f"{error:.4f}", f"{p:.3f}", words])
    return rows


HEADER = ["set", "method", "NDCG@10", "±", "less LightGBM", "±", "p", "p, Holm", "processor seconds"]
MEMBERS = ["set", "blend", "best member on test", "blend less best member", "±", "p", "in words"]
COMMAND = "python benchmarks/blend.py fit && python benchmarks/blend.py report"


def cells_of(row: list) -> list[str]:
    name, method, *numbers, seconds = row
    texts = [
        "" if x is None else f"{x:+.4f}" if k == 2 else f"{x:.3f}" if k in (4, 5) else f"{x:.4f}"
        for k, x in enumerate(numbers)
    ]
    return [name, method, *texts, f"{seconds:.0f}"]


def report(folder: Path, data: Path, write: Path | None) -> None:
    rows, others, pooled, cost = [], [], {}, {}
    for name in [*REAL, *MADE]:
        values, seconds, shares = collected(name, folder, data)
        if "LightGBM" not in values:
            continue
        rows += lines_of(name, values, seconds)
        others += against_members(name, values)
        print(name, {blend: np.round(each, 2).tolist() for blend, each in shares.items()})
        for method in values if name in REAL else ():
            pooled.setdefault(method, []).append(values[method])
            cost.setdefault(method, []).append(seconds[method])
    whole = {m: np.concatenate(v) for m, v in pooled.items() if len(v) == len(pooled["LightGBM"])}
    if whole:
        rows += lines_of("real sets together", whole, {m: float(np.mean(cost[m])) for m in whole})
        others += against_members("real sets together", whole)
    for key, header, cells in (("blend", HEADER, [cells_of(row) for row in rows]), ("blend-members", MEMBERS, others)):
        table = Table(*header)
        for row in cells:
            table.add_row(*row)
        Console(width=190).print(table)
        if write:
            keep_table(write, key, COMMAND, header, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "report"])
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--folder", type=Path, default=Path("runs/blend"))
    parser.add_argument("--sets", default=";".join(REAL), help="separated by ;")
    names = ";".join(family.replace(",", "") for family in FAMILIES)
    parser.add_argument("--families", default=names, help="separated by ; or, to go through the folds together, by ,")
    parser.add_argument("--folds", default="1,2,3,4,5")
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
    draft = path.with_suffix(".draft.npz")
    found = fit(name, family, PARTS[name][number - 1], draft, BEGAN + asked.seconds)
    if found is None:
        return f"{name} {number} {family}: to be continued"
    if not large(name):
        found |= held_out(family, json.loads(found["setting"]), int(found["trees"]), PARTS[name][number - 1][0])
        np.savez(draft, **found)
    draft.rename(path)
    return f"{name} {number} {family} {found['value']:.4f}, {found['seconds']:.0f} s, {found['setting']}"


if __name__ == "__main__":
    main()
