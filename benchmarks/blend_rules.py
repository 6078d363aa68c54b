"""Rules for the weights of a blend, on generated data of many structures: what each gains, and what it loses.

    python benchmarks/blend_rules.py fit
    python benchmarks/blend_rules.py report [--write docs/results]

The rule of `hingerank.Blend(weights="auto")` and the stack's C were chosen here, on generated rows alone. The truth is
a line, a sum of curves, a line with products of two columns, or all three together; noise and the number of queries
vary. LightGBM, RankSVM and curves are fitted with the better of two settings by out-of-fold NDCG@10, as by `tune`;
the rule sees their out-of-fold scores, and is measured on 400 new queries. `fit` keeps scores in --folder and resumes
from there. `report` has each rule less the best member, which is known only from the new queries: the mean over
replicates of every kind of data, then the mean over kinds, and the worst of them.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone

import hingerank as hr
from hingerank.rankers.blending import OutOfFold, blend_scores
from measuring import keep_table

TRUTHS = {"line": (1, 0, 0), "curves": (0, 1, 0), "products": (1, 0, 1), "all three": (1, 1, 1)}
NOISES, SIZES = (0.5, 2.0), {50: 6, 200: 4, 500: 2}  # queries to learn from: replicates
COLUMNS, NEW, FOLDS, MEASURE = 12, 400, 5, "ndcg@10"
NAMES = ["LightGBM", "RankSVM", "curves"]
SETTINGS = [
    [hr.LightGBMRanker(60, num_leaves=7, n_jobs=1), hr.LightGBMRanker(80, num_leaves=15, learning_rate=0.05, n_jobs=1)],
    [hr.RankSVM(C=C, scale="standard") for C in (1e-4, 1e-2)],
    [hr.AdditiveRankSVM(C=C) for C in (1e-4, 1e-2)],
]


def made(truth: str, noise: float, queries: int, seed: int) -> tuple[hr.RankingData, hr.RankingData]:
    """Rows to learn from and new ones, of one truth."""
    rng = np.random.default_rng(seed)
    X, qid = (lambda d: (d.X, d.qid))(hr.make_letor(queries + NEW, (15, 45), n_features=COLUMNS, seed=seed))
    weight, start = rng.normal(size=(3, COLUMNS)) + 0.3, rng.uniform(0, 2 * np.pi, COLUMNS)
    pairs = rng.integers(0, COLUMNS, (4, 2))
    centred = X - X.mean(axis=0)
    line, curves = centred @ weight[0], np.sin(4 * X + start) @ weight[1]
    products = (centred[:, pairs[:, 0]] * centred[:, pairs[:, 1]]) @ rng.normal(size=4)
    utility = sum(part * u / u.std() for part, u in zip(TRUTHS[truth], (line, curves, products)))
    noisy = utility / utility.std() + noise * rng.normal(size=len(qid))
    y = np.searchsorted(np.quantile(noisy, [0.7, 0.85, 0.95]), noisy).astype(float)
    new = qid > queries
    return hr.RankingData(X[~new], y[~new], qid[~new]), hr.RankingData(X[new], y[new], qid[new])


def scored(train: hr.RankingData, new: hr.RankingData) -> dict[str, np.ndarray]:
    """Out-of-fold scores of every member's better setting, and its scores of new rows."""
    part = (np.random.default_rng(0).permutation(train.n_queries) % FOLDS)[train.blocks.numbers]
    held, later = [], []
    for settings in SETTINGS:
        tried = []
        for ranker in settings:
            scores = np.empty(train.n_rows)
            for k in range(FOLDS):
                learn, other = np.flatnonzero(part != k), np.flatnonzero(part == k)
                scores[other] = clone(ranker).fit(train.take(learn)).predict(train.X[other])
            value = hr.evaluate(train.y, scores, train.qid, MEASURE)[MEASURE]
            tried.append((value, scores, ranker))
        _, scores, ranker = max(tried, key=lambda each: each[0])
        held.append(scores)
        later.append(clone(ranker).fit(train).predict(new.X))
    rows = {"held": np.stack(held, axis=1), "y": train.y, "qid": train.qid, "part": part}
    return rows | {"later": np.stack(later, axis=1), "new_y": new.y, "new_qid": new.qid}


def fit(folder: Path, seconds: float) -> None:
    """Keep the scores of every set, as far as the time goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for (queries, replicates), truth, noise in product(SIZES.items(), TRUTHS, NOISES):
        for k in range(replicates):
            path = folder / f"{truth.replace(' ', '-')}-{noise}-{queries}-{k}.npz"
            if path.exists():
                continue
            if time.process_time() > seconds:
                print("to be continued")
                return
            seed = 1000 * list(TRUTHS).index(truth) + int(10 * noise) + queries + 100_000 * k
            found = scored(*made(truth, noise, queries, seed))
            draft = path.with_suffix(".draft.npz")
            np.savez(draft, **found)
            draft.rename(path)


def better(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether a measure is larger on average by more than the standard error of the difference."""
    apart = (first - second)[~np.isnan(first - second)]
    return apart.mean() > apart.std(ddof=1) / np.sqrt(len(apart))


def weights_by_rule(found: OutOfFold) -> dict[str, np.ndarray]:
    """What every rule multiplies the members' scores by."""
    kinds = {kind: blend_scores(found, NAMES, kind, MEASURE, 1e-3) for kind in ("equal", "stack", "auto")}
    rules = {f'weights="{kind}"': blending.weights for kind, blending in kinds.items()}
    values = {name: found.measured(column, MEASURE) for name, column in zip(NAMES, found.scores.T)}
    best = max(NAMES, key=lambda name: np.nanmean(values[name]))
    rules["the best member out of fold"] = np.eye(len(NAMES))[NAMES.index(best)]
    chosen = "stack" if better(kinds["stack"].per_query, kinds["equal"].per_query) else "equal"
    alone = better(values[best], kinds[chosen].per_query)
    rules["equal, stack or best member, by one standard error"] = (
        rules["the best member out of fold"] if alone else kinds[chosen].weights
    )
    return {rule: weights / kinds["equal"].scales for rule, weights in rules.items()}


def measured(path: Path) -> dict[str, float]:
    """NDCG@10 of new queries under every rule, and of every member."""
    kept = np.load(path)
    offsets = np.flatnonzero(np.diff(kept["qid"], prepend=-1, append=-1))
    found = OutOfFold(kept["held"], kept["y"], offsets, None, kept["part"][offsets[:-1]])
    weights = weights_by_rule(found) | dict(zip(NAMES, np.eye(len(NAMES))))
    scores = {name: kept["later"] @ a for name, a in weights.items()}
    return {name: hr.evaluate(kept["new_y"], s, kept["new_qid"], MEASURE)[MEASURE] for name, s in scores.items()}


def report(folder: Path, write: Path | None) -> None:
    """Each rule less the best member, over kinds of data."""
    less: dict[str, dict[int, list[float]]] = {}
    for queries, truth, noise in product(SIZES, TRUTHS, NOISES):
        each = [measured(path) for path in sorted(folder.glob(f"{truth.replace(' ', '-')}-{noise}-{queries}-?.npz"))]
        means = {name: float(np.mean([values[name] for values in each])) for name in each[0]}
        for rule in (name for name in means if name not in NAMES):
            apart = means[rule] - max(means[name] for name in NAMES)
            less.setdefault(rule, {size: [] for size in SIZES})[queries].append(apart)
    rows = []
    for rule, by_size in less.items():
        every = np.concatenate(list(by_size.values()))
        cells = [f"{np.mean(each):+.4f}" for each in (every, *by_size.values())]
        rows.append([rule, *cells, f"{every.min():+.4f}", f"{(every < -0.002).sum()} of {len(every)}"])
    header = ["rule", "mean", *(f"{size} queries" for size in SIZES), "worst", "below by more than .002"]
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)
    if write:
        command = "python benchmarks/blend_rules.py fit && python benchmarks/blend_rules.py report"
        keep_table(write, "blend-rules", command, header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "report"])
    parser.add_argument("--folder", type=Path, default=Path("runs/blend-rules"))
    parser.add_argument(
        "--seconds", type=float, default=np.inf, help="begin nothing new after so many of the processor"
    )
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.what == "fit":
        fit(asked.folder, asked.seconds)
    else:
        report(asked.folder, asked.write)


if __name__ == "__main__":
    main()
