"""Lists over the whole catalogue against plain loops; baselines."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.personal.baselines import ItemKNN, ItemMean, Popularity
from hingerank.personal.top_n import evaluate_top, parse_list_measure, top_in_blocks


@pytest.fixture(scope="module")
def data():
    return hr.make_personal(30, 25, 5, 2, kind="ratings", per_user=12, seed=0)


@pytest.mark.parametrize("at_once", [1, 7, 10, 30])
def test_lists_in_blocks_are_those_made_at_once(data, monkeypatch, at_once):
    ranker = hr.PersonalRankSVM(rank=2, C=0.1).fit(data.item_features, data.users, data.items, data.ratings)
    users, exclude = ranker.users_[::-1], (data.users, data.items)
    monkeypatch.setattr("hingerank.personal.top_n.USERS_AT_ONCE", at_once)
    for seen in (None, exclude, (np.append(data.users, 99), np.append(data.items, 3))):
        blocks = list(top_in_blocks(ranker, users, data.item_features, 25, exclude=seen))
        assert np.array_equal(np.concatenate([block for block, _, _ in blocks]), users)
        rows, scores = ranker.top_k(users, data.item_features, 25, exclude=seen)
        assert np.array_equal(np.concatenate([found for _, found, _ in blocks]), rows)
        np.testing.assert_allclose(np.concatenate([found for _, _, found in blocks]), scores, rtol=1e-9, atol=1e-12)


def test_items_are_not_left_out_for_users_of_another_type(data):
    ranker = hr.JointRanker().fit(data.item_features, data.users, data.items, data.ratings)
    text, known = data.users.astype(str), (data.users, data.items, data.ratings)
    for act in (
        lambda: ranker.top_k([3, 4], data.item_features, exclude=(text, data.items)),
        lambda: next(top_in_blocks(ranker, np.array([3, 4]), data.item_features, exclude=(text, data.items))),
        lambda: evaluate_top(ranker, data.item_features, known, (text, data.items)),
    ):
        with pytest.raises(DataError, match=r"users of exclude are <U\d+ such as '0', but the others are int64"):
            act()
    assert ranker.top_k(["ann"], data.item_features, exclude=([], []))[0].shape == (1, 10)
    mixed = np.array(["ann", 3], object), [0, 1]
    assert 1 not in ranker.top_k([3], data.item_features, 24, exclude=mixed)[0]


@pytest.mark.parametrize("relevant", [None, 4])
@pytest.mark.parametrize("top", [1, 5, 40])
def test_measures_are_those_of_plain_loops(data, relevant, top):
    train, test = data.split(0.4, seed=0)
    X = data.item_features
    ranker = hr.PersonalRankSVM(rank=2).fit(X, train.users, train.items, train.ratings)
    told = test.users, test.items, test.ratings
    found = evaluate_top(ranker, X, told, (train.users, train.items), top=top, relevant=relevant, groups=[5, 8])
    seen = {u: set(train.items[train.users == u]) for u in range(30)}
    rows, shown, wanted = {}, [], []
    for user in range(30):
        mine = (test.users == user) & ((test.ratings >= relevant) if relevant else True)
        want = set(test.items[mine])
        if not want:
            continue
        order = [i for i in np.argsort(-ranker.predict(user, X), kind="stable") if i not in seen[user]][:top]
        hits = [i in want for i in order]
        ideal = sum(1 / np.log2(2 + p) for p in range(min(top, len(want))))
        rows[user] = {
            "recall": sum(hits) / len(want),
            "hit_rate": float(any(hits)),
            "precision": sum(hits) / top,
            "ndcg": sum(h / np.log2(2 + p) for p, h in enumerate(hits)) / ideal,
            "mrr": 1 / (1 + hits.index(True)) if any(hits) else 0.0,
        }
        shown += order
        wanted += list(want)
    assert sorted(found.users.tolist()) == sorted(rows)
    for name, values in found.per_user.items():
        np.testing.assert_allclose(values, [rows[u][name] for u in found.users.tolist()])
        assert found.means[name] == pytest.approx(np.mean([row[name] for row in rows.values()]))
    users = len(set(train.users))
    popularity = np.maximum(np.bincount(train.items, minlength=25), 0.5) / users
    assert found.means["coverage"] == len(set(shown)) / 25
    assert found.means["novelty"] == pytest.approx(np.mean(-np.log2(popularity[shown])))
    assert found.means["popularity_bias"] == pytest.approx(popularity[shown].mean() / popularity[wanted].mean())
    assert sum(group["users"] for group in found.groups.values()) == len(rows)
    names, lines = found.table()
    assert names[:2] == ["training ratings", "users"] and len(lines) == 1 + len(found.groups)


def test_without_training_data_nothing_is_left_out(data):
    ranker = hr.JointRanker().fit(data.item_features, data.users, data.items, data.ratings)
    found = evaluate_top(ranker, data.item_features, (data.users, data.items), top=3)
    assert found.groups == {} and "novelty" not in found.means and (found.items == found.items[0]).all()


def test_bad_input(data):
    ranker = hr.JointRanker().fit(data.item_features, data.users, data.items, data.ratings)
    X, told = data.item_features, (data.users, data.items, data.ratings)
    with pytest.raises(DataError, match="pass a lower relevant"):
        evaluate_top(ranker, X, told, relevant=9)
    with pytest.raises(ValueError, match="users, items, ratings"):
        evaluate_top(ranker, X, told[:2], relevant=4)
    with pytest.raises(DataError, match="not known"):
        evaluate_top(hr.SeparateRanker().fit(X, *told), X, (["zed"], [0]))
    with pytest.raises(ValueError, match="top must"):
        evaluate_top(ranker, X, told, top=0)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_baselines_know_items_by_their_features(form):
    X = form(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [0.0, 2.0]]))
    users, items, ratings = [1, 1, 2, 2, 3], [0, 1, 1, 3, 0], [1, 5, 4, 3, 2]
    popular = Popularity().fit(X, users, items)
    assert popular.predict(None, X).tolist() == [2, 3, 0, 3]  # 1 and 3 look the same
    assert popular.top_k([1, 9], X, 3, exclude=(users, items))[0].tolist() == [[3, 2, -1], [1, 3, 0]]
    mean = ItemMean(shrink=1.0).fit(X, users, items, ratings)
    np.testing.assert_allclose(mean.predict(None, X), [(1 + 2 - 6) / 3, (5 + 4 + 3 - 9) / 4, 0, 3 / 4])
    assert evaluate_top(popular, X, ([2], [0]), (users, items), top=1).means["recall"] == 1.0


def test_test_ratings_that_no_list_can_find_are_counted(data):
    ranker = hr.JointRanker().fit(data.item_features, data.users, data.items, data.ratings)
    told = data.users, data.items, data.ratings
    with pytest.warns(UserWarning, match="3 of 3 test ratings are of items that lists leave out"):
        evaluate_top(ranker, data.item_features, tuple(column[:3] for column in told), told)


@pytest.mark.parametrize("user", [3, "ann"])
def test_lists_are_for_a_list_of_users(data, user):
    ranker = hr.JointRanker().fit(data.item_features, data.users, data.items, data.ratings)
    popular = Popularity().fit(data.item_features, data.users, data.items)
    for one in (ranker, popular):
        with pytest.raises(DataError, match="expected a list of ids"):
            one.top_k(user, data.item_features, exclude=(data.users, data.items))


@pytest.mark.parametrize("name", ["list_mrr@-3", "list_mrr@0", "list_mrr@+3", "list_mrr@", "list_mrr@x"])
def test_a_list_has_a_whole_number_of_items_from_one(name):
    with pytest.raises(ValueError, match="the cutoff must be a whole number from 1"):
        parse_list_measure(name)


@pytest.mark.parametrize("make", [ItemMean, ItemKNN])
@pytest.mark.parametrize("shrink", ["x", -1.0])
def test_a_wrong_shrink_is_named(make, shrink):
    with pytest.raises(ValueError, match="shrink must be a number of at least 0, not"):
        make(shrink=shrink).fit(np.eye(3), [1, 2], [0, 1], [5, 1])


@pytest.mark.parametrize("relevant", ["x", np.nan])
def test_a_wrong_relevant_is_named(relevant):
    ranker = Popularity().fit(np.eye(3), [1, 2], [0, 1])
    with pytest.raises(ValueError, match="relevant must be a number, not"):
        evaluate_top(ranker, np.eye(3), ([1, 2], [1, 0], [5, 4]), relevant=relevant)
