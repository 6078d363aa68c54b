"""Solvers that keep most weights at zero, and scores s = X w up to date: X w is recomputed only to certify the result.

`proximal_newton` works on a set of columns. Every iteration takes the gradient in all weights (which also gives the
duality gap), picks the nonzero weights and the few zero ones that violate optimality most, builds the loss's Hessian in
only these, minimises that quadratic model under the structure, and searches along the step in score space. An earlier
Hessian is reused as long as it gives good steps: over a path of penalties or radii on the same data it changes little.
For large data the Hessian comes from a sample of the queries.

`frank_wolfe` moves over the l1 ball towards the best corner ±radius·e_j, so a step reads one column of X. A point w of
the ball is a mixture of the corners sign(w_j)·radius·e_j with weights |w_j| / radius and of the corner 0 with the rest;
the away and pairwise variants take weight from the worst of these (Guélat & Marcotte 1986; Lacoste-Julien & Jaggi
2015), which makes convergence linear.

`truncated_gradient` (Langford, Li & Zhang 2009) makes gradient steps that periodically shrink small weights,

    w ← T(w - rate · gradient,  every · rate,  threshold)   in every `every`-th step,
    T(w, a, t) = w shrunk towards 0 by a, but not past 0, for |w| ≤ t;  w itself for |w| > t.

With every = 1 and no threshold that is proximal gradient descent on loss(w) + ‖w‖₁.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, Unpack

import numpy as np

from hingerank.kernels.rows import dot
from hingerank.problem.problem import SMALLEST, RowsDesign
from hingerank.problem.sparse import ScorePoint, SingleColumns, SparseProblem
from hingerank.solvers.run import ABSOLUTE_GAP, GAP, Limits, Run, Solution
from hingerank.structures import L1Ball, L1Norm, SparseStructure

MOST_TRIALS = 60  # of a line search
ALL = 64  # with no more columns than this, all of them are in the working set
JOIN, MOST = 8, 500  # least number of columns that join at once; most columns of a working set
DAMPING = 1e-6, 1e-14  # fraction of each curvature added to it, at first and at last: flat directions follow rounding
ROUGH = 1e-3  # gap to which easier problems are solved
PAYING = 0.25  # a step that does not cut the gap to this fraction requests a better Hessian
VARIANTS = ("classic", "away", "pairwise")


def line_search(
    problem: SparseProblem, point: ScorePoint, direction: np.ndarray, slope: float, step: float, limit: float = 1.0, *,
    extra: float = 0.0, tol: float = 1e-9,
) -> tuple[float, ScorePoint]:  # fmt: skip
    """(mu, the problem at s + mu v):  argmin over 0 < mu ≤ limit of  F(s + mu v) + extra · mu.

    F along a line is convex and, for hinge-type losses, piecewise quadratic: Newton's method on its derivative, kept
    inside a shrinking bracket, needs two or three sweeps. slope: the derivative at 0, negative; step: the first trial.
    Stops when the derivative is at most tol · |slope|, or at the limit if it is still negative there.
    """
    low, high, mu = 0.0, limit, min(max(step, 0.0), limit)
    for _ in range(MOST_TRIALS):
        here = problem.at(point.s + mu * direction)
        slope_here = dot(here.gradient, direction) + extra
        if abs(slope_here) <= tol * abs(slope) or (mu == limit and slope_here < 0):
            break
        if slope_here < 0:
            low = mu
        else:
            high = mu
        curvature = dot(direction, here.curvature(direction))
        newton = mu - slope_here / curvature if curvature > 0 else np.inf
        if newton >= high and high == limit and slope_here < 0:
            newton = limit
        elif not low < newton < high:
            newton = 0.5 * (low + high)
        if newton == mu:
            break
        mu = newton
    return mu, here


class WorkingSet:
    """The few columns a solver works with, and the loss's Hessian in their weights, reused while it is good enough.

    `indices` and their `design`; a path of problems on the same data passes one WorkingSet from point to point.

    exact: whether the latest Hessian is that of the latest point and of all queries.
    """

    def __init__(self, problem: SparseProblem):
        self.dimension = problem.dimension
        self.indices: np.ndarray = np.empty(0, np.int64)
        self._design: RowsDesign | None = None
        self.exact, self._fresh, self._stride, self._damping = False, False, 0, DAMPING[0]
        self._hessian: np.ndarray | None = None

    @property
    def design(self) -> RowsDesign:
        """The design of the columns in the set."""
        if self._design is None:
            raise ValueError("the working set has no columns yet: call choose first")
        return self._design

    def scores(self, problem: SparseProblem, w: np.ndarray) -> np.ndarray:
        """X w through the columns in use."""
        used = np.flatnonzero(w)
        if len(used) == 0:
            return np.zeros(problem.n_rows)
        self._hold(problem, used)
        return self.design.scores(w[self.indices])

    def choose(self, problem: SparseProblem, violation: np.ndarray, w: np.ndarray) -> None:
        """Choose the nonzero weights and the zero ones that violate optimality most."""
        if self.dimension <= ALL:
            self._hold(problem, np.delete(np.arange(self.dimension), problem.constant))
            return
        used = np.flatnonzero(w)
        eager = np.flatnonzero((violation > 0) & (w == 0))
        chosen = np.union1d(used, largest(eager, violation, max(JOIN, len(used))))
        self._hold(problem, chosen if len(chosen) <= MOST else np.sort(largest(chosen, violation, MOST)))

    def _hold(self, problem: SparseProblem, wanted: np.ndarray) -> None:
        """Extract the wanted columns, unless the present ones include them all and little more."""
        few = len(self.indices) <= max(ALL, 2 * len(wanted))
        if self._design is None or not few or not np.isin(wanted, self.indices, assume_unique=True).all():
            self._design = self._hessian = None  # so that two sets of columns are never in memory at once
            self.indices, self._design = wanted, problem.design.columns(wanted)
            self._stride = problem.stride(self.design)

    def hessian(self, problem: SparseProblem, better: bool) -> np.ndarray:
        """The Hessian in the set's weights: an earlier one, unless `better` requests a current one or more queries."""
        kept = self._hessian
        if better and kept is not None and self._fresh:
            self._stride = max(1, self._stride // 4)
        self._fresh = better or kept is None
        if better or kept is None:  # stored without C, which changes along a path
            kept = self._hessian = problem.hessian(self.design, self._stride) / problem.factor
        self.exact = self._fresh and self._stride == 1
        H: np.ndarray = kept * problem.factor
        diagonal = H.diagonal()
        unknown = diagonal <= 0  # no sampled active pair differs in such a feature: a cautious guess
        guess = diagonal.max(initial=0.0) or 1.0
        H[np.diag_indices_from(H)] = np.where(unknown, guess, (1.0 + self._damping) * diagonal)
        return H

    def stepped(self, mu: float) -> None:
        """Record whether the model was good (mu = 1) or went too far."""
        self._damping = max(0.1 * self._damping, DAMPING[1]) if mu == 1.0 else min(10 * self._damping, DAMPING[0])


def largest(candidates: np.ndarray, size: np.ndarray, count: int) -> np.ndarray:
    """The `count` candidates of largest size, or all of them."""
    if len(candidates) <= count:
        return candidates
    return candidates[np.argpartition(-size[candidates], count)[:count]]


def proximal_newton(
    problem: SparseProblem,
    w: np.ndarray | None = None,
    *,
    min_iter: int = 0,
    working: WorkingSet | None = None,
    approach: Sequence[SparseProblem] = (),
    **limits: Unpack[Limits],
) -> Solution:
    """Minimise loss(X w) + structure(w) until the duality gap relative to gain and objective (solvers/run.py) is at
    most tol.

    w: a start inside the structure, default 0; working: the working set of an earlier problem on the same data.
    approach: easier problems to solve roughly first, each from the one before, so that few weights are ever nonzero.
    min_iter: steps to take even from a start that is good enough, so that a path is smooth.
    """
    run, structure = Run("gap", **limits), problem.structure
    run.origin = problem.origin()
    w = np.zeros(problem.dimension) if w is None else np.array(w, np.float64)
    working = WorkingSet(problem) if working is None else working
    done = 0
    for easier in approach:
        most, left = min(run.max_iter, 50), run.max_seconds - run.seconds
        found = proximal_newton(easier, w, working=working, tol=max(run.tol, ROUGH), max_iter=most, max_seconds=left)
        w, done = found.w, done + found.certificate.n_iter
    point, before = problem.at(working.scores(problem, w)), np.inf
    for iteration in count():
        g = problem.back(point.gradient)
        gap = gap_of(structure, run, point.value, g, w)
        if gap <= run.tol and iteration:  # from scores that were updated: certify by recomputed ones
            point = problem.at(working.scores(problem, w))
            g = problem.back(point.gradient)
            gap = gap_of(structure, run, point.value, g, w)
        value = point.value + structure.value(w)
        early, selected = iteration < min_iter and gap != 0, int(np.count_nonzero(w))
        if run.stops(early=early, w=w, iteration=done + iteration, value=value, gap=gap, selected=selected):
            break
        working.choose(problem, structure.violation(g, w), w)
        moved = _step(problem, point, g, w, working, better=gap > PAYING * before)
        if moved is None:
            run.status = "converged" if gap <= run.tol else "stalled"
            break
        point, before = moved, gap
    return run.solution(GAP, w, value, done + iteration, working=working, C=problem.C)


def gap_of(structure: SparseStructure, run: Run, loss: float, g: np.ndarray, w: np.ndarray) -> float:
    """The duality gap relative to gain and objective, at weights w with that loss and its gradient g."""
    gap, least = structure.gap(loss, g, w)
    penalty = structure.value(w)
    holding = max(least, penalty, SMALLEST if g.any() else 0.0)  # what keeps the weights small
    return run.relative(gap, loss + penalty, least, holding, structure.nothing)


def _step(
    problem: SparseProblem,
    point: ScorePoint,
    g: np.ndarray,
    w: np.ndarray,
    working: WorkingSet,
    better: bool,
) -> ScorePoint | None:
    """Move w in place along the model's direction; the new point, or None if not even the true Hessian descends."""
    structure = problem.structure
    rounding = 1e-14 * (point.value + structure.value(w))
    chosen = working.indices
    while True:
        H = working.hessian(problem, better)
        v = structure.minimise_model(H, g[chosen], w[chosen])
        change = v - w[chosen]
        direction = working.design.scores(change)
        extra = structure.value(v) - structure.value(w[chosen])
        slope = dot(point.gradient, direction) + extra
        if slope < -rounding:
            break
        if working.exact:
            return _flat_step(problem, point, g, w, v, working) if slope < rounding else None
        better = True
    mu, following = line_search(problem, point, direction, slope, 1.0, extra=extra, tol=0.1)
    working.stepped(mu)
    w[chosen] = v if mu == 1.0 else w[chosen] + mu * change
    return following


def _flat_step(
    problem: SparseProblem,
    point: ScorePoint,
    g: np.ndarray,
    w: np.ndarray,
    v: np.ndarray,
    working: WorkingSet,
) -> ScorePoint | None:
    """When values can no longer show whether the model's minimiser v is better: take it if its gap is smaller."""
    structure, there = problem.structure, w.copy()
    gap = structure.gap(point.value, g, w)[0]
    following = problem.at(working.design.scores(v))
    there[working.indices] = v
    if not structure.gap(following.value, problem.back(following.gradient), there)[0] < gap:
        return None
    w[:] = there
    return following


class Move(NamedTuple):
    """w + mu (keep·w + gain·e_j - loss·e_k), mu ≤ limit; k is the corner left behind, dropped at the limit."""

    keep: float
    j: int
    gain: float
    k: int
    loss: float
    limit: float


def frank_wolfe(
    problem: SparseProblem,
    w: np.ndarray | None = None,
    *,
    variant: str = "classic",
    step: str = "exact",
    absolute: bool = False,
    **limits: Unpack[Limits],
) -> Solution:
    """Minimise loss(X w) over the ball until the duality gap <g, w> + radius ‖g‖_∞, relative to gain and
    objective (solvers/run.py), is at most tol.

    problem: one whose structure is an L1Ball; variant: "classic", "away" or "pairwise"; step: "exact" (line search) or
    "closed-form" (minimises the quadratic upper bound that counts every pair as active); absolute: tol bounds the gap
    itself.
    """
    run, ball = Run("gap", **limits), problem.structure
    if not isinstance(ball, L1Ball):
        raise ValueError("Frank-Wolfe moves between the corners of a ball: the structure must be an L1Ball")
    run.origin = problem.origin()
    w = np.zeros(problem.dimension) if w is None else np.array(w, np.float64)
    columns = SingleColumns(problem.design)
    bound = problem.separate().at(np.zeros(problem.n_rows)).curvature if step == "closed-form" else None
    point = problem.at(columns.scores(w))

    def measure(loss: float, g: np.ndarray, w: np.ndarray) -> float:
        relative = gap_of(ball, run, loss, g, w)
        return ball.gap(loss, g, w)[0] if absolute else relative

    for iteration in count():
        g = problem.back(point.gradient)
        gap, selected = measure(point.value, g, w), int(np.count_nonzero(w))
        if gap <= run.tol and iteration:  # from scores that were updated many times: certify by recomputed ones
            point = problem.at(columns.scores(w))
            g = problem.back(point.gradient)
            gap = measure(point.value, g, w)
        if run.stops(iteration=iteration, value=point.value, gap=gap, selected=selected):
            break
        move = _choose(variant, ball, g, w)
        direction = _direction(move, point.s, columns, g)
        slope = dot(point.gradient, direction)
        if not slope < 0:
            run.status = "stalled"
            break
        mu, point = _search(problem, point, direction, slope, move.limit, bound)
        w = _apply(move, mu, w)
    return run.solution(ABSOLUTE_GAP if absolute else GAP, w, point.value, iteration)


def _choose(variant: str, ball: L1Ball, g: np.ndarray, w: np.ndarray) -> Move:
    """The corner to move to and, for the variants, the one to leave."""
    j, corner = ball.corner(g)
    towards = Move(-1.0, j, corner, -1, 0.0, 1.0)
    if variant == "classic":
        return towards
    used = np.flatnonzero(w)
    heights, share = g[used] * np.sign(w[used]), 1.0 - np.abs(w[used]).sum() / ball.radius
    k, worst = -1, 0.0  # of the corners in use that where <g, corner> is largest: the corner 0, or this one
    if len(used) and not (share > 1e-14 and heights.max() < 0):
        k = int(used[np.argmax(heights)])
        worst, share = float(np.sign(w[k]) * ball.radius), float(abs(w[k]) / ball.radius)
    if variant == "pairwise":
        return Move(0.0, j, corner, k, worst, share)
    level = dot(g, w)
    height = g[k] * worst if k >= 0 else 0.0
    if height - level <= level - g[j] * corner or share >= 1.0:
        return towards
    return Move(1.0, -1, 0.0, k, worst, share / (1.0 - share))


def _direction(move: Move, s: np.ndarray, columns: SingleColumns, g: np.ndarray) -> np.ndarray:
    """The change of the scores for mu = 1."""
    direction = move.keep * s
    if move.j >= 0:
        columns.add(direction, move.j, move.gain, g)
    if move.k >= 0:
        columns.add(direction, move.k, -move.loss, g)
    return direction


def _search(
    problem: SparseProblem,
    point: ScorePoint,
    direction: np.ndarray,
    slope: float,
    limit: float,
    bound: Callable[[np.ndarray], np.ndarray] | None,
) -> tuple[float, ScorePoint]:
    """(mu, the point there)."""
    if bound is not None:
        mu = min(limit, -slope / max(dot(direction, bound(direction)), 1e-300))
        return mu, problem.at(point.s + mu * direction)
    curvature = dot(direction, point.curvature(direction))
    return line_search(problem, point, direction, slope, -slope / curvature if curvature > 0 else limit, limit)


def _apply(move: Move, mu: float, w: np.ndarray) -> np.ndarray:
    w = w * (1.0 + mu * move.keep) if move.keep else w
    if move.j >= 0:
        w[move.j] += mu * move.gain
    if move.k >= 0:
        w[move.k] = w[move.k] - mu * move.loss if mu < move.limit else w[move.k] if move.k == move.j else 0.0
    return w


def truncated_gradient(
    at: Callable[[np.ndarray], tuple[float, np.ndarray]],
    w: np.ndarray,
    rate: float,
    certify: Callable[[Run, float, np.ndarray, np.ndarray], float],
    kind: str,
    *,
    origin: float = np.nan,
    every: int = 1,
    threshold: float = np.inf,
    **limits: Unpack[Limits],
) -> Solution:
    """Descend until certify(run, loss, gradient, w) ≤ tol. at(w) -> loss, gradient; kind: what `certify` measures;
    origin: the value at w = 0, if `certify` needs it."""
    run, norm = Run("gap", **limits), L1Norm()
    run.origin = origin
    w = np.array(w, np.float64)
    for iteration in count():
        loss, g = at(w)
        value, selected = loss + norm.value(w), int(np.count_nonzero(w))
        if run.stops(iteration=iteration, value=value, gap=certify(run, loss, g, w), selected=selected):
            break
        w = w - rate * g
        if not np.isfinite(w).all():
            run.status = "overflow"
            break
        if (iteration + 1) % every == 0:
            w = np.where(np.abs(w) <= threshold, norm.prox(w, every * rate), w)
    return run.solution(kind, w, value, iteration)


def largest_eigenvalue(product: Callable[[np.ndarray], np.ndarray], v: np.ndarray, rounds: int = 50) -> float:
    """The largest eigenvalue of a positive semidefinite operator by power iteration from v, plus 5 %."""
    value = 0.0
    for _ in range(rounds):
        size = float(np.sqrt(dot(v, v)))
        if size == 0:
            break
        v = product(v / size)
        before, value = value, float(np.sqrt(dot(v, v)))
        if value - before <= 1e-3 * value:
            break
    return 1.05 * value
