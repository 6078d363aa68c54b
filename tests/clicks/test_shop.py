"""The generated shop: named features, a bias of positions that misleads, and a correction that mends it."""

import numpy as np
import pytest

import hingerank as hr


def test_a_shop_is_the_same_for_the_same_seed_and_has_named_features():
    shop, again = (hr.make_shop(12, 300, seed=4) for _ in range(2))
    assert shop.rows == again.rows and (shop.log.clicks == again.log.clicks).all()
    assert {"bm25_title", "price", "margin", "freshness"} <= set(shop.rows.names)
    assert len(shop.titles) == len(shop.today) == shop.rows.n_rows and shop.rows.n_queries == 12
    assert not np.array_equal(hr.make_shop(12, 300, seed=5).rows.X, shop.rows.X)


def test_more_searches_than_the_shop_has_are_refused():
    with pytest.raises(ValueError, match="120 searches, not 121"):
        hr.make_shop(121)


def test_clicks_as_they_are_favour_margin_and_corrected_ones_do_not():
    shop = hr.make_shop(60, 10_000)
    data = shop.log.join(shop.rows)
    margin = shop.rows.names.index("margin")
    effect = {}
    for correction in ("naive", "ips"):
        ranker = hr.RankSVM(C=1e-3, scale="standard")
        coef = np.abs(ranker.fit_clicks(data, propensities=1 / np.arange(1, 16), correction=correction).coef_)
        effect[correction] = coef[margin] / coef.sum()
    assert effect["naive"] > 0.08 and effect["ips"] < 0.04
