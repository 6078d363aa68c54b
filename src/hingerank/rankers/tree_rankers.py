"""Rankers whose trees LightGBM or XGBoost grows: LambdaMART by both, GBRank, and McRank."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax

from hingerank.arrays import Facts, Matrix, RowsLike
from hingerank.data.checks import one_of, positive, real, whole
from hingerank.export.attributes import Array, Attribute
from hingerank.export.library_trees import read_lightgbm, read_lightgbm_classes, read_xgboost
from hingerank.kernels.threads import asked_threads, threads_for
from hingerank.losses import squared_hinge
from hingerank.metrics import evaluate
from hingerank.preferences import GradedPreferences
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.explanation import PATHS, Contributions
from hingerank.rankers.trees import XGBOOST_NAMES, StoppingRows, TreeRanker, lightgbm_names, main_names

MOST_GRADES = 256
PLACES = 32  # on the line from the mean row's sums of trees to a row's, where McRank takes slopes


@dataclass(eq=False, repr=False)
class LightGBMTrees(TreeRanker):
    """A ranker whose trees LightGBM grows for its ``objective``, LightGBM's name of the loss."""

    requires = "lightgbm"
    _single = False
    _read = staticmethod(read_lightgbm)
    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_child_samples: int = 20

    @property
    def _form_kind(self):  # type: ignore[override]
        zeros = self._settings().get("zero_as_missing") if self.params else False
        return "zero-trees" if str(zeros).lower() in ("true", "1") else "trees"

    def _settings(self):
        self.library()
        return {
            "objective": self.objective, "learning_rate": self.learning_rate, "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples, "num_threads": self.n_jobs, "verbosity": -1,
            "num_iterations": self.n_estimators, "early_stopping_round": self.early_stopping_rounds,
            "deterministic": True, "force_col_wise": True, **main_names(self.params, lightgbm_names(), "LightGBM"),
        }  # fmt: skip

    def _train(self, X, y, sizes, gains, seed, held):
        lightgbm = self.library()
        settings = {"seed": seed, **self._settings()}
        rounds, stop = whole("n_estimators", settings.pop("num_iterations")), settings.pop("early_stopping_round")
        settings["num_threads"] = threads_for(X.shape[0] * X.shape[1], settings["num_threads"])
        if gains is not None:
            settings.setdefault("label_gain", gains.tolist())
        more: Facts = {}
        try:
            rows = lightgbm.Dataset(X, y, group=sizes, params=settings, free_raw_data=False)
            if held is not None:
                more["valid_sets"] = [lightgbm.Dataset(held.X, held.y, group=held.sizes, reference=rows)]
                more["callbacks"] = [lightgbm.early_stopping(stop, verbose=False)]
                more["keep_training_booster"] = held.keep_all  # else trees after the best number are gone
                settings |= self._watched(held, more)
            model = lightgbm.train({**settings, **self._gradients(rows, y, sizes)}, rows, rounds, **more)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot learn from these rows and parameters: {error}") from error
        best = None if held is None else -1 if held.keep_all else model.best_iteration
        return model.model_to_string(num_iteration=best)

    def _watched(self, held: StoppingRows, more: Facts) -> Facts:
        """Settings by which LightGBM takes NDCG@10 of the rows to stop on; more: arguments of its training."""
        return {"metric": "ndcg", "eval_at": [10]}

    def _gradients(self, rows: Matrix, y: np.ndarray, sizes: np.ndarray) -> Facts:
        """What completes the objective, or stands in for it where its gradients are not LightGBM's own."""
        return {}

    def _open(self, text, first):
        Booster = self.library().Booster
        model = Booster(model_str=text)
        return model if first is None else Booster(model_str=model.model_to_string(num_iteration=first))


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMRanker(LightGBMTrees):
    """score(x) = mean over bags of  sum of trees(x),  trees grown by LightGBM on the gradients of LambdaRank.

    Parameters
    ----------
    n_estimators, learning_rate, num_leaves, min_child_samples : as LightGBM names them, with its defaults
    objective : "lambdarank" (LambdaMART) or "rank_xendcg"
    n_bags : number of models whose mean is taken
        More than 1 is bagged LambdaMART (BL-MART, Ganjisaffar, Caruana & Lopes 2011): each model learns from queries
        drawn with replacement.
    bag_share : queries in a bag, as a fraction of all
    random_state : the seed
    scale : feature scaling, learnt in fit and stored with the model
    n_jobs : threads; -1 for as many as the limits allow (see ``docs/scale.md``), None for one if the data are small
    early_stopping_rounds : trees without a better NDCG@10 on ``eval_set`` after which ``fit`` stops; None: never
    params : other parameters of LightGBM's, by any of its names
        Such as ``{"lambdarank_truncation_level": 20}``; a name that LightGBM does not know is refused. A constructor
        parameter under another name ("eta", "num_iterations") overrides the constructor's value.

    Attributes
    ----------
    models_ : the trees of each bag's model, as arrays
    boosters_ : each bag's model as LightGBM's own object, in the process that fitted it
    certificate_ : number of trees, and NDCG@10 of the training rows

    Notes
    -----
    NaN is a missing value. Grades are any real numbers. A query has at most 10,000 rows (LightGBM's limit).

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = LightGBMRanker(n_estimators=5, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    objective: str = "lambdarank"


@dataclass(eq=False, repr=False)
class XGBoostRanker(TreeRanker):
    """score(x) = mean over bags of  sum of trees(x),  trees grown by XGBoost on the gradients of LambdaRank.

    Parameters
    ----------
    n_estimators, learning_rate, max_depth : as XGBoost names them, with its defaults
    objective : "rank:ndcg" (LambdaMART), "rank:pairwise", or "rank:map" for grades 0 and 1
    n_bags, bag_share, random_state, scale, n_jobs, early_stopping_rounds : as in ``LightGBMRanker``
    params : other parameters of XGBoost's, by any of its names
        Such as ``{"lambdarank_num_pair_per_sample": 8}``; a name that XGBoost does not know is refused. A constructor
        parameter under another name ("eta", "num_boost_round") overrides the constructor's value.

    Attributes
    ----------
    models_, boosters_, certificate_ : as in ``LightGBMRanker``, the second with XGBoost's own objects

    Notes
    -----
    NaN is a missing value. Zeros that a sparse matrix leaves out are zeros, not missing: sparse rows are made dense.

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = XGBoostRanker(n_estimators=5).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    requires = "xgboost"
    _single = True
    _read = staticmethod(read_xgboost)

    n_estimators: int = 100
    learning_rate: float = 0.3
    max_depth: int = 6
    _: KW_ONLY
    objective: str = "rank:ndcg"

    def _settings(self):
        return {
            "objective": self.objective, "learning_rate": self.learning_rate, "max_depth": self.max_depth,
            "nthread": self.n_jobs, "verbosity": 0, "num_boost_round": self.n_estimators,
            "early_stopping_rounds": self.early_stopping_rounds,
            **main_names(self.params, XGBOOST_NAMES, "XGBoost"),
        }  # fmt: skip

    def _train(self, X, y, sizes, gains, seed, held):
        xgboost = self.library()
        settings = {"seed": seed, **self._settings()}
        rounds, stop = whole("n_estimators", settings.pop("num_boost_round")), settings.pop("early_stopping_rounds")
        settings["nthread"] = threads = threads_for(X.shape[0] * X.shape[1], settings["nthread"])
        if gains is not None:
            settings.setdefault("ndcg_exp_gain", False)
            y = gains[y.astype(np.int64)]
            held = None if held is None else held._replace(y=gains[held.y.astype(np.int64)])
        more: Facts = {}
        try:
            if held is not None:
                settings["eval_metric"] = "ndcg@10"
                more["evals"] = [(self._rows(held.X, threads, label=held.y, group=held.sizes), "held")]
                more |= {"early_stopping_rounds": stop, "verbose_eval": False}
            model = xgboost.train(settings, self._rows(X, threads, label=y, group=sizes), rounds, **more)
        except xgboost.core.XGBoostError as error:
            said = str(error).partition("Stack trace")[0].strip()
            raise ValueError(f"XGBoost cannot learn from these rows and parameters: {said}") from error
        model = model if held is None or held.keep_all else model[: model.best_iteration + 1]
        return model.save_raw("json").decode()

    def _rows(self, X: RowsLike, threads: int, **about: object) -> object:
        return self.library().DMatrix(X.toarray() if sparse.issparse(X) else X, nthread=threads, **about)

    def _open(self, text, first):
        model = self.library().Booster({"verbosity": 0})
        model.load_model(bytearray(text.encode()))
        return model if first is None else model[: min(first, model.num_boosted_rounds())]


def _splits(rows: Any) -> bool:
    """Whether LightGBM's Dataset has a column to split by."""
    rows.construct()
    return any(rows.feature_num_bin(j) > 1 for j in range(rows.num_feature()))


@dataclass(kw_only=True, eq=False, repr=False)
class GBRank(LightGBMTrees):
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
    models_, boosters_, certificate_ : as in ``LightGBMRanker``

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = GBRank(n_estimators=5, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    objective = "custom"

    margin: float = 1.0
    alpha: float = 0.0

    def _gradients(self, rows, y, sizes):
        positive("margin", self.margin)
        if not 0.0 <= real(self.alpha) <= 1.0:
            raise ValueError(f"alpha must be a number from 0 (pairs only) to 1 (grades only), not {self.alpha!r}")
        if not _splits(rows):  # one leaf, for which LightGBM needs a loss of its own
            return {"objective": "lambdarank"}
        loss, alpha = squared_hinge(self.margin), self.alpha
        preferences = GradedPreferences(y, np.concatenate(([0], np.cumsum(sizes))))

        def of_pairs(scores: np.ndarray, rows: object) -> tuple[np.ndarray, np.ndarray]:
            at = loss.at(scores, preferences)
            if not alpha:
                return at.gradient, at.diagonal
            return (1 - alpha) * at.gradient + 2 * alpha * (scores - y), (1 - alpha) * at.diagonal + 2 * alpha

        return {"objective": of_pairs}


@dataclass(kw_only=True, eq=False, repr=False)
class McRank(LightGBMTrees):
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

    variant: str = "classes"

    @property
    def _ordinal(self) -> bool:
        return one_of("variant", self.variant, "classes", "ordinal") == "ordinal"

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
        if not _splits(rows):
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
        threads, count, bags = asked_threads(self.n_jobs), self._n_sums, []
        for k in range(0, len(self.models_), count):
            found = np.array([model.contributions(X, threads) for model in self.models_[k : k + count]])
            parts, start = found[:, :, :-1], found[:, :, -1]  # sums, rows and features; sums and rows
            gained, slope = parts.sum(axis=2), np.zeros_like(start)
            for place, weight in zip(*np.polynomial.legendre.leggauss(PLACES), strict=True):
                slope += weight / 2 * self._slopes(start + (place + 1) / 2 * gained)
            bags.append(np.column_stack([np.einsum("kr,krj->rj", slope, parts), self._expected(start)]))
        mean = np.mean(bags, axis=0)
        return Contributions(mean[:, :-1], mean[:, -1], PATHS, True)

    _body, _form_kind = BaseRanker._body, None  # no form has expected grades

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if len(self.models_) % self._n_sums:
            raise ValueError(f"models_ has {len(self.models_)} ensembles, expected {self._n_sums} for every bag")
