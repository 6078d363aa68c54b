"""XGBoostRanker: LambdaMART by XGBoost."""

import json
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.rankers.trees.base import TreeRanker, check_tree, threads_for


class XGBoostRanker(TreeRanker):
    """score(x) = mean over bags of  sum of trees(x),  trees grown by XGBoost on the gradients of LambdaRank.

    Parameters
    ----------
    n_estimators, learning_rate, max_depth : as XGBoost names them, with its defaults.
    objective : "rank:ndcg" (LambdaMART), "rank:pairwise", or "rank:map" for grades 0 and 1.
    n_bags : 1, or more for bagged LambdaMART: the mean of models that each learn from queries drawn with replacement.
        bag_share : queries in a bag, as a share of all.
    random_state : the seed. scale : feature scaling learnt in fit and carried in the model.
    params : other parameters of XGBoost's, by its names, such as {"lambdarank_num_pair_per_sample": 8}.

    NaN is a missing value. A zero is a zero, also where a sparse matrix does not store it: sparse rows are made dense.

    Attributes
    ----------
    models_ : XGBoost's JSON text of each bag's model, as bytes; `boosters_` gives them as XGBoost's own objects.
    certificate_ : number of trees, and NDCG@10 of the training rows.

    >>> X, y = np.arange(40.0).reshape(-1, 1), np.tile([0, 1], 20)
    >>> ranker = XGBoostRanker(n_estimators=5).fit(X % 2, y, qid=np.repeat([1, 2], 20))
    >>> ranker.rank([[0.0], [1.0]]).tolist()
    [1, 0]
    """

    requires = "xgboost"

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
        return _text(model)

    def _rows(self, X: Any, **about: Any) -> Any:
        X = X.toarray() if sparse.issparse(X) else X
        return self.library().DMatrix(X, nthread=threads_for(X), **about)

    def _cut(self, model, n_estimators):
        return _text(model[:n_estimators])

    def _parse(self, text):
        check_text(text, self.n_features_in_)
        model = self.library().Booster({"verbosity": 0})
        model.load_model(bytearray(text.encode()))
        return model

    def _raw(self, model, X):
        model.set_param({"nthread": threads_for(X)})
        return model.predict(self._rows(X))


def _text(model: Any) -> str:
    return model.save_raw("json").decode()


def check_text(text: str, n_features: int) -> None:
    """Refuse a text that is not a plain XGBoost model of so many features."""
    try:
        learner = json.loads(text)["learner"]
        booster, columns = learner["gradient_booster"], learner["learner_model_param"]["num_feature"]
        name, trees = booster["name"], booster["model"]["trees"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"this is not the JSON text of an XGBoost model: {error!r}") from None
    if name != "gbtree" or columns != str(n_features):
        raise ValueError(f"the XGBoost model is a {name!r} of {columns} features, expected a 'gbtree' of {n_features}")
    for tree in trees:
        left, right, feature = (
            np.array(tree[part], np.int64) for part in ("left_children", "right_children", "split_indices")
        )
        lengths = {len(left), *(len(tree[part]) for part in ("base_weights", "split_conditions", "default_left"))}
        if lengths != {int(tree["tree_param"]["num_nodes"])} or tree["categories"] or any(tree["split_type"]):
            raise ValueError("a tree of the XGBoost model has arrays of the wrong length, or splits by categories")
        check_tree(left, right, np.where(left < 0, 0, feature), n_features)
