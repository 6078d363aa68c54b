"""Learning from data in parts: the ranker is sent to the parts, and its problem is the sum of what it makes of them."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.data.blocks import kept_rows
from hingerank.data.parts import Held, PartedData
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.preferences import GradedPreferences
from hingerank.problem.parts import PartsDesign, PartsQueries, new_token
from hingerank.problem.problem import Design
from hingerank.rankers.inputs import gather_rows, names_of_features, warn_spreads
from hingerank.rankers.large import ROWS_FOR_A_MAP


@dataclass(frozen=True)
class DesignOfRows:
    """What a ranker, its scaler and its feature map make of the rows of a part; it travels to the part."""

    ranker: Any
    scaler: Any

    def __call__(self, data: RankingData) -> tuple[Design, GradedPreferences]:
        ranker = copy(self.ranker)
        taken, blocks = kept_rows(data.blocks, None)
        y = np.ascontiguousarray(gather_rows(data.y, taken), np.float64)
        preferences = ranker._preferences(y, blocks, None)
        if is_mapped(data.X):
            view = data.X if isinstance(data.X, RowsView) else RowsView(data.X)
            view = view if taken is None else view.take(taken)
            X: Any = view if self.scaler is None else view.scaled(self.scaler, blocks.offsets)
        else:
            X = gather_rows(data.X, taken)
            X = X if self.scaler is None else self.scaler.scale_rows(X, blocks.numbers)
        return ranker._rows_design(X), preferences


def refuse_parts(ranker: Any, given: dict[str, Any]) -> None:
    """A ValueError for what cannot be learnt from data in parts."""
    name = type(ranker).__name__
    if not ranker._adds_up:
        raise ValueError(
            f"{name} does not learn from data in parts: its loss is no sum over queries, or it needs all rows at once; "
            "RankSVM, its relatives by the loss, SparseRankSVM, FenchelRank, NystroemRankSVM and "
            "FourierRankSVM do"
        )
    for parameter, value in given.items():
        if value is not None:
            raise ValueError(f"data in parts bring their grades and queries along: leave out {parameter}")
    if getattr(ranker, "grade_weight", None) is not None:
        raise ValueError("grade_weight is a matrix over all grades, which a part does not know: leave it out")
    if getattr(ranker, "solver", "auto") == "dual":
        raise ValueError("solver='dual' keeps a number for every pair: use another with data in parts")


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
    width = data.n_features
    if ranker._maps():
        if ranker.scaler_ is not None and ranker.scaler_.per_query:
            raise ValueError(
                f"scale={name!r} works within queries, and a feature map is learnt from rows of many parts: scale by "
                "columns (standard, deviation, ...)"
            )
        rows = data.sample(ROWS_FOR_A_MAP)
        width = ranker._learn_map(rows if ranker.scaler_ is None else ranker.scaler_.transform(rows))
    sent = copy(ranker)
    for steering in ("callback", "init"):
        sent.__dict__.pop(steering, None)
    make, token = DesignOfRows(sent, ranker.scaler_), new_token()
    return PartsDesign(data, make, width), PartsQueries(data, make, token)


def scores_of(part: Held, ranker: Any) -> np.ndarray:
    """A fitted ranker's scores of a part's rows."""
    return np.asarray(ranker.predict(part.data), np.float64)


def measures_of(part: Held, rankers: list[Any], measures: list[str]) -> list[dict[str, np.ndarray]]:
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
