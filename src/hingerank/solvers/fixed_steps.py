"""Algorithms 1 and 2 of Xu et al. (2019) as printed: gradient steps of fixed length and number.

They have no stopping rule; they show what convergence is worth. Signs are those of the dual of the Ranking SVM (the
paper prints a plus where descent needs a minus).
"""

import numpy as np

from hingerank.kernels.multipliers import prefix_lengths
from hingerank.problem.multipliers import FactorizedDual, RegularizedDual
from hingerank.solvers.run import GAP, STATIONARY, Entry, Run, Solution


def factor_steps(
    problem: FactorizedDual, rng: np.random.Generator, *, step: float, max_iter: int, tol: float
) -> Solution:
    """Algorithm 1: from random factors in the whole box, max_iter epochs of one step for each query in turn.

    A query's step moves all its rows at once, by the gradient at the weights before it.
    """
    p, X = problem.preferences, problem.design.matrix
    V, run = rng.uniform(0.0, problem.limit, (p.n_items, problem.rank)), Run("gradient", 0.0, max_iter)
    blocks = []
    for lo, hi in zip(p.offsets[:-1], p.offsets[1:]):
        rows = p.row_at[lo:hi]
        blocks.append((slice(lo, hi), X[rows], (p.y[rows][:, None] > p.y[rows][None, :]).astype(float)))
    w, total = problem.weights(np.ascontiguousarray(V.T))
    relative = problem.stationarity(np.ascontiguousarray(V.T), w)
    for epoch in range(max_iter):
        run.stops(iteration=epoch, value=0.5 * float(w @ w) - total, gradient=relative)
        for here, rows, above in blocks:
            v, u = V[here], np.asarray(rows @ w).ravel()
            own = _query_weights(rows, above, v)
            slope = above * (u[:, None] - u[None, :] - 1.0)
            v = V[here] = np.clip(v - step * ((slope + slope.T) @ v), 0.0, problem.limit)
            w = w + _query_weights(rows, above, v) - own
        flat = np.ascontiguousarray(V.T)
        w, total = problem.weights(flat)  # recomputed, without the rounding of many updates
        relative = problem.stationarity(flat, w)
    last: Entry = {"iteration": max_iter, "value": 0.5 * float(w @ w) - total, "gradient": relative}
    return _ended(run, STATIONARY, w, tol, last, V=np.ascontiguousarray(V.T))


def _query_weights(rows: np.ndarray, above: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The sum over a query's pairs of <v_i, v_j>(x_i - x_j)."""
    a = above * (v @ v.T)
    return np.asarray(rows.T @ (a.sum(axis=1) - a.sum(axis=0))).ravel()


def multiplier_steps(
    problem: RegularizedDual, rng: np.random.Generator, *, step: float, max_iter: int, inner_iter: int, tol: float
) -> Solution:
    """Algorithm 2: from random multipliers in the box, max_iter rounds of inner_iter gradient steps in a and one
    shrinkage of singular values."""
    pair, run = np.zeros(len(problem.a), bool), Run("gap", 0.0, max_iter)
    run.origin = 0.0  # at a = 0, A = 0
    for q in range(len(problem.shapes)):
        problem.block(pair, q)[:] = np.arange(problem.shapes[q, 2])[None, :] < prefix_lengths(problem.tree, q)[:, None]
    problem.a = np.where(pair, rng.uniform(0.0, problem.C, len(pair)), 0.0)
    problem.A = problem.a
    problem.w, problem.total = problem.combine(problem.a)
    problem.shrink()
    for iteration in range(max_iter):
        run.stops(iteration=iteration, **_figures(problem, run))
        for _ in range(inner_iter):
            slope = _margins(problem) + 2.0 * problem.lam * (problem.a - problem.A)
            problem.a = np.where(pair, np.clip(problem.a - step * slope, 0.0, problem.C), 0.0)
            problem.w, problem.total = problem.combine(problem.a)
        problem.shrink()
    return _ended(run, GAP, problem.w, tol, {"iteration": max_iter, **_figures(problem, run)})


def _figures(problem: RegularizedDual, run: Run) -> Entry:
    value = problem.value()
    return {"value": value, "gap": run.relative(problem.gap(), value)}


def _margins(problem: RegularizedDual) -> np.ndarray:
    """u_i - u_j - 1 for every winner and loser of every query, flat as the multipliers are."""
    u, out = problem.design.scores(problem.w), np.zeros_like(problem.a)
    for q, (top, winners, losers) in enumerate(problem.shapes):
        if winners:
            lo = problem.tree.offsets[q]
            own = u[lo + problem.tree.perm[lo : problem.tree.offsets[q + 1]]]
            problem.block(out, q)[:] = own[top : top + winners, None] - own[None, :losers] - 1.0
    return out


def _ended(run: Run, kind: str, w: np.ndarray, tol: float, last: Entry, **extra: np.ndarray) -> Solution:
    """The solution after the last step; converged only if that happens to be within tol."""
    run.tol, run.status = tol, ""
    run.stops(**last)
    return run.solution(kind, w, last["value"], len(run.trace) - 1, **extra)
