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
