"""A fit that is interrupted, or finds bad data, leaves no model; an update that is interrupted leaves the old one."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import hingerank as hr
from hingerank.personal.rankers import PersonalRanker
from hingerank.registry import RANKERS, ranker_class

PERSONAL = [name for name in RANKERS if issubclass(ranker_class(name), PersonalRanker)]
FIXED = {"ease": {"ridge": 1.0}, "list-ranker": {"ridge": 1.0, "C": 0.1, "mix": 0.4, "rank": 2}}
DATA = hr.make_personal(12, 20, 3, 2, kind="ratings", per_user=8, seed=0)
GIVEN = DATA.item_features, DATA.users, DATA.items, DATA.ratings


def interrupt(*_, **__):
    raise KeyboardInterrupt


def fitted(name):
    return ranker_class(name)(**FIXED.get(name, {"C": 0.1})).fit(*GIVEN)


def assert_nothing_is_left(ranker, folder):
    X = DATA.item_features
    for use in (
        lambda: ranker.predict(0, X),
        lambda: ranker.top_k([0], X),
        lambda: ranker.score(*GIVEN),
        lambda: ranker.save(folder / "model"),
    ):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize("name", PERSONAL)
def test_an_interrupted_fit_leaves_no_model(name, monkeypatch, tmp_path):
    ranker = fitted(name)
    for place in ("alternating.Run.stops", "convex.newton", "item_item.randomized_svd", "lists.item_vectors"):
        module, _, function = place.partition(".")
        monkeypatch.setattr(f"hingerank.personal.{module}.{function}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(10 * DATA.item_features + 3, *GIVEN[1:])
    assert_nothing_is_left(ranker, tmp_path)


@pytest.mark.parametrize("name", PERSONAL)
def test_a_fit_to_bad_ratings_leaves_no_model(name, tmp_path):
    ranker = fitted(name)
    with pytest.raises(hr.DataError):
        ranker.fit(10 * DATA.item_features + 3, DATA.users, np.full(len(DATA), 99), DATA.ratings)
    assert_nothing_is_left(ranker, tmp_path)


def test_an_interrupted_update_leaves_the_old_model():
    ranker = fitted("personal-rank-svm").add_users(["ann"] * 2, DATA.item_features, [0, 1], [1, 2])
    before = ranker.predict("ann", DATA.item_features)
    ranker.callback = interrupt
    with pytest.raises(KeyboardInterrupt):
        ranker.update(DATA.item_features, DATA.users[:50], DATA.items[:50], DATA.ratings[:50])
    np.testing.assert_array_equal(ranker.predict("ann", DATA.item_features), before)
    ranker.callback = None
    ranker.update(DATA.item_features, DATA.users[:50], DATA.items[:50], DATA.ratings[:50])
    assert len(ranker.users_) == len(ranker.user_weights_) == len(np.unique(DATA.users[:50]))
    assert ranker.predict("ann", DATA.item_features, unknown="mean").shape == (20,)
