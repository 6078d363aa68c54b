"""Ranking FM against listed pairs and products, finite differences, and its export as a kernel sum."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.losses import make_loss
from hingerank.preferences import GradedPreferences
from hingerank.problem.factorization_machine import FactorizationMachine
from hingerank.rankers.low_rank import SMOOTH_PAIRS


@pytest.fixture(scope="module")
def rows():
    """Queries in disorder, single rows, ties, a query of one grade, weights."""
    rng = np.random.default_rng(4)
    qid = rng.permutation(np.repeat(list("abcde"), [1, 9, 8, 2, 7]))
    X = rng.normal(size=(len(qid), 4)).round(1) * (rng.random((len(qid), 4)) < 0.8)
    y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.3, 0.6]).astype(float)
    y[qid == "e"] = 1.0
    return X, y, qid, rng.choice([0.5, 1.0, 2.0], len(qid))


def listed_scores(X, w, V):
    """Product by product."""
    d = len(w)
    return np.array(
        [x @ w + sum(V[f] @ V[g] * x[f] * x[g] for f in range(d) for g in range(f + 1, d)) for x in X]
    )  # fmt: skip


def listed_objective(X, y, qid, w, V, C, loss):
    s = listed_scores(X, w, V)
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]
    t = np.array([s[i] - s[j] for i, j in pairs])
    return 0.5 * (w @ w + (V * V).sum()) + C * make_loss(loss).pointwise(t)[0].sum()


@pytest.mark.parametrize("loss", SMOOTH_PAIRS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_objective_and_scores_are_those_of_listed_pairs_and_products(rows, loss, kind):
    X, y, qid, _ = rows
    ranker = hr.RankingFM(rank=2, C=0.3, loss=loss, tol=1e-5).fit(kind(X), y, qid)
    w, V = ranker.coef_, ranker.factors_
    assert w.shape == (4,) and V.shape == (4, 2) and ranker.certificate_.converged
    np.testing.assert_allclose(ranker.predict(kind(X)), listed_scores(X, w, V), atol=1e-9)
    np.testing.assert_allclose(ranker.objective_, listed_objective(X, y, qid, w, V, 0.3, loss), rtol=1e-9)
    assert ranker.interactions_[0, 1] == pytest.approx(V[0] @ V[1]) and not np.diag(ranker.interactions_).any()


@pytest.mark.parametrize("rank", [1, 3])
def test_the_gradient_is_that_of_differences(rows, rank):
    X, y, qid, m = rows
    order = np.argsort(qid, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.unique(qid, return_counts=True)[1])))
    preferences = GradedPreferences(y[order], offsets, item_weight=m[order])
    problem = FactorizationMachine(X[order], make_loss("logistic"), preferences, rank, 0.7)
    theta = np.random.default_rng(rank).normal(size=problem.dimension)
    steps = 1e-6 * np.eye(len(theta))
    slopes = [(problem.at(theta + h).value - problem.at(theta - h).value) / 2e-6 for h in steps]
    np.testing.assert_allclose(problem.at(theta).gradient, slopes, rtol=1e-5, atol=1e-5)


def test_products_are_learnt_and_the_fit_is_below_that_without_them():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(240, 5)), np.repeat(np.arange(24), 10)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.5 * X[:, 2], [-0.5, 0.5]).astype(float)
    train, held = qid < 16, qid >= 16
    line = hr.RankSVM(C=0.1).fit(X[train], y[train], qid[train])
    ranker = hr.RankingFM(rank=2, C=0.1).fit(X[train], y[train], qid[train])
    assert ranker.objective_ < 0.5 * line.objective_
    assert ranker.score(X[held], y[held], qid[held]) > line.score(X[held], y[held], qid[held]) + 0.1
    assert np.unravel_index(np.abs(ranker.interactions_).argmax(), (5, 5)) == (0, 1)


def test_saved_exported_and_along_a_path(rows, tmp_path):
    X, y, qid, _ = rows
    ranker = hr.RankingFM(rank=3, C=0.3, scale="standard").fit(X, y, qid)
    same = hr.load(ranker.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(same.predict(X), ranker.predict(X))
    np.testing.assert_allclose(ranker.scorer()(X), ranker.predict(X), atol=1e-9)
    ranker.export(tmp_path / "model.py", to="python")
    path = hr.RankingFM(rank=3, scale="standard").fit_path(X, y, qid, [1e-6, 0.3])
    np.testing.assert_array_equal(path[1].coef_, ranker.coef_)  # not from the fit before
    assert ranker.rank(X, qid=qid).tolist() == same.rank(X, qid=qid).tolist()


def test_what_it_refuses(rows):
    X, y, qid, _ = rows
    with pytest.raises(ValueError, match=r"loss of RankingFM must be 'squared_hinge', .*, not 'hinge'"):
        hr.RankingFM(loss="hinge").fit(X, y, qid)
    with pytest.raises(ValueError, match="rank must be"):
        hr.RankingFM(rank=0).fit(X, y, qid)
