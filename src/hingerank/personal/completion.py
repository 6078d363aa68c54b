"""Inductive matrix completion: the factors of PersonalRankSVM, fitted to the ratings as numbers."""

from typing import Any

from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.preferences import UserPreferences, from_comparisons, from_targets


class InductiveMatrixCompletion(PersonalRankSVM):
    """min over U, V of  C · sum over ratings of (v_uᵀUᵀx_i - (rating - mean of u's ratings))² + ½(‖U‖² + ‖V‖²)
    (Jain & Dhillon 2013, with the trace norm).

    The factors of PersonalRankSVM are fitted to the ratings themselves. The mean of a user's ratings is subtracted,
    because it does not affect the order. A score estimates rating - mean. The model was not designed for comparisons
    (``fit_pairs``); they are fitted as score differences of 1.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over ratings. Default as in PersonalRankSVM.
    rank, tol, cold_users, prior, scale, features, max_iter, max_seconds : as in PersonalRankSVM
    n_jobs, random_state, callback : as in PersonalRankSVM
        Attributes and methods are those of PersonalRankSVM too.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = InductiveMatrixCompletion(rank=1, C=1.0)
    >>> ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4]).rank("ann", X).tolist()
    [0, 2, 1]
    """

    def __init__(
        self, rank=10, C=None, tol=1e-2, *, cold_users="mean", prior="users", scale="standard", features=None,
        max_iter=100, max_seconds=None, n_jobs=None, random_state=0, callback=None,
    ):  # fmt: skip
        super().__init__(
            rank, C, tol, cold_users=cold_users, prior=prior, scale=scale, features=features, max_iter=max_iter,
            max_seconds=max_seconds, n_jobs=n_jobs, random_state=random_state, callback=callback,
        )  # fmt: skip

    def _from_ratings(self, users: Any, items: Any, ratings: Any, n_items: int, weight: Any = None) -> UserPreferences:
        return from_targets(users, items, ratings, n_items, weight)

    def _from_comparisons(self, users: Any, winners: Any, losers: Any, n_items: int, weight: Any) -> UserPreferences:
        return from_comparisons(users, winners, losers, n_items, weight, squared_error=True)
