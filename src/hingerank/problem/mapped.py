"""Designs made from others: mapped features Φ = ψ(X) T, scaled columns, and scores that start from given weights.

ψ(X) is in memory if it fits, else recomputed for every pass. It is the only matrix of n rows. T is small and is applied
to the weights: Φ w = ψ(X) (T w), Φᵀ z = Tᵀ (ψ(X)ᵀ z), so Φ itself, which would cost a second matrix product of n rows,
is never formed.
"""

from copy import copy
from functools import cached_property

import numpy as np

from hingerank.arrays import Matrix
from hingerank.data.memory import memory_budget
from hingerank.data.rows_view import RowsView, scattered
from hingerank.data.scaling import ColumnScaler
from hingerank.features.maps import BLOCK_BYTES, FeatureMap, storage_type
from hingerank.losses import Loss, WindowLoss
from hingerank.losses.lists import RegressionAround
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.problem.problem import Design, Pass, Point, Problem, RowsDesign
from hingerank.problem.streamed import StreamedDesign

STORED_BYTES = 1 << 26  # limit for ψ(X) if X itself is not in memory


def rows_design(X: Matrix, by_rows: bool = False) -> Design:
    """The design of unmapped rows: a matrix, or a view read block by block; by_rows: a matrix in any case.

    If a view's scaler divides columns it is the design of the unscaled rows, with weights divided instead.
    """
    if not isinstance(X, RowsView):
        return RowsDesign(X)
    if by_rows:
        return RowsDesign(X.copied("this solver"))
    if X.whole is not None and X.scaler is None:
        return MappedRows(X.whole)
    if isinstance(X.scaler, ColumnScaler):
        plain = StreamedDesign(RowsView(X.X, X.rows)) if X.whole is None else MappedRows(X.whole)
        return ScaledDesign(plain, X.scaler.factor, X.scaler.centre_)
    return StreamedDesign(X)


class MappedRows(RowsDesign):
    """Rows of a mapped file: losses without a fused kernel are swept block by block, also in one pass."""

    halves = False

    @cached_property
    def uneven(self) -> bool:
        with scattered(self.matrix):
            return super().uneven

    def sample(self, loss: Loss, preferences: QueryPreferences, stride: int) -> Pass:
        with scattered(self.matrix):
            return super().sample(loss, preferences, stride)

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        if isinstance(loss, WindowLoss) or not isinstance(preferences, QueryPreferences) or not loss.by_query:
            return super().sweep(loss, preferences)
        return StreamedDesign(RowsView(self.matrix), self.uneven).sweep(loss, preferences)


class ScaledDesign(Design):
    """Φ = (Ψ - 1 centreᵀ) diag(factor): scaled columns of a design, by scaling the weights instead.

    Passes leave out the centre, which adds the same number to all scores: it matters only to regression.
    """

    def __init__(self, inner: Design, factor: np.ndarray, centre: np.ndarray):
        self.inner, self.factor, self.centre = inner, factor, centre
        self.shape, self.numbers = inner.shape, inner.numbers

    def scores(self, w: np.ndarray) -> np.ndarray:
        divided = self.factor * w
        return self.inner.scores(divided) - float(self.centre @ divided)

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.factor * (self.inner.back(z) - self.centre * float(z.sum()))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The pass of the inner design, in divided weights."""
        if isinstance(loss, RegressionAround):
            return super().sweep(loss, preferences)
        return ScaledPass(self.inner.sweep(loss, preferences), self.factor)


class WrappedPass(Pass):
    """Base of passes in w that are another pass at weights which are a function of w, `_inner_weights`."""

    def __init__(self, inner: Pass):
        self.inner, self.graded = inner, inner.graded
        self.most_sampled, self.explicit = inner.most_sampled, inner.explicit
        self.latest: tuple[np.ndarray, np.ndarray] | None = None

    def _inner_weights(self, w: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _within(self, w: np.ndarray) -> np.ndarray:
        """The inner weights, the same array for the same w: passes recognise their last point by it."""
        if self.latest is None or self.latest[0] is not w:
            self.latest = w, self._inner_weights(w)
        return self.latest[1]

    def degrees(self, w: np.ndarray) -> np.ndarray | None:
        return self.inner.degrees(self._within(w))

    def every(self, stride: int) -> Pass:
        return self._wrapping(self.inner.every(stride))

    def with_loss(self, loss: Loss) -> Pass | None:
        inner = self.inner.with_loss(loss)
        return None if inner is None else self._wrapping(inner)

    def _wrapping(self, inner: Pass) -> Pass:
        other = copy(self)
        other.inner, other.graded, other.latest = inner, inner.graded, None
        return other


class ScaledPass(WrappedPass):
    """A pass in factor · w + start."""

    def __init__(self, inner: Pass, factor: np.ndarray, start: np.ndarray | float = 0.0):
        super().__init__(inner)
        self.factor, self.start = factor, start

    def _inner_weights(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.factor * w + self.start)

    def at(self, w: np.ndarray) -> Point:
        factor, here = self.factor, self.inner.at(self._within(w))
        return Point(w, here.value, factor * here.gradient, lambda v: factor * here.curvature(factor * v), here.moments)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        H: np.ndarray = self.factor[:, None] * self.inner.hessian(self._within(w), stride) * self.factor
        return H

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        found = self.inner.diagonal(self._within(w))
        return None if found is None else self.factor**2 * found


def features_design(
    X: Matrix, feature_map: FeatureMap, memory_gb: float | None = None, by_rows: bool = False
) -> Design:
    """`mapped_design` with this many gigabytes for ψ(X), by default half of the machine's memory."""
    return mapped_design(feature_map, X, memory_budget(memory_gb), by_rows)


def mapped_design(feature_map: FeatureMap, X: Matrix, budget: int, by_rows: bool = False) -> Design:
    """The design of a fitted FeatureMap on rows X, stored if ψ(X) fits the budget in bytes; by_rows: Φ itself, for
    solvers that visit single rows."""
    if by_rows:
        return RowsDesign(feature_map.transform(X.copied("this solver") if isinstance(X, RowsView) else X))
    if isinstance(X, RowsView):
        budget = min(budget, STORED_BYTES)
        X = X if X.whole is None or X.scaler is not None else X.whole
    stored = not isinstance(X, RowsView) and feature_map.stored_bytes(X) <= budget
    inner: Design = RowsDesign(feature_map.rows(X)) if stored else StreamedDesign(MappedBlocks(feature_map, X))
    if feature_map.mixing_ is None:
        return inner
    stored_as = storage_type(X.shape[0], feature_map.width_, X.dtype)
    return MixedDesign(inner, RowsDesign(feature_map.mixing_.astype(stored_as)))


class MixedDesign(Design):
    """Φ = Ψ T for a design Ψ of many rows and a small map T, itself a design."""

    def __init__(self, inner: Design, mixing: Design):
        self.inner, self.mixing = inner, mixing
        self.shape, self.numbers = (inner.shape[0], mixing.shape[1]), inner.numbers
        self.breadth = mixing.breadth

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.inner.scores(self.mixing.scores(w))

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.mixing.back(self.inner.back(z))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The pass of the inner design, applied to T w."""
        return MixedPass(self.inner.sweep(loss, preferences), self.mixing)


class MixedPass(WrappedPass):
    """A pass in T w."""

    def __init__(self, inner: Pass, mixing: Design):
        super().__init__(inner)
        self.mixing = mixing

    def _inner_weights(self, w: np.ndarray) -> np.ndarray:
        return self.mixing.scores(w)

    def at(self, w: np.ndarray) -> Point:
        T, here = self.mixing, self.inner.at(self._within(w))
        return Point(w, here.value, T.back(here.gradient), lambda v: T.back(here.curvature(T.scores(v))), here.moments)


class MappedBlocks:
    """ψ(x) of the rows of a matrix or a view."""

    def __init__(self, feature_map: FeatureMap, X: Matrix):
        self.map, self.X, self.shape = feature_map, X, (X.shape[0], feature_map.width_)
        self.offsets = X.offsets if isinstance(X, RowsView) else None
        self.dtype = storage_type(*self.shape, X.dtype)
        self.height = max(1, BLOCK_BYTES // (np.dtype(self.dtype).itemsize * self.shape[1]))

    def block(self, a: int, b: int) -> np.ndarray:
        out: np.ndarray = np.empty((b - a, self.shape[1]), self.dtype)
        self.map.write(self.X.block(a, b) if isinstance(self.X, RowsView) else self.X[a:b], out)
        return out


class AroundProblem(Problem):
    """f(v) = ½‖v‖² + C · loss(Φ (v + centre); preferences): ½‖w - centre‖² instead of ½‖w‖², in v = w - centre.

    It has the same structure, the same start, v = 0, and the same certificate, so solvers need no code for a centre.
    """

    def __init__(self, problem: Problem, centre: np.ndarray):
        super().__init__(problem.design, problem.loss, problem.preferences, C=problem.C)
        self.around = np.asarray(centre, np.float64)
        self._pass = ScaledPass(self._pass, np.ones(self.dimension), self.around)

    def origin(self) -> float:
        return self.at(np.zeros(self.dimension)).value
