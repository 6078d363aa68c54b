"""Losses: functions of scores and preferences, independent of features.

``loss.at(scores, preferences)`` gives a LossAt: value, gradient, Hessian products and Hessian diagonal in score space.
`LOSSES` are pairwise: ``loss.pointwise(t)`` gives the loss of one pair with margin t = s_i - s_j, its slope and
curvature. `LIST_LOSSES` are functions of whole graded lists, `RANKING_LOSSES` of rankings, and piecewise linear.
``make_loss(name)`` makes any of them; ``check_loss(loss)`` tests one of your own.
"""

from collections.abc import Callable, Collection

from hingerank.losses.lists import (
    AllDifferences,
    Cosine,
    GradeDifferences,
    GradeMargins,
    ListLoss,
    PlackettLuce,
    Squared,
    TopOne,
)
from hingerank.losses.pairs import (
    Exponential,
    Fidelity,
    Logistic,
    Loss,
    LossAt,
    PairLoss,
    WindowLoss,
    check_loss,
    hinge,
    modified_huber,
    own_loss,
    smoothed_hinge,
    squared_hinge,
)
from hingerank.losses.rankings import AveragePrecision
from hingerank.registry import did_you_mean

LOSSES = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "modified_huber": modified_huber,
    "smoothed_hinge": smoothed_hinge,
    "logistic": Logistic,
    "exponential": Exponential,
    "fidelity": Fidelity,
    "squared": Squared,
}
LIST_LOSSES = {
    "listnet": TopOne,
    "listmle": PlackettLuce,
    "grade_differences": GradeDifferences,
    "grade_margins": GradeMargins,
    "all_differences": AllDifferences,
    "cosine": Cosine,
}
RANKING_LOSSES = {"average_precision": AveragePrecision}


def no_loss(name: str, known: Collection[str]) -> str:
    """The error message for a name that is not one of these losses."""
    return f"there is no loss {name!r}; the known ones are: {', '.join(sorted(known))}{did_you_mean(name, known)}"


def make_loss(name: str | Loss) -> Loss:
    """The loss registered under `name`, as described in its docstring; a loss object is checked and returned."""
    if not isinstance(name, str):
        return own_loss(name)
    known: dict[str, Callable[[], Loss]] = {**LOSSES, **LIST_LOSSES, **RANKING_LOSSES}
    if name not in known:
        raise ValueError(no_loss(name, known))
    return known[name]()


__all__ = [
    "LIST_LOSSES",
    "LOSSES",
    "RANKING_LOSSES",
    "AllDifferences",
    "AveragePrecision",
    "Cosine",
    "Exponential",
    "Fidelity",
    "GradeDifferences",
    "GradeMargins",
    "ListLoss",
    "Logistic",
    "Loss",
    "LossAt",
    "PairLoss",
    "PlackettLuce",
    "Squared",
    "TopOne",
    "WindowLoss",
    "check_loss",
    "hinge",
    "make_loss",
    "modified_huber",
    "no_loss",
    "smoothed_hinge",
    "squared_hinge",
]
