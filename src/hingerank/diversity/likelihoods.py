"""Plackett-Luce likelihoods of rankings, for a score that depends on the items chosen before, and a learned relation.

The relation is learned from vectors of the candidates: v_i·W v_j, averaged over the chosen j.

    g_S(i) = v_i · W v̄_S,      v̄_S the mean vector of the chosen set S, 0 while it is empty

W of low rank R is PᵀQ, where P and Q have R rows; at full rank every entry of W is free, and the score is linear in the
parameters. This is the neural tensor network for diversification of Xia et al. (2016) without its tanh.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hingerank.diversity.kernels import MEAN, orders_likelihood
from hingerank.diversity.queries import DiverseQuery
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


@dataclass(frozen=True, eq=False)
class OrderedQuery:
    """Features, rankings of equal length (row numbers, best first) and the distances of every item they use.

    rows[slot[i]] is the (r, n) row of item i; items that no ranking uses have no row.
    """

    X: np.ndarray
    orders: np.ndarray
    rows: np.ndarray
    slot: np.ndarray
    vectors: np.ndarray

    @cached_property
    def means(self) -> np.ndarray:
        """(rankings, ranks, width): the mean vector of the items above each rank, 0 at the first."""
        sums = np.cumsum(self.vectors[self.orders], axis=1)
        means = np.zeros_like(sums)
        means[:, 1:] = sums[:, :-1] / np.arange(1, self.orders.shape[1])[:, None]
        return means


def ordered_query(query: DiverseQuery, orders: list[np.ndarray], relations: bool) -> OrderedQuery:
    """Collect the relation rows of all items in `orders`, once each."""
    stacked, slot, vectors = np.stack(orders), np.full(query.n, -1, np.int64), query.representation
    if not relations:
        return OrderedQuery(query.X, stacked, np.empty((0, 0, query.n)), slot, vectors)
    used = np.unique(stacked)
    slot[used] = np.arange(len(used))
    return OrderedQuery(query.X, stacked, np.ascontiguousarray(query.relations.rows(used)), slot, vectors)


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """log P of each ranking of a query (values), and its gradients in scores, relation weights and scores by rank."""

    query: OrderedQuery
    form: BilinearForm
    theta: np.ndarray
    values: np.ndarray
    g_s: np.ndarray
    g_w: np.ndarray
    g_t: np.ndarray

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Return the gradient of Σ_k weights_k · log P of ranking k."""
        parts = [self.query.X.T @ (weights @ self.g_s), weights @ self.g_w]
        if self.form.size:
            ahead = weights[:, None, None] * (self.g_t @ self.query.vectors)
            slope = np.tensordot(ahead, self.query.means, axes=([0, 1], [0, 1]))
            parts.append(self.form.gradient(self.theta, slope))
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class DiverseScore:
    """``ω_r·x_i + ω_d·h_S(i) + v_i·W v̄_S`` as a function of one vector w: ω_r, then ω_d, then the parameters of W."""

    n_features: int
    given: int
    kinds: np.ndarray
    form: BilinearForm

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return the initial w: 0, except for the factors of W."""
        return np.concatenate((np.zeros(self.n_features + self.given), self.form.start(rng)))

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the linear weights, and the parameters of W."""
        linear = self.n_features + self.given
        return w[:linear], w[linear:]

    def likelihoods(self, query: OrderedQuery, w: np.ndarray) -> Likelihoods:
        """Return the Plackett-Luce likelihoods of the query's rankings."""
        (linear, theta), d, count = self.split(w), self.n_features, len(query.orders)
        values, g_s, g_w = np.empty(count), np.zeros((count, len(query.X))), np.zeros((count, self.given))
        shifts = np.empty((count, 0, len(query.X)))
        if self.form.size:
            shifts = query.means @ (query.vectors @ self.form.matrix(theta)).T
        g_t = np.empty_like(shifts)
        how = (query.rows, query.slot, query.orders, self.kinds, shifts)
        orders_likelihood(query.X @ linear[:d], linear[d:], *how, values, g_s, g_w, g_t)
        return Likelihoods(query, self.form, theta, values, g_s, g_w, g_t)
