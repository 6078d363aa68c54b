"""The mean pair loss as a function of scores, for solvers that change few weights at a time and keep s = X w."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.kernels.sweeps import curvature_pass, hessian_pass, score_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import WindowLoss
from hingerank.preferences import GradedPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.design import RowsDesign, add_up

ROWS_OF_A_HESSIAN = 10_000  # more full rows than this, or 100 a column, hardly change the Hessian of a working set


@dataclass(frozen=True)
class ScorePoint:
    """F at scores s: value, gradient in s and Hessian products `curvature(v)`; valid until the next evaluation."""

    s: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: Callable[[np.ndarray], np.ndarray]


class ScoreObjective:
    """F(w) = (C / total pair weight) · sum over pairs of weight · l(s_i - s_j),  s = X w,  l a hinge-type loss.

    `at(s)` costs one sweep and never touches X; `back(z)` = X^T z is one pass over X; `columns(list)` gives the
    few columns a working set needs, `hessian(columns)` the Hessian of F in their weights.
    """

    def __init__(self, X: Any, loss: WindowLoss, preferences: GradedPreferences, C: float = 1.0):
        self.design, self.loss, self.preferences = RowsDesign(X), loss, preferences
        self.dimension = X.shape[1]
        self.total = preferences.total_weight
        self.factor = C / self.total if self.total > 0 else 0.0
        self._state = loss.state(preferences)

    def with_C(self, C: float) -> "ScoreObjective":
        """The same problem at another C, sharing everything that does not depend on it."""
        other = ScoreObjective.__new__(ScoreObjective)
        other.__dict__.update(self.__dict__, factor=C / self.total if self.total > 0 else 0.0)
        return other

    def separate(self) -> "ScoreObjective":
        """The same problem with room of its own for one point, so that evaluating it leaves this one's point valid."""
        other = self.with_C(self.factor * self.total)
        other._state = self.loss.state(self.preferences)
        return other

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
        """X^T z."""
        return self.design.back(z)

    def columns(self, wanted: np.ndarray) -> RowsDesign:
        """The design of these columns alone."""
        rows = self.design.rows
        if len(rows) == 1:
            return RowsDesign(np.take(rows[0], wanted, axis=1))
        return RowsDesign(sparse.csr_matrix(rows, shape=self.design.shape, copy=False)[:, wanted])

    def stride(self, columns: RowsDesign) -> int:
        """Every how many-th query is enough for a Hessian of these columns that is good to some percent."""
        width, numbers = columns.shape[1], columns.rows[0].size
        return max(1, min(numbers // (width * max(ROWS_OF_A_HESSIAN, 100 * width)), self.preferences.n_queries // 20))

    def hessian(self, columns: RowsDesign, stride: int = 1) -> np.ndarray:
        """The Hessian of F in the weights of `columns` at the point evaluated last, from every stride-th query."""
        tree, state, terms, width = self.preferences.tree, self._state, self.loss.terms, columns.shape[1]
        scale = self.factor
        if stride > 1:
            weight = self.preferences.weight_per_query
            scale *= weight.sum() / max(weight[::stride].sum(), 1e-300)

        def part(shard):
            first, last = shard
            return hessian_pass(columns.rows, width, first + -first % stride, last, stride, tree, state, terms)

        shards = cut_shards(self.preferences.offsets, stride * max(ROWS_PER_SHARD, 4 * width))
        return scale * add_up(run_shards(part, shards))
