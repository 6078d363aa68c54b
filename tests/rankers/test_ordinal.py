"""OrdinalSVM against listed rows and thresholds, and what it says of grades."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import hingerank as hr
from hingerank.losses import check_loss, make_loss
from hingerank.losses.pairs import Ordinal
from hingerank.preferences import GradedPreferences
from hingerank.rankers.ordinal import OF_THRESHOLDS

EVERY = pytest.mark.parametrize("name", OF_THRESHOLDS)


def listed(name, s, b, y, m):
    """The sum over rows and thresholds."""
    grades, loss = np.unique(y[m > 0]), make_loss(name)
    cells = [(i, k) for i in range(len(s)) for k in range(len(grades) - 1)]
    margins = [s[i] - b[k] if y[i] > grades[k] else b[k] - s[i] for i, k in cells]
    return loss.pointwise(np.array(margins))[0] @ np.array([m[i] for i, _ in cells])


@pytest.fixture(scope="module")
def rows():
    """Queries in disorder, single rows, ties, a query of one grade, grades that are no whole numbers."""
    rng = np.random.default_rng(3)
    qid = rng.permutation(np.repeat(list("abcde"), [1, 9, 12, 2, 7]))
    y = rng.choice([-0.5, 1.0, 4.0], len(qid))
    y[qid == "e"] = 1.0
    X = (rng.normal(size=(len(qid), 3)) + 0.3 * y[:, None]).round(1)
    return X, y, qid, rng.choice([0.0, 0.5, 1.0, 2.0], len(qid))


@EVERY
@pytest.mark.parametrize("grades", [1, 2, 3, 20])
def test_the_loss_is_the_least_over_thresholds_which_ascend(name, grades):
    rng = np.random.default_rng(grades)
    y, s, m = rng.integers(0, grades, 25) * 1.0, rng.normal(size=25).round(1), rng.choice([0.0, 0.5, 2.0], 25)
    loss, preferences = Ordinal(make_loss(name)), GradedPreferences(y, np.array([0, 1, 10, 25]), item_weight=m)
    b = loss.thresholds(s, y, m)
    assert len(b) == len(np.unique(y[m > 0])) - 1 and (np.diff(b) >= -1e-9).all()
    value = loss.at(s, preferences).value
    np.testing.assert_allclose(value, listed(name, s, b, y, m), rtol=1e-12)
    for k in range(len(b)):
        for step in (-1e-3, 1e-3):
            assert listed(name, s, b + step * (np.arange(len(b)) == k), y, m) >= value - 1e-12
    check_loss(loss)


@EVERY
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_the_optimum_over_weights_and_thresholds(rows, name, weighted):
    X, y, qid, m = rows
    m = m if weighted else np.ones(len(y))
    ranker = hr.OrdinalSVM(C=0.3, loss=name, tol=1e-9).fit(X, y, qid, sample_weight=m)

    def objective(wb):
        return 0.5 * wb[:3] @ wb[:3] + 0.3 * listed(name, X @ wb[:3], wb[3:], y, m)

    found = np.concatenate([ranker.coef_, ranker.thresholds_])
    best = minimize(objective, found + 0.1, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(ranker.objective_, best.fun, rtol=1e-7)
    np.testing.assert_allclose(found, best.x, atol=1e-3)
    assert ranker.certificate_.converged and ranker.certificate_.kind == "relative duality gap"
    expected = np.array([-0.5, 1.0, 4.0])[(X @ ranker.coef_ > ranker.thresholds_[:, None]).sum(axis=0)]
    assert np.array_equal(ranker.predict_grades(X), expected)


def test_two_grades_are_a_classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0) * 1.0
    ranker = hr.OrdinalSVM(C=2.0, loss="logistic", tol=1e-10).fit(X, y, np.arange(60) // 7)
    other = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ranker.coef_, other.coef_[0], atol=1e-5)
    np.testing.assert_allclose(ranker.thresholds_, -other.intercept_, atol=1e-5)


def test_rows_teach_without_a_row_to_beat():
    """A query for each row has no pairs; warnings that every weight is 0 would be wrong, and so for regression."""
    X, y = np.array([[0.0], [1.0], [0.2], [0.9]]), np.array([0.0, 2.0, 0.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ranker in (hr.OrdinalSVM(C=10.0), hr.PointwiseRegression(C=10.0), hr.CRR(C=10.0)):
            assert ranker.fit(X, y, np.arange(4)).coef_[0] > 0.1
    for ranker in (hr.OrdinalSVM(), hr.PointwiseRegression()):
        with pytest.warns(UserWarning, match="no preference pairs"):
            assert not ranker.fit(X, np.ones(4), np.arange(4)).coef_.any()


def test_what_it_refuses(rows):
    X, y, qid, _ = rows
    with pytest.raises(ValueError, match=r"loss of OrdinalSVM must be 'squared_hinge', .*not 'hinge'"):
        hr.OrdinalSVM(loss="hinge").fit(X, y, qid)
    with pytest.raises(ValueError, match=r"300 different grades.*PointwiseRegression"):
        hr.OrdinalSVM().fit(np.ones((300, 1)), np.arange(300.0), qid=0)
    with pytest.raises(ValueError, match="cannot learn from winners or single comparisons"):
        hr.OrdinalSVM().fit_pairs(X, [0], [1])
