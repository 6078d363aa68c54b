"""Recommenders of other libraries behind one face: fit(X, ratings), then scores(users, items).

Those whose name ends in Lists have top_k(users, X) instead. Users and items are row numbers. They learn from the same
ratings as the rankers here, in the form each was made for. implicit and MF know nothing of features, so they cannot
score items that nobody rated.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.personal.ratings import Ratings

THREADS = 2


def liked(ratings: Ratings, n_users: int) -> np.ndarray:
    """+1 for ratings of at least their user's mean, else -1."""
    mean = np.bincount(ratings.users, ratings.ratings, n_users) / np.maximum(np.bincount(ratings.users), 1)
    return np.where(ratings.ratings >= mean[ratings.users], 1.0, -1.0)


class LightFM:
    """lightfm-next: sums of embeddings of an item's features; logistic loss on liked and not, or WARP on liked ones."""

    def __init__(self, rank: int, epochs: int, loss: str = "logistic"):
        from lightfm import LightFM as Model

        self.epochs, self.loss = epochs, loss
        self.model = Model(no_components=rank, loss=loss, random_state=0)

    def fit(self, X: sp.csr_matrix, ratings: Ratings) -> "LightFM":
        n_users = int(ratings.users.max()) + 1
        sign = liked(ratings, n_users)
        kept = sign > 0 if self.loss == "warp" else slice(None)
        where = ratings.users[kept], ratings.items[kept]
        told = sp.coo_matrix((sign[kept].astype(np.float32), where), (n_users, X.shape[0]))
        self.X = sp.csr_matrix(X, dtype=np.float32)
        self.model.fit(told, item_features=self.X, epochs=self.epochs, num_threads=THREADS)
        return self

    def scores(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        users, items = users.astype(np.int32), items.astype(np.int32)
        return self.model.predict(users, items, item_features=self.X, num_threads=THREADS)


class Implicit:
    """implicit: factors of items without features; ALS weighs by rating, BPR takes the liked ones."""

    def __init__(self, rank: int, kind: str, regularization: float, iterations: int):
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking

        model = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}[kind]
        common = {"factors": rank, "regularization": regularization, "iterations": iterations, "random_state": 0}
        self.kind, self.model = kind, model(num_threads=THREADS if kind == "als" else 1, **common)

    def fit(self, X: Any, ratings: Ratings) -> "Implicit":
        n_users = int(ratings.users.max()) + 1
        weight, kept = ratings.ratings, slice(None)
        if self.kind == "bpr":
            weight, kept = np.ones(len(ratings)), liked(ratings, n_users) > 0
        where = ratings.users[kept], ratings.items[kept]
        self.model.fit(sp.csr_matrix((weight[kept].astype(np.float32), where), (n_users, X.shape[0])), False)
        return self

    def scores(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return np.einsum("rc,rc->r", self.model.user_factors[users], self.model.item_factors[items])


class CornacMF:
    """cornac's biased matrix factorisation: ratings as numbers, items without features."""

    def __init__(self, rank: int, epochs: int, lambda_reg: float = 0.02):
        self.settings = {"k": rank, "max_iter": epochs, "lambda_reg": lambda_reg, "learning_rate": 0.01}

    def fit(self, X: Any, ratings: Ratings) -> "CornacMF":
        from cornac.data import Dataset
        from cornac.models import MF

        told = Dataset.from_uir(list(zip(ratings.users.tolist(), ratings.items.tolist(), ratings.ratings.tolist())))
        m = MF(verbose=False, seed=0, **self.settings).fit(told)
        users, items = np.array(list(told.user_ids)), np.array(list(told.item_ids))
        self.U, self.V = np.zeros((users.max() + 1, m.k)), np.zeros((X.shape[0], m.k))
        self.U[users], self.V[items] = m.u_factors, m.i_factors
        self.bias = np.zeros(X.shape[0])
        self.bias[items] = m.i_biases
        return self

    def scores(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self.bias[items] + np.einsum("rc,rc->r", self.U[users], self.V[items])


def best_of(S: np.ndarray, users: Any, top: int, exclude: Any) -> tuple[np.ndarray, np.ndarray]:
    """The items of the highest scores S of each user, without the excluded (users, items), and these scores."""
    if exclude is not None:
        line = {user: place for place, user in enumerate(np.asarray(users).tolist())}
        here = np.array([line.get(user, -1) for user in np.asarray(exclude[0]).tolist()])
        S[here[here >= 0], np.asarray(exclude[1])[here >= 0]] = -np.inf
    order = np.argsort(-S, axis=1, kind="stable")[:, :top]
    return order, np.take_along_axis(S, order, axis=1)


class ImplicitLists:
    """implicit's recommenders of who took what, as lists over the catalogue."""

    def __init__(self, kind: str, **settings: Any):
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking

        cls = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}[kind]
        self.model = cls(random_state=0, use_gpu=False, **settings)

    def fit(self, X: Any, train: Ratings) -> "ImplicitLists":
        self.ids, code = np.unique(train.users, return_inverse=True)
        self.table = sp.csr_matrix((np.ones(len(train)), (code, train.items)), shape=(len(self.ids), train.n_items))
        self.model.fit(self.table, show_progress=False)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        number = np.searchsorted(self.ids, users)
        return self.model.recommend(number, self.table[number], N=top, filter_already_liked_items=True)


class LightFMLists:
    """lightfm-next's WARP on ratings of `least` or more, as lists over the catalogue."""

    def __init__(self, least: float, rank: int = 32, epochs: int = 20):
        from lightfm import LightFM

        self.least, self.model, self.epochs = least, LightFM(no_components=rank, loss="warp", random_state=0), epochs

    def fit(self, X: Any, train: Ratings) -> "LightFMLists":
        self.ids, code = np.unique(train.users, return_inverse=True)
        kept, self.X = train.ratings >= self.least, sp.csr_matrix(X, dtype=np.float32)
        told = np.ones(int(kept.sum()), np.float32), (code[kept], train.items[kept])
        self.model.fit(sp.coo_matrix(told, (len(self.ids), X.shape[0])), item_features=self.X, epochs=self.epochs)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        bias, vectors = self.model.get_item_representations(self.X)
        number = np.searchsorted(self.ids, users)
        S = (self.model.user_embeddings[number] @ vectors.T + bias).astype(np.float64)
        return best_of(S, users, top, exclude)


class Ridges:
    """For each user a ridge regression of the ratings, less their mean, on the features: (K + I)⁻¹ over the items."""

    def fit(self, X: Any, train: Ratings) -> "Ridges":
        self.ids, code = np.unique(train.users, return_inverse=True)
        order = np.argsort(code, kind="stable")
        self.W = np.zeros((len(self.ids), X.shape[1]))
        for u, rows in enumerate(np.split(order, np.flatnonzero(np.diff(code[order])) + 1)):
            F, y = X[train.items[rows]], train.ratings[rows] - train.ratings[rows].mean()
            self.W[u] = F.T @ np.linalg.solve((F @ F.T).toarray() + np.eye(len(rows)), y)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        S = np.asarray((candidates @ self.W[np.searchsorted(self.ids, users)].T).T, np.float64)
        return best_of(S, users, top, exclude)
