"""LambdaMART by LightGBM and XGBoost, as rankers like the others, and what the two adapters share.

Grades are any real numbers, queries may be drawn into bags, and one training gives the models of every number of trees.
Models are stored as plain arrays and scored here: the library is needed only to fit, and never reads a model file.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Facts, Matrix, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks, blocks_from_qid
from hingerank.data.checks import whole
from hingerank.export.attributes import Attribute, Of
from hingerank.export.forest import Forest, read_lightgbm, read_xgboost
from hingerank.export.forms import trees_of
from hingerank.kernels.threads import asked_threads, threads_for
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker, take_over
from hingerank.rankers.explanation import PATHS, Contributions
from hingerank.rankers.inputs import GivenRows, check_features, check_grades, evaluation_sets
from hingerank.rankers.tree_parameters import (
    StoppingRows,
    graded_labels,
    lightgbm_names,
    main_names,
    tree_library,
    xgboost_names,
    xgboost_text,
)  # fmt: skip
from hingerank.solvers.run import Certificate


class TreeRanker(BaseRanker):
    """score(x) = mean over bags of  sum of trees(x).

    An adapter defines ``_train``, which returns a model as the library's own text, ``_read``, which converts that to
    arrays, ``_open``, by which the library reads it, and ``_cut``, which keeps a model's first trees. Rows come in any
    order of queries; the library gets a query's rows together, in the order given.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"models_": Of(Forest, listed=True)}
    _here_only = ("_texts", "_kept")  # of boosters_
    _kept: int | None = None  # how many trees of the texts; None: all
    _rows_to_stop: tuple[GivenRows, bool] | None = None  # during a fit: the argument of `_fit_until`
    _others = "params"  # where parameters of the library's own go
    path_parameter = "n_estimators"
    _scaled_type = np.float64  # the order of values counts, and rounding would make neighbours equal
    requires: str  # the library
    _single: bool  # whether scores are made in single precision

    def _train(
        self, X: Matrix, y: np.ndarray, sizes: np.ndarray, gains: np.ndarray | None, seed: int,
        held: StoppingRows | None,
    ) -> str:  # fmt: skip
        """The text of a model; gains: None for 2^y - 1, else what each grade 0, 1, 2, ... is worth.

        held: rows on which the training stops when ``early_stopping_rounds`` more trees did not make them better.
        """
        raise NotImplementedError

    def _settings(self) -> Facts:
        """The library's parameters by their main names: those of the constructor, over which those of params go."""
        raise NotImplementedError

    def _read(self, text: str, n_features: int) -> Forest:
        """The model as arrays, without the library; a ValueError where the text is no such model."""
        raise NotImplementedError

    def _open(self, text: str) -> object:
        """The library's model of a text that comes from the library itself."""
        raise NotImplementedError

    def _cut(self, model: object, n_estimators: int) -> str:
        """The text of the model's first trees."""
        raise NotImplementedError

    def fit(  # type: ignore[override]
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, *, group: PerRow = None,
        eval_set: Sequence[object] | None = None, eval_group: Iterable[PerRow] | None = None,
    ) -> Self:  # fmt: skip
        """Learn from graded rows, as every ranker here does (see ``BaseRanker.fit``), but without weights of rows.

        The libraries do not treat a row of weight 2 as two rows. With ``early_stopping_rounds=N`` the training stops
        when NDCG@10 of the first set of ``eval_set`` has not risen for N trees, and keeps the best number of trees.
        """
        rows = None
        if self._stopping() is not None:
            sets = evaluation_sets(eval_set, eval_group)
            if not sets:
                raise ValueError("early_stopping_rounds needs eval_set, a list with the rows to stop on")
            rows = sets[0], False
        return self._fit_until(rows, X, y, qid, group=group, eval_set=eval_set, eval_group=eval_group)

    def _fit_until(self, rows: tuple[GivenRows, bool] | None, *given: Any, **more: Any) -> Self:
        """Fit, and stop on rows; None: do not stop. The second value: whether trees after the best number are kept."""
        self._rows_to_stop = rows
        try:
            return super().fit(*given, **more)
        finally:
            self.__dict__.pop("_rows_to_stop", None)

    def _stopping(self) -> int | None:
        rounds = self._settings().get("early_stopping_rounds", self._settings().get("early_stopping_round"))
        return None if rounds is None else whole("early_stopping_rounds", rounds)

    def _patience(self, rows: GivenRows) -> int:
        """Trees without a better NDCG@10 of these rows after which a path's training stops."""
        queries = len(blocks_from_qid(rows[2], 0 if rows[1] is None else np.size(rows[1])))
        noise = min(3.0, max(1.0, (50 / queries) ** 0.5))
        return self._stopping() or round(noise * max(50, 7.5 / float(self._settings()["learning_rate"])))

    def _held(self) -> StoppingRows | None:
        """The rows to stop on, as the library takes them."""
        if self._rows_to_stop is None:
            return None
        (X, y, qid), keep_all = self._rows_to_stop
        checked = check_features(self, X, reset=False)
        blocks = blocks_from_qid(qid, checked.shape[0])
        checked = self._scaled(checked, np.zeros(checked.shape[0], np.int64) if qid is None else qid)
        return StoppingRows(
            blocks.gather(checked), blocks.gather(check_grades(self, y, checked.shape[0])), blocks.sizes, keep_all
        )

    def _fit(self, X, y, blocks, sample_weight):
        began = time.perf_counter()
        whole("n_estimators", self.n_estimators)
        whole("n_bags", self.n_bags)
        self.library()
        held = self._held()
        grades, gains = self._labels(y if held is None else np.concatenate([y, held.y]))
        if held is not None:
            held, grades = held._replace(y=grades[len(y) :]), grades[: len(y)]
        texts = []
        for seed, (rows, sizes) in enumerate(self._bags(blocks), self.random_state):
            bag, labels = (X, grades) if rows is None else (X[rows], grades[rows])
            texts.append(self._train(bag, labels, sizes, gains, seed, held))
        seconds, self._kept = time.perf_counter() - began, None
        self._take(texts)
        self._certify(evaluate(y, self._scores(X), blocks.numbers, "ndcg@10")["ndcg@10"], seconds)

    def _labels(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The grades of all rows, of those to stop on too, as the library takes them, and what each is worth."""
        return graded_labels(y)

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
        self.models_, self._texts = [self._read(text, self.n_features_in_) for text in texts], texts

    def _certify(self, ndcg: float, seconds: float) -> None:
        self.n_iter_, self.trace_ = max(1, self._n_trees()), list[Facts]()
        self.certificate_ = Certificate("training ndcg@10", ndcg, 0.0, "trained", self.n_iter_, seconds)

    def fit_path(
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, n_estimators: Iterable[int] = (), *,
        group: PerRow = None, eval_set: Sequence[object] | None = None,
    ) -> list[Self]:  # fmt: skip
        """One fitted ranker for every number of trees, in the order given, all from one training.

        Parameters
        ----------
        X, y, qid, group : as in fit
        n_estimators : numbers of trees
        eval_set : list with the rows for early stopping; None for no early stopping
            The training stops when NDCG@10 has not risen there for ``early_stopping_rounds`` trees. If that is None, it
            is 7.5 / learning rate, at least 50, and up to three times that if there are few queries, on which NDCG is
            noisy. A ranker of more trees than were grown has all that were grown.
        """
        wanted = [whole("n_estimators", value) for value in n_estimators]
        if not wanted:
            raise ValueError("n_estimators is empty: give numbers of trees, such as [10, 30, 100]")
        held = evaluation_sets(eval_set, None)
        patience = self._patience(held[0]) if held else None
        leader = clone(self).set_params(n_estimators=max(wanted), early_stopping_rounds=patience)
        leader._fit_until((held[0], True) if held else None, X, y, qid, group=group)
        qid = qid if group is None else np.repeat(np.arange(np.size(group)), np.asarray(group))
        path = [take_over(leader, clone(self).set_params(n_estimators=value)) for value in wanted]
        for ranker in path:
            ranker.models_ = [model.first(ranker.n_estimators) for model in leader.models_]
            ranker._texts, ranker._kept = leader._texts, ranker.n_estimators
            ranker._certify(ranker.score(X, y, qid), leader.certificate_.seconds)
        return path

    def _n_trees(self) -> int:
        """Trees of the largest model."""
        return max(len(model.arrays["sizes"]) for model in self.models_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """What the splits by each feature gained, as fractions of all gains; the mean over bags."""
        check_is_fitted(self)
        gains = np.mean([model.importances() for model in self.models_], axis=0)
        return gains / gains.sum() if gains.sum() > 0 else gains

    @property
    def boosters_(self) -> list[object]:
        """The models as the library's own objects, of a ranker that was fitted and not loaded from a file."""
        if not getattr(self, "_texts", None):
            raise AttributeError("boosters_ exist only after fit: model files hold the trees, not the library's models")
        return [self._open(t if self._kept is None else self._cut(self._open(t), self._kept)) for t in self._texts]

    def _scores(self, X):
        threads = asked_threads(self.n_jobs)
        total = sum(model.scores(X, threads) for model in self.models_)
        return np.asarray(total / len(self.models_), np.float64)

    def _body(self):
        return trees_of(self.models_)

    def _form_kind(self):
        return "trees"

    def _state(self):
        state = super()._state()
        return state | {"models_": [model.to_state() for model in state["models_"]]} if "models_" in state else state

    def _contributions(self, X, blocks):
        threads = asked_threads(self.n_jobs)
        parts = np.mean([model.contributions(X, threads) for model in self.models_], axis=0)
        return Contributions(parts[:, :-1], parts[:, -1], PATHS, True)

    def _restore(self, state):
        models, n_features = state.get("models_"), state.get("n_features_in_")
        if isinstance(models, list) and models and isinstance(n_features, int):
            state = {**state, "models_": [self._checked(model, n_features) for model in models]}
        super()._restore(state)

    def _checked(self, model: object, n_features: int) -> Forest:
        """The ensemble that a model file holds: arrays, or as version 0.1 wrote it, the bytes of the library's text."""
        try:
            if isinstance(model, np.ndarray) and model.dtype == np.uint8:
                return self._read(model.tobytes().decode(), n_features)
            return Forest.from_state(model, n_features, single=self._single)
        except ValueError as error:
            raise ValueError(f"models_: {error}") from None

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if not self.models_:
            raise ValueError("models_ must not be empty")

    @classmethod
    def library(cls) -> ModuleType:
        """The library, imported; an ImportError says how to get it."""
        return tree_library(cls.requires, cls.__name__)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


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

    requires = "lightgbm"
    _single = False

    def __init__(
        self, n_estimators=100, learning_rate=0.1, num_leaves=31, min_child_samples=20, *, objective="lambdarank",
        n_bags=1, bag_share=1.0, random_state=0, scale=None, n_jobs=None, early_stopping_rounds=None, params=None,
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
        self.n_jobs = n_jobs
        self.early_stopping_rounds = early_stopping_rounds
        self.params = params

    def _form_kind(self):
        if not self.params:
            return "trees"
        zeros = main_names(self.params, lightgbm_names(), "LightGBM").get("zero_as_missing", False)
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

    def _read(self, text, n_features):
        return read_lightgbm(text, n_features)

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
    scale : feature scaling, learnt in fit and stored with the model
    n_jobs : threads; -1 for as many as the limits allow (see ``docs/scale.md``), None for one if the data are small
    early_stopping_rounds : trees without a better NDCG@10 on ``eval_set`` after which ``fit`` stops; None: never
    params : other parameters of XGBoost's, by any of its names
        Such as ``{"lambdarank_num_pair_per_sample": 8}``; a name that XGBoost does not know is refused. A constructor
        parameter under another name ("eta", "num_boost_round") overrides the constructor's value.

    Attributes
    ----------
    models_ : the trees of each bag's model, as arrays
    boosters_ : each bag's model as XGBoost's own object, in the process that fitted it
    certificate_ : number of trees, and NDCG@10 of the training rows

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

    def __init__(
        self, n_estimators=100, learning_rate=0.3, max_depth=6, *, objective="rank:ndcg", n_bags=1, bag_share=1.0,
        random_state=0, scale=None, n_jobs=None, early_stopping_rounds=None, params=None,
    ):  # fmt: skip
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.objective = objective
        self.n_bags = n_bags
        self.bag_share = bag_share
        self.random_state = random_state
        self.scale = scale
        self.n_jobs = n_jobs
        self.early_stopping_rounds = early_stopping_rounds
        self.params = params

    def _settings(self):
        return {
            "objective": self.objective, "learning_rate": self.learning_rate, "max_depth": self.max_depth,
            "nthread": self.n_jobs, "verbosity": 0, "num_boost_round": self.n_estimators,
            "early_stopping_rounds": self.early_stopping_rounds,
            **main_names(self.params, xgboost_names(), "XGBoost"),
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
        return xgboost_text(model if held is None or held.keep_all else model[: model.best_iteration + 1])

    def _rows(self, X: RowsLike, threads: int, **about: object) -> object:
        return self.library().DMatrix(X.toarray() if sparse.issparse(X) else X, nthread=threads, **about)

    def _read(self, text, n_features):
        return read_xgboost(text, n_features)

    def _open(self, text):
        model = self.library().Booster({"verbosity": 0})
        model.load_model(bytearray(text.encode()))
        return model

    def _cut(self, model, n_estimators):
        return xgboost_text(model[: min(n_estimators, model.num_boosted_rounds())])
