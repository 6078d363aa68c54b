"""Truncated gradient descent (Langford, Li & Zhang 2009): gradient steps that periodically shrink small weights.

    w ← T(w - rate · gradient,  every · rate · gravity,  threshold)   in every `every`-th step,
    T(w, a, t) = w shrunk towards 0 by a, but not past 0, for |w| ≤ t;  w itself for |w| > t.

With every = 1 and no threshold this is proximal gradient descent on loss(w) + gravity ‖w‖₁.
"""

from collections.abc import Callable
from itertools import count

import numpy as np

from hingerank.kernels.rows import dot
from hingerank.solvers.run import Callback, Run, Solution
from hingerank.structures import L1Norm


def truncated_gradient(
    at: Callable[[np.ndarray], tuple[float, np.ndarray]],
    w: np.ndarray,
    rate: float,
    certify: Callable[[Run, float, np.ndarray, np.ndarray], float],
    kind: str,
    *,
    origin: float = np.nan,
    gravity: float = 1.0,
    every: int = 1,
    threshold: float = np.inf,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callback = None,
) -> Solution:
    """Descend until certify(run, loss, gradient, w) ≤ tol. at(w) -> loss, gradient; kind: what `certify` measures;
    origin: the value at w = 0, if `certify` needs it."""
    run, norm = Run("gap", tol, max_iter, max_seconds, callback), L1Norm()
    run.origin = origin
    w = np.array(w, np.float64)
    for iteration in count():
        loss, g = at(w)
        value, selected = loss + gravity * norm.value(w), int(np.count_nonzero(w))
        if run.stops(iteration=iteration, value=value, gap=certify(run, loss, g, w), selected=selected):
            break
        w = w - rate * g
        if not np.isfinite(w).all():
            run.status = "overflow"
            break
        if (iteration + 1) % every == 0:
            w = np.where(np.abs(w) <= threshold, norm.prox(w, every * rate * gravity), w)
    return run.solution(kind, w, value, iteration)


def largest_eigenvalue(product: Callable[[np.ndarray], np.ndarray], v: np.ndarray, rounds: int = 50) -> float:
    """The largest eigenvalue of a positive semidefinite operator by power iteration from v, plus 5 %."""
    value = 0.0
    for _ in range(rounds):
        size = float(np.sqrt(dot(v, v)))
        if size == 0:
            break
        v = product(v / size)
        before, value = value, float(np.sqrt(dot(v, v)))
        if value - before <= 1e-3 * value:
            break
    return 1.05 * value
