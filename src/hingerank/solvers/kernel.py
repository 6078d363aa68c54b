"""Solvers in the kernel's space: those for weights, run unchanged on expansions, and steps only a kernel needs.

`newton` and `smoothing` work in any space with sums and inner products (see problem/kernel_space.py). Afterwards
coefficients that are zero at the optimum are set to zero. The dual needs rows, so it uses a factor of K.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.arrays import Vector
from hingerank.losses import smoothed_hinge
from hingerank.problem.kernel_space import KernelProblem
from hingerank.problem.problem import Objective, Point
from hingerank.solvers.hinge import dual_coordinate_descent, hinge_of, smoothing
from hingerank.solvers.newton import conjugate_gradients, newton, try_step
from hingerank.solvers.run import Solution, apart, relative

EXTRA, STEPS = 0.3, 5  # pruning may add this fraction of all products, and this many steps


def kernel_newton(problem: KernelProblem, w: Vector = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """Newton's method with conjugate gradients in the K-inner product, until the relative gap is at most
    tol."""
    solution = newton(problem, w, tol=tol, **options)
    if solution.certificate.converged:
        least = problem.gap(problem.at(solution.w))[1]
        size = min(max(solution.origin - solution.value, least), solution.value)
        target = 0.8 * float(np.sqrt(2.0 * tol * size))  # the gradient norm at which the gap is tol, with a margin
        for point in prune(problem, solution.w, target, EXTRA * solution.trace[-1]["products"]):
            found, least = problem.gap(point)
            gap = relative(found, point.value, solution.origin, least)
            if gap <= tol:
                solution = _accept(solution, point, gap)
                break
    if not problem.gram.single:
        return solution
    point = problem.at(solution.w)
    dual = point.w - point.gradient
    return _certified(solution, *problem.exactly(point.w, dual, point.value - problem.gap(point)[0]))


def kernel_smoothing(problem: KernelProblem, w: Vector = None, *, tol: float = 1e-3, **options: Any) -> Solution:
    """The hinge by smoothing, until the relative duality gap is at most tol."""
    solution = smoothing(problem, w, tol=tol, **options)
    latest, width, lower = (solution.extra[name] for name in ("latest", "width", "lower_bound"))
    if solution.certificate.converged:
        rounded = problem.with_loss(smoothed_hinge(width, hinge_of(problem.loss).margin))
        for near in prune(rounded, latest, 0.0, 5 * solution.certificate.n_iter):
            point = problem.at(near.w)
            gap = relative(apart(point.value, lower), point.value, solution.origin)
            if gap <= tol:
                solution = _accept(solution, point, gap)
                break
    if not problem.gram.single or solution.extra["best_dual"] is None:
        return solution
    dual = solution.extra["best_dual"]
    return _certified(solution, *problem.exactly(solution.w, dual.w - dual.gradient, lower))


def prune(objective: Objective, f: Vector, target: float, products: float) -> Iterator[Point]:
    """Points after further Newton steps that remove the coefficients of rows without an active pair.

    Those are zero at the optimum, a = −C z; near it they are as small as the tolerance. First they are only set to
    zero; then Newton steps follow. Ends when few are left, a step fails, or the budget of products is spent.
    """
    point, spent, f = objective.at(f), 0.0, f.a
    if _idle(point).any():
        yield objective.at(f * ~_idle(point))
    for _ in range(STEPS):
        first = point.first() if point.first is not None and spent <= products else None
        if first is None:
            return
        step, forecast, used = _removing_step(point, first, target)
        following, _ = try_step(objective, point, step, forecast, np.inf)
        if following is point:
            return
        point, spent = following, spent + used + 4
        yield point


def _removing_step(point: Point, first: tuple[Vector, Vector], target: float) -> tuple[Vector, float, int]:
    """Newton's step that removes idle coefficients but need not bring the gradient below `target`.

    If that does not descend and the target is 0, the step is solved more accurately until it does.
    """
    away, product = first
    rest, step, forecast, used = point.gradient + product, 0.0 * away, 0.0, 0
    if np.linalg.norm(rest) > target:
        step, forecast, used = conjugate_gradients(point.curvature, rest, np.inf, target)
    forecast -= away @ point.gradient + 0.5 * (away @ product)
    if forecast > 0 or target > 0:
        return away + step, forecast, used
    return conjugate_gradients(point.curvature, point.gradient, np.inf, target, (away, product))


def _idle(point: Point) -> Vector:
    """Which rows have a coefficient but no active pair: there the gradient a + C z equals the coefficient."""
    return (point.gradient.a == point.w.a) & (point.w.a != 0)


def _accept(solution: Solution, point: Point, certified: float) -> Solution:
    certificate = replace(solution.certificate, value=certified)
    return replace(solution, w=point.w, value=point.value, certificate=certificate)


def _certified(solution: Solution, value: float, lower: float) -> Solution:
    """The solution with its value and bound computed with K in double precision."""
    gap = relative(apart(value, lower), value, solution.origin)
    certificate = replace(solution.certificate, value=gap)
    if certificate.converged and not gap <= certificate.tolerance:
        certificate = replace(certificate, status="rounding")
    return replace(solution, value=value, certificate=certificate)


def kernel_dual(problem: KernelProblem, w: Vector = None, **options: Any) -> Solution:
    """The hinge by dual coordinate descent on rows of a factor of K, for small data: a multiplier for every pair."""
    solution = dual_coordinate_descent(problem.factored(), None, **options)
    multipliers, pairs, n = solution.extra["multipliers"], solution.extra["pairs"], problem.dimension
    a = np.bincount(pairs.winner, multipliers, n) - np.bincount(pairs.loser, multipliers, n)
    return replace(solution, w=problem.expansion(a))
