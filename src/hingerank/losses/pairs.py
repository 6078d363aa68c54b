"""Pairwise losses: hinge-type ones that list no pairs, smooth ones that visit them, and the interface of all losses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from hingerank.arrays import Floats
from hingerank.kernels.losses import FIDELITY, LOGISTIC, exponential_pass, smooth_curvature_pass, smooth_pass
from hingerank.kernels.sweeps import WindowState, curvature_pass, score_pass
from hingerank.kernels.threads import run_shards
from hingerank.preferences import ExplicitPairs, Preferences, QueryPreferences


@dataclass(frozen=True)
class LossAt:
    """A loss at one score vector: `value`, `gradient` (n,), and the Hessian through `curvature(v)` and `diagonal`.

    moments: for hinge-type losses, each term's weight of the active pairs and sums of (m - t) and (m - t)^2; else None.
    """

    value: float
    gradient: Floats
    curvature: Callable[[Floats], Floats]  # v -> Hessian v
    diagonal: Floats
    moments: Floats | None = None


def check_scores(s: ArrayLike, preferences: Preferences) -> Floats:
    """Scores as float64 for the kernels, after checking that there is one for each row."""
    scores: Floats = np.ascontiguousarray(s, np.float64)
    if scores.shape != (preferences.n_items,):
        raise ValueError(f"scores have shape {scores.shape}, expected one for each of {preferences.n_items} rows")
    return scores


@runtime_checkable
class Loss(Protocol):
    """A function of scores, given preferences; independent of features.

    by_query: whether it is a sum over queries, each term depending only on the query's own scores.
    """

    name: str
    convex: bool
    by_query: bool

    def at(self, s: Floats, preferences: Any) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        ...


class PairLoss(ABC):
    """Sum over pairs of weight * l(s_i - s_j)."""

    name: str
    convex = by_query = True

    @abstractmethod
    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """l(t), l'(t), l''(t)."""

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        """The loss over graded preferences; lists the pairs, unless a subclass has a faster exact form."""
        winner, loser, weight = preferences.pairs()
        return self._explicit(s, ExplicitPairs(winner, loser, len(s), weight))

    def at(self, s: Floats, preferences: Preferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        s = check_scores(s, preferences)
        if isinstance(preferences, ExplicitPairs):
            return self._explicit(s, preferences)
        return self.graded(s, preferences)

    def _explicit(self, s: Floats, pairs: ExplicitPairs) -> LossAt:
        i, j, weight, n = pairs.winners, pairs.losers, pairs.weight, pairs.n_items
        t = s[i] - s[j]
        value, slope, curve = self.pointwise(t)
        slope, curve = weight * slope, weight * curve

        def to_rows(force: Floats) -> Floats:
            return np.asarray(np.bincount(i, force, n) - np.bincount(j, force, n), np.float64)

        return LossAt(
            float(weight @ value),
            to_rows(slope),
            lambda v: to_rows(curve * (v[i] - v[j])),
            np.asarray(np.bincount(i, curve, n) + np.bincount(j, curve, n), np.float64),
            self._moments(t, weight),
        )

    def _moments(self, t: Floats, weight: Floats) -> Floats | None:
        return None


class WindowLoss(PairLoss):
    """l(t) = sum over terms (m, a, b) of  a max(0, m - t) + b max(0, m - t)^2."""

    def __init__(self, name: str, terms: Sequence[tuple[float, float, float]]):
        self.name = name
        self.terms = np.array(terms, np.float64).reshape(-1, 3)

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        value, slope, curve = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        for margin, a, b in self.terms:
            gap, inside = np.maximum(margin - t, 0.0), (t < margin).astype(t.dtype)
            value += a * gap + b * gap**2
            slope -= a * inside + 2 * b * gap
            curve += 2 * b * inside
        return value, slope, curve

    @property
    def margin(self) -> float:
        """The margin from which on a pair costs nothing."""
        return float(self.terms[0, 0])

    def value(self, moments: Floats) -> float:
        """The loss from the moments of its terms' active pairs."""
        return float((self.terms[:, 1:] * moments[:, 1:]).sum())

    def _moments(self, t: Floats, weight: Floats) -> Floats:
        gaps = np.maximum(self.terms[:, :1] - t, 0.0)
        return np.stack([(gaps > 0) @ weight, gaps @ weight, gaps**2 @ weight], axis=1)

    def state(self, preferences: QueryPreferences) -> WindowState:
        """Arrays for the windows of one iterate; the next sort starts from the order stored there."""
        tree, n = preferences.tree, preferences.n_items
        slots = int((tree.node[:, 1] - tree.node[:, 0] + tree.node[:, 3] - tree.node[:, 2]).sum())
        order = np.arange(n, dtype=np.int32) - np.repeat(tree.offsets[:-1], np.diff(tree.offsets)).astype(np.int32)
        window = np.empty((len(self.terms), slots), np.int32)
        return WindowState(order, np.empty(slots, np.int32), window, np.zeros(n))

    def degrees(self, state: WindowState, preferences: QueryPreferences) -> Floats:
        """The diagonal of the score-space Hessian by position: the state's, without pairs of a row with itself."""
        own = preferences.own_pairs
        return state.degree if own is None else state.degree - self.own_curvature * own

    @property
    def own_curvature(self) -> float:
        """What a row paired with itself, at weight 1, adds to the diagonal of a Hessian in which it cancels."""
        margin, _, b = self.terms.T
        return float(4.0 * b[margin > 0].sum())

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        tree, terms, shards = preferences.tree, self.terms, preferences.shards
        state, z = self.state(preferences), np.empty_like(s)
        parts = run_shards(lambda ab: score_pass(s, *ab, tree, state, terms, z), shards)
        moments = np.sum(parts, axis=0) if parts else np.zeros_like(terms)

        def curvature(v: Floats) -> Floats:
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: curvature_pass(v, *ab, tree, state, terms, out), shards)
            return out

        diagonal = np.empty_like(s)
        diagonal[preferences.row_at] = self.degrees(state, preferences)
        return LossAt(self.value(moments), z, curvature, diagonal, moments)


def hinge(margin: float = 1.0) -> WindowLoss:
    """max(0, margin - t)."""
    return WindowLoss("hinge", [(margin, 1.0, 0.0)])


def squared_hinge(margin: float = 1.0) -> WindowLoss:
    """max(0, margin - t)^2."""
    return WindowLoss("squared_hinge", [(margin, 0.0, 1.0)])


def modified_huber() -> WindowLoss:
    """0 for t >= 1, (1 - t)^2 on [-1, 1], -4t below: the squared hinge at 1 minus the one at -1."""
    return WindowLoss("modified_huber", [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)])


def smoothed_hinge(width: float = 1.0, margin: float = 1.0) -> WindowLoss:
    """The hinge with its kink rounded over `width`: (m - t)^2 / 2width near m, m - t - width/2 below m - width.

    Computed as the difference of two squared hinges, it loses about log10(|t| / width) digits.
    """
    if not width > 0:
        raise ValueError(f"width must be positive, not {width!r}")
    return WindowLoss("smoothed_hinge", [(margin, 0.0, 0.5 / width), (margin - width, 0.0, -0.5 / width)])


class VisitedPairs(PairLoss):
    """A smooth loss that has to visit every pair: O(n_q^2) time, O(n_q) memory. Kernels select it by `kind`."""

    kind: int

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        kind, tree, shards = self.kind, preferences.tree, preferences.shards
        z, diagonal = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: smooth_pass(kind, s, *ab, tree, z, diagonal), shards)

        def curvature(v: Floats) -> Floats:
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: smooth_curvature_pass(kind, s, v, *ab, tree, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, diagonal)


class Logistic(VisitedPairs):
    """log(1 + exp(-t)), RankNet's loss."""

    name, kind = "logistic", LOGISTIC

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        miss = expit(-t)
        return np.logaddexp(0.0, -t), -miss, miss * expit(t)


class Exponential(PairLoss):
    """exp(-t), RankBoost's loss. The sum over pairs factors, so it costs O(n log G); badly ordered scores give inf."""

    name = "exponential"

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        with np.errstate(over="ignore"):
            e = np.exp(-t)
        return e, -e, e

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        tree, shards = preferences.tree, preferences.shards

        def sweep(v: Floats) -> tuple[float, Floats, Floats, Floats]:
            v = np.ascontiguousarray(v, np.float64)
            z, diagonal, product = np.empty((3, len(s)))
            values = run_shards(lambda ab: exponential_pass(s, v, *ab, tree, z, diagonal, product), shards)
            return float(sum(values)), z, diagonal, product

        value, z, diagonal, _ = sweep(np.zeros_like(s))
        return LossAt(value, z, lambda v: sweep(v)[3], diagonal)


class Fidelity(VisitedPairs):
    """1 - sqrt(sigma(t)),  sigma(t) = 1 / (1 + exp(-t)): FRank's fidelity between "i beats j" and the modelled odds.

    Between 0 and 1, so a hopeless pair costs at most 1; in exchange it is not convex for t < -log 2.
    """

    name, kind, convex = "fidelity", FIDELITY, False

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        hit, miss = expit(t), expit(-t)
        root = np.sqrt(hit)
        return miss / (1.0 + root), -0.5 * root * miss, 0.25 * root * miss * (3.0 * hit - 1.0)
