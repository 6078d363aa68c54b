"""Several fits in turn: the pair weights of each come from the ranking of the previous one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.checks import whole
from hingerank.losses.rankings import RankDistanceLoss
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem
from hingerank.solvers.run import Solution


def solve_in_rounds(
    problem: Problem, w: np.ndarray | None, solve: Callable[..., Solution], rounds: int, **options: object
) -> Solution:
    """The last of several fits; ``extra["rounds"]`` says how each of them ended, and the trace has all their steps.

    Parameters
    ----------
    problem : the first fit's, with equal weights of pairs
    w : where the first fit starts
    solve : solver of each fit, which starts from the one before
    rounds : number of fits
    options : of the solver
    """
    if not isinstance(problem.preferences, GradedPreferences):
        raise ValueError("pair_weight='ndcg' ranks the graded rows of queries, all in this process")
    solution = solve(problem, w=w, **options)
    scores = problem.design.scores(solution.w)
    summaries, trace = [_summary(solution, None)], [{"round": 1, **entry} for entry in solution.trace]
    for number in range(2, whole("rounds", rounds, 2) + 1):
        loss = RankDistanceLoss(problem.loss, problem.preferences, scores)
        if loss.empty:  # no grade is above 0: NDCG cannot be raised
            break
        solution = solve(problem.with_loss(loss), w=solution.w, **options)
        before, scores = scores, problem.design.scores(solution.w)
        summaries.append(_summary(solution, _moved(before, scores, problem.preferences.offsets)))
        trace += [{"round": number, **entry} for entry in solution.trace]
    return replace(solution, trace=trace, extra={**solution.extra, "rounds": summaries})


def _summary(solution: Solution, moved: float | None) -> Facts:
    """How a fit ended; moved: the fraction of neighbours in the previous ranking that have swapped."""
    return {**solution.certificate.to_dict(), "objective": float(solution.value), "moved": moved}


def _moved(before: np.ndarray, after: np.ndarray, offsets: np.ndarray) -> float:
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-before, query))
    same = np.diff(query[order]) == 0
    return float((np.diff(after[order])[same] > 0).mean()) if same.any() else 0.0
