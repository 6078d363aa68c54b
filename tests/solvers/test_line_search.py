"""Newton's steps where a loss of few pairs and a large C has steep kinks."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.problem.problem import Objective, Point
from hingerank.solvers.newton import search_line


@pytest.mark.parametrize("decades", [0, 4], ids=["equal-weights", "weights-over-4-decades"])
@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", "hinge"])
def test_few_pairs_at_a_large_C_are_solved(loss, decades):
    """Most of these fits ended at max_iter, with gaps up to 100 times the objective."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, rows = rng.standard_normal((80, 20)), np.arange(0, 80, 2)
        ranker = hr.RankSVM(C=1e4, loss=loss).fit_pairs(X, rows, rows + 1, 10.0 ** rng.uniform(-decades, 0, 40))
        most = 250 if loss == "hinge" else 80  # 190 and 50 are needed, by other versions of NumPy a few more or less
        assert ranker.certificate_.converged and ranker.n_iter_ <= most, ranker.certificate_


class Kinks(Objective):
    """½w² + steep · Σ max(0, |w| - k): its slope jumps at every whole number; it overflows beyond `far`."""

    dimension = 1

    def __init__(self, steep, far=np.inf):
        self.steep, self.far = steep, far

    def at(self, w):
        k, x = np.arange(1, 6), abs(w[0])
        value = 0.5 * x * x + self.steep * np.maximum(0, x - k).sum()
        slope = np.sign(w) * (x + self.steep * (x > k).sum())
        return Point(w, value if x < self.far else np.nan, slope if x < self.far else np.array([np.nan]), None)


@pytest.mark.parametrize("length", [0.01, 1.0, 100.0])
def test_a_line_is_searched_across_its_kinks(length):
    for objective in (Kinks(0.0), Kinks(1.0), Kinks(1e6), Kinks(1e6, far=5.5)):
        start = objective.at(np.array([5.2]))
        found = search_line(objective, start, np.array([-5.2 * length]))
        assert found.value < 0.5 * start.value and abs(found.gradient[0]) <= 0.1 * start.gradient[0]
    assert search_line(objective, start, np.array([5.2])) is start  # uphill
