"""Losses: functions of scores and preferences, blind to features.

``loss.at(scores, preferences)`` gives a LossAt: value, gradient, Hessian products and Hessian diagonal in score space.
``loss.pointwise(t)`` gives the loss of one pair with margin t = s_i - s_j, its slope and curvature.
"""

from hingerank.losses.base import LossAt, PairLoss
from hingerank.losses.smooth import Exponential, Logistic
from hingerank.losses.windows import WindowLoss, hinge, modified_huber, smoothed_hinge, squared_hinge

LOSSES = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "modified_huber": modified_huber,
    "smoothed_hinge": smoothed_hinge,
    "logistic": Logistic,
    "exponential": Exponential,
}

__all__ = [
    "LOSSES",
    "Exponential",
    "Logistic",
    "LossAt",
    "PairLoss",
    "WindowLoss",
    "hinge",
    "modified_huber",
    "smoothed_hinge",
    "squared_hinge",
]
