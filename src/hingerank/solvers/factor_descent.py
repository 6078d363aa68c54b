"""Projected gradient descent over factors, query by query (Algorithm 1 of Xu et al. 2019), with monotone steps.

Before each epoch V is extrapolated by a multiple of its last change, if that decreases the objective too.
"""

from collections.abc import Callable
from itertools import count

import numpy as np

from hingerank.arrays import Facts
from hingerank.problem.multipliers import FactorizedDual
from hingerank.solvers.run import STATIONARY, Callback, Run, Solution

LONGER, SHORTER = 1.1, 0.5  # factors of the extrapolation after success and failure


def factor_descent(
    problem: FactorizedDual,
    V: np.ndarray,
    rng: np.random.Generator,
    *,
    tol: float = 1e-3,
    max_iter: int = 500,
    max_seconds: float = np.inf,
    callback: Callback = None,
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 20,
) -> Solution:
    """Minimise from V until the projected gradient's norm is at most tol times that of the linear part alone.

    Parameters
    ----------
    problem : see problem/multipliers.py.
    V : the start.
    rng : for the order of the queries.
    validate : w -> a score; the epoch with the best score is kept, and `patience` epochs without a better one end the
        descent.

    Returns
    -------
    Solution with the weights w(V) and V itself in ``extra["V"]``.
    """
    run, best = Run("gradient", tol, max_iter, max_seconds, callback), _Best(validate, patience)
    w, total = problem.weights(V)
    down = min(1.0, total / max(float(w @ w), 1e-300))  # best multiple of the start, which may be far off at a large C
    V, w, total = np.sqrt(down) * V, down * w, down * total
    value, relative = 0.5 * float(w @ w) - total, 1.0
    last, spare, stride = V.copy(), np.empty_like(V), 0.5
    for epoch in count():
        found = best.see(V, w, value, epoch) if epoch else {}
        relative = problem.stationarity(V, w) if relative <= tol else relative
        if run.stops(iteration=epoch, value=value, gradient=relative, **found) or best.exhausted:
            break
        problem.ahead(V, last, stride, spare)
        w_ahead, total = problem.weights(spare)
        ahead = 0.5 * float(w_ahead @ w_ahead) - total
        if ahead <= value:
            V, last, spare, w, value, stride = spare, V, last, w_ahead, ahead, LONGER * stride
        else:
            last[:], stride = V, SHORTER * stride
        change, relative = problem.epoch(V, w, rng)
        value += change
    V, value, length = best.choose(V, value, len(run.trace))
    del run.trace[length:]
    if validate is not None and run.trace[-1]["gradient"] > tol:
        run.status = "validation"
    w = problem.weights(V)[0]
    return run.solution(STATIONARY, w, value, length - 1, V=V)


class _Best:
    """The factors of the best epoch on validation data, if there are any."""

    def __init__(self, validate: Callable[[np.ndarray], float] | None, patience: int):
        self.validate, self.patience, self.since, self.score = validate, patience, 0, -np.inf
        self.found: tuple[np.ndarray, float, int] | None = None

    @property
    def exhausted(self) -> bool:
        """Whether `patience` epochs have brought no improvement."""
        return self.since > self.patience

    def see(self, V: np.ndarray, w: np.ndarray, value: float, epoch: int) -> Facts:
        """Score the epoch and return the entries for the trace."""
        if self.validate is None:
            return {}
        score = self.validate(w)
        if score > self.score:
            self.score, self.since, self.found = score, 0, (V.copy(), value, epoch + 1)
        self.since += 1
        return {"validation": score}

    def choose(self, V: np.ndarray, value: float, length: int) -> tuple[np.ndarray, float, int]:
        """Factors, value and length of the trace of the epoch to keep."""
        return (V, value, length) if self.found is None else self.found
