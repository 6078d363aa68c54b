"""The convex baselines' shared part: a Ranking SVM over (user, item) rows with some design, solved to a certificate."""

from typing import Any

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.personal.base import PersonalRanker, accuracies, check_positive
from hingerank.personal.designs import row_preferences
from hingerank.personal.preferences import UserPreferences
from hingerank.problem import RankObjective
from hingerank.solvers.newton import newton


class ConvexPersonalRanker(PersonalRanker):
    """½‖w‖² + C · sum over users and their pairs of max(0, 1 - t)², the scores linear in w through `_design`."""

    _training_only = ("callback",)

    def __init__(self, C=0.1, tol=1e-3, *, pair_weight="uniform", max_iter=100, max_seconds=None, callback=None):
        self.C = C
        self.tol = tol
        self.pair_weight = pair_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _design(self, X: Any, preferences: UserPreferences) -> Any:
        raise NotImplementedError

    def _keep(self, design: Any, w: np.ndarray) -> None:
        """Store the solution."""
        raise NotImplementedError

    def _learn(self, X: Any, preferences: UserPreferences, watched: UserPreferences | None) -> None:
        check_positive(self, "C", "tol")
        design = self._design(X, preferences)
        objective = RankObjective(design, squared_hinge(), row_preferences(preferences), self.C)
        solution = newton(
            objective,
            tol=self.tol,
            max_iter=self.max_iter,
            max_seconds=np.inf if self.max_seconds is None else self.max_seconds,
            callback=self.callback,
        )
        self._keep(design, solution.w)
        more = None if watched is None else self._right(X, watched)
        included = watched is not None and watched.includes_training
        solution.trace[-1].update(accuracies(self._right(X, preferences), more, included))
        self._take(solution)
