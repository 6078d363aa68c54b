"""What the Ranking SVMs share: losses, solvers, preference sets and paths over C, around one hook, `_objective`."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from hingerank.data.memory import memory_budget
from hingerank.features.maps import as_feature_map
from hingerank.losses import LIST_LOSSES, make_loss
from hingerank.losses.lists import WithRegression
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem import RankObjective, RowsDesign
from hingerank.problem.least_squares import LeastSquaresObjective
from hingerank.problem.mapped import mapped_design
from hingerank.rankers.base import (
    LinearRanker,
    PathRanker,
    check_features,
    fingerprint_rows,
    warn_if_no_pairs,
    warn_not_converged,
)
from hingerank.rankers.multipliers import HasMultipliers
from hingerank.solvers.closed_form import closed_form
from hingerank.solvers.cutting_plane import cutting_plane
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.newton import newton
from hingerank.solvers.run import Solution
from hingerank.solvers.smoothing import smoothing

__all__ = ["ITERATIONS", "SOLVERS", "RankSVM"]


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


# RankSVM: the linear Ranking SVM, pair-free.


class RankSVM(PairwiseRanker, LinearRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  loss(w·x_i - w·x_j).

    Parameters
    ----------
    C : weight of the summed pair losses against the norm (LIBLINEAR's ranksvm uses the same C; for SVMrank see
        `hingerank.export.svmlight.C_from_svmrank`).
    loss : "squared_hinge" max(0, 1-t)², "hinge" max(0, 1-t), or "modified_huber", "logistic", "exponential",
        "fidelity", "squared"; of whole lists "listnet", "listmle", "grade_differences", "all_differences".
    tol : stop when the gradient norm is at most tol times that at w = 0; for the hinge, when the duality gap is at most
        tol times the objective.
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing" (fastest), "cutting-plane", "dual" (gives
        `multipliers_`).
    pair_weight : "uniform", or "query": every query counts the same however many pairs it has.
    grade_weight : matrix over the distinct grades, ascending: the cost of a pair with these two grades.
    scale : feature scaling learnt in fit and carried in the model ("query-minmax", "standard", ...; None for none).
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    features : a feature map φ: any scikit-learn transformer (`Nystroem`, `PolynomialFeatures`, ...), fitted on the
        training rows; the ranker is then linear in φ(x), of which one copy is made, in float32 and by blocks (half of
        the machine's memory at most; beyond that φ is computed again for every pass). Such a ranker cannot be saved:
        NystroemRankSVM and FourierRankSVM can.
    init : weights to start from. callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights. features_ : the fitted feature map, or None. certificate_ : how near the optimum the weights are.
    trace_ : one entry per iteration. n_iter_ : iterations. n_pairs_ : preference pairs. objective_ : the value reached.
    multipliers_, pairs_ : with solver="dual", a number for each pair (winner row, loser row).

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = RankSVM(C=1.0).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    def __init__(
        self, C=1.0, loss="squared_hinge", tol=1e-3, *, solver="auto", pair_weight="uniform", grade_weight=None,
        scale=None, features=None, max_iter=None, max_seconds=None, init=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.pair_weight = pair_weight
        self.grade_weight = grade_weight
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.init = init
        self.callback = callback

    def _prepare(self, X, sample_weight):
        self.features_: Any = None
        if self.features is not None:
            self.features_ = as_feature_map(self.features).fit(X, sample_weight=sample_weight)

    def _objective(self, X, loss, preferences, C):
        return RankObjective(self._design(X), loss, preferences, C)

    def _design(self, X):
        if self.features_ is None:
            return RowsDesign(X)
        return mapped_design(self.features_, X, memory_budget(None), by_rows=self.solver == "dual")

    def _keep(self, solution):
        self.coef_ = solution.w

    def _scores(self, X):
        if getattr(self, "features_", None) is None:
            return super()._scores(X)
        return self.features_.scores(X, self.features_.unmixed(self.coef_))


# What the baselines that differ from RankSVM by their loss have in common.


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


# RankNet: logistic loss of pairs (Burges, Shaked, Renshaw, Lazier, Deeds, Hamilton & Hullender 2005).


class RankNet(LossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  log(1 + exp(-(s_i - s_j))),  s = Φ w.

    The original has a neural network for s and stops its descent early; here s is linear in the features, or in those
    of any feature map, and the fit goes to the optimum. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C, tol, scale, features, max_iter, max_seconds, init, callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "logistic"


# ListNet: cross entropy of the chances to come first (Cao, Qin, Liu, Tsai & Li 2007).


class ListNet(LossRanker):
    """min over w of  ½‖w‖² - C · sum over queries of  sum_i P_y(i) log P_s(i),  s = Φ w,

    where P_s(i) = exp(s_i) / sum_j exp(s_j) is the chance of row i to come first, and P_y the same of the grades.

    Parameters
    ----------
    C : weight of the losses, summed over queries, against the norm. tol, scale, features, max_iter, max_seconds, init,
        callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listnet"


# ListMLE: the likelihood of the graded order (Xia, Liu, Wang, Zhang & Li 2008).


class ListMLE(LossRanker):
    """min over w of  ½‖w‖² - C · sum over rows i of  log( exp(s_i) / (exp(s_i) + sum over j below i of exp(s_j)) ),

    s = Φ w, j the rows of i's query with a lower grade: the likelihood of the graded order under Plackett and Luce's
    model. Rows of equal grade do not compete, since their order is not known (`hingerank.losses.PlackettLuce` says
    more).

    Parameters
    ----------
    C : weight of the summed losses against the norm. tol, scale, features, max_iter, max_seconds, init, callback : as
        in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListMLE(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listmle"


# FRank: fidelity loss of pairs (Tsai, Liu, Qin, Chen & Ma 2007).


class FRank(LossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  1 - sqrt(1 / (1 + exp(-(s_i - s_j)))),  s = Φ w.

    The loss of a pair is at most 1, however wrong it is. So the problem is not convex: the fit starts at w = 0, and the
    certificate is that of a stationary point. The original adds up weak rankers; here s is linear in the features, or
    in those of any feature map. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C, tol, scale, features, max_iter, max_seconds, init, callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> FRank(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "fidelity"


# RankRLS: least squares on differences (Pahikkala, Tsivtsivadze, Airola, Järvinen & Boberg 2009).


class RankRLS(LeastSquaresRanker):
    """min over w of  ½‖w‖² + C · sum over every two rows of a query of  ((y_i - y_j) - (s_i - s_j))²,  s = Φ w.

    With L the Laplacian of the pairs (n I - 1 1ᵀ in a query of n rows) the answer is  w = 2C (I + 2C XᵀLX)⁻¹ XᵀL y:
    O(n d²) for all values of C together. The paper's and RLScore's λ is 1 / (2C).

    Parameters
    ----------
    C : weight of the summed squares against the norm.
    loss : "all_differences" as above: rows of equal grade are to have equal scores; "grade_differences": pairs of
        different grades only; "squared": (1 - (s_i - s_j))² over these, whatever the grades.
    pair_weight : "uniform" as in the paper, or "rows": a query's pairs divided by its rows, as in RLScore's program.
    tol : accepted gradient norm relative to that at w = 0. scale, features, max_iter, max_seconds, callback : as in
        RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankRLS(C=1e6).fit(X, y, qid=qid).coef_.round(3).tolist()  # (1·1 + 0.7·1) / (1² + 0.7²)
    [1.141]
    """

    def __init__(
        self, C=1.0, loss="all_differences", tol=1e-6, *, pair_weight="uniform", scale=None, features=None,
        max_iter=None, max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.loss = loss
        self.tol = tol
        self.pair_weight = pair_weight
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _fit(self, X, y, blocks, sample_weight):
        if self.pair_weight not in ("uniform", "rows"):
            raise ValueError(f"pair_weight must be 'uniform' or 'rows', not {self.pair_weight!r}")
        self._prepare(X, sample_weight)
        rows = blocks.sizes if sample_weight is None else np.add.reduceat(sample_weight, blocks.offsets[:-1])
        share = None if self.pair_weight == "uniform" else 1.0 / rows
        self._minimise(X, GradedPreferences(y, blocks.offsets, item_weight=sample_weight, query_weight=share))


# CRR: combined regression and ranking (Sculley 2010).


class CRR(LeastSquaresRanker):
    """min over w, b of  ½‖w‖² + C · ( alpha · mean over rows of (y_i - b - s_i)²
                                 + (1 - alpha) · mean over pairs of ((y_i - y_j) - (s_i - s_j))² ),  s = Φ w,

    over pairs of different grades: scores that order the rows of a query and are near the grades. Both parts are means,
    as in the paper, whose λ is 1 / C. Solved exactly, in O(n d²) for all values of C together.

    Parameters
    ----------
    C : weight of the two means against the norm. alpha : share of regression, from 0 (ranking only) to 1.
    loss : the pairs' loss: "grade_differences" as above, or another one of RankSVM's smooth losses, such as "logistic".
    tol : accepted gradient norm relative to that at w = 0. scale, features, max_iter, max_seconds, callback : as in
        RankSVM.

    Attributes
    ----------
    coef_ : weights. intercept_ : b. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 2, 0, 2], ["a", "a", "b", "b"]
    >>> CRR(C=1e6).fit(X, y, qid=qid).predict(X).round(1).tolist()
    [-0.2, 2.1, 0.3, 1.9]
    """

    _fitted = ("intercept_",)

    def __init__(
        self, C=1.0, alpha=0.5, loss="grade_differences", tol=1e-6, *, scale=None, features=None, max_iter=None,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.alpha = alpha
        self.loss = loss
        self.tol = tol
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _choices(self):
        loss, solve, options = super()._choices()
        return WithRegression(loss, self.alpha), solve, options

    def _objective(self, X, loss, preferences, C):
        objective = super()._objective(X, loss, preferences, C)
        weight = np.ones(preferences.n_items) if preferences.item_weight is None else preferences.item_weight
        self._mean_y = float(weight @ preferences.y / weight.sum())
        self._mean_x = objective.design.back(weight) / weight.sum()
        return objective

    def _keep(self, solution):
        super()._keep(solution)
        self.intercept_ = self._mean_y - float(self._mean_x @ solution.w)

    def _scores(self, X):
        return super()._scores(X) + self.intercept_
