"""Rankers of the form score(u, x) = <Uᵀx, v_u>: a basis of k ranking functions and a mixture of them for every user."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from hingerank.personal.alternating import alternating
from hingerank.personal.base import PersonalRanker, accuracies, check_positive
from hingerank.personal.factor_objective import FactorObjective, ItemFeatures, share_right
from hingerank.personal.fold_in import FoldIn
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.users import UserIndex
from hingerank.rankers.inputs import names_of_features
from hingerank.rankers.rank_parameter import RankParameter

FEW = 0.5  # items or features in use: below this share of all, the others are set aside while fitting


class FactorRanker(FoldIn, PersonalRanker):
    """Fits a basis and the users' mixtures by alternating minimisation; see PersonalRankSVM for the parameters."""

    _fitted = ("basis_", "user_weights_", "has_pairs_", "coef_")
    _training_only = ("callback",)
    rank = RankParameter()
    basis_: np.ndarray
    user_weights_: np.ndarray
    has_pairs_: np.ndarray
    coef_: np.ndarray  # of the function that all users share, if there is one
    shared = False

    def __init__(
        self, rank=10, C=0.1, tol=1e-2, *, shared=False, pair_weight="uniform", cold_users="mean", max_iter=100,
        max_seconds=None, n_jobs=None, random_state=0, callback=None,
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.tol = tol
        self.shared = shared
        self.pair_weight = pair_weight
        self.cold_users = cold_users
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _learn(self, X: Any, preferences: UserPreferences, watched: UserPreferences | None) -> None:
        self._check_settings()
        small, fitted, columns = in_use(X, preferences)
        k = min(int(self.rank), small.shape[1], preferences.n_users)
        threads, V = check_jobs(self.n_jobs), np.zeros((preferences.n_users, k))
        U = np.random.default_rng(self.random_state).standard_normal((small.shape[1], k))
        with threadpool_limits(1, "blas"):  # passes run on threads of their own; one BLAS thread repeats exactly
            typical = np.sqrt(np.mean(ItemFeatures(small).times(U) ** 2))
            U /= typical if typical > 0 else 1.0
            if self.shared:
                U, V = np.pad(U, ((0, 0), (0, 1))), np.pad(V, ((0, 0), (0, 1)), constant_values=1.0)
            solution = alternating(
                FactorObjective(small, fitted, self.C, U.shape[1], threads, fixed=U.shape[1] - k),
                U,
                V,
                tol=self.tol,
                max_iter=self.max_iter,
                max_seconds=np.inf if self.max_seconds is None else self.max_seconds,
                watch=self._watch(small, X if columns is None else X[:, columns], fitted, watched, threads),
                callback=self.callback,
            )
        functions = solution.w
        if columns is not None:
            functions = np.zeros((X.shape[1], U.shape[1]))
            functions[columns] = solution.w
        self.basis_, self.user_weights_ = functions[:, :k], solution.extra["V"][:, :k]
        self.__dict__.pop("coef_", None)
        if self.shared:
            self.coef_ = functions[:, k].copy()
            self.basis_, self.user_weights_ = self.basis_.copy(), self.user_weights_.copy()
        self.has_pairs_ = preferences.pairs > 0
        self._settle_cold_users()
        self._take(solution)

    def _watch(self, small, X, fitted, watched, threads) -> Callable[[np.ndarray, np.ndarray], dict[str, float]]:
        """Pair accuracies for the trace."""
        judged = fitted.judged or fitted
        order = None if watched is None else UserIndex(fitted.users).known(watched.users)

        def watch(U: np.ndarray, V: np.ndarray) -> dict[str, float]:
            right = share_right(ItemFeatures(small).times(U), V, judged, threads)
            if watched is None:
                return accuracies(right, None, False)
            more = share_right(ItemFeatures(X).times(U), V[order], watched, threads)
            return accuracies(right, more, watched.includes_training)

        return watch

    def _settle_cold_users(self) -> None:
        """Users without a pair would have v = 0 (no opinion); the mean of the others is a better guess."""
        if self.cold_users == "mean" and self.has_pairs_.any() and not self.has_pairs_.all():
            self.user_weights_[~self.has_pairs_] = self.user_weights_[self.has_pairs_].mean(axis=0)

    def _check_settings(self) -> None:
        if isinstance(self.rank, bool) or not isinstance(self.rank, Integral) or self.rank < 1:
            raise ValueError(f"rank must be a positive whole number, not {self.rank!r}")
        check_positive(self, "C", "tol")
        if self.cold_users not in ("mean", "zero"):
            raise ValueError(f"cold_users must be 'mean' or 'zero', not {self.cold_users!r}")

    def _shared(self, X: Any) -> np.ndarray | None:
        return X @ self.coef_ if self.shared else None

    def _place(self, X: Any) -> np.ndarray:
        return ItemFeatures(X).times(self.basis_)

    def _own(self, numbers: np.ndarray) -> np.ndarray:
        return self.user_weights_[numbers]

    def basis_table(
        self, feature_names: Sequence[str] | None = None, top: int = 25
    ) -> list[dict[str, list[tuple[str, float]]]]:
        """For each basic ranking function its `top` most positive and most negative features with their weights.

        The functions come strongest first; the sign of a function is arbitrary (users may weigh it negatively), so it
        is turned to make its users' weights positive on average.
        """
        check_is_fitted(self)
        feature_names = names_of_features(self, len(self.basis_), feature_names)
        signs = np.where(self.user_weights_.mean(axis=0) < 0, -1.0, 1.0)
        table = []
        for column in (self.basis_ * signs).T:
            order = np.argsort(-column, kind="stable")
            best, worst = order[:top], order[::-1][:top]
            table.append(
                {
                    "positive": [(str(feature_names[j]), float(column[j])) for j in best if column[j] > 0],
                    "negative": [(str(feature_names[j]), float(column[j])) for j in worst if column[j] < 0],
                }
            )
        return table

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        basis, weights = getattr(self, "basis_", None), getattr(self, "user_weights_", None)
        if not (isinstance(basis, np.ndarray) and isinstance(weights, np.ndarray) and basis.ndim == weights.ndim == 2):
            raise ValueError("basis_ and user_weights_ must be matrices")
        wanted = (self.n_features_in_, basis.shape[1]), (len(self.users_), basis.shape[1])
        if (basis.shape, weights.shape) != wanted or getattr(self, "has_pairs_", basis).shape != (len(self.users_),):
            raise ValueError(f"basis_ {basis.shape}, user_weights_ {weights.shape} and users_ do not belong together")
        if self.shared and getattr(self, "coef_", basis).shape != (self.n_features_in_,):
            raise ValueError(f"coef_, which all users share, must have {self.n_features_in_} numbers")


def in_use(X: Any, preferences: UserPreferences) -> tuple[Any, UserPreferences, np.ndarray | None]:
    """X without items nobody rated and, if CSR, features none of the rest has, where these are many.

    Their rows of the basis would be 0: (X, preferences with items renumbered, columns kept or None for all).
    """
    used = np.zeros(X.shape[0], bool)
    used[preferences.item] = True
    if np.count_nonzero(used) < FEW * len(used):
        number = np.cumsum(used, dtype=np.int32) - np.int32(1)
        X, preferences = X[used], preferences.with_items(number)
    if not sp.issparse(X):
        return X, preferences, None
    columns = np.unique(X.indices)
    if len(columns) == 0 or len(columns) >= FEW * X.shape[1]:
        return X, preferences, None
    return X[:, columns], preferences, columns


def check_jobs(n_jobs: Any) -> int | None:
    """Threads: None for all cores ($HINGERANK_NUM_THREADS if set), else a positive number; -1 is None."""
    if n_jobs is None or n_jobs == -1:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise ValueError(f"n_jobs must be a positive whole number, -1 or None, not {n_jobs!r}")
    return int(n_jobs)
