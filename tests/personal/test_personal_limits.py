"""Seeds of a wrong type, iterations up to a limit, and numbers far from 1 in personal rankers."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr

FACTORISED = [hr.PersonalRankSVM, hr.InductiveMatrixCompletion]


@pytest.fixture(scope="module")
def data():
    made = hr.make_personal(60, 80, 6, rank=3, kind="ratings", per_user=20, seed=0)
    return made.item_features, made.users, made.items, made.ratings


@pytest.mark.parametrize("make", [*FACTORISED, hr.ListRanker])
@pytest.mark.parametrize("seed", ["a", 1.5, -1, [1, "x"]])
def test_what_is_no_seed_is_named(make, seed, data):
    with pytest.raises(ValueError, match="random_state must be a whole number of at least 0, or None, not"):
        make(rank=3, random_state=seed).fit(*data)
    if make is hr.PersonalRankSVM:
        with pytest.raises(ValueError, match="random_state must be"):
            make(rank=3, random_state=seed).fit_clicks(*data[:3])


@pytest.mark.parametrize("max_iter", [1, 3])
def test_iterations_are_at_most_the_limit(max_iter, data):
    short = {"rank": 3, "C": 1.0, "tol": 1e-12, "max_iter": max_iter}
    with pytest.warns(ConvergenceWarning):
        fitted = [make(**short).fit(*data) for make in FACTORISED]
        fitted.append(hr.PersonalRankSVM(**short, loss="squared").fit_clicks(*data[:3]))
    for ranker in fitted:
        assert ranker.certificate_.status == "max_iter"
        assert ranker.n_iter_ == ranker.certificate_.n_iter == len(ranker.trace_) - 1 == max_iter


@pytest.mark.parametrize("size", [2.0**-96, 2.0**-10, 2.0**96])
def test_the_size_of_ratings_does_not_change_what_completion_learns(size, data):
    X, users, items, ratings = data
    plain = hr.InductiveMatrixCompletion(rank=3).fit(*data)
    scaled = hr.InductiveMatrixCompletion(rank=3).fit(X, users, items, size * ratings)
    assert scaled.C_ * size == pytest.approx(plain.C_) and scaled.objective_ == pytest.approx(size * plain.objective_)
    np.testing.assert_allclose(scaled.predict(users, X[items]), size * plain.predict(users, X[items]), rtol=1e-6)
    assert plain.score(*data) > 0.95


def test_ratings_that_overflow_are_refused_where_their_values_count(data):
    X, users, items, ratings = data
    with pytest.raises(hr.DataError, match=r"a rating of 5e\+155: .* divide all ratings by it"):
        hr.InductiveMatrixCompletion(rank=3).fit(X, users, items, 1e155 * ratings)
    plain, large = (hr.JointRanker().fit(X, users, items, size * ratings) for size in (1.0, 1e155))
    np.testing.assert_array_equal(plain.coef_, large.coef_)  # only their order counts


@pytest.mark.parametrize("make", FACTORISED)
def test_features_that_overflow_are_refused(make, data):
    X, *told = data
    with pytest.raises(hr.DataError, match=r"overflow .* divide them, or set scale='standard'"):
        make(rank=3, scale=None).fit(1e100 * X, *told)
    if make is hr.PersonalRankSVM:
        with pytest.raises(hr.DataError, match="lost in sums of inf"), np.errstate(all="ignore"):
            hr.EASE(scale=None).fit_clicks(1e155 * X, *told[:2])


@pytest.mark.parametrize("C", [1e15, 1e40, 1e155])
def test_a_huge_C_is_not_certified(C, data):
    with pytest.warns(ConvergenceWarning), np.errstate(all="ignore"):
        ranker = hr.PersonalRankSVM(rank=3, C=C, prior=0.0).fit(*data)
    assert not ranker.certificate_.converged


def test_what_is_no_callback_is_named(data):
    for make in (*FACTORISED, hr.JointRanker):
        with pytest.raises(ValueError, match="callback must be a function of an entry of the trace, not 3"):
            make(callback=3).fit(*data)


def test_a_huge_C_of_the_hinge_does_not_end_at_zeros(data):
    """At weights of 0 every pair is where the rounded hinge is straight, so that a full step is far too long."""
    with pytest.warns(ConvergenceWarning):
        ranker = hr.PersonalRankSVM(rank=3, loss="hinge", C=1e8, max_iter=10, prior=0.0).fit(*data)
    assert ranker.score(*data) > 0.99


@pytest.mark.parametrize("make", FACTORISED)
def test_where_no_user_has_a_pair_no_C_is_too_small(make, data):
    X, users, items, _ = data
    with pytest.warns(UserWarning, match="there are no preference pairs") as warned:
        ranker = make(rank=3, C=1.0).fit(X, users, items, np.ones(len(users)))
    assert len(warned) == 1 and ranker.certificate_.converged
