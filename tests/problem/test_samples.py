"""Samples of queries: a pass over every k-th query is that of these queries alone, and leads to the same optimum."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import rows_view
from hingerank.data.rows_view import RowsView
from hingerank.data.scaling import make_scaler
from hingerank.features.named_maps import FourierMap
from hingerank.losses import LIST_LOSSES, LOSSES, make_loss
from hingerank.preferences import GradedPreferences
from hingerank.problem import problem as module
from hingerank.problem.mapped import MappedRows, mapped_design, rows_design
from hingerank.problem.problem import CompiledRows, Problem, RowsDesign
from hingerank.problem.streamed import StreamedDesign
from hingerank.registry import RANKERS, ranker_class

SUMS = [name for name in {**LOSSES, **LIST_LOSSES} if make_loss(name).by_query]
MAPS = "nystroem-rank-svm", "fourier-rank-svm"  # which take scaling by columns alone over parts
WHOLE = [name for name in {**LOSSES, **LIST_LOSSES} if not (make_loss(name).by_query and make_loss(name).convex)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rows_view, "BLOCK_BYTES", 1 << 9)
    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 100)
    monkeypatch.setattr(module, "ROWS_PER_WEIGHT", 10)


def queries(count=60, seed=0, dtype=np.float64):
    """Rows, grades, borders and weights of queries of one to nine rows."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 10, count))))
    n = offsets[-1]
    X = rng.normal(size=(n, 5)).astype(dtype)
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) + 1), 0, 2)
    return X, y, offsets, rng.random(n), rng.random(count)


def designs(X, offsets):
    """The same rows in memory, mapped, and read block by block; rows scaled within queries; and features of rows."""
    qid = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    scaler, feature_map = make_scaler("query-minmax").fit(X), FourierMap(8, gamma=0.1).fit(X)
    scaled, mapped = scaler.transform(X, qid), feature_map.transform(X)
    yield RowsDesign(X), X
    yield RowsDesign(sp.csr_matrix(X)), X
    yield MappedRows(X), X
    yield StreamedDesign(RowsView(X)), X
    yield StreamedDesign(RowsView(sp.csr_matrix(X))), X
    yield rows_design(RowsView(X, None, scaler, offsets)), scaled
    yield mapped_design(feature_map, X, 1 << 30), mapped
    yield mapped_design(feature_map, X, 0), mapped


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_a_sample_is_the_loss_of_its_own_queries(small, name, weighted):
    X, y, offsets, weight, query_weight = queries()
    weights = {"item_weight": weight, "query_weight": query_weight} if weighted else {}
    preferences, loss = GradedPreferences(y, offsets, **weights), make_loss(name)
    part, rows = preferences.every(3)
    rng = np.random.default_rng(1)
    for design, plain in designs(X, offsets):
        w, v = 0.3 * rng.normal(size=(2, plain.shape[1]))
        here = loss.at(plain[rows] @ w, part)
        there = design.sweep(loss, preferences).every(3).at(w)
        near = 1e-5 if plain.dtype == np.float32 else 1e-10
        assert there.value == pytest.approx(here.value, rel=near)
        np.testing.assert_allclose(there.gradient, plain[rows].T @ here.gradient, atol=10 * near)
        np.testing.assert_allclose(there.curvature(v), plain[rows].T @ here.curvature(plain[rows] @ v), atol=50 * near)


@pytest.mark.parametrize("name", ["logistic", "exponential", "listnet", "listmle"])
def test_samples_lead_to_the_same_optimum_in_few_passes(small, monkeypatch, name):
    X, y, offsets, *_ = queries(1500)
    preferences, passes, usual = GradedPreferences(y, offsets), [], CompiledRows.scores

    def counted(self, w):
        passes.append(self.shape[0] == len(X))
        return usual(self, w)

    monkeypatch.setattr(CompiledRows, "scores", counted)
    found = {}
    for sampled in (True, False):
        monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 100 if sampled else 10**9)
        ranker = hr.RankSVM(C=0.01, loss=name, solver="newton")
        found[sampled] = ranker.fit_preferences(X, preferences), sum(passes)
        passes.clear()
    (quick, few), (plain, many) = found[True], found[False]
    assert quick.certificate_.converged and few <= 3 and many >= 5
    assert quick.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    exact = hr.RankSVM(C=0.01, loss=name, tol=1e-12).fit_preferences(X, preferences)
    optimum = exact.objective_  # the certificate is a bound on the distance from it
    assert optimum <= quick.objective_ + 1e-12 * optimum
    assert quick.objective_ - optimum <= 1.001 * quick.certificate_.value * quick.objective_


@pytest.mark.parametrize("name", WHOLE)
def test_losses_that_are_no_convex_sums_of_queries_have_no_samples(small, name):
    X, y, offsets, *_ = queries(1500)
    loss, preferences = make_loss(name), GradedPreferences(y, offsets)
    for design in (RowsDesign(X), MappedRows(X), StreamedDesign(RowsView(X))):
        assert Problem(design, loss, preferences).samples() == []
        assert Problem(design, make_loss("logistic"), preferences).samples()


def test_a_sample_copies_few_bytes(small, monkeypatch):
    """It is smaller then, and there is none if it would be too small; hinges over blocks of rows go on in place."""
    X, y, offsets, *_ = queries(6000)
    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", len(X) // 5)  # so every 4th query is the usual sample
    preferences, w, square = GradedPreferences(y, offsets), np.full(5, 0.1), make_loss("squared_hinge")
    for design in (RowsDesign(X), MappedRows(X), StreamedDesign(RowsView(X))):
        mapped = isinstance(design, MappedRows)  # which leaves all but hinges to a design of blocks
        loss = square if mapped else make_loss("logistic")
        usual, expected = Problem(design, loss, preferences).samples(), design.sweep(square, preferences).every(4).at(w)
        design.most_copied = len(X) // 12
        smaller = Problem(design, loss, preferences).samples()
        assert [part.factor for part in (usual[-1], smaller[-1])] == pytest.approx([4, 16], rel=0.1)
        design.most_copied = len(X) // 100
        assert Problem(design, loss, preferences).samples() == []
        if not mapped:
            assert Problem(design, square, preferences).samples()
            part = design.sweep(square, preferences).every(4)
            assert part.design is design and part.at(w).value == pytest.approx(expected.value, rel=1e-12)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The same rows in memory, in a mapped folder, and in its parts."""
    made, path = hr.make_letor(600, 5, n_features=4, seed=3), tmp_path_factory.mktemp("rows") / "data"
    rows = hr.RankingData((made.X * [1, 2, 3, 4] + 1).astype(np.float32), made.y, made.qid)
    hr.write(rows, f"{path}/")
    return {"memory": rows, "mapped": hr.read(path), "parts": hr.distributed.read(path, parts=3)}


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        (name, scale)
        for name in RANKERS
        if getattr(ranker_class(name), "_farthest", "") == "parts"
        for scale in [None, "standard", "query-minmax"][: 2 if name in MAPS else 3]
    ],
)
def test_every_ranker_of_rows_in_parts_has_the_same_optimum_with_samples(small, places, monkeypatch, name, scale):
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)
    fits = {place: ranker_class(name)(scale=scale, tol=1e-5).fit(rows) for place, rows in places.items()}
    monkeypatch.setattr(module, "ROWS_OF_A_SAMPLE", 10**9)
    plain = ranker_class(name)(scale=scale, tol=1e-5).fit(places["memory"])
    for place, ranker in fits.items():
        assert ranker.certificate_.converged, place
        assert ranker.objective_ == pytest.approx(plain.objective_, rel=1e-4), place
