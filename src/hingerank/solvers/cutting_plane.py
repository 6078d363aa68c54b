"""1-slack cutting planes (Joachims 2006) for ½‖w‖² + C·R(w) with a convex, non-negative risk R.

Every evaluation of R at w gives a plane below it, R(v) ≥ b + <g, v>. The best w for all planes so far comes from a
small quadratic programme over the simplex,  max over a of  C b·a - ½‖C sum a_k g_k‖²,  whose value is a lower bound on
the optimum: the gap to the best value seen is the certificate. The risk may be anything with a most violated
constraint: the pairwise hinge here, structured losses elsewhere.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from hingerank.solvers.solution import Certificate, Solution

UNUSED = 30  # a plane without weight for this many iterations is dropped


def cutting_plane(
    oracle: Callable[[np.ndarray], tuple[float, np.ndarray]],
    dimension: int,
    C: float,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 2000,
    max_seconds: float = np.inf,
    callback: Callable[[dict], Any] | None = None,
) -> Solution:
    """Minimise ½‖w‖² + C·R(w) until (value - lower bound) ≤ tol · value. oracle(w) -> R(w), a subgradient of R at w.

    >>> risk = lambda w: (max(0.0, 1 - w[0]), np.array([-1.0 if w[0] < 1 else 0.0]))
    >>> round(float(cutting_plane(risk, 1, C=10.0, tol=1e-9).w[0]), 6)
    1.0
    """
    began = time.perf_counter()
    w = np.zeros(dimension) if w is None else np.array(w, np.float64)
    planes, trace, best, status = _Planes(dimension, C), [], (np.inf, w), "max_iter"
    bound, gap, iteration = 0.0, np.inf, 0
    for iteration in range(1, max_iter + 1):
        risk, slope = oracle(w)
        best = min(best, (0.5 * float(w @ w) + C * float(risk), w), key=lambda pair: pair[0])
        planes.add(np.asarray(slope, np.float64), float(risk) - float(slope @ w))
        w, lower = planes.minimise(max(1e-3 * tol, 1e-14))
        bound = max(bound, lower)
        gap, seconds = (best[0] - bound) / max(abs(best[0]), 1e-300), time.perf_counter() - began
        trace.append({"iteration": iteration, "value": best[0], "lower_bound": bound, "gap": gap, "seconds": seconds})
        if callback is not None and callback(trace[-1]):
            status = "callback"
        elif gap <= tol:
            status = "converged"
        elif seconds > max_seconds:
            status = "max_seconds"
        else:
            # look halfway between the model's answer and the best point: calmer than jumping to the model's answer
            w = 0.5 * (w + best[1]) if iteration % 2 else w
            continue
        break
    certificate = Certificate("relative duality gap", gap, tol, status, iteration, time.perf_counter() - began)
    return Solution(best[1], best[0], certificate, trace, {"lower_bound": bound})


class _Planes:
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

    def minimise(self, tol: float) -> tuple[np.ndarray, float]:
        """(the minimiser of ½‖w‖² + C · highest plane, a lower bound on its value)."""
        quadratic, linear = self.C * self.C * self.gram, self.C * self.offsets
        minimise_on_simplex(quadratic, linear, self.weights, tol, 100_000)
        self.idle = np.where(self.weights > 0, 0, self.idle + 1)
        w = -self.C * (self.weights @ self.slopes)
        return w, float(linear @ self.weights - 0.5 * w @ w)


@njit(cache=True, nogil=True)
def minimise_on_simplex(Q, b, a, tol, max_iter):
    """a <- argmin of ½ aᵀQa - bᵀa over the simplex, moving weight between the two worst entries. O(len(a)) a move."""
    gradient = Q @ a - b
    for _ in range(max_iter):
        i, j = 0, -1
        for k in range(len(a)):
            if gradient[k] < gradient[i]:
                i = k
            if a[k] > 0.0 and (j < 0 or gradient[k] > gradient[j]):
                j = k
        excess = gradient[j] - gradient[i]
        value = 0.0
        for k in range(len(a)):
            value += a[k] * (gradient[k] - b[k])
        if excess <= tol * max(abs(0.5 * value), 1e-300):
            break
        bend = Q[i, i] + Q[j, j] - 2.0 * Q[i, j]
        step = min(excess / bend, a[j]) if bend > 0.0 else a[j]
        a[i] += step
        a[j] = a[j] - step if step < a[j] else 0.0
        for k in range(len(a)):
            gradient[k] += step * (Q[k, i] - Q[k, j])
