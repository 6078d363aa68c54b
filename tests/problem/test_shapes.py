"""Arrays of a wrong length never reach compiled passes, which would read on behind their end."""

import numpy as np
import pytest
from scipy import sparse

from hingerank import GradedPreferences
from hingerank.losses import make_loss
from hingerank.problem import Problem, RowsDesign

X = np.random.default_rng(0).normal(size=(12, 3))
OFFSETS = np.array([0, 5, 12])


@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber", "logistic", "listnet"])
@pytest.mark.parametrize("rows", [X, X.astype(np.float32), sparse.csr_matrix(X)], ids=["float64", "float32", "csr"])
def test_weights_of_a_wrong_length_are_refused(rows, loss):
    y = np.arange(12.0) % 3
    problem = Problem(RowsDesign(rows), make_loss(loss), GradedPreferences(y, OFFSETS))
    point = problem.at(np.zeros(3))
    assert problem.at([0.0, 0.0, 0.0]).value == point.value  # a list is as good
    for wrong in (np.zeros(2), np.zeros(4), np.zeros(0), np.zeros((3, 1)), np.float64(0.0)):
        for given in (problem.at, problem.risk, point.curvature):
            with pytest.raises(ValueError, match=r"^[wv] must be a vector of 3 numbers, not an array of shape \("):
                given(wrong)


@pytest.mark.parametrize("rows", [X, sparse.csr_matrix(X)], ids=["dense", "csr"])
def test_products_refuse_vectors_of_a_wrong_length(rows):
    design = RowsDesign(rows)
    np.testing.assert_allclose(design.scores([1, 2, 3]), X @ [1, 2, 3])
    np.testing.assert_allclose(design.back(np.ones(12)), X.sum(axis=0))
    for wrong in (np.zeros(2), np.zeros(4), np.zeros((3, 1))):
        with pytest.raises(ValueError, match="w must be a vector of 3 numbers"):
            design.scores(wrong)
    for wrong in (np.zeros(11), np.zeros(13), np.zeros((12, 1))):
        with pytest.raises(ValueError, match="z must be a vector of 12 numbers"):
            design.back(wrong)
