"""What the sparse rankers share: which features a model kept, and paths of models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hingerank.losses import squared_hinge
from hingerank.losses.lists import NdcgSwaps
from hingerank.metrics import evaluate
from hingerank.preferences import GradedPreferences
from hingerank.problem import RankObjective, RowsDesign
from hingerank.problem.score_objective import ScoreObjective
from hingerank.rankers.base import LinearRanker, PathRanker, unpack, warn_if_no_pairs, warn_not_converged
from hingerank.solvers.frank_wolfe import VARIANTS, frank_wolfe
from hingerank.solvers.newton import newton
from hingerank.solvers.proximal_newton import proximal_newton
from hingerank.solvers.run import Solution
from hingerank.solvers.truncated_gradient import largest_eigenvalue, truncated_gradient
from hingerank.structures import L1Ball, L1Norm


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


# Choose a point of a path on validation data.


def choose_on_validation(
    path: Sequence[Any], X: Any, y: Any = None, qid: Any = None, measure: str = "ndcg@10", standard_errors: float = 0.0
) -> tuple[Any, np.ndarray]:
    """(the ranker of the path with the largest mean of `measure` on the validation rows, everyone's value).

    Of equals the earlier one is taken: give the path from sparse to dense. With standard_errors = 1 it is the ranker
    with the fewest features among those that the best one beats by no more than the standard error of that difference
    over the validation queries: what they cannot tell apart need not cost features.

    >>> from hingerank.rankers.sparse import FenchelRank
    >>> X, y, qid = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> best, values = choose_on_validation(FenchelRank().fit_path(X, y, qid, [0.5, 1]), X, y, qid)
    >>> best.radius, values.tolist()
    (0.5, [1.0, 1.0])
    """
    if not path:
        raise ValueError("the path is empty: there is nothing to choose from")
    if not standard_errors >= 0:
        raise ValueError(f"standard_errors must be a number of at least 0, not {standard_errors!r}")
    given, (_, y, qid) = X, unpack(X, y, qid)
    per_query = np.array([evaluate(y, r.predict(given, qid), qid, measure, per_query=True)[measure] for r in path])
    per_query = per_query[:, ~np.isnan(per_query[0])]  # queries without a value, such as those of one grade
    if not per_query.size:
        raise ValueError(f"no validation query has a value of {measure}: there is nothing to choose by")
    values = per_query.mean(axis=1)
    best = int(np.argmax(values))
    if standard_errors > 0:
        behind = per_query[best] - per_query
        error = behind.std(axis=1) / np.sqrt(max(behind.shape[1] - 1, 1))
        near = np.flatnonzero(values >= values[best] - standard_errors * error)
        best = min(near.tolist(), key=lambda k: np.count_nonzero(path[k].coef_))
    return path[best], values


# FenchelRank: the squared hinge inside an l1 ball (Lai, Pan, Liu, Lin & Wu 2013).


RADII = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # the paper's
STEPS = ("exact", "closed-form")


class FenchelRank(SparseRanker):
    """min over ‖w‖₁ ≤ radius of  (1/p) · sum over the p pairs (i preferred to j) of  max(0, 1 - w·x_i + w·x_j)².

    The value at w = 0 is 1, so `tol` is in units of that. The paper writes u = w / radius; `coef_` is w.

    Parameters
    ----------
    radius : of the l1 ball; a small one keeps few features.
    tol : stop when the duality gap  radius ‖g‖_∞ + <g, w>  is at most this, g the gradient at w.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    step : "exact" line search, or "closed-form" (classic, away and pairwise steps only): the minimiser of the quadratic
        bound in which every pair is active, cheaper and a little shorter.
    variant : all have the same optimum. "corrective" minimises anew over all features in use after each choice of
        features, and needs a handful of steps; "classic" is the paper's algorithm, one feature a step; "away" and
        "pairwise" also take weight back from the worst feature in use.
    scale : feature scaling learnt in fit and carried in the model (the paper scales features to [0, 1]).
    callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights, ‖coef_‖₁ ≤ radius. selected_features_ : columns in use. sparsity_ : their share.
    certificate_ : the duality gap. trace_ : value, gap and features in use at every iteration. objective_ : the value.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> ranker = FenchelRank(radius=0.5).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.coef_.round(3).tolist()
    ([0], [0.5, 0.0])
    """

    path_parameter = "radius"

    def __init__(
        self, radius=1.0, tol=1e-3, max_iter=1000, step="exact", variant="corrective", *, scale=None, max_seconds=None,
        callback=None,
    ):  # fmt: skip
        self.radius = radius
        self.tol = tol
        self.max_iter = max_iter
        self.step = step
        self.variant = variant
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, radii: Any = RADII, sample_weight: Any = None, *,
        group: Any = None,
    ) -> "list[FenchelRank]":  # fmt: skip
        """One fitted ranker for every radius, in the order given; each fit starts from that of the next smaller one."""
        return self._fit_path(radii, X, y, qid, sample_weight, group)

    def _problem(self, X, y, blocks, sample_weight):
        known = ("corrective", *VARIANTS)
        if self.variant not in known:
            raise ValueError(f"there is no variant {self.variant!r}; use one of: {', '.join(known)}")
        if self.step not in STEPS:
            raise ValueError(f"there is no step {self.step!r}; use one of: {', '.join(STEPS)}")
        if self.variant == "corrective" and self.step != "exact":
            raise ValueError(f"step {self.step!r} works with the variants {', '.join(VARIANTS)}, not with 'corrective'")
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _BallProblem(objective, self.variant, self.step, self._limits())


class _BallProblem:
    def __init__(self, objective, variant, step, limits):
        self.objective, self.variant, self.step, self.limits = objective, variant, step, limits

    def solve(self, radius: float, before: Solution | None) -> Solution:
        ball, w = L1Ball(positive("radius", radius)), None if before is None else before.w
        if self.variant == "corrective":
            working = None if before is None else before.extra["working"]
            found = proximal_newton(self.objective, ball, w, working=working, min_iter=1, **self.limits)
        else:
            found = frank_wolfe(self.objective, ball, w, variant=self.variant, step=self.step, **self.limits)
        return replace(found, w=ball.inside(found.w))


# SparseRankSVM: the squared hinge with an l1 penalty, or an elastic net.


LONGEST = 1000.0  # a path of n points ends at this many times the C at which the first feature enters


class SparseRankSVM(SparseRanker):
    """min over w of  ‖w‖₁ + ½ ridge ‖w‖² + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)².

    With ridge = 0 its solutions are FenchelRank's at radius ‖w‖₁. Below some C (`fit_path` finds it) all weights are 0.

    Parameters
    ----------
    C : weight of the mean pair loss against the norm; a small one keeps few features.
    ridge : weight of the squared norm: with some, correlated features share a weight instead of one taking all.
    tol : stop when the duality gap is at most tol times the objective.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model.
    callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights. selected_features_ : columns in use. sparsity_ : their share. certificate_ : the relative duality
    gap. trace_ : value, gap and features in use at every iteration. objective_ : the value reached.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> SparseRankSVM(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    def __init__(self, C=100.0, ridge=0.0, tol=1e-3, *, max_iter=1000, scale=None, max_seconds=None, callback=None):
        self.C = C
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Any = 20, sample_weight: Any = None, *, group: Any = None
    ) -> "list[SparseRankSVM]":
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller one.

        Cs: values, or how many: then evenly spaced in log C from where the first feature enters to 1000 times that.
        """
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _problem(self, X, y, blocks, sample_weight):
        if not (np.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(f"ridge must be a number of at least 0, not {self.ridge!r}")
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _NormProblem(objective, L1Norm(self.ridge), self._limits())


class _NormProblem:
    def __init__(self, objective, norm, limits):
        self.objective, self.norm, self.limits = objective, norm, limits
        self.reached = 3 * first_C(objective)

    def solve(self, C: float, before: Solution | None) -> Solution:
        """On the way straight to a much larger C too many features would be in use: come through those in between."""
        C, steps = positive("C", C), 0
        while C / 10 ** (steps + 1) > self.reached:
            steps += 1
        approach = [self.objective.with_C(C / 10**k) for k in range(steps, 0, -1)]
        self.reached = max(C, self.reached)
        warm = {} if before is None else {"w": before.w, "working": before.extra["working"], "min_iter": 1}
        return proximal_newton(self.objective.with_C(C), self.norm, approach=approach, **warm, **self.limits)

    def grid(self, count: int) -> list[float]:
        return grid_of_C(self.objective, count)


def grid_of_C(objective: ScoreObjective, count: int) -> list[float]:
    """`count` values of C from just above the one at which the first weight leaves 0."""
    first = first_C(objective)
    first = first if np.isfinite(first) else 1.0
    return np.geomspace(1.1 * first, LONGEST * first, count).tolist()


def first_C(objective: ScoreObjective) -> float:
    """Up to this C all weights are 0."""
    at_zero = objective.with_C(1.0).at(np.zeros(objective.design.shape[0]))
    steepest = float(np.abs(objective.back(at_zero.gradient)).max())
    return 1.0 / steepest if steepest > 0 else np.inf


# What TGRank and RSRank share: parameters of the truncated gradient, and paths.


class TruncatedGradientRanker(SparseRanker):
    """The constructor and the path that TGRank and RSRank share."""

    def __init__(
        self, C=100.0, learning_rate=None, every=1, threshold=None, tol=1e-3, *, max_iter=1000, scale=None,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.learning_rate = learning_rate
        self.every = every
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Any = (), sample_weight: Any = None, *, group: Any = None
    ) -> list[Any]:
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller one."""
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _options(self) -> dict[str, Any]:
        """The limits and how weights are truncated, checked."""
        if int(self.every) != self.every or self.every < 1:
            raise ValueError(f"every must be a whole number of at least 1, not {self.every!r}")
        threshold = np.inf if self.threshold is None else positive("threshold", self.threshold)
        return self._limits() | {"every": int(self.every), "threshold": threshold}

    def _rate(self, bend: float) -> float:
        """The learning rate asked for, or one over the largest curvature."""
        return positive("learning_rate", self.learning_rate) if self.learning_rate else 1.0 / max(bend, 1e-300)


# TGRank: the l1-penalised squared hinge by truncated gradient (Lai, Pan, Liu, Lin & Wu 2013).


class TGRank(TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)²,  by truncated gradient.

    SparseRankSVM's problem with the solver that FenchelRank is compared with; SparseRankSVM reaches the same optimum
    far sooner.

    Parameters
    ----------
    C : weight of the mean pair loss against the norm.
    learning_rate : of the gradient steps; None for one over the largest curvature, the longest safe one.
    every : truncate in every so many-th step. threshold : draw only weights up to this size to 0; None for all.
    tol : stop when the duality gap is at most tol times the objective.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model. callback : called with each trace entry.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> TGRank(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    def _problem(self, X, y, blocks, sample_weight):
        objective = ScoreObjective(X, squared_hinge(), self._preferences(y, blocks, sample_weight))
        return _MeanLossProblem(objective, self._rate, self._options())


class _MeanLossProblem:
    def __init__(self, objective, rate, options):
        self.objective, self.rate, self.options = objective, rate, options
        start = objective.at(np.zeros(objective.design.shape[0]))  # every pair is active here: the largest curvature
        self.bend = largest_eigenvalue(
            lambda v: objective.back(start.curvature(objective.design.scores(v))), objective.back(start.gradient)
        )

    def solve(self, C: float, before: Solution | None) -> Solution:
        objective, norm = self.objective.with_C(positive("C", C)), L1Norm()

        def at(w):
            point = objective.at(objective.design.scores(w))
            return point.value, objective.back(point.gradient)

        w = np.zeros(objective.dimension) if before is None else before.w
        return truncated_gradient(at, w, self.rate(C * self.bend), norm.gap, norm.kind, **self.options)

    def grid(self, count: int) -> list[float]:
        return grid_of_C(self.objective, count)


# RSRank: pairs weighted by NDCG changes, by truncated gradient (Sun, Qin, Tao & Wang 2009).


class RSRank(TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + C · sum over pairs of  W(i, j; w) ψ(w·x_i - w·x_j),  by truncated gradient.

    ψ is the modified Huber loss; W the change of NDCG if i and j swapped places in the ranking by w, taken anew in
    every step (Sun, Qin, Tao & Wang 2009). W follows the ranking, so the problem is not convex: the certificate is the
    largest subgradient of the problem at the last weights W, and the fit usually ends at max_iter.

    Parameters as TGRank's; C is of the sum over queries, each of which weighs about 1.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> RSRank(C=1).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    _may_stop_early = True

    def __init__(
        self, C=1.0, learning_rate=None, every=1, threshold=None, tol=1e-3, *, max_iter=1000, scale=None,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        super().__init__(
            C, learning_rate, every, threshold, tol, max_iter=max_iter, scale=scale, max_seconds=max_seconds,
            callback=callback,
        )  # fmt: skip

    def _problem(self, X, y, blocks, sample_weight):
        preferences = self._preferences(y, blocks, sample_weight)
        objective = ScoreObjective(X, squared_hinge(), preferences)
        return _SwapProblem(objective, NdcgSwaps(preferences, sample_weight), self._rate, self._options())


class _SwapProblem:
    def __init__(self, objective, loss, rate, options):
        self.objective, self.loss, self.rate, self.options = objective, loss, rate, options
        design = objective.design
        start = objective.back(objective.at(np.zeros(design.shape[0])).gradient)
        self.first_scores = design.scores(-start)  # ranks the rows before there is a model: one plain gradient step
        loss.rank(self.first_scores)
        self.bend = largest_eigenvalue(lambda v: design.back(loss.curvature(design.scores(v))), start)

    def solve(self, C: float, before: Solution | None) -> Solution:
        C, design, loss, norm = positive("C", C), self.objective.design, self.loss, L1Norm()

        def at(w):
            s = design.scores(w)
            loss.rank(s if w.any() else self.first_scores)
            value, z = loss.at(s)
            return C * value, C * design.back(z)

        def subgradient(value, g, w):
            return max(0.0, float(norm.pull(g, w).max()))

        w = np.zeros(design.shape[1]) if before is None else before.w
        rate = self.rate(C * self.bend)
        return truncated_gradient(at, w, rate, subgradient, "largest subgradient", **self.options)


# FS-Rank: a filter that looks at each feature alone, then RankSVM on the best.


DEPTH = 10


class FeatureSelectionRanker(SparseRanker):
    """RankSVM on the k features that rank best alone: largest mean NDCG@10 of sorting the rows by the feature.

        min over w, zero outside the k features, of  ½‖w‖² + C · sum over pairs of  max(0, 1 - w·x_i + w·x_j)²

    Rows with equal values share the mean discount of their places. To choose k on validation data, fit a path and ask
    `hingerank.rankers.sparse.choose_on_validation`.

    Parameters
    ----------
    k : features to keep; all where there are fewer.
    C, tol : RankSVM's.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model. callback : called with each trace entry.

    Attributes
    ----------
    coef_ : weights. filter_scores_ : NDCG@10 of each feature alone. selected_features_ : columns in use.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> ranker = FeatureSelectionRanker(k=1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.filter_scores_.round(3).tolist()
    ([0], [1.0, 0.631])
    """

    _fitted = ("filter_scores_",)
    path_parameter = "k"

    def __init__(self, k=10, C=1.0, tol=1e-3, *, max_iter=200, scale=None, max_seconds=None, callback=None):
        self.k = k
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, ks: Any = (5, 10, 15, 20, 25), sample_weight: Any = None, *,
        group: Any = None,
    ) -> "list[FeatureSelectionRanker]":  # fmt: skip
        """One fitted ranker for every k, in the order given; the filter runs once."""
        return self._fit_path([ks] if isinstance(ks, int) else ks, X, y, qid, sample_weight, group)

    def _path_value(self, value):
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError(f"k must be a whole number of features, at least 1, not {value!r}")
        return int(value)

    def _problem(self, X, y, blocks, sample_weight):
        preferences = self._preferences(y, blocks, sample_weight)
        self.filter_scores_ = single_feature_ndcg(X, NdcgSwaps(preferences, sample_weight, DEPTH))
        self._path_value(self.k)
        return _FilteredProblem(X, preferences, self.filter_scores_, positive("C", self.C), self._limits())


class _FilteredProblem:
    def __init__(self, X, preferences, scores, C, limits):
        self.X, self.preferences, self.C, self.limits = X, preferences, C, limits
        self.order = np.argsort(-scores, kind="stable")

    def solve(self, k: int, before: Solution | None) -> Solution:
        kept = np.sort(self.order[:k])
        part = self.X[:, kept] if sparse.issparse(self.X) else np.take(self.X, kept, axis=1)
        objective = RankObjective(RowsDesign(part), squared_hinge(), self.preferences, self.C)
        inner = newton(objective, None if before is None else before.w[kept], **self.limits)
        w = np.zeros(self.X.shape[1])
        w[kept] = inner.w
        return Solution(w, inner.value, inner.certificate, inner.trace)


def single_feature_ndcg(X: Any, ranking: NdcgSwaps) -> np.ndarray:
    """For each column the mean NDCG of ranking by it, largest values first. O(d n log n)."""
    if sparse.issparse(X):
        X = X.tocsc()
        return np.array([ranking.ndcg(X[:, [j]].toarray().ravel()) for j in range(X.shape[1])])
    return np.array([ranking.ndcg(column) for column in X.T])
