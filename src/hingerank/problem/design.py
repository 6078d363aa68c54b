"""Designs of rows in memory, and passes of hinge-type losses over them. For the interfaces see problem/problem.py."""

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.blocks import evenly
from hingerank.data.checks import vector
from hingerank.kernels.hessian import hessian_pass, scatter_pass
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import WindowState, fused_curvature_pass, fused_loss_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.problem import ROWS_OF_A_DIAGONAL, Design, Pass, Point, add_up

NUMBERS_PER_SHARD = 1 << 20
ROWS_OF_A_LOOK, UNEVEN = 256, 30.0  # rows to look at, and the ratio of column spreads that counts as uneven


class CompiledRows(Design):
    """Rows read by compiled products, shard by shard: `rows` is the tuple they take (kernels/rows.py)."""

    rows: tuple[Any, ...]
    dense: bool
    most_shards: int
    _shards: list[tuple[int, int]]

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = vector("w", w, self.shape[1]), np.empty(self.shape[0])
        run_shards(lambda ab: scores_range(self.rows, *ab, w, out), self._shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = vector("z", z, self.shape[0])
        return add_up(run_shards(lambda ab: back_range(self.rows, *ab, z, self.shape[1]), self._shards))

    def scatter(self, weight: np.ndarray, offsets: np.ndarray, stride: int = 1) -> np.ndarray:
        rows, width = self.rows, self.shape[1]
        shards = [(a + -a % stride, b) for a, b in cut_shards(offsets, stride * ROWS_PER_SHARD, self.most_shards)]
        return add_up(run_shards(lambda ab: scatter_pass(rows, width, *ab, stride, offsets, weight), shards))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        if isinstance(loss, WindowLoss) and isinstance(preferences, QueryPreferences):
            return FusedPass(self, loss, preferences)
        return super().sweep(loss, preferences)


class RowsDesign(CompiledRows):
    """Rows in memory, dense (C-ordered) or CSR, float32 or float64, also as a `matrix`; sums are float64."""

    def __init__(self, X: Matrix):
        X = sp.csr_matrix(X) if sp.issparse(X) else np.ascontiguousarray(X)
        self.matrix, self.shape, self.dense = X, X.shape, not sp.issparse(X)
        self.rows, self.numbers = ((X,), X.size) if self.dense else ((X.data, X.indices, X.indptr), X.nnz)
        # partial sums of a shard have d entries: limit the shards so that these stay well below the data
        self.most_shards = int(np.clip(self.numbers // (4 * max(1, X.shape[1])), 1, 64))
        per_shard = max(1, NUMBERS_PER_SHARD * X.shape[0] // max(1, self.numbers))
        self._shards = cut_shards(np.arange(X.shape[0] + 1), per_shard, self.most_shards)

    @cached_property
    def uneven(self) -> bool:
        """Whether the spreads of columns in a few rows differ so much that the Hessian's diagonal is worth a sweep."""
        X = self.matrix[evenly(self.shape[0], ROWS_OF_A_LOOK)]
        size = abs(X).mean(axis=0, dtype=np.float64) if sp.issparse(X) else X.std(axis=0, dtype=np.float64)
        spread = np.asarray(size).ravel()
        spread = spread[spread > 0]
        return bool(len(spread)) and bool(spread.max() > UNEVEN * spread.min())

    def columns(self, wanted: np.ndarray) -> "RowsDesign":
        """The design of only these columns."""
        return RowsDesign(np.take(self.matrix, wanted, axis=1) if self.dense else self.matrix[:, wanted])


class WindowPass(Pass):
    """Base of passes of hinge-type losses over graded rows: it stores the windows of the last point evaluated.

    An older point re-evaluates itself when its curvature is needed, and so does one whose memory another pass has used.
    """

    def __init__(self, loss: WindowLoss, preferences: QueryPreferences):
        self.loss, self.graded, self.terms = loss, preferences, loss.terms
        self.tree, self.offsets = preferences.tree, preferences.offsets
        self.latest: np.ndarray | None = None
        self.used_by: list[WindowPass] = [self]  # whose windows are in the state; shared like it

    @cached_property
    def state(self) -> WindowState:
        return self.loss.state(self.graded)

    def with_loss(self, loss: Loss) -> Pass | None:
        if not isinstance(loss, WindowLoss) or loss.terms.shape != self.terms.shape:
            return None
        _, other = self.state, copy(self)  # create the state before it is shared
        other.loss, other.terms, other.latest = loss, loss.terms, None
        return other

    def _return_to(self, w: np.ndarray) -> None:
        if self.latest is not w or self.used_by[0] is not self:
            self.at(w)


class FusedPass(WindowPass):
    """Hinge-type losses over graded rows in memory: value and gradient, or a Hessian product, in one pass."""

    halves = True

    def __init__(self, design: CompiledRows, loss: WindowLoss, preferences: QueryPreferences):
        super().__init__(loss, preferences)
        self.design, self.rows, self.most_shards, self.stride = design, design.rows, design.most_shards, 1
        self.shards = cut_shards(self.offsets, ROWS_PER_SHARD, self.most_shards)

    def every(self, stride: int) -> "FusedPass":
        """The pass over every stride-th query, with its own windows in the same memory."""
        _, offsets = self.state, self.offsets[::stride]  # create the state before it is shared
        part = copy(self)
        part.stride, part.latest = stride, None
        borders = [first for first, _ in cut_shards(offsets, ROWS_PER_SHARD * stride, self.most_shards)]
        part.shards = [(a * stride, b * stride) for a, b in pairwise([*borders, len(offsets)])]
        part.shards[-1] = (part.shards[-1][0], len(self.offsets) - 1)
        return part

    def at(self, w: np.ndarray) -> Point:
        rows, stride, tree, state, terms = self.rows, self.stride, self.tree, self.state, self.terms
        moments, gradient = map(add_up, zip(*run_shards(self._loss_of(w), self.shards)))
        self.latest, self.used_by[0] = w, self

        def curvature(v: np.ndarray) -> np.ndarray:
            self._return_to(w)
            return add_up(run_shards(partial(fused_curvature_pass, rows, v, stride, tree, state, terms), self.shards))

        return Point(w, self.loss.value(moments), gradient, curvature, moments)

    def _loss_of(self, w: np.ndarray) -> Callable[[tuple[int, int]], tuple[np.ndarray, np.ndarray]]:
        """A function that returns the moments and the gradient at w of a shard's queries."""
        return partial(fused_loss_pass, self.rows, w, self.stride, self.tree, self.state, self.terms)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        """The Hessian of the loss in w as a matrix; with fewer shards, since a part has d² entries."""
        self._return_to(w)
        rows, tree, state, terms = self.rows, self.tree, self.state, self.terms
        stride *= self.stride  # within a sample's own queries: the others have no windows

        def part(shard: tuple[int, int]) -> np.ndarray:
            first, last = shard
            found = hessian_pass(rows, len(w), first + -first % stride, last, stride, tree, state, terms)
            return np.asarray(found)

        return add_up(run_shards(part, cut_shards(self.offsets, ROWS_PER_SHARD, min(4, self.most_shards))))

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        """Σ over rows of (the score-space Hessian's diagonal) · (x - mean of its query)²: at most the Hessian's own
        diagonal Σ over active pairs of ℓ'' (x_i - x_j)², and at least half of it. For many dense rows a part is enough;
        a column that is constant in that part is treated as an average one."""
        if not self.design.uneven:
            return None
        often = max(1, self.graded.n_items // (self.stride * ROWS_OF_A_DIAGONAL)) if self.design.dense else 1
        found = often * self.design.scatter(self._degrees(w), self.offsets, self.stride * often)
        known = found > 0
        return np.where(known, found, np.median(found[known]) if known.any() else 0.0)

    def degrees(self, w: np.ndarray) -> np.ndarray | None:
        queries, weight = np.arange(self.graded.n_queries) % self.stride == 0, self._degrees(w)
        weight *= np.repeat(queries, np.diff(self.offsets))
        return weight

    def _degrees(self, w: np.ndarray) -> np.ndarray:
        self._return_to(w)
        weight, offsets = np.zeros(self.graded.n_items), self.offsets
        degree = self.loss.degrees(self.state, self.graded)
        for first, last in self.graded.shards:  # one after the other, to need positions of one shard only
            a, b = offsets[first], offsets[last]
            starts = np.repeat(offsets[first:last], np.diff(offsets[first : last + 1]))
            weight[starts + self.tree.perm[a:b]] = degree[a:b]
        return weight
