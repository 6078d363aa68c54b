"""Sparse rankers: linear models that use few features, and paths of them.

FenchelRank (l1 ball) · SparseRankSVM (l1 norm) · TGRank and RSRank (truncated gradient) · FeatureSelectionRanker
(filter, then RankSVM).
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import PerRow, Ranker, RowsLike
from hingerank.data.checks import one_of, positive, whole
from hingerank.data.ranking_data import RankingData
from hingerank.losses import squared_hinge
from hingerank.losses.lists import NdcgSwaps
from hingerank.metrics import evaluate
from hingerank.preferences import QueryPreferences
from hingerank.problem import RowsDesign
from hingerank.problem.mapped import rows_design
from hingerank.problem.sparse import SparseProblem, sparse_problem
from hingerank.rankers.base import LinearRanker, keep_account
from hingerank.rankers.inputs import grades_and_ids
from hingerank.rankers.problem_ranker import USEFUL_L1, ProblemRanker
from hingerank.rankers.sources import MAPPED, PARTS
from hingerank.rankers.winners import WinnersRanker
from hingerank.solvers.run import GAP, STATIONARY, Run
from hingerank.solvers.sparse import (
    VARIANTS,
    frank_wolfe,
    gap_of,
    largest_eigenvalue,
    proximal_newton,
    truncated_gradient,
)
from hingerank.structures import L1Ball, L1Norm

RADII = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # the paper's
LONGEST = 1000.0  # a path of n points ends at this many times the C at which the first feature enters


class SparseRanker(ProblemRanker, LinearRanker):
    """score(x) = ``coef_`` · x with most weights zero."""

    _farthest = MAPPED
    _times = USEFUL_L1

    @property
    def selected_features_(self) -> np.ndarray:
        """Columns whose weight is not 0, ascending; ``feature_table()`` gives names and weights."""
        check_is_fitted(self)
        return np.flatnonzero(self.coef_)

    @property
    def sparsity_(self) -> float:
        """Weights that are not 0 over all weights, the sparsity ratio."""
        return len(self.selected_features_) / len(self.coef_)

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, Cs: int | Iterable[float] = 20,
        sample_weight: PerRow = None, *, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller one.

        Parameters
        ----------
        X, y, qid, sample_weight, group : as in fit
        Cs : values of C, or their number
            A number gives values evenly spaced in log C, from where the first feature enters to 1000 times that.
        """
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _grid(self, problem, count):
        if self.path_parameter != "C":
            return super()._grid(problem, count)
        first = problem.first_C()
        first = first if np.isfinite(first) else 1.0
        return np.geomspace(1.1 * first, LONGEST * first, count).tolist()

    def _take(self, solution, source):
        self.coef_ = solution.w
        keep_account(self, solution, source.alike)


class FenchelRank(WinnersRanker, SparseRanker):
    """min over ‖w‖₁ ≤ radius of  (1/p) · sum over the p pairs (i preferred to j) of  max(0, 1 - w·x_i + w·x_j)².

    The value at w = 0 is 1. The paper writes u = w / radius; ``coef_`` is w.

    Parameters
    ----------
    radius : radius of the l1 ball; a small one keeps few features
    tol : stop when the duality gap  radius ‖g‖_∞ + <g, w>  is at most tol times the objective (at least 0.001) and at
        most tol times its decrease from weights of 0; g is the gradient at w
    step : "exact" line search, or "closed-form" (classic, away and pairwise steps only)
        The latter minimises the quadratic bound in which every pair is active. It is cheaper and a little shorter.
    variant : "corrective", "classic", "away" or "pairwise"; all have the same optimum
        "corrective" minimises again over all features in use after each choice of features, and needs a handful of
        steps; "classic" is the paper's algorithm, one feature a step; "away" and "pairwise" also take weight back from
        the worst feature in use.
    absolute : stop when the gap itself is at most tol, the paper's rule; not with "corrective"
    scale : feature scaling, learnt in fit and stored with the model (the paper scales features to [0, 1])
    max_iter, missing, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    coef_ : weights, their absolute sum at most the radius
    selected_features_ : columns in use
    sparsity_ : their fraction of all
    certificate_ : the duality gap
    trace_ : value, gap and features in use at every iteration
    objective_ : the value reached

    Examples
    --------
    >>> X, y = [[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]], [0, 1, 0, 1]
    >>> ranker = FenchelRank(radius=0.5).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.coef_.round(3).tolist()
    ([0], [0.5, 0.0])
    """

    path_parameter = _strength = "radius"
    _farthest = PARTS

    def __init__(
        self, radius=1.0, tol=1e-3, max_iter=1000, step="exact", variant="corrective", *, absolute=False, scale=None,
        missing="error", max_seconds=None, callback=None,
    ):  # fmt: skip
        self.radius = radius
        self.tol = tol
        self.max_iter = max_iter
        self.step = step
        self.variant = variant
        self.absolute = absolute
        self.scale = scale
        self.missing = missing
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(  # type: ignore[override]
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, radii: Iterable[float] = RADII,
        sample_weight: PerRow = None, *, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every radius, in the order given; each fit starts from that of the next smaller one."""
        return self._fit_path(radii, X, y, qid, sample_weight, group)

    def _problem(self, source):
        one_of("variant", self.variant, "corrective", *VARIANTS)
        one_of("step", self.step, "exact", "closed-form")
        if self.variant == "corrective" and (self.step != "exact" or self.absolute):
            what = "absolute=True" if self.absolute else f"step {self.step!r}"
            raise ValueError(f"{what} works with the variants {', '.join(VARIANTS)}, not with 'corrective'")
        design, preferences = source.pose(rows_design)
        return sparse_problem(design, squared_hinge(), preferences, L1Ball(self.radius))

    def _vary(self, problem, value):
        return problem.within(L1Ball(value))

    def _minimise(self, problem, before=None):
        limits, start = self._limits(), None if before is None else before.w
        if self.variant != "corrective":
            return frank_wolfe(problem, start, variant=self.variant, step=self.step, absolute=self.absolute, **limits)
        working = None if before is None else before.extra["working"]
        return proximal_newton(problem, start, working=working, min_iter=1, **limits)

    def _take(self, solution, source):
        super()._take(replace(solution, w=L1Ball(self.radius).inside(solution.w)), source)


@dataclass(eq=False, repr=False)
class SparseRankSVM(WinnersRanker, SparseRanker):
    """min over w of  ‖w‖₁ + ½ ridge ‖w‖² + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)².

    With ridge = 0 its solutions are FenchelRank's at radius ‖w‖₁. Up to some C (``fit_path`` finds it) all weights are
    0.

    Parameters
    ----------
    C : weight of the loss; multiplies its mean over pairs, or None for one that follows the data
        A small one keeps few features.
    ridge : weight of the squared norm; above 0, correlated features share the weight instead of one taking it all
    tol, max_iter, max_seconds, scale, missing, callback : as in RankSVM

    Attributes
    ----------
    selected_features_, sparsity_, certificate_, trace_ : as in FenchelRank
    coef_, objective_, C_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]], [0, 1, 0, 1]
    >>> SparseRankSVM(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    _farthest = PARTS

    C: float | None = 100.0
    ridge: float = 0.0
    tol: float = 1e-3
    _: KW_ONLY
    max_iter: int | None = 1000

    def _problem(self, source):
        design, preferences = source.pose(rows_design)
        return sparse_problem(design, squared_hinge(), preferences, L1Norm(positive("ridge", self.ridge, least=0)))

    def _minimise(self, problem, before=None):
        """A direct step to a much larger C would use too many features: solve for values of C in between first."""
        reached, steps = 3 * problem.first_C(), 0
        options = self._limits()
        if before is not None:
            options |= {"w": before.w, "working": before.extra["working"], "min_iter": 1}
            reached = max(reached, before.extra["C"])
        while problem.C / 10 ** (steps + 1) > reached:
            steps += 1
        approach = [problem.with_C(problem.C / 10**k) for k in range(steps, 0, -1)]
        return proximal_newton(problem, approach=approach, **options)


@dataclass(eq=False, repr=False)
class TruncatedGradientRanker(SparseRanker):
    """What TGRank and RSRank share."""

    C: float | None = 100.0
    learning_rate: float | None = None
    every: int = 1
    threshold: float | None = None
    tol: float = 1e-3
    _: KW_ONLY
    max_iter: int | None = 1000

    def _minimise(self, problem, before=None):
        rate = 1.0 / max(problem.inner.C * problem.curvature, 1e-300)
        return truncated_gradient(
            problem.at,
            before.w if before is not None and problem.convex else np.zeros(problem.inner.dimension),
            positive("learning_rate", self.learning_rate) if self.learning_rate else rate,
            problem.certify,
            problem.kind,
            origin=problem.origin(),
            every=whole("every", self.every),
            threshold=np.inf if self.threshold is None else positive("threshold", self.threshold),
            **self._limits(),
        )


@dataclass(frozen=True)
class Descent:
    """A problem as truncated gradient descends it: its loss as a function of w, and its largest curvature at C = 1."""

    inner: SparseProblem
    curvature: float
    kind: ClassVar[str] = GAP
    convex: ClassVar[bool] = True

    @property
    def preferences(self) -> QueryPreferences:
        return self.inner.preferences

    def at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss at w and its gradient."""
        point = self.inner.at(self.inner.design.scores(w))
        return point.value, self.inner.back(point.gradient)

    def certify(self, run: Run, loss: float, g: np.ndarray, w: np.ndarray) -> float:
        """How far from optimal w is, with that loss and its gradient g."""
        return gap_of(self.inner.structure, run, loss, g, w)

    def origin(self) -> float:
        """The value at w = 0, if `certify` needs it."""
        return self.inner.origin()

    def first_C(self) -> float:
        """Up to this C all weights are 0."""
        return self.inner.first_C()

    def with_C(self, C: float) -> Self:
        """The same at another C."""
        return replace(self, inner=self.inner.with_C(C))


@dataclass(frozen=True)
class SwapDescent(Descent):
    """RSRank's: pairs are weighted by swaps of ranks in the ranking by w; first_scores: of the ranking by w = 0."""

    swaps: NdcgSwaps
    first_scores: np.ndarray
    kind = STATIONARY
    convex = False

    def at(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        s = self.inner.design.scores(w)
        self.swaps.rank(s if w.any() else self.first_scores)
        here = self.swaps.at(s)
        return self.inner.C * here.value, self.inner.C * self.inner.back(here.gradient)

    def certify(self, run: Run, loss: float, g: np.ndarray, w: np.ndarray) -> float:
        return max(0.0, float(self.inner.structure.violation(g, w).max()))

    def origin(self) -> float:
        return np.nan

    def first_C(self) -> float:
        self.swaps.rank(self.first_scores)
        steepest = float(np.abs(self.inner.back(self.swaps.at(np.zeros(self.inner.n_rows)).gradient)).max(initial=0.0))
        return 1.0 / steepest if steepest > 0 else np.inf


class TGRank(WinnersRanker, TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + (C/p) · sum over the p pairs of  max(0, 1 - w·x_i + w·x_j)²,  by truncated gradient.

    SparseRankSVM's problem with the solver that FenchelRank is compared with; SparseRankSVM reaches the same optimum
    far sooner.

    Parameters
    ----------
    C : weight of the loss; multiplies its mean over pairs, or None for one that follows the data
    learning_rate : of the gradient steps; None for one over the largest curvature, the longest safe one
    every : truncate in every N-th step
    threshold : shrink only weights up to this size; None for all
    tol, max_iter, max_seconds, scale, missing, callback : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]], [0, 1, 0, 1]
    >>> TGRank(C=10).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    def _problem(self, source):
        design, preferences = source.pose(rows_design)
        problem = sparse_problem(design, squared_hinge(), preferences, L1Norm())
        start = problem.at(np.zeros(problem.n_rows))  # every pair is active here: the largest curvature
        curvature = largest_eigenvalue(
            lambda v: problem.back(start.curvature(problem.design.scores(v))), problem.back(start.gradient)
        )
        return Descent(problem, curvature)


@dataclass(eq=False, repr=False)
class RSRank(TruncatedGradientRanker):
    """min over w of  ‖w‖₁ + C · sum over pairs of  W(i, j; w) ψ(w·x_i - w·x_j),  by truncated gradient.

    ψ is the modified Huber loss; W the change of NDCG if i and j swapped places in the ranking by w, computed again in
    every step (Sun, Qin, Tao & Wang 2009). W depends on the ranking, so the problem is not convex and often has no
    stationary point: the certificate is the largest subgradient at the last weights W, in units of the norm's own, and
    many fits end at max_iter, with a warning.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, whose weights W add up to about 1 in every query
        None for one that follows the data.
    learning_rate, every, threshold : as in TGRank
    tol : stop when the largest subgradient is at most this
    max_iter, max_seconds, scale, missing, callback : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]], [0, 1, 0, 1]
    >>> RSRank(C=1).fit(X, y, qid=["a", "a", "b", "b"]).selected_features_.tolist()
    [0]
    """

    C: float | None = 1.0

    def _problem(self, source):
        problem = SparseProblem(RowsDesign(source.matrix("RSRank")), squared_hinge(), source.preferences, L1Norm())
        design, swaps = problem.design, NdcgSwaps(source.preferences, source.weight)
        start = problem.back(problem.at(np.zeros(problem.n_rows)).gradient)
        first = design.scores(-start)  # ranks the rows before there is a model: one plain gradient step
        swaps.rank(first)
        bound = swaps.at(np.zeros(problem.n_rows)).curvature
        curvature = largest_eigenvalue(lambda v: design.back(bound(design.scores(v))), start)
        return SwapDescent(problem, curvature, swaps, first)


def choose_on_validation(
    path: Sequence[Ranker],
    X: RowsLike,
    y: PerRow = None,
    qid: PerRow = None,
    measure: str = "ndcg@10",
    standard_errors: float = 0.0,
) -> tuple[Ranker, np.ndarray]:
    """The ranker of a path with the largest mean of `measure` on the validation rows, and the values of all rankers.

    The first of equally good rankers is taken, so give the path from sparse to dense. With standard_errors = 1 the
    result is the ranker with the fewest features among those that are worse than the best by no more than one standard
    error of the difference over the validation queries.

    Parameters
    ----------
    path : fitted rankers, from sparse to dense
    X, y, qid : validation rows as in fit
    measure : what to maximise
    standard_errors : how many standard errors below the best a ranker may be

    Examples
    --------
    >>> from hingerank import FenchelRank
    >>> X, y, qid = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> best, values = choose_on_validation(FenchelRank().fit_path(X, y, qid, [0.5, 1]), X, y, qid)
    >>> best.radius, values.tolist()
    (0.5, [1.0, 1.0])
    """
    if not path:
        raise ValueError("the path is empty: there is nothing to choose from")
    if not standard_errors >= 0:
        raise ValueError(f"standard_errors must be a number of at least 0, not {standard_errors!r}")
    y, qid = grades_and_ids(X, y, qid)
    if y is None:
        raise ValueError("the validation rows have no grades: give y, or RankingData")
    docid = X.docid if isinstance(X, RankingData) else None
    found = (evaluate(y, ranker.predict(X, qid), qid, measure, True, docid=docid) for ranker in path)
    per_query = np.array([values[measure] for values in found])
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
