"""PRank: ordinal regression by a perceptron (Crammer & Singer 2001)."""

import time
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import PerRow, RowsLike
from hingerank.data.checks import whole
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute
from hingerank.kernels.ordinal import prank_pass
from hingerank.problem import RowsDesign
from hingerank.rankers.base import LinearRanker, UnweightedRanker
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate


@renamed
class PRank(UnweightedRanker, LinearRanker):
    """w ← w + sum_k τ_k x,  b_k ← b_k - τ_k,  τ_k = ±1 where threshold b_k stands on the wrong side of w·x, else 0,

    for one row after another: a row of the k-th lowest grade is to score above k - 1 thresholds and below the others.
    The pointwise approach with ordered grades, whatever the queries. The last w of a perceptron hangs on the last rows,
    so the mean over all steps is taken (Harrington 2003), unless told otherwise.

    A fit is no optimum but a number of passes: its certificate says how far grades were missed in the last one, in
    grades a row, and is converged where no row was. The order of visits is drawn from a seed, and depends on what rows
    are, not on where they stand.

    Parameters
    ----------
    max_iter : most passes over all rows; one without a mistake is the last
    average : take the mean of the weights over all steps, or (as in the paper) the last ones
    scale : feature scaling learnt in fit and carried in the model
    missing : as in RankSVM
    random_state : seed of the order of visits

    Attributes
    ----------
    coef_ : weights
    thresholds_ : one between every two neighbouring grades
    grades_ : the distinct grades, ascending
    certificate_, trace_ : passes made, and the mean distance of grades after each
    n_iter_ : passes

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = PRank().fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist(), ranker.predict_grades(X).tolist()
    ([1, 0, 3, 2], [0.0, 1.0, 0.0, 1.0])
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "grades_": Array("grades", rising=True, least=1),
        "thresholds_": Array("grades-1"),
    }

    def __init__(self, max_iter=20, *, average=True, scale=None, missing="error", random_state=0):
        self.max_iter = max_iter
        self.average = average
        self.scale = scale
        self.missing = missing
        self.random_state = random_state

    def _fit(self, X, y, blocks, sample_weight):
        began, passes, design = time.perf_counter(), whole("max_iter", self.max_iter), RowsDesign(X)
        self.grades_, level = np.unique(y, return_inverse=True)
        w, b = np.zeros(X.shape[1]), np.zeros(len(self.grades_) - 1)
        total_w, total_b, spare = np.zeros_like(w), np.zeros_like(b), np.empty(1)
        rng = np.random.default_rng(self.random_state)
        rows = np.lexsort((design.scores(rng.normal(size=len(w))), level))
        self.trace_ = []
        for iteration in range(1, passes + 1):
            order = rows[rng.permutation(len(rows))]
            value = prank_pass(design.rows, level, order, w, b, total_w, total_b, spare) / len(y)
            self.trace_.append({"iteration": iteration, "value": value, "seconds": time.perf_counter() - began})
            if value == 0.0:
                break
        if not np.isfinite(spare).all():
            raise DataError("scores overflow; rescale the features (scale=...)")
        steps = len(y) * iteration
        self.coef_ = total_w / steps if self.average else w
        self.thresholds_: np.ndarray = total_b / steps if self.average else b
        self.n_iter_ = iteration
        status = "converged" if value == 0.0 else "max_iter"
        seconds = time.perf_counter() - began
        self.certificate_ = Certificate("grades missed in the last pass", value, 0.0, status, iteration, seconds)

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
