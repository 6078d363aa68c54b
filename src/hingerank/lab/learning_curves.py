"""Learning curves: what a method reaches with a fraction of the training queries.

The subsets of a fold are nested: its training queries are shuffled once, by the run's seed, and a size takes the first
of them. Every size has its own choice of settings. Validation and test queries are always all of them.
"""

import math
from collections.abc import Iterable

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.ranking_data import RankingData
from hingerank.lab.results import Results
from hingerank.lab.statistics import bootstrap_interval


def parse_sizes(text: str) -> list[float]:
    """Sizes typed on the command line, as percentages or fractions.

    >>> parse_sizes("10%, 0.3,100%")
    [0.1, 0.3, 1.0]
    """
    try:
        words = [word.strip() for word in text.split(",")]
        return [float(word[:-1]) / 100 if word.endswith("%") else float(word) for word in words]
    except ValueError:
        raise ValueError(f"sizes are {text!r}: give fractions of the training queries, as in 10%,30%,100%") from None


def check_sizes(sizes: Iterable[float]) -> list[float]:
    """The sizes in order, each once, and 1 among them: the leaderboard is about all training queries."""
    found = sorted({round(float(size), 6) for size in sizes} | {1.0})
    if not 0 < found[0] <= found[-1] <= 1:
        raise ValueError(f"sizes are {found}: give fractions of the training queries above 0 and at most 1")
    return found


def take_queries(data: RankingData, size: float, seed: int) -> RankingData:
    """A fraction `size` of the queries, rounded up, drawn by `seed`; a smaller fraction is a subset of it."""
    if size >= 1:
        return data
    order = np.random.default_rng(seed).permutation(data.n_queries)
    return data.subset(data.blocks.ids[order[: math.ceil(size * data.n_queries)]])


def size_text(size: float) -> str:
    """ "10 %" """
    return f"{100 * size:.4g} %"


def learning_curves(results: Results, measure: str | None = None) -> Facts:
    """{"sizes": fractions, "methods": {method: [{"mean", "low", "high"}, ... one for each size]}}

    Means and 95 % bootstrap intervals are over all test queries; None where a fold has no result at that size. No
    methods where the run has one size only.
    """
    measure = results.header["measure"] if measure is None else measure
    curves: dict[str, list[dict[str, float] | None]] = {}
    for method in results.methods if len(results.sizes) > 1 else []:
        curves[method] = [_point(results.at(size), method, measure) for size in results.sizes]
    return {"measure": measure, "sizes": results.sizes, "methods": curves}


def _point(results: Results, method: str, measure: str) -> dict[str, float] | None:
    if results.missing(method):
        return None
    low, high = bootstrap_interval(
        list(results.per_query(method, measure).values()), rounds=1000, seed=results.header["seed"]
    )
    return {"mean": results.query_mean(method, measure), "low": low, "high": high}
