"""How the scores of several rankers become one: a scale for each, and weights that are equal or learnt.

    score(x) = Σ_k a_k f_k(x) / σ_k

σ_k is the standard deviation within queries of ranker k's out-of-fold scores: scores of queries that it has not learnt
from. The weights are equal, or the stack: non-negative weights that rank the out-of-fold scores best, or between both.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from hingerank.arrays import Matrix
from hingerank.data.checks import generator
from hingerank.data.rows_view import RowsView
from hingerank.losses import squared_hinge
from hingerank.metrics import evaluate
from hingerank.metrics.evaluator import standard_error
from hingerank.metrics.places import parse_place_measure
from hingerank.preferences import GradedPreferences, WeightedWinners
from hingerank.problem import Problem, RowsDesign
from hingerank.problem.sparse import GroupedProblem
from hingerank.solvers.grouped import grouped_newton
from hingerank.solvers.newton import newton
from hingerank.solvers.run import Solution
from hingerank.structures import NonNegativeNear

STACK_C = 100.0  # weight of the loss, a mean over queries, against the distance from equal weights
TINY = 1e-12  # spreads below this fraction of the scores' size are rounding: such a member ranks nothing


class OutOfFold(NamedTuple):
    """Scores of rows by rankers that have not learnt from them."""

    scores: np.ndarray  # a column for each member
    y: np.ndarray  # grades; of clicks the weights of rows as winners
    offsets: np.ndarray  # borders of the queries, whose rows lie together
    weight: np.ndarray | None  # of the rows
    part: np.ndarray  # the fold of every query
    lists: np.ndarray | None = None  # of clicks: how often each query was shown
    docid: np.ndarray | None = None  # document ids of the rows, by which some measures break ties

    def of(self, queries: np.ndarray) -> "OutOfFold":
        """The rows of some queries, without document ids."""
        sizes = np.diff(self.offsets)
        rows = np.flatnonzero(np.repeat(queries, sizes))
        offsets = np.concatenate(([0], np.cumsum(sizes[queries])))
        weight = None if self.weight is None else self.weight[rows]
        lists = None if self.lists is None else self.lists[queries]
        return OutOfFold(self.scores[rows], self.y[rows], offsets, weight, self.part[queries], lists)

    @property
    def query(self) -> np.ndarray:
        """The number of each row's query."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def spreads(self) -> np.ndarray:
        """σ: of each member the standard deviation of its scores around the means of their queries; 1 where it is 0."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        starts, query = self.offsets[:-1], self.query
        mass = np.add.reduceat(weight, starts)
        size = np.abs(self.scores).max(axis=0, initial=0.0)
        size[size == 0] = 1.0
        scores = self.scores / size  # squares of what is huge or tiny stay numbers
        means = np.add.reduceat(weight[:, None] * scores, starts, axis=0) / mass[:, None]
        apart = scores - means[query]
        found = np.sqrt(weight @ (apart * apart) / weight.sum())
        return np.where(found > TINY, found * size, 1.0)

    def measured(self, scores: np.ndarray, measure: str) -> np.ndarray:
        """The measure of every query; of clicks in units whose mean over queries is that over lists."""
        if self.lists is not None:
            return parse_place_measure(measure).values(scores, self.y, self.offsets, self.lists)
        return evaluate(self.y, scores, self.query, measure, per_query=True, docid=self.docid)[measure]

    def average(self, by_query: np.ndarray, queries: np.ndarray | EllipsisType) -> float:
        """The mean of a measure over some queries; of clicks in the units of these."""
        share = 1.0 if self.lists is None else (self.lists.mean() or 1.0) / (self.lists[queries].mean() or 1.0)
        return float(np.nanmean(by_query[queries]) * share)

    def preferences(self) -> GradedPreferences | WeightedWinners:
        """What the stack learns from: pairs of grades, or of winners and all others."""
        if self.lists is not None:
            return WeightedWinners(self.y, self.offsets, pair_weight="query")
        return GradedPreferences(self.y, self.offsets, item_weight=self.weight, pair_weight="query")


class Blending(NamedTuple):
    """Weights of members, and what out-of-fold scores say about them."""

    weights: np.ndarray  # a, which add up to 1
    scales: np.ndarray  # σ
    kind: str  # "equal", "stack", or "mixed" for weights between the two
    stack: Solution | None  # the stack's convex fit, where it was made
    values: dict[str, list[float]]  # mean measure and its standard error of members, equal weights, stack, mixed ones
    difference: list[float] | None  # the mean of the stack's measure less that of equal weights, and its standard error
    share: float  # of the stack in the weights
    per_query: np.ndarray  # the measure of every query under the weights taken, learnt from the other folds if learnt


def blend_scores(found: OutOfFold, names: Sequence[str], weights: str, measure: str, tol: float) -> Blending:
    """The scales and weights that out-of-fold scores suggest.

    With ``weights="auto"`` they are  (1 − p) · equal + p · stack,  p = Φ(d / e),  where d is the mean over queries of
    the stack's measure less that of equal weights, e its standard error and Φ the normal distribution: the probability
    that the stack is better, given what was seen. The stack's measure is cross-fitted: a fold's queries are ranked by
    weights learnt from the other folds. names: of the members; measure: to compare by; tol: of the stack's fit.
    """
    K, scales = found.scores.shape[1], found.spreads()
    scaled = found._replace(scores=found.scores / scales)
    equal = np.full(K, 1.0 / K)
    by = {name: found.measured(column, measure) for name, column in zip(names, found.scores.T)}
    level = scaled.scores @ equal
    by["equal"] = found.measured(level, measure)
    kind, solution, learnt, difference, share = "equal", None, equal, None, 0.0
    if weights != "equal" and K > 1:
        stacked, solution = cross_fitted(scaled, tol), stack(scaled, tol)
        by["stack"] = found.measured(stacked, measure)
        difference = _mean(by["stack"] - by["equal"])
        kind, share = "stack", 1.0
        if weights == "auto":
            mean, error = difference
            kind, share = "mixed", float(ndtr(mean / error)) if error > 0 else 0.5 * (1.0 + float(np.sign(mean)))
            by["mixed"] = found.measured((1 - share) * level + share * stacked, measure)
        learnt = (1 - share) * equal + share * _sum_to_one(solution.w)
    values = {name: _mean(each) for name, each in by.items()}
    return Blending(learnt, scales, kind, solution, values, difference, share, by[kind])


def _sum_to_one(w: np.ndarray) -> np.ndarray:
    total = float(w.sum())
    return w / total if total > 0 else np.full(len(w), 1.0 / len(w))


def stack(scaled: OutOfFold, tol: float = 1e-3) -> Solution:
    """min over a ≥ 0 of  ½‖a − ā1‖² + C · mean over queries of the mean over its pairs of  max(0, 1 − Δ)²,

    Δ the difference of Σ_k a_k s_k between the two rows, s the scaled out-of-fold scores, and ā the best common weight:
    without evidence the weights stay equal. Convex, with the duality gap as certificate.
    """
    preferences = scaled.preferences()
    count = max(1, int(np.count_nonzero(preferences.pairs_per_query)))
    C, K = STACK_C / count, scaled.scores.shape[1]
    together = RowsDesign(np.ascontiguousarray(scaled.scores.sum(axis=1, keepdims=True)))
    common = max(0.0, float(newton(Problem(together, squared_hinge(), preferences, C=C), tol=tol).w[0]))
    design = RowsDesign(np.ascontiguousarray(scaled.scores))
    near = NonNegativeNear(np.full(K, common))
    return grouped_newton(GroupedProblem(design, squared_hinge(), preferences, near, C), np.full(K, common), tol=tol)


def cross_fitted(scaled: OutOfFold, tol: float) -> np.ndarray:
    """The stack's score of every row, by weights that were learnt from the queries of the other folds."""
    out, query = np.empty(len(scaled.y)), scaled.query
    for k in np.unique(scaled.part):
        held = scaled.part == k
        w = stack(scaled.of(~held), tol).w if not held.all() else np.ones(scaled.scores.shape[1])
        rows = held[query]
        out[rows] = scaled.scores[rows] @ _sum_to_one(w)
    return out


def deal_queries(
    X: Matrix, y: np.ndarray, offsets: np.ndarray, weight: np.ndarray | None, folds: int, seed: int
) -> np.ndarray:
    """The fold of every query: dealt in the order of a number made from its rows.

    So folds do not depend on the order of the queries or their names, and a row of weight 2 is the row given twice.
    """
    rng = generator(seed)
    along, own = rng.standard_normal(X.shape[1]), float(rng.standard_normal())
    blocks = [b for shard in X.shards() for b in shard] if isinstance(X, RowsView) else [(0, X.shape[0])]
    keys = np.empty(X.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for a, b in blocks:
            rows = X.raw(slice(a, b)) if isinstance(X, RowsView) else X
            keys[a:b] = np.asarray(rows.astype(np.float64) @ along).ravel()
        keys = np.nan_to_num(keys + own * y)
        mass = np.ones(len(y)) if weight is None else weight
        means = np.add.reduceat(mass * keys, offsets[:-1]) / np.add.reduceat(mass, offsets[:-1])
    part = np.empty(len(means), np.int64)
    part[np.argsort(means, kind="stable")] = np.arange(len(means)) % folds
    return part


def _mean(values: np.ndarray) -> list[float]:
    """The mean over queries and its standard error."""
    known = values[~np.isnan(values)]
    return [float(known.mean()), standard_error(known)] if len(known) else [0.0, 0.0]
