"""Relational learning to rank (Zhu, Lan, Guo, Cheng & Niu 2014)."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from hingerank.diversity.base import DiverseRanker
from hingerank.diversity.orders import OrderedQuery, ideal_orders, likelihoods, ordered_query, useful
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import aggregate_kinds, select
from hingerank.kernels.threads import run_shards
from hingerank.rankers.base import warn_not_converged
from hingerank.solvers.solution import Certificate, Solution

SHARD = 8  # queries evaluated together by one thread


class LinearDiverseRanker(DiverseRanker):
    """f_S(i) = coef_·x_i + relation_coef_·h_S(i): a linear score of a candidate given the chosen set S.

    h_S holds, for each relation, the least, mean or largest distance from i to the items of S (`aggregate`).
    """

    _fitted: tuple[str, ...] = ("coef_", "relation_coef_", "certificate_", "trace_")
    aggregate: str
    coef_: np.ndarray
    relation_coef_: np.ndarray
    certificate_: Certificate

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        if query.n_features != len(self.coef_):
            raise ValueError(f"the query has {query.n_features} features, the model was fitted on {len(self.coef_)}")
        kinds = aggregate_kinds(self.aggregate)
        if len(kinds):
            query.need("relations", to=type(self).__name__)
            if len(kinds) * len(query.relations) != len(self.relation_coef_):
                fitted = len(self.relation_coef_) // len(kinds)
                raise ValueError(f"the query has {len(query.relations)} relations, the model was fitted on {fitted}")
        return select(query.X @ self.coef_, self.relation_coef_, query.relations, kinds, top)

    def _training_queries(self, queries: Any) -> tuple[list[DiverseQuery], np.ndarray]:
        """Queries to learn from, and the codes of the aggregates."""
        kinds = aggregate_kinds(self.aggregate)
        return useful(self._checked(queries, "judgments", *(("relations",) if len(kinds) else ()))), kinds

    def _keep(self, solution: Solution, n_features: int) -> None:
        self.coef_, self.relation_coef_ = solution.w[:n_features], solution.w[n_features:]
        self.certificate_, self.trace_ = solution.certificate, solution.trace


class RLTR(LinearDiverseRanker):
    """min_w ½‖w‖² − C Σ_q log P(y_q),  P(y) = Π_t e^{f_t(y_t)} / Σ_{open i} e^{f_t(i)},  f_t(i) = ω_r·x_i + ω_d·h_t(i).

    y_q is the greedy ideal ranking of the query by its subtopic judgments, as far as its documents bring a gain and at
    most `top` long; h_t aggregates the distances from i to the t−1 documents before. The likelihood is concave in
    w = (ω_r, ω_d), so L-BFGS finds the maximum; the certificate is the relative gradient norm.

    C: weight of the data; aggregate: "min", "mean", "max", "all" three, or "none" (relevance alone: a ListMLE).
    orders: rankings per query, equal documents of the ideal in random order (seed random_state); their mean counts.

    Needs `relations` and `judgments`; queries without a relevant candidate are left out.
    """

    def __init__(
        self,
        C: float = 1.0,
        aggregate: str = "mean",
        top: int = 5,
        orders: int = 5,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.aggregate = aggregate
        self.top = top
        self.orders = orders
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> "RLTR":
        """Learn from queries with judgments."""
        self._check_positive("C", "top", "orders", "tol", "max_iter")
        kept, kinds = self._training_queries(queries)
        rng = np.random.default_rng(self.random_state)
        data = [
            ordered_query(query, ideal_orders(query.judgments, self.top, self.orders, rng), len(kinds) > 0)
            for query in kept
        ]
        solution = fit_likelihood(data, kinds, self.C, self.tol, self.max_iter)
        self._keep(solution, kept[0].n_features)
        warn_not_converged(self.certificate_)
        return self


def fit_likelihood(data: list[OrderedQuery], kinds: np.ndarray, C: float, tol: float, max_iter: int) -> Solution:
    """Minimise ½‖w‖² − C Σ_q mean log-likelihood of q's rankings, until ‖g(w)‖ ≤ tol·‖g(0)‖."""
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    began, trace = time.perf_counter(), []
    dimension = data[0].X.shape[1] + len(kinds) * data[0].rows.shape[1]
    shards = [data[first : first + SHARD] for first in range(0, len(data), SHARD)]

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        parts = run_shards(lambda shard: _mean_likelihood(shard, w, kinds), shards)
        value = 0.5 * float(w @ w) - C * sum(value for value, _ in parts)
        gradient = w - C * np.sum([gradient for _, gradient in parts], axis=0)
        norm = float(np.linalg.norm(gradient))
        trace.append({"value": value, "gradient": norm, "seconds": time.perf_counter() - began})
        return value, gradient

    start = np.zeros(dimension)
    scale = float(np.linalg.norm(value_and_gradient(start)[1])) or 1.0
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 0.0, "gtol": tol * scale / np.sqrt(dimension)}
    with threadpool_limits(1, "blas"):  # its matrices are tiny: BLAS threads would only wait for each other
        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    relative = float(np.linalg.norm(found.jac)) / scale
    status = "converged" if relative <= tol else "max_iter" if found.nit >= max_iter else "stalled"
    seconds = time.perf_counter() - began
    certificate = Certificate("relative gradient norm", relative, float(tol), status, int(found.nit), seconds)
    return Solution(found.x, float(found.fun), certificate, trace)


def _mean_likelihood(queries: list[OrderedQuery], w: np.ndarray, kinds: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum over queries of the mean log-likelihood of a query's rankings, and its gradient."""
    total, gradient = 0.0, np.zeros_like(w)
    for query in queries:
        values, g_s, g_w = likelihoods(query, w, kinds)
        total += float(values.mean())
        gradient += np.concatenate((query.X.T @ g_s.mean(axis=0), g_w.mean(axis=0)))
    return total, gradient
