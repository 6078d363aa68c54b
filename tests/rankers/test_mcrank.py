"""McRank: the grade expected under the probabilities that LightGBM's own classifier gives."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.forms import ExportError

lightgbm = pytest.importorskip("lightgbm")


def rows(seed=0, n_queries=12, size=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 4))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)), [-0.3, 0.4, 1.2]).astype(float)
    return X, y, np.repeat(np.arange(n_queries), size)


SMALL = {"n_estimators": 8, "num_leaves": 5, "min_child_samples": 5}


@pytest.mark.parametrize("values", [[0, 1, 2, 3], [-1.5, 0.0, 0.25, 40.0]])
def test_scores_are_the_expected_grades_of_lightgbms_classifier(values):
    X, y, qid = rows()
    same = {"random_state": 0, "n_jobs": 1, "verbosity": -1, "deterministic": True, "force_col_wise": True}
    own = lightgbm.LGBMClassifier(**SMALL, **same).fit(X, y.astype(int))
    ranker = hr.McRank(**SMALL).fit(X, np.array(values)[y.astype(int)], qid)
    assert ranker.grades_.tolist() == values
    np.testing.assert_allclose(ranker.predict(X), own.predict_proba(X) @ values, rtol=1e-12)


@pytest.mark.parametrize("values", [[0, 1, 2, 3], [-1.5, 0.0, 0.25, 40.0], [0, 1, 1, 1]])
def test_the_ordinal_form_has_newtons_steps_for_every_grade_alone(values):
    """A boosted logistic regression of "at least k" for each k: every leaf is the step of its rows, listed."""
    X, y, qid = rows()
    X, grades = X.round(1), np.array(values, float)[y.astype(int)]
    settings = {"num_leaves": 5, "min_child_samples": 5, "learning_rate": 0.5}
    ranker = hr.McRank(3, **settings, variant="ordinal").fit(X, grades, qid)
    distinct, score = ranker.grades_, np.full(len(y), ranker.grades_[0])
    assert len(ranker.models_) == len(distinct) - 1
    for k, model in enumerate(ranker.models_):
        above, score_before = grades > distinct[k], np.zeros(len(y))
        for rounds in (1, 2, 3):
            part = hr.McRank(rounds, **settings, variant="ordinal").fit(X, grades, qid).models_[k].scores(X, 1)
            chance = 1 / (1 + np.exp(-score_before))
            for leaf in np.unique(np.round(part - score_before, 9)):
                here = np.round(part - score_before, 9) == leaf
                step = (above - chance)[here].sum() / (chance * (1 - chance))[here].sum()
                assert leaf == pytest.approx(0.5 * step, rel=1e-4, abs=1e-6)
            score_before = part
        score = score + (distinct[k + 1] - distinct[k]) / (1 + np.exp(-model.scores(X, 1)))
    np.testing.assert_allclose(ranker.predict(X), score, rtol=1e-12)


def test_the_ordinal_form_is_saved_explained_cut_bagged_and_stopped(tmp_path):
    X, y, qid = rows()
    ranker = hr.McRank(**SMALL, variant="ordinal", n_bags=2).fit(X, y, qid)
    assert len(ranker.models_) == 2 * 3
    same = hr.load(ranker.save(tmp_path / "model.safetensors"))
    assert same.variant == "ordinal" and np.array_equal(same.predict(X), ranker.predict(X))
    told = ranker.explain(X[:15], qid[:15])
    np.testing.assert_allclose(told.base + told.contributions.sum(axis=1), ranker.predict(X[:15]), rtol=1e-9)
    with pytest.raises(ValueError, match="models_ has 6 ensembles, expected 4"):
        hr.McRank()._restore(ranker._state())
    other, held, groups = rows(seed=1)
    small = {"num_leaves": 5, "min_child_samples": 5, "variant": "ordinal"}
    stopped = hr.McRank(n_estimators=60, **small, early_stopping_rounds=3)
    stopped.fit(X, y, qid, eval_set=[(other, held, groups)])
    path = hr.McRank(**small).fit_path(X, y, qid, range(1, stopped.n_iter_ + 4))
    scores = [part.score(other, held, groups) for part in path]
    assert stopped.n_iter_ < 57 and int(np.argmax(scores)) + 1 == stopped.n_iter_
    with pytest.raises(ValueError, match="variant must be 'classes' or 'ordinal'"):
        hr.McRank(variant="other").fit(X, y, qid)
    assert hr.McRank(**small).fit(X, np.full_like(y, 2.0), qid).predict(X) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="no column has different values"):
        hr.McRank(variant="ordinal").fit(np.ones_like(X), y, qid)


def test_the_likelihood_rises_with_every_round_and_products_of_columns_are_learnt():
    X, y, qid = rows()
    ranker = hr.McRank(n_estimators=40, num_leaves=7, min_child_samples=5)
    path = ranker.fit_path(X, y, qid, [1, 5, 20, 40])
    errors = [np.mean((part.predict(X) - y) ** 2) for part in path]
    assert errors == sorted(errors, reverse=True) and [part.n_iter_ for part in path] == [1, 5, 20, 40]
    np.testing.assert_array_equal(path[-1].predict(X), ranker.fit(X, y, qid).predict(X))
    fresh = rows(seed=1)
    assert ranker.score(*fresh) > hr.RankSVM().fit(X, y, qid).score(*fresh) + 0.05


def test_bags_are_averaged_by_what_they_expect():
    X, y, qid = rows()
    bagged = hr.McRank(**SMALL, n_bags=2).fit(X, y, qid)
    assert len(bagged.models_) == 2 * 4 and len(bagged.boosters_) == 2
    alone = [booster.predict(X) @ bagged.grades_ for booster in bagged.boosters_]
    np.testing.assert_allclose(bagged.predict(X), np.mean(alone, axis=0), rtol=1e-12)


def test_stops_on_the_ndcg_of_validation_rows():
    X, y, qid = rows()
    other, held, groups = rows(seed=1)
    small = {"num_leaves": 5, "min_child_samples": 5}
    ranker = hr.McRank(n_estimators=60, **small, early_stopping_rounds=3)
    ranker.fit(X, y, qid, eval_set=[(other, held, groups)])
    assert 1 <= ranker.n_iter_ < 57
    path = hr.McRank(**small).fit_path(X, y, qid, range(1, ranker.n_iter_ + 4))
    scores = [part.score(other, held, groups) for part in path]
    assert int(np.argmax(scores)) + 1 == ranker.n_iter_
    held[0] = 7.0  # a grade that training has not
    assert ranker.fit(X, y, qid, eval_set=[(other, held, groups)]).grades_.tolist() == [0, 1, 2, 3, 7]


def test_saved_models_answer_alike_and_what_does_not_fit_is_refused(tmp_path):
    X, y, qid = rows()
    ranker = hr.McRank(**SMALL).fit(X, y, qid)
    ranker.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(hr.load(tmp_path / "model.safetensors").predict(X), ranker.predict(X))
    for wrong in (np.arange(3.0), np.array([0, 1, 2, np.nan]), np.arange(4), None):
        with pytest.raises(ValueError, match=r"grades_|models_ has 4 ensembles, expected 3"):
            hr.McRank()._restore(ranker._state() | {"grades_": wrong})


def test_no_format_carries_it_and_explanations_add_up(tmp_path):
    X, y, qid = rows()
    ranker = hr.McRank(**SMALL).fit(X, y, qid)
    with pytest.raises(ExportError, match="McRank has no form"):
        ranker.export(tmp_path / "model.py", to="python")
    told = ranker.explain(X[:15], qid[:15])
    assert told.exact and np.abs(told.rest).max() < 1e-9
    np.testing.assert_allclose(told.base + told.contributions.sum(axis=1), ranker.predict(X[:15]), rtol=1e-9)


def test_rows_of_one_grade_and_columns_that_do_not_differ_give_equal_scores():
    X, y, qid = rows()
    assert hr.McRank(**SMALL).fit(X, np.full_like(y, 2.0), qid).predict(X) == pytest.approx(2.0, abs=1e-6)
    assert np.ptp(hr.McRank(**SMALL).fit(np.ones_like(X), y, qid).predict(X)) == 0


def test_more_grades_than_there_could_be_trees_for_are_refused():
    X = np.arange(300.0).reshape(-1, 1)
    with pytest.raises(ValueError, match=r"300 different grades.*LightGBMRanker"):
        hr.McRank(**SMALL).fit(X, X.ravel(), np.zeros(300))
