"""Sequential selection with a linear score: f_S(i) = s_i + w · h_S(i), h_S aggregating the distances from i to S."""

from typing import Any

import numpy as np

from hingerank.diversity.kernels import LEAST, MEAN, MOST, best_linear, next_pick

AGGREGATES = {"min": (LEAST,), "mean": (MEAN,), "max": (MOST,), "all": (LEAST, MEAN, MOST), "none": ()}


def aggregate_kinds(name: str) -> np.ndarray:
    """Codes of the aggregates that `name` asks for."""
    if name not in AGGREGATES:
        raise ValueError(f"aggregate is {name!r}, expected one of {', '.join(AGGREGATES)}")
    return np.array(AGGREGATES[name], np.int64)


def select(s: np.ndarray, w: np.ndarray, relations: Any, kinds: np.ndarray, top: int) -> np.ndarray:
    """The greedy order of the first `top` items; O(top · n · relations), asking for `top` − 1 rows of distances.

    relations: anything with row(i) -> (r, n); h of the empty set is 0, so the first item is the one with the best s.
    """
    n = len(s)
    H, taken, workspace = np.zeros((len(w), n)), np.zeros(n, np.bool_), np.empty(n)
    order = np.empty(min(top, n), np.int64)
    pick = best_linear(s, H, w, taken, workspace) if len(order) else 0
    for t in range(len(order)):
        order[t] = pick
        taken[pick] = True
        if t + 1 == len(order):
            break
        if len(w):
            pick = next_pick(s, H, w, taken, workspace, relations.row(pick), t + 1, kinds)
        else:
            pick = best_linear(s, H, w, taken, workspace)
    return order
