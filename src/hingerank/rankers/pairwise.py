"""What the Ranking SVMs share: losses, solvers, preference sets and paths over C, around one hook, `_objective`."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hingerank.losses import LIST_LOSSES, make_loss
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem import RankObjective
from hingerank.rankers.base import warn_not_converged
from hingerank.rankers.inputs import check_features, fingerprint_rows
from hingerank.rankers.multiplier.blocks import HasMultipliers
from hingerank.rankers.paths import PathRanker, warn_if_no_pairs
from hingerank.solvers.cutting_plane import cutting_plane
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.newton import newton
from hingerank.solvers.smoothing import smoothing
from hingerank.solvers.solution import Solution


def _planes(objective: RankObjective, w: np.ndarray | None, **options: Any) -> Solution:
    """Cutting planes on the objective's own risk."""

    def risk(w):
        point = objective.at(w)
        return (point.value - 0.5 * w @ w) / objective.C, (point.gradient - w) / objective.C

    return cutting_plane(risk, objective.dimension, objective.C, w, **options)


SMOOTH = ("squared_hinge", "modified_huber", "logistic", "exponential", "fidelity", "squared", *LIST_LOSSES)
# solver -> (function, the losses it can minimise)
SOLVERS: dict[str, tuple[Callable[..., Solution], tuple[str, ...]]] = {
    "newton": (newton, SMOOTH),
    "smoothing": (smoothing, ("hinge",)),
    "cutting-plane": (_planes, ("hinge",)),
    "dual": (dual_coordinate_descent, ("hinge",)),
}
ITERATIONS = {"newton": 200, "smoothing": 300, "cutting-plane": 3000, "dual": 1000}

_OF_PAIRS = ("multipliers_", "pairs_", "pairs_per_query_", "queries_", "sizes_")


class PairwiseRanker(HasMultipliers, PathRanker):
    """min over functions f of  ½‖f‖² + C · sum over pairs (i preferred to j) of  loss(f(x_i) - f(x_j)).

    A ranker of this family says which functions it means: `_objective` gives the objective on training rows, and
    `_keep` takes over the minimiser. `_solvers` names the solvers it works with.
    """

    _fitted: tuple[str, ...] = ("objective_", *_OF_PAIRS)
    _training_only: tuple[str, ...] = ("callback", "init")
    _solvers: tuple[str, ...] = tuple(SOLVERS)

    def _objective(self, X: Any, loss: Any, preferences: Preferences, C: float) -> Any:
        """The objective on rows in block order."""
        raise NotImplementedError

    def _keep(self, solution: Solution) -> None:
        """Take over the minimiser that a solver found."""
        raise NotImplementedError

    def _prepare(self, X: Any, sample_weight: np.ndarray | None) -> None:
        """Learn from the rows alone, before any preference is looked at."""

    def _fit(self, X, y, blocks, sample_weight):
        self._prepare(X, sample_weight)
        preferences = GradedPreferences(
            y, blocks.offsets, item_weight=sample_weight, grade_weight=self.grade_weight, pair_weight=self.pair_weight
        )
        self._minimise(X, preferences)
        if self.solver == "dual":
            self.pairs_per_query_ = preferences.pairs_per_query
            self.queries_, self.sizes_ = blocks.ids, blocks.sizes

    def fit_pairs(self, X: Any, winners: Any, losers: Any, weight: Any = None, qid: Any = None) -> Any:
        """Learn from explicit comparisons: row `winners[k]` of X should be above row `losers[k]`.

        weight: one per pair. qid: the query or user of each pair, which pair_weight="query" makes count the same.
        """
        X = check_features(self, X, reset=True)
        return self._fit_explicitly(X, ExplicitPairs(winners, losers, X.shape[0], weight, qid, self.pair_weight))

    def fit_preferences(self, X: Any, preferences: Preferences) -> Any:
        """Learn from a preference set with any weights; X has its rows in the order of the preference set.

        This is the door for clicks with propensities: ``GradedPreferences(clicks, offsets,
        winner_weight=1/propensity)`` weighs each clicked row's pairs by the inverse of its propensity (Joachims,
        Swaminathan & Schnabel 2017).
        """
        X = check_features(self, X, reset=True)
        if preferences.n_items != X.shape[0]:
            raise ValueError(f"the preferences are about {preferences.n_items} rows but X has {X.shape[0]}")
        return self._fit_explicitly(X, preferences)

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Iterable[float] = (), sample_weight: Any = None, *,
        group: Any = None,
    ) -> list[Any]:  # fmt: skip
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller C."""
        return self._fit_path(list(Cs), X, y, qid, sample_weight, group)

    def _fit_explicitly(self, X, preferences):
        if getattr(self, "scale", None) is not None:
            raise ValueError("scale= works with fit(X, y, qid); scale the rows before fitting preferences directly")
        self.scaler_, self._source_rows = None, None
        self.fingerprint_, self.validation_scores_ = fingerprint_rows(X), []
        self._prepare(X, None)
        self._minimise(X, preferences)
        return self

    def _minimise(self, X, preferences):
        for name in _OF_PAIRS:  # of an earlier fit
            self.__dict__.pop(name, None)
        loss, solve, options = self._choices()
        self.n_pairs_ = preferences.n_pairs
        warn_if_no_pairs(preferences, stacklevel=5)
        objective = self._objective(X, loss, preferences, self._values[0] if hasattr(self, "_values") else self.C)
        start = self._start(objective.dimension)

        def solve_for(C, before):
            w = start if before is None else before.w
            return solve(objective.with_C(C) if hasattr(self, "_values") else objective, w, **options)

        self._solve(solve_for)

    def _choices(self):
        """The loss, the solver and its options, checked."""
        known = {loss for name in self._solvers for loss in SOLVERS[name][1]}
        if self.loss not in known:
            raise ValueError(f"there is no loss {self.loss!r}; the known ones are: {', '.join(sorted(known))}")
        able = [name for name in self._solvers if self.loss in SOLVERS[name][1]]
        solver = able[0] if self.solver == "auto" else self.solver
        if solver not in able:
            raise ValueError(
                f"solver {solver!r} does not minimise loss {self.loss!r}; use one of: auto, {', '.join(able)}"
            )
        if not (np.isfinite(self.tol) and self.tol > 0):
            raise ValueError(f"tol must be positive, not {self.tol!r}")
        options: dict[str, Any] = {"tol": self.tol, "callback": self.callback}
        options["max_iter"] = ITERATIONS[solver] if self.max_iter is None else self.max_iter
        if self.max_seconds is not None:
            options["max_seconds"] = self.max_seconds
        return make_loss(self.loss), SOLVERS[solver][0], options

    def _start(self, dimension: int) -> np.ndarray | None:
        if self.init is None:
            return None
        w = np.asarray(self.init, np.float64)
        if w.shape != (dimension,) or not np.isfinite(w).all():
            raise ValueError(f"init must be {dimension} finite weights, got an array of shape {w.shape}")
        return w

    def _take(self, solution: Solution) -> None:
        self._keep(solution)
        self._account(solution)
        if "multipliers" in solution.extra:
            pairs, rows = solution.extra["pairs"], self._source_rows
            winner, loser = (r if rows is None else rows[r] for r in (pairs.winner, pairs.loser))
            self.multipliers_, self.pairs_ = solution.extra["multipliers"], np.stack([winner, loser], axis=1)
        warn_not_converged(solution.certificate)
