"""Recommenders that only benchmarks compare with; those of `hingerank.personal.baselines` are in the package."""

from typing import Any

import numpy as np

from hingerank.personal.baselines import Peer


class CornacMF(Peer):
    """cornac's biased matrix factorisation: ratings as numbers, items without features."""

    def __init__(self, rank: int, epochs: int, lambda_reg: float = 0.02):
        self.rank, self.epochs, self.lambda_reg = rank, epochs, lambda_reg

    def _learn(self, user: Any, item: Any, rating: Any, X: Any, first: Any) -> None:
        from cornac.data import Dataset
        from cornac.models import MF

        ratings = Dataset.from_uir(list(zip(user.tolist(), item.tolist(), rating.tolist())))
        how = {"k": self.rank, "max_iter": self.epochs, "lambda_reg": self.lambda_reg, "learning_rate": 0.01}
        m = MF(verbose=False, seed=0, **how).fit(ratings)
        users, items = np.array(list(ratings.user_ids)), np.array(list(ratings.item_ids))
        U, V = np.ones((len(self.users_), m.k + 1)), np.zeros((len(first), m.k + 1))
        U[users, :-1], V[items, :-1], V[items, -1] = m.u_factors, m.i_factors, m.i_biases
        self._keep(U, V)


class Ridges(Peer):
    """For each user a ridge regression of the ratings, less their mean, on the features: (K + I)⁻¹ over the items."""

    def _learn(self, user: Any, item: Any, rating: Any, X: Any, first: Any) -> None:
        order, self.user_factors_ = np.argsort(user, kind="stable"), np.zeros((len(self.users_), X.shape[1]))
        for u, rows in enumerate(np.split(order, np.flatnonzero(np.diff(user[order])) + 1)):
            own, y = X[first[item[rows]]], rating[rows] - rating[rows].mean()
            self.user_factors_[u] = own.T @ np.linalg.solve((own @ own.T).toarray() + np.eye(len(rows)), y)

    def _item_vectors(self, features: Any) -> Any:
        return features
