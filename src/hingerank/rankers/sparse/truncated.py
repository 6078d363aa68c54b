"""What TGRank and RSRank share: parameters of the truncated gradient, and paths."""

from typing import Any

import numpy as np

from hingerank.rankers.sparse.base import SparseRanker, positive


class TruncatedGradientRanker(SparseRanker):
    """The constructor and the path that TGRank and RSRank share."""

    def __init__(
        self, C=100.0, learning_rate=None, every=1, threshold=None, tol=1e-3, *, max_iter=1000, scale=None,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.learning_rate = learning_rate
        self.every = every
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Any = (), sample_weight: Any = None, *, group: Any = None
    ) -> list[Any]:
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller one."""
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _options(self) -> dict[str, Any]:
        """The limits and how weights are truncated, checked."""
        if int(self.every) != self.every or self.every < 1:
            raise ValueError(f"every must be a whole number of at least 1, not {self.every!r}")
        threshold = np.inf if self.threshold is None else positive("threshold", self.threshold)
        return self._limits() | {"every": int(self.every), "threshold": threshold}

    def _rate(self, bend: float) -> float:
        """The learning rate asked for, or one over the largest curvature."""
        return positive("learning_rate", self.learning_rate) if self.learning_rate else 1.0 / max(bend, 1e-300)
