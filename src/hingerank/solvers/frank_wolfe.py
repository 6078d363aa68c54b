"""Frank-Wolfe over the l1 ball: each step moves towards the best corner ±radius·e_j, so it reads one column of X.

Scores are updated: s = X w is recomputed only to certify the result. A point w of the ball is a mixture of the corners
sign(w_j)·radius·e_j with weights |w_j| / radius and of the corner 0 with the rest; the away and pairwise variants take
weight from the worst of these (Guélat & Marcotte 1986; Lacoste-Julien & Jaggi 2015), which makes convergence linear.
"""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from hingerank.kernels.rows import dot
from hingerank.problem.sparse import ScorePoint, SingleColumns, SparseProblem
from hingerank.solvers.line_search import line_search
from hingerank.solvers.proximal_newton import gap_of
from hingerank.solvers.run import ABSOLUTE_GAP, GAP, Callback, Run, Solution
from hingerank.structures import L1Ball

VARIANTS = ("classic", "away", "pairwise")


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
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    callback: Callback = None,
) -> Solution:
    """Minimise loss(X w) over the ball until the duality gap <g, w> + radius ‖g‖_∞, relative to gain and
    objective (solvers/run.py), is at most tol.

    problem: one whose structure is an L1Ball; variant: "classic", "away" or "pairwise"; step: "exact" (line search) or
    "closed-form" (minimises the quadratic upper bound that counts every pair as active); absolute: tol bounds the gap
    itself.
    """
    run, ball = Run("gap", tol, max_iter, max_seconds, callback), problem.structure
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
        if gap <= tol and iteration:  # from scores that were updated many times: certify by recomputed ones
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
    k, worst, share = _worst_corner(ball, g, w)
    if variant == "pairwise":
        return Move(0.0, j, corner, k, worst, share)
    level = dot(g, w)
    height = g[k] * worst if k >= 0 else 0.0
    if height - level <= level - g[j] * corner or share >= 1.0:
        return towards
    return Move(1.0, -1, 0.0, k, worst, share / (1.0 - share))


def _worst_corner(ball: L1Ball, g: np.ndarray, w: np.ndarray) -> tuple[int, float, float]:
    """(k, its coordinate, its weight) of the corner in use where <g, corner> is largest; k = -1 is the corner 0."""
    used = np.flatnonzero(w)
    slack = 1.0 - np.abs(w[used]).sum() / ball.radius
    heights = g[used] * np.sign(w[used])
    if len(used) == 0 or (slack > 1e-14 and heights.max() < 0):
        return -1, 0.0, slack
    k = int(used[np.argmax(heights)])
    return k, float(np.sign(w[k]) * ball.radius), float(abs(w[k]) / ball.radius)


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
