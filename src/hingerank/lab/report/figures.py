"""A picture of basic ranking functions: the words they like and dislike, sized by weight."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.files import canonical, draft_of
from hingerank.lab.leaderboard import Results
from hingerank.rankers.base import names_of_features
from hingerank.rankers.sparse import choose_on_validation

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


# Curves and tables of a run's searches, convergence traces and weights.


MOST_WEIGHTS, MOST_FUNCTIONS, MOST_WORDS = 60, 12, 15
MOST_POINTS = 80


def search_curves(results: Results, method: str) -> dict[str, Any]:
    """{parameter: curve} for every parameter with several values: at each value and in each fold, the best validation
    value over the other parameters; `numeric` tells whether the values can be drawn on an axis."""
    records = results.validations(method)
    curves = {}
    for name in dict.fromkeys(key for record in records for key in record["setting"]):
        best: dict[str, dict[str, float]] = {}
        seen: dict[str, Any] = {}
        for record in records:
            if name in record["setting"] and record["value"] is not None:
                value = record["setting"][name]
                at = best.setdefault(canonical(value), {})
                seen[canonical(value)] = value
                at[record["fold"]] = max(record["value"], at.get(record["fold"], -np.inf))
        if len(seen) < 2:
            continue
        numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in seen.values())
        order = sorted(seen, key=lambda k: seen[k]) if numeric else list(seen)
        chosen = [record["setting"].get(name) for record in results.tests(method)]
        curves[name] = {
            "numeric": numeric,
            "values": [seen[key] for key in order],
            "folds": {fold: [best[key].get(fold) for key in order] for fold in results.folds},
            "chosen": {fold["fold"]: value for fold, value in zip(results.tests(method), chosen)},
        }
    return curves


def traces(results: Results, method: str) -> list[dict[str, Any]]:
    """The numeric columns of each fold's trace; the horizontal axis is "iteration" where the solver does not say."""
    found = []
    for record in results.tests(method):
        entries = [entry for entry in record.get("trace") or [] if isinstance(entry, dict)]
        if len(entries) < 2:
            continue
        names = [k for k in entries[0] if all(_number(entry.get(k)) for entry in entries)]
        places = np.unique(np.linspace(0, len(entries) - 1, min(len(entries), MOST_POINTS)).astype(int)).tolist()
        columns = {name: [float(f"{entries[i][name]:.5g}") for i in places] for name in names}
        if columns:
            columns.setdefault("iteration", [i + 1 for i in places])
            found.append({"fold": record["fold"], "columns": columns})
    return found


def weights(results: Results, method: str) -> dict[str, Any] | None:
    """The features a linear ranker uses: mean and spread of their weights over folds, and in how many folds they are
    not zero; heaviest first, at most MOST_WEIGHTS. None for other rankers."""
    rows = [w for fold in results.folds if (w := results.arrays(method, fold).get("weights")) is not None]
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    table = np.array(rows, float)
    names = _feature_names(results, table.shape[1])
    order = np.argsort(-np.abs(table).mean(axis=0), kind="stable")[:MOST_WEIGHTS]
    order = order[np.abs(table[:, order]).max(axis=0) > 0]
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    return {
        "total": table.shape[1],
        "used": [int(np.count_nonzero(row)) for row in table],
        "features": [
            {
                "name": names[j],
                "mean": float(f"{table[:, j].mean():.5g}"),
                "spread": float(f"{spread[j]:.5g}"),
                "folds": int(np.count_nonzero(table[:, j])),
            }
            for j in order.tolist()
        ],
    }


def basis(results: Results, method: str) -> dict[str, Any] | None:
    """The basic ranking functions of a personal ranker in the first fold that has them (those of different folds do not
    correspond): the heaviest features of each, liked and disliked; at most MOST_FUNCTIONS. None for other rankers."""
    for fold in results.folds:
        columns = results.arrays(method, fold).get("basis")
        if columns is not None:
            names = _feature_names(results, len(columns))
            functions = []
            for column in columns.T[:MOST_FUNCTIONS]:
                order = np.argsort(-column, kind="stable")
                ends = {"likes": order[:MOST_WORDS], "dislikes": order[::-1][:MOST_WORDS]}
                functions.append({side: _words(column, rows, names) for side, rows in ends.items()})
            return {"fold": fold, "total": columns.shape[1], "functions": functions}
    return None


def _words(column: np.ndarray, rows: np.ndarray, names: list[str]) -> list[list[Any]]:
    """[name, weight] of those rows whose sign is that of the first one."""
    return [[names[j], float(f"{column[j]:.4g}")] for j in rows.tolist() if column[j] * column[rows[0]] > 0]


def _feature_names(results: Results, count: int) -> list[str]:
    given = [str(name) for name in results.header["summary"]["feature_names"] or []]
    return given + [f"f{j + 1}" for j in range(len(given), count)]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


# Pictures of sparse rankers: a path of models, and how well single features rank.


NAMED = 8  # features that get a colour and a name; the others are grey


def plot_path(
    path: Sequence[Any],
    validation: Any = None,
    measure: str = "ndcg@10",
    names: Sequence[str] | None = None,
    file: Path | str | None = None,
    figure: Any = None,
) -> Any:
    """Weights against the path's parameter, and below them the validation measure and the number of features in use.

    path: fitted rankers of `fit_path`, any order; validation: RankingData, or None for no curve below.
    names: of the features, default those seen in fit. file: also write the picture there (.png, .svg or .pdf).
    figure: a matplotlib Figure to draw in; by default a new one. The heaviest features are named: of the chosen
    model, else of the whole path. Answers the Figure.
    """
    figure = _figure(6.4, 6.0) if figure is None else figure
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
    _draw_weights(top, values, weights, important, names or names_of_features(path[0], weights.shape[1]))
    below.set_xscale("log")
    below.set_xlabel(path[0].path_parameter)
    count = below.twinx()
    count.plot(values, [len(r.selected_features_) for r in path], color="0.6", ls="--", marker=".", lw=1)
    count.set_ylabel("features in use", color="0.45")
    count.set_ylim(bottom=0)
    return _finish(figure, file)


def plot_single_features(
    scores: Sequence[float], random: float, title: str = "", ylabel: str = "NDCG@10", file: Path | str | None = None
) -> Any:
    """A dot for each feature: the measure of ranking by it alone; a line: the mean of random weights."""
    figure = _figure(6.4, 3.2)
    axes = figure.subplots()
    axes.plot(
        np.arange(1, len(scores) + 1), np.asarray(scores, float), "o", ms=4, color="C0", label="one feature alone"
    )
    axes.axhline(random, color="C3", label="random weights, mean of ten")
    axes.set(xlabel="feature", ylabel=ylabel, title=title)
    axes.legend(fontsize="small", frameon=False)
    return _finish(figure, file)


def _draw_weights(axes, values, weights, important, names) -> None:
    """A curve for every feature ever used; the most important ones in colour, with their names."""
    order = np.argsort(-important, kind="stable")
    order = order[np.abs(weights[:, order]).max(axis=0) > 0].tolist()
    for j in order[NAMED:]:
        axes.plot(values, weights[:, j], color="0.75", lw=0.8)
    for place, j in enumerate(order[:NAMED]):
        axes.plot(values, weights[:, j], color=f"C{place}", lw=1.6, label=str(names[j]))
    axes.axhline(0, color="0.3", lw=0.6)
    axes.set_ylabel("weight")
    if order:
        axes.legend(fontsize="small", ncols=2, frameon=False)


def _value(ranker: Any) -> float:
    return float(getattr(ranker, ranker.path_parameter))


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure: Any, file: Path | str | None) -> Any:
    if file is not None:
        path = Path(file)
        kind = path.suffix[1:] or "png"
        from matplotlib import rc_context

        same: Any = {"svg.fonttype": "none", "svg.hashsalt": "hingerank"}  # small, and the same every time
        with draft_of(path) as draft, rc_context(same):
            figure.savefig(draft, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return figure
