"""The parts of the sparse solvers against brute force over listed pairs."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import hingerank as hr
from hingerank.kernels import hessian
from hingerank.kernels.l1_models import minimise_in_ball, minimise_under_norm
from hingerank.losses import modified_huber, squared_hinge
from hingerank.preferences import GradedPreferences
from hingerank.problem import RowsDesign
from hingerank.problem.sparse import SparseProblem
from hingerank.solvers.sparse import WorkingSet, frank_wolfe, line_search, proximal_newton, truncated_gradient
from hingerank.structures import L1Ball, L1Norm


def data(seed=0, n_queries=8, rows=(2, 20), d=7, n_grades=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*rows, n_queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    X = rng.random((offsets[-1], d))
    X[rng.random(X.shape) < 0.3] = 0
    y = np.clip(np.round(3 * X[:, 0] - 2 * X[:, 1] + rng.normal(size=len(X))), 0, n_grades - 1)
    return X, y, offsets


def problem_of(X, loss, preferences, C=1.0):
    """Under the plain norm, unless a test says otherwise."""
    return SparseProblem(RowsDesign(X), loss, preferences, L1Norm(), C)


def differences(X, preferences):
    pairs = preferences.pairs()
    return X[pairs.winner] - X[pairs.loser], pairs.weight


@pytest.mark.parametrize("kind", ["dense", "float32", "csr"])
@pytest.mark.parametrize("loss", [squared_hinge(), modified_huber()], ids=["squared hinge", "modified Huber"])
def test_hessian_of_columns_is_that_of_the_listed_pairs(kind, loss):
    X, y, offsets = data(n_grades=4)
    weight = np.random.default_rng(1).random(len(y)) + 0.5
    preferences = GradedPreferences(y, offsets, item_weight=weight)
    stored = {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X)}[kind]
    objective = problem_of(stored, loss, preferences, C=3.0)
    w = np.random.default_rng(2).normal(size=X.shape[1])
    objective.at(X @ w)
    chosen = np.array([1, 3, 4])
    K, pair_weight = differences(np.asarray(stored.todense() if kind == "csr" else stored, np.float64), preferences)
    curve = pair_weight * loss.pointwise(differences(X, preferences)[0] @ w)[2]
    expected = 3.0 / pair_weight.sum() * (K[:, chosen].T * curve) @ K[:, chosen]
    np.testing.assert_allclose(objective.hessian(objective.design.columns(chosen)), expected, rtol=1e-6, atol=1e-9)


def test_hessian_in_pieces_and_from_a_sample(monkeypatch):
    X, y, offsets = data(n_queries=40, d=37)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets))
    objective.at(X @ np.ones(37))
    whole = objective.hessian(objective.design.columns(np.arange(37)))
    odd = GradedPreferences(y, offsets, query_weight=(np.arange(40) % 4 == 0).astype(float))
    part = problem_of(X, squared_hinge(), odd)
    part.at(X @ np.ones(37))
    sampled = objective.hessian(objective.design.columns(np.arange(37)), stride=4)
    np.testing.assert_allclose(sampled, part.hessian(part.design.columns(np.arange(37))), rtol=1e-12)
    assert np.abs(sampled - whole).max() < 0.5 * np.abs(whole).max()
    monkeypatch.setattr(hessian, "BLOCK", 20)  # sixteen columns at a time
    tree, state, terms = objective.preferences.tree, objective._state, objective.loss.terms
    csr = sp.csr_matrix(X)
    for rows in ((X,), (csr.data, csr.indices, csr.indptr)):
        pieces = objective.factor * hessian.hessian_pass(rows, 37, 0, 40, 1, tree, state, terms)
        np.testing.assert_allclose(pieces, whole, rtol=1e-10, atol=1e-12)


def test_line_search_finds_the_minimum_along_a_line():
    X, y, offsets = data()
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets))
    rng = np.random.default_rng(4)
    for extra in (0.0, 0.05):
        for _ in range(10):
            s, v = X @ rng.normal(size=X.shape[1]), X @ rng.normal(size=X.shape[1])
            point = objective.at(s)
            slope = point.gradient @ v + extra
            v, slope = (v, slope) if slope < 0 else (-v, -(slope - extra) + extra)
            if slope >= 0:
                continue
            for limit in (0.1, 1.0, 30.0):
                mu, here = line_search(objective, objective.at(s), v, slope, 1.0, limit, extra=extra)

                def along(m, s=s, v=v, extra=extra):
                    return objective.at(s + m * v).value + extra * m

                best = scipy.optimize.minimize_scalar(
                    along, bounds=(0, limit), method="bounded", options={"xatol": 1e-10}
                )
                assert along(mu) <= min(best.fun, along(limit)) + 1e-12
                np.testing.assert_allclose(here.value + extra * mu, along(mu), rtol=1e-12)


def models(count=30):
    """Random convex quadratics, some of them singular, and a starting point."""
    rng = np.random.default_rng(5)
    for trial in range(count):
        k = int(rng.integers(1, 9))
        A = rng.normal(size=(int(rng.integers(1, 12)), k)) * np.exp(rng.normal(size=k))
        H = A.T @ A + 1e-6 * np.eye(k)
        w = rng.normal(size=k) * (rng.random(k) < 0.6)
        yield trial, H, 3 * rng.normal(size=k), w


def split_minimum(H, c, w, bounds_value, norm):
    """min of <c, v - w> + ½ (v - w)ᵀ H (v - w) + norm · ‖v‖₁ with v = a - b, by SciPy, over ‖v‖₁ ≤ bounds_value."""
    k = len(c)

    def value(ab):
        step = ab[:k] - ab[k:] - w
        return c @ step + 0.5 * step @ H @ step + norm * ab.sum()

    def slope(ab):
        g = c + H @ (ab[:k] - ab[k:] - w)
        return np.concatenate([g + norm, -g + norm])

    limit = [{"type": "ineq", "fun": lambda ab: bounds_value - ab.sum(), "jac": lambda ab: -np.ones(2 * k)}]
    start = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)]) * 0.5
    return scipy.optimize.minimize(
        value, start, jac=slope, bounds=[(0, None)] * 2 * k, constraints=limit if np.isfinite(bounds_value) else (),
        method="SLSQP", options={"maxiter": 2000, "ftol": 1e-14},
    ).fun  # fmt: skip


def test_small_models_under_the_norm():
    for trial, H, c, w in models():
        q, v = c.copy(), w.copy()
        minimise_under_norm(H, q, v, 1e-9, 500)
        value = c @ (v - w) + 0.5 * (v - w) @ H @ (v - w) + np.abs(v).sum()
        assert value <= split_minimum(H, c, w, np.inf, 1.0) + 1e-5 * (1 + abs(value)), trial
        np.testing.assert_allclose(q, c + H @ (v - w), atol=1e-7 * (1 + np.abs(c).max()))
        lean = np.where(v != 0, np.abs(q + np.sign(v)), np.abs(q) - 1)
        assert lean.max() <= 1e-6, trial


def test_small_models_in_the_ball():
    for trial, H, c, w in models():
        for radius in (0.3, 2.0):
            start = w * min(1.0, radius / max(np.abs(w).sum(), 1e-9))
            q, v = c.copy(), start.copy()
            minimise_in_ball(H, q, v, radius, 1e-9, 500)
            assert np.abs(v).sum() <= radius * (1 + 1e-9)
            np.testing.assert_allclose(q, c + H @ (v - start), atol=1e-7 * (1 + np.abs(c).max()))
            gap = q @ v + radius * np.abs(q).max()
            assert gap <= 1e-6 * (1 + np.abs(c).max()), (trial, radius)


@pytest.mark.parametrize("step", ["exact", "closed-form"])
def test_classic_frank_wolfe_is_the_papers_algorithm_step_by_step(step):
    """Algorithm 1 with the matrix K, breakpoints sorted, in the paper's scale u = w / r."""
    X, y, offsets = data()
    preferences = GradedPreferences(y, offsets)
    K, p, r = differences(X, preferences)[0], preferences.n_pairs, 3.0
    u, models = np.zeros(X.shape[1]), []
    for _ in range(25):
        models.append(r * u)
        d = 2 * r**2 / p * np.maximum(0, 1 / r - K @ u)
        g = K.T @ d
        j = int(np.argmax(np.abs(g)))
        b = -u
        b[j] += np.sign(g[j])
        if step == "closed-form":  # the minimiser of the bound (26)
            mu = np.clip(d @ K @ b / (2 * r**2 / p * np.sum((K @ b) ** 2)), 0, 1)
        else:
            mu = paper_step(1 / r - K @ u, K @ b)
        u = u + mu * b
    seen = []
    objective = problem_of(X, squared_hinge(), preferences)
    for steps in (1, 5, 24):
        solution = frank_wolfe(objective.within(L1Ball(r)), step=step, tol=1e-12, max_iter=steps)
        np.testing.assert_allclose(solution.w, models[steps], atol=1e-7)
        seen = solution.trace
    for w, entry in zip(models, seen):
        np.testing.assert_allclose(entry["value"], np.mean(np.maximum(0, 1 - K @ w) ** 2), rtol=1e-7)
        d = 2 * r**2 / p * np.maximum(0, 1 / r - K @ w / r)
        gap = np.abs(K.T @ d).max() - d @ K @ w / r
        np.testing.assert_allclose(entry["gap"], gap / entry["value"], atol=1e-6)


def paper_step(a, slope):
    """argmin over [0, 1] of sum max(0, a - slope mu)²: every interval between breakpoints has its own parabola."""
    points = np.unique(np.concatenate([[0.0, 1.0], [c for c in a[slope != 0] / slope[slope != 0] if 0 < c < 1]]))
    best = (np.inf, 0.0)
    for low, high in pairwise(points):
        inside = a - slope * 0.5 * (low + high) > 0
        bend = np.sum(slope[inside] ** 2)
        mu = np.clip(np.sum(a[inside] * slope[inside]) / bend if bend > 0 else low, low, high)
        best = min(best, (np.sum(np.maximum(0, a - slope * mu) ** 2), mu))
    return best[1]


@pytest.mark.parametrize("radius", [0.5, 2.0, 5.0])
def test_frank_wolfe_stays_within_the_papers_bound_and_goes_down(radius):
    X, y, offsets = data()  # features in [0, 1], as the bound asks
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets))
    best = proximal_newton(objective.within(L1Ball(radius)), tol=1e-12).value
    tol = 0.02
    for variant, step in [("classic", "exact"), ("classic", "closed-form"), ("away", "exact"), ("pairwise", "exact")]:
        solution = frank_wolfe(objective.within(L1Ball(radius)), variant=variant, step=step, tol=tol, max_iter=100_000)
        assert solution.certificate.converged and solution.certificate.n_iter <= 16 * radius**2 / tol - 1
        values = np.array([entry["value"] for entry in solution.trace])
        gaps = np.array([entry["gap"] for entry in solution.trace])
        assert (np.diff(values) <= 1e-12).all() and values[0] == pytest.approx(1.0)
        assert (gaps >= values - best - 1e-12).all(), "a duality gap bounds how far the value is from the best"
        assert np.abs(solution.w).sum() <= radius * (1 + 1e-12)


def test_away_and_pairwise_steps_need_far_fewer_steps():
    X, _, offsets = data(n_queries=30, d=12)
    rng = np.random.default_rng(6)
    y = np.clip(np.round(X @ rng.normal(size=12) + 0.5 * rng.normal(size=len(X))), 0, 2)
    objective, steps = problem_of(X, squared_hinge(), GradedPreferences(y, offsets)), {}
    for variant in ("classic", "away", "pairwise"):
        solution = frank_wolfe(objective.within(L1Ball(4.0)), variant=variant, tol=1e-6, max_iter=1000)
        steps[variant] = solution.certificate.n_iter
    assert steps["classic"] == 1000 and 10 * max(steps["away"], steps["pairwise"]) < 1000, steps
    newton = proximal_newton(objective.within(L1Ball(4.0)), tol=1e-6)
    assert newton.certificate.converged and newton.certificate.n_iter <= 8


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("radius", [0.3, 2.0, 20.0, 300.0])
def test_all_ways_into_the_ball_find_the_same_optimum(radius, kind):
    X, y, offsets = data(3)
    stored = X if kind == "dense" else sp.csr_matrix(X)
    objective = problem_of(stored, squared_hinge(), GradedPreferences(y, offsets))
    best = proximal_newton(objective.within(L1Ball(radius)), tol=1e-10)
    assert best.certificate.converged
    K = differences(X, objective.preferences)[0]
    np.testing.assert_allclose(best.value, np.mean(np.maximum(0, 1 - K @ best.w) ** 2), rtol=1e-9)
    for variant in ("away", "pairwise"):
        other = frank_wolfe(objective.within(L1Ball(radius)), variant=variant, tol=1e-5, max_iter=20_000)
        assert best.value - 1e-9 <= other.value <= best.value + 1e-5, variant
        np.testing.assert_allclose(objective.design.columns(np.arange(7)).scores(other.w), X @ other.w, atol=1e-9)


def test_wide_problems_grow_their_working_set():
    rng = np.random.default_rng(8)
    X = sp.random(300, 5000, 0.01, random_state=8, format="csr")
    truth = np.zeros(5000)
    truth[rng.choice(5000, 300, replace=False)] = rng.normal(size=300)
    offsets = np.arange(0, 301, 30)
    y = np.round(2 * (X @ truth) + 2)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets))
    for structure, problem in ((L1Ball(40.0), objective), (L1Norm(), objective.with_C(2000.0))):
        solution = proximal_newton(problem.within(structure), tol=1e-8)
        assert solution.certificate.converged and 64 < np.count_nonzero(solution.w) < 1000
        point = problem.at(X @ solution.w)
        gap = structure.gap(point.value, X.T @ point.gradient, solution.w)[0]
        assert gap <= 1.1e-8 * max(point.value + structure.value(solution.w), 1e-3)


def test_a_working_set_may_be_smaller_than_the_support(monkeypatch):
    import hingerank.solvers.sparse as working_set

    monkeypatch.setattr(working_set, "ALL", 4)
    monkeypatch.setattr(working_set, "MOST", 3)
    X, y, offsets = data(9, d=10)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets), C=200.0)
    solution = proximal_newton(objective.within(L1Norm()), tol=1e-6)
    assert solution.certificate.converged and np.count_nonzero(solution.w) > 3


def test_a_working_set_lets_go_of_its_columns_before_it_takes_others():
    rng = np.random.default_rng(8)
    X, y = sp.random(200, 3000, 0.02, random_state=8, format="csr"), rng.integers(0, 3, 200).astype(float)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, np.arange(0, 201, 20)))
    working, seen, columns = WorkingSet(objective), [], objective.design.columns
    objective.design.columns = lambda wanted: seen.append(working._design) or columns(wanted)
    assert proximal_newton(objective.within(L1Ball(20.0)), working=working).certificate.converged
    assert len(seen) > 2 and all(design is None for design in seen)


def test_samples_of_queries_lead_to_the_same_optimum(monkeypatch):
    import hingerank.problem.sparse as module

    X, y, offsets = data(10, n_queries=300, d=6)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets), C=50.0)
    exact = proximal_newton(objective.within(L1Norm()), tol=1e-9)
    monkeypatch.setattr(module, "ROWS_OF_A_HESSIAN", 100)
    assert objective.stride(objective.design.columns(np.arange(6))) > 4
    sampled = proximal_newton(objective.within(L1Norm()), tol=1e-9)
    assert sampled.certificate.converged
    np.testing.assert_allclose(sampled.w, exact.w, atol=1e-5)


def test_gaps_under_the_norm_are_true_bounds():
    X, y, offsets = data(11)
    objective = problem_of(X, squared_hinge(), GradedPreferences(y, offsets), C=30.0)
    rng = np.random.default_rng(0)
    for norm in (L1Norm(), L1Norm(0.5)):
        best = proximal_newton(objective.within(norm), tol=1e-12).value
        for scale in (0.0, 0.1, 1.0, 10.0):
            w = scale * rng.normal(size=X.shape[1])
            point = objective.at(X @ w)
            value = point.value + norm.value(w)
            gap, least = norm.gap(point.value, X.T @ point.gradient, w)
            assert gap >= value - best - 1e-9
            assert least <= objective.origin() - value + gap + 1e-9
        tight = proximal_newton(objective.within(norm), tol=1e-4)
        assert tight.value - best <= 1e-4 * tight.value


def test_truncation_draws_small_weights_to_zero_now_and_then():
    at = lambda w: (0.5 * float((w - a) @ (w - a)), w - a)  # noqa: E731
    a = np.array([3.0, 0.4, -0.2])
    certify = lambda run, loss, g, w: 1.0  # noqa: E731
    run = lambda n, **more: truncated_gradient(at, np.zeros(3), 0.1, certify, "none", max_iter=n, **more).w  # noqa: E731
    np.testing.assert_allclose(run(1), [0.2, 0.0, 0.0], atol=1e-15)  # one step of 0.1 a, drawn by 0.1
    np.testing.assert_allclose(run(1, every=2), 0.1 * a)
    np.testing.assert_allclose(run(2, every=2), [0.37, 0.0, 0.0], atol=1e-15)  # 0.19 a, drawn by 0.2
    np.testing.assert_allclose(run(1, threshold=0.25), [0.3, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(run(500), [2.0, 0.0, 0.0], atol=1e-9)


def test_curvature_that_rounding_leaves_below_zero_is_not_added_to():
    """Features that do not differ within queries have a curvature of rounding errors, of either sign."""

    class Noise:
        dimension, factor, design = 3, 1.0, RowsDesign(np.zeros((1, 3)))
        constant = np.empty(0, np.int64)

        def stride(self, design):
            return 1

        def hessian(self, design, stride):
            return np.diag([1e-20, -1e-20, -3e-20])

    working = WorkingSet(Noise())
    working.choose(Noise(), np.ones(3), np.zeros(3))
    np.testing.assert_allclose(working.hessian(Noise(), False).diagonal(), 1e-20, rtol=1e-5)


@pytest.mark.parametrize("ranker", [hr.SparseRankSVM(C=1e3), hr.FenchelRank(radius=10.0)])
def test_a_sample_of_queries_without_pairs_gives_no_infinite_hessian(ranker):
    """Every 4th query has one grade."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40_000, 3)), np.repeat(np.arange(8000), 5)
    y = np.where(qid % 4 > 0, X[:, 0] + rng.normal(size=len(X)) > 0, 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.fit(X, y, qid, sample_weight=np.full(len(X), 1e5))
    assert ranker.certificate_.converged and ranker.n_iter_ <= 15
