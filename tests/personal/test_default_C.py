"""C where none is given: by what some users said and a fit did not see."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.data.checks import WeakFitWarning
from hingerank.personal.fold_in import ENOUGH_USERS, MULTIPLES, held_back
from hingerank.personal.preferences import from_comparisons, from_ratings


def multiple_of(ranker, data):
    """C_ in units of the smallest C at which anything is learnt, from the gradient at 0 by listed pairs."""
    X, users = data.item_features, np.unique(data.users, return_inverse=True)[1]
    G = np.zeros((users.max() + 1, X.shape[1]))
    np.add.at(G, users, -2 * (X[data.winners] - X[data.losers]))
    return ranker.C_ * np.linalg.norm(G, 2)


@pytest.mark.parametrize("noise, most", [(0.0, np.inf), (3.0, MULTIPLES[1])])
def test_comparisons_without_noise_are_fitted_closely_and_noisy_ones_are_not(noise, most):
    data = hr.make_personal(80, 300, 8, 3, per_user=150, noise=noise, seed=0)
    train, test = data.split(0.2, seed=0)
    parts = [(p.item_features, p.users, p.winners, p.losers) for p in (train, test)]
    ranker = hr.PersonalRankSVM(rank=3, prior="zero").fit_pairs(*parts[0])
    chosen = multiple_of(ranker, train)
    assert min(abs(chosen / m - 1) for m in MULTIPLES) < 0.05 and chosen <= 1.05 * most
    if noise == 0:
        assert chosen > 2 * MULTIPLES[1]
        usual = hr.PersonalRankSVM(rank=3, prior="zero", C=MULTIPLES[1] / chosen * ranker.C_).fit_pairs(*parts[0])

        def right(ranker):
            X, users, winners, losers = parts[1]
            return np.mean(ranker.predict(users, X[winners]) > ranker.predict(users, X[losers]))

        assert right(ranker) > right(usual) + 0.005


def test_a_fifth_of_what_every_user_said_is_held_back():
    data = hr.make_personal(40, 60, 4, 2, kind="ratings", per_user=20, seed=0)
    told = from_ratings(data.users, data.items, data.ratings, 60)
    learnt, everything = held_back(told, from_ratings)
    assert (np.diff(learnt.start) == 16).all() and (np.diff(everything.start) == 20).all()
    for u in range(len(learnt.users)):
        seen, all_of_it = (p.item[p.start[u] : p.start[u + 1]].tolist() for p in (learnt, everything))
        assert set(seen) < set(all_of_it)
    few = np.flatnonzero(np.arange(len(data.users)) % 20 < 5 + 4 * (data.users == data.users[0]))
    short = from_ratings(data.users[few], data.items[few], data.ratings[few], 60)
    assert held_back(short, from_ratings) is None  # nobody else said enough
    compared = from_comparisons([0] * 12, range(12), range(12, 24), 24)
    assert held_back(compared, from_comparisons) is None  # one user is too few


def test_sparse_noisy_ratings_take_the_smallest_multiple():
    data = hr.make_personal(250, 500, 100, 5, kind="ratings", per_user=25, noise=1.0, sparse_density=0.1, seed=0)
    train, test = data.split(0.25, seed=0)
    given = train.item_features, train.users, train.items, train.ratings
    default = hr.PersonalRankSVM(rank=8, prior="zero").fit(*given)
    larger = hr.PersonalRankSVM(rank=8, prior="zero", C=10 * default.C_).fit(*given)
    X, rest = data.item_features, (test.users, test.items, test.ratings)
    assert default.score(X, *rest, against=given[1:]) > larger.score(X, *rest, against=given[1:]) + 0.02


def test_of_many_users_half_are_looked_at():
    n = 2 * ENOUGH_USERS + 100
    data = hr.make_personal(n, 60, 4, 2, kind="ratings", per_user=12, seed=0)
    told = from_ratings(data.users, data.items, data.ratings, 60)
    learnt, everything = held_back(told, from_ratings)
    assert len(learnt.users) == len(everything.users) == n // 2


@pytest.mark.parametrize(
    "found, n_pairs, chosen, most",
    [
        ((890.0, 895.0, 900.0, 895.0, 890.0), 1000, 0, 5),  # where 100 are wrong, 10 more or less are alike
        ((890.0, 895.0, 900.0, 895.0), 909, 2, 4),
        (MULTIPLES, 4000, 4, 5),
    ],
)
def test_the_smallest_multiple_that_is_about_as_good_as_the_best_is_chosen(found, n_pairs, chosen, most, monkeypatch):
    data = hr.make_personal(5, 60, 4, 2, kind="ratings", per_user=20, seed=0)
    learnt, tried = from_ratings(data.users, data.items, data.ratings, 60), []
    whole = SimpleNamespace(n_pairs=learnt.n_pairs + n_pairs)

    def right(P, V, p, threads):
        tried.append(p is whole)
        return (found[sum(tried) - 1], 0) if p is whole else (0.0, 0)

    monkeypatch.setattr("hingerank.personal.factorized.held_back", lambda p, make: (learnt, whole))
    monkeypatch.setattr("hingerank.personal.factorized.count_right", right)
    multiple, _ = hr.PersonalRankSVM(rank=2)._multiple(data.item_features, learnt, np.eye(4)[:, :2])
    assert multiple == MULTIPLES[chosen] and sum(tried) == most


@pytest.mark.parametrize("ranker", [hr.PersonalRankSVM(rank=2, C=1.0), hr.JointRanker(C=1.0)])
def test_asking_for_the_default_C_of_other_data_leaves_a_fitted_ranker_as_it_is(ranker):
    data = hr.make_personal(30, 40, 5, rank=2, kind="ratings", per_user=10, seed=1)
    X, known = data.item_features, (data.users, data.items, data.ratings)
    before = ranker.fit(X, *known).predict(0, X)
    assert ranker.natural_C(np.hstack([100 * X, X]), *known) > 0
    np.testing.assert_array_equal(ranker.predict(0, X), before)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "squared"])
def test_a_C_that_leaves_no_weights_is_named(loss):
    """Up to some C the optimum is 0, and lists follow what rounding leaves of the weights."""
    data = hr.make_personal(20, 60, kind="ratings", per_user=20, seed=0)
    given = (data.item_features, data.users, data.items, data.ratings)[: 3 if loss == "squared" else 4]

    def fit(**settings):
        ranker = hr.PersonalRankSVM(rank=2, loss=loss, prior="zero", **settings)
        return ranker.fit_clicks(*given) if loss == "squared" else ranker.fit(*given)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        usual = fit()
    with pytest.warns(WeakFitWarning, match="is small for features of this scale.*only 0 % better"):
        fit(C=usual.C_ / 1e4)
    with pytest.warns(ConvergenceWarning) as warned:  # and no other: more epochs would help, and not another C
        fit(max_iter=0)
    assert [w.category for w in warned] == [ConvergenceWarning]
    given = (np.ones((60, 2)), *given[1:])
    with warnings.catch_warnings():  # nothing can be learnt from such features with any C
        warnings.simplefilter("error")
        fit()
