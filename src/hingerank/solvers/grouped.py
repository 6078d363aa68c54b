"""Proximal Newton over groups of weights: proximal gradient steps find the nonzero groups and weights, which Newton
steps by conjugate gradients then optimise.

A proximal gradient step always decreases the objective and identifies in finitely many steps which groups vanish and
which bounded weights are 0; over the others the objective is smooth, and Newton's method is fast. The duality gap comes
from the gradient that both need.
"""

from typing import Unpack

import numpy as np

from hingerank.arrays import Vector
from hingerank.kernels.threads import AS_BEFORE, LONG, serial_blas
from hingerank.problem.problem import Point
from hingerank.problem.sparse import GroupedProblem
from hingerank.solvers.newton import conjugate_gradients
from hingerank.solvers.run import GAP, Limits, Run, Solution

ROUGH, FEW = 1e-2, 8  # gap to which samples are solved, and halvings of a Newton step before it is abandoned
ENOUGH = 1e-4  # fraction of the predicted decrease that a step must achieve


def grouped_newton(problem: GroupedProblem, w: Vector = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise until the gap relative to gain and objective (solvers/run.py) is at most tol; w: start, or 0."""
    run = Run("gap", **limits)
    run.origin = problem.origin()
    with serial_blas() if problem.dimension > LONG else AS_BEFORE:
        start = np.zeros(problem.dimension) if w is None else problem.structure.allowed(np.asarray(w, np.float64))
        if not start.any():
            for sample in problem.samples():
                assert isinstance(sample, GroupedProblem)
                rough = Run("gap", ROUGH, 20, run.max_seconds - run.seconds)
                rough.origin = run.origin  # a sample's loss is scaled up to that of all queries
                start = _minimise(sample, start, rough).w
        point = _minimise(problem, start, run)
        return run.solution(GAP, point.w, problem.total(point), len(run.trace) - 1, groups=run.trace[-1]["groups"])


def _minimise(problem: GroupedProblem, w: np.ndarray, run: Run) -> Point:
    """The point reached when the run stops."""
    point, size, iteration = problem.at(w), 1.0, 0
    while True:
        value, (gap, least) = problem.total(point), problem.gap(point)
        penalty = value - point.value + problem.structure.smooth(point.w)
        left = run.relative(gap, value, least, penalty)
        used = int(np.count_nonzero(problem.structure.norms(point.w)))
        if run.stops(iteration=iteration, value=value, gap=left, groups=used):
            return point
        before, iteration = point, iteration + 1
        point, size = _proximal_step(problem, point, size)
        point = _newton_step(problem, point, left, run.tol)
        if point is before:
            run.status = "stalled"
            return point


def _proximal_step(problem: GroupedProblem, point: Point, size: float) -> tuple[Point, float]:
    """A step along the gradient of the smooth part, shrunk by the structure, as long as the curvature allows."""
    structure, w, g = problem.structure, point.w, point.gradient
    size *= 4.0
    if size == 4.0 and g.any():  # the curvature along the gradient is a first guess
        size = min(1.0, float(g @ g) / max(float(g @ point.curvature(g)), 1e-300))
    for _ in range(60):
        moved = structure.shrunk(w - size * g, size)
        step = moved - w
        if not step.any():
            return point, size
        trial = problem.at(moved)
        model = point.value + float(g @ step) + float(step @ step) / (2 * size)
        if trial.value <= model + 1e-14 * abs(point.value) and problem.total(trial) <= problem.total(point):
            return trial, size
        size *= 0.25
    return point, size


def _newton_step(problem: GroupedProblem, point: Point, left: float, tol: float) -> Point:
    """Newton's step in the nonzero weights, shortened until it descends; the same point if it never does."""
    structure, w = problem.structure, point.w
    norms = structure.norms(w)
    inverse = np.where(norms > 0, 1.0 / np.maximum(norms, 1e-300), 0.0)[structure.group]
    free = (norms[structure.group] > 0) if structure.amount > 0 else np.ones(len(w), bool)
    free &= ~(structure.bounded & (w <= 0) & (structure.amount * (w * inverse) + point.gradient >= 0))
    direction, across = np.where(free, w, 0.0) * inverse, structure.amount * inverse  # curvature across a direction
    gradient = np.where(free, point.gradient + structure.amount * direction, 0.0)
    size = float(np.linalg.norm(gradient))
    if size == 0.0:
        return point

    def curvature(v: np.ndarray) -> np.ndarray:
        found = point.curvature(v)
        if structure.amount > 0:
            along = np.bincount(structure.group, direction * v, len(norms))[structure.group]
            found = found + across * (v - along * direction)
        return np.where(free, found, 0.0)

    target = 0.5 * size * min(1.0, float(np.sqrt(tol / max(left, 1e-300))))
    step, forecast, _ = conjugate_gradients(curvature, gradient, np.inf, target)
    value = problem.total(point)
    for _ in range(FEW):
        moved = structure.allowed(w + step)
        if structure.amount > 0:  # a group that reversed its direction has passed 0, where it should have stopped
            turned = np.bincount(structure.group, moved * w, len(norms)) <= 0
            moved = np.where(turned[structure.group], 0.0, moved)
        trial = problem.at(moved)
        if value - problem.total(trial) > ENOUGH * max(forecast, 0.0) or (
            forecast <= 1e-12 * abs(value) and problem.gap(trial)[0] < problem.gap(point)[0]
        ):
            return trial
        step, forecast = 0.5 * step, 0.5 * forecast
    return point
