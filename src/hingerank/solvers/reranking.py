"""Newton steps on a loss whose pair weights follow the ranking: the fixed points of LambdaRank."""

from collections.abc import Callable
from itertools import count

import numpy as np

from hingerank.problem.problem import Problem
from hingerank.solvers.newton import conjugate_gradients, try_step
from hingerank.solvers.run import STATIONARY, Callback, Run, Solution

FULL_STEPS = 10  # before they get shorter, as they must if the ranking alternates


def reranking(
    problem: Problem,
    w: np.ndarray,
    *,
    rank: Callable[[np.ndarray], None],
    tol: float = 1e-3,
    max_iter: int = 200,
    max_seconds: float = np.inf,
    callback: Callback = None,
) -> Solution:
    """Search for a w that minimises the problem whose weights come from the ranking by w itself.

    rank(w) sets the loss's weights from the ranking by w. Between two such calls the problem is convex, and its
    relative duality gap at w (solvers/run.py), with the weights of w's own ranking, is the certificate: at 0 w is a
    fixed point. There need not be one, since weights jump where two rows swap ranks; steps then shrink as 1/k and
    settle in between.
    """
    run, radius = Run("gap", tol, max_iter, max_seconds, callback), np.inf
    for iteration in count():
        rank(w)
        point = problem.at(w)
        run.origin, gradient = problem.origin(), float(np.linalg.norm(point.gradient))
        gap = run.relative(problem.gap(point), point.value, problem.least_gain(point))
        if run.stops(iteration=iteration, value=point.value, gap=gap):
            return run.solution(STATIONARY, w, point.value, iteration)
        step, forecast, _ = conjugate_gradients(point.curvature, point.gradient, radius, 0.1 * gradient)
        following, radius = try_step(problem, point, step, forecast, radius)
        w = w + min(1.0, FULL_STEPS / (iteration + 1)) * (following.w - w)
    raise AssertionError("count() does not end")
