"""Rows made block by block: the loss, its gradient and its curvature are those of rows in memory."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import rows_view
from hingerank.data.rows_view import RowsView
from hingerank.data.scaling import make_scaler
from hingerank.losses import LIST_LOSSES, LOSSES, RANKING_LOSSES, make_loss, smoothed_hinge
from hingerank.losses.rankings import ExpectedNdcg
from hingerank.preferences import GradedPreferences
from hingerank.problem.mapped import ScaledDesign
from hingerank.problem.problem import RowsDesign
from hingerank.problem.streamed import StreamedDesign


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(rows_view, "BLOCK_BYTES", 1 << 9)


def rows_of(dtype, seed=0, shift=0.0):
    """Queries of one to nine rows, one of them of one grade, a column that is constant in some queries."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1, 9, 2, 5, 1, 7, 3, 8, 4, 6])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    X = np.round(rng.normal(size=(offsets[-1], 5)), 1) + shift
    X[:12, 2], X[:, 4] = 3.0, -7.0
    y = rng.integers(0, 3, offsets[-1]).astype(float)
    y[offsets[3] : offsets[4]] = 1.0
    return X.astype(dtype), y, offsets


@pytest.mark.parametrize("name", ["query-minmax", "query-standard"])
@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 0.0), (np.float64, 0.0), (np.float64, 1e9)])
def test_products_with_rows_scaled_within_queries(name, dtype, shift):
    X, _, offsets = rows_of(dtype, shift=shift)
    scaler, rng = make_scaler(name).fit(X), np.random.default_rng(1)
    scaled = scaler.transform(X.astype(np.float64), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
    design = StreamedDesign(RowsView(X, None, scaler, offsets))
    w, z, near = rng.normal(size=5), rng.normal(size=len(X)), 1e-12 if shift == 0 else 1e-5
    np.testing.assert_allclose(design.scores(w), scaled @ w, atol=near)
    np.testing.assert_allclose(design.back(z), scaled.T @ z, atol=10 * near)


@pytest.mark.parametrize("name", [*LOSSES, *LIST_LOSSES, *RANKING_LOSSES, "expected_ndcg"])
@pytest.mark.parametrize("scale", [None, "query-minmax", "query-standard"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_loss_over_blocks_is_that_over_rows(name, scale, weighted):
    X, y, offsets = rows_of(np.float64)
    rng, loss = np.random.default_rng(2), ExpectedNdcg() if name == "expected_ndcg" else make_loss(name)
    if weighted and name in (*RANKING_LOSSES, "expected_ndcg"):
        return
    weight = {"item_weight": rng.random(len(y)), "query_weight": rng.random(len(offsets) - 1)} if weighted else {}
    preferences = GradedPreferences(y, offsets, **weight)
    scaler = None if scale is None else make_scaler(scale).fit(X)
    qid = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    one = RowsDesign(X if scaler is None else scaler.transform(X, qid)).sweep(loss, preferences)
    other = StreamedDesign(RowsView(X, None, scaler, offsets)).sweep(loss, preferences)
    points = [0.3 * rng.normal(size=5) for _ in range(2)]
    found = [(one.at(w), other.at(w)) for w in points]
    v = rng.normal(size=5)
    for (here, there), w in zip(found, points):  # the first point's curvature is asked for when it is not the latest
        assert there.value == pytest.approx(here.value, rel=1e-12)
        np.testing.assert_allclose(there.gradient, here.gradient, atol=1e-11)
        np.testing.assert_allclose(there.curvature(v), here.curvature(v), atol=1e-10)
        np.testing.assert_allclose(other.hessian(w), one.hessian(w), atol=1e-10)


@pytest.mark.parametrize("name", ["logistic", "listnet", "listmle"])
def test_the_diagonal_from_blocks(name):
    X, y, offsets = rows_of(np.float64)
    preferences, w = GradedPreferences(y, offsets), np.full(5, 0.1)
    found = StreamedDesign(RowsView(X), uneven=True).sweep(make_loss(name), preferences).diagonal(w)
    here = make_loss(name).at(X @ w, preferences)
    expected = RowsDesign(X).scatter(here.diagonal, offsets)
    np.testing.assert_allclose(found[:4], expected[:4], rtol=1e-10)
    assert StreamedDesign(RowsView(X)).sweep(make_loss(name), preferences).diagonal(w) is None


@pytest.mark.parametrize("pair_weight", ["uniform", "query"])
def test_preferences_between_two_queries(pair_weight):
    _, y, offsets = rows_of(np.float64)
    rng = np.random.default_rng(3)
    m, c = rng.random(len(y)), rng.random(len(offsets) - 1)
    whole = GradedPreferences(y, offsets, item_weight=m, query_weight=c, pair_weight=pair_weight)
    for first, last in [(0, 10), (0, 1), (3, 4), (2, 7), (9, 10)]:
        a, b = offsets[first], offsets[last]
        alone = GradedPreferences(
            y[a:b], offsets[first : last + 1] - a, item_weight=m[a:b], query_weight=c[first:last],
            pair_weight=pair_weight,
        )  # fmt: skip
        part = whole.between(first, last)
        for one, other in zip(alone.tree, part.tree):
            if not isinstance(one, int | bool):  # the room of the longest query may be more than needed
                np.testing.assert_allclose(other, one)
        assert part.total_weight == pytest.approx(alone.total_weight) and part.n_pairs == alone.n_pairs


def test_scaled_columns_of_a_streamed_design_share_its_passes():
    X, y, offsets = rows_of(np.float64)
    preferences, rng = GradedPreferences(y, offsets), np.random.default_rng(4)
    factor, centre = rng.random(5) + 0.5, rng.normal(size=5)
    w, v = rng.normal(size=5), rng.normal(size=5)
    one = RowsDesign((X - centre) * factor).sweep(make_loss("listnet"), preferences).at(w)
    other = ScaledDesign(StreamedDesign(RowsView(X)), factor, centre).sweep(make_loss("listnet"), preferences).at(w)
    np.testing.assert_allclose(other.gradient, one.gradient, atol=1e-11)
    np.testing.assert_allclose(other.curvature(v), one.curvature(v), atol=1e-11)


def test_one_reading_an_evaluation(monkeypatch):
    """A block of a mapped fit is made once for a loss that has no fused kernel, not once for each product."""
    data = hr.make_letor(40, 10, 6, seed=5)
    made, block = [], RowsView.block
    monkeypatch.setattr(RowsView, "block", lambda self, a, b: made.append(b - a) or block(self, a, b))
    preferences = GradedPreferences(data.y, data.blocks.offsets)
    for X in (data.X, sp.csr_matrix(data.X)):
        made.clear()
        StreamedDesign(RowsView(replace(data, X=X).X)).sweep(make_loss("listnet"), preferences).at(np.zeros(6))
        assert sum(made) == data.n_rows and len(made) > 4


@pytest.mark.parametrize("blocks", [False, True])
def test_two_widths_of_a_hinge_in_one_memory(blocks):
    """A point of the one loss asked for its curvature after the other took the memory evaluates itself again."""
    X, y, offsets = rows_of(np.float64)
    preferences, rng = GradedPreferences(y, offsets), np.random.default_rng(6)
    design = StreamedDesign(RowsView(X)) if blocks else RowsDesign(X)
    wide, narrow = smoothed_hinge(1.0), smoothed_hinge(0.3)
    one = design.sweep(wide, preferences)
    other = one.with_loss(narrow)
    assert other.state is one.state and one.with_loss(make_loss("hinge")) is None
    w, v = rng.normal(size=5), rng.normal(size=5)
    here, there = one.at(w), other.at(w)
    for _ in range(2):
        for found, loss in ((here, wide), (there, narrow)):
            expected = RowsDesign(X).sweep(loss, preferences).at(w)
            np.testing.assert_allclose(found.curvature(v), expected.curvature(v), atol=1e-11)
