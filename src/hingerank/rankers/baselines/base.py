"""What the baselines that differ from RankSVM by their loss have in common."""

from functools import partial
from typing import Any

import numpy as np

from hingerank.preferences import GradedPreferences
from hingerank.problem.least_squares import LeastSquaresObjective
from hingerank.problem.mapped import mapped_design
from hingerank.problem.memory import memory_budget
from hingerank.rankers.linear import RankSVM
from hingerank.solvers.closed_form import closed_form
from hingerank.solvers.newton import newton
from hingerank.solvers.solution import Solution

LARGEST_SOLVED = 4000  # features: above, conjugate gradients take less time and memory than a matrix of d² numbers
SQUARES = ("all_differences", "grade_differences", "squared")


class LossRanker(RankSVM):
    """min over w of  ½‖w‖² + C · loss(Φ w),  the loss being the class's own; parameters as in RankSVM."""

    solver, pair_weight, grade_weight = "auto", "uniform", None

    def __init__(
        self, C=1.0, tol=1e-3, *, scale=None, features=None, max_iter=None, max_seconds=None, init=None, callback=None
    ):
        self.C = C
        self.tol = tol
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.init = init
        self.callback = callback


class LeastSquaresRanker(RankSVM):
    """The same for sums of squares, which are solved exactly: one matrix of d² numbers serves all values of C."""

    solver, pair_weight, grade_weight, init = "auto", "uniform", None, None
    _training_only = ("callback",)

    def _choices(self) -> Any:
        loss, solve, options = super()._choices()
        if self.loss in SQUARES:
            solve = partial(minimise_squares, all_C=hasattr(self, "_values"))
        return loss, solve, options

    def _objective(self, X: Any, loss: Any, preferences: Any, C: float) -> Any:
        graded = isinstance(preferences, GradedPreferences) and not preferences.pairs_differ
        if self.loss not in SQUARES or not graded:
            return super()._objective(X, loss, preferences, C)
        design = self._design(X)
        if self.features_ is not None:
            design = mapped_design(self.features_, X, memory_budget(None), by_rows=True)
        return LeastSquaresObjective(design, loss, preferences, C)


def minimise_squares(objective: Any, w: np.ndarray | None, *, all_C: bool, **options: Any) -> Solution:
    """By solving for the Hessian where it is small enough to be formed, else by conjugate gradients."""
    if isinstance(objective, LeastSquaresObjective) and objective.dimension <= LARGEST_SOLVED:
        return closed_form(objective, all_C=all_C, **options)
    return newton(objective, w, **options)
