"""Designs of mapped features Φ = ψ(X) T: ψ(X) in memory where it fits, else computed again for every pass.

ψ(X) is the only matrix of n rows. T is small and goes with the weights: Φ w = ψ(X) (T w), Φᵀ z = Tᵀ (ψ(X)ᵀ z), so Φ
itself, which would cost a second matrix product of n rows, is never formed.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from hingerank.features.maps import BLOCK_BYTES, serial_blas, storage_type
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import curvature_pass, score_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import WindowLoss
from hingerank.preferences import GradedPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.design import RowsDesign, add_up
from hingerank.problem.objective import FusedPass


def mapped_design(feature_map: Any, X: Any, budget: int, by_rows: bool = False) -> Any:
    """The design of a fitted FeatureMap on rows X, stored if ψ(X) fits the budget in bytes; by_rows: Φ itself, for
    solvers that go from row to row."""
    if by_rows:
        return RowsDesign(feature_map.transform(X))
    stored = feature_map.stored_bytes(X) <= budget
    inner = RowsDesign(feature_map.rows(X)) if stored else StreamedDesign(feature_map, X)
    if feature_map.mixing_ is None:
        return inner
    return MixedDesign(inner, feature_map.mixing_.astype(storage_type(X.shape[0], feature_map.width_, X.dtype)))


class MixedDesign:
    """Φ = Ψ T for a design Ψ of many rows and a small matrix T."""

    def __init__(self, inner: Any, mixing: np.ndarray):
        self.inner, self.mixing = inner, RowsDesign(mixing)
        self.shape, self.numbers = (inner.shape[0], mixing.shape[1]), inner.numbers

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.inner.scores(self.mixing.scores(w))

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.mixing.back(self.inner.back(z))

    def fused(self, loss: WindowLoss, preferences: GradedPreferences) -> Any:
        """The pass of the inner design, seen through T."""
        rows = hasattr(self.inner, "rows")
        return MixedPass(
            FusedPass(self.inner, loss, preferences) if rows else self.inner.fused(loss, preferences), self.mixing
        )


class MixedPass:
    """A pass in T w."""

    def __init__(self, inner: Any, mixing: RowsDesign):
        self.inner, self.mixing = inner, mixing
        self.loss, self.preferences = inner.loss, inner.preferences

    def at(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        T = self.mixing
        moments, gradient, curvature = self.inner.at(T.scores(w))
        return moments, T.back(gradient), lambda v: T.back(curvature(T.scores(v)))

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """Column by column: ψ may have many more numbers than φ."""
        curvature = self.at(w)[2]
        return np.stack([curvature(e) for e in np.eye(self.mixing.shape[1])], axis=1)

    def every(self, stride: int) -> "MixedPass":
        return MixedPass(self.inner.every(stride), self.mixing)


class StreamedDesign:
    """Ψ = ψ(X), computed a block of rows at a time whenever it is applied, and never kept."""

    def __init__(self, feature_map: Any, X: Any):
        self.map, self.X, self.shape = feature_map, X, (X.shape[0], feature_map.width_)
        self.numbers = X.shape[0] * feature_map.width_
        self.dtype = storage_type(*self.shape, X.dtype)
        self.height = max(1, BLOCK_BYTES // (np.dtype(self.dtype).itemsize * self.shape[1]))
        self.shards = cut_shards(np.arange(self.shape[0] + 1), self.height)

    def block(self, a: int, b: int) -> tuple[np.ndarray]:
        """ψ of rows a:b, as compiled passes take it."""
        out = np.empty((b - a, self.shape[1]), self.dtype)
        self.map.write(self.X[a:b], out)
        return (out,)

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = np.ascontiguousarray(w, np.float64), np.empty(self.shape[0])

        def work(shard):
            first, last = shard
            for a in range(first, last, self.height):
                b = min(a + self.height, last)
                scores_range(self.block(a, b), 0, b - a, w, out[a:b])

        with serial_blas():
            run_shards(work, self.shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = np.ascontiguousarray(z, np.float64)

        def work(shard):
            g = np.zeros(self.shape[1])
            first, last = shard
            for a in range(first, last, self.height):
                b = min(a + self.height, last)
                g += back_range(self.block(a, b), 0, b - a, z[a:b], len(g))
            return g

        with serial_blas():
            return add_up(run_shards(work, self.shards))

    def fused(self, loss: WindowLoss, preferences: GradedPreferences) -> "StreamedPass":
        """Loss and curvature in w with one mapping of the rows each."""
        return StreamedPass(self, loss, preferences)


class StreamedPass:
    """Like FusedPass, over blocks of whole queries: map a block, score it, sweep it, add up its part, forget it."""

    def __init__(self, design: StreamedDesign, loss: WindowLoss, preferences: GradedPreferences):
        self.design, self.loss, self.preferences = design, loss, preferences
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
        part = StreamedPass.__new__(StreamedPass)
        part.__dict__.update(self.__dict__, latest=None)
        queries = [(q, q + 1) for q in range(0, len(self.offsets) - 1, stride)]
        edges = np.linspace(0, len(queries), min(64, len(queries)) + 1).astype(int)
        part.shards = [queries[a:b] for a, b in pairwise(edges)]
        return part

    def at(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        moments, gradient = self._evaluate(w)

        def curvature(v):
            if self.latest is not w:
                self._evaluate(w)
            return self._run(v, curvature_pass)[1]

        return moments, gradient, curvature

    def hessian(self, w: np.ndarray) -> np.ndarray:
        curvature = self.at(w)[2]
        return np.stack([curvature(e) for e in np.eye(len(w))], axis=1)

    def _evaluate(self, w):
        parts = self._run(w, score_pass)
        self.latest = w
        return parts

    def _run(self, v, sweep) -> tuple[Any, np.ndarray]:
        """(what the sweeps return, added up; Ψᵀ of what they write) at scores Ψ v."""
        v, s, z = np.ascontiguousarray(v, np.float64), np.empty(self.design.shape[0]), np.empty(self.design.shape[0])

        def work(blocks):
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
