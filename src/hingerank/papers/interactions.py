"""Interactions between multipliers: how low the rank of each query's matrix A_l is (Xu et al. 2019, Section 4).

    PE_l(k) = (σ_1² + ... + σ_k²) / (σ_1² + ... + σ_r²)
    k_l(t) = least k with PE_l(k) ≥ t,    Dim_t = {k_l(t) / size(A_l)}

with σ the singular values of A_l and size(A_l) the number of the query's rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hingerank.arrays import Frame, Ranker
from hingerank.data.frames import frame_from_rows
from hingerank.lab.report.figures import save_figure
from hingerank.notebook import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE = 1 - 1e-12  # a fraction of the energy that counts as all of it


@dataclass(frozen=True)
class QueryInteractions:
    """One query: its rows, its pairs, and the singular values of its multipliers (largest first)."""

    query: object
    size: int
    n_pairs: int
    singular_values: np.ndarray

    @property
    def rank(self) -> int:
        values = self.singular_values
        return int((values > 1e-10 * values.max(initial=0.0)).sum()) if values.any() else 0

    def energy(self) -> np.ndarray:
        """PE(1), PE(2), ...: the fraction of the energy in the k largest singular values."""
        squares = np.cumsum(self.singular_values**2)
        return squares / squares[-1] if len(squares) and squares[-1] > 0 else np.empty(0)

    def dimensions(self, fraction: float) -> int:
        """The least k with PE(k) ≥ fraction; 0 if all multipliers are zero."""
        energy = self.energy()
        return int(np.searchsorted(energy, min(fraction, WHOLE))) + 1 if len(energy) else 0


@dataclass(frozen=True)
class Interactions:
    """The queries that have pairs, in order of first appearance."""

    queries: list[QueryInteractions]

    def dim(self, fraction: float) -> np.ndarray:
        """Dim_t: dimensions needed for `fraction` of the energy over the size of the matrix, one number per query."""
        return np.array([q.dimensions(fraction) / q.size for q in self.queries])

    def histogram(self, fraction: float) -> np.ndarray:
        """Number of queries whose Dim_t is in (0, 10 %], (10 %, 20 %], ..., (90 %, 100 %]."""
        tenths = np.ceil(np.round(10 * self.dim(fraction), 9)).astype(int)
        return np.bincount(np.clip(tenths - 1, 0, 9), minlength=10)

    def table(self, fractions: tuple[float, ...] = (0.9, 1.0)) -> dict[str, list]:
        """Columns: query, rows, pairs, rank, and the dimensions for each fraction of the energy."""
        columns: dict[str, list] = {
            "query": [q.query for q in self.queries],
            "rows": [q.size for q in self.queries],
            "pairs": [q.n_pairs for q in self.queries],
            "rank": [q.rank for q in self.queries],
        }
        for fraction in fractions:
            columns[f"dimensions for {fraction:.0%}"] = [q.dimensions(fraction) for q in self.queries]
        return columns

    def frame(self, fractions: tuple[float, ...] = (0.9, 1.0)) -> Frame:
        """`table` as a pandas data frame."""
        return frame_from_rows({name: np.array(column) for name, column in self.table(fractions).items()}, "pandas")

    def plot(self, path: str | Path, fractions: tuple[float, ...] = (0.9, 1.0)) -> None:
        """Write the histograms of Dim_t (Fig. 2 of the paper) as SVG, PNG or PDF, by the path's suffix."""
        save_figure(draw_histograms({f"{share:.0%} of the energy": self.histogram(share) for share in fractions}), path)


def draw_histograms(counts: Mapping[str, Iterable[float]]) -> "Figure":
    """A matplotlib Figure with a panel for each histogram of Dim_t, by its title."""
    figure = new_figure(4.5 * len(counts), 3.2)
    labels = [f"{10 * k}–{10 * k + 10}" for k in range(10)]
    for k, (title, heights) in enumerate(counts.items(), 1):
        axis = figure.add_subplot(1, len(counts), k)
        axis.bar(labels, list(heights), color="#3b6ea5")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("dimensions needed, % of the matrix's size")
        axis.set_ylabel("queries")
        axis.tick_params(axis="x", rotation=60, labelsize=8)
    return figure


def interactions(ranker: Ranker) -> Interactions:
    """The multipliers of every query of a fitted dual.

    Parameters
    ----------
    ranker : RankSVM(loss="hinge", solver="dual"), FactorizedRankSVM or RegularizedRankSVM

    Examples
    --------
    >>> from hingerank import RankSVM
    >>> ranker = RankSVM(C=0.1, loss="hinge", solver="dual").fit([[0.0], [1.0], [2.0]], [0, 1, 2], qid=0)
    >>> [(q.size, q.n_pairs) for q in interactions(ranker).queries]
    [(3, 3)]
    """
    if not (hasattr(ranker, "pairs_per_query_") or hasattr(ranker, "factors_")):
        raise ValueError(
            f"{type(ranker).__name__} has no multipliers of queries; fit RankSVM(loss='hinge', solver='dual'), "
            "FactorizedRankSVM or RegularizedRankSVM to graded rows"
        )
    found = [
        QueryInteractions(block.query, block.size, block.n_pairs, block.singular_values)
        for block in ranker.multiplier_blocks()
        if block.n_pairs
    ]
    return Interactions(found)
