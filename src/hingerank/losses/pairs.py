"""The interface of all losses and a check of user-defined ones; pairwise losses: hinge-type ones that list no pairs,
smooth ones that visit them, and thresholds in the role of the other row."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import expit

from hingerank.arrays import ArrayLike, Floats
from hingerank.kernels.losses import FIDELITY, LOGISTIC, exponential_pass, smooth_curvature_pass, smooth_pass
from hingerank.kernels.sweeps import WindowState, curvature_pass, score_pass
from hingerank.kernels.threads import run_shards
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences, QueryPreferences

PARTS = {
    "name": "name, a string",
    "convex": "convex, True or False",
    "by_query": "by_query, whether it is a sum over queries, True or False",
    "at": "at(s, preferences), which returns a LossAt(value, gradient, curvature, diagonal)",
}
STEP = 1e-5  # of finite differences
CLOSE = 1e-4  # relative tolerance of finite differences
STEPS, EXACT = 100, 1e-14  # most steps of the search for a threshold, and the relative width at which it stops


Shards = Sequence[tuple[int, int]]
Product = Callable[[Floats], Floats]


@dataclass(frozen=True)
class LossAt:
    """A loss at one score vector: `value`, `gradient` (n,), and the Hessian through `curvature(v)` and `diagonal`.

    moments: for hinge-type losses, each term's weight of the active pairs and sums of (m - t) and (m - t)^2; else None.
    """

    value: float
    gradient: Floats
    curvature: Product  # v -> Hessian v
    diagonal: Floats
    moments: Floats | None = None


def check_scores(s: ArrayLike, preferences: Preferences) -> Floats:
    """Scores as float64 for the kernels, after checking that there is one for each row."""
    scores: Floats = np.ascontiguousarray(s, np.float64)
    if scores.shape != (preferences.n_items,):
        raise ValueError(f"scores have shape {scores.shape}, expected one for each of {preferences.n_items} rows")
    return scores


def product_by(sweep: Callable[[Floats, tuple[int, int], Floats], object], shards: Shards) -> Product:
    """v -> the vector that sweep(v, shard, out) writes shard by shard."""

    def product(v: Floats) -> Floats:
        v, out = np.ascontiguousarray(v, np.float64), np.empty(len(v))
        run_shards(lambda ab: sweep(v, ab, out), shards)
        return out

    return product


def loss_by(sweep: Callable[..., float], n: int, shards: Shards) -> LossAt:
    """The loss of n rows from sweep(v, shard, gradient, diagonal, Hessian times v) -> value."""

    def at(v: Floats) -> tuple[float, Floats, Floats, Floats]:
        v, out = np.ascontiguousarray(v, np.float64), np.empty((3, n))
        values = run_shards(lambda ab: sweep(v, ab, *out), shards)
        return float(sum(values)), *out

    value, gradient, diagonal, _ = at(np.zeros(n))
    return LossAt(value, gradient, lambda v: at(v)[3], diagonal)


@runtime_checkable
class Loss(Protocol):
    """A function of scores, given preferences; independent of features.

    by_query: whether it is a sum over queries, each term depending only on the query's own scores. Such a loss is also
    evaluated on some of the queries alone: blocks of rows that are read one after the other, and samples.
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
        own, (margin, _, b) = preferences.own_pairs, self.terms.T
        return state.degree if own is None else state.degree - float(4.0 * b[margin > 0].sum()) * own

    def graded(self, s: Floats, preferences: QueryPreferences) -> LossAt:
        tree, terms, shards = preferences.tree, self.terms, preferences.shards
        state, z = self.state(preferences), np.empty_like(s)
        parts = run_shards(lambda ab: score_pass(s, *ab, tree, state, terms, z), shards)
        moments = np.sum(parts, axis=0) if parts else np.zeros_like(terms)
        curvature = product_by(lambda v, ab, out: curvature_pass(v, *ab, tree, state, terms, out), shards)
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
        return visit_pairs(self.kind, s, preferences)


def visit_pairs(kind: int, s: Floats, preferences: QueryPreferences, about: tuple[np.ndarray, ...] = ()) -> LossAt:
    """The sum over all pairs; `about` is what their further weights are computed from (`further_weight`)."""
    tree, shards, (z, diagonal) = preferences.tree, preferences.shards, np.empty((2, len(s)))
    values = run_shards(lambda ab: smooth_pass(kind, s, about, *ab, tree, z, diagonal), shards)
    curvature = product_by(lambda v, ab, out: smooth_curvature_pass(kind, s, v, about, *ab, tree, out), shards)
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
        tree = preferences.tree
        return loss_by(lambda v, ab, *out: exponential_pass(s, v, *ab, tree, *out), len(s), preferences.shards)


class Fidelity(VisitedPairs):
    """1 - sqrt(sigma(t)),  sigma(t) = 1 / (1 + exp(-t)): FRank's fidelity between "i beats j" and the modelled odds.

    Between 0 and 1, so a hopeless pair costs at most 1; in exchange it is not convex for t < -log 2.
    """

    name, kind, convex = "fidelity", FIDELITY, False

    def pointwise(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        hit, miss = expit(t), expit(-t)
        root = np.sqrt(hit)
        return miss / (1.0 + root), -0.5 * root * miss, 0.25 * root * miss * (3.0 * hit - 1.0)


def own_loss(loss: object) -> Loss:
    """The loss, if it has all that solvers need; a ValueError says what is missing."""
    if inspect.isclass(loss):
        raise ValueError(f"loss is the class {loss.__name__}: pass an object, {loss.__name__}()")
    if not isinstance(loss, Loss):
        missing = [words for part, words in PARTS.items() if getattr(loss, part, None) is None]
        raise ValueError(
            f"loss must be a name such as 'squared_hinge' or a loss object; {type(loss).__name__} has no "
            f"{'; no '.join(missing)}. A class derived from hingerank.losses.PairLoss only needs name and pointwise(t)"
        )
    return loss


def check_loss(loss: Loss, *, curvature: bool = True, seed: int = 0) -> None:
    """Check a loss of your own on random scores against finite differences; a ValueError says what is wrong.

    Parameters
    ----------
    loss : a loss object
    curvature : bool, default True
        Also compare the Hessian (``curvature(v)``, ``diagonal``) with differences of the gradient; False for a loss
        whose curvature is an approximation.
    seed : int
        Seed of the random scores.

    Examples
    --------
    >>> from hingerank.losses import Logistic
    >>> check_loss(Logistic())
    """
    own_loss(loss)
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 5, 11, 14])
    preferences = GradedPreferences(rng.integers(0, 3, 14).astype(float), offsets)
    s, v = 1.5 * rng.normal(size=(2, 14))
    here = _at(loss, s, preferences)
    slope = (_at(loss, s + STEP * v, preferences).value - _at(loss, s - STEP * v, preferences).value) / (2 * STEP)
    _compare(loss, "gradient", float(here.gradient @ v), slope, "differences of the value")
    if curvature:
        ahead, behind = (_at(loss, s + sign * STEP * v, preferences).gradient for sign in (1, -1))
        found = np.asarray(here.curvature(v))
        _compare(loss, "curvature(v)", found, (ahead - behind) / (2 * STEP), "differences of the gradient")
        diagonal = np.array([here.curvature(row)[i] for i, row in enumerate(np.eye(14))])
        _compare(loss, "diagonal", np.asarray(here.diagonal), diagonal, "curvature(v) of unit vectors")
        if loss.convex and float(v @ found) < -CLOSE * max(1.0, float(np.abs(found).max())):
            raise ValueError(
                f"{loss.name} has convex=True, but v·curvature(v) is {float(v @ found):.3g}, below 0: set convex=False "
                "or correct the curvature"
            )
    if loss.by_query:
        parts = [_at(loss, s[a:b], preferences.between(q, q + 1)) for q, (a, b) in enumerate(pairwise(offsets))]
        total, gradient = sum(part.value for part in parts), np.concatenate([part.gradient for part in parts])
        if not np.isclose(total, here.value) or not np.allclose(gradient, here.gradient):
            raise ValueError(
                f"{loss.name} has by_query=True, but is no sum over queries: their values alone add up to {total:.6g} "
                f"and not to {here.value:.6g}, or one of them changes another's gradient: set by_query=False"
            )


def _at(loss: Loss, s: np.ndarray, preferences: GradedPreferences) -> LossAt:
    found = loss.at(s.copy(), preferences)
    if not isinstance(found, LossAt):
        raise ValueError(f"{loss.name}.at returned {type(found).__name__}, expected hingerank.losses.LossAt")
    if not isinstance(found.value, float | np.floating) or not np.isfinite(found.value):
        raise ValueError(f"{loss.name}: value is {found.value!r}, expected a finite number")
    for name in ("gradient", "diagonal"):
        array = np.asarray(getattr(found, name))
        if array.shape != s.shape or not np.isfinite(array).all():
            raise ValueError(
                f"{loss.name}: {name} has shape {array.shape}, expected {len(s)} finite numbers, one per row"
            )
    return found


def _compare(loss: Loss, what: str, given: ArrayLike, wanted: ArrayLike, source: str) -> None:
    found, expected = np.atleast_1d(given), np.atleast_1d(wanted)
    if found.shape != expected.shape:
        raise ValueError(f"{loss.name}: {what} has shape {found.shape}, expected {expected.shape}")
    gap = np.abs(found - expected)
    worst = int(gap.argmax())
    if not gap[worst] <= CLOSE * max(1.0, float(np.abs(expected).max())):
        raise ValueError(
            f"{loss.name}: {what} is {found[worst]:.6g} where {source} give {expected[worst]:.6g}: one of "
            "the two formulas is wrong"
        )


class Ordinal:
    """min over b of  sum over rows i and thresholds k of  l(±(s_i - b_k)),  + where the grade of i is above k.

    There is a threshold between every two neighbouring grades, and l is a smooth pairwise loss: a threshold takes the
    role of the other row. The best thresholds are computed for each s, so this is a function of s alone, convex like l;
    its gradient is the partial one, and its Hessian that of s and b with b eliminated (the Schur complement). The rows
    above k + 1 are among those above k, so the best thresholds ascend. Queries have no effect. O(n G).
    """

    by_query = False

    def __init__(self, loss: PairLoss):
        self.loss, self.name, self.convex = loss, f"{loss.name} of thresholds", loss.convex

    def at(self, s: Floats, preferences: Any) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        if not isinstance(preferences, GradedPreferences):
            raise ValueError(
                f"the loss {self.name!r} cannot learn from winners or single comparisons: give rows with grades"
            )
        s, y = check_scores(s, preferences), preferences.y
        m = np.ones(len(s)) if preferences.item_weight is None else preferences.item_weight
        value, gradient, curvatures = 0.0, np.zeros(len(s)), []
        for side, b in zip(sides(y, m), self.thresholds(s, y, m), strict=True):
            cost, slope, curvature = self.loss.pointwise(side * (s - b))
            value += float(m @ cost)
            gradient += m * side * slope
            curvatures.append(m * curvature)
        totals = [max(float(c.sum()), np.finfo(float).tiny) for c in curvatures]

        def product(v: Floats) -> Floats:
            each = (c * (v - float(c @ v) / total) for c, total in zip(curvatures, totals, strict=True))
            return sum(each, np.zeros(len(s)))

        diagonal = sum((c * (1.0 - c / t) for c, t in zip(curvatures, totals, strict=True)), np.zeros(len(s)))
        return LossAt(value, gradient, product, diagonal)

    def thresholds(self, s: Floats, y: Floats, m: Floats) -> Floats:
        """The best thresholds for scores s, ascending; y, m: grades and weights of the rows."""
        return np.array([self._threshold(s, side, m) for side in sides(y, m)])

    def _threshold(self, s: Floats, side: Floats, m: Floats) -> float:
        """The zero of the slope in b, which never decreases, by Newton's method within a bracket."""

        def slope(b: float) -> tuple[float, float]:
            _, first, second = self.loss.pointwise(side * (s - b))
            return -float(m @ (side * first)), float(m @ second)

        low, high, width = float(s.min()), float(s.max()), 1.0
        while slope(low - width)[0] > 0 or slope(high + width)[0] < 0:
            width *= 2.0
        low, high = low - width, high + width
        b = 0.5 * (low + high)
        for _ in range(STEPS):
            first, second = slope(b)
            low, high = (low, b) if first > 0 else (b, high) if first < 0 else (b, b)
            if high - low <= EXACT * max(1.0, abs(b)):
                break
            step = b - first / second if second > 0 else np.inf
            b = step if low < step < high else 0.5 * (low + high)
            if step == b and abs(first) <= EXACT * second * max(1.0, abs(b)):
                break
        return b


def sides(y: Floats, m: Floats) -> list[Floats]:
    """For each threshold between the grades of rows with a weight, 1 for rows above it and -1 for those below."""
    grades = np.unique(y[m > 0])
    return [np.where(y > grade, 1.0, -1.0) for grade in grades[:-1]]
