"""`ranker.scorer()` of every ranker and scaling gives the scores of `predict`, from any thread and in any process."""

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import hingerank as hr
from hingerank.export.formats import carries
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

CLASSES = {name: cls for name in RANKERS if issubclass(cls := ranker_class(name), BaseRanker)}
GRADED = {name: cls for name, cls in CLASSES.items() if find_spec(getattr(cls, "requires", "sklearn"))}
NO_FORM = {"mcrank"}  # an expectation over trees
SCALES = (None, "standard", "minmax", "log", "quantile", "query-minmax", "query-standard")
VARIANTS = {
    "additive-rank-svm": [{"interactions": 2}, {"n_knots": 40}, {"n_knots": 2}],
    "kernel-rank-svm": [{"kernel": "polynomial", "scale": "minmax"}, {"kernel": "linear", "scale": "minmax"}],
    "nystroem-rank-svm": [{"n_components": 5}],
    "lightgbm": [{"params": {"zero_as_missing": True}}, {"n_bags": 3}],
    "xgboost": [{"n_bags": 2}],
}
CASES = [(name, more) for name in sorted(GRADED) for more in [{}, *VARIANTS.get(name, [])]]


@pytest.fixture(scope="module")
def rows():
    """Columns of which one is far from 0, one long-tailed and one constant within queries."""
    rng = np.random.default_rng(5)
    X = rng.random((80, 6))
    X[rng.random(X.shape) < 0.3] = 0
    qid = np.arange(80) % 8
    y = np.clip(np.round(4 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=80)), 0, 3)
    X[:, 2], X[:, 3], X[:, 4] = X[:, 2] + 20, np.expm1(8 * X[:, 3]), qid / 7
    return X, y, qid


def fitted(name, rows, **settings):
    settings = ({"n_estimators": 8} if "n_estimators" in GRADED[name]().get_params() else {}) | settings
    settings |= {"min_child_samples": 3} if "min_child_samples" in GRADED[name]().get_params() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRADED[name](**settings).fit(*rows)


def close(found, expected):
    """To rounding, in single precision where the ranker's own scores are; relative to the scores."""
    single = (expected.astype(np.float32) == expected).all()
    assert found.shape == expected.shape and found.dtype == np.float64
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=(1e-5 if single else 1e-9) * max(1, np.abs(expected).max())
    )


def test_scorers_take_frames_and_csr_matrices_but_no_columns_in_another_order(rows):
    pd = pytest.importorskip("pandas")
    X, y, qid = rows
    frame = pd.DataFrame(X, columns=[f"f {j}" for j in range(6)])
    ranker = hr.RankSVM(C=0.1, scale="standard").fit(frame, y, qid)
    scorer, expected = ranker.scorer(), ranker.predict(frame)
    for taken in (frame, sparse.csr_matrix(X), X):
        close(scorer(taken), expected)
    for other in (frame[frame.columns[::-1]], frame.rename(columns=str.upper)):
        with pytest.raises(ValueError, match=r"features in their order: take X\[list\(scorer.names\)\]"):
            scorer(other)
    close(ranker.fit(X, y, qid).scorer()(frame), expected)  # a ranker that knows no names


@pytest.mark.parametrize(("name", "more"), CASES)
def test_scorers_give_the_scores_of_predict(name, more, rows):
    X, _, qid = rows
    known = GRADED[name]().get_params()
    for scale in SCALES if "scale" in known and not more else (None,):
        ranker = fitted(name, rows, **({"scale": scale} if "scale" in known else {}) | more)
        if name in NO_FORM:
            with pytest.raises(hr.ExportError, match="has no scorer, use predict"):
                ranker.scorer()
            continue
        scorer = ranker.scorer()
        close(scorer(X, qid), ranker.predict(X, qid))
        one = qid == 3
        close(scorer(X[one]), ranker.predict(X[one], qid[one]))  # of one query
        close(scorer(X[one].tolist()), ranker.predict(X[one], qid[one]))
        close(scorer(np.asfortranarray(X), list(qid)), ranker.predict(X, qid))
        assert scorer(X[:0]).shape == (0,)
        assert np.array_equal(pickle.loads(pickle.dumps(scorer))(X, qid), scorer(X, qid))


@pytest.mark.parametrize("to", [None, "python", "c", "javascript", "sql", "onnx", "pmml"])
@pytest.mark.parametrize("name", ["standard", "minmax", "fourier", "additive", "blend"])
def test_columns_far_from_zero_keep_their_digits(name, to, tmp_path):
    """Timestamps in milliseconds, all within a few: the mean is subtracted before anything is multiplied."""
    rng = np.random.default_rng(6)
    Z, qid = rng.standard_normal((200, 2)), np.arange(200) % 10
    X = Z * [10, 1] + [1.7e12, 0]
    y = np.digitize(Z @ [1.0, 0.5], [-0.5, 0.5]).astype(float)
    ranker = {
        "standard": hr.RankSVM(scale="standard"),
        "minmax": hr.RankSVM(scale="minmax"),
        "fourier": hr.FourierRankSVM(n_components=10, scale="standard"),
        "additive": hr.AdditiveRankSVM(n_knots=6, scale="standard"),
        "blend": hr.Blend([hr.RankSVM(scale="standard"), hr.RankSVM(scale="maxabs")]),
    }[name].fit(X, y, qid)
    if to is None:
        expected = ranker.predict(X)
        np.testing.assert_allclose(ranker.scorer()(X), expected, rtol=0, atol=1e-9 * np.ptp(expected))
    elif carries(to, [part.outline for part in ranker._form().parts]):
        found = ranker.export(tmp_path / "model.x", to, check=hr.RankingData.from_arrays(X, y, qid)).check
        assert found["largest_difference"] < 1e-9 * np.ptp(ranker.predict(X))


def test_a_scorer_is_frozen(rows):
    X, y, qid = rows
    ranker = hr.RankSVM(scale="standard").fit(X, y, qid)
    scorer = ranker.scorer()
    before = scorer(X)
    ranker.coef_[:] = 0
    ranker.scaler_.width_[:] = 9
    assert np.array_equal(scorer(X), before) and before.any()
    with pytest.raises(AttributeError, match="frozen"):
        scorer.names = ()


def test_query_ids_of_several_types(rows):
    X, y, qid = rows
    ranker = hr.RankSVM(scale="query-minmax").fit(X, y, qid)
    mixed = np.array([f"q{q}" if q % 2 else int(q) for q in qid], object)
    close(ranker.scorer()(X, mixed), ranker.predict(X, qid))


def test_a_scorer_checks_the_shape_of_rows(rows):
    scorer = hr.RankSVM(scale="query-minmax").fit(*rows).scorer()
    for bad in (rows[0][:, :3], rows[0][0], 3.0):
        with pytest.raises(ValueError, match=r"expected \(rows, 6\)"):
            scorer(bad)
    for bad in (hr.RankingData.from_arrays(*rows), [["a"] * 6], [[1.0], [2.0, 3.0]], {"a": 1}):
        with pytest.raises(ValueError, match=r"is no table of numbers .*of RankingData give data\.X and data\.qid"):
            scorer(bad)
    with pytest.raises(ValueError, match="a query id per row"):
        scorer(rows[0], rows[2][:5])
    with pytest.raises(NotFittedError):
        hr.RankSVM().scorer()


@pytest.mark.parametrize("name", ["rank-svm", "additive-rank-svm", "nystroem-rank-svm", "lightgbm"])
def test_threads_share_a_scorer(name, rows):
    if name not in GRADED:
        pytest.skip("the library is not installed")
    X = rows[0]
    scorer = fitted(name, rows).scorer()
    parts = [X[k : k + 1 + k % 9] for k in range(60)] * 8
    expected = [scorer(part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(scorer, parts))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("ranker", "light"),
    [
        (hr.RankSVM(scale="standard"), True),
        (hr.RankSVM(scale="query-minmax"), True),
        (hr.FourierRankSVM(n_components=8), True),
        (hr.NystroemRankSVM(n_components=8), True),
        (hr.AdditiveRankSVM(), False),
    ],
)
def test_what_numpy_can_do_needs_neither_numba_nor_scikit_learn(ranker, light, rows, tmp_path):
    """A process that serves a pickled scorer loads NumPy alone, where that is enough."""
    scorer = ranker.fit(*rows).scorer()
    (tmp_path / "scorer").write_bytes(pickle.dumps(scorer))
    code = (
        "import pickle, sys; scorer = pickle.load(open(sys.argv[1], 'rb')); print(repr(scorer([[1.0] * 6])[0]));"
        "print({name for name in ('numba', 'scipy', 'sklearn') if name in sys.modules} or 'light')"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "scorer"], capture_output=True, text=True, check=True)
    score, loaded = done.stdout.splitlines()
    assert score == repr(scorer([[1.0] * 6])[0]) and (loaded == "light") is light


@pytest.mark.parametrize("name", ["rank-svm", "additive-rank-svm"])
def test_predict_looks_at_plain_arrays_once(name, rows, monkeypatch):
    X, _, qid = rows
    ranker = fitted(name, rows, scale="query-minmax")
    expected, looked = ranker.predict(X, qid), []
    for place in ("rankers.inputs.validate_data", "rankers.inputs.check_array", "data.scaling.check_matrix"):
        monkeypatch.setattr(f"hingerank.{place}", lambda *_, place=place, **__: looked.append(place))
    assert np.array_equal(ranker.predict(X, qid), expected) and not looked
    monkeypatch.undo()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"f1|column|NaN|infinity|finite"):
            ranker.predict(np.where(X[0, 0] == X, bad, X), qid)
