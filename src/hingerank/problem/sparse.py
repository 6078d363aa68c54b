"""Problems whose structure makes weights zero: single ones, as functions of scores, or groups of them.

Solvers of a `SparseProblem` keep s = X w.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hingerank.data.checks import positive
from hingerank.kernels.hessian import hessian_pass
from hingerank.kernels.sweeps import curvature_pass, score_pass
from hingerank.kernels.threads import add_up, cut_shards, run_shards
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.mapped import MappedRows
from hingerank.problem.problem import Design, Point, Problem, RowsDesign
from hingerank.structures import GroupedSquare, SparseStructure

ROWS_OF_A_HESSIAN = 10_000  # more full rows than this, or 100 per column, hardly change the Hessian of a working set
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class ScorePoint:
    """F at scores s: value, gradient in s and Hessian products `curvature(v)`; valid until the next evaluation."""

    s: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: Callable[[np.ndarray], np.ndarray]


class SparseProblem:
    """F(w) = structure(w) + (C / total pair weight) · sum over pairs of weight · l(s_i - s_j),  s = X w.

    l is a hinge-type loss. `at(s)` costs one sweep and never touches X; `back(z)` = Xᵀ z is one pass over X;
    `design.columns(list)` are the few columns a working set needs, `hessian(columns)` the Hessian of the loss in their
    weights.
    """

    def __init__(
        self,
        design: RowsDesign,
        loss: WindowLoss,
        preferences: QueryPreferences,
        structure: SparseStructure,
        C: float = 1.0,
    ):
        self.design, self.loss, self.preferences, self.structure = design, loss, preferences, structure
        self.dimension, self.n_rows = design.shape[1], design.shape[0]
        self.total, self.C = preferences.total_weight, positive("C", C)
        self._state = loss.state(preferences)
        self.constant = constant_columns(design.matrix, preferences.offsets) if design.dense else NONE

    @property
    def factor(self) -> float:
        """The factor of a pair of weight 1."""
        return self.C / self.total if self.total > 0 else 0.0

    def origin(self) -> float:
        """F(0): the loss of pairs that all tie."""
        return self.factor * self.total * float(self.loss.pointwise(np.zeros(1))[0][0])

    def with_C(self, C: float) -> "SparseProblem":
        """The same problem at another C, sharing everything that does not depend on it."""
        other = copy(self)
        other.C = positive("C", C)
        return other

    def within(self, structure: SparseStructure) -> "SparseProblem":
        """The same problem under another structure."""
        other = copy(self)
        other.structure = structure
        return other

    def separate(self) -> "SparseProblem":
        """The same problem with its own memory for one point, so that evaluating it leaves this one's point valid."""
        other = copy(self)
        other._state = self.loss.state(self.preferences)
        return other

    def first_C(self) -> float:
        """The largest C at which all weights are 0 under the l1 norm."""
        at_zero = self.with_C(1.0).at(np.zeros(self.n_rows))
        steepest = float(np.abs(self.back(at_zero.gradient)).max())
        return 1.0 / steepest if steepest > 0 else np.inf

    def at(self, s: np.ndarray) -> ScorePoint:
        z, tree, state, terms = np.empty(len(s)), self.preferences.tree, self._state, self.loss.terms
        parts = run_shards(lambda ab: score_pass(s, *ab, tree, state, terms, z), self.preferences.shards)
        z *= self.factor
        return ScorePoint(s, self.factor * self.loss.value(add_up(parts)), z, self._curvature)

    def _curvature(self, v: np.ndarray) -> np.ndarray:
        out, tree, state, terms = np.empty(len(v)), self.preferences.tree, self._state, self.loss.terms
        run_shards(lambda ab: curvature_pass(v, *ab, tree, state, terms, out), self.preferences.shards)
        out *= self.factor
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        """X^T z, without the rounding that columns have which are constant within queries, where z adds up to 0."""
        g: np.ndarray = self.design.back(z)
        g[self.constant] = 0.0
        return g

    def stride(self, columns: RowsDesign) -> int:
        """The n for which every n-th query gives a Hessian of these columns within a few percent."""
        width, numbers = columns.shape[1], int(columns.rows[0].size)
        enough: int = numbers // (width * max(ROWS_OF_A_HESSIAN, 100 * width))
        return max(1, min(enough, self.preferences.n_queries // 20))

    def hessian(self, columns: RowsDesign, stride: int = 1) -> np.ndarray:
        """The Hessian of F in the weights of `columns` at the last point evaluated, from every stride-th query."""
        tree, state, terms, width = self.preferences.tree, self._state, self.loss.terms, columns.shape[1]
        cut = cut_shards(self.preferences.offsets, stride * max(ROWS_PER_SHARD, 4 * width))
        shards, rows = [(a + -a % stride, b) for a, b in cut], columns.rows
        found = run_shards(lambda ab: hessian_pass(rows, width, *ab, stride, tree, state, terms), shards)
        return self._factor_of(stride) * add_up(found)

    def _factor_of(self, stride: int) -> float:
        """The factor that scales a sum over every stride-th query to that over all of them, if they have pairs."""
        part = self.preferences.weight_of(stride) if stride > 1 else 0.0
        return self.factor * (self.preferences.weight_of(1) / part) if part > 0 else self.factor


class PassProblem(SparseProblem):
    """The same F over rows that can only be swept, such as those of a mapped file: each evaluation is a pass over them.

    For solvers that keep scores, the scores are the weights themselves and X is the identity.
    """

    constant = NONE  # not looked for

    def __init__(
        self,
        design: Design,
        loss: WindowLoss,
        preferences: QueryPreferences,
        structure: SparseStructure,
        C: float = 1.0,
    ):
        self.loss, self.preferences, self.structure = loss, preferences, structure
        self.dimension = self.n_rows = design.shape[1]
        self.total, self.C = preferences.total_weight, positive("C", C)
        self.design, self._sweeps = RowsDesign(sp.identity(self.dimension, format="csr")), design
        self._pass, self._latest = design.sweep(loss, preferences), np.zeros(self.dimension)

    def separate(self) -> "PassProblem":
        other = copy(self)
        other._pass = self._sweeps.sweep(self.loss, self.preferences)
        return other

    def at(self, s: np.ndarray) -> ScorePoint:
        factor, w = self.factor, np.array(s, np.float64)
        here, self._latest = self._pass.at(w), w
        return ScorePoint(w, factor * here.value, factor * here.gradient, lambda v: factor * here.curvature(v))

    def back(self, z: np.ndarray) -> np.ndarray:
        return z

    def stride(self, columns: RowsDesign) -> int:
        enough: int = self.preferences.n_items // max(ROWS_OF_A_HESSIAN, 100 * columns.shape[1])
        return max(1, min(enough, self.preferences.n_queries // 20))

    def hessian(self, columns: RowsDesign, stride: int = 1) -> np.ndarray:
        wanted = np.asarray(columns.matrix.tocoo().row)
        H: np.ndarray = self._factor_of(stride) * self._pass.hessian(self._latest, stride)[np.ix_(wanted, wanted)]
        return H


def sparse_problem(
    design: Design, loss: WindowLoss, preferences: QueryPreferences, structure: SparseStructure
) -> SparseProblem:
    """The problem on rows in memory, or on other rows, from which no columns are extracted."""
    if isinstance(design, RowsDesign) and not isinstance(design, MappedRows):
        return SparseProblem(design, loss, preferences, structure)
    return PassProblem(design, loss, preferences, structure)


def constant_columns(X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The columns that have one value in all rows of every query, such as features of queries."""
    left = np.arange(X.shape[1])
    for first, last in cut_shards(offsets, ROWS_PER_SHARD, len(offsets)):
        if not len(left):
            break
        top = np.repeat(offsets[first:last], np.diff(offsets[first : last + 1]))
        left = left[(X[offsets[first] : offsets[last], left] == X[np.ix_(top, left)]).all(axis=0)]
    return left


class SingleColumns:
    """Single columns of the design. Columns of a sparse matrix are extracted some at a time and cached."""

    TOGETHER = 16

    def __init__(self, design: RowsDesign):
        self.design, self.dense = design, len(design.rows) == 1
        self.kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def scores(self, w: np.ndarray) -> np.ndarray:
        """X w through the columns in use."""
        used = np.flatnonzero(w)
        if len(used) == 0:
            return np.zeros(self.design.shape[0])
        return self.design.columns(used).scores(w[used])

    def add(self, out: np.ndarray, j: int, factor: float, g: np.ndarray) -> None:
        """out += factor · column j, in double precision; g shows which other columns are likely to be needed next."""
        if self.dense:
            out += factor * self.design.rows[0][:, j].astype(np.float64, copy=False)
            return
        if j not in self.kept:
            steepest = np.argpartition(-np.abs(g), min(self.TOGETHER, len(g) - 1))[: self.TOGETHER]
            wanted = np.array(sorted({j} | {int(c) for c in steepest} - set(self.kept)))
            part = self.design.columns(wanted)
            by_column = part.matrix.tocsc()
            for place, column in enumerate(wanted.tolist()):
                one = slice(by_column.indptr[place], by_column.indptr[place + 1])
                self.kept[column] = by_column.indices[one], by_column.data[one].astype(np.float64)
        rows, values = self.kept[j]
        out[rows] += factor * values


class GroupedProblem(Problem):
    """f(w) = ½‖w‖² + amount · Σ over groups ‖w_g‖ + C · loss(Φ w; preferences), some weights bounded below by 0.

    `at` evaluates the smooth part, ½‖w‖² + C · loss; `total` the whole objective.
    """

    def __init__(self, design: Design, loss: Loss, preferences: Preferences, structure: GroupedSquare, C: float = 1.0):
        super().__init__(design, loss, preferences, structure, C)
        self.structure = structure

    def origin(self) -> float:
        return super().origin() + self.structure.smooth(np.zeros(self.dimension))

    def total(self, point: Point) -> float:
        """The objective at a point."""
        return point.value + self.structure.extra(point.w)

    def gap(self, point: Point) -> tuple[float, float]:
        w, g = point.w, point.gradient
        return self.structure.gap(w, g), self.structure.conjugate(w - g)

    @cached_property
    def largest_amount(self) -> float:
        """The least amount at which all weights are 0 for C = 1; computed once for all values of C."""
        g = Problem.with_C(self, 1.0).at(np.zeros(self.dimension)).gradient
        return float(self.structure.norms(self.structure.allowed(-g)).max())

    def with_amount(self, amount: float) -> "GroupedProblem":
        """The same problem with another weight of the groups' norms."""
        other = copy(self)
        s = self.structure
        other.structure = GroupedSquare(s.starts, amount, s.bounded)
        return other
