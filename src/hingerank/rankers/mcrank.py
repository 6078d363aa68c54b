"""McRank: trees classify the rows by grade, and a row's score is the grade that they expect."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from hingerank.export.attributes import Array, Attribute
from hingerank.export.tree_texts import read_lightgbm_classes
from hingerank.kernels.threads import asked_threads
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.explanation import PATHS, Contributions
from hingerank.rankers.trees import LightGBMRanker

MOST_GRADES = 256
PLACES = 32  # on the line from the mean row's sums of trees to a row's, where slopes are taken


class McRank(LightGBMRanker):
    """score(x) = sum over grades k of  k · P(k | x),  P(k | x) = exp(F_k(x)) / sum over l of exp(F_l(x)).

    Each F_k is a sum of trees; by boosting they minimise  - sum over rows of log P(y_i | x_i)  (Li, Burges & Wu 2007).
    Whoever knows the grades ranks perfectly, and DCG's error is bounded by that of the classification. LightGBM grows
    the trees, one for each grade in a round.

    Parameters
    ----------
    n_estimators : rounds
    learning_rate, num_leaves, min_child_samples : as LightGBM names them, with its defaults
    n_bags, bag_share, random_state, scale, n_jobs, early_stopping_rounds, params : as in ``LightGBMRanker``

    Attributes
    ----------
    grades_ : the grades k, ascending
    models_ : the trees of each bag's F_k, as arrays, one bag after the other
    certificate_ : number of rounds, and NDCG@10 of the training rows

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = McRank(n_estimators=50, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.predict([[0.0], [1.0]]).round(1).tolist()
    [0.0, 1.0]
    """

    objective = "multiclass"
    _saved: ClassVar[Mapping[str, Attribute]] = {"grades_": Array("grades", rising=True, least=2)}

    def __init__(
        self, n_estimators=100, learning_rate=0.1, num_leaves=31, min_child_samples=20, *, n_bags=1, bag_share=1.0,
        random_state=0, scale=None, n_jobs=None, early_stopping_rounds=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.n_jobs = n_jobs
        self.early_stopping_rounds = early_stopping_rounds
        self.params = params

    def _labels(self, y):
        self.grades_, numbers = np.unique(y, return_inverse=True)
        if len(self.grades_) > MOST_GRADES:
            raise ValueError(
                f"there are {len(self.grades_):,} different grades, and McRank grows trees for each: "
                f"round them to at most {MOST_GRADES}, or use LightGBMRanker"
            )
        if len(self.grades_) == 1:
            self.grades_ = self.grades_[0] + np.arange(2.0)  # LightGBM wants two classes: no row has the second
        return numbers.ravel().astype(np.float64), None

    def _gradients(self, rows, y, sizes):
        return {"num_class": len(self.grades_)}

    def _watched(self, held, more):
        queries = np.repeat(np.arange(len(held.sizes)), held.sizes)

        def ndcg(probabilities: np.ndarray, rows: Any) -> tuple[str, float, bool]:
            grades = self.grades_[held.y.astype(np.int64)]
            return "ndcg@10", evaluate(grades, probabilities @ self.grades_, queries, "ndcg@10")["ndcg@10"], True

        more["feval"] = ndcg
        return {"metric": "None"}

    def _take(self, texts):
        count = len(self.grades_)
        self._texts = texts
        self.models_ = [f for text in texts for f in read_lightgbm_classes(text, self.n_features_in_, count)]

    def _scores(self, X):
        threads, count = asked_threads(self.n_jobs), len(self.grades_)
        sums = np.array([model.scores(X, threads) for model in self.models_])  # bags · grades, rows
        expected = np.tensordot(self.grades_, softmax(sums.reshape(-1, count, sums.shape[1]), axis=1), (0, 1))
        return expected.mean(axis=0)

    def _contributions(self, X, blocks):
        """With φ_kj what feature j gave to F_k (see LightGBMRanker), the sum over k of φ_kj times the mean slope
        dscore/dF_k = P(k) (k - score) on the line from the mean F to F(x): these add up to the score's change."""
        threads, count = asked_threads(self.n_jobs), len(self.grades_)
        each = [
            self._shares(np.array([model.contributions(X, threads) for model in self.models_[k : k + count]]))
            for k in range(0, len(self.models_), count)
        ]
        parts = np.mean(each, axis=0)
        return Contributions(parts[:, :-1], parts[:, -1], PATHS, True)

    def _shares(self, parts: np.ndarray) -> np.ndarray:
        """Of one bag, parts (grades, rows, features and the mean): (rows, features and the score of the mean)."""
        start, gained, grades = parts[:, :, -1], parts[:, :, :-1].sum(axis=2), self.grades_[:, None]
        slope = np.zeros_like(start)
        for place, weight in zip(*np.polynomial.legendre.leggauss(PLACES), strict=True):
            chances = softmax(start + (place + 1) / 2 * gained, axis=0)
            slope += weight / 2 * chances * (grades - (grades * chances).sum(axis=0))
        base = (grades * softmax(start, axis=0)).sum(axis=0)
        return np.column_stack([np.einsum("kr,krj->rj", slope, parts[:, :, :-1]), base])

    def _body(self):
        return BaseRanker._body(self)

    def _form_kind(self):
        return None

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if len(self.models_) % sizes["grades"]:
            raise ValueError(f"models_ has {len(self.models_)} ensembles, expected {sizes['grades']} for every bag")
