"""Pictures of rankers: basic ranking functions in words, and a path of sparse models."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.files import draft_of
from hingerank.notebook import new_figure
from hingerank.rankers.inputs import names_of_features
from hingerank.rankers.sparse import choose_on_validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST, LARGEST = 6.5, 21.0  # points
LIKED, DISLIKED = "#1b6e3c", "#a3312a"
NAMED = 8  # features that get a colour and a name; the others are grey


def plot_basis(
    ranker: Ranker,
    feature_names: Sequence[str] | None = None,
    functions: Sequence[int] = (0, 1),
    top: int = 25,
    file: Path | str | None = None,
    figure: "Figure | None" = None,
) -> "Figure":
    """Each row is a column of U: on the left its `top` most positive features, on the right its most negative ones.

    Words are sized by their weight.

    Parameters
    ----------
    ranker : a fitted PersonalRankSVM or InductiveMatrixCompletion
    feature_names : default those seen in fit
    functions : which ones, strongest is 0
    top : words on a side
    file : also write the picture there (.png, .svg or .pdf)
    figure : a matplotlib Figure to draw in; default a new one

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(9.0, 2.6 * len(functions), layout=None) if figure is None else figure
    table = ranker.basis_table(feature_names, top)
    panels = figure.subplots(len(functions), 2, squeeze=False)
    figure.subplots_adjust(left=0.03, right=0.97, top=1 - 0.3 / figure.get_figheight(), bottom=0.02, wspace=0.06)
    for row, number in zip(panels, functions):
        heaviest = max([abs(weight) for words in table[number].values() for _, weight in words], default=1.0)
        for axes, side, colour in zip(row, ("positive", "negative"), (LIKED, DISLIKED)):
            axes.set_axis_off()
            axes.set_title(f"function {number + 1}, {side}", loc="left", fontsize=9, color="0.4")
            _write(axes, table[number][side], heaviest, colour)
    return save_figure(figure, file)


def _write(axes: "Axes", words: Sequence[tuple[str, float]], heaviest: float, colour: str) -> None:
    """Words from left to right in lines, like text; those that find no room are left out."""
    box = axes.get_window_extent()
    x, y, height = 0.0, 0.97, 0.0
    for word, weight in words:
        size = SMALLEST + (LARGEST - SMALLEST) * abs(weight) / heaviest
        text = axes.text(x, y, word, fontsize=size, color=colour, va="top", transform=axes.transAxes)
        extent = text.get_window_extent()
        wide, high = extent.width / box.width, extent.height / box.height
        if x > 0 and x + wide > 1:
            x, y, height = 0.0, y - height, 0.0
            text.set_position((x, y))
        if y - high < 0:
            text.remove()
            return
        x, height = x + wide + 0.02, max(height, high)


def plot_path(
    path: Sequence[Ranker],
    validation: object = None,
    measure: str = "ndcg@10",
    names: Sequence[str] | None = None,
    file: Path | str | None = None,
    figure: "Figure | None" = None,
) -> "Figure":
    """Weights against the path's parameter, and below them the validation measure and the number of features in use.

    The heaviest features are named: of the chosen model, else of the whole path.

    Parameters
    ----------
    path : fitted rankers of ``fit_path``, any order
    validation : RankingData, or None for no curve below
    measure : of the curve
    names : of the features; default those seen in fit
    file : also write the picture there (.png, .svg or .pdf)
    figure : a matplotlib Figure to draw in; default a new one

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(6.4, 6.0) if figure is None else figure
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    path = sorted(path, key=_value)
    values, weights = np.array([_value(r) for r in path], float), np.array([r.coef_ for r in path])
    important = np.abs(weights).max(axis=0)
    if validation is not None:
        best, scores = choose_on_validation(path, validation, measure=measure)
        important = important * 1e-6 + np.abs(best.coef_)
        below.plot(values, scores, color="C0", marker="o", ms=3)
        below.set_ylabel(f"validation {measure.upper()}")
        for panel in (top, below):
            panel.axvline(_value(best), color="C3", lw=0.8, ls=":")
        text = f"{best.path_parameter} = {_value(best):.4g}, {len(best.selected_features_)} features"
        below.set_title(f"chosen on validation: {text}", fontsize="small", color="C3")
    names = names or names_of_features(path[0], weights.shape[1])
    order = np.argsort(-important, kind="stable")
    order = order[np.abs(weights[:, order]).max(axis=0) > 0]
    for j in order[NAMED:].tolist():
        top.plot(values, weights[:, j], color="0.75", lw=0.8)
    for place, j in enumerate(order[:NAMED].tolist()):
        top.plot(values, weights[:, j], color=f"C{place}", lw=1.6, label=str(names[j]))
    top.axhline(0, color="0.3", lw=0.6)
    top.set_ylabel("weight")
    if len(order):
        top.legend(fontsize="small", ncols=2, frameon=False)
    below.set_xscale("log")
    below.set_xlabel(path[0].path_parameter)
    count = below.twinx()
    count.plot(values, [len(r.selected_features_) for r in path], color="0.6", ls="--", marker=".", lw=1)
    count.set_ylabel("features in use", color="0.45")
    count.set_ylim(bottom=0)
    return save_figure(figure, file)


def _value(ranker: Ranker) -> float:
    return float(getattr(ranker, ranker.path_parameter))


def save_figure(figure: "Figure", file: Path | str | None, source: str | None = None) -> "Figure":
    """The figure, written as a small file (if one is named) that is the same every time; source: noted in an SVG."""
    if file is not None:
        from matplotlib import rc_context

        kind, known = Path(file).suffix[1:].lower() or "png", figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise ValueError(
                f"{file}: the ending of a picture is one of {', '.join(f'.{name}' for name in sorted(known))}"
            )
        metadata = {"Date": None, "Source": source} if kind == "svg" else None
        with draft_of(Path(file)) as draft, rc_context({"svg.fonttype": "none", "svg.hashsalt": "hingerank"}):
            figure.savefig(draft, format=kind, dpi=110, metadata=metadata)
    return figure
