"""All solvers that accept a problem find the same optimum; outside solvers agree."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from hingerank import ExplicitPairs, GradedPreferences, RankSVM
from hingerank.losses import LOSSES
from hingerank.problem import Problem, RowsDesign
from hingerank.rankers.linear import SOLVERS


def problem(seed=0, n_queries=12, d=6, n_grades=3, rows=(1, 25)):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*rows, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.normal(size=(len(qid), d))
    y = np.clip(np.round(X @ rng.normal(size=d) * 0.6 + rng.normal(size=len(qid))) + 1, 0, n_grades - 1)
    return X, y, qid


def differences(X, y, qid):
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    return X[i] - X[j]


def value(w, D, C, loss):
    return 0.5 * w @ w + C * LOSSES[loss]().pointwise(D @ w)[0].sum()


@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("solver,loss", [(s, loss) for s in SOLVERS for loss in SOLVERS[s].losses if loss in LOSSES])
def test_every_solver_reaches_the_optimum_of_its_loss(solver, loss, C):
    X, y, qid = problem()
    D = differences(X, y, qid)
    tol = 1e-12 if loss != "hinge" else 1e-6
    ranker = RankSVM(C=C, loss=loss, solver=solver, tol=tol, max_iter=20000).fit(X, y, qid=qid)
    assert ranker.certificate_.converged and ranker.n_pairs_ == len(D)
    np.testing.assert_allclose(ranker.objective_, value(ranker.coef_, D, C, loss), rtol=1e-9)
    if loss == "hinge":  # the certificate is a lower bound: nothing found elsewhere may be below it
        reference = RankSVM(C=C, loss=loss, solver="smoothing", tol=1e-8, max_iter=5000).fit(X, y, qid=qid).objective_
        assert reference * (1 - 2e-8) <= ranker.objective_
        assert ranker.objective_ <= reference * (1 + 1.1 * tol)
        if solver == "dual":  # its multipliers are as good
            bound = ranker.multipliers_.sum() - 0.5 * ranker.coef_ @ ranker.coef_
            assert reference * (1 - 1.1 * tol) <= bound <= reference * (1 + 1e-8)
    else:
        start = np.zeros(X.shape[1])
        best = scipy.optimize.minimize(
            value, start, (D, C, loss), method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
        )
        assert ranker.objective_ <= best.fun * (1 + 1e-8) + 1e-12
        np.testing.assert_allclose(ranker.coef_, best.x, atol=1e-3 * max(1.0, np.abs(best.x).max()))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_equals_liblinear_on_listed_differences(loss):
    X, y, qid = problem(1)
    D, C = differences(X, y, qid), 0.05
    signs = np.where(np.arange(len(D)) % 2, 1, -1)
    peer = LinearSVC(C=C, loss=loss, fit_intercept=False, tol=1e-9, max_iter=1_000_000, dual=True, random_state=0)
    peer.fit(D * signs[:, None], signs)
    ranker = RankSVM(C=C, loss=loss, tol=1e-8).fit(X, y, qid=qid)
    np.testing.assert_allclose(ranker.coef_, peer.coef_[0], atol=2e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "modified_huber", "logistic", "exponential"])
def test_dense_sparse_float32_and_explicit_pairs_agree(loss):
    X, y, qid = problem(2)
    X[np.abs(X) < 0.5] = 0
    X = X.astype(np.float32)
    options = {"C": 0.1, "loss": loss, "tol": 1e-8 if loss != "hinge" else 1e-7}
    dense = RankSVM(**options).fit(X.astype(float), y, qid=qid)
    single = RankSVM(**options).fit(X, y, qid=qid)
    sparse = RankSVM(**options).fit(sp.csr_matrix(X.astype(float)), y, qid=qid)
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    listed = RankSVM(**options).fit_pairs(X.astype(float), i, j)
    for other in (single, sparse, listed):
        np.testing.assert_allclose(other.objective_, dense.objective_, rtol=1e-6)
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=2e-3)


def test_dual_multipliers_are_feasible_and_give_the_weights():
    X, y, qid = problem(3)
    order = np.random.default_rng(0).permutation(len(y))  # rows of a query need not lie together
    X, y, qid = X[order], y[order], qid[order]
    for rows in (X, sp.csr_matrix(X)):
        ranker = RankSVM(C=0.3, loss="hinge", solver="dual", tol=1e-6).fit(rows, y, qid=qid)
        a, (winner, loser) = ranker.multipliers_, ranker.pairs_.T
        assert (qid[winner] == qid[loser]).all() and (y[winner] > y[loser]).all() and len(a) == ranker.n_pairs_
        assert a.min() >= 0 and a.max() <= 0.3
        np.testing.assert_allclose(a @ (X[winner] - X[loser]), ranker.coef_, atol=1e-10)
        bound = a.sum() - 0.5 * ranker.coef_ @ ranker.coef_
        assert bound <= ranker.objective_ <= bound * (1 + 1e-4)


def test_samples_stand_in_for_large_data_only_on_the_way():
    """A set large enough for sampled Hessians: the answer equals that of plain Newton on the same objective."""
    rng = np.random.default_rng(4)
    X, qid = rng.normal(size=(120_000, 4)).astype(np.float32), np.repeat(np.arange(6000), 20)
    y = np.round(X @ [1.0, -1, 0.5, 0] + rng.normal(size=len(qid)))
    objective = Problem(
        RowsDesign(X), LOSSES["squared_hinge"](), GradedPreferences(y, np.arange(0, 120_001, 20)), C=1e-4
    )
    parts = objective.samples()
    assert parts
    whole = objective.at(np.ones(4))
    for part in parts:
        near = part.at(np.ones(4))
        np.testing.assert_allclose(near.gradient, whole.gradient, atol=0.1 * np.abs(whole.gradient).max())
    fast = RankSVM(C=1e-4, tol=1e-15).fit(X, y, qid=qid)
    listed = objective.preferences
    plain = RankSVM(C=1e-4, tol=1e-15, init=np.full(4, 1e-3)).fit_preferences(X.astype(float), listed)
    np.testing.assert_allclose(fast.coef_, plain.coef_, rtol=1e-5)


def test_a_point_keeps_its_curvature_after_others_were_evaluated():
    X, y, qid = problem(5)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(qid))))
    objective = Problem(RowsDesign(X), LOSSES["squared_hinge"](), GradedPreferences(y, offsets), C=0.7)
    here, v = objective.at(np.ones(6)), np.arange(6.0)
    product = here.curvature(v)
    objective.at(-np.ones(6)).curvature(v)
    np.testing.assert_array_equal(here.curvature(v), product)


def test_weights_of_every_kind_match_listed_pairs():
    X, y, qid = problem(6, n_grades=4)
    rng = np.random.default_rng(1)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(qid))))
    prefs = GradedPreferences(
        y, offsets, item_weight=rng.uniform(0, 2, len(y)), winner_weight=rng.uniform(1, 3, len(y)),
        query_weight=rng.uniform(0, 2, 12), grade_weight=rng.uniform(0, 2, (4, 4)), pair_weight="query",
    )  # fmt: skip
    listed = prefs.pairs()
    for loss in ("hinge", "squared_hinge"):
        ranker = RankSVM(C=3.0, loss=loss, tol=1e-7)
        free = ranker.fit_preferences(X, prefs).coef_
        by_pairs = ranker.fit_preferences(X, ExplicitPairs(listed.winner, listed.loser, len(y), listed.weight)).coef_
        np.testing.assert_allclose(free, by_pairs, atol=1e-3)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_explicit_hessian_equals_its_products(rows):
    X, y, qid = problem(7)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(qid))))
    for loss in ("squared_hinge", "modified_huber"):
        objective = Problem(RowsDesign(rows(X)), LOSSES[loss](), GradedPreferences(y, offsets), C=0.7)
        point = objective.at(np.linspace(-1, 1, 6))
        objective.at(np.ones(6))  # windows of another point in between
        products = np.array([point.curvature(e) for e in np.eye(6)])
        np.testing.assert_allclose(point.hessian(), products, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.ScaleWarning")
def test_hard_problems_are_solved_through_the_explicit_hessian():
    """Columns of very different size: conjugate gradients need more products than there are dimensions."""
    X, y, qid = problem(8, d=8)
    X = X * 10.0 ** np.arange(-4, 4)
    ranker = RankSVM(C=1.0, tol=1e-9).fit(X, y, qid=qid)
    assert ranker.certificate_.converged
    assert ranker.n_iter_ < 60


def test_path_equals_single_fits_in_any_order():
    X, y, qid = problem(9)
    for loss in ("squared_hinge", "hinge"):
        ranker = RankSVM(loss=loss, tol=1e-6)
        path = ranker.fit_path(X, y, qid, Cs=[1.0, 0.01, 0.1])
        assert [r.C for r in path] == [1.0, 0.01, 0.1]
        for member in path:
            alone = RankSVM(C=member.C, loss=loss, tol=1e-6).fit(X, y, qid=qid)
            np.testing.assert_allclose(member.objective_, alone.objective_, rtol=1e-5)
            np.testing.assert_allclose(member.predict(X), alone.predict(X), atol=2e-2)
            assert member.certificate_.converged and member.n_features_in_ == 6


def test_rows_given_twice_and_weight_two_agree_under_query_normalisation():
    X, y, qid = problem(10)
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    ranker = RankSVM(C=5.0, tol=1e-9, pair_weight="query")
    heavy = ranker.fit(X, y, qid=qid, sample_weight=weight).coef_
    twice = ranker.fit(np.repeat(X, weight, 0), np.repeat(y, weight), qid=np.repeat(qid, weight)).coef_
    np.testing.assert_allclose(heavy, twice, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_limits_and_callback_are_reported():
    X, y, qid = problem(11)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        stopped = RankSVM(C=100.0, tol=1e-12, max_iter=1).fit(X, y, qid=qid)
    assert stopped.certificate_.status == "max_iter"
    seen = []
    with pytest.warns(ConvergenceWarning):
        RankSVM(C=100.0, tol=1e-12, callback=lambda entry: seen.append(entry) or len(seen) == 2).fit(X, y, qid=qid)
    assert len(seen) == 2
    for solver in ("smoothing", "cutting-plane", "dual"):
        with pytest.warns(ConvergenceWarning):
            RankSVM(C=100.0, loss="hinge", solver=solver, tol=1e-12, max_seconds=0.0).fit(X, y, qid=qid)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_smoothing_may_stop_at_any_iteration_also_where_it_would_narrow_the_width():
    X, y, qid = problem()
    for limit in range(12):
        found = RankSVM(loss="hinge", tol=1e-9, max_iter=limit).fit(X, y, qid=qid)
        assert (found.certificate_.status, len(found.trace_)) == ("max_iter", limit + 1)


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"C": 0}, "C must be a positive number"),
        ({"C": float("nan")}, "C must be a positive number"),
        ({"loss": "hinje"}, "there is no loss 'hinje'"),
        ({"loss": "hinge", "solver": "newton"}, "does not minimise"),
        ({"tol": 0}, "tol must be a positive number"),
        ({"init": [1.0]}, "init must be 6 finite weights"),
        ({"pair_weight": "rows"}, "pair_weight"),
        ({"grade_weight": [[1.0]]}, "grade_weight"),
    ],
)
def test_wrong_parameters_are_named(parameters, words):
    X, y, qid = problem(12)
    with pytest.raises(ValueError, match=words):
        RankSVM(**parameters).fit(X, y, qid=qid)


def test_no_pairs_is_said():
    with pytest.warns(UserWarning, match="no preference pairs"):
        ranker = RankSVM().fit(np.eye(3), [1, 1, 1])
    assert not ranker.coef_.any()


def test_explicit_pairs_can_count_every_query_the_same():
    X, y, qid = problem(13)
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    graded = RankSVM(C=2.0, tol=1e-8, pair_weight="query").fit(X, y, qid=qid)
    listed = RankSVM(C=2.0, tol=1e-8, pair_weight="query").fit_pairs(X, i, j, qid=[f"user {q}" for q in qid[i]])
    np.testing.assert_allclose(listed.coef_, graded.coef_, atol=1e-5)
    with pytest.raises(ValueError, match="one for each pair"):
        RankSVM(pair_weight="query").fit_pairs(X, i, j, qid=[1, 2])
