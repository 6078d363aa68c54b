"""AdditiveRankSVM: a score that is a sum of curves, one of each feature, at the cost of a linear ranker."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hingerank.data.checks import positive, whole
from hingerank.data.files import DataError
from hingerank.features.curves import SAMPLED_ROWS, Curves, place_knots
from hingerank.losses import make_loss
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.problem.binned import CurveBasis, curve_design
from hingerank.problem.grouped import GroupedProblem
from hingerank.rankers.explanation import SUMS, Contributions
from hingerank.rankers.inputs import names_of_features
from hingerank.rankers.linear import PairwiseRanker
from hingerank.solvers.grouped import grouped_newton
from hingerank.structures.groups import GroupedSquare

MOST_KNOTS = 1000


class Curve(NamedTuple):
    """One feature's curve: its height at each knot, linear between them; beyond, it goes on with `slope`.

    weight: how much it moves scores within queries, their standard deviation if nothing else differed.
    """

    name: str
    knots: np.ndarray
    heights: np.ndarray
    slope: float
    weight: float


class Look(NamedTuple):
    """A few training rows, whole queries, to see curves at: features, weights, the query of each."""

    X: Any
    weight: np.ndarray
    query: np.ndarray

    @classmethod
    def at(cls, X: Any, preferences: Any, weight: np.ndarray | None) -> "Look":
        """Of graded rows every so many-th query, else of all rows every so many-th."""
        n = X.shape[0]
        graded = isinstance(preferences, GradedPreferences)
        offsets = preferences.offsets if graded else np.arange(n + 1)
        stride = -(-n // SAMPLED_ROWS)
        kept = np.arange(len(offsets) - 1) % stride == 0
        rows = np.flatnonzero(np.repeat(kept, np.diff(offsets)))
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[rows] if graded else np.zeros(len(rows), int)
        return cls(X[rows], np.ones(len(rows)) if weight is None else weight[rows], query)

    def mean(self, parts: np.ndarray) -> np.ndarray:
        """Means of columns over the rows."""
        return self.weight @ parts / self.weight.sum()

    def deviation(self, parts: np.ndarray) -> np.ndarray:
        """Standard deviations of columns around the means of their queries."""
        number = np.unique(self.query, return_inverse=True)[1].ravel()
        picks = sparse.csr_matrix((self.weight, (number, np.arange(len(number)))))
        means = (picks @ parts) / np.maximum(np.bincount(number, self.weight), 1e-300)[:, None]
        apart = parts - means[number]
        return np.sqrt(self.weight @ (apart * apart) / self.weight.sum())


class AdditiveRankSVM(PairwiseRanker):
    """min over curves of  ½ Σ_f ( b_f² + smoothness Σ_s ρ_fs² ) + C · sum over pairs of  loss(score(x_i) − score(x_j)),

    score(x) = Σ_f h_f(x_f), h_f(x) = b_f x/σ_f + Σ_s ρ_fs τ_s(x)/√m: a line in the standardised feature plus m segments
    between knots at quantiles of the training rows, τ_s rising from 0 to 1 over segment s. A fit costs what a linear one
    costs, whatever the number of knots; with smoothness → ∞ it is ``RankSVM(scale="standard")``.

    Parameters
    ----------
    n_knots : knots of a curve, at most; features with fewer distinct values have fewer
    C : weight of the summed pair losses against the norm
    smoothness : what departing from the line costs; small data want much, large data little
    loss : as in RankSVM
    tol : stop when the duality gap is at most tol times the objective
    monotone : {feature: +1 or -1}: curves that must not fall, or rise; features by name or number
    sparsity : from 0, none, to 1, where no curve is left: of the least weight on Σ_f ‖(b_f, √smoothness ρ_f)‖ that
        does that; in between few features have a curve, and the others none
    solver : as in RankSVM; monotone curves and few curves need a smooth loss and "newton"
    pair_weight : as in RankSVM
    grade_weight : as in RankSVM
    scale : feature scaling learnt in fit and carried in the model
        Curves standardise columns themselves, so only scalings within queries and "log" make a difference.
    max_iter : most iterations
    max_seconds : most seconds
    callback : called with each trace entry; a true answer stops the fit

    Attributes
    ----------
    curves_ : one of each feature: name, knots, heights, slope beyond the outermost knots, weight in the ranking
    feature_importances_ : the curves' weights, as fractions
    knots_ : of all curves, one after the other
    knot_starts_ : where each curve's begin
    heights_ : at the knots; their mean over training rows is 0 for every curve
    slopes_ : beyond the outermost knots
    deviations_ : the curves' weights: standard deviations within queries
    rug_ : a few quantiles of each feature
    coef_ : for each feature b and then √smoothness · ρ of its segments, as the norm counts them
    certificate_ : how near the optimum the curves are
    trace_ : one entry per iteration
    n_iter_ : iterations
    n_pairs_ : preference pairs
    objective_ : the value reached

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> ranker = AdditiveRankSVM(n_knots=4, C=10.0, smoothness=0.1).fit(X, y, qid=[1, 1, 1, 1])
    >>> sorted(ranker.rank(X, top=2).tolist())
    [1, 2]
    """

    _arrays = ("knots_", "knot_starts_", "heights_", "slopes_", "deviations_", "rug_", "coef_")
    _fitted: tuple[str, ...] = _arrays
    _training_only = ("callback",)

    def __init__(
        self, n_knots=12, C=1.0, smoothness=10.0, loss="squared_hinge", tol=1e-3, *, monotone=None, sparsity=0.0,
        solver="auto", pair_weight="uniform", grade_weight=None, scale=None, max_iter=None, max_seconds=None,
        callback=None,
    ):  # fmt: skip
        self.n_knots = n_knots
        self.C = C
        self.smoothness = smoothness
        self.loss = loss
        self.tol = tol
        self.monotone = monotone
        self.sparsity = sparsity
        self.solver = solver
        self.pair_weight = pair_weight
        self.grade_weight = grade_weight
        self.scale = scale
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    # The problem

    def _problem(self, X, preferences, sample_weight):
        solver, shaped = self._solver(), self._shaped()
        if shaped and solver != "newton":
            raise ValueError(
                f"monotone and sparsity need a smooth loss and solver='newton', not loss={self.loss!r} with "
                f"solver={solver!r}: use loss='squared_hinge'"
            )
        knots = place_knots(X, self._count(), sample_weight)
        sign, bounded = self._signs(X.shape[1])
        design: Any = curve_design(X, knots, positive("smoothness", self.smoothness), sign)
        self._basis, self._look = design.mixing, Look.at(X, preferences, sample_weight)
        if solver == "dual":
            design = RowsDesign(design.mixing.matrix(X))
        if not shaped:
            return Problem(design, make_loss(self.loss), preferences)
        structure = GroupedSquare(knots.starts, 0.0, np.repeat(bounded, knots.counts))
        problem = GroupedProblem(design, make_loss(self.loss), preferences, structure)
        self._largest = problem.largest_amount()
        return problem

    def _count(self) -> int:
        count = whole("n_knots", self.n_knots, 2)
        if count > MOST_KNOTS:
            raise ValueError(f"n_knots must be at most {MOST_KNOTS}, not {count}: curves of a dozen knots are plenty")
        return count

    def _shaped(self) -> bool:
        """Whether curves are bounded or few."""
        sparsity = self.sparsity
        if isinstance(sparsity, bool) or not isinstance(sparsity, int | float) or not 0 <= sparsity < 1:
            raise ValueError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
        return sparsity > 0 or bool(self.monotone)

    def _signs(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """For every feature the direction in which its weights count, and whether that is the only one allowed."""
        sign, bounded = np.ones(count), np.zeros(count, bool)
        if self.monotone is not None and not isinstance(self.monotone, Mapping):
            raise ValueError(f"monotone must be a mapping of features to +1 or -1, not {self.monotone!r}")
        for feature, direction in (self.monotone or {}).items():
            if isinstance(direction, bool) or direction not in (1, -1):
                raise ValueError(f"monotone[{feature!r}] must be +1 (never falls) or -1 (never rises): {direction!r}")
            column = self._column(feature, count)
            sign[column], bounded[column] = direction, True
        return sign, bounded

    def _column(self, feature: Any, count: int) -> int:
        """The number of a feature given by name or number."""
        if isinstance(feature, str):
            names = [str(name) for name in names_of_features(self, count)]
            if feature in names:
                return names.index(feature)
            raise ValueError(f"there is no feature {feature!r}; the features are {', '.join(names[:20])} …")
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < count:
            raise ValueError(f"a feature is a name, or a number from 0 to {count - 1}, not {feature!r}")
        return int(feature)

    # Paths over C and smoothness: a value is C, or (C, smoothness)

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, Cs: Iterable[float] = (), sample_weight: Any = None, *,
        smoothness: Iterable[float] | None = None, group: Any = None,
    ) -> list[Any]:  # fmt: skip
        """One fitted ranker for every C, or for every C with every smoothness (C varies slowest), in the order given.

        Values are placed in bins once, and each fit starts from the curves of the one before.

        Parameters
        ----------
        X, y, qid, sample_weight, group : as in fit
        Cs : values of C
        smoothness : values of smoothness; the ranker's own if None
        """
        Cs = list(Cs)
        values = Cs if smoothness is None else [(C, value) for C in Cs for value in list(smoothness)]
        return self._fit_path(values, X, y, qid, sample_weight, group)

    def _path_value(self, value):
        if not isinstance(value, tuple):
            return super()._path_value(value)
        return super()._path_value(value[0]), positive("smoothness", value[1])

    def _with(self, value):
        if not isinstance(value, tuple):
            return super()._with(value)
        return super()._with(value[0]).set_params(smoothness=value[1])

    def _vary(self, problem, value):
        C, smoothness = value if isinstance(value, tuple) else (value, None)
        if smoothness is not None and smoothness != self._basis.smoothness:
            design = problem.design.with_smoothness(smoothness)
            parts = (problem.structure,) if isinstance(problem, GroupedProblem) else ()
            problem = type(problem)(design, problem.loss, problem.preferences, *parts)
            if parts:
                self._largest = problem.largest_amount()
        problem = problem.with_C(C)
        if isinstance(problem, GroupedProblem):
            problem = problem.with_amount(float(self.sparsity) * self._largest * C)
        return problem

    def _how(self, problem, before):
        solve, options = super()._how(problem, before)
        grouped = isinstance(problem, GroupedProblem)
        basis = getattr(problem.design, "mixing", self._basis)
        if before is not None:
            options["w"] = before.extra["basis"].rescaled(before.w, basis.smoothness)

        def solved(problem: Any, **options: Any) -> Any:
            found = grouped_newton(problem, **options) if grouped else solve(problem, **options)
            return replace(found, extra={**found.extra, "basis": basis})

        return solved, options

    # The curves found

    def _keep(self, solution):
        basis: CurveBasis = solution.extra["basis"]
        look: Look = self.__dict__.pop("_look")
        self.__dict__.pop("_basis", None)
        curves, self.coef_ = basis.curves(solution.w), solution.w
        parts = curves.parts(look.X)
        heights = curves.heights - np.repeat(look.mean(parts), basis.counts)
        if not np.isfinite(heights).all():
            raise DataError("the curves are not finite: squares of the features overflow; rescale them (scale=...)")
        self.knots_, self.knot_starts_, self.heights_, self.slopes_ = curves.knots, curves.starts, heights, curves.slopes
        self.deviations_, self.rug_ = look.deviation(parts), basis.knots.rug

    @property
    def _curves(self) -> Curves:
        return Curves(self.knots_, self.heights_, self.knot_starts_, self.slopes_)

    @property
    def curves_(self) -> list[Curve]:
        """One curve for each feature."""
        names, cuts = names_of_features(self, len(self.slopes_)), self.knot_starts_[1:-1]
        parts = zip(names, np.split(self.knots_, cuts), np.split(self.heights_, cuts), self.slopes_, self.deviations_)
        return [Curve(str(name), t, h, float(slope), float(weight)) for name, t, h, slope, weight in parts]

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each curve moves scores within queries, as a fraction of all."""
        total = self.deviations_.sum()
        return self.deviations_ / total if total > 0 else self.deviations_.copy()

    def _scores(self, X):
        return self._curves.scores(X)

    def _body(self):
        return self._curves

    def _contributions(self, X, blocks):
        return Contributions(self._curves.parts(X), np.zeros(X.shape[0]), SUMS, True)

    def _restore(self, state):
        super()._restore(state)
        d, starts, knots = self.n_features_in_, self.knot_starts_, self.knots_
        shapes = {name: np.shape(getattr(self, name, None)) for name in self._arrays}
        rises = np.ones(max(len(knots) - 1, 0), bool) if np.ndim(knots) == 1 else np.zeros(1, bool)
        whole_starts = np.ndim(starts) == 1 and np.issubdtype(starts.dtype, np.integer) and len(starts) == d + 1
        if whole_starts and starts[0] == 0 and starts[-1] == len(knots) and (np.diff(starts) > 0).all():
            rises = np.diff(knots) > 0
            rises[starts[1:-1] - 1] = True
        else:
            raise ValueError(f"knot_starts_ must be {d + 1} rising numbers that end at the {len(knots)} knots")
        wanted = (d,)
        if shapes["heights_"] != knots.shape or shapes["slopes_"] != wanted or shapes["deviations_"] != wanted:
            raise ValueError(f"the curves' arrays do not fit {d} features: {shapes}")
        finite = all(np.isfinite(getattr(self, name)).all() for name in ("knots_", "heights_", "slopes_"))
        if not finite or not rises.all():
            raise ValueError("the curves' knots must rise, and their numbers be finite")

