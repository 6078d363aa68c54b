"""The convex baselines' shared part: a Ranking SVM over (user, item) rows with some design, solved to a certificate."""

from typing import Any

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.problem import MeanAndOwnDesign, OwnDesign, SharedDesign, row_preferences
from hingerank.personal.rankers import PersonalRanker, accuracies, check_positive
from hingerank.problem import RankObjective
from hingerank.solvers.newton import newton


class ConvexPersonalRanker(PersonalRanker):
    """½‖w‖² + C · sum over users and their pairs of max(0, 1 - t)², the scores linear in w through `_design`."""

    _training_only = ("callback",)

    def __init__(self, C=0.1, tol=1e-3, *, pair_weight="uniform", max_iter=100, max_seconds=None, callback=None):
        self.C = C
        self.tol = tol
        self.pair_weight = pair_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _design(self, X: Any, preferences: UserPreferences) -> Any:
        raise NotImplementedError

    def _keep(self, design: Any, w: np.ndarray) -> None:
        """Store the solution."""
        raise NotImplementedError

    def _learn(self, X: Any, preferences: UserPreferences, watched: UserPreferences | None) -> None:
        check_positive(self, "C", "tol")
        design = self._design(X, preferences)
        objective = RankObjective(design, squared_hinge(), row_preferences(preferences), self.C)
        solution = newton(
            objective,
            tol=self.tol,
            max_iter=self.max_iter,
            max_seconds=np.inf if self.max_seconds is None else self.max_seconds,
            callback=self.callback,
        )
        self._keep(design, solution.w)
        more = None if watched is None else self._right(X, watched)
        included = watched is not None and watched.includes_training
        solution.trace[-1].update(accuracies(self._right(X, preferences), more, included))
        self._take(solution)


# JointRanker: one ranking function for all users.


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


# MeanVarianceRanker: a ranking function for all users, and a deviation from it for each.


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


# SeparateRanker: a Ranking SVM for every user alone.


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
