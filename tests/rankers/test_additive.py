"""AdditiveRankSVM: its design against the features written out, its optima against other solvers, its curves."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone

import hingerank as hr
from hingerank.features.curves import Curves, place_knots
from hingerank.kernels.threads import run_shards
from hingerank.losses import squared_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.problem.curves import CurveBasis, CurveDesign, binned_design
from hingerank.solvers.newton import newton

DATA = hr.make_letor(n_queries=20, n_features=5, seed=2)
ROWS = DATA.X.astype(np.float64)


def uneven(seed, n=60):
    """Columns with ties, one value, two values, long tails, negative and tiny numbers; many zeros."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n),
            np.exp(3 * rng.normal(size=n)),
            np.full(n, 4.0),
            rng.integers(0, 2, n),
            -rng.random(n) * 1e-9,
        ]
    )
    X[rng.random(X.shape) < 0.3] = 0.0
    X[:, 2] = 4.0
    return X, rng.integers(0, 3, n).astype(float), np.sort(rng.integers(0, 5, n))


def curve_design(X, knots, smoothness, sign):
    """Φ = Ψ T of curves for rows X."""
    return CurveDesign(binned_design(X, knots), CurveBasis(knots, smoothness, sign, sp.issparse(X)))


def written_out(X, knots, smoothness, sign):
    """Φ by its definition, less a constant in each column."""
    found = []
    for c in range(X.shape[1]):
        t = knots.values[knots.starts[c] : knots.starts[c + 1]]
        columns = [X[:, c] / knots.width[c]]
        for low, high in itertools.pairwise(t):
            columns.append(np.clip((X[:, c] - low) / (high - low), 0, 1) / np.sqrt(smoothness * (len(t) - 1)))
        found += [sign[c] * column for column in columns]
    return np.stack(found, axis=1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
@pytest.mark.parametrize("count", [2, 7, 300])
def test_the_design_is_the_features_written_out(seed, form, count):
    X, _, _ = uneven(seed)
    X = X.astype(np.float32).astype(np.float64)
    given = sp.csr_matrix(X) if form == "sparse" else X.astype(form)
    knots, sign = place_knots(X[:40], count), np.array([1.0, -1, 1, 1, -1])  # some rows lie outside the knots
    design, Phi = curve_design(given, knots, 3.0, sign), written_out(X, knots, 3.0, sign)
    rng = np.random.default_rng(seed)
    w, z = rng.normal(size=Phi.shape[1]), rng.normal(size=len(X))
    apart = design.scores(w) - Phi @ w
    assert np.ptp(apart) < 1e-5 * np.abs(Phi @ w).max()
    z -= z.mean()  # constants count nothing
    assert np.allclose(design.back(z), Phi.T @ z, rtol=1e-5, atol=1e-5 * np.abs(Phi.T @ z).max())
    u = rng.normal(size=len(X))
    assert design.scores(w) @ u == pytest.approx(w @ design.back(u), rel=1e-10)  # each the other's transpose, exactly


def test_knots_by_weight_are_those_of_repeated_rows_and_of_sparse_rows():
    X, _, _ = uneven(1)
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    several, once = place_knots(X.repeat(weight, axis=0), 6), place_knots(X, 6, weight.astype(float))
    assert np.array_equal(several.values, once.values) and np.array_equal(several.starts, once.starts)
    assert np.array_equal(place_knots(sp.csr_matrix(X), 6).values, place_knots(X, 6).values)
    assert np.array_equal(place_knots(X, 6).counts[[2, 3]], [1, 2])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_passes_and_blocks_are_those_of_the_rows_written_out(form):
    X, y, qid = uneven(3, 200)
    offsets = np.concatenate(([0], np.flatnonzero(np.diff(qid)) + 1, [len(qid)]))
    preferences, knots = GradedPreferences(y, offsets), place_knots(X, 5)
    design = curve_design(form(X), knots, 2.0, np.ones(5))
    plain = Problem(RowsDesign(written_out(X, knots, 2.0, np.ones(5))), squared_hinge(), preferences, C=0.1)
    ours = Problem(design, squared_hinge(), preferences, C=0.1)
    w, v = np.random.default_rng(0).normal(size=(2, plain.dimension)) * 0.3
    a, b = plain.at(w), ours.at(w)
    assert a.value == pytest.approx(b.value, rel=1e-6)
    assert np.allclose(a.gradient, b.gradient, atol=1e-5 * np.abs(a.gradient).max())
    assert np.allclose(a.curvature(v), b.curvature(v), atol=1e-5 * np.abs(a.curvature(v)).max())
    moments = design.inner.moments(np.arange(len(X)), np.ones(len(X)))
    Phi = written_out(X, knots, 2.0, np.ones(5))
    Phi = Phi - Phi.mean(axis=0)
    for c, block in enumerate(design.mixing.blocks(moments, float(len(X)))):
        own = slice(knots.starts[c], knots.starts[c + 1])
        size = own.stop - own.start
        assert np.allclose(block[:size, :size], Phi[:, own].T @ Phi[:, own], atol=1e-4)
    assert ours._pass.hessian(w).shape == (plain.dimension, plain.dimension)


@pytest.mark.parametrize("count", [5, 140])
def test_blocks_of_several_queries_at_once_have_the_curvature_of_the_rows_written_out(count):
    """Bins take one byte or two, and then other numbers of rows are scored together."""
    rng = np.random.default_rng(0)
    sizes = np.append(rng.integers(1, 60, 40), 500)  # the last is larger than a block
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    X, y = rng.normal(size=(offsets[-1], 9)), rng.integers(0, 3, offsets[-1])
    preferences, knots = GradedPreferences(y, offsets), place_knots(X, count)
    design = curve_design(X, knots, 2.0, np.ones(9))
    assert design.inner.rows[0].itemsize == (1 if count < 100 else 2)
    plain = Problem(RowsDesign(written_out(X, knots, 2.0, np.ones(9))), squared_hinge(), preferences, C=0.1)
    w, v = 0.3 * rng.normal(size=(2, plain.dimension))
    expected = plain.at(w).curvature(v)
    found = Problem(design, squared_hinge(), preferences, C=0.1).at(w).curvature(v)
    assert np.allclose(expected, found, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_every_second_query_and_the_blocks_of_a_point_seen(form, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, offsets = rng.normal(size=(700, 11)), rng.integers(0, 3, 700), np.arange(0, 701, 35)
    X[rng.random(X.shape) < 0.2] = 0.0
    preferences, knots = GradedPreferences(y, offsets), place_knots(X, 6)
    plain = RowsDesign(written_out(X, knots, 2.0, np.ones(11))).sweep(squared_hinge(), preferences).every(2)
    ours = curve_design(form(X), knots, 2.0, np.ones(11)).sweep(squared_hinge(), preferences).every(2)
    w, v = 0.3 * rng.normal(size=(2, knots.starts[-1]))
    a, b = plain.at(w), ours.at(w)
    assert a.value == pytest.approx(b.value, rel=1e-6)
    assert np.allclose(a.gradient, b.gradient, atol=1e-5 * np.abs(a.gradient).max())
    assert np.allclose(a.curvature(v), b.curvature(v), atol=1e-5 * np.abs(a.curvature(v)).max())
    monkeypatch.setattr("hingerank.problem.curves.MANY_NUMBERS", 1)
    before = ours.inner.latest
    ours.diagonal(w)
    assert ours.inner.latest is before  # no further pass


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_large_data_are_solved_through_samples_and_blocks(form, monkeypatch):
    monkeypatch.setattr("hingerank.problem.curves.MANY_NUMBERS", 1)
    monkeypatch.setattr("hingerank.problem.problem.ROWS_OF_A_SAMPLE", 100)
    data = hr.make_letor(n_queries=1200, rows_per_query=5, n_features=4, seed=1)
    ours = hr.AdditiveRankSVM(C=0.01, tol=1e-6).fit(form(data.X), data.y, data.qid)
    monkeypatch.undo()
    plain = hr.AdditiveRankSVM(C=0.01, tol=1e-6).fit(data.X, data.y, data.qid)
    assert ours.objective_ == pytest.approx(plain.objective_, rel=1e-5)


def test_data_of_usual_size_need_few_products():
    """214 without blocks and remembered products."""
    data = hr.make_letor(n_queries=40, n_features=46, seed=3)
    assert hr.AdditiveRankSVM(C=0.1, smoothness=10.0).fit(data).trace_[-1]["products"] < 100


def test_much_smoothness_is_the_linear_ranker_on_standardised_columns():
    line = hr.RankSVM(C=0.01, scale="standard", tol=1e-9).fit(ROWS, DATA.y, DATA.qid)
    ours = hr.AdditiveRankSVM(C=0.01, smoothness=1e14, tol=1e-9).fit(ROWS, DATA.y, DATA.qid)
    apart = ours.predict(ROWS) - line.predict(ROWS)
    assert np.ptp(apart) < 1e-5 and ours.objective_ == pytest.approx(line.objective_, rel=1e-8)
    assert np.allclose(ours.slopes_ * ROWS.std(axis=0), line.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "modified_huber"])
def test_the_optimum_is_that_of_a_linear_ranker_on_the_features_written_out(loss):
    knots = place_knots(ROWS, 6)
    Phi = written_out(ROWS, knots, 5.0, np.ones(5))
    plain = hr.RankSVM(C=0.1, loss=loss, tol=1e-7).fit(Phi, DATA.y, DATA.qid)
    ours = hr.AdditiveRankSVM(6, C=0.1, smoothness=5.0, loss=loss, tol=1e-7).fit(ROWS, DATA.y, DATA.qid)
    assert ours.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert np.allclose(ours.knot_weights_, plain.coef_, atol=1e-3 * np.abs(plain.coef_).max())


def test_hinge_solvers_agree():
    found = [
        hr.AdditiveRankSVM(4, C=0.01, loss="hinge", solver=solver, tol=1e-5, max_iter=5000).fit(DATA).objective_
        for solver in ("auto", "cutting-plane", "dual")
    ]
    assert np.ptp(found) < 1e-4 * found[0]


def listed(ranker, X, y, qid, C):
    """Value and gradient of ½‖w‖² + C Σ max(0, 1 - t)² by listed pairs, at the ranker's weights."""
    knots = place_knots(X, ranker.n_knots)
    sign = np.ones(X.shape[1])
    for feature, direction in (ranker.monotone or {}).items():
        sign[feature] = direction
    Phi = written_out(X, knots, ranker.smoothness, sign)
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    D = Phi[i] - Phi[j]

    def at(w):
        left = np.maximum(0, 1 - D @ w)
        return 0.5 * w @ w + C * (left**2).sum(), w - 2 * C * D.T @ left

    return at, knots


@pytest.mark.parametrize("C", [1e-3, 0.1])
def test_monotone_curves_are_kept_and_certified(C):
    wanted = {0: 1, 1: -1, 3: -1}
    ours = hr.AdditiveRankSVM(5, C=C, monotone=wanted, tol=1e-6).fit(ROWS, DATA.y, DATA.qid)
    for feature, direction in wanted.items():
        curve = ours.curves_[feature]
        assert (direction * np.diff(curve.heights) >= 0).all() and direction * curve.slope >= 0
    at, knots = listed(ours, ROWS, DATA.y, DATA.qid, C)
    column = np.repeat(np.arange(5), knots.counts)
    bounds = [(0, None) if c in wanted else (None, None) for c in column]
    best = minimize(
        at,
        np.zeros(len(column)),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-10},
    )
    assert ours.objective_ == pytest.approx(best.fun, rel=1e-5)
    free = hr.AdditiveRankSVM(5, C=C, tol=1e-6).fit(ROWS, DATA.y, DATA.qid)
    assert ours.objective_ >= free.objective_ * (1 - 1e-6) and ours.certificate_.converged


@pytest.mark.parametrize("monotone", [None, {0: 1, 2: -1}])
@pytest.mark.parametrize("sparsity", [0.0, 0.05, 0.4])
def test_the_gap_of_few_and_monotone_curves_is_true(monotone, sparsity):
    """Recomputed by listed pairs: the dual value of the multipliers at w is below every primal value."""
    C = 0.02
    rough = hr.AdditiveRankSVM(5, C=C, monotone=monotone, sparsity=sparsity, tol=1e-2).fit(ROWS, DATA.y, DATA.qid)
    fine = hr.AdditiveRankSVM(5, C=C, monotone=monotone, sparsity=sparsity, tol=1e-8).fit(ROWS, DATA.y, DATA.qid)
    assert rough.objective_ - fine.objective_ <= 1.001e-2 * rough.objective_ and fine.certificate_.converged
    at, knots = listed(rough, ROWS, DATA.y, DATA.qid, C)
    bounded = np.repeat([feature in (monotone or {}) for feature in range(5)], knots.counts)
    group = np.repeat(np.arange(5), knots.counts)
    norms = lambda v: np.sqrt(np.bincount(group, v * v))  # noqa: E731
    g0 = -at(np.zeros(len(group)))[1]
    amount = sparsity * norms(np.where(bounded & (g0 < 0), 0, g0)).max() if sparsity else 0.0
    for ranker in (rough, fine):
        w = ranker.knot_weights_
        value, g = at(w)
        v = w - g
        allowed = np.where(bounded & (v < 0), 0, v)
        conjugate = 0.5 * (np.maximum(norms(allowed) - amount, 0) ** 2).sum()
        gap = 0.5 * w @ w + amount * norms(w).sum() + conjugate - w @ v
        assert ranker.objective_ == pytest.approx(value + amount * norms(w).sum(), rel=1e-5)
        assert ranker.certificate_.value == pytest.approx(gap / ranker.objective_, rel=0.05, abs=2e-6)
        assert gap <= 1.05 * ranker.certificate_.tolerance * ranker.objective_ + 1e-5 * ranker.objective_


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_few_curves_become_fewer():
    used = [
        np.count_nonzero(hr.AdditiveRankSVM(C=0.01, sparsity=s).fit(DATA).deviations_) for s in (0.0, 0.2, 0.6, 0.97)
    ]
    assert used[0] == 5 and sorted(used, reverse=True) == used and used[-1] == 1


def test_paths_over_C_and_smoothness_are_the_fits():
    path = hr.AdditiveRankSVM(tol=1e-6).fit_path(ROWS, DATA.y, DATA.qid, [1e-3, 1e-2], smoothness=[100, 1])
    assert [(r.C, r.smoothness) for r in path] == [(1e-3, 100), (1e-3, 1), (1e-2, 100), (1e-2, 1)]
    for ranker in path:
        alone = hr.AdditiveRankSVM(C=ranker.C, smoothness=ranker.smoothness, tol=1e-6).fit(ROWS, DATA.y, DATA.qid)
        assert ranker.objective_ == pytest.approx(alone.objective_, rel=1e-5)
        assert np.allclose(ranker.predict(ROWS), alone.predict(ROWS), atol=1e-2)
    shaped = hr.AdditiveRankSVM(tol=1e-6, sparsity=0.2, monotone={0: 1}).fit_path(
        DATA, Cs=[1e-3, 1e-2], smoothness=[1, 10]
    )
    for ranker in shaped:
        alone = clone(ranker).fit(DATA)
        assert ranker.objective_ == pytest.approx(alone.objective_, rel=1e-5)


def test_a_value_of_a_path_has_no_third_number():
    with pytest.raises(ValueError, match=r"is C, or C and smoothness, not \(1, 2, 3\)"):
        hr.AdditiveRankSVM().fit_path(DATA, Cs=[(1, 2, 3)])


def test_paths_over_smoothness_have_few_curves_by_their_own_measure():
    """sparsity is a fraction of what would leave no curve, which every smoothness has another one of."""
    for ranker in hr.AdditiveRankSVM(tol=1e-6, sparsity=0.3).fit_path(DATA, Cs=[1e-3, 1e-2], smoothness=[1, 1000]):
        assert ranker.objective_ == pytest.approx(clone(ranker).fit(DATA).objective_, rel=1e-5)


def test_curves_are_recovered_within_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 3))
    truth = [lambda x: np.sin(2 * x), lambda x: -np.abs(x), lambda x: np.zeros_like(x)]
    utility = sum(f(X[:, c]) for c, f in enumerate(truth)) + 0.2 * rng.normal(size=len(X))
    ranker = hr.AdditiveRankSVM(20, C=0.1, smoothness=0.1).fit(
        X, np.digitize(utility, [-1.5, -0.7, 0, 0.7]), np.arange(6000) // 30
    )
    x = np.linspace(-1.9, 1.9, 100)
    ours = np.stack([ranker._curves.at(c, x) for c in range(3)])
    wanted = np.stack([f(x) for f in truth])
    ours, wanted = (v - v.mean(axis=1, keepdims=True) for v in (ours, wanted))
    factor = (ours * wanted).sum() / (wanted**2).sum()  # ranks say nothing of the unit
    assert np.abs(ours / factor - wanted).max() < 0.2
    assert ranker.feature_importances_.sum() == pytest.approx(1) and ranker.feature_importances_[2] < 0.05


def test_explanations_are_exact_and_curves_have_mean_0():
    ranker = hr.AdditiveRankSVM(C=0.1).fit(DATA)
    told = ranker.explain(DATA)
    assert told.exact and np.allclose(told.contributions.sum(axis=1), told.scores, atol=1e-12)
    assert np.allclose(told.contributions.mean(axis=0), 0, atol=1e-9)
    sparse = ranker.explain(sp.csr_matrix(DATA.X), DATA.qid)
    assert np.allclose(sparse.contributions, told.contributions, atol=1e-12)


def test_curves_go_on_beyond_their_knots():
    curves = Curves(np.array([0.0, 1.0, 5.0]), np.array([1.0, 3.0, 2.0]), np.array([0, 2, 3]), np.array([0.5, -1.0]))
    X = np.array([[-2.0, 5.0], [0.5, 7.0], [3.0, 4.0]])
    assert curves.parts(X).tolist() == [[0.0, 2.0], [2.0, 0.0], [4.0, 3.0]]
    assert curves.scores(sp.csr_matrix(X)).tolist() == curves.scores(X).tolist() == [2.0, 2.0, 7.0]


def test_the_answer_does_not_depend_on_threads(monkeypatch):
    data = hr.make_letor(n_queries=300, rows_per_query=40, n_features=6, seed=0)
    several = hr.AdditiveRankSVM(C=0.01).fit(data)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "1")
    assert np.array_equal(hr.AdditiveRankSVM(C=0.01).fit(data).heights_, several.heights_)
    assert run_shards(len, ["a"]) == [1]


def test_plots_show_the_curves_of_most_weight():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    ranker = hr.AdditiveRankSVM(C=0.1).fit(DATA)
    figure = ranker.plot(top=3)
    strongest = np.argsort(-ranker.deviations_)[:3]
    assert [axis.get_title().split()[0] for axis in figure.axes] == [ranker.curves_[j].name for j in strongest]
    assert len(ranker.plot(features=[1, "f3"]).axes) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_knots": 1}, "n_knots"),
        ({"n_knots": 5000}, "at most 1000"),
        ({"smoothness": 0}, "smoothness"),
        ({"sparsity": 1.5}, "from 0 to below 1"),
        ({"monotone": {"f9": 1}}, "there is no feature 'f9'"),
        ({"monotone": {7: 1}}, "a number from 0 to 4"),
        ({"monotone": {0: 2}}, "never falls"),
        ({"monotone": [0]}, "mapping"),
        ({"monotone": {0: 1}, "loss": "hinge"}, "smooth loss"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        hr.AdditiveRankSVM(**settings).fit(DATA)


def test_models_keep_what_was_asked_of_them(tmp_path):
    asked = {"monotone": {0: 1, "f2": -1}, "interactions": [(2, 3)]}
    ranker = hr.AdditiveRankSVM(C=0.1, **asked).fit(DATA)
    back = hr.load(ranker.save(tmp_path))
    assert back.monotone == asked["monotone"] and back.interactions == asked["interactions"]
    assert np.array_equal(back.predict(DATA.X), ranker.predict(DATA.X))


def test_forged_models_are_refused(tmp_path):
    ranker = hr.AdditiveRankSVM(C=0.1).fit(DATA)
    good = ranker.save(tmp_path / "good")
    assert np.array_equal(hr.load(good).predict(DATA.X), ranker.predict(DATA.X))
    for name, value in {
        "knots_": ranker.knots_[::-1], "knot_starts_": ranker.knot_starts_ + 1, "slopes_": ranker.slopes_[:2],
        "heights_": np.full_like(ranker.heights_, np.nan),
    }.items():  # fmt: skip
        forged = hr.AdditiveRankSVM(C=0.1).fit(DATA)
        setattr(forged, name, np.ascontiguousarray(value))
        with pytest.raises(ValueError, match=f"cannot save: {name} "):
            hr.load(forged.save(tmp_path / "forged"))


def test_pairs_and_clicks_teach_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 2))
    quality = -np.abs(X[:, 0])
    i = rng.integers(0, 80, 400)
    j = (i + rng.integers(1, 80, 400)) % 80
    ranker = hr.AdditiveRankSVM(C=1.0, smoothness=0.1).fit_pairs(
        X, np.where(quality[i] > quality[j], i, j), np.where(quality[i] > quality[j], j, i)
    )
    assert np.corrcoef(ranker.predict(X), quality)[0, 1] > 0.95
    clicks = GradedPreferences(
        (quality > -0.3).astype(float), np.array([0, 40, 80]), winner_weight=rng.uniform(1, 2, 80)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.corrcoef(hr.AdditiveRankSVM(C=1.0).fit_preferences(X, clicks).predict(X), quality)[0, 1] > 0.8


def test_newton_on_the_problem_gives_the_certificate_it_promises():
    knots = place_knots(ROWS, 5)
    offsets = DATA.blocks.offsets
    problem = Problem(
        curve_design(ROWS, knots, 1.0, np.ones(5)), squared_hinge(), GradedPreferences(DATA.y, offsets), C=0.1
    )
    found = newton(problem, tol=1e-6)
    point = problem.at(found.w)
    assert found.certificate.value == pytest.approx(0.5 * point.gradient @ point.gradient / point.value, rel=1e-6)


def crossed(seed=0, n=1500):
    """Rows whose utility is a curve, and a product that curves cannot have."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    utility = X[:, 0] + 2.0 * X[:, 2] * X[:, 4] + 0.1 * rng.normal(size=n)
    return X, np.digitize(utility, [-0.5, 0.0, 0.5]), np.arange(n) // 15


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_surfaces_have_what_curves_cannot(form):
    X, y, qid = crossed()
    given = form(X)
    plain = hr.AdditiveRankSVM(C=0.1, smoothness=0.1).fit(given[:1200], y[:1200], qid[:1200])
    found = hr.AdditiveRankSVM(C=0.1, smoothness=0.1, interactions=1).fit(given[:1200], y[:1200], qid[:1200])
    named = hr.AdditiveRankSVM(C=0.1, smoothness=0.1, interactions=[("f3", 4)])
    named.fit(given[:1200], y[:1200], qid[:1200])
    assert found.surface_pairs_.tolist() == [[2, 4]] and found.surfaces_[0].names == ("f3", "f5")
    scores = [r.score(given[1200:], y[1200:], qid[1200:]) for r in (plain, found, named)]
    assert scores[1] > scores[0] + 0.05 and scores[1] == pytest.approx(scores[2], abs=1e-3)
    told = found.explain(given[:20], qid[:20])
    assert told.exact and np.allclose(told.contributions.sum(axis=1), found.predict(given[:20]), atol=1e-9)


def test_surfaces_are_those_of_products_written_out_and_are_saved(tmp_path):
    X, y, qid = crossed(1, 300)
    knots = place_knots(X, 5)
    Phi = written_out(X, knots, 2.0, np.ones(6))
    rises = [
        np.clip((X[:, [c]] - t[:-1]) / np.diff(t), 0, 1)
        for c in (2, 4)
        for t in [knots.values[knots.starts[c] : knots.starts[c + 1]]]
    ]
    products = (rises[0][:, :, None] * rises[1][:, None, :]).reshape(len(X), -1) / np.sqrt(2.0 * 16)
    plain = hr.RankSVM(C=0.1, tol=1e-7).fit(np.hstack([Phi, products]), y, qid)
    ours = hr.AdditiveRankSVM(5, C=0.1, smoothness=2.0, tol=1e-7, interactions=[(2, 4)]).fit(X, y, qid)
    assert ours.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    apart = ours.predict(X) - plain.predict(np.hstack([Phi, products]))
    assert np.ptp(apart) < 1e-2 * np.ptp(ours.predict(X))
    assert np.array_equal(hr.load(ours.save(tmp_path)).predict(X), ours.predict(X))
    path = hr.AdditiveRankSVM(5, tol=1e-6, interactions=[(2, 4)]).fit_path(
        X, y, qid, [0.01, 0.1], smoothness=[2.0, 20.0]
    )
    assert path[2].objective_ == pytest.approx(ours.objective_, rel=1e-4)
    few = hr.AdditiveRankSVM(5, C=0.1, interactions=2, sparsity=0.3, monotone={2: 1}).fit(X, y, qid)
    assert few.certificate_.converged and not (few.surface_pairs_ == 2).any()


@pytest.mark.parametrize("pair", [(0, 0), (0, 9), "f1", (1,), 3])
def test_bad_interactions_are_named(pair):
    with pytest.raises(ValueError, match="feature"):
        hr.AdditiveRankSVM(interactions=[pair]).fit(DATA)


@pytest.mark.parametrize("asked", [2.5, True, "f1"])
def test_interactions_are_a_number_or_pairs(asked):
    with pytest.raises(ValueError, match=r"interactions must be a number of pairs, or pairs such as \[\(3, 7\)\], not"):
        hr.AdditiveRankSVM(interactions=asked).fit(DATA)
