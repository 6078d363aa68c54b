"""The kernel's width gamma from the data."""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.errors import DataError

SAMPLED_PAIRS = 20_000


def choose_gamma(gamma: Any, X: Any, weight: np.ndarray | None = None, seed: int = 0) -> float:
    """gamma itself if it is a number; "scale": 1 / (features · variance of all values of X), as scikit-learn's SVC;
    "median": 1 / median of ‖x − y‖² over sampled pairs of rows; "auto": 1 / features.

    weight: a weight per row, by which "scale" counts it.

    >>> choose_gamma("scale", np.array([[0.0, 2.0], [2.0, 0.0]]))
    0.5
    """
    if gamma in ("scale", "median"):
        found = _by_variance(X, weight) if gamma == "scale" else _median_heuristic(X, seed)
        if not 0 < found < np.inf:
            raise DataError(f"gamma={gamma!r} comes out as {found}: squares of the features overflow; rescale them")
        return found
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if not isinstance(gamma, Real) or not 0 < float(gamma) < np.inf:
        raise ValueError(f"gamma must be a positive number, 'scale', 'median' or 'auto', not {gamma!r}")
    return float(gamma)


def _by_variance(X: Any, weight: np.ndarray | None) -> float:
    with np.errstate(over="ignore", divide="ignore"):
        variance = np.float64(_variance(X, weight))
        return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0


def _variance(X: Any, weight: np.ndarray | None) -> float:
    """Variance of all entries, in double precision, rows counted by their weight."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    total = weight.sum() * X.shape[1]
    if sp.issparse(X):
        per_value = np.repeat(weight, np.diff(X.indptr))
        values = X.data.astype(np.float64)
        mean = float(per_value @ values) / total
        absent = total - per_value.sum()
        return float(per_value @ (values - mean) ** 2 + absent * mean**2) / total
    mean = float(weight @ X.sum(axis=1, dtype=np.float64)) / total
    squares = 0.0
    for a in range(0, len(X), 4096):
        apart = X[a : a + 4096].astype(np.float64) - mean
        squares += float(weight[a : a + 4096] @ np.einsum("ij,ij->i", apart, apart))
    return squares / total


def _median_heuristic(X: Any, seed: int) -> float:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, X.shape[0], (2, SAMPLED_PAIRS))
    apart = X[first] - X[second]
    squares = apart.multiply(apart).sum(axis=1) if sp.issparse(X) else np.square(apart, dtype=np.float64).sum(axis=1)
    squares = np.asarray(squares, np.float64).ravel()
    squares = squares[squares > 0]
    return 1.0 / float(np.median(squares)) if len(squares) else 1.0
