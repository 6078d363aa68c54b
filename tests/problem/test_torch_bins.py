"""Bins and places on a device, run by PyTorch here, are those of the compiled kernels, and curves the same."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import rows_view
from hingerank.features.curves import place_knots
from hingerank.kernels.curves import positions
from hingerank.problem import torch_design
from hingerank.problem.curves import BinnedDesign, CurveBasis, CurveDesign, binned_design

torch = pytest.importorskip("torch")

torch.set_num_threads(1)


@pytest.fixture(params=["torch-cpu", *["cuda"] * torch.cuda.is_available()])
def device(request):
    return request.param


def rows_of(rng, kind):
    """Columns with many values, with few, with one, mostly 0, and large ones; values at knots and beyond them."""
    n = 300
    X = np.stack(
        [
            rng.normal(size=n),
            np.floor(3 * rng.random(n)),
            np.full(n, 2.5),
            rng.random(n) * (rng.random(n) > 0.7),
            1e6 + 1e-3 * rng.normal(size=n),
        ],
        axis=1,
    )
    return {"dense": X, "single": X.astype(np.float32), "sparse": sp.csr_matrix(X * (rng.random(X.shape) > 0.3))}[kind]


@pytest.mark.parametrize("kind", ["dense", "single", "sparse"])
@pytest.mark.parametrize("at_once", [1 << 24, 700, 1])
def test_bins_are_those_of_the_kernels(kind, at_once, device, monkeypatch):
    monkeypatch.setattr(torch_design, "AT_ONCE", at_once)
    monkeypatch.setattr(torch_design, "PIECE", 16)
    rng = np.random.default_rng(0)
    X = rows_of(rng, kind)
    knots = place_knots(X[:200], 6)
    basis = CurveBasis(knots, 3.0, np.ones(5), sp.issparse(X))
    here, there = (
        CurveDesign(binned_design(X, knots, device), basis) for device in (None, torch_design.check_device(device))
    )
    w, z = rng.normal(size=here.shape[1]), rng.normal(size=here.shape[0])
    assert there.shape == here.shape
    np.testing.assert_allclose(there.scores(w), here.scores(w), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(there.back(z), here.back(z), rtol=1e-11, atol=1e-11)
    if kind != "sparse":  # whose kernels leave zeros out
        table = rng.normal(size=here.inner.shape[1])
        in_tiles = here.inner.rows[1][positions(np.arange(X.shape[0]), *X.shape)]
        np.testing.assert_array_equal(there.inner.places.cpu(), in_tiles)
        np.testing.assert_allclose(there.inner.scores(table), here.inner.scores(table), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(there.inner.back(z), here.inner.back(z), rtol=1e-12, atol=1e-12)
        some = np.arange(3, 200, 2)
        np.testing.assert_allclose(there.inner.moments(some, z[some]), here.inner.moments(some, z[some]), atol=1e-11)


def test_one_knot_in_every_column(device):
    X, device = np.ones((4, 2)), torch_design.check_device(device)
    here, there = (
        bins(X, place_knots(X, 3), *more) for bins, more in ((BinnedDesign, ()), (torch_design.TorchBins, (device,)))
    )
    table = np.arange(8.0)
    np.testing.assert_array_equal(there.scores(table), here.scores(table))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "hinge"},
        {"loss": "logistic"},
        {"loss": "listnet"},
        {"monotone": {0: 1, 2: -1}},
        {"sparsity": 0.3},
        {"scale": "query-minmax"},
        {"pair_weight": "query", "n_knots": 300},
    ],
    ids=str,
)
def test_the_same_curves(options, device):
    data = hr.make_letor(n_queries=30, n_features=6, seed=2, dtype="float32")
    settings = {"C": 0.02, "smoothness": 2.0, "tol": 1e-5} | options
    here, there = (hr.AdditiveRankSVM(device=device, **settings).fit(data) for device in ("cpu", device))
    assert there.certificate_.converged
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-5)
    np.testing.assert_allclose(there.predict(data), here.predict(data), atol=0.02 * np.std(here.predict(data)))


def test_large_data_use_the_blocks_of_the_hessian(device, monkeypatch):
    """Whose rows' weights come from the device: the first steps are those of the CPU where samples are not taken."""
    from hingerank.problem import curves

    monkeypatch.setattr(curves, "MANY_NUMBERS", 1)
    data = hr.make_letor(n_queries=30, n_features=6, seed=2)
    here, there = (hr.AdditiveRankSVM(C=0.1, tol=1e-6, device=device).fit(data) for device in ("cpu", device))
    assert [step["products"] for step in there.trace_] == [step["products"] for step in here.trace_]
    np.testing.assert_allclose(there.heights_, here.heights_, rtol=1e-8, atol=1e-8)


def test_paths_and_sparse_rows(device):
    data = hr.make_letor(n_queries=20, n_features=6, seed=2, sparse_density=0.5)
    values = {"Cs": [0.01, 0.1], "smoothness": [10.0, 1.0]}
    paths = [hr.AdditiveRankSVM(tol=1e-6, device=device).fit_path(data, **values) for device in ("cpu", device)]
    for here, there in zip(*paths, strict=True):
        assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)
        assert there.smoothness == here.smoothness


@pytest.mark.parametrize("make", [hr.AdditiveRankSVM, hr.RankSVM, hr.FourierRankSVM])
@pytest.mark.parametrize("scale", [None, "query-minmax"])
def test_mapped_rows(make, scale, device, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_view, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)
    data = hr.make_letor(n_queries=20, n_features=6, seed=2)
    hr.write(data, tmp_path / "rows")
    mapped = hr.read(tmp_path / "rows")
    assert rows_view.is_mapped(mapped.X)
    here = make(C=0.01, scale=scale, tol=1e-4).fit(data)
    there = make(C=0.01, scale=scale, tol=1e-4, device=device).fit(mapped)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-4)


def test_refusals(monkeypatch):
    data = hr.make_letor(n_queries=10, n_features=6, seed=2)
    for options in ({"interactions": 1}, {"loss": "hinge", "solver": "dual"}):
        with pytest.raises(ValueError, match="no interactions= and no solver='dual'"):
            hr.AdditiveRankSVM(device="torch-cpu", **options).fit(data)
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda'"):
        hr.AdditiveRankSVM(device="toaster").fit(data)
    monkeypatch.setattr(torch_design, "free_bytes", lambda device: 1000.0)
    for make in (hr.AdditiveRankSVM, hr.RankSVM, hr.KernelRankSVM, hr.FourierRankSVM):
        with pytest.raises(ValueError, match="GB left: fit with device='cpu'"):
            make(device="torch-cpu").fit(data)
