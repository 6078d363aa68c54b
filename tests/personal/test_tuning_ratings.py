"""`tune` for ratings: folds inside users or by items, C in its own units, several rankers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.rating_folds import rating_parts
from hingerank.personal.ratings import ratings_from


@pytest.fixture(scope="module")
def data():
    return hr.make_personal(40, 60, 6, 2, kind="ratings", per_user=20, noise=0.3, seed=0)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
def test_finds_a_setting_that_is_better_than_a_bad_one(data):
    train, test = data.split(0.25, seed=1)
    params = {"rank": 2, "shared": False}
    found = hr.tune("personal-rank-svm", train, measure="pair_accuracy", folds=2, params=params)
    tuning, triples = found.tuning_, (test.users, test.items, test.ratings)
    assert isinstance(found, hr.PersonalRankSVM) and tuning.best["C"] == found.C and found.rank == 2
    assert len(tuning.chosen.scores) == 2 and tuning.score == max(t.mean for t in tuning.trials)
    bad = hr.PersonalRankSVM(rank=2, C=1e-9).fit(train.item_features, train.users, train.items, train.ratings)
    assert found.score(data.item_features, *triples) > bad.score(data.item_features, *triples) + 0.05


def test_several_rankers_and_a_validation_set(data):
    train, held = data.split(0.3, seed=2)
    params = {"C": [1e-4, 1e-2]}
    found = hr.tune(["joint", hr.SeparateRanker()], train, measure="ndcg@5", validation=held, params=params)
    assert {t.ranker for t in found.tuning_.trials} == {"joint", "separate"} and found.tuning_.folds == 1
    assert len(found.users_) == 40 and found.n_pairs_ > 0
    with pytest.raises(ValueError, match="one kind at a time"):
        hr.tune(["joint", "rank-svm"], train)
    with pytest.raises(ValueError, match="no parameter 'depth'"):
        hr.tune("joint", train, params={"depth": 3})
    with pytest.raises(ValueError, match="with_features"):
        hr.tune("joint", ratings_from([1, 1], [1, 2], [1, 2]))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_validation_has_the_items_of_the_data(data, form):
    """Items are rows of item_features, so those of another table would be judged by the features of other items."""
    train, held = (replace(part, item_features=form(data.item_features)) for part in data.split(0.3, seed=2))
    assert hr.tune("joint", train, validation=held, params={"C": 0.01}).tuning_.folds == 1
    for other in (data.item_features[::-1], np.vstack([data.item_features, data.item_features])):
        with pytest.raises(DataError, match="other item features than the data"):
            hr.tune("joint", train, validation=replace(held, item_features=form(other)), params={"C": 0.01})


def test_what_is_held_out_of_ratings_is_not_asked_of_rows():
    with pytest.raises(ValueError, match="hold_out='items' is only for ratings"):
        hr.tune("rank-svm", hr.make_letor(6, seed=0), hold_out="items")


def test_ratings_read_from_files_have_features(data):
    made = ratings_from(data.users, data.items, data.ratings, item_ids=np.arange(60))
    with pytest.raises(DataError, match="5 rows, but there are 60 items"):
        made.with_features(np.ones((5, 2)))
    ready = made.with_features((data.item_features, list("abcdef")))
    assert ready.feature_names == list("abcdef") and ready.take([0]).item_features is data.item_features
    found = hr.tune("joint", ready, folds=2, params={"C": 0.01}, measure="pair_accuracy")
    assert found.C == 0.01 and len(found.tuning_.trials) == 1


@pytest.mark.parametrize("hold_out", ["ratings", "items"])
def test_parts_are_disjoint_and_cover(data, hold_out):
    told = {"users": data.users, "items": data.items, "ratings": data.ratings}
    parts = rating_parts(told, 3, hold_out, 0)
    of = [[set(zip(part["users"].tolist(), part["items"].tolist())) for part in fold] for fold in parts]
    judged = [judge for _, judge in of]
    assert not judged[0] & judged[1] and len(set.union(*judged)) == len(data)
    for (learn, judge), (learnt, asked) in zip(parts, of):
        assert not learnt & asked
        assert set(judge["users"]) <= set(learn["users"])
        if hold_out == "items":
            assert not set(learn["items"]) & set(judge["items"])
    for bad in ({"hold_out": "users"}, {"folds": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            rating_parts(told, **({"folds": 3, "hold_out": hold_out} | bad), seed=0)
    with pytest.raises(DataError, match="fewer folds"):
        rating_parts(
            {"users": np.array([1, 2]), "items": np.array([0, 1]), "ratings": np.array([3, 4])}, 2, "ratings", 0
        )


@pytest.mark.parametrize("measure", ["pair_accuracy", "list_ndcg@5"])
def test_features_may_be_a_data_frame(data, measure):
    pd = pytest.importorskip("pandas")
    rated = ratings_from(data.users, data.items, data.ratings, item_ids=range(60))
    frame = pd.DataFrame(data.item_features, columns=list("abcdef"))
    how = {"measure": measure, "folds": 2, "params": {"C": [0.001, 0.1]}}
    found = hr.tune("joint", rated.with_features(frame), **how)
    same = hr.tune("joint", rated.with_features(data.item_features.tolist()), **how)
    assert found.tuning_.score == pytest.approx(same.tuning_.score) and found.feature_names_in_.tolist() == [*"abcdef"]
    train, held = rated.take(np.arange(0, 800, 2)), rated.take(np.arange(1, 800, 2))
    hr.tune("joint", train.with_features(frame), validation=held.with_features(frame.copy()), **how)
    with pytest.raises(DataError, match="other item features"):
        hr.tune("joint", train.with_features(frame), validation=held.with_features(frame + 1.0), **how)
