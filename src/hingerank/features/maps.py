"""What feature maps share: rows are mapped in blocks, in single precision, and never held twice."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from hingerank.data.arrays import check_matrix
from hingerank.features.blocks import over_rows, storage_type
from hingerank.features.kernels import Kernel
from hingerank.kernels.rows import scores_range


class FeatureMap(TransformerMixin, BaseEstimator):
    """φ(x) = mixing_ᵀ ψ(x), a scikit-learn transformer; mixing_ is a matrix, or None where φ = ψ.

    Scores <w, φ(x)> are <mixing_ w, ψ(x)>, so training and prediction need only ψ, which `write` computes; φ itself is
    made by `transform` for others.
    """

    mixing_: np.ndarray | None = None
    width_: int  # numbers in ψ(x)
    kernel_: Kernel  # ψ(x) = its values between x and the rows that gave `right_`
    right_: dict[type, Any]  # for float32 and float64

    def write(self, X: Any, out: np.ndarray) -> None:
        """out = ψ of the rows X, of which there are few."""
        dtype = out.dtype.type
        self.kernel_.between(self.kernel_.left(X, dtype), self.right_[dtype], out)

    def stored_bytes(self, X: Any) -> int:
        """What `rows(X)` takes."""
        dtype = storage_type(X.shape[0], self.width_, X.dtype)
        return X.shape[0] * self.width_ * np.dtype(dtype).itemsize

    def rows(self, X: Any) -> Any:
        """ψ of all rows, C-ordered; float64 only where X is and the result is small."""
        out = np.empty((X.shape[0], self.width_), storage_type(X.shape[0], self.width_, X.dtype))
        over_rows(len(out), self.width_, lambda a, b: self.write(X[a:b], out[a:b]), out.itemsize)
        return out

    def scores(self, X: Any, weights: np.ndarray) -> np.ndarray:
        """<weights, ψ(x)> for every row, a block of ψ at a time, in X's precision and summed in double.

        weights: a vector, or a matrix with a column for each of several rankers.
        """
        weights = np.ascontiguousarray(weights, np.float64)
        out = np.empty((X.shape[0], *weights.shape[1:]))

        def work(a: int, b: int) -> None:
            block = np.empty((b - a, self.width_), X.dtype)
            self.write(X[a:b], block)
            if weights.ndim == 1:
                scores_range((block,), 0, b - a, weights, out[a:b])
            else:
                out[a:b] = block.astype(np.float64, copy=False) @ weights

        over_rows(len(out), self.width_, work, X.dtype.itemsize)
        return out

    def unmixed(self, w: np.ndarray) -> np.ndarray:
        """Weights of ψ for weights w of φ."""
        return w if self.mixing_ is None else self.mixing_ @ w

    def transform(self, X: Any) -> np.ndarray:
        """φ of all rows."""
        check_is_fitted(self)
        X = rows_like(X, self.n_features_in_)
        if self.mixing_ is None:
            return self.rows(X)
        out = np.empty((X.shape[0], self.mixing_.shape[1]), storage_type(X.shape[0], self.width_, X.dtype))
        mixing = self.mixing_.astype(out.dtype)

        def work(a: int, b: int) -> None:
            block = np.empty((b - a, self.width_), out.dtype)
            self.write(X[a:b], block)
            np.matmul(block, mixing, out=out[a:b])

        over_rows(len(out), self.width_, work, out.itemsize)
        return out


def rows_like(X: Any, n_features: int | None = None) -> Any:
    """X as a float matrix, dense or CSR, with the number of features that fit saw."""
    X = check_matrix(X)
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the map was fitted on {n_features}")
    return X.tocsr() if sp.issparse(X) else X
