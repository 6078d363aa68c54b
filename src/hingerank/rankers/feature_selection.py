"""FS-Rank: a filter that looks at each feature alone, then RankSVM on the best."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from hingerank.arrays import Matrix, PerRow, RowsLike
from hingerank.data.checks import one_of, whole
from hingerank.export.attributes import Array, Attribute
from hingerank.features.curves import column_of
from hingerank.losses import squared_hinge
from hingerank.losses.lists import NdcgSwaps
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.rankers.problem_ranker import chosen_C
from hingerank.rankers.sparse import SparseRanker
from hingerank.renaming import renamed
from hingerank.solvers.newton import newton

DEPTH = 10  # ranks of the NDCG by which single features are chosen


@renamed
@dataclass(eq=False, repr=False)
class FeatureSelectionRanker(SparseRanker):
    """RankSVM on the features that rank best alone: largest mean NDCG@10 of sorting the rows by the feature.

        min over w, zero outside those features, of  ½‖w‖² + C · sum over pairs of  max(0, 1 - w·x_i + w·x_j)²

    To choose the number of features on validation data, fit a path and call
    ``hingerank.rankers.sparse.choose_on_validation``.

    Parameters
    ----------
    n_features : number of features to keep, or all if there are fewer
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    ties : how the filter ranks rows with equal values of a feature
        "average": they share the mean discount of their ranks; "stable": in the order in which they are given, as in
        LETOR's scripts.
    tol, max_iter, max_seconds, scale, missing, callback : as in RankSVM

    Attributes
    ----------
    coef_ : weights
    filter_scores_ : NDCG@10 of each feature alone
    selected_features_ : columns in use
    C_ : C as it was used; with C=None it follows the data of all features

    Examples
    --------
    >>> X, y = [[0.0, 0.3], [1.0, 0.1], [0.2, 0.5], [0.9, 0.4]], [0, 1, 0, 1]
    >>> ranker = FeatureSelectionRanker(n_features=1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.selected_features_.tolist(), ranker.filter_scores_.round(3).tolist()
    ([0], [1.0, 0.631])
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"filter_scores_": Array("columns")}
    path_parameter = "n_features"

    n_features: int = 10
    C: float | None = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    ties: str = "average"
    max_iter: int | None = 200

    @renamed
    def fit_path(  # type: ignore[override]
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, n_features: int | Iterable[int] = (5, 10, 15, 20, 25),
        sample_weight: PerRow = None, *, group: PerRow = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every number of features, in the order given; the filter runs once."""
        wanted = [n_features] if isinstance(n_features, int | np.integer) else n_features
        return self._fit_path(wanted, X, y, qid, sample_weight, group)

    def _path_value(self, value):
        return whole("n_features", value)

    def _problem(self, source):
        one_of("ties", self.ties, "average", "stable")
        X, preferences = source.matrix("FeatureSelectionRanker"), source.preferences
        ranking = NdcgSwaps(preferences, source.weight, DEPTH)
        self.filter_scores_ = single_feature_ndcg(X, ranking, self.ties == "stable")
        design = RowsDesign(X)
        self.C_ = chosen_C(self.C, Problem(design, squared_hinge(), preferences))
        return SelectedProblem(design, preferences, np.argsort(-self.filter_scores_, kind="stable"), self.C_)

    def _vary(self, problem, value):
        return replace(problem, k=value)

    def _minimise(self, problem, before=None):
        kept = np.sort(problem.order[: problem.k])
        part = Problem(problem.design.columns(kept), squared_hinge(), problem.preferences, C=problem.C)
        found = newton(part, None if before is None else before.w[kept], **self._limits())
        w = np.zeros(problem.design.shape[1])
        w[kept] = found.w
        return replace(found, w=w)


@dataclass(frozen=True)
class SelectedProblem:
    """RankSVM's problem on the first k of the columns in `order`."""

    design: RowsDesign
    preferences: GradedPreferences
    order: np.ndarray
    C: float
    k: int = 0


def single_feature_ndcg(X: Matrix, ranking: NdcgSwaps, in_order: bool = False) -> np.ndarray:
    """For each column the mean NDCG of ranking by it, largest values first. O(d n log n).

    in_order: rows with equal values stay in their order, instead of sharing their ranks.
    """
    columns = X.tocsc() if sparse.issparse(X) else X
    query = np.repeat(np.arange(ranking.preferences.n_queries), np.diff(ranking.preferences.offsets))
    found = np.empty(X.shape[1])
    for j in range(X.shape[1]):
        s = column_of(columns, j)
        if in_order:  # scores that rank each query as s does, equal ones in their order
            order, s = np.lexsort((-s, query)), np.empty(len(s))
            s[order] = -np.arange(len(s))
        found[j] = ranking.ndcg(s)
    return found
