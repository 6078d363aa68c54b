"""Designs of rows in memory. For the interface of designs and the sweeps of losses see problem/problem.py."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.blocks import evenly
from hingerank.data.checks import vector
from hingerank.kernels.hessian import scatter_pass
from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.problem import Design, FusedPass, Pass, add_up

NUMBERS_PER_SHARD = 1 << 20
ROWS_OF_A_LOOK, UNEVEN = 256, 30.0  # rows to look at, and the ratio of column spreads that counts as uneven


class CompiledRows(Design):
    """Rows read by compiled products, shard by shard: `rows` is the tuple they take (kernels/rows.py)."""

    rows: tuple[Any, ...]
    _shards: list[tuple[int, int]]

    def scores(self, w: np.ndarray) -> np.ndarray:
        w, out = vector("w", w, self.shape[1]), np.empty(self.shape[0])
        run_shards(lambda ab: scores_range(self.rows, *ab, w, out), self._shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        z = vector("z", z, self.shape[0])
        return add_up(run_shards(lambda ab: back_range(self.rows, *ab, z, self.shape[1]), self._shards))


class RowsDesign(CompiledRows):
    """Rows in memory, dense (C-ordered) or CSR, float32 or float64; sums are float64.

    `rows` is the tuple that compiled passes take; see kernels/rows.py.
    """

    def __init__(self, X: Matrix):
        self.shape = X.shape
        if sp.issparse(X):
            X = X.tocsr()
            self.rows = (X.data, X.indices, X.indptr)
            self.numbers = X.nnz
        else:
            self.rows = (np.ascontiguousarray(X),)
            self.numbers = X.size
        self.dense = len(self.rows) == 1
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

    @property
    def matrix(self) -> Matrix:
        """The rows as a NumPy or SciPy matrix, without a copy."""
        return self.rows[0] if self.dense else sp.csr_matrix(self.rows, shape=self.shape, copy=False)

    def scatter(self, weight: np.ndarray, offsets: np.ndarray, stride: int = 1) -> np.ndarray:
        rows, width = self.rows, self.shape[1]
        shards = [(a + -a % stride, b) for a, b in cut_shards(offsets, stride * ROWS_PER_SHARD, self.most_shards)]
        return add_up(run_shards(lambda ab: scatter_pass(rows, width, *ab, stride, offsets, weight), shards))

    def columns(self, wanted: np.ndarray) -> "RowsDesign":
        """The design of only these columns."""
        X = self.matrix
        return RowsDesign(X[:, wanted] if sp.issparse(X) else np.take(X, wanted, axis=1))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        if isinstance(loss, WindowLoss) and isinstance(preferences, QueryPreferences):
            return FusedPass(self, loss, preferences)
        return super().sweep(loss, preferences)
