"""Rankers that are the optimum of a problem on the rows of a source, paths of them over one of its parameters, and
their multipliers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from hingerank.arrays import ArrayLike, Facts, Matrix, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks, evenly
from hingerank.data.checks import one_of, positive, warn, whole
from hingerank.data.rows_view import RowsView
from hingerank.export.attributes import Array, Attribute, Ids
from hingerank.losses.rankings import RankDistanceLoss
from hingerank.preferences import GradedPreferences, Preferences, QueryPreferences
from hingerank.problem import Problem
from hingerank.problem.least_squares import Sums
from hingerank.problem.mapped import AroundProblem
from hingerank.rankers.base import BaseRanker, forget_fit, take_over
from hingerank.rankers.inputs import HasLimits, check_weight, warn_weak
from hingerank.rankers.shapes import ShapeSample
from hingerank.rankers.sources import (
    MAPPED,
    MEMORY,
    PARTS,
    ROWS_FOR_A_MAP,
    RowsInParts,
    SeenRows,
    Source,
    check_alone,
)
from hingerank.solvers.run import Callback, Solution

ROWS_AT_A_TIME = 256
USEFUL, USEFUL_L1 = 10.0, 100.0  # a C that follows the data, in smallest useful ones: under ½‖w‖², and under ‖w‖₁


class RankingProblem(Protocol):
    """What rankers ask of the problems they pose; `with_C` only if C is what their paths are over."""

    @property
    def preferences(self) -> Preferences: ...

    def first_C(self) -> float:
        """The smallest useful C."""
        ...

    def with_C(self, C: float) -> "RankingProblem":
        """The same problem at another C."""
        ...


def chosen_C(C: object, problem: RankingProblem, times: float = USEFUL) -> float:
    """C, checked; None becomes a multiple of the problem's smallest useful C, or 1 if weights of 0 are optimal."""
    if C is not None:
        return positive("C", C)
    first = problem.first_C()
    return times * first if np.isfinite(first) else 1.0


class RowsSource(Source):
    """Rows of this process: a matrix, or a RowsView of a mapped file."""

    def __init__(
        self, X: Matrix, preferences: Preferences, weight: np.ndarray | None = None, blocks: QueryBlocks | None = None
    ) -> None:
        self.X, self.preferences, self.weight, self.blocks = X, preferences, weight, blocks
        view = isinstance(X, RowsView)
        self.kind, self.n_features = MAPPED if view else MEMORY, X.shape[1]
        self.sparse = X.sparse if view else sparse.issparse(X)

    def pose(self, make):
        return make(self.X), self.preferences

    def sample(self):
        if self.kind == MEMORY:
            return self.X, self.weight
        rows = evenly(self.X.shape[0], ROWS_FOR_A_MAP)
        return self.X[rows], None if self.weight is None else self.weight[rows]

    def see(self):
        rows, weight = self.sample()
        return SeenRows(rows, weight, None, ShapeSample.at(self.X, self.preferences, self.weight))

    def sums(self, design, preferences):
        return Sums.of(design, preferences)

    def level(self):
        if self.kind != MEMORY or self.blocks is None:
            return False
        first, last, starts = 0, self.X.shape[0] - 1, self.blocks.offsets[1:-1]
        while first < last:  # the first few rows are enough for almost all data
            end = min(first + ROWS_AT_A_TIME, last)
            differ = self.X[first + 1 : end + 1] != self.X[first:end]
            rows = differ.getnnz(axis=1) if self.sparse else differ.any(axis=1)
            if len(np.setdiff1d(np.flatnonzero(rows) + first + 1, starts)):
                return False
            first = end
        return True

    def matrix(self, why: str) -> Matrix:
        """All rows as a matrix, without a copy if possible; why: what needs it, for an error about memory."""
        return self.X.matrix(why) if self.kind == MAPPED else self.X

    def copied(self, why: str) -> "RowsSource":
        """The same rows in memory."""
        return RowsSource(self.X.copied(why), self.preferences, self.weight, self.blocks)


@dataclass(kw_only=True, eq=False, repr=False)
class ProblemRanker(HasLimits, BaseRanker):
    """A ranker that is the optimum of a problem, and paths of such rankers over one parameter of it.

    A subclass defines its problem (``_problem``), how that is solved (``_minimise``) and what to keep of the solution
    (``_take``). A path is a loop in which each solution is the start of the next. What ``_problem`` learns of the rows
    and ``_take`` needs is stored in the source, not in the ranker.
    """

    _times = USEFUL  # C in multiples of the smallest useful one, if it is None
    _of_rows = False  # whether single rows matter to the loss, even without pairs
    _strength = "C"  # the parameter that says how far the weights may go from 0
    _pair_weights: ClassVar[tuple[str, ...]] = ("uniform", "query")
    path_parameter = "C"
    # parameters of every such ranker
    scale: str | None = None
    missing: str = "error"
    max_iter: int | None = None
    max_seconds: float | None = None
    callback: Callback = None
    # parameters of some, which the others have at their defaults
    pair_weight: str = field(default="uniform", init=False)
    grade_weight: ArrayLike | None = field(default=None, init=False)
    solver: str = field(default="auto", init=False)
    device: str = field(default="cpu", init=False)

    def _problem(self, source: Source) -> RankingProblem:
        """The problem on the rows of a source."""
        raise NotImplementedError

    def _vary(self, problem: RankingProblem, value: float) -> RankingProblem:
        """The problem at another value of the path's parameter."""
        return problem.with_C(value)

    def _minimise(self, problem: RankingProblem, before: Solution | None = None) -> Solution:
        """The solution of the problem; before: the previous one of a path, to start from if the problem is convex.

        Otherwise the solution depends on the start, and a path would not be the fits that `tune` chooses between.
        """
        raise NotImplementedError

    def _take(self, solution: Solution, source: Source) -> None:
        """Keep what the ranker needs of a solution."""
        raise NotImplementedError

    def _preferences(self, y: np.ndarray, blocks: QueryBlocks, sample_weight: np.ndarray | None) -> QueryPreferences:
        """Who should beat whom among graded rows."""
        weighting = "uniform" if self.pair_weight == "ndcg" else self.pair_weight  # that of the first fit
        if weighting not in ("uniform", "query"):
            one_of("pair_weight", weighting, *self._pair_weights)
        return GradedPreferences(
            y, blocks.offsets, item_weight=sample_weight, grade_weight=self.grade_weight, pair_weight=weighting
        )

    def _source(
        self, X: RowsLike, y: PerRow, qid: PerRow, sample_weight: PerRow, group: PerRow,
        prefer: Callable[..., QueryPreferences] | None = None,
    ) -> Source:  # fmt: skip
        """What to learn from: checked and scaled rows, and who should beat whom.

        prefer(y, blocks, weight) replaces `_preferences`; it is pickled for rows on other machines.
        """
        if not isinstance(X, RowsInParts) or self._farthest != PARTS:
            rows = self._learning_rows(X, y, qid, sample_weight, group)
            preferences = (prefer or self._preferences)(rows.y, rows.blocks, rows.weight)
            return RowsSource(rows.X, preferences, rows.weight, rows.blocks)
        check_alone(y=y, qid=qid, group=group)
        self._check_parts()
        weight = check_weight(sample_weight, X.n_rows)
        data = X if weight is None else X.weighted(weight)
        forget_fit(self)
        self.n_features_in_ = data.n_features
        self.__dict__.pop("feature_names_in_", None)
        if data.feature_names is not None:
            self.feature_names_in_ = np.asarray(data.feature_names, object)
        self.fingerprint_ = data.fingerprint()
        self._learn_scaler_of_figures(data.figures(), data.sample)
        return data.source(self, prefer)

    def _check_parts(self) -> None:
        """A ValueError for parameters that data in parts do not allow."""
        if self.missing != "error":
            raise ValueError(
                "data in parts have no missing values: read them with missing='zero', and leave out missing"
            )
        if self.grade_weight is not None:
            raise ValueError("grade_weight is a matrix over all grades, and a part may lack some of them: leave it out")
        if self.context is not None:
            raise ValueError("context ranks values within queries, which data in parts do not allow: leave it out")
        if self.solver == "dual":
            raise ValueError("solver='dual' keeps a number for every pair: use another solver with data in parts")
        if self.device != "cpu":
            raise ValueError("data in parts are fitted on the workers' processors: leave out device")

    def _learn_from(self, source: Source, around: Callable[[RankingProblem], AroundProblem] | None = None) -> None:
        """Keep the solution of the problem at the ranker's own parameters; a warning if it gains next to nothing.

        around: makes it a problem whose norm keeps the solution near other weights than 0.
        """
        problem = self._posed(source)
        problem = problem if around is None else around(problem)
        solution = self._minimise(problem)
        if isinstance(problem, AroundProblem):
            self._take(replace(solution, w=problem.around + solution.w), source)
        else:
            self._take(solution, source)
            if solution.weak and not source.level():
                warn_weak(self, self._strength, solution)

    def _posed(self, source: Source) -> RankingProblem:
        """The problem at the ranker's own parameters; a warning if there is nothing to learn."""
        value, of_C = getattr(self, self.path_parameter), self.path_parameter == "C"
        if not (of_C and value is None):
            value = self._path_value(value)
        problem = self._problem(source)
        self.n_pairs_ = problem.preferences.n_pairs
        if self.n_pairs_ == 0 and not (self._of_rows and np.isfinite(problem.first_C())):
            warn(
                "there are no preference pairs (in every query all rows have the same grade, or none has a weight), so "
                "every weight is 0"
            )
        source.alike = not self._of_rows and self.n_pairs_ > 0 and source.level()
        if source.alike:
            warn("no feature differs between the rows of a query, so they cannot be ordered: check the query ids")
        if of_C and value is None:
            value = 1.0 if source.alike else chosen_C(None, problem, self._times)
        if of_C:
            self.C_ = value
        return self._vary(problem, value)

    def _fit_path(
        self, values: int | Iterable[object], X: RowsLike, y: PerRow, qid: PerRow, sample_weight: PerRow, group: PerRow,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every value, in the order given, or for as many values as the problem's grid has."""
        count = values if isinstance(values, int | np.integer) else 0
        wanted = [self._path_value(value) for value in values] if isinstance(values, Iterable) else []
        if not wanted and count < 1:
            raise ValueError(f"the path is empty: give values of {self.path_parameter}, such as [1, 2, 4]")
        leader = self._with(wanted[0] if wanted else getattr(self, self.path_parameter))
        source = leader._source(X, y, qid, sample_weight, group)
        problem = leader._posed(source)
        leader.fingerprint_["pairs"], leader.validation_scores_ = leader.n_pairs_, []
        wanted = wanted or self._grid(problem, count)
        solutions, solution = {}, None
        for value in sorted(set(wanted)):
            solutions[value] = solution = leader._minimise(leader._vary(problem, value), solution)
        path = []
        for value in wanted:
            path.append(take_over(leader, self._with(value)))
            if self.path_parameter == "C":
                path[-1].C_ = value
            path[-1]._take(solutions[value], source)
        return path

    def _grid(self, problem: RankingProblem, count: int) -> list[float]:
        """That many values of the path's parameter, if the problem determines a useful range."""
        raise ValueError(f"the path is a number, {count}: give values of {self.path_parameter}, such as [1, 2, 4]")

    def _path_value(self, value: object) -> Any:
        return positive(self.path_parameter, value)

    def _with(self, value: object) -> Self:
        """An unfitted copy with another value of the path parameter that shares what only steers training."""
        steering = {name: getattr(self, name) for name in self._training_only}
        return clone(self).set_params(**{self.path_parameter: value}, **steering)


# Fits in rounds


def solve_in_rounds(
    problem: Problem, w: np.ndarray | None, solve: Callable[..., Solution], rounds: int, **options: object
) -> Solution:
    """The last of several fits; ``extra["rounds"]`` says how each of them ended, and the trace has all their steps.

    Parameters
    ----------
    problem : the first fit's, with equal weights of pairs
    w : where the first fit starts
    solve : solver of each fit, which starts from the one before
    rounds : number of fits
    options : of the solver
    """
    if not isinstance(problem.preferences, GradedPreferences):
        raise ValueError("pair_weight='ndcg' ranks the graded rows of queries, all in this process")
    solution = solve(problem, w=w, **options)
    scores = problem.design.scores(solution.w)
    summaries, trace = [_summary(solution, None)], [{"round": 1, **entry} for entry in solution.trace]
    for number in range(2, whole("rounds", rounds, 2) + 1):
        loss = RankDistanceLoss(problem.loss, problem.preferences, scores)
        if loss.empty:  # no grade is above 0: NDCG cannot be raised
            break
        solution = solve(problem.with_loss(loss), w=solution.w, **options)
        before, scores = scores, problem.design.scores(solution.w)
        summaries.append(_summary(solution, _moved(before, scores, problem.preferences.offsets)))
        trace += [{"round": number, **entry} for entry in solution.trace]
    return replace(solution, trace=trace, extra={**solution.extra, "rounds": summaries})


def _summary(solution: Solution, moved: float | None) -> Facts:
    """How a fit ended; moved: the fraction of neighbours in the previous ranking that have swapped."""
    return {**solution.certificate.to_dict(), "objective": float(solution.value), "moved": moved}


def _moved(before: np.ndarray, after: np.ndarray, offsets: np.ndarray) -> float:
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-before, query))
    same = np.diff(query[order]) == 0
    return float((np.diff(after[order])[same] > 0).mean()) if same.any() else 0.0


# Multipliers


class MultiplierBlock(NamedTuple):
    """One query's multipliers: A[r, c] belongs to the pair (rows[winners[r]] preferred to rows[losers[c]]).

    Rows that can never win or never lose have zero rows or columns in A_l and are left out; `size` counts all rows.
    """

    query: object
    size: int
    n_pairs: int
    winners: np.ndarray  # row numbers in the training data
    losers: np.ndarray
    A: np.ndarray

    @property
    def singular_values(self) -> np.ndarray:
        return np.linalg.svd(self.A, compute_uv=False) if self.A.size else np.empty(0)

    def rank(self, tolerance: float = 1e-10) -> int:
        """Number of singular values above tolerance times the largest."""
        values = self.singular_values
        return int((values > tolerance * values[:1].max(initial=0.0)).sum()) if values.max(initial=0.0) > 0 else 0


def of_pairs(needed: bool = False) -> dict[str, Attribute]:
    """The attributes that list multipliers, as a model file holds them."""
    return {
        "multipliers_": Array("pairs", needed=needed),
        "pairs_": Array("pairs, 2", "i", low=0, needed=needed),
        "queries_": Ids("queries", needed=needed),
        "pairs_per_query_": Array("queries", "i", low=0, needed=needed),
        "sizes_": Array("queries", "i", low=0, needed=needed),
    }


class HasMultipliers:
    """What fitted rankers with multipliers offer.

    Those that list them keep `multipliers_` and `pairs_` (winner row, loser row) query after query, `pairs_per_query_`,
    and of the queries their ids `queries_` and numbers of rows `sizes_`.
    """

    multipliers_: np.ndarray
    pairs_: np.ndarray
    pairs_per_query_: np.ndarray
    queries_: np.ndarray
    sizes_: np.ndarray

    def multiplier_blocks(self) -> Iterator[MultiplierBlock]:
        """The matrix of every query, in order of first appearance."""
        ends = np.cumsum(self.pairs_per_query_)
        for query, size, pairs, end in zip(self.queries_, self.sizes_, self.pairs_per_query_, ends):
            own = slice(end - pairs, end)
            winners, r = np.unique(self.pairs_[own, 0], return_inverse=True)
            losers, c = np.unique(self.pairs_[own, 1], return_inverse=True)
            A = np.zeros((len(winners), len(losers)))
            A[r, c] = self.multipliers_[own]
            yield MultiplierBlock(query, int(size), int(pairs), winners, losers, A)
