"""SeparateRanker: a Ranking SVM for every user alone."""

from typing import Any

import numpy as np

from hingerank.personal.convex import ConvexPersonalRanker
from hingerank.personal.designs import OwnDesign
from hingerank.personal.preferences import UserPreferences


class SeparateRanker(ConvexPersonalRanker):
    """min over w_u of  ½‖w_u‖² + C · sum over pairs (i preferred to j by u) of max(0, 1 - w_u·(x_i - x_j))²,  each u.

    Users share nothing: a user without a pair has w_u = 0 and no opinion. `user_weights_` (users x features) is dense
    for dense features; for CSR features it is CSR and holds the features that a user's items have.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> SeparateRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 3, 4]).rank("bob", X).tolist()
    [1, 2, 0]
    """

    _fitted = ("user_weights_",)
    user_weights_: Any

    def _design(self, X: Any, preferences: UserPreferences) -> OwnDesign:
        return OwnDesign(X, preferences)

    def _keep(self, design: OwnDesign, w: np.ndarray) -> None:
        self.user_weights_ = design.vectors(w)

    def _place(self, X: Any) -> Any:
        return X

    def _own(self, numbers: np.ndarray) -> Any:
        return self.user_weights_[numbers]
