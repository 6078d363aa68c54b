"""Recommenders of other libraries behind one face: fit(X, ratings), then scores(users, items).

Users and items are row numbers. They learn from the same ratings as the rankers here, in the
form each was made for. implicit and MF know nothing of features, so they cannot score items that nobody rated.
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
