"""Objectives whose loss is a sum of squares: one small matrix, decomposed once, solves for every C."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy import sparse

from hingerank.arrays import Facts, Matrix
from hingerank.data.files import DataError
from hingerank.data.rows_view import RowsView, cut_blocks
from hingerank.kernels.rows import group_sums
from hingerank.kernels.threads import add_up, cut_shards, run_shards, serial_blas
from hingerank.losses import Loss
from hingerank.losses.lists import AllDifferences, GradeDifferences, RegressionAround, Squared, WithRegression
from hingerank.preferences import GradedPreferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.mapped import MappedRows, ScaledDesign
from hingerank.problem.problem import Design, Point, Problem, RowsDesign
from hingerank.problem.streamed import StreamedDesign

BLOCK = 1 << 18  # numbers of a block of rows in double precision
MOST_ROWS = 1 << 14  # of a block of rows that are read again: half a dozen arrays of theirs are made beside it
REGRESSION = (WithRegression, RegressionAround)


class Sums(NamedTuple):
    """Sums over rows of their weights, of weight · y and of weight · φ."""

    mass: float
    y: float
    rows: np.ndarray

    @classmethod
    def of(cls, design: Design, preferences: QueryPreferences) -> "Sums":
        """The sums over the rows of a design, in one pass."""
        weight, y = preferences.item_weight, preferences.y
        m = np.ones(len(y)) if weight is None else weight
        return cls(float(m.sum()), float((m * y).sum()), design.back(m))

    @classmethod
    def added(cls, parts: "Sequence[Sums]") -> "Sums":
        """The sums over all parts."""
        return cls(sum(p.mass for p in parts), sum(p.y for p in parts), add_up([p.rows.copy() for p in parts]))

    @property
    def mean_y(self) -> float:
        return self.y / self.mass

    @property
    def mean_row(self) -> np.ndarray:
        return np.asarray(self.rows / self.mass)


def around_means(X: Matrix, make: Callable[[Matrix], Design], centre: np.ndarray) -> Design:
    """What `make` makes of rows, less a centre; rows read block by block are centred so, too, for losses by query."""
    design = make(X)
    if isinstance(design, StreamedDesign):
        return StreamedDesign(design.source, design.uneven, centre)
    if isinstance(X, RowsView) and isinstance(design, MappedRows | ScaledDesign):
        return StreamedDesign(X, design.uneven, centre)
    return ScaledDesign(design, np.ones(len(centre)), centre)


class LeastSquaresProblem(Problem):
    """f(w) = ½‖w‖² + C (wᵀA w - 2 bᵀw + const), where the loss is AllDifferences, GradeDifferences, Squared, or one of
    these with regression: A = Xᵀ L X with L the Laplacian of the pairs.

    A costs O(n d²) and is shared by all values of C; `minimiser` solves (I + 2C A) w = 2C b: for one C by a Cholesky
    factorisation, along a path by A's eigenvectors, which serve every C; values and gradients then come from A as well,
    without another pass over the rows.
    """

    def __init__(
        self,
        design: Design,
        loss: Loss,
        preferences: GradedPreferences,
        C: float = 1.0,
        source: RowsView | None = None,
    ):
        super().__init__(design, loss, preferences, C=C)
        self.graded, self.source = preferences, source
        self._shared: Facts = {}

    def _half_hessian(self) -> np.ndarray:
        if self.source is not None:
            return half_hessian_by_blocks(self.source, self.loss, self.graded)
        if not isinstance(self.design, RowsDesign):
            raise ValueError("the sum of squares needs rows in memory, or a source of blocks of them")
        return half_hessian(self.design, self.loss, self.graded)

    def at(self, w: np.ndarray) -> Point:
        if np.any(w) and "eigen" not in self._shared:
            return super().at(w)
        origin = self._once("origin", lambda: Problem.at(self.with_C(1.0), np.zeros(self.dimension)))
        Aw = np.einsum("ij,j->i", self._shared["A"], w) if np.any(w) else np.zeros(self.dimension)
        loss, slope = origin.value + w @ (origin.gradient + Aw), origin.gradient + 2.0 * Aw

        def curvature(v: np.ndarray) -> np.ndarray:
            return np.asarray(v + self.C * (origin.curvature(v) - v))

        return Point(w, float(0.5 * (w @ w) + self.C * loss), w + self.C * slope, curvature)

    def minimiser(self, right: np.ndarray) -> np.ndarray:
        """(I + 2C A)⁻¹ right."""
        A = self._once("A", self._half_hessian)
        if not np.isfinite(A).all():
            raise DataError("squares of the features overflow; rescale them (scale=...)")
        with serial_blas():
            if self._once("first C", lambda: self.C) == self.C and "eigen" not in self._shared:
                matrix = 2.0 * self.C * A
                matrix[np.diag_indices_from(matrix)] += 1.0
                with suppress(np.linalg.LinAlgError):  # where 1 vanishes beside 2C A
                    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix), right))
            values, vectors = self._once("eigen", lambda: scipy.linalg.eigh(A))
            return np.asarray(vectors @ ((vectors.T @ right) / (1.0 + 2.0 * self.C * np.maximum(values, 0.0))))

    def _once(self, name: str, make: Any) -> Any:
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]


def half_hessian(design: RowsDesign, loss: Loss, preferences: GradedPreferences) -> np.ndarray:
    """A = ½ Xᵀ (the loss's Hessian in scores) X.

    Rows form groups g of one query and one grade, with total weights M and means μ. The pairs of a query with weights
    m_i m_j give  Σ_g (M_q - M_g) Σ_i m_i (x_i - μ_g)(x_i - μ_g)ᵀ + M_q Σ_g M_g (μ_g - μ_q)(μ_g - μ_q)ᵀ,  with M_q
    instead of M_q - M_g if equal grades are paired too; regression adds the same with everything as one query. No
    subtraction can cancel.
    """
    row_weight, pair_weight = loss.weights(preferences) if isinstance(loss, REGRESSION) else (0.0, 1.0)
    loss = loss.loss if isinstance(loss, REGRESSION) else loss
    if not isinstance(loss, AllDifferences | GradeDifferences | Squared):
        raise ValueError(f"the loss {loss.name!r} is not a sum of squares: use another solver")
    groups = _Groups(preferences)
    m, mass, query = groups.weight, groups.mass, groups.query
    c = np.ones(preferences.n_queries) if preferences.query_weight is None else preferences.query_weight
    c = pair_weight * c[query]
    whole = np.bincount(query, mass, preferences.n_queries)[query]
    means = groups.means(design)
    inside = c * whole if isinstance(loss, AllDifferences) else c * (whole - mass)
    A = _scatter(design, groups, means, m * (inside + row_weight)[groups.of_row])
    A += _between(means, mass, query, c * whole)
    if row_weight:
        A += _between(means, mass, np.zeros_like(query), np.full(len(mass), row_weight))
    return A


def half_hessian_by_blocks(source: RowsView, loss: Loss, preferences: GradedPreferences) -> np.ndarray:
    """`half_hessian` of rows that are never all in memory: the sum over blocks of whole queries, and the regression
    part from sums of x and x xᵀ around the very first row."""
    row_weight, pair_weight = loss.weights(preferences) if isinstance(loss, REGRESSION) else (0.0, 1.0)
    inner = loss.loss if isinstance(loss, REGRESSION) else loss
    d, p, offsets = source.shape[1], preferences, preferences.offsets
    origin = _dense(source.block(0, int(offsets[1])))[0] if len(offsets) > 1 else np.zeros(d)

    def work(blocks: list[tuple[int, int]]) -> tuple[np.ndarray, ...]:
        A, square, first, mass = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(1)
        for a, b in blocks:
            q0, q1 = np.searchsorted(offsets, [a, b])
            X = source.block(a, b)
            part = p.between(int(q0), int(q1))
            A += half_hessian(RowsDesign(X), inner, part)
            if row_weight:
                m = np.ones(b - a) if part.item_weight is None else part.item_weight
                apart = _dense(X) - origin
                square += (m[:, None] * apart).T @ apart
                first += m @ apart
                mass += m.sum()
        return A, square, first, mass

    shards = cut_blocks(source.shape[0], min(source.height, MOST_ROWS), offsets)
    lanes = [list(chain(*shards[k::4])) for k in range(4)]
    with serial_blas():
        A, square, first, mass = (add_up(list(sums)) for sums in zip(*run_shards(work, lanes)))
    A *= pair_weight
    if row_weight:
        A += row_weight * (square - np.outer(first, first) / max(float(mass[0]), 1e-300))
    return A


def _dense(X: Matrix) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)


class _Groups:
    """Rows of one query and one grade: `of_row` the group of each row, `query` and `mass` of each group."""

    def __init__(self, preferences: GradedPreferences):
        tree, n = preferences.tree, preferences.n_items
        self.offsets = preferences.offsets
        sizes = np.diff(np.append(tree.leaf, n))
        self.of_row = np.empty(n, np.int64)
        self.of_row[preferences.row_at] = np.repeat(np.arange(len(sizes)), sizes)
        self.query = np.repeat(np.arange(preferences.n_queries), np.diff(tree.leaf_start))
        self.weight = np.ones(n) if preferences.item_weight is None else preferences.item_weight
        self.mass = np.bincount(self.of_row, self.weight, len(sizes))

    def means(self, design: RowsDesign) -> np.ndarray:
        sums = np.zeros((len(self.mass), design.shape[1]))
        shards = [(int(self.offsets[a]), int(self.offsets[b])) for a, b in cut_shards(self.offsets, ROWS_PER_SHARD)]
        run_shards(lambda ab: group_sums(design.rows, self.of_row, self.weight, *ab, sums), shards)
        return sums / np.where(self.mass > 0, self.mass, 1.0)[:, None]


def _scatter(design: RowsDesign, groups: _Groups, means: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum of weight_i (x_i - μ_i)(x_i - μ_i)ᵀ over all rows."""
    (n, d), root = design.shape, np.sqrt(np.maximum(weight, 0.0))
    X = design.matrix
    height = max(64, BLOCK // max(1, d))

    def part(shard: tuple[int, int]) -> np.ndarray:
        total = np.zeros((d, d))
        for a in range(shard[0], shard[1], height):
            b = min(a + height, shard[1])
            block = X[a:b].toarray() if sparse.issparse(X) else X[a:b]
            block = (block - means[groups.of_row[a:b]]) * root[a:b, None]
            total += block.T @ block
        return total

    with serial_blas():
        return add_up(run_shards(part, cut_shards(np.arange(n + 1), height, 4)))


def _between(means: np.ndarray, mass: np.ndarray, query: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Sum over groups of factor · mass (μ_g - μ_q)(μ_g - μ_q)ᵀ, μ_q the mean of the query's groups."""
    starts = np.flatnonzero(np.diff(query, prepend=-1)) if len(query) else np.empty(0, np.int64)
    if not len(starts):
        return np.zeros((means.shape[1],) * 2)
    sums = np.add.reduceat(mass[:, None] * means, starts, axis=0)
    total = np.add.reduceat(mass, starts)
    number = np.cumsum(np.diff(query, prepend=query[0]) != 0)
    apart = means - (sums / np.where(total > 0, total, 1.0)[:, None])[number]
    apart *= np.sqrt(factor * mass)[:, None]
    with serial_blas():
        return np.asarray(apart.T @ apart)
