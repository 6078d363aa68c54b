"""The weights of sparse rankers, as in Lai et al. (2013): which features are selected, and the time to learn them.

Each runner takes a section and a place and returns {row: Ours}.
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.base import clone

import hingerank
from hingerank.arrays import Matrix, Ranker
from hingerank.data.ranking_data import RankingData
from hingerank.papers.engine import Ours, Place, Section, kept
from hingerank.papers.letor import pairs_of_queries, results_of
from hingerank.papers.outcome import TIME
from hingerank.papers.sets import read_set

STEPS = 1000  # the paper's T, for both of its algorithms
MOST_SHOWN = 10


def training_times(section: Section, place: Place) -> dict[str, Ours]:
    """TGRank at the C of option C, then FenchelRank by its classic steps in the ball of the same norm.

    The option counts every pair, as the paper's radii show; TGRank's own C multiplies the mean over pairs. Rows: "fold
    1, FenchelRank", "fold 1, TGRank"; columns: r, the sum of TGRank's absolute weights, processor seconds and the
    fraction of features in use.
    """
    data = section.study.data
    folds = read_set(data, place.find(data), place.folds if place.folds is not None else section.study.folds)
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
        slow, seconds = _timed(hingerank.TGRank(C=C * pairs, max_iter=STEPS), train)
        radius = float(np.abs(slow.coef_).sum())
        ball = hingerank.FenchelRank(radius=radius, variant="classic", absolute=True, max_iter=STEPS)
        clone(ball).set_params(max_iter=1).fit(train)
        fast, also = _timed(ball, train)
    return {"FenchelRank": {"r": radius, **_cost(fast, also)}, "TGRank": _cost(slow, seconds)}


def _timed(ranker: Ranker, train: RankingData) -> tuple[Ranker, float]:
    """The fitted ranker and the processor seconds it took, which other work on the machine changes little."""
    began = time.process_time()
    return ranker.fit(train), time.process_time() - began


def _cost(ranker: Ranker, seconds: float) -> dict[str, float]:
    return {TIME: seconds, "ratio": float(ranker.sparsity_)}


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
    alone = _alone(section, place)
    order = np.lexsort((-share, -used))
    named = [int(name.removeprefix("feature ")) - 1 for name in section.figures]
    shown = [*named, *(int(j) for j in order[:MOST_SHOWN] if used[j] and j not in named)]
    places = np.argsort(np.argsort(-alone, kind="stable"), kind="stable") + 1
    return {
        f"feature {j + 1}": Ours(
            {"folds": float(used[j]), "weight": share[j], "N@10 alone": alone[j], "place alone": float(places[j])}
        )
        for j in shown
    }


def _alone(section: Section, place: Place) -> np.ndarray:
    """The better NDCG@10 of every feature, sorted descending or ascending."""
    study, measure = section.study, section.options["measure"]
    tests = [fold.test for fold in read_set(study.data, place.find(study.data), place.folds or study.folds)]

    def mean(j: int, sign: float) -> float:
        values = [
            hingerank.evaluate(t.y, sign * _column(t.X, j), t.qid, measure, per_query=True)[measure] for t in tests
        ]
        return float(np.concatenate(values).mean())

    return np.array([max(mean(j, 1.0), mean(j, -1.0)) for j in range(tests[0].n_features)])


def _column(X: Matrix, j: int) -> np.ndarray:
    return np.asarray(X[:, j] if isinstance(X, np.ndarray) else X[:, [j]].toarray()[:, 0], dtype=np.float64)
