"""Least squares on differences of scores: RankRLS, and CRR, which adds regression on the grades."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from hingerank.data.checks import one_of
from hingerank.export.attributes import Attribute, Number
from hingerank.export.forms import Affine
from hingerank.export.sums import summed
from hingerank.losses import Loss
from hingerank.losses.lists import WithRegression
from hingerank.preferences import GradedPreferences, Preferences
from hingerank.problem import Problem
from hingerank.problem.least_squares import LeastSquaresProblem, around_means
from hingerank.problem.problem import Design
from hingerank.rankers.linear import LossRanker, solvers_by_loss
from hingerank.rankers.problem_ranker import RowsSource
from hingerank.rankers.sources import MAPPED, MEMORY, Source
from hingerank.solvers.newton import closed_form

LARGEST_SOLVED = 4000  # features: above, conjugate gradients take less time and memory than a matrix of d² numbers
SQUARES = ("all_differences", "grade_differences", "squared")


class LeastSquaresRanker(LossRanker):
    """min over w of  ½‖w‖² + C · (a sum of squares), solved exactly: one matrix of d² numbers serves every C."""

    def _problem(self, source):
        by_rows = source.kind == MEMORY and self._is_squares(source)
        design, preferences = source.pose(self._design(source, by_rows))
        return self._posed_on(source, design, self._loss(), preferences)

    def _is_squares(self, source: Source) -> bool:
        """Whether the matrix of squares of the rows can be made."""
        if not isinstance(source, RowsSource) or self.loss not in SQUARES:
            return False
        if source.kind == MAPPED and self.features is not None:
            return False
        return isinstance(source.preferences, GradedPreferences) and not source.preferences.pairs_differ

    def _posed_on(self, source: Source, design: Design, loss: Loss, preferences: Preferences) -> Problem:
        if isinstance(source, RowsSource) and isinstance(preferences, GradedPreferences) and self._is_squares(source):
            mapped = source.X if source.kind == MAPPED else None
            return LeastSquaresProblem(design, loss, preferences, source=mapped)
        return Problem(design, loss, preferences)

    def _minimise(self, problem, before=None, solve=None):
        exactly = isinstance(problem, LeastSquaresProblem) and problem.dimension <= LARGEST_SOLVED
        return super()._minimise(problem, before, closed_form if exactly else solve)


@dataclass(eq=False, repr=False)
class RankRLS(LeastSquaresRanker):
    """min over w of  ½‖w‖² + C · sum over every two rows of a query of  ((y_i - y_j) - (s_i - s_j))²,  s = Φ w.

    With L the Laplacian of the pairs (n I - 1 1ᵀ in a query of n rows) the answer is  w = 2C (I + 2C XᵀLX)⁻¹ XᵀL y:
    O(n d²) for all values of C together. The paper's and RLScore's λ is 1 / (2C).

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    loss : which differences
        "all_differences" as above: rows of equal grade should have equal scores. "grade_differences": only pairs of
        different grades. "squared": (1 - (s_i - s_j))² over the same pairs, however far apart their grades are.
    pair_weight : "uniform" as in the paper, or "rows": a query's pairs divided by its rows, as in RLScore's program
    tol : accepted duality gap relative to the objective and to its decrease from weights of 0
    scale, missing, features, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankRLS(C=1e6).fit(X, y, qid=qid).coef_.round(3).tolist()  # (1·1 + 0.7·1) / (1² + 0.7²)
    [1.141]
    """

    C: float | None = 1.0
    loss: str | Loss = "all_differences"
    tol: float = 1e-6
    _: KW_ONLY
    pair_weight: str = "uniform"

    def _preferences(self, y, blocks, sample_weight):
        one_of("pair_weight", self.pair_weight, "uniform", "rows")
        rows = blocks.sizes if sample_weight is None else np.add.reduceat(sample_weight, blocks.offsets[:-1])
        query_weight = None if self.pair_weight == "uniform" else 1.0 / rows
        return GradedPreferences(y, blocks.offsets, item_weight=sample_weight, query_weight=query_weight)


@dataclass(eq=False, repr=False)
class CRR(LeastSquaresRanker):
    """min over w, b of  ½‖w‖² + C · ( alpha · mean over rows of (y_i - b - s_i)²
                                 + (1 - alpha) · mean over pairs of ((y_i - y_j) - (s_i - s_j))² ),  s = Φ w,

    over pairs of different grades: scores that order the rows of a query and are near the grades. Both parts are means,
    as in the paper, whose λ is 1 / C. Solved exactly, in O(n d²) for all values of C together.

    Parameters
    ----------
    C : weight of the loss; multiplies its mean over rows and its mean over pairs, or None for one that follows the data
    alpha : weight of regression, from 0 (ranking only) to 1
    loss : the pairs' loss: "grade_differences" as above, or another one of RankSVM's smooth losses, such as "logistic"
    tol : accepted duality gap relative to the objective and to its decrease from weights of 0
    scale, missing, features, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    intercept_ : b
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 2, 0, 2], ["a", "a", "b", "b"]
    >>> CRR(C=1e6).fit(X, y, qid=qid).predict(X).round(1).tolist()
    [-0.2, 2.1, 0.3, 1.9]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"intercept_": Number()}
    _solvers = solvers_by_loss("newton")
    _of_rows = True

    C: float | None = 1.0
    alpha: float = 0.5
    loss: str | Loss = "grade_differences"
    tol: float = 1e-6

    def _loss(self):
        return WithRegression(super()._loss(), self.alpha)

    def _problem(self, source):
        """On rows that are not in memory around their means: a sum over queries then, so over blocks or parts."""
        if isinstance(source, RowsSource):
            self._graded(source.preferences)
        if source.kind == MEMORY:
            problem = super()._problem(source)
            source.learnt = source.sums(problem.design, problem.preferences)
            return problem
        make, loss = self._design(source), self._loss()
        source.learnt = sums = source.sums(*source.pose(make))
        design, preferences = source.pose(partial(around_means, make=make, centre=sums.mean_row))
        pairs = preferences.total_weight
        around = loss.around(loss.alpha / sums.mass, (1.0 - loss.alpha) / pairs if pairs > 0 else 0.0, sums.mean_y)
        return self._posed_on(source, design, around, preferences)

    def _take(self, solution, source):
        super()._take(solution, source)
        self.intercept_ = source.learnt.mean_y - float(source.learnt.mean_row @ solution.w)

    def _scores(self, X):
        return super()._scores(X) + self.intercept_

    def _form(self):
        form, b = super()._form(), float(self.intercept_)
        if isinstance(form.body, Affine):
            return replace(form, body=form.body._replace(offset=b))
        constant = replace(form, body=Affine(np.zeros(self._n_columns), b))  # which the body of a feature map has not
        return summed(form.names, [(1.0, form), (1.0, constant)])

    def _form_parts(self):
        parts = super()._form_parts()
        return parts if self._form_kind != "mapped" else [*parts, parts[0]._replace(kind="linear")]


@dataclass(eq=False, repr=False)
class PointwiseRegression(CRR):
    """min over w, b of  ½‖w‖² + C · mean over rows of (y_i - b - s_i)²,  s = Φ w.

    The pointwise approach: the grade of every row by itself, whatever its query. It is CRR with alpha = 1, and ridge
    regression on the grades with a penalty of rows / (2C). Solved exactly, in O(n d²) for all values of C together.

    Parameters
    ----------
    C : weight of the loss; multiplies its mean over rows, or None for one that follows the data
    tol : accepted duality gap relative to the objective and to its decrease from weights of 0
    scale, missing, features, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    intercept_ : b
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 2, 0, 2], ["a", "a", "b", "b"]
    >>> PointwiseRegression(C=1e6).fit(X, y, qid=qid).predict(X).round(1).tolist()
    [-0.2, 2.1, 0.3, 1.9]
    """

    alpha: float = field(default=1.0, init=False)
    loss: str | Loss = field(default="grade_differences", init=False)
