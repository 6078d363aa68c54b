"""Low-rank multipliers: kernels against brute force, bounds and limits of both rankers, the interaction analysis."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank import FactorizedRankSVM, GradedPreferences, RankingData, RankSVM, RegularizedRankSVM, load
from hingerank.kernels.multipliers import factor_chain, factor_epoch, factor_lines, factor_weights, query_borders
from hingerank.losses import make_loss
from hingerank.papers.interactions import Interactions, QueryInteractions, interactions
from hingerank.problem.multipliers import FactorizedDual, FactorModel
from hingerank.problem.problem import RowsDesign
from hingerank.solvers.multipliers import factor_descent, factor_newton
from hingerank.structures import shrink_singular_values


def problem(seed=0, n_queries=6, n_grades=3, d=4, noise=1.0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(1, 15, n_queries))
    X = rng.normal(size=(len(qid), d))
    y = np.clip(np.round(X @ rng.normal(size=d) * 0.6 + noise * rng.normal(size=len(qid))) + 1, 0, n_grades - 1)
    return X, y, qid


def setting(X, y, qid, K=3, seed=0):
    preferences = GradedPreferences(y, np.concatenate(([0], np.cumsum(np.bincount(qid)))))
    tree = preferences.tree
    row = np.repeat(tree.offsets[:-1], np.diff(tree.offsets)) + tree.perm
    V = np.random.default_rng(seed).uniform(0, 1, (len(y), K))  # by row
    return preferences, tree, row, V


def brute_force(X, V, pairs):
    """w and sum of the multipliers by visiting every pair."""
    a = (V[pairs.winner] * V[pairs.loser]).sum(1)
    return a @ (X[pairs.winner] - X[pairs.loser]), a.sum()


@pytest.mark.parametrize("n_grades", [1, 2, 3, 6])
def test_weights_of_factors_equal_brute_force(n_grades):
    X, y, qid = problem(n_grades, n_grades=n_grades)
    preferences, tree, row, V = setting(X, y, qid)
    w, total = brute_force(X, V, preferences.pairs())
    for rows in ((X,), (sp.csr_matrix(X).data, sp.csr_matrix(X).indices, sp.csr_matrix(X).indptr)):
        got, got_total = factor_weights(rows, tree, V[row].T.copy(), X.shape[1])
        np.testing.assert_allclose(got, w, atol=1e-10)
        np.testing.assert_allclose(got_total, total, atol=1e-10)


@pytest.mark.parametrize("n_grades", [2, 4])
def test_gradient_in_the_factors_by_differences(n_grades):
    """Of h(w(V)) = ½‖w‖²: the chain rule through the factors."""
    X, y, qid = problem(7, n_grades=n_grades)
    preferences, tree, row, V = setting(X, y, qid)
    w, _ = brute_force(X, V, preferences.pairs())
    G = np.empty(V.shape[::-1])
    factor_chain(X @ w, tree, V[row].T.copy(), G)
    by_row = np.empty_like(V)
    by_row[row] = G.T
    direction, h = np.random.default_rng(1).normal(size=V.shape), 1e-6
    up, down = (brute_force(X, V + e * direction, preferences.pairs())[0] for e in (h, -h))
    np.testing.assert_allclose((by_row * direction).sum(), (up @ up - down @ down) / (4 * h), rtol=1e-6)


@pytest.mark.parametrize("n_grades", [2, 3, 5])
def test_gradient_of_the_objective_by_differences(n_grades):
    """Of ½‖w(V)‖² - sum a_ij, every entry; it is a line in the scores for each grade."""
    X, y, qid = problem(20, n_queries=1, n_grades=n_grades)
    preferences, tree, row, V = setting(X, y, qid)
    pairs, borders = preferences.pairs(), query_borders(tree, 0)

    def objective(V):
        w, total = brute_force(X, V, pairs)
        return 0.5 * w @ w - total

    S, U, D, E = np.empty((4, V.shape[1], len(borders) - 1))
    u = (X @ brute_force(X, V, pairs)[0])[row]
    total, steepness = factor_lines(V[row].T.copy(), 0, u, borders, len(borders) - 1, 1.0, S, U, D, E)
    grade = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    expected, sums = np.empty_like(V), np.empty_like(V)
    for place in np.ndindex(*V.shape):
        h = np.zeros_like(V)
        h[place] = 1e-6
        expected[place] = (objective(V + h) - objective(V - h)) / 2e-6
        sums[place] = (brute_force(X, V + h, pairs)[1] - brute_force(X, V - h, pairs)[1]) / 2e-6
    np.testing.assert_allclose((u * D[:, grade] + E[:, grade]).T, expected[row], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, brute_force(X, V, pairs)[1])
    np.testing.assert_allclose(steepness, (sums**2).sum(), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.slow
def test_an_epoch_measures_the_gradient_within_the_box_however_long_its_step(size):
    """Small numbers beside a wide box: a first step of a tenth of the box takes many of them to the border at 0."""
    X, y, qid = problem(21, n_queries=1)
    X = X / size
    _, tree, row, V = setting(X, y, qid)
    V = np.round(size * V[row].T, 1 - int(np.log10(size)))  # some are at the border
    limit, G, ones = 1e5 * size, np.empty_like(V), np.empty_like(V)
    w, _ = factor_weights((X,), tree, V, X.shape[1])
    factor_chain(X @ w, tree, V, G)
    borders = query_borders(tree, 0)
    grade = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    for g in range(len(borders) - 1):
        ones[:, grade == g] = V[:, grade != g].sum(1)[:, None]
    G -= ones
    expected = np.sum(np.where((V == 0) & (G > 0), 0.0, G) ** 2)
    assert (V == 0).any()
    _, steepness, linear = factor_epoch((X,), np.arange(1), tree, V, w, np.zeros(1), limit)
    np.testing.assert_allclose([steepness, linear], [expected, np.sum(ones**2)], rtol=1e-9)


def test_a_query_in_its_corner_keeps_its_step():
    """There no step moves it; a step that grew all the same would run over in a long fit."""
    X, y = np.array([[0.0], [1e-9]]), np.array([0.0, 1.0])
    tree, V, w, step = GradedPreferences(y, np.array([0, 2])).tree, np.ones((1, 2)), np.zeros(1), np.full(1, 5.0)
    factor_epoch((X,), np.arange(1), tree, V, w, step, 1.0)
    assert V.tolist() == [[1, 1]] and step[0] == 5


def test_an_epoch_only_goes_down_and_keeps_w():
    X, y, qid = problem(8)
    preferences, tree, row, V = setting(X, y, qid)
    V = V[row].T.copy()
    w, total = factor_weights((X,), tree, V, X.shape[1])
    value, step = 0.5 * w @ w - total, np.zeros(preferences.n_queries)
    for _ in range(30):
        change, _, _ = factor_epoch((X,), np.arange(preferences.n_queries), tree, V, w, step, 0.7)
        assert change <= 0
        value += change
    fresh, total = factor_weights((X,), tree, V, X.shape[1])
    np.testing.assert_allclose(w, fresh, atol=1e-12 * max(1, np.abs(fresh).max()))
    np.testing.assert_allclose(value, 0.5 * fresh @ fresh - total, rtol=1e-10)
    assert V.min() >= 0 and V.max() <= 0.7


@pytest.mark.parametrize("K, C", [(1, 0.5), (2, 0.5), (5, 0.5), (2, 0.02), (2, 5.0)])
def test_rank_and_bound(K, C):
    """The objective is that of the listed multipliers, and never below the dual RankSVM's, whose box is wider."""
    X, y, qid = problem(9)
    floor = -RankSVM(C=C, loss="hinge", tol=1e-8).fit(X, y, qid=qid).objective_
    ranker = FactorizedRankSVM(rank=K, C=C, tol=1e-4, max_iter=3000).fit(X, y, qid=qid)
    assert ranker.factors_.shape == (len(y), K) and ranker.ranks_.max() <= K
    assert floor * (1 + 1e-8) <= ranker.objective_ < 0
    values = [entry["value"] for entry in ranker.trace_]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values))
    a = {(i, j): ranker.multiplier(i, j) for i in range(len(y)) for j in range(len(y))}
    assert min(a.values()) >= 0 and max(a.values()) <= C * (1 + 1e-12)
    w = sum(value * (X[i] - X[j]) for (i, j), value in a.items())
    np.testing.assert_allclose(w, ranker.coef_, atol=1e-9 * max(1, C))
    np.testing.assert_allclose(0.5 * w @ w - sum(a.values()), ranker.objective_, rtol=1e-9)


@pytest.mark.parametrize("n_grades", [2, 4])
def test_every_block_has_rank_at_most_K(n_grades):
    """Of two grades the whole block; of more, that between any two grades."""
    X, y, qid = problem(9, n_queries=4, n_grades=n_grades)
    ranker = FactorizedRankSVM(rank=2, C=0.5).fit(X, y, qid=qid)
    seen = 0
    for block in ranker.multiplier_blocks():
        for high, low in itertools.product(np.unique(y), repeat=2):
            part = block.A[np.ix_(y[block.winners] == high, y[block.losers] == low)]
            if high > low and part.size:
                assert np.linalg.matrix_rank(part) <= 2
                seen += min(part.shape) > 2
        assert n_grades > 2 or block.rank() <= 2
    assert seen


def test_a_tighter_box_never_helps():
    X, y, qid = problem(10)
    values = [
        FactorizedRankSVM(rank=6, C=C, tol=1e-5, max_iter=5000, n_starts=3).fit(X, y, qid=qid).objective_
        for C in (0.01, 0.1, 1.0)
    ]
    assert values[0] > values[1] > values[2]


def test_the_best_start_is_kept():
    X, y, qid = problem(21)
    alone = [FactorizedRankSVM(rank=2, C=2.0, random_state=0, n_starts=n).fit(X, y, qid=qid) for n in (1, 2, 5)]
    assert alone[0].objective_ >= alone[1].objective_ >= alone[2].objective_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_never_diverges_and_stays_where_it_is_at_the_bottom():
    """Large C and features, and many epochs after nothing is left to gain: finite, and never up."""
    X, y, qid = problem(22)
    for scale, C in ((1e3, 1e3), (1.0, 0.05)):
        ranker = FactorizedRankSVM(rank=3, C=C, tol=0.0, max_iter=400).fit(scale * X, y, qid=qid)
        values = np.array([entry["value"] for entry in ranker.trace_])
        assert np.isfinite(values).all() and (np.diff(values) <= 1e-9 * np.abs(values[1:])).all()
        assert np.isfinite(ranker.coef_).all()


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_approaches_the_hard_margin_dual_with_full_rank_and_a_wide_box():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(12, 3))
    X[:6, 0] += 6
    y = np.repeat([1, 0], 6)
    hard = -RankSVM(C=1e4, loss="hinge", tol=1e-7).fit(X, y).objective_
    ranker = FactorizedRankSVM(rank=6, C=1e4, tol=1e-7, max_iter=20000, n_starts=4).fit(X, y)
    assert hard * (1 + 1e-5) <= ranker.objective_ <= 0.999 * hard


def test_primal_form_reaches_ranksvm_where_its_optimum_can_be_factorised():
    X, y, qid = problem(12, n_grades=2)
    ranker = FactorizedRankSVM(rank=12, C=0.1, form="primal", tol=1e-5, max_iter=3000).fit(X, y, qid=qid)
    plain = RankSVM(C=0.1, loss="hinge", tol=1e-6).fit(X, y, qid=qid)
    assert plain.objective_ * (1 - 1e-3) <= ranker.objective_ <= 1.01 * plain.objective_


def test_validation_chooses_the_epoch():
    X, y, qid = problem(13, n_queries=20)
    data = RankingData.from_arrays(X, y, qid)
    ranker = FactorizedRankSVM(rank=2, C=1.0, tol=1e-12, max_iter=200, validation=data, patience=5).fit(data)
    scores = [entry["validation"] for entry in ranker.trace_[1:]]
    assert scores[-1] == max(scores) and ranker.score(data) == pytest.approx(scores[-1])
    assert ranker.certificate_.value == ranker.trace_[-1]["gradient"] > ranker.tol
    assert ranker.certificate_.status == "validation" and not ranker.certificate_.converged


def test_without_nuclear_norm_it_is_the_dual_ranksvm():
    X, y, qid = problem(14)
    ranker = RegularizedRankSVM(C=0.5, gamma=0.0, lam=1.0, tol=1e-8).fit(X, y, qid=qid)
    plain = RankSVM(C=0.5, loss="hinge", tol=1e-8).fit(X, y, qid=qid)
    np.testing.assert_allclose(ranker.objective_, -plain.objective_, rtol=1e-6)
    np.testing.assert_allclose(ranker.coef_, plain.coef_, atol=1e-3)


@pytest.mark.parametrize("gamma, lam", [(0.05, 0.1), (0.5, 1.0), (2.0, 0.3)])
@pytest.mark.slow
def test_objective_gap_and_blocks_equal_brute_force(gamma, lam):
    X, y, qid = problem(15)
    C = 0.5
    ranker = RegularizedRankSVM(C=C, gamma=gamma, lam=lam, tol=1e-6, max_iter=2000).fit(X, y, qid=qid)
    assert ranker.certificate_.converged
    values = [entry["value"] for entry in ranker.trace_]
    assert all(b <= a + 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    a, (winner, loser) = ranker.multipliers_, ranker.pairs_.T
    assert (y[winner] > y[loser]).all() and a.min() >= 0 and a.max() <= C

    def objective(a):
        w, total = a @ (X[winner] - X[loser]), 0.0
        for q in np.unique(qid):
            own, M = qid[winner] == q, np.zeros((len(y), len(y)))
            M[winner[own], loser[own]] = a[own]
            U, s, Vt = np.linalg.svd(M)
            kept = np.maximum(s - gamma / (2 * lam), 0)
            A = (U * kept) @ Vt
            total += gamma * kept.sum() + lam * ((M - A) ** 2).sum()
        return 0.5 * w @ w - a.sum() + total

    np.testing.assert_allclose(ranker.objective_, objective(a), rtol=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(40):  # convex: nothing near or far in the box is lower
        other = np.clip(a + rng.normal(size=len(a)) * rng.choice([1e-3, 1e-1, 1.0]), 0, C)
        assert objective(other) >= ranker.objective_ - 2e-6 * abs(ranker.objective_)


def test_pushed_rounds_reach_the_optimum_sooner():
    """A setting where plain alternation takes 43 rounds."""
    X, y, qid = problem(23, n_queries=10, noise=0.3)
    ranker = RegularizedRankSVM(C=10.0, gamma=20.0, lam=20.0, tol=1e-5, max_iter=3000).fit(X, y, qid=qid)
    values = [entry["value"] for entry in ranker.trace_]
    assert ranker.certificate_.converged and ranker.n_iter_ < 35
    assert all(b <= a for a, b in itertools.pairwise(values))


def test_stronger_regularisation_lowers_the_ranks():
    X, y, qid = problem(16, n_queries=8)
    ranks = [
        RegularizedRankSVM(C=1.0, gamma=g, lam=0.2, tol=1e-4).fit(X, y, qid=qid).ranks_.sum() for g in (0.01, 0.3, 30.0)
    ]
    assert ranks[0] > ranks[1] > ranks[2] == 0


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (1, 5), (6, 6), (0, 3)])
def test_shrinkage_equals_the_proximal_definition(shape):
    rng = np.random.default_rng(shape)
    M = rng.normal(size=shape)
    for amount in (0.0, 1e-6, 0.5, 100.0):
        A, values = shrink_singular_values(M, amount)
        U, s, Vt = np.linalg.svd(M, full_matrices=False)
        np.testing.assert_allclose(A, (U * np.maximum(s - amount, 0)) @ Vt, rtol=0, atol=1e-10)
        np.testing.assert_allclose(values, np.maximum(s - amount, 0)[: len(values)], rtol=0, atol=1e-10)

        def value(A, amount=amount):
            return amount * np.linalg.svd(A, compute_uv=False).sum() + 0.5 * ((M - A) ** 2).sum()

        for _ in range(5):
            assert value(A + 0.01 * rng.normal(size=shape)) >= value(A) - 1e-12


def test_interactions_of_a_known_matrix():
    q = QueryInteractions("a", 10, 12, np.array([3.0, 4.0 / 3, 0.0]))
    assert q.rank == 2
    np.testing.assert_allclose(q.energy(), [81 / 97, 1, 1])
    assert (q.dimensions(0.8), q.dimensions(0.9), q.dimensions(1.0)) == (1, 2, 2)
    found = Interactions([q, QueryInteractions("b", 4, 3, np.zeros(2))])
    np.testing.assert_allclose(found.dim(0.9), [0.2, 0.0])
    assert found.histogram(0.9).tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert found.table()["rank"] == [2, 0]


@pytest.mark.parametrize(
    "ranker",
    [
        RankSVM(C=0.3, loss="hinge", solver="dual", tol=1e-6),
        FactorizedRankSVM(rank=2, C=0.3),
        RegularizedRankSVM(C=0.3, gamma=0.1, lam=1.0),
    ],
    ids=lambda r: type(r).__name__,
)
def test_interactions_of_every_dual_survive_saving(ranker, tmp_path):
    X, y, qid = problem(17)
    order = np.random.default_rng(1).permutation(len(y))
    X, y, qid = X[order], y[order], np.array([f"q{i}" for i in qid[order]])
    ranker.fit(X, y, qid=qid)
    ranker.save(tmp_path / "model")
    for model in (ranker, load(tmp_path / "model")):
        w, n_pairs = np.zeros(X.shape[1]), 0
        for block in model.multiplier_blocks():
            assert block.size == (qid == block.query).sum() and (qid[block.winners] == block.query).all()
            w += block.A.sum(1) @ X[block.winners] - block.A.sum(0) @ X[block.losers]
            n_pairs += block.n_pairs
        np.testing.assert_allclose(w, model.coef_, atol=1e-9)
        assert n_pairs == model.n_pairs_
    found = interactions(ranker)
    assert all(0 < d <= 1 for d in found.dim(1.0)[[q.rank > 0 for q in found.queries]])
    found.plot(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: FactorizedRankSVM(rank=0), "rank must be a positive whole number"),
        (lambda: FactorizedRankSVM(rank=2.5), "rank must be"),
        (lambda: FactorizedRankSVM(C=-1), "C must be a positive number"),
        (lambda: FactorizedRankSVM(form="half"), "form must be"),
        (lambda: FactorizedRankSVM(patience=-1), "patience must be a whole number of at least 0"),
        (lambda: RegularizedRankSVM(lam=0), "lam must be a positive number"),
        (lambda: RegularizedRankSVM(gamma=-1), "gamma must be a number of at least 0"),
    ],
)
def test_wrong_parameters_are_named(make, words):
    X, y, qid = problem(18)
    with pytest.raises(ValueError, match=words):
        make().fit(X, y, qid=qid)


def test_interactions_need_multipliers():
    X, y, qid = problem(19)
    with pytest.raises(ValueError, match="has no multipliers"):
        interactions(RankSVM().fit(X, y, qid=qid))


def test_nothing_is_left_of_the_multipliers_of_an_earlier_fit():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(12, 3)), rng.integers(0, 3, 12), np.repeat([0, 1, 2], 4)
    ranker = RankSVM(loss="hinge", solver="dual").fit(X, y, qid=qid)
    assert interactions(ranker).queries
    ranker.fit_pairs(X, [0, 1, 2], [5, 6, 7])
    assert ranker.multipliers_.shape == (3,) and not hasattr(ranker, "queries_")
    with pytest.raises(ValueError, match="no multipliers of queries"):
        interactions(ranker)
    ranker.set_params(solver="auto").fit(X, y, qid=qid)
    assert not hasattr(ranker, "multipliers_") and not hasattr(ranker, "pairs_")


@pytest.mark.parametrize("n_grades", [1, 2, 4])
def test_the_model_of_a_gauss_newton_step_equals_brute_force(n_grades):
    """Directions M_ik by differences of w(V), which is quadratic, and what is made of them without making them."""
    X, y, qid = problem(5, n_grades=n_grades)
    preferences, _, row, V = setting(X, y, qid)
    dual, V = FactorizedDual(RowsDesign(X), preferences, 3, 2.0), V[row].T.copy()
    w = dual.weights(V)[0]
    model = FactorModel(dual, X[row], V, w)
    units = np.eye(V.size).reshape(-1, *V.shape)
    M = np.array([(dual.weights(V + e)[0] - dual.weights(V - e)[0]) / 2 for e in units])
    T = np.array([(dual.weights(V + e)[1] - dual.weights(V - e)[1]) / 2 for e in units])
    rng = np.random.default_rng(0)
    r, v, inside = rng.normal(size=X.shape[1]), rng.normal(size=V.shape), rng.integers(0, 2, V.shape) * 1.0
    np.testing.assert_allclose(model.T.ravel(), T, atol=1e-9)
    np.testing.assert_allclose(model.along(r).ravel(), M @ r, atol=1e-9)
    np.testing.assert_allclose(model.combine(v), M.T @ v.ravel(), atol=1e-9)
    np.testing.assert_allclose(model.scatter(inside), (M.T * inside.ravel()) @ M, atol=1e-8)
    best, lower = model.minimise(0.7)
    assert (best >= 0).all() and (best <= dual.limit).all()

    def value(v):
        ahead = w + M.T @ (v - V.ravel())
        return 0.5 * ahead @ ahead - T @ (v - V.ravel()), 0.35 * ((v - V.ravel()) ** 2).sum()

    at, start = value(best.ravel()), value(V.ravel())
    assert lower == pytest.approx(start[0] - at[0], rel=1e-9, abs=1e-9)
    for _ in range(50):  # nothing in the box is better by more than the accuracy asked for
        other = np.clip(best + rng.normal(size=V.shape) * 10 ** rng.uniform(-4, 0), 0, dual.limit)
        assert sum(value(other.ravel())) >= sum(at) - 0.1 * lower - 1e-9


def test_a_large_C_converges():
    """Where epochs alone end far from the bottom."""
    X, y, qid = problem(11, n_queries=30, d=6)
    dual = FactorizedDual(
        RowsDesign(X), GradedPreferences(y, np.concatenate(([0], np.cumsum(np.bincount(qid))))), 3, 50.0
    )
    rng = np.random.default_rng(0)
    epochs = factor_descent(dual, dual.start(rng), rng, max_iter=60)
    assert not epochs.certificate.converged
    whole = factor_newton(dual, epochs.extra["V"], before=epochs)
    assert whole.certificate.converged and whole.value < epochs.value
    assert dual.stationarity(whole.extra["V"], whole.w) <= 1e-3
    assert [entry["iteration"] for entry in whole.trace] == list(range(whole.certificate.n_iter + 1))
    assert all(a["value"] >= b["value"] - 1e-9 * abs(a["value"]) for a, b in itertools.pairwise(whole.trace))
    one = FactorizedRankSVM(rank=3, C=50.0, max_iter=200).fit(X, y, qid)
    best = FactorizedRankSVM(rank=3, C=50.0, max_iter=200, n_starts=3).fit(X, y, qid)
    assert one.certificate_.converged and best.certificate_.converged
    assert best.objective_ <= one.objective_ + 1e-9 * abs(one.objective_)


def test_rank_orders_by_the_ranker_that_it_was_read_from_though_another_has_its_parameters():
    X, y, qid = problem(0)
    first = FactorizedRankSVM(rank=2).fit(X, y, qid)
    order = first.rank(X, qid)
    second = FactorizedRankSVM(**first.get_params()).fit(-X, y, qid)
    held = first.rank
    assert second.rank == 2 and not np.array_equal(second.rank(X, qid), order)
    assert np.array_equal(held(X, qid), order)


def test_a_start_is_shrunk_without_rounding_beyond_the_formula_s():
    """min(1, Σ / w·w) itself: epochs amplify the last bit of a start, and the model would be another one."""
    for seed in range(10):
        X, y, qid = problem(seed)
        preferences = GradedPreferences(y, np.concatenate(([0], np.cumsum(np.bincount(qid)))))
        dual = FactorizedDual(RowsDesign(X), preferences, 3, 50.0)
        V = dual.start(np.random.default_rng(0))
        w, total = dual.weights(V)
        down = min(1.0, total / (w @ w))
        found = factor_descent(dual, V, np.random.default_rng(0), max_iter=0)
        assert found.value == 0.5 * float((down * w) @ (down * w)) - down * total


# Other losses.


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "modified_huber", "exponential", "squared"])
def test_the_primal_form_of_other_losses_by_listed_pairs_and_differences(loss):
    X, y, qid = problem(3, n_queries=3)
    X, y, qid = np.vstack([X, X[:1]]), np.append(y, 1.0), np.append(qid, 99)  # a single row
    y[qid == qid[0]] = 1.0  # a query of one grade
    ranker = FactorizedRankSVM(2, 0.1, form="primal", loss=loss, tol=1e-6, max_iter=3000).fit(X, y, qid=qid)
    listed = [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]
    pairs = SimpleNamespace(winner=np.array(listed)[:, 0], loser=np.array(listed)[:, 1])

    def objective(V):
        w = brute_force(X, V, pairs)[0]
        t = (X[pairs.winner] - X[pairs.loser]) @ w
        return 0.5 * w @ w + 0.1 * make_loss(loss).pointwise(t)[0].sum()

    V = ranker.factors_
    np.testing.assert_allclose(brute_force(X, V, pairs)[0], ranker.coef_, atol=1e-9)
    np.testing.assert_allclose(ranker.objective_, objective(V), rtol=1e-9)
    slopes = []
    for place in np.ndindex(*V.shape):
        h = np.zeros_like(V)
        h[place] = 1e-5
        slopes.append((objective(V + h) - objective(V - h)) / 2e-5)
    assert ranker.certificate_.converged and np.abs(slopes).max() < 1e-4
    best = RankSVM(C=0.1, loss=loss, tol=1e-8).fit(X, y, qid)
    assert ranker.objective_ >= best.objective_ - 1e-9


@pytest.mark.parametrize("gamma, lam", [(0.05, 0.1), (0.5, 1.0), (2.0, 0.3), (0.0, 1.0)])
def test_the_squared_hinges_regularised_dual_equals_brute_force(gamma, lam):
    X, y, qid = problem(5, n_queries=3)
    X, y, qid = np.vstack([X, X[:1]]), np.append(y, 1.0), np.append(qid, 99)
    C, fit = 0.4, {"tol": 1e-7, "max_iter": 5000, "loss": "squared_hinge"}
    ranker = RegularizedRankSVM(C, gamma, lam, **fit).fit(X, y, qid=qid)
    (winner, loser), a = ranker.pairs_.T, ranker.multipliers_

    def objective(a):
        w, total = a @ (X[winner] - X[loser]), (a @ a) / (4 * C)
        for q in np.unique(qid):
            own, M = qid[winner] == q, np.zeros((len(y), len(y)))
            M[winner[own], loser[own]] = a[own]
            U, s, Vt = np.linalg.svd(M)
            kept = np.maximum(s - gamma / (2 * lam), 0)
            total += gamma * kept.sum() + lam * ((M - (U * kept) @ Vt) ** 2).sum()
        return 0.5 * w @ w - a.sum() + total

    assert ranker.certificate_.converged and a.min() >= 0
    np.testing.assert_allclose(ranker.objective_, objective(a), rtol=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(30):  # convex: nothing near or far is lower
        other = np.maximum(a + rng.normal(size=len(a)) * rng.choice([1e-3, 1e-1, 1.0]), 0)
        assert objective(other) >= ranker.objective_ - 2e-7 * abs(ranker.objective_)
    plain = RankSVM(C=C, loss="squared_hinge", tol=1e-8).fit(X, y, qid)
    if gamma == 0:  # the dual of RankSVM, with its multipliers 2C max(0, 1 - t)
        np.testing.assert_allclose(ranker.objective_, -plain.objective_, rtol=1e-5)
        np.testing.assert_allclose(ranker.coef_, plain.coef_, atol=1e-3)
        margins = 1 - (X[winner] - X[loser]) @ plain.coef_
        np.testing.assert_allclose(a, 2 * C * np.maximum(0, margins), atol=1e-2)
    else:
        assert ranker.objective_ >= -plain.objective_ - 1e-6


def test_what_low_rank_has_no_form_for_is_refused():
    X, y, qid = problem(5, n_queries=2)
    with pytest.raises(ValueError, match="form='dual' needs loss='hinge': for loss='logistic' give form='primal'"):
        FactorizedRankSVM(loss="logistic").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="there is no loss 'listnet'"):
        FactorizedRankSVM(form="primal", loss="listnet").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="must be 'hinge' or 'squared_hinge', not 'logistic'"):
        RegularizedRankSVM(loss="logistic").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="solver='paper' needs loss='hinge'"):
        RegularizedRankSVM(loss="squared_hinge", solver="paper").fit(X, y, qid=qid)


def test_the_frame_of_interactions_is_its_table_and_names_the_extra_that_it_needs(monkeypatch):
    found = Interactions([QueryInteractions("a", 4, 5, np.array([3.0, 1.0])), QueryInteractions("b", 2, 1, np.ones(1))])
    frame = pytest.importorskip("pandas").DataFrame(found.table())
    assert found.frame().equals(frame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"hingerank\[frames\]"):
        found.frame()
