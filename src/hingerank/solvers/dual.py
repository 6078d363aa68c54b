"""The hinge by dual coordinate descent: the solver that returns a multiplier for every pair.

    max  m sum a_k - ½‖sum a_k (x_i - x_j)‖²,   0 ≤ a_k ≤ C weight_k

It lists the pairs because its answer is a number for each of them; where only w is wanted, `smoothing` is far faster.
It starts from `smoothing`'s nearly optimal multipliers and polishes them pair by pair.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from hingerank.kernels.dual import combine_pairs, dual_epoch, pair_norms
from hingerank.solvers.run import Run, Solution
from hingerank.solvers.smoothing import smoothing


def dual_coordinate_descent(
    objective: Any,
    w: np.ndarray | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callable[[dict], Any] | None = None,
    seed: int = 0,
) -> Solution:
    """Maximise the dual of ½‖w‖² + C sum weight · max(0, m - t) until it is within tol of the best value known.

    The certificate is about the multipliers, returned in `extra` with their pairs; w = sum a_k (x_i - x_j) exactly.
    """
    run, rng = Run("gap", tol, max_iter, max_seconds, callback), np.random.default_rng(seed)
    rows, d = objective.design.rows, objective.dimension
    pairs, margin = objective.preferences.pairs(), float(objective.loss.terms[0, 0])
    limit, norm = objective.C * pairs.weight, pair_norms(rows, pairs.winner, pairs.loser)
    start = smoothing(objective, w, tol=0.5 * tol, max_iter=1000, max_seconds=max_seconds)
    a = _nearly_optimal(objective, pairs, limit, margin, start.extra["width"], start.extra["latest"])
    w = combine_pairs(rows, pairs.winner, pairs.loser, a, d)
    lowest = start.value
    for epoch in count():
        point = objective.at(w)
        bound = margin * float(a.sum()) - 0.5 * float(w @ w)
        lowest = min(lowest, point.value)
        gap = (lowest - bound) / max(abs(lowest), 1e-300)
        if run.stops(early=epoch == 0, iteration=epoch, value=point.value, lower_bound=bound, gap=gap):
            break
        order = rng.permutation(len(a))
        dual_epoch(rows, pairs.winner, pairs.loser, limit, norm, margin, order, a, w)
        if epoch % 20 == 19:  # rounding in the kept w must not pile up
            w = combine_pairs(rows, pairs.winner, pairs.loser, a, d)
    extra = {"multipliers": a, "pairs": pairs, "lower_bound": bound}
    return run.solution("relative duality gap", point.w, float(point.value), epoch, **extra)


def _nearly_optimal(objective, pairs, limit, margin, width, w):
    s = objective.design.scores(w)
    return limit * np.clip((margin - s[pairs.winner] + s[pairs.loser]) / width, 0.0, 1.0)
