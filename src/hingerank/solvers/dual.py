"""The hinge by dual coordinate descent: the solver that returns a multiplier for every pair.

It lists the pairs because its result has a number for each of them; if only w is wanted, `smoothing` is far faster.
It starts from the nearly optimal multipliers of `smoothing` and improves them pair by pair.
"""

from itertools import count

import numpy as np

from hingerank.problem.hinge import PairDual
from hingerank.problem.problem import Problem
from hingerank.solvers.run import GAP, Callback, Run, Solution
from hingerank.solvers.smoothing import smoothing

EPOCHS_OF_A_SUM = 20  # w is recomputed after this many epochs, so that rounding does not accumulate


def dual_coordinate_descent(
    problem: Problem,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callback = None,
    seed: int = 0,
) -> Solution:
    """Maximise the dual of ½‖w‖² + C sum weight · max(0, m - t) until value at w - dual value, relative to gain and
    objective (solvers/run.py), is at most tol.

    w = sum a_k (x_i - x_j) exactly; the multipliers a and their pairs are in `extra`.
    """
    run, rng = Run("gap", tol, max_iter, max_seconds, callback), np.random.default_rng(seed)
    dual = PairDual(problem)
    run.origin = dual.origin()
    start = smoothing(problem, w, tol=0.5 * tol, max_iter=1000, max_seconds=max_seconds)
    a = dual.multipliers(start.extra["latest"], start.extra["width"])
    w = dual.weights(a)
    for epoch in count():
        (value, apart), bound = dual.at(a, w), dual.value(a, w)
        gap = run.relative(apart, value, 0.5 * float(w @ w))
        if run.stops(early=epoch == 0, iteration=epoch, value=value, lower_bound=bound, gap=gap):
            break
        dual.epoch(rng.permutation(len(a)), a, w)
        if epoch % EPOCHS_OF_A_SUM == EPOCHS_OF_A_SUM - 1:
            w = dual.weights(a)
    extra = {"multipliers": a, "pairs": dual.pairs, "lower_bound": bound}
    return run.solution(GAP, w, value, epoch, **extra)
