"""Solvers in the kernel's space: those for weights, run unchanged on expansions, and what only a kernel needs.

`newton` and `smoothing` work in any space with sums and inner products (see problem/kernel_space.py). Afterwards
coefficients that are zero at the optimum are set to zero. The dual needs rows, so it takes a factor of K.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.problem.kernel_space import Expansion
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.newton import newton
from hingerank.solvers.smoothing import smoothing
from hingerank.solvers.solution import Solution


def kernel_newton(objective: Any, f: Any = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """Newton's method with conjugate gradients in the K-inner product, until ‖g(f)‖ ≤ tol · ‖g(0)‖ in that norm."""
    solution = newton(objective, f, tol=tol, **options)
    pruned = prune(objective, solution.w)
    if pruned is None or not solution.certificate.converged:
        return solution
    scale = float(np.linalg.norm(objective.at(np.zeros(objective.dimension)).gradient))
    relative = float(np.linalg.norm(pruned.gradient)) / scale if scale > 0 else 0.0
    if relative > tol:
        return solution
    return replace(solution, w=pruned.w, value=pruned.value, certificate=replace(solution.certificate, value=relative))


def kernel_smoothing(objective: Any, f: Any = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """The hinge by smoothing, until the duality gap is at most tol times the objective."""
    solution = smoothing(objective, f, tol=tol, **options)
    pruned = prune(objective, solution.w)
    if pruned is None or not solution.certificate.converged:
        return solution
    gap = (pruned.value - solution.extra["lower_bound"]) / max(abs(pruned.value), 1e-300)
    if gap > tol:
        return solution
    return replace(solution, w=pruned.w, value=pruned.value, certificate=replace(solution.certificate, value=gap))


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
