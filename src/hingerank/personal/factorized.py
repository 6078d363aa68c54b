"""Rankers of the form score(u, x) = <Uᵀx, v_u>: a basis of k ranking functions and a mixture of them for every user."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from hingerank.personal.alternating import alternating
from hingerank.personal.fold_in import FoldIn
from hingerank.personal.preferences import UserPreferences, from_comparisons, from_targets
from hingerank.personal.problem import FactorObjective, ItemFeatures, share_right
from hingerank.personal.rankers import PersonalRanker, UserIndex, accuracies, check_positive
from hingerank.rankers.base import names_of_features
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


# PersonalRankSVM: one Ranking SVM per user, all built from the same few basic ranking functions.


class PersonalRankSVM(FactorRanker):
    """min over U, V of  C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - v_uᵀUᵀ(x_i - x_j))²
    + ½(‖U‖² + ‖V‖²),  which is Factorization RankSVM (Cheng, Davidson & Hsieh 2018).

    Column c of U is a basic ranking function of the item features; user u ranks by the mixture U v_u of them. The norms
    add up to the trace norm of U Vᵀ, so that users share what they have in common. The objective is not convex: a fit
    reaches a point where the gradient vanishes, which depends on `random_state`, mostly a little.

    Parameters
    ----------
    rank : k, the number of basic ranking functions (at most the number of features and of users).
    shared : learn besides a function w that all users share, w_u = w + U v_u, with ½‖w‖² more to pay.
    C : weight of the summed pair losses against the norms. A user with n ratings has up to n²/2 pairs.
    tol : stop when the norm of the gradient in (U, V) is at most tol times that of the first epoch.
    pair_weight : "uniform", or "user": every user counts the same however many pairs there are (C then is per user).
    cold_users : what users without a pair get: "mean", the mean weights of the others, or "zero", no opinion.
    max_iter, max_seconds : limits in epochs and time; a fit that hits one warns and says how far it got.
    n_jobs : threads, default all; the answer is the same for any number.
    random_state : seed of the start. callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    basis_ : U (features x rank), strongest column first. user_weights_ : V (users x rank). users_ : ids, one per row of
    V. coef_ : w, where `shared`. has_pairs_ : which users had a pair to learn from. trace_ : for each epoch value,
    gradient, train_accuracy, validation_accuracy (with eval_set) and seconds. certificate_, n_iter_, n_pairs_,
    objective_ : as in RankSVM.
    notes_ : counts of what was found in the data (repeated ratings, contradictions, users without a pair, ...).

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
    >>> ranker = PersonalRankSVM(rank=1, C=1.0)
    >>> ranker = ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4])
    >>> ranker.rank("ann", X).tolist(), ranker.rank("bob", X).tolist()
    ([0, 2, 3, 1], [1, 3, 2, 0])
    """


# InductiveMatrixCompletion: the same factors as PersonalRankSVM, fitted to the ratings themselves.


class InductiveMatrixCompletion(FactorRanker):
    """min over U, V of  C · sum over ratings of (v_uᵀUᵀx_i - (rating - mean of u's ratings))² + ½(‖U‖² + ‖V‖²)
    (Jain & Dhillon 2013, with the trace norm).

    A user's mean is taken out because it says nothing about order; a score is an estimate of rating - mean. Comparisons
    (`fit_pairs`), which the model was not made for, are fitted as differences that should be 1. Parameters, attributes
    and methods are those of PersonalRankSVM.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = InductiveMatrixCompletion(rank=1, C=1.0)
    >>> ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4]).rank("ann", X).tolist()
    [0, 2, 1]
    """

    def __init__(
        self, rank=10, C=0.1, tol=1e-2, *, cold_users="mean", max_iter=100, max_seconds=None, n_jobs=None,
        random_state=0, callback=None,
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.tol = tol
        self.cold_users = cold_users
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _from_ratings(self, users: Any, items: Any, ratings: Any, n_items: int) -> UserPreferences:
        return from_targets(users, items, ratings, n_items)

    def _from_comparisons(self, users: Any, winners: Any, losers: Any, n_items: int, weight: Any) -> UserPreferences:
        return from_comparisons(users, winners, losers, n_items, weight, squared_error=True)
