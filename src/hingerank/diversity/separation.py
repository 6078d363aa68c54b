"""Structural SVMs over selections: the risk, its planes, and the memory of selections found so far.

    R(w) = Σ_q max_y  loss_q(y) + w·(Ψ_q(y) − Ψ_q*),        Ψ_q* the mean over q's ideal selections

The maximum over all selections is NP-hard; the greedy one is taken, as in the papers. Every selection ever found stays
with its query and competes in later maxima, so planes never contradict a later risk and the gap cannot turn negative.
Planes are true lower bounds of R, but R(w) may be larger than the greedy value: the gap certifies the problem over the
selections that greedy search reached.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hingerank.kernels.threads import run_shards
from hingerank.solvers.cutting_plane import cutting_plane
from hingerank.solvers.solution import Solution

LOSS_SHARES = (1.0, 0.5, 0.25, 0.0)  # greedy search is tried with these parts of the loss; the worst selection counts


class SelectionRisk:
    """The oracle for `cutting_plane`: calling it with w gives (R(w), a subgradient).

    separate[q](w) returns (loss, Ψ(y) − Ψ*) of the most violating selection y of query q that greedy search finds.
    """

    def __init__(self, separate: Sequence[Callable[[np.ndarray], tuple[float, np.ndarray]]], dimension: int) -> None:
        self.separate = list(separate)
        self.losses = [np.zeros(1) for _ in self.separate]  # the ideal itself: no loss, no difference
        self.slopes = [np.zeros((1, dimension)) for _ in self.separate]

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        found = run_shards(lambda search: search(w), self.separate)
        risk, gradient = 0.0, np.zeros_like(w)
        for q, (loss, slope) in enumerate(found):
            if loss + slope @ w > (self.losses[q] + self.slopes[q] @ w).max() + 1e-12:
                self.losses[q] = np.append(self.losses[q], loss)
                self.slopes[q] = np.vstack((self.slopes[q], slope))
            values = self.losses[q] + self.slopes[q] @ w
            worst = int(values.argmax())
            risk += float(values[worst])
            gradient += self.slopes[q][worst]
        return risk, gradient


def minimise_risk(risk: SelectionRisk, dimension: int, C: float, tol: float, max_iter: int) -> Solution:
    """Cutting planes until the answer stands against all selections found on the way, later ones included."""
    trace: list[dict] = []
    began, w = time.perf_counter(), None
    while True:
        solution = cutting_plane(risk, dimension, C, w, tol=tol, max_iter=max_iter - len(trace))
        w, trace = solution.w, trace + solution.trace
        value = 0.5 * float(w @ w) + C * risk(w)[0]
        if value <= solution.value * (1 + tol) or len(trace) >= max_iter:
            break
    certificate = replace(solution.certificate, n_iter=len(trace), seconds=time.perf_counter() - began)
    return replace(solution, value=value, certificate=certificate, trace=trace)
