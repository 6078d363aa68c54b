"""Seeds of a wrong type and iterations up to a limit in personal rankers."""

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
