"""The exact minimiser of a least-squares objective."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from hingerank.solvers.run import Run, Solution


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
    run = Run("gradient", tol, max_iter, max_seconds, callback)
    point = objective.at(np.zeros(objective.dimension))
    scale = float(np.linalg.norm(point.gradient))
    for iteration in count():
        relative = float(np.linalg.norm(point.gradient)) / scale if scale > 0 else 0.0
        if run.stops(iteration=iteration, value=point.value, gradient=relative):
            break
        if iteration > 1 and relative > 0.5 * run.trace[-2]["gradient"]:
            run.status = "stalled"
            break
        point = objective.at(point.w - objective.minimiser(point.gradient, all_C))
    return run.solution("relative gradient norm", point.w, point.value, iteration)
