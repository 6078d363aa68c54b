"""The few columns a sparse solver works with, and the loss's Hessian in their weights, kept while they still serve."""

from typing import Any

import numpy as np

ALL = 64  # with no more columns than this, all of them are in the working set
JOIN, MOST = 8, 500  # columns that join at once, at least; columns of a working set, at most
DAMPING = 1e-6, 1e-14  # share of each curvature added to it, at first and at last: flat directions follow rounding


class WorkingSet:
    """`indices` and their `design`; a path of problems on the same data hands one WorkingSet from point to point.

    exact: whether the latest Hessian is of the latest point and of all queries.
    """

    def __init__(self, objective: Any):
        self.dimension = objective.dimension
        self.indices: np.ndarray = np.empty(0, np.int64)
        self.design: Any = None
        self.exact, self._fresh, self._stride, self._damping = False, False, 0, DAMPING[0]
        self._hessian: Any = None

    def scores(self, objective: Any, w: np.ndarray) -> np.ndarray:
        """X w through the columns in use."""
        used = np.flatnonzero(w)
        if len(used) == 0:
            return np.zeros(objective.design.shape[0])
        self._hold(objective, used)
        return self.design.scores(w[self.indices])

    def choose(self, objective: Any, pull: np.ndarray, w: np.ndarray) -> None:
        """Hold the weights in use and the zero ones with the largest positive pull."""
        if self.dimension <= ALL:
            self._hold(objective, np.arange(self.dimension))
            return
        used = np.flatnonzero(w)
        eager = np.flatnonzero((pull > 0) & (w == 0))
        chosen = np.union1d(used, largest(eager, pull, max(JOIN, len(used))))
        self._hold(objective, chosen if len(chosen) <= MOST else np.sort(largest(chosen, pull, MOST)))

    def _hold(self, objective: Any, wanted: np.ndarray) -> None:
        """Take out the wanted columns, unless those held have them all and little more."""
        few = len(self.indices) <= max(ALL, 2 * len(wanted))
        if self.design is None or not few or not np.isin(wanted, self.indices, assume_unique=True).all():
            self.design = self._hessian = None  # never hold two sets of columns at once
            self.indices, self.design = wanted, objective.columns(wanted)
            self._stride = objective.stride(self.design)

    def hessian(self, objective: Any, better: bool) -> np.ndarray:
        """The Hessian in the weights held: an earlier one, unless `better` asks for one of now or of more queries."""
        if better and self._hessian is not None and self._fresh:
            self._stride = max(1, self._stride // 4)
        self._fresh = better or self._hessian is None
        if self._fresh:  # kept free of C, which differs along a path
            self._hessian = objective.hessian(self.design, self._stride) / objective.factor
        self.exact = self._fresh and self._stride == 1
        H = self._hessian * objective.factor
        bend = H.diagonal()
        unknown = bend <= 0  # no active pair has such a feature, or none of those looked at: a cautious guess
        guess = bend.max(initial=0.0) or 1.0
        H[np.diag_indices_from(H)] = np.where(unknown, guess, (1.0 + self._damping) * bend)
        return H

    def stepped(self, mu: float) -> None:
        """Take note of a step: the model was good (mu = 1) or went too far."""
        self._damping = max(0.1 * self._damping, DAMPING[1]) if mu == 1.0 else min(10 * self._damping, DAMPING[0])


def largest(candidates: np.ndarray, size: np.ndarray, count: int) -> np.ndarray:
    """The `count` candidates of largest size, or all of them."""
    if len(candidates) <= count:
        return candidates
    return candidates[np.argpartition(-size[candidates], count)[:count]]
