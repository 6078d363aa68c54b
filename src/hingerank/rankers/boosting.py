"""Boosting: AdaRank, of features towards a measure, RankBoost, of thresholds towards fewer wrong pairs, and their base.

AdaRank is Xu & Li's (2007), RankBoost that of Freund, Iyer, Schapire & Singer (2003).
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from hingerank.arrays import Matrix, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks
from hingerank.data.checks import real, whole
from hingerank.export.attributes import Array, Attribute
from hingerank.export.forms import stumps
from hingerank.features.curves import column_of
from hingerank.kernels.threads import add_up, cut_shards, run_shards
from hingerank.kernels.trees import add_potentials
from hingerank.losses import Exponential
from hingerank.metrics import evaluate, parse_measure
from hingerank.preferences import GradedPreferences
from hingerank.rankers.base import BaseRanker, LinearRanker, path_counts, take_over
from hingerank.rankers.explanation import SUMS, Contributions
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate

SAME = 1e-10  # weak rankers that differ by less in quality are equally good
NEARLY_PERFECT = 1e-12  # how near 1 a mean measure may come, so that alpha stays finite
MOST_THRESHOLDS = 255  # so that a row's place among them is one byte
SOLVED, PERFECT = 1e-12, 1.0 - 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingRanker(BaseRanker):
    """score(x) = sum over rounds t of ``alpha_t · h_t(x)``, where ``h_t`` is the weak ranker chosen in round t.

    A ranker defines ``_rounds``, which yields one trace entry for each round (feature, alpha, value and what else
    describes the weak ranker), and ``_take``, which makes the model of some of them. A fit is not an optimum but a
    number of rounds: its certificate says how many were made and gives the measure of the training rows after them.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "features_": Array("rounds", "i", low=0, high="columns"),
        "alphas_": Array("rounds"),
    }
    path_parameter = "max_iter"
    scale: str | None = None
    missing: str = "error"

    def _rounds(self, X: Matrix, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
        """Yield a trace entry for each round, without end unless no weak ranker helps any more."""
        raise NotImplementedError

    def _measured(self) -> str:
        """What the trace's ``value`` is."""
        raise NotImplementedError

    def _fit(self, X, y, blocks, sample_weight):
        began = time.perf_counter()
        entries: list[dict] = []
        for entry in islice(self._rounds(X, y, blocks, sample_weight), whole("max_iter", self.max_iter)):
            entries.append({"iteration": len(entries) + 1, "seconds": time.perf_counter() - began, **entry})
        self._take(entries)

    @renamed
    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, max_iter: Iterable[int] = (),
        sample_weight: PerRow = None, *, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every number of rounds, in the order given, all from one run of boosting."""
        wanted = path_counts("max_iter", max_iter)
        leader = clone(self).set_params(max_iter=max(wanted)).fit(X, y, qid, sample_weight, group=group)
        path = [take_over(leader, clone(self).set_params(max_iter=value)) for value in wanted]
        for ranker in path:
            ranker._take(leader.trace_[: ranker.max_iter])
        return path

    def _take(self, entries: list[dict]) -> None:
        """Make the model of the weak rankers of these rounds."""
        self.trace_ = entries
        self.features_ = np.array([entry["feature"] for entry in entries], np.int64)
        self.alphas_ = np.array([entry["alpha"] for entry in entries], np.float64)
        self.n_iter_ = max(1, len(entries))
        value, seconds = (entries[-1]["value"], entries[-1]["seconds"]) if entries else (0.0, 0.0)
        self.certificate_ = Certificate(self._measured(), float(value), 0.0, "trained", len(entries), seconds)


def first_of_the_best(quality: np.ndarray) -> int:
    """The first (flat) index whose value is the largest up to rounding, so that the order of rows does not matter."""
    return int(np.argmax(quality.ravel() >= quality.max(initial=-np.inf) - SAME))


def by_columns(X: Matrix) -> Matrix:
    """X in a form whose columns are quick to get."""
    return X.tocsc() if sparse.issparse(X) else X


@renamed
@dataclass(eq=False, repr=False)
class AdaRank(BoostingRanker, LinearRanker):
    """score(x) = sum over rounds t of ``alpha_t · x[k_t]``.

    Queries have weights P(q), equal at first. A round takes the feature k whose ranking has the best weighted measure
    ``sum_q P(q) E(q, k)``, with ``alpha = ½ log( sum_q P(q) (1 + E(q, k)) / sum_q P(q) (1 - E(q, k)) )``, and then lets
    P(q) be proportional to exp(-E(q)), E(q) the measure of the ranking by the scores so far: hard queries count more.
    Queries whose rows all have the same grade are left out: all rankings of them are equally good.

    Parameters
    ----------
    max_iter : maximum number of rounds of boosting
        Every number of them is a model: ``fit_path`` gives several from one run.
    measure : "map" (AdaRank-MAP), "ndcg@10" (AdaRank-NDCG) or any other between 0 and 1
        For rows of equal score the expected value over all orders counts, as in the default preset: features have many
        equal values, and the order of the rows should not matter.
    monotone : skip features that would not raise the training measure, and stop if none would
        False: as in the paper. The feature that ranks best alone is then often chosen again and again, because neither
        the weights of queries nor the ranking change any more.
    negated : also rank by features in ascending order
    scale, missing : as in RankSVM

    Attributes
    ----------
    coef_ : the weight of each feature
    features_, alphas_ : the feature and the factor of each round
    certificate_, trace_ : rounds made, and the training measure after each of them

    Examples
    --------
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.9, 0.3]]), [0, 1, 0, 1]
    >>> AdaRank(max_iter=1).fit(X, y, qid=["a", "a", "b", "b"]).features_.tolist()
    [0]
    """

    max_iter: int = 100
    measure: str = "map"
    _: KW_ONLY
    monotone: bool = True
    negated: bool = False

    def _rounds(self, X: Matrix, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
        X, y, offsets = repeat_rows(X, y, blocks.offsets, weight)
        measure, group, columns = parse_measure(self.measure), np.diff(offsets), by_columns(X)
        preferences = GradedPreferences(y, offsets)
        self.n_pairs_, kept = preferences.n_pairs, preferences.pairs_per_query > 0

        def measured(scores: np.ndarray) -> np.ndarray:
            values = evaluate(y, scores, measures=measure, per_query=True, group=group)
            return np.nan_to_num(values[str(measure)][kept])

        signs = (1.0, -1.0) if self.negated else (1.0,)
        weak = [(k, sign) for sign in signs for k in range(X.shape[1])]
        E = np.array([measured(sign * column_of(columns, k)) for k, sign in weak]).reshape(len(weak), -1)
        if E.size and (E.min() < 0.0 or E.max() > 1.0 + NEARLY_PERFECT):
            raise ValueError(f"AdaRank needs a measure between 0 and 1, and {self.measure!r} has other values")
        P, scores, best = np.full(E.shape[1], 1.0 / max(1, E.shape[1])), np.zeros(len(y)), -1.0
        passed_over: list[int] = []
        while True:
            quality = (E * P).sum(1)
            quality[passed_over] = 0.0
            chosen = first_of_the_best(quality)
            if not quality[chosen] > 0.0:
                return
            k, sign = weak[chosen]
            alpha = sign * 0.5 * np.log((1.0 + quality[chosen]) / max(1.0 - quality[chosen], NEARLY_PERFECT))
            trial = scores + alpha * column_of(columns, k)
            values = measured(trial)
            if self.monotone and not values.mean() > best + SAME:
                passed_over.append(chosen)
                continue
            scores, best, passed_over = trial, float(values.mean()), []
            P = np.exp(-values)
            P /= P.sum()
            yield {"value": best, "feature": k, "alpha": float(alpha)}

    def _measured(self) -> str:
        return f"training {self.measure}"

    def _take(self, entries):
        super()._take(entries)
        self.coef_ = np.zeros(self._n_columns)
        np.add.at(self.coef_, self.features_, self.alphas_)


def repeat_rows(
    X: Matrix, y: np.ndarray, offsets: np.ndarray, weight: np.ndarray | None
) -> tuple[Matrix, np.ndarray, np.ndarray]:
    """Rows as often as their weight says, and their blocks: a measure counts rows, it does not weigh them."""
    if weight is None:
        return X, y, offsets
    times = weight.astype(np.int64)
    if (times != weight).any():
        raise ValueError(
            "AdaRank repeats rows by their weights, which is not possible for fractions: sample_weight must "
            "be whole numbers"
        )
    rows = np.repeat(np.arange(len(times)), times)
    return X[rows], y[rows], np.concatenate(([0], np.cumsum(times)))[offsets]


@renamed
@dataclass(eq=False, repr=False)
class RankBoost(BoostingRanker):
    """score(x) = sum over rounds t of ``alpha_t · [x[k_t] > theta_t]``.

    Each round takes the feature k and threshold theta with the largest absolute value of r, the sum over pairs (i
    preferred to j) of ``D(i, j) ([x_i[k] > theta] - [x_j[k] > theta])``, and ``alpha = ½ log((1 + r) / (1 - r))``. D is
    proportional to ``exp(-(s_i - s_j))`` at the scores so far, so this descends the exponential loss of pairs
    coordinate by coordinate. No pair is listed: r adds up the loss's gradient over rows.

    Parameters
    ----------
    max_iter : maximum number of rounds of boosting
        Every number of them is a model: ``fit_path`` gives several from one run.
    n_thresholds : thresholds for each feature, at most 255
        They lie midway between the distinct values if these are few enough, else midway between evenly spaced ones
        among the sorted distinct values.
    scale, missing : as in RankSVM

    Attributes
    ----------
    features_, thresholds_, alphas_ : the feature, the threshold and the factor of each round
    certificate_, trace_ : rounds made, and the training rows' mean exponential loss of a pair after each of them

    Examples
    --------
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.9, 0.3]]), [0, 1, 0, 1]
    >>> ranker = RankBoost(max_iter=1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.features_.tolist(), ranker.thresholds_.round(2).tolist()
    ([0], [0.55])
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"thresholds_": Array("rounds")}
    _form_kind = "trees"
    _scaled_type = np.float64  # the order of values counts, and rounding would make neighbours equal

    max_iter: int = 300
    n_thresholds: int = MOST_THRESHOLDS

    def _rounds(self, X: Matrix, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
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

    def _binned(self, X: Matrix) -> tuple[list[np.ndarray], np.ndarray]:
        """Each feature's thresholds, and for each row and feature how many of them lie below its value."""
        most = self.n_thresholds
        if real(most) % 1 != 0 or not 1 <= most <= MOST_THRESHOLDS:
            raise ValueError(f"n_thresholds must be a whole number from 1 to {MOST_THRESHOLDS}, not {most!r}")
        columns, codes = by_columns(X), np.empty(X.shape, np.uint8)

        def bin_column(k: int) -> np.ndarray:
            values = column_of(columns, k)
            distinct = np.unique(values)
            if len(distinct) - 1 > most:  # weights play no part here: a row given twice changes nothing
                distinct = distinct[np.linspace(0, len(distinct) - 1, most + 1).round().astype(np.int64)]
            found = distinct[:-1] + 0.5 * np.diff(distinct)
            codes[:, k] = np.searchsorted(found, values)
            return found

        return run_shards(bin_column, range(X.shape[1])), codes

    def _measured(self):
        return "training exponential loss of a pair"

    def _take(self, entries):
        super()._take(entries)
        self.thresholds_ = np.array([entry["threshold"] for entry in entries], np.float64)

    def _steps(self, X: Matrix) -> Iterator[tuple[int, np.ndarray]]:
        """The features in use, and what each adds to every score: its weak rankers together are one step function."""
        columns = by_columns(X)
        for k in np.unique(self.features_):
            mine = self.features_ == k
            order = np.argsort(self.thresholds_[mine], kind="stable")
            steps = np.concatenate(([0.0], np.cumsum(self.alphas_[mine][order])))
            yield k, steps[np.searchsorted(self.thresholds_[mine][order], column_of(columns, k), side="left")]

    def _scores(self, X):
        return sum((steps for _, steps in self._steps(X)), np.zeros(X.shape[0]))

    def _contributions(self, X, blocks):
        parts = np.zeros(X.shape)
        for k, steps in self._steps(X):
            parts[:, k] = steps
        return Contributions(parts, np.zeros(X.shape[0]), SUMS, True)

    def _body(self):
        return stumps(self.features_, self.thresholds_, self.alphas_)


def _sums_above(codes: np.ndarray, potential: np.ndarray, shards: list[tuple[int, int]]) -> np.ndarray:
    """out[k, b] = sum of the potentials of rows with more than b thresholds of feature k below their value."""

    def part(shard: tuple[int, int]) -> np.ndarray:
        sums = np.zeros((codes.shape[1], MOST_THRESHOLDS + 1))
        add_potentials(codes, potential, *shard, sums)
        return sums

    sums = add_up(run_shards(part, shards))
    return np.cumsum(sums[:, :0:-1], axis=1)[:, ::-1]
