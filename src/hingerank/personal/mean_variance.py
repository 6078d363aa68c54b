"""MeanVarianceRanker: a ranking function for all users, and a deviation from it for each."""

from typing import Any

import numpy as np

from hingerank.personal.base import check_positive
from hingerank.personal.convex import ConvexPersonalRanker
from hingerank.personal.designs import MeanAndOwnDesign
from hingerank.personal.preferences import UserPreferences


class MeanVarianceRanker(ConvexPersonalRanker):
    """min over w, v_u of  ‖w‖²/(2·sharing) + ½ sum_u ‖v_u‖²
    + C · sum over u, pairs (i preferred to j by u) of max(0, 1 - (w + v_u)·(x_i - x_j))²   (Evgeniou & Pontil 2004).

    sharing : towards 0 the users are separate, towards infinity the mean is free of cost. `coef_` is w; `user_weights_`
    holds the v_u, as in SeparateRanker. A user without a pair ranks by w.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = MeanVarianceRanker(C=1.0).fit(X, ["ann", "ann", "bob"], [0, 1, 0], [5, 2, 3])
    >>> ranker.rank("bob", X).tolist()
    [0, 2, 1]
    """

    _fitted = ("coef_", "user_weights_")
    coef_: np.ndarray
    user_weights_: Any

    def __init__(
        self, C=0.1, tol=1e-3, *, sharing=1.0, pair_weight="uniform", max_iter=100, max_seconds=None, callback=None
    ):
        super().__init__(C, tol, pair_weight=pair_weight, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
        self.sharing = sharing

    def _design(self, X: Any, preferences: UserPreferences) -> MeanAndOwnDesign:
        check_positive(self, "sharing")
        return MeanAndOwnDesign(X, preferences, self.sharing)

    def _keep(self, design: MeanAndOwnDesign, w: np.ndarray) -> None:
        self.coef_ = design.root * w[: design.cut]
        self.user_weights_ = design.own.vectors(w[design.cut :])

    def _shared(self, X: Any) -> np.ndarray:
        return X @ self.coef_

    def _place(self, X: Any) -> Any:
        return X

    def _own(self, numbers: np.ndarray) -> Any:
        return self.user_weights_[numbers]
