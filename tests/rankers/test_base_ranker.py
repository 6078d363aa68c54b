"""What the base ranker does around `_fit` and `_scores`."""

import pickle
import subprocess
import sys
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hingerank.data.checks import OneQueryWarning
from hingerank.data.files import DataError
from hingerank.data.generate import make_letor
from hingerank.data.ranking_data import RankingData
from hingerank.data.scaling import SCALERS, make_scaler
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker, LinearRanker, warn_not_converged
from hingerank.rankers.linear import RankSVM
from hingerank.rankers.low_rank import FactorizedRankSVM
from hingerank.rankers.problem_ranker import ProblemRanker
from hingerank.registry import RANKERS, ranker_class, ranker_name
from hingerank.solvers.run import Certificate


class Ridge(LinearRanker):
    """min Σ over pairs of a query (w·(x_i − x_j) − (y_i − y_j))² + alpha ‖w‖², in closed form."""

    def __init__(self, alpha=1.0, scale=None):
        self.alpha, self.scale = alpha, scale

    def _fit(self, X, y, blocks, sample_weight):
        X = X.toarray() if sparse.issparse(X) else X
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        left, right = self.alpha * np.eye(X.shape[1]), np.zeros(X.shape[1])
        for low, high in zip(blocks.offsets[:-1], blocks.offsets[1:], strict=True):
            x, t, c = X[low:high].astype(float), y[low:high], weight[low:high]
            x, t = x - c @ x / c.sum(), t - c @ t / c.sum()
            left += c.sum() * (x.T * c) @ x
            right += c.sum() * x.T @ (c * t)
        self.coef_, self.n_iter_ = np.linalg.solve(left, right), 1


class Recorder(LinearRanker):
    """Keeps what `_fit` received."""

    def _fit(self, X, y, blocks, sample_weight):
        self.got_ = (X, y, blocks, sample_weight)
        self.coef_ = np.arange(1.0, X.shape[1] + 1)


def problem(seed=0, n=120, d=5, queries=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.clip(np.round(X @ np.arange(d) / 3 + rng.normal(size=n)), 0, 4)
    return X, y, rng.integers(0, queries, n)


@parametrize_with_checks([Ridge()])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# what reaches _fit


def test_rows_reach_fit_in_block_order():
    X = np.arange(10.0).reshape(5, 2)
    got_X, y, blocks, weight = Recorder().fit(X, [0, 1, 2, 3, 4], ["b", "a", "b", "c", "a"], [1, 2, 3, 4, 5]).got_
    assert got_X[:, 0].tolist() == [0, 4, 2, 8, 6]
    assert y.tolist() == [0, 2, 1, 4, 3] and weight.tolist() == [1, 3, 2, 5, 4]
    assert blocks.offsets.tolist() == [0, 2, 4, 5] and blocks.ids.tolist() == ["b", "a", "c"] and blocks.order is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_rows_in_order_are_not_copied(dtype):
    X = np.zeros((6, 2), dtype)
    for qid in (None, [7, 7, 3, 3, 3, 9]):
        assert np.shares_memory(Recorder().fit(X, np.arange(6), qid).got_[0], X)


def test_forms_of_X():
    X, y, qid = problem()
    reference = Ridge().fit(X, y, qid).coef_
    for form in (np.asfortranarray(X), X.tolist(), sparse.csr_matrix(X), sparse.coo_array(X), sparse.csc_matrix(X)):
        assert np.allclose(Ridge().fit(form, y, qid).coef_, reference, rtol=1e-10)
    assert Recorder().fit(np.asfortranarray(X), y, qid).got_[0].flags.c_contiguous
    assert Recorder().fit(X.astype(np.float32), y, qid).got_[0].dtype == np.float32
    assert Recorder().fit(X.astype(int), y, qid).got_[0].dtype == np.float64
    assert Recorder().fit(X, y.astype(int), qid).got_[1].dtype == np.float64
    small = sparse.csr_matrix(X.astype(np.float32))
    assert Recorder().fit(small, y, qid).got_[0].dtype == np.float32


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_csr_is_sorted_and_the_users_matrix_is_left_alone():
    data, indices, indptr = np.array([1.0, 2, 3, 4]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])
    given = sparse.csr_matrix((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(2, 3))
    given.indices, given.indptr = given.indices.astype(np.int64), given.indptr.astype(np.int64)
    got = Recorder().fit(given, [0, 1]).got_[0]
    assert got.has_sorted_indices and got.toarray().tolist() == [[2, 0, 1], [0, 7, 0]]
    assert got.indices.dtype == got.indptr.dtype == np.int32
    assert given.indices.tolist() == [2, 0, 1, 1] and given.data.tolist() == [1, 2, 3, 4]
    given.indices = np.array([2, 0, 1, 7], np.int64)
    with pytest.raises(ValueError, match=r"indices|column index"):  # as SciPy says it
        Recorder().fit(given, [0, 1])


def test_frames_and_series():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, qid = problem()
    names = [f"feature {j}" for j in range(X.shape[1])]
    reference = Ridge().fit(X, y, qid)
    pd_frame = pandas.DataFrame(X, columns=names, index=np.arange(len(y))[::-1])
    pl_frame = polars.DataFrame(X, schema=names)
    for frame, make in ((pd_frame, pandas.Series), (pl_frame, polars.Series)):
        ranker = Ridge().fit(frame, make(y), make(qid.astype(str)))
        assert np.allclose(ranker.coef_, reference.coef_) and list(ranker.feature_names_in_) == names
        assert np.allclose(ranker.predict(frame), reference.predict(X))
    with pytest.raises(ValueError, match="same order"):
        ranker.predict(pl_frame[names[::-1]])
    with pytest.raises(ValueError, match="feature 4"):
        ranker.predict(pl_frame[names[:-1]])


def test_ranking_data():
    X, y, qid = problem()
    data = RankingData(X, y, qid)
    ranker, plain = Ridge().fit(data), Ridge().fit(X, y, qid)
    assert np.array_equal(ranker.coef_, plain.coef_) and np.array_equal(ranker.predict(data), plain.predict(X))
    assert np.array_equal(ranker.rank(data), plain.rank(X, qid)) and ranker.score(data) == plain.score(X, y, qid)
    for extra in ({"y": y + 1}, {"qid": qid + 1}, {"group": [len(y)]}):
        with pytest.raises(ValueError, match=r"already holds|not both"):
            Ridge().fit(data, **extra)


def test_feature_names_of_ranking_data_are_compared():
    X, y, qid = problem(d=3)

    def named(*names, columns=3):
        return RankingData(X[:, :columns], y, qid, feature_names=names)

    ranker = Ridge().fit(named("a", "b", "c"))
    assert list(ranker.feature_names_in_) == ["a", "b", "c"]
    assert len(ranker.predict(named("a", "b", "c"))) == len(y)
    with pytest.raises(ValueError, match=r"another order.*column 1 is 'c' where 'b'"):
        ranker.predict(named("a", "c", "b"))
    with pytest.raises(ValueError, match="missing: b; not seen in fit: z"):
        ranker.predict(named("a", "z", "c"))
    with pytest.raises(ValueError, match="missing: c"):
        ranker.predict(named("a", "b", columns=2))
    with pytest.raises(DataError, match="2 feature names for 3"):
        ranker.fit(named("a", "b"))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        ranker.predict(RankingData(X, y, qid))
    ranker.fit(RankingData(X, y, qid))
    assert not hasattr(ranker, "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        ranker.predict(named("a", "b", "c"))
    with pytest.raises(ValueError, match="X has 2 features"):
        ranker.predict(named("a", "b", columns=2))
    with pytest.raises(ValueError, match="X has 2 features"):
        ranker.predict(X[:, :2])


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_bad_inputs_say_what_is_wrong():
    X, y, qid = problem()
    for arguments, message in [
        ({"y": None}, "requires y to be passed"),
        ({"y": y[:-1]}, r"y has shape \(119,\), expected one grade for each of the 120 rows"),
        ({"y": np.where(y > 3, np.nan, y)}, "Input y contains NaN"),
        ({"y": ["a"] * len(y)}, "y must hold numbers"),
        ({"y": y + 1j}, "Complex data not supported"),
        ({"qid": qid[:-1]}, "one id for each of the 120 rows"),
        ({"qid": (each for each in qid)}, "qid is a generator, expected one id for each row"),  # no single id
        ({"qid": dict(enumerate(qid)).values()}, "qid is a dict_values, expected one id for each row"),
        ({"group": [60, 50]}, "group counts add up to 110 rows"),
        ({"group": [60, 60], "qid": qid}, "not both"),
        ({"sample_weight": np.ones(3)}, r"sample_weight has shape \(3,\)"),
        ({"sample_weight": -np.ones(120)}, "not negative"),
        ({"sample_weight": np.full(120, np.inf)}, "finite"),
        ({"sample_weight": np.zeros(120)}, "all sample_weight are zero"),
        ({"eval_group": [[3]]}, "without eval_set"),
        ({"eval_set": [(X, y)], "eval_group": []}, "as long"),
    ]:
        ranker = Ridge()
        with pytest.raises(ValueError, match=message):
            ranker.fit(X, **{"y": y, "qid": None, **arguments})
        assert "coef_" not in vars(ranker)  # refused before the fit


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_tags_decide_about_nan_and_sparse_matrices():
    class Tree(Recorder):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.allow_nan, tags.input_tags.sparse = True, False
            return tags

    X = np.array([[1.0, np.nan], [0, 1]])
    assert np.isnan(Tree().fit(X, [0, 1]).got_[0][0, 1])
    with pytest.raises(ValueError, match=r"X is NaN .* at row 0, column 1 .*impute it"):
        Recorder().fit(X, [0, 1])
    with pytest.raises(TypeError, match="Sparse data was passed"):
        Tree().fit(sparse.csr_matrix(np.eye(2)), [0, 1])


@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize(
    "value, words", [(np.nan, "NaN .a missing value."), (np.inf, "infinite"), (-np.inf, "infinite")]
)
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_features_that_are_not_finite_are_named_in_fit_and_predict(sparsely, value, words):
    X, y = np.eye(4) + 1, [0, 1, 1, 0]
    bad = X.copy()
    bad[2, 1] = bad[3, 3] = value
    X, bad = (sparse.csr_matrix(X), sparse.csr_matrix(bad)) if sparsely else (X, bad)
    expected = rf"^X is {words} at row 2, column 1 \(2 such values\); expected finite numbers; .*leave out its row"
    with pytest.raises(DataError, match=expected):
        Ridge().fit(bad, y)
    with pytest.raises(DataError, match=expected):
        Ridge().fit(X, y).predict(bad)


def test_group_counts_are_the_same_as_ids():
    X, y, _ = problem()
    group = [50, 0, 30, 40]
    assert np.array_equal(Ridge().fit(X, y, group=group).coef_, Ridge().fit(X, y, np.repeat([9, 1, 4, 2], group)).coef_)


# weights


def test_weight_two_is_a_repeated_row_and_weight_zero_a_removed_one():
    X, y, qid = problem()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    weight[qid == qid[0]] = 0  # a whole query goes
    repeated = Ridge().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight), np.repeat(qid, weight))
    assert np.allclose(Ridge().fit(X, y, qid, weight).coef_, repeated.coef_, rtol=1e-10)
    got_X, got_y, blocks, got_weight = Recorder().fit(X, y, qid, weight).got_
    assert len(got_X) == len(got_y) == len(got_weight) == blocks.n_rows == (weight > 0).sum()
    assert (got_weight > 0).all() and len(blocks) == len(np.unique(qid[weight > 0])) and (blocks.sizes > 0).all()
    for query, low, high in zip(blocks.ids, blocks.offsets, blocks.offsets[1:], strict=False):
        assert np.array_equal(got_X[low:high], X[(qid == query) & (weight > 0)])


# rank and score


def test_rank():
    ranker = Recorder().fit(np.eye(1), [1])
    scores = np.array([[3.0], [1], [3], [5], [2], [1], [9]])
    assert ranker.rank(scores).tolist() == [6, 3, 0, 2, 4, 1, 5]
    qid = ["b", "a", "b", "a", "b", "a", "b"]
    assert ranker.rank(scores, qid).tolist() == [6, 0, 2, 4, 3, 1, 5]
    assert ranker.rank(scores, qid, top=2).tolist() == [6, 0, 3, 1]
    assert ranker.rank(scores, qid, top=99).tolist() == ranker.rank(scores, qid).tolist()
    assert ranker.rank(scores, np.sort(qid), top=1).tolist() == [0, 6]
    for top in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="top must be"):
            ranker.rank(scores, top=top)


def test_score_is_the_mean_ndcg_at_10():
    X, y, qid = problem()
    ranker = Ridge().fit(X, y, qid)
    scores = ranker.predict(X)
    assert ranker.score(X, y, qid) == pytest.approx(evaluate(y, scores, qid, ["ndcg@10"])["ndcg@10"], rel=1e-12)
    assert ranker.score(X, y, 0) == pytest.approx(evaluate(y, scores, 0, ["ndcg@10"])["ndcg@10"], rel=1e-12)
    assert ranker.score(X, y, qid, np.full(len(y), 3.0)) == pytest.approx(ranker.score(X, y, qid), rel=1e-12)
    keep = np.random.default_rng(0).random(len(y)) < 0.6
    assert ranker.score(X, y, qid, keep) == pytest.approx(ranker.score(X[keep], y[keep], qid[keep]), rel=1e-12)
    one = qid == qid[0]
    heavy = ranker.score(X, y, qid, np.where(one, 1e9, 1.0))
    assert heavy == pytest.approx(ranker.score(X[one], y[one], 0), rel=1e-6)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_validation_sets_are_scored_and_do_not_change_the_fit():
    X, y, qid = problem()
    Xv, yv, qv = problem(seed=1, n=40, queries=3)
    order = np.argsort(qv, kind="stable")
    counts = np.bincount(qv)
    data = RankingData(Xv, yv, qv)
    group = np.bincount(np.sort(qid))
    inputs = (X[np.argsort(qid, kind="stable")], y[np.argsort(qid, kind="stable")])
    ranker = Ridge().fit(*inputs, group=group, eval_set=[(Xv[order], yv[order]), data], eval_group=[counts, None])
    assert ranker.validation_scores_ == pytest.approx([ranker.score(Xv, yv, qv)] * 2, rel=1e-12)
    assert np.array_equal(ranker.coef_, Ridge().fit(*inputs, group=group).coef_)
    assert Ridge().fit(*inputs).validation_scores_ == []


# scaling


def test_scaling_within_queries():
    X, y, qid = problem()
    X = X * np.arange(1, 6) + qid[:, None] * 100.0
    ranker = Ridge(scale="query-minmax").fit(X, y, qid)
    scaled = X.copy()
    for query in np.unique(qid):
        block = X[qid == query]
        scaled[qid == query] = (block - block.min(0)) / (block.max(0) - block.min(0))
    plain = Ridge().fit(scaled, y, qid)
    assert np.allclose(ranker.coef_, plain.coef_)
    assert np.allclose(ranker.predict(X, qid), plain.predict(scaled))
    assert np.array_equal(ranker.rank(X, qid), plain.rank(scaled, qid))
    assert ranker.score(X, y, qid) == pytest.approx(plain.score(scaled, y, qid))
    assert np.allclose(ranker.predict(RankingData(X, y, qid)), ranker.predict(X, qid))
    with pytest.raises(ValueError, match="needs qid"):
        ranker.predict(X)
    one = X[qid == qid[0]]
    assert np.array_equal(ranker.rank(one), np.argsort(-ranker.predict(one, np.zeros(len(one))), kind="stable"))


def test_standard_scaling_learns_from_the_training_rows_only():
    X, y, qid = problem()
    X = X * 50 + 7
    ranker = Ridge(scale="standard").fit(X, y, qid)
    scaler = StandardScaler().fit(X)
    plain = Ridge().fit(scaler.transform(X), y, qid)
    assert np.allclose(ranker.predict(X[:3] + 1), plain.predict(scaler.transform(X[:3] + 1)))
    assert Ridge().fit(X, y, qid).scaler_ is None


@pytest.mark.parametrize("scale", sorted(SCALERS))
def test_the_scaler_travels_in_the_model_file(scale, tmp_path, monkeypatch):
    from hingerank.export.model_file import load

    monkeypatch.setitem(sys.modules, "toy_ridge", sys.modules[__name__])
    monkeypatch.setattr(Ridge, "__module__", "toy_ridge")
    monkeypatch.setitem(RANKERS, "ridge", "toy_ridge:Ridge")
    X, y, qid = problem()
    ranker = Ridge(scale=scale).fit(X * 9 + 3, y, qid)
    back = load(ranker.save(tmp_path / "m"))
    assert np.array_equal(back.predict(X, qid), ranker.predict(X, qid))
    other = make_scaler("standard").fit(X[:, 1:])
    for wrong, words in ((["no scaler"], "must be a Scaler, not list"), (other, "must be a scaler of the 5 features")):
        with pytest.raises(ValueError, match=f"scaler_ {words}"):
            back._restore(ranker._state() | {"scaler_": wrong})


# scikit-learn's tools


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_pipeline_and_grid_search_route_qid(routing):
    X, y, qid = problem()
    ranker = Ridge().set_fit_request(qid=True).set_score_request(qid=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ranker), {"ridge__alpha": [1e-3, 1e6]}, cv=GroupKFold(4), error_score="raise"
    )
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):  # their searches hand no ids to a pipeline's score
        with pytest.raises(ValueError, match="score got no query ids"):
            search.fit(X, y, qid=qid, groups=qid)
        return
    search.fit(X, y, qid=qid, groups=qid)
    by_hand = []
    for train, test in GroupKFold(4).split(X, y, qid):
        scaler = StandardScaler().fit(X[train])
        fitted = Ridge(1e-3).fit(scaler.transform(X[train]), y[train], qid[train])
        by_hand.append(fitted.score(scaler.transform(X[test]), y[test], qid[test]))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_cross_validation_routes_qid_by_another_name(routing):
    X, y, qid = problem()
    aliased = Ridge().set_fit_request(qid="groups").set_score_request(qid="groups")
    values = cross_val_score(aliased.set_params(alpha=1e-3), X, y, cv=GroupKFold(4), params={"groups": qid})
    assert len(values) == 4 and values.std() > 0


def test_pipeline_routes_qid_to_predict(routing):
    X, y, qid = problem()
    ranker = Ridge(scale="query-minmax").set_fit_request(qid=True).set_predict_request(qid=True)
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, y, qid=qid)
    assert np.allclose(pipeline.predict(X, qid=qid), Ridge(scale="query-minmax").fit(X, y, qid).predict(X, qid))


def test_clone_pickle_and_parallel_search(routing):
    X, y, qid = problem()
    ranker = Ridge(alpha=2.0).fit(X, y, qid)
    assert clone(ranker).alpha == 2.0 and not hasattr(clone(ranker), "coef_")
    assert np.array_equal(pickle.loads(pickle.dumps(ranker)).predict(X), ranker.predict(X))
    asking = Ridge().set_fit_request(qid=True).set_score_request(qid=True)
    with parallel_config("threading", n_jobs=2):
        search = GridSearchCV(asking, {"alpha": [0.1, 1]}, cv=GroupKFold(2)).fit(X, y, qid=qid, groups=qid)
    assert np.isfinite(search.best_score_)


def test_pyterrier_forms():
    """PyTerrier calls fit(X, y) or fit(X, y, group=, eval_set=, eval_group=), then predict(X)."""
    X, y, _ = problem()
    group, fold = np.array([70, 30]), slice(0, 100)
    ranker = Ridge().fit(X[fold], y[fold], group=group, eval_set=[(X[100:], y[100:])], eval_group=[np.array([20])])
    assert len(ranker.validation_scores_) == 1 and ranker.predict(X[100:]).shape == (20,)
    assert not hasattr(ranker, "feature_importances_")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # which PyTerrier uses
def test_pyterrier_itself():
    pyterrier, pandas = pytest.importorskip("pyterrier"), pytest.importorskip("pandas")
    X, y, qid = problem()
    topics = pandas.DataFrame({"qid": qid.astype(str), "docno": np.arange(len(y)).astype(str), "score": 1.0})
    topics["features"], judged = list(X), topics.assign(label=y.astype(int))
    for form in ("regression", "ltr"):
        ranker = Ridge()
        pipeline = pyterrier.ltr.apply_learned_model(ranker, form=form)
        with pytest.warns(OneQueryWarning) if form == "regression" else nullcontext():  # it hands no queries on
            pipeline.fit(topics, judged, topics, judged)
        found = pipeline.transform(topics).set_index("docno")["score"][topics["docno"]]
        assert np.allclose(found, ranker.predict(X))
        if form == "ltr":
            assert np.allclose(ranker.coef_, Ridge().fit(X, y, qid).coef_)
            assert ranker.validation_scores_ == pytest.approx([ranker.score(X, y, qid)])


# the rest


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_feature_table():
    ranker = Recorder().fit(np.eye(3), [0, 1, 2])
    ranker.coef_ = np.array([0.5, -2.0, 1.0])
    assert ranker.feature_table() == [("f2", -2.0), ("f3", 1.0), ("f1", 0.5)]
    assert ranker.feature_table(["a", "b", "c"])[0] == ("b", -2.0)
    with pytest.raises(ValueError, match="2 names were given for 3"):
        ranker.feature_table(["a", "b"])


def test_fingerprint_sees_data_grades_and_queries():
    X, y, qid = problem(n=2000)
    reference = Recorder().fit(X, y, qid).fingerprint_
    assert reference["rows"] == 2000 and reference["features"] == 5 and reference["queries"] == len(np.unique(qid))
    assert Recorder().fit(sparse.csr_matrix(X), y, qid).fingerprint_ == reference
    for other in ((X + 1, y, qid), (X, y + 1, qid), (X, y, qid + 1)):
        assert Recorder().fit(*other).fingerprint_["sha256_of_sample"] != reference["sha256_of_sample"]


@pytest.mark.filterwarnings("error")
def test_an_interrupted_fit_leaves_no_model(tmp_path, monkeypatch):
    X, y, qid = problem()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hingerank.rankers.low_rank.evaluate", interrupt)
    rows = RankingData.from_arrays(X, y, qid)
    for ranker, steering in [(RankSVM(), {"callback": interrupt}), (FactorizedRankSVM(), {"validation": rows})]:
        ranker.fit(X, y, qid=qid)
        with pytest.raises(KeyboardInterrupt):
            ranker.set_params(**steering).fit(X, y, qid=qid)
        for use, of in ((ranker.predict, X), (ranker.rank, X), (ranker.explain, X), (ranker.save, tmp_path / "model")):
            with pytest.raises(NotFittedError):
                use(of)


def test_warning_with_a_remedy():
    warn_not_converged(Certificate("duality gap", 1e-4, 1e-3, "converged", 5, 0.1))
    for status, remedy in (
        ("max_iter", "raise max_iter"),
        ("max_seconds", "raise max_seconds"),
        ("stalled", "rescale"),
    ):
        with pytest.warns(ConvergenceWarning, match=f"50 iterations.*duality gap 0.02 above.*0.001.*{remedy}"):
            warn_not_converged(Certificate("duality gap", 2e-2, 1e-3, status, 50, 0.1))


@pytest.mark.parametrize(
    "name, limit", [("max_seconds", "long"), ("max_seconds", float("nan")), ("max_iter", "many")], ids=str
)
def test_limits_that_are_no_numbers_are_named(name, limit):
    X, y, qid = problem()
    kind = "a whole number of at least 0" if name == "max_iter" else "a number"
    with pytest.raises(ValueError, match=f"{name} must be {kind}"):
        ranker_class("rank-svm")(**{name: limit}).fit(X, y, qid)


@pytest.mark.filterwarnings("always")
def test_warnings_point_to_the_line_of_the_caller():
    X, y, qid = problem()
    X[:, 0] *= 1e6  # a ScaleWarning
    ranker = ranker_class("rank-svm")(C=1e-30, max_iter=1)
    for fit in (
        lambda: ranker.fit(X, y, qid),
        lambda: ranker.fit_path(X, y, qid, [1e-30, 1e-6]),
        lambda: ranker.fit_winners(X, np.maximum(y, 0), qid),
        lambda: ranker.fit(X, y),
    ):
        with pytest.warns(UserWarning) as caught:
            fit()
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, size", [("tg-rank", 1e160), ("fourier-rank-svm", 1e-160), ("kernel-rank-svm", 1e160)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_features_whose_squares_overflow_are_refused(name, size):
    data = make_letor(n_queries=12, seed=0)
    with pytest.raises(DataError, match="squares of the features overflow; rescale them"):
        ranker_class(name)(scale=None).fit(np.asarray(data.X, np.float64) * size, data.y, data.qid)


def test_registry_lookups():
    with pytest.raises(ValueError, match="no ranker named 'nothing'"):
        ranker_class("nothing")
    with pytest.raises(ValueError, match="not in"):
        ranker_name(Ridge)


def test_importing_the_package_stays_light():
    heavy = "{'sklearn', 'numba', 'scipy'}"
    code = f"import sys, hingerank, hingerank.rankers; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_copies_do_not_look_up_parameters_again():
    """A search makes hundreds of copies; a subclass has parameters of its own."""
    kinds = [kind for kind in map(ranker_class, RANKERS) if issubclass(kind, BaseRanker)]
    assert kinds and all(kind._get_param_names() is kind._get_param_names() for kind in kinds)
    mine = type("Mine", (kinds[0],), {"__init__": lambda self, own=1: None})
    assert mine._get_param_names() == ["own"]


OF_PAIRS = [
    name for name in RANKERS if issubclass(ranker_class(name), ProblemRanker) and not ranker_class(name)._of_rows
]


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("name", OF_PAIRS)
def test_features_that_differ_between_queries_alone_are_named(name, rows):
    """In one warning: rescaling, more iterations or another C would not help."""
    qid, cls = np.repeat(np.arange(60), 3), ranker_class(name)
    X, y = np.random.default_rng(0).normal(size=(60, 2))[qid], np.tile([0, 1, 2], 60)
    ranker = cls(C=None) if "C" in cls().get_params() else cls()
    for features in (X, 1e6 * X, np.full_like(X, 3.7)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ranker.fit(rows(features), y, qid)
        (only,) = caught
        assert str(only.message).startswith("no feature differs between the rows of a query")
        assert getattr(ranker, "C_", 1.0) == 1.0
    X[-1] += 1.0  # the last row of the last query
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="no feature differs")
        ranker.fit(rows(X), y, qid)
