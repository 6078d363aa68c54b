"""Solvers in the kernel's space: those for weights, run unchanged on expansions, and what only a kernel needs.

`newton` and `smoothing` work in any space with sums and inner products (see problem/kernel_space.py). Afterwards
coefficients that are zero at the optimum are set to zero. The dual needs rows, so it takes a factor of K.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.losses import smoothed_hinge
from hingerank.problem.kernel_space import Expansion
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.newton import newton, newton_from
from hingerank.solvers.smoothing import smoothing
from hingerank.solvers.solution import Solution

ROUNDS, STEPS = 3, 20  # of pruning, and Newton steps in each


def kernel_newton(
    objective: Any, f: Any = None, *, tol: float = 1e-3, max_seconds: float = np.inf, **options: Any
) -> Solution:
    """Newton's method with conjugate gradients in the K-inner product, until ‖g(f)‖ ≤ tol · ‖g(0)‖ in that norm.

    A few more steps from the pruned answer keep its zeros: where a row's coefficient and pull are both zero, so are all
    of Newton's directions there.
    """
    deadline = time.perf_counter() + max_seconds
    solution = newton(objective, f, tol=tol, max_seconds=max_seconds, **options)
    if not solution.certificate.converged:
        return solution
    scale, point = float(np.linalg.norm(objective.at(np.zeros(objective.dimension)).gradient)), None
    for _ in range(ROUNDS):
        pruned = prune(objective, solution.w)
        if pruned is None:
            break
        point, _, status = newton_from(objective, pruned, tol, scale, STEPS, deadline)
        if status != "converged":
            break
        relative = float(np.linalg.norm(point.gradient)) / scale if scale > 0 else 0.0
        certificate = replace(solution.certificate, value=relative)
        solution = replace(solution, w=point.w, value=point.value, certificate=certificate)
    return solution


def kernel_smoothing(
    objective: Any, f: Any = None, *, tol: float = 1e-3, max_seconds: float = np.inf, **options: Any
) -> Solution:
    """The hinge by smoothing, until the duality gap is at most tol times the objective; then steps from the pruned
    answer, which keep its zeros, until the gap is as small again."""
    deadline = time.perf_counter() + max_seconds
    solution = smoothing(objective, f, tol=tol, max_seconds=max_seconds, **options)
    if not solution.certificate.converged:
        return solution
    width, margin = solution.extra["width"], float(objective.loss.terms[0, 0])
    smooth = objective.with_loss(smoothed_hinge(width, margin))
    point = prune(smooth, solution.extra["latest"])
    for _ in range(STEPS if point is not None else 0):
        value = objective.at(point.w).value
        gap = (value - solution.extra["lower_bound"]) / max(abs(value), 1e-300)
        if gap <= tol:
            certificate = replace(solution.certificate, value=gap)
            return replace(solution, w=point.w, value=value, certificate=certificate)
        before, (point, _, _) = point, newton_from(smooth, point, 0.0, 1.0, 1, deadline)
        if point is before:
            break
    return solution


def prune(objective: Any, f: Any) -> Any:
    """The point without the coefficients of rows that no pair pulls at, which are zero at the optimum; None where all
    of those are zero already.

    At the optimum a = −C z, and z is zero for rows all of whose pairs are apart by the margin. What is left of their
    coefficients is the solver's tolerance; the caller checks that the certificate holds without it.
    """
    z = objective.loss.at(f.values, objective.preferences).gradient
    idle = (z == 0) & (f.a != 0)
    if not idle.any() or idle.all():
        return None
    return objective.at(np.where(idle, 0.0, f.a))


def kernel_dual(objective: Any, f: Any = None, **options: Any) -> Solution:
    """The hinge by dual coordinate descent on rows of a factor of K, for small data: a multiplier for every pair."""
    solution = dual_coordinate_descent(objective.factored(), None, **options)
    multipliers, pairs, n = solution.extra["multipliers"], solution.extra["pairs"], objective.dimension
    a = np.bincount(pairs.winner, multipliers, n) - np.bincount(pairs.loser, multipliers, n)
    f = Expansion(objective.gram, a)
    return replace(solution, w=f)
