"""The exact minimiser of a least-squares objective."""

from itertools import count

import numpy as np

from hingerank.problem.least_squares import LeastSquaresProblem
from hingerank.solvers.run import GAP, Callback, Run, Solution


def closed_form(
    problem: LeastSquaresProblem,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int = 5,
    max_seconds: float = np.inf,
    callback: Callback = None,
) -> Solution:
    """Minimise a quadratic f by one Newton step w <- w - H⁻¹ g(w), repeated only to correct rounding.

    w: ignored, since the result does not depend on a start. tol, max_iter: until the relative gap (solvers/run.py) is
    at most tol.
    """
    run = Run("gap", tol, max_iter, max_seconds, callback)
    point = problem.at(np.zeros(problem.dimension))
    scale, run.origin = float(np.linalg.norm(point.gradient)), point.value
    for iteration in count():
        gap = run.relative(problem.gap(point), point.value, problem.least_gain(point))
        gradient = float(np.linalg.norm(point.gradient))
        if run.stops(iteration=iteration, value=point.value, gap=gap, gradient=gradient / scale if scale > 0 else 0.0):
            break
        if iteration > 1 and gap > 0.5 * run.trace[-2]["gap"]:
            run.status = "stalled"
            break
        point = problem.at(point.w - problem.minimiser(point.gradient))
    return run.solution(GAP, point.w, point.value, iteration)
