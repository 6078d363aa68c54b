"""Nyström's method: the choice of landmark rows, and features in the span of their kernel functions."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.checks import generator, one_of, whole
from hingerank.features.kernels import Kernel, choose_gamma, make_kernel
from hingerank.features.maps import (
    SMALLEST,
    Factors,
    FeatureMap,
    factorise,
    leading_factor,
    rows_like,
    storage_type,
)
from hingerank.kernels.rows import row_keys

PILOT = 200  # number of landmarks from which leverage is estimated
LEAST_RIDGE = 1e-6
SAMPLE_FOR_MEANS = 50  # number of rows per centre that k-means uses


def choose_landmarks(how: str, X: Matrix, count: int, kernel: Kernel, seed: int) -> Matrix:
    """Choose landmarks for the rows X: random rows, centres of k-means, or rows drawn by leverage.

    Repeated rows count once, and the order of rows does not matter; if there are fewer rows than asked for, all are
    landmarks. "uniform": random rows without replacement. "kmeans": centres of scikit-learn's MiniBatchKMeans, which
    are not training rows. "leverage": random rows without replacement, with probabilities proportional to their ridge
    leverage φᵀ(ΦᵀΦ + λI)⁻¹φ. It is estimated from a pilot set of landmarks. λ is such that the leverages of these add
    up to half their number.
    """
    one_of("landmarks", how, "uniform", "kmeans", "leverage")
    rng, rows = generator(seed), distinct_rows(X)
    if count >= len(rows):
        return X[rows]
    if how == "uniform":
        return X[rows[np.sort(rng.choice(len(rows), count, replace=False))]]
    X = X[rows]
    if how == "leverage":
        chances = _leverage(X, min(PILOT, count), kernel, rng)
        return X[np.sort(rng.choice(len(rows), count, replace=False, p=chances))]
    from sklearn.cluster import MiniBatchKMeans

    if len(rows) > SAMPLE_FOR_MEANS * count:
        X = X[np.sort(rng.choice(len(rows), SAMPLE_FOR_MEANS * count, replace=False))]
    learner = MiniBatchKMeans(count, random_state=int(rng.integers(2**31)), n_init=1, batch_size=max(1024, count))
    centres = learner.fit(X.astype(np.float64, copy=False)).cluster_centers_  # single precision ends at other centres
    return np.ascontiguousarray(centres, X.dtype)


def distinct_rows(X: Matrix) -> np.ndarray:
    """The number of one row for every distinct row, in an order that depends only on the rows' values."""
    keys = np.empty(X.shape[0], np.uint64)
    row_keys((X.data, X.indices, X.indptr) if sp.issparse(X) else (X,), keys)
    return np.unique(keys, return_index=True)[1]


def _leverage(X: Matrix, pilot: int, kernel: Kernel, rng: np.random.Generator) -> np.ndarray:
    """The estimated leverages of the rows, divided by their sum."""
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
    # add the part of each row outside the span of the pilot set, divided by the same ridge
    seen = np.concatenate([np.square(block).sum(axis=1) for block in blocks])
    whole = kernel.diagonal(kernel.left(X, np.float64), kernel.right(X, np.float64))
    leverage += np.maximum(whole - seen, 0.0) / ridge
    leverage = np.maximum(leverage, 1e-12)
    return leverage / leverage.sum()


def _ridge(values: np.ndarray, target: float) -> float:
    """The λ for which the sum of v / (v + λ) is the target, found by bisection."""
    low, high = LEAST_RIDGE, max(float(values.sum()), 1.0)
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if (values / (values + middle)).sum() > target else (low, middle)
    return float(high)


@dataclass(eq=False, repr=False)
class NystroemMap(FeatureMap):
    """φ(x) = Tᵀ (κ(x, l₁), ..., κ(x, lₘ)) with T Tᵀ = κ(landmarks)⁻¹, so that <φ(x), φ(y)> ≈ κ(x, y).

    Without ``rank``, T comes from a pivoted Cholesky factorisation, which also leaves out landmarks in the span of the
    others. With ``rank``, T comes from that many leading eigenvectors, as in the papers. At full rank all such T give
    the same inner products, and therefore the same ranker.

    Parameters
    ----------
    n_components : number m of landmarks; all rows if there are fewer
    kernel : "rbf", "polynomial", "laplacian", "chi2", "cosine", "linear" or a function of two arrays
    gamma : a number, "scale" (1 / sum of the columns' variances), "median" or "auto"
    degree, coef0 : parameters of the kernel "polynomial"
    rank : largest number of features, or None
    landmarks : "uniform", "kmeans" or "leverage"
    random_state : a seed

    Examples
    --------
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> F = NystroemMap(n_components=50, gamma=1.0).fit(X).transform(X)
    >>> bool(np.abs(F @ F.T - make_kernel("rbf", 1.0).matrix(X, X)).max() < 1e-6)
    True
    """

    n_components: int = 500
    _: KW_ONLY
    kernel: object = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    rank: int | None = None
    landmarks: str = "uniform"
    random_state: int | None = 0

    def fit(self, X: Matrix, y: object = None, sample_weight: np.ndarray | None = None) -> "NystroemMap":
        """Choose the landmarks. y is ignored, and sample_weight only affects gamma="scale"."""
        X = rows_like(X)
        count = whole("n_components", self.n_components)
        gamma = choose_gamma(self.gamma, X, sample_weight, self.random_state or 0)
        kernel = make_kernel(self.kernel, gamma, self.degree, self.coef0)
        chosen = choose_landmarks(self.landmarks, X, count, kernel.centred(X), self.random_state or 0)
        W = kernel.centred(chosen).matrix(chosen, chosen)
        smallest = SMALLEST[np.dtype(storage_type(X.shape[0], count, X.dtype))]
        if self.rank:
            mixing = leading_factor(0.5 * (W + W.T), whole("rank", self.rank), smallest)
        else:
            kept, mixing = factorise(W, smallest)
            chosen = chosen[kept]
        return self.place(gamma, chosen.copy() if sp.issparse(chosen) else np.array(chosen), mixing)

    def place(self, gamma: float, landmarks: Matrix, mixing: np.ndarray | None = None) -> "NystroemMap":
        """Set γ, the landmarks and T, which were chosen before; without T, φ(x) are the kernel's values."""
        self.gamma_, self.landmarks_, self.mixing_ = gamma, landmarks, mixing
        self.width_, self.n_features_in_ = landmarks.shape
        self.kernel_ = make_kernel(self.kernel, gamma, self.degree, self.coef0).centred(landmarks)
        self.right_ = Factors(self.kernel_, landmarks)
        return self
