"""Proximal Newton on a working set, for a smooth loss of scores plus an l1 structure.

Every iteration takes the gradient in all weights (which also gives the duality gap), picks the nonzero weights and the
few zero ones that violate optimality most, builds the loss's Hessian in only these, minimises that quadratic model
under the structure, and searches along the step in score space. An earlier Hessian is reused as long as it gives good
steps: over a path of penalties or radii on the same data it changes little. For large data the Hessian comes from a
sample of the queries.
"""

from collections.abc import Sequence
from itertools import count

import numpy as np

from hingerank.arrays import Facts
from hingerank.kernels.rows import dot
from hingerank.problem.design import RowsDesign
from hingerank.problem.problem import SMALLEST
from hingerank.problem.sparse import ScorePoint, SparseProblem
from hingerank.solvers.line_search import line_search
from hingerank.solvers.run import GAP, Callback, Run, Solution
from hingerank.structures import SparseStructure

ALL = 64  # with no more columns than this, all of them are in the working set
JOIN, MOST = 8, 500  # least number of columns that join at once; most columns of a working set
DAMPING = 1e-6, 1e-14  # fraction of each curvature added to it, at first and at last: flat directions follow rounding
ROUGH = 1e-3  # gap to which easier problems are solved
PAYING = 0.25  # a step that does not cut the gap to this fraction requests a better Hessian


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
            self._hold(problem, np.arange(self.dimension))
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
            self.indices, self._design = wanted, problem.columns(wanted)
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
    tol: float = 1e-3,
    min_iter: int = 0,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callback = None,
    working: WorkingSet | None = None,
    approach: Sequence[SparseProblem] = (),
) -> Solution:
    """Minimise loss(X w) + structure(w) until the duality gap relative to gain and objective (solvers/run.py) is at
    most tol.

    w: a start inside the structure, default 0; working: the working set of an earlier problem on the same data.
    approach: easier problems to solve roughly first, each from the one before, so that few weights are ever nonzero.
    min_iter: steps to take even from a start that is good enough, so that a path is smooth.
    """
    run, structure = Run("gap", tol, max_iter, max_seconds, callback), problem.structure
    run.origin = problem.origin()
    w = np.zeros(problem.dimension) if w is None else np.array(w, np.float64)
    working = WorkingSet(problem) if working is None else working
    done = 0
    for easier in approach:
        limits: Facts = {"max_iter": min(max_iter, 50), "max_seconds": max_seconds - run.seconds}
        found = proximal_newton(easier, w, tol=max(tol, ROUGH), working=working, **limits)
        w, done = found.w, done + found.certificate.n_iter
    point, before = problem.at(working.scores(problem, w)), np.inf
    for iteration in count():
        g = problem.back(point.gradient)
        gap = gap_of(structure, run, point.value, g, w)
        if gap <= tol and iteration:  # from scores that were updated: certify by recomputed ones
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
            run.status = "converged" if gap <= tol else "stalled"
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
