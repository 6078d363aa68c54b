"""Rank discounts, for measures that are sums over rows of discount(rank) · relevance."""

from dataclasses import dataclass

import numpy as np

from hingerank.arrays import Floats, Integers
from hingerank.metrics.measure import kind_and_cutoff

KINDS = {"dcg": "optional", "p": "required", "average-rank": "none"}  # kind -> whether it has a cutoff


@dataclass(frozen=True)
class PlaceMeasure:
    """Σ over rows of worth(rank) · relevance.

    "dcg@k": 1 / log₂(1 + rank) up to rank k; "p@k": 1 / k up to rank k; "average-rank": the rank itself, of which less
    is better. Without "@k" all ranks count.
    """

    name: str
    kind: str
    depth: int | None

    @property
    def sign(self) -> float:
        """1 if more is better, -1 if less is."""
        return -1.0 if self.kind == "average-rank" else 1.0

    def worth(self, places: Integers) -> Floats:
        """The discount of ranks, which count from 1."""
        k = np.asarray(places, np.float64)
        if self.kind == "average-rank":
            return k
        found: Floats = 1.0 / np.log2(1.0 + k) if self.kind == "dcg" else np.full(len(k), 1.0 / (self.depth or 1))
        return found if self.depth is None else np.where(k <= self.depth, found, 0.0)

    def of_scores(self, scores: Floats, offsets: Integers) -> Floats:
        """The discount of every row's rank when its query is ranked by the scores; tied rows share the mean."""
        sizes = np.diff(offsets)
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-scores, query))
        worth = self.worth(np.arange(len(scores)) - np.repeat(offsets[:-1], sizes) + 1)
        first = np.ones(len(scores), bool)
        first[1:] = (np.diff(scores[order]) != 0) | (np.diff(query) != 0)
        if not first.all():
            starts = np.flatnonzero(first)
            counts = np.diff(np.append(starts, len(scores)))
            worth = np.repeat(np.add.reduceat(worth, starts) / counts, counts)
        out: Floats = np.empty(len(scores))
        out[order] = worth
        return out

    def values(self, scores: Floats, relevance: Floats, offsets: Integers, lists: Floats) -> Floats:
        """Every query's sum, more is better, in units whose mean over queries is that over its `lists`."""
        worth = self.of_scores(scores, offsets) * relevance
        found: Floats = self.sign * np.add.reduceat(worth, offsets[:-1]) / (lists.mean() or 1.0)
        return found


def parse_place_measure(name: str) -> PlaceMeasure:
    """The measure of clicks with this name.

    >>> parse_place_measure("DCG@10").worth(np.array([1, 3, 11])).tolist()
    [1.0, 0.5, 0.0]
    """
    return PlaceMeasure(name, *kind_and_cutoff(str(name), KINDS, "measure of clicks"))
