"""Designs of rows computed one block of whole queries at a time, swept while in cache, and discarded."""

from collections.abc import Callable
from copy import copy
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.rows_view import SAMPLE_BYTES, RowsView, cut_blocks, scattered
from hingerank.data.scaling import QueryStandardScaler, Scaler
from hingerank.kernels.hessian import hessian_pass
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.scaling import query_back, query_scores
from hingerank.kernels.sweeps import curvature_pass, score_pass
from hingerank.kernels.threads import add_up, cut_shards, run_shards, serial_blas
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.problem import (
    ROWS_OF_A_DIAGONAL,
    Design,
    Pass,
    Point,
    RowsDesign,
    WindowPass,
)

MATRICES = 4  # of d² numbers each, in which a Hessian is summed


class RowBlocks(Protocol):
    """Rows computed one block at a time; `offsets`: where blocks may be cut, None for anywhere."""

    shape: tuple[int, int]
    offsets: np.ndarray | None
    height: int
    X: Matrix

    def block(self, a: int, b: int) -> Matrix:
        """Rows a:b."""
        ...


class Block:
    """Some rows in the form of compiled passes, and products with them."""

    def __init__(self, rows: Matrix):
        self.rows = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)

    def scores(self, w: np.ndarray, out: np.ndarray) -> None:
        """out = Φ w."""
        scores_range(self.rows, 0, len(out), w, out)

    def add_back(self, z: np.ndarray, g: np.ndarray) -> None:
        """g += Φᵀ z."""
        g += back_range(self.rows, 0, len(z), z, len(g))


class QueryScaledBlock(Block):
    """Whole queries of dense rows, (x - low) · factor of their query: `low` and `factor` are applied to the weights.

    Scaled rows are never formed, and minima and widths are computed while the rows are in cache for the product.
    """

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, scaler: Scaler | None):
        self.X, self.offsets, self.standard = rows, offsets, isinstance(scaler, QueryStandardScaler)
        count, width = len(offsets) - 1, rows.shape[1]
        self.low, self.factor, self.own = np.empty((count, width)), np.empty((count, width)), np.empty(width)
        self.known = False

    def scores(self, w: np.ndarray, out: np.ndarray) -> None:
        ends = np.empty((2, self.X.shape[1]), self.X.dtype)
        query_scores(
            self.X, self.offsets, 0, len(self.low), self.standard, w, ends, self.low, self.factor, self.own, out
        )
        self.known = True

    def add_back(self, z: np.ndarray, g: np.ndarray) -> None:
        if not self.known:
            self.scores(np.zeros(len(g)), np.empty(len(z)))
        query_back(self.X, self.offsets, 0, len(self.low), self.low, self.factor, self.own, z, g)


class CentredBlock(Block):
    """φ - centre of the rows of another block."""

    def __init__(self, inner: Block, centre: np.ndarray):
        self.inner, self.centre = inner, centre

    def scores(self, w: np.ndarray, out: np.ndarray) -> None:
        self.inner.scores(w, out)
        out -= float(self.centre @ w)

    def add_back(self, z: np.ndarray, g: np.ndarray) -> None:
        self.inner.add_back(z, g)
        g -= self.centre * float(z.sum())


class StreamedDesign(Design):
    """Rows in blocks, minus a centre if there is one, recomputed a block at a time whenever they are applied and never
    stored."""

    def __init__(self, source: RowBlocks, uneven: bool = False, centre: np.ndarray | None = None):
        self.source, self.shape, self.height = source, source.shape, source.height
        self._uneven, self.centre = uneven, centre
        self.numbers = self.shape[0] * self.shape[1]
        self.shards = cut_blocks(self.shape[0], self.height, source.offsets)
        self.most_copied = SAMPLE_BYTES // (8 * self.shape[1])

    @property
    def uneven(self) -> bool:
        return self._uneven

    def block(self, a: int, b: int) -> Block:
        """Rows a:b, for products with them."""
        view = self.source
        block: Block
        if isinstance(view, RowsView) and view.offsets is not None and not view.sparse:
            first, last = np.searchsorted(view.offsets, [a, b])
            block = QueryScaledBlock(view.raw(slice(a, b)), view.offsets[first : last + 1] - a, view.scaler)
        else:
            block = Block(view.block(a, b))
        return block if self.centre is None else CentredBlock(block, self.centre)

    def sample(self, loss: Loss, preferences: QueryPreferences, stride: int) -> Pass:
        """As in `Design`: the rows are computed once and stored, without the centre."""
        offsets, source = preferences.offsets.tolist(), self.source
        with serial_blas(), scattered(source.X):
            blocks = [source.block(offsets[q], offsets[q + 1]) for q in range(0, len(offsets) - 1, stride)]
        matrix = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
        return RowsDesign(matrix).sweep(loss, preferences.every(stride)[0])

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = np.ascontiguousarray(w, np.float64), np.empty(self.shape[0])

        def work(blocks: list[tuple[int, int]]) -> None:
            for a, b in blocks:
                self.block(a, b).scores(w, out[a:b])

        with serial_blas():
            run_shards(work, self.shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = np.ascontiguousarray(z, np.float64)

        def work(blocks: list[tuple[int, int]]) -> np.ndarray:
            g = np.zeros(self.shape[1])
            for a, b in blocks:
                self.block(a, b).add_back(z[a:b], g)
            return g

        with serial_blas():
            return add_up(run_shards(work, self.shards))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """Loss and curvature in w, each with one mapping of the rows."""
        if not isinstance(preferences, QueryPreferences) or not loss.by_query:
            return super().sweep(loss, preferences)
        if isinstance(loss, WindowLoss):
            return StreamedPass(self, loss, preferences)
        return ListPass(self, loss, preferences)


class BlockPass(Pass):
    """Base of passes over blocks of whole queries: compute a block, score it, sweep it, add its part, discard it."""

    def __init__(self, design: StreamedDesign, offsets: np.ndarray):
        """Shards of blocks are ranges of queries of about the design's block height each, at least one query."""
        self.design, self.offsets = design, offsets
        self.shards = [
            [(a + i, a + j) for i, j in cut_shards(offsets[a : b + 1] - offsets[a], design.height, b - a)]
            for a, b in cut_shards(offsets, min(ROWS_PER_SHARD, 8 * design.height))
        ]

    def _swept(self, v: np.ndarray, sweep: Callable[[int, int, np.ndarray], Any]) -> tuple[Any, np.ndarray]:
        """(Σ of what sweep(first, last, s) returns, Φᵀ s of what it leaves in s) over blocks of queries first:last.

        s has a number for every row, and those of the block are its scores Φ v.
        """
        v, s = np.ascontiguousarray(v, np.float64), np.empty(self.design.shape[0])

        def work(blocks: list[tuple[int, int]]) -> tuple[Any, np.ndarray]:
            total, g = 0.0, np.zeros(len(v))
            for first, last in blocks:
                a, b = int(self.offsets[first]), int(self.offsets[last])
                rows = self.design.block(a, b)
                rows.scores(v, s[a:b])
                total = total + sweep(first, last, s)
                rows.add_back(s[a:b], g)
            return total, g

        with serial_blas():
            totals, parts = zip(*run_shards(work, self.shards))
        return sum(totals), add_up(parts)


class StreamedPass(BlockPass, WindowPass):
    """Like FusedPass, over blocks of whole queries; those without pairs are left out."""

    def __init__(self, design: StreamedDesign, loss: WindowLoss, preferences: QueryPreferences):
        WindowPass.__init__(self, loss, preferences)
        BlockPass.__init__(self, design, preferences.offsets)
        self.shards = self._with_pairs(self.shards)

    def _with_pairs(self, shards: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
        start = self.tree.node_start
        return [[(a, b) for a, b in blocks if start[a] < start[b]] for blocks in shards]

    def every(self, stride: int) -> Pass:
        """The pass over every stride-th query: if they have few rows, these are computed once and stored; otherwise
        each query is a block of its own, with windows in the same memory."""
        if self.graded.n_items <= stride * self.design.most_copied:
            return self.design.sample(self.loss, self.graded, stride)
        queries = range(0, len(self.offsets) - 1, stride)
        _, part = self.state, copy(self)  # create the state before it is shared
        part.latest = None
        edges = np.linspace(0, len(queries), min(64, len(queries)) + 1).astype(int)
        part.shards = self._with_pairs([[(q, q + 1) for q in queries[a:b]] for a, b in pairwise(edges)])
        return part

    def at(self, w: np.ndarray) -> Point:
        moments, gradient = self._run(w, score_pass)
        self.latest, self.used_by[0] = w, self

        def curvature(v: np.ndarray) -> np.ndarray:
            self._return_to(w)
            return self._run(v, curvature_pass)[1]

        return Point(w, self.loss.value(moments), gradient, curvature, moments)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        """The Hessian of the loss in w, from one block after another."""
        self._return_to(w)

        def work(blocks: list[tuple[int, int]]) -> np.ndarray:
            H = np.zeros((len(w), len(w)))
            for first, last in blocks:
                base = int(self.offsets[first])
                rows = Block(self.design.source.block(base, int(self.offsets[last]))).rows
                H += hessian_pass(rows, len(w), first, last, 1, self.tree, self.state, self.terms, base)
            return H

        lanes = [list(chain(*self.shards[k::MATRICES])) for k in range(min(MATRICES, len(self.shards)))]
        if stride > 1:
            lanes = self._with_pairs(
                [[(q, q + 1) for a, b in lane for q in range(a + -a % stride, b, stride)] for lane in lanes]
            )
        return add_up(run_shards(work, lanes))

    def _run(self, v: np.ndarray, kernel: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
        """(the moments that a kernel returns, if it does; Ψᵀ of what it writes) at scores Ψ v."""

        def sweep(first: int, last: int, s: np.ndarray) -> Any:
            found = kernel(s, first, last, self.tree, self.state, self.terms, s)
            return 0.0 if found is None else found

        moments, g = self._swept(v, sweep)
        return np.zeros((len(self.terms), 3)) + moments, g


class ListPass(BlockPass):
    """Any loss that is a sum over queries, evaluated block by block.

    Every block stores only its curvature at the last point evaluated; an older point re-evaluates itself when its own
    is needed.
    """

    def __init__(self, design: StreamedDesign, loss: Loss, preferences: QueryPreferences):
        super().__init__(design, preferences.offsets)
        self.loss, self.preferences = loss, preferences
        self.graded, self.most_sampled = preferences, design.most_copied
        self.curvatures: dict[int, Callable[[np.ndarray], np.ndarray]] = {}
        self.latest: np.ndarray | None = None

    def at(self, w: np.ndarray) -> Point:
        w, self.latest = np.ascontiguousarray(w, np.float64), None

        def evaluate(first: int, last: int, s: np.ndarray) -> float:
            own = s[self.offsets[first] : self.offsets[last]]
            self.curvatures.pop(first, None)  # free it before the next one is made
            here = self.loss.at(own.copy(), self.preferences.between(first, last))  # its curvature keeps the scores
            self.curvatures[first], own[:] = here.curvature, here.gradient
            return here.value

        def multiply(first: int, last: int, s: np.ndarray) -> float:
            own = s[self.offsets[first] : self.offsets[last]]
            own[:] = self.curvatures[first](own)
            return 0.0

        def curvature(v: np.ndarray) -> np.ndarray:
            if self.latest is not w:
                self.at(w)
            return self._swept(v, multiply)[1]

        value, gradient = self._swept(w, evaluate)
        self.latest = w
        return Point(w, value, gradient, curvature)

    def every(self, stride: int) -> Pass:
        return self.design.sample(self.loss, self.preferences, stride)

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        """As in FusedPass, from evenly spaced blocks."""
        if not self.design.uneven:
            return None
        blocks = list(chain(*self.shards))
        often = max(1, min(len(blocks), self.design.shape[0] // ROWS_OF_A_DIAGONAL))

        def work(block: tuple[int, int]) -> np.ndarray:
            a, b = (int(self.offsets[query]) for query in block)
            part, s = self.preferences.between(*block), np.empty(b - a)
            self.design.block(a, b).scores(w, s)
            return RowsDesign(self.design.source.block(a, b)).scatter(self.loss.at(s, part).diagonal, part.offsets)

        found = add_up(run_shards(work, blocks[::often])) * (len(blocks) / len(blocks[::often]))
        known = found > 0
        return np.where(known, found, np.median(found[known]) if known.any() else 0.0)
