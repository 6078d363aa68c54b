"""The convex personal rankers: Ranking SVMs over (user, item) rows whose users share all weights, none, or a mean."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hingerank.export.attributes import Array, Attribute, Number
from hingerank.losses import squared_hinge
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.problem import MeanAndOwnDesign, OwnDesign, SharedDesign, pair_distances, row_preferences
from hingerank.personal.products import rows_or_mean
from hingerank.personal.rankers import PersonalRanker, Watched, accuracies, check_positive
from hingerank.problem import Design, Problem
from hingerank.renaming import renamed
from hingerank.solvers.newton import newton
from hingerank.solvers.run import Solution

NATURAL = 2.0  # C times the mean over users of the summed squared distances of pairs


class ConvexPersonalRanker(PersonalRanker):
    """½‖w‖² + C · sum over users and their pairs of max(0, 1 - t)², with scores that are linear in w.

    A subclass defines `_minimise`, which makes the design, calls `_newton` and stores the weights. If C is None, it is
    2 divided by the approximate mean over users of the sum over their pairs of ‖x_i - x_j‖². So it follows the scale of
    the features and the number of pairs.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"C_": Number(low=0, needed=False)}  # not in files of version 0.1
    _training_only = ("callback",)
    C_: float

    def __init__(
        self, C=None, tol=1e-3, *, pair_weight="uniform", scale="standard", features=None, max_iter=100,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.tol = tol
        self.pair_weight = pair_weight
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _natural(self, X: Any, preferences: UserPreferences) -> float:
        return NATURAL / pair_distances(X, preferences)

    def _minimise(self, X: Any, preferences: UserPreferences) -> Solution:
        raise NotImplementedError

    def _newton(self, design: Design, preferences: UserPreferences) -> Solution:
        return newton(
            Problem(design, squared_hinge(), row_preferences(preferences), C=self.C_),
            tol=self.tol,
            max_iter=self.max_iter,
            max_seconds=np.inf if self.max_seconds is None else self.max_seconds,
            callback=self.callback,
        )

    def _learn(self, X: Any, preferences: UserPreferences, watched: Watched | None) -> Solution:
        check_positive(self, *(["tol"] if self.C is None else ["C", "tol"]))
        self.C_ = self._natural(X, preferences) if self.C is None else float(self.C)
        solution = self._minimise(X, preferences)
        found = None if watched is None else self._right(X, watched.preferences)
        solution.trace[-1].update(accuracies(self._right(X, preferences), watched, found))
        return solution


class JointRanker(ConvexPersonalRanker):
    """min over w of  ½‖w‖² + C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - w·(x_i - x_j))².

    All users share one ranking function, so all get the same list. Methods are those of PersonalRankSVM, as far as they
    apply.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default 2 / (mean over users of the sum over pairs of
        ‖x_i - x_j‖², approximately).
    tol, pair_weight, scale, features, max_seconds, callback : as in PersonalRankSVM
    max_iter : largest number of Newton steps

    Attributes
    ----------
    coef_ : w, a weight per feature

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> JointRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 4, 3]).rank("bob", X).tolist()
    [0, 2, 1]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns")}
    coef_: np.ndarray

    def _minimise(self, X: Any, preferences: UserPreferences) -> Solution:
        solution = self._newton(SharedDesign(X, preferences), preferences)
        self.coef_ = solution.w
        return solution

    def _numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        return self._users().numbers(users, n_rows)  # all users have the same list, known or not

    def _shared(self, X: Any) -> np.ndarray:
        return X @ self.coef_


class SeparateRanker(ConvexPersonalRanker):
    """min over w_u of  ½‖w_u‖² + C · sum over pairs (i preferred to j by u) of max(0, 1 - w_u·(x_i - x_j))²,  each u.

    Each user has a separate Ranking SVM; users share nothing. A user without a pair has w_u = 0, so all items tie.
    Methods are those of PersonalRankSVM, as far as they apply.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default 2 / (mean over users of the sum over pairs of
        ‖x_i - x_j‖², approximately).
    tol, pair_weight, scale, features, max_seconds, callback : as in PersonalRankSVM
    max_iter : largest number of Newton steps

    Attributes
    ----------
    user_weights_ : w_u by rows, users x features
        The array is dense if the features are; for CSR features it is CSR and has the features of a user's items.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> SeparateRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 3, 4]).rank("bob", X).tolist()
    [1, 2, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"user_weights_": Array("users, columns", csr=True)}
    user_weights_: Any

    def _minimise(self, X: Any, preferences: UserPreferences) -> Solution:
        design = OwnDesign(X, preferences)
        solution = self._newton(design, preferences)
        self.user_weights_ = design.vectors(solution.w)
        return solution

    def _numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        cure = "SeparateRanker cannot rank for others: fit again with the user's ratings, or use MeanVarianceRanker"
        return self._users().known(users, n_rows, cure)

    def _place(self, X: Any) -> Any:
        return X

    def _own(self, numbers: np.ndarray) -> Any:
        return rows_or_mean(self.user_weights_, numbers)


@renamed
class MeanVarianceRanker(SeparateRanker):
    """min over w, v_u of  ‖w‖²/(2·shared) + ½ sum_u ‖v_u‖²
    + C · sum over u, pairs (i preferred to j by u) of max(0, 1 - (w + v_u)·(x_i - x_j))²   (Evgeniou & Pontil 2004).

    All users share a ranking function w, and each has a deviation v_u. Users without a pair, or unknown, rank by w.
    Methods are those of PersonalRankSVM, as far as they apply.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default 2 / (mean over users of the sum over pairs of
        ‖x_i - x_j‖², approximately).
    tol, pair_weight, scale, features, max_seconds, callback : as in PersonalRankSVM
    shared : how much users share: w has the penalty ‖w‖²/(2·shared)
        Near 0 users are separate; for large values w has no penalty.
    max_iter : largest number of Newton steps

    Attributes
    ----------
    coef_ : w, a weight per feature
    user_weights_ : v_u by rows, as in SeparateRanker

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = MeanVarianceRanker(C=1.0).fit(X, ["ann", "ann", "bob"], [0, 1, 0], [5, 2, 3])
    >>> ranker.rank("bob", X).tolist()
    [0, 2, 1]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns")}
    coef_: np.ndarray

    def __init__(
        self, C=None, tol=1e-3, *, shared=1.0, pair_weight="uniform", scale="standard", features=None, max_iter=100,
        max_seconds=None, callback=None,
    ):  # fmt: skip
        super().__init__(
            C, tol, pair_weight=pair_weight, scale=scale, features=features, max_iter=max_iter, max_seconds=max_seconds,
            callback=callback,
        )  # fmt: skip
        self.shared = shared

    def _minimise(self, X: Any, preferences: UserPreferences) -> Solution:
        check_positive(self, "shared")
        design = MeanAndOwnDesign(X, preferences, self.shared)
        solution = self._newton(design, preferences)
        self.coef_ = design.root * solution.w[: design.cut]
        self.user_weights_ = design.own.vectors(solution.w[design.cut :])
        return solution

    def _shared(self, X: Any) -> np.ndarray:
        return X @ self.coef_

    def _numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        return self._users().numbers(users, n_rows)  # unknown users rank by w

    def _own(self, numbers: np.ndarray) -> Any:
        own = self.user_weights_[numbers]
        if (numbers >= 0).all():
            return own
        return (
            sp.diags((numbers >= 0).astype(float)).tocsr() @ own if sp.issparse(own) else own * (numbers >= 0)[:, None]
        )
