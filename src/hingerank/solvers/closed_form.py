"""The exact minimiser of a least-squares objective."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hingerank.solvers.solution import Certificate, Solution


def closed_form(
    objective: Any,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-6,
    all_C: bool = False,
    max_iter: int = 5,
    max_seconds: float = np.inf,
    callback: Callable[[dict], Any] | None = None,
) -> Solution:
    """Minimise a quadratic f by solving for its Hessian: w <- w - H⁻¹ g(w), once, and again only to mend rounding.

    objective: a LeastSquaresObjective. w: start, default 0; the answer does not depend on it. all_C: decompose the
    matrix in the form that later calls with another C can use. tol, max_iter: until ‖g(w)‖ ≤ tol · ‖g(0)‖.
    """
    began = time.perf_counter()
    point = objective.at(np.zeros(objective.dimension))
    scale, trace = float(np.linalg.norm(point.gradient)), []
    for iteration in range(max_iter + 1):
        relative = float(np.linalg.norm(point.gradient)) / scale if scale > 0 else 0.0
        now = time.perf_counter() - began
        trace.append({"iteration": iteration, "value": point.value, "gradient": relative, "seconds": now})
        stop = callback is not None and callback(trace[-1])
        stalled = iteration > 1 and relative > 0.5 * trace[-2]["gradient"]
        done = {"converged": relative <= tol, "callback": stop, "max_seconds": now > max_seconds, "stalled": stalled}
        status = next((name for name, true in done.items() if true), "max_iter")
        if status != "max_iter" or iteration == max_iter:
            break
        point = objective.at(point.w - objective.minimiser(point.gradient, all_C))
    certificate = Certificate(
        "relative gradient norm", relative, tol, status, len(trace) - 1, time.perf_counter() - began
    )
    return Solution(point.w, point.value, certificate, trace)
