"""Problems over data in parts. Loss, gradient and Hessian are sums over queries, and therefore sums over parts.

For a solver it is an ordinary problem. Every evaluation asks all parts once and adds their results in part order. The
bits of a fit therefore depend neither on where the parts are nor on the number of workers.
"""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import numpy as np

from hingerank.arrays import Matrix, Ranker
from hingerank.data.blocks import evenly, kept_rows
from hingerank.data.describe import BlockFigures, merge_figures
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, figures_of, is_mapped
from hingerank.data.scaling import Scaler
from hingerank.distributed.parts import (
    Answers,
    LoadedPart,
    Part,
    PartFacts,
    Question,
    RowWeights,
    joined_weights,
    stacked,
)
from hingerank.features.curves import SAMPLED_ROWS
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design, Pass, Point, add_up
from hingerank.rankers.base import TrainingRows
from hingerank.rankers.inputs import gather_rows
from hingerank.rankers.shapes import ShapeSample
from hingerank.rankers.sources import PARTS, ROWS_FOR_A_MAP, SeenRows, Source

SAMPLE_BYTES = 1 << 28  # largest sample of queries that is fetched and solved in the solver's process
STRIDES = (1, 4, 16, 32, 64, 128, 256, 512, 2048)  # strides of the samples that solvers use

_numbers = count()


class AskedParts(Protocol):
    """What problems need from data in parts. `PartedData` has all of it."""

    n_rows: int
    n_queries: int
    n_features: int
    sparse: bool
    dtype: np.dtype
    parts: list[Part]
    facts: list[PartFacts]
    weights: RowWeights | None

    def ask(self, question: Question, *arguments: object) -> Answers: ...

    def weighted_sample(self, most: int) -> tuple[Matrix, np.ndarray | None]: ...


class PartsSource(Source):
    """The rows of data in parts, scaled by a ranker's scaler. The parts make their own preferences."""

    kind = PARTS

    def __init__(self, data: AskedParts, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None):
        self.data, self.scaler, self.prefer = data, ranker.scaler_, prefer or unfitted(ranker)._preferences
        self.n_features, self.sparse = data.n_features, data.sparse

    def pose(self, make):
        queries = PartsQueries(self.data, PartProblem(make, self.scaler, self.prefer, self.data.weights))
        return PartsDesign(queries), queries

    def sample(self):
        if self.scaler is not None and self.scaler.per_query:
            raise ValueError(
                f"scale={self.scaler.name!r} works within queries, but a feature map is fitted on rows of many "
                "parts: scale by columns (standard, deviation, ...)"
            )
        rows, weight = self.data.weighted_sample(ROWS_FOR_A_MAP)
        return rows if self.scaler is None else self.scaler.transform(rows), weight

    def see(self):
        """The same sample that a fit on one machine would use: every n-th row, and the rows of every n-th query."""
        data = self.data
        kept = [facts.n_rows for facts in data.facts]
        if data.weights is not None:
            borders = np.concatenate(([0], np.cumsum(kept)))
            kept = [int((data.weights.values[a:b] > 0).sum()) for a, b in pairwise(borders)]
        n = sum(kept)
        rows, queries = (np.concatenate(([0], np.cumsum(k))) for k in (kept, [len(facts.ids) for facts in data.facts]))
        starts = {part.key: (int(row), int(query)) for part, row, query in zip(data.parts, rows, queries)}
        wanted = np.arange(n) if n <= SAMPLED_ROWS else np.asarray(evenly(n, SAMPLED_ROWS))
        stride = -(-n // SAMPLED_ROWS)
        found: list[SampledRows] = data.ask(see_part, self.scaler, data.weights, starts, wanted, stride)
        low, high, _, spread, _, _ = merge_figures([part.figures for part in found])
        weight, query_weight, query = (
            np.concatenate(column) for column in zip(*((part.weight, part.query_weight, part.query) for part in found))
        )
        sampled = ShapeSample(np.empty(0, int), stacked([part.queries for part in found]), query_weight, query)
        return SeenRows(stacked([part.X for part in found]), weight, np.where(high > low, spread, 1.0), sampled)

    def sums(self, design, preferences):
        return Sums.added(preferences.ask("sums"))


def unfitted(ranker: Ranker) -> Ranker:
    """A new ranker with the same parameters, except those that only the solver's process needs."""
    return type(ranker)(**ranker.get_params(deep=False) | dict.fromkeys(ranker._training_only))


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
    figures: BlockFigures


def see_part(
    part: LoadedPart,
    scaler: Scaler | None,
    weights: RowWeights | None,
    starts: dict[str, tuple[int, int]],
    wanted: np.ndarray,
    stride: int,
) -> SampledRows:
    """One part's rows of a sample. `starts` has the indices of each part's first row and query among all."""
    X, _, blocks, weight = scaled_rows(part.data, None if weights is None else weights.of(part), scaler)
    first_row, first_query = starts[part.part.key]
    m = np.ones(X.shape[0]) if weight is None else weight
    here = wanted[np.searchsorted(wanted, first_row) : np.searchsorted(wanted, first_row + len(m))] - first_row
    numbers = first_query + np.arange(len(blocks.sizes))
    rows = np.flatnonzero(np.repeat(numbers % stride == 0, blocks.sizes))
    view = X if isinstance(X, RowsView) else RowsView(X)
    return SampledRows(
        X[here], m[here], X[rows], m[rows], np.repeat(numbers, blocks.sizes)[rows], figures_of(view, weight)
    )


# The problem as solvers see it.


@dataclass(frozen=True)
class PartProblem:
    """Makes a design and preferences from the scaled rows of a part. It is pickled and sent to the part.

    `weights` are those of the rows of all parts, or None.
    """

    make: Callable[[Matrix], Design]
    scaler: Scaler | None
    prefer: Callable[..., QueryPreferences]
    weights: RowWeights | None

    def __call__(self, data: RankingData, weight: np.ndarray | None) -> tuple[Design, QueryPreferences]:
        rows = scaled_rows(data, weight, self.scaler)
        return self.make(rows.X), self.prefer(rows.y, rows.blocks, rows.weight)


class PartsQueries:
    """What problems need from preferences, as sums over parts. `width` is the number of the problem's weights."""

    pairs_differ, item_weight, query_weight = False, None, None

    def __init__(self, data: AskedParts, make: PartProblem):
        self.data, self.make, self.token = data, make, new_token()
        self.n_items, self.n_queries = data.n_rows, data.n_queries
        found = self.ask("sizes")
        self.width, self.n_pairs = found[0][2], sum(pairs for pairs, _, _ in found)
        self._weights = {k: float(sum(weight[k] for _, weight, _ in found)) for k in STRIDES}

    def ask(self, name: str, *arguments: object) -> Answers:
        """Call a method of each `PosedPart`, which is made now if necessary."""
        return self.data.ask(on_posed, self.token, self.make, name, *arguments)

    def ask_again(self, name: str, *arguments: object) -> Answers:
        """`ask` without sending how problems are made, unless a worker has restarted."""
        found = self.data.ask(on_posed, self.token, None, name, *arguments)
        return self.ask(name, *arguments) if any(isinstance(part, Unknown) for part in found) else found

    @property
    def total_weight(self) -> float:
        return self.weight_of(1)

    def weight_of(self, stride: int) -> float:
        """The sum of the weights of the pairs of every stride-th query of every part."""
        if stride not in self._weights:
            self._weights[stride] = float(sum(self.ask("weight_of", stride)))
        return self._weights[stride]


class PartsDesign(Design):
    """The rows of data in parts. Each part has its own design."""

    def __init__(self, queries: PartsQueries):
        self.shape = (queries.n_items, queries.width)
        self.numbers = queries.n_items * queries.width

    def scores(self, w: np.ndarray) -> np.ndarray:
        raise ValueError("scores of data in parts are not collected in one place: use sweep")

    def back(self, z: np.ndarray) -> np.ndarray:
        raise ValueError("rows of data in parts are not collected in one place: use sweep")

    def sweep(self, loss: Loss, preferences: Any) -> Pass:
        """The sum over parts."""
        return PartsPass(preferences, loss)


class PartsPass(Pass):
    """The sum of the parts' passes. `latest` are the weights evaluated last, from which a fit can be resumed."""

    def __init__(self, queries: PartsQueries, loss: Loss, stride: int = 1):
        self.queries, self.loss = queries, loss
        self.about = hashlib.blake2b(pickle.dumps(loss), digest_size=16).hexdigest(), loss, stride
        swept = isinstance(loss, WindowLoss)  # evaluated query by query, so that a part can leave some out
        self.graded: Any = queries if swept or self._bytes(4) <= SAMPLE_BYTES else None
        self.latest: np.ndarray | None = None

    def _bytes(self, stride: int) -> int:
        """The number of bytes of a sample of the rows."""
        data = self.queries.data
        return data.n_rows * data.n_features * data.dtype.itemsize // stride

    def at(self, w: np.ndarray) -> Point:
        found = self.queries.ask_again("at", self.about, w)
        moments = [part[2] for part in found]
        self.latest = w
        return Point(
            w,
            float(sum(part[0] for part in found)),
            add_up([part[1].copy() for part in found]),
            lambda v: add_up([part.copy() for part in self.queries.ask_again("curvature", self.about, w, v)]),
            None if any(m is None for m in moments) else add_up([m.copy() for m in moments]),
        )

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        return add_up([part.copy() for part in self.queries.ask_again("hessian", self.about, w, stride)])

    def every(self, stride: int) -> Pass:
        """The loss of every stride-th query of every part. A small sample is fetched, a large one is not."""
        if self._bytes(stride) > SAMPLE_BYTES:
            return PartsPass(self.queries, self.loss, stride)
        make = self.queries.make
        found = self.queries.data.ask(queries_of, stride, make.weights)
        rows = RankingData.concatenate([part for part, _ in found], join_queries=True)
        design, preferences = make(rows, joined_weights([weight for _, weight in found]))
        return design.sweep(self.loss, preferences)


def queries_of(
    part: LoadedPart, stride: int, weights: RowWeights | None = None
) -> tuple[RankingData, np.ndarray | None]:
    """Every stride-th query of a part, and the weights of its rows."""
    data = part.data
    rows = data.blocks.scatter(data.blocks.numbers % stride == 0).nonzero()[0]
    weight = None if weights is None else weights.of(part)[rows]
    return RankingData(data.X[rows], data.y[rows], data.qid[rows], None, data.feature_names), weight


# The problem of a part, in the process that holds it.


class Unknown:
    """The result of a part that has not received the problem yet, or has lost it."""


def new_token() -> str:
    """A unique name for a problem."""
    return f"{uuid4().hex}-{next(_numbers)}"


About = tuple[str, Loss, int]  # the key of a loss, the loss, and the stride of the queries


class PosedPart:
    """A part's design and preferences, the pass of the loss used last, and the point evaluated last."""

    def __init__(self, design: Design, preferences: QueryPreferences):
        self.design, self.preferences = design, preferences
        self.key, self.passes = "", dict[int, Pass]()
        self.point: tuple[int, np.ndarray, Point] | None = None

    def sizes(self) -> tuple[int, dict[int, float], int]:
        """The number of pairs, the weights of the samples, and the number of the problem's weights."""
        weight = self.preferences.weight_per_query
        weights = {stride: float(weight[::stride].sum()) for stride in STRIDES}
        return self.preferences.n_pairs, weights, self.design.shape[1]

    def weight_of(self, stride: int) -> float:
        return self.preferences.weight_of(stride)

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


def on_posed(part: LoadedPart, token: str, make: PartProblem | None, name: str, *arguments: Any) -> object:
    """Call a method of the part's problem; `Unknown` if the part does not have the problem and `make` is None."""
    if make is None:
        posed = part.made.get(token)
        return Unknown() if posed is None else getattr(posed, name)(*arguments)
    weight = None if make.weights is None else make.weights.of(part)
    return getattr(part.keep(token, lambda: PosedPart(*make(part.data, weight))), name)(*arguments)
