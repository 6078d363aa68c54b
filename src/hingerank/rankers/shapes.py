"""Curves and surfaces of a fitted additive ranker, the rows on which they are evaluated, and a figure of curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hingerank.arrays import Matrix
from hingerank.data.scaling import SAMPLED_ROWS
from hingerank.notebook import new_figure
from hingerank.preferences import Preferences, QueryPreferences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE, RUG = "#2a78b5", "#8884"


class Curve(NamedTuple):
    """One feature's curve: its height at each knot, linear between them; beyond them it continues with `slope`.

    weight: how much it moves scores within queries, their standard deviation if nothing else differed.
    """

    name: str
    knots: np.ndarray
    heights: np.ndarray
    slope: float
    weight: float


class Surface(NamedTuple):
    """What two features do together beyond their curves: heights at the points of a grid, bilinear between them.

    Beyond the grid it continues with the height at the border. weight: as for a curve.
    """

    names: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    heights: np.ndarray
    weight: float


class ShapeSample(NamedTuple):
    """Some training rows, whole queries, on which curves are evaluated: numbers, features, weights and queries."""

    rows: np.ndarray
    X: Matrix
    weight: np.ndarray
    query: np.ndarray

    @classmethod
    def at(cls, X: Matrix, preferences: Preferences, weight: np.ndarray | None) -> "ShapeSample":
        """A sample: every n-th query of graded rows, otherwise every n-th row."""
        n = X.shape[0]
        graded = isinstance(preferences, QueryPreferences)
        offsets = preferences.offsets if isinstance(preferences, QueryPreferences) else np.arange(n + 1)
        stride = -(-n // SAMPLED_ROWS)
        kept = np.arange(len(offsets) - 1) % stride == 0
        rows = np.flatnonzero(np.repeat(kept, np.diff(offsets)))
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[rows] if graded else np.zeros(len(rows), int)
        return cls(rows, X[rows], np.ones(len(rows)) if weight is None else weight[rows], query)

    def mean(self, parts: np.ndarray) -> np.ndarray:
        """Means of columns over the rows."""
        return self.weight @ parts / self.weight.sum()

    def deviation(self, parts: np.ndarray) -> np.ndarray:
        """Standard deviations of columns around the means of their queries."""
        first = np.flatnonzero(np.diff(self.query, prepend=-1))  # rows of a query stand together
        mass = np.maximum(np.add.reduceat(self.weight, first), 1e-300)
        means = np.add.reduceat(self.weight[:, None] * parts, first, axis=0) / mass[:, None]
        apart = parts - np.repeat(means, np.diff(first, append=len(parts)), axis=0)
        return np.sqrt(self.weight @ (apart * apart) / self.weight.sum())


def draw_curves(curves: Sequence[Curve], rugs: np.ndarray, title: str, figure: "Figure | None" = None) -> "Figure":
    """A matplotlib Figure with a panel for each curve, the data below it as ticks.

    Parameters
    ----------
    curves : name, knots, heights and weight of each
    rugs : quantiles of each feature, drawn as ticks
    title : of the figure
    figure : to draw in; default a new one
    """
    columns = min(4, max(1, len(curves)))
    lines = -(-len(curves) // columns)
    figure = figure or new_figure(3.0 * columns, 2.2 * lines + 0.4)
    figure.suptitle(title, fontsize=11)
    low = min((float(curve.heights.min()) for curve in curves), default=0.0)
    high = max((float(curve.heights.max()) for curve in curves), default=1.0)
    pad = 0.08 * (high - low) or 1.0
    for k, (curve, rug) in enumerate(zip(curves, rugs, strict=True)):
        axis = figure.add_subplot(lines, columns, k + 1)
        axis.axhline(0.0, color="#8886", linewidth=0.8)
        axis.plot(curve.knots, curve.heights, color=LINE, marker=".", markersize=4)
        axis.vlines(np.asarray(rug), low - pad, low - 0.4 * pad, color=RUG, linewidth=1.0)
        axis.set_ylim(low - pad, high + pad)
        axis.set_title(f"{curve.name}  {curve.weight:.3g}".replace("$", r"\$"), fontsize=9)
        axis.tick_params(labelsize=7)
    return figure
