"""Exact minimisation along a direction in score space."""

import numpy as np

from hingerank.kernels.rows import dot
from hingerank.problem.sparse import ScorePoint, SparseProblem

MOST_TRIALS = 60


def line_search(
    problem: SparseProblem, point: ScorePoint, direction: np.ndarray, slope: float, step: float, limit: float = 1.0, *,
    extra: float = 0.0, tol: float = 1e-9,
) -> tuple[float, ScorePoint]:  # fmt: skip
    """(mu, the problem at s + mu v):  argmin over 0 < mu ≤ limit of  F(s + mu v) + extra · mu.

    F along a line is convex and, for hinge-type losses, piecewise quadratic: Newton's method on its derivative, kept
    inside a shrinking bracket, needs two or three sweeps. slope: the derivative at 0, negative; step: the first trial.
    Stops when the derivative is at most tol · |slope|, or at the limit if it is still negative there.
    """
    low, high, mu = 0.0, limit, min(max(step, 0.0), limit)
    for _ in range(MOST_TRIALS):
        here = problem.at(point.s + mu * direction)
        slope_here = dot(here.gradient, direction) + extra
        if abs(slope_here) <= tol * abs(slope) or (mu == limit and slope_here < 0):
            break
        if slope_here < 0:
            low = mu
        else:
            high = mu
        curvature = dot(direction, here.curvature(direction))
        newton = mu - slope_here / curvature if curvature > 0 else np.inf
        if newton >= high and high == limit and slope_here < 0:
            newton = limit
        elif not low < newton < high:
            newton = 0.5 * (low + high)
        if newton == mu:
            break
        mu = newton
    return mu, here
