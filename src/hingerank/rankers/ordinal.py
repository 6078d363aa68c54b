"""Ordinal regression, a weight for each feature and thresholds between grades: OrdinalSVM, and PRank's perceptron."""

import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike, PerRow, RowsLike
from hingerank.data.checks import generator, one_of, real, whole
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute
from hingerank.kernels.perceptron import prank_pass
from hingerank.losses import make_loss
from hingerank.losses.pairs import Ordinal, PairLoss
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.rankers.base import BaseRanker, LinearRanker, UnweightedRanker
from hingerank.rankers.linear import LossRanker
from hingerank.rankers.sources import MEMORY
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate

MOST_GRADES = 256
OF_THRESHOLDS = ("squared_hinge", "logistic", "modified_huber")


class HasThresholds(BaseRanker):
    """A ranker whose scores have thresholds between the grades."""

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "grades_": Array("grades", rising=True, least=1),
        "thresholds_": Array("grades-1"),
    }
    grades_: np.ndarray
    thresholds_: np.ndarray

    def predict_grades(self, X: RowsLike, qid: PerRow = None) -> np.ndarray:
        """The grade of every row: the lowest whose upper threshold its score does not pass.

        Parameters
        ----------
        X : rows as in fit
        qid : a query id per row; needed only by a scaler that works per query
        """
        check_is_fitted(self)
        above = self.predict(X, qid)[:, None] > self.thresholds_[None, :]
        return np.asarray(self.grades_[above.sum(axis=1)])


@dataclass(eq=False, repr=False)
class OrdinalSVM(HasThresholds, LossRanker):
    """min over w, b of  ½‖w‖² + C · sum over rows i and thresholds k of  loss(±(s_i - b_k)),  + above k,  s = Φ w.

    The pointwise approach with large margins: a row should score above all thresholds below its grade, and below the
    others, whatever its query. Shashua & Levin (2002) use the thresholds next to a grade. Chu & Keerthi (2005) use all
    of them, as here: the best thresholds then ascend without a constraint. With two grades there is one threshold, and
    this is a classifier of relevant rows (Nallapati 2004: the SVM, or with the logistic loss the maximum entropy
    model). The problem is convex. It is solved in w with the best thresholds for each w; the certificate is the duality
    gap in w.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over rows, or None for one that follows the data
    loss : "squared_hinge", "logistic" or "modified_huber", of the distance to a threshold
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    thresholds_ : one between every two neighbouring grades
    grades_ : the distinct grades, ascending
    coef_, certificate_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = OrdinalSVM(C=100.0).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist(), ranker.predict_grades(X).tolist()
    ([1, 0, 3, 2], [0.0, 1.0, 0.0, 1.0])
    """

    _farthest = MEMORY  # thresholds see all scores
    _of_rows = True

    C: float | None = 1.0
    loss: str = "squared_hinge"
    tol: float = 1e-3
    _: KW_ONLY
    init: ArrayLike | None = None

    def _solver(self):
        one_of("loss of OrdinalSVM", self.loss, *OF_THRESHOLDS)
        return "newton"

    def _loss(self):
        loss = make_loss(self.loss)
        assert isinstance(loss, PairLoss)  # as all of OF_THRESHOLDS are
        return Ordinal(loss)

    def _preferences(self, y, blocks, sample_weight):
        found = len(np.unique(y))
        if found > MOST_GRADES:
            raise ValueError(
                f"there are {found:,} different grades, and OrdinalSVM has a threshold between each two: round them "
                f"to at most {MOST_GRADES}, or use PointwiseRegression"
            )
        return super()._preferences(y, blocks, sample_weight)

    def _problem(self, source):
        source.learnt = super()._problem(source)
        return source.learnt

    def _take(self, solution, source):
        super()._take(solution, source)
        problem: Problem = source.learnt
        assert isinstance(problem.loss, Ordinal) and isinstance(problem.preferences, GradedPreferences)
        y, weight = problem.preferences.y, problem.preferences.item_weight
        m = np.ones(len(y)) if weight is None else weight
        self.grades_ = np.unique(y[m > 0])
        self.thresholds_ = problem.loss.thresholds(problem.design.scores(solution.w), y, m)


@renamed
@dataclass(eq=False, repr=False)
class PRank(HasThresholds, UnweightedRanker, LinearRanker):
    """w ← w + sum_k τ_k x,  b_k ← b_k - τ_k,  τ_k = ±1 where threshold b_k stands on the wrong side of w·x, else 0,

    for one row after another: a row of the k-th lowest grade should score above k - 1 thresholds and below the others.
    The pointwise approach with ordered grades, whatever the queries. The last w of a perceptron depends strongly on the
    last rows, so by default the mean over all steps is taken (Harrington 2003).

    With ``n_bags`` several perceptrons are trained, each of which visits a row with probability ``bag_share``. Their
    mean estimates the Bayes point, the centre of all weights that make no mistake (OAP-BPM, Harrington 2003).

    A fit is not an optimum but a number of passes. Its certificate gives the mean error of the grades in the last pass;
    the fit has converged if that pass made no mistake. The order of visits depends on the seed and on the rows
    themselves, not on their order.

    Parameters
    ----------
    max_iter : maximum number of passes over all rows; a pass without a mistake is the last
    average : take the mean of the weights over all steps; False takes the last weights, as in the paper
    n_bags : number of perceptrons whose mean is taken
    bag_share : probability that a row is visited in a pass
    random_state : seed of the order of visits
    scale, missing : as in RankSVM

    Attributes
    ----------
    coef_ : weights
    thresholds_ : one between every two neighbouring grades
    grades_ : the distinct grades, ascending
    certificate_, trace_ : passes made, and the mean error of the grades after each
    n_iter_ : number of passes

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = PRank().fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist(), ranker.predict_grades(X).tolist()
    ([1, 0, 3, 2], [0.0, 1.0, 0.0, 1.0])
    """

    max_iter: int | None = 20
    _: KW_ONLY
    average: bool = True
    n_bags: int = 1
    bag_share: float = 1.0
    scale: str | None = None
    missing: str = "error"
    random_state: int | None = 0

    def _fit(self, X, y, blocks, sample_weight):
        began, passes, design = time.perf_counter(), whole("max_iter", self.max_iter), RowsDesign(X)
        bags, share = whole("n_bags", self.n_bags), self.bag_share
        if not 0 < real(share) <= 1:
            raise ValueError(f"bag_share must be above 0 and at most 1, not {share!r}")
        self.grades_, level = np.unique(y, return_inverse=True)
        w, b = np.zeros((bags, X.shape[1])), np.zeros((bags, len(self.grades_) - 1))
        total_w, total_b, spare, steps = np.zeros_like(w), np.zeros_like(b), np.empty(1), np.zeros(bags)
        rng = generator(self.random_state)
        rows = np.lexsort((design.scores(rng.normal(size=X.shape[1])), level))
        self.trace_ = []
        for iteration in range(1, passes + 1):
            missed, visited = 0, 0
            for k in range(bags):
                order = rows[rng.permutation(len(rows))]
                order = order if share == 1 else order[rng.random(len(order)) < share]
                missed += prank_pass(design.rows, level, order, w[k], b[k], total_w[k], total_b[k], spare)
                steps[k] += len(order)
                visited += len(order)
            value = missed / max(visited, 1)
            self.trace_.append({"iteration": iteration, "value": value, "seconds": time.perf_counter() - began})
            if value == 0.0:
                break
        if not np.isfinite(spare).all():
            raise DataError("scores overflow; rescale the features (scale=...)")
        counted = np.maximum(steps, 1.0)[:, None]
        self.coef_ = (total_w / counted if self.average else w).mean(axis=0)
        self.thresholds_ = (total_b / counted if self.average else b).mean(axis=0)
        self.n_iter_ = iteration
        status = "converged" if value == 0.0 else "max_iter"
        seconds = time.perf_counter() - began
        self.certificate_ = Certificate("grades missed in the last pass", value, 0.0, status, iteration, seconds)
