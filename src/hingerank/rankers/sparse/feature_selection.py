"""FS-Rank: a filter that looks at each feature alone, then RankSVM on the best."""

from typing import Any

import numpy as np
from scipy import sparse

from hingerank.losses import squared_hinge
from hingerank.losses.ndcg_swaps import NdcgSwaps
from hingerank.problem import RankObjective, RowsDesign
from hingerank.rankers.sparse.base import SparseRanker, positive
from hingerank.solvers.newton import newton
from hingerank.solvers.solution import Solution

DEPTH = 10


class FeatureSelectionRanker(SparseRanker):
    """RankSVM on the k features that rank best alone: largest mean NDCG@10 of sorting the rows by the feature.

        min over w, zero outside the k features, of  ½‖w‖² + C · sum over pairs of  max(0, 1 - w·x_i + w·x_j)²

    Rows with equal values share the mean discount of their places. To choose k on validation data, fit a path and ask
    `hingerank.rankers.sparse.choose.choose_on_validation`.

    Parameters
    ----------
    k : features to keep; all where there are fewer.
    C, tol : RankSVM's.
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    scale : feature scaling learnt in fit and carried in the model. callback : called with each trace entry.

    Attributes
    ----------
    coef_ : weights. filter_scores_ : NDCG@10 of each feature alone. selected_features_ : columns in use.

    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]]), [0, 1, 0, 1]
    >>> ranker = FeatureSelectionRanker(k=1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.filter_scores_.round(3).tolist()
    ([0], [1.0, 0.631])
    """

    _fitted = ("filter_scores_",)
    path_parameter = "k"

    def __init__(self, k=10, C=1.0, tol=1e-3, *, max_iter=200, scale=None, max_seconds=None, callback=None):
        self.k = k
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale
        self.max_seconds = max_seconds
        self.callback = callback

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, ks: Any = (5, 10, 15, 20, 25), sample_weight: Any = None, *,
        group: Any = None,
    ) -> "list[FeatureSelectionRanker]":  # fmt: skip
        """One fitted ranker for every k, in the order given; the filter runs once."""
        return self._fit_path([ks] if isinstance(ks, int) else ks, X, y, qid, sample_weight, group)

    def _path_value(self, value):
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError(f"k must be a whole number of features, at least 1, not {value!r}")
        return int(value)

    def _problem(self, X, y, blocks, sample_weight):
        preferences = self._preferences(y, blocks, sample_weight)
        self.filter_scores_ = single_feature_ndcg(X, NdcgSwaps(preferences, sample_weight, DEPTH))
        self._path_value(self.k)
        return _FilteredProblem(X, preferences, self.filter_scores_, positive("C", self.C), self._limits())


class _FilteredProblem:
    def __init__(self, X, preferences, scores, C, limits):
        self.X, self.preferences, self.C, self.limits = X, preferences, C, limits
        self.order = np.argsort(-scores, kind="stable")

    def solve(self, k: int, before: Solution | None) -> Solution:
        kept = np.sort(self.order[:k])
        part = self.X[:, kept] if sparse.issparse(self.X) else np.take(self.X, kept, axis=1)
        objective = RankObjective(RowsDesign(part), squared_hinge(), self.preferences, self.C)
        inner = newton(objective, None if before is None else before.w[kept], **self.limits)
        w = np.zeros(self.X.shape[1])
        w[kept] = inner.w
        return Solution(w, inner.value, inner.certificate, inner.trace)


def single_feature_ndcg(X: Any, ranking: NdcgSwaps) -> np.ndarray:
    """For each column the mean NDCG of ranking by it, largest values first. O(d n log n)."""
    if sparse.issparse(X):
        X = X.tocsc()
        return np.array([ranking.ndcg(X[:, [j]].toarray().ravel()) for j in range(X.shape[1])])
    return np.array([ranking.ndcg(column) for column in X.T])
