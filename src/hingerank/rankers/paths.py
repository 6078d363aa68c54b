"""Paths: one fitted ranker for every value of a parameter, from one look at the data and from warm starts."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.base import clone

from hingerank.rankers.base import BaseRanker
from hingerank.solvers.solution import Solution


class PathRanker(BaseRanker):
    """A ranker whose problem can be solved for many values of one parameter, each from the solution of the one before.

    A ranker's `_fit` ends in `_solve`, its `fit_path` calls `_fit_path`, and `_take` takes over a solution.
    """

    path_parameter = "C"

    def _take(self, solution: Solution) -> None:
        """Take over a solution, as `_solve` and the rankers of a path need it."""
        raise NotImplementedError

    def _solve(
        self,
        solve: Callable[[Any, Solution | None], Solution],
        grid: Callable[[int], Iterable[Any]] | None = None,
    ) -> None:
        """Take solve(value, None), or solve all values of a path, each from the solution before; grid: so many."""
        if not hasattr(self, "_values"):
            self._take(solve(getattr(self, self.path_parameter), None))
            return
        self._solutions, solution = {}, None
        for value in self._values if grid is None or isinstance(self._values, list) else grid(self._values):
            solution = self._solutions[value] = solve(value, solution)

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
        path = []
        for value in solutions if count else wanted:
            path.append(take_over(leader, self._with(value)))
            path[-1]._take(solutions[value])
        return path

    def _path_value(self, value: Any) -> Any:
        return float(value)

    def _with(self, value: Any) -> Any:
        """An unfitted copy with another value of the path parameter that shares what only steers training."""
        steering = {name: getattr(self, name) for name in self._training_only}
        return clone(self).set_params(**{self.path_parameter: value}, **steering)


def take_over(leader: Any, ranker: Any) -> Any:
    """The ranker with all that the leader's fit has set, but with its own parameters."""
    parameters = leader.get_params()
    ranker.__dict__.update({name: state for name, state in leader.__dict__.items() if name not in parameters})
    return ranker


def warn_if_no_pairs(preferences: Any, stacklevel: int) -> None:
    if preferences.n_pairs == 0:
        warnings.warn(
            "there are no preference pairs (in every query all rows have the same grade), so every weight is 0",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
