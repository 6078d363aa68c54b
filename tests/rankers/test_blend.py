"""Blends: scales and weights from out-of-fold scores, the rule between equal weights and the stack, the members."""

import warnings
from statistics import NormalDist

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.checks import WeakFitWarning
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.blending import STACK_C, OutOfFold, blend_scores, deal_queries, stack
from hingerank.structures import NonNegativeNear

KINDS = ("equal", "stack", "auto")
MEMBERS = [hr.RankSVM(C=0.1, scale="deviation"), hr.AdditiveRankSVM(n_knots=4, C=0.1)]


@pytest.fixture(scope="module")
def data():
    return hr.make_letor(24, (6, 14), n_features=5, seed=3, dtype="float64")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakFitWarning)
        yield


def made(seed, n_queries, noises, rows=12):
    """Out-of-fold scores of members that see the same utility, each with a noise of its own."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=n_queries * rows)
    y = np.searchsorted(np.quantile(utility, [0.6, 0.85]), utility).astype(float)
    scores = np.stack([utility + noise * rng.normal(size=len(utility)) for noise in noises], axis=1)
    return OutOfFold(scores, y, np.arange(0, len(y) + 1, rows), None, np.arange(n_queries) % 5)


def single(data):
    """The rows of one query with pairs."""
    mixed = next(q for q in data.blocks.ids.tolist() if np.ptp(data.y[data.qid == q]) > 0)
    return data.subset([mixed])


def names(found):
    return [f"m{k}" for k in range(found.scores.shape[1])]


def test_scores_are_the_weighted_sum_of_scaled_members(data):
    blend = hr.Blend(MEMBERS).fit(data)
    parts = [member.predict(data.X) for member in blend.members_]
    expected = sum(a * s / scale for a, s, scale in zip(blend.weights_, parts, blend.scales_))
    np.testing.assert_allclose(blend.predict(data), expected)
    alone = [ranker.fit(data).predict(data.X) for ranker in MEMBERS]
    np.testing.assert_array_equal(parts, alone)  # members are what they are outside of a blend


def test_scales_are_deviations_within_queries_of_rows_not_learnt_from(data):
    blend = hr.Blend(MEMBERS, folds=3).fit(data)
    part = deal_queries(data.X, data.y, data.blocks.offsets, None, 3, 0)
    held = np.empty(data.n_rows)
    of_row = part[data.blocks.numbers]
    for k in range(3):
        learn = of_row != k
        member = hr.RankSVM(C=0.1, scale="deviation").fit(data.X[learn], data.y[learn], data.qid[learn])
        held[~learn] = member.predict(data.X[~learn])
    apart = [held[data.qid == q] - held[data.qid == q].mean() for q in np.unique(data.qid)]
    assert blend.scales_[0] == pytest.approx(np.concatenate(apart).std())
    assert np.bincount(part).tolist() == [8, 8, 8]


@pytest.mark.parametrize("weights", ["equal", "stack", "auto"])
def test_members_are_fitted_once_per_fold_and_once_on_everything(data, weights, monkeypatch):
    fits = []
    for kind in (hr.RankSVM, hr.AdditiveRankSVM):
        usual = kind._source

        def taken(self, rows, *rest, usual=usual):
            fits.append((type(self).__name__, rows.n_rows))
            return usual(self, rows, *rest)

        monkeypatch.setattr(kind, "_source", taken)
    hr.Blend(MEMBERS, weights, folds=4).fit(data)
    for kind in ("RankSVM", "AdditiveRankSVM"):
        rows = [count for name, count in fits if name == kind]
        assert len(rows) == 5 and sum(rows) == 4 * data.n_rows and max(rows) == data.n_rows


def test_the_stack_is_the_constrained_optimum():
    """By brute force over a fine grid around what was found, and by the gap."""
    found = made(0, 20, [0.6, 1.0, 5.0])
    scaled = found._replace(scores=found.scores / found.spreads())
    solution = stack(scaled, tol=1e-9)
    assert solution.certificate.converged and solution.certificate.kind == "relative duality gap"
    query = scaled.query
    i, j = np.nonzero((found.y[:, None] > found.y[None, :]) & (query[:, None] == query[None, :]))
    share = 1 / np.bincount(query[i], minlength=20)[query[i]] / len(np.unique(query[i]))

    def value(a, centre):
        margin = (scaled.scores[i] - scaled.scores[j]) @ a
        return 0.5 * ((a - centre) ** 2).sum() + STACK_C * (share * np.maximum(0, 1 - margin) ** 2).sum()

    grid = np.linspace(0, 2, 2001)
    together = (scaled.scores[i] - scaled.scores[j]).sum(axis=1)
    common = min(grid, key=lambda t: 0.5 * t * t + STACK_C * (share * np.maximum(0, 1 - t * together) ** 2).sum())
    assert solution.value == pytest.approx(value(solution.w, common), rel=1e-3)
    rng = np.random.default_rng(0)
    others = np.maximum(0, solution.w + 0.05 * rng.normal(size=(300, 3)))
    assert min(value(other, common) for other in others) >= value(solution.w, common) - 1e-4
    assert (solution.w >= 0).all()


def test_a_useless_or_opposed_member_gets_no_weight():
    found = made(1, 60, [0.5, 1.0, 1.0])
    found.scores[:, 2] *= -1
    weights = blend_scores(found, names(found), "stack", "ndcg@10", 1e-3).weights
    assert weights[2] == 0 and weights[0] > weights[1] > 0 and weights.sum() == pytest.approx(1)


def test_nothing_pulls_weights_away_from_a_centre_without_a_loss():
    near = NonNegativeNear(np.array([0.5, 2.0]))
    w, v = np.array([1.0, 1.0]), np.array([0.3, -4.0])
    best = np.maximum(0, near.centre + v)  # of <v, w> - R(w)
    conjugate = v @ best - near.smooth(best)
    gap = near.gap(w, w - near.centre - v)
    assert gap == pytest.approx(near.smooth(w) + conjugate - v @ w)
    assert near.conjugate(near.centre + v) == pytest.approx(near.smooth(0 * w) + conjugate)


def true_value(blending, rows):
    scores = rows.scores / blending.scales @ blending.weights
    return float(np.nanmean(rows.measured(scores, "ndcg@10")))


def tried(noises, n_queries, seeds):
    """Mean NDCG@10 of new queries under equal weights, the stack and the rule, and of the best member."""
    values = []
    for seed in range(seeds):
        found, new = made(seed, n_queries, noises), made(1000 + seed, 300, noises)
        each = [blend_scores(found, names(found), kind, "ndcg@10", 1e-3) for kind in ("equal", "stack", "auto")]
        alone = max(float(np.nanmean(new.measured(scores, "ndcg@10"))) for scores in new.scores.T)
        values.append([*(true_value(blending, new) for blending in each), alone])
    return np.mean(values, axis=0)


def test_the_rule_goes_to_the_stack_where_a_member_is_far_behind():
    equal, stacked, ruled, alone = tried([0.7, 0.7, 5.0], 60, 6)
    assert stacked > equal + 0.02 and ruled > stacked - 0.001 and ruled > alone


def test_the_rule_stays_near_equal_weights_where_the_stack_overfits():
    equal, stacked, ruled, _ = tried([1.0] * 6, 10, 12)
    assert stacked < equal - 0.002 and ruled > stacked + 0.002 and ruled > equal - 0.001


@pytest.mark.parametrize("noises", [[0.5, 1.5, 1.5], [1.0, 4.0, 4.0], [0.5, 0.6, 5.0], [1.0] * 3, [3.0] * 3])
@pytest.mark.parametrize("n_queries", [20, 80])
def test_the_rule_is_not_below_the_best_member(noises, n_queries):
    _, _, ruled, alone = tried(noises, n_queries, 4)
    assert ruled > alone - 0.002


def test_mixed_weights_lie_between_equal_ones_and_the_stack():
    found = made(2, 40, [0.6, 1.0, 1.5])
    equal, stacked, mixed = (blend_scores(found, names(found), kind, "ndcg@10", 1e-3) for kind in KINDS)
    mean, error = mixed.difference
    p = NormalDist().cdf(mean / error)
    assert mixed.kind == "mixed" and 0 < p < 1 and mixed.share == pytest.approx(p)
    assert (equal.share, stacked.share) == (0, 1)
    np.testing.assert_allclose(mixed.weights, (1 - p) * equal.weights + p * stacked.weights)
    assert np.nanmean(mixed.per_query) == pytest.approx(
        mixed.values["mixed"][0]
    ) and mixed.weights.sum() == pytest.approx(1)
    level = made(3, 30, [1.0, 1.0])
    level.scores[:, 1] = 2 * level.scores[:, 0]  # one ranking: equal and stack do not differ
    assert blend_scores(level, names(level), "auto", "ndcg@10", 1e-3).share == 0.5


def test_out_of_fold_values_are_kept_with_their_errors(data, tmp_path):
    blend = hr.load(hr.Blend(MEMBERS, "stack").fit(data).save(tmp_path))
    told = blend.out_of_fold_
    assert told["kind"] == "stack" and told["measure"] == "ndcg@10"
    assert list(told["values"]) == ["rank-svm", "additive-rank-svm", "equal", "stack"]
    assert all(0 < value <= 1 and 0 < error < 0.2 for value, error in told["values"].values())
    assert told["difference"][0] == pytest.approx(told["values"]["stack"][0] - told["values"]["equal"][0])
    assert blend.certificate_.converged and blend.trace_


def test_document_ids_break_ties_of_out_of_fold_scores(data):
    """By TREC's rule the larger id comes first, whatever the order of the rows; in tune as in a blend."""
    rng, measure = np.random.default_rng(5), "ndcg@10:trec"
    X, docid = np.sign(data.X - np.median(data.X, axis=0)), rng.permutation(data.n_rows).astype(str)
    orders = np.arange(data.n_rows), rng.permutation(data.n_rows)
    one, other = (hr.RankingData.from_arrays(X[at], data.y[at], data.qid[at], docid=docid[at]) for at in orders)
    values, again = (hr.Blend(MEMBERS, measure=measure).fit(rows).out_of_fold_["values"] for rows in (one, other))
    assert values["equal"] == pytest.approx(again["equal"])
    blend = hr.tune(MEMBERS, other, validation=one, measure=measure, params={"C": [0.1]}, blend=True)
    for name in ("rank-svm", "additive-rank-svm"):
        best = max(trial.mean for trial in blend.tuning_.trials if trial.ranker == name)
        assert blend.out_of_fold_["values"][name][0] == pytest.approx(best)


def test_weights_of_rows_count_as_rows_given_again_in_the_stack(data):
    weight = np.random.default_rng(4).integers(0, 3, data.n_rows)
    again = [np.repeat(part, weight, axis=0) for part in (data.X, data.y, data.qid)]
    one, other = hr.Blend(MEMBERS, "stack").fit(data, sample_weight=weight), hr.Blend(MEMBERS, "stack").fit(*again)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=2e-3)
    np.testing.assert_allclose(one.scales_, other.scales_, rtol=2e-3)


def test_members_that_scale_within_queries_or_learn_by_name(data):
    named = hr.RankingData(data.X, data.y, data.qid, feature_names=list("abcde"))
    members = [hr.RankSVM(scale="query-minmax"), hr.AdditiveRankSVM(n_knots=4, monotone={"b": 1})]
    blend = hr.Blend(members).fit(named)
    assert [str(n) for n in blend.members_[1].feature_names_in_] == list("abcde")
    parts = [member.predict(named) / scale for member, scale in zip(blend.members_, blend.scales_)]
    np.testing.assert_allclose(blend.predict(named), np.mean(parts, axis=0))
    with pytest.raises(ValueError, match="needs qid"):
        hr.Blend(members[:1]).fit(data).predict(data.X)


def test_blends_of_blends_and_own_rankers(data):
    class Twice(hr.RankSVM):
        def predict(self, X, qid=None):
            return 2 * super().predict(X, qid)

    inner = hr.Blend(MEMBERS)
    outer = hr.Blend([inner, Twice(scale="deviation")]).fit(data)
    parts = [m.predict(data.X, data.qid) / s for m, s in zip(outer.members_, outer.scales_)]
    np.testing.assert_allclose(outer.predict(data), np.mean(parts, axis=0))
    plain = hr.Blend([inner, hr.RankSVM(scale="deviation")]).fit(data)
    np.testing.assert_allclose(outer.predict(data), plain.predict(data))  # the scale takes the factor out again


def test_contributions_are_those_of_the_members(data):
    blend = hr.Blend([*MEMBERS, hr.RankSVM(scale="query-standard")], "stack").fit(data)
    found = blend.explain(data)
    each = [member.explain(data).contributions for member in blend.members_]
    expected = sum(a / s * part for a, s, part in zip(blend.weights_, blend.scales_, each))
    np.testing.assert_allclose(found.contributions, expected, atol=1e-12)
    assert found.exact and "members" in found.how and np.abs(found.rest).max() < 1e-9
    rough = hr.Blend([MEMBERS[0], hr.NystroemRankSVM(10)]).fit(data).explain(data)
    assert not rough.exact and "gradient" in rough.how


def test_mistakes_are_named(data):
    one = single(data)
    for blend, rows, message in [
        (hr.Blend(hr.RankSVM()), data, "members must be a list"),
        (hr.Blend([]), data, "members must be a list"),
        (hr.Blend("rank-svm"), data, "members must be a list"),
        (hr.Blend(["rank-svn"]), data, "did you mean 'rank-svm'"),
        (hr.Blend(["mmr"]), data, "MMR does not score graded rows"),
        (hr.Blend(weights="best"), data, "'equal', 'stack' or 'auto', not 'best'"),
        (hr.Blend(folds=1), data, "folds"),
        (hr.Blend(measure="ndgc@10"), data, "ndgc"),
        (hr.Blend(weights="stack"), one, "one query only"),
    ]:
        with pytest.raises(ValueError, match=message):
            blend.fit(rows)
    trees = hr.Blend(["rank-svm", "lightgbm"])
    pytest.importorskip("lightgbm")
    with pytest.raises(ValueError, match="LightGBMRanker takes no sample_weight"):
        trees.fit(data, sample_weight=np.ones(data.n_rows) * 2)


def test_one_query_is_scaled_by_its_own_rows(data):
    one = single(data)
    blend = hr.Blend(MEMBERS, "auto").fit(one)
    assert blend.weights_.tolist() == [0.5, 0.5] and blend.certificate_.kind == "training ndcg@10"
    assert blend.scales_[0] == pytest.approx(blend.members_[0].predict(one).std())


def test_mapped_rows_stay_in_their_file(data, tmp_path, monkeypatch):
    from hingerank.data import rows_view

    hr.write(hr.RankingData(data.X, data.y, data.qid), tmp_path / "rows/")
    mapped = hr.read(tmp_path / "rows")
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)
    monkeypatch.setattr(rows_view.RowsView, "copied", lambda self, why: pytest.fail(f"copied for {why}"))
    one, other = hr.Blend(MEMBERS).fit(data), hr.Blend(MEMBERS).fit(mapped)
    np.testing.assert_allclose(other.predict(mapped), one.predict(data), rtol=1e-3, atol=1e-3)


def test_trees_blend_with_lines_and_files_hold_plain_arrays(data, tmp_path):
    pytest.importorskip("lightgbm")
    members = [MEMBERS[0], hr.LightGBMRanker(5, min_child_samples=2)]
    blend = hr.Blend(members, "auto").fit(data)
    back = hr.load(blend.save(tmp_path))
    assert np.array_equal(back.predict(data), blend.predict(data))
    assert isinstance(back.members_[1], hr.LightGBMRanker) and isinstance(back.members[0], BaseRanker)


def test_a_forged_file_is_refused(data, tmp_path):
    blend = hr.Blend(MEMBERS).fit(data)
    for name, value, words in [
        ("weights_", np.array([1.0]), "scales_ has shape"),
        ("scales_", np.array([1.0, 0.0]), "scales_ must be above 0"),
        ("members_", blend.members_[:1], "members_ has 1 rankers"),
        ("weights_", np.array([1.0, -1.0]), "below 0"),
    ]:
        usual = getattr(blend, name)
        setattr(blend, name, value)
        with pytest.raises(hr.ModelFileError, match=words):
            blend.save(tmp_path / "m")
        setattr(blend, name, usual)


class Louder(hr.RankSVM):
    def predict(self, X, qid=None):
        return 100 * super().predict(X, qid)


@pytest.mark.parametrize("queries", [1, 8])
def test_scales_are_those_of_a_members_own_predict(queries):
    data = hr.make_letor(queries, 20, n_features=3, seed=2, dtype="float64")
    loud, plain = hr.Blend([Louder(), hr.RankSVM()]).fit(data).scales_
    assert loud == pytest.approx(100 * plain)
