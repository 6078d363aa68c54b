"""LightGBM and XGBoost as rankers: the libraries' own answers, whatever the order of rows, in files without code."""

import importlib.util
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.kernels import threads
from hingerank.rankers.trees import graded_labels


def need(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


SAVED = Path(__file__).parents[1] / "export" / "saved" / "0.1"
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
        assert ranker.feature_importances_ == pytest.approx(alone.feature_importances_, rel=1e-5)
        own, light = ranker.boosters_[0], cls is hr.LightGBMRanker
        assert n == (own.num_trees() if light else own.num_boosted_rounds())
        np.testing.assert_allclose(
            ranker.certificate_.value, hr.evaluate(y, ranker.predict(X), qid, "ndcg@10")["ndcg@10"]
        )  # fmt: skip
        assert np.array_equal(hr.load(ranker.save(tmp_path)).predict(X), ranker.predict(X))
    grouped = cls(**settings).fit_path(X, y, n_estimators=[3], group=np.bincount(qid).astype(float))[0]
    assert grouped.certificate_.status == "trained" and not grouped.certificate_.converged
    np.testing.assert_allclose(grouped.certificate_.value, grouped.score(X, y, qid))
    with pytest.raises(ValueError, match="n_estimators is empty"):
        cls(**settings).fit_path(X, y, qid, [])
    with pytest.raises(ValueError, match="n_estimators is 3: give several numbers"):
        cls(**settings).fit_path(X, y, qid, 3)


@BOTH
def test_bags(cls, settings, data, tmp_path):
    """BL-MART: the mean of models of drawn queries; the same seed draws the same."""
    X, y, qid = data
    ranker = cls(n_estimators=8, n_bags=3, bag_share=0.5, random_state=4, **settings).fit(X, y, qid)
    models = [model.scores(X, 1) for model in ranker.models_]
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


@BOTH
def test_the_librarys_own_models_come_from_fit_alone(cls, settings, data, tmp_path):
    X, y, qid = data
    ranker = cls(n_estimators=3, **settings).fit(X, y, qid)
    assert type(ranker.boosters_[0]).__name__ == "Booster"
    loaded = hr.load(ranker.save(tmp_path))
    with pytest.raises(AttributeError, match="only after fit"):
        _ = loaded.boosters_
    assert np.array_equal(pickle.loads(pickle.dumps(ranker)).predict(X), loaded.predict(X))


@pytest.mark.parametrize(
    "cls, params, words",
    [
        pytest.param(hr.LightGBMRanker, {"objective": "binary"}, "sum of trees", marks=need("lightgbm")),
        pytest.param(
            hr.LightGBMRanker, {"linear_tree": True}, "leave out the parameter linear_tree", marks=need("lightgbm")
        ),
        pytest.param(
            hr.LightGBMRanker, {"categorical_feature": [1]}, "parameter categorical_feature", marks=need("lightgbm")
        ),
        pytest.param(hr.XGBoostRanker, {"objective": "binary:logistic"}, "sum of trees", marks=need("xgboost")),
        pytest.param(hr.XGBoostRanker, {"booster": "gblinear"}, "expected a 'gbtree'", marks=need("xgboost")),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_models_that_are_no_sum_of_trees_of_thresholds_are_refused(cls, params, words, data):
    X, y, qid = data
    X = np.column_stack((X, np.arange(len(y)) % 5))[:, [0, 6]]
    with pytest.raises(ValueError, match=words):
        cls(n_estimators=4, params=params).fit(X, X[:, 1] % 2 == 1, qid)


@pytest.fixture
def threads_given(monkeypatch):
    """threads_given(cls, data, **parameters) -> the threads that the library is told to use, in all its calls."""

    class Told(Exception):
        """The last call was made: the library's threads need not run."""

    def fit(cls, data, **parameters):
        given, library = [], cls.library()

        def watched(*arguments, **named):
            told = [*(a for a in arguments if isinstance(a, dict)), named, named.get("params") or {}]
            given.extend(d[key] for d in told for key in ("num_threads", "nthread") if key in d)
            if len(given) == 2:
                raise Told
            return rows(*arguments, **named)

        kind = "DMatrix" if cls.requires == "xgboost" else "Dataset"
        rows = getattr(library, kind)
        for name in ("train", kind):
            monkeypatch.setattr(library, name, watched)
        with pytest.raises(Told):
            cls(n_estimators=2, **parameters).fit(*data)
        monkeypatch.undo()
        assert len(given) == 2
        return set(given)

    return fit


@BOTH
def test_the_libraries_use_the_threads_that_users_allow(cls, settings, data, threads_given, monkeypatch):
    from threadpoolctl import threadpool_limits

    def given(**parameters):
        with monkeypatch.context() as patch:
            patch.setattr(threads, "SMALL", 1)
            for name, value in environment.items():
                patch.setenv(name, value)
            return threads_given(cls, data, **settings, **parameters)

    environment = {"HINGERANK_NUM_THREADS": "3"}
    assert threads_given(cls, data, **settings) == {1}  # these are few rows
    assert given() == given(n_jobs=-1) == {3} and given(n_jobs=2) == given(params={"n_jobs": 2}) == {2}
    environment["OMP_NUM_THREADS"] = "1"
    assert given() == {3}
    environment["HINGERANK_NUM_THREADS"] = ""
    assert given() == given(n_jobs=-1) == {1}
    environment["OMP_NUM_THREADS"] = ""
    with threadpool_limits(1):
        assert given() == {1}


@BOTH
@pytest.mark.slow
def test_threads_of_the_libraries_sleep_while_they_wait(cls, settings):
    """OpenMP looks at the variable when the library is loaded; the environment is then as before."""
    code = f"""
import os, sys
from hingerank.rankers.tree_rankers import {cls.__name__}
seen = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        seen.append(os.environ.get("OMP_WAIT_POLICY")) if name == "{cls.requires}" else None
sys.meta_path.insert(0, Watch())
{cls.__name__}.library()
print(seen, os.environ.get("OMP_WAIT_POLICY"))
"""
    for given, answer in (({}, "['passive'] None"), ({"OMP_WAIT_POLICY": "active"}, "['active'] active")):
        environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | given
        found = subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True)
        assert found.stdout.strip() == answer, found.stderr


@BOTH
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no processes are forked here")
def test_a_forked_child_scores(cls, settings):
    """The libraries' threads do not survive a fork: a child that called them waited for ever."""
    rng = np.random.default_rng(0)
    X = rng.random((1 << 14, 8))
    ranker = cls(n_estimators=3, n_jobs=2, **settings).fit(X, rng.integers(0, 3, len(X)), np.arange(len(X)) // 50)
    context = multiprocessing.get_context("fork")
    answer, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send_bytes(ranker.predict(X).tobytes()))
    child.start()
    try:
        assert answer.poll(60), "the child hangs"
        assert answer.recv_bytes() == ranker.predict(X).tobytes()
    finally:
        child.kill()
        child.join()


WITHOUT = """
import sys
sys.modules["lightgbm"] = sys.modules["xgboost"] = None  # cannot be imported
import numpy as np
import hingerank as hr
for path, rows in zip(sys.argv[1::2], sys.argv[2::2]):
    np.save(path + ".npy", hr.load(path).predict(np.load(rows)))
try:
    hr.LightGBMRanker().fit([[0.0], [1.0]], [0, 1])
except ImportError as error:
    print(error)
"""


def test_models_are_scored_without_the_libraries(data, tmp_path):
    X, y, qid = data
    expected, arguments = {}, []
    for case in CASES:
        cls, settings = case.values
        if importlib.util.find_spec(cls.requires):
            ranker = cls(n_estimators=10, **settings).fit(X, y, qid)
            expected[ranker.save(tmp_path / cls.requires)] = ranker.predict(X)
        old = shutil.copy(SAVED / f"{cls.requires}.safetensors", tmp_path)
        expected[old] = hr.load(old).predict(X[:, :4])
    for path in expected:
        np.save(path + ".rows", X[:, :4] if path.endswith(".safetensors") else X)
        arguments += [path, path + ".rows.npy"]
    command = [sys.executable, "-c", WITHOUT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "pip install lightgbm" in done.stdout, done.stderr
    for path, scores in expected.items():
        assert np.array_equal(np.load(path + ".npy"), scores)


EITHER = [("lightgbm", hr.LightGBMRanker), ("xgboost", hr.XGBoostRanker)]


@pytest.fixture(scope="module")
def halves():
    return hr.make_letor(n_queries=40, rows_per_query=(8, 20), n_features=6, seed=5).split(0.4, seed=0)


@pytest.mark.parametrize("library, make", EITHER)
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
    with pytest.raises(ValueError, match="no parameter 'lerning_rate'; did you mean 'learning_rate'"):
        make(params={"lerning_rate": 0.1}).fit(train)
    with pytest.raises(ValueError, match="twice"):
        make(params={"eta": 0.1, "learning_rate": 0.2}).fit(train)
    with pytest.raises(ValueError, match=r"params must be a mapping of \w+'s parameters"):
        make(params="eta").fit(train)
    with pytest.raises(ValueError, match="n_jobs must be"):
        make(n_jobs=0).fit(train)


@pytest.mark.parametrize("library, make", EITHER)
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


@pytest.mark.parametrize("library, make", EITHER)
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
