"""LightGBMRanker: LambdaMART by LightGBM."""

import re
from typing import Any

import numpy as np

from hingerank.rankers.trees.base import TreeRanker, check_tree, threads_for


class LightGBMRanker(TreeRanker):
    """score(x) = mean over bags of  sum of trees(x),  trees grown by LightGBM on the gradients of LambdaRank.

    Parameters
    ----------
    n_estimators, learning_rate, num_leaves, min_child_samples : as LightGBM names them, with its defaults.
    objective : "lambdarank" (LambdaMART) or "rank_xendcg".
    n_bags : 1, or more for bagged LambdaMART (BL-MART, Ganjisaffar, Caruana & Lopes 2011): the mean of models that each
        learn from queries drawn with replacement. bag_share : queries in a bag, as a share of all.
    random_state : the seed. scale : feature scaling learnt in fit and carried in the model.
    params : other parameters of LightGBM's, by its names, such as {"lambdarank_truncation_level": 20}.

    NaN is a missing value. Any real grades will do; a query may have up to 10,000 rows (LightGBM's limit).

    Attributes
    ----------
    models_ : LightGBM's text of each bag's model, as bytes; `boosters_` gives them as LightGBM's own objects.
    certificate_ : number of trees, and NDCG@10 of the training rows.

    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = LightGBMRanker(n_estimators=5, min_child_samples=1).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    requires = "lightgbm"

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
        return _text(model)

    def _cut(self, model, n_estimators):
        return _text(model, n_estimators)

    def _parse(self, text):
        check_text(text, self.n_features_in_)
        return self.library().Booster(model_str=text)

    def _raw(self, model, X):
        return model.predict(X, num_threads=threads_for(X))


def _text(model: Any, n_estimators: int | None = None) -> str:
    """The model's text, without the sizes in bytes by which LightGBM would jump from tree to tree."""
    return re.sub(r"^tree_sizes=.*\n", "", model.model_to_string(num_iteration=n_estimators), flags=re.MULTILINE)


def check_text(text: str, n_features: int) -> None:
    """Refuse a text that is not a plain LightGBM model of so many features: its reader trusts what it reads."""
    head, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    words = _entries(head)
    expected = {"num_class": "1", "num_tree_per_iteration": "1", "max_feature_idx": str(n_features - 1)}
    if not text.startswith("tree\n") or "tree_sizes" in words:
        raise ValueError("this is not the text of a LightGBM model, in the form in which it is kept here")
    for name, value in expected.items():
        if words.get(name) != value:
            raise ValueError(f"the LightGBM model has {name}={words.get(name)}, expected {value}")
    for tree in trees:
        words = _entries(tree)
        leaves = int(words.get("num_leaves", "0"))
        if leaves < 1 or words.get("num_cat") != "0" or words.get("is_linear", "0") != "0":
            raise ValueError("a tree of the LightGBM model has no leaves, or splits that are not thresholds")
        numbers = {name: np.array(words.get(name, "").split(), np.float64) for name in ("threshold", "decision_type")}
        left, right, feature = (
            np.array(words.get(name, "").split(), np.int64) for name in ("left_child", "right_child", "split_feature")
        )
        inner = leaves - 1
        if {len(left), *map(len, numbers.values())} != {inner} or len(words.get("leaf_value", "").split()) != leaves:
            raise ValueError("a tree's arrays have the wrong lengths")
        check_tree(left, right, feature, n_features)
        if inner and min(left.min(), right.min()) < -leaves:
            raise ValueError("a tree leads to a leaf that it does not have")


def _entries(lines: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines.splitlines())
    return {name: value for name, equals, value in pairs if equals}
