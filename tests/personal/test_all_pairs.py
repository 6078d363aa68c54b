"""Every click against every item with the squared loss: against listed pairs, and as a fit."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.clicks import MULTIPLES, AllPairs, clicks_of, fit_all_pairs


def listed(X, clicks, U, V, C):
    """f by all its pairs."""
    Z, total = X @ U, 0.5 * (np.sum(U**2) + np.sum(V**2))
    for u in range(len(clicks.users)):
        for r in range(clicks.start[u], clicks.start[u + 1]):
            total += C * clicks.table.data[r] * sum((1 - V[u] @ (Z[clicks.items[r]] - z)) ** 2 for z in Z)
    return total


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    X, users = rng.standard_normal((12, 5)), np.repeat(np.arange(6), 3)
    items = np.concatenate([rng.permutation(12)[:3] for _ in range(6)])
    return X, clicks_of(users, items, 12, rng.random(18) + 0.5)


@pytest.mark.parametrize("sparse", [False, True])
def test_value_and_derivatives_are_those_of_listed_pairs(small, sparse):
    X, clicks = small
    problem, rng, C = AllPairs(sp.csr_matrix(X) if sparse else X, clicks.table), np.random.default_rng(1), 0.07
    U = rng.standard_normal((5, 3))
    V, value = problem.users(U, C)
    assert value == pytest.approx(listed(X, clicks, U, V, C), rel=1e-12)

    def along(U_, V_, step):
        return [listed(X, clicks, U + a * step * U_, V + a * step * V_, C) for a in (1, 0, -1)]

    way = rng.standard_normal(V.shape)
    up, _, down = along(0 * U, way, 1e-4)
    assert (up - down) / 2e-4 == pytest.approx(0, abs=1e-8)  # V is the best for U
    for _ in range(2):
        D = rng.standard_normal(U.shape)
        up, here, down = along(D, 0 * V, 1e-3)  # a square: differences are exact
        assert (up - down) / 2e-3 == pytest.approx(np.vdot(problem.moved(U, V, C, 1.0), D), rel=1e-8)
        assert (up + down - 2 * here) / 1e-6 == pytest.approx(np.vdot(D, problem.moved(D, V, C, 0.0)), rel=1e-5)
    table = clicks.table.toarray()
    gradient = -2 * (12 * table - table.sum(axis=1, keepdims=True)) @ X
    assert problem.least_C() == pytest.approx(1 / np.linalg.norm(gradient, 2), rel=1e-4)


@pytest.mark.parametrize("rank", [2, 3, 4, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_weights_of_users_solve_their_systems(monkeypatch, rank, threads):
    """Whether a user has fewer clicks than the rank, as many, or more (even and odd numbers of them)."""
    rng = np.random.default_rng(2)
    X, count = rng.standard_normal((15, 9)), np.array([1, 2, 3, 4, 5, 6, 11, 12])
    items = np.concatenate([rng.permutation(15)[:c] for c in count])
    clicks = clicks_of(np.repeat(np.arange(8), count), items, 15, rng.random(len(items)) + 0.1)
    U, C = rng.standard_normal((9, rank)), 0.05
    monkeypatch.setattr("hingerank.personal.clicks.CLICKS_PER_SHARD", 8)
    V, value = AllPairs(X, clicks.table, threads).users(U, C)
    Z = X @ U
    for u in range(8):
        mine = slice(clicks.start[u], clicks.start[u + 1])
        pairs = np.concatenate([np.sqrt(w) * (Z[i] - Z) for i, w in zip(clicks.items[mine], clicks.table.data[mine])])
        wanted = np.repeat(np.sqrt(clicks.table.data[mine]), 15)
        best = np.linalg.solve(np.eye(rank) + 2 * C * pairs.T @ pairs, 2 * C * pairs.T @ wanted)
        np.testing.assert_allclose(V[u], best, rtol=1e-9, atol=1e-12)
    assert value == pytest.approx(listed(X, clicks, U, V, C), rel=1e-12)


def test_columns_that_no_item_has_do_not_matter():
    X, users, items = clicked()
    some = sp.csr_matrix(X)
    wide = sp.csr_matrix(sp.hstack([sp.csr_matrix((60, 5)), some, sp.csr_matrix((60, 2))]))
    narrow, found = (
        hr.PersonalRankSVM(rank=2, loss="squared").fit_clicks(features, users, items) for features in (some, wide)
    )
    assert found.n_features_in_ == 9 and not found.basis_[[0, 1, 2, 3, 4, 7, 8]].any()
    np.testing.assert_allclose(found.predict(3, wide), narrow.predict(3, some), rtol=1e-9)


def test_the_fit_ends_where_nothing_is_to_be_gained(small):
    X, clicks = small
    U = np.random.default_rng(1).standard_normal((5, 3))
    found = fit_all_pairs(AllPairs(X, clicks.table), U, 0.07, tol=1e-9, max_iter=300, max_seconds=60)
    assert found.certificate.converged
    V = found.extra["V"]
    assert found.value == pytest.approx(listed(X, clicks, found.w, V, 0.07), rel=1e-10)
    values = [entry["value"] for entry in found.trace]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))
    other = fit_all_pairs(AllPairs(X, clicks.table), 2 * U[::-1], 0.07, tol=1e-9, max_iter=300, max_seconds=60)
    assert other.value == pytest.approx(found.value, rel=1e-3)


def clicked(n_users=40):
    rng = np.random.default_rng(1)
    X = np.vstack([np.eye(2)[c % 2] for c in range(60)]) + 0.1 * rng.standard_normal((60, 2))
    users = np.repeat(np.arange(n_users), 8)
    return X, users, np.concatenate([rng.permutation(np.arange(u % 2, 60, 2))[:8] for u in range(n_users)])


def test_taste_is_found_without_drawing_items(tmp_path):
    X, users, items = clicked()
    ranker = hr.PersonalRankSVM(rank=2, loss="squared").fit_clicks(X, users, items)
    assert ranker.certificate_.converged and ranker.n_pairs_ == len(items) * 59
    best = ranker.top_k(range(40), X, 5, exclude=(users, items))[0]
    assert (best % 2 == np.arange(40)[:, None] % 2).mean() > 0.95
    assert hr.load(ranker.save(tmp_path)).predict(3, X).tolist() == ranker.predict(3, X).tolist()
    ranker.add_user("new", X[items[users == 4]], winners=[0, 0], losers=[1, 2])
    ranker = hr.PersonalRankSVM(rank=2, loss="squared", C=ranker.C_).fit_clicks(X, users, items)
    weighed = hr.PersonalRankSVM(rank=2, loss="squared", C=ranker.C_).fit_clicks(
        X, np.r_[users, users], np.r_[items, items], sample_weight=np.full(640, 0.5)
    )
    np.testing.assert_allclose(weighed.predict(3, X), ranker.predict(3, X), atol=1e-8)
    alike = hr.PersonalRankSVM(rank=2, loss="squared", pair_weight="user", C=ranker.C_ * 480).fit_clicks(
        X, users, items
    )
    np.testing.assert_allclose(alike.predict(3, X), ranker.predict(3, X), atol=1e-6)  # all have 8 clicks


def test_the_squared_loss_is_for_clicks():
    X, users, items = clicked()
    with pytest.raises(ValueError, match="loss='squared' is for fit_clicks"):
        hr.PersonalRankSVM(loss="squared").fit(X, users, items, np.arange(len(items)))
    with pytest.raises(ValueError, match="has no shared function"):
        hr.PersonalRankSVM(loss="squared", shared=True).fit_clicks(X, users, items)
    with pytest.raises(ValueError, match="loss must be 'squared_hinge', 'hinge' or 'squared', not 'cubic'"):
        hr.PersonalRankSVM(loss="cubic").fit_clicks(X, users, items)


def test_features_beside_ids_take_a_larger_multiple():
    """Features that all items share make the smallest useful C small, which would leave the ids unused."""
    rng = np.random.default_rng(3)
    groups, users = np.arange(90) % 6, np.repeat(np.arange(240), 10)
    items = np.concatenate([
        rng.choice(90, 10, replace=False, p=(w := 1.0 + 15 * (groups == u % 6)) / w.sum()) for u in range(240)
    ])  # fmt: skip
    held = np.arange(len(users)) % 5 == 0
    train, test = (users[~held], items[~held]), (users[held], items[held])
    few = sp.csr_matrix(3.0 * (np.arange(90)[:, None] % 2 == [0, 1]))  # says nothing
    both = sp.csr_matrix(sp.hstack([few, sp.identity(90)]))
    default = hr.PersonalRankSVM(rank=8, loss="squared", prior=0.0).fit_clicks(both, *train)
    least = AllPairs(both, clicks_of(*train, 90).table.astype(float)).least_C()
    first = hr.PersonalRankSVM(rank=8, loss="squared", prior=0.0, C=MULTIPLES[0] * least).fit_clicks(both, *train)
    found = [hr.evaluate_top(ranker, both, test, train).means["ndcg"] for ranker in (default, first)]
    assert default.C_ > 2 * first.C_ and found[0] > found[1] + 0.05
