"""GBRank: every leaf is the mean target of its rows, targets being the scores that mend the violated pairs."""

import numpy as np
import pytest

import hingerank as hr

pytest.importorskip("lightgbm")


def rows(seed=0, n_queries=12, size=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 4))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)), [-0.3, 0.4, 1.2]).astype(float)
    return X, y, np.repeat(np.arange(n_queries), size)


def pairs(y, qid):
    return [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]


def mended(s, y, qid, margin):
    """For each row the sum of targets less its score over violated pairs, and their number, pair by pair."""
    total, count = np.zeros(len(y)), np.zeros(len(y))
    for i, j in pairs(y, qid):
        if s[i] - s[j] < margin:
            total[i] += s[j] + margin - s[i]
            total[j] += s[i] - margin - s[j]
            count[[i, j]] += 1
    return total, count


@pytest.mark.parametrize("margin", [1.0, 0.25])
def test_each_tree_is_a_regression_on_violated_pairs(margin):
    X, y, qid = rows()
    settings = {"learning_rate": 1.0, "num_leaves": 5, "min_child_samples": 5, "margin": margin}
    ranker = hr.GBRank(n_estimators=3, **settings).fit(X, y, qid)
    before = np.zeros(len(y))
    for smaller in ranker.fit_path(X, y, qid, [1, 2, 3]):
        after = smaller.predict(X)
        total, count = mended(before, y, qid, margin)
        step = np.round(after - before, 9)
        for leaf in np.unique(step):
            here = step == leaf
            assert leaf == pytest.approx(total[here].sum() / count[here].sum(), rel=1e-5, abs=1e-8)
        before = after


@pytest.mark.parametrize("alpha", [0.3, 1.0])
@pytest.mark.parametrize("values", [[0, 1, 2, 3], [-1.5, 0.0, 0.25, 40.0]])
def test_with_alpha_each_leaf_is_the_best_step_on_pairs_and_grades(alpha, values):
    """QBRank's; a single row, a query of one grade and tied columns among the rows. Grades that are no counts have
    numbers."""
    X, y, qid = rows()
    X, qid = X.round(1), np.where(np.arange(len(y)) == 3, 99, qid)
    y[qid == 4] = 1.0
    settings = {"learning_rate": 1.0, "num_leaves": 5, "min_child_samples": 5, "alpha": alpha}
    before = np.zeros(len(y))
    for smaller in hr.GBRank(**settings).fit_path(X, np.array(values)[y.astype(int)], qid, [1, 2, 3]):
        after = smaller.predict(X)
        total, count = mended(before, y, qid, 1.0)
        total, count = (1 - alpha) * total + alpha * (y - before), (1 - alpha) * count + alpha
        step = np.round(after - before, 9)
        for leaf in np.unique(step):
            here = step == leaf
            assert leaf == pytest.approx(total[here].sum() / count[here].sum(), rel=1e-5, abs=1e-8)
        before = after


def test_the_loss_falls_with_every_tree_and_products_of_columns_are_learnt():
    X, y, qid = rows()

    def loss(s):
        return sum(max(0.0, 1 - s[i] + s[j]) ** 2 for i, j in pairs(y, qid))

    ranker = hr.GBRank(n_estimators=40, num_leaves=7, min_child_samples=5)
    losses = [loss(part.predict(X)) for part in ranker.fit_path(X, y, qid, [1, 5, 20, 40])]
    assert losses == sorted(losses, reverse=True)
    fresh = rows(seed=1)
    assert ranker.fit(X, y, qid).score(*fresh) > hr.RankSVM().fit(X, y, qid).score(*fresh) + 0.05


def test_order_of_rows_does_not_matter_and_a_saved_model_answers_alike(tmp_path):
    X, y, qid = rows()
    ranker = hr.GBRank(n_estimators=5, min_child_samples=5).fit(X, y, qid)
    order = np.argsort(qid[::-1], kind="stable")[::-1]  # queries backwards
    same = hr.GBRank(n_estimators=5, min_child_samples=5).fit(X[order], y[order], qid[order])
    np.testing.assert_allclose(same.predict(X), ranker.predict(X), rtol=1e-6, atol=1e-9)
    ranker.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(hr.load(tmp_path / "model.safetensors").predict(X), ranker.predict(X))


def test_a_margin_of_nothing_is_refused_and_columns_that_do_not_differ_give_equal_scores():
    X, y, qid = rows()
    with pytest.raises(ValueError, match="margin must be a positive number, not 0"):
        hr.GBRank(margin=0).fit(X, y, qid)
    with pytest.raises(ValueError, match="alpha must be a number from 0"):
        hr.GBRank(alpha=1.5).fit(X, y, qid)
    assert np.ptp(hr.GBRank(n_estimators=2).fit(np.ones_like(X), y, qid).predict(X)) == 0
