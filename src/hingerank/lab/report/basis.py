"""A picture of basic ranking functions: the words they like and dislike, sized by weight."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hingerank.data.whole_files import draft_of

SMALLEST, LARGEST = 6.5, 21.0  # points
LIKED, DISLIKED = "#1b6e3c", "#a3312a"


def plot_basis(
    ranker: Any,
    feature_names: Sequence[str] | None = None,
    functions: Sequence[int] = (0, 1),
    top: int = 25,
    file: Path | str | None = None,
    figure: Any = None,
) -> Any:
    """Each row is a column of U: on the left its `top` most positive features, on the right its most negative ones.

    ranker: a fitted PersonalRankSVM or InductiveMatrixCompletion. feature_names: default those seen in fit.
    functions: which ones, strongest is 0. file: also write the picture there (.png, .svg or .pdf). figure: a
    matplotlib Figure to draw in. Answers the Figure.
    """
    if figure is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 2.6 * len(functions)))
    table = ranker.basis_table(feature_names, top)
    panels = figure.subplots(len(functions), 2, squeeze=False)
    figure.subplots_adjust(left=0.03, right=0.97, top=1 - 0.3 / figure.get_figheight(), bottom=0.02, wspace=0.06)
    for row, number in zip(panels, functions):
        heaviest = max([abs(weight) for words in table[number].values() for _, weight in words], default=1.0)
        for axes, side, colour in zip(row, ("positive", "negative"), (LIKED, DISLIKED)):
            axes.set_axis_off()
            axes.set_title(f"function {number + 1}, {side}", loc="left", fontsize=9, color="0.4")
            _write(axes, table[number][side], heaviest, colour)
    if file is not None:
        with draft_of(file) as draft:
            figure.savefig(draft, format=Path(file).suffix[1:] or "png")
    return figure


def _write(axes: Any, words: Sequence[tuple[str, float]], heaviest: float, colour: str) -> None:
    """Words from left to right in lines, like text; those that find no room are left out."""
    renderer = axes.figure.canvas.get_renderer() if hasattr(axes.figure.canvas, "get_renderer") else _renderer(axes)
    box = axes.get_window_extent(renderer)
    x, y, height = 0.0, 0.97, 0.0
    for word, weight in words:
        size = SMALLEST + (LARGEST - SMALLEST) * abs(weight) / heaviest
        text = axes.text(x, y, word, fontsize=size, color=colour, va="top", transform=axes.transAxes)
        extent = text.get_window_extent(renderer)
        wide, high = extent.width / box.width, extent.height / box.height
        if x > 0 and x + wide > 1:
            x, y, height = 0.0, y - height, 0.0
            text.set_position((x, y))
        if y - high < 0:
            text.remove()
            return
        x, height = x + wide + 0.02, max(height, high)


def _renderer(axes: Any) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return FigureCanvasAgg(axes.figure).get_renderer()
