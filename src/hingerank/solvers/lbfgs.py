"""SciPy's L-BFGS with the trace, limits and certificate of every other solver."""

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import scipy.optimize

from hingerank.kernels.threads import serial_blas
from hingerank.solvers.run import STATIONARY, Limits, Run, Solution

CALLS = 4  # evaluations allowed per iteration, on average


def lbfgs(
    at: Callable[[np.ndarray], tuple[float, np.ndarray]],
    w: np.ndarray,
    *,
    measure: Callable[[np.ndarray], float] | None = None,
    **limits: Unpack[Limits],
) -> Solution:
    """Descend from w until the gradient's norm is at most tol times that at w, or measure(gradient) at most tol.

    at: w -> (value, gradient), of any differentiable function; if it is not convex the result is a stationary point.
    measure: gradient at the last evaluated point -> how stationary that is.
    """
    run = Run("gradient", **limits)
    scale, reached = 0.0, (np.inf, w, np.inf)  # value, w and gradient norm of the last iterate

    def evaluate(w: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal reached
        value, gradient = at(w)
        reached = float(value), w.copy(), float(measure(gradient) if measure else np.linalg.norm(gradient))
        return reached[0], gradient

    def step(found: Any) -> None:
        """Called after each iteration; SciPy's last evaluation may have been of a longer step."""
        if not np.array_equal(found, reached[1]):
            evaluate(found)
        relative = reached[2] / scale if scale > 0 else 0.0
        if run.stops(iteration=len(run.trace), value=reached[0], gradient=relative):
            raise StopIteration

    with serial_blas():  # its matrices are tiny, and sums of long vectors would depend on the number of threads
        evaluate(w)
        scale, nit = 1.0 if measure else reached[2], 0
        try:
            step(w)
        except StopIteration:
            pass
        else:
            options = {"maxiter": run.max_iter + 1, "maxfun": CALLS * (run.max_iter + 1), "ftol": 0.0, "gtol": 0.0}
            found = scipy.optimize.minimize(evaluate, w, jac=True, method="L-BFGS-B", callback=step, options=options)
            nit = int(found.nit)
            if not np.array_equal(found.x, reached[1]):
                evaluate(found.x)
    run.status = run.status or "stalled"
    kind = STATIONARY if measure else "relative gradient norm"
    return run.solution(kind, reached[1], reached[0], nit)
