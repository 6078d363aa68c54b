"""Designs: how features are applied. `scores(w)` = X w, `back(z)` = X^T z; the rest of the library sees no storage."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.kernels.rows import back_range, scores_range
from hingerank.kernels.threads import cut_shards, run_shards

NUMBERS_PER_SHARD = 1 << 20


class RowsDesign:
    """Rows held in memory, dense (C-ordered) or CSR, float32 or float64; sums are float64.

    `rows` is what compiled passes take; see kernels/rows.py. `numbers`: how many a product reads.
    """

    def __init__(self, X: Any):
        self.shape: tuple[int, int] = X.shape
        if sp.issparse(X):
            X = X.tocsr()
            self.rows: tuple = (X.data, X.indices, X.indptr)
            self.numbers = X.nnz
        else:
            self.rows = (np.ascontiguousarray(X),)
            self.numbers = X.size
        # partial sums of a shard have d entries: no more shards than keep those well below the data
        self.most_shards = int(np.clip(self.numbers // (4 * max(1, X.shape[1])), 1, 64))
        self._shards = cut_shards(
            np.arange(X.shape[0] + 1), max(1, NUMBERS_PER_SHARD * X.shape[0] // max(1, self.numbers)), self.most_shards
        )

    def scores(self, w: np.ndarray) -> np.ndarray:
        """X w."""
        w, out = np.ascontiguousarray(w, np.float64), np.empty(self.shape[0])
        run_shards(lambda ab: scores_range(self.rows, *ab, w, out), self._shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        """X^T z."""
        z = np.ascontiguousarray(z, np.float64)
        return add_up(run_shards(lambda ab: back_range(self.rows, *ab, z, self.shape[1]), self._shards))


def add_up(parts: list[np.ndarray]) -> np.ndarray:
    """The sum of the shards' parts, always in shard order."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
