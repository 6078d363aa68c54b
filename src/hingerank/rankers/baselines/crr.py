"""CRR: combined regression and ranking (Sculley 2010)."""

import numpy as np

from hingerank.losses.regression import WithRegression
from hingerank.rankers.baselines.base import LeastSquaresRanker


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
