"""Gaps from the tangents of the loss at two points: true upper bounds, tight enough to save passes over all rows."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.rows_view import RowsView
from hingerank.losses import LOSSES
from hingerank.preferences import GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.problem import problem as module
from hingerank.problem.mapped import rows_design
from hingerank.problem.problem import FusedPass
from hingerank.solvers.hinge import RoundedHinge, smoothing
from hingerank.solvers.newton import Recycled, RelativeGap, TangentGap, gap_by_tangents, newton
from hingerank.solvers.run import Run


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 500)
    monkeypatch.setattr(module, "ROWS_PER_WEIGHT", 20)
    return hr.make_letor(1200, 10, n_features=6, seed=3, dtype="float64")


def problem_of(data, loss, C):
    return Problem(RowsDesign(data.X), LOSSES[loss](), GradedPreferences(data.y, data.blocks.offsets), C=C)


class Seen(TangentGap):
    """Keeps the absolute gaps and asks for smaller ones."""

    def __init__(self):
        self.gaps = []

    def may_suffice(self, point, gap):
        return True

    def judge(self, point, here, there, r, curved):
        self.gaps.append(0.5 * r @ r + curved)
        return self.gaps[-1], 1e-9


@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber"])
@pytest.mark.parametrize("C", [1e-4, 1e-1, 1e2])
def test_the_gap_is_never_below_the_distance_from_the_optimum(data, loss, C):
    problem = problem_of(data, loss, C)
    optimum, sample = newton(problem, tol=1e-13, max_iter=300), problem.samples()[-1]
    rng, tightest = np.random.default_rng(0), np.inf
    for size in (0.0, 1e-3, 1e-2, 1e-1, 1.0):
        w = optimum.w * (1 + size * rng.normal(size=6))
        point, here, seen = problem.at(w), sample.at(w), Seen()
        for step in (optimum.w - w, rng.normal(size=6) * 0.01, np.zeros(6)):
            gap_by_tangents(point, sample, here, step, Recycled(0), seen)
        assert min(seen.gaps) >= point.value - optimum.value - 1e-12 * abs(point.value)
        assert seen.gaps[-1] <= problem.gap(point)[0] * (1 + 1e-9) + 1e-12 * point.value  # from u = w, or better
        tightest = min(tightest, min(seen.gaps) / problem.gap(point)[0])
    assert tightest < (0.1 if C > 1e-4 else 1.0 + 1e-9)


def test_the_gap_is_that_of_the_tangents(data):
    """f(w) less the minimum of ½‖·‖² plus the tangents, added up query by query."""
    problem = problem_of(data, "squared_hinge", 0.1)
    sample, rng = problem.samples()[-1], np.random.default_rng(1)
    w, step, seen = rng.normal(size=6), 1e-3 * rng.normal(size=6), Seen()
    point = problem.at(w)
    gap_by_tangents(point, sample, sample.at(w), step, Recycled(0), seen)
    u, stride, offsets = w + sample.factor * step, sample._pass.stride, data.blocks.offsets
    slope, height = np.zeros(6), 0.0  # of the sum of the tangents of C times the loss
    for q in range(len(offsets) - 1):
        rows = slice(offsets[q], offsets[q + 1])
        if len(np.unique(data.y[rows])) < 2:
            continue
        preferences = GradedPreferences(data.y[rows], np.array([0, offsets[q + 1] - offsets[q]]))
        at = u if q % stride == 0 else w
        value, gradient = Problem(RowsDesign(data.X[rows]), problem.loss, preferences).risk(at)
        slope, height = slope + 0.1 * gradient, height + 0.1 * (value - gradient @ at)
    assert seen.gaps[0] == pytest.approx(point.value - (height - 0.5 * slope @ slope), rel=1e-9)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_large_data_need_few_passes_at_any_C(data, monkeypatch, C):
    problem, whole = problem_of(data, "squared_hinge", C), []
    usual = FusedPass.at
    monkeypatch.setattr(FusedPass, "at", lambda own, w: (own.stride == 1 and whole.append(w), usual(own, w))[1])
    found = newton(problem)
    assert found.certificate.converged and len(whole) <= 3
    best = newton(problem, found.w, tol=1e-9)
    assert found.value - best.value <= 1e-3 * min(found.origin - found.value, found.value)


def test_it_says_nothing_of_weak_fits(data):
    """Estimates of gaps leave alone what the run has found out about the penalty."""
    run, point = Run("gap", 1e-3), problem_of(data, "squared_hinge", 1e-3).at(np.ones(6))
    run.origin, run.weak = 2 * point.value, True
    assert RelativeGap(run).may_suffice(point, 1e-6 * point.value) and run.weak


def test_the_bounds_of_a_hinge_hold(data):
    for C in (1e-3, 1.0):
        problem = problem_of(data, "hinge", C)
        optimum = smoothing(problem, tol=1e-6)
        for width in (0.5, 0.05):
            rounded, w = RoundedHinge(problem, width, Run("gap")), optimum.w * 1.01
            sample, point = rounded.samples()[-1], rounded.at(w)
            here, lowest = sample.at(w), []

            class Kept(Seen):
                def judge(self, point, here, there, r, curved, rounded=rounded, lowest=lowest):
                    lowest.append(rounded.bounds_by_tangents(point, here, there, r))
                    return np.inf, 1e-9

            gap_by_tangents(point, sample, here, optimum.w - w, Recycled(0), Kept())
            gap_by_tangents(point, sample, here, np.zeros(6), Recycled(0), Kept())
            assert max(bounds.lower for bounds in lowest) <= optimum.value * (1 + 1e-9)
            at_w = [bounds for bounds in lowest if bounds.lower == pytest.approx(rounded.bounds(point).lower, rel=1e-9)]
            assert at_w  # with u = w they are those of the point


def test_a_sample_at_another_point_leaves_the_curvature_alone(data):
    problem = problem_of(data, "squared_hinge", 0.1)
    w, v = np.full(6, 0.1), np.arange(6.0)
    point = problem.at(w)
    expected, sample = point.curvature(v), problem.samples()[-1]
    sample.at(5 * w)
    np.testing.assert_allclose(point.curvature(v), expected, rtol=1e-12)


def test_only_rows_in_memory_have_larger_samples(tmp_path):
    """Samples of mapped rows are copies, and half of a file that is larger than memory would not fit."""
    X = np.random.default_rng(0).normal(size=(100_000, 2))
    np.save(tmp_path / "X.npy", X)
    preferences = GradedPreferences(np.arange(100_000) % 3.0, np.arange(0, 100_001, 20))
    here, mapped = (
        Problem(rows_design(rows), LOSSES["squared_hinge"](), preferences)
        for rows in (X, RowsView(np.load(tmp_path / "X.npy", mmap_mode="r")))
    )
    assert len(here.samples(larger=True)) == 1 and mapped.samples(larger=True) == []
    assert len(here.samples()) == len(mapped.samples()) > 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_samples_without_features_are_left_out(loss):
    """Every 4th query has none: a sample's gradient at 0 is 0, which is no unit for other gradients."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40_000, 3)), np.repeat(np.arange(8000), 5)
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float)
    X[qid % 4 == 0] = 0.0
    certificate = hr.RankSVM(C=1e-3, loss=loss).fit(X, y, qid).certificate_
    assert certificate.converged, certificate
    assert loss == "hinge" or certificate.gradient > 0
