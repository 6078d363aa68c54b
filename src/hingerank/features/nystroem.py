"""Nyström's method: features in the span of a few landmarks' kernel functions."""

from typing import Any

import numpy as np

from hingerank.features.blocks import storage_type
from hingerank.features.factors import SMALLEST, factorise, leading_factor
from hingerank.features.kernels import make_kernel
from hingerank.features.landmarks import choose_landmarks, dense_rows
from hingerank.features.maps import FeatureMap, rows_like
from hingerank.features.width import choose_gamma


class NystroemMap(FeatureMap):
    """φ(x) = Tᵀ (κ(x, l_1), ..., κ(x, l_m)) with T Tᵀ = κ(landmarks)⁻¹, so that <φ(x), φ(y)> ≈ κ(x, y).

    Without `rank`, T comes from a pivoted Cholesky factorisation, which also leaves out landmarks that others already
    span; with it, from the `rank` leading eigenvectors, as in Σ_k^{-½} U_kᵀ of the papers. Any such T gives the same
    inner products (at full rank) and so the same ranker.

    Parameters
    ----------
    n_components : number m of landmarks; all rows where there are no more.
    kernel : "rbf", "polynomial", "laplacian", "chi2", "cosine", "linear" or a function of two arrays.
    gamma : a number, "scale" (1 / (features · variance)), "median" or "auto". degree, coef0 : of "polynomial".
    rank : most features, or None. landmarks : "uniform", "kmeans" or "leverage". random_state : a seed.

    >>> X = np.random.default_rng(0).random((50, 3))
    >>> F = NystroemMap(n_components=50, gamma=1.0).fit(X).transform(X)
    >>> bool(np.abs(F @ F.T - make_kernel("rbf", 1.0).matrix(X, X)).max() < 1e-6)
    True
    """

    def __init__(
        self, n_components=500, *, kernel="rbf", gamma="scale", degree=3, coef0=1.0, rank=None, landmarks="uniform",
        random_state=0,
    ):  # fmt: skip
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.rank = rank
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: np.ndarray | None = None) -> "NystroemMap":
        """Choose the landmarks; y is ignored, and sample_weight matters only to gamma="scale"."""
        X = rows_like(X)
        count = _positive(self.n_components, "n_components")
        self.n_features_in_ = X.shape[1]
        self.gamma_ = choose_gamma(self.gamma, X, sample_weight, self.random_state or 0)
        kernel = make_kernel(self.kernel, self.gamma_, self.degree, self.coef0)
        chosen = choose_landmarks(self.landmarks, X, count, kernel.centred(X), self.random_state or 0)
        W = kernel.centred(chosen).matrix(chosen, chosen)
        smallest = SMALLEST[np.dtype(storage_type(X.shape[0], count, X.dtype))]
        if self.rank:
            self.mixing_ = leading_factor(0.5 * (W + W.T), _positive(self.rank, "rank"), smallest)
        else:
            kept, self.mixing_ = factorise(W, smallest)
            chosen = chosen[kept]
        self.place(dense_rows(chosen))
        return self

    def place(self, landmarks: Any) -> "NystroemMap":
        """Take over landmarks that were chosen before."""
        self.landmarks_, self.n_features_in_ = landmarks, landmarks.shape[1]
        self.width_ = landmarks.shape[0]
        self.kernel_ = make_kernel(self.kernel, self.gamma_, self.degree, self.coef0).centred(landmarks)
        self.right_ = {t: self.kernel_.right(landmarks, t) for t in (np.float32, np.float64)}
        return self


def _positive(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not value >= 1 or float(value) % 1:
        raise ValueError(f"{name} must be a positive whole number, not {value!r}")
    return int(value)
