"""The fidelity loss of FRank (Tsai, Liu, Qin, Chen & Ma 2007)."""

import numpy as np
from scipy.special import expit

from hingerank.kernels.pair_losses import FIDELITY
from hingerank.losses.smooth import VisitedPairs


class Fidelity(VisitedPairs):
    """1 - sqrt(sigma(t)),  sigma(t) = 1 / (1 + exp(-t)): the fidelity of "i beats j, surely" and the modelled odds.

    Between 0 and 1, so a hopeless pair costs no more than 1; the price is that it is not convex for t < -log 2.
    """

    name, kind, convex = "fidelity", FIDELITY, False

    def pointwise(self, t):
        hit, miss = expit(t), expit(-t)
        root = np.sqrt(hit)
        return miss / (1.0 + root), -0.5 * root * miss, 0.25 * root * miss * (3.0 * hit - 1.0)
