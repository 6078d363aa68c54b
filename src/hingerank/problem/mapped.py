"""Designs of mapped features Φ = ψ(X) T: ψ(X) in memory where it fits, else computed again for every pass.

ψ(X) is the only matrix of n rows. T is small and goes with the weights: Φ w = ψ(X) (T w), Φᵀ z = Tᵀ (ψ(X)ᵀ z), so Φ
itself, which would cost a second matrix product of n rows, is never formed.
"""

from collections.abc import Callable
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from hingerank.features.maps import BLOCK_BYTES, FeatureMap, serial_blas, storage_type
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import curvature_pass, score_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import GradedPreferences, Preferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.design import RowsDesign
from hingerank.problem.problem import Design, LossPoint, Pass, add_up, hessian_by_columns


def mapped_design(feature_map: FeatureMap, X: Any, budget: int, by_rows: bool = False) -> Design:
    """The design of a fitted FeatureMap on rows X, stored if ψ(X) fits the budget in bytes; by_rows: Φ itself, for
    solvers that go from row to row."""
    if by_rows:
        return RowsDesign(feature_map.transform(X))
    stored = feature_map.stored_bytes(X) <= budget
    inner: Design = RowsDesign(feature_map.rows(X)) if stored else StreamedDesign(feature_map, X)
    if feature_map.mixing_ is None:
        return inner
    stored_as = storage_type(X.shape[0], feature_map.width_, X.dtype)
    return MixedDesign(inner, RowsDesign(feature_map.mixing_.astype(stored_as)))


class MixedDesign(Design):
    """Φ = Ψ T for a design Ψ of many rows and a small map T, itself a design."""

    def __init__(self, inner: Design, mixing: Design):
        self.inner, self.mixing = inner, mixing
        self.shape, self.numbers = (inner.shape[0], mixing.shape[1]), inner.numbers

    @property
    def breadth(self) -> int:
        return self.mixing.breadth

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.inner.scores(self.mixing.scores(w))

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.mixing.back(self.inner.back(z))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The pass of the inner design, seen through T."""
        return MixedPass(self.inner.sweep(loss, preferences), self.mixing)


class MixedPass(Pass):
    """A pass in T w."""

    def __init__(self, inner: Pass, mixing: Design):
        self.inner, self.mixing, self.graded = inner, mixing, inner.graded

    def at(self, w: np.ndarray) -> LossPoint:
        T = self.mixing
        here = self.inner.at(T.scores(w))
        return LossPoint(here.value, T.back(here.gradient), lambda v: T.back(here.curvature(T.scores(v))), here.moments)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        return hessian_by_columns(self, w)  # ψ may have many more numbers than φ

    def every(self, stride: int) -> "MixedPass":
        return MixedPass(self.inner.every(stride), self.mixing)


class StreamedDesign(Design):
    """Ψ = ψ(X), computed a block of rows at a time whenever it is applied, and never kept."""

    def __init__(self, feature_map: FeatureMap, X: Any):
        self.map, self.X, self.shape = feature_map, X, (X.shape[0], feature_map.width_)
        self.numbers = X.shape[0] * feature_map.width_
        self.dtype = storage_type(*self.shape, X.dtype)
        self.height = max(1, BLOCK_BYTES // (np.dtype(self.dtype).itemsize * self.shape[1]))
        self.shards = cut_shards(np.arange(self.shape[0] + 1), self.height)

    def block(self, a: int, b: int) -> tuple[np.ndarray]:
        """ψ of rows a:b, as compiled passes take it."""
        out: np.ndarray = np.empty((b - a, self.shape[1]), self.dtype)
        self.map.write(self.X[a:b], out)
        return (out,)

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = np.ascontiguousarray(w, np.float64), np.empty(self.shape[0])

        def work(shard: tuple[int, int]) -> None:
            first, last = shard
            for a in range(first, last, self.height):
                b = min(a + self.height, last)
                scores_range(self.block(a, b), 0, b - a, w, out[a:b])

        with serial_blas():
            run_shards(work, self.shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = np.ascontiguousarray(z, np.float64)

        def work(shard: tuple[int, int]) -> np.ndarray:
            g = np.zeros(self.shape[1])
            first, last = shard
            for a in range(first, last, self.height):
                b = min(a + self.height, last)
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

    def every(self, stride: int) -> "StreamedPass":
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

    def hessian(self, w: np.ndarray) -> np.ndarray:
        return hessian_by_columns(self, w)

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
