"""What the rankers of LightGBM and XGBoost share: training in bags, models as arrays, parameters and grades.

Grades are any real numbers, queries may be drawn into bags, and one training gives the models of every number of trees.
Models are stored as plain arrays and scored here: the library is needed only to fit, and never reads a model file.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Facts, Given, Matrix, PerRow, RowsLike
from hingerank.data.blocks import QueryBlocks, blocks_from_group, blocks_from_qid
from hingerank.data.checks import generator, real, whole
from hingerank.export.attributes import Attribute, Of
from hingerank.export.forest import Forest
from hingerank.export.sums import trees_of
from hingerank.kernels.threads import asked_threads, import_sleeping
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker, path_counts, take_over
from hingerank.rankers.explanation import PATHS, Contributions
from hingerank.rankers.inputs import GivenRows, check_features, check_grades, evaluation_sets
from hingerank.registry import did_you_mean
from hingerank.solvers.run import Certificate

LARGEST_GRADE = 30  # up to here the libraries' own gains 2^grade - 1 serve

# XGBoost's names -> the one used here. XGBoost publishes no list, and ignores names that it does not know.
_XGBOOST = """
    booster verbosity validate_parameters nthread device seed seed_per_iteration num_boost_round
    early_stopping_rounds learning_rate min_split_loss max_depth min_child_weight max_delta_step subsample
    sampling_method colsample_bytree colsample_bylevel colsample_bynode reg_lambda reg_alpha tree_method
    scale_pos_weight updater refresh_leaf process_type grow_policy max_leaves max_bin num_parallel_tree
    monotone_constraints interaction_constraints multi_strategy max_cached_hist_node max_cat_to_onehot
    max_cat_threshold objective base_score eval_metric disable_default_eval_metric lambdarank_pair_method
    lambdarank_num_pair_per_sample lambdarank_normalization lambdarank_score_normalization lambdarank_unbiased
    lambdarank_bias_norm ndcg_exp_gain rate_drop one_drop skip_drop sample_type normalize_type
"""
XGBOOST_NAMES = {name: name for name in _XGBOOST.split()} | {
    "eta": "learning_rate", "gamma": "min_split_loss", "lambda": "reg_lambda", "alpha": "reg_alpha",
    "n_jobs": "nthread", "random_state": "seed", "n_estimators": "num_boost_round", "num_round": "num_boost_round",
    "num_rounds": "num_boost_round",
}  # fmt: skip


def lightgbm_names() -> dict[str, str]:
    """Every name that LightGBM knows -> the first of its names."""
    from lightgbm.basic import _ConfigAliases

    known = _ConfigAliases._get_all_param_aliases()
    return {name: main for main, names in known.items() for name in (main, *names)}


def main_names(params: Given | None, names: Mapping[str, str], library: str) -> Facts:
    """The parameters by their main names; one that is unknown, or given under two names, is a ValueError.

    >>> main_names({"eta": 0.3}, {"eta": "learning_rate", "learning_rate": "learning_rate"}, "XGBoost")
    {'learning_rate': 0.3}
    """
    if not isinstance(params, Mapping | None):
        raise ValueError(f"params must be a mapping of {library}'s parameters to their values, not {params!r}")
    found: Facts = {}
    for name, value in (params or {}).items():
        if name not in names:
            raise ValueError(f"{library} has no parameter {name!r}{did_you_mean(str(name), names)}")
        if names[name] in found:
            raise ValueError(f"params gives {names[name]!r} twice, once as {name!r}: give it once")
        found[names[name]] = value
    return found


class StoppingRows(NamedTuple):
    """Rows to stop on, their grades, the rows of each query, and whether trees after the best number are kept."""

    X: Matrix
    y: np.ndarray
    sizes: np.ndarray
    keep_all: bool = False


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


@dataclass(kw_only=True, eq=False, repr=False)
class TreeRanker(BaseRanker):
    """score(x) = mean over bags of  sum of trees(x).

    An adapter defines ``_train``, which returns a model as the library's own text, ``_read``, which converts that to
    arrays, and ``_open``, by which the library reads it. Rows come in any order of queries; the library gets a query's
    rows together, in the order given.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"models_": Of(Forest, listed=True)}
    _here_only = ("_texts", "_kept")  # of boosters_
    _kept: int | None = field(default=None, init=False)  # how many trees of the texts; None: all
    _others = "params"  # where parameters of the library's own go
    path_parameter = "n_estimators"
    _form_kind = "trees"
    _scaled_type = np.float64  # the order of values counts, and rounding would make neighbours equal
    requires: ClassVar[str]  # the library
    _single: ClassVar[bool]  # whether scores are made in single precision
    _read: Callable[[str, int], Forest] = field(init=False)  # the model as arrays, without the library, or a ValueError
    n_bags: int = 1
    bag_share: float = 1.0
    random_state: int = 0
    scale: str | None = None
    n_jobs: int | None = None
    early_stopping_rounds: int | None = None
    params: Given | None = None

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

    def _open(self, text: str, first: int | None) -> object:
        """The library's model of a text that comes from the library itself; first: of so many trees only."""
        raise NotImplementedError

    def fit(  # type: ignore[override]
        self, X: RowsLike, y: PerRow = None, qid: PerRow = None, *, group: PerRow = None,
        eval_set: Sequence[object] | None = None, eval_group: Iterable[PerRow] | None = None,
    ) -> Self:  # fmt: skip
        """Learn from graded rows, as every ranker here does (see ``BaseRanker.fit``), but without weights of rows.

        The libraries do not treat a row of weight 2 as two rows. With ``early_stopping_rounds=N`` the training stops
        when NDCG@10 of the first set of ``eval_set`` has not risen for N trees, and keeps the best number of trees.
        """
        held, stops = evaluation_sets(eval_set, eval_group), self._stopping() is not None
        if stops and not held:
            raise ValueError("early_stopping_rounds needs eval_set, a list with the rows to stop on")
        self._grow(X, y, qid, group, held[0] if stops else None)
        return self._finish(held)

    def _stopping(self) -> int | None:
        settings = self._settings()
        rounds = settings.get("early_stopping_rounds", settings.get("early_stopping_round"))
        return None if rounds is None else whole("early_stopping_rounds", rounds)

    def _stopping_rows(self, rows: GivenRows, keep_all: bool) -> StoppingRows:
        """The rows to stop on, as the library takes them."""
        X, y, qid = rows
        checked = check_features(self, X, reset=False)
        n_rows = checked.shape[0]
        blocks, grades = blocks_from_qid(qid, n_rows), check_grades(self, y, n_rows)
        checked = self._scaled(checked, np.zeros(n_rows, np.int64) if qid is None else qid)
        return StoppingRows(blocks.gather(checked), blocks.gather(grades), blocks.sizes, keep_all)

    def _grow(
        self, X: RowsLike, y: PerRow, qid: PerRow, group: PerRow, stop_on: GivenRows | None, keep_all: bool = False
    ) -> None:
        """Fit, and stop on rows; keep_all: whether trees after the best number are kept."""
        X, y, blocks, _ = self._learning_rows(X, y, qid, None, group)
        began = time.perf_counter()
        whole("n_estimators", self.n_estimators)
        whole("n_bags", self.n_bags)
        whole("random_state", self.random_state, least=0)
        self.library()
        held = None if stop_on is None else self._stopping_rows(stop_on, keep_all)
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

    _labels = staticmethod(graded_labels)  # of all rows, of those to stop on too

    def _bags(self, blocks: QueryBlocks) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
        """The rows and query sizes of each bag: queries drawn with replacement, or all of them for a single bag."""
        if self.n_bags == 1:
            yield None, blocks.sizes
            return
        if not 0 < real(self.bag_share) <= 1:
            raise ValueError(f"bag_share must be above 0 and at most 1, not {self.bag_share!r}")
        rng, count = generator(self.random_state), max(1, round(self.bag_share * len(blocks)))
        for _ in range(self.n_bags):
            drawn = rng.integers(0, len(blocks), count)
            rows = np.concatenate([np.arange(blocks.offsets[q], blocks.offsets[q + 1]) for q in drawn])
            yield rows, blocks.sizes[drawn]

    def _take(self, texts: list[str]) -> None:
        self.models_, self._texts = [self._read(text, self.n_features_in_) for text in texts], texts

    def _certify(self, ndcg: float, seconds: float) -> None:
        largest = max(len(model.arrays["sizes"]) for model in self.models_)  # its number of trees
        self.n_iter_, self.trace_ = max(1, largest), list[Facts]()
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
        wanted = path_counts("n_estimators", n_estimators)
        patience, stop_on = None, next(iter(evaluation_sets(eval_set, None)), None)
        if stop_on is not None:
            queries = len(blocks_from_qid(stop_on[2], 0 if stop_on[1] is None else np.size(stop_on[1])))
            noise = min(3.0, max(1.0, (50 / queries) ** 0.5))
            patience = self._stopping() or round(noise * max(50, 7.5 / float(self._settings()["learning_rate"])))
        leader = clone(self).set_params(n_estimators=max(wanted), early_stopping_rounds=patience)
        leader._grow(X, y, qid, group, stop_on, keep_all=True)
        leader._finish()
        if group is not None:
            qid = blocks_from_group(group, leader.fingerprint_["rows"]).numbers
        path = [take_over(leader, clone(self).set_params(n_estimators=value)) for value in wanted]
        for ranker in path:
            ranker.models_ = [model.first(ranker.n_estimators) for model in leader.models_]
            ranker._texts, ranker._kept = leader._texts, ranker.n_estimators
            ranker._certify(ranker.score(X, y, qid), leader.certificate_.seconds)
        return path

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
        return [self._open(text, self._kept) for text in self._texts]

    def _scores(self, X):
        threads = asked_threads(self.n_jobs)
        total = sum(model.scores(X, threads) for model in self.models_)
        return np.asarray(total / len(self.models_), np.float64)

    def _body(self):
        return trees_of(self.models_)

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
        try:
            return import_sleeping(cls.requires)
        except ImportError as error:
            if error.name != cls.requires:
                raise
            message = f"{cls.__name__} needs {cls.requires}, which is not installed: pip install {cls.requires}"
            raise ImportError(message, name=cls.requires) from None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
