"""Explicit query aspect diversification (Santos, Macdonald & Ounis 2010)."""

import numpy as np

from hingerank.diversity.base import DiverseRanker, check_share
from hingerank.diversity.kernels import xquad_order
from hingerank.diversity.queries import DiverseQuery


class XQuAD(DiverseRanker):
    """next = argmax_d  (1−λ)·P(d|q) + λ Σ_a P(a|q)·P(d|a)·Π_{d'∈S} (1 − P(d'|a)).

    lam: λ in [0, 1]; 0 keeps the order by relevance.

    Needs `relevance` and `aspects`.

    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), relevance=[0.9, 0.8, 0.1], aspects=[[1, 0], [1, 0], [0, 1]])
    >>> XQuAD(lam=0.8).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("relevance", "aspects")

    def __init__(self, lam: float = 0.5) -> None:
        self.lam = lam

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        lam = check_share("lam", self.lam)
        return xquad_order(query.relevance, query.aspects, query.aspect_weights, lam, top)
