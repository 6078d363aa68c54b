"""Which rows stand for all the others in Nyström's method."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.features.factors import factorise
from hingerank.features.kernels import Kernel
from hingerank.kernels.row_keys import csr_keys, dense_keys

PILOT = 200  # landmarks from which leverage is estimated
LEAST_RIDGE = 1e-6
SAMPLE_FOR_MEANS = 50  # rows per mean that k-means looks at


def choose_landmarks(how: str, X: Any, count: int, kernel: Kernel, seed: int) -> Any:
    """`count` landmarks (all rows where there are no more): rows drawn evenly, means, or rows that tell most.

    "uniform": rows without replacement. "kmeans": centres of scikit-learn's MiniBatchKMeans, which are no training
    rows. "leverage": rows without replacement, in proportion to their ridge leverage φᵀ(ΦᵀΦ + λI)⁻¹φ, estimated
    from a pilot set of landmarks, with λ such that the leverages of these add up to half their number.

    Rows that are given several times count once, and the order of rows does not matter.
    """
    if how not in ("uniform", "kmeans", "leverage"):
        raise ValueError(f"landmarks must be 'uniform', 'kmeans' or 'leverage', not {how!r}")
    rng, rows = np.random.default_rng(seed), distinct_rows(X)
    if count >= len(rows):
        return X[rows]
    if how == "uniform":
        return X[rows[np.sort(rng.choice(len(rows), count, replace=False))]]
    X = X[rows]
    if how == "kmeans":
        return _means(X, count, rng)
    shares = _leverage(X, min(PILOT, count), kernel, rng)
    return X[np.sort(rng.choice(len(rows), count, replace=False, p=shares))]


def distinct_rows(X: Any) -> np.ndarray:
    """One row number for every distinct row, in an order that depends on the rows' values alone."""
    keys = np.empty(X.shape[0], np.uint64)
    if sp.issparse(X):
        csr_keys(X.data, X.indices, X.indptr, keys)
    else:
        dense_keys(X, keys)
    return np.unique(keys, return_index=True)[1]


def _means(X: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    if X.shape[0] > SAMPLE_FOR_MEANS * count:
        X = X[np.sort(rng.choice(X.shape[0], SAMPLE_FOR_MEANS * count, replace=False))]
    learner = MiniBatchKMeans(count, random_state=int(rng.integers(2**31)), n_init=1, batch_size=max(1024, count))
    return np.ascontiguousarray(learner.fit(X).cluster_centers_, X.dtype)


def _leverage(X: Any, pilot: int, kernel: Kernel, rng: np.random.Generator) -> np.ndarray:
    """Shares of the rows' estimated leverages."""
    chosen = X[np.sort(rng.choice(X.shape[0], pilot, replace=False))]
    kept, mixing = factorise(kernel.matrix(chosen, chosen))
    chosen, total = chosen[kept], np.zeros((mixing.shape[1],) * 2)
    blocks = []
    for a in range(0, X.shape[0], 4096):
        blocks.append(kernel.matrix(X[a : a + 4096], chosen) @ mixing)
        total += blocks[-1].T @ blocks[-1]
    values, vectors = np.linalg.eigh(total)
    values = np.maximum(values, 0.0)
    ridge = _ridge(values, 0.5 * len(values))
    weights = vectors / np.sqrt(values + ridge)
    leverage = np.concatenate([np.square(block @ weights).sum(axis=1) for block in blocks])
    # what the pilot set does not explain of a row counts in full at the same ridge
    seen = np.concatenate([np.square(block).sum(axis=1) for block in blocks])
    whole = kernel.diagonal(kernel.left(X, np.float64), kernel.right(X, np.float64))
    leverage += np.maximum(whole - seen, 0.0) / ridge
    leverage = np.maximum(leverage, 1e-12)
    return leverage / leverage.sum()


def _ridge(values: np.ndarray, target: float) -> float:
    """The λ at which sum of v / (v + λ) is `target`, by bisection."""
    low, high = LEAST_RIDGE, max(float(values.sum()), 1.0)
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if (values / (values + middle)).sum() > target else (low, middle)
    return float(high)


def dense_rows(X: Any) -> Any:
    """Landmarks as they are kept: CSR stays CSR, dense rows are a copy of their own."""
    return X.copy() if sp.issparse(X) else np.array(X)
