"""A relation that is learned from vectors of the candidates: v_i·W v_j, averaged over the chosen j.

    g_S(i) = v_i · W v̄_S,      v̄_S the mean vector of the chosen set S, 0 while it is empty

W of low rank R is PᵀQ, where P and Q have R rows; at full rank every entry of W is free, and the score is linear in the
parameters. This is the neural tensor network for diversification of Xia et al. (2016) without its tanh.
"""

from dataclasses import dataclass

import numpy as np

from hingerank.diversity.kernels import MEAN
from hingerank.diversity.relations import Relations

START = 0.1  # standard deviation of the initial factors: at 0 their gradient would vanish


@dataclass(frozen=True)
class BilinearForm:
    """W of `width` × `width`, of rank at most `rank`, as a vector of `size` numbers: its factors, or all its entries.

    Examples
    --------
    >>> [BilinearForm(4, rank).size for rank in (0, 1, 3, 9)]
    [0, 8, 16, 16]
    """

    width: int
    rank: int

    @property
    def factored(self) -> bool:
        """Whether W is stored as two factors, which is so if they have fewer entries than W."""
        return 0 < 2 * self.rank < self.width

    @property
    def size(self) -> int:
        """The number of parameters to learn."""
        return 0 if not self.rank else self.width * (2 * self.rank if self.factored else self.width)

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return the initial parameters: small random factors, or W = 0."""
        return START * rng.standard_normal(self.size) if self.factored else np.zeros(self.size)

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """Return W; it is empty if the rank is 0."""
        if not self.factored:
            side = self.width if self.rank else 0
            return theta.reshape(side, side)
        P, Q = theta.reshape(2, self.rank, self.width)
        return P.T @ Q

    def gradient(self, theta: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the gradient in the parameters, given the gradient in the entries of W."""
        if not self.factored:
            return slope.ravel()
        P, Q = theta.reshape(2, self.rank, self.width)
        return np.concatenate((Q @ slope.T, P @ slope)).ravel()


def chosen_means(vectors: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return (rankings, ranks, width): the mean vector of the items above each rank, 0 at the first."""
    sums = np.cumsum(vectors[orders], axis=1)
    means = np.zeros_like(sums)
    means[:, 1:] = sums[:, :-1] / np.arange(1, orders.shape[1])[:, None]
    return means


class WithLearned:
    """Distances of a query with v_i·W v_j as one more relation, which is always aggregated by its mean.

    kinds and w are the aggregates and the weights of all relations, as `select` takes them.
    """

    def __init__(
        self, relations: Relations | None, kinds: np.ndarray, w: np.ndarray, vectors: np.ndarray, W: np.ndarray
    ) -> None:
        self.relations, self.vectors, self.products = relations if len(kinds) else None, vectors, vectors @ W.T
        given = w.reshape(len(kinds), -1) if len(kinds) else np.zeros((0, 0))
        if MEAN not in kinds:
            kinds, given = np.append(kinds, MEAN), np.vstack((given, np.zeros((1, given.shape[1]))))
        self.kinds, self.w = kinds, np.column_stack((given, kinds == MEAN)).ravel()

    def row(self, i: int) -> np.ndarray:
        """Return (r + 1, n): all distances from candidate i, the learned one last."""
        own = (self.vectors @ self.products[i])[None]
        return own if self.relations is None else np.vstack((self.relations.row(i), own))
