"""Any scikit-learn transformer as a feature map."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.features.blocks import BLOCK_BYTES, storage_type
from hingerank.features.maps import FeatureMap


class TransformerMap(FeatureMap):
    """φ(x) = transformer.transform(x), in float32, a block of rows at a time; sparse answers stay CSR.

    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> TransformerMap(PolynomialFeatures(2)).fit(np.ones((1, 1)) * 3).rows(np.ones((1, 1)) * 3).tolist()
    [[1.0, 3.0, 9.0]]
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None, sample_weight: np.ndarray | None = None) -> "TransformerMap":
        """Fit a copy of the transformer on the rows; its answer for the first one shows its form."""
        if not (hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")):
            raise ValueError(f"features must be a transformer with fit and transform, not {self.transformer!r}")
        self.transformer_ = clone(self.transformer).fit(X)
        first = self.transformer_.transform(X[:1])
        self.n_features_in_, self.width_, self.sparse_ = X.shape[1], first.shape[1], sp.issparse(first)
        return self

    def write(self, X, out):
        block = self.transformer_.transform(X)
        out[...] = block.toarray() if sp.issparse(block) else block

    def stored_bytes(self, X):
        return 0 if self.sparse_ else super().stored_bytes(X)

    def rows(self, X):
        if not self.sparse_:
            return super().rows(X)
        height = max(1, BLOCK_BYTES // (4 * X.shape[1]))
        blocks = [self.transformer_.transform(X[a : a + height]) for a in range(0, X.shape[0], height)]
        rows = sp.csr_matrix(sp.vstack(blocks, format="csr"), dtype=storage_type(X.shape[0], self.width_, X.dtype))
        rows.sum_duplicates()
        return rows


def as_feature_map(features: Any) -> Any:
    """An unfitted feature map for anything with fit and transform."""
    return clone(features) if isinstance(features, FeatureMap) else TransformerMap(features)
