"""The layout of rows by grade, few grades or many, against numpy."""

from itertools import pairwise

import numpy as np
import pytest

from hingerank.kernels.sweeps import sort_by_grade


@pytest.mark.parametrize("grades", [3, 40, None])
def test_rows_by_grade(grades):
    rng = np.random.default_rng(0)
    for _ in range(30):
        offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 90, rng.integers(1, 9)))))
        y = rng.normal(size=offsets[-1]) if grades is None else rng.integers(0, grades, offsets[-1]).astype(float)
        perm, count = np.empty(len(y), np.int32), np.zeros(len(offsets) - 1, np.int64)
        cut = rng.integers(0, len(offsets))
        sort_by_grade(y, offsets, 0, cut, perm, count)
        sort_by_grade(y, offsets, cut, len(count), perm, count)
        for q, (lo, hi) in enumerate(pairwise(offsets)):
            np.testing.assert_array_equal(perm[lo:hi], np.argsort(y[lo:hi], kind="stable"))
            assert count[q] == len(np.unique(y[lo:hi]))


def test_the_preferences_of_every_third_query():
    from hingerank.losses import squared_hinge
    from hingerank.preferences import GradedPreferences

    rng = np.random.default_rng(0)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 7, 20))))
    y, s = rng.integers(0, 4, offsets[-1]).astype(float), rng.normal(size=offsets[-1])
    weight, query = rng.integers(1, 3, len(y)).astype(float), rng.uniform(size=20)
    for options in ({}, {"item_weight": weight, "query_weight": query}, {"pair_weight": "query"}):
        whole = GradedPreferences(y, offsets, **options)
        part, rows = whole.every(3)
        queries = np.arange(0, 20, 3)
        given = {"pair_weight": options.get("pair_weight", "uniform")}
        given |= {"item_weight": weight[rows], "query_weight": query[queries]} if "item_weight" in options else {}
        again = GradedPreferences(y[rows], np.concatenate(([0], np.cumsum(np.diff(offsets)[queries]))), **given)
        one, other = squared_hinge().at(s[rows], part), squared_hinge().at(s[rows], again)
        assert one.value == other.value and np.array_equal(one.gradient, other.gradient)
        assert part.n_pairs == again.n_pairs and part.total_weight == whole.weight_of(3)


def test_large_weights_of_one_query_hide_no_other_query():
    from hingerank.preferences import GradedPreferences, WeightedWinners

    weight, offsets = np.repeat([1e8, 1e-8, 1.0], 4), np.arange(0, 13, 4)
    graded = GradedPreferences(np.tile([0.0, 1.0, 0.0, 2.0], 3), offsets, item_weight=weight)
    np.testing.assert_allclose(graded.weight_per_query, 5 * np.array([1e16, 1e-16, 1.0]), rtol=1e-14)
    even = GradedPreferences(np.tile([0.0, 1.0, 0.0, 2.0], 3), offsets, item_weight=weight, pair_weight="query")
    np.testing.assert_allclose(even.weight_per_query, np.ones(3), rtol=1e-14)
    winners = WeightedWinners(weight * np.tile([0.0, 1.0, 0.0, 1.0], 3), offsets)
    np.testing.assert_allclose(winners.weight_per_query, 6 * np.array([1e8, 1e-8, 1.0]), rtol=1e-14)
