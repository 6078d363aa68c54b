"""RankBoost: boosting of thresholds on features (Freund, Iyer, Schapire & Singer 2003)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from hingerank.data.blocks import QueryBlocks
from hingerank.kernels.boosting import add_potentials, count_below
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Exponential
from hingerank.preferences import GradedPreferences
from hingerank.problem.design import add_up
from hingerank.rankers.baselines.boosting import SAME, BoostingRanker, by_columns, column, first_of_the_best

MOST_THRESHOLDS = 255  # so that a row's place among them is one byte
SOLVED, PERFECT = 1e-12, 1.0 - 1e-12


class RankBoost(BoostingRanker):
    """score(x) = sum over rounds t of  alpha_t · [x[k_t] > theta_t].

    Each round takes the feature k and threshold theta with the largest |r|,  r = sum over pairs (i preferred to j) of
    D(i, j) ([x_i[k] > theta] - [x_j[k] > theta]),  and  alpha = ½ log((1 + r) / (1 - r)).  D is proportional to
    exp(-(s_i - s_j)) at the scores so far, so this descends the exponential loss of pairs coordinate by coordinate. No
    pair is listed: r adds up the loss's gradient over rows.

    Parameters
    ----------
    n_rounds : rounds. Every number of them is a model: `fit_path` gives several from one run.
    n_thresholds : thresholds for each feature, at most 255: midway between its distinct values where these are few
        enough, else between evenly spaced ones among them in their order.
    scale : feature scaling learnt in fit and carried in the model.

    Attributes
    ----------
    features_, thresholds_, alphas_ : of each round. certificate_, trace_ : rounds made and the training rows' mean
    exponential loss of a pair after each of them.

    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.9, 0.3]]), [0, 1, 0, 1]
    >>> ranker = RankBoost(n_rounds=1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.features_.tolist(), ranker.thresholds_.round(2).tolist()
    ([0], [0.55])
    """

    _fitted = ("thresholds_",)

    def __init__(self, n_rounds=300, n_thresholds=MOST_THRESHOLDS, *, scale=None):
        self.n_rounds = n_rounds
        self.n_thresholds = n_thresholds
        self.scale = scale

    def _rounds(self, X: Any, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
        preferences, loss = GradedPreferences(y, blocks.offsets, item_weight=weight), Exponential()
        self.n_pairs_, total = preferences.n_pairs, preferences.total_weight
        thresholds, codes = self._binned(X)
        counts = np.array([len(values) for values in thresholds])
        allowed = np.arange(MOST_THRESHOLDS) < counts[:, None]
        shards = cut_shards(np.arange(len(codes) + 1), 1 << 16, 8)
        scores = np.zeros(len(y))
        at = loss.at(scores, preferences)
        while at.value > SOLVED * total:
            potential = -at.gradient / at.value
            r = _sums_above(codes, potential, shards)
            k, b = np.unravel_index(first_of_the_best(np.where(allowed, np.abs(r), 0.0)), r.shape)
            if not abs(r[k, b]) > SAME:
                return
            alpha = np.arctanh(np.clip(r[k, b], -PERFECT, PERFECT))  # ½ log((1 + r) / (1 - r))
            scores += alpha * (codes[:, k] > b)
            at = loss.at(scores, preferences)
            yield {
                "value": at.value / total, "r": float(r[k, b]), "feature": int(k),
                "threshold": float(thresholds[k][b]), "alpha": float(alpha),
            }  # fmt: skip

    def _binned(self, X: Any) -> tuple[list[np.ndarray], np.ndarray]:
        """Each feature's thresholds, and for each row and feature how many of them lie below its value."""
        most = self.n_thresholds
        if isinstance(most, bool) or int(most) != most or not 1 <= most <= MOST_THRESHOLDS:
            raise ValueError(f"n_thresholds must be a whole number from 1 to {MOST_THRESHOLDS}, not {most!r}")
        columns, codes = by_columns(X), np.empty(X.shape, np.uint8)

        def bin_column(k: int) -> np.ndarray:
            values = column(columns, k)
            distinct = np.unique(values)
            if len(distinct) - 1 > most:  # weights play no part here: a row given twice changes nothing
                distinct = distinct[np.linspace(0, len(distinct) - 1, most + 1).round().astype(np.int64)]
            distinct = distinct.astype(np.float64)
            found = distinct[:-1] + 0.5 * np.diff(distinct)
            count_below(values, found, k, codes)
            return found

        return run_shards(bin_column, range(X.shape[1])), codes

    def _measured(self):
        return "training exponential loss of a pair"

    def _assemble(self, entries):
        self.thresholds_ = np.array([entry["threshold"] for entry in entries], np.float64)

    def _scores(self, X):
        """Each feature's weak rankers together are one step function."""
        scores, columns = np.zeros(X.shape[0]), by_columns(X)
        for k in np.unique(self.features_):
            mine = self.features_ == k
            order = np.argsort(self.thresholds_[mine], kind="stable")
            steps = np.concatenate(([0.0], np.cumsum(self.alphas_[mine][order])))
            scores += steps[np.searchsorted(self.thresholds_[mine][order], column(columns, k), side="left")]
        return scores

    def _restore(self, state):
        super()._restore(state)
        shapes = {name: np.shape(getattr(self, name)) for name in ("features_", "thresholds_", "alphas_")}
        inside = all(0 <= k < self.n_features_in_ for k in self.features_)
        if len(set(shapes.values())) != 1 or self.features_.ndim != 1 or not inside:
            raise ValueError(f"the weak rankers do not fit together or name unknown features: {shapes}")


def _sums_above(codes: np.ndarray, potential: np.ndarray, shards: list[tuple[int, int]]) -> np.ndarray:
    """out[k, b] = sum of the potentials of rows with more than b thresholds of feature k below their value."""

    def part(shard: tuple[int, int]) -> np.ndarray:
        sums = np.zeros((codes.shape[1], MOST_THRESHOLDS + 1))
        add_potentials(codes, potential, *shard, sums)
        return sums

    sums = add_up(run_shards(part, shards))
    return np.cumsum(sums[:, :0:-1], axis=1)[:, ::-1]
