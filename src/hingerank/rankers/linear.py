"""RankSVM: the linear Ranking SVM, pair-free."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import clone

from hingerank.losses import LOSSES
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem import RankObjective, RowsDesign
from hingerank.rankers.base import LinearRanker, warn_not_converged
from hingerank.rankers.inputs import check_features, fingerprint_rows
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


# solver -> (function, the losses it can minimise)
SOLVERS: dict[str, tuple[Callable[..., Solution], tuple[str, ...]]] = {
    "newton": (newton, ("squared_hinge", "modified_huber", "logistic", "exponential")),
    "smoothing": (smoothing, ("hinge",)),
    "cutting-plane": (_planes, ("hinge",)),
    "dual": (dual_coordinate_descent, ("hinge",)),
}
ITERATIONS = {"newton": 200, "smoothing": 300, "cutting-plane": 3000, "dual": 1000}


class RankSVM(LinearRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  loss(w·x_i - w·x_j).

    Parameters
    ----------
    C : weight of the summed pair losses against the norm (LIBLINEAR's ranksvm uses the same C; for SVMrank see
        `hingerank.export.svmlight.C_from_svmrank`).
    loss : "squared_hinge" max(0, 1-t)², "hinge" max(0, 1-t), or "modified_huber", "logistic", "exponential".
    tol : stop when the gradient norm is at most tol times that at w = 0; for the hinge, when the duality gap is at most
        tol times the objective.
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing" (fastest), "cutting-plane", "dual" (gives
        `multipliers_`).
    pair_weight : "uniform", or "query": every query counts the same however many pairs it has.
    grade_weight : matrix over the distinct grades, ascending: the cost of a pair with these two grades.
    scale : feature scaling learnt in fit and carried in the model ("query-minmax", "standard", ...; None for none).
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    init : weights to start from. callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights. certificate_ : how near the optimum they are. trace_ : one entry per iteration. n_iter_ :
    iterations. n_pairs_ : preference pairs. objective_ : the value reached. multipliers_, pairs_ : with solver="dual",
    a number for each pair (winner row, loser row).

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = RankSVM(C=1.0).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    _fitted = ("objective_",)
    _training_only = ("callback", "init")

    def __init__(
        self, C=1.0, loss="squared_hinge", tol=1e-3, *, solver="auto", pair_weight="uniform", grade_weight=None,
        scale=None, max_iter=None, max_seconds=None, init=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.pair_weight = pair_weight
        self.grade_weight = grade_weight
        self.scale = scale
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.init = init
        self.callback = callback

    def _fit(self, X, y, blocks, sample_weight):
        preferences = GradedPreferences(
            y, blocks.offsets, item_weight=sample_weight, grade_weight=self.grade_weight, pair_weight=self.pair_weight
        )
        self._minimise(X, preferences)

    def fit_pairs(self, X: Any, winners: Any, losers: Any, weight: Any = None) -> "RankSVM":
        """Learn from explicit comparisons: row `winners[k]` of X should be above row `losers[k]`."""
        X = check_features(self, X, reset=True)
        return self._fit_explicitly(X, ExplicitPairs(winners, losers, X.shape[0], weight))

    def fit_preferences(self, X: Any, preferences: Preferences) -> "RankSVM":
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
    ) -> "list[RankSVM]":  # fmt: skip
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller C."""
        wanted = [float(C) for C in Cs]
        if not wanted:
            raise ValueError("Cs is empty: give the values of C, such as [0.01, 0.1, 1]")
        leader = clone(self).set_params(C=wanted[0], callback=self.callback, init=self.init)
        leader._path = sorted(set(wanted))
        leader.fit(X, y, qid, sample_weight, group=group)
        solutions = leader.__dict__.pop("_solutions")
        del leader._path
        path = []
        for C in wanted:
            ranker = clone(self).set_params(C=C, callback=self.callback, init=self.init)
            ranker.__dict__.update({k: v for k, v in leader.__dict__.items() if k not in leader.get_params()})
            ranker._take(solutions[C])
            path.append(ranker)
        return path

    def _fit_explicitly(self, X, preferences):
        if getattr(self, "scale", None) is not None:
            raise ValueError("scale= works with fit(X, y, qid); scale the rows before fitting preferences directly")
        self.scaler_, self._source_rows = None, None
        self.fingerprint_, self.validation_scores_ = fingerprint_rows(X), []
        self._minimise(X, preferences)
        return self

    def _minimise(self, X, preferences):
        loss, solve, options = self._choices()
        self.n_pairs_ = preferences.n_pairs
        if preferences.n_pairs == 0:
            warnings.warn(
                "there are no preference pairs (in every query all rows have the same grade), so every weight is 0",
                UserWarning,
                stacklevel=5,
            )
        objective = RankObjective(RowsDesign(X), loss, preferences, self._path[0] if hasattr(self, "_path") else self.C)
        w = self._start(objective.dimension)
        if not hasattr(self, "_path"):
            self._take(solve(objective, w, **options))
            return
        self._solutions = {}
        for C in self._path:
            self._solutions[C] = solve(objective.with_C(C), w, **options)
            w = self._solutions[C].w
        self._take(self._solutions[self.C])

    def _choices(self):
        """The loss, the solver and its options, checked."""
        if self.loss not in LOSSES or self.loss == "smoothed_hinge":
            known = ", ".join(sorted({name for _, losses in SOLVERS.values() for name in losses}))
            raise ValueError(f"there is no loss {self.loss!r}; the known ones are: {known}")
        able = [name for name, (_, losses) in SOLVERS.items() if self.loss in losses]
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
        return LOSSES[self.loss](), SOLVERS[solver][0], options

    def _start(self, dimension: int) -> np.ndarray | None:
        if self.init is None:
            return None
        w = np.asarray(self.init, np.float64)
        if w.shape != (dimension,) or not np.isfinite(w).all():
            raise ValueError(f"init must be {dimension} finite weights, got an array of shape {w.shape}")
        return w

    def _take(self, solution: Solution) -> None:
        self.coef_, self.objective_ = solution.w, float(solution.value)
        self.certificate_, self.trace_ = solution.certificate, solution.trace
        self.n_iter_ = max(1, solution.certificate.n_iter)
        if "multipliers" in solution.extra:
            pairs, rows = solution.extra["pairs"], self._source_rows
            winner, loser = (r if rows is None else rows[r] for r in (pairs.winner, pairs.loser))
            self.multipliers_, self.pairs_ = solution.extra["multipliers"], np.stack([winner, loser], axis=1)
        warn_not_converged(solution.certificate)
