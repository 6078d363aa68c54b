"""`tune` finds what an outer loop would find, over whole queries, and says what it did."""

import contextlib
import io
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge

import hingerank as hr
from hingerank.lab import query_folds
from hingerank.lab.methods import method_from_name
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.registry import RANKERS, ranker_class
from hingerank.search.proposals import Staged
from hingerank.search.settings import AROUND, STAGES, farther, scales_for, usual_search
from hingerank.search.tuning import RatingsRanker


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(n_queries=24, rows_per_query=(6, 14), n_features=6, seed=3)
    return hr.RankingData.from_arrays(made.X.astype(float) * 10.0 ** np.arange(-3, 3), made.y, made.qid)


def test_scores_are_those_of_a_plain_loop_over_folds(data):
    ranker = hr.tune(
        hr.RankSVM(tol=1e-8), data, folds=3, random_state=5, widen=False,
        params={"C": [0.01, 1.0], "scale": ["standard", "query-minmax"]},
    )  # fmt: skip
    order = np.random.default_rng(5).permutation(data.n_queries)
    for trial in ranker.tuning_.trials:
        expected = []
        for part in np.array_split(order, 3):
            held = data.subset(data.blocks.ids[np.sort(part)].tolist())
            rest = data.subset(data.blocks.ids[np.sort(np.setdiff1d(order, part))].tolist())
            expected.append(hr.RankSVM(tol=1e-8, **trial.setting).fit(rest).score(held))
        assert trial.scores == pytest.approx(expected, abs=1e-6), trial.setting
        assert trial.mean == pytest.approx(np.mean(expected), abs=1e-6)
        assert trial.error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(3), abs=1e-6) and trial.seconds > 0
    best = max(ranker.tuning_.trials, key=lambda t: t.mean)
    assert ranker.tuning_.score == best.mean
    again = clone(hr.RankSVM(tol=1e-8)).set_params(**ranker.tuning_.best).fit(data)
    assert np.allclose(again.predict(data), ranker.predict(data))  # fitted on everything
    assert ranker.fingerprint_["queries"] == 24


def test_ties_are_broken_by_document_ids_where_the_measure_does(data):
    """As `evaluate` does for the same rows: trec_eval ranks the larger id first."""
    few = np.sign(data.X[:, :2] - np.median(data.X[:, :2], axis=0))
    rows = hr.RankingData.from_arrays(few, data.y, data.qid, docid=np.arange(data.n_rows) % 7)
    train, held = rows.split(0.5, seed=0)
    grid, measure = {"C": [1.0], "scale": [None]}, "ndcg@3:trec"
    trial = hr.tune("rank-svm", train, validation=held, measure=measure, params=grid).tuning_.chosen
    scores = hr.RankSVM(C=1.0, tol=1e-2).fit(train).predict(held)
    assert trial.mean == pytest.approx(hr.evaluate(held, scores, measures=measure)[measure], abs=1e-12)
    assert trial.mean != pytest.approx(hr.evaluate(held.y, scores, held.qid, measure)[measure], abs=1e-3)


def test_the_scale_of_err_is_that_of_all_folds(data):
    rows = replace(data, y=np.where(np.arange(data.n_rows) == 0, 5.0, np.minimum(data.y, 2)))
    tried = {"C": [0.01, 1.0], "scale": ["standard"]}
    values = [
        [trial.mean for trial in hr.tune("rank-svm", rows, params=tried, measure=name).tuning_.trials]
        for name in ("err@10", "err@10:max_grade=5")
    ]
    assert values[0] == values[1]


def test_a_grade_that_the_measure_refuses_is_named_by_its_row_before_any_fit(data, monkeypatch):
    monkeypatch.setattr(hr.RankSVM, "fit", lambda *_, **__: pytest.fail("a fit"))
    train, held = data.split(0.5, seed=0)
    for rows, more in [(data, {}), (train, {"validation": held})]:
        judged = more.get("validation", rows)
        row = int(np.flatnonzero(judged.y > 1)[0])
        with pytest.raises(hr.DataError, match=f"not defined for grade {judged.y[row]:g} at row {row}: the scale"):
            hr.tune("rank-svm", rows, measure="err@10:max_grade=1", **more)


def test_a_grid_with_its_best_value_at_the_edge_grows(data):
    fixed = {"scale": "standard", "C": [1e-7, 1e-6]}
    grown = hr.tune("rank-svm", data, folds=3, params=fixed)
    kept = hr.tune("rank-svm", data, folds=3, params=fixed, widen=False)
    assert len(kept.tuning_.trials) == 2 and kept.tuning_.widened == {}
    assert grown.tuning_.widened["C"][:2] == [1e-5, 1e-4] or kept.C == 1e-7
    assert grown.tuning_.score >= kept.tuning_.score and len(grown.tuning_.trials) > 2


def test_growing_stops_at_limits_and_inside():
    assert farther([1, 3, 10], 3, None) == []
    assert farther([0.1, 1.0], 0.1, (0.01, 10)) == [0.01]
    assert farther(["hinge", "logistic"], "hinge", None) == []
    assert farther([5], 5, None) == []


@pytest.mark.parametrize("edge, inside", [(1e-9, 1e-8), (1e6, 1e5)])
def test_values_around_the_best_stay_within_limits(edge, inside):
    search = Staged([{"C": [edge, inside]}, {"loss": ["hinge"], "C": AROUND}], widen=False).propose(0)
    next(search)
    assert sorted(setting["C"] for setting in search.send([0.5, 0.4])) == sorted([edge, inside])


def test_parameters_that_name_features_find_them_in_folds(data):
    """Fits to folds got the columns without names."""
    names = [f"n{j}" for j in range(data.n_features)]
    named, grid = replace(data, feature_names=names), {"C": [0.001, 0.01], "monotone": {"n2": 1}}
    by_number = hr.tune("additive-rank-svm", data, folds=3, params=grid | {"monotone": {2: 1}})
    found = hr.tune("additive-rank-svm", named, folds=3, params=grid)
    assert np.array_equal(found.heights_, by_number.heights_)
    assert [trial.scores for trial in found.tuning_.trials] == [trial.scores for trial in by_number.tuning_.trials]
    train, held = named.split(0.3, seed=0)
    hr.tune("additive-rank-svm", train, validation=replace(held, feature_names=None), params=grid)  # without a warning
    results = hr.compare(
        [method_from_name("additive-rank-svm", grid | {"monotone": [{"n2": 1}]})], query_folds(named, 3, seed=0)
    )
    assert not results.failures()


def test_the_simplest_within_a_standard_error_on_request(data):
    params = {"scale": "standard", "C": [1e-4, 1e-2, 1.0]}
    best = hr.tune("rank-svm", data, folds=4, params=params, widen=False).tuning_
    simple = hr.tune("rank-svm", data, folds=4, params=params, widen=False, one_standard_error=True).tuning_
    within = [t.setting["C"] for t in best.trials if t.mean >= best.chosen.mean - best.chosen.error]
    assert simple.best["C"] == min(within)


def test_equal_settings_give_the_simpler_one(data):
    constant = hr.RankingData.from_arrays(np.ones((data.n_rows, 2)), data.y, data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker = hr.tune("rank-svm", constant, folds=2, params={"scale": None, "C": [1.0, 0.1, 10.0]}, widen=False)
    assert ranker.C == 0.1


def test_validation_data_choose_and_take_part_in_the_last_fit(data):
    train, held = data.split(0.3, seed=1)
    ranker = hr.tune("rank-svm", train, validation=held, params={"C": [0.01, 1.0], "scale": "standard"}, widen=False)
    assert ranker.tuning_.folds == 1 and ranker.fingerprint_["queries"] == data.n_queries
    expected = {C: hr.RankSVM(C=C, scale="standard").fit(train).score(held) for C in (0.01, 1.0)}
    assert {t.setting["C"]: t.mean for t in ranker.tuning_.trials} == pytest.approx(expected, abs=1e-3)
    assert all(t.error > 0 for t in ranker.tuning_.trials)


def test_sparse_validation_rows_leave_a_dense_ranker_dense(data):
    train, held = data.split(0.3, seed=1)
    sparse = replace(held, X=sp.csr_matrix(held.X))
    same, found = (hr.tune("rank-svm", train, validation=rows, params={"scale": "standard"}) for rows in (held, sparse))
    assert found.tuning_.best == same.tuning_.best and np.array_equal(found.coef_, same.coef_)


def test_a_blend_chosen_on_one_query_has_no_error(data):
    train, held = data.split(0.3, seed=1)
    one = held.subset(held.blocks.ids[:1])
    grid = {"C": [0.1], "scale": "standard"}
    blend = hr.tune(["rank-svm", "listnet"], train, validation=one, params=grid, blend=True)
    assert [trial.error for trial in blend.tuning_.trials] == [0.0] * len(blend.tuning_.trials)


def test_the_best_of_several_rankers_is_kept(data):
    params = {"scale": "standard", "tol": 1e-4}
    ranker = hr.tune(["listnet", hr.RankSVM(pair_weight="query")], data, folds=2, params=params)
    tuning = ranker.tuning_
    assert {t.ranker for t in tuning.trials} == {"listnet", "rank-svm"}
    means = {t.ranker: max(u.mean for u in tuning.trials if u.ranker == t.ranker) for t in tuning.trials}
    assert tuning.ranker == max(means, key=means.get)
    assert tuning.table()[0][0] == "ranker"


def test_tuning_goes_with_the_model_and_leaves_with_the_next_fit(data, tmp_path):
    ranker = hr.tune("rank-svm", data, folds=2, params={"C": [0.1, 1.0], "scale": "standard"}, widen=False)
    back = hr.load(ranker.save(tmp_path / "model"))
    assert back.tuning_ == ranker.tuning_ and str(back.tuning_).startswith("rank-svm: C=")
    assert "<table>" in back.tuning_._repr_html_()
    assert not hasattr(back.fit(data), "tuning_")


TUNED = [n for n in RANKERS if issubclass(ranker_class(n), BaseRanker | RatingsRanker)]


@pytest.mark.parametrize("name", TUNED)
def test_every_ranker_has_settings_to_try(name):
    cls = ranker_class(name)
    known = set(cls().get_params())
    for stage in STAGES[name]:
        assert set(stage) <= known, f"{cls.__name__} has no parameter {set(stage) - known}"


def test_a_comparison_tries_what_tune_tries(data):
    fold = query_folds(data, 3, seed=0)[0]
    for name in ("rank-svm", "fenchel-rank", "lightgbm"):
        found = usual_search(ranker_class(name)(), {}, lambda: scales_for(fold.part("train").X), None)
        assert method_from_name(name, fold=fold).search == found


@pytest.mark.parametrize("name", ["fenchel-rank", "rankboost", "crr", "fourier-rank-svm", "feature-selection"])
def test_defaults_work_from_the_name_alone(name, data):
    ranker = hr.tune(name, data, folds=2)
    assert len(ranker.tuning_.trials) >= 4 and not any(t.problem for t in ranker.tuning_.trials)
    assert ranker.score(data) > 0.5


def test_the_right_scaling_makes_nystroem_work_on_raw_features(data):
    train, test = data.split(0.4, seed=0)
    raw = hr.NystroemRankSVM(50, scale=None)
    with pytest.warns(hr.ScaleWarning):
        raw.fit(train)
    first, tuned = hr.NystroemRankSVM(50).fit(train), hr.tune(hr.NystroemRankSVM(50), train, folds=3)
    assert first.score(test) > raw.score(test) + 0.1 and tuned.score(test) > raw.score(test) + 0.1


def test_scalings_suit_the_data(data):
    assert scales_for(data.X) == ["standard", "query-minmax"]
    assert scales_for(sp.csr_matrix(data.X)) == ["deviation", "log", "query-minmax"]
    assert "query-minmax" not in scales_for(sp.csr_matrix(-data.X))
    tails = np.random.default_rng(0).lognormal(0, 3, (500, 3))
    assert scales_for(tails)[-2:] == ["log", "quantile"]
    sparse = hr.RankingData.from_arrays(sp.csr_matrix(data.X), data.y, data.qid)
    assert not any(t.problem for t in hr.tune("rank-svm", sparse, folds=2).tuning_.trials)


def test_a_setting_that_fails_is_named_and_does_not_stop_the_others(data):
    ranker = hr.tune("rank-svm", data, folds=2, params={"C": [-1.0, 1.0], "scale": "standard"}, widen=False)
    failed = [t for t in ranker.tuning_.trials if t.problem]
    assert ranker.C == 1.0 and len(failed) == 1 and "C must be a positive number" in failed[0].problem
    with pytest.raises(ValueError, match=r"no setting of rank-svm could be fitted.*positive number"):
        hr.tune("rank-svm", data, folds=2, params={"C": [-1.0, -2.0]})


def test_a_ranker_that_does_not_take_queries_is_named(data):
    with pytest.raises(ValueError, match=r"no setting of Ridge could be fitted.*unexpected keyword argument 'qid'"):
        hr.tune(Ridge(), data, folds=2, params={"alpha": [0.1, 1.0]})


def test_the_chosen_setting_is_in_the_table():
    trials = [Trial("rank-svm", {"C": C}, [mean], mean, 0.0, 0.1) for C, mean in [(1.0, 0.5), (0.1, 0.5), (9.0, 0.6)]]
    tuning = Tuning("ndcg@10", 1, "rank-svm", {"C": 0.1}, trials, 1.0, {})
    assert [(row[0], row[-1]) for row in tuning.table(2)[1]] == [("9", ""), ("0.1", "chosen")]
    assert [(row[0], row[-1]) for row in tuning.table(1)[1]] == [("0.1", "chosen")]
    assert [row[0] for row in tuning.table()[1]] == ["9", "0.1", "1"] and tuning.table(0)[1] == []


def test_a_mapping_or_a_matrix_is_one_value(data):
    for ranker, name, value in [
        (hr.AdditiveRankSVM(C=0.1), "monotone", {0: 1}),
        (hr.RankSVM(C=0.1, scale="standard"), "grade_weight", np.ones((len(np.unique(data.y)),) * 2)),
        (hr.LightGBMRanker(n_estimators=5), "params", {"lambda_l2": 1.0}),
    ]:
        grid = {parameter: [default] for parameter, default in ranker.get_params(deep=False).items()} | {name: value}
        found = hr.tune(ranker, data, folds=2, params=grid)
        assert np.array_equal(getattr(found, name), value) and len(found.tuning_.trials) == 1


def test_arrays_are_values_like_lists(data):
    grades = np.unique(data.y)
    matrices = [np.ones((len(grades),) * 2), 1.0 + np.abs(np.subtract.outer(grades, grades))]
    found = hr.tune(
        "rank-svm", data, folds=2, params={"grade_weight": matrices, "C": np.array([0.01, 0.1])} | {"scale": "standard"}
    )
    assert found.grade_weight in [matrix.tolist() for matrix in matrices] and len(found.tuning_.trials) >= 4
    rounds = hr.tune("rankboost", data, folds=2, params={"max_iter": np.array([1, 2])}).tuning_
    assert rounds.widened["max_iter"] and {type(trial.setting["max_iter"]) for trial in rounds.trials} == {int}


def test_mistakes_are_named(data):
    named, turned = (replace(data, feature_names=names) for names in (["a", "b", "c"], ["c", "b", "a"]))
    square, given = hr.RankingData(data.X @ data.X.T, data.y, data.qid), hr.KernelRankSVM("precomputed")
    for call, message in [
        (lambda: hr.tune(given, square, params={"C": 1.0}), "for folds use scikit-learn's GridSearchCV"),
        (lambda: hr.tune("rank-svm", data.X), "takes RankingData"),
        (lambda: hr.tune("rank-svm", data, params={"c": [1]}), r"no parameter 'c'; it has C, .*; did you mean 'C'\?$"),
        (lambda: hr.tune("rank-svm", data, random_state="a"), "^random_state must be a whole number"),
        (lambda: hr.tune("rank-svm", data, params={"C": []}), "grid of 'C' is empty"),
        (lambda: hr.tune("rank-svm", data, params=["C"]), "expected a mapping"),
        (lambda: hr.tune(3, data), "got 3 as a ranker"),
        (lambda: hr.tune("rank-svm", named, validation=turned), "the data and validation have different feature names"),
        (lambda: hr.tune("rank-svm", data, folds=1), "folds must be"),
        (lambda: hr.tune("mmr", data), "does not learn from graded rows"),
        (lambda: hr.tune("rank-svm", data, measure="ndgc@10"), "ndgc"),
        (lambda: hr.tune("rank-svm", data.subset(data.blocks.ids[:1].tolist())), "the data have only one"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_progress_is_shown_on_request_only(data, capsys, monkeypatch):
    hr.RankSVM(scale="standard").fit(data)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("hingerank.watching.FIRST", 0.0)
    monkeypatch.setattr("hingerank.watching.LINES", 0.0)
    stream = io.StringIO()
    with hr.progress(stream):
        hr.tune("rank-svm", data, folds=2, params={"C": [0.1, 1.0], "scale": "standard"}, widen=False)
    said = stream.getvalue()
    assert "tuning rank-svm, fold 2 of 2" in said and "gap" in said
    hr.RankSVM(scale="standard").fit(data)
    assert stream.getvalue() == said and capsys.readouterr() == ("", "")


def test_a_callback_hears_of_every_fit(data):
    heard = []
    hr.tune(
        "rank-svm", data, folds=2, params={"C": [0.1, 1.0], "scale": "standard"}, widen=False,
        progress=lambda *news: heard.append(news),
    )  # fmt: skip
    assert [done for done, _, _ in heard] == [1, 2, 3, 4] and heard[-1][1] == 4 and "ndcg@10" in heard[-1][2]


def test_a_blend_takes_the_best_setting_of_each_ranker_and_fits_no_fold_again(data, monkeypatch, tmp_path):
    """As many fits as without a blend, but for the last one of each member."""
    names, grid, fits = ["rank-svm", "additive-rank-svm"], {"C": [0.01, 0.1], "scale": ["standard"]}, []
    for kind in (hr.RankSVM, hr.AdditiveRankSVM):
        usual = kind.fit_path

        def path(self, *rest, usual=usual, **more):
            fits.append(type(self).__name__)
            return usual(self, *rest, **more)

        monkeypatch.setattr(kind, "fit_path", path)
    alone = [hr.tune(name, data, folds=3, params=grid, widen=False) for name in names]
    before = len(fits)
    blend = hr.tune(names, data, folds=3, params=grid, widen=False, blend=True)
    assert len(fits) == 2 * before == 12
    assert blend.tuning_.members == {name: ranker.tuning_.best for name, ranker in zip(names, alone)}
    for member, ranker in zip(blend.members_, alone):
        np.testing.assert_array_equal(member.predict(data), ranker.predict(data))
    values = blend.out_of_fold_["values"]
    told = {t.ranker: t for t in blend.tuning_.trials}
    assert (
        set(told) == {*names, "blend"} and blend.tuning_.ranker == "blend" and "blend: weights=" in str(blend.tuning_)
    )
    assert blend.tuning_.score == pytest.approx(values["equal" if blend.weights_[0] == 0.5 else "stack"][0], abs=0.02)
    back = hr.load(blend.save(tmp_path / "m"))
    assert back.tuning_ == blend.tuning_ and np.array_equal(back.predict(data), blend.predict(data))


def test_scores_for_a_blend_are_those_of_the_held_out_rows(data):
    from hingerank.search.folds import QueryFolds
    from hingerank.search.tuning import Plan, Study

    parts = QueryFolds(data, "ndcg@10", folds=3, keep_scores=True)
    study = Study("rank-svm", hr.RankSVM(scale="standard"), Plan(parts, blend=True))
    study.attempt([{"C": 0.1}, {"C": 1e-6}, {"C": 1.0}])
    best = study.best()
    assert [t is best for t in study.trials.values()] == [o[0].scores is not None for o in study.outcomes.values()]
    found = parts.out_of_fold([study.held_out_scores(best)])
    by_query = found.measured(found.scores[:, 0], "ndcg@10")
    for k, value in enumerate(best.scores):
        assert np.nanmean(by_query[found.part == k]) == pytest.approx(value)
    again = next(t for t in study.trials.values() if t is not best)  # whose scores are made again
    found = parts.out_of_fold([study.held_out_scores(again)])
    assert np.nanmean(found.measured(found.scores[:, 0], "ndcg@10")[found.part == 0]) == pytest.approx(again.scores[0])


def test_a_measure_without_a_value_on_a_fold_is_named(data):
    one = hr.RankingData.from_arrays(data.X, np.where(data.qid == data.qid[0], data.y, 0.0), data.qid)
    with pytest.raises(ValueError, match=r"pair_accuracy is not defined for anything that fold \d holds out"):
        hr.tune("rank-svm", one, measure="pair_accuracy", folds=np.int64(3), params={"C": [0.1], "scale": "standard"})
    none = hr.RankingData.from_arrays(data.X, np.zeros(data.n_rows), data.qid)
    with pytest.raises(ValueError, match="pair_accuracy is not defined for anything that the validation data have"):
        hr.tune("rank-svm", data, measure="pair_accuracy", validation=none, params={"C": [0.1], "scale": "standard"})


class Broken(hr.RankSVM):
    def fit(self, *_, **__):
        raise ValueError("it is broken")


def test_a_blend_tells_of_a_ranker_that_could_not_be_fitted(data):
    grid = {"C": [0.1], "scale": ["standard"]}
    blend = hr.tune([Broken(), "rank-svm", "ranknet"], data, folds=2, params=grid, widen=False, blend=True)
    assert [*blend.tuning_.members] == ["rank-svm", "ranknet"]
    assert {t.problem for t in blend.tuning_.trials if t.ranker == "Broken"} == {"it is broken"}


def test_the_error_is_that_of_a_ranker_that_failed(data):
    """The first ranker has no setting for the target, so nothing went wrong with it."""
    with pytest.raises(ValueError, match="could be fitted; the first error is: it is broken"):
        hr.tune(["fourier-rank-svm", Broken()], data, folds=2, params={"C": [0.1]}, serve="solr")


def test_a_ranker_that_cannot_be_blended_is_refused_before_any_fit(data, monkeypatch):
    from sklearn.linear_model import Ridge

    monkeypatch.setattr(hr.RankSVM, "fit_path", lambda *_, **__: pytest.fail("a fit"))
    with pytest.raises(ValueError, match="Ridge cannot be blended"):
        hr.tune(["rank-svm", Ridge()], data, blend=True, folds=2)


def test_a_blend_on_validation_rows_and_what_cannot_be_blended(data):
    train, validation = data.split(0.4, seed=0)
    grid = {"C": [0.01, 0.1], "scale": ["standard"]}
    blend = hr.tune(["rank-svm", "additive-rank-svm"], train, validation=validation, params=grid, blend=True)
    assert blend.fingerprint_["rows"] == data.n_rows and blend.tuning_.folds == 1 and blend.tuning_.chosen.error > 0
    for names, message in [
        ("rank-svm", "at least two rankers"),
        (["personal-rank-svm", "joint"], "learns from ratings"),
    ]:
        with pytest.raises(ValueError, match=message):
            hr.tune(names, data, blend=True)


class MadeFolds:
    """Five folds of 20 queries; settings of a kind differ from 0.5 by so much on every query, and by some noise."""

    measure = "ndcg@10"

    def __init__(self, worth, noise):
        rng = np.random.default_rng(0)
        easy = rng.normal(scale=0.2, size=(5, 20))
        self.values = {kind: 0.5 + w + easy + noise * rng.normal(size=(5, 20)) for kind, w in worth.items()}
        self.asked = []

    def __len__(self):
        return 5

    def outcomes(self, k, ranker, settings):
        from hingerank.search.folds import FoldOutcome

        for setting in settings:
            self.asked.append((k, setting["kind"]))
            values = self.values[setting["kind"]][k]
            yield FoldOutcome(setting, float(values.mean()), 0.0, by_query=values)


def test_a_setting_behind_on_the_same_queries_is_stopped_after_two_folds():
    from hingerank.search.tuning import Plan, Study

    worth = {"good": 0.0, "near": 0.006, "bad": -0.02}
    folds = MadeFolds(worth, 0.02)
    study = Study("made", None, Plan(folds))
    study.attempt([{"kind": kind} for kind in worth])
    assert [kind for k, kind in folds.asked if k == 2] == ["good", "near"] and (1, "bad") in folds.asked
    assert {"kind": "bad"} not in [trial.setting for trial in study.fitted()]
    best = study.best().setting["kind"]
    bad = next(t for t in study.trials.values() if t.setting["kind"] == "bad")
    assert bad.problem.startswith("stopped after 2 of 5 folds at 0.")
    behind = float(np.mean((folds.values[best] - folds.values["bad"])[:2]))
    assert study._worth(bad) == pytest.approx(study.best().mean - behind)
    patient = Study("made", None, Plan(MadeFolds(worth, 0.02), simplest=True))  # a simpler one may win
    patient.attempt([{"kind": kind} for kind in worth])
    assert len(patient.fitted()) == 3


def test_a_setting_that_adds_next_to_nothing_is_stopped():
    from hingerank.search.tuning import Plan, Study

    folds = MadeFolds({"first": 0.0, "same": 0.0002, "better": 0.01}, 0.001)
    study = Study("made", None, Plan(folds))
    study.attempt([{"kind": "first"}])
    study.attempt([{"kind": "same"}, {"kind": "better"}])
    assert [kind for k, kind in folds.asked if k == 4] == ["first", "better"]


def test_lines_and_curves_try_contexts_pair_weights_and_surfaces(data):
    stages = usual_search(hr.AdditiveRankSVM(), {}, lambda: scales_for(data.X), None).stages
    assert [list(stage) for stage in stages[1:]] == [
        ["smoothness", "C"],
        ["pair_weight", "C"],
        ["context"],
        ["interactions"],
        ["interactions"],
    ]
    sparse_stages = usual_search(hr.RankSVM(), {}, lambda: scales_for(sp.csr_matrix(data.X)), None).stages
    assert not any("context" in stage for stage in sparse_stages)


def test_curves_of_sparse_rows_with_negative_values_are_not_scaled_within_queries(data):
    """It is refused where a column of a query has negative values and absent ones, and all its settings failed."""
    for X, scales in ((data.X, [None, "query-minmax"]), (-sp.csr_matrix(data.X), [None])):
        first = usual_search(hr.AdditiveRankSVM(), {}, lambda X=X: scales_for(X), None).stages[0]
        assert first["scale"] == scales
    given = {"scale": ["query-minmax"]}
    kept = usual_search(hr.AdditiveRankSVM(), given, lambda: scales_for(-sp.csr_matrix(data.X)), None).stages[0]
    assert kept["scale"] == ["query-minmax"]


def test_more_surfaces_have_a_turn_only_where_some_have_won():
    for value, more in [(0.4, []), (0.6, [{"interactions": 20}])]:
        proposals = Staged(STAGES["additive-rank-svm"][-2:], {"interactions": None}).propose(0)
        assert next(proposals) == [{"interactions": None}, {"interactions": 6}]
        found = []
        with contextlib.suppress(StopIteration):
            found = proposals.send([0.5, value])
        assert found == more


def test_surfaces_are_found_where_two_features_work_together():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(1200, 4)), np.repeat(np.arange(60), 20)
    y = np.clip(np.round(1.2 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 1), 0, 3)
    ranker = hr.tune("additive-rank-svm", hr.RankingData(X, y, qid), folds=3, params={"smoothness": 1.0, "C": 0.01})
    assert ranker.interactions in (6, 20) and "interactions" in ranker.tuning_.best


def test_a_search_says_how_much_is_left(monkeypatch):
    """Off a terminal a line now and then: how many fits of how many, the best so far, and the time that is left."""
    monkeypatch.setattr("hingerank.watching.FIRST", 0.0)
    monkeypatch.setattr("hingerank.watching.LINES", 0.0)
    stream, data = io.StringIO(), hr.make_letor(12, seed=0)
    with hr.progress(stream):
        hr.tune("rank-svm", data, folds=2, params={"C": [0.01, 0.1], "scale": "standard"}, widen=False)
    lines = stream.getvalue().splitlines()
    found = [
        line
        for line in lines
        if re.search(r"fold \d of 2: \d of 4 fits, ndcg@10 0\.\d{4} so far, about \d+ s left", line)
    ]
    assert found and not any("left" in line for line in lines if "the last fit" in line)


def test_the_time_that_is_left_counts_the_fits_of_one_ranker(monkeypatch):
    from hingerank.search.tuning import Plan, Study

    clock, said = [0.0], []
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("hingerank.search.tuning.tell_outlook", said.append)

    class SlowFolds(MadeFolds):
        def outcomes(self, k, ranker, settings):
            for outcome in super().outcomes(k, ranker, settings):
                clock[0] += 5.0
                yield outcome

    plan = Plan(SlowFolds({"a": 0.0, "b": 0.1}, 0.01), progress=lambda *_: None)
    grid = Staged([{"kind": ["a", "b"]}])
    first, second = (Study(name, None, plan, grid, began=0.0) for name in ("first", "second"))
    first.run()
    said.clear()
    second.run()
    assert said[0].startswith("1 of 10 fits") and said[0].endswith("about 45 s left")  # not of both rankers


def test_trees_stop_inside_folds_and_the_last_fit_has_as_many():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X, qid = rng.random((400, 3)), np.repeat(np.arange(20), 20)
    data = hr.RankingData(X, np.round(3 * X[:, 0] + rng.normal(size=400) / 2).clip(0, 3), qid)
    asked = {"n_estimators": [300], "num_leaves": 7, "min_child_samples": 5, "learning_rate": 0.5}
    ranker = hr.tune("lightgbm", data, folds=2, params=asked, widen=False)
    assert 50 < ranker.n_estimators < 300 == asked["n_estimators"][0]
    assert ranker.n_iter_ == ranker.n_estimators == ranker.tuning_.best["n_estimators"]
    alone = hr.LightGBMRanker(num_leaves=7, min_child_samples=5, learning_rate=0.5)
    held = (X[:200], data.y[:200], qid[:200])
    path = alone.fit_path(X[200:], data.y[200:], qid[200:], [5, 300], eval_set=[held])
    assert path[0].n_iter_ == 5 < path[1].n_iter_ < 300
    whole = alone.fit_path(X[200:], data.y[200:], qid[200:], [5, path[1].n_iter_])
    assert all(np.array_equal(a.predict(X), b.predict(X)) for a, b in zip(path, whole))


def test_curves_of_all_smoothness_share_their_bins(monkeypatch):
    from hingerank.rankers import additive

    counted, data = [], hr.make_letor(12, seed=0)
    place = additive.place_knots
    monkeypatch.setattr(additive, "place_knots", lambda *given: counted.append(1) or place(*given))
    params = {"C": [0.01, 0.1], "smoothness": [1.0, 10.0], "scale": None}
    ranker = hr.tune("additive-rank-svm", data, folds=2, params=params, widen=False)
    assert len(counted) == 3  # one of each fold, and of the last fit
    first = ranker.tuning_.trials[0]
    alone = hr.tune("additive-rank-svm", data, folds=2, params=dict(first.setting), widen=False)
    assert alone.tuning_.chosen.mean == pytest.approx(first.mean, abs=0.02)


def test_the_command_says_how_much_is_left_off_a_terminal(monkeypatch, tmp_path, capsys):
    from hingerank.cli import main

    monkeypatch.setattr("hingerank.watching.FIRST", 0.0)
    monkeypatch.setattr("hingerank.watching.LINES", 0.0)
    hr.write(hr.make_letor(12, seed=0), tmp_path / "rows.txt")
    words = ["--set", "C=0.01,0.1", "--set", "scale=standard", "--folds", "2", "-o", str(tmp_path / "model"), "--json"]
    assert not main(["tune", str(tmp_path / "rows.txt"), *words])
    said = capsys.readouterr()
    assert " s left" in said.err and said.out.startswith("{")
