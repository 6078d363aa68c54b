"""What a certificate says is so: objective and gap are computed again by listing the pairs, in extended precision.

`pytest -s` prints how many of the fits were certified.
"""

import time
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import hingerank as hr
from hingerank.registry import RANKERS, ranker_class

LONG = np.longdouble
GAP = "relative duality gap"
LOSSES = {
    "squared_hinge": lambda t: (np.maximum(0, 1 - t) ** 2, -2 * np.maximum(0, 1 - t)),
    "logistic": lambda t: (np.logaddexp(LONG(0), -t), -1 / (1 + np.exp(t))),
    "squared": lambda t: ((1 - t) ** 2, -2 * (1 - t)),
    "modified_huber": lambda t: (np.where(t < -1, -4 * t, np.maximum(0, 1 - t) ** 2), -2 * np.clip(1 - t, 0, 2)),
    "exponential": lambda t: (np.exp(-t), -np.exp(-t)),
}
ALL_LOSSES = LOSSES | {"hinge": lambda t: (np.maximum(0, 1 - t), -(t < 1).astype(LONG))}


def rule(gap, f, origin, least):
    """The gap relative to what there is to gain from 0, or to the objective where that is less.

    least: ½‖v‖², v minus the gradient of the loss, which f(0) - f + gap never is below, and which no rounding touches.
    """
    assert least <= (origin - f + gap) * (1 + 1e-6) + 1e-15 * origin
    return float(gap / min(max(origin - f + gap, least), f)) if gap > 0 else 0.0


def problem(seed, spread):
    """Rows with ties and repeats, whose columns differ in scale by `spread` decades, and offsets of that size."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 60)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d))
    X[rng.random(n) < 0.2] = X[0]
    X = (X + rng.integers(0, 3)) * 10.0 ** rng.uniform(-spread / 2, spread / 2, d)
    return X, rng.integers(0, 4, n).astype(float), np.sort(rng.integers(0, 4, n)), rng.uniform(0.5, 2.0, n)


def recomputed(X, y, qid, weight, C, loss, w):
    """(objective, relative duality gap, value at 0) at w over the listed pairs."""
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    D, pair = X.astype(LONG)[i] - X.astype(LONG)[j], weight.astype(LONG)[i] * weight.astype(LONG)[j]
    w = w.astype(LONG)
    value, slope = LOSSES[loss](D @ w)
    f = w @ w / 2 + LONG(C) * (pair * value).sum()
    v = -LONG(C) * D.T @ (pair * slope)
    origin = LONG(C) * (pair * LOSSES[loss](np.zeros(len(pair), LONG))[0]).sum()
    return float(f), rule((w - v) @ (w - v) / 2, f, origin, v @ v / 2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread, scale", [(0, 1), (6, 1), (12, 1), (0, 1e-6), (0, 1e-3), (0, 1e6)])
def test_what_is_certified_is_true(loss, spread, scale):
    certified = 0
    for seed in range(25):
        X, y, qid, weight = problem(seed, spread)
        X = scale * X
        if not any(len(np.unique(y[qid == q])) > 1 for q in np.unique(qid)):
            continue
        C = 10.0 ** np.random.default_rng(seed).uniform(-12, 12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = hr.RankSVM(C=C, loss=loss).fit(X, y, qid, sample_weight=weight)
        f, gap = recomputed(X, y, qid, weight, C, loss, ranker.coef_)
        assert ranker.certificate_.kind == GAP
        if ranker.certificate_.converged:
            certified += 1
            assert gap <= 1e-3 * (1 + 1e-3) + 1e-9, (seed, gap, ranker.certificate_)
            assert abs(ranker.objective_ - f) <= 1e-6 * f, (seed, ranker.objective_, f)
    print(f"certified: {certified}")
    assert certified >= 15, certified


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.ScaleWarning")
def test_columns_of_any_scale_converge_in_about_as_many_iterations():
    data = hr.make_letor(100, n_features=20, seed=1)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    spread = 10.0 ** np.random.default_rng(0).uniform(-3, 6.6, X.shape[1])
    for C in (1e-3, 1.0):
        even = hr.RankSVM(C=C).fit(X, data.y, data.qid).certificate_
        uneven = hr.RankSVM(C=C).fit((X + 5) * spread, data.y, data.qid).certificate_
        assert even.converged and uneven.converged and uneven.n_iter <= 3 * even.n_iter, (even, uneven)


def test_the_dual_certifies_the_weights_it_returns():
    for seed in range(12):
        X, y, qid, _ = problem(seed, 0)
        ranker = hr.RankSVM(C=100.0, loss="hinge", solver="dual", max_iter=5000).fit(X, y, qid)
        best = hr.RankSVM(C=100.0, loss="hinge", tol=1e-7, max_iter=5000).fit(X, y, qid)
        if ranker.certificate_.converged:
            assert ranker.objective_ <= best.objective_ * (1 + 1.1e-3), seed


def listed(X, y, qid, weight):
    """Differences of the pairs, their weights, their winners and losers."""
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    return X.astype(LONG)[i] - X.astype(LONG)[j], weight.astype(LONG)[i] * weight.astype(LONG)[j], i, j


def fitted(ranker, X, y, qid, weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranker.fit(X, y, qid, **({} if weight is None else {"sample_weight": weight}))


def problems(spread, count, dtype=np.float64, offset=0.0):
    """(seed, X, y, qid, weight) of random problems that have pairs."""
    for seed in range(count):
        X, y, qid, weight = problem(seed, spread)
        if any(len(np.unique(y[qid == q])) > 1 for q in np.unique(qid)):
            yield seed, (X + offset).astype(dtype), y, qid, weight


def listnet(s, y):
    P_y, P_s = np.exp(y - y.max()), np.exp(s - s.max())
    P_y, P_s = P_y / P_y.sum(), P_s / P_s.sum()
    return -(P_y * (s - s.max() - np.log(np.exp(s - s.max()).sum()))).sum(), P_s - P_y


def listmle(s, y):
    worse = y[None, :] < y[:, None]
    ratio = np.where(worse, np.exp(s[None, :] - s[:, None]), 0)
    part = ratio / (1 + ratio.sum(axis=1, keepdims=True))
    return np.log1p(ratio.sum(axis=1)).sum(), part.sum(axis=0) - part.sum(axis=1)


def differences(s, y):
    left = (y[:, None] - y[None, :]) - (s[:, None] - s[None, :])
    return (left**2).sum() / 2, -2 * left.sum(axis=1)


LISTS = {"listnet": listnet, "listmle": listmle, "rankrls": differences}


@pytest.mark.parametrize("spread", [0, 6, 12])
@pytest.mark.parametrize("name", LISTS)
def test_list_rankers_certify_what_they_return(name, spread):
    certified = 0
    for seed, X, y, qid, _ in problems(spread, 12):
        C = LONG(10.0) ** np.random.default_rng(seed).uniform(-12, 12)
        ranker = fitted(ranker_class(name)(C=float(C)), X, y, qid)
        w, rows = ranker.coef_.astype(LONG), X.astype(LONG)
        f, g, origin = w @ w / 2, w.copy(), LONG(0)
        for q in np.unique(qid):
            grades = y[qid == q].astype(LONG)
            value, slope = LISTS[name](rows[qid == q] @ w, grades)
            f, g = f + C * value, g + C * rows[qid == q].T @ slope
            origin += C * LISTS[name](0 * grades, grades)[0]
        if ranker.certificate_.converged:
            certified += 1
            gap = rule(g @ g / 2, f, origin, (w - g) @ (w - g) / 2)
            assert gap <= 1.001 * ranker.certificate_.tolerance + 1e-12, (seed, ranker.certificate_)
            assert abs(ranker.objective_ - f) <= 1e-6 * f, (seed, ranker.objective_, f)
    print(f"certified: {certified}")
    assert certified >= 5, certified


@pytest.mark.parametrize("spread", [0, 6, 12])
def test_fits_around_weights_certify_what_they_return(spread):
    """In v = w - w0, from the value at w0 to the optimum."""
    certified = 0
    for seed, X, _, qid, weight in problems(spread, 12):
        rng = np.random.default_rng(seed)
        clicks = np.where(rng.random(len(X)) < 0.3, weight, 0.0)
        winner, loser = np.nonzero((qid[:, None] == qid[None, :]) & (clicks[:, None] > 0) & ~np.eye(len(X), dtype=bool))
        if not len(winner):
            continue
        loss, C = list(LOSSES)[seed % 5], 10.0 ** rng.uniform(-6, 6)
        centre = 10.0 ** rng.uniform(-3, 3) * rng.normal(size=X.shape[1]) / np.abs(X).max(axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = hr.RankSVM(C=C, loss=loss).fit_winners(X, clicks, qid=qid, around=centre)
        D, pair = X.astype(LONG)[winner] - X.astype(LONG)[loser], clicks.astype(LONG)[winner]
        v = ranker.coef_.astype(LONG) - centre
        value, slope = LOSSES[loss](D @ (v + centre))
        f, u = v @ v / 2 + LONG(C) * (pair * value).sum(), -LONG(C) * D.T @ (pair * slope)
        origin = LONG(C) * (pair * LOSSES[loss](D @ centre.astype(LONG))[0]).sum()
        if ranker.certificate_.converged:
            certified += 1
            gap = (v - u) @ (v - u) / 2
            assert gap <= 1.01e-3 * min(origin - f + gap, f) + 1e-13 * origin, (seed, ranker.certificate_)
            assert abs(ranker.objective_ - f) <= 1e-6 * f, seed
    assert certified >= 6, certified


@pytest.mark.parametrize("name", ["nystroem-rank-svm", "fourier-rank-svm"])
def test_mapped_rankers_certify_what_they_return(name):
    """By the rows that their maps give."""
    for seed, X, y, qid, weight in problems(0, 6):
        C = 10.0 ** np.random.default_rng(seed).uniform(-6, 3)
        ranker = fitted(ranker_class(name)(C=C, scale=None, random_state=0), X, y, qid, weight)
        found = ranker._new_map().fit(X, sample_weight=weight)
        w = ranker.coef_ if found.mixing_ is None else np.linalg.lstsq(found.mixing_, ranker.coef_)[0]
        f, gap = recomputed(found.transform(X), y, qid, weight, C, "squared_hinge", w)
        assert ranker.certificate_.converged and gap <= 1.01e-3 and abs(ranker.objective_ - f) <= 1e-5 * f, seed


@pytest.mark.parametrize("spread", [0, 6, 12])
def test_hinge_solvers_certify_what_they_return(spread):
    """No solver's certified value is above another's by more than the tolerance, by the hinge itself."""
    certified = 0
    for seed, X, y, qid, weight in problems(spread, 12):
        C = 10.0 ** np.random.default_rng(seed).uniform(-12, 12)
        D, pair, _, _ = listed(X, y, qid, weight)
        values, sure = [], []
        for solver in ("auto", "cutting-plane", "dual"):
            ranker = fitted(hr.RankSVM(C=C, loss="hinge", solver=solver, max_seconds=5), X, y, qid, weight)
            w = ranker.coef_.astype(LONG)
            values.append(float(w @ w / 2 + LONG(C) * (pair * np.maximum(0, 1 - D @ w)).sum()))
            sure.append(ranker.certificate_.converged)
            assert not sure[-1] or abs(values[-1] - ranker.objective_) <= 1e-6 * values[-1], (seed, solver)
        certified += sum(sure)
        origin = float(LONG(C) * pair.sum())
        for value, converged in zip(values, sure):
            above = value - min(values)
            assert not converged or above <= 1.001e-3 * min(value, origin - min(values)) + 1e-14 * origin, (
                seed,
                values,
            )
    print(f"certified: {certified}")
    assert certified >= 15, certified


def test_no_lower_bound_of_the_hinge_is_above_its_optimum():
    """Multipliers of a narrow kink are differences of sums: their rounding counts against the bound."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 5, 60).astype(float)
        X = np.outer(10 * y, rng.normal(size=8)) + rng.normal(size=(60, 8))
        qid, C = np.zeros(60), 10.0 ** rng.uniform(-6, -4)
        bound = fitted(hr.RankSVM(C=C, loss="hinge", tol=1e-12), X, y, qid).trace_[-1]["lower_bound"]
        w = fitted(hr.RankSVM(C=C, loss="hinge", solver="dual", tol=1e-12), X, y, qid).coef_.astype(LONG)
        D = listed(X, y, qid, np.ones(60))[0]
        assert bound <= w @ w / 2 + LONG(C) * np.maximum(0, 1 - D @ w).sum(), seed


@pytest.mark.parametrize("spread", [0, 6, 12])
def test_sparse_rankers_certify_what_they_return(spread):
    certified = 0
    for seed, X, y, qid, weight in problems(spread, 8):
        rng = np.random.default_rng(seed)
        D, pair, _, _ = listed(X, y, qid, weight)
        pair, radius = pair / pair.sum(), 10.0 ** rng.uniform(-6, 6)
        for variant in ("corrective", "classic", "away", "pairwise"):
            ranker = fitted(hr.FenchelRank(radius, variant=variant, max_seconds=5), X, y, qid, weight)
            w = ranker.coef_.astype(LONG)
            left = np.maximum(0, 1 - D @ w)
            loss, g = (pair * left**2).sum(), -2 * D.T @ (pair * left)
            gap, least = g @ w + LONG(radius) * np.abs(g).max(), LONG(radius) * np.abs(g).max()
            gap = gap / min(max(loss, 1e-3), max(1 - loss + gap, least))
            assert np.abs(w).sum() <= radius * (1 + 1e-12)
            if ranker.certificate_.converged:
                certified += 1
                assert gap <= 1.001e-3 and abs(ranker.objective_ - loss) <= 1e-6 * loss + 1e-9, (seed, variant, gap)
        C = 10.0 ** rng.uniform(-12, 12)
        for ranker, ridge in (
            (hr.SparseRankSVM(C), 0),
            (hr.SparseRankSVM(C, 0.5), 0.5),
            (hr.TGRank(C, max_iter=300), 0),
        ):
            fitted(ranker, X, y, qid, weight)
            w = ranker.coef_.astype(LONG)
            left = np.maximum(0, 1 - D @ w)
            loss, g = LONG(C) * (pair * left**2).sum(), -2 * LONG(C) * D.T @ (pair * left)
            value = loss + np.abs(w).sum() + ridge * (w @ w) / 2
            if ranker.certificate_.converged:
                certified += 1
                gap = value - l1_bound(loss, g, w, ridge)
                assert gap <= 1.001e-3 * min(value, LONG(C) - value + gap) + 1e-14 * value, (seed, ranker)
                assert abs(ranker.objective_ - value) <= 1e-6 * value, (seed, ranker)
    print(f"certified: {certified}")
    assert certified >= 25, certified


def l1_bound(loss, g, w, ridge):
    """The best lower bound that multipliers in proportion to those of w give."""
    slope, most = 2 * loss - g @ w, 1 / max(np.abs(g).max(), LONG(1e-300))
    tried = np.concatenate([np.linspace(0, 1, 400) * most, np.linspace(0.9, 1.1, 201) if ridge else []])
    tried = np.append(tried, min(most, slope / (2 * loss)) if loss > 0 else most)
    over = (np.maximum(tried[:, None] * np.abs(g) - 1, 0) ** 2).sum(axis=1) / (2 * ridge) if ridge else 0
    return (tried * slope - tried**2 * loss - over).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("spread", "offset"), [(0, 0), (6, 0), (12, 0), (0, 1e4)])
def test_kernel_rankers_certify_what_they_return(spread, offset, dtype):
    """By a kernel matrix in extended precision; no gap is negative."""
    certified = 0
    for seed, X, y, qid, weight in problems(spread, 4, dtype, offset):
        rng = np.random.default_rng(seed)
        C, rows = 10.0 ** rng.uniform(-6, 6), X.astype(LONG)
        _, pair, i, j = listed(X, y, qid, weight)
        for kernel in ("rbf", "linear", "polynomial"):
            gamma = 10.0 ** rng.uniform(-3, 1)
            K = rows @ rows.T
            if kernel == "rbf":
                K = np.exp(-LONG(gamma) * ((rows[:, None] - rows[None]) ** 2).sum(axis=-1))
            elif kernel == "polynomial":
                K = (LONG(gamma) * K + 1) ** 3
            for loss in ("hinge", "squared_hinge", "logistic"):
                settings = {"C": C, "kernel": kernel, "gamma": gamma, "loss": loss, "max_seconds": 2}
                ranker = fitted(hr.KernelRankSVM(**settings), X, y, qid, weight)
                if not ranker.certificate_.converged:
                    continue
                certified += 1
                assert ranker.certificate_.value >= 0
                a = np.zeros(len(y), LONG)
                a[ranker.support_] = ranker.dual_coef_
                s = K @ a
                value, slope = ALL_LOSSES[loss](s[i] - s[j])
                f = a @ s / 2 + LONG(C) * (pair * value).sum()
                assert abs(ranker.objective_ - f) <= 1e-3 * f, (seed, settings)
                if loss != "hinge":
                    g = a.copy()
                    np.add.at(g, i, LONG(C) * pair * slope)
                    np.add.at(g, j, -LONG(C) * pair * slope)
                    gap, v = g @ K @ g / 2, a - g
                    origin = LONG(C) * (pair * ALL_LOSSES[loss](0 * value)[0]).sum()
                    assert rule(gap, f, origin, v @ K @ v / 2 * (1 - 1e-9)) <= 1.1e-3, (seed, settings)
    print(f"certified: {certified}")
    assert certified >= 6, certified


def test_a_kernel_matrix_in_single_precision_hides_nothing():
    """Of more rows than are kept in double precision."""
    data = hr.make_letor(30, rows_per_query=80, n_features=5, seed=3)
    X = data.X.astype(np.float64)
    i, j = np.nonzero((data.y[:, None] > data.y[None, :]) & (data.qid[:, None] == data.qid[None, :]))
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    for loss in ("hinge", "squared_hinge"):
        ranker = fitted(hr.KernelRankSVM(C=10.0, gamma=0.5, loss=loss), data.X.astype(np.float32), data.y, data.qid)
        a = np.zeros(len(X))
        a[ranker.support_] = ranker.dual_coef_
        s = K @ a
        value = a @ s / 2 + 10.0 * ALL_LOSSES[loss](s[i] - s[j])[0].sum()
        assert ranker.objective_ == pytest.approx(value, rel=1e-9)
        assert ranker.certificate_.converged


EXTREMES = {
    "weights": lambda X: {"X": X, "weight": np.full(len(X), 1e300)},
    "features": lambda X: {"X": 1e200 * X},
    "large features": lambda X: {"X": 1e150 * X},
    "tiny features": lambda X: {"X": 1e-200 * X},
    "scaled features": lambda X: {"X": 1e200 * X, "scale": "standard"},
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", [n for n, place in RANKERS.items() if place.startswith("hingerank.rankers.")])
def test_extreme_numbers_are_refused_or_answered_honestly(name, extreme):
    rng = np.random.default_rng(0)
    given = EXTREMES[extreme](rng.normal(size=(12, 3)))
    ranker, weight = ranker_class(name)(), given.get("weight")
    if "scale" in given:
        if "scale" not in ranker.get_params():
            pytest.skip("scales nothing")
        ranker.set_params(scale="standard")
    try:
        with np.errstate(all="ignore"):
            fitted(ranker, given["X"], rng.integers(0, 3, 12).astype(float), np.repeat([0, 1], 6), weight)
    except ValueError as error:
        assert any(word in str(error) for word in ("overflow", "sample_weight", "too large")), error
        return
    except TypeError as error:
        assert "sample_weight" in str(error)  # a ranker that takes none
        return
    if ranker.certificate_.converged:
        assert np.isfinite(ranker.predict(given["X"])).all() and np.isfinite(getattr(ranker, "objective_", 0.0))


@pytest.mark.parametrize("solver", ["auto", "cutting-plane", "dual"])
def test_limits_hold_whatever_the_numbers(solver):
    X, y, qid, _ = problem(3, 0)
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        fitted(hr.RankSVM(loss="hinge", solver=solver, max_iter=50, max_seconds=1.0), 1e150 * X, y, qid)
    assert time.perf_counter() - began < 20  # of which most, on a busy machine, is compiling


@pytest.mark.parametrize("loss, tol", [("squared_hinge", 1e-5), ("hinge", 1e-4)])
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the fine one may go on for long
def test_a_personal_ranker_stops_where_descent_ends_and_says_stationary(loss, tol):
    data = hr.make_personal(30, 40, 8, 2, per_user=20, seed=0)
    X, parts = 1e3 * data.item_features, (data.users, data.winners, data.losers)
    rough = hr.PersonalRankSVM(rank=2, random_state=0, loss=loss).fit_pairs(X, *parts)
    like = {"rank": 2, "random_state": 0, "loss": loss, "C": rough.C_}
    fine = hr.PersonalRankSVM(tol=tol, max_iter=2000, **like).fit_pairs(X, *parts)
    assert rough.certificate_.kind == "stationarity" and rough.certificate_.converged
    assert rough.objective_ <= 2.0 * fine.objective_


def test_regularized_multipliers_are_as_near_the_optimum_as_certified():
    certified = 0
    for seed, X, y, qid, _ in problems(2, 12):
        C = 10.0 ** np.random.default_rng(seed).uniform(-3, 1)
        rough = fitted(hr.RegularizedRankSVM(C=C), X, y, qid)
        fine = fitted(hr.RegularizedRankSVM(C=C, tol=1e-6, max_iter=2000), X, y, qid)
        if rough.certificate_.converged:
            certified += 1
            assert rough.objective_ - fine.objective_ <= 1.001e-3 * abs(rough.objective_), seed
    print(f"certified: {certified}")
    assert certified >= 6, certified


@pytest.mark.parametrize("spread", [0, 6])
def test_regression_with_ranking_certifies_what_it_returns(spread):
    for seed, X, y, qid, _ in problems(spread, 12):
        C, alpha = 10.0 ** np.random.default_rng(seed).uniform(-6, 6), 0.3
        ranker = fitted(hr.CRR(C=C, alpha=alpha), X, y, qid)
        w, rows, D = ranker.coef_.astype(LONG), X.astype(LONG), listed(X, y, qid, np.ones(len(y)))
        left = y - LONG(ranker.intercept_) - rows @ w
        pairs = y[D[2]] - y[D[3]] - D[0] @ w
        f = w @ w / 2 + LONG(C) * (alpha * (left**2).mean() + (1 - alpha) * (pairs**2).mean())
        slope = alpha * rows.T @ left / len(left) + (1 - alpha) * D[0].T @ pairs / len(pairs)
        g = w - 2 * LONG(C) * slope
        assert abs(LONG(C) * left.mean()) <= 1e-6 * max(f, C)  # the intercept is the best one
        if ranker.certificate_.converged:
            pairs, v = y[D[2]] - y[D[3]], w - g
            origin = LONG(C) * (alpha * ((y - y.mean()) ** 2).mean() + (1 - alpha) * (pairs**2).mean())
            gap = g @ g / 2  # the intercept moves with w: the gradient is that of the best one
            assert gap <= (1.1 * ranker.certificate_.tolerance + 1e-9) * min(f, max(origin - f + gap, v @ v / 2)), seed
            assert abs(ranker.objective_ - f) <= 1e-6 * f, seed


def test_the_fidelity_loss_certifies_stationarity():
    for seed, X, y, qid, _ in problems(0, 12):
        C = 10.0 ** np.random.default_rng(seed).uniform(-6, 3)
        ranker = fitted(hr.FRank(C=C), X, y, qid)
        D, w = listed(X, y, qid, np.ones(len(y)))[0], ranker.coef_.astype(LONG)
        P = 1 / (1 + np.exp(-(D @ w)))
        f = w @ w / 2 + LONG(C) * (1 - np.sqrt(P)).sum()
        g = w - LONG(C) * D.T @ (np.sqrt(P) * (1 - P) / 2)
        assert ranker.certificate_.kind == "stationarity"
        if ranker.certificate_.converged:
            gain = max(LONG(C) * (1 - np.sqrt(0.5)) * len(P) - f + g @ g / 2, (w - g) @ (w - g) / 2)
            assert g @ g / 2 <= 1.001e-3 * min(f, gain) and abs(ranker.objective_ - f) <= 1e-6 * f, seed


@pytest.mark.parametrize("name", ["joint", "separate", "mean-variance"])
def test_convex_personal_rankers_certify_what_they_return(name):
    """With a shared w and own v_u; the mean's part of the gradient counts by its weight in the norm, `shared` = 1."""
    for seed in range(6):
        data = hr.make_personal(6, 20, 4, 2, per_user=15, seed=seed, noise=1.0)
        C = 10.0 ** np.random.default_rng(seed).uniform(-6, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = ranker_class(name)(C=C, scale=None)
            ranker.fit_pairs(data.item_features, data.users, data.winners, data.losers)
        X, users = data.item_features.astype(LONG), np.searchsorted(ranker.users_, data.users)
        w = getattr(ranker, "coef_", np.zeros(4)).astype(LONG)
        V = getattr(ranker, "user_weights_", np.zeros((6, 4))).astype(LONG)
        D = X[data.winners] - X[data.losers]
        left = np.maximum(0, 1 - (D * (w + V[users])).sum(axis=1))
        pull = -2 * LONG(C) * D * left[:, None]
        g_w, g_V = w + pull.sum(axis=0), V.copy()
        np.add.at(g_V, users, pull)
        f = (w @ w + (V * V).sum()) / 2 + LONG(C) * (left**2).sum()
        squares = (g_w @ g_w if name != "separate" else 0) + ((g_V**2).sum() if name != "joint" else 0)
        gain = LONG(C) * len(left) - f + squares / 2
        assert ranker.certificate_.converged and ranker.certificate_.kind == GAP
        assert squares / 2 <= 1.001e-3 * min(f, gain) and abs(ranker.objective_ - f) <= 1e-6 * f, seed


def test_factorised_multipliers_certify_stationarity():
    """The projected gradient in the factors, by listed pairs, relative to that of the linear part."""
    certified = 0
    for seed, X, y, qid, _ in problems(0, 12):
        C = 10.0 ** np.random.default_rng(seed).uniform(-4, 1)
        ranker = fitted(hr.FactorizedRankSVM(rank=3, C=C, max_iter=2000), X, y, qid)
        D, _, i, j = listed(X, y, qid, np.ones(len(y)))
        V = np.zeros(ranker.factors_.shape, LONG)
        V[ranker.rows_] = ranker.factors_
        a = (V[i] * V[j]).sum(axis=1)
        left = D @ (a @ D) - 1
        G, linear = np.zeros_like(V), np.zeros_like(V)
        for one, other in ((i, j), (j, i)):
            np.add.at(G, one, left[:, None] * V[other])
            np.add.at(linear, one, V[other])
        limit = np.sqrt(C / 3)
        G[((V <= 0) & (G > 0)) | ((limit <= V) & (G < 0))] = 0
        if ranker.certificate_.converged:
            certified += 1
            assert np.sqrt((G**2).sum()) <= 1.001e-3 * np.sqrt((linear**2).sum()), (seed, ranker.certificate_)
            assert abs(ranker.objective_ - (a @ D @ (a @ D) / 2 - a.sum())) <= 1e-9 * abs(ranker.objective_)
    assert certified >= 6, certified
