"""The factorised problem against the convex one with the nuclear norm, and updates from a warm start."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.factorized import InductiveMatrixCompletion, PersonalRankSVM
from hingerank.structures import shrink_singular_values

C = 0.05


def told(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((15, 5))
    users, items = np.repeat(np.arange(8), 7), np.concatenate([rng.permutation(15)[:7] for _ in range(8)])
    return X, users, items, rng.integers(1, 6, 56).astype(float)


def proximal_gradient(X, users, items, y, weight, steps=4000):
    """Accelerated proximal gradient on  C · sum over listed pairs of max(0, 1 - d·W_u)² + ‖W‖_*."""
    pairs = [(a, b) for a in range(len(y)) for b in range(len(y)) if users[a] == users[b] and y[a] > y[b]]
    a, b = np.array(pairs).T
    D, who, w = X[items[a]] - X[items[b]], users[a], weight[a] * weight[b]
    W = Y = np.zeros((5, 8))
    length, t = 1.0 / (2 * C * (w * (D**2).sum(axis=1)).sum()) * 4, 1.0

    def value(W):
        return C * float(w @ np.maximum(0, 1 - (D * W[:, who].T).sum(axis=1)) ** 2) + np.linalg.norm(W, "nuc")

    for _ in range(steps):
        gap = np.maximum(0, 1 - (D * Y[:, who].T).sum(axis=1))
        G = np.zeros_like(W)
        np.add.at(G.T, who, (-2 * C * w * gap)[:, None] * D)
        new = shrink_singular_values(Y - length * G, length)[0]
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Y, W, t = new + (t - 1) / following * (new - W), new, following
    return value(W)


@pytest.mark.parametrize("weighted", [False, True])
def test_enough_columns_reach_the_convex_optimum(weighted):
    X, users, items, y = told()
    w = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(y)) if weighted else np.ones(len(y))
    ranker = PersonalRankSVM(rank=5, C=C, tol=1e-12, max_iter=2000, prior="zero", scale=None)
    ranker.fit(X, users, items, y, sample_weight=w)
    best = proximal_gradient(X, users, items, y, w)
    assert ranker.objective_ == pytest.approx(best, rel=1e-5)
    gap = ranker.nuclear_gap(X, users, items, y, sample_weight=w)
    assert 0 <= gap < 1e-4
    halves = 0.5 * ((ranker.basis_**2).sum() + (ranker.user_weights_**2).sum())
    assert np.linalg.norm(ranker.basis_ @ ranker.user_weights_.T, "nuc") == pytest.approx(halves, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_bounds_the_distance_to_the_optimum(seed):
    X, users, items, y = told(seed)
    best = proximal_gradient(X, users, items, y, np.ones(len(y)))
    for rank, epochs in ((1, 100), (2, 100), (5, 1), (5, 3)):
        ranker = PersonalRankSVM(rank=rank, C=C, tol=1e-12, max_iter=epochs, prior="zero")
        with pytest.warns(Warning) if epochs < 5 else np.errstate():
            ranker.fit(sp.csr_matrix(X), users, items, y)
        gap = ranker.nuclear_gap(X, users, items, y)
        W = ranker.basis_ @ ranker.user_weights_.T
        primal = ranker.objective_ - 0.5 * ((ranker.basis_**2).sum() + (ranker.user_weights_**2).sum())
        primal += np.linalg.norm(W, "nuc")
        assert primal * (1 - gap) <= best * (1 + 1e-6)
        assert rank > 1 or gap > 1e-3


@pytest.mark.parametrize("make", [lambda **how: PersonalRankSVM(shared=True, **how), InductiveMatrixCompletion])
def test_the_other_losses_have_a_gap_that_closes(make):
    X, users, items, y = told(4)
    ranker = make(rank=5, C=C, tol=1e-12, max_iter=3000, prior="zero").fit(X, users, items, y)
    assert 0 <= ranker.nuclear_gap(X, users, items, y) < 1e-3


def test_an_update_goes_on_from_where_the_model_is():
    data = hr.make_personal(80, 120, 6, 2, kind="ratings", per_user=20, seed=2)
    X, users, items, y = data.item_features, data.users, data.items, data.ratings
    first = (users < 70) & (items < 100)
    settings = {"rank": 2, "C": 0.01, "tol": 1e-9, "max_iter": 1000, "prior": "zero"}
    old = X[:100], users[first], items[first], y[first]
    cold = PersonalRankSVM(**settings, scale=None).fit(X, users, items, y)
    warm = PersonalRankSVM(**settings, scale=None).fit(*old)
    again = warm.update(*old).n_iter_
    assert again <= 3  # nothing new, nothing to do
    warm.update(X, users, items, y)  # new users, new items
    assert warm.certificate_.converged and len(warm.users_) == 80
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    assert warm.C_ == 0.01 and warm.n_iter_ <= cold.n_iter_


@pytest.mark.parametrize("shared", [False, True])
def test_users_alone_are_updated_to_their_optimum(shared):
    data = hr.make_personal(40, 60, 6, 2, kind="ratings", per_user=20, seed=5)
    X, told = data.item_features, (data.users, data.items, data.ratings)
    ranker = PersonalRankSVM(rank=2, C=0.01, tol=1e-10, max_iter=1000, shared=shared, prior="zero").fit(X, *told)
    before, few = ranker.user_weights_.copy(), data.users < 5
    basis = ranker.basis_.copy()
    ranker.update(X, *(column[few] for column in told), basis=False)
    np.testing.assert_allclose(ranker.user_weights_, before, atol=1e-4 * np.abs(before).max())
    ranker.update(
        X,
        np.r_[data.users[few], [99, 99]],
        np.r_[data.items[few], [0, 1]],
        np.r_[data.ratings[few], [1, 5]],
        basis=False,
    )
    assert len(ranker.users_) == 41 and (ranker.basis_ == basis).all()
    assert ranker.predict(99, X[1:2]) != ranker.predict(1, X[1:2])
    with pytest.raises(ValueError, match="features"):
        ranker.update(X[:, :3], *told)
