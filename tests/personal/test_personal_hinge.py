"""PersonalRankSVM(loss="hinge") against pairs listed one by one and a quadratic program for every user."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

import hingerank as hr
from hingerank.personal.passes import CURVATURE, LOSS, users_pass
from hingerank.personal.preferences import from_comparisons, from_ratings

N_ITEMS, N_USERS = 14, 6
GRID = {"loss": ["hinge", "squared_hinge"], "C": [0.1], "rank": [2]}


def data(seed=0, n=90):
    rng = np.random.default_rng(seed)
    X, users, items = rng.standard_normal((N_ITEMS, 5)), rng.integers(0, N_USERS, n), rng.integers(0, N_ITEMS, n)
    kept = np.sort(np.unique(users * N_ITEMS + items, return_index=True)[1])
    users, items = users[kept], items[kept]
    W = rng.standard_normal((N_USERS, 2)) @ rng.standard_normal((2, 5))
    ratings = np.round(np.einsum("rc,rc->r", X[items], W[users]) + 0.5 * rng.standard_normal(len(users)))
    return X, users, items, ratings


def listed(users, items, ratings):
    """(user, winner, loser) of every pair."""
    found = [
        (users[i], items[i], items[j])
        for i in range(len(users))
        for j in range(len(users))
        if users[i] == users[j] and ratings[i] > ratings[j]
    ]
    return tuple(np.array(column) for column in zip(*found))


def margins(X, pairs, U, V, shared=None):
    users, winners, losers = pairs
    d = X[winners] - X[losers]
    return np.einsum("ec,ec->e", d @ U, V[users]) + (0.0 if shared is None else d @ shared)


def best_user(D, C, fixed):
    """min over v of ½‖v‖² + C sum max(0, 1 - fixed - D v), by its dual, a quadratic program in a box."""
    found = minimize(
        lambda a: (0.5 * np.sum((a @ D) ** 2) - a @ (1 - fixed), D @ (a @ D) - (1 - fixed)),
        np.zeros(len(D)), jac=True, bounds=[(0, C)] * len(D), method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return -found.fun, found.x @ D


@pytest.mark.parametrize("width", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize("kind", ["ratings", "weights", "pairs"])
def test_the_rounded_hinge_is_that_of_every_pair(width, kind):
    rng = np.random.default_rng(3)
    _, users, items, ratings = data()
    ratings[users == 2] = 3.0  # a user without a pair
    us, i, j = listed(users, items, ratings)
    weight, c = np.ones(len(users)), rng.random(len(us))
    if kind == "pairs":
        p = from_comparisons(us, i, j, N_ITEMS, weight=c)
    else:
        weight = rng.random(len(users)) if kind == "weights" else weight
        p = from_ratings(users, items, ratings, N_ITEMS, weight=None if kind == "ratings" else weight)
        of = dict(zip(zip(users, items), weight))
        c = np.array([of[u, a] * of[u, b] for u, a, b in zip(us, i, j)])
    V, P, Q = (rng.standard_normal((n, 2)) for n in (N_USERS, N_ITEMS, N_ITEMS))
    P[::3] = P[0]  # ties
    d = np.einsum("ec,ec->e", Q[i] - Q[j], V[us])
    t = np.einsum("ec,ec->e", P[i] - P[j], V[us])
    a, hinge = np.clip((1 - t) / width, 0, 1), np.maximum(0, 1 - t)
    rounded = np.where(a < 1, width / 2 * a**2, hinge - width / 2)

    def spread(force):
        G = np.zeros((N_ITEMS, 2))
        np.add.at(G, i, force[:, None] * V[us])
        np.add.at(G, j, -force[:, None] * V[us])
        return G

    at = V[p.users], 0, len(p.users), replace(p, known=p.known._replace(width=width))
    G, product, kept = np.zeros((N_ITEMS, 2)), np.zeros((N_ITEMS, 2)), np.zeros(len(p.item), np.float32)
    found = users_pass(LOSS, P, *at, kept, G)
    assert np.allclose(found, [c @ rounded, c @ hinge, c @ (hinge - a * (1 - t))], rtol=1e-9, atol=1e-9)
    assert np.allclose(G, spread(-c * a))
    users_pass(CURVATURE, Q, *at, kept, product)
    assert np.allclose(product, spread(c * ((a > 0) & (a < 1)) / width * d))


@pytest.mark.parametrize("shared", [False, True])
def test_the_certificate_bounds_what_better_users_could_gain(shared):
    X, users, items, ratings = data()
    ranker = hr.PersonalRankSVM(rank=3, C=0.3, tol=1e-3, loss="hinge", shared=shared, prior=0.0, scale=None)
    ranker.fit(X, users, items, ratings)
    U, V, w = ranker.basis_, ranker.user_weights_[np.argsort(ranker.users_)], ranker.coef_ if shared else None
    pairs = listed(users, items, ratings)
    halves = 0.5 * (np.sum(U**2) + (w @ w if shared else 0.0))
    value = 0.3 * np.maximum(0, 1 - margins(X, pairs, U, V, w)).sum() + halves + 0.5 * np.sum(V**2)
    assert ranker.certificate_.converged and ranker.objective_ == pytest.approx(value, rel=1e-9)
    best = halves
    for u in range(N_USERS):
        mine = pairs[0] == u
        d = X[pairs[1][mine]] - X[pairs[2][mine]]
        best += best_user(d @ U, 0.3, d @ w if shared else np.zeros(len(d)))[0]
    gap = ranker.certificate_.value
    assert best <= value * (1 + 1e-9) and value - best <= gap * value + 1e-9 and gap <= 1e-3


def test_enough_columns_reach_the_optimum_of_the_convex_problem():
    """Ratings and the same pairs listed: one optimum, which the nuclear norm's duality gap proves."""
    X, users, items, ratings = data(1)
    ranker = hr.PersonalRankSVM(rank=5, C=0.3, tol=1e-5, loss="hinge", prior=0.0, max_iter=3000)
    ranker.fit(X, users, items, ratings)
    assert ranker.certificate_.converged
    assert 0 <= ranker.nuclear_gap(X, users, items, ratings) < 0.01
    again = clone(ranker).fit_pairs(X, *listed(users, items, ratings))
    assert again.objective_ == pytest.approx(ranker.objective_, rel=1e-3)
    other = clone(ranker).set_params(loss="squared_hinge").fit(X, users, items, ratings)
    pairs = listed(users, items, ratings)
    V = other.user_weights_[np.argsort(other.users_)]
    halves = 0.5 * (np.sum(other.basis_**2) + np.sum(V**2))
    assert ranker.objective_ < 0.3 * np.maximum(0, 1 - margins(X, pairs, other.basis_, V)).sum() + halves


def test_users_given_the_basis_are_the_quadratic_programs_solution():
    X, users, items, ratings = data(2)
    ranker = hr.PersonalRankSVM(rank=3, C=0.3, loss="hinge", prior="zero", scale=None).fit(X, users, items, ratings)
    pairs = listed(users, items, ratings)
    ranker.update(X, users, items, ratings, basis=False)
    ranker.add_user("new", X[items[users == 1]], ratings[users == 1])
    for user, u in ((0, 0), (1, 1), ("new", 1)):
        mine = pairs[0] == u
        D = (X[pairs[1][mine]] - X[pairs[2][mine]]) @ ranker.basis_
        best, _ = best_user(D, 0.3, np.zeros(len(D)))
        v = ranker.user_weights_[ranker.users_.tolist().index(user)]
        assert 0.5 * v @ v + 0.3 * np.maximum(0, 1 - D @ v).sum() == pytest.approx(best, rel=1e-4)


def test_parts_learn_what_one_fit_learns(tmp_path):
    X, users, items, ratings = data(4)
    for part in range(2):
        mine = users % 2 == part
        lines = "".join(f"{u},{i},{y}\n" for u, i, y in zip(users[mine], items[mine], ratings[mine]))
        (tmp_path / f"{part}.csv").write_text("user,item,rating\n" + lines)
    ranker = hr.PersonalRankSVM(rank=2, C=0.3, loss="hinge", prior=0.0)
    parts = hr.read_rating_parts([tmp_path / "0.csv", tmp_path / "1.csv"])
    whole = clone(ranker).fit(X, users, items, ratings)
    parted = ranker.fit_parts(X, parts)
    assert parted.certificate_.converged and parted.objective_ == pytest.approx(whole.objective_, rel=0.02)


def test_kept_tuned_and_refused(tmp_path):
    X, users, items, ratings = data(5)
    rated = hr.ratings_from(users, items, ratings, item_ids=np.arange(N_ITEMS)).with_features(X)
    found = hr.tune("personal-rank-svm", rated, folds=2, measure="pairwise_accuracy", params=GRID)
    assert {trial.setting["loss"] for trial in found.tuning_.trials} == {"hinge", "squared_hinge"}
    ranker = hr.PersonalRankSVM(rank=2, loss="hinge").fit(X, users, items, ratings)
    ranker.save(tmp_path / "model")
    loaded = hr.load(tmp_path / "model")
    assert loaded.loss == "hinge" and np.array_equal(loaded.predict(0, X), ranker.predict(0, X))
    again = loaded.update(X, users, items, ratings)
    assert again.certificate_.n_iter <= ranker.certificate_.n_iter
    clicks = hr.PersonalRankSVM(rank=2, loss="hinge").fit_clicks(X, users, items, n_draws=2)
    assert clicks.certificate_.converged
    assert ranker.natural_C(X, users, items, ratings) == pytest.approx(
        2 * hr.PersonalRankSVM().natural_C(X, users, items, ratings)
    )
    with pytest.raises(ValueError, match="loss must be 'squared_hinge', 'hinge' or 'squared', not 'huber'"):
        hr.PersonalRankSVM(loss="huber").fit(X, users, items, ratings)
