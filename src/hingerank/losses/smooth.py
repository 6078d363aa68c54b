"""Logistic and exponential pair losses."""

import numpy as np
from scipy.special import expit

from hingerank.kernels.pair_losses import exponential_pass, logistic_curvature_pass, logistic_pass
from hingerank.kernels.threads import run_shards
from hingerank.losses.base import LossAt, PairLoss


class Logistic(PairLoss):
    """log(1 + exp(-t)), RankNet's loss. No pair-free form is known: O(n_q^2) time and O(n_q) memory."""

    name = "logistic"

    def pointwise(self, t):
        miss = expit(-t)
        return np.logaddexp(0.0, -t), -miss, miss * expit(t)

    def graded(self, s, preferences) -> LossAt:
        tree, shards = preferences.tree, preferences.shards
        z, diagonal = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: logistic_pass(s, *ab, tree, z, diagonal), shards)

        def curvature(v):
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: logistic_curvature_pass(s, v, *ab, tree, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, diagonal)


class Exponential(PairLoss):
    """exp(-t), RankBoost's loss. Its pairs factor, so it costs O(n log G); scores far out of order overflow to inf."""

    name = "exponential"

    def pointwise(self, t):
        with np.errstate(over="ignore"):
            e = np.exp(-t)
        return e, -e, e

    def graded(self, s, preferences) -> LossAt:
        tree, shards = preferences.tree, preferences.shards

        def sweep(v):
            v = np.ascontiguousarray(v, np.float64)
            z, diagonal, pull = np.empty((3, len(s)))
            values = run_shards(lambda ab: exponential_pass(s, v, *ab, tree, z, diagonal, pull), shards)
            return float(sum(values)), z, diagonal, pull

        value, z, diagonal, _ = sweep(np.zeros_like(s))
        return LossAt(value, z, lambda v: sweep(v)[3], diagonal)
