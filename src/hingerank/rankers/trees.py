"""LambdaMART by LightGBM and XGBoost, as rankers like the others, and what the two adapters share.

Grades are any real numbers, queries may be drawn into bags, and one training gives the models of every number of trees.
What the library has learnt is kept as plain arrays, which are scored here: the library is needed to fit, and nothing
else, and never sees a model file.
"""

import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from hingerank.data.blocks import QueryBlocks
from hingerank.data.checks import whole
from hingerank.export.forest import Forest
from hingerank.export.forms import trees_of
from hingerank.export.tree_texts import read_lightgbm, read_xgboost
from hingerank.kernels.threads import thread_count
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker, take_over
from hingerank.solvers.run import Certificate

SMALL = 1 << 18  # numbers in X below which one thread is quicker than several
LARGEST_GRADE = 30  # up to here the libraries' own gains 2^grade - 1 serve


class TreeRanker(BaseRanker):
    """score(x) = mean over bags of  sum of trees(x).

    An adapter defines ``_train``, which gives a model as the library's own text, ``_read``, which makes arrays of one,
    ``_open``, which has the library read one, and ``_cut``, which keeps a model's first trees. Rows come in any order
    of queries; the library sees a query's rows together, in the order given.
    """

    _fitted = ("models_",)
    path_parameter = "n_estimators"
    requires: str  # the library
    _single: bool  # whether scores are made in single precision

    def _train(self, X: Any, y: np.ndarray, sizes: np.ndarray, gains: np.ndarray | None, seed: int) -> str:
        """The text of a model; gains: None for 2^y - 1, else what each grade 0, 1, 2, ... is worth."""
        raise NotImplementedError

    def _read(self, text: str) -> Forest:
        """The model as arrays, without the library; a ValueError where the text is no such model."""
        raise NotImplementedError

    def _open(self, text: str) -> Any:
        """The library's model of a text that comes from the library itself."""
        raise NotImplementedError

    def _cut(self, model: Any, n_estimators: int) -> str:
        """The text of the model's first trees."""
        raise NotImplementedError

    def fit(  # type: ignore[override]
        self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, eval_set: Any = None, eval_group: Any = None
    ) -> Any:
        """Learn from graded rows, as every ranker here does (see ``BaseRanker.fit``), but without weights of rows.

        The libraries' weights do not count a row of weight 2 as two rows. ``eval_set`` is scored and never stops the
        training.
        """
        return super().fit(X, y, qid, group=group, eval_set=eval_set, eval_group=eval_group)

    def _fit(self, X, y, blocks, sample_weight):
        began = time.perf_counter()
        for name in ("n_estimators", "n_bags"):
            whole(name, getattr(self, name))
        self.library()
        grades, gains = graded_labels(y)
        texts = []
        for seed, (rows, sizes) in enumerate(self._bags(blocks), self.random_state):
            bag, labels = (X, grades) if rows is None else (X[rows], grades[rows])
            texts.append(self._train(bag, labels, sizes, gains, seed))
        seconds = time.perf_counter() - began
        self._take(texts)
        self._certify(evaluate(y, self._scores(X), blocks.numbers, "ndcg@10")["ndcg@10"], seconds)

    def _bags(self, blocks: QueryBlocks) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
        """The rows and query sizes of each bag: queries drawn with replacement, or all of them for a single bag."""
        if self.n_bags == 1:
            yield None, blocks.sizes
            return
        if not 0 < self.bag_share <= 1:
            raise ValueError(f"bag_share must be above 0 and at most 1, not {self.bag_share!r}")
        rng, count = np.random.default_rng(self.random_state), max(1, round(self.bag_share * len(blocks)))
        for _ in range(self.n_bags):
            drawn = rng.integers(0, len(blocks), count)
            rows = np.concatenate([np.arange(blocks.offsets[q], blocks.offsets[q + 1]) for q in drawn])
            yield rows, blocks.sizes[drawn]

    def _take(self, texts: list[str]) -> None:
        self.models_, self._texts = [self._read(text) for text in texts], texts

    def _certify(self, ndcg: float, seconds: float) -> None:
        self.n_iter_, self.trace_ = int(self.n_estimators), list[Any]()
        self.certificate_ = Certificate("training ndcg@10", ndcg, 0.0, "converged", self.n_iter_, seconds)

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, n_estimators: Iterable[int] = (), *, group: Any = None
    ) -> list[Any]:
        """One fitted ranker for every number of trees, in the order given, all from one training."""
        wanted = [whole("n_estimators", value) for value in n_estimators]
        if not wanted:
            raise ValueError("n_estimators is empty: give numbers of trees, such as [10, 30, 100]")
        leader = clone(self).set_params(n_estimators=max(wanted)).fit(X, y, qid, group=group)
        qid = qid if group is None else np.repeat(np.arange(len(group)), group)
        path = [take_over(leader, clone(self).set_params(n_estimators=value)) for value in wanted]
        boosters = leader.boosters_
        for ranker in path:
            ranker._take([self._cut(model, ranker.n_estimators) for model in boosters])
            ranker._certify(ranker.score(X, y, qid), leader.certificate_.seconds)
        return path

    @property
    def boosters_(self) -> list[Any]:
        """The models as the library's own objects, of a ranker that was fitted and not loaded from a file."""
        if not getattr(self, "_texts", None):
            raise AttributeError("boosters_ come from fit: a model file holds the trees, but not the library's models")
        return [self._open(text) for text in self._texts]

    def _scores(self, X):
        threads = threads_for(X)
        total = self.models_[0].scores(X, threads)
        for model in self.models_[1:]:
            total = total + model.scores(X, threads)
        return np.asarray(total / len(self.models_), np.float64)

    def _body(self):
        return trees_of(self.models_)

    def _state(self):
        state = super()._state()
        return state | {"models_": [model.to_state() for model in state["models_"]]} if "models_" in state else state

    def _restore(self, state):
        super()._restore(state)
        models = getattr(self, "models_", None)
        if not isinstance(models, list) or not models:
            raise ValueError("models_ must be a list of tree ensembles")
        self.models_ = [self._checked(model) for model in models]

    def _checked(self, model: Any) -> Forest:
        """The ensemble that a model file holds: arrays, or as version 0.1 wrote it, the bytes of the library's text."""
        if isinstance(model, np.ndarray) and model.dtype == np.uint8:
            return self._read(model.tobytes().decode())
        return Forest.from_state(model, self.n_features_in_, single=self._single)

    @classmethod
    def library(cls) -> Any:
        """The library, imported; an ImportError says how to get it."""
        try:
            return import_module(cls.requires)
        except ImportError as error:
            if error.name != cls.requires:
                raise
            message = f"{cls.__name__} needs {cls.requires}, which is not installed: pip install {cls.requires}"
            raise ImportError(message, name=cls.requires) from None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def threads_for(X: Any) -> int:
    """One thread where waiting for the others would take longer than the work."""
    return 1 if X.shape[0] * X.shape[1] < SMALL else thread_count()


def graded_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Grades as the libraries take them, and what each is worth in DCG; None where that is their own 2^grade - 1.

    Other grades than whole ones from 0 to 30 are numbered; their gains, 2^grade - 1 from the lowest grade or 0 on, are
    divided by that of the best grade, which NDCG does not notice.
    """
    if (y == np.floor(y)).all() and y.min() >= 0 and y.max() <= LARGEST_GRADE:
        return y, None
    distinct, number = np.unique(y, return_inverse=True)
    above = distinct - min(distinct[0], 0.0)
    return number.ravel().astype(np.float64), np.exp2(above - above[-1]) - np.exp2(-above[-1])


class LightGBMRanker(TreeRanker):
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
    scale : feature scaling learnt in fit and carried in the model
    params : other parameters of LightGBM's, by its names
        Such as ``{"lambdarank_truncation_level": 20}``.

    Attributes
    ----------
    models_ : the trees of each bag's model, as arrays
    boosters_ : each bag's model as LightGBM's own object, in the process that fitted it
    certificate_ : number of trees, and NDCG@10 of the training rows

    Notes
    -----
    NaN is a missing value. Any real grades will do; a query may have up to 10,000 rows (LightGBM's limit).

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = LightGBMRanker(n_estimators=5, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    requires = "lightgbm"
    _single = False

    def __init__(
        self, n_estimators=100, learning_rate=0.1, num_leaves=31, min_child_samples=20, *, objective="lambdarank",
        n_bags=1, bag_share=1.0, random_state=0, scale=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.objective = objective
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.params = params

    def _train(self, X, y, sizes, gains, seed):
        lightgbm = self.library()
        settings = {
            "objective": self.objective, "learning_rate": self.learning_rate, "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples, "seed": seed, "num_threads": threads_for(X), "verbosity": -1,
            "deterministic": True, "force_col_wise": True, **(self.params or {}),
        }  # fmt: skip
        if gains is not None:
            settings.setdefault("label_gain", gains.tolist())
        try:
            rows = lightgbm.Dataset(X, y, group=sizes, params=settings, free_raw_data=False)
            model = lightgbm.train(settings, rows, int(self.n_estimators))
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot learn from these rows and parameters: {error}") from error
        return model.model_to_string()

    def _read(self, text):
        return read_lightgbm(text, self.n_features_in_)

    def _open(self, text):
        return self.library().Booster(model_str=text)

    def _cut(self, model, n_estimators):
        return model.model_to_string(num_iteration=n_estimators)


class XGBoostRanker(TreeRanker):
    """score(x) = mean over bags of  sum of trees(x),  trees grown by XGBoost on the gradients of LambdaRank.

    Parameters
    ----------
    n_estimators, learning_rate, max_depth : as XGBoost names them, with its defaults
    objective : "rank:ndcg" (LambdaMART), "rank:pairwise", or "rank:map" for grades 0 and 1
    n_bags : number of models whose mean is taken
        With more than 1, each model learns from queries drawn with replacement.
    bag_share : queries in a bag, as a fraction of all
    random_state : the seed
    scale : feature scaling learnt in fit and carried in the model
    params : other parameters of XGBoost's, by its names
        Such as ``{"lambdarank_num_pair_per_sample": 8}``.

    Attributes
    ----------
    models_ : the trees of each bag's model, as arrays
    boosters_ : each bag's model as XGBoost's own object, in the process that fitted it
    certificate_ : number of trees, and NDCG@10 of the training rows

    Notes
    -----
    NaN is a missing value. A zero is a zero, also where a sparse matrix does not store it: sparse rows are made dense.

    Examples
    --------
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = XGBoostRanker(n_estimators=5).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    requires = "xgboost"
    _single = True

    def __init__(
        self, n_estimators=100, learning_rate=0.3, max_depth=6, *, objective="rank:ndcg", n_bags=1, bag_share=1.0,
        random_state=0, scale=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.objective = objective
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.params = params

    def _train(self, X, y, sizes, gains, seed):
        xgboost = self.library()
        settings = {
            "objective": self.objective, "learning_rate": self.learning_rate, "max_depth": self.max_depth,
            "seed": seed, "nthread": threads_for(X), "verbosity": 0, **(self.params or {}),
        }  # fmt: skip
        if gains is not None:
            settings.setdefault("ndcg_exp_gain", False)
            y = gains[y.astype(np.int64)]
        try:
            model = xgboost.train(settings, self._rows(X, label=y, group=sizes), int(self.n_estimators))
        except xgboost.core.XGBoostError as error:
            raise ValueError(f"XGBoost cannot learn from these rows and parameters: {error}") from error
        return _xgboost_text(model)

    def _rows(self, X: Any, **about: Any) -> Any:
        X = X.toarray() if sparse.issparse(X) else X
        return self.library().DMatrix(X, nthread=threads_for(X), **about)

    def _read(self, text):
        return read_xgboost(text, self.n_features_in_)

    def _open(self, text):
        model = self.library().Booster({"verbosity": 0})
        model.load_model(bytearray(text.encode()))
        return model

    def _cut(self, model, n_estimators):
        return _xgboost_text(model[:n_estimators])


def _xgboost_text(model: Any) -> str:
    return model.save_raw("json").decode()
