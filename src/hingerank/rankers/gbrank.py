"""GBRank: trees on the gradients of a loss of pairs, which are summed here without listing them."""

import numpy as np

from hingerank.losses import squared_hinge
from hingerank.preferences import GradedPreferences
from hingerank.rankers.trees import LightGBMRanker


class GBRank(LightGBMRanker):
    """min over sums of trees s of  sum over pairs (i preferred to j) of  max(0, margin - s_i + s_j)²,  by boosting.

    Every tree is a regression on the rows of violated pairs, whose targets are the scores that would correct them: a
    Newton step of RankSVM's squared hinge with trees in place of weights (Zheng, Chen, Sun & Zha 2007). Scores move by
    learning_rate, where the paper takes a running mean. LightGBM grows the trees; the sums over pairs are made here, in
    O(n log n) for n rows of a query. With alpha the loss is  (1 - alpha) · that sum + alpha · sum over rows of
    (y_i - s_i)²:  preferences and grades together, by steps on the same quadratic bounds (QBRank, Zheng, Zha, Zhang,
    Chapelle, Chen & Sun 2007).

    Parameters
    ----------
    n_estimators, learning_rate, num_leaves, min_child_samples : as LightGBM names them, with its defaults
    margin : by how much a preferred row should be ahead
    alpha : weight of regression on the grades, from 0 (ranking only) to 1
        Grades other than whole numbers from 0 to 30 are numbered for it.
    n_bags, bag_share, random_state, scale, n_jobs, early_stopping_rounds, params : as in ``LightGBMRanker``

    Attributes
    ----------
    models_ : the trees of each bag's model, as arrays
    certificate_ : number of trees, and NDCG@10 of the training rows

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = GBRank(n_estimators=5, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    objective = "custom"

    def __init__(
        self, n_estimators=100, learning_rate=0.1, num_leaves=31, min_child_samples=20, *, margin=1.0, alpha=0.0,
        n_bags=1, bag_share=1.0, random_state=0, scale=None, n_jobs=None, early_stopping_rounds=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.margin = margin
        self.alpha = alpha
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.n_jobs = n_jobs
        self.early_stopping_rounds = early_stopping_rounds
        self.params = params

    def _gradients(self, rows, y, sizes):
        if not self.margin > 0:
            raise ValueError(f"margin must be above 0, not {self.margin!r}")
        if not 0.0 <= self.alpha <= 1.0:
            raise ValueError(f"alpha must be a number from 0 (pairs only) to 1 (grades only), not {self.alpha!r}")
        rows.construct()
        if all(rows.feature_num_bin(j) < 2 for j in range(rows.num_feature())):
            return {
                "objective": "lambdarank"
            }  # no column to split by: one leaf, for which LightGBM needs a loss of its own
        loss, alpha = squared_hinge(self.margin), self.alpha
        preferences = GradedPreferences(y, np.concatenate(([0], np.cumsum(sizes))))

        def of_pairs(scores: np.ndarray, rows: object) -> tuple[np.ndarray, np.ndarray]:
            at = loss.at(scores, preferences)
            if not alpha:
                return at.gradient, at.diagonal
            return (1 - alpha) * at.gradient + 2 * alpha * (scores - y), (1 - alpha) * at.diagonal + 2 * alpha

        return {"objective": of_pairs}
