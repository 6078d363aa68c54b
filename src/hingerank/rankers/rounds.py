"""Fits one after another, each under the pair weights that the ranking of the one before gives."""

from dataclasses import replace
from typing import Any

import numpy as np

from hingerank.arrays import Facts, Ranker
from hingerank.data.checks import whole
from hingerank.losses.distances import RankDistanceLoss
from hingerank.preferences import GradedPreferences
from hingerank.solvers.run import Solution


def weighted_rounds(ranker: Ranker, problem: Any, solution: Solution) -> Solution:
    """The last of the fits that follow the first; ``extra["rounds"]`` says how each ended, the trace has all steps.

    Parameters
    ----------
    ranker : says how a problem is solved, and by its parameter `rounds` how many fits there are
    problem : with equal weights
    solution : of the problem
    """
    if ranker.rounds is None:
        raise ValueError(f"{type(ranker).__name__} has no pair_weight='ndcg': RankSVM and AdditiveRankSVM have it")
    if not isinstance(problem.preferences, GradedPreferences):
        raise ValueError("pair_weight='ndcg' ranks the graded rows of queries, all in this process")
    scores = problem.design.scores(solution.w)
    rounds, trace = [_summary(solution, None)], [{"round": 1, **entry} for entry in solution.trace]
    for number in range(2, whole("rounds", ranker.rounds, 2) + 1):
        loss = RankDistanceLoss(problem.loss, problem.preferences, scores)
        if loss.empty:  # no grade is above 0: there is nothing that NDCG could gain
            break
        solve, options = ranker._how(problem, solution)
        solution = solve(problem.with_loss(loss), **options)
        before, scores = scores, problem.design.scores(solution.w)
        rounds.append(_summary(solution, _moved(before, scores, problem.preferences.offsets)))
        trace += [{"round": number, **entry} for entry in solution.trace]
    return replace(solution, trace=trace, extra={**solution.extra, "rounds": rounds})


def _summary(solution: Solution, moved: float | None) -> Facts:
    """How a fit ended; moved: the fraction of neighbours in the ranking before that have changed places."""
    return {**solution.certificate.to_dict(), "objective": float(solution.value), "moved": moved}


def _moved(before: np.ndarray, after: np.ndarray, offsets: np.ndarray) -> float:
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-before, query))
    same = np.diff(query[order]) == 0
    return float((np.diff(after[order])[same] > 0).mean()) if same.any() else 0.0
