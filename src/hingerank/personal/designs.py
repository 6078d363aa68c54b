"""Designs over (user, item) rows: weights that all users share, weights of each user's own, or both."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.kernels import UserGrades
from hingerank.personal.passes import own_back, own_scores
from hingerank.personal.preferences import UserPreferences
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem.design import RowsDesign

ROWS_PER_SHARD = 8192


class SharedDesign:
    """scores(w)[r] = <x_item(r), w>: each item is multiplied once, however many users rated it."""

    def __init__(self, X: Any, preferences: UserPreferences):
        self.items, self.item = RowsDesign(X), preferences.item
        self.shape = (preferences.n_rows, X.shape[1])

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.items.scores(w)[self.item]

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.items.back(np.bincount(self.item, z, self.items.shape[0]))


class OwnDesign:
    """scores(w)[r] = <x_item(r), w_u(r)> with a weight vector for every user, over the features that the user met.

    A dense X gives every user all features (w is users x features, flattened); a CSR X only those of the user's items.
    """

    def __init__(self, X: Any, preferences: UserPreferences):
        self.X, self.p, self._sparse = X, preferences, sp.issparse(X)
        if self._sparse:
            self._rows, self._columns, self._start = blocks_of_users(X, preferences)
            self._design = RowsDesign(self._rows)
            self.shape = self._rows.shape
        else:
            self.shape = (preferences.n_rows, preferences.n_users * X.shape[1])
            self._shards = cut_shards(preferences.start, ROWS_PER_SHARD)

    def scores(self, w: np.ndarray) -> np.ndarray:
        if self._sparse:
            return self._design.scores(w)
        p, W, out = self.p, w.reshape(self.p.n_users, -1), np.empty(self.shape[0])
        run_shards(lambda ab: own_scores(self.X, W, *ab, p.start, p.item, out), self._shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        if self._sparse:
            return self._design.back(z)
        p, W = self.p, np.empty((self.p.n_users, self.X.shape[1]))
        run_shards(lambda ab: own_back(self.X, z, *ab, p.start, p.item, W), self._shards)
        return W.ravel()

    def vectors(self, w: np.ndarray) -> Any:
        """users x features, dense or CSR as X is."""
        if not self._sparse:
            return w.reshape(self.p.n_users, -1)
        return sp.csr_matrix(
            (w[: len(self._columns)], self._columns, self._start), shape=(self.p.n_users, self.X.shape[1])
        )


class MeanAndOwnDesign:
    """scores((m, w)) = √sharing · shared(m) + own(w): ½‖m‖² + ½‖w‖² then penalises the mean by 1/sharing."""

    def __init__(self, X: Any, preferences: UserPreferences, sharing: float):
        self.shared, self.own, self.root = SharedDesign(X, preferences), OwnDesign(X, preferences), np.sqrt(sharing)
        self.cut = X.shape[1]
        self.shape = (preferences.n_rows, self.cut + self.own.shape[1])

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.shared.scores(self.root * w[: self.cut]) + self.own.scores(w[self.cut :])

    def back(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate([self.root * self.shared.back(z), self.own.back(z)])


def blocks_of_users(X: sp.csr_matrix, p: UserPreferences) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """Rows of X by user with columns numbered within the user: (matrix, feature of each column, first of each user)."""
    rows = X[p.item]
    user = np.repeat(np.repeat(np.arange(p.n_users), np.diff(p.start)), np.diff(rows.indptr))
    key = user * X.shape[1] + rows.indices
    distinct, column = np.unique(key, return_inverse=True)
    start = np.searchsorted(distinct, np.arange(p.n_users + 1) * X.shape[1])
    block = sp.csr_matrix((rows.data, column.astype(np.int32), rows.indptr), shape=(len(p.item), max(1, len(distinct))))
    return block, distinct % X.shape[1], start


def row_preferences(p: UserPreferences) -> Preferences:
    """What is known of the users' rows, as preferences that every loss of the library takes."""
    if isinstance(p.known, UserGrades):
        return GradedPreferences(p.known.grade, p.start, query_weight=p.known.scale)
    per_user = np.diff(p.known.start)
    first, weight = np.repeat(p.start[:-1], per_user), np.repeat(p.known.scale, per_user)
    if len(p.known.weight):
        weight *= p.known.weight
    return ExplicitPairs(first + p.known.winner, first + p.known.loser, p.n_rows, weight)
