"""Baselines that every recommender should beat, and recommenders of other libraries, for comparisons.

The most popular items and the best rated ones are the same for all users. Baselines with a list for each user identify
items by their features. Recommenders of other libraries learn from the same ratings, in the form that each library
expects; `taken` says which ratings count as taken. Their parameters have the names of the libraries.
"""

from dataclasses import KW_ONLY, dataclass, field
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.blocks import number_ids
from hingerank.data.checks import positive, whole
from hingerank.personal.catalogue import UserIndex
from hingerank.personal.item_features import row_numbers, same_rows
from hingerank.personal.preferences import check_items, check_ratings
from hingerank.personal.top_n import SCORES_AT_ONCE, all_products, row_products, rows_or_mean, top_lists


class Baseline(BaseEstimator):
    """score(u, i) = <vector of u, vector of i>, for items identified by their features: equal ones count as one item.

    A subclass defines `_learn`. The last row of `item_factors_` is 0, for unknown items.
    """

    users_: np.ndarray
    user_factors_: Matrix
    item_factors_: Matrix
    _number: dict[bytes, int]

    def fit(self, item_features: RowsLike, users: Column, items: Column, ratings: PerRow = None) -> Self:
        """Learn; arguments as in PersonalRankSVM. Ratings may be left out if only who took what counts."""
        self._number, place, first = same_rows(item_features)
        rows = check_items(items, len(place), "items")
        self.users_, user = number_ids(users, len(rows), "users")
        value = np.ones(len(rows)) if ratings is None else check_ratings(ratings, len(rows)).astype(np.float64)
        self._learn(user, place[rows], value, item_features, first)
        return self

    def _learn(self, user: np.ndarray, item: np.ndarray, rating: np.ndarray, X: Matrix, first: np.ndarray) -> None:
        """Learn from numbers of users and distinct items; first[i] is the first row of X that is item i."""
        raise NotImplementedError

    def _item_vectors(self, features: RowsLike) -> Matrix:
        """Return a vector for each item, dense or CSR, to be multiplied with a user's vector."""
        return self.item_factors_[row_numbers(self._number, features)]

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        """Return the vectors of users as rows, dense or CSR; those of unknown users are 0."""
        return rows_or_mean(self.user_factors_, numbers, np.zeros(self.user_factors_.shape[1]))

    def predict(self, users: Column, features: RowsLike) -> np.ndarray:
        """Return one score per row of features; unknown users have scores of 0."""
        check_is_fitted(self)
        number = UserIndex(self.users_).numbers(users, np.shape(features)[0])
        return row_products(self._item_vectors(features), self._user_vectors(number))

    def top_k(
        self, users: Column, candidates: RowsLike, top: int = 10, *, exclude: tuple[Any, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lists as PersonalRankSVM.top_k does; unknown users have scores of 0."""
        check_is_fitted(self)
        number, vectors = UserIndex(self.users_).numbers(users), self._item_vectors(candidates)

        def scores(block: slice) -> np.ndarray:
            return all_products(self._user_vectors(number[block]), vectors)

        return top_lists(scores, users, vectors.shape[0], top, exclude)


class ItemBaseline(Baseline):
    """A score for each item, the same for all users."""

    def _learn(self, user: np.ndarray, item: np.ndarray, rating: np.ndarray, X: Matrix, first: np.ndarray) -> None:
        self.item_factors_ = np.append(self._value(item, rating, len(first)), 0.0)[:, None]

    def _value(self, item: np.ndarray, rating: np.ndarray, count: int) -> np.ndarray:
        raise NotImplementedError

    def _user_vectors(self, numbers: np.ndarray) -> np.ndarray:
        return np.ones((len(numbers), 1))

    def predict(self, users: Column, features: RowsLike) -> np.ndarray:
        """Return one score per row of features; it does not depend on the user."""
        check_is_fitted(self)
        return self._item_vectors(features)[:, 0]


class Popularity(ItemBaseline):
    """score(i) = number of ratings of item i.

    Examples
    --------
    >>> X = np.eye(3)
    >>> Popularity().fit(X, [1, 2, 2], [0, 0, 1]).top_k([3], X, 2)[0].tolist()
    [[0, 1]]
    """

    def _value(self, item: np.ndarray, rating: np.ndarray, count: int) -> np.ndarray:
        return np.bincount(item, minlength=count).astype(np.float64)


@dataclass(eq=False, repr=False)
class ItemMean(ItemBaseline):
    """score(i) = sum over its ratings of (rating - mean of all) / (their number + shrink).

    Examples
    --------
    >>> X = np.eye(2)
    >>> ItemMean(shrink=0).fit(X, [1, 2], [0, 1], [5, 1]).predict(None, X).tolist()
    [2.0, -2.0]
    """

    shrink: float = 5.0

    def _value(self, item: np.ndarray, rating: np.ndarray, count: int) -> np.ndarray:
        total, shrink = np.bincount(item, rating - rating.mean(), count), positive("shrink", self.shrink, least=0)
        return total / np.maximum(np.bincount(item, minlength=count) + shrink, 1e-12)


@dataclass(eq=False, repr=False)
class ItemKNN(Baseline):
    """score(u, j) = sum over the items i that u took of cosine(i, j), over the nearest items of j only.

    cosine(i, j) = users who took both / (√(users of i · users of j) + shrink). A baseline for lists.

    Parameters
    ----------
    neighbours : int, default 200
        Number of nearest items that count for each item.
    shrink : float, default 10
        Shrinks similarities of items with few users towards 0.

    Examples
    --------
    >>> ItemKNN(2, 0.0).fit(np.eye(3), [1, 1, 2, 2, 3], [0, 1, 0, 1, 2]).top_k([3, 1], np.eye(3), 1)[0].tolist()
    [[0], [0]]
    """

    neighbours: int = 200
    shrink: float = 10.0

    def _learn(self, user: np.ndarray, item: np.ndarray, rating: np.ndarray, X: Matrix, first: np.ndarray) -> None:
        n_items, neighbours = len(first), whole("neighbours", self.neighbours)
        shrink = positive("shrink", self.shrink, least=0)
        T = sp.csr_matrix((np.ones(len(item)), (user, item)), shape=(len(self.users_), n_items))
        T.data[:] = 1.0
        columns, root = T.tocsc(), np.sqrt(np.asarray(T.sum(axis=0)).ravel())
        step, parts = max(1, SCORES_AT_ONCE // n_items), []
        for a in range(0, n_items, step):
            some = np.arange(a, min(a + step, n_items))
            S = (columns[:, some].T @ T).toarray()
            S /= np.maximum(np.outer(root[some], root) + shrink, 1e-12)
            S[some - a, some] = 0.0
            full = np.flatnonzero(np.count_nonzero(S, axis=1) > neighbours)
            if len(full):
                most = S[full]
                most[np.partition(most, -neighbours, axis=1)[:, -neighbours, None] > most] = 0.0
                S[full] = most
            parts.append(sp.csr_matrix(S))
        self.user_factors_, self.item_factors_ = T, sp.csr_matrix(sp.vstack([*parts, sp.csr_matrix((1, n_items))]))


class Peer(Baseline):
    """A model of another library."""

    needs = comes_with = ""  # the module to import, and the package to install
    taken: Any

    def _is_taken(self, user: np.ndarray, rating: np.ndarray) -> np.ndarray:
        """Return which ratings count: all, those at or above their user's mean, or those at or above a number."""
        if self.taken == "all":
            return np.ones(len(rating), bool)
        if self.taken == "liked":
            return rating >= (np.bincount(user, rating) / np.maximum(np.bincount(user), 1))[user]
        if isinstance(self.taken, str | bool) or self.taken is None:
            raise ValueError(f"taken must be 'all', 'liked' or the smallest rating that counts, not {self.taken!r}")
        return rating >= float(self.taken)


@dataclass(eq=False, repr=False)
class ALS(Peer):
    """implicit's alternating least squares: every item that a user did not take is a target of 0 with a low weight.

    It does not use features, so items that nobody took have the score 0.

    Parameters
    ----------
    factors, regularization, iterations, alpha
        As in `implicit.als.AlternatingLeastSquares`.
    taken : "all", "liked" or float, default "all"
        Which ratings count: all, those at or above their user's mean, or those at or above a number.
    by_rating : bool, default False
        Whether ratings are used as weights; otherwise all weights are 1.
    random_state, n_jobs : int
        Seed, and number of threads.
    """

    needs = comes_with = "implicit"

    factors: int = 32
    regularization: float = 1.0
    iterations: int = 15
    alpha: float = 1.0
    _: KW_ONLY
    taken: str | float = "all"
    by_rating: bool = False
    random_state: int = 0
    n_jobs: int = 1

    def _learn(self, user: np.ndarray, item: np.ndarray, rating: np.ndarray, X: Matrix, first: np.ndarray) -> None:
        from threadpoolctl import threadpool_limits

        weight = rating if self.by_rating else np.ones(len(rating))
        kept = self._is_taken(user, rating)
        with threadpool_limits(1, "blas"):  # implicit requires it
            model = self._model()
            table = sp.csr_matrix((weight[kept], (user[kept], item[kept])), (len(self.users_), len(first)), np.float32)
            model.fit(table, show_progress=False)
        self.user_factors_, items = (
            np.asarray(model.user_factors, np.float64),
            np.asarray(model.item_factors, np.float64),
        )
        self.item_factors_ = np.vstack([items, np.zeros((1, items.shape[1]))])

    def _model(self) -> Any:
        from implicit.als import AlternatingLeastSquares

        return AlternatingLeastSquares(
            factors=self.factors, regularization=self.regularization, iterations=self.iterations, alpha=self.alpha,
            random_state=self.random_state, num_threads=self.n_jobs, use_gpu=False,
        )  # fmt: skip


@dataclass(eq=False, repr=False)
class BPR(ALS):
    """implicit's Bayesian personalised ranking: an item that a user took is compared with one sampled from all others.

    It does not use features, so items that nobody took have the score 0.

    Parameters
    ----------
    factors, regularization, iterations, learning_rate
        As in `implicit.bpr.BayesianPersonalizedRanking`.
    taken : "all", "liked" or float, default "all"
        Which ratings count: all, those at or above their user's mean, or those at or above a number.
    random_state, n_jobs : int
        Seed, and number of threads.
    """

    regularization: float = 0.01
    iterations: int = 100
    learning_rate: float = 0.01
    alpha: float = field(default=1.0, init=False)
    by_rating: bool = field(default=False, init=False)

    def _model(self) -> Any:
        from implicit.bpr import BayesianPersonalizedRanking

        return BayesianPersonalizedRanking(
            factors=self.factors, regularization=self.regularization, iterations=self.iterations,
            learning_rate=self.learning_rate, random_state=self.random_state, num_threads=self.n_jobs, use_gpu=False,
        )  # fmt: skip


@dataclass(eq=False, repr=False)
class LightFM(Peer):
    """lightfm-next: the vector of an item is the sum of the embeddings of its features.

    Parameters
    ----------
    no_components, epochs, learning_rate
        As in `lightfm.LightFM`.
    loss : str, default "warp"
        "warp" or "bpr" on what was taken, or "logistic" on all ratings, +1 if they count and -1 otherwise.
    taken : "all", "liked" or float, default "liked"
        Which ratings count: all, those at or above their user's mean, or those at or above a number.
    random_state, n_jobs : int
        Seed, and number of threads.
    """

    needs, comes_with = "lightfm", "lightfm-next"

    no_components: int = 32
    epochs: int = 20
    learning_rate: float = 0.05
    _: KW_ONLY
    loss: str = "warp"
    taken: str | float = "liked"
    random_state: int = 0
    n_jobs: int = 1

    def _learn(self, user: np.ndarray, item: np.ndarray, rating: np.ndarray, X: Matrix, first: np.ndarray) -> None:
        from lightfm import LightFM as Model

        model = Model(
            no_components=self.no_components, loss=self.loss, learning_rate=self.learning_rate,
            random_state=self.random_state,
        )  # fmt: skip
        good = self._is_taken(user, rating)
        kept = np.ones(len(good), bool) if self.loss == "logistic" else good
        sign = np.where(good, 1.0, -1.0)[kept].astype(np.float32)
        table = sp.coo_matrix((sign, (user[kept], item[kept])), (len(self.users_), len(first)))
        model.fit(table, item_features=_single(X[first]), epochs=self.epochs, num_threads=self.n_jobs)
        self.embeddings_ = np.hstack([model.item_embeddings, model.item_biases[:, None]]).astype(np.float64)
        self.user_factors_ = np.hstack([model.user_embeddings, np.ones((len(self.users_), 1))])

    def _item_vectors(self, features: RowsLike) -> np.ndarray:
        return np.asarray(_single(features) @ self.embeddings_)


def _single(F: Matrix) -> sp.csr_matrix:
    return sp.csr_matrix(F, dtype=np.float32)


PEERS: dict[str, type[Peer]] = {"als": ALS, "bpr": BPR, "lightfm": LightFM}
BASELINES: dict[str, type[Baseline]] = {
    "popularity": Popularity, "item-mean": ItemMean, "item-knn": ItemKNN, **PEERS,
}  # fmt: skip


def is_installed(name: str) -> bool:
    """Return whether the library of a peer is installed."""
    return find_spec(PEERS[name].needs) is not None
