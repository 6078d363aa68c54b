"""SVM-MAP, LambdaRank, SoftRank, RankCosine, PRank and regression against enumeration and plain loops."""

from itertools import pairwise, permutations, product
from math import erf

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from sklearn.linear_model import Ridge

import hingerank as hr
from hingerank.losses import make_loss
from hingerank.losses.rankings import ExpectedNdcg, LambdaLoss
from hingerank.preferences import ExplicitPairs, GradedPreferences


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    qid = np.sort(rng.integers(0, 12, 150))
    X = rng.normal(size=(150, 6)) + 3.0
    y = np.clip(np.round(X[:, 0] - X[:, 1] + rng.normal(size=150)) + 1, 0, 3)
    return X, y, qid


def graded(y, qid):
    return GradedPreferences(y, np.concatenate(([0], np.cumsum(np.bincount(qid)))))


# SVM-MAP


def average_precision(order, relevant):
    places = np.flatnonzero(relevant[list(order)]) + 1
    return np.mean(np.arange(1, len(places) + 1) / places)


def joint_feature(order, s, relevant):
    """Ψ of a ranking, times w."""
    place = np.argsort(order)
    signs = np.where(place[relevant][:, None] < place[~relevant][None, :], 1, -1)
    return (signs * (s[relevant][:, None] - s[~relevant][None, :])).mean()


def worst(s, relevant):
    """max over all rankings of  1 - AP + Ψ - Ψ*."""
    if relevant.all() or not relevant.any():
        return 0.0
    ideal = np.argsort(~relevant, kind="stable")
    every = (1 - average_precision(o, relevant) + joint_feature(o, s, relevant) for o in permutations(range(len(s))))
    return max(every) - joint_feature(ideal, s, relevant)


@pytest.mark.parametrize("size", [1e-3, 0.3, 3.0, 1e4])
@pytest.mark.parametrize("ties", [False, True])
def test_the_worst_ranking_is_the_worst_of_all(size, ties):
    rng = np.random.default_rng([int(1000 * size), ties])
    for n in (1, 2, 3, 4, 5, 6, 7, 7):
        s, y = size * (np.round(2 * rng.normal(size=n)) if ties else rng.normal(size=n)), rng.integers(0, 3, n) * 1.0
        at = make_loss("average_precision").at(s, GradedPreferences(y, np.array([0, n])))
        assert at.value == pytest.approx(worst(s, y >= 1), rel=1e-9, abs=1e-12)
        if 0 < (y >= 1).sum() < n:
            assert at.value >= 1 - average_precision(np.argsort(-s, kind="stable"), y >= 1) - 1e-9 * size


def test_the_worst_ranking_is_found_among_many_rows():
    """By listing f_j(k) for every j and k."""
    rng = np.random.default_rng(3)
    for n in (50, 333):
        s, y = 0.05 * rng.normal(size=n), (rng.random(n) < 0.3) * 1.0
        p, other = -np.sort(-s[y == 1]), -np.sort(-s[y == 0])
        P, N, i, total = len(p), len(other), np.arange(1, len(p) + 1), 0.0
        for j in range(1, N + 1):
            cost = (j / (i + j) - (j - 1) / (i + j - 1)) / P - 2 * (p - other[j - 1]) / (P * N)
            total += max(0.0, np.cumsum(cost[::-1]).max())
        at = make_loss("average_precision").at(s, GradedPreferences(y, np.array([0, n])))
        assert at.value == pytest.approx(total, rel=1e-9)


def test_average_precision_is_convex_and_its_gradient_a_slope():
    rng = np.random.default_rng(4)
    y, offsets = rng.integers(0, 2, 60) * 1.0, np.array([0, 1, 25, 25, 60])
    preferences, loss = GradedPreferences(y, offsets, query_weight=[1.0, 0.5, 2.0, 3.0]), make_loss("average_precision")
    s, h = 0.1 * rng.normal(size=60), 1e-7
    here = loss.at(s, preferences)
    slope = [
        (loss.at(s + h * e, preferences).value - loss.at(s - h * e, preferences).value) / (2 * h) for e in np.eye(60)
    ]
    np.testing.assert_allclose(here.gradient, slope, atol=1e-6)
    for _ in range(20):
        other = 10 ** rng.uniform(-3, 2) * rng.normal(size=60)
        assert loss.at(other, preferences).value >= here.value + here.gradient @ (other - s) - 1e-10


def test_svm_map_is_the_optimum_of_its_definition(data):
    X, y, qid = data
    ranker = hr.SVMMAP(C=5.0, relevant=2, tol=1e-5).fit(X, y, qid)
    assert ranker.certificate_.converged and ranker.certificate_.kind == "relative duality gap"
    loss = make_loss("average_precision")
    preferences = graded((y >= 2) * 1.0, qid)

    def value(w):
        return 0.5 * w @ w + 5.0 * loss.at(X @ w, preferences).value

    assert ranker.objective_ == pytest.approx(value(ranker.coef_), rel=1e-9)
    rng = np.random.default_rng(0)
    for start in [ranker.coef_, *rng.normal(size=(3, 6))]:
        found = scipy.optimize.minimize(value, start, method="Powell", options={"maxiter": 20, "xtol": 1e-6})
        assert found.fun >= ranker.objective_ * (1 - 1.1e-5)
    assert ranker.n_pairs_ == preferences.n_pairs


def test_svm_map_refuses_what_rankings_cannot_use(data):
    X, y, qid = data
    with pytest.raises(TypeError, match="sample_weight"):
        hr.SVMMAP().fit(X, y, qid, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="relevant must be a number, the least grade of a relevant row, not 'x'"):
        hr.SVMMAP(relevant="x").fit(X, y, qid)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        hr.RankSVM(loss="average_precision").fit(X, y, qid, np.full(len(y), 2.0))
    with pytest.raises(ValueError, match="does not minimise loss 'average_precision'"):
        hr.RankSVM(loss="average_precision", solver="newton").fit(X, y, qid)
    with pytest.warns(UserWarning, match="no preference pairs"):
        assert not hr.SVMMAP(relevant=9).fit(X, y, qid).coef_.any()


# SoftRank


def soft_loss(s, y, depth):
    """1 - expected NDCG, every set of rows above a row enumerated."""
    n = len(s)
    discount = np.array([1 / np.log2(r + 2) if depth is None or r < depth else 0.0 for r in range(n)])
    gain = 2**y - 1
    best = np.sort(gain)[::-1] @ discount
    if best == 0:
        return 0.0
    total = 0.0
    for j in range(n):
        pi = [0.5 * (1 + erf((s[i] - s[j]) / 2)) for i in range(n) if i != j]
        for above in product([0, 1], repeat=n - 1):
            chance = np.prod([p if e else 1 - p for p, e in zip(pi, above)]) if pi else 1.0
            total += gain[j] * discount[sum(above)] * chance
    return 1 - total / best


@pytest.mark.parametrize("depth", [None, 1, 3, 50])
@pytest.mark.parametrize("ties", [False, True])
def test_soft_ndcg_is_the_sum_over_all_events_and_its_gradient_a_slope(depth, ties):
    rng = np.random.default_rng([depth or 0, ties])
    offsets, h = np.array([0, 6, 7, 7, 14, 17]), 1e-5
    y, s = rng.integers(0, 3, 17) * 1.0, rng.normal(size=17)
    y[14:] = 0.0
    s = np.round(s) if ties else s
    loss, preferences = ExpectedNdcg(depth), GradedPreferences(y, offsets)
    here = loss.at(s, preferences)
    plain = sum(soft_loss(s[a:b], y[a:b], depth) for a, b in pairwise(offsets) if b > a)
    assert here.value == pytest.approx(plain, rel=1e-10)
    ends = [loss.at(s + h * e, preferences).value - loss.at(s - h * e, preferences).value for e in np.eye(17)]
    np.testing.assert_allclose(here.gradient, np.array(ends) / (2 * h), atol=1e-8)
    far = loss.at(1e8 * s, preferences)
    assert np.isfinite(far.value) and np.isfinite(far.gradient).all()


def test_far_scores_have_the_plain_ndcg():
    rng = np.random.default_rng(1)
    y, s, qid = rng.integers(0, 3, 40) * 1.0, 1e6 * rng.permutation(40), np.repeat([0, 1], 20)
    for depth in (5, None):
        at = ExpectedNdcg(depth).at(s, graded(y, qid))
        name = f"ndcg@{depth or 20}"
        assert at.value == pytest.approx(2 - 2 * hr.evaluate(y, s, qid, name)[name], rel=1e-9)


def test_soft_rank_ends_where_it_says(data):
    X, y, qid = data
    ranker = hr.SoftRank(C=3.0, tol=1e-5).fit(X, y, qid)
    loss, preferences = ExpectedNdcg(), graded(y, qid)
    at = loss.at(X @ ranker.coef_, preferences)
    pull, w = 3.0 * X.T @ at.gradient, ranker.coef_
    assert ranker.certificate_.converged and ranker.certificate_.kind == "stationarity"
    assert np.linalg.norm(w + pull) <= 1.01e-5 * (np.linalg.norm(w) + np.linalg.norm(pull))
    assert ranker.objective_ == pytest.approx(0.5 * w @ w + 3.0 * at.value, rel=1e-12)
    assert ranker.objective_ < 3.0 * loss.at(np.zeros(len(y)), preferences).value
    with pytest.raises(ValueError, match="top must be a positive whole number"):
        hr.SoftRank(top=0).fit(X, y, qid)


# LambdaRank


def lambdas(s, y, m, offsets, depth):
    """(value, gradient) over listed pairs, for the weights of the ranking by s, which has no ties."""
    value, z = 0.0, np.zeros(len(s))
    for a, b in pairwise(offsets):
        place = np.argsort(np.argsort(-s[a:b]))
        discount = np.where(place < (depth or len(s)), 1 / np.log2(place + 2), 0.0)
        gain = 2 ** y[a:b] - 1
        best = (np.sort(gain)[::-1] / np.log2(np.arange(2, b - a + 2)))[:depth].sum()
        for i in range(b - a):
            for j in range(b - a):
                if y[a + i] > y[a + j]:
                    W = (gain[i] - gain[j]) * abs(discount[i] - discount[j]) / best
                    value += W * np.log1p(np.exp(s[a + j] - s[a + i]))
                    force = W / (1 + np.exp(s[a + i] - s[a + j]))
                    z[a + i] -= force
                    z[a + j] += force
    return value, z


@pytest.mark.parametrize("depth", [None, 4])
def test_lambdas_are_those_of_the_paper(depth):
    rng = np.random.default_rng(2)
    offsets, s, y = np.array([0, 9, 10, 22]), rng.normal(size=22), rng.integers(0, 4, 22) * 1.0
    preferences = GradedPreferences(y, offsets)
    loss = LambdaLoss(preferences, depth)
    loss.rank(s)
    at = loss.at(s, preferences)
    value, z = lambdas(s, y, None, offsets, depth)
    assert at.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(at.gradient, z, atol=1e-12)
    h, v = 1e-5, rng.normal(size=22)
    hessian = np.array(
        [loss.at(s + h * e, preferences).gradient - loss.at(s - h * e, preferences).gradient for e in np.eye(22)]
    )
    np.testing.assert_allclose(at.curvature(v), hessian / (2 * h) @ v, atol=1e-8)
    np.testing.assert_allclose(at.diagonal, np.diag(hessian) / (2 * h), atol=1e-8)


def test_lambda_rank_ends_at_a_fixed_point(data):
    X, y, qid = data
    ranker = hr.LambdaRank(C=0.3, tol=1e-7).fit(X, y, qid)
    value, z = lambdas(X @ ranker.coef_, y, None, graded(y, qid).offsets, None)
    gradient = ranker.coef_ + 0.3 * X.T @ z
    f = 0.5 * ranker.coef_ @ ranker.coef_ + 0.3 * value
    assert ranker.certificate_.converged and ranker.certificate_.kind == "stationarity"
    assert ranker.objective_ == pytest.approx(f, rel=1e-9)
    assert 0.5 * gradient @ gradient <= 1.01e-7 * f
    assert np.linalg.norm(ranker.coef_) > 0.1


def test_graded_rows_are_what_measures_need():
    X = np.eye(3)
    for ranker in (hr.LambdaRank(), hr.SoftRank(), hr.SVMMAP(), hr.RankCosine()):
        with pytest.raises(ValueError, match="single comparisons"):
            ranker.fit_preferences(X, ExplicitPairs([1], [0], 3))


# RankCosine


def test_rank_cosine_goes_where_other_solvers_go(data):
    X, y, qid = data
    ranker = hr.RankCosine(C=2.0, tol=1e-10).fit(X, y, qid)
    preferences, loss = graded(y, qid), make_loss("cosine")

    def value(w):
        at = loss.at(X @ w, preferences)
        return 0.5 * w @ w + 2.0 * at.value, w + 2.0 * X.T @ at.gradient

    found = scipy.optimize.minimize(value, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(ranker.coef_, found.x, atol=1e-4)
    assert ranker.certificate_.converged and ranker.certificate_.kind == "stationarity"


# Pointwise


def test_regression_is_ridge_regression(data):
    X, y, qid = data
    m = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    for weight in (None, m):
        total = len(y) if weight is None else m.sum()
        ridge = Ridge(alpha=total / (2 * 7.0)).fit(X, y, weight)
        for rows in (X, sparse.csr_matrix(X)):
            ranker = hr.PointwiseRegression(C=7.0).fit(rows, y, qid, weight)
            np.testing.assert_allclose(ranker.coef_, ridge.coef_, atol=1e-8)
            np.testing.assert_allclose(ranker.predict(X), ridge.predict(X), atol=1e-7)
    path = hr.PointwiseRegression().fit_path(X, y, qid, [1.0, 7.0])
    np.testing.assert_allclose(path[1].coef_, hr.PointwiseRegression(C=7.0).fit(X, y, qid).coef_, atol=1e-8)


def prank(X, y, order, w, b):
    """One pass as the paper writes it."""
    missed, total_w, total_b = 0, np.zeros_like(w), np.zeros_like(b)
    for r in order:
        sides = np.where(y[r] > np.arange(len(b)), 1, -1)
        tau = np.where((X[r] @ w - b) * sides <= 0, sides, 0)
        missed += np.abs(tau).sum()
        w, b = w + tau.sum() * X[r], b - tau
        total_w, total_b = total_w + w, total_b + b
    return missed, w, b, total_w, total_b


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_prank_makes_the_papers_steps(average, kind, data, monkeypatch):
    X, y, qid = data
    visits = []
    import hingerank.rankers.ordinal as module

    plain = module.prank_pass

    def seen(rows, level, order, *more):
        visits.append(order.copy())
        return plain(rows, level, order, *more)

    monkeypatch.setattr(module, "prank_pass", seen)
    ranker = hr.PRank(3, average=average).fit(kind(X), y, qid)
    w, b, sums = np.zeros(6), np.zeros(3), [np.zeros(6), np.zeros(3)]
    for order in visits:
        assert sorted(order) == list(range(len(y)))
        missed, w, b, *more = prank(X, y, order, w, b)
        sums = [s + t for s, t in zip(sums, more)]
    steps = 3 * len(y)
    np.testing.assert_allclose(ranker.coef_, sums[0] / steps if average else w, atol=1e-9)
    np.testing.assert_allclose(ranker.thresholds_, sums[1] / steps if average else b, atol=1e-9)
    assert ranker.certificate_.value == missed / len(y) and ranker.certificate_.status == "max_iter"


@pytest.mark.parametrize("average", [False, True])
def test_bags_of_prank_are_the_mean_of_perceptrons_that_visit_some_rows(average, data, monkeypatch):
    """OAP-BPM: three copies, each with the rows that it draws, step by step."""
    X, y, qid = data
    visits = []
    import hingerank.rankers.ordinal as module

    plain = module.prank_pass

    def seen(rows, level, order, *more):
        visits.append(order.copy())
        return plain(rows, level, order, *more)

    monkeypatch.setattr(module, "prank_pass", seen)
    ranker = hr.PRank(4, average=average, n_bags=3, bag_share=0.4).fit(X, y, qid)
    share = np.mean([len(order) for order in visits]) / len(y)
    assert len(visits) == 3 * 4 and 0.3 < share < 0.5 and all(len(set(order)) == len(order) for order in visits)
    copies = []
    for k in range(3):
        w, b, sums, steps = np.zeros(6), np.zeros(3), [np.zeros(6), np.zeros(3)], 0
        for order in visits[k::3]:
            _, w, b, *more = prank(X, y, order, w, b)
            sums, steps = [s + t for s, t in zip(sums, more)], steps + len(order)
        copies.append(np.concatenate(sums) / steps if average else np.concatenate([w, b]))
    np.testing.assert_allclose(np.append(ranker.coef_, ranker.thresholds_), np.mean(copies, axis=0), atol=1e-9)
    with pytest.raises(ValueError, match="bag_share must be above 0 and at most 1, not 0"):
        hr.PRank(bag_share=0).fit(X, y, qid)
    one = hr.PRank(2, n_bags=2, bag_share=1e-9).fit(X[:5], y[:5], qid[:5])  # no row is visited
    assert not one.coef_.any() and one.certificate_.value == 0


def test_prank_stops_where_grades_are_right_and_says_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    s = X @ [1.0, 2.0]
    y = np.digitize(s, [-1.0, 1.0]) * 2.0 - 1.0
    near = np.min(np.abs(s[:, None] - [-1.0, 1.0]), axis=1) < 0.2
    X, y = X[~near], y[~near]
    ranker = hr.PRank(500, average=False).fit(X, y, qid=0)
    assert ranker.certificate_.converged and ranker.n_iter_ < 500
    assert np.array_equal(ranker.predict_grades(X), y)
    assert (np.diff(ranker.thresholds_) > 0).all()
