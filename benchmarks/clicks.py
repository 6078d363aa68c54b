"""Rankers from clicks: how good, how sure, and at what cost.

    python benchmarks/clicks.py letor FOLDER [--sets MQ2008 …] [--repeats 10] [--seconds 240] [--state FILE]
    python benchmarks/clicks.py coverage [--runs 500]
    python benchmarks/clicks.py cost

letor: users are simulated on the rankings of a production ranker (RankSVM on 1 % of the judged training queries, at
least 5), place k looked at with probability 1/k, noise .1. Rankers learn from clicks on training queries; C is chosen
by clicks on validation queries; no grade is seen but by "full information". NDCG@10 on test queries. A run
keeps every result in FILE and resumes where it was stopped; --seconds bounds one call. Error bars: standard errors over
repeats of the mean over folds. Sessions are counted into cells, so that a million cost what a thousand cost.

coverage: 500 samples of queries from a population with known relevance, clicks on each, and how often the interval of
`evaluate_clicks` covers the true value of a ranking, and of its difference to the shown lists. The lists come from one
ranking, where "dr" equals "ips" because no document moves, and from three rankings in turn.

cost: seconds of a fit for 10^4 to 10^8 showings in cells.

--write FOLDER keeps the tables there (docs/results), and the picture of letor beside them.
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hingerank as hr
from hingerank.data.ranking_data import RankingData
from hingerank.data.read_write import read_folds
from measuring import keep_table

SESSIONS = (10**3, 10**4, 10**5, 10**6)
PLAIN = {"scale": None, "loss": "squared_hinge", "pair_weight": "uniform"}
METHODS = {
    "naive": {"correction": "naive"},
    "ips": {"correction": "ips"},
    "clipped": {"correction": "clipped"},
    "doubly-robust": {"correction": "doubly-robust"},
    "clipped, around production": {"correction": "clipped", "around": True},
}
MEASURE = "ndcg@10"


def ndcg(ranker, rows):
    return float(hr.evaluate(rows.y, ranker.predict(rows), rows.qid, MEASURE)[MEASURE])


# Quality on LETOR's sets.


class Fold:
    """A fold with its production ranker."""

    def __init__(self, parts, number):
        rows = RankingData.concatenate([parts.train, parts.validation])
        self.rows, self.test = replace(rows, docid=np.arange(rows.n_rows)), parts.test
        self.learn, self.choose = (part.blocks.ids.tolist() for part in (parts.train, parts.validation))
        rng = np.random.default_rng(number)
        pairs = [q for q in self.learn if np.ptp(rows.y[rows.qid == q]) > 0]
        few = rng.choice(pairs, max(5, len(self.learn) // 100), replace=False).tolist()
        self.production = hr.RankSVM(C=0.01).fit(parts.train.subset(few))
        self.parts = parts

    def full(self):
        """NDCG@10 of the ranker that knows all grades."""
        train, validation = self.parts.train, self.parts.validation
        ranker = hr.tune("rank-svm", train, validation=validation, measure=MEASURE, params=PLAIN, widen=False)
        return ndcg(ranker, self.test)

    def tried(self, sessions, seed, methods):
        """NDCG@10 of methods that learn from clicks."""
        log = hr.simulate_clicks(self.rows, self.production, sessions=sessions, seed=seed, counted=True)
        data, found = log.join(self.rows), {}
        learn, choose = data.subset(self.learn), data.subset(self.choose)
        propensities = 1.0 / np.arange(1, log.n_places + 1)
        for name in methods:
            how = METHODS[name] | ({"around": self.production} if "around" in METHODS[name] else {})
            ranker = hr.tune(
                "rank-svm", learn, validation=choose, params=PLAIN, widen=False, propensities=propensities, **how
            )
            found[name] = ndcg(ranker, self.test)
        return found


def letor(arguments):
    """Lines of results: those of the state, and what a run adds to them; all folds of a repeat before the next one."""
    state = Path(arguments.state)
    done = [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []
    known = {(r["set"], r["fold"], r["sessions"], r["repeat"], method) for r in done for method in r["ndcg"]}
    full = {(r["set"], r["fold"]): r["ndcg"]["full information"] for r in done}
    began = time.perf_counter()
    with state.open("a") as out:
        for name in arguments.sets:
            parts = dict(enumerate(read_folds(Path(arguments.folder) / name), 1))
            folds = {}
            for repeat, number, n in product(range(arguments.repeats), parts, SESSIONS):
                methods = [m for m in METHODS if (name, number, n, repeat, m) not in known]
                if not methods:
                    continue
                if time.perf_counter() - began > arguments.seconds:
                    return done
                fold = folds[number] = folds.get(number) or Fold(parts[number], number)
                if (name, number) not in full:
                    full[name, number] = fold.full()
                found = fold.tried(n, 1000 * repeat + 10 * number + len(str(n)), methods)
                found |= {"production": ndcg(fold.production, fold.test), "full information": full[name, number]}
                done.append({"set": name, "fold": number, "sessions": n, "repeat": repeat, "ndcg": found})
                out.write(json.dumps(done[-1]) + "\n")
                out.flush()
    return done


def merged(done):
    """One line for each run that has all methods: a method may have been tried later than others."""
    found = {}
    for r in done:
        found.setdefault((r["set"], r["fold"], r["sessions"], r["repeat"]), {}).update(r["ndcg"])
    names = ("set", "fold", "sessions", "repeat")
    return [dict(zip(names, key)) | {"ndcg": ndcg} for key, ndcg in found.items() if METHODS.keys() <= ndcg.keys()]


def letor_table(done):
    """Means over folds, with standard errors over repeats, and the two goals."""
    done = merged(done)
    names = ["production", *METHODS, "full information"]
    header, rows, notes, points = ["set, sessions", "repeats", *names], [], [], {}
    for kind in dict.fromkeys(r["set"] for r in done):
        for n in SESSIONS:
            mine = [r for r in done if r["set"] == kind and r["sessions"] == n]
            folds = sorted({r["fold"] for r in done if r["set"] == kind})
            repeats = [
                k for k in sorted({r["repeat"] for r in mine}) if sum(r["repeat"] == k for r in mine) == len(folds)
            ]
            if not repeats or not folds:
                continue
            by = {
                m: np.array([np.mean([r["ndcg"][m] for r in mine if r["repeat"] == k]) for k in repeats]) for m in names
            }
            errors = {m: v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for m, v in by.items()}
            points[kind, n] = {m: (by[m].mean(), errors[m]) for m in names}
            cells = [
                f"{by[m].mean():.4f} ± {errors[m]:.4f}" if errors[m] > 1e-9 else f"{by[m].mean():.4f}" for m in names
            ]
            rows.append([f"{kind}, {n:,}", len(repeats), *cells])
            if n == SESSIONS[0]:
                for m in ("clipped", "doubly-robust", "clipped, around production"):
                    apart = by[m].mean() - by["production"].mean()
                    verdict = "below" if apart + 1.96 * errors[m] < 0 else "not below"
                    notes.append(
                        f"{kind}, {n:,} sessions: {m} {apart:+.4f} against production, significantly {verdict}; folds: "
                        + " ".join(f"{_against_production(mine, fold, repeats, m):+.4f}" for fold in folds)
                    )
            if n == SESSIONS[-1]:
                for m in ("ips", "clipped", "doubly-robust"):
                    apart = by[m].mean() - by["full information"].mean()
                    notes.append(f"{kind}, {n:,} sessions: {m} {apart:+.4f} against full information (goal: -.005)")
    return header, rows, notes, points


def _against_production(lines, fold, repeats, method):
    """The mean difference of a method to production on one fold."""
    own = [r["ndcg"] for r in lines if r["fold"] == fold and r["repeat"] in repeats]
    return np.mean([each[method] - each["production"] for each in own])


def picture(points, path):
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(kind for kind, _ in points))
    figure = Figure(figsize=(4.6 * len(kinds), 3.6), layout="constrained")
    for place, kind in enumerate(kinds):
        axis = figure.add_subplot(1, len(kinds), place + 1)
        found = {n: values for (k, n), values in points.items() if k == kind}
        for m in ["production", *METHODS, "full information"]:
            middle = np.array([found[n][m][0] for n in found])
            if m in ("production", "full information"):
                axis.plot(list(found), middle, color="#555", linestyle=":" if m == "production" else "--", label=m)
            else:
                axis.errorbar(list(found), middle, [found[n][m][1] for n in found], marker="o", capsize=2, label=m)
        axis.set(xscale="log", xlabel="sessions", ylabel="NDCG@10 on test queries", title=kind)
    axis.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)


# Intervals.


def coverage(runs, queries=150, lists=4):
    """How often intervals cover: of the value and of the difference, by rankings shown and estimator."""
    population = hr.make_letor(3000, 10, n_features=8, n_grades=3, seed=11)
    relevance = 0.1 + 0.9 * (2.0**population.y - 1) / (2.0 ** population.y.max() - 1)
    mean = relevance.sum() / population.n_queries
    p, found = 1.0 / np.arange(1, 200), {}

    def worth(scores):
        return (relevance / np.log2(1 + _places(population, scores))).sum() / population.n_queries

    for shown in (1, 3):
        own, logged = worth(_compared(population)), np.mean([worth(scores) for scores in _logged(population, shown)])
        for run in range(runs):
            rows = _stacked(population, np.random.default_rng(run).choice(population.blocks.ids, queries))
            log = hr.simulate_clicks(rows, _logged(rows, shown), sessions=queries * lists, seed=run, counted=True)
            data = log.join(rows)
            for estimator in ("ips", "snips", "dr"):
                clip = 1e-3 if estimator == "dr" else None
                value = hr.evaluate_clicks(
                    data, _compared(rows), propensities=p, estimator=estimator, measure="dcg", clip=clip, seed=run
                )
                unit = mean if estimator == "snips" else 1.0
                for name, (low, high), truth in (
                    ("value", value.interval, own / unit),
                    ("difference", value.difference.interval, (own - logged) / unit),
                ):
                    found.setdefault((shown, estimator, name), []).append(low <= truth <= high)
    return found


def _compared(rows):
    """Scores of the ranking whose value is estimated."""
    return rows.X[:, 1] + 0.5 * rows.X[:, 2]


def _logged(rows, shown):
    """Scores of the rankings that were shown, the first so many of three."""
    first = rows.X[:, 0].astype(float)
    return [first, first + 0.7 * rows.X[:, 3], first - 0.7 * rows.X[:, 4]][:shown]


def _places(rows, scores):
    blocks = rows.blocks
    order = np.lexsort((-blocks.gather(scores), blocks.numbers))
    place = np.empty(rows.n_rows)
    place[order] = np.arange(rows.n_rows) - np.repeat(blocks.offsets[:-1], blocks.sizes) + 1
    return blocks.scatter(place)


def _stacked(population, drawn):
    """Queries drawn with replacement, each draw a query of its own."""
    blocks = population.blocks
    at = {q: k for k, q in enumerate(blocks.ids.tolist())}
    numbers = [at[q] for q in drawn.tolist()]
    rows = np.concatenate([np.arange(blocks.offsets[k], blocks.offsets[k + 1]) for k in numbers])
    rows = rows if blocks.order is None else blocks.order[rows]
    qid = np.repeat(np.arange(len(numbers)), blocks.sizes[numbers])
    return RankingData(population.X[rows], population.y[rows], qid, docid=np.arange(len(rows)))


# Cost.


def cost():
    """Seconds of counting-free fits: the same rows, more and more showings in cells."""
    rows = hr.make_like("MQ2008", seed=0)
    rows = replace(rows, docid=np.arange(rows.n_rows))
    for power in range(4, 9):
        log = hr.simulate_clicks(rows, rows.X[:, 0].astype(float), sessions=10**power // 20, seed=0, counted=True)
        data, p = log.join(rows), 1.0 / np.arange(1, log.n_places + 1)
        C = 0.01 * rows.n_queries * 20 / 10**power
        times = []
        for _ in range(4):  # the first compiles
            began = time.perf_counter()
            ranker = hr.RankSVM(C=C).fit_clicks(data, propensities=p)
            times.append(time.perf_counter() - began)
        yield log.n_showings, len(data), float(data.clicks.sum()), min(times), ranker.n_iter_


def show(title, header, rows, notes=()):
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=200).print(table, *notes, sep="\n")


def write(folder, name, command, header, rows):
    if folder is not None:
        keep_table(Path(folder), name, command, header, [[str(cell) for cell in row] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["letor", "coverage", "cost"])
    parser.add_argument("folder", nargs="?", help="of letor: where MQ2008 and MQ2007-partial are")
    parser.add_argument("--sets", nargs="*", default=["MQ2008", "MQ2007-partial"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--state", default="clicks-letor.jsonl")
    parser.add_argument("--write", help="a folder to keep the tables in")
    parser.add_argument("--picture", help="an .svg or .png file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "letor":
        header, rows, notes, points = letor_table(letor(arguments))
        show("NDCG@10 from clicks", header, rows, notes)
        write(arguments.write, "clicks-letor", "python benchmarks/clicks.py letor FOLDER", header, rows)
        if arguments.picture:
            picture(points, arguments.picture)
    elif arguments.what == "coverage":
        header = ["rankings shown", "interval of", "runs", "covers the truth, %"]
        found = coverage(arguments.runs)
        rows = [[k, f"{e}, {name}", len(v), f"{100 * np.mean(v):.1f}"] for (k, e, name), v in found.items()]
        show("95 % intervals of evaluate_clicks", header, rows)
        write(arguments.write, "clicks-coverage", "python benchmarks/clicks.py coverage", header, rows)
    else:
        header = ["showings", "cells", "clicks", "milliseconds of a fit", "iterations"]
        rows = [[f"{s:,.0f}", f"{k:,}", f"{c:,.0f}", f"{1000 * t:.1f}", i] for s, k, c, t, i in cost()]
        show("fit_clicks by showings", header, rows)
        write(arguments.write, "clicks-cost", "python benchmarks/clicks.py cost", header, rows)


if __name__ == "__main__":
    main()
