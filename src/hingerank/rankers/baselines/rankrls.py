"""RankRLS: least squares on differences (Pahikkala, Tsivtsivadze, Airola, Järvinen & Boberg 2009)."""

import numpy as np

from hingerank.preferences import GradedPreferences
from hingerank.rankers.baselines.base import LeastSquaresRanker


class RankRLS(LeastSquaresRanker):
    """min over w of  ½‖w‖² + C · sum over every two rows of a query of  ((y_i - y_j) - (s_i - s_j))²,  s = Φ w.

    With L the Laplacian of the pairs (n I - 1 1ᵀ in a query of n rows) the answer is  w = 2C (I + 2C XᵀLX)⁻¹ XᵀL y:
    O(n d²) for all values of C together. The paper's and RLScore's λ is 1 / (2C).

    Parameters
    ----------
    C : weight of the summed squares against the norm.
    loss : "all_differences" as above: rows of equal grade are to have equal scores; "grade_differences": pairs of
        different grades only; "squared": (1 - (s_i - s_j))² over these, whatever the grades.
    pair_weight : "uniform" as in the paper, or "rows": a query's pairs divided by its rows, as in RLScore's program.
    tol : accepted gradient norm relative to that at w = 0. scale, features, max_iter, max_seconds, callback : as in
        RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankRLS(C=1e6).fit(X, y, qid=qid).coef_.round(3).tolist()  # (1·1 + 0.7·1) / (1² + 0.7²)
    [1.141]
    """

    def __init__(
        self, C=1.0, loss="all_differences", tol=1e-6, *, pair_weight="uniform", scale=None, features=None,
        max_iter=None, max_seconds=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.loss = loss
        self.tol = tol
        self.pair_weight = pair_weight
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback

    def _fit(self, X, y, blocks, sample_weight):
        if self.pair_weight not in ("uniform", "rows"):
            raise ValueError(f"pair_weight must be 'uniform' or 'rows', not {self.pair_weight!r}")
        self._prepare(X, sample_weight)
        rows = blocks.sizes if sample_weight is None else np.add.reduceat(sample_weight, blocks.offsets[:-1])
        share = None if self.pair_weight == "uniform" else 1.0 / rows
        self._minimise(X, GradedPreferences(y, blocks.offsets, item_weight=sample_weight, query_weight=share))
