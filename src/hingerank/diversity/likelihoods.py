"""Plackett-Luce likelihoods of rankings, for a score that depends on the items chosen before."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hingerank.diversity.bilinear import BilinearForm, chosen_means
from hingerank.diversity.kernels import orders_likelihood
from hingerank.diversity.queries import DiverseQuery


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
        """(rankings, ranks, entries): the mean vector of the items above each rank."""
        return chosen_means(self.vectors, self.orders)


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
