"""Scores with a product term for every two features, whose weights are of low rank (Rendle's factorization machine)."""

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.checks import whole
from hingerank.kernels.threads import add_up, cut_shards, run_shards, serial_blas
from hingerank.losses import Loss
from hingerank.preferences import GradedPreferences
from hingerank.preferences.graded import ROWS_PER_SHARD
from hingerank.problem.problem import Objective, Point

START = 0.1  # standard deviation of the initial factors


class FactorizationMachine(Objective):
    """½‖w‖² + ½‖V‖² + C · loss(s),  s(x) = <w, x> + sum over f < g of <v_f, v_g> x_f x_g.

    A point is w followed by V, a row of K numbers for each feature, in one vector. With the identity
    sum over f < g = ½ sum over k of ((sum of v_fk x_f)² - sum of v_fk² x_f²)  a score costs O(d K). Not convex; V = 0
    is stationary, so the smallest useful C is that of the linear part.
    """

    convex = False

    def __init__(self, X: Matrix, loss: Loss, preferences: GradedPreferences, rank: int, C: float = 1.0):
        self.X, self.loss, self.preferences, self.rank, self.C = X, loss, preferences, whole("rank", rank), C
        self.squares = X.multiply(X).tocsr() if sp.issparse(X) else X * X
        self.dimension = X.shape[1] * (self.rank + 1)

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Weights of 0 and small random factors."""
        d = self.X.shape[1]
        return np.concatenate([np.zeros(d), START * rng.normal(size=d * self.rank)])

    def at(self, w: np.ndarray) -> Point:
        theta, (w, V) = w, parts_of(w, self.rank)
        here = self.loss.at(machine_scores(self.X, self.squares, w, V), self.preferences)
        z = self.C * here.gradient

        def slopes(shard: tuple[int, int]) -> np.ndarray:
            rows = slice(*shard)
            X, own = self.X[rows], z[rows]
            slope = X.T @ (own[:, None] * (X @ V)) - V * (self.squares[rows].T @ own)[:, None]
            return np.concatenate([X.T @ own, slope.ravel()])

        with serial_blas():
            gradient = theta + add_up(run_shards(slopes, shards_of(self.X)))
            value = 0.5 * float(theta @ theta) + self.C * here.value

        def curvature(v: np.ndarray) -> np.ndarray:
            raise NotImplementedError("a factorization machine is fitted by its gradient only")

        return Point(theta, value, gradient, curvature)


def parts_of(theta: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """w, and V with a row for each feature."""
    d = len(theta) // (rank + 1)
    return theta[:d], theta[d:].reshape(d, rank)


def machine_scores(X: Matrix, squares: Matrix, w: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The scores of rows; squares: their entries, squared."""
    out, lengths = np.empty(X.shape[0]), (V * V).sum(axis=1)

    def some(shard: tuple[int, int]) -> None:
        rows = slice(*shard)
        products = np.asarray(X[rows] @ V)
        square = np.einsum("ik,ik->i", products, products)
        out[rows] = X[rows] @ w + 0.5 * (square - squares[rows] @ lengths)

    with serial_blas():
        run_shards(some, shards_of(X))
    return out


def shards_of(X: Matrix) -> list[tuple[int, int]]:
    """Ranges of rows whose products are made together, on one thread each."""
    return cut_shards(np.arange(X.shape[0] + 1), ROWS_PER_SHARD)
