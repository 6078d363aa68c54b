"""Learning from data in parts: the ranker is sent to the parts, and its problem is the sum of what it makes of them."""

from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.data.blocks import QueryBlocks, kept_rows
from hingerank.data.describe import BlockFigures, merge_figures
from hingerank.data.parts import LoadedPart, PartedData, RowWeights, figures_of
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.preferences import GradedPreferences
from hingerank.problem.parts import PartsDesign, PartsQueries, new_token
from hingerank.problem.problem import Design
from hingerank.rankers.inputs import check_weight, gather_rows, names_of_features, warn_spreads
from hingerank.rankers.large import ROWS_FOR_A_MAP


class ScaledRows(NamedTuple):
    """A part's rows in block order, scaled; weight: None where all rows weigh 1."""

    X: Any
    y: np.ndarray
    blocks: QueryBlocks
    weight: np.ndarray | None

    @classmethod
    def of(cls, data: RankingData, weight: np.ndarray | None, scaler: Any) -> "ScaledRows":
        """Those of weight 0 left out."""
        taken, blocks = kept_rows(data.blocks, weight)
        y = np.ascontiguousarray(gather_rows(data.y, taken), np.float64)
        if is_mapped(data.X):
            view = data.X if isinstance(data.X, RowsView) else RowsView(data.X)
            view = view if taken is None else view.take(taken)
            X: Any = view if scaler is None else view.scaled(scaler, blocks.offsets)
        else:
            X = gather_rows(data.X, taken)
            X = X if scaler is None else scaler.scale_rows(X, blocks.numbers)
        return cls(X, y, blocks, None if weight is None else gather_rows(weight, taken))


@dataclass(frozen=True)
class PartDesign:
    """What a ranker, its scaler and its feature map make of the rows of a part; it travels to the part."""

    ranker: Any
    scaler: Any
    weights: RowWeights | None

    def __call__(self, data: RankingData, weight: np.ndarray | None) -> tuple[Design, GradedPreferences]:
        ranker, rows = copy(self.ranker), ScaledRows.of(data, weight, self.scaler)
        return ranker._rows_design(rows.X), ranker._preferences(rows.y, rows.blocks, rows.weight)


def checked_parts(ranker: Any, data: PartedData, sample_weight: Any, given: dict[str, Any]) -> PartedData:
    """The data, with their weights where there are any; a ValueError for what cannot be learnt from parts."""
    name = type(ranker).__name__
    if not ranker._adds_up:
        raise ValueError(
            f"{name} does not learn from data in parts: its loss is no sum over queries, or it needs all rows at once; "
            "RankSVM, its relatives by the loss, AdditiveRankSVM, SparseRankSVM, FenchelRank, NystroemRankSVM "
            "and FourierRankSVM do"
        )
    for parameter, value in given.items():
        if value is not None:
            raise ValueError(f"data in parts bring their grades and queries along: leave out {parameter}")
    if getattr(ranker, "grade_weight", None) is not None:
        raise ValueError("grade_weight is a matrix over all grades, which a part does not know: leave it out")
    if getattr(ranker, "solver", "auto") == "dual":
        raise ValueError("solver='dual' keeps a number for every pair: use another with data in parts")
    weight = check_weight(sample_weight, data.n_rows)
    return data if weight is None else data.weighted(weight)


def design_of_parts(ranker: Any, data: PartedData) -> tuple[PartsDesign, PartsQueries]:
    """The design of a ranker over data in parts, and what is known of its pairs.

    The columns' figures take one pass, which also checks them; the scaler and the feature map are learnt here, the
    latter from evenly spaced rows.
    """
    ranker.n_features_in_ = data.n_features
    ranker.__dict__.pop("feature_names_in_", None)
    if data.feature_names is not None:
        ranker.feature_names_in_ = np.asarray(data.feature_names, object)
    ranker.__dict__.pop("tuning_", None)
    name, names = ranker._scaling(), names_of_features(ranker, data.n_features)
    ranker.fingerprint_, ranker._source_rows, figures = data.fingerprint(), None, data.figures()
    ranker.scaler_ = None
    if name is not None:
        sample = data.sample(SAMPLED_ROWS if make_scaler(name).of_sample else 1)
        ranker.scaler_ = ranker._finite_scaler(name, lambda: make_scaler(name).fit_figures(figures, sample))
    elif ranker._sees_spreads and getattr(ranker, "features", None) is None:
        warn_spreads(figures[3], names, stacklevel=6)
    width = ranker._prepare_parts(data)
    sent = copy(ranker)
    for driven in ("callback", "init", "_look"):
        sent.__dict__.pop(driven, None)
    make, token = PartDesign(sent, ranker.scaler_, data.weights), new_token()
    return PartsDesign(data, make, width), PartsQueries(data, make, token)


def learn_map(ranker: Any, data: PartedData) -> int:
    """Fit the ranker's feature map to evenly spaced rows; how many weights there are."""
    if ranker.scaler_ is not None and ranker.scaler_.per_query:
        raise ValueError(
            f"scale={ranker._scaling()!r} works within queries, and a feature map is learnt from rows of many parts: "
            "scale by columns (standard, deviation, ...)"
        )
    rows, weight = data.weighted_sample(ROWS_FOR_A_MAP)
    width: int = ranker._learn_map(rows if ranker.scaler_ is None else ranker.scaler_.transform(rows), weight)
    return width


class SampledRows(NamedTuple):
    """Of scaled rows: evenly spaced ones with their weights, whole queries with theirs, and figures of the columns."""

    X: Any
    weight: np.ndarray
    queries: Any
    query_weight: np.ndarray
    query: np.ndarray
    figures: BlockFigures


def see_parts(scaler: Any, data: PartedData, most: int) -> SampledRows:
    """About `most` rows of data in parts, the same ones that one machine would look at: every so many-th of all rows,
    and those of every so many-th query."""
    kept = [facts.n_rows for facts in data.facts]
    if data.weights is not None:
        borders = np.concatenate(([0], np.cumsum(kept)))
        kept = [int((data.weights.values[a:b] > 0).sum()) for a, b in pairwise(borders)]
    n = sum(kept)
    rows, queries = (np.concatenate(([0], np.cumsum(k))) for k in (kept, [len(facts.ids) for facts in data.facts]))
    starts = {part.key: (int(row), int(query)) for part, row, query in zip(data.parts, rows, queries)}
    wanted = np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)
    found: list[SampledRows] = data.ask(see_part, scaler, data.weights, starts, wanted, -(-n // most))
    low, high, mean, spread, nonzero, missing = merge_figures([part.figures for part in found])
    known = np.sum([part.figures.known for part in found], axis=0)
    return SampledRows(
        data.stacked([part.X for part in found]),
        np.concatenate([part.weight for part in found]),
        data.stacked([part.queries for part in found]),
        np.concatenate([part.query_weight for part in found]),
        np.concatenate([part.query for part in found]),
        BlockFigures(low, high, known, mean, spread**2 * known, nonzero, missing),
    )


def see_part(
    part: LoadedPart,
    scaler: Any,
    weights: RowWeights | None,
    starts: dict[str, tuple[int, int]],
    wanted: np.ndarray,
    stride: int,
) -> SampledRows:
    """What `see_parts` looks at, of one part; starts: the numbers of its first row and query among all."""
    X, _, blocks, weight = ScaledRows.of(part.data, None if weights is None else weights.of(part), scaler)
    first_row, first_query = starts[part.part.key]
    m = np.ones(X.shape[0]) if weight is None else weight
    here = wanted[np.searchsorted(wanted, first_row) : np.searchsorted(wanted, first_row + len(m))] - first_row
    numbers = first_query + np.arange(len(blocks.sizes))
    rows = np.flatnonzero(np.repeat(numbers % stride == 0, blocks.sizes))
    view = X if isinstance(X, RowsView) else RowsView(X)
    return SampledRows(
        X[here], m[here], X[rows], m[rows], np.repeat(numbers, blocks.sizes)[rows], figures_of(view, weight)
    )


def scores_of(part: LoadedPart, ranker: Any) -> np.ndarray:
    """A fitted ranker's scores of a part's rows."""
    return np.asarray(ranker.predict(part.data), np.float64)


def measures_of(part: LoadedPart, rankers: list[Any], measures: list[str]) -> list[dict[str, np.ndarray]]:
    """Every query's measures of a part, for each of some rankers."""
    from hingerank.metrics import evaluate  # a fit needs no measures

    data = part.data
    return [evaluate(data.y, ranker.predict(data), data.qid, measures, per_query=True) for ranker in rankers]


def predict_parts(ranker: Any, data: PartedData) -> np.ndarray:
    """The scores of all rows, part after part."""
    check_is_fitted(ranker)
    return np.concatenate(data.ask(scores_of, lightened(ranker)))


def evaluate_parts(rankers: list[Any], data: PartedData, measures: list[str]) -> list[dict[str, np.ndarray]]:
    """Every query's measures, queries part after part, for each of some rankers."""
    found = data.ask(measures_of, [lightened(ranker) for ranker in rankers], measures)
    return [{m: np.concatenate([part[k][m] for part in found]) for m in measures} for k in range(len(rankers))]


def lightened(ranker: Any) -> Any:
    """A copy of a fitted ranker without what only its own fit needs."""
    light = copy(ranker)
    for name in ("callback", "init"):
        if name in light.__dict__:
            setattr(light, name, None)
    light.__dict__.pop("trace_", None)
    return light
