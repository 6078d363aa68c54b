"""Newton's exact step."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.solvers.newton import exact_step


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_a_hessian_that_rounding_makes_singular(loss):
    """Of I + C XᵀHX with repeated columns nothing is left of I where C times the features' squares passes 1e16."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)) * 1e5, rng.integers(0, 3, 40)
    X = np.hstack([X, X, X[:, :1] + X[:, 1:2]])
    found = hr.RankSVM(C=1e8, loss=loss, max_iter=200).fit(X, y, qid=np.repeat(np.arange(8), 5))
    assert np.isfinite(found.coef_).all() and found.certificate_.converged


def test_a_newton_step_where_the_hessian_is_singular():
    hessian = np.array([[2.0, 2.0], [2.0, 2.0]]) - 1e-15 * np.eye(2)
    step, forecast = exact_step(hessian, np.array([4.0, 4.0]), np.inf)
    np.testing.assert_allclose(step, [-1, -1])
    assert forecast == pytest.approx(4)
