"""What the adapters to tree libraries share: grades, bags of queries, cut models, and model files without code."""

import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from hingerank.data.blocks import QueryBlocks
from hingerank.kernels.threads import thread_count
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.inputs import positive_count
from hingerank.solvers.solution import Certificate

SMALL = 1 << 18
LARGEST_GRADE = 30  # up to here the libraries' own gains 2^grade - 1 serve


class TreeRanker(BaseRanker):
    """score(x) = mean over bags of  sum of trees(x).

    An adapter defines `_train`, which gives a model as the library's own text, `_parse`, which reads one after checking
    it, `_cut`, which keeps a model's first trees, and `_raw`, a model's scores. Rows come in any order of queries; the
    library sees a query's rows together, in the order given.
    """

    _fitted = ("models_",)
    path_parameter = "n_estimators"
    requires: str  # the library

    def _train(self, X: Any, y: np.ndarray, sizes: np.ndarray, gains: np.ndarray | None, seed: int) -> str:
        """The text of a model; gains: None for 2^y - 1, else what each grade 0, 1, 2, ... is worth."""
        raise NotImplementedError

    def _parse(self, text: str) -> Any:
        """The library's model, if the text is one that can be trusted to be read; else a ValueError."""
        raise NotImplementedError

    def _cut(self, model: Any, n_estimators: int) -> str:
        """The text of the model's first trees."""
        raise NotImplementedError

    def _raw(self, model: Any, X: Any) -> np.ndarray:
        """The model's scores."""
        raise NotImplementedError

    def fit(  # type: ignore[override]
        self, X: Any, y: Any = None, qid: Any = None, *, group: Any = None, eval_set: Any = None, eval_group: Any = None
    ) -> Any:
        """Learn from graded rows, as every ranker here does (see BaseRanker.fit), but without weights of rows: the
        libraries' do not count a row of weight 2 as two rows. eval_set is scored and never stops the training."""
        return super().fit(X, y, qid, group=group, eval_set=eval_set, eval_group=eval_group)

    def _fit(self, X, y, blocks, sample_weight):
        began = time.perf_counter()
        for name in ("n_estimators", "n_bags"):
            positive_count(name, getattr(self, name))
        self.library()
        grades, gains = graded_labels(y)
        texts = []
        for seed, (rows, sizes) in enumerate(self._bags(blocks), self.random_state):
            bag, labels = (X, grades) if rows is None else (X[rows], grades[rows])
            texts.append(self._train(bag, labels, sizes, gains, seed))
        training = (X, y, blocks.numbers, time.perf_counter() - began)
        self._take(texts, self.n_estimators, *training)
        if hasattr(self, "_path"):
            whole = self._parsed
            for ranker in self._path:
                ranker._take([self._cut(m, ranker.n_estimators) for m in whole], ranker.n_estimators, *training)

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

    def _take(self, texts: list[str], trees: int, X: Any, y: np.ndarray, query: np.ndarray, seconds: float) -> None:
        self.n_features_in_ = X.shape[1]
        self.models_ = [np.frombuffer(text.encode(), np.uint8).copy() for text in texts]
        self._parsed = [self._parse(text) for text in texts]
        self.n_iter_, self.trace_ = int(trees), list[Any]()
        value = evaluate(y, self._scores(X), query, "ndcg@10")["ndcg@10"]
        self.certificate_ = Certificate("training ndcg@10", value, 0.0, "converged", self.n_iter_, seconds)

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, n_estimators: Iterable[int] = (), *, group: Any = None
    ) -> list[Any]:
        """One fitted ranker for every number of trees, in the order given, all from one training."""
        wanted = [positive_count("n_estimators", value) for value in n_estimators]
        if not wanted:
            raise ValueError("n_estimators is empty: give numbers of trees, such as [10, 30, 100]")
        path = [clone(self).set_params(n_estimators=value) for value in wanted]
        leader = clone(self).set_params(n_estimators=max(wanted))
        leader._path = path
        leader.fit(X, y, qid, group=group)
        shared = {"scaler_", "fingerprint_", "validation_scores_", "feature_names_in_"} & set(leader.__dict__)
        for ranker in path:
            ranker.__dict__.update({name: leader.__dict__[name] for name in shared})
        return path

    @property
    def boosters_(self) -> list[Any]:
        """The models as the library's own objects."""
        return list(self._parsed)

    def _scores(self, X):
        total = self._raw(self._parsed[0], X)
        for model in self._parsed[1:]:
            total = total + self._raw(model, X)
        return np.asarray(total / len(self._parsed), np.float64)

    def _restore(self, state):
        super()._restore(state)
        models = getattr(self, "models_", None)
        if not isinstance(models, list) or not models or any(getattr(m, "dtype", None) != np.uint8 for m in models):
            raise ValueError("models_ must be a list of texts, as bytes")
        self._parsed = [self._parse(model.tobytes().decode()) for model in models]

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


def check_tree(left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int) -> None:
    """Refuse a tree that could lead outside of itself, in a circle, or to a feature that there is not.

    left, right: of each inner node the number of a later inner node, or one below 0 for a leaf.
    """
    nodes = np.arange(len(left))
    if len(right) != len(left) or len(feature) != len(left):
        raise ValueError("a tree's arrays have different lengths")
    for child in (left, right):
        if ((child >= 0) & (child <= nodes)).any() or (child >= len(left)).any():
            raise ValueError("a tree has a child outside of it, or above its parent")
    if ((feature < 0) | (feature >= n_features)).any():
        raise ValueError(f"a tree splits by a feature that the {n_features} are not")
