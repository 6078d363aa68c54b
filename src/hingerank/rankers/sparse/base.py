"""What the sparse rankers share: which features a model kept, and paths of models."""

import warnings
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hingerank.preferences import GradedPreferences
from hingerank.rankers.base import LinearRanker, warn_not_converged
from hingerank.solvers.solution import Solution


class PathProblem(Protocol):
    """One data set's problem for any value of the path parameter."""

    def solve(self, value: Any, before: Solution | None) -> Solution:
        """The solution at `value`; `before` is that of the value solved just before, a start."""
        ...


class SparseRanker(LinearRanker):
    """score(x) = coef_ · x with most of `coef_` zero.

    A ranker defines `_problem(X, y, blocks, sample_weight)`, a PathProblem for its `path_parameter`; fits, paths and
    the account of the features kept are here.
    """

    _fitted = ("objective_",)
    _training_only = ("callback",)
    path_parameter = "C"
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
        if not hasattr(self, "_values"):
            self._take(problem.solve(getattr(self, self.path_parameter), None))
            self._warn()
            return
        values = self._values if isinstance(self._values, list) else problem.grid(self._values)
        self._solutions, solution = {}, None
        for value in values:
            solution = self._solutions[value] = problem.solve(value, solution)

    def _fit_path(self, values: Any, X: Any, y: Any, qid: Any, sample_weight: Any, group: Any) -> list[Any]:
        """One fitted ranker for every value, in the order given, each started from the next smaller value."""
        count = isinstance(values, int)
        wanted = [] if count else [self._path_value(value) for value in values]
        if not (values > 0 if count else wanted):
            raise ValueError(f"the path is empty: give values of {self.path_parameter}, such as [1, 2, 4]")
        leader = self._with(getattr(self, self.path_parameter) if count else wanted[0])
        leader._values = values if count else sorted(set(wanted))
        leader.fit(X, y, qid, sample_weight, group=group)
        solutions = leader.__dict__.pop("_solutions")
        del leader._values
        parameters, path = leader.get_params(), []
        for value in list(solutions) if count else wanted:
            ranker = self._with(value)
            ranker.__dict__.update({name: state for name, state in leader.__dict__.items() if name not in parameters})
            ranker._take(solutions[value])
            ranker._warn()
            path.append(ranker)
        return path

    def _path_value(self, value: Any) -> Any:
        return float(value)

    def _with(self, value: Any) -> Any:
        """A copy of this ranker, not fitted, with another value of the path parameter."""
        return clone(self).set_params(**{self.path_parameter: value}, **self._uncopied())

    def _uncopied(self) -> dict[str, Any]:
        """Parameters that a copy shares with the original instead of copying them."""
        return {"callback": self.callback} if "callback" in self.get_params() else {}

    def _preferences(self, y, blocks, sample_weight) -> GradedPreferences:
        """The graded pairs; a warning when there are none."""
        preferences = GradedPreferences(y, blocks.offsets, item_weight=sample_weight)
        self.n_pairs_ = preferences.n_pairs
        if preferences.n_pairs == 0:
            warnings.warn(
                "there are no preference pairs (in every query all rows have the same grade), so every weight is 0",
                UserWarning,
                stacklevel=6,
            )
        return preferences

    def _limits(self) -> dict[str, Any]:
        """tol, max_iter, max_seconds and callback, checked, as solvers take them."""
        positive("tol", self.tol)
        if self.max_iter < 0 or int(self.max_iter) != self.max_iter:
            raise ValueError(f"max_iter must be a whole number of iterations, not {self.max_iter!r}")
        seconds = np.inf if self.max_seconds is None else self.max_seconds
        return {"tol": self.tol, "max_iter": int(self.max_iter), "max_seconds": seconds, "callback": self.callback}

    def _warn(self) -> None:
        if not (self._may_stop_early and self.certificate_.status == "max_iter"):
            warn_not_converged(self.certificate_)

    def _take(self, solution: Solution) -> None:
        self.coef_, self.objective_ = solution.w, float(solution.value)
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        self.n_iter_ = max(1, solution.certificate.n_iter)


def positive(name: str, value: Any) -> float:
    """`value` as a positive finite number, or a ValueError that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    return number
