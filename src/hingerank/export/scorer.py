"""`ranker.scorer()`: a fitted ranker as a frozen function of arrays, for serving.

Linear, cosine and kernel models are matrix products, which NumPy does: this module loads nothing else, and a pickled
scorer of a linear ranker works without loading numba or scikit-learn. Curves, trees and quantiles are compiled code,
loaded when such a scorer is made or unpickled; NumPy would take ten times as long.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Matrix

if TYPE_CHECKING:
    from hingerank.export.forms import Curves, Surfaces, Trees

ROWS_AT_ONCE = 1024  # rows whose values stay in the second-level cache


class ScoringStep(Protocol):
    """A step that transforms rows, or computes their scores, in double precision."""

    def __call__(self, X: np.ndarray, /) -> np.ndarray: ...


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
        X : array of rows × features
        qid : a query id per row
            Only for a ranker that scales features within queries; None: all rows belong to one query.
        """
        X = np.ascontiguousarray(X, np.float64)
        if X.ndim != 2 or X.shape[1] != len(self.names):
            raise ValueError(f"X has shape {X.shape}, expected (rows, {len(self.names)}): one row per document")
        if not self._by_query or qid is None or not len(X):
            return self._scores(X)
        _, query = np.unique(np.asarray(qid), return_inverse=True)
        if query.shape != (len(X),):
            raise ValueError(f"qid has shape {np.shape(qid)}, expected ({len(X)},): a query id per row")
        order = np.argsort(query, kind="stable")
        scores = np.empty(len(X))
        for rows in np.split(order, np.flatnonzero(np.diff(query[order])) + 1):
            scores[rows] = self._scores(X[rows])
        return scores

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return taken(self._steps, X)


def taken(steps: Sequence[ScoringStep], X: np.ndarray) -> np.ndarray:
    """The result of applying steps to rows, one after another."""
    for step in steps:
        X = step(X)
    return X


class AddedScores:
    """The sum of the scores of several models, each by its own steps."""

    def __init__(self, parts: Sequence[Sequence[ScoringStep]]) -> None:
        self.parts = [list(part) for part in parts]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.sum([taken(part, X) for part in self.parts], axis=0)


class GapsFilled:
    """Fill missing values, and append columns that mark some of them."""

    def __init__(self, values: np.ndarray, marked: np.ndarray) -> None:
        self.values, self.marked = np.array(values), np.array(marked)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        absent = np.isnan(X)
        X = np.where(absent, self.values, X)
        return np.hstack((X, absent[:, self.marked])) if len(self.marked) else X


class Shifted:
    """x' = (x − centre) / width of columns."""

    def __init__(self, centre: np.ndarray, width: np.ndarray) -> None:
        self.centre, self.width = np.array(centre), np.array(width)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X - self.centre) / self.width


class Logarithms:
    """x' = sign(x) · log(1 + |x|) / width of columns."""

    def __init__(self, width: np.ndarray) -> None:
        self.width = np.array(width)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.copysign(np.log1p(np.abs(X)), X) / self.width


class AmongQuantiles:
    """x' = the position of x among its column's quantiles."""

    def __init__(self, quantiles: np.ndarray) -> None:
        self.quantiles = np.array(quantiles, order="C")

    def __call__(self, X: np.ndarray) -> np.ndarray:
        from hingerank.kernels.scaling import quantile_dense

        out = np.empty_like(X)
        quantile_dense(X, 0, len(X), self.quantiles, out)
        return out


class WithinQuery:
    """x' = (x − min) / (max − min), or (x − mean) / sd, over the rows of a query; 0 if all are equal."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if not len(X):
            return X
        moved = X - X.min(axis=0)  # exactly 0 if all are equal
        if self.how == "standard":
            moved -= moved.mean(axis=0)
            width = np.sqrt(np.square(moved).mean(axis=0))
        else:
            width = moved.max(axis=0)
        return moved / np.where(width > 0, width, 1.0)


class WeightedSum:
    """offset + X · weights."""

    def __init__(self, weights: np.ndarray, offset: float) -> None:
        self.weights, self.offset = np.array(weights), float(offset)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X @ self.weights + self.offset


class CosineWaves:
    """Σ_i weights_i · cos(<frequencies_i, x> + phases_i)."""

    def __init__(self, frequencies: np.ndarray, phases: np.ndarray, weights: np.ndarray) -> None:
        self.frequencies = np.ascontiguousarray(frequencies.T)
        self.phases, self.weights = np.array(phases), np.array(weights)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.cos(X @ self.frequencies + self.phases) @ self.weights


class Gaussians:
    """Σ_l weights_l · exp(−γ‖x − l‖²), centred on the rows' mean, so that little cancels."""

    def __init__(self, gamma: float, rows: np.ndarray, weights: np.ndarray) -> None:
        self.middle = rows.mean(axis=0)
        self.root, self.weights = float(np.sqrt(gamma)), np.array(weights)
        scaled = self.root * (rows - self.middle)
        self.rows, self.squares = np.ascontiguousarray(2 * scaled.T), np.square(scaled).sum(axis=1)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        z = self.root * (X - self.middle)
        exponent = z @ self.rows - np.square(z).sum(axis=1)[:, None] - self.squares
        return np.exp(np.minimum(exponent, 0.0)) @ self.weights


class Powers:
    """Σ_l weights_l · (γ<x, l> + coef0)^degree."""

    def __init__(self, gamma: float, degree: int, coef0: float, rows: np.ndarray, weights: np.ndarray) -> None:
        self.degree, self.coef0 = int(degree), float(coef0)
        self.rows, self.weights = np.ascontiguousarray(gamma * rows.T), np.array(weights)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.rows + self.coef0) ** self.degree @ self.weights


class CurveLookup:
    """Σ_c h_c(x_c) for piecewise-linear curves (see kernels/curves.py)."""

    def __init__(self, curves: "Curves") -> None:
        starts, counts = curves.starts, np.diff(curves.starts)
        room = 16
        while room <= counts.max(initial=0):
            room *= 2
        d, column = len(counts), np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(curves.knots)) - starts[column]
        self.knots, self.lines = np.full((d, room), np.inf), np.zeros((d, room, 3))
        self.knots[column, place] = curves.knots
        self.lines[column, place + 1, 0], self.lines[column, place + 1, 2] = curves.heights, curves.knots
        inside = np.flatnonzero(place > 0)
        rises = (curves.heights[inside] - curves.heights[inside - 1]) / (
            curves.knots[inside] - curves.knots[inside - 1]
        )
        self.lines[column[inside], place[inside], 1] = rises
        first = starts[:-1]
        self.lines[:, 0] = np.column_stack((curves.heights[first], curves.slopes, curves.knots[first]))
        self.lines[np.arange(d), counts, 1] = curves.slopes

    def __call__(self, X: np.ndarray) -> np.ndarray:
        from hingerank.kernels.curves import line_scores

        scores = np.empty(len(X))
        line_scores(X, self.knots, self.lines, scores)
        return scores

    def parts(self, X: np.ndarray) -> np.ndarray:
        """h_c(x_c) of every row and column."""
        from hingerank.kernels.curves import line_parts

        parts = np.empty(X.shape)
        line_parts(np.ascontiguousarray(X, np.float64), self.knots, self.lines, parts)
        return parts


def scores_by_shards(step: ScoringStep, X: np.ndarray) -> np.ndarray:
    """The scores of many rows of any precision by a step, on all cores."""
    from hingerank.kernels.threads import run_shards

    shards = [slice(first, first + ROWS_AT_ONCE) for first in range(0, len(X), ROWS_AT_ONCE)]
    found = run_shards(lambda rows: step(np.ascontiguousarray(X[rows], np.float64)), shards)
    return np.concatenate(found) if found else np.empty(0)


class WithRamps:
    """Curves, and Σ_k weights_k · ramp_k(x[columns_k0]) · ramp_k(x[columns_k1])."""

    def __init__(self, body: "Surfaces") -> None:
        self.curves = CurveLookup(body.curves)
        self.columns, self.weights = np.array(body.columns), np.array(body.weights)
        self.begins, self.widths = np.array(body.begins), body.ends - body.begins

    def __call__(self, X: np.ndarray) -> np.ndarray:
        ramps = np.clip((X[:, self.columns] - self.begins) / self.widths, 0.0, 1.0)
        return self.curves(X) + ramps.prod(axis=2) @ self.weights


class TreeWalk:
    """start + Σ over trees of the value of the leaf that x reaches (see kernels/trees.py)."""

    def __init__(self, body: "Trees", missing_left: int, zero_is_missing: int, small: float) -> None:
        inner = body.feature >= 0
        self.start, self.used = float(body.start), np.unique(body.feature[inner])
        column = np.searchsorted(self.used, body.feature[inner])
        zeros = (body.missing[inner] & zero_is_missing) > 0
        self.at_zero = np.zeros(len(self.used))
        self.at_zero[column[zeros]] = np.nan
        self.small = small if zeros.any() else 0.0
        columns = np.zeros(len(inner), np.uint32)
        columns[inner] = column
        child = np.where(inner, body.child, 0).astype(np.uint32)
        left = (body.missing & missing_left) > 0
        self.tables = (body.roots.astype(np.uint32), columns, np.array(body.number), child, left)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        from hingerank.kernels.trees import ROWS, add_trees, used_values

        scores = np.full(len(X), self.start)
        room = np.empty(ROWS, np.uint32), np.empty(ROWS, np.uint32)
        for first in range(0, len(X), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            values = np.empty((len(scores[rows]), len(self.used)))
            used_values((X[rows],), self.used, self.small, self.at_zero, values)
            add_trees(values, *self.tables, False, *room, scores[rows])
        return scores
