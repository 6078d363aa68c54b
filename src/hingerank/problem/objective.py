"""The objective  C · loss(X w; preferences) + ½‖w‖²: the one place where features, loss and preferences meet."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hingerank.kernels.sweeps import fused_curvature_pass, fused_loss_pass, hessian_pass
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import PairLoss, WindowLoss
from hingerank.preferences import GradedPreferences, Preferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.design import RowsDesign, add_up


@dataclass(frozen=True)
class Point:
    """An objective at w: value, gradient and Hessian products `curvature(v)`.

    w and gradient are vectors, or whatever else adds, scales and multiplies like one (problem/kernel_space.py).
    hessian(): the whole matrix, where that is worth its cost; first(): a part of Newton's step that is known
    beforehand, with its Hessian product, or None; moments: see LossAt.
    """

    w: Any
    value: float
    gradient: Any
    curvature: Callable[[Any], Any]
    moments: np.ndarray | None
    hessian: Callable[[], np.ndarray] | None = None
    first: Callable[[], tuple[Any, Any] | None] | None = None


class RankObjective:
    """f(w) = ½‖w‖² + C sum over pairs of weight · l(<w, x_i - x_j>).

    design: anything with `shape`, `scores(w)` and `back(z)`. With rows in memory, a hinge-type loss and graded
    preferences every value-and-gradient and every Hessian product reads the rows once (see kernels/passes.py); a design
    that can do the same its own way offers `fused(loss, preferences)`.
    """

    def __init__(self, design: Any, loss: PairLoss, preferences: Preferences, C: float = 1.0):
        if not (np.isfinite(C) and C > 0):
            raise ValueError(f"C must be positive and finite, not {C!r}")
        self.design, self.loss, self.preferences, self.C = design, loss, preferences, float(C)
        self.dimension = design.shape[1]
        self._fused: Any = None
        if isinstance(preferences, GradedPreferences) and isinstance(loss, WindowLoss):
            if hasattr(design, "rows"):
                self._fused = FusedPass(design, loss, preferences)
            elif hasattr(design, "fused"):
                self._fused = design.fused(loss, preferences)

    def at(self, w: np.ndarray) -> Point:
        w = np.array(w, np.float64)
        hessian = None
        if self._fused is not None:
            moments, gradient, curvature = self._fused.at(w)
            loss = self._fused.loss.value(moments)
            if self.dimension <= LARGEST_HESSIAN:

                def hessian():
                    return np.eye(self.dimension) + self.C * self._fused.hessian(w)
        else:
            here = self.loss.at(self.design.scores(w), self.preferences)
            loss, gradient, moments = here.value, self.design.back(here.gradient), here.moments

            def curvature(v):
                return self.design.back(here.curvature(self.design.scores(v)))

        value, slope = 0.5 * float(w @ w) + self.C * loss, w + self.C * gradient
        return Point(w, value, slope, lambda v: v + self.C * curvature(v), moments, hessian)

    def samples(self) -> "list[RankObjective]":
        """The same problem on every k-th query, small to large, where the data are large enough for that to help.

        The loss is scaled up by the share of pair weight left out, so a sample's optimum and Hessian are near the
        whole's. They serve as a start and as a cheap model of the curvature, never as the answer.
        """
        if self._fused is None:
            return []
        preferences = self._fused.preferences
        rows, queries = preferences.n_items, preferences.n_queries
        most = min(rows // max(ROWS_OF_A_SAMPLE, 200 * self.dimension), queries // 100)
        strides = [k for k in (256, 64, 16, 4) if k <= most]
        if strides and strides[0] * 8 <= rows // max(1000, 20 * self.dimension) and strides[0] * 8 <= queries // 20:
            strides.insert(0, strides[0] * 8)
        weight = preferences.weight_per_query if strides else np.empty(0)
        return [self._sample(k, weight) for k in strides[:2] if weight[::k].sum() > 0]

    def _sample(self, stride: int, weight: np.ndarray) -> "RankObjective":
        part = RankObjective.__new__(RankObjective)
        part.__dict__.update(self.__dict__)
        part.C = self.C * weight.sum() / weight[::stride].sum()
        part._fused = self._fused.every(stride)
        return part

    @property
    def recycled(self) -> int:
        """Hessian products worth remembering (solvers/recycling.py): none where vectors cost as much as the rows."""
        costly = max(NUMBERS_OF_A_COSTLY_PRODUCT, 1000 * self.dimension)
        return PRODUCTS_REMEMBERED if getattr(self.design, "numbers", 0) >= costly else 0

    def with_C(self, C: float) -> "RankObjective":
        """The same problem at another C, sharing everything that does not depend on it."""
        other = RankObjective.__new__(RankObjective)
        other.__dict__.update(self.__dict__, C=float(C))
        return other

    def with_loss(self, loss: PairLoss) -> "RankObjective":
        """The same problem under another loss."""
        return RankObjective(self.design, loss, self.preferences, self.C)


ROWS_OF_A_SAMPLE = 20_000
LARGEST_HESSIAN = 400
PRODUCTS_REMEMBERED, NUMBERS_OF_A_COSTLY_PRODUCT = 64, 5_000_000


class FusedPass:
    """Loss and curvature in w by passes that read each row once. Windows are those of the last point evaluated; an
    older point asked for its curvature evaluates itself again."""

    def __init__(self, design: RowsDesign, loss: WindowLoss, preferences: GradedPreferences):
        self.loss, self.preferences = loss, preferences
        self.rows, self.terms, self.tree = design.rows, loss.terms, preferences.tree
        self.state, self.stride = loss.state(preferences), 1
        self.offsets, self.most_shards = preferences.offsets, design.most_shards
        self.shards = cut_shards(self.offsets, ROWS_PER_SHARD, self.most_shards)
        self.latest: np.ndarray | None = None

    def every(self, stride: int) -> "FusedPass":
        """The pass over every stride-th query, with windows of its own making in the same memory."""
        part = FusedPass.__new__(FusedPass)
        part.__dict__.update(self.__dict__)
        part.stride, part.latest = stride, None
        borders = [first for first, _ in cut_shards(self.offsets[::stride], ROWS_PER_SHARD * stride, self.most_shards)]
        part.shards = [(a * stride, b * stride) for a, b in pairwise([*borders, len(self.offsets[::stride])])]
        part.shards[-1] = (part.shards[-1][0], len(self.offsets) - 1)
        return part

    def at(self, w: np.ndarray):
        moments, gradient = self._evaluate(w)

        def curvature(v):
            if self.latest is not w:
                self._evaluate(w)
            return add_up(self._run(fused_curvature_pass, v))

        return moments, gradient, curvature

    def hessian(self, w) -> np.ndarray:
        """The Hessian of the loss in w as a matrix; fewer shards, since a part has d² entries."""
        if self.latest is not w:
            self._evaluate(w)
        shards = cut_shards(self.offsets, ROWS_PER_SHARD, min(4, self.most_shards))
        return add_up(
            run_shards(
                lambda ab: hessian_pass(self.rows, len(w), *ab, 1, self.tree, self.state, self.terms),
                shards,
            )
        )

    def _evaluate(self, w):
        parts = self._run(fused_loss_pass, w)
        self.latest = w
        return add_up([moments for moments, _ in parts]), add_up([g for _, g in parts])

    def _run(self, kernel, v):
        return run_shards(
            lambda ab: kernel(self.rows, v, *ab, self.stride, self.tree, self.state, self.terms), self.shards
        )
