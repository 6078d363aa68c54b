"""Questions: what is computed from a loaded part, in the process that holds it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hingerank.arrays import Matrix, Ranker
from hingerank.data.blocks import fingerprint, kept_rows
from hingerank.data.describe import Figures
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, is_mapped, look_through, scattered
from hingerank.data.scaling import Scaler
from hingerank.distributed.parts import LoadedPart, RowWeights
from hingerank.losses import Loss
from hingerank.metrics.measure import Measure
from hingerank.preferences import QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design, Pass, Point
from hingerank.rankers.base import TrainingRows
from hingerank.rankers.inputs import gather_rows


def ids_of(part: LoadedPart) -> tuple[np.ndarray, np.ndarray | None]:
    """The query id and the document id of each row."""
    return part.data.qid, part.data.docid


def look_at(part: LoadedPart, weights: RowWeights) -> tuple[Figures, bytes]:
    """Statistics of a part's columns, without rows of weight 0, and a hash of evenly spaced rows.

    A value that is not finite is a DataError that names the part.
    """
    view = part.data.X if isinstance(part.data.X, RowsView) else RowsView(part.data.X)
    weight = weights.of(part)
    if weight is not None:
        kept = np.flatnonzero(weight)
        view, weight = view.take(kept), weight[kept]
    try:
        return look_through(view, weight, part.data.feature_names), digest_of(part)
    except DataError as error:
        raise DataError(f"{part.part.path}: {error}") from None


def digest_of(part: LoadedPart) -> bytes:
    """A hash of evenly spaced rows of a part."""
    data = part.data
    if data.blocks.order is None:
        return bytes.fromhex(fingerprint(data.X, data.y, data.blocks)["sha256_of_sample"])
    rows = data.blocks.order[: min(256, data.n_rows)]
    return hashlib.sha256(np.ascontiguousarray(data.y[rows]).tobytes()).digest()


def rows_of(part: LoadedPart, stride: int, weights: RowWeights) -> tuple[Matrix, np.ndarray | None]:
    """Every stride-th row of a part, except those of weight 0, and their weights."""
    rows, weight = np.arange(0, part.data.n_rows, stride), weights.of(part)
    rows = rows if weight is None else rows[weight[rows] > 0]
    with scattered(part.data.X):
        return part.data.X[rows], None if weight is None else weight[rows]


def scores_of(part: LoadedPart, ranker: Ranker) -> np.ndarray:
    """A fitted ranker's scores of a part's rows."""
    return np.asarray(ranker.predict(part.data), np.float64)


def top_grade(part: LoadedPart) -> float:
    """The largest grade in a part."""
    return float(part.data.y.max())


def measures_of(part: LoadedPart, rankers: list[Ranker], measures: list[Measure]) -> list[dict[str, np.ndarray]]:
    """The measures of every query in a part, for each of the rankers."""
    from hingerank.metrics import evaluate  # a fit needs no measures

    data = part.data
    return [evaluate(data, ranker.predict(data), measures=measures, per_query=True) for ranker in rankers]


def scaled_rows(data: RankingData, weight: np.ndarray | None, scaler: Scaler | None) -> TrainingRows:
    """The scaled rows of a part in block order, without those of weight 0."""
    taken, blocks = kept_rows(data.blocks, weight)
    y = np.ascontiguousarray(gather_rows(data.y, taken), np.float64)
    if is_mapped(data.X):
        view = data.X if isinstance(data.X, RowsView) else RowsView(data.X)
        view = view if taken is None else view.take(taken)
        X: Matrix = view if scaler is None else view.scaled(scaler, blocks.offsets)
    else:
        X = gather_rows(data.X, taken)
        X = X if scaler is None else scaler.scale_rows(X, blocks.numbers)
    return TrainingRows(X, y, blocks, None if weight is None else gather_rows(weight, taken))


class SampledRows(NamedTuple):
    """A sample of scaled rows: evenly spaced rows with weights, whole queries with weights, and column statistics."""

    X: Matrix
    weight: np.ndarray
    queries: Matrix
    query_weight: np.ndarray
    query: np.ndarray
    figures: Figures


def see_part(
    part: LoadedPart,
    scaler: Scaler | None,
    weights: RowWeights,
    starts: dict[str, tuple[int, int]],
    wanted: np.ndarray,
    stride: int,
) -> SampledRows:
    """One part's rows of a sample. `starts` has the indices of each part's first row and query among all."""
    X, _, blocks, weight = scaled_rows(part.data, weights.of(part), scaler)
    first_row, first_query = starts[part.part.key]
    m = np.ones(X.shape[0]) if weight is None else weight
    here = wanted[np.searchsorted(wanted, first_row) : np.searchsorted(wanted, first_row + len(m))] - first_row
    numbers = first_query + np.arange(len(blocks.sizes))
    rows = np.flatnonzero(np.repeat(numbers % stride == 0, blocks.sizes))
    view = X if isinstance(X, RowsView) else RowsView(X)
    return SampledRows(
        X[here], m[here], X[rows], m[rows], np.repeat(numbers, blocks.sizes)[rows], look_through(view, weight)
    )


def queries_of(part: LoadedPart, stride: int, weights: RowWeights) -> tuple[RankingData, np.ndarray | None]:
    """Every stride-th query of a part, and the weights of its rows."""
    data, weight = part.data, weights.of(part)
    rows = data.blocks.scatter(data.blocks.numbers % stride == 0).nonzero()[0]
    with scattered(data.X):
        some = RankingData(data.X[rows], data.y[rows], data.qid[rows], None, data.feature_names)
    return some, None if weight is None else weight[rows]


# The problem of a part.


@dataclass(frozen=True)
class PartProblem:
    """Makes the problem of a part: a design and preferences from its scaled rows. It is pickled and sent to the part.

    `weights` are those of the rows of all parts.
    """

    make: Callable[[Matrix], Design]
    scaler: Scaler | None
    prefer: Callable[..., QueryPreferences]
    weights: RowWeights

    def __call__(self, part: LoadedPart) -> "PosedPart":
        return PosedPart(*self.pose(part.data, self.weights.of(part)))

    def pose(self, data: RankingData, weight: np.ndarray | None) -> tuple[Design, QueryPreferences]:
        """The design and preferences of rows with these weights."""
        rows = scaled_rows(data, weight, self.scaler)
        return self.make(rows.X), self.prefer(rows.y, rows.blocks, rows.weight)


About = tuple[str, Loss, int]  # the key of a loss, the loss, and the stride of the queries


class PosedPart:
    """A part's design and preferences, the pass of the loss used last, and the point evaluated last."""

    def __init__(self, design: Design, preferences: QueryPreferences):
        self.design, self.preferences = design, preferences
        self.key, self.passes = "", dict[int, Pass]()
        self.point: tuple[int, np.ndarray, Point] | None = None

    def sizes(self) -> tuple[int, np.ndarray, int]:
        """The number of pairs, the weight of each query's, and the number of the problem's weights."""
        return self.preferences.n_pairs, self.preferences.weight_per_query, self.design.shape[1]

    def sums(self) -> Sums:
        """The sums over the part's rows that regression needs."""
        return Sums.of(self.design, self.preferences)

    def at(self, about: About, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray | None]:
        here = self._point(about, w)
        return here.value, here.gradient, here.moments

    def curvature(self, about: About, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._point(about, w).curvature(v)

    def hessian(self, about: About, w: np.ndarray, often: int) -> np.ndarray:
        passed = self._pass(about)
        if self.point is not None and np.array_equal(self.point[1], w):
            w = self.point[1]  # this array object, by which the pass recognises its last point
        return passed.hessian(w, often)

    def _pass(self, about: About) -> Pass:
        key, loss, stride = about
        if key != self.key:
            before = self.passes.get(1)
            whole = None if before is None else before.with_loss(loss)
            whole = self.design.sweep(loss, self.preferences) if whole is None else whole
            self.key, self.passes, self.point = key, {1: whole}, None
        if stride not in self.passes:
            self.passes[stride] = self.passes[1].every(stride)
        return self.passes[stride]

    def _point(self, about: About, w: np.ndarray) -> Point:
        passed, stride = self._pass(about), about[2]
        if self.point is None or self.point[0] != stride or not np.array_equal(self.point[1], w):
            self.point = stride, w, passed.at(w)
        return self.point[2]
