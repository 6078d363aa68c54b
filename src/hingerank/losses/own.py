"""User-defined losses: what they must have, and a check of their derivatives against finite differences."""

import inspect

import numpy as np
from numpy.typing import ArrayLike

from hingerank.losses.pairs import Loss, LossAt
from hingerank.preferences import GradedPreferences

PARTS = {
    "name": "name, a string",
    "convex": "convex, True or False",
    "by_query": "by_query, whether it is a sum over queries, True or False",
    "at": "at(s, preferences), which returns a LossAt(value, gradient, curvature, diagonal)",
}
STEP = 1e-5
CLOSE = 1e-4  # relative tolerance


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
    _check_queries(loss, s, preferences, here)


def _check_queries(loss: Loss, s: np.ndarray, preferences: GradedPreferences, here: LossAt) -> None:
    moved = s.copy()
    moved[:5] = 1.0 - 2.0 * moved[:5]
    there = _at(loss, moved, preferences).gradient
    if loss.by_query and not np.allclose(there[5:], here.gradient[5:]):
        raise ValueError(
            f"{loss.name} has by_query=True, but scores of one query change another's gradient: set by_query=False"
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
