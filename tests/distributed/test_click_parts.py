"""Clicks on real worker processes: a log joined with parts, and parts graded by clicks, give the fit in memory."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.rankers.corrections import click_weights

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
P = 1.0 / np.arange(1, 16)


@pytest.fixture(scope="module")
def rows():
    made = hr.make_letor(90, 15, seed=3)
    return replace(made, docid=np.arange(made.n_rows))


@pytest.fixture(scope="module")
def log(rows):
    return hr.simulate_clicks(rows, rows.X[:, 0], sessions=20_000, seed=1, counted=True)


@pytest.fixture(scope="module")
def clicks(rows, log):
    return log.join(rows)


def test_a_log_joined_with_parts_on_workers(client, rows, log, clicks, tmp_path):
    for k, ids in enumerate(np.array_split(rows.blocks.ids, 4)):
        hr.write(rows.subset(ids.tolist()), f"{tmp_path}/part{k}/")
    settings = {"C": 1e-3, "tol": 1e-10, "scale": "standard"}
    spread = log.join(hr.distributed.read([str(tmp_path / f"part{k}") for k in range(4)], client))
    near, far = (hr.RankSVM(**settings).fit_clicks(data, propensities=P) for data in (clicks, spread))
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6 * np.abs(near.coef_).max())
    values = [hr.evaluate_clicks(data, near, propensities=P).value for data in (clicks, spread)]
    assert values[1] == pytest.approx(values[0])


@pytest.mark.parametrize("correction", ["ips", "doubly-robust"])
def test_workers_find_the_fit_in_memory(client, clicks, tmp_path, correction):
    weights = click_weights(clicks, P, correction)
    weighed = replace(clicks.data, y=weights)
    for k, ids in enumerate(np.array_split(weighed.blocks.ids, 4)):
        hr.write(weighed.subset(ids.tolist()), f"{tmp_path}/part{k}/")
    settings = {"C": 1e-3, "tol": 1e-10, "scale": "standard"}
    near = hr.RankSVM(**settings).fit_clicks(clicks, propensities=P, correction=correction)
    spread = hr.distributed.read([str(tmp_path / f"part{k}") for k in range(4)], client)
    far = hr.RankSVM(**settings).fit_winners(spread)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6 * np.abs(near.coef_).max())
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-9)
    assert far.n_pairs_ == near.n_pairs_
    one = hr.RankSVM(**settings).fit_winners(hr.distributed.read([str(tmp_path / f"part{k}") for k in range(4)]))
    assert np.array_equal(far.coef_, one.coef_)
