"""Columns of numbers among item features are put on one scale in fit, and wherever the model meets items again."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.item_features import column_scales, scaled
from hingerank.personal.rankers import PersonalRanker
from hingerank.personal.serving import new_user
from hingerank.registry import RANKERS, ranker_class

RANKED = sorted(name for name in RANKERS if issubclass(ranker_class(name), PersonalRanker))


def films(sparse=False):
    """Genres that users care about, beside a raw year that they do not."""
    rng = np.random.default_rng(0)
    genres = (rng.random((120, 6)) < 0.4).astype(float)
    years = rng.integers(1930, 2020, 120).astype(float)
    users, items = np.repeat(np.arange(40), 15), np.concatenate([rng.permutation(120)[:15] for _ in range(40)])
    tastes = rng.standard_normal((40, 6))
    ratings = np.round(np.einsum("rf,rf->r", genres[items], tastes[users]) + 0.3 * rng.standard_normal(600), 1)
    X = np.column_stack([genres, years])
    return (sp.csr_matrix(X) if sparse else X), users, items, ratings


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", RANKED)
def test_units_of_a_column_change_nothing(name, sparse, tmp_path):
    X, *told = films(sparse)
    make = ranker_class(name)
    assert inspect.signature(make).parameters["scale"].default == "standard"
    ranker = make().fit(X, *told)
    other = X.copy()  # in other units
    if sparse:
        other.data[other.indices == 6] = 1000 * other.data[other.indices == 6] - 7
    else:
        other[:, 6] = 1000 * other[:, 6] - 7
    same = make().fit(other, *told)
    users, items = told[0], told[1]
    scores = ranker.predict(users, X[items])
    np.testing.assert_allclose(same.predict(users, other[items]), scores, rtol=1e-6, atol=1e-8)
    back = hr.load(ranker.save(tmp_path))
    np.testing.assert_array_equal(back.predict(users, X[items]), scores)
    _, own, items_of = ranker._vectors(X)  # as exports write them
    np.testing.assert_allclose(own @ items_of.T, np.array([ranker.predict(u, X) for u in ranker.users_]), atol=1e-9)


def test_a_raw_year_does_not_outweigh_the_genres():
    X, users, items, ratings = films()
    held = np.arange(len(users)) % 5 == 0
    train, test = ((users[part], items[part], ratings[part]) for part in (~held, held))

    def right(X, **settings):
        return hr.PersonalRankSVM(rank=3, **settings).fit(X, *train).score(X, *test, against=train)

    sales = np.column_stack([X[:, :6], 1e6 * (X[:, 6] - 1900)])
    assert right(sales) == pytest.approx(right(X), abs=1e-3)
    assert right(X) > max(right(X, scale=None), right(sales, scale=None) + 0.03)


def test_new_users_meet_the_same_scale():
    X, *told = films()
    ranker = hr.PersonalRankSVM(rank=3, prior=1.0).fit(X, *told)
    mine = told[0] == 3
    weights = ranker.add_user("zoe", X[told[1][mine]], told[2][mine])
    vectors = ranker._vectors(X)[2]
    elsewhere = new_user(ranker.new_users(), vectors[told[1][mine]].tolist(), told[2][mine].tolist())
    np.testing.assert_allclose(elsewhere, weights, atol=1e-5)
    before = ranker.predict(told[0], X[told[1]])
    after = ranker.update(X, *told).predict(told[0], X[told[1]])
    assert np.corrcoef(before, after)[0, 1] > 0.99


def test_dense_and_sparse_rows_have_one_scale():
    rng = np.random.default_rng(1)
    X = np.column_stack([
        rng.integers(0, 2, 50), rng.normal(5, 3, 50), (rng.random(50) < 0.2) * rng.random(50),
        (rng.random(50) < 0.3) * 1e6 * rng.random(50), np.full(50, 4.0), rng.random(50) * (np.arange(50) > 3),
    ])  # fmt: skip
    (centre, scale), (centre_, scale_) = column_scales(X), column_scales(sp.csr_matrix(X))
    np.testing.assert_allclose(centre_, centre)
    np.testing.assert_allclose(scale_, scale)
    assert centre[[0, 2, 3]].tolist() == [0, 0, 0] and scale[[0, 2, 4]].tolist() == [1, 1, 1]  # labels, tf-idf stay
    dense = scaled(X, centre, scale)
    np.testing.assert_allclose(scaled(sp.csr_matrix(X), centre, scale).toarray(), dense, atol=1e-12)
    np.testing.assert_allclose(dense[:, [1, 5]].std(axis=0), 1)
    np.testing.assert_allclose(dense[:, 3].std(), 1)
    assert (dense[:, 4] == 0).all()
    assert column_scales(X[:, [0, 2]]) is None
    with pytest.raises(ValueError, match="scale must be 'standard' or None"):
        hr.PersonalRankSVM(scale="minmax").fit(X, [1, 1], [0, 1], [1, 2])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_numbers_whose_squares_overflow_are_refused(form):
    X = np.array([[0.0, 1e200], [1.0, 2e200], [1.0, 3.0]])
    with pytest.raises(ValueError, match="squares of feature 1 overflow"):
        hr.JointRanker().fit(form(X), [1, 1, 1], [0, 1, 2], [1, 2, 3])
