"""Runs over LETOR folds: each row is a method, its setting chosen on validation, each column a measure on test.

Each runner takes a section and a place and returns {row: Ours}.
"""

import json
import time
import warnings
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import hingerank
from hingerank.arrays import Facts, Ranker
from hingerank.data.ranking_data import FoldParts, RankingData
from hingerank.lab.comparison import compare
from hingerank.lab.leaderboard import best_setting, leaderboard
from hingerank.lab.methods import Method
from hingerank.lab.results import Results
from hingerank.lab.statistics import paired_t, randomisation
from hingerank.papers.engine import Ours, Place, Section, TableStudy, has_device, kept, make_recipe
from hingerank.papers.interactions import Interactions, interactions
from hingerank.papers.outcome import TIME
from hingerank.papers.sets import read_set
from hingerank.preferences import GradedPreferences

STEPS = 1000  # the paper's T, for both of its algorithms
MOST_SHOWN = 10  # features
STARTS, ROUNDS, NUMBERS = 10, 10_000, {8: "eight", 10: "ten"}


def nonzero_fraction(results: Results, method: str) -> float:
    """Fraction of nonzero weights, averaged over folds: the sparsity ratio of Lai et al."""
    weights = [results.arrays(method, record["fold"]).get("weights") for record in results.tests(method)]
    return float(np.mean([np.count_nonzero(w) / len(w) for w in weights if w is not None]))


def fit_seconds(results: Results, method: str) -> float:
    """Median seconds of the fits whose rankers were tested."""
    return float(np.median([record["seconds"] for record in results.tests(method)]))


COMPUTED = {"nonzero fraction": nonzero_fraction, "fit seconds": fit_seconds}  # columns that are not measures


def measures_of(study: TableStudy) -> list[str]:
    """The measures of a study on test queries: all that any of its tables shows."""
    return [column for column in study.columns.values() if column not in COMPUTED]


def folds_of(study: TableStudy, place: Place) -> list[FoldParts]:
    """The folds of a study: those that were asked for, else its own."""
    return read_set(study.data, place.find(study.data), study.folds if place.folds is None else place.folds)


def results_of(study: TableStudy, methods: Sequence[Method], place: Place) -> Results:
    """The results of these methods: read if they are stored, else computed."""
    folds, part = folds_of(study, place), "-part" * bool(place.share(study.data))
    some = place.folds if place.folds is not None and place.folds != study.folds else []
    name = study.run + part + "".join(f"-fold{k}" for k in some)
    options: Facts = {"folder": place.runs / name, "workers": place.workers, "progress": place.progress}

    if place.device != "cpu":
        on_device = {"device": place.device}
        methods = [replace(m, fixed={**on_device, **m.fixed}) if has_device(m.ranker) else m for m in methods]
    return compare(methods, folds, study.choose, measures_of(study), **options)


def comparison(section: Section, place: Place) -> dict[str, Ours]:
    """The rows of a section over the folds of its study."""
    results = results_of(section.study, [recipe.method(row) for row, recipe in section.methods.items()], place)
    columns = _columns(section)
    signs, found = _signs(results, columns, section.marks), {}
    for row, recipe in section.methods.items():
        tests, widened = results.tests(row), recipe.grown(r["setting"] for r in results.records if r["method"] == row)
        if not tests:
            found[row] = Ours({}, widened=widened)
            continue
        per_fold = {title: results.fold_means(row, name) for title, name in columns.items() if name not in COMPUTED}
        values = {
            title: float(per_fold[title].mean()) if title in per_fold else COMPUTED[name](results, row)
            for title, name in columns.items()
        }
        spread = {title: float(means.std(ddof=1)) for title, means in per_fold.items() if len(means) > 1}
        chosen = [record["setting"] for record in tests]
        found[row] = Ours(
            values,
            signs.get(row),
            spread or None,
            chosen if any(chosen) else (),
            fit_seconds(results, row),
            widened=widened,
        )
    return found


def _columns(section: Section) -> dict[str, str]:
    return {title: section.study.columns[title] for title in section.columns}


def _signs(results: Results, columns: Mapping[str, str], marks: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """method -> column -> the signs of the rows it beats."""
    signs: dict[str, dict[str, str]] = {}
    for sign, row in marks.items():
        for title, measure in columns.items():
            if measure not in COMPUTED and results.tests(row):
                for line in leaderboard(results, measure, baseline=row, test="t").lines:
                    if line.mark == "▲":
                        own = signs.setdefault(line.method, {})
                        own[title] = own.get(title, "") + sign
    return signs


def p_values(section: Section, place: Place) -> dict[str, Ours]:
    """Compare the rows of options first and second over all test queries; a row for each test."""
    study, rows = section.study, [section.options["first"], section.options["second"]]
    results = results_of(study, [study.methods[row].method(row) for row in rows], place)
    t, flips = {}, {}
    for title, measure in _columns(section).items():
        first, second = (results.per_query(row, measure) for row in rows)
        pair = [first[query] for query in second], list(second.values())
        test = paired_t(*pair)
        t[title] = test.p / 2 if test.statistic > 0 else 1 - test.p / 2
        flips[title] = randomisation(*pair, rounds=ROUNDS).p
    return {"t": Ours(t), "randomisation, two-sided": Ours(flips)}


def two_parameters(section: Section, place: Place) -> dict[str, Ours]:
    """A method at every value of two parameters: rows and columns are named "sign = value".

    Options method: as in a file; parameters: sign -> parameter; measure: the one shown.
    """
    names, recipe = section.options["parameters"], make_recipe(**section.options["method"])

    def method(*labels: str) -> Method:
        pairs = (label.split(" = ") for label in labels)
        fixed = {**recipe.fixed, **{names[sign]: float(value) for sign, value in pairs}}
        return replace(recipe, fixed=fixed).method(", ".join(labels))

    table = {row: {column: method(row, column) for column in section.columns} for row in section.figures}
    results = results_of(section.study, [m for by_column in table.values() for m in by_column.values()], place)
    measure = section.options["measure"]
    return {
        row: Ours({title: float(results.fold_means(m.name, measure).mean()) for title, m in by_column.items()})
        for row, by_column in table.items()
    }


def set_statistics(section: Section, place: Place) -> dict[str, Ours]:
    """Rows, queries and pairs of a set, and the pairs of a query over its rows, averaged over queries."""
    study = section.study
    folds = folds_of(study, place)
    queries: dict[Hashable, tuple[int, int]] = {}
    for part in (part for fold in folds for part in fold):
        sizes, pairs = np.diff(part.blocks.offsets), pairs_of_queries(part)
        queries |= {q: (int(n), int(p)) for q, n, p in zip(part.blocks.ids.tolist(), sizes, pairs)}
    n, p = np.array([*queries.values()]).T
    found = {"rows": n.sum(), "queries": len(n), "pairs": p.sum(), "shared rows": np.mean(p / n)}
    return {study.data: Ours({title: float(value) for title, value in found.items()})}


def pairs_of_queries(data: RankingData) -> np.ndarray:
    """The number of pairs of different grades in each query."""
    return GradedPreferences(data.blocks.gather(data.y), data.blocks.offsets).pairs_per_query


def random_starts(section: Section, place: Place) -> dict[str, Ours]:
    """How much methods with a random start depend on it.

    The rows of option methods, fitted again from ten starts (or option starts) in every fold with the setting that
    validation chose: mean and standard deviation over starts of the means over folds. Option called: another word for
    starts in the names of rows.
    """
    starts, columns = section.options.get("starts", STARTS), section.columns
    many = f"{NUMBERS.get(starts, starts)} {section.options.get('called', 'starts')}"
    found = {}
    for row in section.options["methods"]:
        method = section.study.methods[row].method(row)
        chosen = [record["setting"] for record in results_of(section.study, [method], place).tests(row)]
        values = _refits(section, place, f"{row}, {many}", method, chosen, starts)
        mean, spread = np.mean(values, axis=0).tolist(), np.std(values, axis=0, ddof=1).tolist()
        found[f"{row}, {many}"] = Ours(dict(zip(columns, mean)), spread=dict(zip(columns, spread)))
    return found


def one_setting(section: Section, place: Place) -> dict[str, Ours]:
    """The rows of option methods with one setting for all folds: the one with the best mean over folds on validation.

    The result depends less on the few validation queries of one fold.
    """
    found = {}
    for row in section.options["methods"]:
        method = section.study.methods[row].method(row)
        results = results_of(section.study, [method], place)
        best = best_setting(results, row)
        name = f"{row}, one setting"
        [values] = _refits(section, place, name, method, [best] * len(results.folds), 1)
        found[name] = Ours(dict(zip(section.columns, values)), chosen=[best])
    return found


def _refits(
    section: Section, place: Place, name: str, method: Method, chosen: Sequence[Facts], seeds: int
) -> list[list[float]]:
    """For each seed, the means over folds of the section's measures at the settings chosen for the folds."""
    measures = list(_columns(section).values())
    mark = zlib.crc32(json.dumps([chosen, measures, dict(method.fixed)], sort_keys=True).encode())

    def refit() -> list[list[float]]:
        folds, lines = folds_of(section.study, place), []
        for seed in range(seeds):
            line = []
            for fold, setting in zip(folds, chosen, strict=True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ranker = method.make(setting, seed).fit(fold.train)
                found = hingerank.evaluate(fold.test.y, ranker.predict(fold.test), fold.test.qid, measures)
                line.append([found[measure] for measure in measures])
            lines.append(np.mean(line, axis=0).tolist())
        return lines

    return kept(place, section.study.run, f"{name} {mark:08x}", refit)


# Section 4 of Xu et al. (2019): the ranks of the multipliers of the Ranking SVM on the first fold of OHSUMED.


def multiplier_ranks(section: Section, place: Place) -> dict[str, Ours]:
    """Ranks of the multipliers of single queries, under three rankers and after one epoch; rows: "query 49"."""
    train, optimal, early = _multipliers(section, place)
    queries = optimal.queries
    found: dict[str, dict[object, int]] = {
        "rows": {q.query: q.size for q in queries},
        "pairs": {q.query: q.n_pairs for q in queries},
        "RSVM": {q.query: q.rank for q in queries},
        "RSVM, one epoch": {q.query: q.rank for q in early.queries},
    }
    printed = {"solver": "paper", "learning_rate": 0.001}  # the smallest of the paper's η
    for title, ranker in (
        ("Fac-RSVM", hingerank.FactorizedRankSVM(rank=5, C=0.1, max_iter=3000)),
        ("Reg-RSVM", hingerank.RegularizedRankSVM(C=0.1, gamma=1.0, lam=1.0)),
        ("Fac-RSVM, 20 epochs", hingerank.FactorizedRankSVM(rank=5, C=2**-10, max_iter=20, **printed)),
        ("Reg-RSVM, 20 rounds", hingerank.RegularizedRankSVM(C=0.1, gamma=1.0, lam=1.0, max_iter=20, **printed)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last two do not converge, and the table says so
            ranker.fit(train)
        found[title] = dict(zip(ranker.queries_.tolist(), ranker.ranks_.tolist()))
    number = {row: int(row.removeprefix("query ")) for row in section.figures}
    return {row: Ours({name: float(found[name][q]) for name in section.columns}) for row, q in number.items()}


def multiplier_histograms(section: Section, place: Place) -> dict[str, Ours]:
    """Queries by the tenth of their dimensions with 90 % and all of the energy, at the optimum and before."""
    _, optimal, early = _multipliers(section, place)
    rows = {"90% of the energy": (optimal, 0.9), "100% of the energy": (optimal, 1.0),
            "90%, after one epoch": (early, 0.9), "100%, after one epoch": (early, 1.0)}  # fmt: skip
    return {
        name: Ours(dict(zip(section.columns, map(float, found.histogram(energy)))))
        for name, (found, energy) in rows.items()
    }


def _multipliers(section: Section, place: Place) -> tuple[RankingData, Interactions, Interactions]:
    """The first fold; its multipliers at the optimum, and after one epoch of dual coordinate descent from zero."""
    from hingerank.kernels.descent import dual_epoch, pair_norms

    train = read_set(section.study.data, place.find(section.study.data), section.study.folds)[0].train
    optimal = interactions(hingerank.RankSVM(C=0.1, loss="hinge", solver="dual").fit(train))
    ranker = hingerank.RankSVM(C=1.0, loss="hinge", solver="dual").fit(train)  # only for its list of pairs
    rows, (winner, loser) = (train.X,), np.ascontiguousarray(ranker.pairs_.T)
    a, w = np.zeros(len(winner)), np.zeros(train.X.shape[1])
    order = np.random.default_rng(0).permutation(len(a))
    dual_epoch(rows, winner, loser, np.ones(len(a)), pair_norms(rows, winner, loser), 1.0, order, a, w)
    ranker.multipliers_ = a
    return train, optimal, interactions(ranker)


def training_times(section: Section, place: Place) -> dict[str, Ours]:
    """TGRank at the C of option C, then FenchelRank by its classic steps in the ball of the same norm.

    The option counts every pair, as the paper's radii show; TGRank's own C multiplies the mean over pairs. Rows: "fold
    1, FenchelRank", "fold 1, TGRank"; columns: r, the sum of TGRank's absolute weights, processor seconds and the
    fraction of features in use.
    """
    data = section.study.data
    folds = folds_of(section.study, place)
    found: dict[str, Ours] = {}
    for number, fold in enumerate(folds, 1):
        fit = partial(_fit_both, fold.train, section.options["C"])
        name = f"times C={section.options['C']:g} fold {number} of {len(folds)}{' in part' * bool(place.share(data))}"
        for row, values in kept(place, section.study.run, name, fit).items():
            found[f"fold {number}, {row}"] = Ours(values, seconds=values[TIME])
    return found


def _fit_both(train: RankingData, C: float) -> dict[str, dict[str, float]]:
    pairs = int(pairs_of_queries(train).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps run out, as in the paper
        hingerank.TGRank(C=C * pairs, max_iter=1).fit(train)  # loads compiled kernels, which is not timed
        slow, of_slow = _timed(hingerank.TGRank(C=C * pairs, max_iter=STEPS), train)
        radius = float(np.abs(slow.coef_).sum())
        ball = hingerank.FenchelRank(radius=radius, variant="classic", absolute=True, max_iter=STEPS)
        clone(ball).set_params(max_iter=1).fit(train)
        _, of_fast = _timed(ball, train)
    return {"FenchelRank": {"r": radius, **of_fast}, "TGRank": of_slow}


def _timed(ranker: Ranker, train: RankingData) -> tuple[Ranker, dict[str, float]]:
    """The fitted ranker, its sparsity and the processor seconds it took, which other work changes little."""
    began = time.process_time()
    ranker.fit(train)
    return ranker, {TIME: time.process_time() - began, "ratio": float(ranker.sparsity_)}


def frequent_features(section: Section, place: Place) -> dict[str, Ours]:
    """The features that the models of most folds use, and those that the paper names.

    Option method: the row of the study whose weights are used. Columns: folds, the number of models with the feature;
    weight, its absolute weight over the sum of all, averaged over folds; "N@10 alone", NDCG@10 over all queries when
    rows are sorted by that feature (descending or ascending, whichever is better), and its rank among all features.
    """
    row, study = section.options["method"], section.study
    results = results_of(study, [study.methods[row].method(row)], place)
    W = np.abs([results.arrays(row, record["fold"])["weights"] for record in results.tests(row)])
    used = (W > 0).sum(axis=0)
    share = (W / np.maximum(W.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    tests, measure = [fold.test for fold in folds_of(study, place)], section.options["measure"]

    def alone_by(j: int, sign: float) -> float:
        values = []
        for t in tests:
            column = t.X[:, j] if isinstance(t.X, np.ndarray) else t.X[:, [j]].toarray()[:, 0]
            scores = sign * np.asarray(column, dtype=np.float64)
            values.append(hingerank.evaluate(t.y, scores, t.qid, measure, per_query=True)[measure])
        return float(np.concatenate(values).mean())

    alone = np.array([max(alone_by(j, 1.0), alone_by(j, -1.0)) for j in range(tests[0].n_features)])
    order = np.lexsort((-share, -used))
    named = [int(name.removeprefix("feature ")) - 1 for name in section.figures]
    shown = [*named, *(int(j) for j in order[:MOST_SHOWN] if used[j] and j not in named)]
    places = np.argsort(np.argsort(-alone, kind="stable"), kind="stable") + 1
    return {
        f"feature {j + 1}": Ours(
            {"folds": float(used[j]), "weight": share[j], "N@10 alone": alone[j], "rank alone": float(places[j])}
        )
        for j in shown
    }
