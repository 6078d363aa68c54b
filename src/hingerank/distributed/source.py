"""Data in parts as training data: a ranker's problem is the sum of its problems on the parts."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hingerank.arrays import Matrix, Ranker
from hingerank.data.blocks import evenly, kept_rows
from hingerank.data.describe import BlockFigures, merge_figures
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, is_mapped
from hingerank.data.scaling import Scaler
from hingerank.data.view_figures import figures_of
from hingerank.distributed.parts import AskedParts, LoadedPart, RowWeights, stacked
from hingerank.distributed.sums import PartsDesign, PartsQueries, new_token, sums_of
from hingerank.features.curves import SAMPLED_ROWS
from hingerank.preferences import QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design
from hingerank.rankers.base import TrainingRows
from hingerank.rankers.inputs import gather_rows
from hingerank.rankers.shapes import ShapeSample
from hingerank.rankers.sources import PARTS, ROWS_FOR_A_MAP, SeenRows, Source


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


@dataclass(frozen=True)
class PartProblem:
    """Makes a design and preferences from the scaled rows of a part. It is sent to the part."""

    make: Callable[[Matrix], Design]
    scaler: Scaler | None
    prefer: Callable[..., QueryPreferences]
    weights: RowWeights | None

    def __call__(self, data: RankingData, weight: np.ndarray | None) -> tuple[Design, QueryPreferences]:
        rows = scaled_rows(data, weight, self.scaler)
        return self.make(rows.X), self.prefer(rows.y, rows.blocks, rows.weight)


class PartsSource(Source):
    """The rows of data in parts, scaled by a ranker's scaler. The parts make their own preferences."""

    kind = PARTS

    def __init__(self, data: AskedParts, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None):
        self.data, self.scaler, self.prefer = data, ranker.scaler_, prefer or unfitted(ranker)._preferences
        self.n_features, self.sparse = data.n_features, data.sparse

    def pose(self, make):
        made = PartProblem(make, self.scaler, self.prefer, self.data.weights)
        queries = PartsQueries(self.data, made, new_token())
        return PartsDesign(self.data, made, queries.width), queries

    def sample(self):
        if self.scaler is not None and self.scaler.per_query:
            raise ValueError(
                f"scale={self.scaler.name!r} works within queries, but a feature map is fitted on rows of many "
                "parts: scale by columns (standard, deviation, ...)"
            )
        rows, weight = self.data.weighted_sample(ROWS_FOR_A_MAP)
        return rows if self.scaler is None else self.scaler.transform(rows), weight

    def see(self):
        """The same sample that a fit on one machine would use."""
        seen = see_parts(self.scaler, self.data, SAMPLED_ROWS)
        spread = np.sqrt(seen.figures.square / np.maximum(seen.figures.known, 1e-300))
        width = np.where(seen.figures.high > seen.figures.low, spread, 1.0)
        queries = ShapeSample(np.empty(0, int), seen.queries, seen.query_weight, seen.query)
        return SeenRows(seen.X, seen.weight, width, queries)

    def sums(self, design, preferences):
        return Sums.added(self.data.ask(sums_of, preferences.token, preferences.make))


class SampledRows(NamedTuple):
    """A sample of scaled rows: evenly spaced rows with weights, whole queries with weights, and column statistics."""

    X: Matrix
    weight: np.ndarray
    queries: Matrix
    query_weight: np.ndarray
    query: np.ndarray
    figures: BlockFigures


def see_parts(scaler: Scaler | None, data: AskedParts, most: int) -> SampledRows:
    """A sample of about `most` rows, the same as on one machine: every n-th row, and the rows of every n-th query."""
    kept = [facts.n_rows for facts in data.facts]
    if data.weights is not None:
        borders = np.concatenate(([0], np.cumsum(kept)))
        kept = [int((data.weights.values[a:b] > 0).sum()) for a, b in pairwise(borders)]
    n = sum(kept)
    rows, queries = (np.concatenate(([0], np.cumsum(k))) for k in (kept, [len(facts.ids) for facts in data.facts]))
    starts = {part.key: (int(row), int(query)) for part, row, query in zip(data.parts, rows, queries)}
    wanted = np.arange(n) if n <= most else np.asarray(evenly(n, most))
    found: list[SampledRows] = data.ask(see_part, scaler, data.weights, starts, wanted, -(-n // most))
    low, high, mean, spread, nonzero, missing = merge_figures([part.figures for part in found])
    known = np.sum([part.figures.known for part in found], axis=0)
    return SampledRows(
        stacked([part.X for part in found]),
        np.concatenate([part.weight for part in found]),
        stacked([part.queries for part in found]),
        np.concatenate([part.query_weight for part in found]),
        np.concatenate([part.query for part in found]),
        BlockFigures(low, high, known, mean, spread**2 * known, nonzero, missing),
    )


def see_part(
    part: LoadedPart,
    scaler: Scaler | None,
    weights: RowWeights | None,
    starts: dict[str, tuple[int, int]],
    wanted: np.ndarray,
    stride: int,
) -> SampledRows:
    """One part's rows in the sample of `see_parts`. `starts` has the indices of its first row and query among all."""
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


def scores_of(part: LoadedPart, ranker: Ranker) -> np.ndarray:
    """A fitted ranker's scores of a part's rows."""
    return np.asarray(ranker.predict(part.data), np.float64)


def measures_of(part: LoadedPart, rankers: list[Ranker], measures: list[str]) -> list[dict[str, np.ndarray]]:
    """The measures of every query in a part, for each of the rankers."""
    from hingerank.metrics import evaluate  # a fit needs no measures

    data = part.data
    return [evaluate(data.y, ranker.predict(data), data.qid, measures, per_query=True) for ranker in rankers]


def unfitted(ranker: Ranker) -> Ranker:
    """A new ranker with the same parameters, except those that only the solver's process needs."""
    return type(ranker)(**ranker.get_params(deep=False) | dict.fromkeys(ranker._training_only))


def lightened(ranker: Ranker) -> Ranker:
    """A copy of a fitted ranker without the attributes that only fitting needs."""
    light = copy(ranker)
    vars(light).update(dict.fromkeys(ranker._training_only))
    vars(light).pop("trace_", None)
    return light
