"""Folds of queries with clicks to try settings on: the value of a setting is estimated from clicks only."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hingerank.arrays import Given, Ranker, RowsLike
from hingerank.metrics.places import parse_place_measure
from hingerank.rankers.corrections import ClickedRows, Propensities, click_weights, refuse_parts
from hingerank.rankers.sparse import SparseRanker
from hingerank.rankers.winners import Centre, check_winners
from hingerank.search.query_folds import QueryFolds, path_scores
from hingerank.search.settings import AROUND, LIMITS, Stage


class ClickFolds(QueryFolds):
    """Folds of queries; the value of a held-out one is  Σ over rows of discount(rank) · weight / lists.

    The weights are those that a fit learns from (`click_weights`), estimated once: a query's weights come from its own
    clicks, and also from other queries if the correction regresses relevance on features.

    Parameters
    ----------
    data : ClickData
    measure : "dcg@10", "average-rank", ... (`hingerank.metrics.places`)
    validation : clicks to choose on instead of folds
    folds, seed, tol_factor : as in QueryFolds
    propensities, correction, clip, around : as in `fit_clicks`
    """

    def __init__(
        self,
        data: ClickedRows,
        measure: str,
        validation: object = None,
        folds: int = 5,
        seed: int = 0,
        tol_factor: float = 10.0,
        keep_scores: bool = False,
        *,
        propensities: Propensities = None,
        correction: str = "ips",
        clip: float | None = None,
        around: Centre = None,
    ) -> None:
        given = [part for part in (data, validation) if isinstance(part, ClickedRows)]
        if len(given) < (1 if validation is None else 2):
            raise ValueError("validation must be clicks joined with features (log.join(data)), like the data")
        for each in given:
            refuse_parts(each, "settings are chosen")
        rows = [replace(p.data, y=click_weights(p, propensities, correction, clip), docid=None) for p in given]
        held = rows[1] if validation is not None else None
        super().__init__(rows[0], measure, held, folds, seed, tol_factor, keep_scores)
        self.places, self.around = parse_place_measure(measure), around
        self.shown = [dict(zip(p.data.blocks.ids.tolist(), np.asarray(p.lists).tolist())) for p in given]
        self.separate = self.separate or around is not None

    def fit(self, ranker: Ranker) -> Ranker:
        return check_winners(ranker).fit_winners(self.everything, around=self.around)

    def _paths(self, ranker: Ranker) -> tuple[str, ...]:
        return ()  # settings are fitted one by one

    def _learn(self, ranker: Ranker, rows: RowsLike) -> None:
        check_winners(ranker).fit_winners(rows, around=self.around)

    def _judge(self, found: list[Ranker], there: RowsLike) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """For each ranker every query's value, scaled so that its mean over queries is that over lists; its scores."""
        if not found:
            return
        blocks = there.blocks
        share = self._lists_of(there).mean() or 1.0
        for scores in path_scores(found, there):
            worth = self.places.of_scores(blocks.gather(scores), blocks.offsets) * blocks.gather(there.y)
            yield self.places.sign * np.add.reduceat(worth, blocks.offsets[:-1]) / share, scores

    def lists(self, k: int) -> np.ndarray:
        return self._lists_of(self.held(k))

    def _lists_of(self, there: RowsLike) -> np.ndarray:
        return np.array([self.shown[-1].get(q, 0.0) for q in there.blocks.ids.tolist()])

    def possible(self, stages: Sequence[Stage], ranker: Ranker, given: Given) -> list[Stage]:
        """The same; grids of a C that multiplies a sum over clicks are scaled to the weight of the pairs here."""
        found = [dict(stage) for stage in super().possible(stages, ranker, given)]
        fixed = "C" in given or isinstance(ranker, SparseRanker)
        for stage in found if not fixed else ():
            if "C" in stage and stage["C"] is not AROUND:
                stage["C"] = [value * self.usual_C for value in stage["C"]]
        return [*found]

    @property
    def usual_C(self) -> float:
        """A power of ten near 1 / the mean weight of winners: it corresponds to 1 for pairs of weight 1."""
        u: np.ndarray = self.everything.y
        return 10.0 ** -round(float(np.log10(u[u > 0].mean()))) if (u > 0).any() else 1.0

    def limits(self) -> dict[str, tuple[float, float]]:
        low, high = LIMITS["C"]
        return super().limits() | {"C": (low * min(1.0, self.usual_C), high * max(1.0, self.usual_C))}
