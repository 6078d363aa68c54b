"""Small data and rankers whose answers are easy to know."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from hingerank.data.ranking_data import RankingData


def make_data(n_queries=20, rows=8, n_features=4, seed=0):
    """Grades follow the first feature, with noise; query ids are words, rows of a query lie together."""
    rng = np.random.default_rng(seed)
    n = n_queries * rows
    X = rng.standard_normal((n, n_features))
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.standard_normal(n)), 0, 2)
    qid = np.repeat([f"q{i}" for i in range(n_queries)], rows)
    docid = np.array([f"d{i}" for i in range(n)])
    return RankingData(X, y, qid, docid, [f"feature {j}" for j in range(n_features)])


def make_rankers():
    """Classes made inside a function, so that they travel to other processes by value."""

    class Column:
        """Scores by one feature times a sign: nothing to learn, everything to choose."""

        log: ClassVar[list] = []

        def __init__(self, column=0, sign=1):
            self.column, self.sign = column, sign

        def fit(self, X, y, qid=None):
            type(self).log.append(("fit", self.column, self.sign, len(y)))
            self.coef_ = np.zeros(X.shape[1])
            self.coef_[self.column] = self.sign
            return self

        def predict(self, X):
            type(self).log.append(("predict", self.column, self.sign, len(X)))
            return X @ self.coef_

    class Noise:
        """Scores at random, from random_state."""

        def __init__(self, scale=1.0, random_state=None):
            self.scale, self.random_state = scale, random_state

        def fit(self, X, y, qid=None):
            return self

        def predict(self, X):
            return self.scale * np.random.default_rng(self.random_state).standard_normal(len(X))

    class Broken:
        """Fails where told to."""

        def __init__(self, place="fit", column=0):
            self.place, self.column = place, column

        def fit(self, X, y, qid=None):
            if self.place == "fit":
                raise RuntimeError("cannot fit </script>")
            if self.place == "die":
                import os

                os._exit(3)
            return self

        def predict(self, X):
            if self.place == "predict":
                raise RuntimeError("cannot predict")
            if self.place == "nan":
                return np.full(len(X), np.nan)
            if self.place == "shape":
                return np.zeros((len(X), 2))
            return X[:, self.column]

    class Path:
        """Ridge regression along a path of C, counting how often it is used."""

        path_parameter = "C"
        log: ClassVar[list] = []

        def __init__(self, C=1.0, intercept=0.0):
            self.C, self.intercept = C, intercept

        def fit(self, X, y, qid=None):
            type(self).log.append(("fit", self.C))
            self.coef_ = np.linalg.solve(X.T @ X + np.eye(X.shape[1]) / self.C, X.T @ (y - self.intercept))
            return self

        def fit_path(self, X, y, qid, values):
            type(self).log.append(("path", tuple(values)))
            if -1.0 in values:
                raise ValueError("C must be positive")
            return [type(self)(C, self.intercept).fit(X, y, qid) for C in values]

        def predict(self, X):
            return X @ self.coef_

    return SimpleNamespace(Column=Column, Noise=Noise, Broken=Broken, Path=Path)


@pytest.fixture
def data():
    return make_data()


@pytest.fixture
def rankers():
    return make_rankers()


@pytest.fixture
def make_toy_data():
    return make_data
