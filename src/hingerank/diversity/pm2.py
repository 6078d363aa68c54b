"""Diversity by proportionality (Dang & Croft 2012)."""

import numpy as np

from hingerank.diversity.base import DiverseRanker, check_share
from hingerank.diversity.kernels import pm2_order
from hingerank.diversity.queries import DiverseQuery


class PM2(DiverseRanker):
    """next = argmax_d  λ·q_b·P(d|b) + (1−λ) Σ_{a≠b} q_a·P(d|a),   q_a = w_a / (2s_a + 1),  b = argmax_a q_a.

    Seats are given to aspects as in elections by the Sainte-Laguë method: after a pick s_a += P(d|a) / Σ_a P(d|a).

    lam: λ in [0, 1], how much the aspect whose turn it is counts against the others.

    Needs `aspects` (w_a is `aspect_weights`); `relevance`, if there, decides between candidates that score the same.

    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), aspects=[[0.9, 0], [0.8, 0], [0, 0.7]], aspect_weights=[0.6, 0.4])
    >>> PM2(lam=0.5).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("aspects",)

    def __init__(self, lam: float = 0.5) -> None:
        self.lam = lam

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        relevance = np.zeros(query.n) if query.relevance is None else query.relevance
        return pm2_order(relevance, query.aspects, query.aspect_weights, check_share("lam", self.lam), top)
