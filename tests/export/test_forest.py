"""Tree ensembles in model files: whatever a forged one says, it is refused with a reason, or it is a working model."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import hingerank as hr
from hingerank.export import model_file
from hingerank.export.exporting import known_options, written
from hingerank.export.forest import ARRAYS, Forest
from hingerank.export.formats import FORMATS
from hingerank.export.forms import Form, Trees
from hingerank.export.library_trees import level_order, read_lightgbm, read_xgboost
from hingerank.export.model_file import ModelFileError

SAVED = Path(__file__).parent / "saved" / "0.1"
READERS = {"lightgbm": read_lightgbm, "xgboost": read_xgboost}
BOTH = pytest.mark.parametrize("name", list(READERS))
ROWS = np.vstack((np.random.default_rng(0).normal(size=(20, 4)), np.full(4, np.nan), np.zeros(4)))


def old_text(name):
    return safetensors.numpy.load((SAVED / f"{name}.safetensors").read_bytes())["state.models_.0"].tobytes().decode()


def forest(name):
    return READERS[name](old_text(name), 4)


def works_or_says_why(make):
    """Whether `make` gives a forest, which then scores rows; anything but a ValueError with words is a failure."""
    try:
        made = make()
    except ValueError as error:
        assert str(error)
        return False
    assert made.scores(ROWS, 1).shape == (len(ROWS),)
    assert made.contributions(ROWS[:2], 1).shape == (2, ROWS.shape[1] + 1)
    return True


def plain_scores(forest, X):
    """Row by row and node by node, by the definition."""
    sizes, feature, number, missing, _, _ = (forest.arrays[name] for name in ARRAYS)
    zero, kind = (0.0, np.float32) if forest.single else (1e-35, np.float64)
    scores = []
    for x in X.astype(kind):
        total = kind(forest.start)
        for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            inner = np.flatnonzero(feature[start : start + size] >= 0).tolist()
            node = 0
            while feature[start + node] >= 0:
                at, rule = x[feature[start + node]], missing[start + node]
                at = np.nan if rule & 2 and abs(at) <= zero else at
                left = bool(rule & 1) if np.isnan(at) else at <= number[start + node]
                node = 2 * inner.index(node) + (1 if left else 2)
            total = kind(total + kind(number[start + node]))
        scores.append(total / len(sizes) if forest.average else total)
    return np.array(scores, kind)


@BOTH
def test_scores_are_those_of_the_definition(name):
    made = forest(name)
    np.testing.assert_array_equal(made.scores(ROWS, 1), plain_scores(made, ROWS))
    state = made.to_state()
    inner = state["feature"] >= 0
    state["missing"] = np.where(inner, (state["feature"] % 2 * 2 + np.arange(len(inner)) % 2), 0).astype(np.uint8)
    state |= {"average": True, "start": 0.75}
    other = Forest.from_state(state, 4, single=made.single)
    np.testing.assert_array_equal(other.scores(ROWS, 1), plain_scores(other, ROWS))
    assert not np.array_equal(other.scores(ROWS, 1), made.scores(ROWS, 1))


def test_level_order():
    """A tree of five nodes whose root's right child is inner, and one of one node."""
    left, right = np.array([4, -1, 3, -1, -1, -1]), np.array([2, -1, 1, -1, -1, -1])
    order, sizes = level_order(np.array([5, 1]), left, right)
    assert order.tolist() == [0, 4, 2, 3, 1, 5] and sizes.tolist() == [5, 1]
    for node, child, words in [
        (0, 5, "outside"), (0, -2, "outside"), (1, 4, "single child"), (0, 2, "two parents"), (2, 0, "cycle"),
    ]:  # fmt: skip
        wrong = left.copy()
        wrong[node] = child
        with pytest.raises(ValueError, match=words):
            level_order(np.array([5, 1]), wrong, right)


TREE = {  # feature 0 at 0.5; on its right feature 1 at 2
    "sizes": np.array([5], np.int64),
    "feature": np.array([0, -1, 1, -1, -1], np.int32),
    "number": np.array([0.5, 1.0, 2.0, 3.0, 4.0]),
    "missing": np.array([1, 0, 0, 0, 0], np.uint8),
    "cover": np.array([8, 2, 6, 3, 3], np.float32),
    "gain": np.array([5, 0, 2, 0, 0], np.float32),
    "start": 0.0,
    "average": False,
}


def test_a_forest_by_hand():
    made = Forest.from_state(TREE, 2, single=False)
    X = np.array([[0.5, 9.0], [0.6, 2.0], [0.6, 2.1], [np.nan, 9.0], [0.6, np.nan]])
    assert made.scores(X, 1).tolist() == [1.0, 3.0, 4.0, 1.0, 4.0]
    with pytest.raises(ValueError, match="X has 1 features, but the trees were fitted on 2"):
        made.scores(X[:, :1], 1)


def test_contributions_are_shapley_values_of_the_paths():
    """Every order of the features, of which those yet to come send a row both ways by the training rows' proportion."""
    made = Forest.from_state(TREE, 2, single=False)

    def value(x, known):
        if 0 in known:
            right = 0.0 if x[0] <= 0.5 else 1.0
        else:
            right = 6 / 8
        deep = (3.0 if x[1] <= 2 else 4.0) if 1 in known else 3.5
        return (1 - right) * 1.0 + right * deep

    X = np.array([[0.5, 9.0], [0.6, 2.0], [0.6, 2.1]])
    for x, found in zip(X, made.contributions(X, 1)):
        first = (value(x, {0}) - value(x, set()) + value(x, {0, 1}) - value(x, {1})) / 2
        np.testing.assert_allclose(found, [first, value(x, {0, 1}) - value(x, set()) - first, value(x, set())])
    assert made.importances().tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"sizes": np.array([5.0])}, "vector of int64"),
        ({"sizes": np.array([[5]], np.int64)}, "vector of int64"),
        ({"sizes": [5]}, "vector of int64"),
        ({"sizes": np.array([4], np.int64)}, "add up"),
        ({"sizes": np.array([2, 3], np.int64)}, "one leaf more"),
        ({"sizes": np.array([], np.int64)}, "add up"),
        ({"sizes": np.array([6, -1], np.int64)}, "add up"),
        ({"sizes": np.array([2**62] * 3 + [2**62 + 5], np.int64)}, "add up"),
        ({"feature": np.array([0, -1, 2, -1, -1], np.int32)}, "not among the 2 features"),
        ({"feature": np.array([0, -2, 1, -1, -1], np.int32)}, "not among the 2 features"),
        ({"feature": np.array([0, -1, 1, 1, -1], np.int32)}, "one leaf more"),
        ({"feature": np.array([-1, -1, 1, 0, -1], np.int32)}, "level order"),
        ({"feature": np.array([0, -1, -1, 1, -1], np.int32)}, "level order"),
        ({"feature": np.array([0, -1, 1, -1], np.int32)}, "4 features of nodes"),
        ({"feature": np.array([0, -1, 1, -1, -1], np.int64)}, "vector of int32"),
        ({"number": np.array([0.5, 1.0, np.inf, 3.0, 4.0])}, "not finite"),
        ({"number": np.array([0.5, np.nan, 2.0, 3.0, 4.0])}, "not finite"),
        ({"number": np.array([0.5, 1.0, 2.0, 3.0])}, "4 numbers"),
        ({"missing": np.array([4, 0, 0, 0, 0], np.uint8)}, "unknown"),
        ({"missing": np.array([1, 1, 0, 0, 0], np.uint8)}, "belongs to a leaf"),
        (
            {"feature": np.array([1, -1, 1, -1, -1], np.int32), "missing": np.array([2, 0, 0, 0, 0], np.uint8)},
            "contradicts",
        ),
        ({"cover": np.array([8, 2, 6, 3, -3], np.float32)}, "negative covers"),
        ({"gain": np.array([np.nan, 0, 2, 0, 0], np.float32)}, "not finite"),
        ({"gain": np.zeros(4, np.float32)}, "numbers"),
        ({"start": np.inf}, "finite number"),
        ({"start": "0"}, "finite number"),
        ({"average": 1}, "True or False"),
        ({"children": np.array([1])}, "has the entries"),
    ],
)
def test_forged_arrays_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        Forest.from_state(TREE | change, 2, single=False)


def mutated_array(array, rng):
    """The array with something wrong in it, or another order of it."""
    array = array.copy()
    place, other = rng.integers(0, len(array), 2)
    how = rng.integers(0, 7)
    if how <= 2:
        odd = (
            [-(2**31), -2, -1, 0, 1, 2, 3, 4, 2**31 - 1] if array.dtype.kind == "i" else [np.nan, np.inf, -1e308, 1e308]
        )
        with np.errstate(all="ignore"):
            array[place] = rng.integers(0, 256) if array.dtype.kind == "u" else rng.choice(odd)
    elif how == 3:
        array[[place, other]] = array[[other, place]]
    elif how == 4:
        array[[place, other]] += np.array([1, -1]).astype(array.dtype)
    elif how == 5:
        array = array[: rng.integers(0, len(array))]
    else:
        array = np.insert(array, place, array[other])
    return array


@pytest.mark.slow
@BOTH
def test_thousands_of_mutated_arrays(name):
    rng, good, single = np.random.default_rng(0), forest(name).to_state(), forest(name).single
    worked = 0
    for _ in range(3000):
        state = dict(good)
        for part in rng.choice(list(ARRAYS), rng.integers(1, 3), replace=False):
            state[part] = mutated_array(state[part], rng)
        worked += works_or_says_why(lambda state=state: Forest.from_state(state, 4, single=single))
    assert 100 < worked < 2900


def mutated_text(text, rng):
    """The text with characters, numbers or lines changed, repeated, exchanged or left out."""
    how = rng.integers(0, 6)
    at, end = np.sort(rng.integers(0, len(text), 2)).tolist()
    if how == 0:
        return text[:at] + rng.choice(list('0123456789-+.eE=,[]{}" \nnaTé\x00')) + text[at + 1 :]
    if how == 1:
        return text[:at] + text[min(end, at + int(rng.integers(1, 200))) :]
    if how == 2:
        return text[:at]
    pieces = text.split("\n") if "\n" in text else text.split(",")
    i, j = rng.integers(0, len(pieces), 2)
    if how == 3:
        pieces.insert(i, pieces[j])
    elif how == 4:
        pieces[i], pieces[j] = pieces[j], pieces[i]
    else:
        words = pieces[i].split(" ")
        words[rng.integers(0, len(words))] = str(
            rng.choice(["-1", "0", "1", "3", "7", "-8", "99", "1e400", "nan", "-2147483649"])
        )
        pieces[i] = " ".join(words)
    return ("\n" if "\n" in text else ",").join(pieces)


@pytest.mark.slow
@BOTH
def test_thousands_of_mutated_texts(name):
    rng, text = np.random.default_rng(1), old_text(name)
    worked = sum(works_or_says_why(lambda: READERS[name](mutated_text(text, rng), 4)) for _ in range(2000))
    assert 20 < worked < 1980


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("tree\n", "forest\n", "not the text"),
        ("Tree=1", "Tree=7", "another number"),
        ("end of trees", "end", "not the text"),
        ("end of trees\n", "end of trees\n\nTree=5\nnum_leaves=1\nnum_cat=0\nleaf_value=1\n", "not the text"),
        ("num_class=1", "num_class=1\nnum_class=1", "given twice"),
        ("num_leaves=7", "num_leaves=7\nnum_leaves=7000", "given twice"),
        ("left_child=1", "left_child=1 2 3\nleft_child=1", "given twice"),
        ("num_class=1", "num_class=2", "num_class=2"),
        ("max_feature_idx=3", "max_feature_idx=7", "max_feature_idx=7"),
        ("objective=lambdarank", "objective=binary sigmoid:1", "sum of trees"),
        ("objective=lambdarank", "objective=regression sqrt", "sum of trees"),
        ("num_leaves=7", "num_leaves=400", "expected 399"),
        ("num_leaves=7", "num_leaves=0", "0 leaves"),
        ("num_leaves=7", "num_leaves=-3", "-3 leaves"),
        ("num_leaves=7", "num_leaves=7 7", "expected 1"),
        ("num_leaves=7", "num_leaves=99999999999999999999", "not a list of numbers"),
        ("num_cat=0", "num_cat=1", "by categories, not thresholds: leave out the parameter categorical_feature"),
        ("is_linear=0", "is_linear=1", "leaves, not numbers: leave out the parameter linear_tree"),
        ("decision_type=2 2", "decision_type=1 2", "not thresholds"),
        ("decision_type=2 2", "decision_type=14 2", "not thresholds"),
        ("decision_type=2 2", "decision_type=-2 2", "not thresholds"),
        ("decision_type=2 2", "decision_type=6 2", "contradicts"),
        ("split_feature=1 0", "split_feature=1 4", "not among the 4 features"),
        ("split_feature=1 0", "split_feature=1 99999999999", "not among the 4 features"),
        ("split_feature=1 0", "split_feature=1 -1", "outside"),
        ("left_child=1 2 -1", "left_child=1 6 -1", "outside"),
        ("left_child=1 2 -1", "left_child=1 2 -8", "outside"),
        ("left_child=1 2 -1", "left_child=1 0 -1", "two parents"),
        ("left_child=1 2 -1", "left_child=1 1 -1", "two parents"),
        ("left_child=1 2 -1", "left_child=1 2 -4", "two parents"),
        ("left_child=1 2 -1", "left_child=1 2 x", "not a list of numbers"),
        ("threshold=0.39", "threshold=nan 0.39", "not a list of numbers"),
        ("threshold=0.39", "threshold=1e999 ", "expected 6"),
        ("threshold=0.39468839646736459", "threshold=nif", "not a list of numbers"),
        ("leaf_value=0.19999999999999893", "leaf_value=-1e999", "not finite"),
        ("leaf_value=0.19999999999999893", "leaf_value=0.1 0.1", "expected 7"),
    ],
)
def test_forged_lightgbm_texts_are_refused(old, new, words):
    text = old_text("lightgbm")
    assert old in text
    with pytest.raises(ValueError, match=words):
        read_lightgbm(text.replace(old, new, 1), 4)


TREES = ("gradient_booster", "model", "trees")


@pytest.mark.parametrize(
    "place, value, words",
    [
        (("gradient_booster", "name"), "gblinear", "expected a 'gbtree'"),
        (("gradient_booster", "name"), "dart", "not the JSON text"),
        (("gradient_booster", "model", "weight_drop"), [1.0, 0.5], "cannot be read"),
        (("gradient_booster", "model", "weight_drop"), [1.0, 0.5, 1, 1, float("inf")], "not finite"),
        (("gradient_booster", "model", "weight_drop"), {"a": 1}, "list of numbers"),
        ((*TREES, 0, "split_conditions", 0), float(np.finfo(np.float32).min), "not finite"),
        ((*TREES, 0, "split_conditions", 0), -1e300, "not finite"),
        (("objective", "name"), "binary:logistic", "sum of trees"),
        (("learner_model_param", "num_feature"), "9", "of 9 features"),
        (("learner_model_param", "num_class"), "3", "several classes"),
        (("learner_model_param", "base_score"), "[nan]", "finite number"),
        (("learner_model_param", "base_score"), "x", "cannot be read"),
        (("learner_model_param", "base_score"), 3, "not the JSON text"),
        (("gradient_booster", "model", "tree_info", 0), 1, "several classes"),
        ((*TREES,), [], "no trees"),
        ((*TREES,), None, "not the JSON text"),
        ((*TREES, 0), 7, "not the JSON text"),
        ((*TREES, 0, "left_children", 0), 99, "outside"),
        ((*TREES, 0, "left_children", 0), 0, "cycle"),
        ((*TREES, 0, "left_children", 0), 2, "two parents"),
        ((*TREES, 0, "left_children", 0), -2, "outside"),
        ((*TREES, 0, "left_children", 0), -1, "single child"),
        ((*TREES, 0, "left_children", 0), 1.5, "list of numbers"),
        ((*TREES, 0, "left_children", 0), 2**70, "not the JSON text"),
        ((*TREES, 0, "right_children", 1), -7, "outside"),
        ((*TREES, 0, "left_children"), [-1] * 5, "single child"),
        ((*TREES, 0, "parents", 3), 0, "parent"),
        ((*TREES, 0, "parents", 3), -5, "parent"),
        ((*TREES, 0, "tree_param", "num_deleted"), "2", "does not reach"),
        ((*TREES, 0, "tree_param", "num_nodes"), "-5", "wrong length"),
        ((*TREES, 0, "tree_param", "size_leaf_vector"), "3", "wrong length"),
        ((*TREES, 0, "split_indices", 0), 99, "not among the 4 features"),
        ((*TREES, 0, "split_indices", 0), -1, "not among the 4 features"),
        ((*TREES, 0, "split_indices", 0), 2**40, "not among the 4 features"),
        ((*TREES, 0, "split_conditions"), [], "wrong length"),
        ((*TREES, 0, "split_conditions", 0), "0.5", "list of numbers"),
        ((*TREES, 0, "split_conditions", 0), float("nan"), "not finite"),
        ((*TREES, 0, "split_conditions", 4), float("inf"), "not finite"),
        ((*TREES, 0, "split_conditions", 4), 1e300, "not finite"),
        ((*TREES, 0, "default_left", 0), 2, "not thresholds"),
        ((*TREES, 0, "categories"), [1], "not thresholds"),
        ((*TREES, 0, "split_type", 0), 1, "not thresholds"),
    ],
)
def test_forged_xgboost_texts_are_refused(place, value, words):
    forged = json.loads(old_text("xgboost"))
    at = forged["learner"]
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    with pytest.raises(ValueError, match=words):
        read_xgboost(json.dumps(forged), 4)


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"learner":1}', "[" * 100_000, '{"a":1,"a":2}'])
def test_texts_that_are_no_xgboost_models_are_refused(text):
    with pytest.raises(ValueError, match="XGBoost"):
        read_xgboost(text, 4)


def test_a_tree_as_deep_as_its_nodes_is_read():
    """Neither the checks nor the scores recurse."""
    n = 3000
    inner = np.arange(n)
    lines = {
        "num_leaves": [n + 1], "num_cat": [0], "split_feature": 0 * inner, "threshold": inner[::-1],
        "decision_type": 0 * inner, "left_child": [*inner[1:], -1], "right_child": -2 - inner,
        "leaf_value": range(n + 1), "split_gain": 0 * inner, "internal_count": 0 * inner, "leaf_count": [1] * (n + 1),
    }  # fmt: skip
    tree = "\n".join(f"{name}={' '.join(map(str, values))}" for name, values in lines.items())
    head = "tree\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\nobjective=lambdarank\n"
    made = read_lightgbm(f"{head}\nTree=0\n{tree}\n\nend of trees\n", 1)
    X = np.array([[-1.0], [0.0], [0.5], [n - 1.0], [n + 5.0]])
    np.testing.assert_array_equal(made.scores(X, 1), plain_scores(made, X))
    assert made.scores(X, 1)[[0, 4]].tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="3000 levels deep"):
        made.contributions(X, 1)


def rewritten(path, target, change):
    """The model file with other arrays and a digest that matches."""
    content = path.read_bytes()
    entries = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    arrays = change(safetensors.numpy.load(content))
    header = json.loads(entries["hingerank"])
    header["arrays"] = model_file._described(arrays)
    text = json.dumps(header)
    digest = model_file._digest(text, arrays)
    target.write_bytes(safetensors.numpy.save(arrays, {"hingerank": text, "sha256": digest}))
    return target


@BOTH
def test_forged_files_are_model_file_errors(name, tmp_path):
    old = SAVED / f"{name}.safetensors"
    text = old_text(name).replace("left_child", "left_chill")
    forged = {"state.models_.0": np.frombuffer(text.encode(), np.uint8)}
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        hr.load(rewritten(old, tmp_path / "text", lambda arrays: arrays | forged))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        hr.load(
            rewritten(old, tmp_path / "bytes", lambda arrays: arrays | {"state.models_.0": np.full(9, 255, np.uint8)})
        )
    new = Path(hr.load(old).save(tmp_path / "new"))
    for part, value, words in [
        ("feature", np.int32(4), "not among the 4 features"),
        ("number", np.inf, "finite"),
        ("missing", np.uint8(9), "missing values"),
        ("sizes", np.int64(2), "add up"),
    ]:
        place = f"state.models_.0.{part}"

        def change(arrays, place=place, value=value):
            arrays[place] = arrays[place].copy()
            arrays[place][0] = value
            return arrays

        with pytest.raises(ModelFileError, match=words):
            hr.load(rewritten(new, tmp_path / "forged", change))


@BOTH
def test_an_old_model_saved_anew_scores_the_same(name, tmp_path):
    old = hr.load(SAVED / f"{name}.safetensors")
    new = hr.load(old.save(tmp_path / "new"))
    assert np.array_equal(new.predict(ROWS), old.predict(ROWS))
    assert {key.rpartition(".")[2] for key in model_file.read_header(tmp_path / "new")["arrays"]} >= set(ARRAYS)


@pytest.mark.parametrize("to", [to for to, form in FORMATS.items() if "trees" in form.carries])
def test_a_tree_that_is_too_deep_for_nested_texts_is_refused(to):
    """A chain of 1,500 nodes: formats without nesting write it."""
    inner = 2 * np.arange(1500)
    feature, child = np.full(3001, -1), np.full(3001, -1)
    feature[inner], child[inner] = 0, inner + 1
    body = Trees(feature, np.arange(3001.0), child, np.zeros(3001, np.uint8), np.zeros(1, int), 0.0)
    made = Form(["f1"], body), to, "LightGBMRanker", {}, known_options(to, {})
    if to in ("python", "c", "javascript", "onnx"):
        if to == "onnx":
            pytest.importorskip("onnx", reason="onnx is not installed")
        assert written(*made)[2][0]
    else:
        with pytest.raises(
            hr.ExportError, match=f"a tree is too deep for {to}, which nests its nodes: limit its depth"
        ):
            written(*made)


def test_an_only_leaf_need_not_count_its_rows():
    """LightGBM 4.5 leaves its count empty."""
    data = hr.make_letor(10, n_features=3, seed=0)
    ranker = hr.LightGBMRanker(n_estimators=2, min_child_samples=10**6).fit(data)
    text, count = re.subn("leaf_count=.*", "leaf_count=", ranker._texts[0])
    assert count and (read_lightgbm(text, 3).scores(data.X, 1) == ranker.predict(data)).all()
