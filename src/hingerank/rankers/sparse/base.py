"""What the sparse rankers share: which features a model kept, and paths of models."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.preferences import GradedPreferences
from hingerank.rankers.base import LinearRanker, warn_not_converged
from hingerank.rankers.paths import PathRanker, warn_if_no_pairs
from hingerank.solvers.solution import Solution


class SparseRanker(PathRanker, LinearRanker):
    """score(x) = coef_ · x with most of `coef_` zero.

    A ranker defines `_problem(X, y, blocks, sample_weight)`, with solve(value of the path parameter, solution of the
    value before or None) and, where a path may be given by a count, grid(count); the rest is here.
    """

    _fitted = ("objective_",)
    _training_only = ("callback",)
    _may_stop_early = False  # the method is defined by its number of steps: no warning at max_iter

    @property
    def selected_features_(self) -> np.ndarray:
        """Columns whose weight is not 0, ascending; `feature_table()` gives names and weights."""
        check_is_fitted(self)
        return np.flatnonzero(self.coef_)

    @property
    def sparsity_(self) -> float:
        """The sparsity ratio: weights that are not 0 / all weights."""
        return len(self.selected_features_) / len(self.coef_)

    def _problem(self, X, y, blocks, sample_weight) -> Any:
        raise NotImplementedError

    def _fit(self, X, y, blocks, sample_weight):
        problem = self._problem(X, y, blocks, sample_weight)
        self._solve(problem.solve, getattr(problem, "grid", None))

    def _preferences(self, y, blocks, sample_weight) -> GradedPreferences:
        """The graded pairs; a warning when there are none."""
        preferences = GradedPreferences(y, blocks.offsets, item_weight=sample_weight)
        self.n_pairs_ = preferences.n_pairs
        warn_if_no_pairs(preferences, stacklevel=6)
        return preferences

    def _limits(self) -> dict[str, Any]:
        """tol, max_iter, max_seconds and callback, checked, as solvers take them."""
        positive("tol", self.tol)
        if self.max_iter < 0 or int(self.max_iter) != self.max_iter:
            raise ValueError(f"max_iter must be a whole number of iterations, not {self.max_iter!r}")
        seconds = np.inf if self.max_seconds is None else self.max_seconds
        return {"tol": self.tol, "max_iter": int(self.max_iter), "max_seconds": seconds, "callback": self.callback}

    def _take(self, solution: Solution) -> None:
        self.coef_ = solution.w
        self._account(solution)
        if not (self._may_stop_early and solution.certificate.status == "max_iter"):
            warn_not_converged(solution.certificate)


def positive(name: str, value: Any) -> float:
    """`value` as a positive finite number, or a ValueError that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    return number
