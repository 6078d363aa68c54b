"""Logistic and exponential pair losses, and what is shared by losses that visit every pair."""

import numpy as np
from scipy.special import expit

from hingerank.kernels.pair_losses import LOGISTIC, exponential_pass, smooth_curvature_pass, smooth_pass
from hingerank.kernels.threads import run_shards
from hingerank.losses.base import LossAt, PairLoss


class VisitedPairs(PairLoss):
    """A smooth loss without a known pair-free form: O(n_q^2) time and O(n_q) memory. `kind` names it to the kernels."""

    kind: int

    def graded(self, s, preferences) -> LossAt:
        kind, tree, shards = self.kind, preferences.tree, preferences.shards
        z, diagonal = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: smooth_pass(kind, s, *ab, tree, z, diagonal), shards)

        def curvature(v):
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: smooth_curvature_pass(kind, s, v, *ab, tree, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, diagonal)


class Logistic(VisitedPairs):
    """log(1 + exp(-t)), RankNet's loss."""

    name, kind = "logistic", LOGISTIC

    def pointwise(self, t):
        miss = expit(-t)
        return np.logaddexp(0.0, -t), -miss, miss * expit(t)


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
