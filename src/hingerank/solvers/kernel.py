"""Solvers in the kernel's space: those for weights, run unchanged on expansions, and what only a kernel needs.

`newton` and `smoothing` work in any space with sums and inner products (see problem/kernel_space.py). Afterwards
coefficients that are zero at the optimum are set to zero. The dual needs rows, so it takes a factor of K.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.losses import smoothed_hinge
from hingerank.problem.kernel_space import Expansion
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.newton import conjugate_gradients, newton, try_step
from hingerank.solvers.run import Solution
from hingerank.solvers.smoothing import smoothing

EXTRA, STEPS = 0.3, 5  # share of all products that pruning may add, and its most steps


def kernel_newton(objective: Any, f: Any = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """Newton's method with conjugate gradients in the K-inner product, until ‖g(f)‖ ≤ tol · ‖g(0)‖ in that norm."""
    solution = newton(objective, f, tol=tol, **options)
    if not solution.certificate.converged:
        return solution
    scale = float(np.linalg.norm(objective.at(np.zeros(objective.dimension)).gradient))
    for point in prune(objective, solution.w, 0.8 * tol * scale, EXTRA * solution.trace[-1]["products"]):
        relative = float(np.linalg.norm(point.gradient)) / scale
        if relative <= tol:
            return _accept(solution, point, relative)
    return solution


def kernel_smoothing(objective: Any, f: Any = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """The hinge by smoothing, until the duality gap is at most tol times the objective."""
    solution = smoothing(objective, f, tol=tol, **options)
    if not solution.certificate.converged:
        return solution
    width, margin = solution.extra["width"], float(objective.loss.terms[0, 0])
    smooth = objective.with_loss(smoothed_hinge(width, margin))
    for near in prune(smooth, solution.extra["latest"], 0.0, 5 * solution.certificate.n_iter):
        point = objective.at(near.w)
        gap = (point.value - solution.extra["lower_bound"]) / max(abs(point.value), 1e-300)
        if gap <= tol:
            return _accept(solution, point, gap)
    return solution


def prune(objective: Any, f: Any, target: float, products: float) -> Iterator[Any]:
    """Points after further Newton steps that remove the coefficients of rows no pair pulls at (see KernelObjective).

    Those are zero at the optimum, a = −C z; near it they are of the size of the tolerance. First they are merely set to
    zero; then come Newton's steps. Ends when few are left, a step fails, or it has cost enough products.
    """
    point, spent, f = objective.at(f), 0.0, f.a
    if _idle(point).any():
        yield objective.at(np.where(_idle(point), 0.0, f))
    for _ in range(STEPS):
        first = point.first() if spent <= products else None
        if first is None:
            return
        step, forecast, used = _removing_step(point, first, target)
        following, _ = try_step(objective, point, step, forecast, np.inf)
        if following is point:
            return
        point, spent = following, spent + used + 4
        yield point


def _removing_step(point: Any, first: tuple[Any, Any], target: float) -> tuple[Any, float, int]:
    """Newton's step that removes idle coefficients and otherwise need not bring the gradient below `target`.

    Where that leads nowhere and the target is 0, the step is solved until it leads somewhere.
    """
    away, bent = first
    rest, step, forecast, used = point.gradient + bent, 0.0 * away, 0.0, 0
    if np.linalg.norm(rest) > target:
        step, forecast, used = conjugate_gradients(point.curvature, rest, np.inf, target)
    forecast -= away @ point.gradient + 0.5 * (away @ bent)
    if forecast > 0 or target > 0:
        return away + step, forecast, used
    return conjugate_gradients(point.curvature, point.gradient, np.inf, target, (away, bent))


def _idle(point: Any) -> np.ndarray:
    """Which rows have a coefficient but no pull: there the gradient a + C z is the coefficient itself."""
    return (point.gradient.a == point.w.a) & (point.w.a != 0)


def _accept(solution: Solution, point: Any, certified: float) -> Solution:
    certificate = replace(solution.certificate, value=certified)
    return replace(solution, w=point.w, value=point.value, certificate=certificate)


def kernel_dual(objective: Any, f: Any = None, **options: Any) -> Solution:
    """The hinge by dual coordinate descent on rows of a factor of K, for small data: a multiplier for every pair."""
    solution = dual_coordinate_descent(objective.factored(), None, **options)
    multipliers, pairs, n = solution.extra["multipliers"], solution.extra["pairs"], objective.dimension
    a = np.bincount(pairs.winner, multipliers, n) - np.bincount(pairs.loser, multipliers, n)
    f = Expansion(objective.gram, a)
    return replace(solution, w=f)
