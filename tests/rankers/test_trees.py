"""LightGBM and XGBoost as rankers: the libraries' own answers, whatever the order of rows, in files without code."""

import importlib.util
import json

import numpy as np
import pytest

import hingerank as hr
from hingerank.rankers import trees
from hingerank.rankers.trees import check_tree, graded_labels


def need(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


CASES = [
    pytest.param(hr.LightGBMRanker, {"min_child_samples": 5}, marks=need("lightgbm"), id="lightgbm"),
    pytest.param(hr.XGBoostRanker, {}, marks=need("xgboost"), id="xgboost"),
]
BOTH = pytest.mark.parametrize("cls, settings", CASES)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=400)), 0, 3)
    return X, y, np.repeat(np.arange(20), 20)


@need("lightgbm")
def test_lightgbms_own_predictions(data):
    import lightgbm

    X, y, qid = data
    own = lightgbm.LGBMRanker(
        n_estimators=30, min_child_samples=5, deterministic=True, force_col_wise=True, random_state=0, verbosity=-1
    ).fit(X, y, group=np.bincount(qid))
    ours = hr.LightGBMRanker(n_estimators=30, min_child_samples=5).fit(X, y, qid)
    np.testing.assert_array_equal(ours.predict(X), own.predict(X))
    np.testing.assert_array_equal(ours.boosters_[0].predict(X), own.predict(X))
    deeper = hr.LightGBMRanker(n_estimators=30, min_child_samples=5, params={"lambda_l2": 5.0}).fit(X, y, qid)
    assert not np.array_equal(deeper.predict(X), ours.predict(X))


@need("xgboost")
def test_xgboosts_own_predictions(data):
    import xgboost

    X, y, qid = data
    own = xgboost.XGBRanker(n_estimators=30, random_state=0, n_jobs=1).fit(X, y, qid=qid)
    ours = hr.XGBoostRanker(n_estimators=30).fit(X, y, qid)
    np.testing.assert_array_equal(ours.predict(X).astype(np.float32), own.predict(X))


@BOTH
def test_rows_of_queries_may_lie_apart(cls, settings, data):
    """Interleaved queries, whose rows keep their order among themselves, are the same queries."""
    X, y, qid = data
    mixed = np.random.default_rng(1).permutation(qid)
    place = np.empty(len(y), int)
    for q in range(20):
        place[mixed == q] = np.flatnonzero(qid == q)
    together = cls(n_estimators=10, **settings).fit(X, y, qid)
    apart = cls(n_estimators=10, **settings).fit(X[place], y[place], [f"q{q}" for q in mixed])
    np.testing.assert_allclose(apart.predict(X), together.predict(X), atol=1e-5)
    assert together.score(X, y, qid) > 0.9


@BOTH
def test_every_number_of_trees_from_one_training(cls, settings, data, tmp_path):
    X, y, qid = data
    counts = [12, 3, 7]
    for n, ranker in zip(counts, cls(**settings).fit_path(X, y, qid, counts)):
        alone = cls(n_estimators=n, **settings).fit(X, y, qid)
        assert ranker.n_estimators == n and ranker.n_iter_ == n
        np.testing.assert_allclose(ranker.predict(X), alone.predict(X), rtol=1e-6)
        np.testing.assert_allclose(ranker.certificate_.value, alone.certificate_.value)
        np.testing.assert_allclose(
            ranker.certificate_.value, hr.evaluate(y, ranker.predict(X), qid, "ndcg@10")["ndcg@10"]
        )  # fmt: skip
        assert np.array_equal(hr.load(ranker.save(tmp_path)).predict(X), ranker.predict(X))
    grouped = cls(**settings).fit_path(X, y, n_estimators=[3], group=np.bincount(qid))[0]
    np.testing.assert_allclose(grouped.certificate_.value, grouped.score(X, y, qid))
    with pytest.raises(ValueError, match="n_estimators is empty"):
        cls(**settings).fit_path(X, y, qid, [])


@BOTH
def test_bags(cls, settings, data, tmp_path):
    """BL-MART: the mean of models of drawn queries; the same seed draws the same."""
    X, y, qid = data
    ranker = cls(n_estimators=8, n_bags=3, bag_share=0.5, random_state=4, **settings).fit(X, y, qid)
    models = [ranker._raw(model, X) for model in ranker.boosters_]
    assert len(models) == 3 and not np.allclose(models[0], models[1])
    np.testing.assert_allclose(ranker.predict(X), np.mean(models, axis=0), rtol=1e-6)
    again = cls(n_estimators=8, n_bags=3, bag_share=0.5, random_state=4, **settings).fit(X, y, qid)
    assert np.array_equal(again.predict(X), ranker.predict(X))
    assert np.array_equal(hr.load(ranker.save(tmp_path)).predict(X), ranker.predict(X))
    with pytest.raises(ValueError, match="bag_share"):
        cls(n_bags=2, bag_share=0.0, **settings).fit(X, y, qid)


@BOTH
def test_missing_values_and_any_grades(cls, settings, data):
    X, y, qid = data
    holes = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    assert cls(n_estimators=10, **settings).fit(holes, y, qid).score(holes, y, qid) > 0.8
    odd = np.array([-1.5, 0.25, 2.0, 40.0])[y.astype(int)]
    ranker = cls(n_estimators=20, **settings).fit(X, odd, qid)
    assert hr.evaluate(y, ranker.predict(X), qid, "pair_accuracy")["pair_accuracy"] > 0.8


def test_grades_for_the_libraries():
    y = np.array([0.0, 2, 30])
    assert graded_labels(y)[1] is None and graded_labels(y)[0] is y
    labels, gains = graded_labels(np.array([0.5, 0, 2, 0.5]))
    assert labels.tolist() == [1, 0, 2, 1]
    np.testing.assert_allclose(gains, (2 ** np.array([0, 0.5, 2]) - 1) / 4)
    assert np.isfinite(graded_labels(np.array([-1e6, 0, 1e6]))[1]).all()


@BOTH
def test_weights_of_rows_are_refused(cls, settings, data):
    X, y, qid = data
    with pytest.raises(TypeError, match="sample_weight"):
        cls(**settings).fit(X, y, qid, sample_weight=y)


@BOTH
def test_a_missing_library_is_named(cls, settings, data, monkeypatch):
    monkeypatch.setattr(cls, "requires", "no_such_library")
    with pytest.raises(ImportError, match="pip install no_such_library"):
        cls(**settings).fit(*data)


def test_trees_that_lead_astray_are_refused():
    good = {"left": [1, -1], "right": [-2, -3], "feature": [0, 1]}
    check_tree(*(np.array(part) for part in good.values()), 2)
    for change, words in [
        ({"left": [2, -1]}, "outside of it"),
        ({"right": [0, -3]}, "above its parent"),
        ({"feature": [0, 2]}, "feature that the 2"),
        ({"left": [1]}, "different lengths"),
    ]:
        with pytest.raises(ValueError, match=words):
            check_tree(*(np.array(part) for part in (good | change).values()), 2)


@need("lightgbm")
def test_forged_lightgbm_texts_are_refused(data):
    X, y, qid = data
    ranker = hr.LightGBMRanker(n_estimators=2, num_leaves=4).fit(X, y, qid)
    text = ranker.models_[0].tobytes().decode()
    trees.check_lightgbm_text(text, 6)

    def line(name):
        return next(part for part in text.splitlines() if part.startswith(name + "="))

    for old, new, words in [
        ("tree\n", "forest\n", "not the text"),
        ("num_class=1", "tree_sizes=1\nnum_class=1", "not the text"),
        ("num_class=1", "num_class=2", "num_class=2"),
        ("max_feature_idx=5", "max_feature_idx=7", "max_feature_idx=7"),
        ("num_leaves=4", "num_leaves=400", "wrong lengths"),
        ("num_cat=0", "num_cat=1", "not thresholds"),
        (line("split_feature"), "split_feature=0 0 99", "feature that the 6"),
        (line("left_child"), "left_child=1 9 -3", "outside of it"),
        (line("left_child"), "left_child=1 2 -99", "leaf that it does not have"),
        (line("leaf_value"), "leaf_value=1.0", "wrong lengths"),
    ]:
        assert old in text
        with pytest.raises(ValueError, match=words):
            trees.check_lightgbm_text(text.replace(old, new, 1), 6)


@need("xgboost")
def test_forged_xgboost_texts_are_refused(data):
    X, y, qid = data
    text = hr.XGBoostRanker(n_estimators=2, max_depth=2).fit(X, y, qid).models_[0].tobytes().decode()
    trees.check_xgboost_text(text, 6)
    for place, value, words in [
        (("gradient_booster", "name"), "dart", "expected a 'gbtree'"),
        (("learner_model_param", "num_feature"), "9", "of 9 features"),
        (("gradient_booster", "model", "trees", 0, "left_children", 0), 99, "outside of it"),
        (("gradient_booster", "model", "trees", 0, "left_children", 0), 0, "above its parent"),
        (("gradient_booster", "model", "trees", 0, "split_indices", 0), 99, "feature that the 6"),
        (("gradient_booster", "model", "trees", 0, "base_weights"), [], "wrong length"),
        (("gradient_booster", "model", "trees", 0, "categories"), [1], "categories"),
        (("gradient_booster", "model", "trees"), None, None),
    ]:
        forged = json.loads(text)
        at = forged["learner"]
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = value
        with pytest.raises((ValueError, TypeError), match=words):
            trees.check_xgboost_text(json.dumps(forged), 6)
    with pytest.raises(ValueError, match="not the JSON text"):
        trees.check_xgboost_text("{}", 6)


BOTH = [("lightgbm", hr.LightGBMRanker), ("xgboost", hr.XGBoostRanker)]


@pytest.fixture(scope="module")
def halves():
    return hr.make_letor(n_queries=40, rows_per_query=(8, 20), n_features=6, seed=5).split(0.4, seed=0)


@pytest.mark.parametrize("library, make", BOTH)
def test_every_name_of_a_parameter_is_honoured(library, make, halves):
    pytest.importorskip(library)
    train, _ = halves
    plain = make(n_estimators=7, learning_rate=0.05).fit(train)
    assert plain.n_iter_ == 7
    for params in ({"eta": 0.05, "num_boost_round": 7}, {"learning_rate": 0.05, "n_estimators": 7, "n_jobs": 1}):
        assert np.array_equal(make(params=params).fit(train).predict(train), plain.predict(train)), params
    assert not np.array_equal(make(n_estimators=7).fit(train).predict(train), plain.predict(train))
    for n_jobs in (1, -1):
        assert np.allclose(
            make(n_estimators=7, learning_rate=0.05, n_jobs=n_jobs).fit(train).predict(train), plain.predict(train)
        )
    with pytest.raises(ValueError, match="no parameter 'lerning_rate'; did you mean learning_rate"):
        make(params={"lerning_rate": 0.1}).fit(train)
    with pytest.raises(ValueError, match="twice"):
        make(params={"eta": 0.1, "learning_rate": 0.2}).fit(train)
    with pytest.raises(ValueError, match="n_jobs must be"):
        make(n_jobs=0).fit(train)


@pytest.mark.parametrize("library, make", BOTH)
def test_training_stops_where_held_out_queries_are_best(library, make, halves, tmp_path):
    pytest.importorskip(library)
    train, held = halves
    stopped = make(n_estimators=300, early_stopping_rounds=10).fit(train, eval_set=[held])
    assert 1 <= stopped.n_iter_ < 200
    same = make(n_estimators=stopped.n_iter_).fit(train)
    np.testing.assert_allclose(stopped.predict(held), same.predict(held), rtol=1e-6)
    whole = make(n_estimators=300).fit(train, eval_set=[held])
    assert whole.n_iter_ == 300 and stopped.validation_scores_[0] >= whole.validation_scores_[0] - 0.02
    assert hr.load(stopped.save(tmp_path / "model")).n_iter_ == stopped.n_iter_
    odd = hr.RankingData(train.X, train.y * 0.5 - 1, train.qid), hr.RankingData(held.X, held.y * 0.5 - 1, held.qid)
    assert make(n_estimators=300, early_stopping_rounds=5).fit(odd[0], eval_set=[odd[1]]).n_iter_ < 300
    with pytest.raises(ValueError, match="early_stopping_rounds needs eval_set"):
        make(early_stopping_rounds=5).fit(train)


@pytest.mark.parametrize("library, make", BOTH)
def test_importances_are_fractions_of_the_gain(library, make, tmp_path):
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.random((300, 4))
    ranker = make(n_estimators=10, n_bags=2).fit(X, (X[:, 2] > 0.6).astype(int), np.repeat(np.arange(15), 20))
    found = ranker.feature_importances_
    assert found.sum() == pytest.approx(1) and found.argmax() == 2 and found[2] > 0.8
    assert np.allclose(hr.load(ranker.save(tmp_path / "model")).feature_importances_, found)


def test_lambdamart_is_a_name():
    from hingerank.registry import registered_name

    assert registered_name("lambdamart") == registered_name("LambdaMART") == "lightgbm"
