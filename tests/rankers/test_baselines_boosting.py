"""AdaRank and RankBoost against plain implementations over listed pairs and rankings, and a case done by hand."""

import numpy as np
import pytest

import hingerank as hr


def average_precision(y, s):
    ranked = y[np.argsort(-s, kind="stable")] > 0
    places = np.flatnonzero(ranked) + 1
    return float(np.mean(np.arange(1, len(places) + 1) / places))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(9), 12)
    X = rng.normal(size=(108, 5))
    y = np.clip(np.round(X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=108)), 0, 2)
    return X, y, qid


def test_adarank_by_hand():
    """Feature 0 ranks query a with AP 1 and query b with AP 1/2; feature 1 ranks both with AP 1."""
    X = np.array([[3, 3], [2, 1], [1, 2], [3, 2], [2, 3], [1, 1]], float)
    y, qid = [1, 0, 0, 0, 1, 0], list("aaabbb")
    ranker = hr.AdaRank(max_iter=2, monotone=False).fit(X[:, [0]], y, qid)
    assert ranker.features_.tolist() == [0, 0]
    first = 0.5 * np.log((1 + 0.75) / (1 - 0.75))
    weights = np.exp([-1.0, -0.5]) / np.exp([-1.0, -0.5]).sum()
    mean = weights @ [1.0, 0.5]
    np.testing.assert_allclose(ranker.alphas_, [first, 0.5 * np.log((1 + mean) / (1 - mean))], rtol=1e-12)
    np.testing.assert_allclose(ranker.coef_, [ranker.alphas_.sum()])
    both = hr.AdaRank(max_iter=5).fit(X, y, qid)  # feature 1 ranks both perfectly: nothing is left to do
    assert both.features_.tolist() == [1] and both.trace_[0]["value"] == 1.0 and np.isfinite(both.alphas_).all()


def test_adarank_without_a_round_can_be_saved(tmp_path):
    """No query has two grades, so no feature is taken; the weights were whole numbers, which a model file refused."""
    ranker = hr.AdaRank().fit([[1.0], [2.0]], [1, 1], ["a", "b"])
    assert hr.load(ranker.save(tmp_path / "m")).predict([[3.0]]).tolist() == [0.0]


@pytest.mark.parametrize("monotone", [True, False])
def test_adarank_is_its_definition(monotone, data):
    X, y, qid = data
    blocks = [qid == q for q in np.unique(qid)]
    E = np.array([[average_precision(y[b], x[b]) for b in blocks] for x in X.T])
    P, f, best, chosen, alphas, skipped = np.full(9, 1 / 9), np.zeros(len(y)), -1.0, [], [], set()
    while len(chosen) < 8 and len(skipped) < 5:
        quality = [-1.0 if k in skipped else E[k] @ P for k in range(5)]
        k = int(np.argmax(quality))
        alpha = 0.5 * np.log((P @ (1 + E[k])) / (P @ (1 - E[k])))
        values = np.array([average_precision(y[b], (f + alpha * X[:, k])[b]) for b in blocks])
        if monotone and values.mean() <= best + 1e-10:
            skipped.add(k)
            continue
        f, best, skipped = f + alpha * X[:, k], values.mean(), set()
        P = np.exp(-values) / np.exp(-values).sum()
        chosen.append(k)
        alphas.append(alpha)
    ranker = hr.AdaRank(max_iter=8, monotone=monotone).fit(X, y, qid)
    assert ranker.features_.tolist() == chosen
    np.testing.assert_allclose(ranker.alphas_, alphas, rtol=1e-10)
    np.testing.assert_allclose(ranker.predict(X), f, rtol=1e-10)
    if monotone:
        assert all(a["value"] < b["value"] for a, b in zip(ranker.trace_, ranker.trace_[1:]))
    assert ranker.certificate_.kind == "training map" and ranker.certificate_.n_iter == len(chosen)
    np.testing.assert_allclose(ranker.certificate_.value, hr.evaluate(y, f, qid, "map")["map"], rtol=1e-12)


def test_adarank_towards_other_measures_and_with_negated_features(data):
    X, y, qid = data
    plain = hr.AdaRank(measure="ndcg@5").fit(X, y, qid)
    both = hr.AdaRank(measure="ndcg@5", negated=True).fit(X, y, qid)
    value = {r: hr.evaluate(y, r.predict(X), qid, "ndcg@5")["ndcg@5"] for r in (plain, both)}
    np.testing.assert_allclose(plain.certificate_.value, value[plain], rtol=1e-12)
    assert (plain.coef_ >= 0).all() and both.coef_[1] < 0 and value[both] > value[plain] + 0.05
    with pytest.raises(ValueError, match="between 0 and 1"):
        hr.AdaRank(measure="dcg@5").fit(X, y, qid)


def test_adarank_gains_nothing_from_the_order_of_the_file(data):
    """A feature with equal values throughout must not look good because the file lists good rows first."""
    X, y, qid = data
    order = np.lexsort((-y, qid))
    flat = np.c_[np.zeros(len(y)), X[:, 0]]
    assert hr.AdaRank(max_iter=1).fit(flat[order], y[order], qid[order]).features_.tolist() == [1]
    assert hr.AdaRank(max_iter=1, measure="map:ties=stable").fit(flat[order], y[order], qid[order]).features_[0] == 0


def test_adarank_counts_rows(data):
    X, y, qid = data
    with pytest.raises(ValueError, match="sample_weight must be whole numbers"):
        hr.AdaRank().fit(X, y, qid, np.full(len(y), 0.5))


def test_rankboost_is_its_definition(data):
    X, y, qid = data
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    m = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    D = m[i] * m[j] / (m[i] * m[j]).sum()
    cuts = [np.sort(x)[:-1] + np.diff(np.sort(x)) / 2 for x in X.T]
    chosen, f = [], np.zeros(len(y))
    for _ in range(10):
        r = {
            (k, c): D @ ((X[i, k] > c).astype(float) - (X[j, k] > c)) for k in range(5) for c in cuts[k]
        }  # fmt: skip
        k, c = max(r, key=lambda at: abs(r[at]))
        alpha = 0.5 * np.log((1 + r[k, c]) / (1 - r[k, c]))
        D *= np.exp(-alpha * ((X[i, k] > c).astype(float) - (X[j, k] > c)))
        D /= D.sum()
        f += alpha * (X[:, k] > c)
        chosen.append((k, c, alpha, r[k, c]))
    ranker = hr.RankBoost(max_iter=10).fit(X, y, qid, m)
    assert ranker.features_.tolist() == [k for k, *_ in chosen]
    np.testing.assert_allclose(ranker.thresholds_, [c for _, c, *_ in chosen], rtol=1e-14)
    np.testing.assert_allclose(ranker.alphas_, [a for *_, a, _ in chosen], rtol=1e-9)
    np.testing.assert_allclose([entry["r"] for entry in ranker.trace_], [r for *_, r in chosen], rtol=1e-9)
    np.testing.assert_allclose(ranker.predict(X), f, atol=1e-9)
    pairs = (m[i] * m[j]) @ np.exp(f[j] - f[i]) / (m[i] * m[j]).sum()
    np.testing.assert_allclose(ranker.certificate_.value, pairs, rtol=1e-9)


def test_rankboost_lowers_its_loss_by_what_theory_says(data):
    """Each round multiplies the loss by at most sqrt(1 - r²)."""
    X, y, qid = data
    loss = 1.0
    for entry in hr.RankBoost(max_iter=60).fit(X, y, qid).trace_:
        assert entry["value"] <= loss * np.sqrt(1 - entry["r"] ** 2) * (1 + 1e-9)
        loss = entry["value"]


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_thresholds_few_and_many():
    rng = np.random.default_rng(2)
    X = np.c_[rng.normal(size=3000), rng.integers(0, 4, 3000), np.ones(3000)]
    y = (X[:, 0] > 0.3) + (X[:, 1] > 1)
    ranker = hr.RankBoost(max_iter=2, n_thresholds=10)
    thresholds, codes = ranker._binned(X)
    assert [len(cuts) for cuts in thresholds] == [10, 3, 0]
    np.testing.assert_allclose(thresholds[1], [0.5, 1.5, 2.5])
    for k, cuts in enumerate(thresholds):
        assert (codes[:, k] == (X[:, [k]] > cuts).sum(1)).all()
    assert set(ranker.fit(X, y).features_) == {0, 1}
    with pytest.raises(ValueError, match="n_thresholds must be a whole number from 1 to 255"):
        hr.RankBoost(n_thresholds=256).fit(X, y)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_what_one_round_solves_stays_finite():
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 0, 1]
    for ranker in (hr.RankBoost(max_iter=50).fit(X, y), hr.AdaRank(max_iter=50).fit(X, y)):
        assert np.isfinite(ranker.predict(X)).all() and ranker.rank(X)[0] == 2


@pytest.mark.parametrize("cls", [hr.AdaRank, hr.RankBoost])
def test_nothing_to_learn_is_no_error(cls):
    flat = cls().fit(np.ones((6, 2)), [0, 1, 0, 1, 2, 0], [1, 1, 1, 2, 2, 2])
    assert np.ptp(flat.predict(np.ones((6, 2)))) == 0
    lonely = cls().fit([[1.0], [2.0]], [0, 1], ["a", "b"])
    assert lonely.predict([[5.0]]).tolist() == [0.0] and lonely.certificate_.n_iter == 0


@pytest.mark.parametrize("cls", [hr.AdaRank, hr.RankBoost])
def test_paths_are_single_fits(cls, data, tmp_path):
    X, y, qid = data
    rounds = [7, 1, 3]
    for n, ranker in zip(rounds, cls().fit_path(X, y, qid, rounds)):
        alone = cls(max_iter=n).fit(X, y, qid)
        assert ranker.max_iter == n and ranker.features_.tolist() == alone.features_.tolist()
        assert np.array_equal(ranker.predict(X), alone.predict(X))
        assert ranker.certificate_.value == alone.certificate_.value
        assert np.array_equal(hr.load(ranker.save(tmp_path)).predict(X), alone.predict(X))
    for bad in ([], [0], [1.5], 3):
        with pytest.raises(ValueError, match="max_iter"):
            cls().fit_path(X, y, qid, bad)
