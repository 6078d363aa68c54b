"""Alternate between multipliers and matrices of low rank (Reg-RSVM of Xu et al. 2019), accelerated.

The best multipliers for given matrices are computed not over the pairs but over w, by Newton's method; the best
matrices for given multipliers are these with their singular values shrunk. That is proximal gradient descent in the
matrices, so it is accelerated as such (Nesterov, with restart); the objective never increases.
"""

import time
from itertools import count

import numpy as np

from hingerank.problem.multipliers import RegularizedDual
from hingerank.solvers.newton import newton, newton_from
from hingerank.solvers.run import GAP, Callback, Run, Solution
from hingerank.solvers.smoothing import smoothing

GOALS = 1e-7, 1e-9, 1e-11  # relative gradients of the inner problem: tighter until the objective falls


def shrinkage(
    problem: RegularizedDual,
    *,
    tol: float = 1e-3,
    max_iter: int = 200,
    max_seconds: float = np.inf,
    callback: Callback = None,
) -> Solution:
    """Minimise until the duality gap relative to the value is at most tol; the problem stores a and A."""
    run = Run("gap", tol, max_iter, max_seconds, callback)
    run.origin = 0.0  # at a = 0, A = 0
    if problem.width:
        problem.begin(newton(problem.plain(), tol=1e-4).w, problem.width)
    else:
        found = smoothing(problem.plain(), tol=1e-4).extra
        problem.begin(found["latest"], found["width"])
    value, last, age, shrinking = problem.value(), problem.A, 1.0, 0.0
    for iteration in count():
        gap, rank = run.relative(problem.gap(), value), int(problem.ranks.sum())
        if run.stops(iteration=iteration, value=value, gap=gap, rank=rank, svd_seconds=shrinking):
            break
        state, older = problem.state(), (1.0 + float(np.sqrt(1.0 + 4.0 * age * age))) / 2.0
        if age > 1.0:
            problem.A = problem.A + ((age - 1.0) / older) * (problem.A - last)
        _respond(problem, 1e-4 * gap)
        began = time.perf_counter()
        problem.shrink()
        shrinking += time.perf_counter() - began
        reached = problem.value()
        if reached <= value or age == 1.0:
            value, last, age = reached, state["A"], older
        else:  # undo the round, and start the next without momentum
            problem.come_back(state)
            age = 1.0
    return run.solution(GAP, problem.w, value, iteration)


def _respond(problem: RegularizedDual, tol: float) -> None:
    """a <- the best multipliers for the current A."""
    before, value = problem.state(), problem.value()
    inner = problem.response()
    scale = float(np.linalg.norm(inner.at(np.zeros_like(problem.w)).gradient))
    point = inner.at(problem.w)
    for goal in (max(tol, GOALS[0]), *GOALS[1:]):
        point, _ = newton_from(inner, point, scale, Run("gradient", goal, 100))
        problem.a = inner.multipliers(point.w)
        problem.w, problem.total = problem.combine(problem.a)
        if problem.value() <= value:
            return
    problem.come_back(before)  # already as good as rounding allows
