"""Problems  structure(w) + C · loss(Φ(X) w; preferences): the one place where all four parts are combined.

`Problem` is what solvers minimise, through the interface `Objective`. A `Pass` evaluates the loss as a function of w; a
`Design` offers one: in a single pass over its rows if it can (`FusedPass`), else by scores and back (`PlainPass`).
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix, Vector
from hingerank.data.blocks import evenly
from hingerank.data.checks import positive, vector
from hingerank.data.rows_view import SAMPLE_BYTES
from hingerank.kernels.hessian import hessian_pass, scatter_pass
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.sweeps import WindowState, fused_curvature_pass, fused_loss_pass
from hingerank.kernels.threads import AS_BEFORE, LONG, add_up, cut_shards, run_shards, serial_blas
from hingerank.losses import Loss, PairLoss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.structures import GroupedSquare

ROWS_OF_A_SAMPLE, ROWS_PER_WEIGHT, ROWS_OF_A_DIAGONAL, LARGEST_HESSIAN = 10_000, 100, 16_384, 400
SMALLEST_STRIDE, LARGEST_STRIDE = 4, 256  # of samples whose Hessians are used: every n-th query
LARGER_STRIDE = 2  # of a sample of which only the gradient is used
SMALLEST = float(np.finfo(np.float64).tiny)
PRODUCTS_REMEMBERED, NUMBERS_OF_A_COSTLY_PRODUCT, NUMBERS_PER_SHARD = 64, 5_000_000, 1 << 20
PRODUCTS_OF_CURVES = 16  # Hessian products to store if columns have several features each, which need many
ROWS_OF_A_LOOK, UNEVEN = 256, 30.0  # rows to look at, and the ratio of column spreads that counts as uneven


@dataclass(frozen=True)
class Point:
    """An objective, or only its loss, at w: value, gradient and Hessian products `curvature(v)`.

    w and gradient are vectors, or anything else with the same operators (problem/kernel_space.py). hessian(): the whole
    matrix, if that is worth its cost; first(): a part of Newton's step that is known in advance, with its Hessian
    product, or None; moments: see LossAt.
    """

    w: Vector
    value: float
    gradient: Vector
    curvature: Callable[[Vector], Vector]
    moments: np.ndarray | None = None
    hessian: Callable[[], np.ndarray] | None = None
    first: Callable[[], tuple[Vector, Vector] | None] | None = None


class Objective(Protocol):
    """The interface of problems for solvers."""

    dimension: int
    C: float = 1.0  # weight of the loss
    convex: bool = True
    factor: float = 1.0  # of a sample: by which its loss is multiplied to weigh as much as that of all queries
    recycled: int = 0  # Hessian products to store (solvers/newton.py): none if vectors cost as much as the rows

    def at(self, w: Vector) -> Point:
        """The objective at w."""
        ...

    def origin(self) -> float:
        """The value at w = 0."""
        return self.at(np.zeros(self.dimension)).value

    def gap(self, point: Point) -> tuple[float, float]:
        """(Upper bound on value - optimum: ½‖∇f(w)‖² if the structure is ½‖w‖² and the loss convex; lower bound on
        f(0) - f(w) plus that, free of the rounding of f: ½‖v‖²).

        f(w) = ½‖w‖² + C Σ c ℓ(t), t = <w, x_i - x_j>, has the dual  max over a of  -½‖Σ a (x_i - x_j)‖² - C Σ c
        ℓ*(-a / (C c)).  The point a = -C c ℓ'(t) is feasible by construction, and Fenchel's equality
        ℓ(t) + ℓ*(ℓ'(t)) = t ℓ'(t)  makes the gap there, with v = Σ a (x_i - x_j) = w - ∇f(w),
        ½‖w‖² + ½‖v‖² - <w, v> = ½‖w - v‖² = ½‖∇f(w)‖². If the loss is not convex the same number measures stationarity:
        what a gradient step would gain against the curvature of the norm alone.

        f(0) minus the dual's value at a is  C Σ c (ℓ(0) + ℓ*(ℓ'(t))) + ½‖v‖², and by Fenchel's inequality no term of
        the sum is negative. If the optimum is near 0 the sum vanishes.
        """
        gap = 0.5 * float(point.gradient @ point.gradient)
        if gap == 0 and np.any(point.gradient):  # underflow is not an exact zero
            gap = SMALLEST
        v = point.w - point.gradient
        return gap, 0.5 * float(v @ v)

    def with_C(self, C: float) -> Self:
        """The same problem at another C, sharing everything that does not depend on it."""
        other = copy(self)
        other.C = positive("C", C)
        return other

    def first_C(self) -> float:
        """The smallest useful C under ½‖w‖²: L(0) / ‖∇L(0)‖² for the loss L, infinite if weights of 0 are optimal.

        A convex loss L is at least L(0) + <∇L(0), w>, so ½‖w‖² + C L(w) is at least C L(0) - ½C²‖∇L(0)‖²: at this C the
        fit gains at most half of the objective at w = 0, and at a fraction of this C that fraction of the half. With k
        times the data it is divided by k, with features times s by s².
        """
        origin = self.with_C(1.0).at(np.zeros(self.dimension))
        with serial_blas() if self.dimension > LONG else AS_BEFORE:
            slope = float(origin.gradient @ origin.gradient)
        return origin.value / slope if slope > 0 else np.inf

    def rounding(self, point: Point) -> float:
        """Bound on the rounding error of the value and of the gap, if it can be large."""
        return 0.0

    def diagonal(self, point: Point) -> Vector:
        """Approximate diagonal of the Hessian at the last point evaluated, or None if it is not cheap."""
        return None

    def samples(self, larger: bool = False) -> "Sequence[Objective]":
        """The same problem on samples of the data, small to large, if their solutions are good starts; or those that
        are larger, if their gradients cost little beside that of the whole."""
        return []


class Pass(Protocol):
    """A loss as a function of weights."""

    graded: Any = None  # QueryPreferences, if samples of the queries may be taken
    most_sampled: float = np.inf  # rows that a sample may have
    halves: bool = False  # whether half of the queries are a cheap sample: rows in memory, which are not copied
    explicit: bool = False  # whether the Hessian as a matrix costs less than a product for each weight

    def at(self, w: np.ndarray) -> Point:
        """The loss at w."""
        ...

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        """The Hessian at w as a matrix, optionally of only every stride-th query; here by a product for each weight."""
        curvature = (self if stride == 1 else self.every(stride)).at(w).curvature
        return np.stack([curvature(e) for e in np.eye(len(w))], axis=1)

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        """Approximate diagonal of the Hessian at w, if it is cheap."""
        return None

    def degrees(self, w: np.ndarray) -> np.ndarray | None:
        """The diagonal of the Hessian in scores at w, for each row, 0 for rows left out; None if unknown."""
        return None

    def every(self, stride: int) -> "Pass":
        """The loss of every stride-th query, if there are `graded` ones."""
        ...

    def with_loss(self, loss: Loss) -> "Pass | None":
        """A pass for another loss in the same memory, which the last one evaluated uses; None if not possible."""
        return None


class Design(Protocol):
    """How features are applied, whatever their storage."""

    shape: tuple[int, int]
    numbers: int = 0  # how many a product reads
    breadth: int | None = None  # how many weights a sample must determine, if the norm keeps most of them small
    most_copied: int = 0  # how many rows a sample may copy

    @property
    def uneven(self) -> bool:
        """Whether the Hessian's diagonal may be so uneven that it is worth computing."""
        return False

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Φ w."""
        ...

    def back(self, z: np.ndarray) -> np.ndarray:
        """Φᵀ z."""
        ...

    def scatter(self, weight: np.ndarray, offsets: np.ndarray, stride: int = 1) -> np.ndarray | None:
        """Σ over the rows of every stride-th query of weight · (φ - mean of its query)², if rows are accessible."""
        return None

    def sample(self, loss: Loss, preferences: QueryPreferences, stride: int) -> Pass:
        """The loss of every stride-th query, over a copy of their rows."""
        raise ValueError("rows of this design cannot be copied")

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The loss as a function of weights."""
        return PlainPass(self, loss, preferences)


class Problem(Objective):
    """f(w) = structure(w) + C · loss(Φ w; preferences).

    Parameters
    ----------
    design : how features are applied.
    loss : of scores, given preferences.
    preferences : which rows should be above which.
    structure : the penalty on the weights, ½‖w‖² by default; its smooth part here (`GroupedProblem` sees the rest)
    C : weight of the loss.
    """

    def __init__(
        self,
        design: Design,
        loss: Loss,
        preferences: Preferences,
        structure: GroupedSquare | None = None,
        C: float = 1.0,
    ):
        self.design, self.loss, self.preferences = design, loss, preferences
        self._nearest = 0.0 if structure is None else structure.centre  # the minimiser of the penalty
        self.C, self.dimension, self.convex = positive("C", C), design.shape[1], loss.convex
        self._pass = design.sweep(loss, preferences)
        if design.numbers >= max(NUMBERS_OF_A_COSTLY_PRODUCT, 1000 * self.dimension):
            self.recycled = PRODUCTS_REMEMBERED
        elif (design.breadth or self.dimension) < self.dimension and design.numbers >= 100 * self.dimension:
            self.recycled = PRODUCTS_OF_CURVES

    def at(self, w: np.ndarray) -> Point:
        w = vector("w", w, self.dimension).copy()
        here, C, passed, apart = self._pass.at(w), self.C, self._pass, w - self._nearest

        def hessian() -> np.ndarray:
            H = C * passed.hessian(w)
            H[np.diag_indices_from(H)] += 1.0
            return H

        return Point(
            w,
            0.5 * float(apart @ apart) + C * here.value,
            apart + C * here.gradient,
            lambda v: v + C * here.curvature(vector("v", v, len(w))),
            here.moments,
            hessian if passed.explicit and self.dimension <= LARGEST_HESSIAN else None,
        )

    def origin(self) -> float:
        """f(0), from scores that are all 0: without a pass over the rows, if these are in this process."""
        if isinstance(self.loss, PairLoss):
            return self.C * float(self.loss.pointwise(np.zeros(1))[0][0]) * self.preferences.total_weight
        if isinstance(self.preferences, QueryPreferences):
            return self.C * self.loss.at(np.zeros(self.design.shape[0]), self.preferences).value
        return self.at(np.zeros(self.dimension)).value

    def diagonal(self, point: Point) -> np.ndarray | None:
        loss = self._pass.diagonal(point.w) if self.convex else None
        return None if loss is None else self.C * loss + 1.0

    def samples(self, larger: bool = False) -> "list[Problem]":
        """The same problem on every k-th query, small to large, if the data are large enough for that to help.

        The loss is scaled up to the total pair weight, so a sample's optimum and Hessian are close to those of the
        whole. They are a start and a cheap model of the curvature, never the result, so convex losses alone have them.
        """
        graded, breadth = self._pass.graded, self.design.breadth or self.dimension
        if graded is None or not (self.convex and self.loss.by_query) or (larger and not self._pass.halves):
            return []
        rows, queries = graded.n_items, graded.n_queries
        most = min(rows // max(ROWS_OF_A_SAMPLE, ROWS_PER_WEIGHT * breadth), queries // 100)
        furthest = min(rows // max(1000, 20 * breadth), queries // 20)  # samples large enough for a start
        last = min(LARGEST_STRIDE, 1 << (max(1, most).bit_length() - 1))  # large enough for its Hessian to be used
        while last <= furthest and rows > last * self._pass.most_sampled:
            last *= 2
        if most < SMALLEST_STRIDE or rows > last * self._pass.most_sampled:
            return []
        strides = [*[k for k in (8 * last, 4 * last) if k <= furthest][:1], last]
        if larger:
            strides = [LARGER_STRIDE] if last >= 4 * LARGER_STRIDE else []
        whole, parts = graded.weight_of(1), []
        for stride, factor in [(k, whole / weight) for k in strides if (weight := graded.weight_of(k)) > 0]:
            part = self.with_C(self.C * factor)
            part._pass, part.factor = self._pass.every(stride), factor
            parts.append(part)
        return parts

    def risk(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and a subgradient of it at w."""
        here = self._pass.at(vector("w", w, self.dimension).copy())
        return here.value, here.gradient

    def with_loss(self, loss: Loss) -> "Problem":
        """The same problem under another loss."""
        other = copy(self)
        other.loss, other.convex = loss, loss.convex
        other._pass = self._pass.with_loss(loss) or self.design.sweep(loss, self.preferences)
        return other


class PlainPass(Pass):
    """Any loss over any design: scores, then the loss in score space, then back."""

    def __init__(self, design: Design, loss: Loss, preferences: Preferences):
        self.design, self.loss, self.preferences = design, loss, preferences
        if isinstance(preferences, QueryPreferences) and design.most_copied:
            self.graded, self.most_sampled = preferences, design.most_copied

    def every(self, stride: int) -> Pass:
        return self.design.sample(self.loss, self.graded, stride)

    def at(self, w: np.ndarray) -> Point:
        design, here = self.design, self.loss.at(self.design.scores(w), self.preferences)
        curvature = here.curvature  # keep only this of `here`, whose vectors are as long as the rows
        gradient = design.back(here.gradient)
        return Point(w, here.value, gradient, lambda v: design.back(curvature(design.scores(v))), here.moments)

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        if not self.design.uneven:
            return None
        p, here = self.preferences, self.loss.at(self.design.scores(w), self.preferences)
        offsets = p.offsets if isinstance(p, QueryPreferences) else np.array([0, p.n_items])
        return self.design.scatter(here.diagonal, offsets)

    def degrees(self, w: np.ndarray) -> np.ndarray | None:
        return self.loss.at(self.design.scores(w), self.preferences).diagonal


# Rows in memory, and passes of hinge-type losses over them


class CompiledRows(Design):
    """Rows read by compiled products, shard by shard: `rows` is the tuple they take (kernels/rows.py)."""

    loss_pass = staticmethod(fused_loss_pass)
    halves = True  # see Pass
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
        self.most_copied = SAMPLE_BYTES * X.shape[0] // max(1, sum(array.nbytes for array in self.rows))

    def sample(self, loss: Loss, preferences: QueryPreferences, stride: int) -> Pass:
        part, rows = preferences.every(stride)
        return RowsDesign(self.matrix[rows]).sweep(loss, part)

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

    graded: QueryPreferences
    explicit = True

    def __init__(self, loss: WindowLoss, preferences: QueryPreferences):
        self.loss, self.graded, self.terms = loss, preferences, loss.terms
        self.tree, self.offsets = preferences.tree, preferences.offsets
        self.latest: np.ndarray | None = None
        self.used_by: list[WindowPass] = [self]  # whose windows are in the state, which copies share, as this list

    @cached_property
    def state(self) -> WindowState:
        """Made at the first use: a hinge is only minimised rounded, and its own windows would take as much memory."""
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

    def __init__(self, design: CompiledRows, loss: WindowLoss, preferences: QueryPreferences):
        super().__init__(loss, preferences)
        self.design, self.rows, self.most_shards, self.stride = design, design.rows, design.most_shards, 1
        self.halves = design.halves
        self.most_sampled = np.inf if design.halves else design.most_copied or np.inf  # bins are never copied
        self.shards = cut_shards(self.offsets, ROWS_PER_SHARD, self.most_shards)

    def every(self, stride: int) -> Pass:
        """The pass over every stride-th query: with windows in the same memory, or, from a disk, over a copy."""
        if np.isfinite(self.most_sampled):
            return self.design.sample(self.loss, self.graded, stride)
        _, offsets = self.state, self.offsets[::stride]  # create the state before it is shared
        part = copy(self)
        part.stride, part.latest = stride, None
        borders = [first for first, _ in cut_shards(offsets, ROWS_PER_SHARD * stride, self.most_shards)]
        part.shards = [(a * stride, b * stride) for a, b in pairwise([*borders, len(offsets)])]
        part.shards[-1] = (part.shards[-1][0], len(self.offsets) - 1)
        return part

    def at(self, w: np.ndarray) -> Point:
        rows, stride, tree, state, terms = self.rows, self.stride, self.tree, self.state, self.terms
        loss_of = partial(self.design.loss_pass, rows, w, stride, tree, state, terms)
        moments, gradient = map(add_up, zip(*run_shards(loss_of, self.shards)))
        self.latest, self.used_by[0] = w, self

        def curvature(v: np.ndarray) -> np.ndarray:
            self._return_to(w)
            return add_up(run_shards(partial(fused_curvature_pass, rows, v, stride, tree, state, terms), self.shards))

        return Point(w, self.loss.value(moments), gradient, curvature, moments)

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        """The Hessian of the loss in w as a matrix; with fewer shards, since a part has d² entries."""
        self._return_to(w)
        stride *= self.stride  # within a sample's own queries: the others have no windows
        rows, tree, state, terms, width = self.rows, self.tree, self.state, self.terms, len(w)
        cut = cut_shards(self.offsets, ROWS_PER_SHARD, min(4, self.most_shards))
        shards = [(a + -a % stride, b) for a, b in cut]
        return add_up(run_shards(lambda ab: hessian_pass(rows, width, *ab, stride, tree, state, terms), shards))

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        """Σ over rows of (the score-space Hessian's diagonal) · (x - mean of its query)²: at most the Hessian's own
        diagonal Σ over active pairs of ℓ'' (x_i - x_j)², and at least half of it. For many dense rows a part is enough;
        a column that is constant in that part is treated as an average one."""
        if not self.design.uneven:
            return None
        often = max(1, self.graded.n_items // (self.stride * ROWS_OF_A_DIAGONAL)) if self.design.dense else 1
        found = often * self.design.scatter(self.degrees(w), self.offsets, self.stride * often)
        known = found > 0
        return np.where(known, found, np.median(found[known]) if known.any() else 0.0)

    def degrees(self, w: np.ndarray) -> np.ndarray:
        self._return_to(w)
        weight, offsets = np.zeros(self.graded.n_items), self.offsets
        degree = self.loss.degrees(self.state, self.graded)
        for first, last in self.graded.shards:  # one after the other, to need positions of one shard only
            a, b = offsets[first], offsets[last]
            starts = np.repeat(offsets[first:last], np.diff(offsets[first : last + 1]))
            weight[starts + self.tree.perm[a:b]] = degree[a:b]
        if self.stride > 1:
            weight *= np.repeat(np.arange(self.graded.n_queries) % self.stride == 0, np.diff(offsets))
        return weight
