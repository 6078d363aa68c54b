"""Designs of mapped features Φ = ψ(X) T: ψ(X) in memory where it fits, else computed again for every pass.

ψ(X) is the only matrix of n rows. T is small and goes with the weights: Φ w = ψ(X) (T w), Φᵀ z = Tᵀ (ψ(X)ᵀ z), so Φ
itself, which would cost a second matrix product of n rows, is never formed.
"""

from collections.abc import Callable
from copy import copy
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from hingerank.data.rows_view import RowsView, cut_blocks, is_mapped, scattered
from hingerank.data.scaling import ColumnScaler
from hingerank.features.maps import BLOCK_BYTES, FeatureMap, serial_blas, storage_type
from hingerank.kernels.hessian import hessian_pass
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import curvature_pass, score_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import GradedPreferences, Preferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.design import RowsDesign
from hingerank.problem.problem import Design, LossPoint, Pass, add_up, hessian_by_columns

MATRICES = 4  # of d² numbers that a Hessian is added up in
SAMPLE_BYTES = 1 << 26  # of the rows of a sample that are made once and kept
STORED_BYTES = 1 << 26  # of ψ(X) at most where X itself is not in memory


def rows_design(X: Any, by_rows: bool = False) -> Design:
    """The design of rows as they are: a matrix, or a view that is read block by block; by_rows: a matrix in any case.

    A view of all rows in their order whose scaler divides columns is the design of the rows beneath, with weights
    divided instead.
    """
    if not isinstance(X, RowsView):
        return RowsDesign(X)
    if by_rows:
        return RowsDesign(X.copied("this solver"))
    if X.rows is None and X.scaler is None:
        return RowsDesign(X.X)
    if X.rows is None and isinstance(X.scaler, ColumnScaler) and X.scaler.factor is not None:
        return ScaledDesign(RowsDesign(X.X), X.scaler.factor, X.scaler.centre_)
    return StreamedDesign(X)


class ScaledDesign(Design):
    """Φ = (Ψ - 1 centreᵀ) diag(factor): scaled columns of a design, by weights that are scaled instead.

    Passes leave out the centre, which adds one number to all scores: no loss of a query sees it.
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
        return ScaledPass(self.inner.sweep(loss, preferences), self.factor)


class ScaledPass(Pass):
    """A pass in factor · w."""

    def __init__(self, inner: Pass, factor: np.ndarray):
        self.inner, self.factor, self.graded = inner, factor, inner.graded
        self.latest: tuple[np.ndarray, np.ndarray] | None = None

    def at(self, w: np.ndarray) -> LossPoint:
        factor, here = self.factor, self.inner.at(self._divided(w))
        return LossPoint(
            here.value, factor * here.gradient, lambda v: factor * here.curvature(factor * v), here.moments
        )

    def _divided(self, w: np.ndarray) -> np.ndarray:
        """factor · w, the same array for the same w: passes know their last point by it."""
        if self.latest is None or self.latest[0] is not w:
            self.latest = w, self.factor * w
        return self.latest[1]

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        H: np.ndarray = self.factor[:, None] * self.inner.hessian(self._divided(w), stride) * self.factor
        return H

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        found = self.inner.diagonal(self._divided(w))
        return None if found is None else self.factor**2 * found

    def every(self, stride: int) -> "ScaledPass":
        return ScaledPass(self.inner.every(stride), self.factor)


def mapped_design(feature_map: FeatureMap, X: Any, budget: int, by_rows: bool = False) -> Design:
    """The design of a fitted FeatureMap on rows X, stored if ψ(X) fits the budget in bytes; by_rows: Φ itself, for
    solvers that go from row to row."""
    if by_rows:
        return RowsDesign(feature_map.transform(X.copied("this solver") if isinstance(X, RowsView) else X))
    stored = not isinstance(X, RowsView) and feature_map.stored_bytes(X) <= budget
    if is_mapped(X):
        stored = stored and feature_map.stored_bytes(X) <= STORED_BYTES
    inner: Design = RowsDesign(feature_map.rows(X)) if stored else StreamedDesign(MappedBlocks(feature_map, X))
    if feature_map.mixing_ is None:
        return inner
    return MixedDesign(inner, feature_map.mixing_.astype(storage_type(X.shape[0], feature_map.width_, X.dtype)))


class MixedDesign(Design):
    """Φ = Ψ T for a design Ψ of many rows and a small matrix T."""

    def __init__(self, inner: Design, mixing: np.ndarray):
        self.inner, self.mixing = inner, RowsDesign(mixing)
        self.shape, self.numbers = (inner.shape[0], mixing.shape[1]), inner.numbers

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.inner.scores(self.mixing.scores(w))

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.mixing.back(self.inner.back(z))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The pass of the inner design, seen through T."""
        return MixedPass(self.inner.sweep(loss, preferences), self.mixing)


class MixedPass(Pass):
    """A pass in T w."""

    def __init__(self, inner: Pass, mixing: RowsDesign):
        self.inner, self.mixing, self.graded = inner, mixing, inner.graded

    def at(self, w: np.ndarray) -> LossPoint:
        T = self.mixing
        here = self.inner.at(T.scores(w))
        return LossPoint(here.value, T.back(here.gradient), lambda v: T.back(here.curvature(T.scores(v))), here.moments)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        return hessian_by_columns(self if stride == 1 else self.every(stride), w)  # ψ may have more numbers than φ

    def every(self, stride: int) -> "MixedPass":
        return MixedPass(self.inner.every(stride), self.mixing)


class Source(Protocol):
    """Rows that are made a block at a time; `offsets`: where blocks may be cut, None for anywhere."""

    shape: tuple[int, int]
    offsets: np.ndarray | None
    height: int
    X: Any

    def block(self, a: int, b: int) -> Any:
        """Rows a:b."""
        ...


class MappedBlocks:
    """ψ(x) of the rows of a matrix or a view."""

    def __init__(self, feature_map: FeatureMap, X: Any):
        self.map, self.X, self.shape = feature_map, X, (X.shape[0], feature_map.width_)
        self.offsets = X.offsets if isinstance(X, RowsView) else None
        self.dtype = storage_type(*self.shape, X.dtype)
        self.height = max(1, BLOCK_BYTES // (np.dtype(self.dtype).itemsize * self.shape[1]))

    def block(self, a: int, b: int) -> np.ndarray:
        out: np.ndarray = np.empty((b - a, self.shape[1]), self.dtype)
        self.map.write(self.X.block(a, b) if isinstance(self.X, RowsView) else self.X[a:b], out)
        return out


class StreamedDesign(Design):
    """Rows of a Source, computed a block at a time whenever they are applied, and never kept."""

    def __init__(self, source: Source):
        self.source, self.shape, self.height = source, source.shape, source.height
        self.numbers = self.shape[0] * self.shape[1]
        self.shards = cut_blocks(self.shape[0], self.height, source.offsets)

    def block(self, a: int, b: int) -> tuple[Any, ...]:
        """Rows a:b, as compiled passes take them."""
        rows = self.source.block(a, b)
        return (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = np.ascontiguousarray(w, np.float64), np.empty(self.shape[0])

        def work(blocks: list[tuple[int, int]]) -> None:
            for a, b in blocks:
                scores_range(self.block(a, b), 0, b - a, w, out[a:b])

        with serial_blas():
            run_shards(work, self.shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = np.ascontiguousarray(z, np.float64)

        def work(blocks: list[tuple[int, int]]) -> np.ndarray:
            g = np.zeros(self.shape[1])
            for a, b in blocks:
                g += back_range(self.block(a, b), 0, b - a, z[a:b], len(g))
            return g

        with serial_blas():
            return add_up(run_shards(work, self.shards))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """Loss and curvature in w with one mapping of the rows each."""
        if isinstance(loss, WindowLoss) and isinstance(preferences, GradedPreferences):
            return StreamedPass(self, loss, preferences)
        return super().sweep(loss, preferences)


class StreamedPass(Pass):
    """Like FusedPass, over blocks of whole queries: map a block, score it, sweep it, add up its part, forget it."""

    def __init__(self, design: StreamedDesign, loss: WindowLoss, preferences: GradedPreferences):
        self.design, self.loss, self.graded = design, loss, preferences
        self.state, self.tree, self.offsets = loss.state(preferences), preferences.tree, preferences.offsets
        self.shards = [self._cut(a, b) for a, b in cut_shards(self.offsets, min(ROWS_PER_SHARD, 8 * design.height))]
        self.latest: np.ndarray | None = None

    def _cut(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of queries of about the design's block height, at least one query each."""
        return [(first + a, first + b) for a, b in cut_shards(
            self.offsets[first : last + 1] - self.offsets[first], self.design.height, last - first
        )]  # fmt: skip

    def every(self, stride: int) -> Pass:
        """The pass over every stride-th query, its rows made once where they are few."""
        part, rows = self.graded.every(stride)
        if len(rows) * self.design.shape[1] * 8 > SAMPLE_BYTES:
            return self._every(stride)
        source, offsets = self.design.source, self.offsets
        with serial_blas(), scattered(source.X):
            blocks = [source.block(int(offsets[q]), int(offsets[q + 1])) for q in range(0, len(offsets) - 1, stride)]
        matrix = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
        return RowsDesign(matrix).sweep(self.loss, part)

    def _every(self, stride: int) -> "StreamedPass":
        """The pass over every stride-th query, each a block of its own, with windows in the same memory."""
        part = copy(self)
        part.latest = None
        queries = [(q, q + 1) for q in range(0, len(self.offsets) - 1, stride)]
        edges = np.linspace(0, len(queries), min(64, len(queries)) + 1).astype(int)
        part.shards = [queries[a:b] for a, b in pairwise(edges)]
        return part

    def at(self, w: np.ndarray) -> LossPoint:
        moments, gradient = self._run(w, score_pass)
        self.latest = w

        def curvature(v: np.ndarray) -> np.ndarray:
            if self.latest is not w:
                self.at(w)
            return self._run(v, curvature_pass)[1]

        return LossPoint(self.loss.value(moments), gradient, curvature, moments)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        """The Hessian of the loss in w, of the blocks one after another."""
        if self.latest is not w:
            self.at(w)

        def work(blocks: list[tuple[int, int]]) -> np.ndarray:
            H = np.zeros((len(w), len(w)))
            if stride > 1:
                blocks = [(q, q + 1) for a, b in blocks for q in range(a + -a % stride, b, stride)]
            for first, last in blocks:
                base = int(self.offsets[first])
                if self.tree.node_start[first] < self.tree.node_start[last]:
                    rows = self.design.block(base, int(self.offsets[last]))
                    H += hessian_pass(rows, len(w), first, last, 1, self.tree, self.state, self.loss.terms, base)
            return H

        lanes = [list(chain(*self.shards[k::MATRICES])) for k in range(min(MATRICES, len(self.shards)))]
        return add_up(run_shards(work, lanes))

    def _run(self, v: np.ndarray, sweep: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
        """(what the sweeps return, added up; Ψᵀ of what they write) at scores Ψ v."""
        v, s, z = np.ascontiguousarray(v, np.float64), np.empty(self.design.shape[0]), np.empty(self.design.shape[0])

        def work(blocks: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
            g, moments = np.zeros(len(v)), np.zeros((len(self.loss.terms), 3))
            for first, last in blocks:
                a, b = self.offsets[first], self.offsets[last]
                if self.tree.node_start[first] == self.tree.node_start[last]:
                    continue
                rows = self.design.block(a, b)
                scores_range(rows, 0, b - a, v, s[a:b])
                found = sweep(s, first, last, self.tree, self.state, self.loss.terms, z)
                moments += 0.0 if found is None else found
                g += back_range(rows, 0, b - a, z[a:b], len(v))
            return moments, g

        with serial_blas():
            parts = run_shards(work, self.shards)
        return add_up([moments for moments, _ in parts]), add_up([g for _, g in parts])
