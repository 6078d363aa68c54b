"""What rankers learn from: a `Source` of checked and scaled rows, in memory, in a mapped file, or in parts elsewhere.

A ranker writes its problem once, for any source. A source lasts as long as a fit; `learnt` stores what the ranker needs
at the end of the fit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from hingerank.arrays import Facts, Matrix, Ranker
from hingerank.data.blocks import QueryBlocks
from hingerank.data.describe import Figures
from hingerank.data.ranking_data import RankingData
from hingerank.metrics.measure import Measure
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design
from hingerank.rankers.shapes import ShapeSample

ROWS_FOR_A_MAP = 50_000  # from which a feature map is learnt where the rows are not in memory
MEMORY, MAPPED, PARTS = "memory", "mapped", "parts"  # where rows lie, from near to far


class SeenRows(NamedTuple):
    """Rows from which knots are placed, their weights, the columns' deviations if these are not all rows, and whole
    queries on which curves are evaluated."""

    X: Matrix
    weight: np.ndarray | None
    width: np.ndarray | None
    queries: ShapeSample


class Source(ABC):
    """Rows to pose a problem on.

    Attributes
    ----------
    kind : where they are, MEMORY, MAPPED or PARTS
    n_features : columns
    sparse : whether entries that are 0 are left out
    blocks : their queries, if they are graded rows of this process; else None
    learnt : what a ranker has learnt of them for its problem and needs again to keep the solution
    alike : whether a warning has said that the rows of every query are alike, which makes others beside the point
    """

    kind: str
    n_features: int
    sparse: bool
    blocks: QueryBlocks | None = None
    learnt: object = None
    alike: bool = False

    @abstractmethod
    def pose(self, make: Callable[[Matrix], Design]) -> tuple[Design, Preferences]:
        """The design that `make` makes of the rows, and the preferences; make is pickled for rows on other machines."""

    @abstractmethod
    def sample(self) -> tuple[Matrix, np.ndarray | None]:
        """The rows, and their weights, that a feature map learns from: all, or evenly spaced ones."""

    @abstractmethod
    def see(self) -> SeenRows:
        """The rows from which curves are made."""

    @abstractmethod
    def sums(self, design: Design, preferences: Preferences) -> Sums:
        """The sums over rows that regression needs, from what `pose` returned."""

    def level(self) -> bool:
        """Whether rows of the same query have the same features, if that is known without a pass over a file."""
        return False

    def given(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows as they were given to fit."""
        blocks = self.blocks
        return rows if blocks is None or blocks.given is None else blocks.given[rows]


class RowsInParts(ABC):
    """Rows in parts of whole queries, in this process or on other machines: what rankers and searches ask of them."""

    n_rows: int
    n_queries: int
    n_features: int
    feature_names: Sequence[str] | None

    @abstractmethod
    def weighted(self, values: np.ndarray) -> "RowsInParts":
        """The same rows with a weight each, part after part."""

    @abstractmethod
    def graded(self, values: np.ndarray) -> "RowsInParts":
        """The same rows with a grade each, part after part."""

    @abstractmethod
    def without_features(self) -> RankingData:
        """Queries and documents of all rows, part after part; features and grades are 0."""

    @abstractmethod
    def fingerprint(self) -> Facts:
        """What a model was trained on."""

    @abstractmethod
    def figures(self) -> Figures:
        """The columns' figures; a value that is not finite is a DataError."""

    @abstractmethod
    def sample(self, most: int) -> Matrix:
        """At most about the given number of rows, evenly spaced."""

    @abstractmethod
    def source(self, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None) -> Source:
        """The rows as a ranker scales them, with its preferences or those that prefer(y, blocks, weight) makes of a
        part; prefer is pickled for rows on other machines."""

    @abstractmethod
    def predict(self, ranker: Ranker) -> np.ndarray:
        """A fitted ranker's scores of all rows, part after part."""

    @abstractmethod
    def on_scale(self, measure: str | Measure) -> Measure:
        """The measure on the scale of all grades here (see ``Measure.on_scale``)."""

    @abstractmethod
    def evaluate(self, rankers: list[Ranker], measures: Sequence[str | Measure]) -> list[dict[str, np.ndarray]]:
        """Every query's measures, queries part after part, for each of some fitted rankers."""

    @abstractmethod
    def fold(self, k: int, folds: int, chosen: bool) -> "RowsInParts":
        """The queries whose number in their part is k modulo folds, or all the others."""

    @abstractmethod
    def joined(self, other: Self) -> "RowsInParts":
        """These parts and then the other's."""


def check_alone(**beside: object) -> None:
    """A ValueError for what is given beside data in parts, which bring it along."""
    for parameter, value in beside.items():
        if value is not None:
            raise ValueError(f"data in parts bring their grades and queries along: leave out {parameter}")
