"""McRank: trees classify the rows by grade, and a row's score is the grade that they expect."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.special import expit, softmax

from hingerank.export.attributes import Array, Attribute
from hingerank.export.forest import read_lightgbm_classes
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
    Perfect classification gives a perfect ranking, and the error of DCG is bounded by the error of the classification.
    LightGBM grows the trees, one for each grade in a round.

    The paper's ordinal form has a sum of trees F_k for every grade k but the lowest, and  P(y ≥ k | x) = 1 / (1 +
    exp(-F_k(x))):  the trees minimise the sum over k of the logistic loss of "at least k", which uses the order of the
    grades. The score is again the expected grade,  lowest grade + sum over k of (k - the grade below) · P(y ≥ k | x).

    Parameters
    ----------
    n_estimators : rounds
    learning_rate, num_leaves, min_child_samples : as LightGBM names them, with its defaults
    variant : "classes", as above, or "ordinal"
    n_bags, bag_share, random_state, scale, n_jobs, early_stopping_rounds, params : as in ``LightGBMRanker``

    Attributes
    ----------
    grades_ : the grades k, ascending
    models_ : the trees of each bag's F_k, as arrays, one bag after the other
        With "ordinal" there is no F_k for the lowest grade.
    certificate_ : number of rounds, and NDCG@10 of the training rows

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = McRank(n_estimators=50, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.predict([[0.0], [1.0]]).round(1).tolist()
    [0.0, 1.0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"grades_": Array("grades", rising=True, least=2)}

    def __init__(
        self, n_estimators=100, learning_rate=0.1, num_leaves=31, min_child_samples=20, *, variant="classes", n_bags=1,
        bag_share=1.0, random_state=0, scale=None, n_jobs=None, early_stopping_rounds=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.variant = variant
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.n_jobs = n_jobs
        self.early_stopping_rounds = early_stopping_rounds
        self.params = params

    @property
    def _ordinal(self) -> bool:
        if self.variant not in ("classes", "ordinal"):
            raise ValueError(f"variant must be 'classes' or 'ordinal', not {self.variant!r}")
        return bool(self.variant == "ordinal")

    @property
    def objective(self) -> str:
        """LightGBM's name of the loss."""
        return "custom" if self._ordinal else "multiclass"

    @property
    def _n_sums(self) -> int:
        """The sums of trees in a bag's model."""
        return len(self.grades_) - self._ordinal

    def _labels(self, y):
        self.grades_, numbers = np.unique(y, return_inverse=True)
        if len(self.grades_) > MOST_GRADES:
            raise ValueError(
                f"there are {len(self.grades_):,} different grades, and McRank grows trees for each grade: "
                f"round them to at most {MOST_GRADES}, or use LightGBMRanker"
            )
        if len(self.grades_) == 1:
            next_grade = np.nextafter(self.grades_[0], np.inf) if self._ordinal else self.grades_[0] + 1.0
            self.grades_ = np.array([self.grades_[0], next_grade])  # LightGBM needs two classes: no row has the second
        return numbers.ravel().astype(np.float64), None

    def _gradients(self, rows, y, sizes):
        if not self._ordinal:
            return {"num_class": len(self.grades_)}
        rows.construct()
        if all(rows.feature_num_bin(j) < 2 for j in range(rows.num_feature())):
            raise ValueError("no column has different values, so that no tree can be grown: use variant='classes'")
        above = (y[:, None] > np.arange(self._n_sums)).astype(np.float64)

        def of_thresholds(sums: np.ndarray, rows: object) -> tuple[np.ndarray, np.ndarray]:
            chances = expit(sums.reshape(above.shape))
            slopes, curvatures = chances - above, chances * (1.0 - chances)
            return (slopes, curvatures) if sums.ndim > 1 else (slopes.ravel(), curvatures.ravel())

        return {"objective": of_thresholds, "num_class": self._n_sums}

    def _watched(self, held, more):
        queries = np.repeat(np.arange(len(held.sizes)), held.sizes)

        def ndcg(found: np.ndarray, rows: object) -> tuple[str, float, bool]:
            grades = self.grades_[held.y.astype(np.int64)]
            scores = self._expected(found.reshape(len(held.y), -1).T) if self._ordinal else found @ self.grades_
            return "ndcg@10", evaluate(grades, scores, queries, "ndcg@10")["ndcg@10"], True

        more["feval"] = ndcg
        return {"metric": "None"}

    def _take(self, texts):
        self._texts, count = texts, self._n_sums
        self.models_ = [f for text in texts for f in read_lightgbm_classes(text, self.n_features_in_, count)]

    def _expected(self, sums: np.ndarray) -> np.ndarray:
        """The grades expected where the sums of trees are these (sums, ...)."""
        if self._ordinal:
            return np.asarray(self.grades_[0] + np.tensordot(np.diff(self.grades_), expit(sums), (0, 0)))
        return np.asarray(np.tensordot(self.grades_, softmax(sums, axis=0), (0, 0)))

    def _slopes(self, sums: np.ndarray) -> np.ndarray:
        """d expected grade / d F_k where the sums of trees are these (sums, rows)."""
        if self._ordinal:
            return np.asarray(np.diff(self.grades_)[:, None] * expit(sums) * expit(-sums))
        return np.asarray(softmax(sums, axis=0) * (self.grades_[:, None] - self._expected(sums)))

    def _scores(self, X):
        threads, count = asked_threads(self.n_jobs), self._n_sums
        sums = np.array([model.scores(X, threads) for model in self.models_])  # bags · sums, rows
        return self._expected(np.swapaxes(sums.reshape(-1, count, sums.shape[1]), 0, 1)).mean(axis=0)

    def _contributions(self, X, blocks):
        """With φ_kj the contribution of feature j to F_k (see LightGBMRanker), the sum over k of φ_kj times the mean
        slope dscore/dF_k on the line from the mean F to F(x): these add up to the score's change."""
        threads, count = asked_threads(self.n_jobs), self._n_sums
        each = [
            self._shares(np.array([model.contributions(X, threads) for model in self.models_[k : k + count]]))
            for k in range(0, len(self.models_), count)
        ]
        parts = np.mean(each, axis=0)
        return Contributions(parts[:, :-1], parts[:, -1], PATHS, True)

    def _shares(self, parts: np.ndarray) -> np.ndarray:
        """Of one bag, parts (sums, rows, features and the mean): (rows, features and the score of the mean)."""
        start, gained = parts[:, :, -1], parts[:, :, :-1].sum(axis=2)
        slope = np.zeros_like(start)
        for place, weight in zip(*np.polynomial.legendre.leggauss(PLACES), strict=True):
            slope += weight / 2 * self._slopes(start + (place + 1) / 2 * gained)
        return np.column_stack([np.einsum("kr,krj->rj", slope, parts[:, :, :-1]), self._expected(start)])

    def _body(self):
        return BaseRanker._body(self)

    def _form_kind(self):
        return None

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if len(self.models_) % self._n_sums:
            raise ValueError(f"models_ has {len(self.models_)} ensembles, expected {self._n_sums} for every bag")
