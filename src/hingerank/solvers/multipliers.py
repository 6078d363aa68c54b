"""Solvers for multipliers of low rank (Xu et al. 2019; problem/multipliers.py).

`factor_descent` is projected gradient descent over factors, query by query (their Algorithm 1), with monotone steps;
before each epoch V is extrapolated by a multiple of its last change, if that decreases the objective too.

`factor_newton` makes Gauss-Newton steps over all queries at once, for large C, where gradient steps are very slow: the
objective ½‖w(V)‖² - … is steep in at most as many directions as there are features, while gradient steps change one
number or one query at a time. w is linearised in V, the box is kept, and a penalty ρ·½‖change‖² keeps the step where
the linear model holds (Levenberg and Marquardt): ρ falls after steps that agree with the model and rises after others.

`shrinkage` alternates between multipliers and matrices of low rank (Reg-RSVM). The best multipliers for given matrices
are computed not over the pairs but over w, by Newton's method; the best matrices for given multipliers are these with
their singular values shrunk. That is proximal gradient descent in the matrices, so it is accelerated as such (Nesterov,
with restart); the objective never increases.

`factor_steps` and `multiplier_steps` are Algorithms 1 and 2 as printed, gradient steps of fixed length and number. They
have no stopping rule; they show what convergence is worth. Signs are those of the dual of the Ranking SVM (the paper
prints a plus where descent needs a minus).
"""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Unpack

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.checks import whole
from hingerank.kernels.threads import serial_blas
from hingerank.problem.multipliers import FactorizedDual, FactorModel, RegularizedDual, Response
from hingerank.solvers.hinge import smoothing
from hingerank.solvers.newton import newton, newton_from
from hingerank.solvers.run import GAP, STATIONARY, Entry, Limits, Run, Solution

LONGER, SHORTER = 1.1, 0.5  # factors of the extrapolation after success and failure
GOOD, POOR = 0.7, 0.3  # fractions of the predicted decrease above which ρ falls, below which it rises
LARGEST = 1e18  # ρ at which no further gain is possible
MOST_FEATURES, MOST_NUMBERS = 400, 50_000_000  # of the rows: a step makes a features² matrix, and copies the rows
GOALS = 1e-7, 1e-9, 1e-11  # relative gradients of the inner problem: tighter until the objective falls


def factor_descent(
    problem: FactorizedDual,
    V: np.ndarray,
    rng: np.random.Generator,
    *,
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 20,
    **limits: Unpack[Limits],
) -> Solution:
    """Minimise from V until the projected gradient's norm is at most tol times that of the linear part alone.

    rng: for the order of the queries. validate: w -> a score; the epoch with the best score is kept, and `patience`
    epochs without a better one end the descent. The solution's w is w(V), and V itself is in ``extra["V"]``.
    """
    run, patience = Run("gradient", **limits), whole("patience", patience, 0)
    w, total = problem.weights(V)
    size = float(np.ldexp(0.5, np.frexp(np.abs(w).max(initial=0.0))[1]))  # a power of 2, since w @ w may overflow
    unit = w / size
    down = min(1.0, total / size / max(size * float(unit @ unit), 1e-300))  # best multiple of a start that is far off
    V, w, total = np.sqrt(down) * V, down * w, down * total
    value = 0.5 * float(w @ w) - total
    relative = 1.0 if np.isfinite(value) else np.nan
    last, spare, stride = V.copy(), np.empty_like(V), 0.5
    best, since = (-np.inf, V, value, 0), 0  # score, factors, value and length of the trace of the best epoch
    for epoch in count():
        found: Facts = {}
        if validate is not None and epoch:
            found["validation"], since = validate(w), since + 1
            if found["validation"] > best[0]:
                best, since = (found["validation"], V.copy(), value, epoch + 1), 1
        relative = problem.stationarity(V, w) if relative <= run.tol else relative
        if run.stops(iteration=epoch, value=value, gradient=relative, **found) or since > patience:
            break
        problem.ahead(V, last, stride, spare)
        w_ahead, total = problem.weights(spare)
        ahead = 0.5 * float(w_ahead @ w_ahead) - total
        if ahead <= value:
            V, last, spare, w, value, stride = spare, V, last, w_ahead, ahead, LONGER * stride
        else:
            last[:], stride = V, SHORTER * stride
        change, relative = problem.epoch(V, w, rng)
        value += change
    length = len(run.trace)
    if best[3]:
        _, V, value, length = best
    del run.trace[length:]
    if validate is not None and run.trace[-1]["gradient"] > run.tol:
        run.status = "validation"
    w = problem.weights(V)[0]
    return run.solution(STATIONARY, w, value, length - 1, V=V)


def affordable(problem: FactorizedDual) -> bool:
    """Whether these steps are worth their memory and time."""
    n, d = problem.design.shape
    return bool(d <= MOST_FEATURES and n * d * (1 + problem.rank) <= MOST_NUMBERS)


def factor_newton(
    problem: FactorizedDual, V: np.ndarray, *, before: Solution | None = None, **limits: Unpack[Limits]
) -> Solution:
    """As `factor_descent`; before: the solution of the solver that computed V, whose iterations and seconds count."""
    run = Run("gradient", **limits)
    X = problem.design.matrix[problem.preferences.row_at]  # in the order of V's columns
    rows = np.ascontiguousarray(X if isinstance(X, np.ndarray) else X.toarray(), np.float64)
    w, total = problem.weights(V)
    value, rho = 0.5 * float(w @ w) - total, float(problem.tree.widest)
    with serial_blas():
        for iteration in count():
            if run.stops(iteration=iteration, value=value, gradient=problem.stationarity(V, w)):
                break
            model = FactorModel(problem, rows, V, w)
            while True:
                ahead, forecast = model.minimise(rho)
                w_ahead, total = problem.weights(ahead)
                gain = value - (0.5 * float(w_ahead @ w_ahead) - total)
                rho *= 3.0 if not gain > POOR * forecast or not gain > 0 else 0.5 if gain > GOOD * forecast else 1.0
                if gain > 0 or not np.isfinite(gain) or rho > LARGEST:
                    break
            if not gain > 0:
                run.status = "stalled"
                break
            V, w, value = ahead, w_ahead, value - gain
    found = run.solution(STATIONARY, w, value, len(run.trace) - 1, V=V)
    if before is None:
        return found
    n, seconds, own = before.certificate.n_iter, before.certificate.seconds, found.certificate
    more = [e | {"iteration": e["iteration"] + n, "seconds": e["seconds"] + seconds} for e in found.trace[1:]]
    certificate = replace(own, n_iter=n + own.n_iter, seconds=seconds + own.seconds)
    return replace(found, certificate=certificate, trace=before.trace + more)


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
    blocks = list(problem.blocks())
    for q, _, _, own in blocks:
        problem.block(pair, q)[:] = own
    problem.a = np.where(pair, rng.uniform(0.0, problem.C, len(pair)), 0.0)
    problem.A = problem.a
    problem.w, problem.total = problem.combine(problem.a)
    problem.shrink()
    for iteration in range(max_iter):
        run.stops(iteration=iteration, **_figures(problem, run))
        for _ in range(inner_iter):
            u, margins = problem.design.scores(problem.w), np.zeros_like(problem.a)
            for q, i, j, _ in blocks:
                problem.block(margins, q)[:] = u[i][:, None] - u[j] - 1.0
            slope = margins + 2.0 * problem.lam * (problem.a - problem.A)
            problem.a = np.where(pair, np.clip(problem.a - step * slope, 0.0, problem.C), 0.0)
            problem.w, problem.total = problem.combine(problem.a)
        problem.shrink()
    return _ended(run, GAP, problem.w, tol, {"iteration": max_iter, **_figures(problem, run)})


def _figures(problem: RegularizedDual, run: Run) -> Entry:
    value = problem.value()
    return {"value": value, "gap": run.relative(problem.gap(), value)}


def _ended(run: Run, kind: str, w: np.ndarray, tol: float, last: Entry, **extra: np.ndarray) -> Solution:
    """The solution after the last step; converged only if that happens to be within tol."""
    run.tol, run.status = tol, ""
    run.stops(**last)
    return run.solution(kind, w, last["value"], len(run.trace) - 1, **extra)


def shrinkage(problem: RegularizedDual, **limits: Unpack[Limits]) -> Solution:
    """Minimise until the duality gap relative to the value is at most tol; the problem stores a and A."""
    run = Run("gap", **limits)
    run.origin = 0.0  # at a = 0, A = 0
    if problem.width:
        problem.begin(newton(problem.plain(), tol=1e-4).w, problem.width)
    else:
        found = smoothing(problem.plain(), tol=1e-4).extra
        problem.begin(found["latest"], found["width"])
    value, last, age, shrinking = problem.value(), problem.A, 1.0, 0.0
    for iteration in count():
        gap, rank = run.relative(problem.gap(), value), int(problem.ranks.sum())
        if run.stops(iteration=iteration, value=value, gap=gap, rank=rank, svd_seconds=shrinking):
            break
        state, older = problem.state(), (1.0 + float(np.sqrt(1.0 + 4.0 * age * age))) / 2.0
        if age > 1.0:
            problem.A = problem.A + ((age - 1.0) / older) * (problem.A - last)
        _respond(problem, 1e-4 * gap)
        began = time.perf_counter()
        problem.shrink()
        shrinking += time.perf_counter() - began
        reached = problem.value()
        if reached <= value or age == 1.0:
            value, last, age = reached, state["A"], older
        else:  # undo the round, and start the next without momentum
            problem.restore(state)
            age = 1.0
    return run.solution(GAP, problem.w, value, iteration)


def _respond(problem: RegularizedDual, tol: float) -> None:
    """a <- the best multipliers for the current A."""
    before, value = problem.state(), problem.value()
    inner = Response(problem)
    scale = float(np.linalg.norm(inner.at(np.zeros_like(problem.w)).gradient))
    point = inner.at(problem.w)
    for goal in (max(tol, GOALS[0]), *GOALS[1:]):
        point, _ = newton_from(inner, point, scale, Run("gradient", goal, 100))
        problem.a = inner.multipliers(point.w)
        problem.w, problem.total = problem.combine(problem.a)
        if problem.value() <= value:
            return
    problem.restore(before)  # already as good as rounding allows
