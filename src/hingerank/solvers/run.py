"""What every solver's loop does besides its mathematics: keep a clock and a trace, and know when to stop."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hingerank.solvers.solution import Certificate, Solution


class Run:
    """One run of a solver: its clock, its trace, and in `status` why it ended, empty while it goes on.

    measured: the figure of a trace entry that is to come down to tol. max_iter: entries to make after the first.
    callback: called with each entry; a true answer stops.

    >>> run = Run("gap", tol=0.1, max_iter=10)
    >>> while not run.stops(gap=0.5 ** len(run.trace)):
    ...     pass
    >>> run.status, run.solution("duality gap", np.zeros(1), 0.0, n_iter=4).certificate.value
    ('converged', 0.0625)
    """

    def __init__(
        self,
        measured: str,
        tol: float,
        max_iter: float = np.inf,
        max_seconds: float = np.inf,
        callback: Callable[[dict], Any] | None = None,
    ):
        self.measured, self.tol, self.max_iter = measured, tol, max_iter
        self.max_seconds, self.callback, self.began = max_seconds, callback, time.perf_counter()
        self.status, self.trace = "", list[dict[str, Any]]()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def stops(self, *, early: bool = False, **figures: Any) -> bool:
        """Enter the figures into the trace; whether that ends the run. early: too early to have converged."""
        entry = {**figures, "seconds": self.seconds}
        self.trace.append(entry)
        if self.callback is not None and self.callback(entry):
            self.status = "callback"
        elif entry[self.measured] <= self.tol and not early:
            self.status = "converged"
        elif entry["seconds"] > self.max_seconds:
            self.status = "max_seconds"
        elif len(self.trace) > self.max_iter:
            self.status = "max_iter"
        return self.status != ""

    def solution(self, kind: str, w: Any, value: float, n_iter: int, **extra: Any) -> Solution:
        """What was found, with a certificate of the given kind from the last entry."""
        reached = self.trace[-1][self.measured]
        return Solution(
            w, value, Certificate(kind, reached, self.tol, self.status, n_iter, self.seconds), self.trace, extra
        )
