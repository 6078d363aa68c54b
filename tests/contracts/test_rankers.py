"""What every ranker in the registry `hingerank.registry.RANKERS` must do."""

import importlib
import importlib.util
import inspect
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hingerank.data.generate import make_letor
from hingerank.data.ranking_data import RankingData
from hingerank.data.scaling import QueryMinMaxScaler
from hingerank.export.model_file import SavedModel, load
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class, ranker_name
from hingerank.search.folds import paths_of

# settings that keep slow rankers quick here, by registered name
QUICK: dict[str, dict] = {
    "lightgbm": {"n_estimators": 20, "min_child_samples": 5},
    "gbrank": {"n_estimators": 20, "min_child_samples": 5},
    "mcrank": {"n_estimators": 10, "min_child_samples": 5},
    "xgboost": {"n_estimators": 20},
}

# further settings that the slow scikit-learn checks run over, by registered name
VARIANTS: dict[str, list[dict]] = {
    "rank-svm": [{"loss": "hinge"}, {"loss": "logistic"}, {"missing": "indicator"}],
    "kernel-rank-svm": [{"loss": "hinge"}, {"kernel": "precomputed"}],
    "nystroem-rank-svm": [{"n_components": 5}, {"n_components": 5, "landmarks": "leverage"}, {"rank": 3}],
    "fourier-rank-svm": [{"loss": "logistic", "memory_gb": 0}],
    "additive-rank-svm": [{"missing": "indicator"}, {"monotone": {0: 1}}, {"sparsity": 0.1}, {"loss": "hinge"}],
    "blend": [{"weights": "auto"}],
}


def available():
    """name -> class for every registered ranker whose libraries are installed."""
    found = {}
    for name in RANKERS:
        try:
            cls = ranker_class(name)
            if importlib.util.find_spec(getattr(cls, "requires", "sklearn")):
                found[name] = cls
        except ImportError as error:
            if (error.name or "").startswith("hingerank"):
                raise
    return found


AVAILABLE = available()
GRADED = {name: cls for name, cls in AVAILABLE.items() if issubclass(cls, BaseRanker)}


def make(name, **settings):
    return GRADED[name](**QUICK.get(name, {}) | settings)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(params=sorted(GRADED))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.random((90, 6))
    X[rng.random(X.shape) < 0.3] = 0
    y = np.clip(np.round(4 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=90)), 0, 3)
    return X, y, rng.integers(0, 9, 90)


@parametrize_with_checks([make(name) for name in sorted(GRADED)])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([make(name, **more) for name in sorted(VARIANTS) for more in VARIANTS[name]])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_scikit_learn_checks_of_further_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(AVAILABLE))
def test_names_and_classes_belong_together(name):
    cls = AVAILABLE[name]
    assert issubclass(cls, SavedModel) and ranker_name(cls) == name and name == name.lower()
    assert importlib.import_module(cls.__module__).__name__.split(".")[1] in ("rankers", "personal", "diversity")
    assert inspect.getdoc(cls), f"{cls.__name__} needs a docstring that gives its formula"


def test_learns_something(name, data):
    X, y, qid = data
    ranker = make(name).fit(X, y, qid)
    shuffled = np.random.default_rng(0).permutation(y)
    assert ranker.score(X, y, qid) > ranker.score(X, shuffled, qid) + 0.1


def test_a_fit_carries_a_certificate(name, data):
    X, y, qid = data
    ranker = make(name).fit(X, y, qid)
    assert ranker.n_iter_ >= 1 and ranker.fingerprint_["rows"] == len(y)
    certificate = ranker.certificate_
    assert certificate.kind and certificate.seconds >= 0 and isinstance(ranker.trace_, list)


def test_saved_models_predict_the_same(name, data, tmp_path):
    X, y, qid = data
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    ranker = make(name).fit(frame, y, qid)
    back = load(ranker.save(tmp_path))
    assert type(back) is type(ranker) and str(back.get_params()) == str(ranker.get_params())
    assert np.array_equal(back.predict(frame), ranker.predict(frame))
    assert back.certificate_ == ranker.certificate_ and back.trace_ == ranker.trace_
    with pytest.raises(ValueError, match="same order"):
        back.predict(frame[list("fedcba")])
    with pytest.raises(ValueError, match="now missing"):
        back.predict(frame[list("abcde")])
    with pytest.raises(ValueError, match="X has 5 features"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back.predict(X[:, :5])


def test_scalers_are_part_of_the_model(name, data, tmp_path):
    X, y, qid = data
    if "scale" not in GRADED[name]().get_params():
        pytest.skip("takes no scale")
    ranker = make(name).set_params(scale="query-minmax").fit(X, y, qid)
    scaled = QueryMinMaxScaler().fit_transform(X, qid=qid)
    close(ranker.predict(X, qid), make(name, scale=None).fit(scaled, y, qid).predict(scaled))
    assert np.array_equal(load(ranker.save(tmp_path)).predict(X, qid), ranker.predict(X, qid))
    with pytest.raises(ValueError, match="needs qid"):
        ranker.predict(X)


def test_the_order_and_type_of_queries_do_not_matter(name, data):
    X, y, qid = data
    reference = make(name).fit(X, y, qid).predict(X)
    together = np.argsort(qid, kind="stable")
    close(make(name).fit(X[together], y[together], group=np.bincount(qid)).predict(X), reference)
    close(make(name).fit(X, y, [f"query {q}" for q in qid]).predict(X), reference)
    close(make(name).fit(RankingData(X, y, qid)).predict(X), reference)


def test_sparse_and_dense_agree(name, data):
    X, y, qid = data
    reference = make(name).fit(X, y, qid)
    other = make(name).fit(sparse.csr_matrix(X), y, qid)
    close(other.predict(X), reference.predict(X))
    close(reference.predict(sparse.csr_matrix(X)), reference.predict(X))


def test_a_fit_repeats_exactly(name, data):
    X, y, qid = data
    assert np.array_equal(make(name).fit(X, y, qid).predict(X), make(name).fit(X, y, qid).predict(X))


PATHS = sorted(name for name, cls in GRADED.items() if paths_of(cls))


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_a_path_is_the_fit_at_each_of_its_points(name):
    """`tune` measures the rankers of a path, and fits the best one alone."""
    data, ranker = make_letor(24, 10, n_features=6, seed=0), make(name)
    rows, parameter = (data.X, data.y, data.qid), ranker.path_parameter
    if "tol" in ranker.get_params() and name != "ranking-fm":  # which is slow
        ranker.set_params(tol=1e-8)
    values = [0.01, 1.0, 10.0] if parameter in ("C", "radius") else [1, 5]
    for value, found in zip(values, ranker.fit_path(*rows, values), strict=True):
        alone = clone(ranker).set_params(**{parameter: value}).fit(*rows).predict(data.X)
        np.testing.assert_allclose(found.predict(data.X), alone, atol=1e-3 * np.ptp(alone))


@pytest.mark.filterwarnings("ignore:there are no preference pairs")
def test_one_grade_only_gives_no_preference(name, data):
    X, _, qid = data
    scores = make(name).fit(X, np.ones(len(X)), qid).predict(X)
    assert scores.shape == (len(X),) and np.isfinite(scores).all()


def test_weights_in_queries(name, data):
    """Weight 2 is the row given twice, weight 0 the row left out, also inside several queries."""
    X, y, qid = data
    if "sample_weight" not in inspect.signature(GRADED[name].fit).parameters:
        pytest.skip("takes no sample_weight")
    weight = np.random.default_rng(4).integers(0, 3, len(y))
    repeated = make(name).fit(*(np.repeat(part, weight, axis=0) for part in data))
    close(make(name).fit(X, y, qid, weight).predict(X), repeated.predict(X))


def test_grid_search_over_queries(name, data):
    X, y, qid = data
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = clone(make(name)).set_fit_request(qid=True).set_score_request(qid=True)
        pipeline, grid = make_pipeline(StandardScaler(), ranker), {"standardscaler__with_mean": [True]}
        if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):  # hands no ids to the score of a pipeline
            pipeline, grid = ranker, {}
        search = GridSearchCV(pipeline, grid, cv=GroupKFold(2), error_score="raise")
        assert 0 < search.fit(X, y, qid=qid, groups=qid).best_score_ <= 1


def close(a, b):
    """Equal up to what a solver's tolerance leaves, relative to the spread of the scores."""
    assert np.abs((a - a.mean()) - (b - b.mean())).max() <= 1e-3 * max(np.ptp(b), 1e-3)
