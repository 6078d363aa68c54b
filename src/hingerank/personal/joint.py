"""JointRanker: one ranking function for all users."""

from typing import Any

import numpy as np

from hingerank.personal.convex import ConvexPersonalRanker
from hingerank.personal.designs import SharedDesign
from hingerank.personal.preferences import UserPreferences


class JointRanker(ConvexPersonalRanker):
    """min over w of  ½‖w‖² + C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - w·(x_i - x_j))².

    Everyone gets the same list. Parameters and methods are those of PersonalRankSVM where they apply; `coef_` is w.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> JointRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 4, 3]).rank("bob", X).tolist()
    [0, 2, 1]
    """

    _fitted = ("coef_",)
    coef_: np.ndarray

    def _design(self, X: Any, preferences: UserPreferences) -> SharedDesign:
        return SharedDesign(X, preferences)

    def _keep(self, design: SharedDesign, w: np.ndarray) -> None:
        self.coef_ = w

    def _shared(self, X: Any) -> np.ndarray:
        return X @ self.coef_
