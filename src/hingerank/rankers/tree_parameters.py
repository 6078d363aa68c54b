"""Parameters and grades as LightGBM and XGBoost take them, names of parameters checked; and both libraries."""

import difflib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from hingerank.arrays import Facts, Given, Matrix
from hingerank.kernels.threads import import_sleeping

LARGEST_GRADE = 30  # up to here the libraries' own gains 2^grade - 1 serve

# XGBoost's names -> the one used here. XGBoost publishes no list, and ignores names that it does not know.
_XGBOOST_ALIASES = {
    "eta": "learning_rate", "gamma": "min_split_loss", "lambda": "reg_lambda", "alpha": "reg_alpha",
    "n_jobs": "nthread", "random_state": "seed", "n_estimators": "num_boost_round", "num_round": "num_boost_round",
    "num_rounds": "num_boost_round",
}  # fmt: skip
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


def lightgbm_names() -> dict[str, str]:
    """Every name that LightGBM knows -> the first of its names."""
    from lightgbm.basic import _ConfigAliases

    known = _ConfigAliases._get_all_param_aliases()
    return {name: main for main, names in known.items() for name in (main, *names)}


def xgboost_names() -> dict[str, str]:
    """The same of XGBoost."""
    return {**{name: name for name in _XGBOOST.split()}, **_XGBOOST_ALIASES}


def main_names(params: Given | None, names: Mapping[str, str], library: str) -> Facts:
    """The parameters by their main names; one that is unknown, or given under two names, is a ValueError.

    >>> main_names({"eta": 0.3}, {"eta": "learning_rate", "learning_rate": "learning_rate"}, "XGBoost")
    {'learning_rate': 0.3}
    """
    found: Facts = {}
    for name, value in (params or {}).items():
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(f"{library} has no parameter {name!r}{hint}")
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


def tree_library(requires: str, ranker: str) -> ModuleType:
    """The library, imported; an ImportError says how to get it."""
    try:
        return import_sleeping(requires)
    except ImportError as error:
        if error.name != requires:
            raise
        message = f"{ranker} needs {requires}, which is not installed: pip install {requires}"
        raise ImportError(message, name=requires) from None


def xgboost_text(model: Any) -> str:
    """XGBoost's own text of a model."""
    return model.save_raw("json").decode()
