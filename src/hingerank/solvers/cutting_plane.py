"""1-slack cutting planes (Joachims 2006) for ½‖w‖² + C·R(w) with a convex, non-negative risk R.

Every evaluation of R at w gives a plane below it, R(v) ≥ b + <g, v>. The best w for all planes so far comes from a
small quadratic programme over the simplex,  max over a of  C b·a - ½‖C sum a_k g_k‖²,  whose value is a lower bound on
the optimum: the gap to the best value seen is the certificate. The risk may be anything with a most violated
constraint: the pairwise hinge here, structured losses elsewhere.
"""

from collections.abc import Callable
from itertools import count
from typing import Unpack

import numpy as np

from hingerank.kernels.threads import AS_BEFORE, LONG, serial_blas
from hingerank.problem.problem import Problem
from hingerank.solvers.run import GAP, Limits, Run, Solution, apart

UNUSED = 30  # a plane without weight for this many iterations is dropped


def cutting_plane(
    oracle: Callable[[np.ndarray], tuple[float, np.ndarray]],
    dimension: int,
    C: float,
    w: np.ndarray | None = None,
    *,
    planes: "Planes | None" = None,
    **limits: Unpack[Limits],
) -> Solution:
    """Minimise f = ½‖w‖² + C·R(w) until f - lower bound, relative to gain and objective (solvers/run.py), is at
    most tol. oracle(w) -> R(w), a subgradient of R at w.

    planes: known planes below R to start from; new ones are added. A plane touching R at w by itself gives the lower
    bound f(w) - ½‖w + C·slope‖², which needs no difference of values.

    >>> risk = lambda w: (max(0.0, 1 - w[0]), np.array([-1.0 if w[0] < 1 else 0.0]))
    >>> round(float(cutting_plane(risk, 1, C=10.0, tol=1e-9).w[0]), 6)
    1.0
    """
    run = Run("gap", **limits)
    run.max_iter -= 1  # the first entry is an iteration
    with serial_blas() if dimension > LONG else AS_BEFORE:
        w = np.zeros(dimension) if w is None else np.array(w, np.float64)
        planes, best, bound, own = planes or Planes(dimension, C), (np.inf, w), 0.0, (np.inf, np.inf, w, 0.0)
        if w.any():
            risk, slope = oracle(np.zeros(dimension))
            planes.add(np.asarray(slope, np.float64), float(risk))
            run.origin = C * float(risk)
        for iteration in count(1):
            risk, slope = oracle(w)
            value, v = 0.5 * float(w @ w) + C * float(risk), -C * np.asarray(slope, np.float64)
            if not w.any():
                run.origin = value
            best = min(best, (value, w), key=lambda pair: pair[0])
            if not np.isfinite(value + v @ v):
                run.stops(iteration=iteration, value=best[0], lower_bound=bound, gap=np.nan)
                answer = best
                break
            own = min(own, (0.5 * float((w - v) @ (w - v)), value, w, 0.5 * float(v @ v)), key=lambda known: known[0])
            planes.add(np.asarray(slope, np.float64), float(risk) - float(slope @ w))
            w, lower = planes.minimise(1e-3 * run.tol, max(run.origin - bound, own[3]))
            bound = max(bound, lower)
            between = apart(best[0], bound)
            gap, answer = run.relative(between, best[0]), best
            if own[0] < between:  # values are too close for their difference to be accurate
                gap, answer = run.relative(own[0], own[1], own[3]), own[1:3]
            if run.stops(iteration=iteration, value=answer[0], lower_bound=bound, gap=gap):
                break
            # evaluate halfway between the model's minimiser and the best point: steadier than jumping to the minimiser
            w = 0.5 * (w + best[1]) if iteration % 2 else w
        return run.solution(GAP, answer[1], answer[0], iteration, lower_bound=bound)


def cutting_planes(problem: Problem, w: np.ndarray | None = None, **limits: Unpack[Limits]) -> Solution:
    """Minimise ½‖w‖² + C · loss by planes below the loss."""
    return cutting_plane(problem.risk, problem.dimension, problem.C, w, **limits)


class Planes:
    """The planes found so far and their weights; the first one, R ≥ 0, is never dropped."""

    def __init__(self, dimension: int, C: float):
        self.C, self.slopes, self.offsets = C, np.zeros((1, dimension)), np.zeros(1)
        self.gram, self.weights, self.idle = np.zeros((1, 1)), np.ones(1), np.zeros(1, int)

    def add(self, slope: np.ndarray, offset: float) -> None:
        keep = (self.idle < UNUSED) | (np.arange(len(self.idle)) == 0)
        self.slopes, self.offsets = np.vstack([self.slopes[keep], slope]), np.append(self.offsets[keep], offset)
        cross = self.slopes @ slope
        self.gram = np.block([[self.gram[np.ix_(keep, keep)], cross[:-1, None]], [cross[None, :]]])
        self.weights, self.idle = np.append(self.weights[keep], 0.0), np.append(self.idle[keep], 0)

    def minimise(self, tol: float, gain: float) -> tuple[np.ndarray, float]:
        """(the minimiser of ½‖w‖² + C · highest plane, to within tol times its value and tol times the possible gain, a
        lower bound on its value)."""
        quadratic, linear = self.C * self.C * self.gram, self.C * self.offsets
        self.weights = minimise_on_simplex(quadratic, linear, self.weights, tol, gain)
        self.idle = np.where(self.weights > 0, 0, self.idle + 1)
        w = -self.C * (self.weights @ self.slopes)
        return w, float(linear @ self.weights - 0.5 * w @ w)


def minimise_on_simplex(Q: np.ndarray, b: np.ndarray, a: np.ndarray, tol: float, most: float = np.inf) -> np.ndarray:
    """argmin of ½ aᵀQa - bᵀa over the simplex, by an active set that starts from the nonzero entries of `a`.

    Ends when no more than tol times the value, or times `most` if that is smaller, can be gained.

    The best weights of the entries in use solve linear equations; if some are negative, the step ends where the first
    reaches 0, which is dropped; if all are positive, the entry with the least gradient enters, unless it gains nothing.
    """
    used = np.flatnonzero(a > 0)
    ridge = 1e-15 * (np.diag(Q) + float(np.max(np.abs(b)))) + 1e-300  # keeps repeated and flat planes solvable
    for _ in range(20 * len(b) + 100):
        k = len(used)
        system = np.ones((k + 1, k + 1))
        system[:k, :k], system[k, k] = Q[np.ix_(used, used)] + np.diag(ridge[used]), 0.0
        target = np.linalg.solve(system, np.append(b[used], 1.0))[:k]
        held = a[used]
        if (target < 0).any():
            shrinking = target < held
            room = np.where(shrinking, held / np.where(shrinking, held - target, 1.0), np.inf)
            held = np.maximum(held + min(1.0, float(room.min())) * (target - held), 0.0)
            held[np.argmin(room)] = 0.0
        else:
            held = target
        a = np.zeros(len(b))
        a[used] = held / held.sum()
        if (target < 0).any():
            used = used[held > 0]
            continue
        gradient = Q @ a - b
        entering = int(np.argmin(gradient))
        value = 0.5 * float(a @ (gradient - b))
        if float(gradient @ a) - gradient[entering] <= tol * max(min(abs(value), most), 1e-300) or entering in used:
            break
        used = np.append(used, entering)
    return a
