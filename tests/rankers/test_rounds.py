"""pair_weight="ndcg": pair weights by brute force, fits that are those of listed pairs, certificates of every round."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.data import rows_view
from hingerank.losses import make_loss
from hingerank.losses.rankings import RankDistanceLoss
from hingerank.preferences import ExplicitPairs, GradedPreferences
from hingerank.problem import Problem, RowsDesign
from hingerank.solvers.newton import newton


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(14, (5, 12), n_features=4, n_grades=4, seed=7, dtype="float64")
    return hr.RankingData(made.X, made.y, made.qid)


def listed(y, qid, scores, item=None):
    """Every pair with its weight, from the definition; equal scores keep their row order."""
    winners, losers, weight, plain = [], [], [], []
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        rank = np.empty(len(rows), int)
        rank[np.argsort(-scores[rows], kind="stable")] = 1 + np.arange(len(rows))
        best = np.sort(2.0 ** y[rows] - 1)[::-1] @ (1 / np.log2(1 + np.arange(1, len(rows) + 1)))
        for a in range(len(rows)):
            for b in range(len(rows)):
                if y[rows[a]] > y[rows[b]]:
                    d = abs(rank[a] - rank[b])
                    own = 1.0 if item is None else item[rows[a]] * item[rows[b]]
                    gains = (2.0 ** y[rows[a]] - 2.0 ** y[rows[b]]) / best
                    winners.append(rows[a])
                    losers.append(rows[b])
                    plain.append(own)
                    weight.append(own * gains * (1 / np.log2(1 + d) - 1 / np.log2(2 + d)))
    weight = np.array(weight) * sum(plain) / sum(weight)
    return ExplicitPairs(winners, losers, len(y), weight)


@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_gradient_and_curvature_are_those_of_listed_pairs(data, name, weighted):
    rng = np.random.default_rng(0)
    item = rng.uniform(0.5, 2, data.n_rows) if weighted else None
    ranked, s, v = rng.integers(0, 9, data.n_rows).astype(float), *rng.normal(size=(2, data.n_rows))  # with ties
    preferences = GradedPreferences(data.y, data.blocks.offsets, item_weight=item)
    found = RankDistanceLoss(make_loss(name), preferences, ranked).at(s, preferences)
    expected = make_loss(name).at(s, listed(data.y, data.qid, ranked, item))
    assert found.value == pytest.approx(expected.value)
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-10)
    np.testing.assert_allclose(found.curvature(v), expected.curvature(v), atol=1e-10)
    np.testing.assert_allclose(found.diagonal, expected.diagonal, atol=1e-10)


def test_weights_are_1_on_average(data):
    preferences = GradedPreferences(data.y, data.blocks.offsets)
    loss = RankDistanceLoss(make_loss("squared_hinge"), preferences, data.X[:, 0])
    assert loss.at(np.zeros(data.n_rows), preferences).value == pytest.approx(preferences.n_pairs)


def test_every_round_is_the_optimum_of_its_listed_pairs(data):
    w = hr.RankSVM(C=0.1, tol=1e-10).fit(data).coef_
    for rounds in (2, 3):
        pairs = listed(data.y, data.qid, data.X @ w)
        w = newton(Problem(RowsDesign(data.X), make_loss("squared_hinge"), pairs, C=0.1), tol=1e-10).w
        ranker = hr.RankSVM(C=0.1, pair_weight="ndcg", rounds=rounds, tol=1e-10).fit(data)
        np.testing.assert_allclose(ranker.coef_, w, rtol=1e-4, atol=1e-6)
        assert len(ranker.rounds_) == rounds and all(told["status"] == "converged" for told in ranker.rounds_)


def test_the_loop_keeps_its_trace_and_the_last_certificate(data, tmp_path):
    ranker = hr.AdditiveRankSVM(n_knots=4, C=0.1, pair_weight="ndcg").fit(data)
    assert ranker.rounds == 3 and [told["moved"] is None for told in ranker.rounds_] == [True, False, False]
    assert [entry["round"] for entry in ranker.trace_] == sorted(entry["round"] for entry in ranker.trace_)
    assert {entry["round"] for entry in ranker.trace_} == {1, 2, 3}
    assert ranker.certificate_.value == ranker.rounds_[-1]["value"] and ranker.certificate_.converged
    back = hr.load(ranker.save(tmp_path))
    assert back.rounds_ == ranker.rounds_ and np.array_equal(back.predict(data), ranker.predict(data))
    assert not hasattr(ranker.set_params(pair_weight="uniform").fit(data), "rounds_")


def test_paths_and_bounds_have_rounds_too(data):
    settings = {"n_knots": 4, "pair_weight": "ndcg", "tol": 1e-8}
    path = hr.AdditiveRankSVM(**settings).fit_path(data, Cs=[0.01, 0.1])
    alone = hr.AdditiveRankSVM(C=0.1, **settings).fit(data)
    np.testing.assert_allclose(path[1].predict(data), alone.predict(data), atol=1e-3 * np.ptp(alone.predict(data)))
    rising = hr.AdditiveRankSVM(C=0.1, monotone={0: 1}, **settings).fit(data)
    assert (np.diff(rising.curves_[0].heights) >= 0).all() and len(rising.rounds_) == 3


@pytest.mark.parametrize("scale", [None, "standard", "query-minmax"])
def test_mapped_rows_have_rounds_too(data, tmp_path, monkeypatch, scale):
    hr.write(data, tmp_path / "rows/")
    ranker, mapped = hr.RankSVM(C=0.1, pair_weight="ndcg", scale=scale, tol=1e-6), hr.read(tmp_path / "rows")
    in_memory = ranker.fit(data).coef_
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)  # otherwise so few rows are copied
    np.testing.assert_allclose(ranker.fit(mapped).coef_, in_memory, rtol=1e-3, atol=1e-5)


def test_no_relevant_row_leaves_the_first_fit(data):
    low = hr.RankingData(data.X, data.y - 9, data.qid)  # grades below 0 gain nothing
    one, other = hr.RankSVM(C=0.1).fit(low), hr.RankSVM(C=0.1, pair_weight="ndcg").fit(low)
    assert np.array_equal(one.coef_, other.coef_) and len(other.rounds_) == 1


def test_mistakes_are_named(data):
    for ranker, message in [
        (hr.RankSVM(pair_weight="ndcg", rounds=1), "rounds"),
        (hr.RankSVM(pair_weight="ndcg", loss="exponential"), "does not support the loss 'exponential'"),
        (hr.NystroemRankSVM(5, pair_weight="ndcg"), "NystroemRankSVM has no pair_weight='ndcg'"),
        (hr.RankSVM(pair_weight="ndgc"), "must be 'uniform', 'query' or 'ndcg', not 'ndgc'; did you mean 'ndcg'?"),
        (hr.AdditiveRankSVM(pair_weight=["query"]), "must be 'uniform', 'query' or 'ndcg'"),
        (hr.NystroemRankSVM(5, pair_weight="ndgc"), "must be 'uniform' or 'query', not 'ndgc'$"),
    ]:
        with pytest.raises(ValueError, match=message):
            ranker.fit(data)
    with pytest.raises(ValueError, match="pair_weight"):
        hr.RankSVM(pair_weight="ndcg").fit_pairs(data.X, [0], [1])
