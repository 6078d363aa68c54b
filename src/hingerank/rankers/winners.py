"""Rankers that learn from winners with weights, and so from clicks: `fit_winners` and `fit_clicks`."""

from dataclasses import replace
from functools import partial
from typing import Self, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks
from hingerank.data.ranking_data import RankingData
from hingerank.data.scaling import ColumnScaler, Scaler
from hingerank.export.forms import Affine, ExportError
from hingerank.preferences import WeightedWinners
from hingerank.problem.mapped import AroundProblem
from hingerank.problem.problem import Problem
from hingerank.rankers.base import LinearRanker
from hingerank.rankers.corrections import ClickData, Propensities, click_weights
from hingerank.rankers.problem_ranker import ProblemRanker, RankingProblem

Centre: TypeAlias = LinearRanker | ArrayLike | None  # the ranker, or its weights, that a fit stays near


def winners_of(y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None, pair_weight: str) -> WeightedWinners:
    """Rows with y > 0 should beat all others of their query, with that weight."""
    return WeightedWinners(y, blocks.offsets, pair_weight=pair_weight)


class WinnersRanker(ProblemRanker):
    """A ranker whose loss is one of pairs, or of lists with weighted winners."""

    def fit_winners(
        self,
        X: RowsLike,
        winner_weight: PerRow = None,
        qid: PerRow = None,
        *,
        group: PerRow = None,
        around: Centre = None,
    ) -> Self:
        """Learn from winners: a row of weight u should be above every other row of its query, including other winners.

        The loss is  Σ over rows i of u_i Σ over the other rows j of i's query of  loss(s_i - s_j),  without listing
        pairs: a pass sorts the scores of every query once.

        Parameters
        ----------
        X : rows as in fit, or data in parts, whose grades are then the weights
        winner_weight : a weight per row, not negative; rows of weight 0 only lose
            Default for RankingData: its grades.
        qid : a query id per row
        group : rows per query in row order, instead of qid
        around : a fitted linear ranker, or its weights w₀
            The penalty is then ½‖w - w₀‖² instead of ½‖w‖², which keeps the weights near w₀.

        Examples
        --------
        >>> from hingerank import RankSVM
        >>> RankSVM().fit_winners([[0.0], [1.0], [0.2]], [0, 2.5, 0], qid=["a", "a", "a"]).coef_.round(2).tolist()
        [0.98]
        """
        if self.grade_weight is not None:
            raise ValueError(
                "grade_weight is a matrix over grades, but winners have weights instead of grades: leave it out"
            )
        if isinstance(X, RankingData) and winner_weight is not None:
            weights = np.asarray(winner_weight, np.float64)
            if weights.shape != (X.n_rows,):
                raise ValueError(f"winner_weight has shape {weights.shape}, expected ({X.n_rows},): one for each row")
            X, winner_weight = replace(X, y=weights), None
        prefer = partial(winners_of, pair_weight=self.pair_weight)
        source = self._source(X, winner_weight, qid, None, group, prefer)
        self._learn_from(source, None if around is None else partial(self._near, around))
        return self._finish()

    def fit_clicks(
        self,
        data: ClickData,
        *,
        propensities: Propensities = None,
        correction: str = "ips",
        clip: float | None = None,
        around: Centre = None,
    ) -> Self:
        """Learn from clicks: a clicked row should be above every other row of its query, including other clicked rows.

        The weight of a row is its relevance as estimated from its clicks, corrected for position bias. The cost of a
        fit does not grow with the number of sessions. C multiplies a sum over clicks: for ten times the clicks, a tenth
        of C gives the same fit. `hingerank.tune` chooses C from clicks.

        Parameters
        ----------
        data : ClickData
            ``log.join(rows)``: a row per candidate, and how often it was shown and clicked at each position. Rows may
            be in parts (`hingerank.distributed.read`).
        propensities : hingerank.propensities, numbers by position (position 1 first), or None
            None takes the propensities in the log itself.
        correction : {"ips", "clipped", "affine", "doubly-robust", "naive"}
            `hingerank.rankers.corrections.click_weights` has the formulas.
        clip : float, optional
            For "clipped" and "doubly-robust": smaller propensities are raised to it; default min(10 / √lists, 1).
        around : a fitted linear ranker, optional
            The ranker in production, with weights w₀: the penalty is then ½‖w - w₀‖² instead of ½‖w‖², so that few
            clicks change it little.

        Examples
        --------
        >>> from hingerank import ClickLog, RankSVM
        >>> rows = RankingData.from_arrays([[0.0], [1.0], [0.2]], [0, 0, 0], ["q"] * 3, docid=["a", "b", "c"])
        >>> log = ClickLog(queries=["q"] * 3, documents=["a", "b", "c"], places=[1, 2, 3], clicks=[0, 1, 0])
        >>> RankSVM().fit_clicks(log.join(rows), propensities=[1, 0.4, 0.3]).coef_.round(2).tolist()
        [0.98]
        """
        weight = click_weights(data, propensities, correction, clip)
        if data.parts is not None:
            return self.fit_winners(data.parts.graded(weight), around=around)
        return self.fit_winners(data.data, weight, around=around)

    def _near(self, around: object, problem: RankingProblem) -> AroundProblem:
        """The problem around another ranker's weights, for this ranker's features."""
        if type(problem) is not Problem or not isinstance(self, LinearRanker) or self._solver() != "newton":
            raise ValueError(
                f"around= needs a linear ranker with a smooth loss, which {type(self).__name__} with these parameters "
                "is not: use RankSVM with its loss 'squared_hinge'"
            )
        if self.features is not None and isinstance(around, LinearRanker):
            raise ValueError("features= makes this ranker learn weights of the map's outputs: give such to around=")
        centre = linear_weights(around, self.scaler_)
        if centre.shape != (problem.dimension,):
            raise ValueError(
                f"around has {len(centre)} weights, and this ranker learns {problem.dimension}: it must be linear in "
                "the same features"
            )
        return AroundProblem(problem, centre)

    def _solver(self) -> str:
        """The name of the solver; the hinge's own ones support no other norm than ½‖w‖²."""
        return "newton"


def linear_weights(ranker: object, scaler: Scaler | None) -> np.ndarray:
    """The weights of a linear ranker for features as another scaler makes them; an array is taken for such weights."""
    if not isinstance(ranker, LinearRanker):
        weights = np.asarray(ranker, np.float64) if isinstance(ranker, np.ndarray | list | tuple) else None
        if weights is None or weights.ndim != 1 or not np.isfinite(weights).all():
            raise ValueError(f"around must be a fitted linear ranker or its weights, not {type(ranker).__name__}")
        return weights
    check_is_fitted(ranker)
    own = ranker.scaler_
    per_query = (own is not None and own.per_query) or (scaler is not None and scaler.per_query)
    if per_query and ranker.features is None:
        if own is None or scaler is None or own.name != scaler.name:
            raise ValueError(
                "around scales its features differently, and within queries, so its weights cannot be converted: "
                f"give this ranker scale={None if own is None else own.name!r}, too"
            )
        return np.asarray(ranker.coef_, np.float64)
    try:
        form = ranker._form().folded(always=True)
    except ExportError:
        form = None
    if form is None or form.scaling is not None or not isinstance(form.body, Affine):
        raise ValueError("around must be linear in the features, without a feature map or a non-linear scaling")
    if scaler is None:
        return np.asarray(form.body.weights, np.float64)
    if not isinstance(scaler, ColumnScaler):
        raise ValueError(f"scale={scaler.name!r} is not linear, and around= needs a linear scaling")
    return np.asarray(form.body.weights / scaler.factor, np.float64)


def check_winners(ranker: object) -> WinnersRanker:
    """The ranker, if it learns from clicks."""
    if not isinstance(ranker, WinnersRanker):
        raise ValueError(
            f"{type(ranker).__name__} does not learn from clicks: rankers with a loss of pairs do (RankSVM, "
            "AdditiveRankSVM, KernelRankSVM, SparseRankSVM, ...)"
        )
    return ranker
