"""fit_winners of every registered ranker that has it: the optimum over listed pairs, wherever the rows lie."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

import hingerank as hr
from hingerank.preferences import WeightedWinners
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.corrections import click_weights
from hingerank.rankers.linear import PairwiseRanker
from hingerank.rankers.winners import WinnersRanker
from hingerank.registry import RANKERS, ranker_class

GRADED = {name: cls for name in RANKERS if issubclass(cls := ranker_class(name), BaseRanker)}
# no loss of pairs: grades are targets, gains or classes there, or trees and stumps are grown on them
NOT_OF_PAIRS = {
    "listmle", "rankrls", "crr", "pointwise-regression", "svm-map", "lambdarank", "softrank", "rankcosine",
    "ordinal-svm",
}  # fmt: skip
WITHOUT = {
    "factorized", "regularized", "ranking-fm", "rs-rank", "feature-selection", "prank", "adarank", "rankboost",
    "lightgbm", "gbrank", "mcrank", "xgboost", "blend",
}  # fmt: skip
SETTINGS = {
    "nystroem-rank-svm": {"n_components": 15, "gamma": 0.5},
    "fourier-rank-svm": {"n_components": 15, "gamma": 0.5},
    "kernel-rank-svm": {"gamma": 0.5},
    "additive-rank-svm": {"n_knots": 4},
    "fenchel-rank": {"radius": 4.0},
    "sparse-rank-svm": {"C": 20.0},
    "tg-rank": {"C": 20.0, "max_iter": 20000, "tol": 1e-5},
}


def test_every_ranker_either_learns_from_winners_or_is_known_not_to():
    have = {name for name, cls in GRADED.items() if issubclass(cls, WinnersRanker)}
    assert set(GRADED) - have == WITHOUT and have >= NOT_OF_PAIRS


@pytest.mark.parametrize("name", RANKERS)
def test_rankers_without_clicks_say_why_and_what_to_use(name):
    """A method is there, or asking for it says in words why it is not: `hasattr` is false and no call is tried."""
    ranker = ranker_class(name)()
    for method in ("fit_clicks", "fit_winners") if name in GRADED else ("fit_clicks",):
        if hasattr(ranker, method):
            assert callable(getattr(ranker, method)) and hasattr(type(ranker), method)
            continue
        assert not hasattr(type(ranker), method)
        with pytest.raises(AttributeError, match=rf"^{type(ranker).__name__} has no {method}: it .*RankSVM"):
            getattr(ranker, method)
    if name in GRADED:
        assert hasattr(ranker, "fit_clicks") == (name not in WITHOUT or name == "blend")


@pytest.fixture(scope="module")
def rows():
    """Queries in disorder, single rows, ties, a query without winners."""
    rng = np.random.default_rng(1)
    sizes = [1, 9, 12, 2, 7, 10]
    qid = np.repeat(list("abcdef"), sizes)[rng.permutation(sum(sizes))]
    X = rng.normal(size=(len(qid), 5)).round(1)
    u = np.where(rng.random(len(qid)) < 0.4, rng.exponential(2.0, len(qid)), 0.0) * (qid != "e")
    return X, u, qid


def listed(u, qid):
    pairs = [(i, j, u[i]) for i in range(len(u)) for j in range(len(u)) if i != j and qid[i] == qid[j] and u[i] > 0]
    winner, loser, weight = (np.array(column) for column in zip(*pairs))
    return winner, loser, weight


def make(name, **more):
    return GRADED[name](
        **{"tol": 1e-8, **({"scale": None} if name != "fourier" else {}), **SETTINGS.get(name, {}), **more}
    )


OF_PAIRS = sorted(set(GRADED) - WITHOUT - NOT_OF_PAIRS - {"listnet"})


@pytest.mark.parametrize("name", OF_PAIRS)
def test_the_optimum_is_that_of_the_listed_pairs(rows, name):
    X, u, qid = rows
    winner, loser, weight = listed(u, qid)
    ranker = make(name).fit_winners(X, u, qid)
    assert ranker.certificate_.converged and ranker.n_pairs_ == len(winner)
    if issubclass(GRADED[name], PairwiseRanker):
        plain = make(name).fit_pairs(X, winner, loser, weight)
        np.testing.assert_allclose(ranker.objective_, plain.objective_, rtol=1e-7)
        np.testing.assert_allclose(ranker.predict(X), plain.predict(X), atol=2e-3)
        return
    margins = np.maximum(0.0, 1.0 - (X[winner] - X[loser]) @ ranker.coef_)
    loss, penalty = weight @ margins**2 / weight.sum(), np.abs(ranker.coef_).sum()
    expected = loss if name == "fenchel-rank" else penalty + 20.0 * loss
    np.testing.assert_allclose(ranker.objective_, expected, rtol=1e-9)
    assert loss < 0.9


@pytest.mark.parametrize("loss", ["hinge", "logistic", "modified_huber", "exponential", "squared"])
@pytest.mark.parametrize("kind", ["rank-svm", "kernel-rank-svm"])
def test_losses_and_solvers(rows, loss, kind):
    if kind == "kernel-rank-svm" and loss not in ("hinge", "logistic"):
        pytest.skip("one smooth loss in a kernel's space is enough")
    X, u, qid = rows
    pairs = listed(u, qid)
    tol = 1e-4 if loss == "hinge" else 1e-8
    solvers = ["smoothing", "cutting-plane", "dual"] if loss == "hinge" and kind == "rank-svm" else ["auto"]
    plain = make(kind, loss=loss, tol=tol, C=0.2).fit_pairs(X, *pairs)
    for solver in solvers:
        ranker = make(kind, loss=loss, tol=tol, C=0.2, solver=solver).fit_winners(X, u, qid)
        assert ranker.certificate_.converged
        np.testing.assert_allclose(ranker.objective_, plain.objective_, rtol=2 * tol)


@pytest.mark.parametrize("name", sorted(NOT_OF_PAIRS))
def test_losses_of_graded_lists_say_so(rows, name):
    X, u, qid = rows
    with warnings.catch_warnings(), pytest.raises(ValueError, match="cannot learn from winners"):
        warnings.simplefilter("ignore")
        GRADED[name]().fit_winners(X, u, qid)


def test_listnet_minimises_the_weighted_cross_entropy(rows):
    X, u, qid = rows
    ranker = hr.ListNet(C=0.3, tol=1e-9).fit_winners(X, u, qid)
    s, value = X @ ranker.coef_, 0.5 * ranker.coef_ @ ranker.coef_
    for q in np.unique(qid):
        mine = qid == q
        value += 0.3 * u[mine] @ (np.logaddexp.reduce(s[mine]) - s[mine])
    np.testing.assert_allclose(ranker.objective_, value, rtol=1e-9)
    assert ranker.certificate_.converged


@pytest.mark.parametrize("name", ["rank-svm", "sparse-rank-svm", "additive-rank-svm", "nystroem-rank-svm"])
@pytest.mark.parametrize("scale", [None, "standard", "query-minmax"])
def test_rows_in_a_mapped_file_in_parts_and_sparse_have_the_same_answer(tmp_path, name, scale):
    made = hr.make_letor(40, 8, n_features=6, seed=2)
    rng = np.random.default_rng(0)
    u = np.where(rng.random(made.n_rows) < 0.3, rng.exponential(2.0, made.n_rows), 0.0)
    data = hr.RankingData(made.X, u, made.qid)
    hr.write(data, f"{tmp_path}/rows/")
    if name == "nystroem-rank-svm" and scale == "query-minmax":
        pytest.skip("a map of rows of many parts takes scaling by columns alone")
    ranker = make(name, scale=scale).fit_winners(data)
    others = {
        "mapped": hr.read(tmp_path / "rows"),
        "parts": hr.distributed.read(f"{tmp_path}/rows", parts=3),
        "disorder": data.take(rng.permutation(data.n_rows)),
    }
    if scale != "standard" and name != "additive-rank-svm":
        others["sparse"] = hr.RankingData(sparse.csr_matrix(data.X), data.y, data.qid)
    for rows in others.values():
        other = make(name, scale=scale).fit_winners(rows)
        assert other.n_pairs_ == ranker.n_pairs_
        np.testing.assert_allclose(other.objective_, ranker.objective_, rtol=1e-5)


def test_samples_of_many_queries_start_the_same_fit():
    """Newton's samples are every k-th query's winners: many small queries."""
    rng = np.random.default_rng(5)
    X, qid = rng.normal(size=(45_000, 3)), np.repeat(np.arange(15_000), 3)
    u = rng.exponential(1.0, len(X)) * (rng.random(len(X)) < 0.5 + 0.3 * np.sign(X[:, 0]))
    ranker = hr.RankSVM(C=1e-3, tol=1e-12).fit_winners(X, u, qid)
    pairs = WeightedWinners(u, np.arange(0, 45_001, 3)).pairs()
    plain = hr.RankSVM(C=1e-3, tol=1e-12).fit_pairs(X, *pairs)
    np.testing.assert_allclose(ranker.coef_, plain.coef_, rtol=1e-5)


def test_queries_that_count_the_same(rows):
    X, u, qid = rows
    winner, loser, weight = listed(u, qid)
    ranker = hr.RankSVM(pair_weight="query", tol=1e-9).fit_winners(X, u, qid)
    plain = hr.RankSVM(pair_weight="query", tol=1e-9).fit_pairs(X, winner, loser, weight, qid=qid[winner])
    np.testing.assert_allclose(ranker.coef_, plain.coef_, atol=1e-5)


def test_what_winners_cannot_be(rows):
    X, u, qid = rows
    with pytest.raises(ValueError, match="not negative"):
        hr.RankSVM().fit_winners(X, u - 1.0, qid)
    with pytest.raises(ValueError, match="grade_weight is a matrix over grades"):
        hr.RankSVM(grade_weight=np.ones((2, 2))).fit_winners(X, u, qid)
    with pytest.raises(ValueError, match="one for each row"):
        hr.RankSVM().fit_winners(hr.RankingData.from_arrays(X, u, qid), u[:5])
    with pytest.warns(UserWarning, match="none has a weight"):
        hr.RankSVM().fit_winners(X, np.zeros(len(u)), qid)


@pytest.mark.parametrize("name", [*OF_PAIRS, "listnet"])
def test_every_ranker_of_pairs_learns_from_clicks(rows, name):
    """A fit on clicks is the one on the weights that they become."""
    X, _, qid = rows
    data, rng = hr.RankingData.from_arrays(X, np.zeros(len(X)), qid, docid=np.arange(len(X))), np.random.default_rng(3)
    shown = rng.integers(0, len(X), 400)
    place = rng.integers(1, 4, 400)
    log = hr.ClickLog(
        queries=qid[shown], documents=shown, places=place, clicks=rng.random(400) < (X[shown, 0] > 0) / place
    )
    joined, p = log.join(data), [1.0, 0.5, 0.3]
    clicked = make(name).fit_clicks(joined, propensities=p, correction="clipped")
    weights = click_weights(joined, p, "clipped")
    np.testing.assert_array_equal(clicked.predict(X), make(name).fit_winners(data, weights).predict(X))


@pytest.mark.parametrize("correction", ["ips", "doubly-robust"])
def test_clicks_on_rows_of_a_mapped_file(tmp_path, correction):
    made = hr.make_letor(40, 8, n_features=6, seed=2)
    rows = hr.RankingData(made.X, made.y, made.qid, docid=np.arange(made.n_rows).astype(str))
    hr.write(rows, f"{tmp_path}/rows/")
    mapped = hr.read(tmp_path / "rows")
    log = hr.simulate_clicks(rows, rows.X[:, 0], sessions=2000, seed=0, counted=True)
    how = {"propensities": 1 / np.arange(1, 9), "correction": correction}
    one, other = (hr.RankSVM(C=1e-3, tol=1e-9).fit_clicks(log.join(data), **how) for data in (rows, mapped))
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)


@pytest.mark.parametrize("name", ["rank-svm", "sparse-rank-svm", "additive-rank-svm"])
def test_clicks_on_rows_in_parts(tmp_path, name):
    """The log is joined with the ids of the parts' rows, and fits and values are those of rows in memory."""
    made = hr.make_letor(40, 8, n_features=6, seed=2)
    rows = hr.RankingData(made.X, made.y, made.qid, docid=np.arange(made.n_rows).astype(str))
    for k, ids in enumerate(np.array_split(rows.blocks.ids, 3)):
        hr.write(rows.subset(ids.tolist()), f"{tmp_path}/part{k}/")
    parts = hr.distributed.read([f"{tmp_path}/part{k}" for k in range(3)])
    log, p = hr.simulate_clicks(rows, rows.X[:, 0], sessions=2000, seed=0, counted=True), 1 / np.arange(1, 9)
    near, far = log.join(rows), log.join(parts)
    one, other = (make(name).fit_clicks(data, propensities=p, correction="clipped") for data in (near, far))
    assert other.n_pairs_ == one.n_pairs_
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-5)
    values = [hr.evaluate_clicks(data, one, propensities=p) for data in (near, far)]
    assert values[1].value == pytest.approx(values[0].value) and values[1].interval == pytest.approx(values[0].interval)
    for call in (
        lambda: make(name).fit_clicks(far, propensities=p, correction="doubly-robust"),
        lambda: hr.evaluate_clicks(far, one, propensities=p, estimator="dr"),
        lambda: hr.tune(name, far, propensities=p),
        lambda: hr.Blend([hr.RankSVM(), hr.RankSVM()]).fit_clicks(far, propensities=p),
        lambda: far.subset([1]),
    ):
        with pytest.raises(ValueError, match="rows in parts, whose features are not in this process"):
            call()


# Around the ranker in production.


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "listnet"])
def test_around_weights_the_norm_counts_from_them(rows, loss):
    X, u, qid = rows
    centre, C = np.array([1.0, -2.0, 0.0, 0.5, 3.0]), 0.005
    near = hr.RankSVM(C=C, loss=loss, tol=1e-10).fit_winners(X, u, qid, around=centre)
    assert near.certificate_.converged
    rng = np.random.default_rng(0)

    def value(w):
        far = hr.RankSVM(C=C, loss=loss)
        problem = far._problem(far._source(X, u, qid, None, None, prefer_winners))
        return 0.5 * (w - centre) @ (w - centre) + C * problem.risk(w)[0]

    np.testing.assert_allclose(near.objective_, value(near.coef_), rtol=1e-9)
    assert all(value(near.coef_ + 1e-3 * rng.normal(size=5)) > near.objective_ for _ in range(20))
    few = hr.RankSVM(C=1e-12, loss=loss).fit_winners(X, u, qid, around=centre)
    np.testing.assert_allclose(few.coef_, centre, atol=1e-8)


def prefer_winners(y, blocks, weight):
    return WeightedWinners(y, blocks.offsets)


@pytest.mark.parametrize("scale", [None, "standard", "query-minmax"])
@pytest.mark.parametrize("before", [None, "standard", "query-minmax"])
def test_the_ranker_in_production_may_be_scaled_otherwise(rows, scale, before):
    X, u, qid = rows
    production = hr.RankSVM(scale=before).fit(X, X[:, 0] > 0, qid)
    if (scale == "query-minmax") != (before == "query-minmax"):
        with pytest.raises(ValueError, match="scales its features differently"):
            hr.RankSVM(scale=scale).fit_winners(X, u, qid, around=production)
        return
    near = hr.RankSVM(C=1e-12, scale=scale).fit_winners(X, u, qid, around=production)
    apart = near.predict(X, qid) - production.predict(X, qid)
    assert np.ptp(apart) < 1e-6  # the same scores, but for a constant


def test_around_what_cannot_be(rows):
    X, u, qid = rows
    production = hr.RankSVM().fit(X, X[:, 0] > 0, qid)
    for ranker in (hr.RankSVM(loss="hinge"), hr.SparseRankSVM(), hr.KernelRankSVM(gamma=1.0), hr.AdditiveRankSVM()):
        with pytest.raises(ValueError, match="around="):
            ranker.fit_winners(X, u, qid, around=production)
    with pytest.raises(ValueError, match="linear in the same features"):
        hr.RankSVM().fit_winners(X, u, qid, around=[1.0, 2.0])
    with pytest.raises(ValueError, match="fitted linear ranker"):
        hr.RankSVM().fit_winners(X, u, qid, around="production")
    with pytest.raises(ValueError, match="weights of the map's outputs"):  # even where there are as many of them
        hr.RankSVM(features=PCA(X.shape[1])).fit_winners(X, u, qid, around=production)
    turned = hr.RankSVM(scale="query-minmax", features=PCA(X.shape[1])).fit(X, u, qid)
    with pytest.raises(ValueError, match="without a feature map"):
        hr.RankSVM(scale="query-minmax").fit_winners(X, u, qid, around=turned)
