"""Curves as small multiples: a panel of each feature, the strongest first, with the data below."""

from collections.abc import Sequence
from typing import Any

import numpy as np

LINE, RUG = "#2a78b5", "#8884"


def draw_curves(curves: Sequence[Any], rugs: Any, title: str, figure: Any = None) -> Any:
    """A matplotlib Figure with a panel of each curve.

    Parameters
    ----------
    curves : name, knots, heights and weight of each
    rugs : quantiles of each feature: where the data are
    title : above all
    figure : to draw in; default a new one
    """
    if figure is None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("plots need matplotlib: pip install 'hingerank[report]'") from None
        columns = min(4, max(1, len(curves)))
        lines = -(-len(curves) // columns)
        figure = Figure(figsize=(3.0 * columns, 2.2 * lines + 0.4), layout="constrained")
    else:
        columns = min(4, max(1, len(curves)))
        lines = -(-len(curves) // columns)
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
