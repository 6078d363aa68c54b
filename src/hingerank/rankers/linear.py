"""RankSVM, the linear Ranking SVM, and the rankers that differ from it by their loss; all without listing pairs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np

from hingerank.arrays import ArrayLike, Matrix, PerRow, RowsLike
from hingerank.data.blocks import fingerprint, real_numbers
from hingerank.data.rows_view import BYTES_A_ROW
from hingerank.data.scaling import make_scaler
from hingerank.export.attributes import Array, Attribute, Of
from hingerank.features.maps import FeatureMap, check_width
from hingerank.features.named_maps import feature_map
from hingerank.losses import LIST_LOSSES, RANKING_LOSSES, Loss, make_loss, no_loss
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem import Design, Problem, RowsDesign
from hingerank.problem.mapped import features_design, rows_design
from hingerank.problem.torch_design import TorchDesign, check_device
from hingerank.rankers.base import LinearRanker, forget_fit, keep_account
from hingerank.rankers.inputs import check_features, names_of_features
from hingerank.rankers.problem_ranker import HasMultipliers, ProblemRanker, RowsSource, of_pairs, solve_in_rounds
from hingerank.rankers.sources import MEMORY, PARTS, Source
from hingerank.rankers.winners import WinnersRanker
from hingerank.renaming import renamed
from hingerank.solvers.cutting_plane import cutting_planes
from hingerank.solvers.hinge import dual_coordinate_descent, smoothing
from hingerank.solvers.newton import newton
from hingerank.solvers.run import Solution

BYTES_OF_TWO_TERMS = 80  # a row of mapped data, of losses with two windows a row
SMOOTH = ("squared_hinge", "modified_huber", "logistic", "exponential", "fidelity", "squared", *LIST_LOSSES)


class Solver(NamedTuple):
    """solve(problem, w, tol=, max_iter=, max_seconds=, callback=), the losses it minimises, its default max_iter."""

    solve: Callable[..., Solution]
    losses: tuple[str, ...]
    max_iter: int


SOLVERS = {
    "newton": Solver(newton, SMOOTH, 200),
    "smoothing": Solver(smoothing, ("hinge",), 300),
    "cutting-plane": Solver(cutting_planes, ("hinge", *RANKING_LOSSES), 3000),
    "dual": Solver(dual_coordinate_descent, ("hinge",), 1000),
}


def solvers_by_loss(*names: str) -> dict[str, list[str]]:
    """For every loss that these solvers minimise their names, the usual one first."""
    losses = dict.fromkeys(loss for name in names for loss in SOLVERS[name].losses)
    return {loss: [name for name in names if loss in SOLVERS[name].losses] for loss in losses}


class PairwiseRanker(HasMultipliers, WinnersRanker):
    """min over functions f of  ½‖f‖² + C · sum over pairs (i preferred to j) of  loss(f(x_i) - f(x_j)).

    A subclass defines the functions f by ``_problem`` and keeps the minimiser in ``_take``. ``_solvers`` are the
    names of the solvers it works with, by loss.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = of_pairs() | {"rounds_": Of(dict, listed=True, needed=False)}
    _solvers: ClassVar[Mapping[str, list[str]]] = solvers_by_loss(*SOLVERS)
    init: ArrayLike | None = None  # where to start, in rankers without that parameter
    rounds: int | None = None  # in rankers without pair_weight="ndcg"

    @renamed
    def fit_pairs(
        self, X: RowsLike, winners: ArrayLike, losers: ArrayLike, sample_weight: PerRow = None, qid: PerRow = None
    ) -> Self:
        """Learn from explicit comparisons: row ``winners[k]`` of X should be above row ``losers[k]``.

        Parameters
        ----------
        X : rows as in fit
        winners, losers : row numbers, one of each for a pair
        sample_weight : a weight per pair
        qid : the query or user of each pair, which ``pair_weight="query"`` makes count the same
        """
        X = self._plain_rows(X)
        pairs = ExplicitPairs(winners, losers, X.shape[0], sample_weight, qid, self.pair_weight)
        if pairs.n_pairs and not pairs.weight.any():
            raise ValueError("all sample_weight are zero: no pair is left to learn from")
        self._learn_from(RowsSource(X, pairs))
        return self._finish()

    def fit_preferences(self, X: RowsLike, preferences: Preferences) -> Self:
        """Learn from a preference set with any weights; X has its rows in the order of the preference set.

        For clicks with known propensities use `fit_clicks`. It compares each clicked row with all other rows of its
        query, including other clicked rows (Joachims, Swaminathan & Schnabel 2017); ``WeightedWinners`` are these
        preferences. To compare clicked rows with unclicked ones only (``GradedPreferences`` of clicks) is biased for
        any amount of data, even with weights 1 / propensity: the expected weight of the pair (i, j) is
        relevance_i (1 - propensity_j relevance_j).

        Parameters
        ----------
        X : rows
        preferences : GradedPreferences, WeightedWinners or ExplicitPairs over these rows
        """
        X = self._plain_rows(X)
        if preferences.n_items != X.shape[0]:
            raise ValueError(f"the preferences are about {preferences.n_items} rows but X has {X.shape[0]}")
        self._learn_from(RowsSource(X, preferences))
        return self._finish()

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, Cs: Iterable[float] = (),
        sample_weight: PerRow = None, *, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every C, in the order given; each fit starts from that of the next smaller C.

        Parameters
        ----------
        X, y, qid, sample_weight, group : as in fit
        Cs : values of C
        """
        return self._fit_path(Cs, X, y, qid, sample_weight, group)

    def _plain_rows(self, X: RowsLike) -> Matrix:
        """Checked and scaled rows, for preferences that are given directly."""
        X = check_features(self, X, reset=True)
        forget_fit(self)
        self.fingerprint_ = fingerprint(X)
        if self.context is not None:
            raise ValueError(f"context={self.context!r} works within queries, so it needs fit(X, y, qid)")
        if make_scaler(self._scaling()).per_query:
            raise ValueError(
                f"scale={self.scale!r} works within queries, so it needs fit(X, y, qid); scale the rows before "
                "fitting preferences directly, or by columns"
            )
        return self._learnt_rows(X, None)

    def _minimise(self, problem, before=None, solve=None):
        """As in ProblemRanker; solve: the solver, if it is not the one that SOLVERS has for the loss."""
        warm = before is not None and problem.convex
        solver, start = SOLVERS[self._solver()], before.w if warm else None
        if not warm and self.init is not None:
            start = real_numbers(self.init, "init")
            if start.shape != (problem.dimension,) or not np.isfinite(start).all():
                n = problem.dimension
                raise ValueError(f"init must be {n} finite weights, got an array of shape {start.shape}")
        solve, limits = solver.solve if solve is None else solve, self._limits(solver.max_iter)
        if self.pair_weight != "ndcg":
            return solve(problem, start, **limits)
        if self.rounds is None:
            raise ValueError(f"{type(self).__name__} has no pair_weight='ndcg': RankSVM and AdditiveRankSVM have it")
        return solve_in_rounds(problem, start, solve, self.rounds, **limits)

    def _solver(self) -> str:
        """The name of the solver for the ranker's loss, both checked."""
        able = ["newton"]
        if not isinstance(self.loss, str):
            make_loss(self.loss)  # checks an object
        elif self.loss in self._solvers:
            able = self._solvers[self.loss]
        else:
            raise ValueError(no_loss(self.loss, self._solvers))
        solver = able[0] if self.solver == "auto" else self.solver
        if solver not in able:
            raise ValueError(
                f"solver {solver!r} does not minimise loss {self.loss!r}; use one of: auto, {', '.join(able)}"
            )
        return solver

    def _take(self, solution, source):
        keep_account(self, solution, source.alike)
        if "rounds" in solution.extra:
            self.rounds_ = solution.extra["rounds"]
        if "multipliers" in solution.extra:
            pairs, blocks = solution.extra["pairs"], source.blocks
            self.multipliers_ = solution.extra["multipliers"]
            self.pairs_ = np.stack([source.given(pairs.winner), source.given(pairs.loser)], axis=1)
            if blocks is not None:
                self.pairs_per_query_ = source.preferences.pairs_per_query
                self.queries_, self.sizes_ = blocks.ids, blocks.sizes


@dataclass(kw_only=True, eq=False, repr=False)
class LossRanker(PairwiseRanker, LinearRanker):
    """min over w of  ½‖w‖² + C · loss(Φ w; preferences):  linear in the features, or in those of a feature map."""

    _saved: ClassVar[Mapping[str, Attribute]] = {  # version 0.1 had no feature maps
        "features_": Of(FeatureMap, none=True, needed=False), "coef_": Array("weights"),
    }  # fmt: skip
    _farthest = PARTS
    features_: FeatureMap | None = field(default=None, init=False)
    features: object = None

    @property
    def _bytes_a_row(self):  # type: ignore[override]
        return BYTES_OF_TWO_TERMS if self.loss in ("hinge", "modified_huber") else BYTES_A_ROW

    def _problem(self, source):
        design, preferences = source.pose(self._design(source))
        return Problem(design, self._loss(), preferences)

    def _loss(self) -> Loss:
        return make_loss(self.loss)

    def _graded(self, preferences: Preferences) -> GradedPreferences:
        """The preferences, if they are those of graded rows, which the loss needs."""
        if not isinstance(preferences, GradedPreferences):
            what = f"{type(self).__name__} needs graded rows"
            raise ValueError(f"{what}: it cannot learn from winners or single comparisons")
        return preferences

    def _design(self, source: Source, by_rows: bool = False) -> Callable[..., Design]:
        """A function that makes a design of rows, or of what a feature map, fitted here, makes of them; by_rows: for
        a solver that needs single rows of it."""
        self.features_, by_rows = None, by_rows or self._solver() == "dual"
        if self.device != "cpu":
            if self.features is not None or by_rows:
                raise ValueError(f"device={self.device!r} takes no features= and no solver='dual'")
            return partial(TorchDesign.of_rows, device=check_device(self.device))
        if self.features is None:
            return RowsDesign if source.kind == MEMORY else partial(rows_design, by_rows=by_rows)
        rows, weight = source.sample()
        self.features_ = feature_map(self.features).fit(rows, sample_weight=weight)
        return partial(features_design, feature_map=self.features_, by_rows=by_rows)

    def _take(self, solution, source):
        self.coef_ = solution.w
        super()._take(solution, source)

    def _check_together(self, sizes):
        super()._check_together(sizes)
        columns = sizes["columns"] * (1 if self.context is None else 2)
        check_width(self.features_, columns, sizes["weights"])

    def _names_of_weights(self, given):
        if self.features_ is None:
            return super()._names_of_weights(given)
        return self.features_.names(names_of_features(self, self.features_.n_features_in_, given))

    def _scores(self, X):
        if self.features_ is None:
            return super()._scores(X)
        return self.features_.scores(X, self.features_.unmixed(self.coef_))

    def _contributions(self, X, blocks):
        linear = self.features_ is None
        return super()._contributions(X, blocks) if linear else ProblemRanker._contributions(self, X, blocks)

    def _body(self):
        if self.features_ is None:
            return super()._body()
        from hingerank.export.forms import body_of_map

        return body_of_map(self.features_, self.features_.unmixed(self.coef_))

    @property
    def _form_kind(self):  # type: ignore[override]
        from hingerank.export.forms import map_kind

        return "linear" if self.features is None else map_kind(self.features)


@dataclass(eq=False, repr=False)
class RankSVM(LossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  loss(w·x_i - w·x_j).

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs (of a loss of whole lists its sum over queries)
        None for one that follows the data: 10 times the smallest useful C, which is L(0) / ‖∇L(0)‖² for the loss L at
        weights of 0. LIBLINEAR's ranksvm uses the same C; for SVMrank see
        ``hingerank.export.svmlight.C_from_svmrank``.
    loss : of a pair, or of a whole list
        "squared_hinge" max(0, 1-t)², "hinge" max(0, 1-t), or "modified_huber", "logistic", "exponential", "fidelity",
        "squared"; of whole lists "listnet", "listmle", "grade_differences", "grade_margins", "all_differences",
        "cosine"; of rankings "average_precision" (cutting planes). Or a smooth object (``losses.check_loss`` tries it).
    tol : stop when the duality gap is at most tol times the objective and tol times its decrease from weights of 0
        The objective is then provably within that fraction of its optimum. (If a loss is not convex, such as
        "fidelity", the same number measures how stationary the weights are.)
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing" (fastest), "cutting-plane", "dual"
        "dual" gives ``multipliers_``.
    pair_weight : "uniform", "query" or "ndcg"
        "query" gives every query the same weight, however many pairs it has. "ndcg" fits several times. Each fit uses
        the weights of NDCG-Loss2 in the ranking of the previous fit, scaled to a mean of 1
        (`hingerank.losses.rankings`). It needs the squared hinge or the logistic loss and O(rows²) time per query.
        Ranks count rows and ignore their weights.
    grade_weight : matrix over the distinct grades, ascending: the cost of a pair with these two grades
    scale : feature scaling, learnt in fit and stored with the model (None for none)
        Within queries "query-minmax" or "query-standard"; by columns "standard", "minmax", "maxabs", "deviation", and
        for long tails "log" or "quantile". `hingerank.tune` can choose one.
    missing : what a missing value (NaN) becomes before scaling, learnt in fit and stored with the model
        "error" refuses it; "zero" and "median" (of the column) fill it; "indicator" fills it by the median and adds a
        column that is 1 where it was missing, for each feature that was missing in training. Not for data in parts.
    context : "rank" or "standard": adds every column's ranks or z-scores within the queries as further columns
        Dense rows only. ``predict`` then needs qid, and no export supports it.
    features : a feature map φ: any scikit-learn transformer, fitted on the training rows
        The ranker is then linear in φ(x). One copy of φ(x) is kept in float32, in at most half of the machine's memory;
        if that is not enough, φ is computed again for every pass. With `NystroemMap`, `FourierMap` and the
        plain transformers of scikit-learn (`hingerank.export.attributes` lists them) the ranker can be saved.
    rounds : number of fits with ``pair_weight="ndcg"``; the first has equal weights
    max_iter : maximum number of iterations; a fit that hits it warns and says in ``certificate_`` how far it got
    max_seconds : maximum number of seconds; a fit that hits it warns as well
    init : weights to start from
    callback : called with each trace entry; return True to stop
    device : "cpu", or "cuda" to train on an NVIDIA GPU (needs PyTorch; holds the rows there, in float32)

    Attributes
    ----------
    coef_ : weights
    features_ : the fitted feature map, or None
    certificate_ : how near the optimum the weights are
    trace_, n_iter_ : one entry per iteration, and their number
    n_pairs_ : number of preference pairs
    C_ : C as it was used
    objective_ : the value reached
    rounds_ : certificate and objective of each fit with ``pair_weight="ndcg"``, and the pairs it reordered
    multipliers_, pairs_ : a number for each pair with ``solver="dual"``, and the pairs (winner row, loser row)

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = RankSVM(C=1.0).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    _pair_weights = ("uniform", "query", "ndcg")

    C: float | None = 1.0
    loss: str | Loss = "squared_hinge"
    tol: float = 1e-3
    _: KW_ONLY
    solver: str = "auto"
    pair_weight: str = "uniform"
    grade_weight: ArrayLike | None = None
    context: str | None = None
    rounds: int = 3
    init: ArrayLike | None = None
    device: str = "cpu"


@dataclass(eq=False, repr=False)
class OwnLossRanker(LossRanker):
    """A ranker whose loss is the class's own."""

    C: float | None = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    init: ArrayLike | None = None


class RankNet(OwnLossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  log(1 + exp(-(s_i - s_j))),  s = Φ w.

    The original method uses a neural network for s and early stopping. Here s is linear in the features, or in those
    of any feature map, and the fit is solved to the optimum. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "logistic"


class ListNet(OwnLossRanker):
    """min over w of  ½‖w‖² - C · sum over queries of  sum_i P_y(i) log P_s(i),  s = Φ w,

    where P_s(i) = exp(s_i) / sum_j exp(s_j) is the probability that row i is ranked first. P_y is the same for grades.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over queries, or None for one that follows the data
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listnet"


class ListMLE(OwnLossRanker):
    """min over w of  ½‖w‖² - C · sum over rows i of  log( exp(s_i) / (exp(s_i) + sum over j below i of exp(s_j)) ),

    s = Φ w, j the rows of i's query with a lower grade: the likelihood of the graded order under Plackett and Luce's
    model. Rows of equal grade do not compete, since their order is unknown (see `hingerank.losses.PlackettLuce`).

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over rows, or None for one that follows the data
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListMLE(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listmle"


class FRank(OwnLossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  1 - sqrt(1 / (1 + exp(-(s_i - s_j)))),  s = Φ w.

    The loss of a pair is at most 1, however wrong it is. So the problem is not convex: the fit starts at w = 0, and the
    certificate is that of a stationary point. The original method adds up weak rankers. Here s is linear in the
    features, or in those of any feature map. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> FRank(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "fidelity"
