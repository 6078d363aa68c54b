"""Truncated gradient descent (Langford, Li & Zhang 2009): gradient steps, and now and then small weights drawn to 0.

    w ← T(w - rate · gradient,  every · rate · gravity,  threshold)   in every `every`-th step,
    T(w, a, t) = 0 drawn nearer by a, but not past 0, for |w| ≤ t;  w itself for |w| > t.

With every = 1 and no threshold this is proximal gradient descent on loss(w) + gravity ‖w‖₁.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hingerank.kernels.dots import dot
from hingerank.solvers.solution import Certificate, Solution
from hingerank.structures import L1Norm


def truncated_gradient(
    at: Callable[[np.ndarray], tuple[float, np.ndarray]],
    w: np.ndarray,
    rate: float,
    certify: Callable[[float, np.ndarray, np.ndarray], float],
    kind: str,
    *,
    gravity: float = 1.0,
    every: int = 1,
    threshold: float = np.inf,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callable[[dict], Any] | None = None,
) -> Solution:
    """Descend until certify(loss, gradient, w) ≤ tol. at(w) -> loss, gradient; kind: what `certify` measures."""
    began, trace, status, norm = time.perf_counter(), [], "max_iter", L1Norm()
    w = np.array(w, np.float64)
    for iteration in range(max_iter + 1):
        loss, g = at(w)
        measured, seconds = certify(loss, g, w), time.perf_counter() - began
        trace.append(
            {"iteration": iteration, "value": loss + gravity * norm.value(w), "gap": measured,
             "selected": int(np.count_nonzero(w)), "seconds": seconds}
        )  # fmt: skip
        if callback is not None and callback(trace[-1]):
            status = "callback"
        elif measured <= tol:
            status = "converged"
        elif seconds > max_seconds:
            status = "max_seconds"
        elif iteration < max_iter:
            w = w - rate * g
            if (iteration + 1) % every == 0:
                w = np.where(np.abs(w) <= threshold, norm.prox(w, every * rate * gravity), w)
            continue
        break
    certificate = Certificate(kind, measured, tol, status, iteration, time.perf_counter() - began)
    return Solution(w, trace[-1]["value"], certificate, trace)


def largest_eigenvalue(product: Callable[[np.ndarray], np.ndarray], v: np.ndarray, rounds: int = 50) -> float:
    """The largest eigenvalue of a positive semidefinite operator by power iteration from v, with 5 % on top."""
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
