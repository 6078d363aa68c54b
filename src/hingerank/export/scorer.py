"""`ranker.scorer()`: a fitted ranker as a frozen function of arrays, for serving.

Linear, cosine and kernel models are matrix products, which NumPy does: this module loads nothing else, and a pickled
scorer of a linear ranker works without loading numba or scikit-learn. Curves, trees and quantiles are compiled code,
loaded when such a scorer is made or unpickled; NumPy would take ten times as long. A step is a function of this module
with its arrays bound, so that it can be pickled.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hingerank.arrays import ArrayLike, Matrix, Ranker

if TYPE_CHECKING:
    from hingerank.export.forms import Form

ScoringStep = Callable[[np.ndarray], np.ndarray]  # transforms rows, or computes their scores, in double precision


class Scorer:
    """score(x) of a fitted ranker, in double precision, as made by `ranker.scorer()`.

    It has its own copies, so that later changes of the ranker do not affect it, keeps nothing between calls, so that
    threads may share it, and can be pickled. It runs on the calling thread and checks only the shape of the rows: a
    value that the ranker would refuse gives a meaningless score.

    Parameters
    ----------
    names : of the features, in their order
    steps : applied to rows one after another; the last returns the scores
    by_query : whether a step uses all rows of a query
    """

    names: tuple[str, ...]
    _steps: tuple[ScoringStep, ...]
    _by_query: bool

    def __init__(self, names: Sequence[str], steps: Sequence[ScoringStep], by_query: bool) -> None:
        vars(self).update(names=tuple(names), _steps=tuple(steps), _by_query=by_query)
        self(np.zeros((1, len(self.names))))  # loads compiled kernels now, so that the first request does not wait

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a scorer is frozen: make another from a ranker")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Scorer, (self.names, self._steps, self._by_query)

    def __repr__(self) -> str:
        return f"Scorer of {len(self.names)} features"

    def __call__(self, X: Matrix, qid: ArrayLike | None = None) -> np.ndarray:
        """One score per row.

        Parameters
        ----------
        X : array or CSR matrix of rows × features, or a frame with the ranker's columns in their order
        qid : a query id per row
            Only for a ranker that scales features within queries; None: all rows belong to one query.
        """
        given = X if isinstance(X, np.ndarray) else self._plain(X)
        try:
            X = np.ascontiguousarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X of type {type(X).__name__} is no table of numbers ({error}): give rows × features as an array, CSR "
                "matrix, frame or lists; of RankingData give data.X and data.qid"
            ) from None
        if X.ndim != 2 or X.shape[1] != len(self.names):
            raise ValueError(f"X has shape {X.shape}, expected (rows, {len(self.names)}): one row per document")
        if not self._by_query or qid is None or not len(X):
            return taken(self._steps, X)
        ids = np.asarray(qid)
        if ids.dtype == object:  # ids that need not be sortable, such as numbers and texts
            seen: dict[object, int] = {}
            query = np.array([seen.setdefault(value, len(seen)) for value in ids.tolist()])
        else:
            query = np.unique(ids, return_inverse=True)[1]
        if query.shape != (len(X),):
            raise ValueError(f"qid has shape {np.shape(qid)}, expected ({len(X)},): a query id per row")
        order = np.argsort(query, kind="stable")
        scores = np.empty(len(X))
        for rows in np.split(order, np.flatnonzero(np.diff(query[order])) + 1):
            scores[rows] = taken(self._steps, X[rows])
        return scores

    def _plain(self, X: Any) -> ArrayLike:
        """A CSR matrix, a frame or lists of rows as a plain array or lists."""
        columns, expected = [str(name) for name in getattr(X, "columns", ())], list(map(str, self.names))
        named = expected != [f"f{place}" for place in range(1, len(expected) + 1)]  # else fitted to plain arrays
        if columns and columns != expected and named:
            raise ValueError(
                f"X has the columns {', '.join(columns)[:200]}, expected the ranker's features in their order: take "
                "X[list(scorer.names)]"
            )
        return getattr(X, "toarray", lambda: X)()


def make_scorer(ranker: Ranker) -> Scorer:
    """The scorer of a fitted ranker; an ExportError if its score has no plain form."""
    from hingerank.export.forms import ExportError

    try:
        form: Form = ranker._form()
    except ExportError as error:
        raise ExportError(f"{type(ranker).__name__} has no scorer, use predict: {error}") from None
    parts = form.folded().parts
    made = [_steps(part) for part in parts]
    by_query = any(part.scaled.startswith("query-") for part in parts)
    return Scorer(form.names, made[0] if len(made) == 1 else [partial(added, made)], by_query)


def _steps(form: "Form") -> list[ScoringStep]:
    """The steps applied to rows, one after another, up to their scores."""
    from hingerank.export.forms import Affine, CosineSum, KernelSum, Shapes, Trees

    steps: list[ScoringStep] = [] if form.filled is None else [_bound(filled, form.filled.values, form.filled.marked)]
    if form.scaling is not None:
        by_columns: dict[str, Callable[..., np.ndarray]]
        by_columns = {"columns": shifted, "log": logarithms, "quantile": among_quantiles}
        learnt = form.within_queries or form.scaling.to_state()[1].values()
        steps.append(_bound(by_columns.get(form.scaled, within_query), *learnt))
    body = form.body
    if isinstance(body, Affine):
        return [*steps, _bound(weighted_sum, *body)]
    if isinstance(body, CosineSum):
        return [*steps, _bound(cosine_waves, body.frequencies.T, body.phases, body.weights)]
    if isinstance(body, KernelSum) and body.kernel == "polynomial":
        return [*steps, _bound(powers, int(body.degree), float(body.coef0), body.gamma * body.rows.T, body.weights)]
    if isinstance(body, KernelSum):
        middle, root = body.rows.mean(axis=0), float(np.sqrt(body.gamma))
        rows = root * (body.rows - middle)
        return [*steps, _bound(gaussians, root, middle, 2 * rows.T, np.square(rows).sum(axis=1), body.weights)]
    if isinstance(body, Shapes):
        curves, widths = _bound(curve_sums, *body.curves.tables()), body.ends - body.begins
        products = (body.columns, body.begins, widths, body.weights)
        return [*steps, _bound(with_ramps, curves, *products) if len(body.weights) else curves]
    from hingerank.export.forest import SMALL, TreeWalk

    assert isinstance(body, Trees)
    return [*steps, TreeWalk(*body, small=SMALL if form.kind == "zero-trees" else 0.0)]


def _bound(function: Callable[..., np.ndarray], *values: Any) -> ScoringStep:
    """The function with copies of arrays, and other values, as its first arguments."""
    return partial(function, *(np.array(v, order="C") if isinstance(v, np.ndarray) else v for v in values))


def taken(steps: Sequence[ScoringStep], X: np.ndarray) -> np.ndarray:
    """The result of applying steps to rows, one after another."""
    for step in steps:
        X = step(X)
    return X


def added(parts: Sequence[Sequence[ScoringStep]], X: np.ndarray) -> np.ndarray:
    """The sum of the scores of several models, each by its own steps."""
    return np.sum([taken(part, X) for part in parts], axis=0)


def filled(values: np.ndarray, marked: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Rows with missing values filled, and appended columns that mark some of them."""
    absent = np.isnan(X)
    X = np.where(absent, values, X)
    return np.hstack((X, absent[:, marked])) if len(marked) else X


def shifted(centre: np.ndarray, width: np.ndarray, X: np.ndarray) -> np.ndarray:
    """x' = (x − centre) / width of columns."""
    return (X - centre) / width


def logarithms(width: np.ndarray, X: np.ndarray) -> np.ndarray:
    """x' = sign(x) · log(1 + |x|) / width of columns."""
    return np.copysign(np.log1p(np.abs(X)), X) / width


def among_quantiles(quantiles: np.ndarray, X: np.ndarray) -> np.ndarray:
    """x' = the position of x among its column's quantiles."""
    from hingerank.kernels.scaling import quantile_dense

    out = np.empty_like(X)
    quantile_dense(X, quantiles, out)
    return out


def within_query(how: str, X: np.ndarray) -> np.ndarray:
    """x' = (x − min) / (max − min), or (x − mean) / sd, over the rows of a query; 0 if all are equal. NaN is skipped
    and kept."""
    if not len(X):
        return X
    moved = X - np.fmin.reduce(X, axis=0)  # exactly 0 if all are equal
    if how == "standard":
        known = np.maximum(len(X) - np.isnan(moved).sum(axis=0), 1)
        moved -= np.nansum(moved, axis=0) / known
        width = np.sqrt(np.nansum(np.square(moved), axis=0) / known)
    else:
        width = np.fmax.reduce(moved, axis=0)
    return moved / np.where(width > 0, width, 1.0)


def weighted_sum(weights: np.ndarray, offset: float, X: np.ndarray) -> np.ndarray:
    """offset + X · weights."""
    return X @ weights + offset


def cosine_waves(frequencies: np.ndarray, phases: np.ndarray, weights: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ_i weights_i · cos(<frequencies_i, x> + phases_i)."""
    return np.cos(X @ frequencies + phases) @ weights


def gaussians(
    root: float, middle: np.ndarray, rows: np.ndarray, squares: np.ndarray, weights: np.ndarray, X: np.ndarray
) -> np.ndarray:
    """Σ_l weights_l · exp(−γ‖x − l‖²), centred on the rows' mean, so that little cancels."""
    z = root * (X - middle)
    exponent = z @ rows - np.square(z).sum(axis=1)[:, None] - squares
    return np.exp(np.minimum(exponent, 0.0)) @ weights


def powers(degree: int, coef0: float, rows: np.ndarray, weights: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ_l weights_l · (γ<x, l> + coef0)^degree; rows are the γ·l."""
    return (X @ rows + coef0) ** degree @ weights


def curve_sums(knots: np.ndarray, lines: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ_c h_c(x_c) for piecewise-linear curves (see kernels/curves.py)."""
    from hingerank.kernels.curves import line_scores

    scores = np.empty(len(X))
    line_scores(X, knots, lines, scores)
    return scores


def with_ramps(
    curves: ScoringStep, columns: np.ndarray, begins: np.ndarray, widths: np.ndarray, weights: np.ndarray, X: np.ndarray
) -> np.ndarray:
    """Curves, and Σ_k weights_k · ramp_k(x[columns_k0]) · ramp_k(x[columns_k1])."""
    ramps = np.clip((X[:, columns] - begins) / widths, 0.0, 1.0)
    return curves(X) + ramps.prod(axis=2) @ weights
