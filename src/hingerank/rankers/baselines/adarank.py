"""AdaRank: boosting of single features towards a measure (Xu & Li 2007)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.data.blocks import QueryBlocks
from hingerank.metrics import evaluate
from hingerank.metrics.measure import MEASURES, Measure, parse_measure
from hingerank.preferences import GradedPreferences
from hingerank.rankers.base import LinearRanker
from hingerank.rankers.baselines.boosting import SAME, BoostingRanker, by_columns, column, first_of_the_best

PERFECT = 1e-12  # how near 1 a mean measure may come, so that alpha stays finite


class AdaRank(BoostingRanker, LinearRanker):
    """score(x) = sum over rounds t of  alpha_t · x[k_t].

    Queries have weights P(q), equal at first. A round takes the feature k whose ranking has the best weighted measure
    sum_q P(q) E(q, k), with  alpha = ½ log( sum_q P(q) (1 + E(q, k)) / sum_q P(q) (1 - E(q, k)) ),  and then lets
    P(q) be proportional to exp(-E(q)), E(q) the measure of the ranking by the scores so far: hard queries count more.

    Parameters
    ----------
    n_rounds : rounds. Every number of them is a model: `fit_path` gives several from one run.
    measure : "map" (AdaRank-MAP), "ndcg@10" (AdaRank-NDCG) or any other between 0 and 1. Rows of equal score count by
        their mean over all orders, unless the name says otherwise (":ties=stable"): features have many equal values,
        and the order of the file should not help.
    monotone : pass over features that would not raise the training measure, and stop when none would. False: as in the
        paper, where a feature that ranks best alone is often chosen for ever, because neither the weights of queries
        nor the ranking change any more.
    negated : let features also rank from their least value to the largest.
    scale : feature scaling learnt in fit and carried in the model.

    Queries without two grades are left out: no ranking of theirs is better than another.

    Attributes
    ----------
    coef_ : the weight of each feature. features_, alphas_ : of each round. certificate_, trace_ : rounds made and the
    training measure after each of them.

    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.9, 0.3]]), [0, 1, 0, 1]
    >>> AdaRank(n_rounds=1).fit(X, y, qid=["a", "a", "b", "b"]).features_.tolist()
    [0]
    """

    def __init__(self, n_rounds=100, measure="map", *, monotone=True, negated=False, scale=None):
        self.n_rounds = n_rounds
        self.measure = measure
        self.monotone = monotone
        self.negated = negated
        self.scale = scale

    def _rounds(self, X: Any, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
        X, y, offsets = repeat_rows(X, y, blocks.offsets, weight)
        measure, group, columns = self._averaging_ties(), np.diff(offsets), by_columns(X)
        preferences = GradedPreferences(y, offsets)
        self.n_pairs_, kept = preferences.n_pairs, preferences.pairs_per_query > 0

        def measured(scores: np.ndarray) -> np.ndarray:
            values = evaluate(y, scores, measures=measure, per_query=True, group=group)
            return np.nan_to_num(values[str(measure)][kept])

        signs = (1.0, -1.0) if self.negated else (1.0,)
        weak = [(k, sign) for sign in signs for k in range(X.shape[1])]
        E = np.array([measured(sign * column(columns, k)) for k, sign in weak]).reshape(len(weak), -1)
        if E.size and (E.min() < 0.0 or E.max() > 1.0 + PERFECT):
            raise ValueError(f"AdaRank needs a measure between 0 and 1, and {self.measure!r} has other values")
        yield from self._boost(E, weak, columns, measured)

    def _boost(self, E, weak, columns, measured) -> Iterator[dict]:
        queries, n = E.shape[1], columns.shape[0]
        P, scores, best = np.full(queries, 1.0 / max(1, queries)), np.zeros(n), -1.0
        passed_over: list[int] = []
        while True:
            quality = (E * P).sum(1)
            quality[passed_over] = 0.0
            chosen = first_of_the_best(quality)
            if not quality[chosen] > 0.0:
                return
            k, sign = weak[chosen]
            alpha = sign * 0.5 * np.log((1.0 + quality[chosen]) / max(1.0 - quality[chosen], PERFECT))
            trial = scores + alpha * column(columns, k)
            values = measured(trial)
            if self.monotone and not values.mean() > best + SAME:
                passed_over.append(chosen)
                continue
            scores, best, passed_over = trial, float(values.mean()), []
            P = np.exp(-values)
            P /= P.sum()
            yield {"value": best, "feature": k, "alpha": float(alpha)}

    def _averaging_ties(self) -> Measure:
        measure = parse_measure(self.measure)
        settled = measure.preset is not None or "ties" in dict(measure.options)
        if settled or "ties" not in MEASURES[measure.kind].options:
            return measure
        return replace(measure, options=(*measure.options, ("ties", "average")))

    def _measured(self) -> str:
        return f"training {self.measure}"

    def _assemble(self, entries):
        self.coef_ = np.bincount(self.features_, self.alphas_, self.n_features_in_)


def repeat_rows(
    X: Any, y: np.ndarray, offsets: np.ndarray, weight: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows as often as their weight says, and their blocks: a measure counts rows, it does not weigh them."""
    if weight is None:
        return X, y, offsets
    times = weight.astype(np.int64)
    if (times != weight).any():
        raise ValueError(
            "AdaRank measures whole rankings, in which a row stands once, twice, ... but not half: sample_weight must "
            "be whole numbers"
        )
    rows = np.repeat(np.arange(len(times)), times)
    return X[rows], y[rows], np.concatenate(([0], np.cumsum(times)))[offsets]
