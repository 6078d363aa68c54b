"""Gauss-Newton steps over factors, all queries at once, for large C, where gradient steps are very slow.

The objective ½‖w(V)‖² - … is steep in at most as many directions as there are features, while gradient steps change one
number or one query at a time. Here w is linearised in V, the box is kept, and a penalty ρ·½‖change‖² keeps the step
where the linear model holds (Levenberg and Marquardt): ρ falls after steps that agree with the model and rises after
others.
"""

from dataclasses import replace
from itertools import count

import numpy as np

from hingerank.kernels.threads import serial_blas
from hingerank.problem.factor_model import FactorModel
from hingerank.problem.multipliers import FactorizedDual
from hingerank.solvers.run import STATIONARY, Callback, Run, Solution

GOOD, POOR = 0.7, 0.3  # fractions of the predicted decrease above which ρ falls, below which it rises
LARGEST = 1e18  # ρ at which no further gain is possible
MOST_FEATURES, MOST_NUMBERS = 400, 50_000_000  # of the rows: a step makes a features² matrix, and copies the rows


def affordable(problem: FactorizedDual) -> bool:
    """Whether these steps are worth their memory and time."""
    n, d = problem.design.shape
    return bool(d <= MOST_FEATURES and n * d * (1 + problem.rank) <= MOST_NUMBERS)


def factor_newton(
    problem: FactorizedDual,
    V: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = 500,
    max_seconds: float = np.inf,
    callback: Callback = None,
    before: Solution | None = None,
) -> Solution:
    """Minimise from V until the projected gradient's norm is at most tol times that of the linear part alone.

    Parameters
    ----------
    problem : see problem/multipliers.py.
    V : the start.
    before : the solution of the solver that computed V; its iterations and seconds count.

    Returns
    -------
    Solution with the weights w(V) and V itself in ``extra["V"]``.
    """
    run, rows = Run("gradient", tol, max_iter, max_seconds, callback), _by_position(problem)
    w, total = problem.weights(V)
    value, rho = 0.5 * float(w @ w) - total, float(problem.tree.widest)
    with serial_blas():
        for iteration in count():
            if run.stops(iteration=iteration, value=value, gradient=problem.stationarity(V, w)):
                break
            model = FactorModel(problem, rows, V, w)
            while True:
                ahead, forecast = model.minimise(rho)
                w_ahead, total = problem.weights(ahead)
                gain = value - (0.5 * float(w_ahead @ w_ahead) - total)
                rho *= 3.0 if not gain > POOR * forecast or not gain > 0 else 0.5 if gain > GOOD * forecast else 1.0
                if gain > 0 or not np.isfinite(gain) or rho > LARGEST:
                    break
            if not gain > 0:
                run.status = "stalled"
                break
            V, w, value = ahead, w_ahead, value - gain
    found = run.solution(STATIONARY, w, value, len(run.trace) - 1, V=V)
    return found if before is None else continued(before, found)


def continued(before: Solution, found: Solution) -> Solution:
    """A solution that includes the trace, iterations and seconds of the solver before it."""
    n, seconds = before.certificate.n_iter, before.certificate.seconds
    later = [
        entry | {"iteration": entry["iteration"] + n, "seconds": entry["seconds"] + seconds}
        for entry in found.trace[1:]
    ]
    certificate = replace(
        found.certificate, n_iter=n + found.certificate.n_iter, seconds=seconds + found.certificate.seconds
    )
    return replace(found, certificate=certificate, trace=before.trace + later)


def _by_position(problem: FactorizedDual) -> np.ndarray:
    """The rows in the order of V's columns."""
    X = problem.design.matrix[problem.preferences.row_at]
    return np.ascontiguousarray(X if isinstance(X, np.ndarray) else X.toarray(), np.float64)
