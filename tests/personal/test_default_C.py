"""C where none is given: by what some users said and a fit did not see."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.personal.choosing import MULTIPLES, choose_multiple, held_back
from hingerank.personal.preferences import from_comparisons, from_ratings


def multiple_of(ranker, data):
    """C_ in units of the smallest C at which anything is learnt, from the gradient at 0 by listed pairs."""
    X, users = data.item_features, np.unique(data.users, return_inverse=True)[1]
    G = np.zeros((users.max() + 1, X.shape[1]))
    np.add.at(G, users, -2 * (X[data.winners] - X[data.losers]))
    return ranker.C_ * np.linalg.norm(G, 2)


@pytest.mark.parametrize("noise, most", [(0.0, np.inf), (3.0, MULTIPLES[0])])
def test_comparisons_without_noise_are_fitted_closely_and_noisy_ones_are_not(noise, most):
    data = hr.make_personal(80, 300, 8, 3, per_user=150, noise=noise, seed=0)
    train, test = data.split(0.2, seed=0)
    parts = [(p.item_features, p.users, p.winners, p.losers) for p in (train, test)]
    ranker = hr.PersonalRankSVM(rank=3, prior="zero").fit_pairs(*parts[0])
    chosen = multiple_of(ranker, train)
    assert min(abs(chosen / m - 1) for m in MULTIPLES) < 0.05 and chosen <= 1.05 * most
    if noise == 0:
        assert chosen > 2 * MULTIPLES[0]
        usual = hr.PersonalRankSVM(rank=3, prior="zero", C=MULTIPLES[0] / chosen * ranker.C_).fit_pairs(*parts[0])

        def right(ranker):
            X, users, winners, losers = parts[1]
            return np.mean(ranker.predict(users, X[winners]) > ranker.predict(users, X[losers]))

        assert right(ranker) > right(usual) + 0.005


def test_a_fifth_of_what_every_user_said_is_held_back():
    data = hr.make_personal(40, 60, 4, 2, kind="ratings", per_user=20, seed=0)
    told = from_ratings(data.users, data.items, data.ratings, 60)
    learnt, everything = held_back(told, lambda *given: from_ratings(*given, 60))
    assert (np.diff(learnt.start) == 16).all() and (np.diff(everything.start) == 20).all()
    for u in range(learnt.n_users):
        seen, all_of_it = (p.item[p.start[u] : p.start[u + 1]].tolist() for p in (learnt, everything))
        assert set(seen) < set(all_of_it)
    few = np.flatnonzero(np.arange(len(data.users)) % 20 < 5 + 4 * (data.users == data.users[0]))
    short = from_ratings(data.users[few], data.items[few], data.ratings[few], 60)
    assert held_back(short, lambda *given: from_ratings(*given, 60)) is None  # nobody else said enough
    compared = from_comparisons([0] * 12, range(12), range(12, 24), 24)
    assert held_back(compared, lambda *given: from_comparisons(*given, 24)) is None  # one user is too few


def test_the_usual_multiple_stays_unless_others_are_clearly_better():
    rng = np.random.default_rng(0)
    tried = []

    def right(multiple):
        tried.append(multiple)
        return rng.integers(0, 10, 200).astype(float)

    assert choose_multiple(right, 2000) in MULTIPLES[:2] and len(tried) <= 3
    assert choose_multiple(lambda multiple: np.full(5, multiple), 10) == MULTIPLES[-1]
