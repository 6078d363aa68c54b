"""Sweeps over pairs on a device, run by PyTorch here, equal those of the compiled kernels."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.losses import hinge, modified_huber, smoothed_hinge, squared_hinge
from hingerank.preferences import GradedPreferences, WeightedWinners

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


@pytest.fixture(params=["torch-cpu", *["cuda"] * torch.cuda.is_available()])
def device(request):
    return request.param


LOSSES = [squared_hinge(), hinge(), modified_huber(), smoothed_hinge(0.3), squared_hinge(0.0)]


def preferences_of(rng, **weights):
    """A few queries: ties, single rows, rows of one grade, none at all."""
    sizes = np.array([1, 7, 0, 12, 3, 25, 2, 40])
    y = np.concatenate([np.floor(rng.random(k) * g) for k, g in zip(sizes, (3, 3, 2, 1, 5, 4, 2, 9))])
    return GradedPreferences(y, np.concatenate(([0], np.cumsum(sizes))), **weights)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.margin:g}")
@pytest.mark.parametrize("kind", ["plain", "ties", "weights", "grades", "query", "far", "winners"])
def test_sweeps_are_those_of_the_kernels(loss, kind, device):
    from hingerank.problem.torch_design import check_device
    from hingerank.problem.torch_sweep import Slots, sweep

    rng = np.random.default_rng(len(kind))
    weights = {
        "weights": lambda n, q: {"item_weight": rng.random(n) * (rng.random(n) > 0.2), "winner_weight": rng.random(n)},
        "query": lambda n, q: {"query_weight": rng.random(q), "pair_weight": "query"},
    }.get(kind, lambda n, q: {})
    plain = preferences_of(np.random.default_rng(1))
    grades = len(np.unique(plain.y))
    more = (
        {"grade_weight": rng.random((grades, grades))} if kind == "grades" else weights(plain.n_items, plain.n_queries)
    )
    p = preferences_of(np.random.default_rng(1), **more)
    if kind == "winners":
        p = WeightedWinners(rng.exponential(size=p.n_items) * (rng.random(p.n_items) < 0.5), p.offsets)
    s = rng.normal(size=p.n_items) + (1e6 if kind == "far" else 0.0)
    s = np.round(2 * s) / 2 if kind == "ties" else s
    place = check_device(device)
    here, there = loss.at(s, p), sweep(loss, Slots(p, place), torch.as_tensor(s, device=place))
    v = rng.normal(size=p.n_items)
    close = {"rtol": 1e-9, "atol": 1e-9} if kind != "far" else {"rtol": 1e-7, "atol": 1e-7}
    assert there.value == pytest.approx(here.value, rel=1e-9)
    np.testing.assert_allclose(there.moments, here.moments, **close)
    np.testing.assert_allclose(there.gradient.cpu().numpy(), here.gradient, **close)
    np.testing.assert_allclose(there.diagonal().cpu().numpy(), here.diagonal, **close)
    np.testing.assert_allclose(
        there.curvature(torch.as_tensor(v, device=place)).cpu().numpy(), here.curvature(v), **close
    )
    pairs, idle = p.pairs(), np.ones(p.n_items, bool)  # rows without an active pair: kernels drop those with exactly 0
    active = s[pairs.winner] - s[pairs.loser] < loss.margin
    idle[pairs.winner[active]] = idle[pairs.loser[active]] = False
    assert (there.gradient.cpu().numpy()[idle] == 0).all()


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic", "listnet"])
@pytest.mark.parametrize("scale", [None, "standard", "query-minmax"])
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_linear_rankers_find_the_same_optimum(loss, scale, device):
    data = hr.make_letor(n_queries=30, n_features=8, seed=2, dtype="float32")
    options = {"C": 0.05, "loss": loss, "scale": scale, "tol": 1e-4}
    here, there = (hr.RankSVM(device=device, **options).fit(data) for device in ("cpu", device))
    assert there.certificate_.converged
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-4)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=0.02 * np.abs(here.coef_).max())


def test_sparse_rows_and_refusals(device):
    data = hr.make_letor(n_queries=10, n_features=8, seed=2, sparse_density=0.5)
    here, there = (hr.RankSVM(C=0.1, device=device).fit(data) for device in ("cpu", device))
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)
    with pytest.raises(ValueError, match="no solver='dual'"):
        hr.RankSVM(device=device, loss="hinge", solver="dual").fit(data)


def test_a_gram_matrix_in_double_precision(device):
    from hingerank.features.kernels import make_kernel
    from hingerank.problem.torch_design import TorchGram, check_device

    rng = np.random.default_rng(0)
    X, V = rng.random((50, 4)), rng.normal(size=(2, 50))
    gram = TorchGram(make_kernel("rbf", 0.5, 2), X, check_device(device))
    V[:, ::3] = 0.0
    found = np.stack([gram.home(v) for v in gram.exact([gram.away(v) for v in V])])
    np.testing.assert_allclose(found, V @ gram.matrix(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gram.home(gram.size), 1.0, rtol=1e-12)
