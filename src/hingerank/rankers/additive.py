"""AdditiveRankSVM: a score that is a sum of curves, one of each feature, at the cost of a linear ranker."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike, PerRow, RowsLike
from hingerank.data.checks import positive, whole
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute
from hingerank.export.forms import with_surfaces
from hingerank.features.curves import Curves, Knots, SurfaceGrid, Tables, best_pairs, make_grid, place_knots
from hingerank.losses import Loss, make_loss
from hingerank.preferences import Preferences
from hingerank.problem import Problem
from hingerank.problem.curves import CurveBasis, CurveDesign, ListedShapes, StackedDesign, SurfaceDesign, binned_design
from hingerank.problem.sparse import GroupedProblem
from hingerank.problem.torch_design import check_device
from hingerank.rankers.explanation import SUMS, Contributions
from hingerank.rankers.inputs import names_of_features
from hingerank.rankers.linear import PairwiseRanker
from hingerank.rankers.problem_ranker import chosen_C
from hingerank.rankers.shapes import Curve, ShapeSample, Surface, draw_curves
from hingerank.rankers.sources import MAPPED, PARTS
from hingerank.solvers.grouped import grouped_newton
from hingerank.solvers.newton import newton
from hingerank.structures import GroupedSquare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_KNOTS, SURFACE_KNOTS = 1000, 5  # of a curve at most, and of a surface in each direction
ROUGH = 1e-2  # gap to which curves are solved before pairs are looked for


@dataclass(eq=False, repr=False)
class AdditiveRankSVM(PairwiseRanker):
    """min over curves of  ½ Σ_f ( b_f² + smoothness Σ_s ρ_fs² ) + C · sum over pairs of  loss(score(x_i) − score(x_j)),

    score(x) = Σ_f h_f(x_f), h_f(x) = b_f x/σ_f + Σ_s ρ_fs τ_s(x)/√m: a straight line in the standardised feature plus m
    segments between knots at quantiles of the training rows; τ_s rises from 0 to 1 over segment s. A pass over the rows
    costs the same for any number of knots. As smoothness → ∞ the ranker becomes ``RankSVM(scale="standard")``.

    Parameters
    ----------
    n_knots : knots of a curve, at most; features with fewer distinct values have fewer
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    smoothness : penalty on departing from a straight line; use a large value for small data, a small one for large data
    monotone : {feature: +1 or -1}: curves that must not fall, or rise; features by name or number
    sparsity : float in [0, 1), default 0
        Fraction of the smallest group penalty, on Σ_f ‖(b_f, √smoothness ρ_f)‖, that removes all curves.
    interactions : pairs of features, by name or number, that get a surface in addition to their curves, or how many to
        find. A surface is a sum of products of rises over a grid of 5 × 5 quantiles, penalised as the curves' rises
        are. Pairs are found by how steeply the loss falls along their surfaces at the curves' optimum.
    solver : as in RankSVM; ``monotone`` and ``sparsity`` need a smooth loss and "newton"
    scale : feature scaling, learnt in fit and stored with the model
        Curves standardise columns themselves, so only scalings within queries and "log" make a difference.
    missing : as in RankSVM; with "indicator" each curve has a separate step for missing values
    device : "cpu", or "cuda" to train on an NVIDIA GPU (needs PyTorch; holds 16 bytes a value there)
        Not with interactions or ``solver="dual"``.
    loss, tol, pair_weight, rounds, context, grade_weight, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    curves_ : one of each feature: name, knots, heights, slope beyond the outermost knots, weight in the ranking
    surfaces_ : one of each interaction: names, knots x and y, heights, weight in the ranking
    feature_importances_ : the curves' weights, as fractions
    knots_ : knots of all curves, one curve after the other
    knot_starts_ : where each curve's knots begin
    heights_ : heights at the knots; their mean over training rows is 0 for every curve
    slopes_ : slopes beyond the outermost knots
    deviations_ : the curves' weights: standard deviations within queries
    rug_ : a few quantiles of each feature
    knot_weights_ : for each feature b and then √smoothness · ρ of its segments, as the norm counts them
    certificate_, trace_, n_iter_, n_pairs_, C_, objective_ : as in RankSVM

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> ranker = AdditiveRankSVM(n_knots=4, C=10.0, smoothness=0.1).fit(X, y, qid=[1, 1, 1, 1])
    >>> sorted(ranker.rank(X, top=2).tolist())
    [1, 2]
    """

    _of_surfaces: ClassVar[Mapping[str, Attribute]] = {
        "surface_pairs_": Array("surfaces, 2", "i", low=0, high="curves", needed=False),
        "surface_shapes_": Array("surfaces, 2", "i", low=2, needed=False),
        "surface_knots_": Array("surface knots", needed=False),
        "surface_heights_": Array("surface heights", needed=False),
        "surface_deviations_": Array("surfaces", needed=False),
    }
    _saved: ClassVar[Mapping[str, Attribute]] = {
        "knot_starts_": Array("curves+1", "i", low=0, rising=True),
        "knots_": Array("knots"),
        "heights_": Array("knots"),
        "slopes_": Array("curves"),
        "deviations_": Array("curves"),
        "rug_": Array("curves, quantiles"),
        "knot_weights_": Array("weights"),
        **_of_surfaces,
    }
    _farthest = PARTS
    _pair_weights = ("uniform", "query", "ndcg")
    path_parameters = ("C", "smoothness")

    n_knots: int = 12
    C: float | None = 1.0
    smoothness: float = 10.0
    loss: str | Loss = "squared_hinge"
    tol: float = 1e-3
    _: KW_ONLY
    monotone: Mapping[int | str, int] | None = None
    sparsity: float = 0.0
    interactions: object = None
    solver: str = "auto"
    pair_weight: str = "uniform"
    grade_weight: ArrayLike | None = None
    context: str | None = None
    rounds: int = 3
    device: str = "cpu"

    # The problem

    def _problem(self, source):
        solver, device, sparsity = self._solver(), check_device(self.device), self.sparsity
        if isinstance(sparsity, bool) or not isinstance(sparsity, int | float) or not 0 <= sparsity < 1:
            raise ValueError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
        shaped = sparsity > 0 or bool(self.monotone)  # whether curves are bounded or few
        if shaped and solver != "newton":
            raise ValueError(
                f"monotone and sparsity need a smooth loss and solver='newton', not loss={self.loss!r} with "
                f"solver={solver!r}: use loss='squared_hinge'"
            )
        if device is not None and (self.interactions is not None or solver == "dual"):
            raise ValueError(f"device={self.device!r} takes no interactions= and no solver='dual': use device='cpu'")
        if source.kind == PARTS and self.interactions is not None:
            raise ValueError("interactions need all rows at once: leave them out with data in parts")
        rows = source
        if source.kind == MAPPED and (source.sparse or self.interactions is not None or solver == "dual"):
            rows = source.copied("AdditiveRankSVM with interactions, solver='dual' or sparse rows")
        seen = rows.see()
        count = whole("n_knots", self.n_knots, 2)
        if count > MOST_KNOTS:
            raise ValueError(f"n_knots must be at most {MOST_KNOTS}, not {count}: curves of a dozen knots are plenty")
        knots = place_knots(seen.X, count, seen.weight, seen.width)
        sign, bounded = self._signs(rows.n_features)
        bins, preferences = rows.pose(partial(binned_design, knots=knots, device=device))
        basis = CurveBasis(knots, positive("smoothness", self.smoothness), sign, rows.sparse)
        curves = CurveDesign(bins, basis)
        design: CurveDesign | StackedDesign = curves
        starts, limits = knots.starts, np.repeat(bounded, knots.counts)
        grids = self._grids(knots, seen.queries, curves, preferences, bounded)
        source.learnt = seen.queries, knots.rug, grids
        if grids:
            surfaces = SurfaceDesign(rows.X, grids, curves.smoothness)
            design = StackedDesign(curves, surfaces)
            starts = np.concatenate((starts, starts[-1] + surfaces.starts[1:]))
            limits = np.concatenate((limits, np.zeros(surfaces.shape[1], bool)))
        loss = make_loss(self.loss)
        if shaped:
            return GroupedProblem(design, loss, preferences, GroupedSquare(starts, 0.0, limits))
        return Problem(ListedShapes(design) if solver == "dual" else design, loss, preferences)

    def _grids(
        self, knots: Knots, look: ShapeSample, design: CurveDesign, preferences: Preferences, bounded: np.ndarray
    ) -> list[SurfaceGrid]:
        """Grids of the pairs asked for, or of the best ones: by the gradient in scores at the optimum of curves alone,
        under the squared hinge."""
        asked, d = self.interactions, len(bounded)
        pairs: list[tuple[int, int]] = []
        if asked is None:
            return []
        if isinstance(asked, int | np.integer) and not isinstance(asked, bool):
            most = whole("interactions", asked, 0)
            if most and preferences.n_pairs:
                problem = Problem(design, make_loss("squared_hinge"), preferences)
                problem = problem.with_C(chosen_C(self.C, problem))
                w = newton(problem, tol=ROUGH).w
                z = problem.loss.at(design.scores(w), preferences).gradient[look.rows]
                weight = np.where(bounded, -1.0, look.deviation(design.shapes(w)[0].parts(look.X)))
                pairs = best_pairs(look.X, z, knots, weight, most, SURFACE_KNOTS)
        elif not isinstance(asked, Iterable) or isinstance(asked, str):
            raise ValueError(f"interactions must be a number of pairs, or pairs such as [(3, 7)], not {asked!r}")
        else:
            for pair in asked:
                if np.shape(pair) != (2,):
                    raise ValueError(f"an interaction is a pair of features, such as (3, 7), not {pair!r}")
                pairs.append((self._column(pair[0], d), self._column(pair[1], d)))
        names = names_of_features(self, d)
        for first, second in pairs:
            if first == second or bounded[first] or bounded[second]:
                raise ValueError(
                    f"{names[first]} and {names[second]} can have no surface: features of a pair must differ, and a "
                    "surface would not keep monotone curves"
                )
            if min(knots.counts[[first, second]]) < 2:
                raise ValueError(f"{names[first]} or {names[second]} has one value only: it can have no surface")
        return [make_grid(knots, first, second, SURFACE_KNOTS) for first, second in pairs]

    def _signs(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """For every feature the direction in which its weights count, and whether that is the only one allowed."""
        sign, bounded = np.ones(count), np.zeros(count, bool)
        if self.monotone is not None and not isinstance(self.monotone, Mapping):
            raise ValueError(f"monotone must be a mapping of features to +1 or -1, not {self.monotone!r}")
        for feature, direction in (self.monotone or {}).items():
            if isinstance(direction, bool) or direction not in (1, -1):
                raise ValueError(
                    f"monotone[{feature!r}] must be +1 (never falls) or -1 (never rises), not {direction!r}"
                )
            column = self._column(feature, count)
            sign[column], bounded[column] = direction, True
        return sign, bounded

    def _column(self, feature: object, count: int) -> int:
        """The number of a feature given by name or number."""
        if isinstance(feature, str):
            names = names_of_features(self, count)
            if feature in names:
                return names.index(feature)
            more = " …" if len(names) > 20 else ""
            raise ValueError(f"there is no feature {feature!r}; the features are {', '.join(names[:20])}{more}")
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < count:
            raise ValueError(f"a feature is a name, or a number from 0 to {count - 1}, not {feature!r}")
        return int(feature)

    # Paths over C and smoothness: a value is C, or (C, smoothness)

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, Cs: Iterable[float] = (),
        sample_weight: PerRow = None, *, smoothness: Iterable[float] | None = None, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every C, or for every C with every smoothness (C varies slowest), in the order given.

        Values are sorted into bins once, and each fit starts from the curves of the previous fit.

        Parameters
        ----------
        X, y, qid, sample_weight, group : as in fit
        Cs : values of C; or pairs of C and smoothness, and no `smoothness`
        smoothness : values of smoothness; the ranker's own if None
        """
        return self._fit_path(Cs if smoothness is None else product(Cs, smoothness), X, y, qid, sample_weight, group)

    def _path_value(self, value):
        if not isinstance(value, tuple):
            return super()._path_value(value)
        if len(value) != 2:
            raise ValueError(f"a value of the path is C, or C and smoothness, not {value!r}")
        return super()._path_value(value[0]), positive("smoothness", value[1])

    def _with(self, value):
        if not isinstance(value, tuple):
            return super()._with(value)
        return super()._with(value[0]).set_params(smoothness=value[1])

    def _vary(self, problem, value):
        C, smoothness = value if isinstance(value, tuple) else (value, None)
        if smoothness is not None and smoothness != problem.design.smoothness:
            design = problem.design.with_smoothness(smoothness)
            parts = (problem.structure,) if isinstance(problem, GroupedProblem) else ()
            problem = type(problem)(design, problem.loss, problem.preferences, *parts)
        if isinstance(problem, GroupedProblem):
            problem = problem.with_amount(float(self.sparsity) * problem.largest_amount * C)
        return problem.with_C(C)

    def _minimise(self, problem, before=None, solve=None):
        shape = problem.design.shaped if isinstance(problem.design, ListedShapes) else problem.design
        if before is not None:
            before = replace(before, w=before.extra["shape"].rescaled(before.w, shape.smoothness))
        found = super()._minimise(problem, before, grouped_newton if isinstance(problem, GroupedProblem) else None)
        return replace(found, extra={**found.extra, "shape": shape})

    # The curves found

    def _take(self, solution, source):
        shape: CurveDesign | StackedDesign = solution.extra["shape"]
        look, rug, grids = source.learnt
        (curves, surfaces), self.knot_weights_ = shape.shapes(solution.w), solution.w
        parts = curves.parts(look.X)
        heights = curves.heights - np.repeat(look.mean(parts), np.diff(curves.starts))
        if not np.isfinite(heights).all():
            raise DataError("the curves are not finite: squares of the features overflow; rescale them (scale=...)")
        self.knots_, self.heights_, self.knot_starts_, self.slopes_ = curves._replace(heights=heights)
        self.deviations_, self.rug_ = look.deviation(parts), rug
        if grids:
            parts = np.stack([grid.values(look.X, h) for grid, h in zip(grids, surfaces, strict=True)], axis=1)
            moved = [h - mean for h, mean in zip(surfaces, look.mean(parts), strict=True)]
            self.surface_pairs_ = np.array([[grid.first, grid.second] for grid in grids])
            self.surface_shapes_ = np.array([grid.shape for grid in grids])
            self.surface_knots_ = np.concatenate([np.concatenate((grid.x, grid.y)) for grid in grids])
            self.surface_heights_ = np.concatenate([h.ravel() for h in moved])
            self.surface_deviations_ = look.deviation(parts)
        super()._take(solution, source)

    @property
    def _curves(self) -> Curves:
        return Curves(self.knots_, self.heights_, self.knot_starts_, self.slopes_)

    @property
    def curves_(self) -> list[Curve]:
        """One curve for each feature."""
        names, cuts = names_of_features(self, len(self.slopes_)), self.knot_starts_[1:-1]
        parts = zip(names, np.split(self.knots_, cuts), np.split(self.heights_, cuts), self.slopes_, self.deviations_)
        return [Curve(name, t, h, float(slope), float(weight)) for name, t, h, slope, weight in parts]

    @property
    def surfaces_(self) -> list[Surface]:
        """One surface for each interaction."""
        names = names_of_features(self, len(self.slopes_))
        return [
            Surface((names[grid.first], names[grid.second]), grid.x, grid.y, heights, float(weight))
            for (grid, heights), weight in zip(self._surfaces, getattr(self, "surface_deviations_", []), strict=True)
        ]

    @property
    def _surfaces(self) -> list[tuple[SurfaceGrid, np.ndarray]]:
        """Every surface's grid and heights."""
        found, at, height = [], 0, 0
        for (first, second), (a, b) in zip(getattr(self, "surface_pairs_", ()), getattr(self, "surface_shapes_", ())):
            knots = self.surface_knots_[at : at + a + b]
            heights = self.surface_heights_[height : height + a * b].reshape(a, b)
            found.append((SurfaceGrid(int(first), int(second), knots[:a], knots[a:]), heights))
            at, height = at + a + b, height + a * b
        return found

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each curve moves scores within queries, as a fraction of all."""
        total = self.deviations_.sum()
        return self.deviations_ / total if total > 0 else self.deviations_.copy()

    def plot(self, features: Iterable[object] | None = None, top: int = 12, figure: "Figure | None" = None) -> "Figure":
        """Plot the curves as small multiples: heights over values, ticks at the data, and weights beside the names.

        All panels have the same height scale: a flat curve matters little. Needs matplotlib.

        Parameters
        ----------
        features : names or numbers of the features to draw, in this order; None for the `top` ones by weight
        top : how many to draw
        figure : a matplotlib Figure to draw in; default a new one

        Returns
        -------
        matplotlib.figure.Figure
            ``figure.savefig("curves.svg")`` writes it.
        """
        check_is_fitted(self)
        if features is None:
            chosen = np.argsort(-self.deviations_, kind="stable")[: whole("top", top)]
        else:
            chosen = np.array([self._column(feature, len(self.slopes_)) for feature in features], np.int64)
        curves = self.curves_
        title = "curves, and the standard deviation of scores within queries that each makes"
        return draw_curves([curves[j] for j in chosen], self.rug_[chosen], title, figure)

    @cached_property
    def _tables(self) -> Tables:
        return self._curves.tables()

    def _scores(self, X):
        total = self._curves.scores(X, self._tables)
        for grid, heights in self._surfaces:
            total += grid.values(X, heights)
        return total

    def _body(self):
        return with_surfaces(self._curves, self._surfaces)

    @property
    def _form_kind(self):  # type: ignore[override]
        return "surfaces" if self.interactions else "curves"

    def _contributions(self, X, blocks):
        parts = self._curves.parts(X)
        for grid, heights in self._surfaces:  # half to each, as Shapley values have it
            half = 0.5 * grid.values(X, heights)
            parts[:, grid.first] += half
            parts[:, grid.second] += half
        return Contributions(parts, np.zeros(X.shape[0]), SUMS, True)

    def _check_together(self, sizes):
        super()._check_together(sizes)
        starts = self.knot_starts_
        columns = sizes["columns"] * (1 if self.context is None else 2)
        if sizes["curves"] != columns:
            raise ValueError(f"knot_starts_ has shape ({sizes['curves'] + 1},), expected ({columns + 1},)")
        if starts[0] != 0 or starts[-1] != sizes["knots"]:
            raise ValueError(f"knot_starts_ must go from 0 to the number of knots_, {sizes['knots']}")
        rises = np.diff(self.knots_) > 0
        rises[starts[1:-1] - 1] = True
        if not rises.all():
            raise ValueError("knots_ must rise for each feature")
        absent = self._of_surfaces.keys() - vars(self).keys()
        if absent == self._of_surfaces.keys():
            return
        if absent:
            raise ValueError(f"{min(absent)} is missing, which belongs to the other surface_ attributes")
        shapes = self.surface_shapes_
        if shapes.max(initial=0) > MOST_KNOTS:
            raise ValueError(f"surface_shapes_ holds {shapes.max()}, which is above {MOST_KNOTS}")
        for word, size in (("knots", int(shapes.sum())), ("heights", int(shapes.prod(axis=1).sum()))):
            if sizes[f"surface {word}"] != size:
                raise ValueError(f"surface_{word}_ has {sizes[f'surface {word}']} numbers, surface_shapes_ say {size}")
        if any((np.diff(axis) <= 0).any() for grid, _ in self._surfaces for axis in (grid.x, grid.y)):
            raise ValueError("surface_knots_ must rise")
