"""Tree ensembles from the texts of LightGBM and XGBoost, untrusted ones too.

LightGBM's text and XGBoost's JSON of a model, from a library that has just been fitted or from model files of version
0.1, are read without the libraries, which trust their input. Everything that is read is checked; what only describes
the training is skipped.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hingerank.arrays import Facts
from hingerank.export.forest import LARGEST, MISSING_LEFT, ZERO_IS_MISSING, Forest

# objectives whose score is the sum of trees itself, not a function of it
LIGHTGBM_OBJECTIVES = (
    "lambdarank", "rank_xendcg", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom",
)  # fmt: skip
XGBOOST_OBJECTIVES = (
    "rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror",
)  # fmt: skip
NUMBERS = re.compile(r"[-+.0-9eEinf ]*")
MUCH = 1e30


def read_lightgbm(text: str, n_features: int) -> Forest:
    """The forest of LightGBM's text; a ValueError says what is wrong with it.

    A node's decision_type has bit 2 if missing values go left, and 0 (none), 4 (zeros, NaN) or 8 (NaN) for what counts
    as missing. If nothing does, NaN is a zero.
    """
    return _lightgbm_forests(text, n_features, 1, LIGHTGBM_OBJECTIVES)[0]


def read_lightgbm_classes(text: str, n_features: int, n_classes: int) -> list[Forest]:
    """The forests of a multi-class model, one per class: every round has grown a tree for each."""
    return _lightgbm_forests(text, n_features, n_classes, ("multiclass", "custom"))


def _lightgbm_forests(text: str, n_features: int, n_classes: int, objectives: tuple[str, ...]) -> list[Forest]:
    head, *trees = text.split("\nTree=")
    title, _, head = head.partition("\n")
    average = "\naverage_output\n" in head
    words = _entries(head.replace("\naverage_output\n", "\n", 1))
    closed = [tree.partition("\nend of trees\n") for tree in trees]
    if title != "tree" or not trees or [bool(end) for _, end, _ in closed] != [False] * (len(trees) - 1) + [True]:
        raise ValueError("this is not the text of a LightGBM model: tree, then trees from Tree=0 on, then end of trees")
    expected = {"num_class": n_classes, "num_tree_per_iteration": n_classes, "max_feature_idx": n_features - 1}
    for name, value in expected.items():
        if words.get(name) != str(value):
            raise ValueError(f"the LightGBM model has {name}={words.get(name)}, expected {value}")
    if len(trees) % n_classes:
        raise ValueError(f"the LightGBM model has {len(trees)} trees, which {n_classes} classes cannot share")
    objective = words.get("objective", "custom").split(" ")
    if objective[0] not in objectives or "sqrt" in objective:
        raise ValueError(_not_a_sum(" ".join(objective), objectives))
    parts = [_lightgbm_tree(number, tree) for number, (tree, _, _) in enumerate(closed)]
    forests = []
    for k in range(n_classes):
        own = parts[k::n_classes]
        counts = np.array([len(part[0]) for part in own])
        left, right, feature, kind, number, *about = (np.concatenate(columns) for columns in zip(*own, strict=True))
        order, sizes = level_order(counts, left, right)
        if (sizes != counts).any():
            raise ValueError("a tree of the LightGBM model has nodes that its root does not reach")
        if ((kind < 0) | (kind > 10) | (kind % 2 > 0)).any():
            raise ValueError("a tree of the LightGBM model has splits that are not thresholds")
        to_left = np.where(kind < 4, number >= 0, kind & 2 > 0)
        missing = np.where(feature >= 0, MISSING_LEFT * to_left + ZERO_IS_MISSING * (kind & 4 > 0), 0)
        made = _forest(order, sizes, feature, number, missing, about, n_features, average=average, single=False)
        forests.append(made)
    return forests


def _lightgbm_tree(place: int, text: str) -> list[np.ndarray]:
    """Children, features, decision types, numbers, covers and gains of a tree's nodes: inner ones, then leaves."""
    first, _, lines = text.partition("\n")
    words = _entries(lines)
    if first != str(place):
        raise ValueError(f"tree {place} of the LightGBM model has another number")
    for found, what, parameter in (
        (words.get("num_cat"), "splits by categories, not thresholds", "categorical_feature"),
        (words.get("is_linear", "0"), "linear models in its leaves, not numbers", "linear_tree"),
    ):
        if found != "0":
            raise ValueError(f"tree {place} of the LightGBM model has {what}: leave out the parameter {parameter}")
    (leaves,) = _numbers(words, "num_leaves", int, 1)
    if leaves < 1:
        raise ValueError(f"tree {place} of the LightGBM model has {leaves} leaves")
    inner = leaves - 1
    children = [_numbers(words, name, int, inner) for name in ("left_child", "right_child")]
    feature, kind = (_numbers(words, name, int, inner) for name in ("split_feature", "decision_type"))
    if any(((child >= inner) | (child < -leaves)).any() for child in children) or (feature < 0).any():
        raise ValueError(f"tree {place} of the LightGBM model has a child or a feature outside of it")
    none, zero = np.full(leaves, -1), np.zeros(leaves, np.int64)
    left, right = (np.append(np.where(child < 0, inner - 1 - child, child), none) for child in children)
    threshold = np.clip(_numbers(words, "threshold", float, inner), -LARGEST, LARGEST)  # inf: all but missing values
    number = np.append(threshold, _numbers(words, "leaf_value", float, leaves))
    lone = inner == 0 and not words.get("leaf_count")  # LightGBM 4.5 does not count the rows of an only leaf
    count = zero if lone else _numbers(words, "leaf_count", int, leaves)
    cover = np.append(_numbers(words, "internal_count", int, inner), count)
    gain = np.append(np.clip(_numbers(words, "split_gain", float, inner), 0.0, MUCH), zero)
    return [left, right, np.append(feature, none), np.append(kind, zero), number, cover, gain]


def _entries(lines: str) -> dict[str, str]:
    """name -> value by line; blank lines are skipped."""
    words: dict[str, str] = {}
    for line in filter(None, lines.split("\n")):
        name, equals, value = line.partition("=")
        if not equals or name in words:
            raise ValueError(f"the LightGBM model has a line without a value, or one given twice: {line[:80]!r}")
        words[name] = value
    return words


def _numbers(words: dict[str, str], name: str, kind: type[int] | type[float], count: int) -> np.ndarray:
    text = words.get(name, "")
    try:
        if not NUMBERS.fullmatch(text):
            raise ValueError(text)
        array = np.array([kind(word) for word in text.split()], np.int64 if kind is int else np.float64)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} of a tree of the LightGBM model is not a list of numbers: {text[:80]!r}") from None
    if len(array) != count:
        raise ValueError(f"{name} of a tree of the LightGBM model has {len(array)} numbers, expected {count}")
    return array


def read_xgboost(text: str, n_features: int) -> Forest:
    """The forest of XGBoost's JSON; a ValueError says what is wrong with it.

    XGBoost goes left if x < t in single precision: that is, if x is at most the number before t.
    """
    try:
        learner = json.loads(text, object_pairs_hook=_once)["learner"]
        about, booster = learner["learner_model_param"], learner["gradient_booster"]
        name, objective, columns = booster["name"], learner["objective"]["name"], about["num_feature"]
        if name not in ("gbtree", "dart") or columns != str(n_features):
            raise ValueError(f"it is a {name!r} of {columns} features, expected a 'gbtree' of {n_features}")
        if objective not in XGBOOST_OBJECTIVES:
            raise ValueError(_not_a_sum(objective, XGBOOST_OBJECTIVES))
        model = booster["gbtree"]["model"] if name == "dart" else booster["model"]
        trees, of_class = model["trees"], model["tree_info"]
        weights = booster["weight_drop"] if name == "dart" else model.get("weight_drop", [])
        if about["num_class"] not in ("0", "1") or any(of_class) or not 0 < len(trees) == len(of_class):
            raise ValueError("it has no trees, or trees of several classes")
        start = float(np.float32(about["base_score"].removeprefix("[").removesuffix("]")))
        weights = _array(weights or [1.0] * len(trees), (int, float), np.float32)  # those of dropout
        parts = [_xgboost_tree(tree, weight) for tree, weight in zip(trees, weights, strict=True)]
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"this is not the JSON text of an XGBoost model: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"the XGBoost model cannot be read: {error}") from None
    counts, deleted = np.array([len(part[0]) for part in parts]), np.array([int(part.pop()) for part in parts])
    left, right, parent, feature, to_left, number, *about = map(np.concatenate, zip(*parts, strict=True))
    order, sizes = level_order(counts, left, right)
    if (counts - sizes != deleted).any():
        raise ValueError("a tree of the XGBoost model has nodes that its root does not reach")
    inner = left >= 0
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    for child in (left, right):
        if (parent[(starts + child)[inner]] != (np.arange(len(left)) - starts)[inner]).any():
            raise ValueError("a tree of the XGBoost model has a node whose parent does not list it as a child")
    if (feature[inner] < 0).any():
        raise ValueError(f"a tree splits by a feature that is not among the {n_features} features")
    missing, number = np.where(inner, MISSING_LEFT * to_left, 0), number.astype(np.float64)
    return _forest(order, sizes, np.where(inner, feature, -1), number, missing, about, n_features, start, single=True)


def _xgboost_tree(tree: Facts, weight: np.float32) -> list[Any]:
    """Children, parents, features, directions of missing values, numbers, covers and gains of a tree's nodes, and the
    number of deleted nodes."""
    whole = [
        _array(tree[part], (int, bool), np.int64)
        for part in ("left_children", "right_children", "parents", "split_indices", "default_left")
    ]
    number, cover, gain = (
        _array(tree[part], (int, float), np.float32) for part in ("split_conditions", "sum_hessian", "loss_changes")
    )
    about = tree["tree_param"]
    count = int(about["num_nodes"])
    if (
        {count, len(cover), len(gain), *map(len, whole)} != {len(number)}
        or count < 1
        or about["size_leaf_vector"] not in ("0", "1")
    ):
        raise ValueError("a tree has arrays of the wrong length")
    if ((whole[-1] < 0) | (whole[-1] > 1)).any() or tree["categories"] or any(tree["split_type"]):
        raise ValueError("a tree has splits that are not thresholds")
    with np.errstate(all="ignore"):  # numbers that are not finite are refused later
        number = np.where(whole[0] < 0, weight * number, np.nextafter(number, np.float32(-np.inf)))
    return [*whole, number, cover, np.where(whole[0] < 0, 0.0, np.clip(gain, 0.0, MUCH)), int(about["num_deleted"])]


def _array(values: object, kinds: tuple[type, ...], dtype: DTypeLike) -> np.ndarray:
    if not isinstance(values, list) or not {type(value) for value in values} <= set(kinds):
        raise ValueError("a tree has an entry that is not a list of numbers")
    with np.errstate(over="ignore"):
        return np.array(values, dtype)


def _once(pairs: Iterable[tuple[str, object]]) -> Facts:
    entries: Facts = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"{name!r} is given twice")
        entries[name] = value
    return entries


def _not_a_sum(objective: object, known: tuple[str, ...]) -> str:
    return f"the objective {objective!r} does not score by the sum of trees; those that do are {', '.join(known)}"


def _forest(
    order: np.ndarray, sizes: np.ndarray, feature: np.ndarray, number: np.ndarray, missing: np.ndarray,
    about: list[np.ndarray], n_features: int, start: float = 0.0, average: bool = False, *, single: bool,
) -> Forest:  # fmt: skip
    """The forest of nodes not yet in level order; about: their covers and gains."""
    feature = np.minimum(feature, n_features).astype(np.int32)  # too large stays too large, and is refused
    cover, gain = (values.astype(np.float32) for values in about)
    arrays = {"sizes": sizes, "feature": feature, "number": number, "missing": missing.astype(np.uint8)}
    arrays |= {"cover": cover, "gain": gain}
    arrays = {name: array if name == "sizes" else array[order] for name, array in arrays.items()}
    return Forest(arrays, n_features, start, average, single=single)


def level_order(counts: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of all trees in level order, tree after tree, and how many of each tree its root reaches.

    Parameters
    ----------
    counts : the nodes of each tree, of which the first is the root
    left, right : for the nodes of all trees, one tree after another, their children's numbers in the tree; -1 in a leaf
    """
    starts, size = np.cumsum(counts) - counts, np.repeat(counts, counts)
    within = (np.minimum(left, right) >= -1) & (np.maximum(left, right) < size)
    if not (within & ((left < 0) == (right < 0))).all():
        raise ValueError("a tree has a child outside of it, or a node with a single child")
    level, tree = starts, np.arange(len(counts))
    levels, trees, reached = [level], [tree], np.zeros(len(left), bool)
    while len(level):
        reached[level] = True
        inner = left[level] >= 0
        level, tree = level[inner], np.repeat(tree[inner], 2)
        level = np.column_stack((left[level], right[level])).ravel() + starts[tree]
        if reached[level].any() or len(np.unique(level)) < len(level):
            raise ValueError("a tree has a node with two parents, or a cycle")
        levels.append(level)
        trees.append(tree)
    tree = np.concatenate(trees)
    order = np.concatenate(levels)[np.argsort(tree, kind="stable")]
    return order, np.bincount(tree, minlength=len(counts))
